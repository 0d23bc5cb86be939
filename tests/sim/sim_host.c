/* SPDX-License-Identifier: Apache-2.0 */
/* What hosts do, and what of it a trace holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define CALL_NS    2000u
#define LAUNCH_NS  5000u
#define INIT_NS    3000000u
#define STREAM     0x7000u
#define ERROR_CODE 1 /* ncclUnhandledCudaError */

bool sim_is_culprit(const struct sim *sim, const struct sim_rank *r)
{
	const struct sim_fault *f = &sim->fault;

	if (f->kind == SIM_CLEAN || f->kind == SIM_NETWORK || f->kind == SIM_IO ||
	    f->kind == SIM_SLOW_PAIR)
		return false;
	if (f->kind == SIM_SLOW_HOST || f->kind == SIM_SLOW_LINK)
		return r->node == f->rank / sim->per_node;
	return r->rank == f->rank;
}

/* --- records --- */

static union nspy_any_rec *add_record(struct nspy_tg_rank *trace)
{
	if (trace->count == trace->capacity) {
		trace->capacity = trace->capacity ? trace->capacity * 2 : 256;
		trace->records = realloc(trace->records, trace->capacity * sizeof(*trace->records));
		if (!trace->records)
			abort();
	}
	memset(&trace->records[trace->count], 0, sizeof(*trace->records));
	return &trace->records[trace->count++];
}

static struct nspy_rec call(struct sim_rank *r, const char *fn)
{
	return (struct nspy_rec){
		.enter = r->host_ns,
		.comm = NSPY_COMM_INDEX_NONE,
		.peer = NSPY_PEER_NONE,
		.fn = (uint16_t)nspy_tg_fn(fn),
		.kind = NSPY_REC_CALL,
		.datatype = NSPY_DATATYPE_NONE,
		.redop = NSPY_REDOP_NONE,
		.callno = ++r->trace->callno,
	};
}

static void done(struct sim_rank *r, struct nspy_rec *rec, uint64_t leave_ns)
{
	rec->leave = r->host_ns = leave_ns > rec->enter ? leave_ns : rec->enter + CALL_NS;
	add_record(r->trace)->call = *rec;
}

static void stay_in(struct sim_rank *r, struct nspy_rec rec)
{
	rec.flags |= NSPY_CALL_OPEN;
	r->trace->open = rec;
	r->trace->has_open = true;
}

static void put_text(struct sim_rank *r, uint32_t callno, const char *text)
{
	struct nspy_text_rec *rec = &add_record(r->trace)->text;

	rec->when = r->host_ns;
	rec->topic = NSPY_TEXT_LAST_ERROR;
	rec->kind = NSPY_REC_TEXT;
	rec->callno = callno;
	rec->comm = NSPY_COMM_INDEX_NONE;
	rec->bytes = (uint8_t)strnlen(text, NSPY_TEXT_PIECE_BYTES);
	memcpy(rec->text, text, rec->bytes);
}

static int place_in(const struct sim_comm *comm, int rank)
{
	return (rank - comm->first) / comm->stride;
}

/* --- creating communicators --- */

static struct nspy_rec enter_creation(struct sim *sim, struct sim_rank *r, enum sim_group group)
{
	const struct sim_comm *comm = r->comms[group];
	struct nspy_tg_rank *trace = r->trace;
	struct nspy_rec rec = call(r, group ? "ncclCommSplit" : "ncclCommInitRank");
	struct nspy_comm_rec *made;

	trace->comms = realloc(trace->comms, (trace->comm_count + 1) * sizeof(*trace->comms));
	made = &trace->comms[trace->comm_count];
	r->index[group] = rec.comm = (uint32_t)trace->comm_count++;
	*made = (struct nspy_comm_rec){
		.when = r->host_ns,
		.key = comm->key,
		.comm = rec.comm,
		.nranks = group ? -1 : comm->size,
		.rank = group ? -1 : place_in(comm, r->rank),
		.kind = NSPY_REC_COMM,
		.origin = group ? NSPY_COMM_SPLIT : NSPY_COMM_INIT_RANK,
		.flags = NSPY_COMM_STARTED,
		.parent_key = group ? sim->all[0].comms[SIM_WORLD]->key : 0,
		.id_hash = group ? 0 : nspy_tg_hash("id", sim->seed),
		.color = group ? comm->first : 0,
		.ordinal = group ? (uint32_t)group : 1,
	};
	add_record(trace)->comm = *made;
	return rec;
}

static void leave_creation(struct sim_rank *r, enum sim_group group, struct nspy_rec *rec,
			   uint64_t leave_ns)
{
	struct nspy_comm_rec *made = &r->trace->comms[rec->comm];

	done(r, rec, leave_ns + sim_below(&r->random, 50000));
	made->nranks = r->comms[group]->size;
	made->rank = place_in(r->comms[group], r->rank);
	made->flags |= NSPY_COMM_READY;
	made->when = r->host_ns;
	add_record(r->trace)->comm = *made;
}

static bool stays_away(const struct sim *sim, const struct sim_rank *r, enum sim_group group)
{
	return r->rank == sim->fault.rank &&
	       ((sim->fault.kind == SIM_MISSING && group == SIM_WORLD) ||
		(sim->fault.kind == SIM_SPLIT_MEMBER && group != SIM_WORLD));
}

/* One creation, which everybody takes part in who has a communicator of that kind. */
static bool create(struct sim *sim, enum sim_group group)
{
	struct nspy_rec *recs = calloc((size_t)sim->ranks, sizeof(*recs));
	uint64_t latest = 0;
	bool complete = true;

	for (int i = 0; i < sim->ranks; i++) {
		struct sim_rank *r = &sim->all[i];

		if (stays_away(sim, r, group)) {
			complete = false;
			continue;
		}
		r->host_ns += sim_below(&r->random, group ? SIM_MS : 500 * SIM_MS);
		recs[i] = enter_creation(sim, r, group);
		latest = r->host_ns > latest ? r->host_ns : latest;
	}
	for (int i = 0; i < sim->ranks; i++) {
		struct sim_rank *r = &sim->all[i];

		if (stays_away(sim, r, group))
			continue;
		if (complete) {
			leave_creation(r, group, &recs[i], latest + INIT_NS);
		} else {
			stay_in(r, recs[i]);
			r->state = SIM_STUCK;
		}
	}
	free(recs);
	return complete;
}

bool sim_create(struct sim *sim)
{
	for (size_t c = 0; c < sim->comm_count; c++) {
		char name[40];

		(void)snprintf(name, sizeof(name), "%d %d", (int)sim->comms[c].group,
			       sim->comms[c].first);
		sim->comms[c].key = nspy_tg_hash(name, 11);
	}
	for (int g = 0; g < SIM_GROUPS; g++) {
		struct sim_rank *r = &sim->all[sim->fault.rank];

		if (!sim->all[0].comms[g] || create(sim, (enum sim_group)g))
			continue;
		r->state = SIM_STUCK;
		if (g == SIM_WORLD)
			r->trace->silent = true; /* it never called NCCL */
		return false;
	}
	return true;
}

/* --- operations --- */

static void enqueue(struct sim_rank *r, const struct sim_op *op)
{
	r->queue[r->tail++] = (struct sim_queued){.op = *op, .ready_ns = r->host_ns};
}

/* Steps of a job with graphs: one as usual, one that is captured, then replays. */
static bool replays(const struct sim *sim, const struct sim_rank *r, const struct sim_op *op)
{
	return sim->fault.kind == SIM_GRAPH_HANG && r->step > 1 && op->group != SIM_WORLD;
}

static bool captures(const struct sim *sim, const struct sim_rank *r, const struct sim_op *op)
{
	return sim->fault.kind == SIM_GRAPH_HANG && r->step == 1 && op->group != SIM_WORLD;
}

static struct nspy_rec operation(const struct sim *sim, struct sim_rank *r, const struct sim_op *op)
{
	struct nspy_rec rec = call(r, op->fn);
	size_t way = op->to > 0;

	rec.comm = r->index[op->group];
	rec.count = op->count;
	rec.datatype = SIM_DATATYPE;
	rec.arg = STREAM;
	if (op->what == SIM_COLL)
		rec.redop = strcmp(op->fn, "ncclAllGather") == 0 ? NSPY_REDOP_NONE : 0;
	else
		rec.peer = place_in(r->comms[SIM_PP], r->rank + op->to * sim->tp);
	if (captures(sim, r, op))
		rec.flags |= NSPY_CALL_CAPTURED;
	else if (op->what == SIM_COLL)
		rec.seq = ++r->seqs[op->group];
	else
		rec.seq = op->what == SIM_SEND ? ++r->sends[way] : ++r->recvs[way];
	return rec;
}

static void issue(struct sim *sim, struct sim_rank *r, const struct sim_op *op)
{
	struct nspy_rec rec;

	if (replays(sim, r, op)) {
		enqueue(r, op);
		return;
	}
	if (op->what == SIM_COMPUTE) {
		r->host_ns += LAUNCH_NS + sim_below(&r->random, LAUNCH_NS);
		enqueue(r, op);
		return;
	}
	rec = operation(sim, r, op);
	enqueue(r, op);
	done(r, &rec, r->host_ns + CALL_NS + sim_below(&r->random, CALL_NS));
	r->host_ns += sim_below(&r->random, LAUNCH_NS);
}

static void launch_graph(const struct sim *sim, struct sim_rank *r)
{
	struct nspy_rec rec;

	if (sim->fault.kind != SIM_GRAPH_HANG || r->step < 2)
		return;
	rec = call(r, "cudaGraphLaunch");
	rec.arg = STREAM;
	done(r, &rec, r->host_ns + CALL_NS + sim_below(&r->random, CALL_NS));
}

/* Every so many steps everything else stands still. */
#define CHECKPOINT_STEPS 8u

static bool takes_a_break(const struct sim *sim, const struct sim_rank *r)
{
	const struct sim_fault *f = &sim->fault;

	return r->step % CHECKPOINT_STEPS == CHECKPOINT_STEPS - 1 &&
	       (f->kind == SIM_IO || (f->kind == SIM_CHECKPOINT && sim_is_culprit(sim, r)));
}

static uint64_t load_ns(const struct sim *sim, struct sim_rank *r, const struct sim_op *op)
{
	const struct sim_fault *f = &sim->fault;
	uint64_t ns = op->ns + sim_below(&r->random, sim->jitter_ns);

	if (sim_below(&r->random, 50) == 0) /* now and then something else runs */
		ns += sim_below(&r->random, 10 * sim->jitter_ns);
	if ((f->kind == SIM_SLOW_RANK || f->kind == SIM_SLOW_HOST) && sim_is_culprit(sim, r))
		ns += (uint64_t)(f->strength * (double)sim->step_ns);
	if (takes_a_break(sim, r))
		ns += f->delay_ns + sim_below(&r->random, f->delay_ns / 20);
	return ns;
}

/* --- what goes wrong --- */

static void end_now(struct sim_rank *r, const char *exit_line)
{
	r->state = SIM_DEAD;
	r->trace->fate = NSPY_TG_DIES;
	r->trace->exit_ns = r->host_ns;
	r->trace->exit_line = exit_line ? strdup(exit_line) : NULL;
}

static void fail(struct sim *sim, struct sim_rank *r, const struct sim_op *op)
{
	struct nspy_rec rec;

	if (sim->fault.kind == SIM_ERROR) {
		rec = operation(sim, r, op);
		rec.result = ERROR_CODE;
		done(r, &rec, r->host_ns + CALL_NS);
		put_text(r, rec.callno, "Cuda failure 'uncorrectable ECC error'");
	} else {
		rec = call(r, "cudaMalloc");
		rec.count = 50000000000u;
		rec.result = 2; /* cudaErrorMemoryAllocation */
		done(r, &rec, r->host_ns + CALL_NS);
	}
	r->host_ns += 10 * SIM_MS;
	end_now(r, "exit_code=1");
	r->trace->fate = NSPY_TG_ENDS;
}

/* True if the operation is dealt with. */
static bool go_wrong(struct sim *sim, struct sim_rank *r, const struct sim_op *op)
{
	struct sim_op wrong = *op;

	switch (sim->fault.kind) {
	case SIM_HANG_MALLOC: {
		struct nspy_rec rec = call(r, "cudaMalloc");

		rec.count = 2147483648u;
		stay_in(r, rec);
		r->state = SIM_STUCK;
		return true;
	}
	case SIM_HANG:
	case SIM_STOPPED:
	case SIM_GRAPH_HANG:
		r->state = SIM_STUCK;
		return true;
	case SIM_KILLED:
		end_now(r, "signal=9");
		return true;
	case SIM_CRASHED:
		end_now(r, NULL);
		return true;
	case SIM_ERROR:
	case SIM_OOM:
		fail(sim, r, op);
		return true;
	case SIM_SKIPPED:
	case SIM_P2P_ALONE:
		return true;
	case SIM_NETWORK:
		wrong.stuck = true;
		issue(sim, r, &wrong);
		return true;
	case SIM_CALL:
		wrong.fn = strcmp(op->fn, "ncclAllReduce") == 0 ? "ncclAllGather" : "ncclAllReduce";
		issue(sim, r, &wrong);
		return true;
	case SIM_COUNT:
	case SIM_P2P:
		wrong.count--;
		issue(sim, r, &wrong);
		return true;
	case SIM_ORDER:
		issue(sim, r, op + 1);
		issue(sim, r, op);
		r->at++; /* both are done */
		return true;
	case SIM_PAUSE:
		r->host_ns += sim->fault.delay_ns;
		return false;
	default:
		return false;
	}
}

static struct nspy_rec wait_call(struct sim_rank *r)
{
	struct nspy_rec rec = call(r, "cudaStreamSynchronize");

	rec.arg = STREAM;
	return rec;
}

void sim_wait_open(struct sim_rank *r)
{
	struct nspy_rec rec = wait_call(r);

	rec.enter = r->sync_ns;
	stay_in(r, rec);
}

void sim_abort(struct sim_rank *r, enum sim_group group, uint64_t when_ns)
{
	struct nspy_rec rec;

	r->host_ns = when_ns;
	rec = call(r, "ncclCommAbort");
	rec.comm = r->index[group];
	done(r, &rec, when_ns + 2 * SIM_MS + sim_below(&r->random, 20 * SIM_MS));
	r->host_ns += 10 * SIM_MS;
	end_now(r, "signal=6");
}

static bool wait_for_device(struct sim *sim, struct sim_rank *r)
{
	struct nspy_rec rec;
	uint64_t end;

	if (r->state == SIM_RUNS) {
		r->state = SIM_SYNCS;
		r->sync_ns = r->host_ns;
	}
	if (r->head < r->tail)
		return false;
	r->state = SIM_RUNS;
	end = r->gpu_ns > r->host_ns ? r->gpu_ns : r->host_ns;
	end += LAUNCH_NS + sim_below(&r->random, LAUNCH_NS);
	if (sim->polls) { /* questions are not recorded */
		r->host_ns = end;
	} else {
		rec = wait_call(r);
		done(r, &rec, end);
	}
	r->head = r->tail = 0;
	r->at = 0;
	if (++r->step == sim->steps) {
		r->state = SIM_DONE;
		r->trace->fate = NSPY_TG_ENDS;
		r->trace->exit_ns = r->host_ns;
	}
	return true;
}

bool sim_host(struct sim *sim, struct sim_rank *r)
{
	const struct sim_op *op = &sim->programs[r->stage].ops[r->at];

	if (r->state != SIM_RUNS && r->state != SIM_SYNCS)
		return false;
	if (op->what == SIM_SYNC)
		return wait_for_device(sim, r);
	if (r->rank == sim->fault.rank && r->step == sim->fault.step && r->at == sim->fault.at &&
	    go_wrong(sim, r, op)) {
		r->at++;
		return r->state == SIM_RUNS;
	}
	r->at++;
	if (op->what == SIM_LOAD) {
		r->host_ns += load_ns(sim, r, op);
		launch_graph(sim, r);
	} else {
		issue(sim, r, op);
	}
	return true;
}
