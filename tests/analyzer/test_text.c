/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text.h"

static void expect(struct nspy_str *s, const char *text)
{
	char *taken = nspy_str_take(s);

	assert_string_equal(taken, text);
	free(taken);
}

static void expect_clean(const char *dirty, const char *clean)
{
	char *text = nspy_xstrdup(dirty);

	nspy_clean(text);
	assert_string_equal(text, clean);
	free(text);
}

static void test_clean(void **state)
{
	(void)state;
	/* Ordinary text, also beyond ASCII, passes. */
	expect_clean("rank 3, node gpu-ä", "rank 3, node gpu-ä");
	expect_clean("日本語 § 1 🚀", "日本語 § 1 🚀");
	/* Escapes, bells and line breaks do not. */
	expect_clean("a\x1b[31mb\x07\nc\td", "a?[31mb? c d");
	/* C1 controls, direction marks and zero-width characters hidden in UTF-8. */
	expect_clean("x\xc2\x9bm", "x??m");
	expect_clean("abc\xe2\x80\xaetxt", "abc???txt");
	expect_clean("a\xe2\x80\x8b", "a???");
	/* Bytes that are no UTF-8: stray, cut off, overlong, surrogate. */
	expect_clean("\xff\xfe", "??");
	expect_clean("end\xe2\x82", "end??");
	expect_clean("\xc0\xaf", "??");
	expect_clean("\xe0\x80\xaf", "???");
	expect_clean("\xed\xa0\x80", "???");
}

static void test_ranges(void **state)
{
	int64_t many[] = {5, 1, 2, 3, 3, 9, 8};
	int64_t gap[511];
	struct nspy_str s = {0};
	size_t count = nspy_sort_unique(many, 7);

	(void)state;
	assert_int_equal(count, 6);
	nspy_add_ranges(&s, many, count);
	expect(&s, "1-3,5,8,9");
	for (int64_t i = 0; i < 511; i++)
		gap[i] = i < 168 ? i : i + 1;
	nspy_add_ranges(&s, gap, 511);
	expect(&s, "0-167,169-511");
	nspy_add_ranges(&s, gap, 1);
	expect(&s, "0");
}

static void test_hostlist(void **state)
{
	const char *cloud[] = {"ip-10-0-3-9", "ip-10-0-3-7", "ip-10-0-3-8", "ip-10-0-3-7"};
	const char *padded[] = {"gpu004", "gpu001", "gpu002", "gpu003", "login"};
	const char *mixed[] = {"n1", "n01", "a", "n2"};
	const char *wide[] = {"gpu100", "gpu010", "gpu008", "gpu009"};
	const char *gap[] = {"x1", "x3"};
	struct nspy_str s = {0};

	(void)state;
	nspy_add_hostlist(&s, cloud, 4);
	expect(&s, "ip-10-0-3-[7-9]");
	nspy_add_hostlist(&s, padded, 5);
	expect(&s, "gpu[001-004],login");
	/* Numbers padded to different widths are different names. */
	nspy_add_hostlist(&s, mixed, 4);
	expect(&s, "a,n[1,2],n01");
	nspy_add_hostlist(&s, wide, 4);
	expect(&s, "gpu[008-010,100]");
	nspy_add_hostlist(&s, gap, 2);
	expect(&s, "x[1,3]");
	nspy_add_hostlist(&s, gap, 1);
	expect(&s, "x1");
}

static void test_numbers(void **state)
{
	struct nspy_str s = {0};

	(void)state;
	nspy_add_duration(&s, 8000);
	expect(&s, "8 us");
	nspy_add_duration(&s, 412 * NSPY_NS_PER_MS);
	expect(&s, "412 ms");
	nspy_add_duration(&s, 31 * NSPY_NS_PER_S);
	expect(&s, "31.0 s");
	nspy_add_duration(&s, 605 * NSPY_NS_PER_S);
	expect(&s, "10m05s");
	nspy_add_duration(&s, 8045 * NSPY_NS_PER_S);
	expect(&s, "2h14m");
	nspy_add_bytes(&s, 999);
	expect(&s, "999 B");
	nspy_add_bytes(&s, 18.34e15);
	expect(&s, "18.3 PB");
	nspy_add_bytes_binary(&s, 2147483648u);
	expect(&s, "2.0 GiB");
	nspy_add_count(&s, 9999);
	expect(&s, "9999");
	nspy_add_count(&s, 38112);
	expect(&s, "38,112");
	nspy_add_count(&s, 1999872);
	expect(&s, "1,999,872");
	nspy_add_count(&s, 41200113);
	expect(&s, "41.2 M");
	nspy_add_time(&s, 1764583200482000000ULL);
	expect(&s, "2025-12-01 10:00:00.482");
	nspy_add_clock(&s, 1764583200482999999ULL);
	expect(&s, "10:00:00.482");
}

static void test_parse(void **state)
{
	uint64_t u;
	int64_t i;

	(void)state;
	assert_true(nspy_parse_u64("18446744073709551615", &u) && u == UINT64_MAX);
	assert_false(nspy_parse_u64("18446744073709551616", &u));
	assert_false(nspy_parse_u64("-1", &u));
	assert_false(nspy_parse_u64("", &u));
	assert_false(nspy_parse_u64("1x", &u));
	assert_true(nspy_parse_i64("-12", &i) && i == -12);
	assert_false(nspy_parse_i64(" 1", &i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),    cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_hostlist), cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
