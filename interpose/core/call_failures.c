/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "call_failures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api_ids.h"
#include "clock.h"
#include "cuda_driver.h"
#include "resolve.h"
#include "trace_format.h"

#define TEXT_BYTES  160u
#define PATIENCE_NS 1000000000ull /* of allocators that free their cache and try again */
#define CUDA_OOM    2             /* cudaErrorMemoryAllocation */
#define MIB         ((uint64_t)1 << 20)

enum kind { NCCL, FAULT, OOM, KINDS };

static struct failure {
	_Atomic uint32_t state; /* 0 free, 1 being filled in, 2 ready, 3 told */
	uint16_t fn;
	int16_t result;
	bool nested;
	uint64_t count;
	uint64_t when_ns;
	char text[TEXT_BYTES];
} failures[KINDS];

_Atomic uint64_t nspy_refused_bytes;

void nspy_call_failures_start(void)
{
	for (int i = 0; i < KINDS; i++)
		atomic_store(&failures[i].state, 0);
	atomic_store(&nspy_refused_bytes, 0);
}

/* KINDS: not worth a line. Questions are asked to learn what works. */
static enum kind kind_of(const struct nspy_rec *rec)
{
	const struct nspy_fn_info *info = &nspy_fn_table[rec->fn];

	if (info->library == NSPY_LIB_NCCL)
		return info->klass == NSPY_CLASS_QUERY || info->klass == NSPY_CLASS_COMM_STATE
			       ? KINDS
			       : NCCL;
	if (rec->result == CUDA_OOM && info->klass == NSPY_CLASS_MEM_ALLOC)
		return OOM;
	return nspy_rules_cuda_fault(rec->result) ? FAULT : KINDS;
}

void nspy_call_failed(const struct nspy_rec *rec, const char *text)
{
	enum kind kind = kind_of(rec);
	struct failure *f = &failures[kind];
	uint32_t state = 0;

	if (kind == KINDS)
		return;
	/* What was refused and obtained later is forgotten: the place is free again. */
	if (kind == OOM && atomic_load(&nspy_refused_bytes) == 0)
		state = atomic_load(&f->state) == 2 ? 2 : 0;
	if (!atomic_compare_exchange_strong(&f->state, &state, 1))
		return;
	f->fn = rec->fn;
	f->result = rec->result;
	f->nested = (rec->flags & NSPY_CALL_NESTED) != 0;
	f->count = rec->count;
	f->when_ns = nspy_monotonic_ns();
	(void)snprintf(f->text, sizeof(f->text), "%s", text ? text : "");
	f->text[strcspn(f->text, "\n")] = '\0';
	if (kind == OOM)
		atomic_store(&nspy_refused_bytes, rec->count ? rec->count : 1);
	atomic_store_explicit(&f->state, 2, memory_order_release);
}

/* --- telling --- */

static const char *nccl_words(int result)
{
	static const char *const words[] = {
		[1] = "a CUDA call failed",
		[2] = "a system call failed",
		[3] = "internal error",
		[4] = "invalid argument",
		[5] = "invalid usage",
		[6] = "a peer failed or cannot be reached",
		[8] = "timeout",
	};

	return result > 0 && (size_t)result < sizeof(words) / sizeof(words[0]) && words[result]
		       ? words[result]
		       : "error";
}

/* Who holds it, as far as that is seen. */
static void add_held(struct nspy_rule_hit *hit)
{
	unsigned long long live = nspy_cuda_driver_live();
	size_t used = strlen(hit->text);

	if (live)
		(void)snprintf(hit->text + used, sizeof(hit->text) - used,
			       "; NCCL holds %llu MiB itself", live / MIB);
}

static void describe(const struct failure *f, enum kind kind, struct nspy_rule_hit *hit)
{
	const char *name = nspy_fn_table[f->fn].name;
	const struct nspy_cuda_fault *fault;

	hit->scope = NSPY_RULE_RANK;
	switch (kind) {
	case NCCL:
		hit->id = "NCCL_CALL_FAILED";
		hit->priority = 1;
		(void)snprintf(hit->text, sizeof(hit->text), "%s returned %d (%s)%s%.159s", name,
			       f->result, nccl_words(f->result), f->text[0] ? ": " : "", f->text);
		break;
	case FAULT:
		fault = nspy_rules_cuda_fault(f->result);
		hit->id = fault->id;
		hit->priority = 0;
		(void)snprintf(hit->text, sizeof(hit->text), "%s returned %d: %s", name, f->result,
			       fault->words);
		break;
	default:
		hit->id = "CUDA_OOM";
		hit->priority = 1;
		(void)snprintf(hit->text, sizeof(hit->text), "%s was refused %" PRIu64 " MiB%s",
			       name, (f->count + MIB - 1) / MIB,
			       f->nested ? ", which NCCL itself asked for" : "");
		add_held(hit);
	}
}

void nspy_call_failures_tell(uint64_t now_ns, bool last, nspy_rule_sink *sink)
{
	for (int i = 0; i < KINDS; i++) {
		struct failure *f = &failures[i];
		struct nspy_rule_hit hit = {0};
		uint32_t ready = 2;

		if (atomic_load_explicit(&f->state, memory_order_acquire) != ready)
			continue;
		if (i == OOM && (atomic_load(&nspy_refused_bytes) == 0 ||
				 (!last && now_ns - f->when_ns < PATIENCE_NS)))
			continue;
		if (!atomic_compare_exchange_strong(&f->state, &ready, 1))
			continue;
		describe(f, (enum kind)i, &hit);
		atomic_store(&f->state, 3);
		sink(&hit, NULL);
	}
}
