/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NOTE payload, as the analyzer takes it. Asserted: it is read to its end or refused, what is
 * kept of it is bounded, and what is kept can be written and read again.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "kept.h"

#define KEPT_MAX 1024u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_account account = {0};
	struct nspy_note note, again;
	size_t cursor = 0, before = 0;
	int first = nspy_account_ingest(&account, data, bytes);

	FUZZ_ASSERT(first == 0 || first == -74); /* EBADMSG */
	FUZZ_ASSERT(account.hole_count <= KEPT_MAX && account.command_count <= KEPT_MAX);
	nspy_account_done(&account);
	while (nspy_note_next(data, bytes, &cursor, &note) == 0) {
		uint8_t out[512];
		struct nspy_put w = {out, out + sizeof(out), false};
		size_t read = 0;

		FUZZ_ASSERT(cursor > before && cursor <= bytes);
		before = cursor;
		nspy_note_put(&w, &note);
		if (note.kind < NSPY_NOTE_MODE || note.kind > NSPY_NOTE_SELF)
			continue;
		FUZZ_ASSERT(!w.bad);
		FUZZ_ASSERT(nspy_note_next(out, (size_t)(w.at - out), &read, &again) == 0);
		FUZZ_ASSERT(again.kind == note.kind && read == (size_t)(w.at - out));
	}
	return 0;
}
