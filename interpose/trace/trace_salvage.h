/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving the live pages of processes that died. A live page file lies on the host's shared memory
 * and says in its ident text which trace it belongs to (key `trace.base`) and when its process
 * began (key `starttime`). Once that process is gone its file is copied to
 * `<trace.base>.<run id>.live`, beside the segments, and removed.
 *
 * Several processes may try at once (the launcher of each rank, a living sibling): the copy is made
 * under a name of its own and renamed, so that nobody sees half a copy, and copies of the same
 * recording are equal, so that it does not matter who comes last.
 *
 * Nothing here allocates or prints; all memory is the caller's struct nspy_salvage. Errors are
 * negative errno values. File systems may block: call it where waiting is allowed.
 * context: any thread, one struct nspy_salvage per caller.
 */
#ifndef NSPY_TRACE_SALVAGE_H
#define NSPY_TRACE_SALVAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace_live.h"

#define NSPY_LIVE_SUFFIX         ".live"
#define NSPY_SALVAGE_SOURCE_MAX  (64u << 20) /* a larger live file is none */
#define NSPY_SALVAGE_COPY_BYTES  32768u
#define NSPY_SALVAGE_ENTRY_BYTES 8192u

/*
 * The name of a live file, `ncclspy.<uid>.<job hash>.<pid namespace>.<pid>.<run id>.live`: numbers
 * in decimal, job hash and run id as 16 hexadecimal digits.
 */
struct nspy_live_name {
	uint64_t uid;
	uint64_t job_hash;
	uint64_t pid_namespace; /* inode number of /proc/<pid>/ns/pid */
	uint64_t pid;
	uint64_t run_id;
};

/* -EINVAL: not such a name. */
int nspy_live_name_parse(const char *name, struct nspy_live_name *ret);

/* What a live file says of itself. */
struct nspy_live_facts {
	uint64_t run_id;
	uint64_t starttime; /* clock ticks after boot, as field 22 of /proc/<pid>/stat; 0 = unknown
			     */
	uint32_t pid;
	char base[PATH_MAX]; /* absolute path of the trace, without suffix */
};

struct nspy_salvage {
	/* Which files to look at. */
	const char *directory;  /* where live files are, normally "/dev/shm" */
	const char *trace_root; /* only traces below this directory; NULL = anywhere */
	uint64_t uid;
	uint64_t pid_namespace;
	bool any_job; /* else only job_hash */
	uint64_t job_hash;
	mode_t mode; /* of the copies: 0600 or 0640 */
	/*
	 * Run id of the caller's own recording, 0 = it has none. Other recordings of its process
	 * ended with an exec, although the process lives.
	 */
	uint64_t own_run_id;
	/*
	 * Called for each file whose process is gone, whether or not it could be saved (error is 0
	 * or negative). May be NULL.
	 */
	void (*report)(void *context, const struct nspy_live_facts *facts, int error);
	void *context;

	/* What came of it. */
	unsigned int alive;  /* files of living processes */
	unsigned int saved;  /* copied and removed */
	unsigned int failed; /* dead, could not be saved; the file stays */

	/* Scratch. */
	struct nspy_live_head head;
	struct nspy_live_facts facts;
	char target[PATH_MAX];
	char temporary[PATH_MAX];
	_Alignas(8) char entries[NSPY_SALVAGE_ENTRY_BYTES];
	uint8_t buffer[NSPY_SALVAGE_COPY_BYTES];
};
_Static_assert(NSPY_SALVAGE_COPY_BYTES >= NSPY_LIVE_IDENT_BYTES, "an ident text fits the buffer");

/*
 * Saves every file of the scope whose process is gone. 0, or the errno of reading the directory;
 * trouble with single files is counted and reported instead.
 */
int nspy_salvage_run(struct nspy_salvage *salvage);

/*
 * Start of a process in clock ticks after boot. -ESRCH if there is no such process or it has ended
 * and only waits to be collected.
 */
int nspy_process_starttime(uint64_t pid, uint64_t *ret_starttime);

/* Inode number of the caller's pid namespace. */
int nspy_pid_namespace(uint64_t *ret_inode);

#endif
