/* SPDX-License-Identifier: Apache-2.0 */
/* The network section of a report, in both forms. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "text.h"
#include "who.h"

#define RANKS_TOLD 8u /* one line each; more of them are told together */

struct sums {
	uint64_t counter[NSPY_NET_COUNTER_COUNT];
	uint64_t registered, failures;
};

static void add_sums(struct sums *sums, const struct nspy_proc *proc)
{
	const struct nspy_net_view *net = &proc->net;

	for (size_t i = 0; i < net->rail_count; i++) {
		for (int k = 0; k < NSPY_NET_COUNTER_COUNT; k++) {
			if (k != NSPY_NET_TIME_MAX)
				sums->counter[k] += net->rails[i].counter[k];
			else if (sums->counter[k] < net->rails[i].counter[k])
				sums->counter[k] = net->rails[i].counter[k];
		}
	}
	/* libfabric registers through verbs: the lower layer has both, if there is one. */
	sums->registered += net->memory[NSPY_NET_VERBS].registrations
				    ? net->memory[NSPY_NET_VERBS].live_bytes
				    : net->memory[NSPY_NET_LIBFABRIC].live_bytes;
	sums->failures +=
		net->memory[NSPY_NET_VERBS].no_memory + net->memory[NSPY_NET_LIBFABRIC].no_memory;
}

/* "efa on rdmap0s6, rdmap1s6; tcp (traffic not recorded)" */
static char *rails_text(const struct nspy_net_view *net)
{
	struct nspy_str s = {0};
	const char *last = NULL;

	for (size_t i = 0; i < net->rail_count; i++) {
		const struct nspy_net_rail_view *rail = &net->rails[i];

		if (!rail->known)
			continue;
		if (last && strcmp(last, rail->provider) == 0 && rail->sight == NSPY_NET_SEEN) {
			nspy_str_addf(&s, ", %s", nspy_net_rail_name(rail));
			continue;
		}
		nspy_str_addf(&s, "%s%s", last ? "; " : "", rail->provider);
		if (rail->sight == NSPY_NET_SEEN)
			nspy_str_addf(&s, " on %s", nspy_net_rail_name(rail));
		else
			nspy_str_add(&s, rail->sight == NSPY_NET_NOT_ASKED
						 ? " (traffic not recorded)"
						 : " (traffic cannot be recorded)");
		last = rail->provider;
	}
	if (!last)
		nspy_str_add(&s, "verbs");
	return nspy_str_take(&s);
}

/* Parts of a process share its network: the first one tells. */
static bool is_told(const struct nspy_attempt *attempt, size_t i)
{
	for (size_t k = 0; attempt->procs[i]->whole && k < i; k++) {
		if (attempt->procs[k]->whole == attempt->procs[i]->whole)
			return true;
	}
	return false;
}

static bool has_network(const struct nspy_proc *proc)
{
	const struct nspy_net_view *net = &proc->net;

	for (size_t i = 0; i < net->rail_count; i++) {
		if (net->rails[i].known)
			return true;
	}
	return net->memory[NSPY_NET_VERBS].registrations || net->memory[NSPY_NET_VERBS].failures;
}

static void add_traffic(struct nspy_str *s, const struct sums *sums)
{
	const uint64_t *n = sums->counter;

	nspy_str_add(s, ": sent ");
	nspy_add_bytes(s, (double)(n[NSPY_NET_SEND_BYTES] + n[NSPY_NET_WRITE_BYTES]));
	nspy_str_add(s, " in ");
	nspy_add_count(s, n[NSPY_NET_SENDS] + n[NSPY_NET_WRITES]);
	nspy_str_add(s, " operations, read ");
	nspy_add_bytes(s, (double)n[NSPY_NET_READ_BYTES]);
	nspy_str_addf(s, ", %" PRIu64 " error%s", n[NSPY_NET_ERRORS],
		      n[NSPY_NET_ERRORS] == 1 ? "" : "s");
	if (n[NSPY_NET_TIMED]) {
		nspy_str_add(s, ", an operation took ");
		nspy_add_duration(s, n[NSPY_NET_TIME_SUM] / n[NSPY_NET_TIMED]);
		nspy_str_add(s, " on average, ");
		nspy_add_duration(s, n[NSPY_NET_TIME_MAX]);
		nspy_str_add(s, " at most");
	}
	if (sums->registered) {
		nspy_str_add(s, ", ");
		nspy_add_bytes(s, (double)sums->registered);
		nspy_str_add(s, " registered");
	}
	if (sums->failures)
		nspy_str_addf(s, ", %" PRIu64 " registration%s refused", sums->failures,
			      sums->failures == 1 ? "" : "s");
}

static void tell_group(struct nspy_texts *ret, const struct nspy_procs *group, const char *rails)
{
	struct nspy_str s = {0};
	struct sums sums = {0};

	for (size_t i = 0; i < group->count; i++)
		add_sums(&sums, group->items[i]);
	nspy_str_add(&s, "network: ");
	nspy_add_procs_short(&s, group->items, group->count);
	nspy_str_addf(&s, " by %s", rails);
	add_traffic(&s, &sums);
	nspy_texts_add(ret, nspy_str_take(&s));
}

/* Ranks with the same rails together, or each alone if they are few. */
void nspy_report_network(const struct nspy_report *report, struct nspy_texts *ret)
{
	const struct nspy_attempt *attempt = report->attempt;
	bool *told = nspy_xcalloc(attempt->proc_count, sizeof(*told));
	bool apart = attempt->proc_count <= RANKS_TOLD;

	for (size_t i = 0; i < attempt->proc_count; i++) {
		struct nspy_procs group = {0};
		char *rails;

		if (told[i] || !has_network(attempt->procs[i]) || is_told(attempt, i))
			continue;
		rails = rails_text(&attempt->procs[i]->net);
		nspy_procs_add(&group, attempt->procs[i]);
		for (size_t k = i + 1; k < attempt->proc_count && !apart; k++) {
			char *theirs;

			if (told[k] || !has_network(attempt->procs[k]) || is_told(attempt, k))
				continue;
			theirs = rails_text(&attempt->procs[k]->net);
			told[k] = strcmp(rails, theirs) == 0;
			if (told[k])
				nspy_procs_add(&group, attempt->procs[k]);
			free(theirs);
		}
		tell_group(ret, &group, rails);
		free(group.items);
		free(rails);
	}
	free(told);
}

/* --- JSON --- */

static cJSON *counters_json(const uint64_t *counter)
{
	cJSON *object = cJSON_CreateObject();

	for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++)
		cJSON_AddNumberToObject(object, nspy_net_counter_name((enum nspy_net_counter)i),
					(double)counter[i]);
	return object;
}

static cJSON *rail_json(const struct nspy_net_rail_view *rail)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "provider", rail->provider);
	cJSON_AddStringToObject(object, "fabric", rail->fabric);
	cJSON_AddStringToObject(object, "domain", rail->domain);
	cJSON_AddStringToObject(object, "nic", rail->nic);
	cJSON_AddStringToObject(object, "address", rail->address);
	cJSON_AddStringToObject(object, "sight", nspy_net_sight_name(rail->sight));
	cJSON_AddNumberToObject(object, "bits_per_s", (double)rail->speed);
	cJSON_AddNumberToObject(object, "busy_seconds", (double)rail->busy_ns / 1e9);
	cJSON_AddNumberToObject(object, "peak_bytes_per_s", rail->peak);
	cJSON_AddItemToObject(object, "traffic", counters_json(rail->counter));
	return object;
}

static cJSON *memory_json(const struct nspy_net_memory *memory)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "registrations", (double)memory->registrations);
	cJSON_AddNumberToObject(object, "bytes", (double)memory->bytes);
	cJSON_AddNumberToObject(object, "live_bytes", (double)memory->live_bytes);
	cJSON_AddNumberToObject(object, "failures", (double)memory->failures);
	cJSON_AddNumberToObject(object, "no_memory", (double)memory->no_memory);
	return object;
}

cJSON *nspy_report_network_json(const struct nspy_report *report)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *proc = report->attempt->procs[i];
		cJSON *object, *rails;

		if (!has_network(proc) || is_told(report->attempt, i))
			continue;
		object = cJSON_CreateObject();
		rails = cJSON_CreateArray();
		if (proc->rank >= 0)
			cJSON_AddNumberToObject(object, "rank", (double)proc->rank);
		else
			cJSON_AddNullToObject(object, "rank");
		cJSON_AddStringToObject(object, "node", nspy_proc_host(proc));
		cJSON_AddNumberToObject(object, "pid", (double)proc->pid);
		for (size_t r = 0; r < proc->net.rail_count; r++) {
			if (proc->net.rails[r].known)
				cJSON_AddItemToArray(rails, rail_json(&proc->net.rails[r]));
		}
		cJSON_AddItemToObject(object, "rails", rails);
		cJSON_AddItemToObject(object, "libfabric_memory",
				      memory_json(&proc->net.memory[NSPY_NET_LIBFABRIC]));
		cJSON_AddItemToObject(object, "verbs_memory",
				      memory_json(&proc->net.memory[NSPY_NET_VERBS]));
		cJSON_AddItemToArray(array, object);
	}
	return array;
}
