/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged input: a small trace is cut off at every byte, and has every bit flipped in turn; report
 * and check must get through all of them. The commands run in this process, as they would alone.
 *
 * usage: test_damage cut|flip-segment|flip-live
 */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "tracegen.h"
#include "util.h"

static const char scenario[] = "ranks 2\n"
			       "comm world all\n"
			       "all init world\n"
			       "all coll ncclAllReduce world 10 f32 sum\n"
			       "1 call ncclAllReduce 1us =2 \"some text\"\n"
			       "all sync 1ms\n"
			       "0 coll ncclAllReduce world 10 f32 sum\n"
			       "0 stuck cudaStreamSynchronize\n"
			       "all until 20s\n"
			       "0 die\n"
			       "1 die-live 3\n";

static int said = STDERR_FILENO; /* where messages of the test itself go */

static int run(const struct nspy_cmd *cmd, char *directory)
{
	char name[] = "x", json[] = "--json";
	char *argv[] = {name, json, directory, NULL};

	optind = 0; /* glibc: begin anew */
	return cmd->run(3, argv);
}

/* Ends the test if a command itself went wrong; else the exit code of check. */
static int get_through(char *directory, const char *what, size_t at)
{
	int report = run(&nspy_cmd_report, directory);
	int check = run(&nspy_cmd_check, directory);

	if (report != NSPY_EXIT_OK && report != NSPY_EXIT_FINDING && report != NSPY_EXIT_NOTHING) {
		dprintf(said, "%s %zu: report exits with %d\n", what, at, report);
		exit(1);
	}
	if (check != NSPY_EXIT_OK && check != NSPY_EXIT_FINDING && check != NSPY_EXIT_NOTHING) {
		dprintf(said, "%s %zu: check exits with %d\n", what, at, check);
		exit(1);
	}
	return check;
}

static char *find_file(const char *directory, const char *with)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	char *found = NULL;

	while (dir && !found && (entry = readdir(dir))) {
		if (strstr(entry->d_name, with))
			found = nspy_xasprintf("%s/%s", directory, entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (!found) {
		dprintf(said, "no file with '%s' in %s\n", with, directory);
		exit(1);
	}
	return found;
}

static uint8_t *read_file(const char *path, size_t *ret_bytes)
{
	FILE *in = fopen(path, "rb");
	uint8_t *data = nspy_xmalloc(1u << 20);

	if (!in)
		exit(1);
	*ret_bytes = fread(data, 1, 1u << 20, in);
	fclose(in);
	return data;
}

static void write_file(const char *path, const uint8_t *data, size_t bytes)
{
	FILE *out = fopen(path, "wb");

	if (!out || fwrite(data, 1, bytes, out) != bytes || fclose(out) != 0) {
		perror(path);
		exit(1);
	}
}

static void cut(char *directory, const char *path, const uint8_t *data, size_t bytes)
{
	bool noticed = false;

	for (size_t n = 0; n < bytes; n++) {
		write_file(path, data, n);
		noticed = get_through(directory, "cut at", n) == NSPY_EXIT_FINDING;
	}
	/* At the end of a chunk a cut cannot be told from a crash; one byte less can. */
	if (!noticed) {
		dprintf(said, "check does not notice a file that lacks one byte\n");
		exit(1);
	}
}

/* Flips each bit of the bytes first, first + step, ... in turn. */
static void flip(char *directory, const char *path, uint8_t *data, size_t bytes, size_t step)
{
	size_t unnoticed = 0, flips = 0;

	for (size_t i = 0; i < bytes; i += step) {
		for (int bit = 0; bit < 8; bit++) {
			data[i] ^= (uint8_t)(1u << bit);
			write_file(path, data, bytes);
			unnoticed += get_through(directory, "flip in byte", i) == NSPY_EXIT_OK;
			flips++;
			data[i] ^= (uint8_t)(1u << bit);
		}
	}
	dprintf(said, "%zu flips, %zu not noticed\n", flips, unnoticed);
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/ncclspy-damage-XXXXXX";
	const char *mode = argc > 1 ? argv[1] : "";
	struct nspy_tg *tg = nspy_tg_new();
	char *node, *path, *command;
	uint8_t *data;
	size_t bytes;
	int status;
	int sink = open("/dev/null", O_WRONLY);

	said = dup(STDERR_FILENO);
	if (!mkdtemp(directory) || sink < 0 || said < 0)
		return 1;
	nspy_tg_run(tg, scenario, "scenario");
	nspy_tg_write(tg, directory);
	nspy_tg_free(tg);
	node = nspy_xasprintf("%s/test/node1", directory);
	path = find_file(node, strcmp(mode, "flip-live") == 0 ? ".live" : ".1000.");
	data = read_file(path, &bytes);
	dup2(sink, STDOUT_FILENO);
	dup2(sink, STDERR_FILENO);
	if (strcmp(mode, "cut") == 0)
		cut(directory, path, data, bytes);
	else if (strcmp(mode, "flip-segment") == 0)
		flip(directory, path, data, bytes, 1);
	else if (strcmp(mode, "flip-live") == 0)
		flip(directory, path, data, bytes, 53); /* mostly empty pages */
	else
		return 2;
	command = nspy_xasprintf("rm -rf %s", directory);
	free(data);
	free(path);
	free(node);
	close(sink);
	close(said);
	status = system(command) == 0 ? 0 : 1;
	free(command);
	return status;
}
