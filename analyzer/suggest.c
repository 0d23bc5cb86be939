/* SPDX-License-Identifier: Apache-2.0 */
#include "suggest.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "text.h"

#define LINES_MAX 3u

static bool is_plain(const char *text)
{
	if (!text || !*text || *text == '-' || strlen(text) > 253)
		return false;
	for (; *text; text++) {
		if (!isalnum((unsigned char)*text) && !strchr("._-", *text))
			return false;
	}
	return true;
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool add_plain(struct nspy_str *s, const char *name)
{
	if (!is_plain(name))
		return false;
	nspy_str_add(s, name);
	return true;
}

/* To the second, as journalctl takes it. */
static bool add_when(struct nspy_str *s, uint64_t when_ns, int64_t shift_s)
{
	struct nspy_str time = {0};

	if (when_ns < 120 * NSPY_NS_PER_S)
		return false;
	nspy_add_time(&time, when_ns + (uint64_t)(shift_s * (int64_t)NSPY_NS_PER_S));
	nspy_str_addf(s, "%.19s UTC", time.text);
	nspy_str_done(&time);
	return true;
}

/* The job's directory: two levels above the files of a process. */
static bool add_directory(struct nspy_str *s, const struct nspy_proc *proc)
{
	const char *base = nspy_proc_whole(proc)->base;
	const char *end = base ? strrchr(base, '/') : NULL;

	while (end && end > base && *--end != '/')
		;
	if (!end || end == base || *base == '-')
		return false;
	for (const char *p = base; p < end; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-/", *p))
			return false;
	}
	nspy_str_addn(s, base, (size_t)(end - base));
	return true;
}

/* What stands between < and >. */
static bool add_place(struct nspy_str *s, const char *place, const struct nspy_finding *finding)
{
	const struct nspy_proc *proc = finding->culprits[0];
	uint64_t when_ns = finding->when_ns;

	if (begins(place, "pid of ") || strcmp(place, "pid") == 0) {
		nspy_str_addf(s, "%" PRId64, proc->pid);
		return proc->pid > 0;
	}
	if (strcmp(place, "rank") == 0 || strcmp(place, "odd rank") == 0 ||
	    strcmp(place, "first rank") == 0) {
		nspy_str_addf(s, "%" PRId64, proc->rank);
		return proc->rank >= 0;
	}
	if (strcmp(place, "key") == 0 && finding->comm) {
		nspy_str_addf(s, "%016" PRIx64, finding->comm->shown);
		return true;
	}
	if (begins(place, "time of death"))
		return add_when(s, when_ns, -60);
	if (strcmp(place, "plus one minute") == 0)
		return add_when(s, when_ns, 60);
	if (strcmp(place, "node") == 0)
		return add_plain(s, nspy_proc_host(proc));
	if (strcmp(place, "pod") == 0 || strcmp(place, "namespace") == 0)
		return add_plain(s, nspy_proc_fact(proc, place));
	if (strcmp(place, "job") == 0)
		return add_plain(s, nspy_proc_fact(proc, "env.SLURM_JOB_ID"));
	return false;
}

char *nspy_suggest_fill(const char *line, const struct nspy_finding *finding)
{
	struct nspy_str s = {0};

	while (*line) {
		size_t plain = strcspn(line, "<");
		const char *traces = strstr(line, " DIR");
		const char *end = line[plain] ? strchr(line + plain, '>') : NULL;
		char *place;
		bool known;

		if (traces && (size_t)(traces - line) < plain) {
			nspy_str_addn(&s, line, (size_t)(traces - line) + 1);
			if (!add_directory(&s, finding->culprits[0])) {
				nspy_str_done(&s);
				return NULL;
			}
			line = traces + strlen(" DIR");
			continue;
		}
		/* A redirection is no place. */
		if (!end || !isalpha((unsigned char)line[plain + 1])) {
			nspy_str_addn(&s, line, plain + (line[plain] != '\0'));
			line += plain + (line[plain] != '\0');
			continue;
		}
		nspy_str_addn(&s, line, plain);
		place = nspy_xstrndup(line + plain + 1, (size_t)(end - line) - plain - 1);
		known = add_place(&s, place, finding);
		free(place);
		if (!known) {
			nspy_str_done(&s);
			return NULL;
		}
		line = end + 1;
	}
	return nspy_str_take(&s);
}

/* "on gpu7 (srun --overlap --jobid=123 -w gpu7 --pty bash)" */
static void add_way(struct nspy_str *s, const struct nspy_proc *proc)
{
	const char *node = nspy_proc_host(proc);
	const char *pod = nspy_proc_fact(proc, "pod"), *ns = nspy_proc_fact(proc, "namespace");
	const char *job = nspy_proc_fact(proc, "env.SLURM_JOB_ID");

	if (is_plain(pod) && is_plain(ns))
		nspy_str_addf(s, "in pod %s/%s (kubectl exec -it %s -n %s -- sh)", ns, pod, pod,
			      ns);
	else if (is_plain(node) && is_plain(job))
		nspy_str_addf(s, "on %s (srun --overlap --jobid=%s -w %s --pty bash)", node, job,
			      node);
	else if (is_plain(node))
		nspy_str_addf(s, "on %s", node);
	else
		nspy_str_add(s, "on its node");
}

/* Is it run where the process is, or anywhere? */
static bool is_local(const char *command)
{
	static const char *const anywhere[] = {
		"kubectl ", "aws ",    "scontrol ", "sinfo ",
		"sacct ",   "squeue ", "srun ",     "ncclspy-analyze "};

	for (size_t i = 0; i < nspy_array_size(anywhere); i++) {
		if (begins(command, anywhere[i]))
			return false;
	}
	return true;
}

static void suggest_line(struct nspy_finding *finding, const char *line)
{
	const struct nspy_proc *proc = finding->culprits[0];
	bool wants_process = strstr(line, "<pid") != NULL;
	struct nspy_str s = {0};
	char *command;

	/* A number that is free again may be somebody else's by now. */
	if (wants_process && (proc->state == NSPY_PROC_COMPLETE || proc->exit.known))
		return;
	command = nspy_suggest_fill(line, finding);
	if (!command)
		return;
	if (wants_process && proc->state == NSPY_PROC_CUT)
		nspy_str_add(&s, "if it still lives, ");
	nspy_str_add(&s, "run yourself");
	if (is_local(command)) {
		nspy_str_add(&s, ", ");
		add_way(&s, proc);
	}
	nspy_str_addf(&s, ": %s", command);
	nspy_texts_add(&finding->commands, nspy_str_take(&s));
	free(command);
}

void nspy_suggest(struct nspy_finding *finding)
{
	const char *line = nspy_explain_command[finding->id];

	if (!finding->culprit_count || finding->priority > 1)
		return;
	while (*line && finding->commands.count < LINES_MAX) {
		size_t bytes = strcspn(line, "\n");
		char *one = nspy_xstrndup(line, bytes);

		suggest_line(finding, one);
		free(one);
		line += bytes + (line[bytes] == '\n');
	}
}
