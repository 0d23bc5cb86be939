/* SPDX-License-Identifier: Apache-2.0 */
/* How the pods of one job are set up: devices, shared memory, images, the nodes they are on. */
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

static const cJSON *node_of(const struct nspy_bundle *b, const cJSON *pod)
{
	const char *wanted = nspy_js_text(pod, "spec>nodeName"), *name;
	const cJSON *node;

	cJSON_ArrayForEach(node, items(b, "k8s/nodes.json"))
	{
		name = nspy_js_text(node, "metadata>name");
		if (wanted && name && strcmp(wanted, name) == 0)
			return node;
	}
	return NULL;
}

static const char *label(const cJSON *node, const char *name)
{
	const cJSON *item =
		cJSON_GetObjectItemCaseSensitive(nspy_js(node, "metadata>labels"), name);

	return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* Volume behind a mount of /dev/shm that is larger than the default 64 MiB. */
static bool has_shm(const cJSON *pod)
{
	const cJSON *container, *mount, *volume;

	if (cJSON_IsTrue(nspy_js(pod, "spec>hostIPC")))
		return true;
	cJSON_ArrayForEach(container, nspy_js(pod, "spec>containers"))
	{
		cJSON_ArrayForEach(mount, nspy_js(container, "volumeMounts"))
		{
			const char *path = nspy_js_text(mount, "mountPath");
			const char *name = nspy_js_text(mount, "name"), *other;

			if (!path || !name || strcmp(path, "/dev/shm") != 0)
				continue;
			cJSON_ArrayForEach(volume, nspy_js(pod, "spec>volumes"))
			{
				const char *medium = nspy_js_text(volume, "emptyDir>medium");

				other = nspy_js_text(volume, "name");
				if (other && strcmp(other, name) == 0 &&
				    ((medium && strcmp(medium, "Memory") == 0) ||
				     nspy_js(volume, "hostPath")))
					return true;
			}
		}
	}
	return false;
}

static bool privileged(const cJSON *pod)
{
	const cJSON *container;

	cJSON_ArrayForEach(container, nspy_js(pod, "spec>containers"))
	{
		if (cJSON_IsTrue(nspy_js(container, "securityContext>privileged")))
			return true;
	}
	return false;
}

/* A pod of the same job on another node: only then does the network matter. */
static bool spans_nodes(const cJSON *pods, const cJSON *pod)
{
	const char *node = nspy_js_text(pod, "spec>nodeName");
	const cJSON *other;

	cJSON_ArrayForEach(other, pods)
	{
		const char *there = nspy_js_text(other, "spec>nodeName");

		if (node && there && strcmp(node, there) != 0 && nspy_js_owner_same(pod, other))
			return true;
	}
	return false;
}

static void judge_resources(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group shm = {0}, efa = {0};
	const cJSON *pods = items(b, "k8s/pods.json"), *pod;

	cJSON_ArrayForEach(pod, pods)
	{
		const cJSON *node = node_of(b, pod);
		double offers = nspy_js_quantity(nspy_js(node, "status>allocatable"), EFA);
		char *who;

		if (nspy_pod_wants(pod, GPU) <= 0)
			continue;
		who = nspy_js_who(pod);
		if (nspy_pod_wants(pod, GPU) > 1 && !has_shm(pod))
			nspy_group_add(&shm, who, "no memory-backed volume at /dev/shm: 64 MiB");
		if (offers > 0 && nspy_pod_wants(pod, EFA) <= 0 && !privileged(pod) &&
		    spans_nodes(pods, pod))
			nspy_group_add(&efa, who,
				       "its node offers %.0f EFA devices, it asks for none",
				       offers);
		free(who);
	}
	nspy_group_tell(&shm, findings, NSPY_FINDING_POD_SHM_DEFAULT, "pod", NULL);
	nspy_group_tell(&efa, findings, NSPY_FINDING_POD_WITHOUT_EFA, "pod", NULL);
}

/* The image that a container runs: the id names the content, whatever its tag. */
static const char *image_of(const cJSON *pod, const char *container)
{
	const cJSON *status;
	const char *image = NULL;

	cJSON_ArrayForEach(status, nspy_js(pod, "status>containerStatuses"))
	{
		const char *name = nspy_js_text(status, "name");

		if (name && strcmp(name, container) == 0) {
			image = nspy_js_text(status, "imageID");
			if (!image || !*image)
				image = nspy_js_text(status, "image");
		}
	}
	return image && *image ? image : NULL;
}

/* Each pod against the first one of its job that has the container. */
static void judge_images(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	const cJSON *pods = items(b, "k8s/pods.json"), *pod, *first, *container;
	struct nspy_group g = {0};

	cJSON_ArrayForEach(pod, pods)
	{
		first = pods->child;
		while (first != pod && !nspy_js_owner_same(first, pod))
			first = first->next;
		if (first == pod || nspy_pod_wants(pod, GPU) <= 0)
			continue;
		cJSON_ArrayForEach(container, nspy_js(pod, "spec>containers"))
		{
			const char *name = nspy_js_text(container, "name");
			const char *a = name ? image_of(first, name) : NULL;
			const char *c = name ? image_of(pod, name) : NULL;
			char *who;

			if (!a || !c || strcmp(a, c) == 0)
				continue;
			who = nspy_js_who(pod);
			nspy_group_add(&g, who, "container %s runs %.120s; %.60s runs %.120s", name,
				       c, nspy_js_text(first, "metadata>name"), a);
			free(who);
		}
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_IMAGE_DRIFT, "pod", NULL);
}

/* Label that differs between the nodes of one job; the group gets the pods that are elsewhere. */
static struct nspy_finding *judge_label(const struct nspy_bundle *b, struct nspy_findings *findings,
					const char *name, const char *what, enum nspy_finding_id id)
{
	const cJSON *pods = items(b, "k8s/pods.json"), *pod, *first;
	struct nspy_group g = {0};

	cJSON_ArrayForEach(pod, pods)
	{
		const char *a, *c;
		char *who;

		first = pods->child;
		while (first != pod && !(nspy_js_owner_same(first, pod) &&
					 nspy_pod_wants(first, GPU) > 0 && node_of(b, first)))
			first = first->next;
		if (first == pod || nspy_pod_wants(pod, GPU) <= 0)
			continue;
		a = label(node_of(b, first), name);
		c = label(node_of(b, pod), name);
		if (!a || !c || strcmp(a, c) == 0)
			continue;
		who = nspy_js_who(pod);
		nspy_group_add(&g, who, "%s %s; %.80s is on %s", what, c,
			       nspy_js_text(first, "metadata>name"), a);
		free(who);
	}
	return nspy_group_tell(&g, findings, id, "pod", NULL);
}

void nspy_bundle_jobs(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_finding *spread;

	judge_resources(b, findings);
	judge_images(b, findings);
	judge_label(b, findings, "node.kubernetes.io/instance-type", "instance type",
		    NSPY_FINDING_MIXED_HARDWARE);
	/* The widest separation tells of the narrower ones. */
	if (judge_label(b, findings, "topology.kubernetes.io/zone", "availability zone",
			NSPY_FINDING_TOPOLOGY_SPREAD) ||
	    judge_label(b, findings, "topology.k8s.aws/ultraserver-id", "UltraServer",
			NSPY_FINDING_TOPOLOGY_SPREAD))
		return;
	spread = judge_label(b, findings, "topology.k8s.aws/network-node-layer-3", "network node",
			     NSPY_FINDING_TOPOLOGY_SPREAD);
	if (spread)
		spread->priority = 2; /* a large job cannot do without */
}
