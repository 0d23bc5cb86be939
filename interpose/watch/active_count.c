/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include <inttypes.h>
#include <string.h>

#include "active.h"
#include "verdict.h"

#define RANKS_MAX 65536

static const struct nspy_status_comm *world_of(const struct nspy_status *page)
{
	for (uint32_t k = 0; k < page->comm_count; k++) {
		const struct nspy_status_comm *comm = &page->comms[k];

		if (!comm->parent_key && comm->nranks > 1 && comm->nranks == page->world_size &&
		    comm->nranks <= RANKS_MAX && (comm->flags & NSPY_COMM_READY))
			return comm;
	}
	return NULL;
}

static bool first_of_node(const struct nspy_status *pages, uint32_t i)
{
	for (uint32_t k = 0; k < i; k++)
		if (strcmp(pages[k].node, pages[i].node) == 0)
			return false;
	return true;
}

static void add_missing(struct nspy_active *a, int32_t from, int32_t to)
{
	if (strlen(a->missing) + 16 > sizeof(a->missing))
		return;
	nspy_tell(a->missing, sizeof(a->missing), "%s%" PRId32, a->missing[0] ? "," : "", from);
	if (to > from)
		nspy_tell(a->missing, sizeof(a->missing), "-%" PRId32, to);
}

void nspy_active_count(const struct nspy_status *pages, uint32_t count, struct nspy_active *ret)
{
	static uint8_t there[RANKS_MAX / 8 + 1];
	const struct nspy_status_comm *world = NULL;
	int32_t from = -1;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < count && !world; i++)
		world = world_of(&pages[i]);
	if (!world)
		return;
	ret->expected = (uint32_t)world->nranks;
	memset(there, 0, ret->expected / 8 + 1);
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < pages[i].comm_count; k++) {
			const struct nspy_status_comm *comm = &pages[i].comms[k];

			if (comm->key == world->key && comm->rank >= 0 &&
			    comm->rank < world->nranks)
				there[comm->rank / 8] |= (uint8_t)(1u << comm->rank % 8);
		}
	}
	for (int32_t rank = 0; rank <= world->nranks; rank++) {
		bool seen = rank == world->nranks || there[rank / 8] >> rank % 8 & 1;

		ret->seen += seen && rank < world->nranks;
		if (!seen && from < 0)
			from = rank;
		if (seen && from >= 0)
			add_missing(ret, from, rank - 1);
		from = seen ? -1 : from;
	}
	/* Of interest only once, when all are there. */
	for (uint32_t i = 0; ret->seen == ret->expected && i < count; i++)
		ret->nodes += first_of_node(pages, i);
}
