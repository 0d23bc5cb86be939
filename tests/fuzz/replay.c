/* SPDX-License-Identifier: Apache-2.0 */
/* usage: TARGET FILE-OR-DIRECTORY...: runs the target on each file, and on every prefix of small
 * ones. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#define BYTES_MAX    (16u << 20)
#define PREFIXES_MAX 4096u /* larger files are run whole only */

static int runs;

static int run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(BYTES_MAX);
	size_t bytes;

	if (!file || !data)
		return 1;
	bytes = fread(data, 1, BYTES_MAX, file);
	fclose(file);
	for (size_t n = bytes <= PREFIXES_MAX ? 0 : bytes; n <= bytes; n++) {
		/* Of exact size, so that a sanitizer sees one byte too far. */
		uint8_t *copy = malloc(n ? n : 1);

		memcpy(copy, data, n);
		LLVMFuzzerTestOneInput(copy, n);
		free(copy);
		runs++;
	}
	free(data);
	return 0;
}

static int run_path(const char *path)
{
	struct stat st;
	struct dirent *entry;
	char child[4096];
	int rc = 0;
	DIR *dir;

	if (stat(path, &st) < 0)
		return 1;
	if (!S_ISDIR(st.st_mode))
		return run_file(path);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		rc |= run_path(child);
	}
	if (dir)
		closedir(dir);
	return rc;
}

int main(int argc, char **argv)
{
	int rc = 0;

	/* Messages about bad input are the normal case here. */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	for (int i = 1; i < argc; i++)
		rc |= run_path(argv[i]);
	printf("%d runs\n", runs);
	return rc || runs == 0;
}
