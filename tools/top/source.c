/* SPDX-License-Identifier: Apache-2.0 */
#include "top.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)1 << 20)
#define FILE_MAX    ((size_t)16 << 20) /* 128 pages are 4 MiB */
#define EVENTS_TAIL ((size_t)128 << 10)
#define RANKS_MAX   65536u
#define SHM         "/dev/shm"
#define NODE_SUFFIX ".node"

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s && strcmp(name + n - s, suffix) == 0;
}

/* --- which job --- */

static bool is_job(const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;
	struct stat st;
	bool found = false;
	DIR *d;

	if (snprintf(path, sizeof(path), "%s/board", dir) < (int)sizeof(path) &&
	    stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return true;
	if (snprintf(path, sizeof(path), "%s/events.jsonl", dir) < (int)sizeof(path) &&
	    stat(path, &st) == 0)
		return true;
	d = opendir(dir);
	while (d && !found && (e = readdir(d))) {
		DIR *node;
		struct dirent *file;

		if (e->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		node = opendir(path);
		while (node && !found && (file = readdir(node)))
			found = ends_with(file->d_name, ".nspy");
		if (node)
			closedir(node);
	}
	if (d)
		closedir(d);
	return found;
}

/* The directory below it that changed last. */
static bool newest_job(const char *dir, char ret[PATH_MAX])
{
	struct timespec best = {0};
	struct dirent *e;
	bool found = false;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		char path[PATH_MAX];
		struct stat st;

		if (e->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path) ||
		    stat(path, &st) != 0 || !S_ISDIR(st.st_mode) || !is_job(path))
			continue;
		if (found &&
		    (st.st_mtim.tv_sec < best.tv_sec ||
		     (st.st_mtim.tv_sec == best.tv_sec && st.st_mtim.tv_nsec <= best.tv_nsec)))
			continue;
		best = st.st_mtim;
		found = true;
		(void)snprintf(ret, PATH_MAX, "%s", path);
	}
	if (d)
		closedir(d);
	return found;
}

static void default_dir(char ret[PATH_MAX])
{
	const char *dir = getenv("NCCLSPY_DIR"), *tmp = getenv("TMPDIR");

	if (dir && dir[0])
		(void)snprintf(ret, PATH_MAX, "%s", dir);
	else
		(void)snprintf(ret, PATH_MAX, "%s/ncclspy-%u", tmp && tmp[0] ? tmp : "/tmp",
			       (unsigned int)getuid());
}

int top_find_job(const char *word, struct top_snapshot *snap)
{
	char base[PATH_MAX], path[PATH_MAX], real[PATH_MAX];
	struct stat st;

	default_dir(base);
	if (!word)
		(void)snprintf(path, sizeof(path), "%s", base);
	else if (stat(word, &st) == 0 || strchr(word, '/'))
		(void)snprintf(path, sizeof(path), "%s", word);
	else if (snprintf(path, sizeof(path), "%s/%s", base, word) >= (int)sizeof(path))
		return -ENOENT;
	if (stat(path, &st) != 0)
		return -ENOENT;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (!is_job(path) && !newest_job(path, path))
		return -ENOENT;
	if (!realpath(path, real))
		return -errno;
	(void)snprintf(snap->job_dir, sizeof(snap->job_dir), "%.255s", real);
	(void)snprintf(snap->job, sizeof(snap->job), "%.127s", strrchr(real, '/') + 1);
	top_clean(snap->job);
	return 0;
}

/* --- pages --- */

static struct nspy_arena *more_memory(struct top_snapshot *snap)
{
	struct nspy_arena *blocks =
		realloc(snap->blocks, (snap->block_count + 1) * sizeof(*snap->blocks));
	void *base = malloc(BLOCK_BYTES);

	if (blocks)
		snap->blocks = blocks;
	if (!blocks || !base) {
		free(base);
		return NULL;
	}
	snap->blocks[snap->block_count] = (struct nspy_arena){base, BLOCK_BYTES, 0};
	return &snap->blocks[snap->block_count++];
}

static int decode(struct top_snapshot *snap, const uint8_t *data, size_t bytes,
		  struct nspy_status *ret, size_t *ret_bytes)
{
	struct nspy_arena *arena = snap->block_count ? &snap->blocks[snap->block_count - 1] : NULL;
	int rc = arena ? nspy_status_decode(data, bytes, arena, ret, ret_bytes) : -ENOMEM;

	if (rc != -ENOMEM)
		return rc;
	arena = more_memory(snap);
	return arena ? nspy_status_decode(data, bytes, arena, ret, ret_bytes) : -ENOMEM;
}

/* Whether the process is still there, and is the one that wrote the page; whether it runs. */
static void look_at_process(struct nspy_status *page)
{
	char path[64], text[1024], *at;
	unsigned long long start = 0;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", page->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		page->dead = errno == ENOENT;
		return;
	}
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0) {
		page->dead = errno == ESRCH;
		return;
	}
	text[n] = '\0';
	at = strrchr(text, ')'); /* state is field 3, the start time field 22 */
	if (!at || !at[1] || !at[2])
		return;
	page->stopped = at[2] == 'T' || at[2] == 't';
	page->dead = at[2] == 'Z' || at[2] == 'X';
	for (int field = 3; at && field < 23; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	if (start && page->starttime && start != page->starttime)
		page->dead = true;
}

static uint64_t own_pidns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static void clean_page(struct nspy_status *page)
{
	top_clean(page->node);
	top_clean(page->job_dir);
	top_clean(page->event_id);
	top_clean(page->caller_wchan);
	for (uint32_t i = 0; i < page->name_count; i++)
		top_clean(page->names[i]);
}

/* Each process is in one file of the board; a page in shared memory is newer than that. */
static int add_rank(struct top_snapshot *snap, const struct nspy_status *page, bool local)
{
	struct top_rank *rank = NULL;

	for (size_t i = 0; local && i < snap->rank_count && !rank; i++)
		if (snap->ranks[i].page.run_id == page->run_id &&
		    snap->ranks[i].page.pid == page->pid)
			rank = &snap->ranks[i];
	if (rank && rank->page.published_real_ns > page->published_real_ns)
		return 0;
	if (!rank && snap->rank_count == RANKS_MAX)
		return 0;
	if (!rank && snap->rank_count == snap->rank_room) {
		size_t room = snap->rank_room ? 2 * snap->rank_room : 64;
		struct top_rank *more = realloc(snap->ranks, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		snap->ranks = more;
		snap->rank_room = room;
	}
	if (!rank)
		rank = &snap->ranks[snap->rank_count++];
	*rank = (struct top_rank){.page = *page, .lag_ns = -1};
	return 0;
}

int top_take_pages(struct top_snapshot *snap, const uint8_t *data, size_t bytes, bool local)
{
	size_t used = 0;

	for (size_t at = 0; at < bytes; at += used) {
		struct nspy_status page;
		int rc = decode(snap, data + at, bytes - at, &page, &used);

		if (rc == -ENOMEM)
			return rc;
		if (rc < 0) { /* the rest has lost its beginning */
			snap->bad++;
			return 0;
		}
		clean_page(&page);
		if (local && page.pidns == own_pidns())
			look_at_process(&page);
		rc = add_rank(snap, &page, local);
		if (rc < 0 || local)
			return rc;
	}
	return 0;
}

/* A whole file, or its last bytes; NULL if it is none that may be read. */
static uint8_t *read_file(int dir, const char *name, size_t most, size_t *ret_bytes)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint8_t *data = NULL;
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		off_t from = (size_t)st.st_size > most ? st.st_size - (off_t)most : 0;

		data = malloc((size_t)(st.st_size - from) + 1);
		if (data)
			n = pread(fd, data, (size_t)(st.st_size - from), from);
	}
	close(fd);
	if (n <= 0) {
		free(data);
		return NULL;
	}
	data[n] = '\0';
	*ret_bytes = (size_t)n;
	return data;
}

static int read_board(struct top_snapshot *snap)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;
	int rc = 0;

	(void)snprintf(path, sizeof(path), "%s/board", snap->job_dir);
	d = opendir(path);
	while (d && rc == 0 && (e = readdir(d))) {
		size_t bytes;
		uint8_t *data;

		if (e->d_name[0] == '.' || !ends_with(e->d_name, NODE_SUFFIX))
			continue;
		data = read_file(dirfd(d), e->d_name, FILE_MAX, &bytes);
		if (data)
			rc = top_take_pages(snap, data, bytes, false);
		free(data);
	}
	if (d)
		closedir(d);
	return rc;
}

static void note_exit(struct top_snapshot *snap, uint64_t run_id, int32_t code)
{
	for (size_t i = 0; i < snap->rank_count; i++) {
		struct nspy_status *page = &snap->ranks[i].page;

		if (page->run_id != run_id)
			continue;
		page->state = NSPY_STATUS_EXITED;
		page->exit_code = code;
	}
}

/* A page that another process is just writing is read again. */
static int read_local(struct top_snapshot *snap, int dir, const char *name)
{
	for (int i = 0; i < 3; i++) {
		struct nspy_status page;
		size_t bytes, used;
		uint8_t *data = read_file(dir, name, 2 * NSPY_STATUS_BYTES_MAX, &bytes);
		int32_t code;
		int rc;

		if (!data)
			return 0;
		rc = decode(snap, data, bytes, &page, &used);
		if (rc == 0 && strcmp(page.job_dir, snap->job_dir) == 0) {
			rc = top_take_pages(snap, data, used, true);
			if (rc == 0 && nspy_status_exited(data, bytes, &code))
				note_exit(snap, page.run_id, code);
		}
		free(data);
		if (rc != -EBADMSG)
			return rc == -ENOMEM ? rc : 0;
	}
	return 0; /* whose it is cannot be told: of another job, perhaps */
}

static int read_shared_memory(struct top_snapshot *snap)
{
	struct dirent *e;
	DIR *d = opendir(SHM);
	int rc = 0;

	while (d && rc == 0 && (e = readdir(d)))
		if (strncmp(e->d_name, "ncclspy.", 8) == 0 &&
		    ends_with(e->d_name, NSPY_STATUS_SUFFIX))
			rc = read_local(snap, dirfd(d), e->d_name);
	if (d)
		closedir(d);
	return rc;
}

static void read_events(struct top_snapshot *snap)
{
	int dir = open(snap->job_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t bytes;
	uint8_t *data = dir < 0 ? NULL : read_file(dir, "events.jsonl", EVENTS_TAIL, &bytes);

	if (data)
		top_take_events(snap, (const char *)data, bytes);
	free(data);
	if (dir >= 0)
		close(dir);
}

static void forget(struct top_snapshot *snap)
{
	for (size_t i = 0; i < snap->block_count; i++)
		free(snap->blocks[i].base);
	free(snap->comms);
	snap->comms = NULL;
	snap->block_count = snap->rank_count = snap->comm_count = snap->event_count = 0;
	snap->bad = 0;
}

int top_look(struct top_snapshot *snap)
{
	struct timespec real;
	int rc;

	forget(snap);
	clock_gettime(CLOCK_REALTIME, &real);
	snap->now_real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	rc = read_board(snap);
	if (rc == 0)
		rc = read_shared_memory(snap);
	read_events(snap);
	return rc == 0 ? top_measure(snap) : rc;
}

void top_free(struct top_snapshot *snap)
{
	forget(snap);
	free(snap->blocks);
	free(snap->ranks);
	snap->blocks = NULL;
	snap->ranks = NULL;
	snap->rank_room = 0;
}
