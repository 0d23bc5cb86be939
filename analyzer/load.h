/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads all traces of a job into its model: several threads, each with its own decompressor and
 * tables, one process at a time per thread; the tables are joined at the end. Memory is bounded by
 * the distinct operations (32 bytes each), not by the number of records.
 */
#ifndef NSPY_LOAD_H
#define NSPY_LOAD_H

#include "ingest.h"
#include "model.h"

struct nspy_load_options {
	unsigned int threads; /* 0 = by the number of CPUs */
	bool progress;        /* tell on stderr how far it is */
	uint64_t now_real_ns; /* 0 = ask the clock; tests set it */
};

/* Never fails as a whole: what could not be read is in the processes' troubles. */
void nspy_load(struct nspy_model *model, const struct nspy_load_options *options);

/* Reads the files of one process. context: the loader's thread. */
void nspy_load_proc(struct nspy_loader *loader, struct nspy_proc *proc, uint64_t now_real_ns);

/* Gives a call as it stands in the trace the model's function id and aligned times. */
void nspy_place_call(const struct nspy_proc *proc, struct nspy_placed_call *call);

/*
 * The live pages of a process, wherever they are: a salvaged copy among its files or, on this
 * host, the original that IDENT key live.path names. -ENOENT if there is none to be trusted.
 */
struct nspy_live;
int nspy_load_live(const struct nspy_proc *proc, struct nspy_live **ret_live,
		   const char **ret_path);

/* Is the process of this trace alive on this host? */
bool nspy_proc_alive(const struct nspy_proc *proc);
/* Was the trace written by this boot of this machine? */
bool nspy_proc_is_local(const struct nspy_proc *proc);

#endif
