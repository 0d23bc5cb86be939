/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives spent on the GPU, in both forms: late arrival told apart from slow transfer. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>

#include "gpu_time.h"
#include "report.h"
#include "text.h"
#include "who.h"

#define SERIES_TOLD 4u
#define OPS_MIN     5u /* fewer are no sample */
#define JSON_MAX    4096u
#define SLOW_TOLD   10u        /* one in so many took twice the median */
#define RATE_MIN    (1u << 20) /* bytes; below, launches count more than wires */

/* --- text --- */

static void add_share(struct nspy_str *s, const struct nspy_gpu_series *series)
{
	double share =
		series->kernel_ns ? 100.0 * (double)series->wait_ns / (double)series->kernel_ns : 0;

	nspy_str_addf(s, "; ranks waited for the last one in %.0f %% of the kernels' time", share);
	if (!series->late)
		return;
	nspy_str_addf(s, " (long in %zu of %zu", series->late, series->ops);
	if (series->last) {
		nspy_str_addf(s, ", in %zu for ", series->last_ops);
		nspy_add_proc_short(s, series->last);
		if (series->last_busy * 2 > series->last_ops)
			nspy_str_add(s, ", whose GPU was still busy with what came before");
		else
			nspy_str_add(s, ", which had called it only then");
	} else {
		nspy_str_add(s, ", for no single rank");
	}
	nspy_str_add(s, ")");
}

static void tell_series(const struct nspy_gpu_series *series, struct nspy_texts *ret)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "  %s", nspy_prof_func_name(series->func));
	if (series->bytes) {
		nspy_str_add(&s, " of ");
		nspy_add_bytes_binary(&s, series->bytes);
	}
	nspy_str_add(&s, " on ");
	if (series->comm)
		nspy_add_comm(&s, series->comm);
	else
		nspy_str_addf(&s, "NCCL's communicator 0x%" PRIx64 " (%" PRId32 " ranks)",
			      series->hash, series->nranks);
	nspy_str_add(&s, series->partial ? ": transfer at most " : ": transfer ");
	nspy_add_duration(&s, series->transfer_median_ns);
	nspy_str_add(&s, " in the median");
	if (series->busbw > 0 && series->bytes >= RATE_MIN) {
		nspy_str_add(&s, series->partial ? " (busbw >= " : " (busbw ");
		nspy_add_bytes(&s, series->busbw);
		nspy_str_add(&s, "/s)");
	}
	nspy_str_add(&s, ", longest ");
	nspy_add_duration(&s, series->transfer_max_ns);
	if (series->slow * SLOW_TOLD >= series->ops)
		nspy_str_addf(&s,
			      ", %zu of %zu took twice the median: the transfer itself was slow",
			      series->slow, series->ops);
	add_share(&s, series);
	nspy_texts_add(ret, nspy_str_take(&s));
}

void nspy_report_gpu(const struct nspy_report *report, struct nspy_texts *ret)
{
	struct nspy_gpu_time time;
	size_t told = 0, more = 0;

	nspy_gpu_time_find(report->attempt, &time);
	for (size_t i = 0; i < time.count; i++) {
		if (time.series[i].ops < OPS_MIN)
			continue;
		if (told == SERIES_TOLD) {
			more++;
			continue;
		}
		if (!told++)
			nspy_texts_add(
				ret, nspy_xstrdup("GPU time of collectives, exact (NCCL's profiler "
						  "interface, the GPUs' clocks), of a sample:"));
		tell_series(&time.series[i], ret);
	}
	if (more)
		nspy_texts_add(ret, nspy_xasprintf("  %zu more in --json", more));
	nspy_gpu_time_done(&time);
}

/* --- JSON --- */

static void add_number_or_null(cJSON *object, const char *name, bool known, double number)
{
	if (known)
		cJSON_AddNumberToObject(object, name, number);
	else
		cJSON_AddNullToObject(object, name);
}

static cJSON *series_json(const struct nspy_gpu_series *series)
{
	cJSON *object = cJSON_CreateObject();
	char text[24] = "";

	if (series->comm)
		(void)snprintf(text, sizeof(text), "%016" PRIx64, series->comm->shown);
	cJSON_AddStringToObject(object, "comm", text);
	(void)snprintf(text, sizeof(text), "0x%" PRIx64, series->hash);
	cJSON_AddStringToObject(object, "nccl_hash", text);
	cJSON_AddStringToObject(object, "function", nspy_prof_func_name(series->func));
	cJSON_AddNumberToObject(object, "ranks", series->nranks);
	add_number_or_null(object, "bytes", series->bytes != 0, (double)series->bytes);
	cJSON_AddNumberToObject(object, "operations", (double)series->ops);
	cJSON_AddNumberToObject(object, "partial", (double)series->partial);
	cJSON_AddNumberToObject(object, "transfer_median_ns", (double)series->transfer_median_ns);
	cJSON_AddNumberToObject(object, "transfer_max_ns", (double)series->transfer_max_ns);
	cJSON_AddNumberToObject(object, "slow", (double)series->slow);
	cJSON_AddNumberToObject(object, "kernel_ns", (double)series->kernel_ns);
	cJSON_AddNumberToObject(object, "wait_ns", (double)series->wait_ns);
	cJSON_AddNumberToObject(object, "late", (double)series->late);
	add_number_or_null(object, "last_rank", series->last && series->last->rank >= 0,
			   series->last ? (double)series->last->rank : 0);
	cJSON_AddNumberToObject(object, "last_in", (double)series->last_ops);
	cJSON_AddNumberToObject(object, "last_gpu_busy_in", (double)series->last_busy);
	add_number_or_null(object, "busbw_bytes_per_s", series->busbw > 0, series->busbw);
	cJSON_AddStringToObject(object, "source", "profiler_kernels");
	return object;
}

cJSON *nspy_report_gpu_json(const struct nspy_report *report)
{
	cJSON *array = cJSON_CreateArray();
	struct nspy_gpu_time time;

	nspy_gpu_time_find(report->attempt, &time);
	for (size_t i = 0; i < time.count && i < JSON_MAX; i++)
		cJSON_AddItemToArray(array, series_json(&time.series[i]));
	nspy_gpu_time_done(&time);
	return array;
}
