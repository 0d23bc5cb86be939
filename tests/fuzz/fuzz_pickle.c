/* SPDX-License-Identifier: Apache-2.0 */
/* A pickle is read as plain data or refused with a reason. */
#include <cjson/cJSON.h>
#include <string.h>

#include "foreign/pickle.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char error[200] = "";
	cJSON *tree = nspy_pickle_read(data, bytes, error, sizeof(error));

	FUZZ_ASSERT(!tree == (error[0] != '\0'));
	FUZZ_ASSERT(tree || strstr(error, "at offset"));
	cJSON_Delete(tree);
	return 0;
}
