/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into a summary: all files of some processes of the inputs. */
#ifndef NSPY_COLLECT_H
#define NSPY_COLLECT_H

#include "inputs.h"
#include "summary.h"

/* Which processes; texts are borrowed. */
struct nspy_selection {
	const char *host;       /* of the node with this name, NULL = of all */
	uint64_t shard, shards; /* every shards-th node from this one on; 0 shards = all */
};

struct nspy_collected {
	size_t procs, files;
	uint64_t bytes;    /* of the files */
	size_t unreadable; /* files that could not be read; told on stderr */
};

/* Numbers the nodes, for shards. To be called before nspy_collect. */
bool nspy_selected(const struct nspy_inputs *inputs, const struct nspy_selection *selection,
		   const struct nspy_proc *proc);
/* Adds the selected processes of a job, or of all if it is NULL. An error is of writing. */
int nspy_collect(struct nspy_inputs *inputs, const struct nspy_model *job,
		 const struct nspy_selection *selection, struct nspy_summary_writer *writer,
		 struct nspy_collected *ret);

#endif
