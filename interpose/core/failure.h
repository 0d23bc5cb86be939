/* SPDX-License-Identifier: Apache-2.0 */
/* What else is noted when a call fails. Cold; errno is kept. */
#ifndef NSPY_FAILURE_H
#define NSPY_FAILURE_H

#include "trace_record.h"

/* Appends text (cut to NSPY_TEXT_BYTES_MAX) to the calling thread's pages. */
void nspy_append_text(enum nspy_text_topic topic, const char *text, uint32_t callno, uint32_t comm);

#endif
