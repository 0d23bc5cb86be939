/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trace_stacks.h"

#define HEAD NSPY_STACKS_MAGIC "pid 77\nrun 00000000000000aa\nrank 5\ncaller 78\nnode n1\n"

static char lines[4096];

static void parse(const char *text, struct nspy_stacks *ret)
{
	assert_int_equal(nspy_stacks_parse(text, strlen(text), ret), 0);
}

static void collect(void *context, unsigned int depth, const char *who, uint32_t count,
		    const char *frames)
{
	size_t used = strlen(lines);

	(void)context;
	(void)snprintf(lines + used, sizeof(lines) - used, "%u|%s|%u|%s\n", depth, who, count,
		       frames);
}

static void test_parse(void **unused)
{
	struct nspy_stacks s;

	(void)unused;
	parse(HEAD "thread 77 S futex_wait 202 the main\nf 1f libc.so.6 read\nf 2a - -\ncut\n"
		   "thread 78 R - -1 worker\nnote because\nsomething new\nend\n",
	      &s);
	assert_int_equal(s.pid, 77);
	assert_int_equal(s.run_id, 0xaa);
	assert_int_equal(s.rank, 5);
	assert_string_equal(s.node, "n1");
	assert_int_equal(s.thread_count, 2);
	assert_string_equal(s.threads[0].name, "the main");
	assert_string_equal(s.threads[0].wchan, "futex_wait");
	assert_int_equal(s.threads[0].syscall, 202);
	assert_int_equal(s.threads[0].frames, 2);
	assert_true(s.threads[0].cut);
	assert_int_equal(s.frames[0].offset, 0x1f);
	assert_string_equal(s.frames[0].symbol, "read");
	assert_string_equal(s.frames[1].symbol, "");
	assert_string_equal(s.threads[1].wchan, "");
	assert_int_equal(s.threads[1].frames, 0);
	assert_string_equal(s.notes[0], "because");
	assert_true(s.complete);
	assert_int_equal(nspy_stacks_caller(&s)->tid, 78);
	nspy_stacks_done(&s);
}

static void test_hostile(void **unused)
{
	struct nspy_stacks s;

	(void)unused;
	assert_int_equal(nspy_stacks_parse("ncclspy-stacks 2\n", 17, &s), -EBADMSG);
	assert_int_equal(nspy_stacks_parse("", 0, &s), -EBADMSG);
	parse(HEAD "f 1 a b\nthread 1 S - -1 x\x1b[2Jy\nf 1 a b\xff\nthre", &s);
	assert_false(s.complete);
	assert_int_equal(s.frame_count, 1); /* the frame of no thread does not count */
	assert_string_equal(s.threads[0].name, "x?[2Jy");
	assert_string_equal(s.frames[0].symbol, "b?");
	nspy_stacks_done(&s);
	assert_int_equal(nspy_stacks_read("/dev/zero", &s), -EBADMSG);
}

/* The C library's functions say how somebody waits, the application's who. */
static void test_tell(void **unused)
{
	struct nspy_stacks s;
	char text[200];

	(void)unused;
	parse(HEAD "thread 78 S - -1 x\nf 1 libc.so.6 clock_nanosleep\nf 2 libc.so.6 nanosleep\n"
		   "f 3 job read_batch\nf 4 job -\nf 5 job main\nf 6 libc.so.6 start\n"
		   "thread 79 S - -1 y\nf 1 libc.so.6 poll\nthread 80 S - -1 z\n",
	      &s);
	nspy_stacks_tell(&s, &s.threads[0], text, sizeof(text));
	assert_string_equal(text, "read_batch < job+0x4 < main, in nanosleep");
	nspy_stacks_tell(&s, &s.threads[1], text, sizeof(text));
	assert_string_equal(text, "poll");
	nspy_stacks_tell(&s, &s.threads[2], text, sizeof(text));
	assert_string_equal(text, "");
	nspy_stacks_done(&s);
}

static void test_tree(void **unused)
{
	struct nspy_stack_tree *tree = nspy_stack_tree_new();
	struct nspy_stacks waits, reads, nothing;

	(void)unused;
	lines[0] = '\0';
	parse(HEAD "thread 78 S - -1 x\nf 1 l wait\nf 2 l step\nf 3 l main\n", &waits);
	parse(HEAD "thread 78 S - -1 x\nf 1 l read\nf 2 l step\nf 3 l main\n", &reads);
	parse(HEAD "thread 78 D nfs_wait -1 x\n", &nothing);
	for (int64_t rank = 0; rank < 8; rank++)
		assert_int_equal(nspy_stack_tree_add(tree, rank == 5 ? &reads : &waits,
						     rank == 5 ? reads.threads : waits.threads,
						     rank),
				 0);
	assert_int_equal(nspy_stack_tree_add(tree, &nothing, nothing.threads, 9), 0);
	assert_int_equal(nspy_stack_tree_walk(tree, 100, collect, NULL), 0);
	assert_string_equal(lines, "0|0-7|8|main > step\n"
				   "1|0-4,6-7|7|wait\n"
				   "1|5|1|read\n"
				   "0|9|1|(no stack; state D in nfs_wait)\n");
	lines[0] = '\0';
	assert_int_equal(nspy_stack_tree_walk(tree, 1, collect, NULL), 3);
	assert_string_equal(lines, "0|0-7|8|main > step\n");
	nspy_stack_tree_free(tree);
	nspy_stacks_done(&waits);
	nspy_stacks_done(&reads);
	nspy_stacks_done(&nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_tell),
		cmocka_unit_test(test_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
