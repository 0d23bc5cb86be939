/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA_OOM
 *
 * Question: was memory refused by the CUDA runtime, and to whom?
 * Evidence: the out-of-memory code (2) of an allocation call, its size, and what the process held
 *   then by its own allocations. Calls from inside NCCL are told apart.
 * Threshold: none. P2 if the process obtained as much later: caching allocators try, free their
 * cache and try again. Known false positives: programs that probe how much they can get.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "text.h"
#include "who.h"

static void add_request(struct nspy_str *s, const struct nspy_case *c, const struct nspy_proc *proc)
{
	const struct nspy_memory *memory = &proc->memory;

	nspy_str_addf(s, "%s(", nspy_model_get_fn(c->model, memory->refused_fn)->name);
	nspy_add_bytes_binary(s, memory->refused_bytes);
	nspy_str_add(s, ")");
}

static uint64_t proc_number(const struct nspy_proc *proc, const char *key)
{
	const char *text = nspy_proc_fact(proc, key);

	return text ? strtoull(text, NULL, 10) : 0;
}

static void add_holding(struct nspy_finding *finding, const struct nspy_proc *proc)
{
	const struct nspy_memory *memory = &proc->memory;
	struct nspy_str s = {0};

	nspy_add_proc_short(&s, proc);
	nspy_str_add(&s, " held ");
	nspy_add_bytes_binary(&s, memory->live_then);
	nspy_str_addf(&s, " in %zu piece%s then", memory->pieces_then,
		      memory->pieces_then == 1 ? "" : "s");
	if (memory->refused > 1)
		nspy_str_addf(&s, "; %" PRIu64 " requests were refused in all", memory->refused);
	if (memory->nested)
		nspy_str_add(&s, "; NCCL itself asked for it");
	if (memory->recovered)
		nspy_str_add(&s, "; it obtained as much later");
	if (proc_number(proc, "nccl.memory.peak")) {
		nspy_str_add(&s, "; NCCL held at most ");
		nspy_add_bytes_binary(&s, proc_number(proc, "nccl.memory.peak"));
		nspy_str_add(&s, " of its own");
	}
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct nspy_procs *hit, bool recovered)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_CUDA_OOM);
	const struct nspy_proc *first = hit->items[0];
	struct nspy_str s = {0};

	for (size_t i = 1; i < hit->count; i++) {
		if (hit->items[i]->memory.refused_ns < first->memory.refused_ns)
			first = hit->items[i];
	}
	nspy_add_procs(&s, hit->items, hit->count);
	nspy_str_add(&s, hit->count > 1 ? " were refused memory, first " : " was refused memory: ");
	if (hit->count > 1) {
		nspy_add_proc_short(&s, first);
		nspy_str_add(&s, " by ");
	}
	add_request(&s, c, first);
	nspy_str_add(&s, " at ");
	nspy_add_clock(&s, first->memory.refused_ns);
	finding->summary = nspy_str_take(&s);
	nspy_str_add(&s, "GPU memory ran out on ");
	nspy_add_procs(&s, hit->items, hit->count);
	finding->cause = nspy_str_take(&s);
	finding->when_ns = first->memory.refused_ns;
	finding->priority = recovered ? 2 : 1;
	add_holding(finding, first);
	for (size_t i = 0; i < hit->count; i++)
		nspy_finding_blame(finding, hit->items[i]);
}

void nspy_detect_oom(const struct nspy_case *c, struct nspy_findings *out)
{
	for (int recovered = 0; recovered < 2; recovered++) {
		struct nspy_procs hit = {0};

		for (size_t i = 0; i < c->attempt->proc_count; i++) {
			const struct nspy_memory *memory = &c->attempt->procs[i]->memory;

			if (memory->refused && memory->recovered == recovered)
				nspy_procs_add(&hit, c->attempt->procs[i]);
		}
		if (hit.count)
			report(c, out, &hit, recovered);
		free(hit.items);
	}
}
