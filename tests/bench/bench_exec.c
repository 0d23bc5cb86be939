/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library adds to programs that have nothing to do with NCCL: the time from start to end
 * of small commands, and look-ups by dlsym. Runs with and without take turns; medians are compared.
 *
 * usage: bench_exec LIBNCCLSPY LIBNCCL
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define RUNS    60
#define LOOKUPS 20000
#define ROUNDS  9

static posix_spawn_file_actions_t silent;

static double run_once(char *const *words, char *const *environment)
{
	uint64_t before = bench_now_ns();
	int status;
	pid_t pid;

	if (posix_spawnp(&pid, words[0], &silent, NULL, words, environment) != 0 ||
	    waitpid(pid, &status, 0) < 0 || status != 0)
		return -1;
	return (double)(bench_now_ns() - before) / 1000;
}

static void bench_command(const char *name, const char *lib, char *const *words)
{
	double plain[RUNS], ours[RUNS];
	char metric[64];

	for (int i = 0; i < RUNS; i++) {
		(void)unsetenv("LD_PRELOAD");
		plain[i] = run_once(words, environ);
		(void)setenv("LD_PRELOAD", lib, 1);
		ours[i] = run_once(words, environ);
		if (plain[i] < 0 || ours[i] < 0)
			return; /* not installed here */
	}
	(void)unsetenv("LD_PRELOAD");
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
		{"python3", {"/usr/bin/python3", "-c", "import ctypes"}},
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
