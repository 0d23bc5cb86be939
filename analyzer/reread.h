/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going through the calls of a process once more, for what the model does not keep. Times are
 * those of the trace, function ids those of its schema (proc->fn_map translates).
 */
#ifndef NSPY_REREAD_H
#define NSPY_REREAD_H

#include "model.h"

typedef void nspy_visit_fn(void *context, const struct nspy_proc *proc, uint32_t thread,
			   const struct nspy_rec *rec);

/* Visits every call, those still open last; a call may be visited twice. */
void nspy_reread(const struct nspy_proc *proc, nspy_visit_fn *visit, void *context);

/* What each member of a communicator did at an operation. */
struct nspy_op_row {
	const struct nspy_member *member;
	bool seen;
	struct nspy_rec rec; /* fn is a model id, times are aligned */
	uint32_t signature;
};

/*
 * Rows for the operations first .. first + count - 1, members of comm in order:
 * row of member m at operation first + k is [m * count + k]. Caller frees.
 */
struct nspy_op_row *nspy_reread_ops(const struct nspy_model *model, const struct nspy_comm *comm,
				    uint64_t first, size_t count);

#endif
