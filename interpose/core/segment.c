/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "core.h"
#include "say.h"
#include "trace_encode.h"
#include "trace_stat.h"

#define NUMBER_MAX 99999u
#define PATH_BYTES (NSPY_PATH_MAX + 16u)

struct segment {
	uint32_t number;
	uint64_t records;
	bool exists;
};

static struct {
	struct nspy_packer *packer;
	uint8_t *raw; /* payloads of a new segment's first chunks */
	uint8_t *out; /* packed chunk */
	size_t out_bytes;
	struct nspy_segment_heads heads;
	uint64_t segment_bytes;
	struct segment kept[NSPY_SEGMENTS_MAX]; /* oldest first; [0] is never removed */
	uint32_t kept_count;
	uint32_t next_number;
	uint32_t sequence;
	off_t offset; /* end of the last whole chunk in the current segment */
	dev_t device;
	ino_t inode;
	uint64_t written;
	bool refused; /* the last attempt failed */
	bool said;
} seg;

bool nspy_segment_start(const struct nspy_segment_heads *heads, uint64_t quota_bytes)
{
	size_t packer_bytes = nspy_packer_bytes();
	size_t out_bytes = nspy_chunk_bound(NSPY_RAW_BYTES_MAX);
	uint8_t *p = mmap(NULL, packer_bytes + NSPY_RAW_BYTES_MAX + out_bytes,
			  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(&seg, 0, sizeof(seg));
	if (p == MAP_FAILED)
		return false;
	seg.packer = nspy_packer_init(p, packer_bytes);
	seg.raw = p + packer_bytes;
	seg.out = seg.raw + NSPY_RAW_BYTES_MAX;
	seg.out_bytes = out_bytes;
	seg.heads = *heads;
	seg.segment_bytes = quota_bytes / NSPY_SEGMENTS_MAX;
	if (seg.segment_bytes < NSPY_SEGMENT_BYTES_MIN)
		seg.segment_bytes = NSPY_SEGMENT_BYTES_MIN;
	return seg.packer != NULL;
}

uint64_t nspy_segment_bytes_written(void)
{
	return seg.written;
}

static void path_of(uint32_t number, char *ret)
{
	(void)snprintf(ret, PATH_BYTES, "%s.%03u.nspy", nspy_core.id.base, number);
}

/* Says it once per kind of trouble; recording in memory goes on. */
static bool refuse(const char *what, const char *path, int error)
{
	char text[64];

	if (!seg.said)
		nspy_say(NSPY_SAY_WARN,
			 "cannot %s %.250s: %s; recording in memory only, the newest calls survive",
			 what, path, strerror_r(error, text, sizeof(text)));
	seg.said = true;
	seg.refused = true;
	return false;
}

/* A directory set up for a group says so itself: NCCLSPY_DIR, two levels above the files. */
static bool root_is_setgid(void)
{
	char root[PATH_BYTES];
	struct stat st;

	(void)snprintf(root, sizeof(root), "%s", nspy_core.id.dir);
	for (int level = 0; level < 2; level++) {
		char *slash = strrchr(root, '/');

		if (slash && slash != root)
			*slash = '\0';
	}
	return nspy_stat(root, &st) == 0 && (st.st_mode & S_ISGID);
}

/* mkdir -p. An existing directory is taken as it is, a default one in /tmp only if it is ours. */
static bool make_directories(const char *path)
{
	char part[PATH_BYTES];
	struct stat st;
	int error = 0;

	nspy_core.group_readable = nspy_core.env.NCCLSPY_GROUP || root_is_setgid();
	(void)snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
		if (slash)
			*slash = '\0';
		/* What counts is whether the directory is there in the end; if not, the first
		 * failure tells why. */
		if (mkdir(part, nspy_core.group_readable ? 02750 : 0700) < 0 && errno != EEXIST &&
		    !error)
			error = errno;
		if (!slash)
			break;
		*slash = '/';
	}
	if (nspy_lstat(path, &st) < 0)
		return refuse("create", path, error ? error : errno);
	if (!S_ISDIR(st.st_mode) || (nspy_core.id.node_local && st.st_uid != nspy_core.id.uid))
		return refuse("use", path, EPERM);
	return true;
}

bool nspy_segment_make_directories(void)
{
	return make_directories(nspy_core.id.dir);
}

static bool write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		bytes -= (size_t)n;
	}
	return true;
}

/* Appends to an open segment. What a failed write left behind is cut off again. */
static bool append(int fd, const char *path, const uint8_t *data, size_t bytes)
{
	int error;

	if (write_all(fd, data, bytes)) {
		seg.offset += (off_t)bytes;
		seg.written += bytes;
		seg.refused = false;
		return true;
	}
	error = errno ? errno : EIO;
	(void)syscall(SYS_ftruncate, fd, seg.offset);
	return refuse("write", path, error);
}

static bool write_chunk(int fd, const char *path, struct nspy_chunk_info *info,
			const uint8_t *payload, size_t raw_bytes)
{
	const struct nspy_live_head *head = nspy_core.head;
	long bytes;

	info->sequence = seg.sequence;
	info->segment = seg.kept[seg.kept_count - 1].number;
	info->run_id = nspy_core.id.run_id;
	info->mono_to_real_ns =
		head->clock[(head->clock_count - 1) % NSPY_CLOCK_PIECES].mono_to_real_ns;
	bytes = nspy_chunk_pack(seg.packer, info, payload, raw_bytes, seg.out, seg.out_bytes);
	if (bytes < 0 || !append(fd, path, seg.out, (size_t)bytes))
		return false;
	seg.sequence++;
	seg.kept[seg.kept_count - 1].records += info->records;
	return true;
}

static bool write_head(int fd, const char *path, enum nspy_chunk_kind kind,
		       long (*make)(uint8_t *out, size_t bytes))
{
	struct nspy_chunk_info info = {.kind = kind};
	long bytes = make(seg.raw, NSPY_RAW_BYTES_MAX);

	info.first_ns = info.last_ns = nspy_monotonic_ns();
	return bytes == 0 || (bytes > 0 && write_chunk(fd, path, &info, seg.raw, (size_t)bytes));
}

static void remove_oldest(void)
{
	char path[PATH_BYTES];

	path_of(seg.kept[1].number, path);
	unlink(path);
	nspy_count_loss(NSPY_LOSS_RECORDS_RING, seg.kept[1].records);
	memmove(&seg.kept[1], &seg.kept[2], (seg.kept_count - 2) * sizeof(seg.kept[0]));
	seg.kept_count--;
}

static int create_file(char *path)
{
	mode_t mode = nspy_core.group_readable ? 0640 : 0600;

	/* After an exec the same process has files of its earlier image: theirs stay. */
	for (; seg.next_number <= NUMBER_MAX; seg.next_number++) {
		int fd;

		path_of(seg.next_number, path);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
			  mode);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	errno = EMFILE;
	return -1;
}

/* Begins the next segment; -1 if the disk does not let us. */
static int open_next(char *path)
{
	struct stat st;
	int fd;

	if (seg.kept_count == 0 && !make_directories(nspy_core.id.dir))
		return -1;
	fd = create_file(path);
	if (fd < 0 || nspy_fstat(fd, &st) < 0) {
		(void)refuse("create", path, errno);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (seg.kept_count == NSPY_SEGMENTS_MAX)
		remove_oldest();
	seg.kept[seg.kept_count++] = (struct segment){.number = seg.next_number++};
	seg.offset = 0;
	seg.device = st.st_dev;
	seg.inode = st.st_ino;
	if (!write_head(fd, path, NSPY_CHUNK_IDENT, seg.heads.ident) ||
	    !write_head(fd, path, NSPY_CHUNK_SCHEMA, seg.heads.schema) ||
	    !write_head(fd, path, NSPY_CHUNK_STATE, seg.heads.checkpoint) ||
	    !write_head(fd, path, NSPY_CHUNK_NOTE, seg.heads.account)) {
		/* Without its head a segment says nothing: try a new one next time. */
		close(fd);
		unlink(path);
		seg.kept_count--;
		return -1;
	}
	return fd;
}

/* Opens the current segment again and makes sure that it is still the same file. */
static int reopen(char *path)
{
	struct stat st;
	int fd;

	path_of(seg.kept[seg.kept_count - 1].number, path);
	fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (nspy_fstat(fd, &st) == 0 && st.st_dev == seg.device && st.st_ino == seg.inode)
		return fd;
	close(fd);
	return -1;
}

bool nspy_segment_write(struct nspy_chunk_info *info, const uint8_t *payload, size_t raw_bytes)
{
	char path[PATH_BYTES];
	bool ok;
	int fd = -1;

	if (!seg.packer)
		return false;
	if (seg.kept_count && (uint64_t)seg.offset + raw_bytes / 4 < seg.segment_bytes)
		fd = reopen(path);
	/* Full, or removed under us: go on in a new one. */
	if (fd < 0)
		fd = open_next(path);
	if (fd < 0)
		return false;
	ok = write_chunk(fd, path, info, payload, raw_bytes);
	close(fd);
	return ok;
}
