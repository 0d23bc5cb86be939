/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "evidence.h"
#include "report.h"
#include "text.h"
#include "who.h"

#define INDENT "       "

struct paint {
	const char *fail, *warn, *info, *pass, *bold, *off;
};

static const struct paint colours = {
	.fail = "\x1b[1;31m",
	.warn = "\x1b[33m",
	.info = "\x1b[36m",
	.pass = "\x1b[32m",
	.bold = "\x1b[1m",
	.off = "\x1b[0m",
};
static const struct paint plain = {"", "", "", "", "", ""};

static void tag(FILE *out, const char *before, const char *name, const char *off)
{
	fprintf(out, "%s[%s]%s ", before, name, off);
}

/* --- head --- */

static void add_states(struct nspy_str *s, const struct nspy_report *report,
		       const struct nspy_totals *t)
{
	struct nspy_procs cut = {0};

	nspy_str_addf(s, "traces: %zu complete", t->complete);
	if (t->running)
		nspy_str_addf(s, ", %zu running", t->running);
	if (t->cut) {
		for (size_t i = 0; i < report->attempt->proc_count; i++) {
			if (report->attempt->procs[i]->state == NSPY_PROC_CUT)
				nspy_procs_add(&cut, report->attempt->procs[i]);
		}
		nspy_str_addf(s, ", %zu cut (", t->cut);
		nspy_add_procs_short(s, cut.items, cut.count);
		nspy_str_add(s, ")");
		free(cut.items);
	}
	if (t->lost)
		nspy_str_addf(s, ", %" PRIu64 " records lost", t->lost);
}

static void print_head(const struct nspy_report *report, FILE *out)
{
	const struct nspy_attempt *attempt = report->attempt;
	struct nspy_str s = {0};
	struct nspy_totals t;
	size_t ranks;

	nspy_report_totals(report, &t);
	nspy_str_addf(&s, "job %s  ", report->model->job);
	if (report->model->attempt_count > 1)
		nspy_str_addf(&s, "attempt %u of %zu  ", attempt->number,
			      report->model->attempt_count);
	ranks = nspy_count_ranks((const struct nspy_proc *const *)attempt->procs,
				 attempt->proc_count);
	nspy_str_addf(&s, "%zu ", ranks);
	if (attempt->world_size > 0 && (size_t)attempt->world_size != ranks)
		nspy_str_addf(&s, "of %" PRId64 " ", attempt->world_size);
	nspy_str_addf(&s, "rank%s on %zu node%s  ", ranks == 1 ? "" : "s", t.hosts,
		      t.hosts == 1 ? "" : "s");
	nspy_add_duration(&s, attempt->end_ns - attempt->start_ns);
	nspy_str_add(&s, "  ");
	nspy_add_count(&s, t.ops);
	nspy_str_add(&s, " operations, ");
	nspy_add_bytes(&s, t.bytes);
	nspy_str_add(&s, "  ");
	add_states(&s, report, &t);
	fprintf(out, "%s\n", s.text);
	nspy_str_done(&s);
}

void nspy_report_print_verdict(const struct nspy_finding *top, FILE *out, bool colour)
{
	const struct paint *paint = colour ? &colours : &plain;

	if (!top) {
		fprintf(out,
			"%sVERDICT: no P0 or P1 finding%s. page: nobody. do: nothing. restart: not "
			"needed\n",
			paint->bold, paint->off);
		return;
	}
	fprintf(out, "%sVERDICT: %s%s. page: %s. do: %s. restart: %s\n", paint->bold, top->cause,
		paint->off, top->owner, top->action, top->restart);
}

/* --- findings --- */

static void print_texts(FILE *out, const char *before, const struct nspy_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		fprintf(out, INDENT "%s%s\n", before, texts->text[i]);
}

/* What to check it by, and what else it could be; for findings that somebody is to act on. */
static void print_structure(const struct nspy_finding *finding, FILE *out)
{
	struct nspy_str s = {0};
	const char *other;

	for (size_t i = 0; i < finding->evidence_count; i++) {
		nspy_str_add(&s, i ? "; " : "evidence: ");
		nspy_add_evidence(&s, &finding->evidence[i]);
	}
	if (s.bytes)
		fprintf(out, INDENT "%s\n", s.text);
	nspy_str_done(&s);
	for (size_t i = 0; i < finding->not_seen.count; i++)
		fprintf(out, "%s%s", i ? "; " : INDENT "not seen: ", finding->not_seen.text[i]);
	fprintf(out, "%s", finding->not_seen.count ? "\n" : "");
	for (size_t i = 0; (other = nspy_alternative(finding->id, i)); i++)
		fprintf(out, "%s%s", i ? "; " : INDENT "or else: ", other);
	fprintf(out, "%s", nspy_alternative(finding->id, 0) ? "\n" : "");
	if (finding->next)
		fprintf(out, INDENT "next: %s\n", finding->next);
}

void nspy_report_print_finding(const struct nspy_finding *finding, FILE *out, bool colour)
{
	const struct paint *paint = colour ? &colours : &plain;
	const struct nspy_catalog *entry = &nspy_catalog[finding->id];

	if (finding->ignored)
		tag(out, paint->info, "SKIP", paint->off);
	else if (finding->priority <= 1)
		tag(out, paint->fail, "FAIL", paint->off);
	else
		tag(out, paint->warn, "WARN", paint->off);
	fprintf(out, "P%d %s %s", finding->priority, entry->id, finding->summary);
	if (finding->confidence != NSPY_CERTAIN)
		fprintf(out, " (%s)", nspy_confidence_name(finding->confidence));
	fprintf(out, " -> references/%s § %d  (ncclspy explain %s)\n", entry->file, entry->section,
		entry->id);
	if (finding->ignored)
		fprintf(out, INDENT "ignored: %s\n", finding->ignored);
	print_texts(out, "", &finding->details);
	print_texts(out, "", &finding->commands);
	print_texts(out, "then: ", &finding->consequences);
	if (finding->priority <= 1 && !finding->ignored)
		print_structure(finding, out);
}

static void print_passes(const struct nspy_report *report, FILE *out, const struct paint *paint)
{
	const struct nspy_attempt *attempt = report->attempt;
	const char *version = NULL;
	struct nspy_str s = {0};
	uint64_t compared = 0;

	for (size_t i = 0; i < attempt->comm_count; i++)
		compared += attempt->comms[i]->low_seq;
	for (size_t i = 0; i < attempt->proc_count && !version; i++)
		version = nspy_proc_fact(attempt->procs[i], "nccl.version");
	if (compared) {
		tag(out, paint->pass, "PASS", paint->off);
		fprintf(out,
			"all ranks seen joined the same operations: %" PRIu64
			" collectives of %zu communicator%s agree in function, size, type and "
			"root%s\n",
			compared, attempt->comm_count, attempt->comm_count == 1 ? "" : "s",
			report->c.coverage.holes ? ", as far as they were recorded" : "");
	}
	if (version) {
		tag(out, paint->pass, "PASS", paint->off);
		nspy_add_nccl_version(&s, version);
		fprintf(out, "all ranks seen run the same NCCL (%s)\n", s.text);
		nspy_str_done(&s);
	}
}

static void print_remarks(const struct nspy_report *report, FILE *out, const struct paint *paint)
{
	struct nspy_texts warn = {0}, info = {0};

	nspy_report_remarks(report, &warn, &info);
	nspy_report_costs(report, &info);
	nspy_report_bandwidth(report, &info);
	nspy_report_network(report, &info);
	nspy_report_gpu(report, &info);
	nspy_report_profiler(report, &info);
	for (size_t i = 0; i < warn.count; i++) {
		tag(out, paint->warn, "WARN", paint->off);
		fprintf(out, "%s\n", warn.text[i]);
	}
	for (size_t i = 0; i < info.count; i++) {
		tag(out, paint->info, "INFO", paint->off);
		fprintf(out, "%s\n", info.text[i]);
	}
	nspy_texts_free(&warn);
	nspy_texts_free(&info);
}

void nspy_report_print(const struct nspy_report *report, FILE *out, bool colour)
{
	const struct paint *paint = colour ? &colours : &plain;
	struct nspy_texts not_seen = {0};

	if (!report->attempt) {
		fprintf(out, "job %s  nothing readable\n", report->model->job);
		return;
	}
	print_head(report, out);
	nspy_report_print_verdict(nspy_report_top(report), out, colour);
	for (size_t i = 0; i < report->findings.count; i++)
		nspy_report_print_finding(report->findings.items[i], out, colour);
	if (!nspy_report_top(report))
		print_passes(report, out, paint);
	print_remarks(report, out, paint);
	nspy_report_print_stacks(report, out);
	nspy_report_not_seen(report, &not_seen);
	fprintf(out, "not seen: ");
	for (size_t i = 0; i < not_seen.count; i++)
		fprintf(out, "%s%s", i ? "; " : "", not_seen.text[i]);
	fprintf(out, "\n");
	nspy_texts_free(&not_seen);
}

/* --- what could not be read --- */

static void print_trouble(const struct nspy_proc *proc, size_t i, FILE *out)
{
	const struct nspy_trouble *trouble = &proc->troubles[i];
	size_t more = 0;

	/* One line per file: the first place, and how many more. */
	for (size_t k = 0; k < i; k++) {
		if (strcmp(proc->troubles[k].path, trouble->path) == 0)
			return;
	}
	for (size_t k = i + 1; k < proc->trouble_count; k++)
		more += strcmp(proc->troubles[k].path, trouble->path) == 0;
	fprintf(out, "ncclspy-analyze: %s: %s at offset %" PRIu64, trouble->path,
		trouble->truncated ? "cut off" : nspy_trace_error(trouble->error), trouble->offset);
	if (more)
		fprintf(out, " and %zu more place%s", more, more == 1 ? "" : "s");
	fprintf(out, "%s\n", trouble->fatal ? "" : "; the rest was read");
}

void nspy_report_problems(const struct nspy_inputs *inputs, FILE *out)
{
	for (size_t i = 0; i < inputs->problem_count; i++)
		fprintf(out, "ncclspy-analyze: %s: %s\n", inputs->problems[i].path,
			inputs->problems[i].text);
	for (size_t j = 0; j < inputs->job_count; j++) {
		for (size_t p = 0; p < inputs->jobs[j]->proc_count; p++) {
			const struct nspy_proc *proc = inputs->jobs[j]->procs[p];

			for (size_t i = 0; i < proc->trouble_count; i++)
				print_trouble(proc, i, out);
		}
	}
	nspy_inputs_say_doubled(inputs, out);
}
