/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "control.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "event.h"
#include "exchange.h"
#include "mode.h"
#include "stacks.h"
#include "trace_stat.h"

#define SHM_DIR  "/dev/shm"
#define NS_PER_S 1000000000ull

static struct {
	/* Watcher. */
	uint64_t last_id; /* of a command taken up; at first when this process began */
	uint64_t hang_s;  /* 0 = as the environment says */
	struct timespec read_mtime;
	uint64_t read_ino;
	struct nspy_control control;
	_Atomic uint32_t speaks; /* this process brings commands from the directory */
	/* Writer. */
	uint64_t next_ns, brought_id;
	struct nspy_control brought;
	char text[NSPY_CONTROL_BYTES_MAX];
} state;

void nspy_control_start(void)
{
	struct timespec real;

	memset(&state, 0, sizeof(state));
	clock_gettime(CLOCK_REALTIME, &real);
	state.last_id = (uint64_t)real.tv_sec * NS_PER_S + (uint64_t)real.tv_nsec;
	state.brought_id = state.last_id;
}

uint64_t nspy_control_hang_s(void)
{
	return state.hang_s ? state.hang_s : nspy_core.env.NCCLSPY_HANG_S;
}

/* The node's control file, or that with the run id before it is renamed. */
static void local_path(char *out, size_t bytes, bool beside)
{
	char prefix[NSPY_NAME_MAX];

	nspy_pages_prefix(prefix, sizeof(prefix));
	if (beside)
		(void)snprintf(out, bytes, SHM_DIR "/.%s%016llx" NSPY_CONTROL_SUFFIX, prefix,
			       (unsigned long long)nspy_core.id.run_id);
	else
		(void)snprintf(out, bytes, SHM_DIR "/%s%s", prefix, NSPY_CONTROL_SUFFIX + 1);
}

/*
 * Reads an open control file and closes it. shared: on storage that calls us by another name, what
 * belongs to that name is ours, too.
 */
static bool take(int fd, bool shared, struct nspy_control *ret)
{
	char text[NSPY_CONTROL_BYTES_MAX];
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return false;
	if (nspy_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & 022) &&
	    (st.st_uid == nspy_core.id.uid || (shared && nspy_exchange_is_ours(st.st_uid))))
		n = read(fd, text, sizeof(text));
	close(fd);
	return n > 0 && nspy_control_decode(text, (size_t)n, ret) == 0;
}

/* --- watcher --- */

static bool is_unchanged(int fd)
{
	struct stat st;
	bool same;

	if (nspy_fstat(fd, &st) < 0)
		return true;
	same = state.read_ino == st.st_ino && state.read_mtime.tv_sec == st.st_mtim.tv_sec &&
	       state.read_mtime.tv_nsec == st.st_mtim.tv_nsec;
	state.read_ino = st.st_ino;
	state.read_mtime = st.st_mtim;
	return same;
}

static void carry_out(const struct nspy_command *command, const struct nspy_status *own, bool tells)
{
	if (command->verb == NSPY_CONTROL_THRESHOLD)
		state.hang_s = command->value;
	if (command->verb == NSPY_CONTROL_DUMP && command->value)
		nspy_stacks_ask(own->caller_tid);
	if (tells)
		nspy_event_command(command);
}

/* Whether the node of rank 0 is this one, and we speak for it. */
static bool leads(const struct nspy_local *local)
{
	if (local->own == local->count || local->speaker != local->own)
		return false;
	for (uint32_t i = 0; i < local->count; i++)
		if (local->pages[i].rank <= 0)
			return true;
	return false;
}

static void look_at_file(const struct nspy_local *local, const struct nspy_status *own)
{
	char path[NSPY_PATH_MAX];
	int fd;

	local_path(path, sizeof(path), false);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (is_unchanged(fd)) {
		close(fd);
		return;
	}
	if (!take(fd, false, &state.control) ||
	    strncmp(state.control.job_dir, own->job_dir, sizeof(own->job_dir)) != 0)
		return;
	for (uint32_t i = 0; i < state.control.count; i++) {
		const struct nspy_command *command = &state.control.at[i];

		if (command->id <= state.last_id)
			continue;
		if (!nspy_mode_put(command)) { /* the rest at the next look */
			state.read_ino = 0;
			return;
		}
		state.last_id = command->id;
		carry_out(command, own, leads(local));
	}
}

void nspy_control_look(const struct nspy_local *local, struct nspy_status *own)
{
	atomic_store_explicit(&state.speaks,
			      local->own < local->count && local->speaker == local->own,
			      memory_order_relaxed);
	look_at_file(local, own);
	own->control_id = nspy_mode_done();
	own->mode = nspy_mode_now();
	own->hang_s = (uint32_t)nspy_control_hang_s();
}

/* --- writer --- */

static void put_local(size_t bytes)
{
	char path[NSPY_PATH_MAX], beside[NSPY_PATH_MAX];
	bool ok;
	int fd;

	local_path(path, sizeof(path), false);
	local_path(beside, sizeof(beside), true);
	(void)unlink(beside);
	fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	ok = write(fd, state.text, bytes) == (ssize_t)bytes;
	close(fd);
	if (!ok || syscall(SYS_renameat2, AT_FDCWD, beside, AT_FDCWD, path, 0) < 0)
		(void)unlink(beside);
}

void nspy_control_work(uint64_t now_ns)
{
	const char *dir = nspy_core.id.dir, *slash = strrchr(dir, '/');
	char path[NSPY_PATH_MAX];
	struct nspy_control local;
	uint64_t id;
	long bytes;

	if (now_ns < state.next_ns || !atomic_load_explicit(&state.speaks, memory_order_relaxed))
		return;
	state.next_ns = now_ns + nspy_core.env.NCCLSPY_BOARD_S * NS_PER_S;
	if (!take(nspy_exchange_open(NSPY_CONTROL_NAME), true, &state.brought) ||
	    !state.brought.count)
		return;
	id = state.brought.at[state.brought.count - 1].id;
	if (id <= state.brought_id)
		return;
	state.brought_id = id;
	local_path(path, sizeof(path), false);
	/* Whoever gave the command here has put it there himself. */
	if (take(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), false, &local) &&
	    local.count && local.at[local.count - 1].id >= id)
		return;
	(void)snprintf(state.brought.job_dir, sizeof(state.brought.job_dir), "%.*s",
		       slash ? (int)(slash - dir) : 0, dir);
	bytes = nspy_control_encode(&state.brought, state.text, sizeof(state.text));
	if (bytes > 0)
		put_local((size_t)bytes);
}
