/* SPDX-License-Identifier: Apache-2.0 */
/* Scenario to trace files, through the encoder that the recorder uses. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trace_encode.h"
#include "trace_live.h"
#include "tracegen.h"

#define OPS_PER_CHUNK 1000u

struct writer {
	const struct nspy_tg *tg;
	const struct nspy_tg_rank *rank; /* the first one of the process */
	struct nspy_tg_rank **ranks;
	size_t rank_count;
	uint64_t run_id;
	FILE *out;
	uint32_t sequence;
	void *workspace;
	struct nspy_packer *packer;
	void *scratch;
	uint8_t *raw, *packed;
};

uint64_t nspy_tg_hash(const char *text, uint64_t seed)
{
	uint64_t h = 0xCBF29CE484222325ULL ^ seed * 0x9E3779B97F4A7C15ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001B3ULL;
	h ^= h >> 29;
	return h ? h : 1;
}

static void fail(const char *what, long rc)
{
	fprintf(stderr, "tracegen: %s failed: %ld\n", what, rc);
	exit(2);
}

int64_t nspy_tg_offset(const struct nspy_tg *tg, const struct nspy_tg_rank *rank)
{
	int64_t offset = (int64_t)(NSPY_TG_START_REAL_NS - NSPY_TG_START_MONO_NS) + rank->skew_ns;

	for (size_t i = 0; i < tg->skew_count; i++) {
		if (strcmp(tg->skews[i].node, rank->node) == 0)
			offset += tg->skews[i].skew_ns;
	}
	return offset;
}

static void put_chunk(struct writer *w, uint32_t kind, const uint8_t *payload, size_t bytes,
		      uint64_t first_ns, uint64_t last_ns, uint32_t records, uint64_t first_index,
		      uint32_t serial)
{
	const struct nspy_chunk_info info = {
		.kind = kind,
		.sequence = w->sequence++,
		.run_id = w->run_id,
		.first_ns = first_ns,
		.last_ns = last_ns,
		.mono_to_real_ns = nspy_tg_offset(w->tg, w->rank),
		.thread_serial = serial,
		.records = records,
		.first_index = first_index,
	};
	long n = nspy_chunk_pack(w->packer, &info, payload, bytes, w->packed,
				 nspy_chunk_bound(NSPY_CHUNK_RAW_BYTES_MAX));

	if (n < 0)
		fail("nspy_chunk_pack", n);
	if (fwrite(w->packed, 1, (size_t)n, w->out) != (size_t)n)
		fail("fwrite", 0);
}

static void put_text(uint8_t *payload, size_t *used, const char *key, const char *value)
{
	if (nspy_ident_put(payload, NSPY_LIVE_IDENT_BYTES, used, key, value) < 0)
		fail("nspy_ident_put", 0);
}

static void put_number(uint8_t *payload, size_t *used, const char *key, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	put_text(payload, used, key, text);
}

static uint64_t pid_of(const struct nspy_tg_rank *rank)
{
	return 1000u + (uint64_t)rank->generation * 1000u + (uint64_t)rank->rank;
}

static size_t make_ident(const struct writer *w, uint8_t *payload)
{
	const struct nspy_tg_rank *rank = w->rank;
	size_t used = 0;
	char text[64];

	put_text(payload, &used, "ncclspy.version", "0.0.0");
	put_text(payload, &used, "job", w->tg->job);
	put_text(payload, &used, "node", rank->node);
	(void)snprintf(text, sizeof(text), "%016" PRIx64 "-boot", nspy_tg_hash(rank->node, 7));
	put_text(payload, &used, "boot_id", text);
	put_text(payload, &used, "pidns", "4026531836");
	put_number(payload, &used, "pid", pid_of(rank));
	put_number(payload, &used, "starttime", 100 + (uint64_t)rank->rank);
	put_number(payload, &used, "rank", (uint64_t)rank->rank);
	put_number(payload, &used, "local_rank", (uint64_t)rank->rank % 8);
	put_number(payload, &used, "world_size", (uint64_t)w->tg->size);
	put_number(payload, &used, "start.mono_ns", rank->start_ns);
	put_text(payload, &used, "nccl.version", "22809");
	put_text(payload, &used, "nccl.build_id", "a1b2c3d4e5f60718");
	put_text(payload, &used, "nccl.path", "/usr/lib/libnccl.so.2");
	for (size_t i = 0; i < rank->fact_count; i++)
		put_text(payload, &used, rank->facts[i].key, rank->facts[i].value);
	return used;
}

static uint32_t serial_of(const struct writer *w, size_t rank)
{
	return w->tg->one_thread ? 1 : (uint32_t)rank + 1;
}

static void put_state(struct writer *w, uint32_t kind)
{
	struct nspy_comm_rec *comms;
	struct nspy_open_call open[16];
	struct nspy_state state = {.when_ns = w->rank->exit_ns,
				   .threads_seen = serial_of(w, w->rank_count - 1)};
	size_t capacity = 0;
	long n;

	for (size_t i = 0; i < w->rank_count; i++)
		capacity += w->ranks[i]->comm_count;
	comms = calloc(capacity + 1, sizeof(*comms));
	for (size_t i = 0; i < w->rank_count && i < 16; i++) {
		const struct nspy_tg_rank *rank = w->ranks[i];

		for (size_t k = 0; k < rank->comm_count; k++)
			comms[state.comm_count++] = rank->comms[k];
		state.calls += rank->callno;
		state.loss[NSPY_LOSS_RECORDS_NO_PAGE] += rank->lost;
		if (rank->has_open)
			open[state.open_count++] = (struct nspy_open_call){
				serial_of(w, i), 4241 + serial_of(w, i), rank->open};
	}
	n = nspy_state_encode(&state, comms, open, w->raw, NSPY_CHUNK_RAW_BYTES_MAX);
	free(comms);
	if (n < 0)
		fail("nspy_state_encode", n);
	put_chunk(w, kind, w->raw, (size_t)n, state.when_ns, state.when_ns, 0, 0, 0);
}

/* index: of the first of these records among all of its thread */
static void put_ops(struct writer *w, const union nspy_any_rec *records, size_t count,
		    uint64_t index, uint32_t serial)
{
	uint64_t last_ns = 0;
	long n = nspy_ops_encode(records, count, w->scratch, w->raw, NSPY_CHUNK_RAW_BYTES_MAX);

	if (n < 0)
		fail("nspy_ops_encode", n);
	for (size_t i = 0; i < count; i++) {
		uint64_t ns = records[i].call.kind == NSPY_REC_CALL ? records[i].call.leave
								    : records[i].call.enter;
		last_ns = ns > last_ns ? ns : last_ns;
	}
	put_chunk(w, NSPY_CHUNK_OPS, w->raw, (size_t)n, records[0].call.enter, last_ns,
		  (uint32_t)count, index, serial);
}

static void put_rank(struct writer *w, size_t r, uint64_t *index)
{
	const struct nspy_tg_rank *rank = w->ranks[r];
	size_t count = rank->fate == NSPY_TG_DIES_LIVE ? rank->drained : rank->count;

	for (size_t i = 0; i < count; i += OPS_PER_CHUNK)
		put_ops(w, rank->records + i, count - i < OPS_PER_CHUNK ? count - i : OPS_PER_CHUNK,
			*index + i, serial_of(w, r));
	*index = w->tg->one_thread ? *index + count : 0;
}

static void write_chunks(struct writer *w, const uint8_t *ident, size_t ident_bytes)
{
	const struct nspy_tg_rank *rank = w->rank;
	uint64_t index = 0;

	put_chunk(w, NSPY_CHUNK_IDENT, ident, ident_bytes, rank->start_ns, rank->start_ns, 0, 0, 0);
	put_chunk(w, NSPY_CHUNK_SCHEMA, (const uint8_t *)nspy_tg_schema, strlen(nspy_tg_schema),
		  rank->start_ns, rank->start_ns, 0, 0, 0);
	for (size_t r = 0; r < w->rank_count; r++)
		put_rank(w, r, &index);
	if (rank->net)
		put_chunk(w, NSPY_CHUNK_NET, rank->net, rank->net_bytes, rank->start_ns,
			  rank->now_ns, 0, 0, 0);
	if (rank->prof)
		put_chunk(w, NSPY_CHUNK_PROF, rank->prof, rank->prof_bytes, rank->start_ns,
			  rank->now_ns, 0, 0, 0);
	if (rank->fate == NSPY_TG_ENDS)
		put_state(w, NSPY_CHUNK_END);
	else if (rank->fate == NSPY_TG_DIES)
		put_state(w, NSPY_CHUNK_STATE);
}

static void make_directories(char *path)
{
	for (char *p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		(void)mkdir(path, 0777);
		*p = '/';
	}
}

static FILE *create(const char *base, const char *suffix)
{
	char path[1024];
	FILE *out;

	(void)snprintf(path, sizeof(path), "%s%s", base, suffix);
	out = fopen(path, "wb");
	if (!out) {
		perror(path);
		exit(2);
	}
	return out;
}

static void write_exit(const struct nspy_tg *tg, const struct nspy_tg_rank *rank, const char *base)
{
	FILE *out = create(base, ".exit");

	fprintf(out, "pid=%" PRIu64 "\n", pid_of(rank));
	if (rank->exit_line)
		fprintf(out, "%s\nreal_ns=%" PRIu64 "\n", rank->exit_line,
			rank->exit_ns + (uint64_t)nspy_tg_offset(tg, rank));
	if (rank->asked_ns)
		fprintf(out, "asked_signal=15\nasked_real_ns=%" PRIu64 "\nasked_by=1\n",
			rank->asked_ns + (uint64_t)nspy_tg_offset(tg, rank));
	fclose(out);
}

static void write_live(const struct writer *w, const uint8_t *ident, size_t ident_bytes,
		       const char *base)
{
	char suffix[40];
	size_t bytes;
	void *image = nspy_tg_live_image(w->tg, w->rank, ident, ident_bytes, nspy_tg_schema,
					 w->run_id, &bytes);
	FILE *out;

	(void)snprintf(suffix, sizeof(suffix), ".%016" PRIx64 ".live", w->run_id);
	out = create(base, suffix);
	fwrite(image, 1, bytes, out);
	fclose(out);
	free(image);
}

void nspy_tg_write_process(const struct nspy_tg *tg, struct nspy_tg_rank **ranks, size_t count,
			   const char *directory)
{
	uint8_t *ident = calloc(1, NSPY_LIVE_IDENT_BYTES);
	const struct nspy_tg_rank *rank = ranks[0];
	struct writer w = {.tg = tg, .rank = rank, .ranks = ranks, .rank_count = count};
	char base[900], name[64];
	size_t ident_bytes;

	(void)snprintf(name, sizeof(name), "run %d %d", rank->generation, rank->rank);
	w.run_id = nspy_tg_hash(name, nspy_tg_hash(tg->job, 3));
	w.workspace = calloc(1, nspy_packer_bytes());
	w.packer = nspy_packer_init(w.workspace, nspy_packer_bytes());
	w.scratch = calloc(1, nspy_ops_scratch_bytes());
	w.raw = malloc(NSPY_CHUNK_RAW_BYTES_MAX);
	w.packed = malloc(nspy_chunk_bound(NSPY_CHUNK_RAW_BYTES_MAX));
	(void)snprintf(base, sizeof(base), "%s/%s/%s/%08" PRIx32 ".4026531836.%" PRIu64 ".%d",
		       directory, tg->job, rank->node, (uint32_t)nspy_tg_hash(rank->node, 7),
		       pid_of(rank), 100 + rank->rank);
	make_directories(base);
	w.out = create(base, ".000.nspy");
	ident_bytes = make_ident(&w, ident);
	write_chunks(&w, ident, ident_bytes);
	fclose(w.out);
	if (rank->fate == NSPY_TG_DIES_LIVE)
		write_live(&w, ident, ident_bytes, base);
	if (rank->exit_line || rank->asked_ns)
		write_exit(tg, rank, base);
	free(w.workspace);
	free(w.scratch);
	free(w.raw);
	free(w.packed);
	free(ident);
}
