/* SPDX-License-Identifier: Apache-2.0 */
/* Text of any kind, packed or not, as lines of a log: read, judged, shown. */
#include <cjson/cJSON.h>

#include "foreign/foreign.h"
#include "fuzz.h"
#include "logs/log_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_stream *stream = nspy_stream_memory(data, bytes);
	struct nspy_log *log = nspy_log_new();
	struct nspy_findings findings = {0};
	cJSON *json;

	nspy_log_read(log, "fuzz", stream);
	nspy_log_settle(log);
	nspy_log_judge(log, &findings);
	for (size_t i = 0; i < findings.count; i++) {
		FUZZ_ASSERT(findings.items[i]->summary && findings.items[i]->cause);
		FUZZ_ASSERT(i == 0 ||
			    findings.items[i - 1]->priority <= findings.items[i]->priority);
	}
	json = nspy_log_json(log, &findings);
	FUZZ_ASSERT(json);
	cJSON_Delete(json);
	nspy_findings_done(&findings);
	nspy_log_free(log);
	nspy_stream_close(stream);
	return 0;
}
