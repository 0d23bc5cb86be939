/* SPDX-License-Identifier: Apache-2.0 */
/* Says of each trace file whether it is whole, and of each process what was lost or saved. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "inputs.h"
#include "load.h"
#include "report.h"
#include "source.h"
#include "term.h"
#include "text.h"
#include "trace_live.h"
#include "who.h"

enum { OPT_JSON = 256, OPT_NO_COLOR };

static const struct option long_options[] = {
	{"json", no_argument, NULL, OPT_JSON},
	{"no-color", no_argument, NULL, OPT_NO_COLOR},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze check [OPTION]... [DIR|FILE|JOB]...\n"
	      "\n"
	      "Reads every chunk of every trace file and says which files are whole, where others "
	      "are\n"
	      "damaged or cut off, what each process lost while recording and what its live pages\n"
	      "saved. A trace that ends without a closing chunk is normal after a crash.\n"
	      "\n"
	      "Options:\n"
	      "      --json      machine-readable output\n"
	      "      --no-color  accepted for symmetry; the output has no colour\n"
	      "  -h, --help      show this help and exit\n"
	      "\n"
	      "Exit status: 0 all files whole, 1 damage, 2 usage, 3 nothing readable.\n",
	      out);
}

/* What reading one file from end to end showed. */
struct verdict {
	const char *state; /* ok, cut, damaged, unreadable */
	int error;
	uint64_t offset; /* of the first damage */
	size_t damaged_places;
	uint64_t chunks;
	uint64_t records;
	bool bad;
};

static void note_damage(struct verdict *v, int error, uint64_t offset, bool truncated)
{
	if (v->damaged_places++ > 0)
		return;
	v->state = truncated ? "cut" : "damaged";
	v->error = error;
	v->offset = offset;
	v->bad = true;
}

static int decode_net(const uint8_t *payload, size_t bytes)
{
	struct nspy_net_view net = {0};
	int rc = nspy_net_ingest(&net, payload, bytes, 0);

	nspy_net_done(&net);
	return rc;
}

static int decode_note(const uint8_t *payload, size_t bytes)
{
	struct nspy_account account = {0};
	int rc = nspy_account_ingest(&account, payload, bytes);

	nspy_account_done(&account);
	return rc;
}

static int decode_prof(const uint8_t *payload, size_t bytes)
{
	struct nspy_prof_view prof = {0};
	int rc = nspy_prof_ingest(&prof, payload, bytes);

	nspy_prof_done(&prof);
	return rc;
}

static int decode(const struct nspy_chunk_info *info, const uint8_t *payload,
		  struct nspy_loader *scratch)
{
	struct nspy_state state;
	size_t count;

	if (info->kind == NSPY_CHUNK_OPS)
		return nspy_ops_decode(payload, info->raw_bytes, scratch->records,
				       NSPY_CHUNK_RECORDS_MAX, &count);
	if (info->kind == NSPY_CHUNK_STATE || info->kind == NSPY_CHUNK_END)
		return nspy_state_decode(payload, info->raw_bytes, &state, scratch->comms,
					 NSPY_STATE_COMMS_MAX, scratch->open, NSPY_STATE_OPEN_MAX);
	if (info->kind == NSPY_CHUNK_NET)
		return decode_net(payload, info->raw_bytes);
	if (info->kind == NSPY_CHUNK_NOTE)
		return decode_note(payload, info->raw_bytes);
	if (info->kind == NSPY_CHUNK_PROF)
		return decode_prof(payload, info->raw_bytes);
	return 0;
}

static struct verdict check_segment(const struct nspy_input_file *file, struct nspy_loader *scratch)
{
	struct verdict v = {.state = "ok"};
	struct nspy_reader *reader;
	struct nspy_chunk_info info;
	const uint8_t *payload;
	int rc = nspy_input_reader(file, &reader);

	if (rc < 0)
		return (struct verdict){.state = "unreadable", .error = rc, .bad = true};
	for (;;) {
		uint64_t offset = nspy_reader_offset(reader);

		rc = nspy_reader_next(reader, &info, &payload);
		if (rc == -ENODATA || rc == -ENOMEM)
			break;
		if (rc == 0)
			rc = decode(&info, payload, scratch);
		if (rc < 0) {
			note_damage(&v, rc, offset, nspy_reader_truncated(reader));
			continue;
		}
		v.chunks++;
		v.records += info.kind == NSPY_CHUNK_OPS ? info.records : 0;
	}
	nspy_reader_free(reader);
	return v;
}

static struct verdict check_live(const struct nspy_input_file *file, struct nspy_loader *scratch)
{
	struct verdict v = {.state = "ok"};
	struct nspy_live *live;
	uint64_t first_index;
	uint32_t serial;
	size_t count;
	int rc = nspy_input_live(file, &live);

	if (rc < 0)
		return (struct verdict){.state = "unreadable", .error = rc, .bad = true};
	for (size_t i = 0; i < nspy_live_page_count(live); i++) {
		rc = nspy_live_page(live, i, &serial, &first_index, scratch->records,
				    NSPY_CHUNK_RECORDS_MAX, &count);
		if (rc < 0)
			note_damage(&v, rc, 0, false);
		else
			v.records += count;
	}
	nspy_live_free(live);
	return v;
}

static const char *kind_name(enum nspy_file_kind kind)
{
	return kind == NSPY_FILE_LIVE ? "live pages" : "segment";
}

static void print_file(const struct nspy_input_file *file, const struct verdict *v)
{
	char *path = nspy_input_name(file);

	nspy_clean(path);
	printf("%-10s %s: %s", v->state, path, kind_name(file->kind));
	if (v->error && file->kind == NSPY_FILE_SEGMENT)
		printf(", %s at offset %" PRIu64, nspy_trace_error(v->error), v->offset);
	else if (v->error)
		printf(", %s", nspy_trace_error(v->error));
	if (v->damaged_places > 1)
		printf(" and %zu more places", v->damaged_places - 1);
	printf(", %" PRIu64 " records, %" PRIu64 " bytes\n", v->records, file->bytes);
	free(path);
}

static void add_file(cJSON *files, const struct nspy_input_file *file, const struct verdict *v)
{
	cJSON *object = cJSON_CreateObject();
	char *path = nspy_input_name(file);

	nspy_clean(path);
	cJSON_AddStringToObject(object, "path", path);
	cJSON_AddStringToObject(object, "kind", kind_name(file->kind));
	cJSON_AddStringToObject(object, "state", v->state);
	cJSON_AddNumberToObject(object, "bytes", (double)file->bytes);
	cJSON_AddNumberToObject(object, "chunks", (double)v->chunks);
	cJSON_AddNumberToObject(object, "records", (double)v->records);
	if (v->error) {
		cJSON_AddStringToObject(object, "problem", nspy_trace_error(v->error));
		cJSON_AddNumberToObject(object, "offset", (double)v->offset);
		cJSON_AddNumberToObject(object, "damaged_places", (double)v->damaged_places);
	}
	cJSON_AddItemToArray(files, object);
	free(path);
}

/* --- processes --- */

static const char *state_name(const struct nspy_proc *proc)
{
	switch (proc->state) {
	case NSPY_PROC_COMPLETE:
		return "complete";
	case NSPY_PROC_RUNNING:
		return "running";
	default:
		return "cut";
	}
}

static uint64_t not_kept(const struct nspy_account *account)
{
	uint64_t records = 0;

	for (size_t i = 0; i < account->hole_count; i++)
		records += account->holes[i].records;
	return records;
}

static void add_account(struct nspy_str *s, const struct nspy_account *account)
{
	if (account->hole_count)
		nspy_str_addf(s, ", %" PRIu64 " not kept as asked (%zu time%s)", not_kept(account),
			      account->hole_count, account->hole_count == 1 ? "" : "s");
	if (account->mode.mode != NSPY_MODE_RECORD)
		nspy_str_addf(s, ", mode %s at the end", nspy_mode_name(account->mode.mode));
	if (account->has_self) {
		nspy_str_add(s, ", ncclspy's threads used ");
		nspy_add_duration(s, account->self.watcher_ns + account->self.writer_ns);
		nspy_str_add(s, " of CPU");
	}
}

static void print_proc(const struct nspy_proc *proc)
{
	struct nspy_str s = {0};

	nspy_add_proc(&s, proc);
	nspy_str_addf(&s,
		      ": %s, %" PRIu64 " records of %" PRIu64 " calls, %" PRIu64 " lost, %zu calls "
		      "open at the end",
		      state_name(proc), proc->records, proc->calls, nspy_proc_lost_records(proc),
		      proc->wait_count);
	if (proc->live_read)
		nspy_str_addf(&s, ", %" PRIu64 " records %s live pages", proc->live_records,
			      proc->state == NSPY_PROC_RUNNING ? "still only in" : "saved from");
	else if (proc->state == NSPY_PROC_CUT)
		nspy_str_add(&s, ", no live pages: its last moments are missing");
	add_account(&s, nspy_proc_account(proc));
	printf("%s\n", s.text);
	nspy_str_done(&s);
}

static void add_proc(cJSON *procs, const struct nspy_proc *proc)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "rank", (double)proc->rank);
	cJSON_AddStringToObject(object, "node", nspy_proc_host(proc));
	cJSON_AddNumberToObject(object, "pid", (double)proc->pid);
	cJSON_AddStringToObject(object, "state", state_name(proc));
	cJSON_AddNumberToObject(object, "records", (double)proc->records);
	cJSON_AddNumberToObject(object, "calls", (double)proc->calls);
	cJSON_AddNumberToObject(object, "lost_records", (double)nspy_proc_lost_records(proc));
	cJSON_AddNumberToObject(object, "not_kept_records",
				(double)not_kept(nspy_proc_account(proc)));
	cJSON_AddStringToObject(object, "mode", nspy_mode_name(nspy_proc_account(proc)->mode.mode));
	cJSON_AddNumberToObject(object, "watcher_cpu_ns",
				(double)nspy_proc_account(proc)->self.watcher_ns);
	cJSON_AddNumberToObject(object, "writer_cpu_ns",
				(double)nspy_proc_account(proc)->self.writer_ns);
	cJSON_AddNumberToObject(object, "open_calls", (double)proc->wait_count);
	cJSON_AddBoolToObject(object, "live_pages", proc->live_read);
	cJSON_AddNumberToObject(object, "saved_records", (double)proc->live_records);
	cJSON_AddItemToArray(procs, object);
}

struct outcome {
	bool json;
	cJSON *files, *procs;
	size_t bad_files, good_files;
};

static void check_job(struct nspy_model *model, struct outcome *outcome)
{
	const struct nspy_load_options options = {.progress = nspy_term_progress()};
	struct nspy_loader scratch;

	nspy_loader_init(&scratch, model, 0);
	for (size_t i = 0; i < model->proc_count; i++) {
		const struct nspy_proc *proc = model->procs[i];

		for (size_t f = 0; f < proc->file_count; f++) {
			const struct nspy_input_file *file = &proc->files[f];
			struct verdict v = file->kind == NSPY_FILE_LIVE
						   ? check_live(file, &scratch)
						   : check_segment(file, &scratch);

			outcome->bad_files += v.bad;
			outcome->good_files += !v.bad;
			add_file(outcome->files, file, &v);
			if (!outcome->json)
				print_file(file, &v);
		}
	}
	nspy_loader_done(&scratch);
	nspy_load(model, &options);
	for (size_t i = 0; i < model->proc_count; i++) {
		add_proc(outcome->procs, model->procs[i]);
		if (!outcome->json)
			print_proc(model->procs[i]);
	}
}

static int print_json(const struct nspy_inputs *inputs, struct outcome *outcome)
{
	cJSON *document = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(document, "schema", "ncclspy.check/1");
	cJSON_AddItemToObject(document, "files", outcome->files);
	cJSON_AddItemToObject(document, "processes", outcome->procs);
	cJSON_AddItemToObject(document, "problems", nspy_report_problems_json(inputs));
	text = cJSON_Print(document);
	cJSON_Delete(document);
	if (!text)
		return NSPY_EXIT_INTERNAL;
	puts(text);
	cJSON_free(text);
	return NSPY_EXIT_OK;
}

static int check_all(struct nspy_inputs *inputs, bool json)
{
	struct outcome outcome = {.json = json};
	int rc = NSPY_EXIT_OK;

	outcome.files = cJSON_CreateArray();
	outcome.procs = cJSON_CreateArray();
	for (size_t i = 0; i < inputs->job_count; i++)
		check_job(inputs->jobs[i], &outcome);
	for (size_t i = 0; i < inputs->problem_count; i++)
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", inputs->problems[i].path,
			inputs->problems[i].text);
	nspy_inputs_say_doubled(inputs, stderr);
	if (json) {
		rc = print_json(inputs, &outcome);
	} else {
		cJSON_Delete(outcome.files);
		cJSON_Delete(outcome.procs);
		printf("%zu files whole, %zu not\n", outcome.good_files,
		       outcome.bad_files + inputs->problem_count);
	}
	if (rc == NSPY_EXIT_OK && (outcome.bad_files || inputs->problem_count))
		rc = NSPY_EXIT_FINDING;
	return inputs->job_count ? rc : NSPY_EXIT_NOTHING;
}

static int run(int argc, char **argv)
{
	struct nspy_inputs inputs = {0};
	bool json = false;
	int opt, rc;

	while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (opt) {
		case 'h':
			usage(stdout);
			return NSPY_EXIT_OK;
		case OPT_JSON:
			json = true;
			break;
		case OPT_NO_COLOR:
			break;
		default:
			return nspy_cmd_try_help(&nspy_cmd_check);
		}
	}
	nspy_inputs_add_arguments(&inputs, argc - optind, argv + optind);
	rc = check_all(&inputs, json);
	nspy_inputs_done(&inputs);
	return rc;
}

const struct nspy_cmd nspy_cmd_check = {
	.name = "check",
	.help = "which trace files are whole, what was lost or saved",
	.run = run,
};
