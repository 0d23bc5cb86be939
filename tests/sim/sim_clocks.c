/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-sim-clocks FIRST COUNT RANKS [--json]: clean jobs of so many ranks on hosts whose clocks
 * are off by up to 500 ms and drift by up to 100 ppm. How far is the analyzer's time scale from the
 * truth, and does the bound that it states cover that? Told apart: hosts that wait for their stream
 * at the end of a step, which a trace shows, hosts that ask an event, which none does, and jobs
 * in which NCCL's profiler interface told when kernels ran.
 *
 * Exit status: 0 if 99 % of the statements hold and the median bound is below twice the interval at
 * which watchdogs ask (100 ms), with times of GPUs below 50 us, else 1.
 */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inputs.h"
#include "load.h"
#include "sim.h"

#define MOMENTS      5
#define COVERED_MIN  0.99
#define BOUND_MAX_NS (200.0 * SIM_MS)
#define GPU_MAX_NS   50e3

enum { WAITS, POLLS, GPUS, FIGURES };

struct figures {
	double *errors, *bounds;
	size_t statements, clocks, covered, unknown, capacity;
};

static void add(struct figures *f, double bound, const double *errors)
{
	if (f->clocks == f->capacity) {
		f->capacity = f->capacity ? f->capacity * 2 : 1024;
		f->bounds = realloc(f->bounds, f->capacity * sizeof(double));
		f->errors = realloc(f->errors, f->capacity * MOMENTS * sizeof(double));
		if (!f->bounds || !f->errors)
			abort();
	}
	f->bounds[f->clocks++] = bound;
	for (int i = 0; i < MOMENTS; i++) {
		f->errors[f->statements++] = errors[i];
		f->covered += errors[i] <= bound;
	}
}

static const struct nspy_proc *first_clock(const struct nspy_model *model)
{
	for (size_t i = 0; i < model->proc_count; i++) {
		if (model->procs[i]->clock == 0)
			return model->procs[i];
	}
	abort();
}

static uint64_t when(const struct sim *sim, const struct nspy_proc *proc, uint64_t ns)
{
	return nspy_proc_when(proc, sim_shown(sim, (int)proc->rank / sim->per_node, ns));
}

static uint64_t length(const struct sim *sim)
{
	uint64_t ns = 0;

	for (int i = 0; i < sim->ranks; i++)
		ns = sim->all[i].host_ns > ns ? sim->all[i].host_ns : ns;
	return ns;
}

static void judge(const struct sim *sim, const struct nspy_model *model, struct figures *f)
{
	const struct nspy_proc *base = first_clock(model);
	uint64_t span = length(sim);

	for (size_t i = 0; i < model->proc_count; i++) {
		const struct nspy_proc *proc = model->procs[i];
		double errors[MOMENTS];

		if (proc->clock == 0 || proc->rank % sim->per_node)
			continue;
		if (proc->clock_error_ns == NSPY_CLOCK_ERROR_UNKNOWN) {
			f->unknown++;
			continue;
		}
		for (int m = 0; m < MOMENTS; m++) {
			uint64_t ns = span / MOMENTS * (uint64_t)m + span / MOMENTS / 2;

			errors[m] =
				fabs((double)(int64_t)(when(sim, proc, ns) - when(sim, base, ns)));
		}
		add(f, (double)proc->clock_error_ns, errors);
	}
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void one_job(uint64_t seed, int ranks, bool gpu, struct figures *figures)
{
	static struct sim sim;
	const struct nspy_load_options options = {.threads = 1, .now_real_ns = UINT64_MAX / 4};
	char directory[] = "/tmp/nspy-sim-clocks-XXXXXX";
	char *arguments[] = {directory, NULL};
	struct nspy_inputs inputs = {0};

	sim_draw(&sim, seed, SIM_CLEAN, ranks);
	if (!sim.clocks)
		sim_draw_clocks(&sim);
	sim.untraced = sim.torn = -1;
	sim.gpu = gpu;
	sim_run(&sim);
	if (!mkdtemp(directory)) {
		perror(directory);
		exit(2);
	}
	sim_write(&sim, directory);
	nspy_inputs_add_arguments(&inputs, 1, arguments);
	if (inputs.job_count != 1)
		abort();
	nspy_load(inputs.jobs[0], &options);
	judge(&sim, inputs.jobs[0], &figures[gpu ? GPUS : sim.polls]);
	nspy_inputs_done(&inputs);
	(void)nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	sim_free(&sim);
}

/* --- figures --- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double part(double *items, size_t count, double share)
{
	if (!count)
		return 0;
	qsort(items, count, sizeof(*items), compare);
	return items[(size_t)((double)(count - 1) * share)];
}

static bool tell(struct figures *f, const char *name, double bound_max)
{
	double bound = part(f->bounds, f->clocks, 0.5);
	double error = part(f->errors, f->statements, 0.99);

	printf("%s: %zu clocks, %zu without a bound; %zu of %zu statements within it; "
	       "bound %.0f us in the median, error %.0f us in 99 %%\n",
	       name, f->clocks + f->unknown, f->unknown, f->covered, f->statements, bound / 1e3,
	       error / 1e3);
	return f->unknown == 0 && bound <= bound_max &&
	       (double)f->covered >= COVERED_MIN * (double)f->statements;
}

static void metric(const char *name, double value, const char *unit)
{
	printf("{\"bench\":\"clocks\",\"metric\":\"%s\",\"value\":%.2f,\"unit\":\"%s\"}\n", name,
	       value, unit);
}

static void tell_metrics(struct figures *figures)
{
	double waits = part(figures[WAITS].errors, figures[WAITS].statements, 0.99);
	double polls = part(figures[POLLS].errors, figures[POLLS].statements, 0.99);

	metric("clock_error_us_p99", (waits > polls ? waits : polls) / 1e3, "us");
	metric("clock_bound_us_median_waiting",
	       part(figures[WAITS].bounds, figures[WAITS].clocks, 0.5) / 1e3, "us");
	metric("clock_bound_us_median_polling",
	       part(figures[POLLS].bounds, figures[POLLS].clocks, 0.5) / 1e3, "us");
	metric("clock_error_us_p99_gpu",
	       part(figures[GPUS].errors, figures[GPUS].statements, 0.99) / 1e3, "us");
	metric("clock_bound_us_median_gpu",
	       part(figures[GPUS].bounds, figures[GPUS].clocks, 0.5) / 1e3, "us");
}

int main(int argc, char **argv)
{
	struct figures figures[FIGURES] = {0};
	uint64_t first, count;
	int ranks;
	bool good;

	if (argc < 4) {
		fputs("usage: ncclspy-sim-clocks FIRST COUNT RANKS [--json]\n", stderr);
		return 2;
	}
	first = strtoull(argv[1], NULL, 10);
	count = strtoull(argv[2], NULL, 10);
	ranks = (int)strtol(argv[3], NULL, 10);
	if (ranks < 16 || (ranks & (ranks - 1)))
		return 2;
	for (uint64_t i = 0; i < count; i++) {
		one_job(first + i, ranks, false, figures);
		one_job(first + i, ranks, true, figures);
	}
	good = tell(&figures[WAITS], "hosts that wait", BOUND_MAX_NS);
	good &= tell(&figures[POLLS], "hosts that poll", BOUND_MAX_NS);
	good &= tell(&figures[GPUS], "with times of GPUs", GPU_MAX_NS);
	if (argc > 4 && strcmp(argv[4], "--json") == 0)
		tell_metrics(figures);
	for (int i = 0; i < FIGURES; i++) {
		free(figures[i].bounds);
		free(figures[i].errors);
	}
	return good ? 0 : 1;
}
