/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's own words: scontrol show (one line an object), scontrol ping, sacct, systemctl. */
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "text.h"

#define COMPLETING_LONG_S 300 /* twice the default KillWait and UnkillableStepTimeout */

/* Value of " Key=..." up to the next space; empty if it is not there. */
static void value(const char *line, size_t bytes, const char *key, char *buf, size_t buf_bytes)
{
	size_t length = strlen(key);

	buf[0] = '\0';
	for (size_t at = 0; at + length < bytes; at++) {
		size_t end = at + length;

		if (strncmp(line + at, key, length) != 0 || (at > 0 && line[at - 1] != ' '))
			continue;
		while (end < bytes && line[end] != ' ')
			end++;
		end -= at + length;
		end = end < buf_bytes - 1 ? end : buf_bytes - 1;
		memcpy(buf, line + at + length, end);
		buf[end] = '\0';
		return;
	}
}

/* Text behind "Reason=" up to the next key or the end. */
static void reason_of(const char *line, size_t bytes, char *buf, size_t buf_bytes)
{
	const char *at = memmem(line, bytes, " Reason=", 8);
	size_t left = at ? bytes - (size_t)(at - line) - 8 : 0;

	left = left < buf_bytes - 1 ? left : buf_bytes - 1;
	if (left)
		memcpy(buf, at + 8, left);
	buf[left] = '\0';
}

static void judge_node(struct nspy_group *down, struct nspy_group *drained, const char *line,
		       size_t bytes)
{
	static const char *const bad[] = {"DOWN", "NOT_RESPONDING", "FAIL", "INVALID"};
	char name[128], state[128], reason[256];

	value(line, bytes, "NodeName=", name, sizeof(name));
	value(line, bytes, "State=", state, sizeof(state));
	reason_of(line, bytes, reason, sizeof(reason));
	if (!*name || !*state)
		return;
	for (size_t i = 0; i < nspy_array_size(bad); i++) {
		if (strstr(state, bad[i])) {
			nspy_group_add(down, name, "%s: %s", state, reason);
			return;
		}
	}
	/* With work on it, a drained node is still draining. */
	if (strstr(state, "DRAIN"))
		nspy_group_add(strncmp(state, "IDLE", 4) == 0 ? drained : down, name, "%s: %s",
			       state, reason);
	else if (strchr(state, '*'))
		nspy_group_add(down, name, "%s: does not answer", state);
}

static void judge_job(const struct nspy_bundle *b, struct nspy_group *stuck, const char *line,
		      size_t bytes)
{
	/* Waiting for resources or its turn is what a queue is for. */
	static const char *const patient[] = {"Resources", "Priority", "Dependency",
					      "BeginTime", "None",     "JobArrayTaskLimit",
					      ""};
	char id[64], state[64], reason[128], end[64];
	uint64_t ended;
	bool waits = false;

	value(line, bytes, "JobId=", id, sizeof(id));
	value(line, bytes, "JobState=", state, sizeof(state));
	value(line, bytes, "Reason=", reason, sizeof(reason));
	value(line, bytes, "EndTime=", end, sizeof(end));
	for (size_t i = 0; i < nspy_array_size(patient); i++)
		waits |= strcmp(reason, patient[i]) == 0;
	if (strcmp(state, "PENDING") == 0 && !waits)
		nspy_group_add(stuck, id, "PENDING: %s", reason);
	ended = nspy_js_time(end);
	if (strcmp(state, "COMPLETING") == 0 && ended && b->taken_s > ended + COMPLETING_LONG_S)
		nspy_group_add(stuck, id,
			       "COMPLETING since %llu minutes: processes cannot be ended",
			       (unsigned long long)(b->taken_s - ended) / 60);
}

/* JobID|State|ExitCode|DerivedExitCode|Elapsed|NodeList */
static void judge_account(struct nspy_group *oom, struct nspy_group *down, const char *line,
			  size_t bytes)
{
	char *copy = nspy_xstrndup(line, bytes), *rest = copy;
	const char *field[6] = {"", "", "", "", "", ""};

	for (size_t i = 0; i < 6 && rest; i++)
		field[i] = strsep(&rest, "|");
	if (strncmp(field[1], "OUT_OF_ME", 9) == 0)
		nspy_group_add(oom, field[0], "%s on %s", field[1], field[5]);
	if (strcmp(field[1], "NODE_FAIL") == 0 && !strchr(field[0], '.'))
		nspy_group_add(down, field[5], "job %s ended with NODE_FAIL", field[0]);
	free(copy);
}

static const char *next_line(const char *at, size_t *ret_bytes)
{
	*ret_bytes = strcspn(at, "\n");
	return at[*ret_bytes] ? at + *ret_bytes + 1 : at + *ret_bytes;
}

static void judge_daemons(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	const char *ping = nspy_bundle_text(b, "slurm/ping.txt");
	const char *munge = nspy_bundle_text(b, "slurm/munge.txt");
	struct nspy_group g = {0};

	if (ping && strstr(ping, "Slurmctld") && !strstr(ping, " UP")) {
		nspy_group_add(&g, "slurmctld", "%.200s", ping);
		nspy_group_tell(&g, findings, NSPY_FINDING_SLURM_CONTROLLER_DOWN, "controller",
				NULL);
	}
	if (munge && (strncmp(munge, "inactive", 8) == 0 || strncmp(munge, "failed", 6) == 0)) {
		nspy_group_add(&g, "munge", "%.40s", munge);
		nspy_group_tell(&g, findings, NSPY_FINDING_MUNGE_DOWN, "service",
				"systemctl status munge");
	}
}

void nspy_bundle_slurm(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group down = {0}, drained = {0}, stuck = {0}, oom = {0};
	struct nspy_finding *finding;
	const char *at, *next;
	size_t bytes;

	for (at = nspy_bundle_text(b, "slurm/nodes.txt"); at && *at; at = next) {
		next = next_line(at, &bytes);
		judge_node(&down, &drained, at, bytes);
	}
	for (at = nspy_bundle_text(b, "slurm/jobs.txt"); at && *at; at = next) {
		next = next_line(at, &bytes);
		judge_job(b, &stuck, at, bytes);
	}
	for (at = nspy_bundle_text(b, "slurm/sacct.txt"); at && *at; at = next) {
		next = next_line(at, &bytes);
		judge_account(&oom, &down, at, bytes);
	}
	judge_daemons(b, findings);
	nspy_group_tell(&oom, findings, NSPY_FINDING_OOM_KILLED, "job step", NULL);
	nspy_group_tell(&down, findings, NSPY_FINDING_SLURM_NODE_DOWN, "node", "sinfo -R");
	finding = nspy_group_tell(&drained, findings, NSPY_FINDING_SLURM_NODE_DOWN, "node",
				  "sinfo -R");
	if (finding)
		finding->priority = 2; /* taken out on purpose */
	nspy_group_tell(&stuck, findings, NSPY_FINDING_SLURM_JOB_STUCK, "job", NULL);
}
