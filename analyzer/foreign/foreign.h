/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that is no trace of ours, told by content and read into one log. */
#ifndef NSPY_FOREIGN_H
#define NSPY_FOREIGN_H

#include "../logs/log.h"

/*
 * Reads a file, "-" (standard input) or all files of a directory. 0, or negative with a reason in
 * one line ("at offset N" where it has one); what was read before that stays.
 */
int nspy_foreign_add(struct nspy_log *log, const char *path, char *ret_error, size_t error_bytes);
int nspy_foreign_add_stream(struct nspy_log *log, const char *path, struct nspy_stream *stream,
			    char *ret_error, size_t error_bytes);
/* Does the beginning of a file look like text or one of these formats? */
bool nspy_foreign_is(const char *data, size_t bytes);

/* forms.c: JSON documents of other tools; false if the tree is of another kind. */
struct cJSON;
bool nspy_foreign_ras(struct nspy_log *log, const char *path, const struct cJSON *tree);
bool nspy_foreign_tests(struct nspy_log *log, const char *path, const struct cJSON *tree);
/* Lines of NCCL's Inspector. */
void nspy_foreign_inspector(struct nspy_log *log, const char *path, struct nspy_stream *stream);

/* All of a job's files together, once all are read; log->inspector may be NULL. */
struct inspector;
void nspy_inspector_judge(const struct inspector *inspector, struct nspy_model *model,
			  struct nspy_findings *out);
void nspy_inspector_free(struct inspector *inspector);

/* An event that no line of a log stands for. meaning is owned by the event. */
void nspy_foreign_say(struct nspy_log *log, enum nspy_log_rule_id rule,
		      enum nspy_finding_id finding, enum nspy_log_class klass, int priority,
		      int64_t rank, char *meaning);
/* A file that is not read line by line. */
void nspy_foreign_file(struct nspy_log *log, const char *path);

#endif
