/* SPDX-License-Identifier: Apache-2.0 */
/* Which job, and who of it runs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "trace_note.h"

#define SHM         "/dev/shm"
#define ARENA_BYTES ((size_t)256 << 10)
#define NS_PER_S    1000000000ull

static bool ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return n > s && strcmp(name + n - s, suffix) == 0;
}

/* The job of a status page of ours; false: it is none. */
static bool job_of_page(int dir, const char *name, char ret[256])
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint8_t *data = malloc(NSPY_STATUS_BYTES_MAX + ARENA_BYTES);
	struct nspy_arena arena = {data + NSPY_STATUS_BYTES_MAX, ARENA_BYTES, 0};
	struct nspy_status page;
	struct stat st;
	size_t used;
	bool found = false;
	ssize_t n = -1;

	if (fd >= 0 && data && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
		n = read(fd, data, NSPY_STATUS_BYTES_MAX);
	if (n > 0 && nspy_status_decode(data, (size_t)n, &arena, &page, &used) == 0) {
		(void)snprintf(ret, 256, "%s", page.job_dir);
		found = true;
	}
	if (fd >= 0)
		close(fd);
	free(data);
	return found;
}

/* "ncclspy.<uid>.<job hash>.": how all names of the job's files begin. */
static void copy_prefix(const char *name, char *ret, size_t bytes)
{
	size_t dots = 0, n = 0;

	for (; name[n] && dots < 3 && n + 1 < bytes; n++) {
		ret[n] = name[n];
		dots += name[n] == '.';
	}
	ret[n] = '\0';
}

/* Our own files in shared memory that belong to the job in this directory. */
static void find_prefix(struct ctl_job *job)
{
	char mine[32], dir[256];
	struct dirent *e;
	DIR *d = opendir(SHM);

	job->prefix[0] = '\0';
	(void)snprintf(mine, sizeof(mine), "ncclspy.%u.", (unsigned int)geteuid());
	while (d && !job->prefix[0] && (e = readdir(d)))
		if (strncmp(e->d_name, mine, strlen(mine)) == 0 &&
		    ends_with(e->d_name, NSPY_STATUS_SUFFIX) &&
		    job_of_page(dirfd(d), e->d_name, dir) && strcmp(dir, job->snap.job_dir) == 0)
			copy_prefix(e->d_name, job->prefix, sizeof(job->prefix));
	if (d)
		closedir(d);
}

/* A job that records nothing may have no directory: then its pages say where it would be. */
static bool find_in_memory(const char *word, struct ctl_job *job)
{
	char mine[32], dir[256];
	struct dirent *e;
	DIR *d = opendir(SHM);
	bool found = false;

	(void)snprintf(mine, sizeof(mine), "ncclspy.%u.", (unsigned int)geteuid());
	while (d && !found && (e = readdir(d))) {
		const char *slash;

		if (strncmp(e->d_name, mine, strlen(mine)) != 0 ||
		    !ends_with(e->d_name, NSPY_STATUS_SUFFIX) ||
		    !job_of_page(dirfd(d), e->d_name, dir))
			continue;
		slash = strrchr(dir, '/');
		found = strcmp(dir, word) == 0 || (slash && strcmp(slash + 1, word) == 0);
	}
	if (d)
		closedir(d);
	if (found)
		(void)snprintf(job->snap.job_dir, sizeof(job->snap.job_dir), "%s", dir);
	return found;
}

/* When traces are the only sign of life: those of a job on another node that has no board. */
static bool are_traces_new(const char *dir)
{
	time_t limit = time(NULL) - (time_t)(CTL_RUNNING_NS / NS_PER_S);
	char path[PATH_MAX];
	struct dirent *e, *file;
	DIR *d = opendir(dir), *node;
	bool found = false;

	while (d && !found && (e = readdir(d))) {
		if (e->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		node = opendir(path);
		while (node && !found && (file = readdir(node))) {
			struct stat st;

			found = ends_with(file->d_name, ".nspy") &&
				fstatat(dirfd(node), file->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				st.st_mtime >= limit;
		}
		if (node)
			closedir(node);
	}
	if (d)
		closedir(d);
	return found;
}

int ctl_find(const char *word, struct ctl_job *job)
{
	char real[PATH_MAX];

	job->has_dir = top_find_job(word, &job->snap) == 0;
	if (!job->has_dir && !find_in_memory(word, job))
		return -ENOENT;
	/* Not some job that happens to be the newest: a command is for one. */
	if (job->has_dir && realpath(word, real) && strcmp(real, job->snap.job_dir) != 0)
		return -EISDIR;
	return 0;
}

/* The board remembers a process of this host for a while after it has ended. */
static bool is_gone_here(const struct nspy_status *page)
{
	char host[256] = "";
	struct stat ns;

	return gethostname(host, sizeof(host) - 1) == 0 && strcmp(host, page->node) == 0 &&
	       stat("/proc/self/ns/pid", &ns) == 0 && ns.st_ino == page->pidns &&
	       kill((pid_t)page->pid, 0) < 0 && errno == ESRCH;
}

bool ctl_is_running(const struct ctl_job *job, const struct top_rank *rank)
{
	const struct nspy_status *page = &rank->page;

	return page->state == NSPY_STATUS_RUNNING && !page->dead &&
	       page->published_real_ns + CTL_RUNNING_NS > job->snap.now_real_ns &&
	       !is_gone_here(page);
}

int ctl_look(struct ctl_job *job)
{
	int rc = top_look(&job->snap);

	if (rc < 0)
		return rc;
	find_prefix(job);
	job->has_traces =
		!job->snap.rank_count && job->has_dir && are_traces_new(job->snap.job_dir);
	return 0;
}

static int compare_ranks(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

void ctl_count(const struct ctl_job *job, uint64_t id, struct ctl_count *ret)
{
	*ret = (struct ctl_count){.nodes = job->snap.nodes};
	for (size_t i = 0; i < job->snap.rank_count; i++) {
		const struct nspy_status *page = &job->snap.ranks[i].page;

		if (!ctl_is_running(job, &job->snap.ranks[i]))
			continue;
		ret->running++;
		ret->modes[page->mode <= NSPY_MODE_OFF ? page->mode : 3]++;
		if (page->hang_s && (!ret->hang_s[0] || page->hang_s < ret->hang_s[0]))
			ret->hang_s[0] = page->hang_s;
		if (page->hang_s > ret->hang_s[1])
			ret->hang_s[1] = page->hang_s;
		if (page->control_id >= id)
			ret->taken++;
		else if (ret->missing_count < sizeof(ret->missing) / sizeof(ret->missing[0]))
			ret->missing[ret->missing_count++] = page->rank;
	}
	qsort(ret->missing, ret->missing_count, sizeof(ret->missing[0]), compare_ranks);
}
