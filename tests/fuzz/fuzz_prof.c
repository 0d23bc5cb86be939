/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PROF payload, as the analyzer takes it. Asserted: it is read to its end or refused, what is
 * kept of it is bounded, names are never missing, and reading it twice gives the same answer.
 */
#include "fuzz.h"
#include "prof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_prof_view prof = {0};
	struct nspy_prof_record record;
	size_t cursor = 0, before = 0;
	int first = nspy_prof_ingest(&prof, data, bytes);

	FUZZ_ASSERT(first == 0 || first == -74); /* EBADMSG */
	FUZZ_ASSERT(prof.comm_count <= NSPY_PROF_COMMS_KEPT);
	FUZZ_ASSERT(prof.kind_count <= NSPY_PROF_KINDS_KEPT);
	FUZZ_ASSERT(prof.wait_count <= NSPY_PROF_WAITS_KEPT);
	for (size_t i = 0; i < prof.kind_count; i++) {
		const struct nspy_prof_kind_view *kind = &prof.kinds[i];

		FUZZ_ASSERT(nspy_prof_func_name(kind->func) && nspy_prof_what_name(kind->what));
		FUZZ_ASSERT(kind->exact.count + kind->cut <= kind->ops);
		(void)nspy_prof_comm_by_id(&prof, kind->comm);
	}
	nspy_prof_done(&prof);
	while (nspy_prof_next(data, bytes, &cursor, &record) == 0) {
		FUZZ_ASSERT(cursor > before && cursor <= bytes);
		before = cursor;
		if (record.kind == NSPY_PROF_OP)
			FUZZ_ASSERT(nspy_prof_algo_name(record.op.algo) &&
				    nspy_prof_proto_name(record.op.proto));
	}
	FUZZ_ASSERT(nspy_prof_ingest(&prof, data, bytes) == first);
	nspy_prof_done(&prof);
	return 0;
}
