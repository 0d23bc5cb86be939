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

void nspy_inputs_problem(struct nspy_inputs *inputs, const char *path, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* "written by a newer ncclspy", "damaged", "No such file or directory" */
const char *nspy_trace_error(int error);

#endif
