/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the encoder and the decoder of OPS payloads. Internal to the library.
 *
 * OPS payload (all counts and indices are varints unless a width is given):
 *	records, templates, side records, base time
 *	templates:    fn, flags:u8, datatype:u8, redop:u8, has_seq:u8, result:zigzag, comm + 1,
 *		      peer:zigzag, count, family
 *	side records: position among all records, 64 raw bytes (communicators, texts)
 *	columns, each one width byte w (0..8) and then w planes of one byte per call; plane k holds
 *	bits 8k..8k+7 of every value:
 *		template   index of the template
 *		gap        zigzag of (gap - the template's previous gap), where gap is enter minus
 *			   the leave of the record before (base time at first)
 *		duration   zigzag of (leave - enter) - the template's previous one; an open call
 *			   has leave = enter
 *		seq        zigzag of seq - (last seq of the template's family + 1); only templates
 *			   with has_seq
 *		arg        zigzag of arg - the template's previous arg
 *		group      zigzag of group - the previous record's group
 *		callno     zigzag of callno - (the previous record's callno + 1)
 *
 * A training step repeats itself: the template column and the high planes become runs that zstd
 * removes, and what is left is the noise of gaps and durations. Planes rather than varints because
 * they decode without branches.
 */
#ifndef NSPY_TRACE_OPS_H
#define NSPY_TRACE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_record.h"

enum nspy_column {
	NSPY_COL_TEMPLATE,
	NSPY_COL_GAP,
	NSPY_COL_DURATION,
	NSPY_COL_SEQ,
	NSPY_COL_ARG,
	NSPY_COL_GROUP,
	NSPY_COL_CALLNO,
	NSPY_COL_COUNT
};

/* What repeats from step to step, and the running predictions that go with it. */
struct nspy_template {
	uint64_t count;
	uint32_t comm;
	int32_t peer;
	uint16_t fn;
	int16_t result;
	uint8_t flags;
	uint8_t datatype;
	uint8_t redop;
	uint8_t has_seq;
	uint32_t family; /* template whose last_seq this one continues */
	uint64_t last_gap;
	uint64_t last_duration;
	uint64_t last_arg;
	uint64_t last_seq; /* used in the family's first template only */
};

/* The members that make two calls the same template. */
static inline bool nspy_template_same(const struct nspy_template *a, const struct nspy_template *b)
{
	return a->count == b->count && a->comm == b->comm && a->peer == b->peer && a->fn == b->fn &&
	       a->result == b->result && a->flags == b->flags && a->datatype == b->datatype &&
	       a->redop == b->redop && a->has_seq == b->has_seq;
}

#endif
