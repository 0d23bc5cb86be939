/* SPDX-License-Identifier: Apache-2.0 */
/* tracegen SCENARIO DIRECTORY: writes the scenario's traces below the directory. */
#include <stdio.h>
#include <stdlib.h>

#include "tracegen.h"

static char *read_all(const char *path)
{
	FILE *in = fopen(path, "rb");
	char *text;
	long bytes;

	if (!in || fseek(in, 0, SEEK_END) < 0 || (bytes = ftell(in)) < 0) {
		perror(path);
		exit(2);
	}
	rewind(in);
	text = calloc(1, (size_t)bytes + 1);
	if (fread(text, 1, (size_t)bytes, in) != (size_t)bytes) {
		perror(path);
		exit(2);
	}
	fclose(in);
	return text;
}

int main(int argc, char **argv)
{
	struct nspy_tg *tg;
	char *text;

	if (argc != 3) {
		fputs("usage: tracegen SCENARIO DIRECTORY\n", stderr);
		return 2;
	}
	text = read_all(argv[1]);
	tg = nspy_tg_new();
	nspy_tg_run(tg, text, argv[1]);
	nspy_tg_write(tg, argv[2]);
	nspy_tg_free(tg);
	free(text);
	return 0;
}
