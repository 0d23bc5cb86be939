/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of several ranks: the input is cut at zero bytes, each part is a rank's JSON dump. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "foreign/flight.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_flights *flights = nspy_flights_new();
	struct nspy_model *model = nspy_model_new("fuzz");
	struct nspy_findings findings = {0};
	size_t at = 0;

	for (int rank = 0; at < bytes && rank < 16; rank++) {
		const uint8_t *end = memchr(data + at, 0, bytes - at);
		size_t part = end ? (size_t)(end - data) - at : bytes - at;
		cJSON *tree = cJSON_ParseWithLength((const char *)data + at, part);
		char path[32];

		(void)snprintf(path, sizeof(path), "rank_%d", rank);
		if (tree && nspy_flight_is(tree))
			nspy_flights_add(flights, path, tree);
		cJSON_Delete(tree);
		at += part + 1;
	}
	nspy_flights_judge(flights, model, &findings);
	for (size_t i = 0; i < findings.count; i++)
		FUZZ_ASSERT(findings.items[i]->summary && findings.items[i]->cause);
	nspy_findings_done(&findings);
	nspy_flights_free(flights);
	nspy_model_free(model);
	return 0;
}
