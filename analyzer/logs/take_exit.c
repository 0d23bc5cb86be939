/* SPDX-License-Identifier: Apache-2.0 */
/* How processes ended, as launchers and Python say it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static const struct {
	int signal;
	enum nspy_log_class klass;
	const char *meaning;
} signals[] = {
	{4, NSPY_LOG_CAUSE, "SIGILL"},
	/* Mostly PyTorch's watchdog or a failed check of another rank's making. */
	{6, NSPY_LOG_EFFECT, "SIGABRT: gave up by itself"},
	{7, NSPY_LOG_CAUSE, "SIGBUS: mapped memory could not be provided, usually a full /dev/shm"},
	{8, NSPY_LOG_CAUSE, "SIGFPE"},
	{9, NSPY_LOG_CAUSE, "SIGKILL: out of memory, an eviction or a cancelled job"},
	{11, NSPY_LOG_CAUSE, "SIGSEGV: a crash"},
	/* Launchers end the others when one rank is gone. */
	{15, NSPY_LOG_EFFECT, "SIGTERM: asked to end"},
};

/* code: exit status, or the negative number of a signal; 128 + n is a signal as well. */
static struct nspy_log_event *ended(struct nspy_log_look *look, enum nspy_log_rule_id rule,
				    int64_t code, int64_t rank)
{
	struct nspy_log_event *event;
	int64_t number = code < 0 ? -code : code > 128 && code < 160 ? code - 128 : 0;

	if (code == 0)
		return NULL;
	event = nspy_log_event(look, rule, code * 65536 + (rank < 0 ? 65535 : rank), NULL, 0);
	event->rank = rank;
	event->klass = number ? NSPY_LOG_CAUSE : NSPY_LOG_EFFECT;
	look->source->trouble++;
	if (event->meaning)
		return event;
	for (size_t i = 0; i < nspy_array_size(signals); i++) {
		if (signals[i].signal == number) {
			event->klass = signals[i].klass;
			event->priority = number == 15 ? 1 : 0;
			event->meaning = nspy_xasprintf("ended by signal %d (%s)", (int)number,
							signals[i].meaning);
		}
	}
	if (!event->meaning)
		event->meaning = number ? nspy_xasprintf("ended by signal %d", (int)number)
					: nspy_xasprintf("ended with exit code %d", (int)code);
	return event;
}

/* Of a row: "rank      : 3 (local_rank: 3)"; its exit code comes in a later line. */
static void take_row(struct nspy_log_look *look)
{
	const char *p = strstr(look->line->text, "rank ");

	p = p ? strchr(p, ':') : NULL;
	if (!p || !nspy_log_number(p, ": ", &look->source->table_rank))
		look->source->table_rank = -1;
}

/* The rank of a process whose own lines told it. */
static int64_t rank_of_pid(const struct nspy_log *log, int64_t pid)
{
	int64_t rank = -1;

	for (size_t i = 0; i < log->source_count; i++) {
		if (log->sources[i]->proc->pid != pid || log->sources[i]->proc->rank < 0)
			continue;
		if (rank >= 0)
			return -1; /* the same pid on several nodes */
		rank = log->sources[i]->proc->rank;
	}
	return rank;
}

/* "... process rank 3 with PID 0 on node a exited on signal 9 (Killed)." */
static void take_mpi(struct nspy_log_look *look)
{
	int64_t signal = 0, rank = -1;

	nspy_log_number(look->line->text, "exited on signal ", &signal);
	nspy_log_number(look->line->text, "process rank ", &rank);
	ended(look, NSPY_LOG_MPI_SIGNAL, -signal, rank);
}

/* "failed (exitcode: -9) local_rank: 3 (pid: 17) of binary"; table: "exitcode  : -9 (pid: 17)" */
static void take_elastic(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	struct nspy_log_source *s = look->source;
	const char *text = look->line->text;
	struct nspy_log_event *event;
	int64_t code = 0, rank = -1, pid = -1;

	if (!nspy_log_number(text, "(exitcode: ", &code))
		nspy_log_number(text, "exitcode  : ", &code);
	nspy_log_number(text, "(pid: ", &pid);
	if (rule == NSPY_LOG_ELASTIC_EXIT2 && s->table_rank >= 0)
		rank = s->table_rank;
	else if (!nspy_log_number(text, "global_rank: ", &rank) &&
		 (pid <= 0 || (rank = rank_of_pid(look->log, pid)) < 0))
		nspy_log_number(text, "local_rank: ", &rank);
	event = ended(look, rule, code, rank);
	if (event && rule == NSPY_LOG_ELASTIC_EXIT2 && s->root_cause) {
		event->other = 1; /* the failure that torchrun saw first */
		s->root_cause = false;
	}
	s->table_rank = -1;
}

/* "Exit Code:    137", "command terminated with exit code 139": smaller codes say little */
static void take_code(struct nspy_log_look *look)
{
	const char *p = look->line->text + look->at;

	while (*p == ' ' || *p == ':' || *p == '\t' || *p == '=')
		p++;
	if (isdigit((unsigned char)*p) && strtoll(p, NULL, 10) > 128)
		ended(look, NSPY_LOG_EXIT_CODE, strtoll(p, NULL, 10), -1);
}

/* "srun: error: node3: task 12: Killed" or "Exited with exit code 1" */
static void take_srun(struct nspy_log_look *look)
{
	const char *text = look->line->text;
	int64_t code = 1, rank = -1;
	struct nspy_log_event *event;
	size_t bytes = 0;
	const char *host = nspy_log_word(text, "srun: error: ", ": ", &bytes);

	if (strstr(text, "Terminated") || strstr(text, "Force Terminated"))
		code = -15;
	else if (strstr(text, "Killed") || strcasestr(text, "Out Of Memory"))
		code = -9;
	else if (strstr(text, "Segmentation fault"))
		code = -11;
	else if (strstr(text, "Bus error"))
		code = -7;
	else if (strstr(text, "Aborted"))
		code = -6;
	else if (!nspy_log_number(text, "exit code ", &code))
		return;
	if (!nspy_log_number(text, "task ", &rank))
		nspy_log_number(text, "tasks ", &rank);
	event = ended(look, NSPY_LOG_SRUN_EXIT, code, rank);
	if (event && rank >= 0 && rank < 65536 && host) {
		struct nspy_log_source *source = nspy_log_rank(look->log, rank);

		if (!nspy_proc_fact(source->proc, "host") && bytes < 255)
			nspy_proc_set_fact(source->proc, "host", 4, host, bytes);
	}
}

/*
 * The last line of a traceback, "ValueError: ...". Of errors that PyTorch raises for NCCL other
 * lines tell more.
 */
static void take_exception(struct nspy_log_look *look)
{
	const char *text = look->line->text, *at = text + look->at - strlen("Error: "), *begin = at;
	struct nspy_log_source *s = look->source;
	struct nspy_log_event *event;

	if (!s->traceback)
		return;
	while (begin > text &&
	       (isalnum((unsigned char)begin[-1]) || begin[-1] == '.' || begin[-1] == '_'))
		begin--;
	if (begin == at || nspy_log_has(begin, "Dist|NCCL|ChildFailed|Gloo|timed out|c10d"))
		return;
	s->traceback = false;
	event = nspy_log_event(look, NSPY_LOG_PYTHON_ERROR, 0, NULL, 0);
	event->klass = NSPY_LOG_SYMPTOM;
	s->trouble++;
	nspy_log_keep(&s->exception, begin, strlen(begin));
	if (!event->meaning)
		event->meaning = nspy_xasprintf("the program ended with %.120s", s->exception);
}

void nspy_log_take_exit(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	switch (rule) {
	case NSPY_LOG_TRACEBACK:
		look->source->traceback = true;
		return;
	case NSPY_LOG_PYTHON_ERROR:
		take_exception(look);
		return;
	case NSPY_LOG_EXIT_CODE:
		take_code(look);
		return;
	case NSPY_LOG_ROOT_CAUSE:
		look->source->root_cause = true;
		return;
	case NSPY_LOG_TABLE_RANK:
		take_row(look);
		return;
	case NSPY_LOG_MPI_SIGNAL:
		take_mpi(look);
		return;
	case NSPY_LOG_ELASTIC_EXIT:
	case NSPY_LOG_ELASTIC_EXIT2:
		take_elastic(look, rule);
		return;
	default:
		take_srun(look);
		return;
	}
}
