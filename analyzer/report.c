/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "evidence.h"
#include "suggest.h"
#include "text.h"
#include "who.h"

void nspy_report_make(struct nspy_report *report, const struct nspy_model *model,
		      const struct nspy_report_options *options)
{
	*report = (struct nspy_report){.model = model};
	if (model->attempt_count == 0)
		return;
	report->attempt = &model->attempts[model->attempt_count - 1];
	if (options->attempt && options->attempt <= model->attempt_count)
		report->attempt = &model->attempts[options->attempt - 1];
	nspy_case_init(&report->c, model, report->attempt, &options->thresholds);
	nspy_detect_all(&report->c, &report->findings);
	nspy_evidence_complete(&report->c, &report->findings);
	nspy_report_read_stacks(report);
	for (size_t i = 0; i < report->findings.count; i++)
		nspy_suggest(report->findings.items[i]);
}

void nspy_report_done(struct nspy_report *report)
{
	nspy_findings_done(&report->findings);
	nspy_report_stacks_done(report);
	if (report->attempt)
		nspy_case_done(&report->c);
}

const struct nspy_finding *nspy_report_top(const struct nspy_report *report)
{
	for (size_t i = 0; i < report->findings.count; i++) {
		const struct nspy_finding *finding = report->findings.items[i];

		if (finding->priority <= 1 && !finding->ignored)
			return finding;
	}
	return NULL;
}

int nspy_report_worst(const struct nspy_report *report)
{
	int worst = 9;

	for (size_t i = 0; i < report->findings.count; i++) {
		if (!report->findings.items[i]->ignored &&
		    report->findings.items[i]->priority < worst)
			worst = report->findings.items[i]->priority;
	}
	return worst;
}

void nspy_texts_free(struct nspy_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->text[i]);
	free(texts->text);
	*texts = (struct nspy_texts){0};
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t count_hosts(const struct nspy_attempt *attempt)
{
	const char **hosts = nspy_xcalloc(attempt->proc_count, sizeof(const char *));
	size_t count = 0;

	for (size_t i = 0; i < attempt->proc_count; i++)
		hosts[i] = nspy_proc_host(attempt->procs[i]);
	qsort(hosts, attempt->proc_count, sizeof(const char *), compare_texts);
	for (size_t i = 0; i < attempt->proc_count; i++)
		count += i == 0 || strcmp(hosts[i], hosts[i - 1]) != 0;
	free(hosts);
	return count;
}

void nspy_report_totals(const struct nspy_report *report, struct nspy_totals *ret)
{
	struct nspy_totals t = {.hosts = count_hosts(report->attempt)};

	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *proc = report->attempt->procs[i];

		t.ops += proc->ops;
		t.records += proc->records;
		t.calls += proc->calls;
		t.lost += nspy_proc_lost_records(proc);
		t.captured += proc->captured;
		t.unnumbered += proc->unnumbered;
		t.cuda_errors += proc->cuda_errors;
		t.bytes += (double)proc->bytes;
		t.packed_bytes += proc->packed_bytes;
		t.complete += proc->state == NSPY_PROC_COMPLETE;
		t.cut += proc->state == NSPY_PROC_CUT;
		t.running += proc->state == NSPY_PROC_RUNNING;
		t.salvaged += proc->live_read && proc->state == NSPY_PROC_CUT;
	}
	*ret = t;
}

/* --- coverage --- */

static void add_missing_traces(const struct nspy_report *report, struct nspy_str *s)
{
	const struct nspy_coverage *coverage = &report->c.coverage;

	nspy_add_ranges(s, coverage->ranks, coverage->count);
	nspy_str_add(s, " of ");
	nspy_add_comm(s, coverage->comm);
}

static bool has_gpu_times(const struct nspy_attempt *attempt)
{
	for (size_t i = 0; attempt && i < attempt->proc_count; i++)
		for (size_t k = 0; k < attempt->procs[i]->prof.kind_count; k++)
			if (attempt->procs[i]->prof.kinds[k].exact.count)
				return true;
	return false;
}

void nspy_report_not_seen(const struct nspy_report *report, struct nspy_texts *ret)
{
	const struct nspy_coverage *coverage = &report->c.coverage;
	struct nspy_str s = {0};

	nspy_texts_add(
		ret, nspy_xstrdup(has_gpu_times(report->attempt)
					  ? "GPU-side times but those of NCCL's profiler interface"
					  : "GPU-side times (host calls only)"));
	if (report->model->clock_error_ns == NSPY_CLOCK_ERROR_UNKNOWN) {
		nspy_texts_add(ret, nspy_xstrdup("clocks of different hosts are aligned by their "
						 "system time only"));
	} else if (report->model->clock_count > 1) {
		nspy_str_add(&s, "clocks of different hosts may be apart by up to ");
		nspy_add_duration(&s, report->model->clock_error_ns);
		nspy_texts_add(ret, nspy_str_take(&s));
	}
	if (coverage->count) {
		nspy_str_add(&s, "ranks without a trace: ");
		add_missing_traces(report, &s);
		nspy_texts_add(ret, nspy_str_take(&s));
	}
	if (coverage->lost)
		nspy_texts_add(ret, nspy_xasprintf("%" PRIu64 " lost records", coverage->lost));
	nspy_report_not_kept(report, ret);
	if (coverage->captured)
		nspy_texts_add(ret,
			       nspy_xasprintf("%" PRIu64 " operations captured into graphs are "
					      "not compared",
					      coverage->captured));
	if (report->model->refused_ops)
		nspy_texts_add(ret, nspy_xasprintf("%" PRIu64 " operations beyond what is matched",
						   report->model->refused_ops));
}

static void remark_losses(const struct nspy_report *report, struct nspy_texts *warn)
{
	static const char *const names[NSPY_LOSS_COUNT] = {
		[NSPY_LOSS_RECORDS_NO_PAGE] = "records dropped in bursts",
		[NSPY_LOSS_RECORDS_NO_SLOT] = "records dropped: too many threads at once",
		[NSPY_LOSS_RECORDS_WRITE] = "records the disk refused",
		[NSPY_LOSS_RECORDS_RING] = "older records removed to keep the disk quota",
		[NSPY_LOSS_COMMS] = "communicators beyond the table",
		[NSPY_LOSS_CALLS_DEPTH] = "calls nested too deeply",
		[NSPY_LOSS_SEQ] = "p2p calls without a number",
	};

	for (int kind = 0; kind < NSPY_LOSS_COUNT; kind++) {
		struct nspy_procs lossy = {0};
		struct nspy_str s = {0};
		uint64_t count = 0;

		for (size_t i = 0; i < report->attempt->proc_count; i++) {
			const struct nspy_proc *proc = report->attempt->procs[i];

			count += proc->loss[kind];
			if (proc->loss[kind])
				nspy_procs_add(&lossy, proc);
		}
		if (count) {
			nspy_str_addf(&s, "%" PRIu64 " %s on ", count, names[kind]);
			nspy_add_procs_short(&s, lossy.items, lossy.count);
			nspy_texts_add(warn, nspy_str_take(&s));
		}
		free(lossy.items);
	}
}

static void remark_coverage(const struct nspy_report *report, struct nspy_texts *warn)
{
	const struct nspy_coverage *coverage = &report->c.coverage;
	struct nspy_str s = {0};

	if (!coverage->count)
		return;
	nspy_str_addf(&s, "%zu of %" PRId32 " ranks traced; no ncclspy on ranks ",
		      coverage->comm->rank_count, coverage->comm->nranks);
	add_missing_traces(report, &s);
	nspy_texts_add(warn, nspy_str_take(&s));
}

/* Less is no matter for an operator. */
#define CLOCK_OFF_MIN_NS (5 * (int64_t)NSPY_NS_PER_MS)

static void remark_clocks(const struct nspy_report *report, struct nspy_texts *warn)
{
	const struct nspy_attempt *attempt = report->attempt;
	const char **hosts = nspy_xcalloc(attempt->proc_count, sizeof(*hosts));
	struct nspy_str s = {0};
	size_t count = 0;

	for (size_t i = 0; i < attempt->proc_count; i++) {
		if (llabs(attempt->procs[i]->clock_corrected_ns) >= CLOCK_OFF_MIN_NS)
			hosts[count++] = nspy_proc_host(attempt->procs[i]);
	}
	if (count) {
		nspy_str_add(&s, "the system time of ");
		nspy_add_hostlist(&s, hosts, count);
		nspy_str_add(&s,
			     " is off and was corrected here; have time synchronisation checked");
		nspy_texts_add(warn, nspy_str_take(&s));
	}
	free(hosts);
}

/* Notes of the recorder, the same one of many ranks once. */
static void remark_notes(const struct nspy_report *report, struct nspy_texts *info)
{
	const struct nspy_attempt *attempt = report->attempt;
	struct nspy_map seen = {0};
	size_t told = 0;

	for (size_t i = 0; i < attempt->proc_count; i++) {
		for (size_t n = 0; n < attempt->procs[i]->note_count && told < 8; n++) {
			const char *note = attempt->procs[i]->notes[n];
			struct nspy_str s = {0};
			uint64_t key = 1;

			for (const char *p = note; *p; p++)
				key = nspy_mix(key + (unsigned char)*p);
			if (nspy_map_get(&seen, key))
				continue;
			nspy_map_put(&seen, key, (void *)(uintptr_t)note);
			nspy_add_proc_short(&s, attempt->procs[i]);
			nspy_str_addf(&s, ": %s", note);
			nspy_texts_add(info, nspy_str_take(&s));
			told++;
		}
	}
	nspy_map_done(&seen);
}

/* The first failure of the CUDA runtime stands for all: later ones often follow from it. */
static void remark_cuda_errors(const struct nspy_report *report, uint64_t count,
			       struct nspy_texts *info)
{
	const struct nspy_proc *who = NULL;
	const struct nspy_error *first = NULL;
	struct nspy_str s = {0};

	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *proc = report->attempt->procs[i];

		for (size_t e = 0; e < proc->error_count; e++) {
			const struct nspy_error *error = &proc->errors[e];

			if (nspy_model_get_fn(report->model, error->fn)->lib != NSPY_MODEL_CUDART ||
			    (first && first->first_ns <= error->first_ns))
				continue;
			first = error;
			who = proc;
		}
	}
	nspy_str_addf(&s, "%" PRIu64 " CUDA runtime call%s failed", count, count == 1 ? "" : "s");
	if (first) {
		nspy_str_addf(&s, ", first %s = %s (%d) on ",
			      nspy_model_get_fn(report->model, first->fn)->name,
			      nspy_model_result(report->model, NSPY_MODEL_CUDART, first->code),
			      first->code);
		nspy_add_proc(&s, who);
		nspy_str_add(&s, " at ");
		nspy_add_clock(&s, first->first_ns);
	}
	nspy_texts_add(info, nspy_str_take(&s));
}

void nspy_report_remarks(const struct nspy_report *report, struct nspy_texts *ret_warn,
			 struct nspy_texts *ret_info)
{
	const struct nspy_model *model = report->model;
	struct nspy_totals t;

	nspy_report_totals(report, &t);
	remark_coverage(report, ret_warn);
	remark_losses(report, ret_warn);
	nspy_report_holes(report, ret_warn);
	remark_clocks(report, ret_warn);
	if (report->c.coverage.damaged)
		nspy_texts_add(ret_warn,
			       nspy_xasprintf("damage in %zu place%s of the traces; "
					      "ncclspy-analyze check tells more",
					      report->c.coverage.damaged,
					      report->c.coverage.damaged == 1 ? "" : "s"));
	if (t.cuda_errors)
		remark_cuda_errors(report, t.cuda_errors, ret_info);
	if (t.running)
		nspy_texts_add(ret_info,
			       nspy_xasprintf("%zu process%s still running: this is a "
					      "view of this moment",
					      t.running, t.running == 1 ? " is" : "es are"));
	for (uint32_t i = 0; i < model->attempt_count; i++) {
		const struct nspy_attempt *other = &model->attempts[i];
		struct nspy_str s = {0};

		if (other == report->attempt || model->attempt_count > 9)
			continue;
		nspy_str_addf(&s, "attempt %u: %zu ranks, began ", other->number,
			      other->proc_count);
		nspy_add_time(&s, other->start_ns);
		nspy_str_add(&s, ", lasted ");
		nspy_add_duration(&s, other->end_ns - other->start_ns);
		nspy_str_addf(&s, " (--attempt %u)", other->number);
		nspy_texts_add(ret_info, nspy_str_take(&s));
	}
	remark_notes(report, ret_info);
	nspy_report_account(report, ret_info);
}
