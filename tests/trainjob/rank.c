/* SPDX-License-Identifier: Apache-2.0 */
/* A rank: set up, steps, tear down. */
#include "trainjob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void put_id(const struct rank *rank, const ncclUniqueId *id)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s.new", rank->options->id_file);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, id, sizeof(*id)) != (ssize_t)sizeof(*id) ||
	    rename(path, rank->options->id_file) != 0) {
		job_say(rank, "%s: %s", path, strerror(errno));
		exit(EXIT_FAILED);
	}
	close(fd);
}

static void get_id(const struct rank *rank, ncclUniqueId *ret_id)
{
	uint64_t begun = job_now_ns();

	for (;;) {
		int fd = open(rank->options->id_file, O_RDONLY | O_CLOEXEC);

		if (fd >= 0) {
			ssize_t n = read(fd, ret_id, sizeof(*ret_id));

			close(fd);
			if (n == (ssize_t)sizeof(*ret_id))
				return;
		}
		if (job_now_ns() - begun > 120ull * 1000000000u) {
			job_say(rank, "%s: rank 0 did not write it", rank->options->id_file);
			exit(EXIT_FAILED);
		}
		job_sleep_ns(2000000);
	}
}

static void exchange_id(struct rank *rank, ncclUniqueId *ret_id)
{
	if (rank->world_rank != 0) {
		get_id(rank, ret_id);
		return;
	}
	job_check_nccl(rank, NULL, ncclGetUniqueId(ret_id), "ncclGetUniqueId");
	put_id(rank, ret_id);
}

static void compute(struct rank *rank)
{
	double ms = rank->options->compute_ms;

	if (job_inject(rank, FAKE_OP_COMPUTE, "", NULL) == VERDICT_SKIP || ms <= 0)
		return;
	if (rank->options->compute_on_gpu && fakeCudaCompute)
		job_check_cuda(rank, fakeCudaCompute(rank->stream, (unsigned long)(ms * 1000)),
			       "fakeCudaCompute");
	else
		job_sleep_ns((uint64_t)(ms * 1e6));
}

static void checkpoint(struct rank *rank)
{
	long every = rank->options->checkpoint_every;

	if (every <= 0 || rank->step % every)
		return;
	if (job_inject(rank, FAKE_OP_CHECKPOINT, "", NULL) != VERDICT_SKIP)
		job_sleep_ns((uint64_t)(rank->options->checkpoint_ms * 1e6));
}

/* The first step is captured, all are replays. */
static void issue_graph(struct rank *rank)
{
	cudaGraph_t graph;

	if (!rank->captured) {
		job_check_cuda(
			rank,
			cudaStreamBeginCapture(rank->stream, cudaStreamCaptureModeThreadLocal),
			"cudaStreamBeginCapture");
		job_issue_step(rank);
		job_check_cuda(rank, cudaStreamEndCapture(rank->stream, &graph),
			       "cudaStreamEndCapture");
		job_check_cuda(rank, cudaGraphInstantiateWithFlags(&rank->graph, graph, 0),
			       "cudaGraphInstantiate");
		job_check_cuda(rank, cudaGraphDestroy(graph), "cudaGraphDestroy");
		rank->captured = true;
	}
	job_check_cuda(rank, cudaGraphLaunch(rank->graph, rank->stream), "cudaGraphLaunch");
}

static void run_step(struct rank *rank)
{
	if (rank->options->verify)
		job_clear_results(rank);
	compute(rank);
	if (rank->options->graph)
		issue_graph(rank);
	else
		job_issue_step(rank);
	if (job_inject(rank, FAKE_OP_SYNC, "", NULL) != VERDICT_SKIP)
		job_check_cuda(rank, cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
	if (rank->options->verify && job_verify_step(rank) > 0)
		exit(EXIT_WRONG_DATA);
	checkpoint(rank);
}

static void set_up(struct rank *rank)
{
	ncclUniqueId id;
	int devices = 0;

	job_check_cuda(rank, cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
	job_check_cuda(rank, cudaSetDevice(rank->local_rank % devices), "cudaSetDevice");
	exchange_id(rank, &id);
	job_create_comms(rank, &id);
	job_check_cuda(rank, cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking),
		       "cudaStreamCreateWithFlags");
	job_build_step(rank);
	job_allocate_buffers(rank);
	atomic_fetch_add(&rank->progress->steps[rank->world_rank], 1);
}

static void tear_down(struct rank *rank)
{
	if (rank->captured)
		job_check_cuda(rank, cudaGraphExecDestroy(rank->graph), "cudaGraphExecDestroy");
	job_destroy_comms(rank);
	job_free_buffers(rank);
	job_check_cuda(rank, cudaStreamDestroy(rank->stream), "cudaStreamDestroy");
}

static void *run_rank(void *arg)
{
	struct rank *rank = arg;
	uint64_t begun = job_now_ns();
	int version = 0;

	if (fakeSetThreadRank)
		fakeSetThreadRank(rank->world_rank);
	set_up(rank);
	job_watchdog_start(rank);
	for (rank->step = 1; rank->step <= rank->options->steps; rank->step++) {
		run_step(rank);
		atomic_fetch_add(&rank->progress->steps[rank->world_rank], 1);
	}
	job_watchdog_stop(rank);
	tear_down(rank);
	if (rank->world_rank == 0 && !rank->options->quiet) {
		ncclGetVersion(&version);
		job_say(rank, "%ld steps of %d calls in %.2f s, NCCL %d%s", rank->options->steps,
			rank->op_count, (double)(job_now_ns() - begun) / 1e9, version,
			rank->options->verify ? ", results right" : "");
	}
	return NULL;
}

static struct job_progress *map_progress(const struct job_options *options)
{
	struct job_progress *progress;
	int fd = -1, flags = MAP_SHARED;

	if (options->progress_file) {
		fd = open(options->progress_file, O_RDWR | O_CLOEXEC);
		if (fd < 0) {
			job_say(NULL, "%s: %s", options->progress_file, strerror(errno));
			exit(EXIT_FAILED);
		}
	} else {
		flags |= MAP_ANONYMOUS;
	}
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, flags, fd, 0);
	if (progress == MAP_FAILED) {
		job_say(NULL, "mmap: %s", strerror(errno));
		exit(EXIT_FAILED);
	}
	if (fd >= 0)
		close(fd);
	return progress;
}

static int local_rank(const struct job_options *options, int world_rank)
{
	const char *given = getenv("LOCAL_RANK");

	if (options->node_size > 0)
		return world_rank % options->node_size;
	return given ? atoi(given) + world_rank - options->rank : world_rank;
}

/* Ranks rank, rank + 1, ... of this process; only one needs no thread of its own. */
int job_run_process(const struct job_options *options)
{
	int count = options->ranks_per_process;
	struct rank *ranks = calloc((size_t)count, sizeof(*ranks));
	pthread_t threads[MAX_RANKS];
	struct job_progress *progress = map_progress(options);

	if (!ranks)
		return EXIT_FAILED;
	for (int i = 0; i < count; i++) {
		ranks[i].options = options;
		ranks[i].world_rank = options->rank + i;
		ranks[i].local_rank = local_rank(options, ranks[i].world_rank);
		ranks[i].progress = progress;
		ranks[i].random = 1 + (unsigned int)ranks[i].world_rank;
	}
	if (count == 1) {
		run_rank(&ranks[0]);
	} else {
		for (int i = 0; i < count; i++) {
			if (pthread_create(&threads[i], NULL, run_rank, &ranks[i]) != 0)
				return EXIT_FAILED;
		}
		for (int i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
	}
	free(ranks);
	return EXIT_OK;
}
