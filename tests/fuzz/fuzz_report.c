/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole report over hostile input. The data is cut at lines "%%": segment, saved live pages,
 * exit note, ignore list, earlier report; each part may be missing. Payloads behind a damaged
 * checksum would never be reached, so the headers' checksums are repaired. Asserted: nothing but a
 * regular end, and no control character in what is printed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"
#include "ignore.h"
#include "inputs.h"
#include "load.h"
#include "report.h"
#include "trace_bytes.h"
#include "verify.h"

#define PARTS     5
#define SEPARATOR "\n%%\n"
#define BASE      "/00000000.1.2.3"

static char folder[64];
static char paths[PARTS][128];

static void set_up(void)
{
	static const char *const names[PARTS] = {BASE ".000.nspy", BASE ".1122334455667788.live",
						 BASE ".exit", "/../ignore", "/../old.json"};
	char root[] = "/tmp/nspy-fuzz.XXXXXX";

	FUZZ_ASSERT(mkdtemp(root) != NULL);
	(void)snprintf(folder, sizeof(folder), "%s/node", root);
	FUZZ_ASSERT(mkdir(folder, 0700) == 0);
	for (int i = 0; i < PARTS; i++)
		(void)snprintf(paths[i], sizeof(paths[i]), "%s%s", folder, names[i]);
}

static void clean_up(void)
{
	char root[64];

	for (int i = 0; i < PARTS; i++)
		unlink(paths[i]);
	rmdir(folder);
	(void)snprintf(root, sizeof(root), "%s", folder);
	*strrchr(root, '/') = '\0';
	rmdir(root);
}

static void write_part(int i, uint8_t *data, size_t bytes)
{
	int fd = open(paths[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (size_t k = 0; i == 0 && k + NSPY_CHUNK_HEADER_BYTES <= bytes; k++)
		if (nspy_le32_load(data + k) == NSPY_SKIP_MAGIC &&
		    nspy_le64_load(data + k + 8) == NSPY_CHUNK_MAGIC)
			nspy_le64_store(data + k + 88, XXH64(data + k, 88, 0));
	FUZZ_ASSERT(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

static void write_parts(uint8_t *data, size_t bytes)
{
	size_t separator = sizeof(SEPARATOR) - 1;

	for (int i = 0; i < PARTS; i++) {
		uint8_t *cut = bytes ? memmem(data, bytes, SEPARATOR, separator) : NULL;
		size_t part = cut ? (size_t)(cut - data) : bytes;

		unlink(paths[i]);
		if (part)
			write_part(i, data, part);
		data += cut ? part + separator : part;
		bytes -= cut ? part + separator : part;
	}
}

static void check_text(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		FUZZ_ASSERT((unsigned char)text[i] >= ' ' || text[i] == '\n');
}

static void report_one(struct nspy_model *model, const struct nspy_ignore *ignore, cJSON *jobs)
{
	const struct nspy_load_options load = {0};
	const struct nspy_report_options options = {
		.thresholds = {.hang_ended_ns = NSPY_HANG_ENDED_NS,
			       .hang_running_ns = NSPY_HANG_RUNNING_NS}};
	struct nspy_report report;
	size_t bytes = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &bytes);

	nspy_load(model, &load);
	nspy_report_make(&report, model, &options);
	nspy_ignore_apply(ignore, &report);
	nspy_report_print(&report, out, false);
	cJSON_AddItemToArray(jobs, nspy_report_json(&report));
	nspy_report_done(&report);
	fclose(out);
	check_text(text, bytes);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_inputs inputs = {0};
	struct nspy_ignore ignore = {0};
	static FILE *nowhere;
	uint8_t *copy;
	cJSON *jobs;

	if (bytes > (1u << 20))
		return 0;
	if (!folder[0]) {
		set_up();
		atexit(clean_up);
		nowhere = fopen("/dev/null", "w");
	}
	copy = malloc(bytes ? bytes : 1);
	memcpy(copy, data, bytes);
	write_parts(copy, bytes);
	free(copy);
	jobs = cJSON_CreateArray();
	if (access(paths[3], F_OK) == 0)
		(void)nspy_ignore_read(&ignore, paths[3]);
	nspy_inputs_add(&inputs, folder);
	nspy_inputs_finish(&inputs);
	for (size_t i = 0; i < inputs.job_count; i++)
		report_one(inputs.jobs[i], &ignore, jobs);
	nspy_report_problems(&inputs, nowhere);
	if (access(paths[4], F_OK) == 0)
		(void)nspy_verify(paths[4], jobs, nowhere);
	cJSON_Delete(jobs);
	nspy_inputs_done(&inputs);
	nspy_ignore_done(&ignore);
	return 0;
}
