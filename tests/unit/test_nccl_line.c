/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of NCCL's log as its releases print them, and what they say about the network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h wants the above. */
#include <cmocka.h>

#include "nccl_line.h"

#define INFO "ip-10-0-3-7:2413:2588 [3] NCCL INFO "

struct row {
	const char *line;
	int fact; /* NSPY_NCCL_FACTS: none */
	const char *value;
};

static const struct row rows[] = {
	{INFO "Using network AWS Libfabric\n", NSPY_NCCL_NETWORK, "AWS Libfabric"},
	{INFO "Using network Socket\n", NSPY_NCCL_NETWORK, "Socket"},
	{INFO "Using network IB \r\n", NSPY_NCCL_NETWORK, "IB"},
	{INFO "Using network \n", NSPY_NCCL_FACTS, ""},
	{INFO "Using network", NSPY_NCCL_FACTS, ""},
	{INFO "Using non-device net plugin version 0\n", NSPY_NCCL_FACTS, ""},
	{INFO "Channel 00/0 : 9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA\n", NSPY_NCCL_VIA,
	 "IB/GDRDMA"},
	{INFO "Channel 01/0 : 9[1] -> 2[0] [receive] via NET/IB/0\n", NSPY_NCCL_VIA, "IB"},
	{INFO "Channel 01/0 : 9[1] -> 2[0] [send] via NET/AWS Libfabric/3(1)/GDRDMA/Shared\n",
	 NSPY_NCCL_VIA, "AWS Libfabric/GDRDMA"},
	{INFO "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0", NSPY_NCCL_VIA, "Socket"},
	{INFO "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\nx/GDRDMA", NSPY_NCCL_VIA,
	 "Socket"},
	{INFO "Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n", NSPY_NCCL_FACTS, ""},
	{INFO "Failed to initialize NET plugin Libfabric\n", NSPY_NCCL_NET_FAILED, "Libfabric"},
	{"\n[2026-12-03 01:02:03] h:1:2 [0] plugin/net.cc:310 NCCL WARN Failed to initialize any "
	 "NET plugin\n",
	 NSPY_NCCL_NET_ERROR, "Failed to initialize any NET plugin"},
	{"\nh:1:2 [0] net.cc:92 NCCL WARN Error: network IB not found.\n", NSPY_NCCL_NET_ERROR,
	 "Error: network IB not found."},
	{INFO "Error: network is slow\n", NSPY_NCCL_FACTS, ""},
	{INFO "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n", NSPY_NCCL_GDR_OFF,
	 "0 'mlx5_0'"},
	{INFO "NET/IB : GPU Direct RDMA Enabled for HCA 1 'mlx5_1'\n", NSPY_NCCL_GDR_ON,
	 "1 'mlx5_1'"},
	/* Sockets never have it. */
	{INFO "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'\n", NSPY_NCCL_FACTS, ""},
	{INFO "NET/Socket : Using [0]eth0:10.0.0.1<0>\n", NSPY_NCCL_FACTS, ""},
	{INFO "NET/Plugin: Could not find: libnccl-net.so\n", NSPY_NCCL_FACTS, ""},
	/* What others print. */
	{"we are Using network Socket\n", NSPY_NCCL_FACTS, ""},
	{"NCCL version 2.28.9+cuda13.0\n", NSPY_NCCL_FACTS, ""},
	{"NCCL and NCCL INFO Using network X", NSPY_NCCL_NETWORK, "X"},
	{"NCCL NCCL CALL Using network Socket\n", NSPY_NCCL_FACTS, ""},
	{INFO "Using network \x1b[31mred\n", NSPY_NCCL_NETWORK, "?[31mred"},
	{"NCCL INFO ", NSPY_NCCL_FACTS, ""},
	{"", NSPY_NCCL_FACTS, ""},
};

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum nspy_nccl_fact fact = NSPY_NCCL_FACTS;
		char value[NSPY_NCCL_WORD_BYTES] = "";
		bool any = nspy_nccl_line(rows[i].line, &fact, value);

		print_message("%s\n", rows[i].line);
		assert_int_equal(any, rows[i].fact != NSPY_NCCL_FACTS);
		if (!any)
			continue;
		assert_int_equal(fact, rows[i].fact);
		assert_string_equal(value, rows[i].value);
	}
}

static void test_long_values(void **state)
{
	char line[1024], value[NSPY_NCCL_WORD_BYTES];
	enum nspy_nccl_fact fact;

	(void)state;
	memset(line, 'x', sizeof(line));
	memcpy(line, "NCCL INFO Using network ", 24);
	line[sizeof(line) - 1] = '\0';
	assert_true(nspy_nccl_line(line, &fact, value));
	assert_int_equal(strlen(value), NSPY_NCCL_WORD_BYTES - 1);
	memcpy(line, "NCCL INFO Channel via NET/", 26);
	memcpy(line + 24 + NSPY_NCCL_WORD_BYTES, "/GDRDMA", 7);
	assert_true(nspy_nccl_line(line, &fact, value));
	assert_int_equal(fact, NSPY_NCCL_VIA);
	assert_true(strlen(value) < NSPY_NCCL_WORD_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_long_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
