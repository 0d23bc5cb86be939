/* SPDX-License-Identifier: Apache-2.0 */
/* SageMaker HyperPod, EC2 security groups, FSx metrics. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

#define SATURATED      80.0 /* percent, averaged over a period */
#define SATURATED_FULL 95.0
#define POINTS_MIN     3

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static bool is_one_of(const char *text, const char *const *list)
{
	for (; text && *list; list++) {
		if (strcmp(text, *list) == 0)
			return true;
	}
	return false;
}

/* --- cluster --- */

static void judge_cluster(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	static const char *const broken[] = {"Failed", "RollbackFailed", "Deleting",
					     "ClusterMaintenanceRollbackFailed", NULL};
	const cJSON *cluster = nspy_bundle_tree(b, "aws/cluster.json");
	const char *status = nspy_js_text(cluster, "ClusterStatus");
	const char *name = nspy_js_text(cluster, "ClusterName");
	const char *message = nspy_js_text(cluster, "FailureMessage");
	struct nspy_finding *finding;
	struct nspy_group g = {0};

	if (status && strcmp(status, "InService") != 0) {
		nspy_group_add(&g, name ? name : "?", "%s %.200s", status, message ? message : "");
		finding = nspy_group_tell(&g, findings, NSPY_FINDING_HYPERPOD_CLUSTER_STATE,
					  "cluster", NULL);
		if (finding && !is_one_of(status, broken))
			finding->priority = 2; /* on its way to somewhere */
	}
	if (same(nspy_js_text(cluster, "NodeRecovery"), "None")) {
		nspy_group_add(&g, name ? name : "?", "NodeRecovery is None");
		nspy_group_tell(&g, findings, NSPY_FINDING_HYPERPOD_NO_RECOVERY, "cluster", NULL);
	}
}

static void judge_nodes(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	const cJSON *list = nspy_js(nspy_bundle_tree(b, "aws/nodes.json"), "ClusterNodeSummaries");
	struct nspy_group g = {0};
	const cJSON *node;

	cJSON_ArrayForEach(node, list)
	{
		const char *status = nspy_js_text(node, "InstanceStatus>Status");
		const char *message = nspy_js_text(node, "InstanceStatus>Message");
		const char *id = nspy_js_text(node, "InstanceId");

		if (status && strcmp(status, "Running") != 0)
			nspy_group_add(&g, id ? id : "?", "%s %.200s", status,
				       message ? message : "");
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_HYPERPOD_NODE_NOT_RUNNING, "node", NULL);
}

/* The answers of describe-cluster-node: zone and UltraServer. */
static void judge_zones(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	const char *first = NULL, *first_id = NULL;
	struct nspy_group g = {0};

	if (nspy_findings_get(findings, NSPY_FINDING_TOPOLOGY_SPREAD))
		return; /* known from Kubernetes, for the job's own nodes */
	for (size_t i = 0; i < b->doc_count; i++) {
		const cJSON *node = nspy_js(b->docs[i].tree, "NodeDetails");
		const char *zone = nspy_js_text(node, "Placement>AvailabilityZoneId");
		const char *id = nspy_js_text(node, "InstanceId");
		const char *type = nspy_js_text(node, "InstanceType");

		/* Controllers and login nodes may be anywhere. */
		if (strncmp(b->docs[i].name, "aws/node.", 9) != 0 || !zone || !type ||
		    !(strstr(type, "p4") || strstr(type, "p5") || strstr(type, "p6") ||
		      strstr(type, "trn")))
			continue;
		if (!first) {
			first = zone;
			first_id = id;
		} else if (strcmp(first, zone) != 0) {
			nspy_group_add(&g, id ? id : "?", "zone %s; %.40s is in %s", zone,
				       first_id ? first_id : "?", first);
		}
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_TOPOLOGY_SPREAD, "node", NULL);
}

static bool contains(const char *text, const char *word)
{
	return strcasestr(text, word) != NULL;
}

/* Success and progress are told in the same list. */
static bool event_is_bad(const char *text)
{
	static const char *const good[] = {"success", "succeeded", "passed", "healthy again"};
	static const char *const bad[] = {"fail",      "insufficient", "misconfig", "unhealthy",
					  "timed out", "error",        "unable",    "faulty",
					  "replac",    "reboot",       "rollback"};

	for (size_t i = 0; i < nspy_array_size(good); i++) {
		if (contains(text, good[i]))
			return false;
	}
	for (size_t i = 0; i < nspy_array_size(bad); i++) {
		if (contains(text, bad[i]))
			return true;
	}
	return false;
}

static void judge_events(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group g = {0};
	const cJSON *event;

	cJSON_ArrayForEach(event, nspy_js(nspy_bundle_tree(b, "aws/events.json"), "Events"))
	{
		const char *text = nspy_js_text(event, "Description");
		const char *id = nspy_js_text(event, "InstanceId");
		const char *group = nspy_js_text(event, "InstanceGroupName");

		if (text && event_is_bad(text))
			nspy_group_add(&g, id ? id : group ? group : "cluster", "%.250s", text);
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_HYPERPOD_EVENT, "event", NULL);
}

/* --- security groups --- */

/* Does a list of rules allow all traffic between members of the set? */
static bool allows_itself(const cJSON *rules, const cJSON *groups)
{
	const cJSON *rule, *pair, *group;

	cJSON_ArrayForEach(rule, rules)
	{
		if (!same(nspy_js_text(rule, "IpProtocol"), "-1"))
			continue;
		cJSON_ArrayForEach(pair, nspy_js(rule, "UserIdGroupPairs"))
		{
			cJSON_ArrayForEach(group, groups)
			{
				if (same(nspy_js_text(pair, "GroupId"),
					 nspy_js_text(group, "GroupId")))
					return true;
			}
		}
	}
	return false;
}

static void judge_groups(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	const cJSON *groups =
		nspy_js(nspy_bundle_tree(b, "aws/security-groups.json"), "SecurityGroups");
	bool in = false, out = false;
	struct nspy_group g = {0};
	const cJSON *group;

	if (cJSON_GetArraySize(groups) == 0)
		return;
	cJSON_ArrayForEach(group, groups)
	{
		in |= allows_itself(nspy_js(group, "IpPermissions"), groups);
		out |= allows_itself(nspy_js(group, "IpPermissionsEgress"), groups);
	}
	if (in && out)
		return;
	cJSON_ArrayForEach(group, groups)
	{
		const char *id = nspy_js_text(group, "GroupId");

		nspy_group_add(&g, id ? id : "?", "%s%s%s to the group itself is not allowed",
			       in ? "" : "inbound", !in && !out ? " and " : "",
			       out ? "" : "outbound");
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_SECURITY_GROUP_SELF, "security group",
			"aws ec2 describe-security-groups --group-ids %s",
			nspy_js_plain(nspy_js_text(groups->child, "GroupId")));
}

/* --- FSx --- */

/* Half of the periods at or above the limit: sustained, not a peak. */
static void judge_metric(struct nspy_group *g, const char *name, const cJSON *metric)
{
	const char *label = nspy_js_text(metric, "Label");
	size_t count = 0, high = 0, full = 0;
	const cJSON *point;

	if (!label || !strstr(label, "Utilization"))
		return;
	cJSON_ArrayForEach(point, nspy_js(metric, "Datapoints"))
	{
		double average = nspy_js_number(point, "Average", -1);

		count++;
		high += average >= SATURATED;
		full += average >= SATURATED_FULL;
	}
	if (count < POINTS_MIN || high * 2 < count)
		return;
	nspy_group_add(g, name, "%s at %.0f %% or more in %zu of %zu periods%s", label, SATURATED,
		       high, count, full * 2 >= count ? ": what was provisioned is used up" : "");
}

static void judge_storage(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group g = {0};

	for (size_t i = 0; i < b->doc_count; i++) {
		const char *name = b->docs[i].name;
		char id[64];

		if (strncmp(name, "aws/fsx.", 8) != 0)
			continue;
		snprintf(id, sizeof(id), "%.*s", (int)strcspn(name + 8, "."), name + 8);
		judge_metric(&g, id, b->docs[i].tree);
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_STORAGE_SATURATED, "metric", NULL);
}

void nspy_bundle_aws(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	judge_cluster(b, findings);
	judge_nodes(b, findings);
	judge_zones(b, findings);
	judge_events(b, findings);
	judge_groups(b, findings);
	judge_storage(b, findings);
}
