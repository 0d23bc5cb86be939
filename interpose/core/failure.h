/* SPDX-License-Identifier: Apache-2.0 */
/* What else is noted when a call fails. Cold; errno is kept. */
#ifndef NSPY_FAILURE_H
#define NSPY_FAILURE_H

#include "trace_record.h"

/*
 * For a failed NCCL call, appends ncclGetLastError's text as text records. Asked on the caller's
 * own thread, right after its failing call, so that the text is the one that belongs to it.
 */
void nspy_note_failure(const struct nspy_rec *rec);

/* Appends text (cut to NSPY_TEXT_BYTES_MAX) to the calling thread's pages. */
void nspy_append_text(enum nspy_text_topic topic, const char *text, uint32_t callno, uint32_t comm);

#endif
