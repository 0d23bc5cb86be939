/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is handed to a vendor's support: one packed file with the report, what it rests on, a cover
 * page and a list of what is in it and what is not.
 *
 * Everything that gets into it was passed through ncclspy-redact, the same program that cleans what
 * ncclspy-collect gathers; without it nothing is written. Raw traces never get in: they hold
 * command lines, and nobody else can read them. The inputs are only read.
 *
 * Ownership: a bundle under construction owns its entries. context: one thread.
 */
#ifndef NSPY_SUPPORT_H
#define NSPY_SUPPORT_H

#include <stdio.h>

#include "../foreign/stream.h"
#include "../inputs.h"

/* All names in the archive begin with it. */
#define NSPY_SUPPORT_ROOT "ncclspy-support/"

enum nspy_support_for { NSPY_FOR_ANY, NSPY_FOR_AWS, NSPY_FOR_NVIDIA };

struct nspy_support_entry {
	char *name; /* below the root */
	char *data;
	size_t bytes;
};

struct nspy_support {
	enum nspy_support_for whom;
	size_t max_bytes; /* of all contents */
	uint64_t lines;   /* of records for each rank, 0 = none */
	int64_t *ranks;   /* asked for, besides those that findings name */
	size_t rank_count, rank_capacity;
	char **arguments; /* as the user gave them */
	int argument_count;
	char *redactor;
	struct nspy_support_entry *entries;
	size_t entry_count, entry_capacity;
	size_t used; /* bytes of contents */
	struct nspy_str manifest;
	size_t log_count, left_out;
};

/* --- clean.c --- */
/* Path of ncclspy-redact, NULL if it is not installed. Caller frees. */
char *nspy_support_redactor(void);
/*
 * Passes what is in a temporary file through the redactor; kind is "text" or "json". The clean text
 * with a NUL behind it, to be freed by the caller; NULL with the reason.
 */
char *nspy_support_clean(const struct nspy_support *s, FILE *raw, const char *kind,
			 size_t *ret_bytes, const char **ret_why);
/* A temporary file without a name, for what is not clean yet. Never NULL. */
FILE *nspy_support_temporary(void);
/* Runs a command of this program; its output goes to files. Exit status, or negative errno. */
int nspy_support_run(const struct nspy_support *s, const char *const *command, FILE *out,
		     FILE *err);

/* --- entries.c --- */
/* A line of the manifest: "ok", "left out" or "missing". */
void nspy_support_note(struct nspy_support *s, const char *status, const char *name,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Takes data if there is room for it. */
void nspy_support_add(struct nspy_support *s, const char *name, char *data, size_t bytes);
/* Cleans a temporary file, closes it and adds what is left. */
void nspy_support_add_raw(struct nspy_support *s, const char *name, FILE *raw, const char *kind);
/* Beginning and end of a text of any length. */
void nspy_support_add_stream(struct nspy_support *s, const char *name, struct nspy_stream *stream);
const struct nspy_support_entry *nspy_support_find(const struct nspy_support *s, const char *name);
/* Is there an entry whose name begins so? */
bool nspy_support_has(const struct nspy_support *s, const char *prefix);
void nspy_support_done(struct nspy_support *s);

/* --- gather.c --- */
void nspy_support_gather(struct nspy_support *s, struct nspy_inputs *inputs);

/* --- cover.c --- */
/* To be called last: what is in it is known then. */
void nspy_support_cover(struct nspy_support *s, const struct nspy_inputs *inputs);

/* --- pack.c --- */
/* Writes a new file that only its owner can read. 0 or negative errno; nothing is left behind. */
int nspy_support_pack(const struct nspy_support *s, const char *path, uint64_t now_s);

#endif
