/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of nccl-tests. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static struct nspy_log_bench_run *run_of(struct nspy_log *log, bool fresh)
{
	uint32_t file = (uint32_t)(log->file_count - 1);
	struct nspy_log_bench_run *run = log->run_count ? &log->runs[log->run_count - 1] : NULL;

	/* Several runs in one file: each begins with its head. */
	if (run && run->file == file && !(fresh && (run->best > 0 || run->wrong > 0)))
		return run;
	if (log->run_count >= 65536)
		return run;
	log->runs = nspy_grow(log->runs, log->run_count, &log->run_capacity, sizeof(*log->runs));
	run = &log->runs[log->run_count++];
	*run = (struct nspy_log_bench_run){.file = file};
	return run;
}

/* "#  Rank  0 Group  0 Pid  1 on  hostA device  0 [0x..] NVIDIA ..." */
static void take_host(struct nspy_log *log, const char *text)
{
	struct nspy_log_bench_run *run = run_of(log, false);
	size_t bytes = 0;
	const char *host = nspy_log_word(text, " on ", " ", &bytes);

	if (!host || run->host_count >= nspy_array_size(run->hosts))
		return;
	for (size_t i = 0; i < run->host_count; i++) {
		if (strlen(run->hosts[i]) == bytes && strncmp(run->hosts[i], host, bytes) == 0)
			return;
	}
	nspy_log_keep(&run->hosts[run->host_count], host, bytes);
	run->host_count++;
}

void nspy_log_take_table(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	struct nspy_log *log = look->log;
	const char *p;

	switch (rule) {
	case NSPY_LOG_TESTS_HEAD:
		run_of(log, true);
		return;
	case NSPY_LOG_TESTS_RANK:
		take_host(log, look->line->text);
		return;
	case NSPY_LOG_TESTS_AVG:
		p = strchr(look->line->text + look->at, ':');
		if (p)
			run_of(log, false)->avg = strtod(p + 1, NULL);
		log->in_table = false;
		return;
	default:
		log->in_table = true;
		return;
	}
}

/*
 * "  1048576  262144  float  sum  -1  24.3  43.1  80.8  0  24.1 43.5 81.5  0": from the right
 * #wrong, busbw, algbw, time in place, and the same out of place; N/A where nothing was checked.
 */
void nspy_log_table_row(struct nspy_log *log, const struct nspy_line *line)
{
	const char *words[16];
	size_t count = 0;
	double busbw[2];
	int64_t wrong[2] = {0, 0};
	char *end;

	for (const char *p = line->text; *p && count < 16;) {
		while (isspace((unsigned char)*p))
			p++;
		if (!*p)
			break;
		/* Prefixes of launchers come first: the row begins with two numbers. */
		if (count == 0 &&
		    !(isdigit((unsigned char)*p) && strspn(p, "0123456789") == strcspn(p, " \t"))) {
			p += strcspn(p, " \t");
			continue;
		}
		words[count++] = p;
		p += strcspn(p, " \t");
	}
	if (count < 11 || count > 14)
		return;
	for (int i = 0; i < 2; i++) {
		const char *w = words[count - 1 - (size_t)(4 * (1 - i))];

		busbw[i] = strtod(words[count - 2 - (size_t)(4 * (1 - i))], &end);
		if (!isspace((unsigned char)*end))
			return;
		wrong[i] = isdigit((unsigned char)*w) ? strtoll(w, NULL, 10) : 0;
	}
	{
		struct nspy_log_bench_run *run = run_of(log, false);
		double best = busbw[0] > busbw[1] ? busbw[0] : busbw[1];

		run->best = best > run->best ? best : run->best;
		run->wrong += wrong[0] + wrong[1];
		if ((wrong[0] || wrong[1]) && log->file_count) {
			struct nspy_log_look look = {.log = log, .line = (struct nspy_line *)line};
			struct nspy_log_who who = {.pid = -1, .rank = -1, .pg_rank = -1};

			look.source = nspy_log_source(log, &who);
			nspy_log_event(&look, NSPY_LOG_TESTS_TABLE, 0, NULL, 0);
		}
	}
}
