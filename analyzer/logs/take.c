/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that need more than a rule: facts about ranks, communicators, networks, environment. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

/* --- where communicators stand --- */

static struct nspy_log_comm *comm_of(struct nspy_log *log, uint64_t id, int64_t nranks)
{
	uint64_t key = nspy_mix(id ^ (uint64_t)nranks << 48);
	struct nspy_log_comm *comm = nspy_map_get(&log->by_comm, key);

	if (comm || log->comm_count >= NSPY_LOG_COMMS_MAX)
		return comm;
	comm = nspy_xcalloc(1, sizeof(*comm));
	comm->id = id;
	comm->nranks = (int32_t)nranks;
	comm->order = log->order;
	log->comms = nspy_grow(log->comms, log->comm_count, &log->comm_capacity,
			       sizeof(struct nspy_log_comm *));
	log->comms[log->comm_count++] = comm;
	nspy_map_put(&log->by_comm, key, comm);
	return comm;
}

static struct nspy_log_member *member_of(struct nspy_log_comm *comm, int64_t rank)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		if (comm->members[i].rank == rank)
			return &comm->members[i];
	}
	if (comm->member_count >= 65536)
		return NULL;
	comm->members = nspy_grow(comm->members, comm->member_count, &comm->member_capacity,
				  sizeof(*comm->members));
	comm->members[comm->member_count] = (struct nspy_log_member){.rank = (int32_t)rank};
	return &comm->members[comm->member_count++];
}

/* "comm 0x.. rank 3 nranks 8 cudaDev 3 .. commId 0x.. - Init START" */
static void take_init(struct nspy_log_look *look, bool done)
{
	const char *text = strstr(look->line->text, "comm ");
	int64_t rank, nranks, id = 0;
	const char *p;
	struct nspy_log_comm *comm;
	struct nspy_log_member *member;

	if (!text || !nspy_log_number(text, "rank ", &rank) ||
	    !(nspy_log_number(text, "nranks ", &nranks) ||
	      nspy_log_number(text, "nRanks ", &nranks)))
		return;
	p = strstr(text, "commId 0x");
	if (p)
		id = (int64_t)strtoull(p + 7, NULL, 16);
	if (rank < 0 || nranks < 1 || nranks > (1 << 20) || rank >= nranks)
		return;
	if (!p && strstr(text, "parent"))
		return; /* a child of a split: no name that other ranks know */
	comm = comm_of(look->log, (uint64_t)id, nranks);
	member = comm ? member_of(comm, rank) : NULL;
	if (!member)
		return;
	member->source = look->source;
	member->started = true;
	member->done |= done;
	/* The first communicator is the job's: its rank is the job's rank. */
	if (look->source->proc->rank < 0 && nranks > 1) {
		look->source->proc->rank = rank;
		if (!nspy_map_get(&look->log->by_rank, (uint64_t)rank + 1))
			nspy_map_put(&look->log->by_rank, (uint64_t)rank + 1, look->source);
	}
	if (look->source->proc->world < nranks)
		look->source->proc->world = nranks;
}

/* --- environment --- */

static void take_env(struct nspy_log_look *look)
{
	const char *value = look->line->text + look->at;
	const char *end = value - strlen(" set by environment to "), *name = end;
	struct nspy_log *log = look->log;
	struct nspy_log_env *env;
	size_t bytes = strcspn(value, " ");
	uint64_t key;

	while (name > look->line->text && (isalnum((unsigned char)name[-1]) || name[-1] == '_'))
		name--;
	if (name == end || bytes == 0 || log->env_count >= 4096)
		return;
	if (value[bytes - 1] == '.')
		bytes--; /* some releases end the sentence */
	key = nspy_log_hash(name, (size_t)(end - name)) ^ nspy_mix(nspy_log_hash(value, bytes));
	env = nspy_map_get(&log->env, key);
	if (!env) {
		env = nspy_xcalloc(1, sizeof(*env));
		nspy_log_keep(&env->name, name, (size_t)(end - name));
		nspy_log_keep(&env->value, value, bytes ? bytes : 1);
		if (!env->value)
			env->value = nspy_xstrdup("");
		env->first = look->source;
		log->envs = nspy_grow(log->envs, log->env_count, &log->env_capacity,
				      sizeof(struct nspy_log_env *));
		log->envs[log->env_count++] = env;
		nspy_map_put(&log->env, key, env);
	}
	env->sources++;
	if (strncmp(name, "NCCL_NET_PLUGIN", 15) == 0)
		look->source->plugin_wanted = true;
}

/* --- errors whose meaning depends on a number --- */

static const struct {
	int code;
	const char *meaning;
} ib_states[] = {
	{1, "a message was larger than the receiver expected (local length error)"},
	{4, "the NIC was refused access to memory (local protection error): GPU memory and NIC, "
	    "IOMMU or ACS"},
	{9, "the peer got a request it did not expect (remote invalid request)"},
	{10, "the peer refused access to its memory (remote access error)"},
	{11, "the peer's NIC could not finish the operation (remote operation error)"},
	{12, "a peer's NIC did not answer (retries exceeded): on first traffic GID, route or MTU, "
	     "later link or peer"},
	{13, "the peer was not ready to receive (RNR retries exceeded)"},
};

static void take_ib(struct nspy_log_look *look)
{
	static const char *const keys[] = {"error ", "status=", "error/status="};
	const char *text = look->line->text;
	struct nspy_log_event *event;
	size_t peer_bytes = 0;
	const char *peer = nspy_log_word(text, "from peer ", " <,", &peer_bytes);
	int64_t status = 0;
	bool known = false;

	for (size_t i = 0; i < nspy_array_size(keys) && !known; i++)
		known = nspy_log_number(text, keys[i], &status);
	if (!known) {
		/* "status=IBV_WC_RETRY_EXC_ERR(12)" */
		const char *p = strstr(text, "status=");

		p = p ? strchr(p, '(') : NULL;
		if (p)
			nspy_log_number(p, "(", &status);
	}
	event = nspy_log_event(look, NSPY_LOG_IB_CQ, status, peer, peer_bytes);
	event->klass = status == 5 ? NSPY_LOG_EFFECT : NSPY_LOG_SYMPTOM;
	for (size_t i = 0; i < nspy_array_size(ib_states); i++) {
		if (ib_states[i].code == status && !event->meaning)
			event->meaning = nspy_xstrdup(ib_states[i].meaning);
	}
	look->source->trouble++;
}

static void take_efa(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	const char *text = look->line->text;
	struct nspy_log_event *event;
	int64_t code = 0;
	const char *p;

	if (rule == NSPY_LOG_EFA_PROV) {
		p = strstr(text, "prov_err: ");
		p = p ? strchr(p, '(') : NULL;
		if (!p || !nspy_log_number(p, "(", &code))
			return;
	} else if (!nspy_log_number(text, "prov_errno: ", &code) &&
		   !nspy_log_number(text, "RC: ", &code) &&
		   !nspy_log_number(text, "err: ", &code)) {
		return;
	}
	code = code < 0 ? -code : code;
	event = nspy_log_event(look, rule, code, NULL, 0);
	event->klass = code == 1 ? NSPY_LOG_EFFECT : NSPY_LOG_SYMPTOM;
	look->source->trouble++;
	if (event->meaning)
		return;
	if (code == 15 || code == 4126 || code == 113 || code == 20) {
		event->finding = NSPY_FINDING_FABRIC_PEER_UNREACHABLE;
		event->klass = NSPY_LOG_CAUSE;
		event->meaning =
			nspy_xstrdup("a peer was never reached over EFA: security group or "
				     "subnet (the text behind the code misleads)");
	} else if (code == 9 || code == 13 || code == 4124 || code == 4127 || code == 8) {
		event->meaning = nspy_xstrdup("a peer on EFA that had answered is gone");
	} else if (code == 4105) {
		event->finding = NSPY_FINDING_RDMA_REG_MR_FAILED;
		event->meaning = nspy_xstrdup("the EFA provider ran out of memory");
	}
}

static const struct {
	int xid;
	enum nspy_log_class klass;
	int priority;
	const char *meaning;
} xids[] = {
	{13, NSPY_LOG_CAUSE, 0, "a kernel faulted, most often by a fault of the program"},
	{31, NSPY_LOG_CAUSE, 0,
	 "a kernel touched memory it must not: program or NCCL settings, rarely hardware"},
	{43, NSPY_LOG_EFFECT, 1, "a process was ended after an error"},
	{45, NSPY_LOG_EFFECT, 1, "a process was ended while it used the GPU"},
	{48, NSPY_LOG_CAUSE, 0, "GPU memory has an uncorrectable error"},
	{61, NSPY_LOG_CAUSE, 0, "the GPU had an internal error"},
	{62, NSPY_LOG_CAUSE, 0, "the GPU had an internal error"},
	{63, NSPY_LOG_CAUSE, 1, "GPU memory is being remapped; the GPU needs a reset soon"},
	{64, NSPY_LOG_CAUSE, 0, "GPU memory could not be remapped"},
	{74, NSPY_LOG_CAUSE, 0, "NVLink failed"},
	{79, NSPY_LOG_CAUSE, 0, "the GPU is no longer on the bus"},
	{92, NSPY_LOG_CAUSE, 1, "GPU memory has many corrected errors"},
	{94, NSPY_LOG_CAUSE, 0, "GPU memory has an uncorrectable error, contained to a process"},
	{95, NSPY_LOG_CAUSE, 0, "GPU memory has an uncorrectable error"},
	{119, NSPY_LOG_CAUSE, 0, "the GPU's system processor does not answer"},
	{120, NSPY_LOG_CAUSE, 0, "the GPU's system processor failed"},
	{137, NSPY_LOG_SYMPTOM, 1, "NVLink reports an error"},
	{144, NSPY_LOG_CAUSE, 0, "NVLink failed"},
	{145, NSPY_LOG_CAUSE, 0, "NVLink failed"},
	{146, NSPY_LOG_CAUSE, 0, "NVLink failed"},
	{147, NSPY_LOG_CAUSE, 0, "NVLink failed"},
	{148, NSPY_LOG_CAUSE, 0, "NVLink failed"},
	{149, NSPY_LOG_CAUSE, 0, "NVLink failed"},
	{150, NSPY_LOG_CAUSE, 0, "NVLink failed"},
};

/* "NVRM: Xid (PCI:0000:66:00): 145, ..." */
static void take_xid(struct nspy_log_look *look)
{
	const char *text = strstr(look->line->text, "Xid (");
	const char *p = text ? strstr(text, "): ") : NULL;
	size_t bytes = 0;
	const char *pci = text ? nspy_log_word(text, "(", ")", &bytes) : NULL;
	struct nspy_log_event *event;
	int64_t xid;

	if (!p || !nspy_log_number(p, "): ", &xid))
		return;
	event = nspy_log_event(look, NSPY_LOG_XID, xid, pci, bytes);
	event->klass = NSPY_LOG_SYMPTOM;
	event->priority = 1;
	look->source->trouble++;
	if (event->meaning)
		return;
	for (size_t i = 0; i < nspy_array_size(xids); i++) {
		if (xids[i].xid != xid)
			continue;
		event->klass = xids[i].klass;
		event->priority = xids[i].priority;
		event->meaning = nspy_xasprintf("Xid %d: %s", (int)xid, xids[i].meaning);
	}
	if (strstr(p, "Nonfatal")) {
		event->klass = NSPY_LOG_SYMPTOM;
		event->priority = 1;
	}
	if (!event->meaning)
		event->meaning = nspy_xasprintf("Xid %d", (int)xid);
}

/* "file.cc:12 -> 2": the deepest is printed first. */
static void take_chain(struct nspy_log_look *look)
{
	static const char *const results[] = {
		"success",         "unhandled CUDA error", "unhandled system error",
		"internal error",  "invalid argument",     "invalid usage",
		"peer or network", "in progress",          "timeout",
	};
	struct nspy_log_event *event;
	const char *p = look->line->text + look->at;
	const char *q = p - 4, *end, *begin;
	char *rest;
	long result;

	if (!isdigit((unsigned char)*p))
		return;
	result = strtol(p, &rest, 10);
	if (result < 1 || result > 8 || (*rest && !isspace((unsigned char)*rest)))
		return;
	/* "transport/net.cc:368" before the arrow */
	while (q > look->line->text && isdigit((unsigned char)q[-1]))
		q--;
	end = q;
	if (end == look->line->text || end[-1] != ':')
		return;
	for (begin = --end; begin > look->line->text && begin[-1] != ' '; begin--)
		;
	event = nspy_log_event(look, NSPY_LOG_CHAIN, result, begin, (size_t)(end - begin));
	if (event->meaning || result == 7)
		return;
	event->klass = NSPY_LOG_EFFECT;
	event->meaning =
		nspy_xasprintf("a call inside NCCL failed with result %ld (%s), first in %.*s",
			       result, results[result], (int)(end - begin), begin);
	look->source->trouble++;
}

static void take_local_closed(struct nspy_log_look *look)
{
	int64_t local = -1;
	struct nspy_log_event *event;

	if (look->source->aborting)
		return; /* everything behind the first abort follows from it */
	nspy_log_number(look->line->text, "localRank ", &local);
	event = nspy_log_event(look, NSPY_LOG_LOCAL_CLOSED, local, NULL, 0);
	event->klass = NSPY_LOG_EFFECT;
	look->source->trouble++;
}

/* "RAS: MISMATCH rank 1 enqueued collective 12, rank 0 completed only 11" */
static void take_ras(struct nspy_log_look *look)
{
	const char *p = strstr(look->line->text, "completed only");
	struct nspy_log_event *event;
	int64_t rank = -1;

	if (p) {
		const char *q = p;

		while (q > look->line->text && strncmp(q, "rank ", 5) != 0)
			q--;
		nspy_log_number(q, "rank ", &rank);
		event = nspy_log_event(look, NSPY_LOG_RAS_MISMATCH, rank, NULL, 0);
		event->klass = NSPY_LOG_SYMPTOM;
		event->finding = NSPY_FINDING_COLLECTIVE_HANG;
		event->rank = rank;
		if (!event->meaning)
			event->meaning = nspy_xasprintf("rank %d is behind the other ranks of its "
							"communicator",
							(int)rank);
	}
}

/* "max locked memory (kbytes, -l) 8192": below what a few GPUs register */
static void take_memlock(struct nspy_log_look *look)
{
	const char *p = strstr(look->line->text + look->at, ") ");
	int64_t kib = -1;
	struct nspy_log_event *event;

	if (!p || !nspy_log_number(p, ") ", &kib) || kib < 0 || kib > (1 << 20))
		return;
	event = nspy_log_event(look, NSPY_LOG_MEMLOCK, kib, NULL, 0);
	event->klass = NSPY_LOG_CAUSE;
	if (!event->meaning)
		event->meaning = nspy_xasprintf(
			"a process may lock %d KiB of memory: too little for RDMA", (int)kib);
}

/* Loopback and container bridges do not lead to other nodes. */
static void take_interface(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	static const char *const useless[] = {"lo:", "docker", "virbr", "veth", "br-", "cni"};
	const char *p = look->line->text + look->at;

	while (*p == ' ' || *p == '[' || *p == ']' || isdigit((unsigned char)*p))
		p++;
	for (size_t i = 0; i < nspy_array_size(useless); i++) {
		if (strncmp(p, useless[i], strlen(useless[i])) == 0)
			nspy_log_event(look, rule, 0, p, strcspn(p, ":"));
	}
}

/* "CUDA_VISIBLE_DEVICES=0,1,3 -> hang": which GPU is in all that fail and in none that passes? */
static void take_subset(struct nspy_log_look *look)
{
	const char *p = look->line->text + look->at, *rest = p;
	bool good, bad;
	uint64_t set = 0;

	while (isdigit((unsigned char)*rest) || *rest == ',')
		rest++;
	good = nspy_log_has(rest, "pass|works|ok|success|fine");
	bad = nspy_log_has(rest, "hang|fail|stuck|crash|error|wrong");
	if (good == bad)
		return;
	while (p < rest) {
		long gpu = strtol(p, (char **)&p, 10);

		if (gpu >= 0 && gpu < 64)
			set |= 1ull << gpu;
		p += *p == ',';
	}
	if (good)
		look->log->subsets_good |= set;
	else
		look->log->subsets_bad =
			look->log->subset_bad_count++ ? look->log->subsets_bad & set : set;
	nspy_log_event(look, NSPY_LOG_SUBSET, (int64_t)set, NULL, 0);
}

/* Lines about a rank's own state and errors; false if the rule is none of these. */
static bool take_own(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	switch (rule) {
	case NSPY_LOG_INIT_START:
	case NSPY_LOG_INIT_DONE:
		take_init(look, rule == NSPY_LOG_INIT_DONE);
		return true;
	case NSPY_LOG_ENV_SET:
		take_env(look);
		return true;
	case NSPY_LOG_IB_CQ:
		take_ib(look);
		return true;
	case NSPY_LOG_EFA_CQ:
	case NSPY_LOG_EFA_PROV:
		take_efa(look, rule);
		return true;
	case NSPY_LOG_XID:
		take_xid(look);
		return true;
	case NSPY_LOG_CHAIN:
		take_chain(look);
		return true;
	case NSPY_LOG_ABORT_START:
	case NSPY_LOG_ABORT_DONE:
		look->source->aborting = true;
		return true;
	case NSPY_LOG_NVRM_GPU: {
		size_t bytes = 0;
		const char *gpu = nspy_log_pci(look->line->text, &bytes);

		free(look->source->gpu);
		look->source->gpu = gpu ? nspy_xstrndup(gpu, bytes) : NULL;
		return true;
	}
	case NSPY_LOG_MEMLOCK:
		take_memlock(look);
		return true;
	case NSPY_LOG_SUBSET:
		take_subset(look);
		return true;
	case NSPY_LOG_WARN:
		nspy_log_event(look, rule, 0, NULL, 0);
		return true;
	case NSPY_LOG_BOOT_USING:
	case NSPY_LOG_BOOT_USING2:
		take_interface(look, rule);
		return true;
	case NSPY_LOG_LOCAL_CLOSED:
		take_local_closed(look);
		return true;
	case NSPY_LOG_RAS_MISMATCH:
		take_ras(look);
		return true;
	default:
		return false;
	}
}

void nspy_log_take(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	if (take_own(look, rule))
		return;
	switch (rule) {
	case NSPY_LOG_TESTS_TABLE:
	case NSPY_LOG_TESTS_RANK:
	case NSPY_LOG_TESTS_HEAD:
	case NSPY_LOG_TESTS_AVG:
		nspy_log_take_table(look, rule);
		return;
	case NSPY_LOG_RAS_COUNTS:
	case NSPY_LOG_RAS_LAUNCHED:
	case NSPY_LOG_RAS_IDLE:
	case NSPY_LOG_RAS_DEAD:
	case NSPY_LOG_RAS_INCOMPLETE:
	case NSPY_LOG_RAS_ERRORS:
	case NSPY_LOG_RAS_ERRORS2:
	case NSPY_LOG_RAS_STATUS:
	case NSPY_LOG_RAS_PROCESS:
	case NSPY_LOG_RAS_RANK:
	case NSPY_LOG_RAS_RANK2:
		nspy_log_take_ras(look, rule);
		return;
	case NSPY_LOG_MPI_SIGNAL:
	case NSPY_LOG_ELASTIC_EXIT:
	case NSPY_LOG_ELASTIC_EXIT2:
	case NSPY_LOG_ROOT_CAUSE:
	case NSPY_LOG_TABLE_RANK:
	case NSPY_LOG_SRUN_EXIT:
	case NSPY_LOG_EXIT_CODE:
	case NSPY_LOG_PYTHON_ERROR:
	case NSPY_LOG_TRACEBACK:
		nspy_log_take_exit(look, rule);
		return;
	case NSPY_LOG_WATCHDOG:
	case NSPY_LOG_NUMEL:
	case NSPY_LOG_ENQUEUED:
	case NSPY_LOG_HEARTBEAT:
	case NSPY_LOG_WATCHDOG_STUCK:
	case NSPY_LOG_LAGGING:
	case NSPY_LOG_UNFINISHED:
	case NSPY_LOG_FR_CULPRIT:
		nspy_log_take_torch(look, rule);
		return;
	default:
		nspy_log_take_net(look, rule);
		return;
	}
}
