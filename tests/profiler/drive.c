/* SPDX-License-Identifier: Apache-2.0 */
#include "drive.h"

#include <string.h>
#include <unistd.h>

#define NAME "drive"

/* NCCL's logger; plugins call it without asking whether there is one. */
static void hear(int level, unsigned long flags, const char *file, int line, const char *format,
		 ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

int drive_init(struct drive_comm *comm, const struct drive *drive, uint64_t hash, int nranks,
	       int rank)
{
	const struct nspy_profiler_table *table = drive->table;

	*comm = (struct drive_comm){.drive = drive, .nranks = nranks, .rank = rank};
	if (drive->version <= 3)
		return table->init_v1(&comm->context, &comm->mask);
	if (drive->version == 4)
		return table->init_v4(&comm->context, &comm->mask, NAME, hash, 2, nranks, rank,
				      (void *)hear);
	return table->init_v5(&comm->context, hash, &comm->mask, NAME, 2, nranks, rank,
			      (void *)hear);
}

int drive_finalize(struct drive_comm *comm)
{
	return comm->context ? comm->drive->table->finalize(comm->context) : 0;
}

void drive_head(unsigned int version, union drive_descr *descr, uint64_t type, void *parent,
		int rank)
{
	memset(descr, 0, sizeof(*descr));
	if (version >= 5) {
		descr->v5.type = type;
		descr->v5.parent = parent;
		descr->v5.rank = rank;
	} else {
		descr->v4.type = (uint8_t)type;
		descr->v4.parent = parent;
		descr->v4.rank = rank;
	}
}

struct nspy_proxy_op *drive_proxy_op(unsigned int version, union drive_descr *descr)
{
	return version == 1   ? &descr->v1.proxy_op
	       : version == 2 ? &descr->v2.proxy_op
	       : version == 3 ? &descr->v3.proxy_op
	       : version == 4 ? &descr->v4.proxy_op
			      : &descr->v5.proxy_op;
}

void *drive_stale;

static void *start(const struct drive_comm *comm, union drive_descr *descr)
{
	void *handle = drive_stale;

	(void)comm->drive->table->start(comm->context, &handle, descr);
	return handle;
}

static void stop(const struct drive_comm *comm, void *handle)
{
	if (handle)
		(void)comm->drive->table->stop(handle);
}

static void fill_coll(unsigned int version, union drive_descr *d, const struct drive_op *op)
{
	switch (version) {
	case 1:
		d->v1.coll.comm_hash = 0x1234;
		d->v1.coll.seq = op->seq;
		d->v1.coll.func = 4; /* ncclFuncAllReduce */
		d->v1.coll.count = op->count;
		d->v1.coll.datatype = 7;
		d->v1.coll.channels = op->channels;
		d->v1.coll.algo = 1;
		d->v1.coll.proto = 2;
		break;
#define STRINGS(coll)                                                                              \
	do {                                                                                       \
		(coll).seq = op->seq;                                                              \
		(coll).func = "AllReduce";                                                         \
		(coll).count = op->count;                                                          \
		(coll).datatype = "ncclFloat32";                                                   \
		(coll).channels = op->channels;                                                    \
		(coll).algo = "RING";                                                              \
		(coll).proto = "SIMPLE";                                                           \
	} while (0)
	case 2:
		d->v2.coll.comm_hash = 0x1234;
		STRINGS(d->v2.coll);
		break;
	case 3:
		d->v3.coll.comm_hash = 0x1234;
		STRINGS(d->v3.coll);
		break;
	case 4:
		STRINGS(d->v4.coll);
		break;
	default:
		STRINGS(d->v5.coll.as_v4);
		d->v5.coll.parent_group = op->group;
	}
}

static void fill_send(unsigned int version, union drive_descr *d, const struct drive_op *op,
		      int peer)
{
	switch (version) {
	case 1:
		d->v1.p2p.comm_hash = 0x1234;
		d->v1.p2p.func = 6; /* ncclFuncSend */
		d->v1.p2p.count = op->count;
		d->v1.p2p.datatype = 7;
		d->v1.p2p.peer = peer;
		break;
#define SEND(p2p)                                                                                  \
	do {                                                                                       \
		(p2p).func = "Send";                                                               \
		(p2p).count = op->count;                                                           \
		(p2p).datatype = "ncclFloat32";                                                    \
		(p2p).peer = peer;                                                                 \
	} while (0)
	case 2:
	case 3:
		d->v2.p2p.comm_hash = 0x1234;
		SEND(d->v2.p2p);
		break;
	case 4:
		SEND(d->v4.p2p);
		d->v4.p2p.channels = op->channels;
		break;
	default:
		SEND(d->v5.p2p);
		d->v5.p2p.channels = op->channels;
		d->v5.p2p.parent_group = op->group;
	}
}

/* The events around an operation: group and, since version 5, the API calls. */
static void open_around(const struct drive_comm *comm, struct drive_op *op, uint64_t api)
{
	unsigned int version = comm->drive->version;
	union drive_descr d;

	if (version >= 5) {
		drive_head(version, &d, NSPY_PROFILE_GROUP_API, NULL, 0);
		d.v5.group_api.captured = op->captured;
		d.v5.group_api.depth = 1;
		op->group_api = start(comm, &d);
		drive_head(version, &d, api, op->group_api, 0);
		if (api == NSPY_PROFILE_COLL_API) {
			d.v5.coll_api.func = "AllReduce";
			d.v5.coll_api.captured = op->captured;
		} else {
			d.v5.p2p_api.func = "Send";
			d.v5.p2p_api.captured = op->captured;
		}
		op->api = start(comm, &d);
		stop(comm, op->api);
	}
	drive_head(version, &d, NSPY_PROFILE_GROUP, NULL, 0);
	op->group = start(comm, &d);
}

static void close_around(const struct drive_comm *comm, struct drive_op *op)
{
	stop(comm, op->handle);
	stop(comm, op->group);
	stop(comm, op->group_api);
}

void drive_coll(const struct drive_comm *comm, struct drive_op *op)
{
	unsigned int version = comm->drive->version;
	union drive_descr d;

	open_around(comm, op, NSPY_PROFILE_COLL_API);
	drive_head(version, &d, NSPY_PROFILE_COLL, version >= 5 ? op->api : op->group, comm->rank);
	fill_coll(version, &d, op);
	op->handle = start(comm, &d);
	close_around(comm, op);
}

void drive_send(const struct drive_comm *comm, struct drive_op *op, int peer)
{
	unsigned int version = comm->drive->version;
	union drive_descr d;

	open_around(comm, op, NSPY_PROFILE_P2P_API);
	drive_head(version, &d, NSPY_PROFILE_P2P, version >= 5 ? op->api : op->group, comm->rank);
	fill_send(version, &d, op, peer);
	op->handle = start(comm, &d);
	close_around(comm, op);
}

void drive_copy(const struct drive_comm *comm, struct drive_op *op)
{
	union drive_descr d;

	open_around(comm, op, NSPY_PROFILE_COLL_API);
	drive_head(6, &d, NSPY_PROFILE_CE_COLL, op->api, comm->rank);
	d.v6.ce_coll.seq = op->seq;
	d.v6.ce_coll.func = "AllGather";
	d.v6.ce_coll.count = op->count;
	d.v6.ce_coll.datatype = "ncclFloat32";
	op->handle = start(comm, &d);
	close_around(comm, op);
}

/* --- below operations --- */

static void step_state(const struct drive_comm *comm, void *handle, int state, size_t bytes)
{
	union nspy_state_args args = {.bytes = bytes};
	union nspy_state_args_v1 old = {.proxy_op = {0}};

	if (handle)
		(void)comm->drive->table->state(
			handle, state, comm->drive->version >= 4 ? (void *)&args : (void *)&old);
}

static void drive_step(const struct drive_comm *comm, void *parent, int step, bool sends,
		       unsigned int pause_us)
{
	unsigned int version = comm->drive->version;
	union drive_descr d;
	void *handle;

	drive_head(version, &d, NSPY_PROFILE_PROXY_STEP, parent, comm->rank);
	if (version >= 5)
		d.v5.step = step;
	else if (version == 4)
		d.v4.step = step;
	handle = start(comm, &d);
	if (sends) {
		step_state(comm, handle, NSPY_PROFILE_SEND_GPU_WAIT, 0);
		if (version >= 4)
			step_state(comm, handle, NSPY_PROFILE_SEND_PEER_WAIT, 0);
		step_state(comm, handle, NSPY_PROFILE_SEND_WAIT, 4096);
	} else {
		step_state(comm, handle, NSPY_PROFILE_RECV_WAIT, 0);
		if (pause_us)
			usleep(pause_us);
		step_state(comm, handle, NSPY_PROFILE_RECV_FLUSH_WAIT, 4096);
		step_state(comm, handle, NSPY_PROFILE_RECV_GPU_WAIT, 4096);
	}
	stop(comm, handle);
}

void drive_network(const struct drive_comm *comm, const struct drive_op *op, uint8_t channel,
		   int peer, int steps, unsigned int pause_us)
{
	unsigned int version = comm->drive->version;

	for (int sends = 0; sends < 2; sends++) {
		struct nspy_proxy_op *proxy;
		union drive_descr d;
		void *handle;

		drive_head(version, &d, NSPY_PROFILE_PROXY_OP, op->handle, comm->rank);
		proxy = drive_proxy_op(version, &d);
		proxy->pid = getpid();
		proxy->channel = channel;
		proxy->peer = peer;
		proxy->steps = steps;
		proxy->is_send = sends;
		handle = start(comm, &d);
		for (int i = 0; i < steps && comm->mask & NSPY_PROFILE_PROXY_STEP; i++)
			drive_step(comm, handle, i, sends, pause_us);
		stop(comm, handle);
	}
}

void drive_kernel(const struct drive_comm *comm, const struct drive_op *op, uint8_t channel,
		  uint64_t start_ns, uint64_t stop_ns)
{
	unsigned int version = comm->drive->version;
	union nspy_state_args args = {.timer = stop_ns};
	union drive_descr d;
	void *handle;

	if (version < 3 || !(comm->mask & NSPY_PROFILE_KERNEL_CH))
		return;
	drive_head(version, &d, NSPY_PROFILE_KERNEL_CH, op->handle, 0);
	if (version == 3) {
		d.v3.kernel.channel = channel;
	} else if (version == 4) {
		d.v4.kernel.channel = channel;
		d.v4.kernel.timer = start_ns;
	} else {
		d.v5.kernel.channel = channel;
		d.v5.kernel.timer = start_ns;
	}
	handle = start(comm, &d);
	if (version >= 4 && handle)
		(void)comm->drive->table->state(handle, NSPY_PROFILE_KERNEL_CH_STOP, &args);
	stop(comm, handle);
}
