/* SPDX-License-Identifier: Apache-2.0 */
/* Prints traces record by record. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "dump.h"
#include "inputs.h"
#include "load.h"
#include "source.h"
#include "trace_live.h"

enum { OPT_JSON = 256, OPT_RANK, OPT_COMM, OPT_OP, OPT_NO_COLOR };

static const struct option long_options[] = {
	{"json", no_argument, NULL, OPT_JSON},
	{"rank", required_argument, NULL, OPT_RANK},
	{"comm", required_argument, NULL, OPT_COMM},
	{"op", required_argument, NULL, OPT_OP},
	{"no-color", no_argument, NULL, OPT_NO_COLOR},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze dump [OPTION]... [DIR|FILE|JOB]...\n"
	      "\n"
	      "Prints the traces, one line per record, process after process in the order in "
	      "which\n"
	      "it was written. Times are UTC, durations follow the time.\n"
	      "\n"
	      "Options:\n"
	      "      --comm KEY  only records of the communicator with this key (as printed)\n"
	      "      --json      one JSON object per line\n"
	      "      --no-color  accepted for symmetry; the output has no colour\n"
	      "      --op N      only calls of the operation with this number (of a message: the "
	      "N-th\n"
	      "                  to or from a peer); with --comm as reports name their evidence\n"
	      "      --rank N    only the process with this rank\n"
	      "  -h, --help      show this help and exit\n"
	      "\n"
	      "Exit status: 0, 2 usage, 3 nothing readable.\n",
	      out);
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct nspy_dump *dump)
{
	char *end;
	int opt;

	while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (opt) {
		case 'h':
			usage(stdout);
			return NSPY_EXIT_OK;
		case OPT_JSON:
			dump->json = true;
			break;
		case OPT_RANK:
			if (!nspy_parse_i64(optarg, &dump->rank) || dump->rank < 0)
				goto bad;
			break;
		case OPT_COMM:
			dump->comm_key = strtoull(optarg, &end, 16);
			if (*end || end == optarg || !dump->comm_key)
				goto bad;
			break;
		case OPT_OP:
			if (!nspy_parse_u64(optarg, &dump->op) || !dump->op)
				goto bad;
			break;
		case OPT_NO_COLOR:
			break;
		default:
			return nspy_cmd_try_help(&nspy_cmd_dump);
		}
	}
	return -1;
bad:
	fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
	return nspy_cmd_try_help(&nspy_cmd_dump);
}

static void dump_chunk(struct nspy_dump *dump, struct nspy_loader *loader, struct nspy_proc *proc,
		       const struct nspy_chunk_info *info, const uint8_t *payload)
{
	struct nspy_state state;
	size_t count;

	switch (info->kind) {
	case NSPY_CHUNK_IDENT:
		nspy_ingest_ident(proc, payload, info->raw_bytes);
		nspy_dump_ident(dump, proc, payload, info->raw_bytes);
		break;
	case NSPY_CHUNK_SCHEMA:
		nspy_ingest_schema(loader->model, proc, payload, info->raw_bytes);
		break;
	case NSPY_CHUNK_STATE:
	case NSPY_CHUNK_END:
		if (nspy_state_decode(payload, info->raw_bytes, &state, loader->comms,
				      NSPY_STATE_COMMS_MAX, loader->open, NSPY_STATE_OPEN_MAX) == 0)
			nspy_dump_state(dump, proc, info->kind == NSPY_CHUNK_END ? "end" : "state",
					&state, loader->comms, loader->open);
		break;
	case NSPY_CHUNK_OPS:
		if (nspy_ops_decode(payload, info->raw_bytes, loader->records,
				    NSPY_CHUNK_RECORDS_MAX, &count) == 0)
			nspy_dump_records(dump, proc, info->thread_serial, loader->records, count);
		break;
	case NSPY_CHUNK_NET:
		nspy_dump_net(dump, proc, info->last_ns, payload, info->raw_bytes);
		break;
	case NSPY_CHUNK_NOTE:
		nspy_dump_note(dump, proc, info->last_ns, payload, info->raw_bytes);
		break;
	case NSPY_CHUNK_PROF:
		nspy_dump_prof(dump, proc, payload, info->raw_bytes);
		break;
	default:
		break;
	}
}

static void dump_segment(struct nspy_dump *dump, struct nspy_loader *loader, struct nspy_proc *proc,
			 const struct nspy_input_file *file)
{
	struct nspy_chunk_info info;
	struct nspy_reader *reader;
	const uint8_t *payload;
	char *path = nspy_input_name(file);
	int rc = nspy_input_reader(file, &reader);

	if (rc < 0) {
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, nspy_trace_error(rc));
		free(path);
		return;
	}
	for (;;) {
		uint64_t offset = nspy_reader_offset(reader);

		rc = nspy_reader_next(reader, &info, &payload);
		if (rc == -ENODATA || rc == -ENOMEM)
			break;
		if (rc < 0)
			fprintf(stderr, "ncclspy-analyze: %s: %s at offset %" PRIu64 "\n", path,
				nspy_trace_error(rc), offset);
		else if (info.run_id == proc->run_id)
			dump_chunk(dump, loader, proc, &info, payload);
	}
	nspy_reader_free(reader);
	free(path);
}

/* Records that are in no segment yet, and the calls that were open. */
static void dump_live(struct nspy_dump *dump, struct nspy_loader *loader, struct nspy_proc *proc)
{
	struct nspy_live *live;
	const char *path;
	const uint8_t *schema;
	uint64_t first_index;
	uint32_t serial;
	size_t count, bytes;

	if (nspy_load_live(proc, &live, &path) < 0)
		return;
	schema = nspy_live_schema(live, &bytes);
	if (schema)
		nspy_ingest_schema(loader->model, proc, schema, bytes);
	for (size_t i = 0; i < nspy_live_page_count(live); i++) {
		if (nspy_live_page(live, i, &serial, &first_index, loader->records,
				   NSPY_CHUNK_RECORDS_MAX, &count) == 0 &&
		    count > 0)
			nspy_dump_records(dump, proc, serial, loader->records, count);
	}
	if (nspy_live_open_calls(live, loader->open, NSPY_STATE_OPEN_MAX, &count) == 0)
		nspy_dump_open(dump, proc, loader->open, count);
	nspy_live_free(live);
}

static void dump_job(struct nspy_dump *dump, struct nspy_model *model)
{
	struct nspy_loader loader;

	nspy_loader_init(&loader, model, 0);
	dump->model = model;
	for (size_t i = 0; i < model->proc_count; i++) {
		struct nspy_proc *proc = model->procs[i];

		if (dump->rank >= 0 && proc->rank != dump->rank)
			continue;
		for (size_t f = 0; f < proc->file_count; f++) {
			if (proc->files[f].kind == NSPY_FILE_SEGMENT)
				dump_segment(dump, &loader, proc, &proc->files[f]);
		}
		dump_live(dump, &loader, proc);
	}
	nspy_loader_done(&loader);
}

static int run(int argc, char **argv)
{
	struct nspy_dump dump = {.rank = -1};
	struct nspy_inputs inputs = {0};
	int rc = parse(argc, argv, &dump);

	if (rc >= 0)
		return rc;
	nspy_inputs_add_arguments(&inputs, argc - optind, argv + optind);
	for (size_t i = 0; i < inputs.job_count; i++)
		dump_job(&dump, inputs.jobs[i]);
	fflush(stdout);
	for (size_t i = 0; i < inputs.problem_count; i++)
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", inputs.problems[i].path,
			inputs.problems[i].text);
	rc = inputs.job_count ? NSPY_EXIT_OK : NSPY_EXIT_NOTHING;
	nspy_inputs_done(&inputs);
	return rc;
}

const struct nspy_cmd nspy_cmd_dump = {
	.name = "dump",
	.help = "the traces, record by record",
	.run = run,
};
