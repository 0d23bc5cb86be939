/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host for profiler plugins: finds a table as NCCL does (dlopen, dlsym, newest first unless a
 * version is given) and drives it. What it did is printed as JSON, so that a test can compare.
 *
 *	host LIBRARY|STATIC VERSION legal THREADS OPS CHANNELS STEPS PAUSE_US
 *	host LIBRARY|STATIC VERSION illegal
 *	host LIBRARY|STATIC VERSION waits         one slow receive, and one slow send
 *	host LIBRARY|STATIC 0 versions            which versions are found
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drive.h"

#define THREADS_MAX 16
#define KERNEL_NS   5000u

static struct drive drive;

static const struct nspy_profiler_table *find(void *library, unsigned int version)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "ncclProfiler_v%u", version);
	return dlsym(library, name);
}

/* --- legal --- */

struct job {
	pthread_t thread, proxy;
	int index, ops, channels, steps;
	unsigned int pause_us;
	struct drive_comm comm;
	struct drive_op *op;
	_Atomic int begun; /* operations that the host's part is done of */
};

/* Operations end long after the calls that began them, and channels in any order. */
static void *proxy_main(void *argument)
{
	struct job *job = argument;

	for (int i = 0; i < job->ops; i++) {
		const struct drive_op *op = &job->op[i];
		uint64_t base = 1000000ull * (uint64_t)(i + 1);

		while (atomic_load(&job->begun) <= i)
			(void)sched_yield();
		for (int c = job->channels - 1; c >= 0; c--) {
			uint64_t start = base + (uint64_t)c * 10u;

			drive_network(&job->comm, op, (uint8_t)c, (job->index + 1) % 2, job->steps,
				      job->pause_us);
			drive_kernel(&job->comm, op, (uint8_t)c, start, start + KERNEL_NS);
		}
	}
	return NULL;
}

static void *host_main(void *argument)
{
	struct job *job = argument;

	if (drive_init(&job->comm, &drive, 0xABC000ull + (uint64_t)job->index, 2, 0) != 0)
		abort();
	(void)pthread_create(&job->proxy, NULL, proxy_main, job);
	for (int i = 0; i < job->ops; i++) {
		struct drive_op *op = &job->op[i];

		*op = (struct drive_op){
			.seq = (uint64_t)i,
			.count = 1024,
			.channels = (uint8_t)job->channels,
			.captured = i % 4 == 3,
		};
		if (drive.version >= 6 && i % 8 == 5)
			drive_copy(&job->comm, op);
		if (i % 2)
			drive_send(&job->comm, op, 1);
		else
			drive_coll(&job->comm, op);
		atomic_store(&job->begun, i + 1);
	}
	(void)pthread_join(job->proxy, NULL);
	(void)drive_finalize(&job->comm);
	return NULL;
}

static int legal(char **arg)
{
	static struct job jobs[THREADS_MAX];
	int threads = atoi(arg[0]), copies = 0;

	for (int i = 0; i < threads; i++) {
		struct job *job = &jobs[i];

		job->index = i;
		job->ops = atoi(arg[1]);
		job->channels = atoi(arg[2]);
		job->steps = atoi(arg[3]);
		job->pause_us = (unsigned int)atoi(arg[4]);
		job->op = calloc((size_t)job->ops, sizeof(*job->op));
		if (pthread_create(&job->thread, NULL, host_main, job) != 0)
			return 1;
	}
	for (int i = 0; i < threads; i++)
		(void)pthread_join(jobs[i].thread, NULL);
	for (int i = 0; i < jobs[0].ops; i++)
		copies += drive.version >= 6 && i % 8 == 5;
	printf("{\"version\": %u, \"mask\": %d, \"copies\": %d, \"gpu_ns\": %u}\n", drive.version,
	       jobs[0].comm.mask, copies * threads,
	       KERNEL_NS + (unsigned int)(jobs[0].channels - 1) * 10u);
	for (int i = 0; i < threads; i++)
		free(jobs[i].op);
	return 0;
}

/* --- waits --- */

/* Rank 0's network with peer 1: one receive that waits for it; everything else is quick. */
static int waits(void)
{
	struct drive_op op = {.seq = 1, .count = 1024, .channels = 1};
	struct drive_comm comm;

	if (drive_init(&comm, &drive, 0xABC, 2, 0) != 0)
		return 1;
	drive_coll(&comm, &op);
	/* Longer than a busy machine keeps a thread from running. */
	drive_network(&comm, &op, 0, 1, 1, 200000);
	printf("{\"version\": %u, \"mask\": %d}\n", drive.version, comm.mask);
	return drive_finalize(&comm);
}

/* --- illegal --- */

static int call_start(void *context, void **handle, void *descr)
{
	return drive.table->start(context, handle, descr);
}

static const uintptr_t nonsense[] = {
	1,
	8,
	0xDEADBEEF,
	UINTPTR_MAX,
	(uintptr_t)0xC5A7 << 48,
	(uintptr_t)0xC5A71 << 44,
	((uintptr_t)0xC5A74 << 44) + 12345,
	((uintptr_t)0xC5A7F << 44) + 1,
	((uintptr_t)0xC5A6 << 48) + 77,
	((uintptr_t)0xC5A8 << 48) + 5,
	(uintptr_t)0xC5A8 << 48,
};
#define NONSENSE (sizeof(nonsense) / sizeof(nonsense[0]))

/* Every function with every bad pointer. Returns how many calls did not report success. */
static int bad_pointers(const struct drive_comm *comm)
{
	union nspy_state_args args = {.bytes = 1};
	union drive_descr d;
	void *handle;
	int bad = 0;

	for (size_t i = 0; i < NONSENSE; i++) {
		void *wrong = (void *)nonsense[i];

		bad += drive.table->stop(wrong) != 0;
		for (int state = -1; state < 32; state++) {
			bad += drive.table->state(wrong, state, &args) != 0;
			bad += drive.table->state(wrong, state, NULL) != 0;
		}
		bad += drive.table->finalize(wrong) != 0;
		for (unsigned int bit = 0; bit < 16; bit++) {
			drive_head(drive.version, &d, 1u << bit, wrong, -1);
			bad += call_start(wrong, &handle, &d) != 0;
			bad += call_start(comm->context, &handle, &d) != 0;
			if (i % 2)
				bad += drive.table->stop(handle) != 0;
		}
	}
	drive_head(drive.version, &d, NSPY_PROFILE_COLL, NULL, 0);
	bad += call_start(NULL, &handle, &d) != 0;
	bad += call_start(comm->context, NULL, &d) != 0;
	bad += call_start(comm->context, &handle, NULL) != 0;
	bad += call_start(NULL, NULL, NULL) != 0;
	bad += drive.table->stop(NULL) != 0;
	bad += drive.table->state(NULL, 8, NULL) != 0;
	bad += drive.table->finalize(NULL) != 0;
	return bad;
}

/* A rank's network operations may be done by another process, whose handles these are. */
static void foreign(const struct drive_comm *comm)
{
	union drive_descr d;
	void *handle, *step;

	drive_head(drive.version, &d, NSPY_PROFILE_PROXY_OP, (void *)(uintptr_t)0x7f0000001000, 5);
	drive_proxy_op(drive.version, &d)->pid = getpid() + 1;
	drive_proxy_op(drive.version, &d)->peer = 3;
	(void)call_start((void *)(uintptr_t)0x7f0000002000, &handle, &d);
	drive_head(drive.version, &d, NSPY_PROFILE_PROXY_STEP, handle, 5);
	(void)call_start((void *)(uintptr_t)0x7f0000002000, &step, &d);
	(void)drive.table->state(step, NSPY_PROFILE_RECV_WAIT, NULL);
	(void)drive.table->stop(step);
	(void)drive.table->stop(handle);
	/* One that looks like ours. */
	drive_head(drive.version, &d, NSPY_PROFILE_PROXY_OP,
		   (void *)(((uintptr_t)0xC5A71 << 44) + 3), 5);
	drive_proxy_op(drive.version, &d)->pid = getpid() + 1;
	(void)call_start(comm->context, &handle, &d);
	(void)drive.table->stop(handle);
}

static void *stop_twice(void *handle)
{
	(void)drive.table->stop(handle);
	(void)drive.table->stop(handle);
	return NULL;
}

/* Ends that come too often, too late, on other threads, or not at all. */
static void wrong_order(struct drive_comm *comm)
{
	struct drive_op op = {.seq = 1, .count = 1, .channels = 2};
	struct drive_op other = op;
	pthread_t thread;
	union drive_descr d;
	void *open;

	drive_coll(comm, &op);
	(void)pthread_create(&thread, NULL, stop_twice, op.handle);
	(void)pthread_join(thread, NULL);
	drive_network(comm, &op, 0, 1, 1, 0);
	drive_kernel(comm, &op, 0, 100, 50); /* ends before it begins */
	drive_kernel(comm, &op, 1, 0, 0);
	/* Open while the communicator goes, and used after it has gone. */
	drive_head(drive.version, &d, NSPY_PROFILE_PROXY_OP, op.handle, 0);
	drive_proxy_op(drive.version, &d)->pid = getpid();
	(void)call_start(comm->context, &open, &d);
	drive_head(drive.version, &d, NSPY_PROFILE_COLL, NULL, 0);
	(void)call_start(comm->context, &other.handle, &d);
	(void)drive.table->finalize(comm->context);
	drive_network(comm, &op, 0, 1, 1, 0);
	drive_coll(comm, &other);
	(void)drive.table->stop(open);
	(void)drive.table->finalize(comm->context);
}

static int many_contexts(void)
{
	struct drive_comm comm;
	int bad = 0;

	/* More than there is room for: the later ones are not recorded. */
	for (int i = 0; i < 1500; i++)
		bad += drive_init(&comm, &drive, (uint64_t)i, 2, 0) != 0;
	return bad;
}

static int illegal(void)
{
	struct drive_comm comm;
	int bad;

	if (drive_init(&comm, &drive, 0xABC, 2, 0) != 0)
		return 1;
	bad = bad_pointers(&comm);
	foreign(&comm);
	wrong_order(&comm);
	/* A forked child inherits contexts and handles. */
	if (drive_init(&comm, &drive, 0xDEF, 2, 0) != 0)
		return 1;
	fflush(stdout);
	if (fork() == 0) {
		struct drive_op op = {.seq = 9, .count = 1, .channels = 1};

		drive_coll(&comm, &op);
		drive_network(&comm, &op, 0, 1, 1, 0);
		_exit(drive_finalize(&comm));
	}
	(void)wait(NULL);
	bad += many_contexts();
	printf("{\"version\": %u, \"bad\": %d}\n", drive.version, bad);
	return bad != 0;
}

int main(int argc, char **argv)
{
	void *library;
	unsigned int version;

	if (argc < 4)
		return 2;
	library = strcmp(argv[1], "STATIC") == 0 ? dlopen(NULL, RTLD_NOW | RTLD_LOCAL)
						 : dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	version = (unsigned int)atoi(argv[2]);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (strcmp(argv[3], "versions") == 0) {
		for (unsigned int v = NSPY_PROFILER_NEWEST; v >= NSPY_PROFILER_OLDEST; v--)
			if (find(library, v))
				printf("%u\n", v);
		return 0;
	}
	for (unsigned int v = NSPY_PROFILER_NEWEST; v && !drive.table; v--) {
		if (version && v != version)
			continue;
		drive.table = find(library, v);
		drive.version = v;
	}
	if (!drive.table) {
		fprintf(stderr, "no table of version %u\n", version);
		return 3;
	}
	drive_stale = strstr(argv[1], "ncclspy") ? (void *)(uintptr_t)1 : NULL;
	if (strcmp(argv[3], "legal") == 0 && argc == 9)
		return legal(argv + 4);
	if (strcmp(argv[3], "waits") == 0)
		return waits();
	return strcmp(argv[3], "illegal") == 0 ? illegal() : 2;
}
