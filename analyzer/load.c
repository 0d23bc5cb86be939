/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "join.h"
#include "parts.h"
#include "term.h"

#define THREADS_MAX 8u

struct load {
	struct nspy_model *model;
	uint64_t now_real_ns;
	atomic_size_t next;
	bool progress;
};

struct worker {
	struct load *load;
	struct nspy_loader loader;
	pthread_t thread;
	bool started;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct load *load = worker->load;
	struct nspy_model *model = load->model;
	size_t i;

	while ((i = atomic_fetch_add(&load->next, 1)) < model->proc_count) {
		if (load->progress)
			nspy_progress("reading traces", i, model->proc_count);
		nspy_load_proc(&worker->loader, model->procs[i], load->now_real_ns);
	}
	return NULL;
}

static uint64_t now_real(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NSPY_NS_PER_S + (uint64_t)now.tv_nsec;
}

static unsigned int thread_count(const struct nspy_model *model,
				 const struct nspy_load_options *options)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned int count = options->threads ? options->threads
			     : cpus > 0       ? (unsigned int)cpus
					      : 1;

	if (count > THREADS_MAX)
		count = THREADS_MAX;
	if (count > model->proc_count)
		count = (unsigned int)model->proc_count;
	return count ? count : 1;
}

static void load_all(struct nspy_model *model, const struct nspy_load_options *options)
{
	struct load load = {.model = model, .progress = options->progress};
	struct worker workers[THREADS_MAX] = {0};
	unsigned int count = thread_count(model, options);

	load.now_real_ns = options->now_real_ns ? options->now_real_ns : now_real();
	for (unsigned int i = 0; i < count; i++) {
		workers[i].load = &load;
		nspy_loader_init(&workers[i].loader, model, NSPY_CELLS_BYTES_MAX / count);
	}
	for (unsigned int i = 1; i < count; i++)
		workers[i].started =
			pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
	work(&workers[0]); /* this thread helps, so that failing to make others costs only time */
	for (unsigned int i = 1; i < count; i++) {
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
	}
	for (unsigned int i = 0; i < count; i++) {
		nspy_join_cells(model, &workers[i].loader);
		nspy_loader_done(&workers[i].loader);
	}
	if (options->progress)
		nspy_progress_end();
	nspy_parts_make(model);
	nspy_join_members(model);
}

static void load_again(struct nspy_model *model, const struct nspy_load_options *options)
{
	nspy_join_reset(model);
	nspy_parts_drop(model);
	for (size_t i = 0; i < model->proc_count; i++)
		nspy_proc_reset(model->procs[i]);
	load_all(model, options);
}

void nspy_load(struct nspy_model *model, const struct nspy_load_options *options)
{
	load_all(model, options);
	/*
	 * The same rank of the same communicator in two processes: a restarted job whose
	 * communicator keys repeat (NCCL_COMM_ID). Read again with the starts told apart.
	 */
	if (nspy_join_has_twins(model)) {
		nspy_parts_drop(model);
		nspy_join_epochs(model);
		model->by_epoch = true;
		load_again(model, options);
	}
	if (model->clock_count > 1 && nspy_clocks_align(model))
		load_again(model, options);
}
