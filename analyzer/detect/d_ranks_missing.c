/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RANKS_MISSING
 *
 * Question: are there ranks that others wait for while a communicator is being created?
 * Evidence: every rank notes the creation before it enters it. A creation that some ranks are in
 *   (open call, or pending nonblocking creation) for longer than the hang threshold, that has
 *   succeeded nowhere, and in which fewer ranks than its size were seen. Second form: the same
 *   unique id used with different sizes, which can never complete.
 * Threshold: --hang-after (5 s for a job that has ended, NCCLSPY_HANG_S = 180 s while it runs).
 * Known false positives: a job killed while a very slow node was still starting. A rank that ran
 *   without ncclspy is none: with it the creation would have succeeded, which is only a gap in
 *   coverage and is reported as such.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "text.h"
#include "who.h"

/* Ranks of comm that were not seen and that no traced process accounts for. */
static size_t ranks_unseen(const struct nspy_comm *comm, const struct nspy_procs *blamed,
			   int64_t *ranks, size_t capacity)
{
	size_t count = 0;

	for (int32_t rank = 0; rank < comm->nranks && count < capacity; rank++) {
		bool accounted = nspy_member_by_rank(comm, rank) != NULL;

		for (size_t i = 0; i < blamed->count && !accounted; i++)
			accounted = blamed->items[i]->rank == rank;
		if (!accounted)
			ranks[count++] = rank;
	}
	return count;
}

static void tell_unseen(struct nspy_finding *finding, const int64_t *ranks, size_t count)
{
	struct nspy_str s = {0};

	if (count == 0)
		return;
	nspy_str_add(&s, count == 1 ? "no trace of rank " : "no trace of ranks ");
	nspy_add_ranges(&s, ranks, count);
	nspy_str_add(&s, ": not started, or ended before reaching NCCL (if it only ran without "
			 "ncclspy, the creation would have succeeded)");
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void add_missing_names(struct nspy_str *s, const struct nspy_procs *blamed,
			      const int64_t *unseen, size_t unseen_count)
{
	if (blamed->count)
		nspy_add_procs(s, blamed->items, blamed->count);
	if (blamed->count && unseen_count)
		nspy_str_add(s, " and ");
	if (unseen_count) {
		nspy_str_add(s, unseen_count == 1 ? "rank " : "ranks ");
		nspy_add_ranges(s, unseen, unseen_count);
		nspy_str_add(s, " (no trace)");
	}
}

static void report_hang(const struct nspy_case *c, struct nspy_findings *out,
			const struct nspy_hang *hang)
{
	const struct nspy_wait_object *object = hang->main;
	const struct nspy_comm *comm = object->comm;
	int64_t *unseen = nspy_xcalloc(object->untraced + 1, sizeof(*unseen));
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_RANKS_MISSING);
	struct nspy_str s = {0}, cause = {0};
	size_t count = 0, came;

	if (comm->origin != NSPY_COMM_SPLIT && comm->nranks > 0)
		count = ranks_unseen(comm, &object->blamed, unseen, object->untraced);
	add_missing_names(&s, &object->blamed, unseen, count);
	if (s.bytes == 0)
		nspy_str_add(&s, "some ranks");
	nspy_str_add(&cause, s.text);
	nspy_str_add(&s, " never reached ");
	nspy_add_object(&s, c, object);
	came = nspy_count_ranks(hang->direct.items, hang->direct.count);
	nspy_str_addf(&s, "; %zu rank%s came and waited up to ", came, came == 1 ? "" : "s");
	nspy_add_duration(&s, hang->until_ns - hang->since_ns);
	nspy_str_add(&cause, " did not join the creation of ");
	nspy_add_comm(&cause, comm);
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_str_take(&cause);
	finding->comm = comm;
	finding->when_ns = hang->since_ns;
	for (size_t i = 0; i < object->blamed.count; i++) {
		nspy_finding_blame(finding, object->blamed.items[i]);
		if (i < 4)
			nspy_texts_add(&finding->details,
				       nspy_tell_doing(c, object->blamed.items[i]));
	}
	tell_unseen(finding, unseen, count);
	if (object->blamed.count) {
		finding->owner = "application";
		finding->action =
			"look at what the missing rank does instead (stack of its threads)";
	}
	nspy_tell_errors(c, finding);
	free(unseen);
}

/* --- one id, several sizes --- */

static bool unfinished(const struct nspy_comm *comm)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		if (comm->members[i]->ready_ns)
			return false;
	}
	return comm->nranks > 0 && comm->rank_count < (size_t)comm->nranks;
}

static void report_sizes(struct nspy_findings *out, const struct nspy_comm *most,
			 const struct nspy_comm *odd)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_RANKS_MISSING);
	struct nspy_str s = {0};

	for (size_t i = 0; i < odd->member_count; i++)
		nspy_finding_blame(finding, odd->members[i]->proc);
	nspy_add_procs(&s, finding->culprits, finding->culprit_count);
	nspy_str_addf(&s,
		      " asked for %" PRId32 " ranks where %zu others asked for %" PRId32
		      " with the same unique id: neither communicator can ever be complete",
		      odd->nranks, most->member_count, most->nranks);
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_xasprintf("ranks disagree about the size of the job (%" PRId32
					" and %" PRId32 ")",
					most->nranks, odd->nranks);
	finding->action = "compare WORLD_SIZE and what the program passes as number of ranks";
	finding->comm = most;
	if (odd->member_count == most->member_count) {
		nspy_finding_detail(finding,
				    "as many ranks say %" PRId32 " as %" PRId32
				    ": which size is right cannot be told from the traces",
				    odd->nranks, most->nranks);
		finding->culprit_count = 0;
	}
}

static bool find_sizes(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_attempt *attempt = c->attempt;
	bool found = false;

	for (size_t i = 0; i < attempt->comm_count; i++) {
		for (size_t k = i + 1; k < attempt->comm_count; k++) {
			const struct nspy_comm *a = attempt->comms[i], *b = attempt->comms[k];

			if (!a->id_hash || a->id_hash != b->id_hash || a->nranks == b->nranks ||
			    !unfinished(a) || !unfinished(b))
				continue;
			if (a->member_count >= b->member_count)
				report_sizes(out, a, b);
			else
				report_sizes(out, b, a);
			found = true;
		}
	}
	return found;
}

void nspy_detect_ranks_missing(const struct nspy_case *c, struct nspy_findings *out)
{
	if (find_sizes(c, out))
		return;
	for (size_t h = 0; h < c->waits.hang_count; h++) {
		const struct nspy_hang *hang = &c->waits.hangs[h];

		if (nspy_hang_teller(c, hang) == NSPY_TOLD_BY_MISSING)
			report_hang(c, out, hang);
	}
}
