/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status pages: what a rank says of itself while it runs, for whoever watches. One page per
 * recording, published about once a second in node-local shared memory as
 * /dev/shm/ncclspy.<uid>.<job hash>.<pid namespace>.<pid>.<run id>.status (names as those of live
 * files, trace_salvage.h), and, many in one, in the node files of the job's board.
 *
 * A page lies there as an encoding: length, sequence and checksum, then little-endian fields. A
 * reader copies the bytes and decodes the copy; a torn, stale or damaged page fails the checksum
 * (-EBADMSG) and the reader keeps what it knew. Sources: the recorder's open-call stacks and
 * records, /proc of the process itself. Nothing here allocates, prints or keeps state.
 *
 * Times are CLOCK_MONOTONIC nanoseconds of the publishing host unless they say otherwise.
 */
#ifndef NSPY_TRACE_STATUS_H
#define NSPY_TRACE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_arena.h"
#include "trace_format.h"
#include "trace_signal.h"

#define NSPY_STATUS_SUFFIX        ".status"
#define NSPY_STATUS_MAGIC         0x544154535950534EULL /* "NSPYSTAT" */
#define NSPY_STATUS_VERSION       2u
#define NSPY_STATUS_BYTES_MAX     32768u /* of one page */
#define NSPY_STATUS_HEAD_BYTES    32u    /* magic, version, bytes, sequence, checksum */
#define NSPY_STATUS_COMMS_MAX     64u    /* every open one first, then the most active */
#define NSPY_STATUS_CALLS_MAX     16u
#define NSPY_STATUS_OPS_MAX       256u
#define NSPY_STATUS_WAYS_MAX      128u
#define NSPY_STATUS_NAMES_MAX     64u
#define NSPY_STATUS_NAME_BYTES    32u
#define NSPY_STATUS_RANKS_MAX     (1 << 20) /* of a communicator; more is damage */
#define NSPY_STATUS_STACK_BYTES   156     /* of the fields after all others, which may be missing */
#define NSPY_STATUS_CONTROL_BYTES 16      /* and of those after these, which may be missing, too */
#define NSPY_STATUS_SIGNAL_BYTES  32      /* at the very end, and only where there is a signal */
#define NSPY_STATUS_NONE          0xFFFFu /* no communicator, no name */

enum nspy_status_state {
	NSPY_STATUS_RUNNING = 1,
	NSPY_STATUS_EXITED = 2, /* the process has begun to exit; see exit_code */
};

/* A communicator, alive or being created. */
struct nspy_status_comm {
	uint64_t key; /* as in struct nspy_comm_rec */
	uint64_t parent_key;
	uint64_t enqueued;   /* collectives entered so far */
	uint64_t completed;  /* of these, known to be done: the application waited for them */
	uint64_t captured;   /* collectives recorded into the latest graph */
	uint64_t last_ns;    /* when a collective was last seen to be entered, 0 = never */
	uint64_t started_ns; /* when its creation began, 0 = not seen */
	int32_t nranks;      /* -1 = not known */
	int32_t rank;        /* -1 = not known */
	int32_t color;
	uint32_t ordinal;
	uint16_t origin;     /* enum nspy_comm_origin */
	uint8_t flags;       /* enum nspy_comm_flag */
	int16_t async_error; /* last seen by the application, -1 = never asked */
	/* Signature of the operation number `enqueued`, as far as its record was seen. */
	uint16_t name; /* index into names, NSPY_STATUS_NONE = not seen */
	uint8_t datatype;
	uint8_t redop;
	int32_t root;
	uint64_t count;
};

/* A call that has not returned. */
struct nspy_status_call {
	uint64_t enter_ns;
	uint64_t seq;
	uint64_t count;
	uint32_t tid;
	int32_t peer;
	uint16_t comm; /* index into comms, NSPY_STATUS_NONE = none */
	uint16_t name;
	uint8_t klass; /* enum nspy_fn_class */
	uint8_t datatype;
	uint8_t redop;
	uint8_t flags; /* enum nspy_rec_flag */
};

/* One of the latest operations that returned to their caller, in order of entry per thread. */
struct nspy_status_op {
	uint64_t enter_ns;
	uint64_t seq;
	uint64_t count;
	uint64_t stream;
	int32_t peer;
	uint16_t comm; /* index into comms, always one */
	uint16_t name;
	uint8_t klass;
	uint8_t datatype;
	uint8_t redop;
	uint8_t flags;
};

/* Messages between this rank and a peer, by calls made. */
struct nspy_status_way {
	uint16_t comm;
	int32_t peer;
	uint32_t sent;
	uint32_t received;
};

struct nspy_status {
	uint64_t sequence; /* counts publications */
	uint64_t run_id;
	uint64_t pidns;
	uint64_t starttime; /* of the process, clock ticks since boot */
	uint64_t published_ns;
	uint64_t published_real_ns;
	uint32_t pid;
	uint32_t state; /* enum nspy_status_state */
	int32_t exit_code;
	int32_t rank;       /* -1 = not known */
	int32_t world_size; /* -1 = not known */
	char node[64];
	char job_dir[256]; /* where the job's traces are */

	uint64_t calls; /* recorded so far */
	uint64_t lost;  /* records lost so far */
	uint64_t graph_launches;
	uint64_t rounds;          /* waits that ended with operations done */
	uint64_t longest_wait_ns; /* of these */
	/*
	 * Of the latest and of the earlier window of rounds, medians; 0 = not enough rounds yet:
	 * from the end of the last wait to the last operation of the round, and the whole round.
	 * And the shortest whole round that a window has had.
	 */
	uint64_t work_ns[2], round_ns[2], best_round_ns;
	uint64_t last_call_ns; /* when a call last ended */
	/* The thread that made the last call, and what was used since: is it working? */
	uint32_t caller_tid;
	char caller_state;      /* as in /proc/<pid>/stat, '?' = not known */
	char caller_wchan[32];  /* "" = not known */
	uint64_t busy_for_ns;   /* how long that has been looked at */
	uint64_t busy_cpu_ns;   /* of that thread; or ready for one */
	uint64_t busy_io_bytes; /* of the process, ours taken off */

	/* What this process, as speaker of its node, has reported and sees as still going on. */
	uint64_t event_key; /* 0 = nothing */
	uint64_t event_since_ns;
	char event_id[32];

	/* What it runs with; 0 and "" = not known (yet). Numbers as the libraries give them. */
	uint64_t nccl_build; /* hash of its build id */
	uint64_t settings;   /* hash of the settings that ranks must share */
	char libfabric[16], plugin[32], gpu[48], instance[32];
	int32_t nccl, cudart, driver;
	/* The last command of ncclspy-ctl that is carried out, 0 = none, and what holds. */
	uint64_t control_id;
	uint32_t mode;      /* enum nspy_mode */
	uint32_t hang_s;    /* limit for a hang, 0 = not known */
	uint32_t not_shown; /* living communicators beyond those below */
	/* Noted by the process itself behind its page (pages.c); number 0 = none. The latest one.
	 */
	struct nspy_signal_note signal;
	/* Noted by the speaker of the node in node files; false and 0 in a rank's own page. */
	bool dead;
	bool stopped;
	bool silent; /* never in a page: the reader's note that its node is not heard of any more */

	uint32_t comm_count, call_count, op_count, way_count, name_count;
	struct nspy_status_comm *comms;
	struct nspy_status_call *calls_open;
	struct nspy_status_op *ops;
	struct nspy_status_way *ways;
	char (*names)[NSPY_STATUS_NAME_BYTES];
};

/*
 * Encodes a page. Its length, or -ENOBUFS. Of more operations than ops_max the newest are kept.
 */
long nspy_status_encode(const struct nspy_status *status, uint32_t ops_max, uint8_t *out,
			size_t bytes);

/*
 * Decodes a page that begins at data, its arrays in the arena; bytes may be more than it has.
 * *ret_bytes is its length. -EBADMSG: none, torn or damaged; -EPROTONOSUPPORT: newer; -ENOMEM: the
 * arena is full. On success all indices are within their arrays and all texts terminated, without
 * control characters.
 */
int nspy_status_decode(const uint8_t *data, size_t bytes, struct nspy_arena *arena,
		       struct nspy_status *ret, size_t *ret_bytes);

/*
 * In shared memory a file goes on behind the page, outside its checksum: what the exiting thread
 * leaves with two stores, a code and its seal. Noise that somebody writes there is no exit.
 */
#define NSPY_STATUS_EXIT_OFFSET NSPY_STATUS_BYTES_MAX
#define NSPY_STATUS_FILE_BYTES  (NSPY_STATUS_BYTES_MAX + 64u)

/* The code holds. */
static inline uint32_t nspy_status_exit_seal(int32_t code)
{
	return 0x45584954u ^ (uint32_t)code * 0x9E3779B1u;
}

/* It holds, and nothing more comes of the process. */
static inline uint32_t nspy_status_gone_seal(int32_t code)
{
	return ~nspy_status_exit_seal(code);
}

/* Whether the file's process has begun to exit. */
bool nspy_status_exited(const uint8_t *file, size_t bytes, int32_t *ret_code);

/* Name of a function of the page, "?" if there is none. */
const char *nspy_status_name(const struct nspy_status *status, uint16_t name);

#endif
