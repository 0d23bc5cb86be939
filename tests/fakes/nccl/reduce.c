/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions over arrays of every type. */
#include <string.h>

#include "internal.h"

static double load_small(ncclDataType_t datatype, const void *at, size_t i)
{
	if (fake_datatype_bytes(datatype) == 1)
		return fake_minifloat_decode(datatype, ((const uint8_t *)at)[i]);
	return fake_minifloat_decode(datatype, ((const uint16_t *)at)[i]);
}

static void store_small(ncclDataType_t datatype, void *at, size_t i, double value)
{
	unsigned int bits = fake_minifloat_encode(datatype, value);

	if (fake_datatype_bytes(datatype) == 1)
		((uint8_t *)at)[i] = (uint8_t)bits;
	else
		((uint16_t *)at)[i] = (uint16_t)bits;
}

/*
 * One type. wide is what sums and products are made in: unsigned for the integers, so that they
 * wrap instead of being undefined.
 */
#define REDUCE_TYPE(suffix, type, wide)                                                            \
	static void reduce_##suffix(type *acc, const type *in, size_t count, ncclRedOp_t op)       \
	{                                                                                          \
		for (size_t i = 0; i < count; i++) {                                               \
			if (op == ncclProd)                                                        \
				acc[i] = (type)((wide)acc[i] * (wide)in[i]);                       \
			else if (op == ncclMax)                                                    \
				acc[i] = acc[i] > in[i] ? acc[i] : in[i];                          \
			else if (op == ncclMin)                                                    \
				acc[i] = acc[i] < in[i] ? acc[i] : in[i];                          \
			else                                                                       \
				acc[i] = (type)((wide)acc[i] + (wide)in[i]);                       \
		}                                                                                  \
	}                                                                                          \
	static void scale_##suffix(type *out, const type *in, size_t count, type by)               \
	{                                                                                          \
		for (size_t i = 0; i < count; i++)                                                 \
			out[i] = (type)((wide)in[i] * (wide)by);                                   \
	}                                                                                          \
	static void divide_##suffix(type *acc, size_t count, int by)                               \
	{                                                                                          \
		for (size_t i = 0; i < count; i++)                                                 \
			acc[i] = (type)(acc[i] / (type)by);                                        \
	}

REDUCE_TYPE(i8, int8_t, uint32_t)
REDUCE_TYPE(u8, uint8_t, uint32_t)
REDUCE_TYPE(i32, int32_t, uint32_t)
REDUCE_TYPE(u32, uint32_t, uint32_t)
REDUCE_TYPE(i64, int64_t, uint64_t)
REDUCE_TYPE(u64, uint64_t, uint64_t)
REDUCE_TYPE(f32, float, float)
REDUCE_TYPE(f64, double, double)

static void reduce_small(void *acc, const void *in, size_t count, ncclDataType_t datatype,
			 ncclRedOp_t op)
{
	for (size_t i = 0; i < count; i++) {
		double a = load_small(datatype, acc, i), b = load_small(datatype, in, i);

		if (op == ncclProd)
			a *= b;
		else if (op == ncclMax)
			a = a > b ? a : b;
		else if (op == ncclMin)
			a = a < b ? a : b;
		else
			a += b;
		store_small(datatype, acc, i, a);
	}
}

#define FOR_TYPES(CASE)                                                                            \
	CASE(ncclInt8, i8, int8_t)                                                                 \
	CASE(ncclUint8, u8, uint8_t)                                                               \
	CASE(ncclInt32, i32, int32_t)                                                              \
	CASE(ncclUint32, u32, uint32_t)                                                            \
	CASE(ncclInt64, i64, int64_t)                                                              \
	CASE(ncclUint64, u64, uint64_t)                                                            \
	CASE(ncclFloat32, f32, float)                                                              \
	CASE(ncclFloat64, f64, double)

void fake_reduce(void *acc, const void *in, size_t count, ncclDataType_t datatype, ncclRedOp_t op)
{
	switch (datatype) {
#define CASE(value, suffix, type)                                                                  \
	case value:                                                                                \
		reduce_##suffix(acc, in, count, op);                                               \
		break;
		FOR_TYPES(CASE)
#undef CASE
	default:
		reduce_small(acc, in, count, datatype, op);
	}
}

static bool is_integer(ncclDataType_t datatype)
{
	return datatype <= ncclUint64;
}

/* Averages of floats scale each contribution, those of integers divide the sum: as in NCCL. */
static bool scales(ncclDataType_t datatype, const struct fake_redop *op)
{
	return op->user || (op->op == ncclAvg && !is_integer(datatype));
}

static void scale_small(void *out, const void *in, size_t count, ncclDataType_t datatype, double by)
{
	for (size_t i = 0; i < count; i++)
		store_small(datatype, out, i, load_small(datatype, in, i) * by);
}

static void scale(void *out, const void *in, size_t count, ncclDataType_t datatype, const void *by)
{
	switch (datatype) {
#define CASE(value, suffix, type)                                                                  \
	case value:                                                                                \
		scale_##suffix(out, in, count, *(const type *)by);                                 \
		break;
		FOR_TYPES(CASE)
#undef CASE
	default:
		scale_small(out, in, count, datatype, load_small(datatype, by, 0));
	}
}

void fake_reduce_prepare(void *out, const void *in, size_t count, ncclDataType_t datatype,
			 const struct fake_redop *op, int nranks)
{
	uint64_t scalar = 0;

	if (!scales(datatype, op)) {
		if (out != in)
			memmove(out, in, count * fake_datatype_bytes(datatype));
		return;
	}
	if (op->user)
		memcpy(&scalar, op->device_scalar ? op->scalar_ptr : op->scalar,
		       fake_datatype_bytes(datatype));
	else if (datatype == ncclFloat32)
		*(float *)(void *)&scalar = 1.0f / (float)nranks;
	else if (datatype == ncclFloat64)
		*(double *)(void *)&scalar = 1.0 / nranks;
	else
		store_small(datatype, &scalar, 0, 1.0 / nranks);
	scale(out, in, count, datatype, &scalar);
}

void fake_reduce_finish(void *acc, size_t count, ncclDataType_t datatype,
			const struct fake_redop *op, int nranks)
{
	if (op->user || op->op != ncclAvg || !is_integer(datatype))
		return;
	switch (datatype) {
#define CASE(value, suffix, type)                                                                  \
	case value:                                                                                \
		divide_##suffix(acc, count, nranks);                                               \
		break;
		FOR_TYPES(CASE)
#undef CASE
	default:
		break;
	}
}

ncclRedOp_t fake_reduce_combine(const struct fake_redop *op)
{
	return op->user || op->op == ncclAvg ? ncclSum : op->op;
}
