/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of libfabric's and libibverbs' binary interface that we touch, under names of our own so
 * that the build needs neither. Source: include/rdma of libfabric 1.3 to 2.6, infiniband/verbs.h of
 * rdma-core 44; tests/abi/fabric_layout.c compares every offset with installed headers.
 *
 * Tables of functions grow at their end and begin with their size: an entry exists only if it lies
 * within size. Structures of attributes also grow at their end; what is declared here has been
 * there since the first release unless a comment says otherwise.
 */
#ifndef NSPY_FABRIC_ABI_H
#define NSPY_FABRIC_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define NSPY_FI_EAGAIN     11
#define NSPY_FI_EBUSY      16
#define NSPY_FI_ENOSYS     38
#define NSPY_FI_ENODATA    61
#define NSPY_FI_EAVAIL     259
#define NSPY_FI_HMEM       (1ull << 47) /* a capability: memory of devices */
#define NSPY_FI_EP_MSG     1            /* enum fi_ep_type: connected */
#define NSPY_FI_FABRIC_NIC 3            /* fi_info has a nic since FABRIC_1.2; 1.3 to be sure */

/* enum fi_cq_format */
enum { NSPY_FI_CQ_CONTEXT = 1, NSPY_FI_CQ_MSG, NSPY_FI_CQ_DATA, NSPY_FI_CQ_TAGGED };

/* Address formats we can read. */
enum {
	NSPY_FI_SOCKADDR = 1,
	NSPY_FI_SOCKADDR_IN = 2,
	NSPY_FI_SOCKADDR_IN6 = 3,
	NSPY_FI_ADDR_STR = 9,
	NSPY_FI_ADDR_EFA = 12,
};

struct nspy_fi_fid {
	size_t fclass;
	void *context;
	struct nspy_fi_ops *ops;
};

struct nspy_fi_ops {
	size_t size;
	int (*close)(struct nspy_fi_fid *fid);
	void *bind;
	int (*control)(struct nspy_fi_fid *fid, int command, void *arg);
};

struct nspy_fi_device_attr {
	char *name;
};

struct nspy_fi_link_attr {
	char *address;
	size_t mtu;
	size_t speed; /* bit/s */
};

struct nspy_fi_nic {
	struct nspy_fi_fid fid;
	struct nspy_fi_device_attr *device_attr;
	void *bus_attr;
	struct nspy_fi_link_attr *link_attr;
};

struct nspy_fi_fabric_attr {
	void *fabric;
	char *name;
	char *prov_name;
};

struct nspy_fi_domain_attr {
	void *domain;
	char *name;
};

struct nspy_fi_ep_attr {
	int type;
};

struct nspy_fi_info {
	struct nspy_fi_info *next;
	uint64_t caps;
	uint64_t mode;
	uint32_t addr_format;
	size_t src_addrlen;
	size_t dest_addrlen;
	void *src_addr;
	void *dest_addr;
	void *handle;
	void *tx_attr;
	void *rx_attr;
	struct nspy_fi_ep_attr *ep_attr;
	struct nspy_fi_domain_attr *domain_attr;
	struct nspy_fi_fabric_attr *fabric_attr;
	struct nspy_fi_nic *nic; /* since FABRIC_1.2 */
};

struct nspy_fi_fabric {
	struct nspy_fi_fid fid;
	struct nspy_fi_ops_fabric *ops;
};

struct nspy_fi_domain {
	struct nspy_fi_fid fid;
	struct nspy_fi_ops_domain *ops;
	struct nspy_fi_ops_mr *mr;
};

struct nspy_fi_ep {
	struct nspy_fi_fid fid;
	void *ops;
	struct nspy_fi_ops_cm *cm;
	struct nspy_fi_ops_msg *msg;
	struct nspy_fi_ops_rma *rma;
	struct nspy_fi_ops_tagged *tagged;
};

struct nspy_fi_cq {
	struct nspy_fi_fid fid;
	struct nspy_fi_ops_cq *ops;
};

struct nspy_fi_av {
	struct nspy_fi_fid fid;
	struct nspy_fi_ops_av *ops;
};

struct nspy_fi_mr {
	struct nspy_fi_fid fid;
};

struct nspy_fi_cq_attr {
	size_t size;
	uint64_t flags;
	int format;
};

struct nspy_fi_cq_err_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	size_t olen;
	int err;
	int prov_errno;
	void *err_data;
};

struct nspy_fi_mr_attr {
	const struct iovec *mr_iov; /* a union with pointers of the same size in later releases */
	size_t iov_count;
};

struct nspy_fi_msg {
	const struct iovec *msg_iov;
	void **desc;
	size_t iov_count;
	uint64_t addr;
	void *context;
};

struct nspy_fi_msg_tagged {
	const struct iovec *msg_iov;
	void **desc;
	size_t iov_count;
	uint64_t addr;
	uint64_t tag;
	uint64_t ignore;
	void *context;
};

struct nspy_fi_msg_rma {
	const struct iovec *msg_iov;
	void **desc;
	size_t iov_count;
	uint64_t addr;
	const void *rma_iov;
	size_t rma_iov_count;
	void *context;
};

typedef int nspy_fi_open_fn(void *parent, struct nspy_fi_info *info, void **ret, void *context);
typedef int nspy_fi_open2_fn(void *parent, struct nspy_fi_info *info, void **ret, uint64_t flags,
			     void *context);

struct nspy_fi_ops_fabric {
	size_t size;
	nspy_fi_open_fn *domain;
	void *passive_ep;
	void *eq_open;
	void *wait_open;
	void *trywait;
	nspy_fi_open2_fn *domain2; /* 1.15 */
};

struct nspy_fi_ops_domain {
	size_t size;
	int (*av_open)(struct nspy_fi_domain *domain, void *attr, void **av, void *context);
	int (*cq_open)(struct nspy_fi_domain *domain, struct nspy_fi_cq_attr *attr, void **cq,
		       void *context);
	nspy_fi_open_fn *endpoint;
	void *scalable_ep;
	void *cntr_open;
	void *poll_open;
	void *stx_ctx;
	void *srx_ctx;
	void *query_atomic;
	void *query_collective;
	nspy_fi_open2_fn *endpoint2; /* 1.15 */
};

struct nspy_fi_ops_mr {
	size_t size;
	int (*reg)(struct nspy_fi_fid *fid, const void *buf, size_t len, uint64_t access,
		   uint64_t offset, uint64_t key, uint64_t flags, struct nspy_fi_mr **mr,
		   void *context);
	int (*regv)(struct nspy_fi_fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		    uint64_t offset, uint64_t key, uint64_t flags, struct nspy_fi_mr **mr,
		    void *context);
	int (*regattr)(struct nspy_fi_fid *fid, const struct nspy_fi_mr_attr *attr, uint64_t flags,
		       struct nspy_fi_mr **mr); /* 1.5 */
};

struct nspy_fi_ops_cq {
	size_t size;
	ssize_t (*read)(struct nspy_fi_cq *cq, void *buf, size_t count);
	ssize_t (*readfrom)(struct nspy_fi_cq *cq, void *buf, size_t count, uint64_t *src);
	ssize_t (*readerr)(struct nspy_fi_cq *cq, struct nspy_fi_cq_err_entry *buf, uint64_t flags);
	ssize_t (*sread)(struct nspy_fi_cq *cq, void *buf, size_t count, const void *cond,
			 int timeout);
	ssize_t (*sreadfrom)(struct nspy_fi_cq *cq, void *buf, size_t count, uint64_t *src,
			     const void *cond, int timeout);
	void *signal;
	const char *(*strerror)(struct nspy_fi_cq *cq, int prov_errno, const void *err_data,
				char *buf, size_t len);
};

struct nspy_fi_ops_av {
	size_t size;
	int (*insert)(struct nspy_fi_av *av, const void *addr, size_t count, uint64_t *fi_addr,
		      uint64_t flags, void *context);
};

struct nspy_fi_ops_cm {
	size_t size;
	void *setname;
	int (*getname)(struct nspy_fi_fid *fid, void *addr, size_t *addrlen);
	void *getpeer;
	int (*connect)(struct nspy_fi_ep *ep, const void *addr, const void *param, size_t paramlen);
};

struct nspy_fi_ops_msg {
	size_t size;
	ssize_t (*recv)(struct nspy_fi_ep *ep, void *buf, size_t len, void *desc, uint64_t src,
			void *context);
	ssize_t (*recvv)(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t src, void *context);
	ssize_t (*recvmsg)(struct nspy_fi_ep *ep, const struct nspy_fi_msg *msg, uint64_t flags);
	ssize_t (*send)(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			uint64_t dest, void *context);
	ssize_t (*sendv)(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t dest, void *context);
	ssize_t (*sendmsg)(struct nspy_fi_ep *ep, const struct nspy_fi_msg *msg, uint64_t flags);
	ssize_t (*inject)(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t dest);
	ssize_t (*senddata)(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, uint64_t dest, void *context);
	ssize_t (*injectdata)(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t data,
			      uint64_t dest);
};

struct nspy_fi_ops_tagged {
	size_t size;
	ssize_t (*recv)(struct nspy_fi_ep *ep, void *buf, size_t len, void *desc, uint64_t src,
			uint64_t tag, uint64_t ignore, void *context);
	ssize_t (*recvv)(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t src, uint64_t tag, uint64_t ignore, void *context);
	ssize_t (*recvmsg)(struct nspy_fi_ep *ep, const struct nspy_fi_msg_tagged *msg,
			   uint64_t flags);
	ssize_t (*send)(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			uint64_t dest, uint64_t tag, void *context);
	ssize_t (*sendv)(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t dest, uint64_t tag, void *context);
	ssize_t (*sendmsg)(struct nspy_fi_ep *ep, const struct nspy_fi_msg_tagged *msg,
			   uint64_t flags);
	ssize_t (*inject)(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t dest,
			  uint64_t tag);
	ssize_t (*senddata)(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, uint64_t dest, uint64_t tag, void *context);
	ssize_t (*injectdata)(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t data,
			      uint64_t dest, uint64_t tag);
};

struct nspy_fi_ops_rma {
	size_t size;
	ssize_t (*read)(struct nspy_fi_ep *ep, void *buf, size_t len, void *desc, uint64_t src,
			uint64_t addr, uint64_t key, void *context);
	ssize_t (*readv)(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t src, uint64_t addr, uint64_t key, void *context);
	ssize_t (*readmsg)(struct nspy_fi_ep *ep, const struct nspy_fi_msg_rma *msg,
			   uint64_t flags);
	ssize_t (*write)(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			 uint64_t dest, uint64_t addr, uint64_t key, void *context);
	ssize_t (*writev)(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  uint64_t dest, uint64_t addr, uint64_t key, void *context);
	ssize_t (*writemsg)(struct nspy_fi_ep *ep, const struct nspy_fi_msg_rma *msg,
			    uint64_t flags);
	ssize_t (*inject)(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t dest,
			  uint64_t addr, uint64_t key);
	ssize_t (*writedata)(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, uint64_t dest, uint64_t addr, uint64_t key,
			     void *context);
	ssize_t (*injectdata)(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t data,
			      uint64_t dest, uint64_t addr, uint64_t key);
};

/* struct ibv_mr of IBVERBS_1.1. */
struct nspy_ibv_mr {
	void *context;
	void *pd;
	void *addr;
	size_t length;
};

/* Whether a table has an entry, and has it filled in. */
#define nspy_fi_has(table, member)                                                                 \
	((table)->size >= offsetof(__typeof__(*(table)), member) + sizeof((table)->member) &&      \
	 (table)->member)

#endif
