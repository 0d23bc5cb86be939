/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of an application: what it does wrong before, or instead of, calling the library. */
#include "trainjob.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MANY 8
#define TOLD 3

static void __attribute__((noreturn)) hang(void)
{
	for (;;)
		pause();
}

/* An endless loop of the application. */
static void __attribute__((noreturn)) spin(void)
{
	volatile unsigned long turns = 0;

	for (;;)
		turns++;
}

/* Until the file that lets it go on is there; another says that it has come so far. */
static void hold(int64_t number)
{
	const char *prefix = getenv("NSPY_FAKE_HOLD");
	char path[4096];
	int fd;

	if (!prefix)
		return;
	(void)snprintf(path, sizeof(path), "%s.%lld.there", prefix, (long long)number);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	(void)snprintf(path, sizeof(path), "%s.%lld", prefix, (long long)number);
	while (access(path, F_OK) < 0)
		job_sleep_ns(5000000);
}

static void die(int signal)
{
	/* the default action, whatever a library may have installed; but for ours, if asked for */
	struct sigaction action = {.sa_handler = SIG_DFL};

	if (!getenv("NCCLSPY_CRASH"))
		sigaction(signal, &action, NULL);
	kill(getpid(), signal);
	hang();
}

static uint64_t up_to(struct rank *rank, int64_t most)
{
	return (uint64_t)((double)most * (double)rand_r(&rank->random) / (double)RAND_MAX);
}

static void change(struct step_op *op, const struct fake_fault *fault)
{
	switch (fault->act) {
	case FAKE_ACT_COUNT:
		op->count = (size_t)fault->arg;
		break;
	case FAKE_ACT_DATATYPE:
		op->datatype = (ncclDataType_t)fault->arg;
		break;
	case FAKE_ACT_OP:
		op->op = (enum fake_op)fault->arg;
		break;
	case FAKE_ACT_REDOP:
		op->redop = (ncclRedOp_t)fault->arg;
		break;
	default: /* root, peer */
		op->peer = (int)fault->arg;
	}
}

static enum verdict apply(struct rank *rank, const struct fake_fault *fault, struct step_op *op)
{
	switch (fault->act) {
	case FAKE_ACT_DELAY:
		job_sleep_ns((uint64_t)fault->arg);
		return VERDICT_GO;
	case FAKE_ACT_JITTER:
		job_sleep_ns(up_to(rank, fault->arg));
		return VERDICT_GO;
	case FAKE_ACT_HANG:
		hang();
	case FAKE_ACT_SPIN:
		spin();
	case FAKE_ACT_STOP:
		raise(SIGSTOP);
		return VERDICT_GO;
	case FAKE_ACT_HOLD:
		hold(fault->arg);
		return VERDICT_GO;
	case FAKE_ACT_SKIP:
		return VERDICT_SKIP;
	case FAKE_ACT_INVERT:
		return VERDICT_SWAP;
	case FAKE_ACT_KILL:
		die(SIGKILL);
		return VERDICT_GO;
	case FAKE_ACT_SEGV:
		die(SIGSEGV);
		return VERDICT_GO;
	case FAKE_ACT_EXIT:
		_exit((int)fault->arg);
	default:
		if (op)
			change(op, fault);
		return VERDICT_GO;
	}
}

/* A fault at every call would drown the rest. */
static void tell(struct rank *rank, const struct fake_fault *fault, enum fake_op kind,
		 const char *comm)
{
	int times = ++rank->told[fault->act];

	if (times > TOLD)
		return;
	job_say(rank, "fault %s at %s of \"%s\", step %ld%s", fake_act_name(fault->act),
		fake_op_name(kind), comm, rank->step, times == TOLD ? " (not told any more)" : "");
}

enum verdict job_inject(struct rank *rank, enum fake_op kind, const char *comm, struct step_op *op)
{
	struct fake_fault due[MANY];
	struct fake_occurrence occurrence = {
		.op = kind, .rank = rank->world_rank, .step = rank->step, .comm = comm};
	int count = fake_fault_due(&occurrence, due, MANY);
	enum verdict verdict = VERDICT_GO;

	for (int i = 0; i < count; i++) {
		enum verdict one;

		tell(rank, &due[i], kind, comm);
		one = apply(rank, &due[i], op);
		if (one != VERDICT_GO)
			verdict = one;
	}
	return verdict;
}
