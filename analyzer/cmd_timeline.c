/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "inputs.h"
#include "load.h"
#include "term.h"
#include "text.h"
#include "timeline/timeline.h"

enum { OPT_AROUND = 256, OPT_ATTEMPT, OPT_COMM, OPT_FINDING, OPT_FROM, OPT_MAX_SIZE, OPT_RANKS };
enum { OPT_TO = OPT_RANKS + 1, OPT_WINDOW };

#define BUFFER_BYTES (1u << 20)

static const struct option long_options[] = {
	{"around", required_argument, NULL, OPT_AROUND},
	{"attempt", required_argument, NULL, OPT_ATTEMPT},
	{"comm", required_argument, NULL, OPT_COMM},
	{"finding", required_argument, NULL, OPT_FINDING},
	{"from", required_argument, NULL, OPT_FROM},
	{"max-size", required_argument, NULL, OPT_MAX_SIZE},
	{"output", required_argument, NULL, 'o'},
	{"ranks", required_argument, NULL, OPT_RANKS},
	{"to", required_argument, NULL, OPT_TO},
	{"window", required_argument, NULL, OPT_WINDOW},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct options {
	struct nspy_timeline_choice choice;
	const char *output, *from, *to;
	uint64_t attempt, finding; /* 0 = newest; none */
	uint64_t around_comm, around_seq;
	uint64_t window_ns;
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze timeline [OPTION]... -o FILE [DIR|FILE|JOB]...\n"
	      "\n"
	      "Writes a job as a trace for Perfetto (ui.perfetto.dev, opened from disk in the "
	      "browser):\n"
	      "calls and waits of every rank, operations joined by arrows, findings, network "
	      "rates.\n"
	      "\n"
	      "Options:\n"
	      "      --around KEY#N   only the time around operation N of this communicator\n"
	      "      --attempt N      start of the job (default: the newest)\n"
	      "      --comm KEY       only operations of this communicator; other calls stay\n"
	      "      --finding N      only the time around the N-th finding of the report\n"
	      "      --from TIME      only from then on: seconds after the start, or HH:MM:SS in "
	      "UTC\n"
	      "      --max-size MIB   bound of the file, at most 2047; default 256: of what does "
	      "not\n"
	      "                       fit the end is kept, and what is left out is said\n"
	      "  -o, --output FILE    where to write; - is standard output\n"
	      "      --ranks LIST     only these ranks: 0-3,7\n"
	      "      --to TIME        only until then\n"
	      "      --window SEC     how much before and after --around and --finding; default "
	      "1\n"
	      "  -h, --help           show this help and exit\n"
	      "\n"
	      "Exit status: 0, 2 usage, 3 nothing readable or the output cannot be written.\n",
	      out);
}

static bool parse_key(const char *text, char stop, uint64_t *ret_key, const char **ret_rest)
{
	char *end;

	*ret_key = strtoull(text, &end, 16);
	*ret_rest = end;
	return end != text && *end == stop && *ret_key;
}

static bool set_option(struct options *options, int opt, const char *value)
{
	const char *rest;
	uint64_t number;

	switch (opt) {
	case OPT_AROUND:
		return parse_key(value, '#', &options->around_comm, &rest) &&
		       nspy_parse_u64(rest + 1, &options->around_seq) && options->around_seq;
	case OPT_ATTEMPT:
		return nspy_parse_u64(value, &options->attempt) && options->attempt &&
		       options->attempt <= UINT32_MAX;
	case OPT_COMM:
		return parse_key(value, '\0', &options->choice.comm, &rest);
	case OPT_FINDING:
		return nspy_parse_u64(value, &options->finding) && options->finding;
	case OPT_FROM:
		options->from = value;
		return nspy_timeline_parse_time(value, 0, &number);
	case OPT_MAX_SIZE:
		if (!nspy_parse_u64(value, &number) || !number || number > NSPY_TIMELINE_MIB_MAX)
			return false;
		options->choice.limit_bytes = number << 20;
		return true;
	case OPT_RANKS:
		return nspy_timeline_parse_ranks(&options->choice, value);
	case OPT_TO:
		options->to = value;
		return nspy_timeline_parse_time(value, 0, &number);
	case OPT_WINDOW:
		return !strchr(value, ':') &&
		       nspy_timeline_parse_time(value, 0, &options->window_ns);
	default:
		options->output = value;
		return true;
	}
}

static bool fail(const char *text)
{
	fprintf(stderr, "ncclspy-analyze: %s\n", text);
	return false;
}

static void around(struct nspy_timeline_choice *choice, uint64_t first_ns, uint64_t last_ns,
		   uint64_t window_ns)
{
	choice->from_ns = first_ns - window_ns;
	choice->to_ns = last_ns + window_ns;
}

static bool choose_op(struct nspy_timeline *t, uint64_t key, uint64_t seq, uint64_t window_ns)
{
	for (size_t i = 0; i < t->attempt->comm_count; i++) {
		const struct nspy_comm *comm = t->attempt->comms[i];
		const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);

		if (comm->shown != key || !cell)
			continue;
		around(&t->choice, cell->first_ns, cell->last_ns, window_ns);
		return true;
	}
	return fail("no such operation: --around takes an id as findings and export show it");
}

static bool choose_time(struct nspy_timeline *t, const struct options *options)
{
	const struct nspy_findings *findings = &t->report->findings;
	uint64_t start_ns = t->attempt->start_ns;

	if (options->around_seq &&
	    !choose_op(t, options->around_comm, options->around_seq, options->window_ns))
		return false;
	if (options->finding) {
		const struct nspy_finding *finding;
		uint64_t when_ns;

		if (options->finding > findings->count)
			return fail("the report has fewer findings");
		finding = findings->items[options->finding - 1];
		when_ns = finding->when_ns ? finding->when_ns : t->attempt->end_ns;
		around(&t->choice, when_ns, when_ns, options->window_ns);
	}
	if (options->from)
		(void)nspy_timeline_parse_time(options->from, start_ns, &t->choice.from_ns);
	if (options->to)
		(void)nspy_timeline_parse_time(options->to, start_ns, &t->choice.to_ns);
	return true;
}

static void say_what_is_missing(const struct nspy_timeline *t, bool shortened)
{
	const struct nspy_perfetto *p = &t->perfetto;
	struct nspy_str s = {0};

	if (shortened) {
		nspy_str_add(&s, "left out: all before ");
		nspy_add_time(&s, t->choice.from_ns);
		nspy_str_addf(&s,
			      ", which would not fit into %" PRIu64
			      " MiB; choose with --from, --to, --ranks, --comm, or --max-size",
			      t->choice.limit_bytes >> 20);
		fprintf(stderr, "ncclspy-analyze: %s\n", s.text);
	}
	if (p->left_out)
		fprintf(stderr,
			"ncclspy-analyze: left out: %" PRIu64
			" slices and marks beyond the bounds of "
			"the file\n",
			p->left_out);
	if (p->moved)
		fprintf(stderr,
			"ncclspy-analyze: %" PRIu64
			" times contradicted others of their thread and "
			"were moved\n",
			p->moved);
	nspy_str_done(&s);
}

static bool write_file(struct nspy_timeline *t, const char *name)
{
	bool is_stdout = strcmp(name, "-") == 0;
	FILE *out = is_stdout ? stdout : fopen(name, "we");
	bool ok = out != NULL;

	if (ok) {
		(void)setvbuf(out, NULL, _IOFBF, BUFFER_BYTES);
		nspy_timeline_write(t, out);
		ok = !ferror(out) && fflush(out) == 0;
		if (!is_stdout)
			ok = fclose(out) == 0 && ok;
	}
	if (!ok)
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", is_stdout ? "standard output" : name,
			strerror(errno));
	else if (!is_stdout)
		fprintf(stderr,
			"%s: %" PRIu64 " calls, %" PRIu64 " slices, %.1f MiB; open it in "
			"ui.perfetto.dev\n",
			name, t->calls, t->perfetto.slices, (double)t->perfetto.bytes / 1048576.0);
	return ok;
}

static int draw(const struct options *options, struct nspy_model *model)
{
	const struct nspy_load_options load = {.progress = nspy_term_progress()};
	struct nspy_report_options thresholds = {
		.thresholds = {NSPY_HANG_ENDED_NS, NSPY_HANG_RUNNING_NS},
		.attempt = (uint32_t)options->attempt,
	};
	struct nspy_timeline t = {.model = model, .choice = options->choice};
	struct nspy_report report;
	int rc = NSPY_EXIT_NOTHING;

	nspy_load(model, &load);
	nspy_report_make(&report, model, &thresholds);
	t.report = &report;
	t.attempt = report.attempt;
	if (!t.attempt) {
		(void)fail("the job has no such attempt");
	} else if (!choose_time(&t, options)) {
		rc = NSPY_EXIT_USAGE;
	} else {
		bool shortened = nspy_timeline_shorten(&t);

		if (write_file(&t, options->output)) {
			say_what_is_missing(&t, shortened);
			rc = NSPY_EXIT_OK;
		}
	}
	nspy_report_done(&report);
	return rc;
}

static int run(int argc, char **argv)
{
	struct options options = {
		.choice = {.limit_bytes = (uint64_t)NSPY_TIMELINE_MIB << 20},
		.window_ns = NSPY_NS_PER_S,
	};
	struct nspy_inputs inputs = {0};
	int opt, rc = NSPY_EXIT_NOTHING;

	while ((opt = getopt_long(argc, argv, "ho:", long_options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return NSPY_EXIT_OK;
		}
		if (opt == '?')
			return nspy_cmd_try_help(&nspy_cmd_timeline);
		if (!set_option(&options, opt, optarg)) {
			fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
			return nspy_cmd_try_help(&nspy_cmd_timeline);
		}
	}
	if (!options.output) {
		(void)fail("where to? give -o FILE");
		return nspy_cmd_try_help(&nspy_cmd_timeline);
	}
	nspy_inputs_add_arguments(&inputs, argc - optind, argv + optind);
	if (inputs.job_count > 1) {
		(void)fail("several jobs: name one");
		rc = NSPY_EXIT_USAGE;
	} else if (inputs.job_count) {
		rc = draw(&options, inputs.jobs[0]);
	}
	nspy_report_problems(&inputs, stderr);
	nspy_inputs_done(&inputs);
	return rc;
}

const struct nspy_cmd nspy_cmd_timeline = {
	.name = "timeline",
	.help = "a picture of the job for Perfetto",
	.run = run,
};
