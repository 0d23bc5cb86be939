/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done with objects of libfabric when the application has made one: its tables are copied
 * and the copies installed, so that calls through them come to us (shadow.h). Each function takes
 * an object fresh from the provider and never fails: at worst nothing of it is seen.
 */
#ifndef NSPY_OBJECTS_H
#define NSPY_OBJECTS_H

#include "shadow.h"
#include "traffic.h"

/* A fabric that fi_fabric has just opened for the application. */
void nspy_fabric_opened(struct nspy_fi_fabric *fabric, const char *provider, const char *name);
/* Whether structures of callers have fields that libfabric 1.9 added; known from fi_getinfo. */
void nspy_fabric_caller_abi(unsigned int minor);

void nspy_ep_opened(struct nspy_fab *domain, struct nspy_fi_ep *ep,
		    const struct nspy_fi_info *info);
void nspy_cq_opened(struct nspy_fab *domain, struct nspy_fi_cq *cq, int format);
void nspy_av_opened(struct nspy_fab *domain, struct nspy_fi_av *av);
/* Copies domain->mr so that registrations are seen. */
void nspy_mr_watch(struct nspy_fab *domain, struct nspy_fi_domain *fid);

/* Gives a fab a copy of fid.ops whose close puts everything back. false: none, fab is useless. */
bool nspy_fab_watch_close(struct nspy_fab *fab, struct nspy_fi_fid *fid);
/* Called by that close after the object is gone. */
void nspy_fab_closed(struct nspy_fab *fab);

/* Something could not be made. error: what the provider returned, negative. */
void nspy_open_failed(const char *what, struct nspy_rail *rail, int error);

#endif
