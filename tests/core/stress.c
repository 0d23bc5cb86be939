/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder under load, linked into the program so that sanitizers see all of it: threads come
 * and go, several communicators, groups, bursts. Afterwards the trace is read back: every call is
 * there once or counted as lost, in order, with its sequence number.
 *
 * usage: stress THREADS CALLS ROUNDS [race]: with "race" the threads' own first calls, all at once,
 * start the recording, and none of them may be missing.
 */
#include <dirent.h>
#include <ftw.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init.h"
#include "null_api.h"
#include "trace_reader.h"
#include "writer.h"

#define SERIALS_MAX 4096u
#define COMMS       64u
#define WRITER_MS   100000u

static int calls_per_thread;
static bool race;
static pthread_barrier_t all_ready;
static void *comms[COMMS];

struct serial {
	uint64_t next_index;
	uint64_t coll_seq[COMMS];
};

static struct serial serials[SERIALS_MAX];
static uint64_t calls_found, losses, calls_counted, ends;
static int failures;

#define EXPECT(condition, ...)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "stress: " __VA_ARGS__);                                   \
			fputc('\n', stderr);                                                       \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static void *worker(void *arg)
{
	struct null_id id;
	void *comm;

	if (race) {
		memset(&id, (int)(uintptr_t)arg, sizeof(id));
		pthread_barrier_wait(&all_ready);
		ncclCommInitRank(&comms[(uintptr_t)arg], 8, id, 0);
	}
	comm = comms[(uintptr_t)arg];
	for (int i = 0; i < calls_per_thread; i++) {
		if (i % 10 == 9) {
			ncclGroupStart();
			ncclSend(NULL, (size_t)i, 7, 3, comm, NULL);
			ncclGroupEnd();
		}
		ncclAllReduce(NULL, NULL, (size_t)i, 7, 0, comm, NULL);
		if (i % 500 == 499)
			usleep(2000);
	}
	return NULL;
}

static void run_threads(int threads, int rounds)
{
	pthread_t ids[64];

	pthread_barrier_init(&all_ready, NULL, (unsigned int)threads);
	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < threads; i++)
			if (pthread_create(&ids[i], NULL, worker, (void *)(uintptr_t)i) != 0)
				abort();
		for (int i = 0; i < threads; i++)
			pthread_join(ids[i], NULL);
	}
}

static void check_ops(const struct nspy_chunk_info *info, const uint8_t *payload)
{
	static union nspy_any_rec records[NSPY_CHUNK_RECORDS_MAX];
	struct serial *serial;
	size_t count = 0;

	if (info->thread_serial >= SERIALS_MAX ||
	    nspy_ops_decode(payload, info->raw_bytes, records, NSPY_CHUNK_RECORDS_MAX, &count) <
		    0) {
		EXPECT(0, "chunk %u is unreadable", info->sequence);
		return;
	}
	serial = &serials[info->thread_serial];
	EXPECT(info->first_index >= serial->next_index, "thread %u: records twice",
	       info->thread_serial);
	serial->next_index = info->first_index + count;
	for (size_t i = 0; i < count; i++) {
		const struct nspy_rec *rec = &records[i].call;

		if (rec->kind != NSPY_REC_CALL)
			continue;
		calls_found++;
		EXPECT(rec->leave >= rec->enter, "a call ends before it begins");
		if (rec->seq && !(rec->flags & NSPY_CALL_PEER_SEQ)) {
			uint64_t *last = &serial->coll_seq[rec->comm % COMMS];

			EXPECT(rec->seq > *last, "sequence numbers run backwards");
			*last = rec->seq;
		}
	}
}

static void check_end(const struct nspy_chunk_info *info, const uint8_t *payload)
{
	static struct nspy_comm_rec recs[NSPY_STATE_COMMS_MAX];
	static struct nspy_open_call opens[NSPY_STATE_OPEN_MAX];
	struct nspy_state state;

	if (nspy_state_decode(payload, info->raw_bytes, &state, recs, NSPY_STATE_COMMS_MAX, opens,
			      NSPY_STATE_OPEN_MAX) < 0) {
		EXPECT(0, "the end is unreadable");
		return;
	}
	ends++;
	calls_counted = state.calls;
	losses = state.loss[NSPY_LOSS_RECORDS_NO_PAGE];
	EXPECT(state.loss[NSPY_LOSS_RECORDS_WRITE] == 0, "the disk refused records");
	EXPECT(state.loss[NSPY_LOSS_RECORDS_RING] == 0, "segments were removed");
}

static int check_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct nspy_reader *reader;
	struct nspy_chunk_info info;
	const uint8_t *payload;
	const char *suffix = strrchr(path, '.');

	(void)st;
	(void)ftw;
	if (type != FTW_F || !suffix || strcmp(suffix, ".nspy") != 0)
		return 0;
	EXPECT(nspy_reader_open(path, &reader) == 0, "cannot read %s", path);
	if (failures)
		return 1;
	while (nspy_reader_next(reader, &info, &payload) == 0) {
		if (info.kind == NSPY_CHUNK_OPS)
			check_ops(&info, payload);
		else if (info.kind == NSPY_CHUNK_END)
			check_end(&info, payload);
	}
	nspy_reader_free(reader);
	return 0;
}

static int delete_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/nspy-stress.XXXXXX";
	int threads, rounds, made_per_thread;
	uint64_t made;

	race = argc == 5 && strcmp(argv[4], "race") == 0;
	if ((argc != 4 && !race) || !mkdtemp(dir))
		return 2;
	threads = atoi(argv[1]) > 63 ? 63 : atoi(argv[1]);
	calls_per_thread = atoi(argv[2]);
	rounds = atoi(argv[3]);
	setenv("NCCLSPY_DIR", dir, 1);
	setenv("NCCLSPY_QUIET", "1", 1);
	null_nccl_mark(); /* the program has the wrappers; this keeps the library behind them */
	for (int i = 0; !race && i < (int)COMMS; i++) {
		struct null_id id;

		memset(&id, i, sizeof(id));
		if (ncclCommInitRank(&comms[i], 8, id, 0) != 0)
			return 2;
	}
	run_threads(threads, rounds);
	nspy_stop(0);
	/* A job's end waits for the writer a moment only; here everything is to be read back. */
	(void)nspy_writer_stop(WRITER_MS);

	made_per_thread = calls_per_thread + calls_per_thread / 10 * 3;
	if (race)
		made_per_thread++;
	made = (race ? 0 : COMMS) +
	       (uint64_t)threads * (uint64_t)rounds * (uint64_t)made_per_thread;
	nftw(dir, check_file, 16, FTW_PHYS);
	EXPECT(ends == 1, "%llu ends", (unsigned long long)ends);
	EXPECT(calls_counted == made, "%llu calls counted, %llu made",
	       (unsigned long long)calls_counted, (unsigned long long)made);
	/* Texts and communicators count as records too, so a loss may be one of those. */
	EXPECT(calls_found <= made && calls_found + losses >= made,
	       "%llu calls found, %llu lost, %llu made", (unsigned long long)calls_found,
	       (unsigned long long)losses, (unsigned long long)made);
	printf("stress: %llu calls, %llu found, %llu lost\n", (unsigned long long)made,
	       (unsigned long long)calls_found, (unsigned long long)losses);
	nftw(dir, delete_file, 16, FTW_PHYS | FTW_DEPTH);
	return failures ? 1 : 0;
}
