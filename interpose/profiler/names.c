/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "names.h"

#include <stdbool.h>
#include <stddef.h>

#include "trace_format.h"
#include "trace_prof.h"

/* Inline, and without a call: names are short, and the first letters differ. */
static inline bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

struct entry {
	const char *name;
	uint8_t value;
};

static inline uint8_t find(const struct entry *table, size_t count, const char *name, uint8_t none)
{
	if (!name)
		return none;
	for (size_t i = 0; i < count; i++)
		if (same(table[i].name, name))
			return table[i].value;
	return none;
}

#define FIND(table, name, none) find(table, sizeof(table) / sizeof((table)[0]), name, none)

/* The usual ones first. */
uint8_t nspy_prof_func(const char *name)
{
	static const struct entry table[] = {
		{"AllReduce", NSPY_PROF_FUNC_ALL_REDUCE},
		{"ReduceScatter", NSPY_PROF_FUNC_REDUCE_SCATTER},
		{"AllGather", NSPY_PROF_FUNC_ALL_GATHER},
		{"Send", NSPY_PROF_FUNC_SEND},
		{"Recv", NSPY_PROF_FUNC_RECV},
		{"Broadcast", NSPY_PROF_FUNC_BROADCAST},
		{"Reduce", NSPY_PROF_FUNC_REDUCE},
		{"AlltoAll", NSPY_PROF_FUNC_ALL_TO_ALL},
		{"Gather", NSPY_PROF_FUNC_GATHER},
		{"Scatter", NSPY_PROF_FUNC_SCATTER},
		{"SendRecv", NSPY_PROF_FUNC_SEND_RECV},
	};

	return FIND(table, name, NSPY_PROF_FUNC_UNKNOWN);
}

uint8_t nspy_prof_algo(const char *name)
{
	static const struct entry table[] = {
		{"RING", NSPY_PROF_ALGO_RING},
		{"TREE", NSPY_PROF_ALGO_TREE},
		{"NVLS", NSPY_PROF_ALGO_NVLS},
		{"NVLS_TREE", NSPY_PROF_ALGO_NVLS_TREE},
		{"PAT", NSPY_PROF_ALGO_PAT},
		{"COLLNET_DIRECT", NSPY_PROF_ALGO_COLLNET_DIRECT},
		{"COLLNET_CHAIN", NSPY_PROF_ALGO_COLLNET_CHAIN},
	};

	return FIND(table, name, NSPY_PROF_ALGO_UNKNOWN);
}

uint8_t nspy_prof_proto(const char *name)
{
	static const struct entry table[] = {
		{"SIMPLE", NSPY_PROF_PROTO_SIMPLE},
		{"LL128", NSPY_PROF_PROTO_LL128},
		{"LL", NSPY_PROF_PROTO_LL},
	};

	return FIND(table, name, NSPY_PROF_PROTO_UNKNOWN);
}

uint8_t nspy_prof_datatype(const char *name)
{
	static const struct entry table[] = {
		{"Bfloat16", 9}, {"Float32", 7}, {"Float16", 6},     {"Uint8", 1},
		{"Int8", 0},     {"Int32", 2},   {"Int64", 4},       {"Float64", 8},
		{"Uint32", 3},   {"Uint64", 5},  {"Float8e4m3", 10}, {"Float8e5m2", 11},
	};

	if (!name || name[0] != 'n' || name[1] != 'c' || name[2] != 'c' || name[3] != 'l')
		return NSPY_DATATYPE_NONE;
	return FIND(table, name + 4, NSPY_DATATYPE_NONE);
}
