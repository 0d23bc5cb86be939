/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library adds to programs that have nothing to do with NCCL: time of small commands, and
 * of look-ups by dlsym. Runs with and without take turns. exec_cpu_us is CPU time (user and
 * system), the shortest of many runs: what else the machine does adds little to it. exec_us is the
 * time from start to end, medians.
 *
 * usage: bench_exec LIBNCCLSPY LIBNCCL
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define RUNS    100
#define LOOKUPS 20000
#define ROUNDS  9

static posix_spawn_file_actions_t silent;

static double microseconds(struct timeval t)
{
	return (double)t.tv_sec * 1e6 + (double)t.tv_usec;
}

/* With the LD_PRELOAD that is set. false: it failed. */
static bool run_once(char *const *words, double *ret_us, double *ret_cpu_us)
{
	uint64_t before = bench_now_ns();
	struct rusage used;
	int status;
	pid_t pid;

	if (posix_spawnp(&pid, words[0], &silent, NULL, words, environ) != 0 ||
	    wait4(pid, &status, 0, &used) < 0 || status != 0)
		return false;
	*ret_us = (double)(bench_now_ns() - before) / 1000;
	*ret_cpu_us = microseconds(used.ru_utime) + microseconds(used.ru_stime);
	return true;
}

static double least(const double *values, size_t count)
{
	double ret = values[0];

	for (size_t i = 1; i < count; i++)
		if (values[i] < ret)
			ret = values[i];
	return ret;
}

static void bench_command(const char *name, const char *lib, char *const *words)
{
	double plain[RUNS], ours[RUNS], plain_cpu[RUNS], ours_cpu[RUNS];
	char metric[64];

	for (int i = 0; i < RUNS; i++) {
		bool ok;

		(void)unsetenv("LD_PRELOAD");
		ok = run_once(words, &plain[i], &plain_cpu[i]);
		(void)setenv("LD_PRELOAD", lib, 1);
		if (!ok || !run_once(words, &ours[i], &ours_cpu[i]))
			return; /* not installed here */
	}
	(void)unsetenv("LD_PRELOAD");
	(void)snprintf(metric, sizeof(metric), "exec_cpu_us_%s", name);
	bench_print("exec", metric, least(ours_cpu, RUNS) - least(plain_cpu, RUNS), "us",
		    "same command without ncclspy");
	(void)snprintf(metric, sizeof(metric), "exec_us_%s", name);
	bench_print("exec", metric, bench_median(ours, RUNS) - bench_median(plain, RUNS), "us",
		    "same command without ncclspy");
}

static double look_up(void *handle, const char *name)
{
	double ns[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		uint64_t before = bench_now_ns();

		for (int i = 0; i < LOOKUPS; i++)
			if (!dlsym(handle, name))
				bench_die(name);
		ns[r] = (double)(bench_now_ns() - before) / LOOKUPS;
	}
	return bench_median(ns, ROUNDS);
}

/* Times of look-ups in this process, for the parent. */
static int child(const char *nccl)
{
	void *handle = dlopen(nccl, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		bench_die(nccl);
	printf("%.1f %.1f\n", look_up(RTLD_DEFAULT, "getenv"), look_up(handle, "ncclAllReduce"));
	return 0;
}

static void look_ups(const char *self, const char *lib, const char *nccl, double ret[2])
{
	char command[2048];
	FILE *pipe;

	(void)snprintf(command, sizeof(command), "%s%s %s --child %s", lib ? "LD_PRELOAD=" : "",
		       lib ? lib : "", self, nccl);
	pipe = popen(command, "r");
	if (!pipe || fscanf(pipe, "%lf %lf", &ret[0], &ret[1]) != 2 || pclose(pipe) != 0)
		bench_die("the measured child failed");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		const char *words[5];
	} commands[] = {
		{"true", {"true"}},
		{"ls", {"ls", "/"}},
		{"git", {"git", "--version"}},
		{"python3", {"/usr/bin/python3", "-c", "pass"}},
		{"python3_ctypes", {"/usr/bin/python3", "-c", "import ctypes"}},
		{"sh", {"sh", "-c", "echo x; (echo y)"}},
	};
	double plain[2], ours[2];

	if (argc == 3 && strcmp(argv[1], "--child") == 0)
		return child(argv[2]);
	if (argc != 3)
		bench_die("usage: bench_exec LIBNCCLSPY LIBNCCL");
	posix_spawn_file_actions_init(&silent);
	posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		bench_command(commands[i].name, argv[1], (char *const *)commands[i].words);
	look_ups(argv[0], NULL, argv[2], plain);
	look_ups(argv[0], argv[1], argv[2], ours);
	bench_print("exec", "dlsym_ns_other", ours[0] - plain[0], "ns", "dlsym without ncclspy");
	bench_print("exec", "dlsym_ns_nccl", ours[1] - plain[1], "ns", "dlsym without ncclspy");
	return 0;
}
