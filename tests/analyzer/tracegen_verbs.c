/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank can do in a scenario. */
#include "tracegen_verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INIT_NS 3000000u /* a creation takes this long after the last rank has come */

const char nspy_tg_schema[] = "fn\t0\tncclGetVersion\tnccl\t0\tncclResult_t\n"
			      "fn\t1\tncclAllReduce\tnccl\t1\tncclResult_t\n"
			      "fn\t2\tncclBroadcast\tnccl\t1\tncclResult_t\n"
			      "fn\t3\tncclBcast\tnccl\t1\tncclResult_t\n"
			      "fn\t4\tncclReduceScatter\tnccl\t1\tncclResult_t\n"
			      "fn\t5\tncclAllGather\tnccl\t1\tncclResult_t\n"
			      "fn\t6\tncclSend\tnccl\t2\tncclResult_t\n"
			      "fn\t7\tncclRecv\tnccl\t3\tncclResult_t\n"
			      "fn\t8\tncclGroupStart\tnccl\t4\tncclResult_t\n"
			      "fn\t9\tncclGroupEnd\tnccl\t5\tncclResult_t\n"
			      "fn\t10\tncclCommInitRank\tnccl\t6\tncclResult_t\n"
			      "fn\t11\tncclCommSplit\tnccl\t6\tncclResult_t\n"
			      "fn\t12\tncclCommFinalize\tnccl\t7\tncclResult_t\n"
			      "fn\t13\tncclCommDestroy\tnccl\t8\tncclResult_t\n"
			      "fn\t14\tncclCommAbort\tnccl\t9\tncclResult_t\n"
			      "fn\t15\tncclCommGetAsyncError\tnccl\t10\tncclResult_t\n"
			      "fn\t16\tcudaMalloc\tcudart\t13\tcudaError_t\n"
			      "fn\t17\tcudaStreamSynchronize\tcudart\t15\tcudaError_t\n"
			      "fn\t18\tncclReduce\tnccl\t1\tncclResult_t\n"
			      "fn\t19\tncclGetErrorString\tnccl\t0\tconst char*\n"
			      "fn\t31\tcudaGraphLaunch\tcudart\t17\tcudaError_t\n"
			      "datatype\t0\tncclInt8\t1\n"
			      "datatype\t2\tncclInt32\t4\n"
			      "datatype\t6\tncclFloat16\t2\n"
			      "datatype\t7\tncclFloat32\t4\n"
			      "redop\t0\tncclSum\n"
			      "redop\t2\tncclMax\n"
			      "result\tnccl\t1\tncclUnhandledCudaError\n"
			      "result\tnccl\t2\tncclSystemError\n"
			      "result\tnccl\t4\tncclInvalidArgument\n"
			      "result\tnccl\t5\tncclInvalidUsage\n"
			      "result\tnccl\t6\tncclRemoteError\n"
			      "result\tcudart\t2\tcudaErrorMemoryAllocation\n";

int nspy_tg_fn(const char *name)
{
	const char *line = nspy_tg_schema;
	char found[64];
	int id;

	while (sscanf(line, "fn\t%d\t%63s", &id, found) == 2) {
		if (strcmp(found, name) == 0)
			return id;
		line = strchr(line, '\n') + 1;
	}
	return -1;
}

static int number_in(const struct nspy_tg_line *line, const char *word,
		     const char *const (*names)[2])
{
	for (size_t i = 0; names[i][0]; i++) {
		if (strcmp(names[i][0], word) == 0)
			return atoi(names[i][1]);
	}
	nspy_tg_bad(line, "'%s' is not known", word);
}

static uint8_t parse_type(const struct nspy_tg_line *line, const char *word)
{
	static const char *const names[][2] = {{"i8", "0"},  {"i32", "2"}, {"f16", "6"},
					       {"f32", "7"}, {"-", "255"}, {NULL, NULL}};

	return (uint8_t)number_in(line, word, names);
}

static uint8_t parse_op(const struct nspy_tg_line *line, const char *word)
{
	static const char *const names[][2] = {
		{"sum", "0"}, {"max", "2"}, {"user", "5"}, {"-", "255"}, {NULL, NULL}};

	return (uint8_t)number_in(line, word, names);
}

/* --- communicators --- */

static uint32_t comm_index(const struct nspy_tg_line *line, const struct nspy_tg_rank *rank,
			   uint64_t key)
{
	for (size_t i = rank->comm_count; i-- > 0;) {
		if (rank->comms[i].key == key)
			return (uint32_t)i;
	}
	nspy_tg_bad(line, "rank %d is not in that communicator", rank->rank);
}

static uint64_t comm_key(const struct nspy_tg *tg, const char *name)
{
	return nspy_tg_hash(name, tg->fixed_ids ? 11 : 11 + (uint64_t)tg->generation);
}

static uint32_t index_of(struct nspy_tg *tg, const struct nspy_tg_line *line,
			 const struct nspy_tg_rank *rank, const char *name)
{
	(void)nspy_tg_comm(tg, line, name);
	return comm_index(line, rank, comm_key(tg, name));
}

static int rank_in(const struct nspy_tg_comm *comm, int rank)
{
	for (int i = 0; i < comm->nranks; i++) {
		if (comm->ranks[i] == rank)
			return i;
	}
	return -1;
}

static struct nspy_comm_rec *new_comm(struct nspy_tg *tg, const struct nspy_tg_line *line,
				      struct nspy_tg_rank *rank, struct nspy_tg_comm *comm)
{
	int in = rank_in(comm, rank->rank);
	struct nspy_comm_rec *rec;

	if (in < 0)
		nspy_tg_bad(line, "rank %d is not in '%s'", rank->rank, comm->name);
	if (rank->comm_count == rank->comm_capacity) {
		rank->comm_capacity = rank->comm_capacity ? rank->comm_capacity * 2 : 8;
		rank->comms = realloc(rank->comms, rank->comm_capacity * sizeof(*rank->comms));
		rank->seqs = realloc(rank->seqs, rank->comm_capacity * sizeof(*rank->seqs));
	}
	rank->seqs[rank->comm_count] = 0;
	rec = &rank->comms[rank->comm_count];
	*rec = (struct nspy_comm_rec){
		.when = rank->now_ns,
		.key = comm_key(tg, comm->name),
		.id_hash = nspy_tg_hash(comm->name, 5 + (uint64_t)tg->generation),
		.comm = (uint32_t)rank->comm_count++,
		.nranks = comm->nranks,
		.rank = in,
		.kind = NSPY_REC_COMM,
		.origin = NSPY_COMM_INIT_RANK,
		.flags = NSPY_COMM_STARTED,
		.ordinal = 1,
	};
	if (comm->parent[0]) {
		rec->origin = NSPY_COMM_SPLIT;
		rec->parent_key = comm_key(tg, comm->parent);
		rec->id_hash = 0;
		/* As the recorder has it: the size is known only when the split is done. */
		rec->nranks = rec->rank = -1;
		for (size_t i = 0; i + 1 < rank->comm_count; i++)
			rec->ordinal += rank->comms[i].origin == NSPY_COMM_SPLIT &&
					rank->comms[i].parent_key == rec->parent_key;
	}
	return rec;
}

static void update_comm(struct nspy_tg_rank *rank, uint32_t index, uint8_t flags)
{
	rank->comms[index].flags |= flags;
	rank->comms[index].when = rank->now_ns;
	nspy_tg_record(rank)->comm = rank->comms[index];
}

static const char *init_fn(const struct nspy_tg_comm *comm)
{
	return comm->parent[0] ? "ncclCommSplit" : "ncclCommInitRank";
}

static struct nspy_rec enter_creation(struct nspy_tg *tg, const struct nspy_tg_line *line,
				      struct nspy_tg_rank *rank)
{
	struct nspy_tg_comm *comm = nspy_tg_comm(tg, line, nspy_tg_word(line, 2));
	struct nspy_rec rec = nspy_tg_call(tg, rank, line, init_fn(comm));

	rec.comm = new_comm(tg, line, rank, comm)->comm;
	nspy_tg_record(rank)->comm = rank->comms[rec.comm];
	return rec;
}

static void verb_init(struct nspy_tg *tg, const struct nspy_tg_line *line,
		      struct nspy_tg_rank **ranks, size_t count)
{
	struct nspy_tg_comm *comm = nspy_tg_comm(tg, line, nspy_tg_word(line, 2));
	struct nspy_rec *recs = calloc(count, sizeof(*recs));
	uint64_t done = 0;

	for (size_t i = 0; i < count; i++) {
		recs[i] = enter_creation(tg, line, ranks[i]);
		done = recs[i].enter > done ? recs[i].enter : done;
	}
	for (size_t i = 0; i < count; i++) {
		struct nspy_comm_rec *rec = &ranks[i]->comms[recs[i].comm];

		nspy_tg_return(ranks[i], &recs[i], done + INIT_NS - recs[i].enter);
		rec->nranks = comm->nranks;
		rec->rank = rank_in(comm, ranks[i]->rank);
		update_comm(ranks[i], recs[i].comm, NSPY_COMM_READY);
	}
	free(recs);
}

static void stay_open(struct nspy_tg_rank *rank, struct nspy_rec rec)
{
	rec.flags |= NSPY_CALL_OPEN;
	rank->open = rec;
	rank->has_open = true;
}

/* --- operations --- */

static void fill_coll(struct nspy_tg *tg, const struct nspy_tg_line *line, struct nspy_rec *rec,
		      struct nspy_tg_rank *rank, size_t at)
{
	rec->comm = index_of(tg, line, rank, nspy_tg_word(line, at));
	rec->seq = ++rank->seqs[rec->comm];
	rec->count = strtoull(nspy_tg_word(line, at + 1), NULL, 10);
	rec->datatype = parse_type(line, nspy_tg_word(line, at + 2));
	rec->redop = parse_op(line, nspy_tg_word(line, at + 3));
	rec->arg = 0x7000;
	if (line->count > at + 4 && line->words[at + 4][0] != '-')
		rec->peer = atoi(line->words[at + 4]);
}

static uint64_t next_ordinal(struct nspy_tg_rank *rank, uint32_t comm, int32_t peer, bool send)
{
	struct nspy_tg_peer *p = NULL;

	for (size_t i = 0; i < rank->peer_count && !p; i++) {
		if (rank->peers[i].comm == comm && rank->peers[i].peer == peer)
			p = &rank->peers[i];
	}
	if (!p) {
		if (rank->peer_count == rank->peer_capacity) {
			rank->peer_capacity = rank->peer_capacity ? rank->peer_capacity * 2 : 8;
			rank->peers =
				realloc(rank->peers, rank->peer_capacity * sizeof(*rank->peers));
		}
		p = &rank->peers[rank->peer_count++];
		*p = (struct nspy_tg_peer){.comm = comm, .peer = peer};
	}
	return send ? ++p->sends : ++p->recvs;
}

static struct nspy_rec p2p(struct nspy_tg *tg, const struct nspy_tg_line *line,
			   struct nspy_tg_rank *rank, bool send, size_t at)
{
	struct nspy_rec rec = nspy_tg_call(tg, rank, line, send ? "ncclSend" : "ncclRecv");

	rec.comm = index_of(tg, line, rank, nspy_tg_word(line, at));
	rec.count = strtoull(nspy_tg_word(line, at + 1), NULL, 10);
	rec.datatype = parse_type(line, nspy_tg_word(line, at + 2));
	rec.peer = atoi(nspy_tg_word(line, at + 3));
	rec.seq = next_ordinal(rank, rec.comm, rec.peer, send);
	return rec;
}

static void verb_stuck(struct nspy_tg *tg, const struct nspy_tg_line *line,
		       struct nspy_tg_rank *rank)
{
	const char *fn = nspy_tg_word(line, 2);
	struct nspy_rec rec;

	if (strcmp(fn, "ncclSend") == 0 || strcmp(fn, "ncclRecv") == 0) {
		rec = p2p(tg, line, rank, strcmp(fn, "ncclSend") == 0, 3);
	} else {
		rec = nspy_tg_call(tg, rank, line, fn);
		if (strcmp(fn, "cudaMalloc") == 0)
			rec.count = strtoull(nspy_tg_word(line, 3), NULL, 10);
		else if (line->count > 4)
			fill_coll(tg, line, &rec, rank, 3);
		else if (line->count == 4)
			rec.comm = index_of(tg, line, rank, nspy_tg_word(line, 3));
		if (strcmp(fn, "ncclGroupEnd") == 0) {
			rec.group = rank->group;
			rank->in_group = false;
		}
	}
	stay_open(rank, rec);
}

/* All wait for the device until the last of them has come, and some time longer. */
static void verb_meet(struct nspy_tg *tg, const struct nspy_tg_line *line,
		      struct nspy_tg_rank **ranks, size_t count)
{
	uint64_t more = nspy_tg_duration(line, nspy_tg_word(line, 2)), latest = 0;

	for (size_t i = 0; i < count; i++)
		latest = ranks[i]->now_ns > latest ? ranks[i]->now_ns : latest;
	for (size_t i = 0; i < count; i++) {
		struct nspy_rec rec = nspy_tg_call(tg, ranks[i], line, "cudaStreamSynchronize");

		rec.arg = 0x7000;
		nspy_tg_return(ranks[i], &rec,
			       latest + more > rec.enter ? latest + more - rec.enter : 0);
	}
}

/* --- texts --- */

static void put_text(struct nspy_tg_rank *rank, unsigned int topic, uint32_t callno,
		     const char *text)
{
	size_t left = strlen(text);

	do {
		size_t n = left < NSPY_TEXT_PIECE_BYTES ? left : NSPY_TEXT_PIECE_BYTES;
		struct nspy_text_rec *rec = &nspy_tg_record(rank)->text;

		rec->when = rank->now_ns;
		rec->topic = (uint16_t)topic;
		rec->kind = NSPY_REC_TEXT;
		rec->callno = callno;
		rec->comm = NSPY_COMM_INDEX_NONE;
		rec->bytes = (uint8_t)n;
		memcpy(rec->text, text, n);
		text += n;
		left -= n;
		rec->flags = left > 0;
	} while (left);
}

static void verb_call(struct nspy_tg *tg, const struct nspy_tg_line *line,
		      struct nspy_tg_rank *rank)
{
	struct nspy_rec rec = nspy_tg_call(tg, rank, line, nspy_tg_word(line, 2));

	if (line->count > 4 && line->words[4][0] == '=')
		rec.result = (int16_t)atoi(line->words[4] + 1);
	nspy_tg_return(rank, &rec, nspy_tg_duration(line, nspy_tg_word(line, 3)));
	if (line->count > 5)
		put_text(rank, NSPY_TEXT_LAST_ERROR, rec.callno, line->words[5]);
}

/* The creation that the rank is in gives up. */
static void verb_failed(const struct nspy_tg_line *line, struct nspy_tg_rank *rank)
{
	struct nspy_rec rec = rank->open;

	if (!rank->has_open)
		nspy_tg_bad(line, "rank %d is in no call", rank->rank);
	rank->has_open = false;
	rec.flags &= (uint8_t)~NSPY_CALL_OPEN;
	rec.result = (int16_t)atoi(nspy_tg_word(line, 2));
	nspy_tg_return(rank, &rec, rank->now_ns - rec.enter);
	update_comm(rank, rec.comm, NSPY_COMM_FAILED);
	if (line->count > 3)
		put_text(rank, NSPY_TEXT_LAST_ERROR, rec.callno, line->words[3]);
}

static void verb_abort(struct nspy_tg *tg, const struct nspy_tg_line *line,
		       struct nspy_tg_rank *rank)
{
	struct nspy_rec stuck = rank->open;
	struct nspy_rec rec;

	if (!rank->has_open)
		nspy_tg_bad(line, "rank %d is not stuck", rank->rank);
	rec = nspy_tg_call(tg, rank, line, "ncclCommAbort");
	rec.comm = index_of(tg, line, rank, nspy_tg_word(line, 2));
	nspy_tg_return(rank, &rec, nspy_tg_duration(line, nspy_tg_word(line, 3)));
	stuck.flags &= (uint8_t)~NSPY_CALL_OPEN;
	stuck.leave = rank->now_ns;
	nspy_tg_record(rank)->call = stuck;
	rank->has_open = false;
	update_comm(rank, rec.comm, NSPY_COMM_GONE);
}

/* --- one rank --- */

/* The value is the rest of the line. */
static void set_fact(struct nspy_tg_rank *rank, const struct nspy_tg_line *line)
{
	const char *key = nspy_tg_word(line, 2);
	char value[1024];
	size_t used = (size_t)snprintf(value, sizeof(value), "%.1000s", nspy_tg_word(line, 3));

	for (size_t i = 4; i < line->count && used < sizeof(value); i++)
		used += (size_t)snprintf(value + used, sizeof(value) - used, " %s", line->words[i]);
	if (rank->fact_count == rank->fact_capacity) {
		rank->fact_capacity = rank->fact_capacity ? rank->fact_capacity * 2 : 8;
		rank->facts = realloc(rank->facts, rank->fact_capacity * sizeof(*rank->facts));
	}
	rank->facts[rank->fact_count++] = (struct nspy_tg_fact){strdup(key), strdup(value)};
}

static void die(const struct nspy_tg_line *line, struct nspy_tg_rank *rank, bool live)
{
	size_t kept = live ? strtoull(nspy_tg_word(line, 2), NULL, 10) : 0;

	rank->fate = live ? NSPY_TG_DIES_LIVE : NSPY_TG_DIES;
	rank->drained = kept < rank->count ? rank->count - kept : 0;
	rank->exit_ns = rank->now_ns;
}

static bool timing_verb(struct nspy_tg *tg, const struct nspy_tg_line *line,
			struct nspy_tg_rank *rank, const char *verb)
{
	uint64_t when;

	if (strcmp(verb, "sleep") == 0) {
		rank->now_ns += nspy_tg_duration(line, nspy_tg_word(line, 2));
	} else if (strcmp(verb, "until") == 0) {
		when = NSPY_TG_START_MONO_NS + nspy_tg_duration(line, nspy_tg_word(line, 2));
		if (when < rank->now_ns)
			nspy_tg_bad(line, "rank %d is past that time", rank->rank);
		rank->now_ns = when;
	} else if (strcmp(verb, "sync") == 0) {
		struct nspy_rec rec = nspy_tg_call(tg, rank, line, "cudaStreamSynchronize");

		rec.arg = 0x7000;
		nspy_tg_return(rank, &rec, nspy_tg_duration(line, nspy_tg_word(line, 2)));
	} else {
		return false;
	}
	return true;
}

static bool end_verb(const struct nspy_tg_line *line, struct nspy_tg_rank *rank, const char *verb)
{
	if (strcmp(verb, "end") == 0) {
		rank->fate = NSPY_TG_ENDS;
		rank->exit_ns = rank->now_ns;
	} else if (strcmp(verb, "die") == 0) {
		die(line, rank, false);
	} else if (strcmp(verb, "die-live") == 0) {
		die(line, rank, true);
	} else if (strcmp(verb, "notrace") == 0) {
		rank->silent = true;
	} else if (strcmp(verb, "asked") == 0) {
		rank->asked_ns = rank->now_ns;
	} else if (strcmp(verb, "noted-term") == 0) {
		rank->noted_term = rank->now_ns;
	} else if (strcmp(verb, "crash") == 0) {
		rank->crash = (struct nspy_signal_note){
			.when_ns = rank->now_ns,
			.number = (int32_t)strtol(nspy_tg_word(line, 2), NULL, 10),
			.code = (int32_t)strtol(nspy_tg_word(line, 3), NULL, 10),
			.tid = 4242,
			.fn = (uint16_t)(nspy_tg_fn("ncclAllReduce") + 1),
			.flags = NSPY_SIGNAL_IN_CALL,
		};
	} else if (strcmp(verb, "exit") == 0) {
		const char *value = nspy_tg_word(line, 2);

		free(rank->exit_line);
		rank->exit_line = strncmp(value, "code=", 5) == 0 ? NULL : strdup(value);
		if (!rank->exit_line) {
			rank->exit_line = calloc(1, strlen(value) + 8);
			(void)sprintf(rank->exit_line, "exit_%s", value);
		}
		rank->exit_ns = rank->now_ns;
	} else {
		return false;
	}
	return true;
}

static void group_verb(struct nspy_tg *tg, const struct nspy_tg_line *line,
		       struct nspy_tg_rank *rank, bool begin)
{
	struct nspy_rec rec =
		nspy_tg_call(tg, rank, line, begin ? "ncclGroupStart" : "ncclGroupEnd");

	if (begin)
		rank->group++;
	rank->in_group = begin;
	rec.group = rank->group;
	nspy_tg_return(rank, &rec, 0);
}

static bool call_verb(struct nspy_tg *tg, const struct nspy_tg_line *line,
		      struct nspy_tg_rank *rank, const char *verb)
{
	struct nspy_rec rec;

	if (strcmp(verb, "coll") == 0) {
		rec = nspy_tg_call(tg, rank, line, nspy_tg_word(line, 2));
		fill_coll(tg, line, &rec, rank, 3);
		nspy_tg_return(rank, &rec, 0);
	} else if (strcmp(verb, "capture") == 0) {
		rec = nspy_tg_call(tg, rank, line, nspy_tg_word(line, 2));
		fill_coll(tg, line, &rec, rank, 3);
		rank->seqs[rec.comm]--; /* it does not run now */
		rec.flags |= NSPY_CALL_CAPTURED;
		nspy_tg_return(rank, &rec, 0);
	} else if (strcmp(verb, "send") == 0 || strcmp(verb, "recv") == 0) {
		rec = p2p(tg, line, rank, verb[0] == 's', 2);
		nspy_tg_return(rank, &rec, 0);
	} else if (strcmp(verb, "group") == 0 || strcmp(verb, "endgroup") == 0) {
		group_verb(tg, line, rank, verb[0] == 'g');
	} else if (strcmp(verb, "start") == 0) {
		stay_open(rank, enter_creation(tg, line, rank));
	} else if (strcmp(verb, "await") == 0) {
		rec = enter_creation(tg, line, rank);
		rec.result = 7; /* ncclInProgress */
		nspy_tg_return(rank, &rec, 0);
		update_comm(rank, rec.comm, NSPY_COMM_NONBLOCKING);
	} else if (strcmp(verb, "stuck") == 0) {
		verb_stuck(tg, line, rank);
	} else if (strcmp(verb, "call") == 0) {
		verb_call(tg, line, rank);
	} else if (strcmp(verb, "abort") == 0) {
		verb_abort(tg, line, rank);
	} else if (strcmp(verb, "malloc") == 0) {
		rec = nspy_tg_call(tg, rank, line, "cudaMalloc");
		rec.count = strtoull(nspy_tg_word(line, 2), NULL, 10);
		if (line->count > 3 && strcmp(line->words[3], "refused") == 0)
			rec.result = 2; /* cudaErrorMemoryAllocation */
		else
			rec.arg = 0x7f0000000000u + ((uint64_t)rank->callno << 24);
		nspy_tg_return(rank, &rec, 0);
	} else if (strcmp(verb, "failed") == 0) {
		verb_failed(line, rank);
	} else if (strcmp(verb, "async") == 0) {
		rec = nspy_tg_call(tg, rank, line, "ncclCommGetAsyncError");
		rec.comm = index_of(tg, line, rank, nspy_tg_word(line, 2));
		rec.arg = strtoull(nspy_tg_word(line, 3), NULL, 10);
		nspy_tg_return(rank, &rec, 0);
	} else if (strcmp(verb, "destroy") == 0) {
		rec = nspy_tg_call(tg, rank, line, "ncclCommDestroy");
		rec.comm = index_of(tg, line, rank, nspy_tg_word(line, 2));
		nspy_tg_return(rank, &rec, 0);
		update_comm(rank, rec.comm, NSPY_COMM_GONE);
	} else {
		return false;
	}
	return true;
}

static void run_verb(struct nspy_tg *tg, const struct nspy_tg_line *line, struct nspy_tg_rank *rank)
{
	const char *verb = nspy_tg_word(line, 1);

	if (timing_verb(tg, line, rank, verb) || end_verb(line, rank, verb) ||
	    call_verb(tg, line, rank, verb))
		return;
	if (strcmp(verb, "fact") == 0)
		set_fact(rank, line);
	else if (strcmp(verb, "note") == 0)
		put_text(rank, NSPY_TEXT_NOTE, 0, nspy_tg_word(line, 2));
	else if (strcmp(verb, "net") == 0)
		nspy_tg_net(line, rank);
	else if (strcmp(verb, "lose") == 0)
		rank->lost += strtoull(nspy_tg_word(line, 2), NULL, 10);
	else
		nspy_tg_bad(line, "no verb '%s'", verb);
}

void nspy_tg_verb(struct nspy_tg *tg, const struct nspy_tg_line *line, struct nspy_tg_rank **ranks,
		  size_t count)
{
	if (strcmp(nspy_tg_word(line, 1), "init") == 0) {
		verb_init(tg, line, ranks, count);
		return;
	}
	if (strcmp(nspy_tg_word(line, 1), "meet") == 0) {
		verb_meet(tg, line, ranks, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		run_verb(tg, line, ranks[i]);
}
