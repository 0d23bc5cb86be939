/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA_DEVICE_FAULT, and DRIVER_RUNTIME_MISMATCH where only return codes tell
 *
 * Question: did a GPU, or a kernel on it, fail in a way that ends all work of that process?
 * Evidence: return codes of the CUDA runtime, most of them sticky: every later call of the process
 *   returns the same. The code tells hardware from program. Threshold: none.
 * Names: the ranks that got such a code; first the one that got it first. The call that returns it
 *   is not the one that caused it: kernels run asynchronously.
 * Known false positives: none known. A code that NCCL alone saw is told by NCCL_CALL_FAILED.
 */
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "rules.h"
#include "text.h"
#include "who.h"

static const struct nspy_cuda_fault *fault_of(int code, enum nspy_finding_id id)
{
	const struct nspy_cuda_fault *fault = nspy_rules_cuda_fault(code);

	return fault && strcmp(fault->id, nspy_catalog[id].id) == 0 ? fault : NULL;
}

struct hit {
	const struct nspy_proc *proc;
	const struct nspy_error *error;
	const struct nspy_cuda_fault *fault;
};

static bool look_at(const struct nspy_case *c, const struct nspy_proc *proc,
		    enum nspy_finding_id id, struct hit *ret)
{
	ret->error = NULL;
	for (size_t e = 0; e < proc->error_count; e++) {
		const struct nspy_error *error = &proc->errors[e];
		const struct nspy_cuda_fault *fault = fault_of(error->code, id);

		if (!fault || nspy_model_get_fn(c->model, error->fn)->lib != NSPY_MODEL_CUDART ||
		    (ret->error && ret->error->first_ns <= error->first_ns))
			continue;
		*ret = (struct hit){proc, error, fault};
	}
	return ret->error != NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	return x->error->first_ns < y->error->first_ns ? -1
						       : x->error->first_ns > y->error->first_ns;
}

static void tell(const struct nspy_case *c, struct nspy_finding *finding, const struct hit *hit)
{
	struct nspy_str s = {0};

	nspy_add_proc_short(&s, hit->proc);
	nspy_str_addf(
		&s, ": %s returned %s (%d) at ", nspy_model_get_fn(c->model, hit->error->fn)->name,
		nspy_model_result(c->model, NSPY_MODEL_CUDART, hit->error->code), hit->error->code);
	nspy_add_clock(&s, hit->error->first_ns);
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void report(const struct nspy_case *c, struct nspy_findings *out, enum nspy_finding_id id,
		   const struct hit *hits, size_t count)
{
	struct nspy_finding *finding = nspy_findings_add(out, id);
	const struct hit *first = &hits[0];
	struct nspy_str s = {0};

	for (size_t i = 0; i < count; i++) {
		nspy_finding_blame(finding, hits[i].proc);
		if (i < 6)
			tell(c, finding, &hits[i]);
	}
	nspy_add_proc(&s, first->proc);
	nspy_str_addf(&s, ": %s (CUDA error %d) at ", first->fault->words, first->error->code);
	nspy_add_clock(&s, first->error->first_ns);
	if (count > 1) {
		nspy_str_addf(&s, ", then %zu more: ", count - 1);
		nspy_add_procs_short(&s, finding->culprits + 1, finding->culprit_count - 1);
	}
	finding->summary = nspy_str_take(&s);
	nspy_str_addf(&s, "%s on ", first->fault->words);
	nspy_add_proc(&s, first->proc);
	finding->cause = nspy_str_take(&s);
	finding->when_ns = first->error->first_ns;
	finding->owner = first->fault->owner;
	finding->restart = first->fault->restart;
	finding->action = first->fault->action;
}

static void detect(const struct nspy_case *c, struct nspy_findings *out, enum nspy_finding_id id)
{
	struct hit *hits = nspy_xcalloc(c->attempt->proc_count + 1, sizeof(*hits));
	size_t count = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++)
		count += look_at(c, c->attempt->procs[i], id, &hits[count]);
	if (count) {
		qsort(hits, count, sizeof(*hits), by_time);
		report(c, out, id, hits, count);
	}
	free(hits);
}

void nspy_detect_device_fault(const struct nspy_case *c, struct nspy_findings *out)
{
	detect(c, out, NSPY_FINDING_CUDA_DEVICE_FAULT);
	if (!nspy_findings_get(out, NSPY_FINDING_DRIVER_RUNTIME_MISMATCH))
		detect(c, out, NSPY_FINDING_DRIVER_RUNTIME_MISMATCH);
}
