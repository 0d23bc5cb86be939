/* SPDX-License-Identifier: Apache-2.0 */
/* interpose/fabric/fabric_abi.h against the headers of the installed libfabric and libibverbs. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <infiniband/verbs.h>

#include "fabric_abi.h"

#define SAME(theirs, ours, field)                                                                  \
	_Static_assert(offsetof(struct theirs, field) == offsetof(struct ours, field) &&           \
			       sizeof(((struct theirs *)0)->field) ==                              \
				       sizeof(((struct ours *)0)->field),                          \
		       #theirs "." #field)
#define FI(name, field)  SAME(fi_##name, nspy_fi_##name, field)
#define FID(name, field) SAME(fid_##name, nspy_fi_##name, field)

SAME(fid, nspy_fi_fid, fclass);
SAME(fid, nspy_fi_fid, ops);
FI(ops, size);
FI(ops, close);
FI(ops, control);
FI(device_attr, name);
FI(link_attr, speed);
FID(nic, device_attr);
FID(nic, link_attr);
FI(fabric_attr, name);
FI(fabric_attr, prov_name);
FI(domain_attr, name);
FI(ep_attr, type);
FI(info, next);
FI(info, addr_format);
FI(info, dest_addrlen);
FI(info, dest_addr);
FI(info, ep_attr);
FI(info, domain_attr);
FI(info, fabric_attr);
FI(info, nic);
FID(fabric, ops);
FID(domain, ops);
FID(domain, mr);
FID(ep, cm);
FID(ep, msg);
FID(ep, rma);
FID(ep, tagged);
FID(cq, ops);
FID(av, ops);
FI(cq_attr, format);
FI(cq_err_entry, op_context);
FI(cq_err_entry, flags);
FI(cq_err_entry, len);
FI(cq_err_entry, err);
FI(cq_err_entry, prov_errno);
FI(cq_err_entry, err_data);
FI(mr_attr, mr_iov);
FI(mr_attr, iov_count);
FI(msg, msg_iov);
FI(msg, iov_count);
FI(msg, addr);
FI(msg, context);
FI(msg_tagged, addr);
FI(msg_tagged, context);
FI(msg_rma, addr);
FI(msg_rma, context);
FI(ops_fabric, domain);
FI(ops_fabric, eq_open);
FI(ops_fabric, domain2);
FI(ops_domain, av_open);
FI(ops_domain, cq_open);
FI(ops_domain, endpoint);
FI(ops_domain, cntr_open);
FI(ops_domain, endpoint2);
FI(ops_mr, reg);
FI(ops_mr, regv);
FI(ops_mr, regattr);
FI(ops_cq, read);
FI(ops_cq, readfrom);
FI(ops_cq, readerr);
FI(ops_cq, sread);
FI(ops_cq, sreadfrom);
FI(ops_cq, strerror);
FI(ops_av, insert);
FI(ops_cm, getname);
FI(ops_cm, connect);
FI(ops_msg, recv);
FI(ops_msg, recvmsg);
FI(ops_msg, send);
FI(ops_msg, inject);
FI(ops_msg, injectdata);
FI(ops_tagged, recv);
FI(ops_tagged, sendmsg);
FI(ops_tagged, injectdata);
FI(ops_rma, read);
FI(ops_rma, write);
FI(ops_rma, injectdata);
SAME(ibv_mr, nspy_ibv_mr, length);

_Static_assert(NSPY_FI_EAGAIN == FI_EAGAIN && NSPY_FI_EBUSY == FI_EBUSY &&
		       NSPY_FI_ENOSYS == FI_ENOSYS && NSPY_FI_ENODATA == FI_ENODATA &&
		       NSPY_FI_EAVAIL == FI_EAVAIL,
	       "error numbers");
_Static_assert((int)NSPY_FI_EP_MSG == (int)FI_EP_MSG, "kind of endpoint");
_Static_assert((int)NSPY_FI_CQ_CONTEXT == (int)FI_CQ_FORMAT_CONTEXT &&
		       (int)NSPY_FI_CQ_TAGGED == (int)FI_CQ_FORMAT_TAGGED,
	       "formats of completions");
_Static_assert((int)NSPY_FI_SOCKADDR == (int)FI_SOCKADDR &&
		       (int)NSPY_FI_SOCKADDR_IN6 == (int)FI_SOCKADDR_IN6 &&
		       (int)NSPY_FI_ADDR_STR == (int)FI_ADDR_STR &&
		       (int)NSPY_FI_ADDR_EFA == (int)FI_ADDR_EFA,
	       "formats of addresses");

int main(void)
{
	return 0;
}
