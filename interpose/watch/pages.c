/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "activity.h"
#include "core.h"
#include "fold.h"
#include "live.h"
#include "trace_control.h"
#include "trace_stat.h"

#define SHM_DIR "/dev/shm"
/* Decoded pages; grows with what there is to decode. */
#define ARENA_MIN     ((size_t)128 << 10)
#define ARENA_MAX     ((size_t)NSPY_LOCAL_PAGES_MAX * NSPY_STATUS_BYTES_MAX * 2)
#define READ_ATTEMPTS 3
#define EXIT_OFFSET   NSPY_STATUS_EXIT_OFFSET
#define FILE_BYTES    NSPY_STATUS_FILE_BYTES
/* Behind the exit note: what a signal handler leaves (trace_signal.h). */
#define SIGNAL_OFFSET (EXIT_OFFSET + 16u)
_Static_assert(SIGNAL_OFFSET + sizeof(struct nspy_signal_note) <= FILE_BYTES, "no room");
#define TICK_NS     10000000ull /* of a start time: 100 a second on x86-64 and aarch64 */
#define LEFTOVER_NS (60ull * 1000000000ull) /* pages of the dead are evidence so long */

struct exit_note {
	int32_t code;
	_Atomic uint32_t seal; /* trace_status.h */
};

/* As the kernel writes it; glibc's readdir allocates. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

static struct pages {
	struct nspy_local local;
	struct nspy_arena arena;
	uint8_t out[NSPY_STATUS_BYTES_MAX];
	_Alignas(8) uint8_t in[FILE_BYTES];
	_Alignas(8) char entries[8192];
	char path[NSPY_PATH_MAX]; /* our file */
	char prefix[NSPY_NAME_MAX];
	uint8_t *shared;   /* our file's mapping, NULL = none */
	uint64_t began_ns; /* when this process did, 0 = not known */
	bool arena_small;  /* a page found no room in it */
} * pages;

/* ncclspy.<uid>.<job hash>. : the start of the names of all files of a job. */
static bool job_prefix(const char *name, char *ret, size_t bytes)
{
	size_t dots = 0, n = 0;

	for (; name[n] && dots < 3 && n + 1 < bytes; n++) {
		ret[n] = name[n];
		dots += name[n] == '.';
	}
	ret[n] = '\0';
	return dots == 3;
}

static bool make_names(void)
{
	const char *live = nspy_core.id.live_path;
	const char *name = strrchr(live, '/');
	size_t stem = strlen(live);

	if (!name || stem < strlen(".live"))
		return false;
	stem -= strlen(".live");
	(void)snprintf(pages->path, sizeof(pages->path), "%.*s%s", (int)stem, live,
		       NSPY_STATUS_SUFFIX);
	return job_prefix(name + 1, pages->prefix, sizeof(pages->prefix));
}

void nspy_pages_prefix(char *ret, size_t bytes)
{
	const char *name = strrchr(nspy_core.id.live_path, '/');

	if (!job_prefix(name ? name + 1 : "", ret, bytes))
		ret[0] = '\0';
}

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n >= s && strcmp(name + n - s, suffix) == 0;
}

/* Calls take() for every file whose name begins and ends so. */
static void for_each_file(const char *prefix, const char *suffix, char *entries, size_t bytes,
			  void (*take)(const char *name))
{
	int dir = open(SHM_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (dir < 0)
		return;
	while ((n = syscall(SYS_getdents64, dir, entries, bytes)) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)&entries[at];

			at += e->bytes;
			if (strncmp(e->name, prefix, strlen(prefix)) == 0 &&
			    ends_with(e->name, suffix))
				take(e->name);
		}
	}
	close(dir);
}

static void for_each_page(const char *prefix, char *entries, size_t bytes,
			  void (*take)(const char *name))
{
	for_each_file(prefix, NSPY_STATUS_SUFFIX, entries, bytes, take);
}

static void remove_leftover(const char *name);
static void remove_told(const char *name);

/* pages once it is complete: whoever ends the process is another thread than the watcher. */
static struct pages *_Atomic published;

void nspy_pages_forget(void)
{
	pages = NULL;
	atomic_store(&published, NULL);
}

/* When this process began, CLOCK_MONOTONIC; 0 = not known. */
static uint64_t own_start_ns(void)
{
	struct timespec boot, mono;
	int64_t asleep_ns;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	clock_gettime(CLOCK_MONOTONIC, &mono);
	asleep_ns = (int64_t)(boot.tv_sec - mono.tv_sec) * 1000000000 + boot.tv_nsec - mono.tv_nsec;
	return nspy_core.id.starttime ? nspy_core.id.starttime * TICK_NS - (uint64_t)asleep_ns : 0;
}

bool nspy_pages_start(void)
{
	char mine[32];

	pages = nspy_live_map_private(sizeof(*pages), 0);
	if (!pages)
		return false;
	pages->arena.base = nspy_live_map_private(ARENA_MIN, 0);
	pages->arena.bytes = pages->arena.base ? ARENA_MIN : 0;
	if (!pages->arena.base || !make_names())
		return false;
	pages->began_ns = own_start_ns();
	(void)snprintf(mine, sizeof(mine), "ncclspy.%u.", nspy_core.id.uid);
	for_each_page(mine, pages->entries, sizeof(pages->entries), remove_leftover);
	for_each_file(mine, NSPY_FOLD_SUFFIX, pages->entries, sizeof(pages->entries), remove_told);
	pages->shared = nspy_live_map_file(pages->path, FILE_BYTES);
	if (!pages->shared)
		return false;
	atomic_store_explicit(&published, pages, memory_order_release);
	return true;
}

void nspy_pages_publish(const struct nspy_status *status)
{
	uint32_t ops = NSPY_STATUS_OPS_MAX;
	long bytes = -ENOBUFS;

	if (!pages->shared)
		return;
	/* The oldest operations are what a full page can do without. */
	for (; bytes == -ENOBUFS && ops; ops /= 2)
		bytes = nspy_status_encode(status, ops, pages->out, sizeof(pages->out));
	/* A reader that comes now sees a page that fails its checksum, and reads again. */
	if (bytes > 0)
		memcpy(pages->shared, pages->out, (size_t)bytes);
}

/* The bytes of a page that belongs to us, or -1. Opened anew for every look. */
static ssize_t read_page(const char *name)
{
	int dir = open(SHM_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n = -1;

	if (dir >= 0)
		close(dir);
	if (fd < 0)
		return -1;
	if (nspy_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == nspy_core.id.uid)
		n = read(fd, pages->in, sizeof(pages->in));
	close(fd);
	if (n > 0)
		nspy_activity_own_io((size_t)n);
	return n;
}

static void note_end(struct nspy_status *page)
{
	int32_t code;

	page->signal = (struct nspy_signal_note){0}; /* the speaker's word on it is not for here */
	(void)nspy_signal_note_read((const void *)(pages->in + SIGNAL_OFFSET), &page->signal);
	if (!nspy_status_exited(pages->in, sizeof(pages->in), &code))
		return;
	page->state = NSPY_STATUS_EXITED;
	page->exit_code = code;
}

static void take_in(const char *name)
{
	struct nspy_local *local = &pages->local;
	int rc = -EBADMSG;

	if (local->count == NSPY_LOCAL_PAGES_MAX)
		return;
	for (int i = 0; i < READ_ATTEMPTS && rc == -EBADMSG; i++) {
		ssize_t n = read_page(name);
		size_t used;

		rc = n < (ssize_t)FILE_BYTES
			     ? -ENOENT
			     : nspy_status_decode(pages->in, NSPY_STATUS_BYTES_MAX, &pages->arena,
						  &local->pages[local->count], &used);
	}
	/* A file that was just made holds zeroes: neither a page nor damage. */
	if (rc == 0)
		note_end(&local->pages[local->count++]);
	else if (rc == -EBADMSG)
		local->bad++;
	else if (rc == -ENOMEM)
		pages->arena_small = true;
}

static void judge(struct nspy_status *page, uint64_t now_ns, uint64_t fresh_ns)
{
	page->dead = page->stopped = false;
	if (page->pidns == nspy_core.id.pidns) {
		enum nspy_alive alive = nspy_activity_alive(page->pid, page->starttime);

		page->dead = alive == NSPY_ALIVE_NO;
		page->stopped = alive == NSPY_ALIVE_STOPPED;
	}
	/* In another pid namespace only its silence can tell. */
	if (!page->dead && page->state == NSPY_STATUS_RUNNING &&
	    page->published_ns + fresh_ns < now_ns)
		page->stopped = true;
}

/* Before a look, when nothing lies in it. */
static void grow_arena(void)
{
	size_t bytes = 2 * pages->arena.bytes;
	void *more;

	if (!pages->arena_small || bytes > ARENA_MAX)
		return;
	pages->arena_small = false;
	more = nspy_live_map_private(bytes, 0);
	if (!more)
		return;
	munmap(pages->arena.base, pages->arena.bytes);
	pages->arena.base = more;
	pages->arena.bytes = bytes;
}

static bool speaks_before(const struct nspy_status *a, const struct nspy_status *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank;
	return a->pid < b->pid;
}

/* Of a process that had ended before this one began: an earlier run of the job that was killed. */
static bool is_of_earlier_run(const struct nspy_status *page)
{
	return (page->dead || page->state == NSPY_STATUS_EXITED) &&
	       page->published_ns < pages->began_ns;
}

static void drop_page(struct nspy_local *local, uint32_t i)
{
	local->pages[i] = local->pages[--local->count];
}

const struct nspy_local *nspy_pages_read(uint64_t now_ns, uint64_t fresh_ns)
{
	struct nspy_local *local = &pages->local;

	grow_arena();
	local->count = 0;
	local->bad = 0;
	pages->arena.used = 0;
	if (pages->shared)
		for_each_page(pages->prefix, pages->entries, sizeof(pages->entries), take_in);
	local->own = local->speaker = local->count;
	for (uint32_t i = local->count; i-- > 0;) {
		struct nspy_status *page = &local->pages[i];

		/* Nodes of a test may share a host's memory. */
		if (strncmp(page->node, nspy_core.id.node, sizeof(page->node) - 1) != 0) {
			drop_page(local, i);
			continue;
		}
		judge(page, now_ns, fresh_ns);
		if (is_of_earlier_run(page))
			drop_page(local, i);
	}
	local->own = local->speaker = local->count;
	for (uint32_t i = 0; i < local->count; i++) {
		const struct nspy_status *page = &local->pages[i];

		if (page->run_id == nspy_core.id.run_id)
			local->own = i;
		if (!page->dead && !page->stopped && page->state == NSPY_STATUS_RUNNING &&
		    (local->speaker == local->count ||
		     speaks_before(page, &local->pages[local->speaker])))
			local->speaker = i;
	}
	return local;
}

/* --- the end --- */

static void unlink_page(const char *name)
{
	char path[NSPY_PATH_MAX];

	(void)snprintf(path, sizeof(path), SHM_DIR "/%.255s", name);
	(void)unlink(path);
}

/* Commands to a job that is gone. */
static void unlink_control(const char *prefix)
{
	char path[NSPY_PATH_MAX];

	(void)snprintf(path, sizeof(path), SHM_DIR "/%.120s%s", prefix, NSPY_CONTROL_SUFFIX + 1);
	(void)unlink(path);
}

void nspy_pages_say_exit(int exit_code)
{
	const struct pages *made = atomic_load_explicit(&published, memory_order_acquire);
	struct exit_note *note;

	if (!made)
		return;
	note = (struct exit_note *)(made->shared + EXIT_OFFSET);
	note->code = exit_code;
	atomic_store_explicit(&note->seal, nspy_status_exit_seal(exit_code), memory_order_release);
}

void nspy_pages_say_signal(const struct nspy_signal_note *note)
{
	const struct pages *made = atomic_load_explicit(&published, memory_order_acquire);

	if (made)
		nspy_signal_note_write((void *)(made->shared + SIGNAL_OFFSET), note);
}

static _Atomic uint32_t others;

/* ...<pid namespace>.<pid>. behind the prefix of the job. */
static bool parse_owner(const char *name, uint64_t *ret_pidns, uint64_t *ret_pid)
{
	char prefix[NSPY_NAME_MAX], *end;
	const char *text;

	if (!job_prefix(name, prefix, sizeof(prefix)))
		return false;
	text = name + strlen(prefix);

	*ret_pidns = strtoull(text, &end, 10);
	if (*end != '.')
		return false;
	*ret_pid = strtoull(end + 1, &end, 10);
	return *end == '.';
}

/* Counts processes that are not at their end, by what their name and their exit note say. */
static void count_running(const char *name)
{
	uint64_t pidns, pid;
	struct exit_note note = {0};
	char path[NSPY_PATH_MAX];
	int fd;

	if (!parse_owner(name, &pidns, &pid))
		return;
	if (pidns == nspy_core.id.pidns && syscall(SYS_kill, (pid_t)pid, 0) < 0 && errno == ESRCH)
		return;
	(void)snprintf(path, sizeof(path), SHM_DIR "/%.255s", name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) { /* for want of a descriptor, say: then it may well run */
		if (errno != ENOENT)
			atomic_fetch_add_explicit(&others, 1, memory_order_relaxed);
		return;
	}
	if (pread(fd, &note, sizeof(note), EXIT_OFFSET) != (ssize_t)sizeof(note) ||
	    note.seal != nspy_status_gone_seal(note.code))
		atomic_fetch_add_explicit(&others, 1, memory_order_relaxed);
	close(fd);
}

/* Processes of a job that still run here; the prefix tells the job. */
static uint32_t running(const char *prefix, char *entries, size_t bytes)
{
	atomic_store(&others, 0);
	for_each_page(prefix, entries, bytes, count_running);
	return atomic_load(&others);
}

/* Pages of a job whose processes were all killed: nobody of it was left to clean up. */
static void remove_leftover(const char *name)
{
	_Alignas(8) char entries[2048];
	struct nspy_status page;
	struct timespec now;
	char prefix[NSPY_NAME_MAX];
	size_t used;

	pages->arena.used = 0;
	if (read_page(name) < (ssize_t)FILE_BYTES ||
	    nspy_status_decode(pages->in, NSPY_STATUS_BYTES_MAX, &pages->arena, &page, &used) < 0)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	if (page.pidns != nspy_core.id.pidns ||
	    page.published_real_ns + LEFTOVER_NS > (uint64_t)now.tv_sec * 1000000000u ||
	    nspy_activity_alive(page.pid, page.starttime) != NSPY_ALIVE_NO)
		return;
	if (!job_prefix(name, prefix, sizeof(prefix)) || running(prefix, entries, sizeof(entries)))
		return;
	unlink_page(name);
	unlink_control(prefix);
}

/* What was told by a job of which nobody lives (fold.h). */
static void remove_told(const char *name)
{
	_Alignas(8) char entries[2048];
	char prefix[NSPY_NAME_MAX], path[NSPY_PATH_MAX];
	struct timespec now;
	struct stat st;
	int fd;

	(void)snprintf(path, sizeof(path), SHM_DIR "/%.255s", name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	if (nspy_fstat(fd, &st) == 0 &&
	    st.st_mtim.tv_sec + (time_t)(LEFTOVER_NS / 1000000000u) < now.tv_sec &&
	    job_prefix(name, prefix, sizeof(prefix)) && !running(prefix, entries, sizeof(entries)))
		unlink_page(name);
	close(fd);
}

void nspy_pages_remove(void)
{
	const struct pages *made = atomic_load_explicit(&published, memory_order_acquire);
	_Alignas(8) char entries[2048];
	struct exit_note *note;

	if (!made)
		return;
	/*
	 * Pages of those that left stay for the ones that may still wait for them. Each has put
	 * down its note before it counts, so the last one finds nobody.
	 */
	note = (struct exit_note *)(made->shared + EXIT_OFFSET);
	atomic_store(&note->seal, nspy_status_gone_seal(note->code));
	if (running(made->prefix, entries, sizeof(entries)))
		return;
	for_each_page(made->prefix, entries, sizeof(entries), unlink_page);
	for_each_file(made->prefix, NSPY_FOLD_SUFFIX, entries, sizeof(entries), unlink_page);
	unlink_control(made->prefix);
}
