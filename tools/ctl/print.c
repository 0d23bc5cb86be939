/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "ctl.h"
#include "trace_note.h"

#define MODES 4u

static const char *mode_of(size_t i)
{
	return i < MODES - 1 ? nspy_mode_name((uint32_t)i) : "unknown";
}

static void format_time(uint64_t id, char ret[32])
{
	time_t seconds = (time_t)(id / 1000000000u);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &tm))
		(void)snprintf(ret, 32, "?");
}

void ctl_print_status(const struct ctl_job *job)
{
	struct ctl_count count;
	uint32_t nodes;

	ctl_count(job, 0, &count);
	nodes = count.nodes;
	(void)printf("job %s: %zu rank%s running on %" PRIu32 " node%s", job->snap.job,
		     count.running, count.running == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s");
	if (job->snap.world_size > 0)
		(void)printf(", %" PRId32 " in the job", job->snap.world_size);
	(void)printf("\n");
	for (size_t i = 0; i < MODES; i++)
		if (count.modes[i])
			(void)printf("mode %s: %zu rank%s\n", mode_of(i), count.modes[i],
				     count.modes[i] == 1 ? "" : "s");
	if (count.hang_s[1] && count.hang_s[0] == count.hang_s[1])
		(void)printf("threshold: %" PRIu64 " s\n", count.hang_s[1]);
	else if (count.hang_s[1])
		(void)printf("threshold: %" PRIu64 " to %" PRIu64 " s\n", count.hang_s[0],
			     count.hang_s[1]);
	for (uint32_t i = 0; i < job->control.count; i++) {
		const struct nspy_command *command = &job->control.at[i];
		char when[32];

		ctl_count(job, command->id, &count);
		format_time(command->id, when);
		(void)printf("%s %s%s%s: taken up by %zu of %zu\n", when,
			     nspy_control_verb_name(command->verb), command->text[0] ? " " : "",
			     command->text, count.taken, count.running);
	}
}

static cJSON *command_json(const struct ctl_job *job, const struct nspy_command *command)
{
	cJSON *object = cJSON_CreateObject();
	struct ctl_count count;
	char when[32];

	ctl_count(job, command->id, &count);
	format_time(command->id, when);
	cJSON_AddStringToObject(object, "time", when);
	cJSON_AddStringToObject(object, "command", nspy_control_verb_name(command->verb));
	cJSON_AddStringToObject(object, "text", command->text);
	cJSON_AddNumberToObject(object, "taken_up", (double)count.taken);
	cJSON_AddNumberToObject(object, "of", (double)count.running);
	return object;
}

int ctl_print_json(const struct ctl_job *job, const struct nspy_command *command)
{
	cJSON *object = cJSON_CreateObject(), *modes, *commands;
	struct ctl_count count;
	char *text;

	ctl_count(job, 0, &count);
	cJSON_AddStringToObject(object, "schema", "ncclspy.ctl/1");
	cJSON_AddStringToObject(object, "job", job->snap.job);
	cJSON_AddStringToObject(object, "directory", job->snap.job_dir);
	cJSON_AddNumberToObject(object, "running", (double)count.running);
	cJSON_AddNumberToObject(object, "nodes", count.nodes);
	cJSON_AddNumberToObject(object, "world_size", job->snap.world_size);
	modes = cJSON_AddObjectToObject(object, "modes");
	for (size_t i = 0; i < MODES; i++)
		cJSON_AddNumberToObject(modes, mode_of(i), (double)count.modes[i]);
	cJSON_AddNumberToObject(object, "threshold_s_least", (double)count.hang_s[0]);
	cJSON_AddNumberToObject(object, "threshold_s_most", (double)count.hang_s[1]);
	commands = cJSON_AddArrayToObject(object, "commands");
	for (uint32_t i = 0; i < job->control.count; i++)
		cJSON_AddItemToArray(commands, command_json(job, &job->control.at[i]));
	if (command)
		cJSON_AddItemToObject(object, "left", command_json(job, command));
	text = cJSON_Print(object);
	cJSON_Delete(object);
	if (!text)
		return -ENOMEM;
	(void)puts(text);
	cJSON_free(text);
	return 0;
}
