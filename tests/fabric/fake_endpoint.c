/* SPDX-License-Identifier: Apache-2.0 */
/* What endpoints of the stand-in do. */
#include "fake_libfabric.h"

/* --- messages --- */

static ssize_t f_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *c)
{
	SAY("recv", "%d %p %zu %p %llu %p", ep != NULL, buf, len, desc, N(src), c);
	return 0;
}

static ssize_t f_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		       fi_addr_t src, void *c)
{
	SAY("recvv", "%d %p %p %zu %llu %p", ep != NULL, P(iov), P(desc), count, N(src), c);
	return -101;
}

static ssize_t f_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	SAY("recvmsg", "%d %p %llu", ep != NULL, P(msg), N(flags));
	return -FI_EAGAIN;
}

static ssize_t f_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
		      void *c)
{
	SAY("send", "%d %p %zu %p %llu %p", ep != NULL, buf, len, desc, N(dest), c);
	return 0;
}

static ssize_t f_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		       fi_addr_t dest, void *c)
{
	SAY("sendv", "%d %p %p %zu %llu %p", ep != NULL, P(iov), P(desc), count, N(dest), c);
	return -FI_EAGAIN;
}

static ssize_t f_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	SAY("sendmsg", "%d %p %llu", ep != NULL, P(msg), N(flags));
	return -103;
}

static ssize_t f_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
{
	SAY("inject", "%d %p %zu %llu", ep != NULL, buf, len, N(dest));
	return 0;
}

static ssize_t f_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
			  fi_addr_t dest, void *c)
{
	SAY("senddata", "%d %p %zu %p %llu %llu %p", ep != NULL, buf, len, desc, N(data), N(dest),
	    c);
	return 0;
}

static ssize_t f_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			    fi_addr_t dest)
{
	SAY("injectdata", "%d %p %zu %llu %llu", ep != NULL, buf, len, N(data), N(dest));
	return 0;
}

/* --- tagged --- */

static ssize_t t_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
		      uint64_t tag, uint64_t ignore, void *c)
{
	SAY("trecv", "%d %p %zu %p %llu %llu %llu %p", ep != NULL, buf, len, desc, N(src), N(tag),
	    N(ignore), c);
	return 0;
}

static ssize_t t_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		       fi_addr_t src, uint64_t tag, uint64_t ignore, void *c)
{
	SAY("trecvv", "%d %p %p %zu %llu %llu %llu %p", ep != NULL, P(iov), P(desc), count, N(src),
	    N(tag), N(ignore), c);
	return 0;
}

static ssize_t t_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	SAY("trecvmsg", "%d %p %llu", ep != NULL, P(msg), N(flags));
	return 0;
}

static ssize_t t_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
		      uint64_t tag, void *c)
{
	SAY("tsend", "%d %p %zu %p %llu %llu %p", ep != NULL, buf, len, desc, N(dest), N(tag), c);
	return 0;
}

static ssize_t t_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		       fi_addr_t dest, uint64_t tag, void *c)
{
	SAY("tsendv", "%d %p %p %zu %llu %llu %p", ep != NULL, P(iov), P(desc), count, N(dest),
	    N(tag), c);
	return 0;
}

static ssize_t t_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	SAY("tsendmsg", "%d %p %llu", ep != NULL, P(msg), N(flags));
	return 0;
}

static ssize_t t_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
			uint64_t tag)
{
	SAY("tinject", "%d %p %zu %llu %llu", ep != NULL, buf, len, N(dest), N(tag));
	return 0;
}

static ssize_t t_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
			  fi_addr_t dest, uint64_t tag, void *c)
{
	SAY("tsenddata", "%d %p %zu %p %llu %llu %llu %p", ep != NULL, buf, len, desc, N(data),
	    N(dest), N(tag), c);
	return 0;
}

static ssize_t t_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			    fi_addr_t dest, uint64_t tag)
{
	SAY("tinjectdata", "%d %p %zu %llu %llu %llu", ep != NULL, buf, len, N(data), N(dest),
	    N(tag));
	return 0;
}

/* --- remote memory --- */

static ssize_t r_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
		      uint64_t addr, uint64_t key, void *c)
{
	SAY("read", "%d %p %zu %p %llu %llu %llu %p", ep != NULL, buf, len, desc, N(src), N(addr),
	    N(key), c);
	return 0;
}

static ssize_t r_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
		       fi_addr_t src, uint64_t addr, uint64_t key, void *c)
{
	SAY("readv", "%d %p %p %zu %llu %llu %llu %p", ep != NULL, P(iov), P(desc), count, N(src),
	    N(addr), N(key), c);
	return 0;
}

static ssize_t r_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	SAY("readmsg", "%d %p %llu", ep != NULL, P(msg), N(flags));
	return 0;
}

static ssize_t r_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
		       uint64_t addr, uint64_t key, void *c)
{
	SAY("write", "%d %p %zu %p %llu %llu %llu %p", ep != NULL, buf, len, desc, N(dest), N(addr),
	    N(key), c);
	return 0;
}

static ssize_t r_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			fi_addr_t dest, uint64_t addr, uint64_t key, void *c)
{
	SAY("writev", "%d %p %p %zu %llu %llu %llu %p", ep != NULL, P(iov), P(desc), count, N(dest),
	    N(addr), N(key), c);
	return 0;
}

static ssize_t r_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	SAY("writemsg", "%d %p %llu", ep != NULL, P(msg), N(flags));
	return 0;
}

static ssize_t r_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
			uint64_t addr, uint64_t key)
{
	SAY("inject_write", "%d %p %zu %llu %llu %llu", ep != NULL, buf, len, N(dest), N(addr),
	    N(key));
	return 0;
}

static ssize_t r_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			   uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key, void *c)
{
	SAY("writedata", "%d %p %zu %p %llu %llu %llu %llu %p", ep != NULL, buf, len, desc, N(data),
	    N(dest), N(addr), N(key), c);
	return 0;
}

static ssize_t r_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			    fi_addr_t dest, uint64_t addr, uint64_t key)
{
	SAY("inject_writedata", "%d %p %zu %llu %llu %llu %llu", ep != NULL, buf, len, N(data),
	    N(dest), N(addr), N(key));
	return 0;
}

struct fi_ops_msg fake_msg_early = {
	sizeof(fake_msg_early),
	f_recv,
	f_recvv,
	f_recvmsg,
	f_send,
	f_sendv,
	f_sendmsg,
	f_inject,
	f_senddata,
	f_injectdata,
};
struct fi_ops_msg fake_msg_late = {
	sizeof(fake_msg_late),
	f_recv,
	f_recvv,
	f_recvmsg,
	f_send,
	f_sendv,
	f_sendmsg,
	f_inject,
	f_senddata,
	f_injectdata,
};
struct fi_ops_tagged fake_tagged = {
	sizeof(fake_tagged), t_recv,   t_recvv,    t_recvmsg,    t_send, t_sendv,
	t_sendmsg,           t_inject, t_senddata, t_injectdata,
};
struct fi_ops_rma fake_rma = {
	sizeof(fake_rma), r_read,     r_readv,  r_readmsg,   r_write,
	r_writev,         r_writemsg, r_inject, r_writedata, r_injectdata,
};
