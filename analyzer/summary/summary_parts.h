/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of this folder. */
#ifndef NSPY_SUMMARY_PARTS_H
#define NSPY_SUMMARY_PARTS_H

#include "summary.h"

/* A payload that several chunks have. */
struct nspy_shared {
	uint8_t *payload;
	uint32_t bytes;
};

/* Payload of a FILE chunk; texts are borrowed from it and do not end with NUL. */
struct nspy_file_head {
	uint32_t kind, life;
	bool recoded;
	uint64_t bytes;
	const char *name, *job;
	size_t name_bytes, job_bytes;
	const uint8_t *lead; /* a block with the first chunk, if recoded */
	size_t lead_bytes;
};

int nspy_file_head_load(const uint8_t *payload, size_t bytes, struct nspy_file_head *ret);
/* Appends it without the lead. */
void nspy_file_head_store(struct nspy_str *to, const struct nspy_file_head *head);

/* Chunks between two places of a file. */
int nspy_summary_chunk(const char *path, uint64_t begin, uint64_t end, struct nspy_reader **ret);

#endif
