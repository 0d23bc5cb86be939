/* SPDX-License-Identifier: Apache-2.0 */
#include "clock_gpu.h"

#include <math.h>
#include <stdlib.h>

#include "clock_fit.h"
#include "util.h"

#define OBSERVED_MIN 16u

/* At t of the GPU's clock the host's was y further on, at most; from the first observation. */
struct point {
	double t, y;
};

static int compare_points(const void *a, const void *b)
{
	const struct point *p = a, *q = b;

	if (p->t != q->t)
		return p->t < q->t ? -1 : 1;
	return p->y < q->y ? -1 : p->y > q->y;
}

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void add_point(struct nspy_clock_gpu *clock, struct point *points, size_t *count,
		      uint64_t gpu_ns, uint64_t host_ns)
{
	double t, ahead;

	if (!*count) {
		clock->base_ns = gpu_ns;
		clock->host_ns = host_ns;
	}
	t = (double)(int64_t)(gpu_ns - clock->base_ns);
	ahead = (double)(int64_t)((host_ns - clock->host_ns) - (gpu_ns - clock->base_ns));
	points[(*count)++] = (struct point){t, ahead};
}

static struct point *collect(const struct nspy_prof_view *prof, struct nspy_clock_gpu *clock,
			     size_t *ret_count)
{
	struct point *points;
	size_t count = 0;

	for (size_t i = 0; i < prof->kind_count; i++)
		count += 2 * prof->kinds[i].kernel_count;
	points = nspy_xcalloc(count + 1, sizeof(*points));
	*ret_count = 0;
	for (size_t i = 0; i < prof->kind_count; i++) {
		for (size_t k = 0; k < prof->kinds[i].kernel_count; k++) {
			const struct nspy_prof_kernel *kernel = &prof->kinds[i].kernels[k];

			add_point(clock, points, ret_count, kernel->gpu_start_ns,
				  kernel->saw_start_ns);
			add_point(clock, points, ret_count, kernel->gpu_start_ns + kernel->gpu_ns,
				  kernel->saw_end_ns);
		}
	}
	return points;
}

static bool turns_left(const struct point *a, const struct point *b, const struct point *c)
{
	return (b->t - a->t) * (c->y - a->y) > (b->y - a->y) * (c->t - a->t);
}

/* Leaves only those that a line from below can touch. Returns how many. */
static size_t lower_hull(struct point *points, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && points[kept - 1].t == points[i].t)
			continue;
		while (kept > 1 && !turns_left(&points[kept - 2], &points[kept - 1], &points[i]))
			kept--;
		points[kept++] = points[i];
	}
	return kept;
}

static double median_above(const struct point *points, size_t count, double offset, double rate)
{
	double *above = nspy_xcalloc(count, sizeof(*above)), median;

	for (size_t i = 0; i < count; i++)
		above[i] = points[i].y - offset - rate * points[i].t;
	qsort(above, count, sizeof(*above), compare_numbers);
	median = above[count / 2];
	free(above);
	return median;
}

void nspy_clock_gpu_fit(const struct nspy_prof_view *prof, struct nspy_clock_gpu *ret)
{
	struct nspy_clock_gpu clock = {0};
	struct point *points, *hull;
	size_t count, kept, edge = 1;
	double middle, offset;

	*ret = clock;
	points = collect(prof, &clock, &count);
	if (count < OBSERVED_MIN) {
		free(points);
		return;
	}
	hull = nspy_xcalloc(count, sizeof(*hull));
	qsort(points, count, sizeof(*points), compare_points);
	for (size_t i = 0; i < count; i++)
		hull[i] = points[i];
	kept = lower_hull(hull, count);
	middle = (points[0].t + points[count - 1].t) / 2;
	while (edge + 1 < kept && hull[edge].t < middle)
		edge++;
	if (kept > 1) {
		clock.rate = (hull[edge].y - hull[edge - 1].y) / (hull[edge].t - hull[edge - 1].t);
		offset = hull[edge].y - clock.rate * hull[edge].t;
		clock.host_ns += (uint64_t)(int64_t)offset;
		clock.margin_ns = (uint64_t)median_above(points, count, offset, clock.rate) + 1;
		clock.known = fabs(clock.rate) <= NSPY_CLOCK_RATE_MAX;
	}
	if (clock.known)
		*ret = clock;
	free(hull);
	free(points);
}
