/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the stand-in NCCL.
 *
 * A call puts a task on the group of its thread; the end of the outermost group makes one plan per
 * communicator of it, work for the stand-in GPU. A plan waits for its turn on the communicator,
 * then exchanges messages with the other ranks over sockets. Nothing checks that ranks agree on
 * what they do: as with NCCL a disagreement gives wrong data or a wait that never ends.
 */
#ifndef FAKE_NCCL_INTERNAL_H
#define FAKE_NCCL_INTERNAL_H

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fault_script.h"
#include "gpu.h"
#include "nccl_abi.h"

#define FAKE_COMM_MAGIC  0x6e73707966616b65ull
#define FAKE_HELLO_MAGIC 0x6e73707968656c6full
#define FAKE_NAME_BYTES  64

/* Defines pncclX; ncclX is its weak alias, as in the real library. */
#define FAKE_NCCL_API(result, name, params)                                                        \
	extern __typeof__(nccl##name) nccl##name __attribute__((weak, alias("pnccl" #name)));      \
	result pnccl##name params

union fake_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* ---- log.c ---- */
enum fake_subsystem {
	FAKE_LOG_INIT = 0x1,
	FAKE_LOG_COLL = 0x2,
	FAKE_LOG_P2P = 0x4,
	FAKE_LOG_NET = 0x10,
	FAKE_LOG_ENV = 0x80,
	FAKE_LOG_BOOTSTRAP = 0x1000,
};
void fake_info(unsigned int subsystem, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Kept for ncclGetLastError, whatever NCCL_DEBUG says. where: "init.cc". */
void fake_warn(const char *where, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void fake_log_version(void);
const char *fake_last_error(void);
/* The network that its lines name (NSPY_FAKE_NET). */
const char *fake_network_name(void);
#define WARN(where, ...) fake_warn(where, __LINE__, __VA_ARGS__)

/* ---- netif.c ---- */
/* The address to listen on (port 0) and its "name:address<port>" text. 0 or -ENODEV. */
int fake_interface(union fake_address *ret_address, char *ret_text, size_t bytes);
const char *fake_address_text(const union fake_address *address, char *text, size_t bytes);
socklen_t fake_address_bytes(const union fake_address *address);
int fake_address_parse(const char *text, union fake_address *ret_address);
/* A listening socket bound to address, whose port is filled in. fd or -errno. */
int fake_listen(union fake_address *address);

/* ---- links: connections between two ranks of a communicator, one direction each ---- */
enum fake_kind { FAKE_KIND_BOOT, FAKE_KIND_COLL, FAKE_KIND_P2P, FAKE_KIND_RAIL, FAKE_KINDS };

#define FAKE_RAILS 8

struct fake_link {
	int fd;
	/* inbound: what has been read and not been used */
	char *buffer;
	size_t at, have;
};

/* What the ranks of a communicator know of each other; exchanged as bytes at creation. */
struct fake_peer {
	union fake_address address;
	uint64_t host;
	uint64_t process;
	uint64_t bus_id;
	int32_t rank;
	int32_t world_rank;
	int32_t device;
	int32_t version;
};

/* Somebody who sleeps until a link arrives. */
struct fake_arrival {
	struct fake_arrival *next;
	int fd;
};

struct fake_redop {
	ncclRedOp_t op;
	bool user;
	bool device_scalar;
	ncclDataType_t datatype;
	unsigned char scalar[8];
	const void *scalar_ptr;
};

struct ncclComm {
	uint64_t magic;
	atomic_int refs;
	int rank, nranks, world_rank, device;
	uint64_t id;   /* the same on all ranks, unique: names links */
	uint64_t hash; /* commId of the log lines */
	char name[FAKE_NAME_BYTES];
	bool blocking;
	bool registered, finalized, revoked, destroyed;
	struct fake_peer *peers;
	void *buffers; /* on the device */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct fake_link **out[FAKE_KINDS], **in[FAKE_KINDS];
	struct fake_arrival *arrivals;
	int rails[FAKE_RAILS], rail_count; /* inbound rail links that still live */
	struct ncclComm *next;             /* of the registry */

	atomic_int stopped; /* aborted or revoked: nothing waits any more */
	int stop_fd;        /* eventfd, readable from then on */
	atomic_int async;   /* ncclResult_t */
	int jobs;           /* under the lock: threads that work on this communicator */

	atomic_ullong issued; /* plans put on streams */
	uint64_t finished;    /* under the lock; also the next plan to run */
	atomic_ullong op_count;
	int splits, shrinks; /* children so far */
	struct fake_redop *redops;
	int redop_count;
	void *windows;
	void *shm; /* see shm.c */
};

/* ---- shm.c ---- */
void fake_shm_open(struct ncclComm *comm);
void fake_shm_close(struct ncclComm *comm);

/* ---- links.c ---- */
/* The address at which this process accepts links; starts listening at the first call. */
ncclResult_t fake_links_start(union fake_address *ret_address);
void fake_links_register(struct ncclComm *comm);
void fake_links_unregister(struct ncclComm *comm);
void fake_links_close(struct ncclComm *comm);
/* Connects on first use. NULL: the peer cannot be reached. */
struct fake_link *fake_link_out(struct ncclComm *comm, enum fake_kind kind, int peer);
/* NULL: has not arrived yet. */
struct fake_link *fake_link_in(struct ncclComm *comm, enum fake_kind kind, int peer);
void fake_arrival_add(struct ncclComm *comm, struct fake_arrival *arrival);
void fake_arrival_remove(struct ncclComm *comm, struct fake_arrival *arrival);
/* Over the network rather than within a host: then a dead peer is noticed. */
bool fake_peer_remote(const struct ncclComm *comm, int peer);
int fake_connect(const union fake_address *address, int stop_fd);

/* ---- rail.c: links between neighbouring hosts that tell of a dead peer ---- */
void fake_rail_connect(struct ncclComm *comm);
void fake_rail_arrived(struct ncclComm *comm, int peer);
int fake_rail_fds(struct ncclComm *comm, struct pollfd *fds);
void fake_rail_look(struct ncclComm *comm);
void fake_rail_goodbye(struct ncclComm *comm);

/* ---- exchange.c ---- */
struct fake_xfer {
	int peer; /* rank in the communicator */
	bool send;
	char *data;
	size_t bytes;
	/* state */
	size_t moved;
	uint64_t message, message_left, discard;
	int header_left;
	bool started, done, starved, cut;
	int after; /* index of the transfer that has to be done before this one, -1 */
};

struct fake_team {
	struct ncclComm *comm;
	enum fake_kind kind;
	const int *members; /* NULL: all ranks in order */
	int size, me;
	uint64_t slow_ns; /* every message takes this much longer */
};

/* A peer on another host is gone: a warning, and the asynchronous error. */
void fake_peer_lost(struct ncclComm *comm, int peer);
int fake_team_rank(const struct fake_team *team, int member);
/* Moves all data; 0, or -ECANCELED if the communicator was stopped. */
int fake_exchange(const struct fake_team *team, struct fake_xfer *xfers, int count);
int fake_send_to(const struct fake_team *team, int member, const void *data, size_t bytes);
int fake_recv_from(const struct fake_team *team, int member, void *data, size_t bytes);
/* Sleeps, or returns -ECANCELED early. ns = UINT64_MAX: until stopped. */
int fake_rest(struct ncclComm *comm, uint64_t ns);

/* ---- datatype.c, reduce.c ---- */
size_t fake_datatype_bytes(ncclDataType_t datatype);
double fake_minifloat_decode(ncclDataType_t datatype, unsigned int bits);
unsigned int fake_minifloat_encode(ncclDataType_t datatype, double value);
/* acc[i] = acc[i] op in[i] */
void fake_reduce(void *acc, const void *in, size_t count, ncclDataType_t datatype, ncclRedOp_t op);
/* A rank's own contribution, scaled if the operation says so. */
void fake_reduce_prepare(void *out, const void *in, size_t count, ncclDataType_t datatype,
			 const struct fake_redop *op, int nranks);
/* What is left to do to the finished sum. */
void fake_reduce_finish(void *acc, size_t count, ncclDataType_t datatype,
			const struct fake_redop *op, int nranks);
/* The reduction that partial results are combined with. */
ncclRedOp_t fake_reduce_combine(const struct fake_redop *op);

/* ---- tree.c: chains and binomial trees over a team; roots are members ---- */
int fake_chain_broadcast(const struct fake_team *team, int root, void *data, size_t bytes);
int fake_chain_reduce(const struct fake_team *team, int root, void *acc, size_t count,
		      ncclDataType_t datatype, ncclRedOp_t op);
int fake_tree_broadcast(const struct fake_team *team, int root, void *data, size_t bytes);
int fake_tree_reduce(const struct fake_team *team, int root, void *acc, size_t count,
		     ncclDataType_t datatype, ncclRedOp_t op);
/* Blocks lie in the order of members; to and from member 0. */
int fake_tree_gather(const struct fake_team *team, char *blocks, size_t bytes);
int fake_tree_scatter(const struct fake_team *team, char *blocks, size_t bytes);
/* Everybody gets everybody's block. */
int fake_tree_all_gather(const struct fake_team *team, void *blocks, size_t bytes);

/* ---- collective.c ---- */
struct fake_task {
	struct fake_task *next;
	struct ncclComm *comm;
	struct fake_stream *stream;
	enum fake_op op;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t datatype;
	struct fake_redop redop;
	int peer; /* or root */
	/* faults */
	uint64_t late_ns, slow_ns;
	bool stall;
	int async_error, gpu_fault;
};
void fake_task_free(struct fake_task *task);
int fake_collective_run(const struct fake_task *task);
int fake_p2p_run(struct ncclComm *comm, struct fake_task *const *tasks, int count);

/* ---- plan.c ---- */
/* Takes over the tasks, all of one communicator. */
ncclResult_t fake_plan_launch(struct ncclComm *comm, struct fake_task *tasks);

/* ---- group.c ---- */
struct fake_job {
	struct fake_job *next;
	struct ncclComm *comm; /* whose state tells the outcome */
	ncclResult_t (*run)(struct fake_job *job);
	ncclResult_t result;
	bool foreground; /* the caller waits, whatever the communicator's kind */
	void *args;
};
void fake_group_start(void);
ncclResult_t fake_group_end(void);
/* Notes a failed member; returns the result. */
ncclResult_t fake_group_note(ncclResult_t result);
void fake_group_add_task(struct fake_task *task);
/* Runs now or at the end of the group; nonblocking communicators: in a thread. Frees job, args. */
ncclResult_t fake_group_add_job(struct fake_job *job);

/* ---- bootstrap.c ---- */
ncclResult_t fake_bootstrap_create(ncclUniqueId *ret_id);
/* Is there an interface to use? */
ncclResult_t fake_bootstrap_ready(void);
/* Meets the other ranks; fills comm->peers and comm->id. */
ncclResult_t fake_bootstrap_join(struct ncclComm *comm, const ncclUniqueId *id);
uint64_t fake_host_hash(void);
uint64_t fake_hash(uint64_t seed, const void *data, size_t bytes);

/* ---- comm.c ---- */
struct ncclComm *fake_comm_new(int nranks, int rank, const ncclConfig_t *config,
			       const struct ncclComm *parent);
ncclResult_t fake_comm_allocate(struct ncclComm *comm);
void fake_comm_get(struct ncclComm *comm);
void fake_comm_put(struct ncclComm *comm);
void fake_comm_stop(struct ncclComm *comm);
/* Ends what is in flight, for good; the bootstrap stays usable for a split or shrink. */
ncclResult_t fake_comm_revoke(struct ncclComm *comm);
/* Waits until nothing is left on streams. */
void fake_comm_drain(struct ncclComm *comm);
ncclResult_t fake_comm_check(const struct ncclComm *comm, const char *what, const char *name);
/* Usable for another operation? */
ncclResult_t fake_comm_ready(struct ncclComm *comm, const char *what);
ncclResult_t fake_config_check(const ncclConfig_t *config);
/* Name, blocking and so on; what is undefined stays. */
void fake_config_apply(struct ncclComm *comm, const ncclConfig_t *config);
ncclResult_t fake_check_peers(struct ncclComm *comm);
void fake_log_topology(struct ncclComm *comm);

/* ---- faults.c ---- */
/* A fault that makes the call itself fail or hang; applies the others to task if there is one. */
ncclResult_t fake_call_fault(const struct ncclComm *comm, enum fake_op op, struct fake_task *task);

#endif
