/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "pace.h"

#include "rhythm.h"

#define NS_PER_S      1000000000ull
#define GROWN_MIN_NS  1000000ull
#define GROWN_PCT     4u /* less than a rank costs that is worth an alarm */
#define GROWN_TIMES   4u /* of the usual deviation */
#define SMOOTHING     16
#define LEARN_EACH_NS NS_PER_S
#define HURRY_NS      (15 * NS_PER_S) /* to post, read, judge and be heard of */
#define HURRY_MAX_NS  (60 * NS_PER_S)

/* The shortest of the node: a rank that was held up for itself does not count. 0 = not known. */
static uint64_t round_of(const struct nspy_status *pages, uint32_t count)
{
	uint64_t shortest = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t ns = pages[i].round_ns[0];

		if (ns && !pages[i].dead && (!shortest || ns < shortest))
			shortest = ns;
	}
	return shortest;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool has_grown(const struct nspy_pace *pace, uint64_t round_ns)
{
	uint64_t by = larger(pace->usual_ns / 100 * GROWN_PCT, GROWN_TIMES * pace->deviation_ns);

	return round_ns > pace->usual_ns + larger(by, GROWN_MIN_NS);
}

static void learn(struct nspy_pace *pace, uint64_t round_ns, uint64_t now_ns)
{
	int64_t off = (int64_t)(round_ns - pace->usual_ns);
	int64_t apart = off < 0 ? -off : off;

	if (now_ns < pace->learn_ns)
		return;
	pace->learn_ns = now_ns + LEARN_EACH_NS;
	pace->usual_ns += (uint64_t)(off / SMOOTHING);
	pace->deviation_ns += (uint64_t)((apart - (int64_t)pace->deviation_ns) / SMOOTHING);
}

/* Until the earlier window shows it too, and all nodes have been told. */
static void hurry(struct nspy_pace *pace, uint64_t round_ns, uint64_t now_ns)
{
	uint64_t ns = HURRY_NS + NSPY_RHYTHM_WINDOW * round_ns;

	if (ns > HURRY_MAX_NS)
		ns = HURRY_MAX_NS;
	pace->usual_ns = round_ns;
	pace->hurry_until_ns = now_ns + ns;
	pace->rest_until_ns = now_ns + 2 * ns;
}

bool nspy_pace_hurry(struct nspy_pace *pace, const struct nspy_status *pages, uint32_t count,
		     uint64_t now_ns)
{
	uint64_t round_ns = round_of(pages, count);

	if (!round_ns)
		return now_ns < pace->hurry_until_ns;
	/* Known for the first time: a rank may have been late from the beginning. */
	if (!pace->usual_ns || (now_ns >= pace->rest_until_ns && has_grown(pace, round_ns)))
		hurry(pace, round_ns, now_ns);
	else
		learn(pace, round_ns, now_ns);
	return now_ns < pace->hurry_until_ns;
}
