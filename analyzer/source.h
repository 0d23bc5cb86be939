/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a process, wherever they lie: by themselves or in a summary. */
#ifndef NSPY_SOURCE_H
#define NSPY_SOURCE_H

#include "model.h"
#include "summary/summary.h"
#include "trace_stacks.h"

/* As nspy_reader_open and nspy_live_open. */
int nspy_input_reader(const struct nspy_input_file *file, struct nspy_reader **ret);
int nspy_input_live(const struct nspy_input_file *file, struct nspy_live **ret);
/* What to call the file where something is said of places in it. The caller frees. */
char *nspy_input_name(const struct nspy_input_file *file);
/* A small text file beside the traces of the process, as nspy_read_text. */
char *nspy_input_text(const struct nspy_proc *proc, const char *path, size_t limit);
/* As nspy_stacks_read. */
int nspy_input_stacks(const struct nspy_proc *proc, const char *path, struct nspy_stacks *ret);

/* The end of a path that is kept in a summary: NODE/FILE. Borrowed from path. */
const char *nspy_path_end(const char *path);

#endif
