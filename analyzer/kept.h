/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process says of its own recording (NOTE chunks): commands it was given, what it did not
 * keep on purpose, what it has cost. A time without records is then no silence: whoever concludes
 * something from what a process has not done asks here first.
 */
#ifndef NSPY_ANALYZER_KEPT_H
#define NSPY_ANALYZER_KEPT_H

#include "trace_note.h"
#include "util.h"

struct nspy_proc;
struct nspy_member;
struct nspy_attempt;

struct nspy_account_command {
	uint64_t id;
	uint64_t taken_ns; /* of the trace's clock */
	char *text;        /* cleaned */
};

/* Times are those of the trace. */
struct nspy_account {
	struct nspy_note_mode mode;
	struct nspy_note_hole *holes;
	size_t hole_count, hole_capacity;
	struct nspy_account_command *commands;
	size_t command_count, command_capacity;
	bool has_self;
	struct nspy_note_self self;
};

void nspy_account_done(struct nspy_account *account);

/* Takes a payload, which replaces what was known. -EBADMSG: damaged; what came before it counts. */
int nspy_account_ingest(struct nspy_account *account, const uint8_t *payload, size_t bytes);
/* From live pages: the latest of what the process may not have written any more. */
void nspy_account_live(struct nspy_account *account, const struct nspy_note_mode *mode,
		       const struct nspy_note_hole *hole);

/* Of the process that proc is or is a part of. */
const struct nspy_account *nspy_proc_account(const struct nspy_proc *proc);

/* Whether something that it did after that time may be missing; 0 = at any time. */
bool nspy_proc_may_miss(const struct nspy_proc *proc, uint64_t when_ns);
/* Whether a member may have joined operations after the last one seen. */
bool nspy_member_unsure(const struct nspy_member *member);
/* Whether any process did not keep all between these times. */
bool nspy_attempt_has_hole(const struct nspy_attempt *attempt, uint64_t from_ns, uint64_t to_ns);

#endif
