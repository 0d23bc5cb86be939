/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "exchange.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "live.h"
#include "mode.h"
#include "segment.h"
#include "trace_bytes.h"
#include "trace_stat.h"

#define NODE_SUFFIX  ".node"
#define DIGEST_NAME  "job.digest"
#define ROOM_MIN     ((size_t)32 << 10)
#define IN_MAX       ((size_t)256 << 20)
#define NAME_BYTES   300u
#define LENGTH_BYTES 8u /* stand before each file in what was read */

/* Whose turn it is with a buffer. */
enum turn { TURN_FREE, TURN_WRITER, TURN_WATCHER };

struct buffer {
	_Atomic uint32_t turn;
	uint8_t *data;
	size_t bytes, room;
};

static struct {
	struct buffer out, in;
	bool heads_only;
	_Atomic bool refused;
	_Atomic uint32_t digest_out_turn, digest_in_turn;
	char digest_out[NSPY_DIGEST_BYTES], digest_in[NSPY_DIGEST_BYTES];
	size_t digest_out_bytes, digest_in_bytes;
	/* Whom a file of ours belonged to. */
	bool has_written;
	uint32_t written_uid;
} box;

/* As the kernel writes it; glibc's readdir allocates. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

void nspy_exchange_start(void)
{
	/* A forked child has not inherited the buffers. */
	memset(&box, 0, sizeof(box));
}

static uint32_t turn_of(_Atomic uint32_t *turn)
{
	return atomic_load_explicit(turn, memory_order_acquire);
}

/* Pairs with turn_of on the other side. */
static void give(_Atomic uint32_t *turn, enum turn to)
{
	atomic_store_explicit(turn, to, memory_order_release);
}

/* Keeps the bytes that are in it. */
static bool make_room(struct buffer *b, size_t bytes)
{
	size_t room = b->room ? b->room : ROOM_MIN;
	uint8_t *more;

	if (bytes <= b->room)
		return true;
	while (room < bytes)
		room *= 2;
	more = room <= IN_MAX ? nspy_live_map_private(room, 0) : NULL;
	if (!more)
		return false;
	if (b->data) {
		memcpy(more, b->data, b->bytes);
		munmap(b->data, b->room);
	}
	b->data = more;
	b->room = room;
	return true;
}

/* --- watcher's side --- */

uint8_t *nspy_exchange_room(size_t bytes)
{
	if (turn_of(&box.out.turn) == TURN_WRITER || !make_room(&box.out, bytes))
		return NULL;
	return box.out.data;
}

void nspy_exchange_post(size_t bytes)
{
	box.out.bytes = bytes;
	give(&box.out.turn, TURN_WRITER);
}

bool nspy_exchange_ask_pages(bool heads_only)
{
	if (turn_of(&box.in.turn) != TURN_FREE)
		return false;
	box.heads_only = heads_only;
	give(&box.in.turn, TURN_WRITER);
	return true;
}

bool nspy_exchange_pages(bool *ret_heads_only)
{
	if (turn_of(&box.in.turn) != TURN_WATCHER)
		return false;
	*ret_heads_only = box.heads_only;
	return true;
}

const uint8_t *nspy_exchange_next(size_t *cursor, size_t *ret_bytes)
{
	const uint8_t *file = box.in.data + *cursor + LENGTH_BYTES;

	if (*cursor >= box.in.bytes)
		return NULL;
	*ret_bytes = (size_t)nspy_le64_load(file - LENGTH_BYTES);
	*cursor += LENGTH_BYTES + *ret_bytes;
	return file;
}

void nspy_exchange_done(void)
{
	give(&box.in.turn, TURN_FREE);
}

void nspy_exchange_post_digest(const struct nspy_digest *digest)
{
	if (turn_of(&box.digest_out_turn) == TURN_WRITER)
		return;
	box.digest_out_bytes = nspy_digest_encode(digest, box.digest_out);
	give(&box.digest_out_turn, TURN_WRITER);
}

void nspy_exchange_ask_digest(void)
{
	if (turn_of(&box.digest_in_turn) == TURN_FREE)
		give(&box.digest_in_turn, TURN_WRITER);
}

bool nspy_exchange_digest(struct nspy_digest *ret)
{
	bool ok;

	if (turn_of(&box.digest_in_turn) != TURN_WATCHER)
		return false;
	ok = nspy_digest_decode(box.digest_in, box.digest_in_bytes, ret);
	give(&box.digest_in_turn, TURN_FREE);
	return ok;
}

bool nspy_exchange_refused(void)
{
	return atomic_load_explicit(&box.refused, memory_order_relaxed);
}

/* --- writer's side --- */

static int open_board(bool make)
{
	char path[NSPY_PATH_MAX];
	const char *slash = strrchr(nspy_core.id.dir, '/');

	if (!slash)
		return -1;
	(void)snprintf(path, sizeof(path), "%.*s/board", (int)(slash - nspy_core.id.dir),
		       nspy_core.id.dir);
	/* Where nothing is recorded, nobody has made it yet. */
	if (make && nspy_mode_now() != NSPY_MODE_RECORD && !nspy_segment_bytes_written())
		(void)nspy_segment_make_directories();
	if (make)
		(void)mkdir(path, nspy_core.group_readable ? 02750 : 0700);
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int nspy_exchange_open(const char *name)
{
	int dir = open_board(false), fd;

	if (dir < 0)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	close(dir);
	return fd;
}

bool nspy_exchange_is_ours(uint32_t uid)
{
	return box.has_written && uid == box.written_uid;
}

/* <node>.<pid namespace>.node: processes that see the same pages write the same file. */
static void own_name(char ret[NAME_BYTES])
{
	(void)snprintf(ret, NAME_BYTES, "%s.%llu" NODE_SUFFIX, nspy_core.id.node,
		       (unsigned long long)nspy_core.id.pidns);
}

/* Whether the file is there now. */
static bool put_file(const char *name, const void *data, size_t bytes)
{
	char beside[NAME_BYTES + 32];
	int dir = open_board(true), fd;
	struct stat st;
	bool ok;

	if (dir < 0)
		return false;
	(void)snprintf(beside, sizeof(beside), ".%s.%016llx", name,
		       (unsigned long long)nspy_core.id.run_id);
	fd = openat(dir, beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    nspy_core.group_readable ? 0640 : 0600);
	ok = fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes;
	if (fd >= 0 && nspy_fstat(fd, &st) == 0) {
		box.has_written = true;
		box.written_uid = st.st_uid;
	}
	if (fd >= 0)
		close(fd);
	ok = ok && syscall(SYS_renameat2, dir, beside, dir, name, 0) == 0;
	if (fd >= 0 && !ok)
		(void)unlinkat(dir, beside, 0);
	close(dir);
	return ok;
}

/* Appends a file, or its first page. */
static void take_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	size_t most = box.heads_only ? NSPY_STATUS_BYTES_MAX : IN_MAX;
	struct stat st;
	ssize_t n = -1;
	uint8_t *at;

	if (fd < 0)
		return;
	if (nspy_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		if ((size_t)st.st_size < most)
			most = (size_t)st.st_size;
		if (make_room(&box.in, box.in.bytes + LENGTH_BYTES + most))
			n = read(fd, box.in.data + box.in.bytes + LENGTH_BYTES, most);
	}
	close(fd);
	if (n <= 0)
		return;
	at = box.in.data + box.in.bytes;
	/* The length of a page stands in its head. */
	if (box.heads_only && n >= (ssize_t)NSPY_STATUS_HEAD_BYTES &&
	    nspy_le32_load(at + LENGTH_BYTES + 12) < (uint32_t)n)
		n = (ssize_t)nspy_le32_load(at + LENGTH_BYTES + 12);
	nspy_le64_store(at, (uint64_t)n);
	box.in.bytes += LENGTH_BYTES + (size_t)n;
}

static bool is_node_file(const char *name)
{
	size_t n = strlen(name), suffix = strlen(NODE_SUFFIX);

	return name[0] != '.' && n > suffix && strcmp(name + n - suffix, NODE_SUFFIX) == 0;
}

static void take_files(void)
{
	_Alignas(8) char entries[4096];
	char own[NAME_BYTES];
	int dir = open_board(false);
	long n;

	box.in.bytes = 0;
	own_name(own);
	while (dir >= 0 && (n = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *e = (const struct entry *)&entries[at];

			at += e->bytes;
			if (is_node_file(e->name) && strcmp(e->name, own) != 0)
				take_file(dir, e->name);
		}
	}
	if (dir >= 0)
		close(dir);
}

static void take_digest(void)
{
	int dir = open_board(false);
	int fd = dir < 0 ? -1
			 : openat(dir, DIGEST_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : read(fd, box.digest_in, sizeof(box.digest_in));

	box.digest_in_bytes = n > 0 ? (size_t)n : 0;
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
}

void nspy_exchange_work(void)
{
	char own[NAME_BYTES];

	if (turn_of(&box.out.turn) == TURN_WRITER) {
		own_name(own);
		atomic_store_explicit(&box.refused, !put_file(own, box.out.data, box.out.bytes),
				      memory_order_relaxed);
		give(&box.out.turn, TURN_FREE);
	}
	if (turn_of(&box.digest_out_turn) == TURN_WRITER) {
		(void)put_file(DIGEST_NAME, box.digest_out, box.digest_out_bytes);
		give(&box.digest_out_turn, TURN_FREE);
	}
	if (turn_of(&box.in.turn) == TURN_WRITER) {
		take_files();
		give(&box.in.turn, TURN_WATCHER);
	}
	if (turn_of(&box.digest_in_turn) == TURN_WRITER) {
		take_digest();
		give(&box.digest_in_turn, TURN_WATCHER);
	}
}
