/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a file may hold: told by content, read, judged. Errors are one line with a place. */
#include <string.h>

#include "foreign/foreign.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_stream *stream = nspy_stream_memory(data, bytes);
	struct nspy_log *log = nspy_log_new();
	struct nspy_findings findings = {0};
	char error[256] = "";
	int rc = nspy_foreign_add_stream(log, "rank_1.json", stream, error, sizeof(error));

	FUZZ_ASSERT((rc < 0) == (error[0] != '\0'));
	FUZZ_ASSERT(!strchr(error, '\n'));
	nspy_log_judge(log, &findings);
	for (size_t i = 0; i < findings.count; i++)
		FUZZ_ASSERT(findings.items[i]->summary && findings.items[i]->cause);
	nspy_findings_done(&findings);
	nspy_log_free(log);
	nspy_stream_close(stream);
	return 0;
}
