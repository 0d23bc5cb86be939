/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler plugin interface, versions 1 to 6, as much of it as we read or hand on: our own
 * declarations of public layouts (tests/profiler compares them with NCCL's headers where there are
 * any). Results are ncclResult_t, states an enum: int here. The union of a descriptor is declared
 * member by member, because versions differ in few of them.
 *
 * Source: plugins/profiler/.../profiler_v1.h to profiler_v6.h of NCCL 2.23 to 2.30. There are
 * several public forms of a version 7 that contradict each other; NCCL falls back to 6.
 */
#ifndef NSPY_PROFILER_ABI_H
#define NSPY_PROFILER_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_PROFILER_OLDEST 1u
#define NSPY_PROFILER_NEWEST 6u

/* Kinds of event; a plugin asks for a mask of them. */
enum nspy_profile_type {
	NSPY_PROFILE_GROUP = 1 << 0,
	NSPY_PROFILE_COLL = 1 << 1,
	NSPY_PROFILE_P2P = 1 << 2,
	NSPY_PROFILE_PROXY_OP = 1 << 3,
	NSPY_PROFILE_PROXY_STEP = 1 << 4,
	NSPY_PROFILE_PROXY_CTRL = 1 << 5,
	NSPY_PROFILE_KERNEL_CH = 1 << 6,  /* since 3 */
	NSPY_PROFILE_NET_PLUGIN = 1 << 7, /* since 3 */
	NSPY_PROFILE_GROUP_API = 1 << 8,  /* since 5, as the following */
	NSPY_PROFILE_COLL_API = 1 << 9,
	NSPY_PROFILE_P2P_API = 1 << 10,
	NSPY_PROFILE_KERNEL_LAUNCH = 1 << 11,
	NSPY_PROFILE_CE_COLL = 1 << 12, /* since 6, as the following */
	NSPY_PROFILE_CE_SYNC = 1 << 13,
	NSPY_PROFILE_CE_BATCH = 1 << 14,
};

/* States that we look at. */
enum nspy_profile_state {
	NSPY_PROFILE_SEND_GPU_WAIT = 8,
	NSPY_PROFILE_SEND_WAIT = 9,
	NSPY_PROFILE_RECV_WAIT = 10,
	NSPY_PROFILE_RECV_FLUSH_WAIT = 11,
	NSPY_PROFILE_RECV_GPU_WAIT = 12,
	NSPY_PROFILE_SEND_PEER_WAIT = 20, /* since 4 */
	NSPY_PROFILE_KERNEL_CH_STOP = 22, /* since 4 */
};

struct nspy_coll_v1 {
	const char *name;
	uint64_t comm_hash;
	uint64_t seq;
	uint8_t func; /* ncclFunc_t */
	const void *send;
	void *recv;
	size_t count;
	int root;
	uint8_t datatype;
	uint32_t op;
	size_t traffic;
	uint8_t channels, warps, algo, proto;
	int collnet, nvls;
};

struct nspy_coll_v2 {
	const char *name;
	uint64_t comm_hash;
	uint64_t seq;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *datatype;
	size_t traffic;
	uint8_t channels, warps;
	const char *algo, *proto;
};

struct nspy_coll_v3 {
	const char *name;
	uint64_t comm_hash;
	uint64_t seq;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels, warps;
	const char *algo, *proto;
};

/* Also how that of version 5 begins. */
struct nspy_coll_v4 {
	uint64_t seq;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels, warps;
	const char *algo, *proto;
};

struct nspy_coll_v5 {
	struct nspy_coll_v4 as_v4;
	void *parent_group;
};

struct nspy_p2p_v1 {
	const char *name;
	uint64_t comm_hash;
	uint8_t func;
	void *buffer;
	uint8_t datatype;
	size_t count;
	int peer;
};

struct nspy_p2p_v2 {
	const char *name;
	uint64_t comm_hash;
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
};

struct nspy_p2p_v4 {
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
	uint8_t channels;
};

struct nspy_p2p_v5 {
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
	uint8_t channels;
	void *parent_group;
};

/* The following are the same in all versions that have them. */
struct nspy_proxy_op {
	int pid; /* of the process that the operation belongs to */
	uint8_t channel;
	int peer;
	int steps;
	int chunk_bytes;
	int is_send;
};

struct nspy_kernel_ch_v3 {
	uint8_t channel;
};

struct nspy_kernel_ch {
	uint8_t channel;
	uint64_t timer; /* GPU's global timer, ns */
};

struct nspy_net_event_data {
	int64_t id;
	void *data;
};

struct nspy_group_api {
	bool captured;
	int depth;
};

struct nspy_coll_api {
	const char *func;
	size_t count;
	const char *datatype;
	int root;
	void *stream;
	bool captured;
};

struct nspy_p2p_api {
	const char *func;
	size_t count;
	const char *datatype;
	void *stream;
	bool captured;
};

struct nspy_ce_coll {
	uint64_t seq;
	const char *func;
	const void *send;
	void *recv;
	size_t count;
	int root;
	const char *datatype;
	const char *sync;
	bool intra_batch;
	uint32_t batch, batches, ce_seq;
	void *stream;
};

struct nspy_ce_batch {
	int ops;
	size_t bytes;
	bool intra;
};

/* Descriptors: one for each version, with a type of one byte before 5. */
struct nspy_descr_v1 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct nspy_coll_v1 coll;
		struct nspy_p2p_v1 p2p;
		struct nspy_proxy_op proxy_op;
		int step;
	};
};

struct nspy_descr_v2 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct nspy_coll_v2 coll;
		struct nspy_p2p_v2 p2p;
		struct nspy_proxy_op proxy_op;
		int step;
	};
};

struct nspy_descr_v3 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct nspy_coll_v3 coll;
		struct nspy_p2p_v2 p2p;
		struct nspy_proxy_op proxy_op;
		int step;
		struct nspy_kernel_ch_v3 kernel;
		struct nspy_net_event_data net;
	};
};

struct nspy_descr_v4 {
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct nspy_coll_v4 coll;
		struct nspy_p2p_v4 p2p;
		struct nspy_proxy_op proxy_op;
		int step;
		struct nspy_kernel_ch kernel;
		struct nspy_net_event_data net;
	};
};

struct nspy_descr_v5 {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct nspy_coll_v5 coll;
		struct nspy_p2p_v5 p2p;
		struct nspy_proxy_op proxy_op;
		int step;
		struct nspy_kernel_ch kernel;
		struct nspy_net_event_data net;
		struct nspy_group_api group_api;
		struct nspy_coll_api coll_api;
		struct nspy_p2p_api p2p_api;
		void *launch_stream;
	};
};

struct nspy_descr_v6 {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct nspy_coll_v5 coll;
		struct nspy_p2p_v5 p2p;
		struct nspy_proxy_op proxy_op;
		int step;
		struct nspy_kernel_ch kernel;
		struct nspy_net_event_data net;
		struct nspy_group_api group_api;
		struct nspy_coll_api coll_api;
		struct nspy_p2p_api p2p_api;
		void *launch_stream;
		struct nspy_ce_coll ce_coll;
		struct nspy_ce_batch ce_batch;
	};
};

/* What a state brings along. */
union nspy_state_args_v1 { /* 1 to 3 */
	struct {
		size_t bytes;
		int steps;
	} proxy_op;
	int appended;
};

union nspy_state_args { /* since 4 */
	size_t bytes;   /* of a proxy step */
	int appended;
	void *net_data;
	uint64_t timer; /* of a kernel's channel */
};

typedef int nspy_profiler_init_v1(void **context, int *mask);
typedef int nspy_profiler_init_v4(void **context, int *mask, const char *name, uint64_t hash,
				  int nodes, int nranks, int rank, void *log);
typedef int nspy_profiler_init_v5(void **context, uint64_t hash, int *mask, const char *name,
				  int nodes, int nranks, int rank, void *log);
typedef int nspy_profiler_start(void *context, void **handle, void *descr);
typedef int nspy_profiler_stop(void *handle);
typedef int nspy_profiler_state(void *handle, int state, void *args);
typedef int nspy_profiler_finalize(void *context);

/* The table that NCCL looks up, the same in all versions but for the arguments of init. */
struct nspy_profiler_table {
	const char *name;
	union {
		nspy_profiler_init_v1 *init_v1; /* 1 to 3 */
		nspy_profiler_init_v4 *init_v4;
		nspy_profiler_init_v5 *init_v5; /* 5 and 6 */
	};
	nspy_profiler_start *start;
	nspy_profiler_stop *stop;
	nspy_profiler_state *state;
	nspy_profiler_finalize *finalize;
};

#endif
