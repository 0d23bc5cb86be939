/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "judge.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "call_failures.h"
#include "clock.h"
#include "core.h"
#include "cuda_driver.h"
#include "facts.h"
#include "fold.h"
#include "helper.h"
#include "host_facts.h"
#include "libc_failures.h"
#include "rules.h"
#include "say.h"
#include "tcp_data.h"
#include "trace_reader.h"

#define SAID_MAX   64u
#define LINES_MAX  8u             /* of one process; what is left is in the report */
#define AGAIN_NS   10000000000ull /* memory of the job */
#define PENDING_NS 5000000000ull  /* from the start */
#define TCP_NS     500000000ull   /* between looks at what NCCL's connections carry */

static _Atomic uint32_t comms_good, comms_failed;
static _Atomic bool again;

static struct {
	struct {
		const char *id;
		bool probable;
	} said[SAID_MAX];
	uint32_t said_count, lines;
	uint64_t begin_ns, next_ns, next_tcp_ns;
	bool machine_done, objects_done, helper_done;
	bool pending; /* whether a communicator comes up is not to be judged yet */
} done;

/* Variables as they were when recording began: reading the environment here would not be safe. */
static struct {
	char master_addr[128], master_port[16], wanted[NSPY_WANTED_COUNT][256];
} settings;

/* The facts as they stand, with values ended by zeroes. */
static struct {
	uint8_t payload[NSPY_IDENT_MAX];
	char text[NSPY_IDENT_MAX * 2];
	struct {
		const char *key, *value;
	} fact[512];
	size_t count;
} view;

static void read_facts(void)
{
	long bytes = nspy_facts_copy(view.payload, sizeof(view.payload));
	const char *key, *value;
	size_t cursor = 0, key_bytes, value_bytes, used = 0;

	view.count = 0;
	while (bytes > 0 && view.count < sizeof(view.fact) / sizeof(view.fact[0]) &&
	       nspy_ident_next(view.payload, (size_t)bytes, &cursor, &key, &key_bytes, &value,
			       &value_bytes) == 0 &&
	       used + key_bytes + value_bytes + 2 <= sizeof(view.text)) {
		view.fact[view.count].key = view.text + used;
		memcpy(view.text + used, key, key_bytes);
		view.text[used + key_bytes] = '\0';
		used += key_bytes + 1;
		view.fact[view.count++].value = view.text + used;
		memcpy(view.text + used, value, value_bytes);
		view.text[used + value_bytes] = '\0';
		used += value_bytes + 1;
	}
}

/* Later facts replace earlier ones. */
static const char *get(const void *unused, const char *key)
{
	(void)unused;
	if (strcmp(key, "net.pending") == 0)
		return done.pending ? "1" : NULL;
	for (size_t i = view.count; i-- > 0;)
		if (strcmp(view.fact[i].key, key) == 0)
			return view.fact[i].value;
	return NULL;
}

/* 512 ranks with one cause are one line for each node, or one for the job. */
static bool may_speak(enum nspy_rule_scope scope)
{
	const char *local = get(NULL, "local_rank");
	int rank = nspy_core.id.rank;

	if (scope == NSPY_RULE_RANK || rank <= 0)
		return true;
	return scope == NSPY_RULE_NODE && local && strcmp(local, "0") == 0;
}

/* Its place among what was said; SAID_MAX if it was not. */
static uint32_t place_of(const char *id)
{
	for (uint32_t i = 0; i < done.said_count; i++)
		if (strcmp(done.said[i].id, id) == 0)
			return i;
	return SAID_MAX;
}

static bool was_said(const char *id)
{
	return place_of(id) < SAID_MAX;
}

/* Not every rank of a node may see it: only those with a connection to another node, say. */
static bool may_tell(const struct nspy_rule_hit *hit, bool confirmed)
{
	uint64_t now_ns = nspy_monotonic_ns();

	if (confirmed && hit->scope == NSPY_RULE_NODE)
		return nspy_fold_claim(hit->id, "confirmed", now_ns);
	return may_speak(hit->scope) &&
	       (hit->scope != NSPY_RULE_RANK || nspy_fold_claim(hit->id, hit->text, now_ns));
}

static void tell(const struct nspy_rule_hit *hit, void *unused)
{
	uint32_t place = place_of(hit->id);
	char key[64], who[32] = "";
	bool confirmed = place < SAID_MAX && done.said[place].probable && !hit->probable;

	(void)unused;
	/* What was concluded is said once more when it has been seen. */
	if ((place < SAID_MAX && !confirmed) || done.said_count == SAID_MAX)
		return;
	if (!confirmed)
		place = done.said_count++;
	done.said[place].id = hit->id; /* a constant of the rules */
	done.said[place].probable = hit->probable;
	(void)snprintf(key, sizeof(key), "finding.%s", hit->id);
	nspy_facts_add(key, hit->text);
	if (done.lines >= LINES_MAX || !may_tell(hit, confirmed))
		return;
	done.lines++;
	if (hit->scope == NSPY_RULE_RANK && nspy_core.id.rank >= 0)
		(void)snprintf(who, sizeof(who), "rank %d, ", nspy_core.id.rank);
	nspy_say(hit->priority < 2 ? NSPY_SAY_FAIL : NSPY_SAY_WARN,
		 "P%d %s%s on %snode %.60s: %.240s (ncclspy explain %s)", hit->priority, hit->id,
		 hit->probable ? " (probable)"
		 : confirmed   ? " (confirmed)"
			       : "",
		 who, nspy_core.id.node, hit->text, hit->id);
}

/* Only for an answer that somebody wants: why a plugin is missing, which GPU NCCL works with. */
static void start_helper(uint64_t now_ns)
{
	const char *gpu = get(NULL, "nvml.path") ? get(NULL, "gpu.pci") : NULL;
	bool missing = was_said("NET_PLUGIN_LOAD_FAILED") && !get(NULL, "net_plugin.init");
	char *word = settings.wanted[NSPY_WANTED_NET];

	done.helper_done = true;
	word[strcspn(word, ",")] = '\0';
	if (missing || gpu)
		nspy_helper_start(missing ? word : NULL, gpu, now_ns);
}

static void judge(uint64_t now_ns)
{
	struct nspy_rule_facts facts = {.get = get};

	read_facts();
	facts.span = nspy_rules_span(&facts);
	nspy_rules_run(&facts, tell, NULL);
	if (done.objects_done && !done.helper_done)
		start_helper(now_ns);
}

static void keep(char *ret, size_t bytes, const char *key)
{
	const char *value = get(NULL, key);

	(void)snprintf(ret, bytes, "%s", value ? value : "");
}

static void keep_settings(void)
{
	static const char *const plugins[NSPY_WANTED_COUNT] = {
		"env.NCCL_NET_PLUGIN", "env.NCCL_TUNER_PLUGIN", "env.NCCL_PROFILER_PLUGIN"};

	read_facts();
	keep(settings.master_addr, sizeof(settings.master_addr), "env.MASTER_ADDR");
	keep(settings.master_port, sizeof(settings.master_port), "env.MASTER_PORT");
	for (int i = 0; i < NSPY_WANTED_COUNT; i++)
		keep(settings.wanted[i], sizeof(settings.wanted[i]), plugins[i]);
}

void nspy_judge_start(void)
{
	memset(&done, 0, sizeof(done));
	atomic_store(&comms_good, 0);
	atomic_store(&comms_failed, 0);
	nspy_fold_start();
	nspy_tcp_start();
	nspy_call_failures_start();
}

void nspy_judge_comm_outcome(bool good)
{
	atomic_fetch_add_explicit(good ? &comms_good : &comms_failed, 1, memory_order_relaxed);
}

void nspy_judge_again(void)
{
	atomic_store_explicit(&again, true, memory_order_release);
}

/* The line about the plugin is out already: this is the rest of it. */
static void say_probe(void)
{
	const char *text;

	read_facts();
	text = get(NULL, "net_plugin.probe");
	if (text && may_speak(NSPY_RULE_NODE))
		nspy_say(NSPY_SAY_INFO, "node %.60s, probe of the network plugin: %.300s",
			 nspy_core.id.node, text);
}

/* Probable is not enough: what do NCCL's connections carry? */
static bool look_at_connections(uint64_t now_ns, bool last)
{
	uint32_t place = place_of("TCP_FALLBACK");

	if (place == SAID_MAX || !done.said[place].probable || (!last && now_ns < done.next_tcp_ns))
		return false;
	done.next_tcp_ns = now_ns + TCP_NS;
	return nspy_tcp_look();
}

static bool look(uint64_t now_ns, bool last)
{
	struct nspy_creations creations = {
		.good = atomic_load_explicit(&comms_good, memory_order_relaxed),
		.failed = atomic_load_explicit(&comms_failed, memory_order_relaxed),
		.last = last,
		.master_addr = settings.master_addr,
		.master_port = settings.master_port,
	};
	const char *wanted[NSPY_WANTED_COUNT];
	bool changed = false;

	if (!done.machine_done) {
		done.machine_done = changed = true;
		keep_settings();
		nspy_host_facts();
		nspy_nic_facts();
		done.begin_ns = now_ns;
		done.next_ns = now_ns + AGAIN_NS;
	}
	if (!done.objects_done && (creations.good || creations.failed)) {
		done.objects_done = changed = true;
		for (int i = 0; i < NSPY_WANTED_COUNT; i++)
			wanted[i] = settings.wanted[i];
		nspy_object_facts(wanted);
		if (creations.good)
			nspy_facts_add("net.up", "1");
		nspy_shm_segment_facts();
	}
	if (now_ns >= done.next_ns) {
		done.next_ns = now_ns + AGAIN_NS;
		nspy_cgroup_facts();
		changed = true;
	}
	creations.waiting_ns = now_ns - done.begin_ns;
	done.pending = !done.objects_done && creations.waiting_ns < PENDING_NS;
	if (nspy_helper_poll(now_ns)) {
		changed = true;
		say_probe();
	}
	changed |= look_at_connections(now_ns, last);
	changed |= atomic_exchange_explicit(&again, false, memory_order_acquire);
	return nspy_libc_failures_tell(&creations) || changed;
}

void nspy_judge_tick(uint64_t now_ns)
{
	bool changed = look(now_ns, false);

	nspy_call_failures_tell(now_ns, false, tell);
	nspy_cuda_driver_facts(false);
	if (changed)
		judge(now_ns);
	nspy_fold_tell(now_ns, false);
}

void nspy_judge_last(uint64_t now_ns)
{
	/* A program that ends with an error before it has a communicator has not made one. */
	if (nspy_core.head->exit_code != 0)
		nspy_judge_comm_outcome(false);
	done.helper_done = true;
	if (look(now_ns, true))
		judge(now_ns);
	nspy_call_failures_tell(now_ns, true, tell);
	nspy_cuda_driver_facts(true);
	nspy_fold_tell(now_ns, true);
	nspy_helper_end();
}
