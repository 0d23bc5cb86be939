/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define TRIM          10u /* one batch in so many is cut off at each end */
#define BATCHES_MIN   8u
#define BATCHES_MAX   64u
#define BATCH_SAMPLES 8u /* preferred; fewer if there are too few samples */

void nspy_series_add(struct nspy_series *series, double value)
{
	if (series->stride == 0)
		series->stride = 1;
	if (series->offered++ % series->stride)
		return;
	if (series->count == NSPY_SERIES_MAX) {
		for (size_t i = 0; i < NSPY_SERIES_MAX / 2; i++)
			series->values[i] = series->values[i * 2];
		series->count = NSPY_SERIES_MAX / 2;
		series->stride *= 2;
	}
	series->values = nspy_grow(series->values, series->count, &series->capacity,
				   sizeof(*series->values));
	series->values[series->count++] = value;
}

void nspy_series_done(struct nspy_series *series)
{
	free(series->values);
	*series = (struct nspy_series){0};
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double quantile(const double *sorted, size_t count, double q)
{
	double place = q * (double)(count - 1);
	size_t low = (size_t)place;

	if (low + 1 >= count)
		return sorted[count - 1];
	return sorted[low] + (place - (double)low) * (sorted[low + 1] - sorted[low]);
}

/* Means of batches of neighbours, in the order of time. Returns how many. */
static size_t make_batches(const struct nspy_series *series, double *means)
{
	size_t batches = series->count / BATCH_SAMPLES;

	batches = batches < BATCHES_MIN ? BATCHES_MIN : batches;
	batches = batches > BATCHES_MAX ? BATCHES_MAX : batches;
	batches = batches > series->count ? series->count : batches;
	for (size_t i = 0; i < batches; i++) {
		size_t from = i * series->count / batches;
		size_t until = (i + 1) * series->count / batches;
		double sum = 0;

		for (size_t k = from; k < until; k++)
			sum += series->values[k];
		means[i] = sum / (double)(until - from);
	}
	return batches;
}

/* How much the error grows because each batch resembles the one before. */
static double kinship(const double *means, size_t count, double center)
{
	double square = 0, next = 0, like;

	for (size_t i = 0; i < count; i++) {
		square += (means[i] - center) * (means[i] - center);
		if (i)
			next += (means[i] - center) * (means[i - 1] - center);
	}
	like = square > 0 ? next / square : 0;
	like = like < 0 ? 0 : like > 0.9 ? 0.9 : like;
	return sqrt((1 + like) / (1 - like));
}

/* Mean of the batches without the extreme ones, and its error from the winsorized variance. */
static void trimmed(const struct nspy_series *series, struct nspy_summary *ret)
{
	double means[BATCHES_MAX], sorted[BATCHES_MAX], square = 0, middle = 0;
	size_t count = make_batches(series, means), cut = count / TRIM;

	memcpy(sorted, means, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_doubles);
	ret->center = 0;
	for (size_t i = cut; i < count - cut; i++)
		ret->center += sorted[i] / (double)(count - 2 * cut);
	if (count < BATCHES_MIN)
		return;
	for (size_t i = 0; i < count; i++) {
		means[i] = fmin(fmax(means[i], sorted[cut]), sorted[count - 1 - cut]);
		middle += means[i] / (double)count;
	}
	for (size_t i = 0; i < count; i++)
		square += (means[i] - middle) * (means[i] - middle);
	ret->error = sqrt(square / (double)(count - 1) / (double)count) * (double)count /
		     (double)(count - 2 * cut) * kinship(means, count, middle);
}

void nspy_series_summary(const struct nspy_series *series, struct nspy_summary *ret)
{
	double *sorted;

	*ret = (struct nspy_summary){.error = NAN, .count = series->offered};
	if (series->count == 0)
		return;
	sorted = nspy_xcalloc(series->count, sizeof(*sorted));
	memcpy(sorted, series->values, series->count * sizeof(*sorted));
	qsort(sorted, series->count, sizeof(*sorted), compare_doubles);
	ret->p50 = quantile(sorted, series->count, 0.5);
	ret->p95 = quantile(sorted, series->count, 0.95);
	ret->p99 = quantile(sorted, series->count, 0.99);
	free(sorted);
	trimmed(series, ret);
}

/* --- Student's t --- */

/* Continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), f;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	f = d;
	for (int m = 1; m <= 500; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double before = f;

		for (int half = 0; half < 2; half++) {
			double term = half ? odd : even;

			d = 1 + term * d;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = 1 + term / c;
			c = fabs(c) < tiny ? tiny : c;
			f *= d * c;
		}
		if (fabs(f - before) < 1e-14 * fabs(f))
			break;
	}
	return f;
}

/* lgamma() keeps the sign in a global; arguments here are positive. */
static double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

static double incomplete_beta(double a, double b, double x)
{
	double front;

	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double nspy_t_tail(double t, double df)
{
	double both;

	if (isinf(t))
		return t > 0 ? 0 : 1;
	both = incomplete_beta(df / 2, 0.5, df / (df + t * t));
	return t > 0 ? both / 2 : 1 - both / 2;
}

double nspy_t_quantile(double p, double df)
{
	double low = -1, high = 1;

	while (nspy_t_tail(low, df) < p)
		low *= 2;
	while (nspy_t_tail(high, df) > p)
		high *= 2;
	for (int i = 0; i < 200 && high - low > 1e-10 * (1 + fabs(low)); i++) {
		double middle = (low + high) / 2;

		if (nspy_t_tail(middle, df) > p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}
