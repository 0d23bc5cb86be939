/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a live file, as it stands in a directory anybody may write to. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "trace_salvage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_live_name name, again;
	char text[256], round[256];

	if (bytes >= sizeof(text))
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (nspy_live_name_parse(text, &name) != 0)
		return 0;
	/* What was understood is what the library would have written. */
	(void)snprintf(round, sizeof(round), "ncclspy.%llu.%016llx.%llu.%llu.%016llx.live",
		       (unsigned long long)name.uid, (unsigned long long)name.job_hash,
		       (unsigned long long)name.pid_namespace, (unsigned long long)name.pid,
		       (unsigned long long)name.run_id);
	FUZZ_ASSERT(nspy_live_name_parse(round, &again) == 0);
	FUZZ_ASSERT(memcmp(&name, &again, sizeof(name)) == 0);
	return 0;
}
