/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who came when the others had given up. A rank that was stuck elsewhere for longer than a watchdog
 * waits may come back, join the operation that the others have aborted, and even wait in it until
 * it is told that they are gone. By then its trace no longer shows that it was missing: what counts
 * is what had been joined when the waiters gave up.
 */
#include <stdlib.h>

#include "case.h"
#include "reread.h"

uint64_t nspy_late_low(const struct nspy_comm *comm, uint64_t until_ns)
{
	uint64_t low = comm->low_seq;

	while (low > 0) {
		const struct nspy_cell *cell = nspy_cells_get(&comm->cells, low);

		if (!cell || cell->last_ns <= until_ns)
			break;
		low--;
	}
	return low;
}

void nspy_late_blame(const struct nspy_case *c, struct nspy_wait_object *object, uint64_t until_ns)
{
	const struct nspy_comm *comm = object->comm;
	struct nspy_op_row *rows;

	if (object->seq > comm->low_seq)
		return; /* those who never came are blamed already */
	rows = nspy_reread_ops(c->model, comm, object->seq, 1);
	for (size_t m = 0; m < comm->member_count; m++) {
		const struct nspy_proc *proc = rows[m].member ? rows[m].member->proc : NULL;

		if (!proc || !rows[m].seen || rows[m].rec.enter <= until_ns ||
		    nspy_procs_has(&object->blamed, proc))
			continue;
		nspy_procs_add(&object->blamed, proc);
		object->late = true;
	}
	free(rows);
}

/* The communicators of a process in which somebody came after it had given up. */
static void excuse(struct nspy_waits *waits, const struct nspy_model *model,
		   const struct nspy_proc *proc)
{
	uint64_t until_ns = waits->procs[proc->index].until_ns;

	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];
		const struct nspy_cell *cell;
		struct nspy_proc_wait *late;
		uint64_t low;

		if (!member || !member->comm)
			continue;
		low = nspy_late_low(member->comm, until_ns);
		if (low == member->comm->low_seq || member->last_seq <= low)
			continue;
		cell = nspy_cells_get(&member->comm->cells, low + 1);
		if (!cell || !model->members[cell->last_member])
			continue;
		late = &waits->procs[model->members[cell->last_member]->proc->index];
		if (late->waiting && late->since_ns > until_ns)
			*late = (struct nspy_proc_wait){0};
	}
}

void nspy_late_waits(struct nspy_case *c)
{
	struct nspy_waits *waits = &c->waits;

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		if (waits->procs[c->attempt->procs[i]->index].waiting)
			excuse(waits, c->model, c->attempt->procs[i]);
	}
}
