/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains and binomial trees. Seen from the root, members are numbered 0 to size - 1; the parent of
 * a number is it without its lowest bit, and the members below a number are the numbers up to the
 * next one with that bit. Trees need 2 (n - 1) messages where rings need n times as many, which is
 * what counts when 64 ranks share two processors.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PIECE (256u << 10)

static int number(const struct fake_team *team, int root)
{
	return (team->me - root + team->size) % team->size;
}

static int member(const struct fake_team *team, int root, int v)
{
	return (v + root) % team->size;
}

/* How many numbers from v on are below it, itself included. */
static int span(const struct fake_team *team, int v)
{
	int low = v & -v;

	if (v == 0 || v + low > team->size)
		return team->size - v;
	return low;
}

/* One step of walking the children: 1, 2, 4, ... below the lowest bit of v */
static bool is_child(const struct fake_team *team, int v, int bit)
{
	return (v == 0 || bit < (v & -v)) && v + bit < team->size;
}

/*
 * Broadcast and reduce go along the ring of ranks as in NCCL, so that ranks that disagree about the
 * root get stuck, or not, in the same places.
 */
int fake_chain_broadcast(const struct fake_team *team, int root, void *data, size_t bytes)
{
	int next = (team->me + 1) % team->size, before = (team->me - 1 + team->size) % team->size;
	int result = 0;

	if (team->size == 1)
		return 0;
	for (size_t at = 0; at < bytes && result == 0; at += PIECE) {
		size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		if (team->me != root)
			result = fake_recv_from(team, before, (char *)data + at, n);
		if (next != root && result == 0)
			result = fake_send_to(team, next, (char *)data + at, n);
	}
	return result;
}

int fake_chain_reduce(const struct fake_team *team, int root, void *acc, size_t count,
		      ncclDataType_t datatype, ncclRedOp_t op)
{
	int next = (team->me + 1) % team->size, before = (team->me - 1 + team->size) % team->size;
	size_t size = fake_datatype_bytes(datatype), step = PIECE / size;
	char *room = malloc(PIECE);
	int result = 0;

	if (!room)
		abort();
	for (size_t at = 0; at < count && result == 0 && team->size > 1; at += step) {
		size_t n = count - at < step ? count - at : step;
		char *here = (char *)acc + at * size;

		if (before != root)
			result = fake_recv_from(team, before, room, n * size);
		if (before != root && result == 0)
			fake_reduce(here, room, n, datatype, op);
		if (team->me != root && result == 0)
			result = fake_send_to(team, next, here, n * size);
	}
	free(room);
	return result;
}

int fake_tree_broadcast(const struct fake_team *team, int root, void *data, size_t bytes)
{
	struct fake_xfer xfers[32];
	int v = number(team, root), count = 0;
	int result = 0;

	if (v != 0)
		result = fake_recv_from(team, member(team, root, v & (v - 1)), data, bytes);
	memset(xfers, 0, sizeof(xfers));
	/* the largest subtree first: it takes longest */
	for (int bit = 1 << 20; bit > 0; bit >>= 1) {
		if (!is_child(team, v, bit))
			continue;
		xfers[count].peer = fake_team_rank(team, member(team, root, v + bit));
		xfers[count].send = true;
		xfers[count].data = data;
		xfers[count++].bytes = bytes;
	}
	return result || count == 0 ? result : fake_exchange(team, xfers, count);
}

static int reduce_piece(const struct fake_team *team, int root, char *acc, char *room, size_t count,
			ncclDataType_t datatype, ncclRedOp_t op)
{
	int v = number(team, root), result = 0;
	size_t bytes = count * fake_datatype_bytes(datatype);

	for (int bit = 1; is_child(team, v, bit) && result == 0; bit <<= 1) {
		result = fake_recv_from(team, member(team, root, v + bit), room, bytes);
		if (result == 0)
			fake_reduce(acc, room, count, datatype, op);
	}
	if (result == 0 && v != 0)
		result = fake_send_to(team, member(team, root, v & (v - 1)), acc, bytes);
	return result;
}

int fake_tree_reduce(const struct fake_team *team, int root, void *acc, size_t count,
		     ncclDataType_t datatype, ncclRedOp_t op)
{
	size_t size = fake_datatype_bytes(datatype), step = PIECE / size;
	char *room = malloc(PIECE);
	int result = 0;

	if (!room)
		abort();
	for (size_t at = 0; at < count && result == 0; at += step) {
		size_t n = count - at < step ? count - at : step;

		result = reduce_piece(team, root, (char *)acc + at * size, room, n, datatype, op);
	}
	free(room);
	return result;
}

int fake_tree_gather(const struct fake_team *team, char *blocks, size_t bytes)
{
	int v = number(team, 0), result = 0;

	for (int bit = 1; is_child(team, v, bit) && result == 0; bit <<= 1)
		result = fake_recv_from(team, v + bit, blocks + (size_t)(v + bit) * bytes,
					(size_t)span(team, v + bit) * bytes);
	if (result == 0 && v != 0)
		result = fake_send_to(team, v & (v - 1), blocks + (size_t)v * bytes,
				      (size_t)span(team, v) * bytes);
	return result;
}

int fake_tree_scatter(const struct fake_team *team, char *blocks, size_t bytes)
{
	int v = number(team, 0), result = 0;

	if (v != 0)
		result = fake_recv_from(team, v & (v - 1), blocks + (size_t)v * bytes,
					(size_t)span(team, v) * bytes);
	for (int bit = 1 << 20; bit > 0 && result == 0; bit >>= 1) {
		if (is_child(team, v, bit))
			result = fake_send_to(team, v + bit, blocks + (size_t)(v + bit) * bytes,
					      (size_t)span(team, v + bit) * bytes);
	}
	return result;
}

int fake_tree_all_gather(const struct fake_team *team, void *blocks, size_t bytes)
{
	int result = fake_tree_gather(team, blocks, bytes);

	return result ? result : fake_tree_broadcast(team, 0, blocks, (size_t)team->size * bytes);
}
