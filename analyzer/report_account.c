/* SPDX-License-Identifier: Apache-2.0 */
/* What ncclspy says of itself in a report, in both forms: what it did not keep, was told, has cost.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kept.h"
#include "report.h"
#include "text.h"
#include "who.h"

#define COMMANDS_SHOWN 12u
#define PERCENT        100

/* Processes that gave an account, each once: parts of one share it. */
static bool is_first(const struct nspy_attempt *attempt, size_t i)
{
	const struct nspy_proc *whole = nspy_proc_whole(attempt->procs[i]);

	for (size_t k = 0; attempt->procs[i]->whole && k < i; k++)
		if (nspy_proc_whole(attempt->procs[k]) == whole)
			return false;
	return true;
}

struct kept {
	uint64_t records;           /* not kept */
	uint64_t from_ns, until_ns; /* the first and the last of them */
	struct nspy_procs procs;    /* of which some were not kept */
	struct nspy_procs dark;     /* keep nothing at the end of their trace */
};

static void find_kept(const struct nspy_report *report, struct kept *ret)
{
	*ret = (struct kept){0};
	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *proc = report->attempt->procs[i];
		const struct nspy_proc *whole = nspy_proc_whole(proc);
		const struct nspy_account *account = &whole->account;

		if (account->mode.mode != NSPY_MODE_RECORD)
			nspy_procs_add(&ret->dark, proc);
		if (account->hole_count)
			nspy_procs_add(&ret->procs, proc);
		for (size_t h = 0; h < account->hole_count && is_first(report->attempt, i); h++) {
			uint64_t from = nspy_proc_when(whole, account->holes[h].from_ns);
			uint64_t until = nspy_proc_when(whole, account->holes[h].until_ns);

			ret->records += account->holes[h].records;
			if (!ret->from_ns || from < ret->from_ns)
				ret->from_ns = from;
			if (until > ret->until_ns)
				ret->until_ns = until;
		}
	}
}

static void kept_done(struct kept *kept)
{
	free(kept->procs.items);
	free(kept->dark.items);
}

void nspy_report_holes(const struct nspy_report *report, struct nspy_texts *warn)
{
	struct nspy_str s = {0};
	struct kept kept;

	find_kept(report, &kept);
	if (kept.records) {
		nspy_str_addf(&s, "%" PRIu64 " records between ", kept.records);
		nspy_add_clock(&s, kept.from_ns);
		nspy_str_add(&s, " and ");
		nspy_add_clock(&s, kept.until_ns);
		nspy_str_add(&s, " were not kept, as asked, on ");
		nspy_add_procs_short(&s, kept.procs.items, kept.procs.count);
		nspy_str_add(&s, ": nothing is concluded from what is missing there");
		nspy_texts_add(warn, nspy_str_take(&s));
	}
	if (kept.dark.count) {
		nspy_str_add(
			&s, "at the end of the traces nothing is recorded any more, as asked, on ");
		nspy_add_procs_short(&s, kept.dark.items, kept.dark.count);
		nspy_texts_add(warn, nspy_str_take(&s));
	}
	kept_done(&kept);
}

void nspy_report_not_kept(const struct nspy_report *report, struct nspy_texts *ret)
{
	struct kept kept;

	find_kept(report, &kept);
	if (kept.records)
		nspy_texts_add(ret,
			       nspy_xasprintf("%" PRIu64 " records that were not kept (recording "
					      "was off)",
					      kept.records));
	kept_done(&kept);
}

/* --- commands --- */

struct told {
	uint64_t id;
	uint64_t when_ns; /* first taken up */
	const char *text;
	size_t procs;
};

static int compare_told(const void *a, const void *b)
{
	const struct told *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Commands of all processes, the same one once; caller frees. */
static struct told *find_told(const struct nspy_report *report, size_t *ret_count)
{
	struct told *all = NULL;
	size_t count = 0, capacity = 0, kept = 0;

	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *whole = nspy_proc_whole(report->attempt->procs[i]);
		const struct nspy_account *account = &whole->account;

		for (size_t k = 0; k < account->command_count && is_first(report->attempt, i);
		     k++) {
			const struct nspy_account_command *command = &account->commands[k];

			all = nspy_grow(all, count, &capacity, sizeof(*all));
			all[count++] =
				(struct told){command->id, nspy_proc_when(whole, command->taken_ns),
					      command->text, 1};
		}
	}
	if (count)
		qsort(all, count, sizeof(*all), compare_told);
	for (size_t i = 0; i < count; i++) {
		if (!kept || all[kept - 1].id != all[i].id) {
			all[kept++] = all[i];
			continue;
		}
		all[kept - 1].procs++;
		if (all[i].when_ns < all[kept - 1].when_ns)
			all[kept - 1].when_ns = all[i].when_ns;
	}
	*ret_count = kept;
	return all;
}

static void add_commands(const struct nspy_report *report, struct nspy_texts *info)
{
	size_t count;
	struct told *told = find_told(report, &count);
	size_t first = count > COMMANDS_SHOWN ? count - COMMANDS_SHOWN : 0;

	if (first)
		nspy_texts_add(info, nspy_xasprintf("%zu older commands of ncclspy-ctl", first));
	for (size_t i = first; i < count; i++) {
		struct nspy_str s = {0};

		nspy_str_add(&s, "at ");
		nspy_add_clock(&s, told[i].when_ns);
		nspy_str_addf(&s, " (+");
		nspy_add_duration(&s, told[i].when_ns > report->attempt->start_ns
					      ? told[i].when_ns - report->attempt->start_ns
					      : 0);
		nspy_str_addf(&s, ") ncclspy-ctl: %s (%zu process%s)", told[i].text, told[i].procs,
			      told[i].procs == 1 ? "" : "es");
		nspy_texts_add(info, nspy_str_take(&s));
	}
	free(told);
}

/* --- cost --- */

struct cost {
	size_t procs; /* that gave an account */
	uint64_t calls, warm_ns, cold_ns, watcher_ns, writer_ns, written, dropped, lived_ns;
};

static void find_cost(const struct nspy_report *report, struct cost *ret)
{
	*ret = (struct cost){0};
	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *whole = nspy_proc_whole(report->attempt->procs[i]);
		const struct nspy_note_self *self = &whole->account.self;
		uint64_t when = nspy_proc_when(whole, self->when_ns);

		if (!whole->account.has_self || !is_first(report->attempt, i))
			continue;
		ret->procs++;
		ret->calls += whole->calls;
		ret->warm_ns += whole->calls * self->warm_ns;
		ret->cold_ns += whole->calls * self->cold_ns;
		ret->watcher_ns += self->watcher_ns;
		ret->writer_ns += self->writer_ns;
		ret->written += self->written;
		ret->dropped += self->dropped;
		ret->lived_ns += when > whole->start_ns ? when - whole->start_ns : 0;
	}
}

static void add_cost(const struct nspy_report *report, struct nspy_texts *info)
{
	struct nspy_str s = {0};
	struct cost cost;
	uint64_t threads;

	find_cost(report, &cost);
	if (!cost.procs)
		return;
	threads = cost.watcher_ns + cost.writer_ns;
	nspy_str_addf(&s, "ncclspy itself, %zu process%s: ", cost.procs,
		      cost.procs == 1 ? "" : "es");
	if (cost.cold_ns) {
		nspy_add_duration(&s, cost.warm_ns);
		nspy_str_add(&s, " to ");
		nspy_add_duration(&s, cost.cold_ns);
		nspy_str_add(&s, " in the calls (estimated), ");
	}
	nspy_add_duration(&s, threads);
	nspy_str_add(&s, " of CPU in its threads");
	if (cost.lived_ns)
		nspy_str_addf(&s, " (%.2f %% of a core each)",
			      PERCENT * (double)threads / (double)cost.lived_ns);
	nspy_str_add(&s, ", ");
	nspy_add_bytes(&s, (double)cost.written);
	nspy_str_add(&s, " written");
	if (cost.dropped)
		nspy_str_addf(&s, ", %" PRIu64 " of its lines dropped", cost.dropped);
	nspy_texts_add(info, nspy_str_take(&s));
}

void nspy_report_account(const struct nspy_report *report, struct nspy_texts *info)
{
	add_commands(report, info);
	add_cost(report, info);
}

/* --- JSON --- */

static void add_number(cJSON *object, const char *key, uint64_t value)
{
	cJSON_AddNumberToObject(object, key, (double)value);
}

static void add_seconds(cJSON *object, const char *key, uint64_t ns)
{
	cJSON_AddNumberToObject(object, key, (double)ns / (double)NSPY_NS_PER_S);
}

static void add_instant(cJSON *object, const char *key, uint64_t ns)
{
	struct nspy_str s = {0};

	nspy_add_time(&s, ns);
	cJSON_AddStringToObject(object, key, s.text);
	nspy_str_done(&s);
}

static cJSON *holes_json(const struct nspy_report *report)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *whole = nspy_proc_whole(report->attempt->procs[i]);
		const struct nspy_account *account = &whole->account;

		for (size_t h = 0; h < account->hole_count && is_first(report->attempt, i); h++) {
			cJSON *object = cJSON_CreateObject();

			if (whole->rank == NSPY_NO_RANK)
				cJSON_AddNullToObject(object, "rank");
			else
				cJSON_AddNumberToObject(object, "rank", (double)whole->rank);
			cJSON_AddNumberToObject(object, "pid", (double)whole->pid);
			add_instant(object, "from",
				    nspy_proc_when(whole, account->holes[h].from_ns));
			add_instant(object, "until",
				    nspy_proc_when(whole, account->holes[h].until_ns));
			add_number(object, "records", account->holes[h].records);
			cJSON_AddItemToArray(array, object);
		}
	}
	return array;
}

static cJSON *commands_json(const struct nspy_report *report)
{
	cJSON *array = cJSON_CreateArray();
	size_t count;
	struct told *told = find_told(report, &count);

	for (size_t i = 0; i < count; i++) {
		cJSON *object = cJSON_CreateObject();

		add_instant(object, "time", told[i].when_ns);
		cJSON_AddStringToObject(object, "command", told[i].text);
		add_number(object, "processes", told[i].procs);
		cJSON_AddItemToArray(array, object);
	}
	free(told);
	return array;
}

cJSON *nspy_report_account_json(const struct nspy_report *report)
{
	cJSON *object = cJSON_CreateObject();
	struct cost cost;

	find_cost(report, &cost);
	add_number(object, "processes", cost.procs);
	add_number(object, "calls", cost.calls);
	add_seconds(object, "calls_seconds_least", cost.warm_ns);
	add_seconds(object, "calls_seconds_most", cost.cold_ns);
	add_seconds(object, "watcher_cpu_seconds", cost.watcher_ns);
	add_seconds(object, "writer_cpu_seconds", cost.writer_ns);
	add_seconds(object, "process_seconds", cost.lived_ns);
	add_number(object, "written_bytes", cost.written);
	add_number(object, "dropped_lines", cost.dropped);
	cJSON_AddItemToObject(object, "holes", holes_json(report));
	cJSON_AddItemToObject(object, "commands", commands_json(report));
	return object;
}
