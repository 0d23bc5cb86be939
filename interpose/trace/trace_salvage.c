/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace_stat.h"

#define STAT_BYTES 1024

/* --- names --- */

/* Reads digits of the base up to the terminator; moves *at behind it. */
static int parse_number(const char **at, unsigned int base, char terminator, uint64_t *ret)
{
	const char *p = *at;
	uint64_t value = 0;
	unsigned int digits = 0;

	for (; *p && *p != terminator; p++, digits++) {
		unsigned int digit = base;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned int)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			digit = (unsigned int)(*p - 'a') + 10;
		if (digit >= base || value > (UINT64_MAX - digit) / base)
			return -EINVAL;
		value = value * base + digit;
	}
	if (*p != terminator || digits == 0 || (base == 16 && digits != 16))
		return -EINVAL;
	*at = *p ? p + 1 : p;
	*ret = value;
	return 0;
}

int nspy_live_name_parse(const char *name, struct nspy_live_name *ret)
{
	static const char prefix[] = "ncclspy.";
	struct nspy_live_name got;
	const char *at = name;

	if (strncmp(at, prefix, sizeof(prefix) - 1) != 0)
		return -EINVAL;
	at += sizeof(prefix) - 1;
	if (parse_number(&at, 10, '.', &got.uid) < 0 ||
	    parse_number(&at, 16, '.', &got.job_hash) < 0 ||
	    parse_number(&at, 10, '.', &got.pid_namespace) < 0 ||
	    parse_number(&at, 10, '.', &got.pid) < 0 ||
	    parse_number(&at, 16, '.', &got.run_id) < 0 || strcmp(at, NSPY_LIVE_SUFFIX + 1) != 0)
		return -EINVAL;
	*ret = got;
	return 0;
}

/* --- processes --- */

static int read_small(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;
	int error;

	if (fd < 0)
		return -errno;
	do {
		got = read(fd, text, bytes - 1);
	} while (got < 0 && errno == EINTR);
	error = errno;
	close(fd);
	if (got < 0)
		return -error;
	text[got] = '\0';
	return 0;
}

/* Number in field n of a stat line; at is behind the name, in front of field 3. */
static int stat_field(const char *at, int n, uint64_t *ret)
{
	for (int field = 3; field <= n; field++) {
		at = strchr(at, ' ');
		if (!at)
			return -EINVAL;
		at++;
	}
	return parse_number(&at, 10, ' ', ret);
}

int nspy_process_starttime(uint64_t pid, uint64_t *ret_starttime)
{
	char path[64], text[STAT_BYTES];
	uint64_t threads, starttime;
	const char *name_end;

	(void)snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	if (read_small(path, text, sizeof(text)) < 0)
		return -ESRCH;
	/* "pid (name) state ...": the name may hold anything, its last bracket ends it. */
	name_end = strrchr(text, ')');
	if (!name_end || stat_field(name_end + 1, 20, &threads) < 0 ||
	    stat_field(name_end + 1, 22, &starttime) < 0)
		return -ESRCH;
	/* Z with more threads: only main() has left, the process lives on. */
	if (name_end[1] == ' ' && strchr("ZXx", name_end[2]) && threads <= 1)
		return -ESRCH;
	*ret_starttime = starttime;
	return 0;
}

int nspy_pid_namespace(uint64_t *ret_inode)
{
	struct stat st;

	if (nspy_stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	*ret_inode = st.st_ino;
	return 0;
}

/* A process without known start counts as alive as long as its pid is in use. */
static bool owner_alive(const struct nspy_live_facts *facts)
{
	uint64_t starttime;

	if (nspy_process_starttime(facts->pid, &starttime) < 0)
		return false;
	return facts->starttime == 0 || facts->starttime == starttime;
}

/* --- reading a live file --- */

static int read_at(int fd, void *data, size_t bytes, off_t offset)
{
	uint8_t *at = data;

	while (bytes) {
		ssize_t got = pread(fd, at, bytes, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -EBADMSG;
		at += got;
		offset += got;
		bytes -= (size_t)got;
	}
	return 0;
}

static bool key_is(const char *key, size_t bytes, const char *wanted)
{
	return bytes == strlen(wanted) && memcmp(key, wanted, bytes) == 0;
}

/* The two keys of the ident text in salvage->buffer. */
static int read_ident(struct nspy_salvage *salvage, size_t bytes)
{
	struct nspy_live_facts *facts = &salvage->facts;
	const char *key, *value;
	size_t cursor = 0, key_bytes, value_bytes;
	char number[24];

	while (nspy_ident_next(salvage->buffer, bytes, &cursor, &key, &key_bytes, &value,
			       &value_bytes) == 0) {
		if (key_is(key, key_bytes, "trace.base")) {
			if (value_bytes >= sizeof(facts->base) || memchr(value, '\0', value_bytes))
				return -EBADMSG;
			memcpy(facts->base, value, value_bytes);
			facts->base[value_bytes] = '\0';
		} else if (key_is(key, key_bytes, "starttime")) {
			const char *at = number;

			if (value_bytes >= sizeof(number))
				return -EBADMSG;
			memcpy(number, value, value_bytes);
			number[value_bytes] = '\0';
			if (parse_number(&at, 10, '\0', &facts->starttime) < 0)
				return -EBADMSG;
		}
	}
	return facts->base[0] == '/' ? 0 : -EBADMSG;
}

/* -ENODATA: the file was created, but its process has not filled it in. */
static int read_facts(struct nspy_salvage *salvage, int fd)
{
	struct nspy_live_head *head = &salvage->head;
	uint32_t ident_bytes;
	int rc = read_at(fd, head, sizeof(*head), 0);

	if (rc < 0)
		return rc;
	ident_bytes = atomic_load_explicit(&head->ident_bytes, memory_order_relaxed);
	if (head->magic == 0 || ident_bytes == 0)
		return -ENODATA;
	if (head->magic != NSPY_LIVE_MAGIC || ident_bytes > NSPY_LIVE_IDENT_BYTES)
		return -EBADMSG;
	if (head->version > NSPY_LIVE_VERSION)
		return -EPROTONOSUPPORT;
	rc = read_at(fd, salvage->buffer, ident_bytes, head->ident_offset);
	if (rc < 0)
		return rc;
	salvage->facts.run_id = head->run_id;
	salvage->facts.pid = head->pid;
	salvage->facts.starttime = 0;
	salvage->facts.base[0] = '\0';
	return read_ident(salvage, ident_bytes);
}

static bool below(const char *path, const char *root)
{
	size_t bytes = strlen(root);

	while (bytes > 0 && root[bytes - 1] == '/')
		bytes--;
	return strncmp(path, root, bytes) == 0 && path[bytes] == '/' && !strstr(path, "/../");
}

/* --- copying --- */

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t put = write(fd, data, bytes);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 ? -errno : -EIO;
		data += put;
		bytes -= (size_t)put;
	}
	return 0;
}

static int copy_bytes(struct nspy_salvage *salvage, int from, int to, off_t bytes)
{
	for (off_t offset = 0; offset < bytes;) {
		size_t piece = sizeof(salvage->buffer);
		int rc;

		if ((off_t)piece > bytes - offset)
			piece = (size_t)(bytes - offset);
		rc = read_at(from, salvage->buffer, piece, offset);
		if (rc == 0)
			rc = write_all(to, salvage->buffer, piece);
		if (rc < 0)
			return rc;
		offset += (off_t)piece;
	}
	return 0;
}

static int name_copies(struct nspy_salvage *salvage)
{
	const struct nspy_live_facts *facts = &salvage->facts;
	int bytes = snprintf(salvage->target, sizeof(salvage->target), "%s.%016llx%s", facts->base,
			     (unsigned long long)facts->run_id, NSPY_LIVE_SUFFIX);

	if (bytes < 0 || (size_t)bytes >= sizeof(salvage->target))
		return -ENAMETOOLONG;
	bytes = snprintf(salvage->temporary, sizeof(salvage->temporary), "%s.%ld.tmp",
			 salvage->target, syscall(SYS_gettid));
	if (bytes < 0 || (size_t)bytes >= sizeof(salvage->temporary))
		return -ENAMETOOLONG;
	return 0;
}

/* The folders above path: a process may have been killed before it wrote its first segment. */
static int make_parents(char *path, mode_t file_mode)
{
	mode_t mode = file_mode & S_IRGRP ? 02750 : 0700;

	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		int rc;

		*slash = '\0';
		rc = mkdir(path, mode) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES
			     ? -errno
			     : 0;
		*slash = '/';
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int create(struct nspy_salvage *salvage)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd, rc;

	/* Left behind by a process of our number that was killed here: no one else's. */
	(void)unlink(salvage->temporary);
	fd = open(salvage->temporary, flags, salvage->mode);
	if (fd < 0 && errno == ENOENT) {
		rc = make_parents(salvage->temporary, salvage->mode);
		if (rc < 0)
			return rc;
		fd = open(salvage->temporary, flags, salvage->mode);
	}
	return fd < 0 ? -errno : fd;
}

static int save(struct nspy_salvage *salvage, int fd, off_t bytes)
{
	int to, rc = name_copies(salvage);

	if (rc < 0)
		return rc;
	to = create(salvage);
	if (to < 0)
		return to;
	rc = copy_bytes(salvage, fd, to, bytes);
	/* A full disk may show only here. */
	if (close(to) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(salvage->temporary, salvage->target) < 0)
		rc = -errno;
	if (rc < 0)
		(void)unlink(salvage->temporary);
	return rc;
}

/* --- the directory --- */

static bool wanted(const struct nspy_salvage *salvage, const char *name,
		   struct nspy_live_name *ret_parsed)
{
	return nspy_live_name_parse(name, ret_parsed) == 0 && ret_parsed->uid == salvage->uid &&
	       ret_parsed->pid_namespace == salvage->pid_namespace &&
	       (salvage->any_job || ret_parsed->job_hash == salvage->job_hash);
}

/* A recording of the caller's process from before an exec. */
static bool is_own_past(const struct nspy_salvage *salvage)
{
	return salvage->own_run_id && salvage->facts.pid == (uint32_t)getpid() &&
	       salvage->facts.run_id != salvage->own_run_id;
}

/* One opened file. The name counts for nothing here: what it says inside must agree with it. */
static void visit_file(struct nspy_salvage *salvage, int dir, const char *name, int fd,
		       const struct nspy_live_name *parsed)
{
	uint64_t starttime;
	struct stat st;
	int rc;

	if (nspy_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != salvage->uid ||
	    st.st_size > (off_t)NSPY_SALVAGE_SOURCE_MAX)
		return;
	rc = read_facts(salvage, fd);
	if (rc == -ENODATA && nspy_process_starttime(parsed->pid, &starttime) == -ESRCH) {
		/* Killed before it could say what it is: there is nothing in it. */
		(void)unlinkat(dir, name, 0);
		return;
	}
	if (rc < 0 || salvage->facts.run_id != parsed->run_id || salvage->facts.pid != parsed->pid)
		return;
	if (salvage->trace_root && !below(salvage->facts.base, salvage->trace_root))
		return;
	if (owner_alive(&salvage->facts) && !is_own_past(salvage)) {
		salvage->alive++;
		return;
	}
	rc = save(salvage, fd, st.st_size);
	if (rc == 0) {
		salvage->saved++;
		(void)unlinkat(dir, name, 0);
	} else {
		salvage->failed++;
	}
	if (salvage->report)
		salvage->report(salvage->context, &salvage->facts, rc);
}

static void visit(struct nspy_salvage *salvage, int dir, const char *name)
{
	struct nspy_live_name parsed;
	int fd;

	if (!wanted(salvage, name, &parsed))
		return;
	/* O_NONBLOCK: a FIFO of that name must not hold us up. */
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	visit_file(salvage, dir, name, fd, &parsed);
	close(fd);
}

/* What getdents64 returns; readdir would allocate. */
struct directory_entry {
	uint64_t inode;
	int64_t offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

int nspy_salvage_run(struct nspy_salvage *salvage)
{
	int dir = open(salvage->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long got;
	int rc = 0;

	if (dir < 0)
		return -errno;
	salvage->alive = salvage->saved = salvage->failed = 0;
	while ((got = syscall(SYS_getdents64, dir, salvage->entries, sizeof(salvage->entries))) >
	       0) {
		for (long at = 0; at < got;) {
			const struct directory_entry *entry = (const void *)(salvage->entries + at);

			visit(salvage, dir, entry->name);
			at += entry->bytes;
		}
	}
	if (got < 0)
		rc = -errno;
	close(dir);
	return rc;
}
