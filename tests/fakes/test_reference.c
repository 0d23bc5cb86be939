/* SPDX-License-Identifier: Apache-2.0 */
#include "test_reference.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t reference_bytes(ncclDataType_t type)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
	case ncclFloat8e4m3:
	case ncclFloat8e5m2:
		return 1;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	case ncclInt64:
	case ncclUint64:
	case ncclFloat64:
		return 8;
	default:
		return 4;
	}
}

/* exponent and mantissa bits of the formats that C does not have */
static void layout(ncclDataType_t type, int *ret_exponent, int *ret_mantissa)
{
	*ret_exponent = type == ncclBfloat16 ? 8 : type == ncclFloat8e4m3 ? 4 : 5;
	*ret_mantissa = type == ncclFloat16      ? 10
			: type == ncclBfloat16   ? 7
			: type == ncclFloat8e4m3 ? 3
						 : 2;
}

/* Positive or negative numbers that fit the format exactly; anything else is a broken test. */
static unsigned int pack(ncclDataType_t type, double value)
{
	int e, m, exponent;
	double fraction;
	unsigned int bits;

	layout(type, &e, &m);
	if (value == 0)
		return 0;
	fraction = frexp(fabs(value), &exponent) * 2 - 1;
	exponent += (1 << (e - 1)) - 2;
	if (exponent <= 0 || fraction * (1 << m) != floor(fraction * (1 << m)))
		abort();
	bits = (unsigned int)exponent << m | (unsigned int)(fraction * (1 << m));
	return value < 0 ? bits | 1u << (e + m) : bits;
}

static double unpack(ncclDataType_t type, unsigned int bits)
{
	int e, m, exponent;
	double fraction, value;

	layout(type, &e, &m);
	exponent = (int)(bits >> m & ((1u << e) - 1));
	fraction = (double)(bits & ((1u << m) - 1)) / (1 << m);
	value = ldexp(exponent ? 1 + fraction : fraction,
		      (exponent ? exponent : 1) - ((1 << (e - 1)) - 1));
	return bits >> (e + m) & 1 ? -value : value;
}

void reference_store(ncclDataType_t type, void *at, size_t i, double value)
{
	unsigned char *to = (unsigned char *)at + i * reference_bytes(type);
	int64_t whole = (int64_t)value;
	unsigned int bits;
	float single = (float)value;

	switch (type) {
	case ncclFloat32:
		memcpy(to, &single, 4);
		break;
	case ncclFloat64:
		memcpy(to, &value, 8);
		break;
	case ncclFloat16:
	case ncclBfloat16:
	case ncclFloat8e4m3:
	case ncclFloat8e5m2:
		bits = pack(type, value);
		memcpy(to, &bits, reference_bytes(type));
		break;
	default: /* little-endian integers */
		memcpy(to, &whole, reference_bytes(type));
	}
}

static double sign_extend(ncclDataType_t type, uint64_t bits)
{
	int unused = 64 - 8 * (int)reference_bytes(type);

	if (type == ncclUint8 || type == ncclUint32 || type == ncclUint64)
		return (double)bits;
	return (double)((int64_t)(bits << unused) >> unused);
}

double reference_load(ncclDataType_t type, const void *at, size_t i)
{
	const unsigned char *from = (const unsigned char *)at + i * reference_bytes(type);
	uint64_t bits = 0;
	float single;
	double value;

	memcpy(&bits, from, reference_bytes(type));
	switch (type) {
	case ncclFloat32:
		memcpy(&single, from, 4);
		return (double)single;
	case ncclFloat64:
		memcpy(&value, from, 8);
		return value;
	case ncclFloat16:
	case ncclBfloat16:
	case ncclFloat8e4m3:
	case ncclFloat8e5m2:
		return unpack(type, (unsigned int)bits);
	default:
		return sign_extend(type, bits);
	}
}

/*
 * Sums stay below 8, products are powers of two near one, so that even e5m2 with its two bits of
 * mantissa holds every partial result.
 */
double reference_input(ncclDataType_t type, ncclRedOp_t op, int rank, int tag, size_t i)
{
	size_t n = (size_t)rank * 5 + (size_t)tag + i;
	bool whole = type <= ncclUint64,
	     with_sign = type != ncclUint8 && type != ncclUint32 && type != ncclUint64;

	if (op == ncclProd && whole)
		return n % 4 == 0 ? 2 : 1;
	if (op == ncclProd)
		return n % 4 == 0 ? 2 : n % 4 == 1 ? 0.5 : 1;
	if (op == ncclMax || op == ncclMin)
		return with_sign ? (double)(n % 7) - 3 : (double)(n % 7);
	/* few of the ranks have something to add */
	if (n % 4 != 0)
		return 0;
	return with_sign && n % 8 == 0 ? -1 : 1;
}

double reference_reduce(ncclDataType_t type, ncclRedOp_t op, double scale, const double *inputs,
			int count)
{
	double result = inputs[0] * (op >= ncclNumOps ? scale : 1);

	for (int i = 1; i < count; i++) {
		double one = inputs[i] * (op >= ncclNumOps ? scale : 1);

		if (op == ncclProd)
			result *= one;
		else if (op == ncclMax)
			result = one > result ? one : result;
		else if (op == ncclMin)
			result = one < result ? one : result;
		else
			result += one;
	}
	if (op != ncclAvg)
		return result;
	return type <= ncclUint64 ? trunc(result / count) : result / count;
}

bool reference_equal(ncclDataType_t type, ncclRedOp_t op, int ranks, double got, double wanted)
{
	int e, m;

	if (got == wanted)
		return true;
	if (op != ncclAvg || type <= ncclUint64)
		return false;
	layout(type, &e, &m);
	if (type == ncclFloat32)
		m = 23;
	if (type == ncclFloat64)
		m = 52;
	/* 1/n is rounded, and so is every addition; at most 4 of 16 contributions are not 0 */
	return fabs(got - wanted) <= ldexp(1, -m) * 4 * (fabs(wanted) + 4.0 / ranks);
}
