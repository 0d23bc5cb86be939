/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what the user named to the processes to be read: directories are searched, files are
 * recognised by content, segments and live pages of one recording are joined by its run id, and
 * recordings are sorted by job.
 *
 * Nothing in the directories is ever written or removed. Symbolic links inside them are not
 * followed.
 */
#ifndef NSPY_INPUTS_H
#define NSPY_INPUTS_H

#include <stdio.h>

#include "model.h"

/* A file or argument that cannot be used, in words. */
struct nspy_problem {
	char *path;
	char *text;
};

struct nspy_inputs {
	struct nspy_model **jobs; /* by first start */
	size_t job_count, job_capacity;
	struct nspy_problem *problems;
	size_t problem_count, problem_capacity;
	struct nspy_map by_run; /* run id -> struct nspy_proc * */
	char **foreign; /* files asked for that are logs or dumps of others; "-" is standard input
			 */
	size_t foreign_count, foreign_capacity;
	char **bundles; /* directories that ncclspy-collect wrote */
	size_t bundle_count, bundle_capacity;
	size_t trace_files;
	size_t stray_exits; /* exit notes of processes without a trace */
	struct nspy_summary_index **summaries;
	size_t summary_count, summary_capacity;
};

/* Directory that holds all jobs: $NCCLSPY_DIR or its documented default. Caller frees. */
char *nspy_inputs_root(void);
/*
 * Adds what lies at an argument: a directory, a file, or the name of a job below the root.
 * Problems are noted, never fatal.
 */
void nspy_inputs_add(struct nspy_inputs *inputs, const char *argument);
/* The directory of the job written to last below root, NULL if there is none. Caller frees. */
char *nspy_inputs_newest_job(const char *root);
/* All arguments, or without any the newest job below the root; then finish. */
void nspy_inputs_add_arguments(struct nspy_inputs *inputs, int count, char **arguments);
/* To be called once after the last add: clocks, order, exit notes. */
void nspy_inputs_finish(struct nspy_inputs *inputs);
void nspy_inputs_done(struct nspy_inputs *inputs);

/* Says which processes were in more than one input; nothing if there are none. */
void nspy_inputs_say_doubled(const struct nspy_inputs *inputs, FILE *out);
/* The same order whether processes come from traces or summaries: by NODE/FILE. */
void nspy_inputs_order(struct nspy_model *model);
/* What a summary holds. */
int nspy_inputs_add_summary(struct nspy_inputs *inputs, const char *path);
/*
 * Reads chunks until one tells whose recording this is. kept: where it lies in a summary, or NULL.
 * 1: the file is a summary.
 */
int nspy_inputs_peek(struct nspy_inputs *inputs, struct nspy_reader *reader,
		     const struct nspy_input_file *file, const char *job);
int nspy_inputs_peek_live(struct nspy_inputs *inputs, const struct nspy_input_file *file,
			  const char *job);

void nspy_inputs_problem(struct nspy_inputs *inputs, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* "written by a newer ncclspy", "damaged", "No such file or directory" */
const char *nspy_trace_error(int error);

#endif
