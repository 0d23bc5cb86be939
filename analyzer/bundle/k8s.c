/* SPDX-License-Identifier: Apache-2.0 */
/* What a Kubernetes cluster does to jobs: nodes, device plugins, network policies, names. */
#include <arpa/inet.h>
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

#define GPU "nvidia.com/gpu"
#define EFA "vpc.amazonaws.com/efa"

static const cJSON *items(const struct nspy_bundle *b, const char *name)
{
	return nspy_js(nspy_bundle_tree(b, name), "items");
}

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static const char *member(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* --- nodes --- */

/* EFA devices of EC2 types, as in the EC2 user guide. */
static const struct {
	const char *type;
	double devices;
} expected[] = {
	{"p4d.24xlarge", 4},   {"p4de.24xlarge", 4},    {"p5.48xlarge", 32},  {"p5e.48xlarge", 32},
	{"p5en.48xlarge", 16}, {"p6-b200.48xlarge", 8}, {"trn1.32xlarge", 8}, {"trn2.48xlarge", 16},
};

/* HyperPod's labels; the type may begin with "ml.". */
static void judge_labels(struct nspy_group *health, struct nspy_group *count, const char *who,
			 const cJSON *node)
{
	const cJSON *labels = nspy_js(node, "metadata>labels");
	const char *status = member(labels, "sagemaker.amazonaws.com/node-health-status");
	const char *deep = member(labels, "sagemaker.amazonaws.com/deep-health-check-status");
	const char *type = member(labels, "node.kubernetes.io/instance-type");
	double efa = nspy_js_quantity(nspy_js(node, "status>capacity"), EFA);

	if (status && strcmp(status, "Schedulable") != 0)
		nspy_group_add(health, who, "node-health-status is %s", status);
	else if (deep && strcmp(deep, "Failed") == 0)
		nspy_group_add(health, who, "the deep health check failed");
	if (type && strncmp(type, "ml.", 3) == 0)
		type += 3;
	/* Without any there is no device plugin, which is told by itself. */
	for (size_t i = 0; type && efa > 0 && i < nspy_array_size(expected); i++) {
		if (strcmp(type, expected[i].type) == 0 && efa < expected[i].devices)
			nspy_group_add(count, who, "%.0f EFA devices; a %s has %.0f", efa, type,
				       expected[i].devices);
	}
}

static void judge_nodes(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group ready = {0}, health = {0}, count = {0};
	const cJSON *node, *condition;
	const char *first = NULL;

	cJSON_ArrayForEach(node, items(b, "k8s/nodes.json"))
	{
		char *who = nspy_js_who(node);

		cJSON_ArrayForEach(condition, nspy_js(node, "status>conditions"))
		{
			const char *status = nspy_js_text(condition, "status");
			const char *message = nspy_js_text(condition, "message");

			if (!same(nspy_js_text(condition, "type"), "Ready") || same(status, "True"))
				continue;
			nspy_group_add(&ready, who, "Ready is %s: %.200s", status ? status : "?",
				       message ? message : "");
			first = nspy_js_text(node, "metadata>name");
		}
		judge_labels(&health, &count, who, node);
		free(who);
	}
	nspy_group_tell(&ready, findings, NSPY_FINDING_K8S_NODE_NOT_READY, "node",
			"kubectl describe node %s", nspy_js_plain(first));
	nspy_group_tell(&health, findings, NSPY_FINDING_NODE_HEALTH_LABEL, "node", NULL);
	nspy_group_tell(&count, findings, NSPY_FINDING_NIC_COUNT_LOW, "node", NULL);
}

/* --- device plugins --- */

static bool wanted(const struct nspy_bundle *b, const char *resource)
{
	const cJSON *pod;

	cJSON_ArrayForEach(pod, items(b, "k8s/pods.json"))
	{
		if (nspy_pod_wants(pod, resource) > 0)
			return true;
	}
	return false;
}

/* GPU operators and distributions name theirs differently; all have one of these words. */
static void judge_plugin(const struct nspy_bundle *b, struct nspy_group *g, const char *resource,
			 const char *word)
{
	const cJSON *set, *sets = items(b, "k8s/daemonsets.json");
	bool found = false;

	if (!sets || !wanted(b, resource))
		return;
	cJSON_ArrayForEach(set, sets)
	{
		const char *name = nspy_js_text(set, "metadata>name");
		double want = nspy_js_number(set, "status>desiredNumberScheduled", 0);
		double have = nspy_js_number(set, "status>numberReady", 0);
		char *who;

		if (!name || !strstr(name, word) || !strstr(name, "device-plugin"))
			continue;
		found = true;
		if (have >= want)
			continue;
		who = nspy_js_who(set);
		nspy_group_add(g, who, "ready on %.0f of %.0f nodes", have, want);
		free(who);
	}
	if (!found)
		nspy_group_add(g, resource, "pods ask for it and no device plugin offers it");
}

static void judge_plugins(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group g = {0};

	judge_plugin(b, &g, EFA, "efa");
	judge_plugin(b, &g, GPU, "nvidia");
	nspy_group_tell(&g, findings, NSPY_FINDING_DEVICE_PLUGIN_MISSING, "device plugin",
			"kubectl get daemonsets -A");
}

/* --- network policies --- */

/* Do labels fit a selector? An expression may fit: then nothing is claimed (ret false). */
static bool selects(const cJSON *selector, const cJSON *object)
{
	const cJSON *labels = nspy_js(object, "metadata>labels"), *want;

	if (cJSON_GetArraySize(nspy_js(selector, "matchExpressions")) > 0)
		return false;
	cJSON_ArrayForEach(want, nspy_js(selector, "matchLabels"))
	{
		if (!cJSON_IsString(want) || !same(member(labels, want->string), want->valuestring))
			return false;
	}
	return true;
}

static bool concerns(const cJSON *policy, const char *direction)
{
	const cJSON *types = nspy_js(policy, "spec>policyTypes"), *type;

	cJSON_ArrayForEach(type, types)
	{
		if (cJSON_IsString(type) && strcmp(type->valuestring, direction) == 0)
			return true;
	}
	/* Without types: ingress always, egress if it has such rules. */
	return cJSON_GetArraySize(types) == 0 &&
	       (strcmp(direction, "Ingress") == 0 || nspy_js(policy, "spec>egress"));
}

/* Policies add up: a pod is cut off if some hold for it and none of them allows anything. */
static const cJSON *blocking(const struct nspy_bundle *b, const cJSON *pod, const char *direction,
			     const char *rules)
{
	const cJSON *policy, *found = NULL;

	cJSON_ArrayForEach(policy, items(b, "k8s/networkpolicies.json"))
	{
		const cJSON *selector = nspy_js(policy, "spec>podSelector");

		if (!same(nspy_js_text(policy, "metadata>namespace"),
			  nspy_js_text(pod, "metadata>namespace")) ||
		    !concerns(policy, direction))
			continue;
		if (cJSON_GetArraySize(nspy_js(selector, "matchExpressions")) > 0)
			return NULL; /* may allow what others do not */
		if (!selects(selector, pod))
			continue;
		if (cJSON_GetArraySize(nspy_js(policy, rules)) > 0)
			return NULL;
		found = policy;
	}
	return found;
}

static void judge_policies(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group g = {0};
	const cJSON *pod, *policy;
	const char *ns = NULL;

	cJSON_ArrayForEach(pod, items(b, "k8s/pods.json"))
	{
		const char *direction = "Ingress";
		char *who;

		if (nspy_pod_wants(pod, GPU) <= 0)
			continue;
		policy = blocking(b, pod, direction, "spec>ingress");
		if (!policy) {
			direction = "Egress";
			policy = blocking(b, pod, direction, "spec>egress");
		}
		if (!policy)
			continue;
		who = nspy_js_who(pod);
		nspy_group_add(&g, who, "policy %s allows no %s",
			       nspy_js_text(policy, "metadata>name"), direction);
		ns = nspy_js_text(pod, "metadata>namespace");
		free(who);
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_NETWORK_POLICY_BLOCKS, "pod",
			"kubectl describe networkpolicies -n %s", nspy_js_plain(ns));
}

/* --- names --- */

static const char *master_addr(const cJSON *pod)
{
	const cJSON *container, *variable;

	cJSON_ArrayForEach(container, nspy_js(pod, "spec>containers"))
	{
		cJSON_ArrayForEach(variable, nspy_js(container, "env"))
		{
			if (same(nspy_js_text(variable, "name"), "MASTER_ADDR"))
				return nspy_js_text(variable, "value");
		}
	}
	return NULL;
}

static const cJSON *service(const struct nspy_bundle *b, const char *ns, const char *name,
			    size_t bytes)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, items(b, "k8s/services.json"))
	{
		const char *there = nspy_js_text(item, "metadata>name");

		if (same(nspy_js_text(item, "metadata>namespace"), ns) && there &&
		    strlen(there) == bytes && strncmp(there, name, bytes) == 0)
			return item;
	}
	return NULL;
}

static bool is_address(const char *text)
{
	unsigned char buf[16];

	return inet_pton(AF_INET, text, buf) == 1 || inet_pton(AF_INET6, text, buf) == 1;
}

/* "pod.service..." or "service...": the service must be there, and headless for names of pods. */
static void judge_name(const struct nspy_bundle *b, struct nspy_group *g, const cJSON *pod)
{
	const char *address = master_addr(pod), *ns = nspy_js_text(pod, "metadata>namespace");
	size_t first = address ? strcspn(address, ".") : 0, second;
	const cJSON *found, *selector;
	const char *ip;
	char *who;

	if (!address || !*address || is_address(address) || same(address, "localhost") ||
	    strchr(address, '<') || strchr(address, '$'))
		return;
	second = address[first] ? strcspn(address + first + 1, ".") : 0;
	who = nspy_js_who(pod);
	found = second ? service(b, ns, address + first + 1, second) : NULL;
	ip = nspy_js_text(found, "spec>clusterIP");
	selector = nspy_js(found, "spec>selector");
	if (!found && !service(b, ns, address, first))
		nspy_group_add(g, who, "MASTER_ADDR is %.120s and there is no such service",
			       address);
	else if (found && !same(ip, "None"))
		nspy_group_add(g, who,
			       "MASTER_ADDR is %.120s: names of pods need a headless service "
			       "(clusterIP: None)",
			       address);
	else if (found && cJSON_IsObject(selector)) {
		cJSON wrapped = {.type = cJSON_Object, .child = NULL};
		cJSON *copy = cJSON_Duplicate(selector, true);

		/* A service's selector is a plain set of labels. */
		cJSON_AddItemToObject(&wrapped, "matchLabels", copy);
		if (!selects(&wrapped, pod))
			nspy_group_add(g, who,
				       "the service in MASTER_ADDR %.120s selects other pods",
				       address);
		cJSON_DeleteItemFromObject(&wrapped, "matchLabels");
	}
	free(who);
}

static void judge_names(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group g = {0}, dns = {0};
	const cJSON *pod, *condition;

	if (items(b, "k8s/services.json")) {
		cJSON_ArrayForEach(pod, items(b, "k8s/pods.json"))
		{
			if (nspy_pod_wants(pod, GPU) > 0)
				judge_name(b, &g, pod);
		}
	}
	cJSON_ArrayForEach(pod, items(b, "k8s/dns.json"))
	{
		cJSON_ArrayForEach(condition, nspy_js(pod, "status>conditions"))
		{
			char *who;

			if (!same(nspy_js_text(condition, "type"), "Ready") ||
			    same(nspy_js_text(condition, "status"), "True"))
				continue;
			who = nspy_js_who(pod);
			nspy_group_add(&dns, who, "not ready");
			free(who);
		}
	}
	if (items(b, "k8s/dns.json") && cJSON_GetArraySize(items(b, "k8s/dns.json")) == 0)
		nspy_group_add(&dns, "kube-dns", "no pod with k8s-app=kube-dns in kube-system");
	nspy_group_tell(&g, findings, NSPY_FINDING_HEADLESS_SERVICE_MISSING, "pod", NULL);
	nspy_group_tell(&dns, findings, NSPY_FINDING_CLUSTER_DNS_UNHEALTHY, "name server",
			"kubectl get pods -n kube-system -l k8s-app=kube-dns");
}

void nspy_bundle_k8s(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	judge_nodes(b, findings);
	judge_plugins(b, findings);
	judge_policies(b, findings);
	judge_names(b, findings);
}
