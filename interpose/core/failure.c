/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "failure.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api_ids.h"
#include "call_failures.h"
#include "clock.h"
#include "record.h"
#include "resolve.h"

#define LAST_ERROR_BYTES_MAX 400u
#define LAST_ERRORS_MAX      256u /* a loop that polls a broken communicator must not fill pages */

void nspy_append_text(enum nspy_text_topic topic, const char *text, uint32_t callno, uint32_t comm)
{
	size_t left = strnlen(text, NSPY_TEXT_BYTES_MAX);

	do {
		union nspy_any_rec rec = {0};
		size_t piece = left < NSPY_TEXT_PIECE_BYTES ? left : NSPY_TEXT_PIECE_BYTES;

		rec.text.when = nspy_ticks();
		rec.text.topic = (uint16_t)topic;
		rec.text.kind = NSPY_REC_TEXT;
		rec.text.bytes = (uint8_t)piece;
		rec.text.callno = callno;
		rec.text.comm = comm;
		memcpy(rec.text.text, text, piece);
		text += piece;
		left -= piece;
		rec.text.flags = left != 0;
		nspy_thread_append(&nspy_tls, &rec);
	} while (left);
}

/*
 * What ncclGetLastError says of a failed NCCL call, asked on the caller's own thread, right after
 * it, so that the text is the one that belongs to it. It may change under us: copied at once.
 */
static bool last_error(char text[LAST_ERROR_BYTES_MAX])
{
	typedef const char *last_error_fn(void *comm);
	last_error_fn *ask =
		(last_error_fn *)nspy_real_in(nspy_tls.copy, NSPY_FN_NCCL_GET_LAST_ERROR);
	const char *found = ask ? ask(NULL) : NULL;

	(void)snprintf(text, LAST_ERROR_BYTES_MAX, "%s", found ? found : "");
	return text[0];
}

void nspy_note_failure(const struct nspy_rec *rec)
{
	static _Atomic uint32_t noted;
	char text[LAST_ERROR_BYTES_MAX] = "";
	int saved = errno;

	if (nspy_fn_table[rec->fn].library == NSPY_LIB_NCCL &&
	    atomic_load_explicit(&noted, memory_order_relaxed) < LAST_ERRORS_MAX &&
	    last_error(text)) {
		atomic_fetch_add_explicit(&noted, 1, memory_order_relaxed);
		nspy_append_text(NSPY_TEXT_LAST_ERROR, text, rec->callno, rec->comm);
	}
	nspy_call_failed(rec, text);
	errno = saved;
}
