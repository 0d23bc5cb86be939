/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the network layers have to say at once, on the job's stderr: one line a kind, at most one a
 * minute. context: writer thread.
 */
#ifndef NSPY_TELL_NET_H
#define NSPY_TELL_NET_H

#include "events.h"
#include "traffic.h"

void nspy_fabric_tell_event(const struct nspy_fabric_event *event, const struct nspy_peer *peer);
/* That a provider without RDMA was chosen where there are RDMA devices. */
void nspy_tell_rails(void);

#endif
