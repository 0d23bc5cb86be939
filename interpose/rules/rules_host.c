/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about limits, memory and versions of the process's machine. Thresholds and where they come
 * from are in docs/DETECTORS.md.
 */
#include <stdio.h>
#include <string.h>

#include "rules_parts.h"

#define KIB              (1ull << 10)
#define MIB              (1ull << 20)
#define GIB              (1ull << 30)
#define MEMLOCK_NOTHING  (64 * KIB) /* old default of Linux: not even a queue fits */
#define MEMLOCK_FEW      GIB        /* buffers of a few dozen peers */
#define STACK_MIN        (4 * MIB)
#define STACK_FIXED_IN   22803u /* NCCL 2.28.3 sets the size of its threads' stacks */
#define STACK_LARGE_JOB  256u
#define SHM_SMALL        GIB
#define SHM_NO_ROOM      (64 * MIB)
#define PRESSURE_PERCENT 95u

static bool memlock_low(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	uint64_t limit = nspy_rule_number(facts, "limit.memlock", NSPY_UNLIMITED);

	if (limit >= MEMLOCK_FEW || nspy_rule_is(facts, "cap.ipc_lock", "1") ||
	    facts->span == NSPY_SPAN_ONE_NODE || !nspy_rule_rdma(facts, NULL) ||
	    nspy_rule_number(facts, "rdma.uverbs", 0) == 0)
		return false;
	nspy_rule_say(
		hit, limit <= MEMLOCK_NOTHING ? 0 : 1, NSPY_RULE_NODE,
		"the process may lock only %llu KiB of memory (RLIMIT_MEMLOCK, no CAP_IPC_LOCK), "
		"and RDMA has to lock all its buffers",
		(unsigned long long)(limit / KIB));
	return true;
}

/* An unlimited stack makes glibc give threads 2 MiB, too little for the topology search. */
static bool stack_unsafe(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	uint64_t limit = nspy_rule_number(facts, "limit.stack", 8 * MIB);
	uint64_t nccl = nspy_rule_number(facts, "nccl.version", 0);
	bool large = nspy_rule_number(facts, "world_size", 0) >= STACK_LARGE_JOB;
	bool unlimited = limit == NSPY_UNLIMITED;

	if (!nccl || nccl >= STACK_FIXED_IN || (!unlimited && limit >= STACK_MIN))
		return false;
	nspy_rule_say(
		hit, large ? 1 : 2, NSPY_RULE_JOB,
		"the stack limit is %s, so threads of NCCL get stacks of %s; this NCCL needs more "
		"for large topologies",
		unlimited ? "unlimited" : "below 4 MiB", unlimited ? "2 MiB" : "that size");
	return true;
}

static bool shm_small(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	uint64_t bytes = nspy_rule_number(facts, "shm.bytes", NSPY_UNLIMITED);
	uint64_t left = nspy_rule_number(facts, "shm.free", NSPY_UNLIMITED);
	bool tmpfs = nspy_rule_is(facts, "shm.type", "tmpfs");

	/* What nobody uses is not too small. */
	if (bytes == NSPY_UNLIMITED || nspy_rule_number(facts, "shm.nccl_mapped", 0) == 0 ||
	    (tmpfs && bytes >= SHM_SMALL))
		return false;
	if (!tmpfs)
		nspy_rule_say(hit, 2, NSPY_RULE_NODE,
			      "/dev/shm is no tmpfs (%.20s), and NCCL keeps its buffers there",
			      nspy_rule_get(facts, "shm.type"));
	else
		nspy_rule_say(hit, left < SHM_NO_ROOM ? 1 : 2, NSPY_RULE_NODE,
			      "/dev/shm has %llu MiB, of which %llu are free, and NCCL keeps its "
			      "buffers there",
			      (unsigned long long)(bytes / MIB), (unsigned long long)(left / MIB));
	return true;
}

static bool shm_stale(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	uint64_t count = nspy_rule_number(facts, "shm.stale", 0);

	if (!count)
		return false;
	nspy_rule_say(hit, 2, NSPY_RULE_NODE,
		      "%llu NCCL segments of ended jobs lie in /dev/shm and take %llu MiB",
		      (unsigned long long)count,
		      (unsigned long long)(nspy_rule_number(facts, "shm.stale_bytes", 0) / MIB));
	return true;
}

static bool memory_pressure(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	uint64_t percent = nspy_rule_number(facts, "cgroup.used_percent", 0);
	uint64_t max = nspy_rule_number(facts, "cgroup.max", 0);
	uint64_t killed = nspy_rule_number(facts, "cgroup.oom_kills", 0);

	if (killed)
		nspy_rule_say(
			hit, 1, NSPY_RULE_NODE,
			"the kernel killed %llu process%s of this job's memory group for want "
			"of memory",
			(unsigned long long)killed, killed == 1 ? "" : "es");
	else if (percent >= PRESSURE_PERCENT)
		nspy_rule_say(
			hit, 1, NSPY_RULE_NODE,
			"host memory of the job reached %llu %% of its limit of %llu MiB: the "
			"kernel is about to kill",
			(unsigned long long)percent, (unsigned long long)(max / MIB));
	else
		return false;
	return true;
}

static bool driver_old(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	unsigned int runtime = (unsigned int)nspy_rule_number(facts, "cudart.version", 0);
	unsigned int driver = (unsigned int)nspy_rule_number(facts, "cuda.driver", 0);

	/* Within a major release a runtime works with an older driver. */
	if (!runtime || !driver || driver / 1000 >= runtime / 1000)
		return false;
	nspy_rule_say(hit, 0, NSPY_RULE_NODE,
		      "the CUDA runtime is %u.%u, but the driver supports only CUDA %u.%u",
		      runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
	return true;
}

/* --- what the libc failure hooks noted: value is "count rest" --- */

static bool shm_refused(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *what = nspy_rule_get(facts, "fail.shm");

	if (!what)
		return false;
	nspy_rule_say(hit, 0, NSPY_RULE_NODE, "shared memory was refused: %.240s", what);
	return true;
}

static bool fork_refused(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *what = nspy_rule_get(facts, "fail.fork");

	if (!what)
		return false;
	nspy_rule_say(hit, 1, NSPY_RULE_RANK, "a new process was refused: %.240s", what);
	return true;
}

static bool dns_failed(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *what = nspy_rule_get(facts, "fail.dns");

	if (!what)
		return false;
	nspy_rule_say(hit, 0, NSPY_RULE_RANK, "a host name was not found: %.240s", what);
	return true;
}

static bool port_in_use(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *what = nspy_rule_get(facts, "fail.bind");

	if (!what)
		return false;
	nspy_rule_say(hit, 1, NSPY_RULE_RANK, "an address was taken already: %.240s", what);
	return true;
}

static bool connect_failed(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *what = nspy_rule_get(facts, "fail.connect");

	if (!what)
		return false;
	nspy_rule_say(hit, 0, NSPY_RULE_RANK, "NCCL could not connect to a peer: %.240s", what);
	return true;
}

const struct nspy_rule nspy_rules_host[] = {
	{"DRIVER_RUNTIME_MISMATCH", driver_old},
	{"DNS_RESOLUTION_FAILED", dns_failed},
	{"BOOTSTRAP_CONNECT_FAILED", connect_failed},
	{"PORT_IN_USE", port_in_use},
	{"SHM_ALLOC_FAILED", shm_refused},
	{"FORK_ENOMEM", fork_refused},
	{"CGROUP_MEMORY_PRESSURE", memory_pressure},
	{"MEMLOCK_LOW", memlock_low},
	{"SHM_TOO_SMALL", shm_small},
	{"STACK_LIMIT_UNSAFE", stack_unsafe},
	{"SHM_STALE_SEGMENTS", shm_stale},
	{NULL, NULL},
};
