/* SPDX-License-Identifier: Apache-2.0 */
/* The language of NSPY_FAKE. It is read once per process, so each case has a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fault_script.h"

#define MANY 8

/* Exit status of a process that reads script and then runs check. */
static int in_process(const char *script, int (*check)(void))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setenv("NSPY_FAKE", script, 1);
		if (!freopen("/dev/null", "w", stderr))
			_exit(99);
		fake_fault_load();
		_exit(check());
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int due_at(enum fake_op op, int rank, long step, const char *comm, bool in_library,
		  struct fake_fault *faults)
{
	struct fake_occurrence event = {
		.op = op, .rank = rank, .step = step, .comm = comm, .in_library = in_library};

	return fake_fault_due(&event, faults, MANY);
}

static int nothing(void)
{
	return 0;
}

static void test_good_scripts(void **state)
{
	static const char *const scripts[] = {
		"",
		" ; ",
		"do=hang",
		"rank=3,op=all_reduce,nth=41,do=hang;rank=2,op=any,nth=10,do=delay:500ms",
		"rank=0-2, op=send, nth=3-, do=peer:1",
		"rank=any,step=4,op=coll,do=jitter:1.5ms",
		"op=p2p,do=datatype:bfloat16;do=count:0;do=op:all_gather;do=op:max;do=redop:min",
		"do=root:1;do=invert;do=skip;do=spin;do=stop;do=hold:2;do=kill;do=segv;do=exit:9",
		"do=hang-inside;do=stall;do=late:10us;do=slow:2s;do=asyncerr:6;do=fail:2;do=oom;"
		"do=gpufault:700",
		"op=malloc,nth=2,do=oom;op=init,do=delay:1s;op=sync,do=skip;do=version:22703",
		"comm=dp,do=skip",
		"op=compute,do=delay:3ms;op=checkpoint,do=hang",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
		assert_int_equal(in_process(scripts[i], nothing), 0);
}

static void test_bad_scripts(void **state)
{
	static const char *const scripts[] = {
		"rank=3",
		"hang",
		"do=hand",
		"do=hang:3",
		"do=delay",
		"do=delay:3",
		"do=delay:3m",
		"do=delay:-3ms",
		"do=delay:ms",
		"do=count:x",
		"do=count:",
		"do=datatype:float99",
		"do=op:all",
		"do=redop:mean",
		"op=allreduce,do=hang",
		"rank=x,do=hang",
		"rank=-1,do=hang",
		"rank=3-1,do=hang",
		"nth=1-2-3,do=hang",
		"ranks=3,do=hang",
		"do=hang;rnak=2,do=hang",
		"step=3,do=stall",
		"op=all_reduce,do=oom",
		"op=init,do=count:3",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		if (in_process(scripts[i], nothing) != 2)
			fail_msg("'%s' was accepted", scripts[i]);
	}
}

/* The second all_reduce of rank 1, whatever else happens in between. */
static int check_nth(void)
{
	struct fake_fault faults[MANY];
	int due = 0;

	due += due_at(FAKE_OP_ALL_REDUCE, 1, 1, "w", false, faults);
	due += due_at(FAKE_OP_ALL_GATHER, 1, 1, "w", false, faults);
	due += due_at(FAKE_OP_ALL_REDUCE, 0, 1, "w", false, faults);
	due += due_at(FAKE_OP_ALL_REDUCE, 2, 1, "w", false, faults);
	/* the libraries count for themselves */
	due += due_at(FAKE_OP_ALL_REDUCE, 1, 0, "w", true, faults);
	if (due != 0)
		return 1;
	if (due_at(FAKE_OP_ALL_REDUCE, 1, 1, "w", false, faults) != 1)
		return 3;
	if (faults[0].act != FAKE_ACT_DELAY || faults[0].arg != 1500000)
		return 4;
	return due_at(FAKE_OP_ALL_REDUCE, 1, 1, "w", false, faults);
}

/* Ranks have counters of their own, also when a rule is for several. */
static int check_ranges(void)
{
	struct fake_fault faults[MANY];
	int hits = 0;

	for (int rank = 0; rank < 5; rank++) {
		for (int i = 1; i <= 5; i++) {
			int due = due_at(FAKE_OP_SEND, rank, i, "w", false, faults);
			bool wanted = rank >= 1 && rank <= 3 && i >= 2 && i <= 4;

			if (due != wanted)
				return 1;
			hits += due;
		}
	}
	return hits == 9 ? 0 : 3;
}

static int check_steps_and_comms(void)
{
	struct fake_fault faults[MANY];

	if (due_at(FAKE_OP_REDUCE, 0, 3, "dp", false, faults) != 0 ||
	    due_at(FAKE_OP_REDUCE, 0, 4, "tp", false, faults) != 0 ||
	    due_at(FAKE_OP_RECV, 0, 4, "dp", false, faults) != 0 ||
	    due_at(FAKE_OP_REDUCE, 0, 4, NULL, false, faults) != 0)
		return 1;
	return due_at(FAKE_OP_REDUCE, 0, 4, "dp", false, faults) == 1 ? 0 : 3;
}

/* Several rules for one call: all of them, in their order. */
static int check_several(void)
{
	struct fake_fault faults[MANY];

	if (due_at(FAKE_OP_GATHER, 0, 1, "w", false, faults) != 2)
		return 1;
	if (faults[0].act != FAKE_ACT_JITTER || faults[1].act != FAKE_ACT_REDOP)
		return 3;
	if (due_at(FAKE_OP_GATHER, 0, 0, "w", true, faults) != 1)
		return 4;
	return faults[0].act == FAKE_ACT_LATE && faults[0].arg == 2000000000 ? 0 : 5;
}

static int check_version(void)
{
	return fake_fault_version(2, 7) == 22703 && fake_fault_version(1, 7) == 7 ? 0 : 1;
}

static void test_meaning(void **state)
{
	(void)state;
	assert_int_equal(in_process("rank=1,op=all_reduce,nth=2,do=delay:1.5ms", check_nth), 0);
	assert_int_equal(in_process("rank=1-3,op=p2p,nth=2-4,do=skip", check_ranges), 0);
	assert_int_equal(in_process("step=4,comm=dp,op=coll,do=hang", check_steps_and_comms), 0);
	assert_int_equal(in_process("do=jitter:1ms;do=op:max;do=late:2s", check_several), 0);
	assert_int_equal(in_process("rank=2,do=version:22703", check_version), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_scripts),
		cmocka_unit_test(test_bad_scripts),
		cmocka_unit_test(test_meaning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
