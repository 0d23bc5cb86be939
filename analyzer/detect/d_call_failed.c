/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL_CALL_FAILED
 *
 * Question: did calls to NCCL fail, what did NCCL say, and on which rank first?
 * Evidence: return codes other than success and in-progress, and the text that ncclGetLastError
 *   held right after (NCCL keeps its last warning even when NCCL_DEBUG is unset).
 * Threshold: none.
 * Known false positives: programs that probe (a call expected to fail and handled). The text is
 *   global to the process, so it may be older than the call. Errors after a rank's death or after
 *   the process's own abort are consequences and are told there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "text.h"
#include "who.h"

#define FINDINGS_MAX       4u
#define REMOTE_ERROR       6 /* ncclRemoteError */
#define CLOCK_SLACK_MAX_NS (50 * NSPY_NS_PER_MS)

/* What a piece of NCCL's text means to an operator. */
static const struct meaning {
	const char *text;
	const char *words;
	const char *owner;
	const char *restart;
	const char *action;
} meanings[] = {
	{"driver version is insufficient", "CUDA found no usable driver or device", "node",
	 "helps-elsewhere", "check that the node has a working GPU driver and the job sees it"},
	{"no CUDA-capable device", "CUDA found no device", "node", "helps-elsewhere",
	 "check that the node has GPUs and that the job was given some"},
	{"system not yet initialized", "CUDA is not ready: Fabric Manager is not running", "node",
	 "helps-elsewhere", "start Fabric Manager on the node"},
	{"out of memory", "GPU memory was full when NCCL needed some", "application", "useless",
	 "leave memory to NCCL: create communicators before the memory is filled"},
	{"Failed to CUDA", "GPU memory could not be allocated for NCCL", "application", "useless",
	 "leave memory to NCCL: create communicators before the memory is filled"},
	{"uncorrectable ECC", "the GPU reports an uncorrectable memory error", "node",
	 "helps-elsewhere", "drain the node and replace the GPU"},
	{"Duplicate GPU", "two ranks were given the same GPU", "job-config", "useless",
	 "compare LOCAL_RANK and CUDA_VISIBLE_DEVICES of the two ranks"},
	{"Multiple Ranks are using the same GPU", "two ranks were given the same GPU", "job-config",
	 "useless", "compare LOCAL_RANK and CUDA_VISIBLE_DEVICES of the two ranks"},
	{"Mismatched NCCL version", "ranks run different NCCL versions", "job-config", "useless",
	 "make all nodes load the same NCCL"},
	{"no socket interface found", "no network interface passes NCCL_SOCKET_IFNAME",
	 "job-config", "useless", "compare NCCL_SOCKET_IFNAME with the interfaces of the node"},
	{"has already checked in", "the same rank was started twice", "job-config", "useless",
	 "compare RANK of the processes"},
	{"mismatch in info from procs", "ranks disagree about the size of the job", "job-config",
	 "useless", "compare WORLD_SIZE of the processes"},
	{"failed to extend /dev/shm", "/dev/shm is full", "node", "useless",
	 "give the container more shared memory"},
	{"No space left on device", "a file system, most likely /dev/shm, is full", "node",
	 "useless", "give the container more shared memory"},
	{"with error 12", "the network path to a peer does not work", "fabric", "helps-elsewhere",
	 "check link and counters between the nodes that the text names"},
	{"Connection timed out", "a peer could not be reached over the network", "fabric",
	 "helps-elsewhere", "check firewall and routes to the address that the text names"},
	{"Connection refused", "a peer does not listen where it should", "job-config", "helps",
	 "check that the peer named in the text was running then"},
	{"Connection closed by remote peer", "a peer went away", "unknown", "helps",
	 "look at the rank whose address the text names"},
};

static const struct meaning code_meanings[] = {
	[1] = {NULL, "a CUDA call inside NCCL failed", "node", "helps-elsewhere",
	       "look for the CUDA error in the text and for Xid lines on the node"},
	[2] = {NULL, "a system call or the network library failed", "node", "helps-elsewhere",
	       "read the error text; check limits (memlock, open files) and the network"},
	[3] = {NULL, "NCCL met a state it does not expect", "unknown", "helps",
	       "run again with NCCL_DEBUG=WARN; often another rank failed first"},
	[4] = {NULL, "an argument is wrong", "application", "useless",
	       "check the arguments of the call"},
	[5] = {NULL, "the call is not allowed here", "application", "useless",
	       "check how the ranks use the communicator"},
	[6] = {NULL, "a peer exited or the network to it failed", "unknown", "helps",
	       "find the rank that failed first"},
	[8] = {NULL, "an operation took longer than NCCL allows", "unknown", "helps",
	       "find the rank that the operation waited for"},
};

static const struct meaning *meaning_of(int code, const char *text)
{
	for (size_t i = 0; text && i < nspy_array_size(meanings); i++) {
		if (strstr(text, meanings[i].text))
			return &meanings[i];
	}
	return code > 0 && (size_t)code < nspy_array_size(code_meanings) &&
			       code_meanings[code].words
		       ? &code_meanings[code]
		       : NULL;
}

bool nspy_error_follows_death(const struct nspy_case *c, const struct nspy_proc *proc,
			      const struct nspy_error *error)
{
	const struct nspy_death *first;

	if (c->deaths.first.count == 0 || nspy_procs_has(&c->deaths.first, proc))
		return false;
	first = nspy_death_of(&c->deaths, c->deaths.first.items[0]);
	/* Without the launcher's note a death is later than the last sign of life tells. */
	return error->first_ns > first->when_ns;
}

/* Whoever aborts first makes its peers see errors. */
static bool follows_abort(const struct nspy_case *c, const struct nspy_proc *proc,
			  const struct nspy_error *error)
{
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *other = c->attempt->procs[i];
		uint64_t slack = c->model->clock_error_ns < CLOCK_SLACK_MAX_NS
					 ? c->model->clock_error_ns
					 : CLOCK_SLACK_MAX_NS;

		if (other->clock == proc->clock)
			slack = 0;
		if (other != proc && other->abort_ns && error->code == REMOTE_ERROR &&
		    error->first_ns + slack >= other->abort_ns)
			return true;
	}
	return false;
}

bool nspy_error_follows_wait(const struct nspy_case *c, const struct nspy_proc *proc,
			     const struct nspy_error *error)
{
	const struct nspy_proc_wait *wait = &c->waits.procs[proc->index];

	if (!c->waits.hang_count || !wait->waiting || wait->weak)
		return false;
	/* Another thread of the process may wait on, while this one is told of a lost peer. */
	return error->first_ns >= wait->until_ns ||
	       (error->code == REMOTE_ERROR &&
		error->first_ns >= wait->since_ns + c->options.hang_ended_ns);
}

/* The same failure on some ranks. */
struct failure {
	uint16_t fn;
	int16_t code;
	uint64_t first_ns;
	uint64_t count;
	const struct nspy_proc *first;
	const char *text;
	struct nspy_procs procs;
};

struct failures {
	struct failure *items;
	size_t count, capacity;
};

static void add_error(struct failures *failures, const struct nspy_proc *proc,
		      const struct nspy_error *error)
{
	struct failure *failure = NULL;

	for (size_t i = 0; i < failures->count && !failure; i++) {
		if (failures->items[i].fn == error->fn && failures->items[i].code == error->code)
			failure = &failures->items[i];
	}
	if (!failure) {
		failures->items = nspy_grow(failures->items, failures->count, &failures->capacity,
					    sizeof(*failures->items));
		failure = &failures->items[failures->count++];
		*failure = (struct failure){.fn = error->fn, .code = error->code};
	}
	failure->count += error->count;
	if (!failure->first || error->first_ns < failure->first_ns) {
		failure->first = proc;
		failure->first_ns = error->first_ns;
		if (error->text)
			failure->text = error->text;
	}
	if (!failure->text)
		failure->text = error->text;
	nspy_procs_add(&failure->procs, proc);
}

static int compare_failures(const void *a, const void *b)
{
	const struct failure *x = a, *y = b;
	bool remote_x = x->code == REMOTE_ERROR, remote_y = y->code == REMOTE_ERROR;

	/* An error about a peer never is the first cause where another one was seen. */
	if (remote_x != remote_y)
		return remote_x ? 1 : -1;
	return x->first_ns < y->first_ns ? -1 : x->first_ns > y->first_ns;
}

static void collect(const struct nspy_case *c, struct failures *failures)
{
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];

		for (size_t e = 0; e < proc->error_count; e++) {
			const struct nspy_error *error = &proc->errors[e];

			if (nspy_model_get_fn(c->model, error->fn)->lib != NSPY_MODEL_NCCL ||
			    nspy_error_follows_death(c, proc, error) ||
			    nspy_error_follows_wait(c, proc, error) ||
			    follows_abort(c, proc, error) ||
			    (proc->abort_ns && error->first_ns > proc->abort_ns))
				continue;
			add_error(failures, proc, error);
		}
	}
	if (failures->count)
		qsort(failures->items, failures->count, sizeof(*failures->items), compare_failures);
}

static void add_where(struct nspy_str *s, const struct nspy_case *c, const struct failure *failure)
{
	if (failure->procs.count > 1 && failure->procs.count == c->attempt->proc_count)
		nspy_str_addf(s, "all %zu ranks", failure->procs.count);
	else
		nspy_add_procs(s, failure->procs.items, failure->procs.count);
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct failure *failure)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_NCCL_CALL_FAILED);
	const struct meaning *meaning = meaning_of(failure->code, failure->text);
	const char *fn = nspy_model_get_fn(c->model, failure->fn)->name;
	bool async = nspy_model_get_fn(c->model, failure->fn)->klass == NSPY_CLASS_COMM_STATE;
	bool all = failure->procs.count == c->attempt->proc_count && failure->procs.count > 1;
	struct nspy_str s = {0};

	nspy_str_addf(&s, "%s %s %s (%d) on ", fn, async ? "reported" : "returned",
		      nspy_model_result(c->model, NSPY_MODEL_NCCL, failure->code), failure->code);
	add_where(&s, c, failure);
	if (failure->procs.count > 1) {
		nspy_str_add(&s, ", first on ");
		nspy_add_proc_short(&s, failure->first);
	}
	nspy_str_add(&s, " at ");
	nspy_add_clock(&s, failure->first_ns);
	if (meaning)
		nspy_str_addf(&s, ": %s", meaning->words);
	finding->summary = nspy_str_take(&s);
	nspy_str_addf(&s, async ? "a communicator failed on " : "%s failed on ", fn);
	add_where(&s, c, failure);
	if (meaning)
		nspy_str_addf(&s, ": %s", meaning->words);
	finding->cause = nspy_str_take(&s);
	finding->when_ns = failure->first_ns;
	if (meaning) {
		finding->owner = meaning->owner;
		finding->restart = meaning->restart;
		finding->action = meaning->action;
	}
	if (failure->text)
		nspy_finding_detail(finding, "NCCL says: %s", failure->text);
	if (failure->count > failure->procs.count)
		nspy_finding_detail(finding, "%" PRIu64 " times in all", failure->count);
	/* Everybody the same way: that is no rank's fault. */
	if (!all)
		nspy_finding_blame(finding, failure->first);
	for (size_t i = 0; !all && i < failure->procs.count; i++)
		nspy_finding_blame(finding, failure->procs.items[i]);
}

void nspy_detect_call_failed(const struct nspy_case *c, struct nspy_findings *out)
{
	struct failures failures = {0};

	collect(c, &failures);
	for (size_t i = 0; i < failures.count && i < FINDINGS_MAX; i++)
		report(c, out, &failures.items[i]);
	for (size_t i = 0; i < failures.count; i++)
		free(failures.items[i].procs.items);
	free(failures.items);
}
