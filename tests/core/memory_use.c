/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls from many threads that come and go, then prints the address space of the process in
 * KiB and what of it is resident, without the files it maps: the runner compares a run with the
 * library and one without.
 *
 * usage: memory_use THREADS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "null_api.h"

static void *comm;

static void *worker(void *arg)
{
	(void)arg;
	for (int i = 0; i < 200; i++)
		ncclAllReduce(NULL, NULL, 1024, 7, 0, comm, NULL);
	return NULL;
}

/* Anonymous memory and tmpfs pages; programs and libraries are mapped from other files. */
static void print_maps(void)
{
	unsigned long begin, end, mapped = 0, resident = 0, kib;
	char line[4096], path[4096];
	FILE *maps = fopen("/proc/self/smaps", "r");
	int counts = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		path[0] = '\0';
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095s", &begin, &end, path) >= 2) {
			counts = !path[0] || strstr(path, "/dev/shm/") != NULL;
			mapped += counts ? (end - begin) / 1024 : 0;
		} else if (counts && sscanf(line, "Rss: %lu kB", &kib) == 1) {
			resident += kib;
		}
	}
	printf("%lu %lu\n", mapped, resident);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	struct null_id id;

	memset(&id, 1, sizeof(id));
	if (ncclCommInitRank(&comm, 8, id, 0) != 0)
		return 2;
	for (int i = 0; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, worker, NULL) != 0)
			return 2;
		pthread_join(thread, NULL);
	}
	usleep(300000); /* the writer thread has its memory */
	print_maps();
	return 0;
}
