/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "record.h"

#include "core.h"
#include "resolve.h"
#include "seen.h"

/*
 * NCCL calls itself through its PLT, so its inner calls reach our wrappers: only the application's
 * own call counts. CUDA calls made inside NCCL's are kept, marked as nested.
 */
bool nspy_enter_nested(struct nspy_tls *t, unsigned int fn, uint8_t *flags)
{
	if (t->busy || nspy_fn_table[fn].library == nspy_fn_table[t->slot->open[0].fn].library) {
		if (nspy_fn_table[fn].library != NSPY_LIB_NCCL)
			nspy_seen_gap();
		return false;
	}
	if (t->depth >= NSPY_OPEN_DEPTH_MAX) {
		nspy_count_loss(NSPY_LOSS_CALLS_DEPTH, 1);
		nspy_seen_gap();
		return false;
	}
	*flags |= NSPY_CALL_NESTED;
	return true;
}

struct nspy_rec *nspy_enter_cold(unsigned int fn)
{
	struct nspy_tls *t = &nspy_tls;
	uint32_t phase = atomic_load_explicit(&nspy_core.phase, memory_order_acquire);
	bool ready;

	if (phase == NSPY_PHASE_OFF || phase == NSPY_PHASE_STOPPED || t->busy)
		return NULL;
	/* Only NCCL wakes us: a process that merely uses CUDA gets no file and no thread. */
	if (nspy_fn_table[fn].library != NSPY_LIB_NCCL &&
	    (phase != NSPY_PHASE_RECORDING || nspy_hot->epoch == 0))
		return NULL;
	t->busy = true;
	ready = nspy_start() && nspy_thread_attach();
	t->busy = false;
	if (!ready)
		nspy_seen_gap();
	return ready ? nspy_open_entry(t, fn) : NULL;
}
