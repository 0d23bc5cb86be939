/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "stacks.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "helper.h"
#include "say.h"
#include "trace_stat.h"

#define PATIENCE_NS 20000000000ull /* until a file is not waited for any more */
#define OLD_S       30             /* an older file is of an earlier hang */
#define KEYS        16u
#define TAIL_BYTES  1024u /* of a file, where its summary is */

struct blamed {
	char id[32];
	char node[64];
	uint64_t run_id;
	uint32_t pid, caller;
	int32_t rank;
	bool here_stopped;
};

static struct {
	/* Watcher. */
	uint64_t keys[KEYS];
	uint32_t key_count;
	/* From the watcher to the writer. */
	_Atomic uint32_t own_wanted; /* the calling thread + 1, 0 = nothing */
	_Atomic uint32_t blamed_set;
	struct blamed blamed;
	/* Writer. */
	uint64_t until_ns;
} state;

void nspy_stacks_start(void)
{
	memset(&state, 0, sizeof(state));
}

static bool is_new(uint64_t key)
{
	for (uint32_t i = 0; i < state.key_count && i < KEYS; i++)
		if (state.keys[i] == key)
			return false;
	state.keys[state.key_count++ % KEYS] = key;
	return true;
}

/* What a stack explains: somebody does not come. Not a death, where the others only wait, and never
 * of a job that goes on. */
static bool is_hang(const char *id)
{
	static const char *const hangs[] = {"COLLECTIVE_HANG", "COLLECTIVE_MISMATCH",
					    "INIT_TIMEOUT",    "ORDER_INVERSION",
					    "RANKS_MISSING",   "PROGRESS_STALLED_OUTSIDE_NCCL"};

	for (size_t i = 0; i < sizeof(hangs) / sizeof(hangs[0]); i++)
		if (strcmp(id, hangs[i]) == 0)
			return true;
	return false;
}

void nspy_stacks_look(const struct nspy_local *local, const struct nspy_status *own)
{
	bool wanted = is_hang(own->event_id) && own->event_key && is_new(own->event_key);

	if (!nspy_core.env.NCCLSPY_STACKS)
		return;
	for (uint32_t i = 0; i < local->count; i++) {
		const struct nspy_status *page = &local->pages[i];

		if (i != local->own && page->event_key && is_hang(page->event_id) &&
		    is_new(page->event_key))
			wanted = true;
	}
	if (wanted)
		atomic_store_explicit(&state.own_wanted, own->caller_tid + 1, memory_order_release);
}

void nspy_stacks_ask(uint32_t caller_tid)
{
	if (nspy_core.env.NCCLSPY_STACKS)
		atomic_store_explicit(&state.own_wanted, caller_tid + 1, memory_order_release);
}

void nspy_stacks_blame(const char *id, const struct nspy_status *page)
{
	struct blamed *blamed = &state.blamed;

	if (!nspy_core.env.NCCLSPY_STACKS || !is_hang(id) || page->dead || page->silent ||
	    page->state != NSPY_STATUS_RUNNING ||
	    atomic_load_explicit(&state.blamed_set, memory_order_acquire))
		return;
	*blamed = (struct blamed){.run_id = page->run_id,
				  .pid = page->pid,
				  .caller = page->caller_tid,
				  .rank = page->rank};
	(void)snprintf(blamed->id, sizeof(blamed->id), "%s", id);
	(void)snprintf(blamed->node, sizeof(blamed->node), "%s", page->node);
	blamed->here_stopped = page->stopped && page->pidns == nspy_core.id.pidns &&
			       strcmp(page->node, nspy_core.id.node) == 0;
	/* Pairs with the acquire load of the writer. */
	atomic_store_explicit(&state.blamed_set, 1, memory_order_release);
}

static void path_of(char *out, size_t bytes, const char *node, uint64_t run_id)
{
	const char *slash = strrchr(nspy_core.id.dir, '/');

	(void)snprintf(out, bytes, "%.*s/%s/%016llx.stacks",
		       slash ? (int)(slash - nspy_core.id.dir) : 0, nspy_core.id.dir, node,
		       (unsigned long long)run_id);
}

static void start_helper(uint32_t pid, uint64_t run_id, int32_t rank, uint32_t caller)
{
	static char file[NSPY_PATH_MAX + 160], texts[5][160];
	static char name[] = "ncclspy-stack-helper", ras[] = "ras=";
	char *arguments[] = {name,     file,     texts[0], texts[1], texts[2],
			     texts[3], texts[4], NULL,     NULL};

	path_of(file, sizeof(file), nspy_core.id.node, run_id);
	(void)snprintf(texts[0], sizeof(texts[0]), "%u", pid);
	(void)snprintf(texts[1], sizeof(texts[1]), "run=%016llx", (unsigned long long)run_id);
	(void)snprintf(texts[2], sizeof(texts[2]), "rank=%d", rank);
	(void)snprintf(texts[3], sizeof(texts[3]), "caller=%u", caller);
	(void)snprintf(texts[4], sizeof(texts[4]), "mode=%s",
		       nspy_core.group_readable ? "640" : "600");
	/* Once for the job. The helper has our environment and finds the address there. */
	if (nspy_core.env.NCCLSPY_RAS && rank <= 0)
		arguments[7] = ras;
	(void)nspy_helper_spawn(name, arguments, nspy_core.env.NCCLSPY_STACKS == 2);
}

/* The line "tell ..." near the end of a file that is there as a whole. */
static bool read_summary(const char *path, char *ret, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char tail[TAIL_BYTES + 1];
	struct stat st;
	ssize_t n = -1;
	char *line;

	if (fd < 0)
		return false;
	if (nspy_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_mtime + OLD_S >= time(NULL))
		n = pread(fd, tail, TAIL_BYTES,
			  st.st_size > (off_t)TAIL_BYTES ? st.st_size - (off_t)TAIL_BYTES : 0);
	close(fd);
	if (n < 0)
		return false;
	tail[n] = '\0';
	ret[0] = '\0';
	line = strstr(tail, "\ntell ");
	if (!line)
		return true;
	line += strlen("\ntell ");
	line[strcspn(line, "\n")] = '\0';
	for (char *c = line; *c; c++)
		*c = *c < 0x20 || *c > 0x7e ? '?' : *c;
	(void)snprintf(ret, bytes, "%s", line);
	return true;
}

static void follow_blamed(uint64_t now_ns)
{
	const struct blamed *blamed = &state.blamed;
	char path[NSPY_PATH_MAX + 160], text[240];

	if (!state.until_ns) {
		state.until_ns = now_ns + PATIENCE_NS;
		if (blamed->here_stopped)
			start_helper(blamed->pid, blamed->run_id, blamed->rank, blamed->caller);
	}
	path_of(path, sizeof(path), blamed->node, blamed->run_id);
	if (read_summary(path, text, sizeof(text))) {
		if (text[0])
			nspy_say(NSPY_SAY_INFO, "%s: rank %d (node %s, pid %u) stands in %s",
				 blamed->id, blamed->rank, blamed->node, blamed->pid, text);
	} else if (now_ns < state.until_ns) {
		return;
	}
	state.until_ns = 0;
	/* Pairs with the acquire load of the watcher. */
	atomic_store_explicit(&state.blamed_set, 0, memory_order_release);
}

void nspy_stacks_work(uint64_t now_ns)
{
	uint32_t own = atomic_exchange_explicit(&state.own_wanted, 0, memory_order_acq_rel);

	if (own)
		start_helper(nspy_core.id.pid, nspy_core.id.run_id, nspy_core.id.rank, own - 1);
	if (atomic_load_explicit(&state.blamed_set, memory_order_acquire))
		follow_blamed(now_ns);
}
