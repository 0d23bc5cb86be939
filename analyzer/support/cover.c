/* SPDX-License-Identifier: Apache-2.0 */
/* The first page: who reads it has never heard of the job. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../text.h"
#include "support.h"

#define FINDINGS_SHOWN 10
#define PLACES_SHOWN   16

static cJSON *parse(const struct nspy_support *s, const char *name)
{
	const struct nspy_support_entry *entry = nspy_support_find(s, name);

	return entry ? cJSON_ParseWithLength(entry->data, entry->bytes) : NULL;
}

static const char *text_of(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsString(item) ? item->valuestring : NULL;
}

static void add_text(FILE *out, const char *label, const cJSON *object, const char *name)
{
	const char *text = text_of(object, name);

	if (text)
		fprintf(out, "%s%s", label, text);
}

static void what_happened(FILE *out, const cJSON *report)
{
	const cJSON *job, *finding;

	fputs("\nWHAT HAPPENED (in full in report.txt)\n", out);
	cJSON_ArrayForEach(job, cJSON_GetObjectItem(report, "jobs"))
	{
		int shown = 0;

		add_text(out, "  ", job, "job");
		add_text(out, ": ", cJSON_GetObjectItem(job, "verdict"), "cause");
		add_text(out, "\n    from ", job, "start");
		add_text(out, "\n    until ", job, "end");
		fputs(" UTC\n", out);
		cJSON_ArrayForEach(finding, cJSON_GetObjectItem(job, "findings"))
		{
			if (shown++ >= FINDINGS_SHOWN)
				break;
			add_text(out, "    ", finding, "priority");
			add_text(out, " ", finding, "id");
			add_text(out, ": ", finding, "summary");
			add_text(out, "; began ", finding, "began");
			fputs("\n", out);
		}
	}
}

static void where(FILE *out, const struct nspy_support *s, const cJSON *report)
{
	static const struct {
		const char *label, *name;
	} parts[] = {{", node ", "node"},
		     {", instance ", "instance"},
		     {", pod ", "pod"},
		     {", gpu ", "gpu"},
		     {", PCI ", "gpu_pci"}};
	cJSON *cluster = parse(s, "bundle/aws/cluster.json");
	const cJSON *job, *finding, *culprit;
	int shown = 0;

	fputs("\nWHERE\n", out);
	if (cluster) {
		add_text(out, "  HyperPod cluster ", cluster, "ClusterName");
		add_text(out, ", ", cluster, "ClusterArn");
		fputs("\n", out);
	}
	cJSON_ArrayForEach(job, cJSON_GetObjectItem(report, "jobs"))
	{
		cJSON_ArrayForEach(finding, cJSON_GetObjectItem(job, "findings"))
		{
			cJSON_ArrayForEach(culprit, cJSON_GetObjectItem(finding, "culprits"))
			{
				const cJSON *rank = cJSON_GetObjectItem(culprit, "rank");

				if (shown++ >= PLACES_SHOWN)
					continue;
				add_text(out, "  ", finding, "id");
				if (cJSON_IsNumber(rank))
					fprintf(out, ": rank %.0f", rank->valuedouble);
				for (size_t i = 0; i < nspy_array_size(parts); i++)
					add_text(out, parts[i].label, culprit, parts[i].name);
				fputs("\n", out);
			}
		}
	}
	if (!shown)
		fputs("  no rank or node is named; nodes that others complain of stand in "
		      "report.txt\n",
		      out);
	else if (shown > PLACES_SHOWN)
		fprintf(out, "  and %d more in report.txt\n", shown - PLACES_SHOWN);
	cJSON_Delete(cluster);
}

static void contents(FILE *out, const struct nspy_support *s)
{
	static const struct {
		const char *prefix, *what;
	} kinds[] = {
		{"report.txt",
		 "what ncclspy concludes, with evidence; report.json: the same for programs"},
		{"problems.txt", "what could not be read"},
		{"check.txt", "state of the recorded traces: whole, cut, lost records"},
		{"facts.txt", "versions, environment (allow-listed) and hardware, each value once"},
		{"records/", "the last recorded calls of the ranks named, and of one other"},
		{"events/", "what was reported while the job ran"},
		{"bundle/", "what kubectl, Slurm and aws said, snapshots of hosts, logs of pods"},
		{"logs/", "other logs, beginning and end"},
	};

	fputs("\nIN THIS FILE (manifest.txt lists every file, and what was left out)\n", out);
	for (size_t i = 0; i < nspy_array_size(kinds); i++) {
		if (nspy_support_has(s, kinds[i].prefix))
			fprintf(out, "  %-13s %s\n", kinds[i].prefix, kinds[i].what);
	}
}

/* --- what support will ask for, and is not in it --- */

struct want {
	const char *prefix; /* there if an entry begins so; NULL: never there */
	int whom;           /* -1 = everybody */
	const char *text;
};

static const struct want wants[] = {
	{"check.txt", -1, "traces: run the job under ncclspy-run, and name its directory"},
	{"bundle/", -1, "states of cluster, nodes and pods: ncclspy-collect --job ... -o DIR"},
	{"bundle/snapshots/", -1,
	 "snapshots of a bad and of a good node: ncclspy-snapshot --json on each"},
	{"bundle/aws/cluster.json", NSPY_FOR_AWS,
	 "name and ARN of the cluster, its region: ncclspy-collect --cluster NAME --region REGION"},
	{NULL, NSPY_FOR_AWS, "orchestrator (EKS cluster name, or Slurm and its controller's node)"},
	{NULL, NSPY_FOR_AWS, "since when it happens, how often, and what was changed before"},
	{NULL, NSPY_FOR_AWS, "whether it follows the node: did the same job run elsewhere?"},
	{NULL, NSPY_FOR_NVIDIA,
	 "nvidia-bug-report.log.gz of each node above (sudo nvidia-bug-report.sh, minutes after "
	 "the "
	 "failure; look through it, it holds host names and the kernel log)"},
	{NULL, NSPY_FOR_NVIDIA,
	 "output of all ranks with NCCL_DEBUG=INFO, and the topology: NCCL_TOPO_DUMP_FILE of one "
	 "rank a node"},
	{NULL, NSPY_FOR_NVIDIA, "the smallest program that fails, best one of nccl-tests"},
	{NULL, NSPY_FOR_NVIDIA, "whether it fails with another version of NCCL or of the driver"},
};

static void missing(FILE *out, const struct nspy_support *s)
{
	fputs("\nNOT IN THIS FILE, AND LIKELY TO BE ASKED FOR\n", out);
	for (size_t i = 0; i < nspy_array_size(wants); i++) {
		const struct want *want = &wants[i];

		if (want->whom >= 0 && s->whom != NSPY_FOR_ANY && (int)s->whom != want->whom)
			continue;
		if (want->prefix && nspy_support_has(s, want->prefix))
			continue;
		fprintf(out, "  - %s\n", want->text);
	}
	if (!nspy_support_has(s, "logs/") && !nspy_support_has(s, "bundle/logs/"))
		fputs("  - output of all ranks, error texts word for word: name the files\n", out);
}

static const char *addressee(const struct nspy_support *s)
{
	switch (s->whom) {
	case NSPY_FOR_AWS:
		return "AWS Support";
	case NSPY_FOR_NVIDIA:
		return "NVIDIA support";
	default:
		return "a vendor's support";
	}
}

/* In front of all others, in the order in which they are read. */
static void move_first(struct nspy_support *s)
{
	struct nspy_support_entry last;

	if (!s->entry_count)
		return;
	last = s->entries[s->entry_count - 1];
	memmove(s->entries + 1, s->entries, (s->entry_count - 1) * sizeof(last));
	s->entries[0] = last;
}

static void add_manifest(struct nspy_support *s)
{
	FILE *raw = nspy_support_temporary();
	size_t max = s->max_bytes;

	fprintf(raw, "ncclspy.support/1\n%s", s->manifest.text ? s->manifest.text : "");
	s->max_bytes = SIZE_MAX; /* these two are always there */
	nspy_support_add_raw(s, "manifest.txt", raw, "text");
	s->max_bytes = max;
	move_first(s);
}

void nspy_support_cover(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	FILE *out = nspy_support_temporary();
	cJSON *report = parse(s, "report.json");
	size_t max = s->max_bytes;
	struct nspy_str when = {0};

	nspy_add_time(&when, (uint64_t)time(NULL) * NSPY_NS_PER_S);
	fprintf(out,
		"Support bundle of ncclspy for %s\nmade %s UTC by ncclspy-analyze " NSPY_VERSION
		" from %zu jobs, %zu bundles and %zu logs\n",
		addressee(s), when.text, inputs->job_count, inputs->bundle_count,
		inputs->foreign_count);
	nspy_str_done(&when);
	if (report)
		what_happened(out, report);
	where(out, s, report);
	contents(out, s);
	missing(out, s);
	fprintf(out,
		"\nWHAT WAS REMOVED\n"
		"  Command lines, values of environment variables that are not on a list, and what "
		"looks like a\n"
		"  secret. No program can know all of them; whoever hands this on has looked "
		"through "
		"it.\n"
		"  %zu items were left out or are missing.\n",
		s->left_out);
	cJSON_Delete(report);
	add_manifest(s);
	s->max_bytes = SIZE_MAX;
	nspy_support_add_raw(s, "COVER.txt", out, "text");
	s->max_bytes = max;
	move_first(s);
}
