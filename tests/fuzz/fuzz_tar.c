/* SPDX-License-Identifier: Apache-2.0 */
/* An archive of whoever: names stay inside, contents are as long as said, reading ends. */
#include <stdlib.h>
#include <string.h>

#include "bundle/tar.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_stream *stream = nspy_stream_memory(data, bytes);
	struct nspy_tar *tar = nspy_tar_open(stream);
	struct nspy_tar_entry entry;
	size_t count = 0, got = 0;
	const char *why;

	while (nspy_tar_next(tar, &entry)) {
		char *content = NULL;

		FUZZ_ASSERT(++count <= NSPY_TAR_ENTRIES_MAX);
		FUZZ_ASSERT(entry.name[0] != '/' && !strstr(entry.name, "/../"));
		FUZZ_ASSERT(strncmp(entry.name, "../", 3) != 0 && strcmp(entry.name, "..") != 0);
		if (entry.regular && count % 3)
			content = nspy_tar_content(tar, 1 << 20, &got);
		FUZZ_ASSERT(!content || (got == entry.bytes && content[got] == '\0'));
		free(content);
	}
	FUZZ_ASSERT((nspy_tar_refused(tar, &why) == 0) == (why == NULL));
	nspy_tar_close(tar);
	nspy_stream_close(stream);
	return 0;
}
