/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From waits to where they end. Three kinds of end are told apart, the surest first:
 *  1. a process that waits for nobody (it is outside NCCL, inside a local call, or dead);
 *  2. a process whose own wait has all its peers present: it is stuck below NCCL's host calls;
 *  3. none: the waits form a circle, which may lead through an operation that all have joined
 *     (held.c).
 * Operations of one stream run in order, so a process may wait for peers that have all arrived but
 * whose streams are held up by an earlier operation; such waits are consequences, not ends.
 */
#include <stdlib.h>

#include "case.h"
#include "who.h"

static bool is_waiting(const struct nspy_waits *waits, const struct nspy_proc *proc)
{
	return waits->procs[proc->index].waiting;
}

static bool is_explained(const struct nspy_waits *waits, const struct nspy_proc *proc)
{
	return waits->procs[proc->index].explained;
}

static bool explain_waiters(struct nspy_waits *waits, const struct nspy_wait_object *object)
{
	bool changed = false;

	for (size_t i = 0; i < object->waiters.count; i++) {
		struct nspy_proc_wait *wait = &waits->procs[object->waiters.items[i]->index];

		changed |= !wait->explained;
		wait->explained = true;
	}
	return changed;
}

static bool blames_explained(const struct nspy_waits *waits, const struct nspy_wait_object *object)
{
	for (size_t i = 0; i < object->blamed.count; i++) {
		if (is_waiting(waits, object->blamed.items[i]) &&
		    is_explained(waits, object->blamed.items[i]))
			return true;
	}
	return false;
}

/* Whoever waits for somebody whose wait is explained is explained too. */
static void spread(struct nspy_waits *waits)
{
	bool changed;

	do {
		changed = false;
		for (size_t i = 0; i < waits->object_count; i++) {
			if (blames_explained(waits, waits->objects[i]))
				changed |= explain_waiters(waits, waits->objects[i]);
		}
	} while (changed);
}

static void first_ends(struct nspy_waits *waits)
{
	for (size_t i = 0; i < waits->object_count; i++) {
		struct nspy_wait_object *object = waits->objects[i];

		for (size_t b = 0; b < object->blamed.count; b++)
			object->root |= !is_waiting(waits, object->blamed.items[b]);
		/* Nobody with a trace to blame: a rank without one is the end of this chain. */
		object->root |= object->blamed.count == 0 && object->kind != NSPY_WAIT_BELOW;
		if (object->root)
			explain_waiters(waits, object);
	}
	spread(waits);
}

/* All present, yet stuck, while a peer's stream is held up elsewhere. */
static void held_up_streams(struct nspy_waits *waits)
{
	bool changed = false;

	for (size_t i = 0; i < waits->object_count; i++) {
		struct nspy_wait_object *object = waits->objects[i];
		bool held = false;

		if (object->kind != NSPY_WAIT_BELOW)
			continue;
		for (size_t m = 0; m < object->comm->member_count && !held; m++) {
			const struct nspy_proc *peer = object->comm->members[m]->proc;

			held = is_waiting(waits, peer) && is_explained(waits, peer);
		}
		if (held)
			changed |= explain_waiters(waits, object);
	}
	if (changed)
		spread(waits);
}

/* The operation in which a process is stuck though all have joined it, or NULL. */
static const struct nspy_wait_object *stuck_below(const struct nspy_waits *waits,
						  const struct nspy_proc *proc)
{
	for (size_t i = 0; i < waits->object_count; i++) {
		if (waits->objects[i]->kind == NSPY_WAIT_BELOW &&
		    nspy_procs_has(&waits->objects[i]->waiters, proc))
			return waits->objects[i];
	}
	return NULL;
}

/* Waits for somebody who is stuck in an operation that all have joined. */
typedef void stuck_fn(struct nspy_waits *waits, struct nspy_wait_object *object,
		      const struct nspy_proc *proc, const struct nspy_wait_object *below);

static void for_each_stuck(struct nspy_waits *waits, stuck_fn *call)
{
	for (size_t i = 0; i < waits->object_count; i++) {
		struct nspy_wait_object *object = waits->objects[i];

		for (size_t b = 0; b < object->blamed.count; b++) {
			const struct nspy_proc *proc = object->blamed.items[b];
			const struct nspy_wait_object *below = stuck_below(waits, proc);

			if (below && !is_explained(waits, proc))
				call(waits, object, proc, below);
		}
	}
}

static void look_for_circle(struct nspy_waits *waits, struct nspy_wait_object *object,
			    const struct nspy_proc *proc, const struct nspy_wait_object *below)
{
	nspy_held_up(waits, object, proc, below);
}

static void make_end(struct nspy_waits *waits, struct nspy_wait_object *object,
		     const struct nspy_proc *proc, const struct nspy_wait_object *below)
{
	if (waits->held.op == below && nspy_procs_has(&waits->held.peers, proc))
		return;
	object->root = true;
	explain_waiters(waits, object);
}

static void second_ends(struct nspy_waits *waits)
{
	for_each_stuck(waits, look_for_circle);
	if (!nspy_held_are_few(&waits->held))
		waits->held.op = NULL;
	for_each_stuck(waits, make_end);
	spread(waits);
}

static void find_circles(struct nspy_waits *waits)
{
	for (size_t i = 0; i < waits->object_count; i++) {
		struct nspy_wait_object *object = waits->objects[i];

		for (size_t w = 0; w < object->waiters.count; w++)
			object->cyclic |= object->kind != NSPY_WAIT_BELOW &&
					  !is_explained(waits, object->waiters.items[w]);
	}
}

/* --- hangs --- */

static bool is_end(const struct nspy_waits *waits, const struct nspy_proc *proc)
{
	return !is_waiting(waits, proc) || (!is_explained(waits, proc) && stuck_below(waits, proc));
}

static struct nspy_hang *hang_with(struct nspy_waits *waits, const struct nspy_wait_object *object)
{
	for (size_t h = 0; h < waits->hang_count; h++) {
		for (size_t b = 0; b < object->blamed.count; b++) {
			if (nspy_procs_has(&waits->hangs[h].culprits, object->blamed.items[b]))
				return &waits->hangs[h];
		}
		if (object->blamed.count == 0 && waits->hangs[h].culprits.count == 0)
			return &waits->hangs[h];
	}
	waits->hangs = nspy_grow(waits->hangs, waits->hang_count, &waits->hang_capacity,
				 sizeof(*waits->hangs));
	waits->hangs[waits->hang_count] = (struct nspy_hang){0};
	return &waits->hangs[waits->hang_count++];
}

static void add_missing(struct nspy_procs *into, const struct nspy_procs *from)
{
	for (size_t i = 0; i < from->count; i++) {
		if (!nspy_procs_has(into, from->items[i]))
			nspy_procs_add(into, from->items[i]);
	}
}

static bool better_main(const struct nspy_wait_object *object, const struct nspy_wait_object *main)
{
	if (!main)
		return true;
	if (object->waiters.count != main->waiters.count)
		return object->waiters.count > main->waiters.count;
	return object->since_ns < main->since_ns;
}

static void note_span(const struct nspy_waits *waits, struct nspy_hang *hang,
		      const struct nspy_procs *waiters)
{
	for (size_t i = 0; i < waiters->count; i++) {
		const struct nspy_proc_wait *wait = &waits->procs[waiters->items[i]->index];

		if (!hang->since_ns || wait->since_ns < hang->since_ns)
			hang->since_ns = wait->since_ns;
		if (wait->until_ns > hang->until_ns)
			hang->until_ns = wait->until_ns;
	}
}

static void add_object(struct nspy_waits *waits, struct nspy_hang *hang,
		       const struct nspy_wait_object *object)
{
	for (size_t b = 0; b < object->blamed.count; b++) {
		const struct nspy_proc *proc = object->blamed.items[b];

		if (!object->cyclic && is_end(waits, proc) &&
		    !nspy_procs_has(&hang->culprits, proc))
			nspy_procs_add(&hang->culprits, proc);
	}
	hang->other_objects += hang->main != NULL;
	if (better_main(object, hang->main))
		hang->main = object;
	add_missing(&hang->direct, &object->waiters);
	note_span(waits, hang, &object->waiters);
}

/* Everybody whose chain of waits leads into the hang. */
static void add_indirect(struct nspy_waits *waits, struct nspy_hang *hang)
{
	bool changed;

	do {
		changed = false;
		for (size_t i = 0; i < waits->object_count; i++) {
			const struct nspy_wait_object *object = waits->objects[i];
			bool leads = object->kind == NSPY_WAIT_BELOW;

			for (size_t b = 0; b < object->blamed.count && !leads; b++)
				leads = nspy_procs_has(&hang->direct, object->blamed.items[b]) ||
					nspy_procs_has(&hang->indirect, object->blamed.items[b]);
			for (size_t w = 0; leads && w < object->waiters.count; w++) {
				const struct nspy_proc *proc = object->waiters.items[w];

				if (nspy_procs_has(&hang->direct, proc) ||
				    nspy_procs_has(&hang->indirect, proc) ||
				    nspy_procs_has(&hang->culprits, proc))
					continue;
				nspy_procs_add(&hang->indirect, proc);
				note_span(waits, hang, &object->waiters);
				changed = true;
			}
		}
	} while (changed);
}

/* Nobody to blame: circles, or everybody present and nothing comes back. */
static void hangs_without_end(struct nspy_waits *waits)
{
	struct nspy_hang hang = {0};

	for (size_t i = 0; i < waits->object_count; i++) {
		if (waits->objects[i]->cyclic)
			add_object(waits, &hang, waits->objects[i]);
	}
	for (size_t i = 0; !hang.main && i < waits->object_count; i++) {
		if (waits->objects[i]->kind == NSPY_WAIT_BELOW)
			add_object(waits, &hang, waits->objects[i]);
	}
	if (!hang.main)
		return;
	waits->hangs = nspy_grow(waits->hangs, waits->hang_count, &waits->hang_capacity,
				 sizeof(*waits->hangs));
	waits->hangs[waits->hang_count++] = hang;
}

void nspy_hangs_find(struct nspy_case *c)
{
	struct nspy_waits *waits = &c->waits;

	first_ends(waits);
	held_up_streams(waits);
	second_ends(waits);
	find_circles(waits);
	for (size_t i = 0; i < waits->object_count; i++) {
		if (waits->objects[i]->root)
			add_object(waits, hang_with(waits, waits->objects[i]), waits->objects[i]);
	}
	if (waits->hang_count == 0)
		hangs_without_end(waits);
	for (size_t h = 0; h < waits->hang_count; h++) {
		if (waits->hangs[h].culprits.count)
			add_indirect(waits, &waits->hangs[h]);
	}
}
