/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Summaries: the traces of some processes in one file, without loss, so that a report on summaries
 * is the report on the traces. docs/SUMMARY.md is the specification.
 *
 * Nothing in a summary is trusted. A damaged place costs what lies there; the rest is read.
 * Errors are negative errno values, as in trace_reader.h.
 * context: an index may be read by several threads; it is freed after all models that use it.
 */
#ifndef NSPY_SUMMARY_H
#define NSPY_SUMMARY_H

#include "map.h"
#include "trace_live.h"
#include "trace_reader.h"
#include "util.h"

#define NSPY_SUMMARY_SUFFIX   ".nspysum"
#define NSPY_SUMMARY_VERSION  1u
#define NSPY_SUMMARY_TEXT_MAX 4096u

/* What a file of a summary is. */
enum nspy_summary_kind {
	NSPY_SUMMARY_SEGMENT = 0,
	NSPY_SUMMARY_LIVE = 1,
	NSPY_SUMMARY_EXIT = 2,    /* an exit note */
	NSPY_SUMMARY_STACKS = 3,  /* stacks read at a hang */
	NSPY_SUMMARY_PROBLEM = 4, /* a file that could not be used; its bytes say why */
};

/* Whether the process was alive on its host when the summary was made. */
enum nspy_life { NSPY_LIFE_UNKNOWN = 0, NSPY_LIFE_ALIVE = 1, NSPY_LIFE_GONE = 2 };

struct nspy_summary_index;

struct nspy_summary_file {
	const struct nspy_summary_index *summary;
	uint32_t number; /* in the summary, from 0 */
	uint32_t kind;   /* enum nspy_summary_kind */
	uint32_t life;   /* enum nspy_life */
	bool recoded;    /* chunks, else bytes as they were */
	uint32_t segment;
	uint64_t run_id;               /* 0 = of no process */
	uint64_t bytes;                /* of the original */
	char *name;                    /* NODE/FILE */
	char *job;                     /* name of the folder that the node's is in */
	uint64_t begin, lead_end, end; /* in the summary; its first chunk ends at lead_end */
};

struct nspy_summary_index {
	char *path;
	uint64_t made_ns; /* wall clock */
	struct nspy_summary_file *files;
	size_t count, capacity;
	struct nspy_map shared; /* id -> struct nspy_shared * */
	bool whole;             /* its last chunk is there */
	uint64_t damaged_at;    /* first damage that the index met with, UINT64_MAX = none */
};

/*
 * Reads what is in a summary, not the records. -EBADMSG: none; -EPROTONOSUPPORT: of a newer
 * ncclspy. Free with nspy_summary_free.
 */
int nspy_summary_open(const char *path, struct nspy_summary_index **ret);
void nspy_summary_free(struct nspy_summary_index *summary);
/* By NODE/FILE; NULL if it is not there. */
const struct nspy_summary_file *nspy_summary_find(const struct nspy_summary_index *summary,
						  const char *name);

/* The chunks of a segment, as from its file. */
int nspy_summary_reader(const struct nspy_summary_file *file, struct nspy_reader **ret);
/* The first chunk only; to be read once. */
int nspy_summary_lead(const struct nspy_summary_file *file, struct nspy_reader **ret);
int nspy_summary_live(const struct nspy_summary_file *file, struct nspy_live **ret);
/*
 * Writes a summary: under another name first, mode 0600, so that there is never half a one.
 * Nothing is to be called after a failure but nspy_summary_drop.
 */
struct nspy_summary_writer;
int nspy_summary_create(const char *path, uint64_t made_ns, struct nspy_summary_writer **ret);
/* A segment, chunk by chunk from the reader; returns 1 if it has to be added as bytes instead. */
int nspy_summary_add_chunks(struct nspy_summary_writer *writer, struct nspy_summary_file file,
			    struct nspy_reader *reader);
int nspy_summary_add_bytes(struct nspy_summary_writer *writer, struct nspy_summary_file file,
			   const uint8_t *data);
/* Puts it in its place and frees the writer; *ret_bytes: how large it is. */
int nspy_summary_commit(struct nspy_summary_writer *writer, uint64_t *ret_bytes);
void nspy_summary_drop(struct nspy_summary_writer *writer);

/* The bytes of a file that was kept as it was; the caller frees. */
int nspy_summary_bytes(const struct nspy_summary_file *file, uint8_t **ret_data);
/* A text, at most limit bytes, ending with NUL; NULL if it cannot be read. Caller frees. */
char *nspy_summary_text(const struct nspy_summary_file *file, size_t limit);

#endif
