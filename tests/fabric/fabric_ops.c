/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses every call of libfabric that ncclspy wraps, on two endpoints of one process, and prints what
 * each returned and left in errno. The output must be the same with and without the library.
 *
 * usage: fabric_ops PROVIDER ROUNDS   exchange messages and remote accesses
 *        fabric_ops PROVIDER too-long a message longer than its buffer: print the error
 *        fabric_ops PROVIDER lost     send to an address where nobody is: print the error
 *        fabric_ops PROVIDER polls    ns of an empty fi_cq_read, the best of many rounds
 *        fabric_ops PROVIDER transfers ns of a message and its completions, likewise
 * Exit status 77: the provider is not there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define BYTES    8192u
#define SMALL    32u /* injected */
#define PATIENCE 20  /* seconds; only a hang reaches it */

struct side {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *tx, *rx;
	fi_addr_t peer;
	struct fi_context tx_context[8], rx_context[8];
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct side a, b;
static char out[BYTES], in[BYTES];
static struct fid_mr *mr_out, *mr_in;

static int show(const char *what, long rc)
{
	printf("%s: %ld\n", what, rc);
	return (int)rc;
}

static void must(const char *what, long rc)
{
	if (show(what, rc) >= 0)
		return;
	fflush(stdout);
	exit(1);
}

static void open_all(const char *provider)
{
	struct fi_info *hints = fi_allocinfo();
	int rc;

	hints->fabric_attr->prov_name = strdup(provider);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_BASIC;
	hints->mode = FI_CONTEXT;
	hints->tx_attr->op_flags = FI_COMPLETION;
	rc = fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", NULL, FI_SOURCE, hints, &info);
	fi_freeinfo(hints);
	if (rc == -FI_ENODATA)
		exit(77);
	must("fi_getinfo", rc);
	must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	must("fi_domain", fi_domain(fabric, info, &domain, NULL));
}

static void open_side(struct side *side)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 8};

	must("fi_endpoint", fi_endpoint(domain, info, &side->ep, NULL));
	must("fi_av_open", fi_av_open(domain, &av, &side->av, NULL));
	must("fi_cq_open", fi_cq_open(domain, &cq, &side->tx, NULL));
	must("fi_cq_open", fi_cq_open(domain, &cq, &side->rx, NULL));
	must("fi_ep_bind", fi_ep_bind(side->ep, &side->av->fid, 0));
	must("fi_ep_bind", fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT));
	must("fi_ep_bind", fi_ep_bind(side->ep, &side->rx->fid, FI_RECV));
	must("fi_enable", fi_enable(side->ep));
}

static void introduce(struct side *from, struct side *to)
{
	char name[128];
	size_t bytes = sizeof(name);

	must("fi_getname", fi_getname(&from->ep->fid, name, &bytes));
	must("fi_av_insert", fi_av_insert(to->av, name, 1, &to->peer, 0, NULL));
}

static void register_memory(void)
{
	struct iovec iov = {.iov_base = in, .iov_len = sizeof(in)};
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RECV | FI_READ,
		.requested_key = 77,
	};
	struct fid_mr *third;
	int rc;

	must("fi_mr_reg",
	     fi_mr_reg(domain, out, sizeof(out), FI_SEND | FI_WRITE, 0, 11, 0, &mr_out, NULL));
	must("fi_mr_regattr", fi_mr_regattr(domain, &attr, 0, &mr_in));
	rc = show("fi_mr_regv", fi_mr_regv(domain, &iov, 1, FI_RECV, 0, 22, 0, &third, NULL));
	if (rc == 0)
		must("fi_close", fi_close(&third->fid));
	/* The same key again: providers that keep keys refuse it. */
	rc = show("fi_mr_reg again",
		  fi_mr_reg(domain, out, SMALL, FI_SEND, 0, 11, 0, &third, NULL));
	if (rc == 0)
		must("fi_close", fi_close(&third->fid));
}

/* Waits for one completion, by each way of reading in turn. */
static void reap(struct side *self, struct fid_cq *cq, int how)
{
	struct fi_cq_tagged_entry entry = {0};
	time_t end = time(NULL) + PATIENCE;
	fi_addr_t from = 0;
	ssize_t rc;

	do {
		/* Providers with manual progress need both queues read. */
		(void)fi_cq_read(cq == self->tx ? a.rx : a.tx, NULL, 0);
		(void)fi_cq_read(cq == self->tx ? b.rx : b.tx, NULL, 0);
		rc = how == 0   ? fi_cq_read(cq, &entry, 1)
		     : how == 1 ? fi_cq_readfrom(cq, &entry, 1, &from)
		     : how == 2 ? fi_cq_sread(cq, &entry, 1, NULL, 10)
				: fi_cq_sreadfrom(cq, &entry, 1, &from, NULL, 10);
	} while (rc == -FI_EAGAIN && time(NULL) < end);
	printf("completion: %zd, flags %#llx, %zu bytes\n", rc,
	       entry.flags & (FI_SEND | FI_RECV | FI_MSG | FI_TAGGED | FI_RMA | FI_READ | FI_WRITE),
	       entry.flags & FI_RECV ? entry.len : 0);
	if (rc != 1)
		exit(1);
}

/* Posts until the provider takes it. */
#define POST(what, call)                                                                           \
	do {                                                                                       \
		time_t end_ = time(NULL) + PATIENCE;                                               \
		ssize_t rc_;                                                                       \
                                                                                                   \
		while ((rc_ = (call)) == -FI_EAGAIN && time(NULL) < end_) {                        \
			(void)fi_cq_read(a.tx, NULL, 0);                                           \
			(void)fi_cq_read(b.rx, NULL, 0);                                           \
			(void)fi_cq_read(a.rx, NULL, 0);                                           \
			(void)fi_cq_read(b.tx, NULL, 0);                                           \
		}                                                                                  \
		must(what, rc_);                                                                   \
	} while (0)

static void messages(int round)
{
	struct iovec iov = {.iov_base = out, .iov_len = BYTES}, rx = {in, BYTES};
	void *desc = fi_mr_desc(mr_out), *rx_desc = fi_mr_desc(mr_in);
	struct fi_msg msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = a.peer,
		.context = &a.tx_context[2],
		.data = 5,
	};
	struct fi_msg receive = {
		.msg_iov = &rx,
		.desc = &rx_desc,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.context = &b.rx_context[2],
	};
	int how = round % 4;

	POST("fi_recv", fi_recv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, &b.rx_context[0]));
	POST("fi_send", fi_send(a.ep, out, BYTES, desc, a.peer, &a.tx_context[0]));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_recvv", fi_recvv(b.ep, &rx, &rx_desc, 1, FI_ADDR_UNSPEC, &b.rx_context[1]));
	POST("fi_sendv", fi_sendv(a.ep, &iov, &desc, 1, a.peer, &a.tx_context[1]));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_recvmsg", fi_recvmsg(b.ep, &receive, FI_COMPLETION));
	POST("fi_sendmsg", fi_sendmsg(a.ep, &msg, FI_COMPLETION));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_recv", fi_recv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, &b.rx_context[0]));
	POST("fi_inject", fi_inject(a.ep, out, SMALL, a.peer));
	reap(&b, b.rx, how);
	POST("fi_recv", fi_recv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, &b.rx_context[0]));
	POST("fi_senddata", fi_senddata(a.ep, out, BYTES, desc, 6, a.peer, &a.tx_context[3]));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_recv", fi_recv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, &b.rx_context[0]));
	POST("fi_injectdata", fi_injectdata(a.ep, out, SMALL, 7, a.peer));
	reap(&b, b.rx, how);
}

static void tagged(int round)
{
	struct iovec iov = {.iov_base = out, .iov_len = BYTES}, rx = {in, BYTES};
	void *desc = fi_mr_desc(mr_out), *rx_desc = fi_mr_desc(mr_in);
	struct fi_msg_tagged msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = a.peer,
		.tag = 3,
		.context = &a.tx_context[2],
	};
	struct fi_msg_tagged receive = {
		.msg_iov = &rx,
		.desc = &rx_desc,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.tag = 3,
		.context = &b.rx_context[2],
	};
	int how = round % 4;

	POST("fi_trecv",
	     fi_trecv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, 1, 0, &b.rx_context[0]));
	POST("fi_tsend", fi_tsend(a.ep, out, BYTES, desc, a.peer, 1, &a.tx_context[0]));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_trecvv",
	     fi_trecvv(b.ep, &rx, &rx_desc, 1, FI_ADDR_UNSPEC, 2, 0, &b.rx_context[1]));
	POST("fi_tsendv", fi_tsendv(a.ep, &iov, &desc, 1, a.peer, 2, &a.tx_context[1]));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_trecvmsg", fi_trecvmsg(b.ep, &receive, FI_COMPLETION));
	POST("fi_tsendmsg", fi_tsendmsg(a.ep, &msg, FI_COMPLETION));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_trecv",
	     fi_trecv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, 4, 0, &b.rx_context[0]));
	POST("fi_tinject", fi_tinject(a.ep, out, SMALL, a.peer, 4));
	reap(&b, b.rx, how);
	POST("fi_trecv",
	     fi_trecv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, 5, 0, &b.rx_context[0]));
	POST("fi_tsenddata", fi_tsenddata(a.ep, out, BYTES, desc, 6, a.peer, 5, &a.tx_context[3]));
	reap(&a, a.tx, how);
	reap(&b, b.rx, how);
	POST("fi_trecv",
	     fi_trecv(b.ep, in, BYTES, rx_desc, FI_ADDR_UNSPEC, 6, 0, &b.rx_context[0]));
	POST("fi_tinjectdata", fi_tinjectdata(a.ep, out, SMALL, 7, a.peer, 6));
	reap(&b, b.rx, how);
}

static void remote(int round)
{
	uint64_t key = fi_mr_key(mr_in), base = (uintptr_t)in;
	void *desc = fi_mr_desc(mr_out);
	struct iovec iov = {.iov_base = out, .iov_len = BYTES};
	struct fi_rma_iov there = {.addr = base, .len = BYTES, .key = key};
	struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = a.peer,
		.rma_iov = &there,
		.rma_iov_count = 1,
		.context = &a.tx_context[4],
	};
	int how = round % 4;

	if (!(info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)))
		base = there.addr = 0;
	POST("fi_write", fi_write(a.ep, out, BYTES, desc, a.peer, base, key, &a.tx_context[0]));
	reap(&a, a.tx, how);
	POST("fi_writev", fi_writev(a.ep, &iov, &desc, 1, a.peer, base, key, &a.tx_context[1]));
	reap(&a, a.tx, how);
	POST("fi_writemsg", fi_writemsg(a.ep, &msg, FI_COMPLETION));
	reap(&a, a.tx, how);
	POST("fi_read", fi_read(a.ep, out, BYTES, desc, a.peer, base, key, &a.tx_context[0]));
	reap(&a, a.tx, how);
	POST("fi_readv", fi_readv(a.ep, &iov, &desc, 1, a.peer, base, key, &a.tx_context[1]));
	reap(&a, a.tx, how);
	POST("fi_readmsg", fi_readmsg(a.ep, &msg, FI_COMPLETION));
	reap(&a, a.tx, how);
	POST("fi_inject_write", fi_inject_write(a.ep, out, SMALL, a.peer, base, key));
}

/* A message that is longer than the buffer waiting for it: a completion in error. */
static void too_long(void)
{
	struct fi_cq_err_entry error = {0};
	struct fi_cq_tagged_entry entry;
	time_t end = time(NULL) + PATIENCE;
	ssize_t rc;

	POST("fi_trecv",
	     fi_trecv(b.ep, in, SMALL, fi_mr_desc(mr_in), FI_ADDR_UNSPEC, 9, 0, &b.rx_context[0]));
	POST("fi_tsend",
	     fi_tsend(a.ep, out, BYTES, fi_mr_desc(mr_out), a.peer, 9, &a.tx_context[0]));
	do {
		(void)fi_cq_read(a.tx, NULL, 0);
		rc = fi_cq_read(b.rx, &entry, 1);
	} while (rc == -FI_EAGAIN && time(NULL) < end);
	show("fi_cq_read", rc);
	show("fi_cq_readerr", fi_cq_readerr(b.rx, &error, 0));
	printf("error %d\n", error.err);
}

/* An address where nobody is: refused at once or in the end. */
static void lost(void)
{
	struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(1)};
	time_t end = time(NULL) + PATIENCE;
	fi_addr_t where;
	ssize_t rc;

	inet_pton(AF_INET, "127.0.0.1", &nobody.sin_addr);
	must("fi_av_insert", fi_av_insert(a.av, &nobody, 1, &where, 0, NULL));
	do {
		rc = fi_tsend(a.ep, out, BYTES, fi_mr_desc(mr_out), where, 1, &a.tx_context[0]);
	} while (rc == -FI_EAGAIN && time(NULL) < end);
	show("fi_tsend", rc);
}

enum { BEST_OF = 51, POLLS = 20000, TRANSFERS = 2000 };

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* The best of many rounds: what disturbs only ever adds. */
static void best(void (*round)(void), int calls)
{
	pthread_t thread;
	double least = 0;

	/* glibc's mutexes are cheaper in a process with one thread, which no user of NCCL is. */
	pthread_create(&thread, NULL, idle, NULL);
	for (int r = 0; r < BEST_OF; r++) {
		struct timespec from, to;
		double ns;

		clock_gettime(CLOCK_MONOTONIC, &from);
		round();
		clock_gettime(CLOCK_MONOTONIC, &to);
		ns = ((double)(to.tv_sec - from.tv_sec) * 1e9 +
		      (double)(to.tv_nsec - from.tv_nsec)) /
		     calls;
		if (r == 0 || ns < least)
			least = ns;
	}
	printf("ns %.3f\n", least);
}

static void poll_round(void)
{
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < POLLS; i++)
		(void)fi_cq_read(a.tx, &entry, 1);
}

/* A message from one side to the other and both completions. */
static void transfer_round(void)
{
	for (int i = 0; i < TRANSFERS; i++) {
		struct fi_cq_tagged_entry entry;
		int left = 2;

		while (fi_trecv(b.ep, in, BYTES, fi_mr_desc(mr_in), FI_ADDR_UNSPEC, 1, 0,
				&b.rx_context[0]) == -FI_EAGAIN)
			(void)fi_cq_read(b.rx, &entry, 0);
		while (fi_tsend(a.ep, out, BYTES, fi_mr_desc(mr_out), a.peer, 1,
				&a.tx_context[0]) == -FI_EAGAIN)
			(void)fi_cq_read(b.rx, &entry, 0);
		while (left) {
			left -= fi_cq_read(b.rx, &entry, 1) == 1;
			left -= fi_cq_read(a.tx, &entry, 1) == 1;
		}
	}
}

static void close_all(bool early)
{
	struct side *sides[] = {&a, &b};

	/* In use: refused. Some providers of libfabric 1.17 do not survive it. */
	if (early)
		show("fi_close of a used domain", fi_close(&domain->fid));
	for (int i = 0; i < 2; i++) {
		must("fi_close", fi_close(&sides[i]->ep->fid));
		must("fi_close", fi_close(&sides[i]->tx->fid));
		must("fi_close", fi_close(&sides[i]->rx->fid));
		must("fi_close", fi_close(&sides[i]->av->fid));
	}
	must("fi_close", fi_close(&mr_out->fid));
	must("fi_close", fi_close(&mr_in->fid));
	must("fi_close", fi_close(&domain->fid));
	must("fi_close", fi_close(&fabric->fid));
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	int rounds = argc == 3 ? atoi(argv[2]) : -1;

	if (rounds < 0)
		return 2;
	memset(out, 'x', sizeof(out));
	open_all(argv[1]);
	open_side(&a);
	open_side(&b);
	introduce(&b, &a);
	introduce(&a, &b);
	register_memory();
	if (strcmp(argv[2], "lost") == 0)
		lost();
	else if (strcmp(argv[2], "too-long") == 0)
		too_long();
	else if (strcmp(argv[2], "polls") == 0)
		best(poll_round, POLLS);
	else if (strcmp(argv[2], "transfers") == 0)
		best(transfer_round, TRANSFERS);
	for (int i = 0; i < rounds; i++) {
		messages(i);
		tagged(i);
		if (info->caps & FI_RMA)
			remote(i);
	}
	printf("data %s\n", rounds && memcmp(in, out, SMALL) ? "differ" : "agree");
	close_all(strcmp(argv[1], "sockets") == 0);
	return 0;
}
