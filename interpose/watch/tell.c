/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks, communicators and operations in words; the same everywhere. */
#include "compat.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "verdict.h"

const struct nspy_catalog_entry nspy_catalog[] = {
#define NSPY_FINDING(id_, priority_, title_, file_, section_, owner_, restart_, action_)           \
	{.id = #id_,                                                                               \
	 .title = (title_),                                                                        \
	 .page = (file_),                                                                          \
	 .owner = (owner_),                                                                        \
	 .restart = (restart_),                                                                    \
	 .action = (action_),                                                                      \
	 .priority = (priority_),                                                                  \
	 .section = (section_)},
#include "findings.def"
#undef NSPY_FINDING
};

unsigned long long nspy_seconds(uint64_t ns)
{
	return (ns + 500000000u) / 1000000000u;
}

/* Appends. */
void nspy_tell(char *out, size_t bytes, const char *format, ...)
{
	size_t used = strnlen(out, bytes);
	va_list args;

	if (used + 1 >= bytes)
		return;
	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	(void)vsnprintf(out + used, bytes - used, format, args);
	va_end(args);
}

void nspy_tell_line(struct nspy_verdict *verdict, const char *format, ...)
{
	va_list args;

	if (verdict->line_count == NSPY_LINES_MAX)
		return;
	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	(void)vsnprintf(verdict->lines[verdict->line_count++], NSPY_LINE_BYTES, format, args);
	va_end(args);
}

void nspy_tell_rank(char *out, size_t bytes, const struct nspy_status *page)
{
	if (page->rank >= 0)
		nspy_tell(out, bytes, "rank %" PRId32, page->rank);
	else
		nspy_tell(out, bytes, "a process without rank");
	nspy_tell(out, bytes, " (node %s, pid %" PRIu32 ")", page->node, page->pid);
}

/* Smallest rank above `above` in the list; INT32_MAX if there is none. */
static int32_t next_rank(const struct nspy_scene *scene, const uint32_t *list, uint32_t count,
			 int64_t above)
{
	int32_t best = INT32_MAX;

	for (uint32_t i = 0; i < count; i++) {
		int32_t rank = scene->pages[list[i]].rank;

		if (rank > above && rank < best)
			best = rank;
	}
	return best;
}

void nspy_tell_ranks(char *out, size_t bytes, const struct nspy_scene *scene, const uint32_t *list,
		     uint32_t count)
{
	int32_t rank = next_rank(scene, list, count, -1);
	const char *comma = "";

	if (rank == INT32_MAX) {
		nspy_tell(out, bytes, "%" PRIu32 " processes without rank", count);
		return;
	}
	nspy_tell(out, bytes, count == 1 ? "rank " : "ranks ");
	while (rank != INT32_MAX) {
		int32_t end = rank, next = next_rank(scene, list, count, rank);

		while (next == end + 1) {
			end = next;
			next = next_rank(scene, list, count, end);
		}
		nspy_tell(out, bytes, end > rank ? "%s%" PRId32 "-%" PRId32 : "%s%" PRId32, comma,
			  rank, end);
		comma = ",";
		rank = next;
	}
}

void nspy_tell_group(char *out, size_t bytes, const struct nspy_scene *scene,
		     const struct nspy_group *group)
{
	const struct nspy_member *member;
	const struct nspy_status_comm *comm;

	if (!group) { /* pages name one that none of them belongs to any more */
		nspy_tell(out, bytes, "a communicator");
		return;
	}
	member = &scene->members[group->first];
	comm = nspy_scene_comm(scene, member);
	if (!comm->parent_key && group->nranks > 1 &&
	    scene->pages[member->page].world_size == group->nranks)
		nspy_tell(out, bytes, "world");
	else
		nspy_tell(out, bytes, "communicator %08" PRIx32, (uint32_t)(group->key >> 32));
	if (group->nranks > 0)
		nspy_tell(out, bytes, " (%" PRId32 " ranks)", group->nranks);
}

/* The function that some member called as that operation; "operation" if nobody knows any more. */
static const char *operation_name(const struct nspy_scene *scene, const struct nspy_group *group,
				  uint64_t seq)
{
	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_member *member = &scene->members[m];
		const struct nspy_status *page = &scene->pages[member->page];

		for (uint32_t i = page->op_count; i--;)
			if (page->ops[i].comm == member->comm && page->ops[i].seq == seq &&
			    page->ops[i].klass == NSPY_CLASS_COLL)
				return nspy_status_name(page, page->ops[i].name);
		for (uint32_t i = 0; i < page->call_count; i++)
			if (page->calls_open[i].comm == member->comm &&
			    page->calls_open[i].seq == seq &&
			    page->calls_open[i].klass == NSPY_CLASS_COLL)
				return nspy_status_name(page, page->calls_open[i].name);
	}
	return "operation";
}

static const char *creation_name(unsigned int origin)
{
	switch (origin) {
	case NSPY_COMM_SPLIT:
		return "ncclCommSplit";
	case NSPY_COMM_SHRINK:
		return "ncclCommShrink";
	case NSPY_COMM_GROW:
		return "ncclCommGrow";
	default:
		return "ncclCommInitRank";
	}
}

void nspy_tell_object(char *out, size_t bytes, const struct nspy_scene *scene,
		      const struct nspy_object *object)
{
	const struct nspy_group *group = &scene->groups[object->group];

	switch (object->kind) {
	case NSPY_OBJECT_CREATE:
		nspy_tell(out, bytes, "%s of ",
			  creation_name(
				  nspy_scene_comm(scene, &scene->members[group->first])->origin));
		break;
	case NSPY_OBJECT_COLL:
		nspy_tell(out, bytes, "%s #%" PRIu64 " of ",
			  operation_name(scene, group, object->seq), object->seq);
		break;
	case NSPY_OBJECT_GRAPH:
		nspy_tell(out, bytes, "graph replay #%" PRIu64 " with operations of ", object->seq);
		break;
	case NSPY_OBJECT_P2P:
		nspy_tell(out, bytes,
			  "%s #%" PRIu64 " from rank %" PRId32 " to rank %" PRId32 " of ",
			  object->send_missing ? "ncclSend" : "ncclRecv", object->seq, object->src,
			  object->dst);
		break;
	}
	nspy_tell_group(out, bytes, scene, group);
}

static const char *state_words(char state)
{
	switch (state) {
	case 'R':
		return "runs";
	case 'D':
		return "waits for a device or storage (D)";
	default:
		return "sleeps";
	}
}

static void tell_outside(char *out, size_t bytes, const struct nspy_scene *scene,
			 const struct nspy_status *page)
{
	nspy_tell(out, bytes, "outside NCCL");
	if (page->last_call_ns && page->last_call_ns < scene->now_ns)
		nspy_tell(out, bytes, " since %llu s",
			  nspy_seconds(scene->now_ns - page->last_call_ns));
	if (!page->caller_tid || page->caller_state == '?')
		return;
	nspy_tell(out, bytes, "; thread %" PRIu32 " %s", page->caller_tid,
		  state_words(page->caller_state));
	if (page->caller_wchan[0])
		nspy_tell(out, bytes, " in %s", page->caller_wchan);
	if (page->busy_for_ns)
		nspy_tell(out, bytes, ", %llu ms of CPU and %llu KiB of I/O in %llu s",
			  (unsigned long long)page->busy_cpu_ns / 1000000u,
			  (unsigned long long)page->busy_io_bytes / 1024u,
			  nspy_seconds(page->busy_for_ns));
}

void nspy_tell_doing(char *out, size_t bytes, const struct nspy_scene *scene, uint32_t index)
{
	const struct nspy_status *page = &scene->pages[index];
	const struct nspy_status_call *call = page->call_count ? &page->calls_open[0] : NULL;

	if (page->state == NSPY_STATUS_EXITED) {
		nspy_tell(out, bytes, "has ended with exit code %" PRId32, page->exit_code);
	} else if (page->dead && page->signal.number) {
		char scratch[16];

		nspy_tell(out, bytes, "is gone: got %s",
			  nspy_signal_name(page->signal.number, scratch, sizeof(scratch)));
	} else if (page->dead) {
		nspy_tell(out, bytes, "is gone: killed, or crashed");
	} else if (page->stopped) {
		nspy_tell(out, bytes,
			  "is stopped by a signal or a debugger, or does not run at all");
	} else if (call) {
		nspy_tell(out, bytes, "is inside %s", nspy_status_name(page, call->name));
		if (call->seq)
			nspy_tell(out, bytes, " #%" PRIu64, call->seq);
		nspy_tell(out, bytes, " since %llu s",
			  nspy_seconds(scene->now_ns - call->enter_ns));
	} else {
		nspy_tell(out, bytes, "is ");
		tell_outside(out, bytes, scene, page);
	}
}

void nspy_canonical(const char *name, char ret[NSPY_STATUS_NAME_BYTES])
{
	static const char suffix[] = "Config";
	size_t n;

	(void)snprintf(ret, NSPY_STATUS_NAME_BYTES, "%s",
		       strcmp(name, "ncclBcast") == 0 ? "ncclBroadcast" : name);
	n = strlen(ret);
	if (n > sizeof(suffix) - 1 && strcmp(ret + n - (sizeof(suffix) - 1), suffix) == 0)
		ret[n - (sizeof(suffix) - 1)] = '\0';
}

void nspy_verdict_set(struct nspy_verdict *verdict, enum nspy_found_id id, uint64_t key,
		      uint64_t since_ns)
{
	verdict->id = id;
	verdict->priority = nspy_catalog[id].priority;
	verdict->key = key ? key : 1;
	verdict->since_ns = since_ns;
}

void nspy_verdict_blame(struct nspy_verdict *verdict, uint32_t page)
{
	for (uint32_t i = 0; i < verdict->culprit_count && i < NSPY_CULPRITS_MAX; i++)
		if (verdict->culprits[i] == page)
			return;
	if (verdict->culprit_count < NSPY_CULPRITS_MAX)
		verdict->culprits[verdict->culprit_count] = page;
	verdict->culprit_count++;
}
