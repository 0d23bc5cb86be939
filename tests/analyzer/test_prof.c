/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of an unbounded number of operations with times of the GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "prof.h"

#define OPS  (40u * NSPY_PROF_KERNELS_KEPT)
#define ROOM 128u /* for one operation */

static void ingest(struct nspy_prof_view *prof, uint32_t what, uint64_t seq, uint64_t gpu_start_ns)
{
	uint8_t room[ROOM];
	struct nspy_prof_buffer buffer = {.data = room, .capacity = sizeof(room)};
	struct nspy_prof_op op = {
		.comm = 1,
		.what = what,
		.func = what == NSPY_PROF_COLL ? NSPY_PROF_FUNC_ALL_REDUCE : NSPY_PROF_FUNC_SEND,
		.channels = 1,
		.seq = seq,
		.start_ns = 1000,
		.kernels = 1,
		.kernel_first_ns = 10,
		.kernel_last_ns = 30,
		.gpu_kernels = 1,
		.gpu_ns = 20,
		.gpu_start_ns = gpu_start_ns,
	};

	assert_int_equal(nspy_prof_put_op(&buffer, &op), 0);
	assert_int_equal(nspy_prof_ingest(prof, room, buffer.used), 0);
}

static void assert_sample(const struct nspy_prof_view *prof)
{
	assert_int_equal(prof->kind_count, 1);
	assert_int_equal(prof->kinds[0].ops, OPS);
	assert_int_equal(prof->kinds[0].exact.count, OPS);
	assert_in_range(prof->kinds[0].kernel_count, NSPY_PROF_KERNELS_KEPT / 4,
			NSPY_PROF_KERNELS_KEPT);
}

static void test_collectives(void **state)
{
	struct nspy_prof_view prof = {0};

	(void)state;
	for (uint32_t i = 0; i < OPS; i++)
		ingest(&prof, NSPY_PROF_COLL, i, 5000 + 100 * i);
	assert_sample(&prof);
	nspy_prof_done(&prof);
}

/* NCCL gives all messages the number 0. */
static void test_messages(void **state)
{
	struct nspy_prof_view prof = {0};

	(void)state;
	for (uint32_t i = 0; i < OPS; i++)
		ingest(&prof, NSPY_PROF_P2P, 0, 5000 + 100 * i);
	assert_sample(&prof);
	nspy_prof_done(&prof);
}

static void test_one_number_for_ever(void **state)
{
	struct nspy_prof_view prof = {0};

	(void)state;
	for (uint32_t i = 0; i < OPS; i++)
		ingest(&prof, NSPY_PROF_COLL, 0, 5000);
	assert_int_equal(prof.kinds[0].ops, OPS);
	assert_in_range(prof.kinds[0].kernel_count, 1, NSPY_PROF_KERNELS_KEPT);
	nspy_prof_done(&prof);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_one_number_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
