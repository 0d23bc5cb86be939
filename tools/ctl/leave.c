/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and leaving commands. Files are written beside and renamed; the file beside is made with
 * O_EXCL and so keeps a second ncclspy-ctl out while the first reads, adds and writes. No link is
 * followed below the job's directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"

#define SHM        "/dev/shm"
#define BESIDE     "." NSPY_CONTROL_NAME ".new"
#define TRIES      60
#define PAUSE_NS   50000000L
#define RATE_NS    30000000000ull /* in which no more commands are left than a file holds */
#define NAME_BYTES 200

/* A file that nobody but us can have written. */
static bool read_control(int dir, const char *name, struct nspy_control *ret)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[NSPY_CONTROL_BYTES_MAX];
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    !(st.st_mode & 022))
		n = read(fd, text, sizeof(text));
	close(fd);
	return n > 0 && nspy_control_decode(text, (size_t)n, ret) == 0;
}

/* Whoever can write there could put other files in the place of ours. */
static int check_dir(int dir)
{
	struct stat st;

	if (fstat(dir, &st) < 0)
		return -errno;
	return st.st_uid == geteuid() && !(st.st_mode & 022) ? 0 : -EPERM;
}

/* The job's board; negative errno. */
static int open_board(const struct ctl_job *job, bool make)
{
	int dir = open(job->snap.job_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), board, rc;
	struct stat st;

	if (dir < 0)
		return -errno;
	rc = check_dir(dir);
	if (make && rc == 0 && fstat(dir, &st) == 0 &&
	    mkdirat(dir, "board", st.st_mode & S_ISGID ? 02750 : 0700) < 0 && errno != EEXIST)
		rc = -errno;
	board = rc < 0 ? -1 : openat(dir, "board", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (rc == 0 && board < 0)
		rc = -errno;
	close(dir);
	if (rc == 0)
		rc = check_dir(board);
	if (rc < 0 && board >= 0)
		close(board);
	return rc < 0 ? rc : board;
}

static int open_shm(void)
{
	int dir = open(SHM, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir < 0 ? -errno : dir;
}

/* <prefix>control */
static void local_name(const struct ctl_job *job, char ret[NAME_BYTES])
{
	(void)snprintf(ret, NAME_BYTES, "%s%s", job->prefix, NSPY_CONTROL_SUFFIX + 1);
}

static uint64_t newest(const struct nspy_control *control)
{
	return control->count ? control->at[control->count - 1].id : 0;
}

void ctl_read(struct ctl_job *job)
{
	struct nspy_control local = {0};
	char name[NAME_BYTES];
	int board = job->has_dir ? open_board(job, false) : -ENOENT;
	int shm = job->prefix[0] ? open_shm() : -ENOENT;

	if (board < 0 || !read_control(board, NSPY_CONTROL_NAME, &job->control))
		job->control = (struct nspy_control){0};
	local_name(job, name);
	if (shm >= 0 && read_control(shm, name, &local) && newest(&local) > newest(&job->control) &&
	    strcmp(local.job_dir, job->snap.job_dir) == 0)
		job->control = local;
	(void)snprintf(job->control.job_dir, sizeof(job->control.job_dir), "%s", job->snap.job_dir);
	if (board >= 0)
		close(board);
	if (shm >= 0)
		close(shm);
}

/* Makes the file beside; -EAGAIN: somebody else is at it. */
static int make_beside(int dir, const char *beside)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	for (int i = 0;; i++) {
		int fd = openat(dir, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				0600);

		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
		if (i == TRIES) /* whoever made it was killed: the next one gets it */
			(void)unlinkat(dir, beside, 0);
		if (i == TRIES)
			return -EAGAIN;
		(void)nanosleep(&pause, NULL);
	}
}

static int finish(int dir, int fd, const char *beside, const char *name, const char *text,
		  long bytes)
{
	int rc = bytes < 0 ? (int)bytes : 0;

	if (rc == 0 && write(fd, text, (size_t)bytes) != bytes)
		rc = errno ? -errno : -EIO;
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && renameat(dir, beside, dir, name) < 0)
		rc = -errno;
	if (rc < 0)
		(void)unlinkat(dir, beside, 0);
	return rc;
}

/* Ids rise within a job, and lie behind all that its ranks have published, whatever our clock says.
 */
static int number(const struct ctl_job *job, struct nspy_command *command)
{
	uint64_t now, last = newest(&job->control);
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	now = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	if (job->control.count == NSPY_CONTROL_COMMANDS && job->control.at[0].id + RATE_NS > now)
		return -EAGAIN;
	command->id = now > last ? now : last + 1;
	for (size_t i = 0; i < job->snap.rank_count; i++)
		if (ctl_is_running(job, &job->snap.ranks[i]) &&
		    job->snap.ranks[i].page.published_real_ns >= command->id)
			command->id = job->snap.ranks[i].page.published_real_ns + 1;
	return 0;
}

static int leave_local(struct ctl_job *job)
{
	char text[NSPY_CONTROL_BYTES_MAX], name[NAME_BYTES], beside[NAME_BYTES + 8];
	int dir = open_shm(), fd;

	if (dir < 0)
		return dir;
	local_name(job, name);
	(void)snprintf(beside, sizeof(beside), ".%s.new", name);
	fd = make_beside(dir, beside);
	if (fd >= 0)
		fd = finish(dir, fd, beside, name, text,
			    nspy_control_encode(&job->control, text, sizeof(text)));
	close(dir);
	return fd;
}

static int leave_shared(struct ctl_job *job, struct nspy_command *command)
{
	char text[NSPY_CONTROL_BYTES_MAX];
	int board = open_board(job, true), fd, rc;

	if (board < 0)
		return board;
	fd = make_beside(board, BESIDE);
	if (fd < 0) {
		close(board);
		return fd;
	}
	ctl_read(job);
	rc = number(job, command);
	if (rc == 0)
		nspy_control_add(&job->control, command);
	rc = finish(board, fd, BESIDE, NSPY_CONTROL_NAME, text,
		    rc < 0 ? rc : nspy_control_encode(&job->control, text, sizeof(text)));
	close(board);
	return rc;
}

int ctl_leave(struct ctl_job *job, struct nspy_command *command)
{
	int rc;

	if (job->has_dir) {
		rc = leave_shared(job, command);
		if (rc < 0)
			return rc;
	} else {
		ctl_read(job);
		rc = number(job, command);
		if (rc < 0)
			return rc;
		nspy_control_add(&job->control, command);
	}
	return job->prefix[0] ? leave_local(job) : 0;
}
