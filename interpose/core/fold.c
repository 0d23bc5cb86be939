/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "fold.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "core.h"
#include "say.h"
#include "trace_stat.h"

#define WORDS_MAX   64u
#define CLAIMS_MAX  8u
#define WINDOW_NS   30000000000ull
#define PATIENCE_NS 2000000000ull /* then the others have failed, too, or will not */

/* Zeroes in the beginning. What is claimed stays; only its window begins anew. */
struct words {
	_Atomic uint64_t key;
	_Atomic uint64_t since_ns; /* 0 = claimed a moment ago */
	_Atomic uint32_t count;    /* processes that had it in this window */
	uint32_t unused;
};

struct board {
	struct words words[WORDS_MAX];
	char dir[512]; /* where the traces are, for whoever wonders whose file this is */
};

static struct {
	uint64_t key, due_ns;
	const char *id;
	uint32_t told; /* others that were told of */
} claims[CLAIMS_MAX];
static uint32_t claim_count;

void nspy_fold_start(void)
{
	claim_count = 0;
}

/* ncclspy.<uid>.<job hash>.<pid namespace>.told, beside <...>.<pid>.<run id>.live */
static bool board_path(char *ret, size_t bytes)
{
	const char *live = nspy_core.id.live_path, *slash = strrchr(live, '/');
	size_t dots = 0, n;

	if (!slash || !nspy_core.live_on_tmpfs)
		return false;
	for (n = (size_t)(slash - live); live[n] && dots < 4; n++)
		dots += live[n] == '.';
	return dots == 4 &&
	       (size_t)snprintf(ret, bytes, "%.*s%s", (int)n - 1, live, NSPY_FOLD_SUFFIX) < bytes;
}

/* NULL: it cannot be had, or is somebody else's. */
static struct board *open_board(void)
{
	char path[NSPY_PATH_MAX];
	struct board *board = MAP_FAILED;
	struct stat st;
	int fd;

	if (!nspy_core.env.NCCLSPY_WATCH || nspy_core.env.NCCLSPY_LOG_FILE[0] ||
	    !board_path(path, sizeof(path)))
		return NULL;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd < 0)
		return NULL;
	/* Reserved before it is mapped, as all our pages are; reserving again changes nothing. */
	if (nspy_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == nspy_core.id.uid &&
	    syscall(SYS_fallocate, fd, 0, (off_t)0, (off_t)sizeof(*board)) == 0)
		board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (board == MAP_FAILED)
		return NULL;
	(void)madvise(board, sizeof(*board), MADV_DONTFORK);
	if (!board->dir[0])
		(void)snprintf(board->dir, sizeof(board->dir), "%.500s", nspy_core.id.dir);
	return board;
}

static void close_board(struct board *board)
{
	munmap(board, sizeof(*board));
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static uint64_t mix(uint64_t hash, char c)
{
	return (hash ^ (unsigned char)c) * 1099511628211u;
}

/* Of the words without numbers: ranks, addresses and sizes differ where the trouble is one. */
static uint64_t key_of(const char *id, const char *text)
{
	uint64_t hash = 1469598103934665603u;

	/* Nodes of a test may share a host's memory. */
	for (const char *c = nspy_core.id.node; *c; c++)
		hash = mix(hash, *c);
	for (const char *c = id; *c; c++)
		hash = mix(hash, *c);
	for (; *text; text++) {
		if (text[0] == '0' && text[1] == 'x')
			for (text += 2; is_hex(*text); text++)
				;
		if (!*text)
			break;
		if (*text < '0' || *text > '9')
			hash = mix(hash, *text);
	}
	return hash | 1;
}

/* The place of the words, made if there is none; NULL if all places are taken. */
static struct words *place_of(struct board *board, uint64_t key, bool *ret_made)
{
	*ret_made = false;
	for (uint32_t i = 0; i < WORDS_MAX; i++) {
		struct words *w = &board->words[i];
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(&w->key, &there, key)) {
			*ret_made = true;
			return w;
		}
		if (there == key)
			return w;
	}
	return NULL;
}

/* Whether we are the first to have it in this window. */
static bool take(struct words *w, bool made, uint64_t now_ns)
{
	uint64_t since = atomic_load(&w->since_ns);

	/* What was claimed before we began is of an earlier run of the job. */
	if (made || (since && (now_ns > since + WINDOW_NS || since < nspy_clock_load_ns()))) {
		if (!atomic_compare_exchange_strong(&w->since_ns, &since, now_ns)) {
			atomic_fetch_add(&w->count, 1);
			return false;
		}
		if (!made)
			atomic_store(&w->count, 0);
		atomic_fetch_add(&w->count, 1);
		return true;
	}
	atomic_fetch_add(&w->count, 1);
	return false;
}

bool nspy_fold_claim(const char *id, const char *text, uint64_t now_ns)
{
	struct board *board = open_board();
	uint64_t key = key_of(id, text);
	struct words *w;
	bool made, first = true;

	if (!board)
		return true;
	w = place_of(board, key, &made);
	if (w)
		first = take(w, made, now_ns);
	close_board(board);
	if (w && first && claim_count < CLAIMS_MAX) {
		claims[claim_count].key = key;
		claims[claim_count].id = id;
		claims[claim_count].told = 0;
		claims[claim_count++].due_ns = now_ns + PATIENCE_NS;
	}
	return first;
}

static void tell(const struct board *board, uint32_t claim)
{
	for (uint32_t i = 0; i < WORDS_MAX; i++) {
		uint32_t count = atomic_load(&board->words[i].count);

		if (atomic_load(&board->words[i].key) != claims[claim].key ||
		    count <= 1 + claims[claim].told)
			continue;
		nspy_say(NSPY_SAY_WARN,
			 "%s: the same of %u%s rank%s of node %.60s (all are in the report)",
			 claims[claim].id, count - 1 - claims[claim].told,
			 claims[claim].told ? " more" : " other",
			 count == 2 + claims[claim].told ? "" : "s", nspy_core.id.node);
		claims[claim].told = count - 1;
	}
}

void nspy_fold_tell(uint64_t now_ns, bool last)
{
	struct board *board = NULL;

	for (uint32_t i = 0; i < claim_count; i++) {
		/* Once, and once more at the end. */
		if (!last && (!claims[i].due_ns || now_ns < claims[i].due_ns))
			continue;
		claims[i].due_ns = 0;
		board = board ? board : open_board();
		if (board)
			tell(board, i);
	}
	if (board)
		close_board(board);
}
