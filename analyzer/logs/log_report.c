/* SPDX-License-Identifier: Apache-2.0 */
#include "log_report.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../foreign/flight.h"
#include "text.h"

int nspy_log_worst(const struct nspy_findings *findings)
{
	int worst = 9;

	for (size_t i = 0; i < findings->count; i++) {
		if (!findings->items[i]->ignored && findings->items[i]->priority < worst)
			worst = findings->items[i]->priority;
	}
	return worst;
}

static const struct nspy_finding *top_of(const struct nspy_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		if (findings->items[i]->priority <= 1 && !findings->items[i]->ignored)
			return findings->items[i];
	}
	return NULL;
}

/* --- facts for the head --- */

struct facts {
	size_t ranks, hosts;
	int64_t world;
	uint64_t lines, cut;
};

static struct facts facts_of(const struct nspy_log *log)
{
	struct facts f = {.world = -1};

	for (size_t i = 0; i < log->source_count; i++) {
		const struct nspy_proc *proc = log->sources[i]->proc;
		const char *host = nspy_proc_fact(proc, "host");
		bool seen = !host;

		f.ranks += proc->rank >= 0;
		f.world = proc->world > f.world ? proc->world : f.world;
		for (size_t k = 0; k < i && !seen; k++) {
			const char *other = nspy_proc_fact(log->sources[k]->proc, "host");

			seen = other && strcmp(other, host) == 0;
		}
		f.hosts += !seen;
	}
	for (size_t i = 0; i < log->file_count; i++) {
		f.lines += log->files[i].lines;
		f.cut += log->files[i].cut;
	}
	return f;
}

/* Remarks that are no findings. */
static void remarks(const struct nspy_log *log, struct nspy_texts *ret)
{
	struct facts f = facts_of(log);
	uint64_t noise = 0;
	const struct nspy_log_event *example = NULL;

	for (size_t i = 0; i < log->event_count; i++) {
		if (log->events[i]->klass == NSPY_LOG_NOISE) {
			noise += log->events[i]->count;
			example = example ? example : log->events[i];
		}
	}
	if (noise)
		nspy_texts_add(ret, nspy_xasprintf("%" PRIu64
						   " lines look like trouble and are none (%s: %s)",
						   noise, nspy_log_rules[example->rule].fragment,
						   nspy_log_rules[example->rule].meaning));
	if (f.cut)
		nspy_texts_add(ret,
			       nspy_xasprintf("%" PRIu64 " lines were longer than %u KiB and cut",
					      f.cut, NSPY_LINE_MAX >> 10));
	if (log->events_lost)
		nspy_texts_add(ret,
			       nspy_xasprintf("%" PRIu64 " distinct events beyond what is kept",
					      log->events_lost));
}

static void not_seen(const struct nspy_log *log, struct nspy_texts *ret)
{
	struct facts f = facts_of(log);

	nspy_texts_add(ret,
		       nspy_xstrdup("whatever nobody printed: logs show much less than traces"));
	if (!log->comm_count && f.lines)
		nspy_texts_add(
			ret,
			nspy_xstrdup("communicators (NCCL_DEBUG=INFO was not set, or the beginning "
				     "is missing)"));
	if (f.world > 0 && (size_t)f.world > f.ranks && f.ranks)
		nspy_texts_add(ret, nspy_xasprintf("the lines of %" PRId64 " of %" PRId64 " ranks",
						   f.world - (int64_t)f.ranks, f.world));
}

/* --- text --- */

static void print_head(const struct nspy_log *log, FILE *out)
{
	struct facts f = facts_of(log);
	struct nspy_str s = {0};

	nspy_str_addf(&s, "logs  %zu file%s  ", log->file_count, log->file_count == 1 ? "" : "s");
	nspy_add_count(&s, f.lines);
	nspy_str_add(&s, " lines  ");
	nspy_str_addf(&s, "%zu ", f.ranks);
	if (f.world > 0 && (size_t)f.world != f.ranks)
		nspy_str_addf(&s, "of %" PRId64 " ", f.world);
	nspy_str_addf(&s, "ranks on %zu node%s", f.hosts, f.hosts == 1 ? "" : "s");
	if (nspy_flights_count(log->flights))
		nspy_str_addf(&s, "  %zu flight-recorder dumps", nspy_flights_count(log->flights));
	if (log->run_count)
		nspy_str_addf(&s, "  %zu runs of nccl-tests", log->run_count);
	if (log->first_ns && log->last_ns > log->first_ns) {
		nspy_str_add(&s, "  ");
		nspy_add_duration(&s, log->last_ns - log->first_ns);
	}
	fprintf(out, "%s\n", s.text);
	nspy_str_done(&s);
}

void nspy_log_print(const struct nspy_log *log, const struct nspy_findings *findings, FILE *out,
		    bool colour)
{
	struct nspy_texts notes = {0}, dark = {0};

	print_head(log, out);
	nspy_report_print_verdict(top_of(findings), out, colour);
	for (size_t i = 0; i < findings->count; i++)
		nspy_report_print_finding(findings->items[i], out, colour);
	remarks(log, &notes);
	for (size_t i = 0; i < notes.count; i++)
		fprintf(out, "[INFO] %s\n", notes.text[i]);
	not_seen(log, &dark);
	fputs("not seen: ", out);
	for (size_t i = 0; i < dark.count; i++)
		fprintf(out, "%s%s", i ? "; " : "", dark.text[i]);
	fputs("\n", out);
	nspy_texts_free(&notes);
	nspy_texts_free(&dark);
}

/* --- JSON --- */

static cJSON *array_of(struct nspy_texts *texts)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < texts->count; i++)
		cJSON_AddItemToArray(array, cJSON_CreateString(texts->text[i]));
	nspy_texts_free(texts);
	return array;
}

static void add_time(cJSON *object, const char *name, uint64_t ns)
{
	struct nspy_str s = {0};

	if (ns)
		nspy_add_time(&s, ns);
	cJSON_AddItemToObject(object, name, ns ? cJSON_CreateString(s.text) : cJSON_CreateNull());
	nspy_str_done(&s);
}

static cJSON *totals_json(const struct nspy_log *log)
{
	static const char *const zero[] = {"operations", "bytes", "records", "lost_records",
					   "complete",   "cut",   "running"};
	struct facts f = facts_of(log);
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "ranks", (double)f.ranks);
	cJSON_AddNumberToObject(object, "world_size", (double)f.world);
	cJSON_AddNumberToObject(object, "nodes", (double)f.hosts);
	cJSON_AddNumberToObject(object, "log_files", (double)log->file_count);
	cJSON_AddNumberToObject(object, "log_lines", (double)f.lines);
	/* Logs know nothing of these. */
	for (size_t i = 0; i < nspy_array_size(zero); i++)
		cJSON_AddNumberToObject(object, zero[i], 0);
	return object;
}

struct cJSON *nspy_log_json(const struct nspy_log *log, const struct nspy_findings *findings)
{
	const struct nspy_finding *top = top_of(findings);
	cJSON *object = cJSON_CreateObject(), *verdict, *list = cJSON_CreateArray();
	struct nspy_texts notes = {0}, dark = {0}, none = {0};

	cJSON_AddStringToObject(object, "job", "logs");
	cJSON_AddNumberToObject(object, "attempts", 1);
	cJSON_AddNumberToObject(object, "attempt", 1);
	add_time(object, "start", log->first_ns);
	add_time(object, "end", log->last_ns);
	cJSON_AddItemToObject(object, "totals", totals_json(log));
	verdict = cJSON_AddObjectToObject(object, "verdict");
	cJSON_AddStringToObject(verdict, "cause", top ? top->cause : "no P0 or P1 finding");
	cJSON_AddStringToObject(verdict, "page", top ? top->owner : "nobody");
	cJSON_AddStringToObject(verdict, "do", top ? top->action : "nothing");
	cJSON_AddStringToObject(verdict, "restart", top ? top->restart : "not needed");
	for (size_t i = 0; i < findings->count; i++)
		cJSON_AddItemToArray(list, nspy_report_finding_json(findings->items[i]));
	cJSON_AddItemToObject(object, "findings", list);
	remarks(log, &notes);
	not_seen(log, &dark);
	cJSON_AddItemToObject(object, "warnings", array_of(&none));
	cJSON_AddItemToObject(object, "notes", array_of(&notes));
	cJSON_AddItemToObject(object, "not_seen", array_of(&dark));
	return object;
}

/* --- beside traces --- */

void nspy_log_merge(struct nspy_report *report, struct nspy_findings *findings)
{
	struct nspy_findings *all = &report->findings;

	for (size_t i = 0; i < findings->count; i++) {
		struct nspy_finding *finding = findings->items[i];
		struct nspy_finding *same = nspy_findings_get(all, finding->id);

		if (same) {
			nspy_finding_detail(same, "the logs say: %s", finding->summary);
			continue;
		}
		nspy_texts_add(&finding->details, nspy_xstrdup("from the logs, not from traces"));
		/* Behind what traces show of the same priority. */
		finding->order = finding->order / 4 + (1 << 29);
		all->items = nspy_grow(all->items, all->count, &all->capacity,
				       sizeof(struct nspy_finding *));
		all->items[all->count++] = finding;
		findings->items[i] = NULL;
	}
	nspy_findings_sort(all);
}
