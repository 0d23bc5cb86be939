/* SPDX-License-Identifier: Apache-2.0 */
#include "rhythm.h"

#include <string.h>

#define CALLS_MAX 1024u /* between two looks; more are left out, and rounds with them */
#define WINDOWS   2u
#define ROUNDS    (WINDOWS * NSPY_RHYTHM_WINDOW)

struct call {
	uint64_t enter_ns, leave_ns;
	bool wait;
};

static struct {
	struct call calls[CALLS_MAX]; /* since the last settling, in order of entry */
	uint32_t call_count;
	bool overrun;
	uint64_t wait_ended_ns; /* of the last round */
	uint64_t last_op_ns;    /* since then, 0 = none */
	uint64_t rounds;
	uint64_t work_ns[ROUNDS], round_ns[ROUNDS]; /* a ring, by number of the round */
	uint64_t best_round_ns;
} rhythm;

void nspy_rhythm_start(void)
{
	memset(&rhythm, 0, sizeof(rhythm));
}

/* Calls of a thread come in order, those of several threads one thread after the other. */
void nspy_rhythm_add(uint64_t enter_ns, uint64_t leave_ns, bool wait)
{
	uint32_t i = rhythm.call_count;

	if (i == CALLS_MAX) {
		rhythm.overrun = true;
		return;
	}
	for (; i && rhythm.calls[i - 1].enter_ns > enter_ns; i--)
		rhythm.calls[i] = rhythm.calls[i - 1];
	rhythm.calls[i] = (struct call){enter_ns, leave_ns, wait};
	rhythm.call_count++;
}

static uint64_t median(const uint64_t *values, uint32_t first)
{
	uint64_t sorted[NSPY_RHYTHM_WINDOW];

	for (uint32_t n = 0; n < NSPY_RHYTHM_WINDOW; n++) {
		uint64_t value = values[(first + n) % ROUNDS];
		uint32_t i = n;

		for (; i && sorted[i - 1] > value; i--)
			sorted[i] = sorted[i - 1];
		sorted[i] = value;
	}
	/* Of an even number the lower one: pauses only lengthen. */
	return sorted[(NSPY_RHYTHM_WINDOW - 1) / 2];
}

static void end_round(const struct call *wait)
{
	uint32_t at = (uint32_t)(rhythm.rounds % ROUNDS);

	rhythm.work_ns[at] = rhythm.last_op_ns - rhythm.wait_ended_ns;
	rhythm.round_ns[at] = wait->leave_ns - rhythm.wait_ended_ns;
	rhythm.rounds++;
	if (rhythm.rounds >= NSPY_RHYTHM_WARM_UP + NSPY_RHYTHM_WINDOW) {
		uint64_t now = median(rhythm.round_ns,
				      (uint32_t)((rhythm.rounds - NSPY_RHYTHM_WINDOW) % ROUNDS));

		if (!rhythm.best_round_ns || now < rhythm.best_round_ns)
			rhythm.best_round_ns = now;
	}
}

void nspy_rhythm_settle(void)
{
	/* What is missing would make rounds look longer. */
	if (rhythm.overrun)
		rhythm.wait_ended_ns = 0;
	for (uint32_t i = 0; i < rhythm.call_count; i++) {
		const struct call *call = &rhythm.calls[i];

		if (!call->wait) {
			rhythm.last_op_ns = call->enter_ns;
			continue;
		}
		/* A wait without operations before it belongs to the work. */
		if (!rhythm.last_op_ns || call->leave_ns <= rhythm.wait_ended_ns)
			continue;
		if (rhythm.wait_ended_ns && rhythm.last_op_ns > rhythm.wait_ended_ns)
			end_round(call);
		rhythm.wait_ended_ns = call->leave_ns;
		rhythm.last_op_ns = 0;
	}
	rhythm.call_count = 0;
	rhythm.overrun = false;
}

void nspy_rhythm_tell(struct nspy_status *status)
{
	uint32_t next = (uint32_t)(rhythm.rounds % ROUNDS);

	if (rhythm.rounds < NSPY_RHYTHM_WARM_UP + ROUNDS)
		return;
	for (uint32_t w = 0; w < WINDOWS; w++) {
		/* Window 0 is the latest. */
		uint32_t first = next + (WINDOWS - 1 - w) * NSPY_RHYTHM_WINDOW;

		status->work_ns[w] = median(rhythm.work_ns, first);
		status->round_ns[w] = median(rhythm.round_ns, first);
	}
	status->best_round_ns = rhythm.best_round_ns;
}
