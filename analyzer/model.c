/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "text.h"

struct nspy_model *nspy_model_new(const char *job)
{
	struct nspy_model *model = nspy_xcalloc(1, sizeof(*model));

	model->job = nspy_xstrdup(job);
	nspy_clean(model->job);
	/* Never moved: threads read entries without the lock. */
	model->fns = nspy_xcalloc(NSPY_FNS_MAX, sizeof(*model->fns));
	model->fns[0].name = nspy_xstrdup("(unknown function)");
	model->fns[0].klass = NSPY_CLASS_OTHER;
	model->fns[0].lib = NSPY_MODEL_OTHER;
	model->fn_count = 1;
	pthread_mutex_init(&model->lock, NULL);
	return model;
}

struct nspy_proc *nspy_model_add_proc(struct nspy_model *model, uint64_t run_id)
{
	struct nspy_proc *proc = nspy_xcalloc(1, sizeof(*proc));

	proc->index = (uint32_t)model->proc_count;
	proc->run_id = run_id;
	proc->rank = proc->world = NSPY_NO_RANK;
	proc->pid = -1;
	model->procs = nspy_grow(model->procs, model->proc_count, &model->proc_capacity,
				 sizeof(struct nspy_proc *));
	model->procs[model->proc_count++] = proc;
	return proc;
}

static void member_free(struct nspy_member *member)
{
	if (!member)
		return;
	for (size_t i = 0; i < member->peer_count; i++)
		free(member->peers[i]);
	free(member->peers);
	free(member->together);
	nspy_timed_done(member->timed);
	free(member);
}

static void drop_records(struct nspy_proc *proc)
{
	for (size_t i = 0; i < proc->thread_count; i++)
		nspy_str_done(&proc->threads[i].text);
	free(proc->threads);
	for (size_t i = 0; i < proc->member_count; i++)
		member_free(proc->members[i]);
	free(proc->members);
	for (size_t i = 0; i < proc->error_count; i++)
		free(proc->errors[i].text);
	free(proc->errors);
	for (size_t i = 0; i < proc->trouble_count; i++)
		free(proc->troubles[i].path);
	free(proc->troubles);
	for (size_t i = 0; i < proc->note_count; i++)
		free(proc->notes[i]);
	free(proc->notes);
	nspy_map_done(&proc->memory.pieces);
	nspy_net_done(&proc->net);
	nspy_account_done(&proc->account);
	nspy_prof_done(&proc->prof);
	free(proc->open);
	free(proc->waits);
	free(proc->stalls);
	free(proc->fn_map);
}

void nspy_proc_reset(struct nspy_proc *proc)
{
	struct nspy_proc kept = {
		.index = proc->index,
		.run_id = proc->run_id,
		.files = proc->files,
		.file_count = proc->file_count,
		.file_capacity = proc->file_capacity,
		.base = proc->base,
		.summary = proc->summary,
		.life = proc->life,
		.doubled = proc->doubled,
		.facts = proc->facts,
		.fact_count = proc->fact_count,
		.fact_capacity = proc->fact_capacity,
		.rank = proc->rank,
		.world = proc->world,
		.pid = proc->pid,
		.epoch = proc->epoch,
		.clock_offset = proc->clock_offset,
		.has_clock = proc->has_clock,
		.clock = proc->clock,
		.clock_rate = proc->clock_rate,
		.clock_base_ns = proc->clock_base_ns,
		.clock_corrected_ns = proc->clock_corrected_ns,
		.clock_error_ns = proc->clock_error_ns,
		.start_ns = proc->start_ns,
		.exit = proc->exit,
	};

	drop_records(proc);
	*proc = kept;
}

static void proc_free(struct nspy_proc *proc)
{
	drop_records(proc);
	for (size_t i = 0; i < proc->file_count; i++)
		free(proc->files[i].path);
	free(proc->files);
	for (size_t i = 0; i < proc->fact_count; i++) {
		free(proc->facts[i].key);
		free(proc->facts[i].value);
	}
	free(proc->facts);
	free(proc->base);
	free(proc);
}

void nspy_model_free(struct nspy_model *model)
{
	if (!model)
		return;
	nspy_parts_drop(model);
	for (size_t i = 0; i < model->proc_count; i++)
		proc_free(model->procs[i]);
	free(model->procs);
	for (size_t i = 0; i < model->comm_count; i++) {
		nspy_cells_done(&model->comms[i]->cells);
		free(model->comms[i]->members);
		free(model->comms[i]);
	}
	free(model->comms);
	nspy_map_done(&model->comm_by_key);
	free(model->members);
	for (size_t i = 0; i < model->attempt_count; i++) {
		free(model->attempts[i].procs);
		free(model->attempts[i].comms);
	}
	free(model->attempts);
	for (size_t i = 0; i < model->fn_count; i++)
		free(model->fns[i].name);
	free(model->fns);
	for (size_t i = 0; i < nspy_array_size(model->type_names); i++)
		free(model->type_names[i]);
	for (size_t i = 0; i < model->result_names.capacity; i++)
		free(model->result_names.slots[i].value);
	nspy_map_done(&model->result_names);
	pthread_mutex_destroy(&model->lock);
	free(model->job);
	free(model);
}

const char *nspy_proc_fact(const struct nspy_proc *proc, const char *key)
{
	proc = nspy_proc_whole(proc);
	for (size_t i = 0; i < proc->fact_count; i++) {
		if (strcmp(proc->facts[i].key, key) == 0)
			return proc->facts[i].value;
	}
	return NULL;
}

static void index_fact(struct nspy_proc *proc, const struct nspy_fact *fact)
{
	int64_t number;

	if (!nspy_parse_i64(fact->value, &number))
		return;
	if (strcmp(fact->key, "rank") == 0 && number >= 0)
		proc->rank = number;
	else if (strcmp(fact->key, "world_size") == 0 && number > 0)
		proc->world = number;
	else if (strcmp(fact->key, "pid") == 0)
		proc->pid = number;
}

void nspy_proc_set_fact(struct nspy_proc *proc, const char *key, size_t key_bytes,
			const char *value, size_t value_bytes)
{
	char *name = nspy_xstrndup(key, key_bytes);
	char *text = nspy_xstrndup(value, value_bytes);
	struct nspy_fact *fact = NULL;

	nspy_clean(name);
	nspy_clean(text);
	for (size_t i = 0; i < proc->fact_count && !fact; i++) {
		if (strcmp(proc->facts[i].key, name) == 0)
			fact = &proc->facts[i];
	}
	if (!fact && proc->fact_count == NSPY_FACTS_MAX) {
		free(name);
		free(text);
		return;
	}
	if (fact) {
		free(name);
		free(fact->value);
		fact->value = text;
	} else {
		proc->facts = nspy_grow(proc->facts, proc->fact_count, &proc->fact_capacity,
					sizeof(*proc->facts));
		fact = &proc->facts[proc->fact_count++];
		*fact = (struct nspy_fact){name, text};
	}
	index_fact(proc, fact);
}

const char *nspy_proc_host(const struct nspy_proc *proc)
{
	const char *host = nspy_proc_fact(proc, "node");

	if (!host || !*host)
		host = nspy_proc_fact(proc, "host");
	return host && *host ? host : "?";
}

struct nspy_thread *nspy_proc_thread(struct nspy_proc *proc, uint32_t serial)
{
	struct nspy_thread *thread;

	/* Threads are few and chunks of one thread follow each other: search from the end. */
	for (size_t i = proc->thread_count; i-- > 0;) {
		if (proc->threads[i].serial == serial)
			return &proc->threads[i];
	}
	if (proc->thread_count == NSPY_THREADS_MAX)
		return NULL;
	proc->threads = nspy_grow(proc->threads, proc->thread_count, &proc->thread_capacity,
				  sizeof(*proc->threads));
	thread = &proc->threads[proc->thread_count++];
	memset(thread, 0, sizeof(*thread));
	thread->serial = serial;
	return thread;
}

struct nspy_member *nspy_proc_member(struct nspy_proc *proc, uint32_t index)
{
	struct nspy_member *member;

	if (index >= NSPY_MEMBERS_MAX)
		return NULL;
	while (index >= proc->member_count) {
		proc->members = nspy_grow(proc->members, proc->member_count, &proc->member_capacity,
					  sizeof(struct nspy_member *));
		proc->members[proc->member_count++] = NULL;
	}
	member = proc->members[index];
	if (!member) {
		member = proc->members[index] = nspy_xcalloc(1, sizeof(*member));
		member->proc = proc;
		member->rec.comm = index;
		member->rec.nranks = member->rec.rank = -1;
	}
	return member;
}

struct nspy_peer *nspy_member_peer(struct nspy_member *member, int32_t peer)
{
	size_t wanted = (size_t)peer + 1;

	if (peer < 0 || wanted > NSPY_PEERS_MAX)
		return NULL;
	if (wanted > member->peer_count) {
		size_t more = member->peer_count * 2 > wanted ? member->peer_count * 2 : wanted;

		member->peers = nspy_xrealloc(member->peers, more, sizeof(struct nspy_peer *));
		memset(member->peers + member->peer_count, 0,
		       (more - member->peer_count) * sizeof(struct nspy_peer *));
		member->peer_count = more;
	}
	if (!member->peers[peer]) {
		member->peers[peer] = nspy_xcalloc(1, sizeof(struct nspy_peer));
		member->peers[peer]->peer = peer;
	}
	return member->peers[peer];
}

uint64_t nspy_proc_lost_records(const struct nspy_proc *proc)
{
	return proc->loss[NSPY_LOSS_RECORDS_NO_PAGE] + proc->loss[NSPY_LOSS_RECORDS_NO_SLOT] +
	       proc->loss[NSPY_LOSS_RECORDS_WRITE] + proc->loss[NSPY_LOSS_RECORDS_RING] +
	       proc->loss[NSPY_LOSS_CALLS_DEPTH];
}
