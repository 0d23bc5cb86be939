/* SPDX-License-Identifier: Apache-2.0 */
/* What of a job goes into its picture. */
#include <stdlib.h>
#include <string.h>

#include "timeline.h"
#include "who.h"

/* A call and an operation take about so much room, measured on training-like jobs. */
#define CALL_BYTES 90u
#define OP_BYTES   110u
#define NS_PER_DAY (86400 * NSPY_NS_PER_S)

bool nspy_timeline_parse_ranks(struct nspy_timeline_choice *choice, const char *text)
{
	do {
		char *end;
		long long first, last;

		if (*text < '0' || *text > '9' || choice->range_count == NSPY_TIMELINE_RANGES_MAX)
			return false;
		first = last = strtoll(text, &end, 10);
		if (*end == '-') {
			text = end + 1;
			if (*text < '0' || *text > '9')
				return false;
			last = strtoll(text, &end, 10);
		}
		if (last < first || (*end && *end != ','))
			return false;
		choice->ranks[choice->range_count].first = first;
		choice->ranks[choice->range_count++].last = last;
		text = end;
	} while (*text++ == ',');
	return true;
}

/* Digits, then perhaps a fraction; ns. */
static bool parse_seconds(const char *text, uint64_t *ret_ns)
{
	char *end;
	double seconds;

	if (*text < '0' || *text > '9')
		return false;
	seconds = strtod(text, &end);
	if (*end == 's')
		end++;
	if (*end || !(seconds < 1e9))
		return false;
	*ret_ns = (uint64_t)(seconds * 1e9 + 0.5);
	return true;
}

bool nspy_timeline_parse_time(const char *text, uint64_t start_ns, uint64_t *ret_ns)
{
	unsigned int part[2] = {0};
	uint64_t ns;

	if (!strchr(text, ':')) {
		if (!parse_seconds(text, &ns))
			return false;
		*ret_ns = start_ns + ns;
		return true;
	}
	for (int i = 0; i < 2; i++) {
		char *end;

		if (*text < '0' || *text > '9')
			return false;
		part[i] = (unsigned int)strtoul(text, &end, 10);
		if (*end != ':')
			return false;
		text = end + 1;
	}
	if (part[0] > 23 || part[1] > 59 || !parse_seconds(text, &ns) || ns >= 60 * NSPY_NS_PER_S)
		return false;
	ns += (part[0] * 60ULL + part[1]) * 60 * NSPY_NS_PER_S;
	ns += start_ns / NS_PER_DAY * NS_PER_DAY;
	/* The job began before midnight. */
	if (ns + NS_PER_DAY / 2 < start_ns)
		ns += NS_PER_DAY;
	*ret_ns = ns;
	return true;
}

bool nspy_timeline_has_time(const struct nspy_timeline *t, uint64_t from_ns, uint64_t to_ns)
{
	return (!t->choice.from_ns || to_ns >= t->choice.from_ns) &&
	       (!t->choice.to_ns || from_ns <= t->choice.to_ns);
}

static bool has_rank(const struct nspy_timeline_choice *choice, int64_t rank)
{
	for (size_t i = 0; i < choice->range_count; i++) {
		if (rank >= choice->ranks[i].first && rank <= choice->ranks[i].last)
			return true;
	}
	return choice->range_count == 0;
}

bool nspy_timeline_has_proc(const struct nspy_timeline *t, const struct nspy_proc *proc)
{
	size_t count;
	int64_t *ranks;
	bool has = t->choice.range_count == 0;

	if (has)
		return true;
	ranks = nspy_proc_ranks(proc, &count);
	for (size_t i = 0; i < count; i++)
		has |= has_rank(&t->choice, ranks[i]);
	free(ranks);
	return has;
}

bool nspy_timeline_has_comm(const struct nspy_timeline *t, const struct nspy_comm *comm)
{
	return !t->choice.comm || (comm && comm->shown == t->choice.comm);
}

bool nspy_timeline_shorten(struct nspy_timeline *t)
{
	uint64_t span = t->attempt->end_ns - t->attempt->start_ns;
	double bytes = 0, room = (double)t->choice.limit_bytes * 0.9;

	if (t->choice.from_ns || t->choice.to_ns)
		return false;
	for (size_t i = 0; i < t->attempt->proc_count; i++) {
		const struct nspy_proc *proc = t->attempt->procs[i];
		const struct nspy_proc *whole = nspy_proc_whole(proc);

		/* Parts of a process stand side by side. */
		if (i && whole == nspy_proc_whole(t->attempt->procs[i - 1]))
			continue;
		if (nspy_timeline_has_proc(t, whole))
			bytes +=
				(double)whole->records * CALL_BYTES + (double)whole->ops * OP_BYTES;
	}
	if (bytes <= room)
		return false;
	t->choice.from_ns = t->attempt->end_ns - (uint64_t)((double)span * room / bytes);
	return true;
}
