/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclras -f json (NCCL 2.28.7 and later), nccl-tests -J, NCCL's Inspector (2.27 and later).
 * Inspector's times contain the wait for others: the rank that is late has the shortest ones.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"
#include "text.h"

static double number_of(const cJSON *object, const char *key, double other)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsNumber(item) ? item->valuedouble : other;
}

static const char *text_of(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsString(item) ? item->valuestring : "?";
}

static bool is_true(const cJSON *object, const char *key)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
}

/* --- RAS --- */

static double total(const cJSON *rank)
{
	const cJSON *counts = cJSON_GetObjectItemCaseSensitive(rank, "collective_counts"), *count;
	double sum = 0;

	cJSON_ArrayForEach(count, counts) sum += cJSON_IsNumber(count) ? count->valuedouble : 0;
	return sum;
}

static void ras_states(struct nspy_log *log, const cJSON *ranks, const char *comm)
{
	const cJSON *rank;

	cJSON_ArrayForEach(rank, ranks)
	{
		const cJSON *status = cJSON_GetObjectItemCaseSensitive(rank, "status");
		double error = number_of(status, "async_error", 0);
		int64_t number = (int64_t)number_of(rank, "rank", -1);

		if (error != 0 && error != 7)
			nspy_foreign_say(
				log, NSPY_LOG_RAS_DEAD, NSPY_FINDING_NCCL_CALL_FAILED,
				NSPY_LOG_SYMPTOM, 1, number,
				nspy_xasprintf(
					"RAS: communicator %.40s has the asynchronous error %.0f",
					comm, error));
		if (number_of(status, "init_state", 0) == 7)
			nspy_foreign_say(
				log, NSPY_LOG_RAS_DEAD, NSPY_FINDING_INIT_TIMEOUT, NSPY_LOG_SYMPTOM,
				1, number,
				nspy_xasprintf("RAS: communicator %.40s is still being created",
					       comm));
	}
}

static void ras_counts(struct nspy_log *log, const cJSON *ranks, const char *comm)
{
	double low = -1, high = -1;
	const cJSON *rank;
	struct nspy_str s = {0};
	int64_t behind[64];
	size_t count = 0;

	cJSON_ArrayForEach(rank, ranks)
	{
		double own = total(rank);

		low = low < 0 || own < low ? own : low;
		high = own > high ? own : high;
	}
	if (low < 0 || high <= low)
		return;
	cJSON_ArrayForEach(rank, ranks)
	{
		if (total(rank) == low && count < nspy_array_size(behind))
			behind[count++] = (int64_t)number_of(rank, "rank", -1);
	}
	nspy_str_add(&s, "RAS: ranks ");
	nspy_add_ranges(&s, behind, nspy_sort_unique(behind, count));
	nspy_str_addf(
		&s,
		" of communicator %.40s have come to %.0f operations, others to %.0f; harmless if "
		"both rise",
		comm, low, high);
	/* A snapshot of a healthy job shows differences of a step, too. */
	nspy_foreign_say(log, NSPY_LOG_RAS_COUNTS, NSPY_FINDING_COLLECTIVE_HANG, NSPY_LOG_SYMPTOM,
			 1, count == 1 ? behind[0] : -1, nspy_str_take(&s));
}

static void ras_missing(struct nspy_log *log, const cJSON *missing, const char *comm)
{
	const cJSON *rank;

	cJSON_ArrayForEach(rank, missing)
	{
		const cJSON *status = cJSON_GetObjectItemCaseSensitive(rank, "status");
		bool dead = is_true(status, "considered_dead") || is_true(rank, "considered_dead");

		nspy_foreign_say(
			log, NSPY_LOG_RAS_DEAD,
			dead ? NSPY_FINDING_RANK_DIED : NSPY_FINDING_COLLECTIVE_HANG,
			NSPY_LOG_SYMPTOM, dead ? 0 : 1, (int64_t)number_of(rank, "rank", -1),
			nspy_xasprintf("RAS: a rank of communicator %.40s on %.60s (pid %.0f) %s",
				       comm, text_of(rank, "host"), number_of(rank, "pid", -1),
				       dead ? "is considered dead" : "does not answer"));
	}
}

bool nspy_foreign_ras(struct nspy_log *log, const char *path, const struct cJSON *tree)
{
	const cJSON *comms = cJSON_GetObjectItemCaseSensitive(tree, "communicators"), *comm;

	(void)path;
	if (!cJSON_IsArray(comms))
		return false;
	cJSON_ArrayForEach(comm, comms)
	{
		const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(comm, "ranks");

		ras_missing(log, cJSON_GetObjectItemCaseSensitive(comm, "missing_ranks"),
			    text_of(comm, "hash"));
		ras_counts(log, ranks, text_of(comm, "hash"));
		ras_states(log, ranks, text_of(comm, "hash"));
	}
	return true;
}

/* --- nccl-tests --- */

static void add_half(struct nspy_log_bench_run *run, const cJSON *half)
{
	double bw = number_of(half, "bus_bw", 0), wrong = number_of(half, "nwrong", 0);

	run->best = bw > run->best ? bw : run->best;
	run->wrong += wrong > 0 && wrong < 1e15 ? (int64_t)wrong : 0;
}

static void add_devices(struct nspy_log_bench_run *run, const cJSON *devices)
{
	const cJSON *device;

	cJSON_ArrayForEach(device, devices)
	{
		const char *host = text_of(
			device, cJSON_HasObjectItem(device, "hostname") ? "hostname" : "host");
		bool seen = *host == '?';

		for (size_t i = 0; i < run->host_count && !seen; i++)
			seen = strcmp(run->hosts[i], host) == 0;
		if (!seen && run->host_count < nspy_array_size(run->hosts))
			nspy_log_keep(&run->hosts[run->host_count++], host, strlen(host));
	}
}

bool nspy_foreign_tests(struct nspy_log *log, const char *path, const struct cJSON *tree)
{
	const cJSON *results = cJSON_GetObjectItemCaseSensitive(tree, "results"), *row;
	const cJSON *config = cJSON_GetObjectItemCaseSensitive(tree, "config");
	struct nspy_log_bench_run *run;

	(void)path;
	if (!cJSON_IsArray(results))
		return false;
	log->runs = nspy_grow(log->runs, log->run_count, &log->run_capacity, sizeof(*log->runs));
	run = &log->runs[log->run_count++];
	*run = (struct nspy_log_bench_run){.file = (uint32_t)(log->file_count - 1), .json = true};
	cJSON_ArrayForEach(row, results)
	{
		add_half(run, cJSON_GetObjectItemCaseSensitive(row, "out_of_place"));
		add_half(run, cJSON_GetObjectItemCaseSensitive(row, "in_place"));
	}
	add_devices(run, cJSON_GetObjectItemCaseSensitive(config, "devices"));
	return true;
}

/* --- Inspector --- */

#define SERIES_MAX   (1u << 20)
#define SHARE_LATE   0.7 /* of the collectives in which one rank was the last to come */
#define LATE_MIN     20u
#define SHORTER_THAN 0.8 /* its time, of the next one's */

/* One collective on all ranks: who took least, and the next. */
struct round {
	double least, next;
	int64_t rank;
	uint32_t count;
};

struct inspector {
	struct nspy_log *log;
	struct nspy_map rounds;
	struct round **all;
	size_t count, capacity;
	char id[64];
	int64_t rank;
};

static void add_round(struct inspector *in, double sn, double us)
{
	uint64_t key = nspy_log_hash(in->id, strlen(in->id)) ^ nspy_mix((uint64_t)sn + 1);
	struct round *round = nspy_map_get(&in->rounds, key);

	if (!round) {
		if (in->count >= SERIES_MAX)
			return;
		round = nspy_xcalloc(1, sizeof(*round));
		*round = (struct round){.least = 1e300, .next = 1e300, .rank = -1};
		in->all = nspy_grow(in->all, in->count, &in->capacity, sizeof(struct round *));
		in->all[in->count++] = round;
		nspy_map_put(&in->rounds, key, round);
	}
	round->count++;
	if (us < round->least) {
		round->next = round->least;
		round->least = us;
		round->rank = in->rank;
	} else if (us < round->next) {
		round->next = us;
	}
}

static void take_line(void *arg, struct nspy_line *line)
{
	struct inspector *in = arg;
	cJSON *tree = line->bytes < 32768 ? cJSON_ParseWithLength(line->text, line->bytes) : NULL;
	const cJSON *header = cJSON_GetObjectItemCaseSensitive(tree, "header");
	const cJSON *perf = cJSON_GetObjectItemCaseSensitive(tree, "coll_perf");

	/* Newer writers put the header on a line of its own that holds for those behind it. */
	if (header) {
		(void)snprintf(in->id, sizeof(in->id), "%s", text_of(header, "id"));
		in->rank = (int64_t)number_of(header, "rank", -1);
	}
	if (perf && in->rank >= 0 && number_of(perf, "coll_exec_time_us", 0) > 0)
		add_round(in, number_of(perf, "coll_sn", 0),
			  number_of(perf, "coll_exec_time_us", 0));
	cJSON_Delete(tree);
}

/* All files of a job together; they are kept in the log until the end. */
void nspy_foreign_inspector(struct nspy_log *log, const char *path, struct nspy_stream *stream)
{
	(void)path;
	if (!log->inspector) {
		log->inspector = nspy_xcalloc(1, sizeof(*log->inspector));
		log->inspector->log = log;
	}
	log->inspector->rank = -1;
	nspy_lines_each(stream, take_line, log->inspector);
}

void nspy_inspector_free(struct inspector *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->count; i++)
		free(in->all[i]);
	free(in->all);
	nspy_map_done(&in->rounds);
	free(in);
}

void nspy_inspector_judge(const struct inspector *in, struct nspy_model *model,
			  struct nspy_findings *out)
{
	struct nspy_map votes = {0};
	size_t rounds = 0, most = 0;
	int64_t late = -1;
	struct nspy_finding *finding;

	for (size_t i = 0; i < in->count; i++) {
		const struct round *round = in->all[i];
		uintptr_t count;

		rounds += round->count > 1;
		if (round->count < 2 || round->least > SHORTER_THAN * round->next)
			continue;
		count = (uintptr_t)nspy_map_get(&votes, (uint64_t)round->rank + 1) + 1;
		nspy_map_put(&votes, (uint64_t)round->rank + 1,
			     (void *)count); // NOLINT(performance-no-int-to-ptr)
		if (count > most) {
			most = count;
			late = round->rank;
		}
	}
	nspy_map_done(&votes);
	if (most < LATE_MIN || (double)most < SHARE_LATE * (double)rounds)
		return;
	finding = nspy_log_finding(out, NSPY_FINDING_STRAGGLER_RANK, 1, NSPY_LOG_SYMPTOM, 0);
	finding->summary = nspy_xasprintf(
		"rank %" PRId64 " was the last to come to %zu of %zu collectives: its "
		"own times are the shortest, the others' contain the wait for it",
		late, most, rounds);
	finding->cause = nspy_xstrdup(finding->summary);
	for (size_t i = 0; i < model->proc_count; i++) {
		if (model->procs[i]->rank == late)
			nspy_finding_blame(finding, model->procs[i]);
	}
}
