/* SPDX-License-Identifier: Apache-2.0 */
/* What this process runs with, from its facts into its status page. */
#ifndef NSPY_WATCH_STACK_H
#define NSPY_WATCH_STACK_H

#include "trace_status.h"

/* A new recording. */
void nspy_stack_start(void);
/* Takes over what is new; cheap if nothing is. context: watcher thread. */
void nspy_stack_look(struct nspy_status *status);

#endif
