/* SPDX-License-Identifier: Apache-2.0 */
/* The software floating-point formats against the compiler's types and against brute force. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "internal.h"
#include "test_world.h"

static double value_of(ncclDataType_t type, unsigned int bits)
{
	return fake_minifloat_decode(type, bits);
}

/* Every bfloat16 is the upper half of a float. */
static void test_bfloat16_decodes(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits < 65536; bits++) {
		uint32_t wide = bits << 16;
		float want;

		memcpy(&want, &wide, sizeof(want));
		if (isnan(want))
			assert_true(isnan(value_of(ncclBfloat16, bits)));
		else
			assert_true(value_of(ncclBfloat16, bits) == (double)want);
	}
}

#if defined(__FLT16_MANT_DIG__)
static void test_float16_decodes(void **state)
{
	(void)state;
	for (uint32_t bits = 0; bits < 65536; bits++) {
		uint16_t narrow = (uint16_t)bits;
		_Float16 want;

		memcpy(&want, &narrow, sizeof(want));
		if (isnan((double)want))
			assert_true(isnan(value_of(ncclFloat16, bits)));
		else
			assert_true(value_of(ncclFloat16, bits) == (double)want);
	}
}

static void test_float16_rounds(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		double value = ldexp((double)world_random(&random, 1u << 30) / 1e9,
				     (int)world_random(&random, 44) - 27);
		_Float16 want = (_Float16)value;
		uint16_t bits;

		memcpy(&bits, &want, sizeof(bits));
		assert_int_equal(fake_minifloat_encode(ncclFloat16, value), bits);
		assert_int_equal(fake_minifloat_encode(ncclFloat16, -value), bits | 0x8000);
	}
}
#endif

/* What is nearest to value; of two equally near ones the even one; too large ones saturate. */
static unsigned int nearest(ncclDataType_t type, double value)
{
	unsigned int best = 0;

	for (unsigned int bits = 0; bits < 128; bits++) {
		double error = fabs(value_of(type, bits) - value);
		double best_error = fabs(value_of(type, best) - value);

		if (isnan(error) || isinf(error))
			continue;
		if (error < best_error || (error == best_error && !(bits & 1)))
			best = bits;
	}
	return best;
}

static void check_float8(ncclDataType_t type)
{
	uint64_t random = 2;

	for (unsigned int bits = 0; bits < 256; bits++) {
		double value = value_of(type, bits);

		if (!isnan(value) && !isinf(value))
			assert_int_equal(fake_minifloat_encode(type, value), bits);
	}
	for (int i = 0; i < 20000; i++) {
		double value = ldexp((double)world_random(&random, 1u << 12) / 4096,
				     (int)world_random(&random, 40) - 20);

		assert_int_equal(fake_minifloat_encode(type, value), nearest(type, value));
	}
}

static void test_float8(void **state)
{
	(void)state;
	check_float8(ncclFloat8e4m3);
	check_float8(ncclFloat8e5m2);
	assert_true(value_of(ncclFloat8e4m3, 0x7e) == 448);
	assert_true(value_of(ncclFloat8e5m2, 0x7b) == 57344);
	assert_true(isnan(value_of(ncclFloat8e4m3, 0x7f)));
	assert_true(isinf(value_of(ncclFloat8e5m2, 0x7c)));
	assert_int_equal(fake_minifloat_encode(ncclFloat8e4m3, 1e9), 0x7e);
	assert_int_equal(fake_minifloat_encode(ncclFloat8e5m2, -INFINITY), 0xfb);
}

/* Integers wrap, whatever the compiler thinks of signed overflow. */
static void test_integers_wrap(void **state)
{
	int8_t a8 = 100, b8 = 100;
	int32_t a32 = INT32_MAX, b32 = 1;
	uint64_t a64 = UINT64_MAX, b64 = 3;

	(void)state;
	fake_reduce(&a8, &b8, 1, ncclInt8, ncclSum);
	assert_int_equal(a8, -56);
	fake_reduce(&a32, &b32, 1, ncclInt32, ncclSum);
	assert_int_equal(a32, INT32_MIN);
	fake_reduce(&a64, &b64, 1, ncclUint64, ncclProd);
	assert_true(a64 == (uint64_t)-3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bfloat16_decodes),
#if defined(__FLT16_MANT_DIG__)
		cmocka_unit_test(test_float16_decodes),
		cmocka_unit_test(test_float16_rounds),
#endif
		cmocka_unit_test(test_float8),
		cmocka_unit_test(test_integers_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
