/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profiler plugin's callbacks cost per collective at 1, 8 and 16 channels, beside a plugin
 * that does nothing and is sent the same events. Others (NVIDIA's Inspector, say) may be named:
 * they are driven by the same host in the same run. Events come in bursts, as they do in training;
 * each plugin gets those that NCCL would send for the mask that it asked for, with two network
 * operations for each channel.
 *
 * usage: bench_profiler LIBNCCLSPY [PLUGIN...]     version 5 of the interface
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "drive.h"

#define VERSION  5u
#define ROUNDS   101
#define BURST    20
#define PAUSE_US 30000

/* --- the plugin that does nothing --- */

static int null_mask;

static int null_init(void **context, uint64_t hash, int *mask, const char *name, int nodes,
		     int nranks, int rank, void *log)
{
	(void)hash, (void)name, (void)nodes, (void)nranks, (void)rank, (void)log;
	*context = &null_mask;
	*mask = null_mask;
	return 0;
}

/* A handle for what the measured plugin gives one for: operations and what lies below them. */
static int null_start(void *context, void **handle, void *descr)
{
	(void)descr;
	*handle = context;
	return 0;
}

static int null_stop(void *handle)
{
	(void)handle;
	return 0;
}

static int null_state(void *handle, int state, void *args)
{
	(void)handle, (void)state, (void)args;
	return 0;
}

static const struct nspy_profiler_table null_table = {
	.name = "null",
	.init_v5 = null_init,
	.start = null_start,
	.stop = null_stop,
	.state = null_state,
	.finalize = null_stop,
};

/* --- the measurement --- */

static uint64_t gpu_ns = 1000;

static void collective(const struct drive_comm *comm, struct drive_op *op, int channels)
{
	op->channels = (uint8_t)channels;
	op->seq++;
	op->count = 1 << 20;
	drive_coll(comm, op);
	for (int c = 0; c < channels; c++) {
		if (comm->mask & NSPY_PROFILE_PROXY_OP)
			drive_network(comm, op, (uint8_t)c, 1, 0, 0);
		drive_kernel(comm, op, (uint8_t)c, gpu_ns, gpu_ns + 5000);
	}
	gpu_ns += 10000;
}

/* Median over bursts of ns per collective. */
static double measure(const struct nspy_profiler_table *table, int channels, int *ret_mask)
{
	struct drive drive = {.table = table, .version = VERSION};
	struct drive_op op = {.seq = 0};
	struct drive_comm comm;
	double rounds[ROUNDS];

	if (drive_init(&comm, &drive, 0xBE9C, 8, 0) != 0)
		bench_die("a plugin does not start");
	*ret_mask = comm.mask;
	for (int r = 0; r < ROUNDS; r++) {
		uint64_t begun;

		usleep(PAUSE_US); /* for whoever takes the events away */
		begun = bench_now_ns();
		for (int i = 0; i < BURST; i++)
			collective(&comm, &op, channels);
		rounds[r] = (double)(bench_now_ns() - begun) / BURST;
	}
	(void)drive_finalize(&comm);
	return bench_median(rounds, ROUNDS);
}

static const struct nspy_profiler_table *load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	return library ? dlsym(library, "ncclProfiler_v5") : NULL;
}

static void compare(const char *name, const struct nspy_profiler_table *table)
{
	static const int channels[] = {1, 8, 16};
	const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;

	for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
		char metric[128];
		int mask;
		double with = measure(table, channels[i], &mask), without;

		null_mask = mask;
		without = measure(&null_table, channels[i], &mask);
		(void)snprintf(metric, sizeof(metric), "%s_%d_channels_added_ns", base,
			       channels[i]);
		bench_print("profiler", metric, with - without, "ns",
			    "same events to a plugin that does nothing");
	}
}

int main(int argc, char **argv)
{
	const struct nspy_profiler_table *ours;
	char directory[64];

	if (argc < 2)
		bench_die("usage: bench_profiler LIBNCCLSPY [PLUGIN...]");
	(void)snprintf(directory, sizeof(directory), "/tmp/ncclspy-bench.%d", (int)getpid());
	(void)setenv("NCCLSPY_DIR", directory, 1);
	(void)setenv("NCCLSPY_QUIET", "1", 1);
	ours = load(argv[1]);
	if (!ours)
		bench_die("no table of the library");
	compare(getenv("NCCLSPY_PROFILER") ? "kernels" : "default", ours);
	for (int i = 2; i < argc; i++) {
		const struct nspy_profiler_table *other = load(argv[i]);

		if (!other)
			bench_die("no table of version 5 in a plugin");
		compare(argv[i], other);
	}
	return 0;
}
