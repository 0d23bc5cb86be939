/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that run something else than the others: who is named, and when nobody is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "odd.h"

#define RANKS 4u

static struct nspy_status pages[RANKS];
static char text[NSPY_ODD_TEXT];

static int setup(void **state)
{
	(void)state;
	memset(pages, 0, sizeof(pages));
	for (uint32_t i = 0; i < RANKS; i++) {
		pages[i].rank = (int32_t)i;
		pages[i].state = NSPY_STATUS_RUNNING;
		(void)snprintf(pages[i].node, sizeof(pages[i].node), "n%u", i / 2);
		pages[i].nccl = 23007;
		pages[i].nccl_build = 7;
		pages[i].cudart = 13000;
		pages[i].driver = 13000;
		pages[i].settings = 5;
		(void)strcpy(pages[i].libfabric, "2.6");
		(void)strcpy(pages[i].gpu, "NVIDIA H100");
	}
	return 0;
}

static uint32_t found(void)
{
	uint32_t topics = 0;

	for (int i = 0; i < NSPY_ODD_TOPICS; i++)
		if (nspy_odd_find(pages, RANKS, (enum nspy_odd_topic)i, text))
			topics |= 1u << i;
	return topics;
}

static void expect(enum nspy_odd_topic topic, const char *words)
{
	assert_int_equal(found(), 1u << topic);
	assert_true(nspy_odd_find(pages, RANKS, topic, text));
	if (!strstr(text, words))
		fail_msg("'%s' is not in '%s'", words, text);
}

static void test_same(void **state)
{
	(void)state;
	assert_int_equal(found(), 0);
}

static void test_version(void **state)
{
	(void)state;
	pages[2].nccl = 22703;
	pages[2].nccl_build = 8;
	expect(NSPY_ODD_NCCL, "rank 2 (node n1) has NCCL 22703, 3 others 23007");
}

static void test_version_of_the_first(void **state)
{
	(void)state;
	pages[0].nccl = 22703;
	expect(NSPY_ODD_NCCL, "rank 0 (node n0) has NCCL 22703, 3 others 23007");
}

static void test_tie(void **state)
{
	(void)state;
	pages[2].nccl = pages[3].nccl = 22703;
	expect(NSPY_ODD_NCCL, "which is right cannot be told");
}

static void test_build(void **state)
{
	(void)state;
	pages[1].nccl_build = 8;
	expect(NSPY_ODD_BUILD, "rank 1 (node n0) has another build of the same NCCL than 3 others");
}

static void test_settings(void **state)
{
	(void)state;
	pages[3].settings = 6;
	expect(NSPY_ODD_SETTINGS, "rank 3 (node n1) has other settings");
}

static void test_software(void **state)
{
	(void)state;
	(void)strcpy(pages[3].libfabric, "1.22");
	expect(NSPY_ODD_SOFTWARE, "rank 3 (node n1) has libfabric 1.22, 3 others 2.6");
}

static void test_hardware(void **state)
{
	(void)state;
	(void)strcpy(pages[2].gpu, "NVIDIA A100");
	(void)strcpy(pages[3].gpu, "NVIDIA A100");
	(void)strcpy(pages[1].gpu, "");
	expect(NSPY_ODD_HARDWARE, "GPU");
}

/* What is not known yet, the dead, and processes that are no ranks differ from nobody. */
static void test_not_compared(void **state)
{
	(void)state;
	pages[0].nccl = 0;
	pages[0].nccl_build = 0;
	pages[0].settings = 0;
	pages[0].gpu[0] = pages[0].libfabric[0] = '\0';
	pages[1].nccl = 1;
	pages[1].dead = true;
	pages[2].nccl = 2;
	pages[2].state = NSPY_STATUS_EXITED;
	pages[3].nccl = 3;
	pages[3].rank = -1;
	assert_int_equal(found(), 0);
	pages[3].rank = 3;
	assert_int_equal(found(), 0);
	pages[2].state = NSPY_STATUS_RUNNING;
	assert_int_equal(found(), 1u << NSPY_ODD_NCCL);
}

/* Long texts are cut. */
static void test_long(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		memset(pages[i].gpu, 'a' + (int)i, sizeof(pages[i].gpu) - 1);
		memset(pages[i].node, 'n', sizeof(pages[i].node) - 1);
	}
	assert_int_equal(found(), 1u << NSPY_ODD_HARDWARE);
	assert_true(nspy_odd_find(pages, RANKS, NSPY_ODD_HARDWARE, text));
	assert_true(strlen(text) < sizeof(text));
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_same),     CASE(test_version),  CASE(test_version_of_the_first),
		CASE(test_tie),      CASE(test_build),    CASE(test_settings),
		CASE(test_software), CASE(test_hardware), CASE(test_not_compared),
		CASE(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
