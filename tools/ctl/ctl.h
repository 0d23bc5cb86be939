/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-ctl: commands to a running job, left where its ranks look for them (trace_control.h).
 * Only the owner of the job's directory can leave any, and only files that nobody else can write
 * are trusted. One thread.
 */
#ifndef NSPY_CTL_H
#define NSPY_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "top.h"
#include "trace_control.h"

#define CTL_RUNNING_NS 60000000000ull /* a page that old is of a rank that is gone */

/* What is known of a job before and after a command. */
struct ctl_job {
	struct top_snapshot snap; /* its ranks, as of the last ctl_look */
	bool has_dir;             /* its directory exists */
	bool has_traces;          /* traces of it were written to in the last minute */
	char prefix[128];         /* of its files in this host's shared memory, "" = it has none */
	struct nspy_control control; /* commands so far */
};

/* 0, -ENOENT: no such job; -EISDIR: a directory of jobs, the newest of which is in job->snap. */
int ctl_find(const char *word, struct ctl_job *job);
/* Looks at its ranks again. 0 or -ENOMEM. */
int ctl_look(struct ctl_job *job);
bool ctl_is_running(const struct ctl_job *job, const struct top_rank *rank);

/*
 * Leaves a command, in the directory and in shared memory, and fills in its id. 0; -EPERM: the job
 * belongs to somebody else, or others can write where it should go; -EAGAIN: too many commands, or
 * another ncclspy-ctl is at work; other negative errno.
 */
int ctl_leave(struct ctl_job *job, struct nspy_command *command);
/* Reads the commands left so far into job->control. */
void ctl_read(struct ctl_job *job);

struct ctl_count {
	size_t running, taken; /* ranks; taken: have carried out the command */
	uint32_t nodes;
	size_t modes[4];    /* by enum nspy_mode, the last: unknown ones */
	uint64_t hang_s[2]; /* least and most, 0 = not known */
	int64_t missing[8]; /* ranks that have not taken it up, the first */
	size_t missing_count;
};
void ctl_count(const struct ctl_job *job, uint64_t id, struct ctl_count *ret);

void ctl_print_status(const struct ctl_job *job);
/* command: what was left, NULL = none. 0 or -ENOMEM. */
int ctl_print_json(const struct ctl_job *job, const struct nspy_command *command);

#endif
