/* SPDX-License-Identifier: Apache-2.0 */
/* The life of pods: not started, started and ended, started again and again. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

#define RESTARTS_MANY  2   /* more than this: it crashes again and again */
#define INIT_LONG_S    600 /* an init container that runs longer waits for something */
#define PENDING_LONG_S 120 /* scheduling and pulling may take this long */

struct groups {
	struct nspy_group oom, crash, pending, image, init, failed;
	const char *oom_pod, *oom_ns, *crash_pod, *crash_ns;
};

static const char *exit_meaning(int code)
{
	switch (code) {
	case 134:
		return "SIGABRT: often PyTorch's watchdog, an assertion, or a C++ exception";
	case 135:
		return "SIGBUS: often a full /dev/shm";
	case 137:
		return "SIGKILL: eviction, cancellation, or the kernel short of memory";
	case 139:
		return "SIGSEGV: a crash; the last NCCL call may tell where";
	case 143:
		return "SIGTERM: asked to end";
	default:
		return code ? "the program's own exit status" : "success";
	}
}

static const cJSON *ended(const cJSON *status)
{
	const cJSON *now = nspy_js(status, "state>terminated");

	return now ? now : nspy_js(status, "lastState>terminated");
}

static bool is_one_of(const char *text, const char *const *list)
{
	for (; text && *list; list++) {
		if (strcmp(text, *list) == 0)
			return true;
	}
	return false;
}

static bool judge_container(struct groups *g, const cJSON *pod, const char *who,
			    const cJSON *status)
{
	static const char *const images[] = {"ImagePullBackOff", "ErrImagePull", "InvalidImageName",
					     "ErrImageNeverPull", NULL};
	const char *name = nspy_js_text(status, "name");
	const char *waits = nspy_js_text(status, "state>waiting>reason");
	const char *message = nspy_js_text(status, "state>waiting>message");
	const cJSON *end = ended(status);
	const char *reason = nspy_js_text(end, "reason");
	int code = (int)nspy_js_number(end, "exitCode", 0);
	int restarts = (int)nspy_js_number(status, "restartCount", 0);

	if (is_one_of(waits, images)) {
		nspy_group_add(&g->image, who, "container %s: %s %.200s", name, waits,
			       message ? message : "");
		return true;
	}
	if (reason && strcmp(reason, "OOMKilled") == 0) {
		nspy_group_add(&g->oom, who, "container %s: OOMKilled, %d restarts", name,
			       restarts);
		g->oom_pod = nspy_js_text(pod, "metadata>name");
		g->oom_ns = nspy_js_text(pod, "metadata>namespace");
		return true;
	}
	if ((waits && strcmp(waits, "CrashLoopBackOff") == 0) || restarts > RESTARTS_MANY) {
		nspy_group_add(&g->crash, who, "container %s: %d restarts, exit %d (%s)", name,
			       restarts, code, exit_meaning(code));
		g->crash_pod = nspy_js_text(pod, "metadata>name");
		g->crash_ns = nspy_js_text(pod, "metadata>namespace");
		return true;
	}
	return false;
}

static bool judge_init(struct groups *g, const struct nspy_bundle *b, const char *who,
		       const cJSON *status)
{
	const char *name = nspy_js_text(status, "name");
	const char *waits = nspy_js_text(status, "state>waiting>reason");
	const cJSON *end = ended(status);
	int code = (int)nspy_js_number(end, "exitCode", 0);
	uint64_t since = nspy_js_time(nspy_js_text(status, "state>running>startedAt"));

	if ((end && code) || (waits && strcmp(waits, "CrashLoopBackOff") == 0)) {
		nspy_group_add(&g->init, who, "init container %s: exit %d (%s)", name, code,
			       exit_meaning(code));
		return true;
	}
	if (since && b->taken_s > since + INIT_LONG_S) {
		nspy_group_add(&g->init, who, "init container %s has run for %llu minutes", name,
			       (unsigned long long)(b->taken_s - since) / 60);
		return true;
	}
	return false;
}

/* Why a pod does not start, from its conditions, else from events about it. */
static const char *why_pending(const struct nspy_bundle *b, const cJSON *pod, const char **ret_hint)
{
	static const struct {
		const char *text, *hint;
	} hints[] = {
		{"Insufficient", "too little is free of what it asks for"},
		{"affinity", "no node fits its selector or affinity"},
		{"untolerated taint", "nodes have a taint that it does not tolerate"},
		{"persistentvolumeclaim", "a volume is not there"},
		{"MountVolume", "a volume cannot be mounted"},
		{"pod sandbox", "the pod network cannot be set up"},
	};
	const cJSON *item;
	const char *why = NULL, *name = nspy_js_text(pod, "metadata>name");

	cJSON_ArrayForEach(item, nspy_js(pod, "status>conditions"))
	{
		const char *type = nspy_js_text(item, "type"),
			   *status = nspy_js_text(item, "status");

		if (type && status && strcmp(type, "PodScheduled") == 0 &&
		    strcmp(status, "False") == 0)
			why = nspy_js_text(item, "message");
	}
	cJSON_ArrayForEach(item, nspy_js(nspy_bundle_tree(b, "k8s/events.json"), "items"))
	{
		const char *about = nspy_js_text(item, "involvedObject>name");
		const char *type = nspy_js_text(item, "type");

		if (!why && name && about && strcmp(about, name) == 0 && type &&
		    strcmp(type, "Warning") == 0)
			why = nspy_js_text(item, "message");
	}
	*ret_hint = why ? "see the message" : "no condition and no event says why";
	for (size_t i = 0; why && i < nspy_array_size(hints); i++) {
		if (strstr(why, hints[i].text)) {
			*ret_hint = hints[i].hint;
			break;
		}
	}
	return why ? why : "";
}

static void judge_pod(struct groups *g, const struct nspy_bundle *b, const cJSON *pod)
{
	const char *phase = nspy_js_text(pod, "status>phase");
	uint64_t made = nspy_js_time(nspy_js_text(pod, "metadata>creationTimestamp"));
	char *who = nspy_js_who(pod);
	const cJSON *status, *last = NULL;
	bool told = false;

	cJSON_ArrayForEach(status, nspy_js(pod, "status>initContainerStatuses")) told |=
		judge_init(g, b, who, status);
	cJSON_ArrayForEach(status, nspy_js(pod, "status>containerStatuses"))
	{
		told |= judge_container(g, pod, who, status);
		if (!last || nspy_js_number(ended(status), "exitCode", 0) != 0)
			last = status;
	}
	if (!told && phase && (strcmp(phase, "Failed") == 0 || strcmp(phase, "Unknown") == 0)) {
		const char *reason = nspy_js_text(pod, "status>reason");
		int code = (int)nspy_js_number(ended(last), "exitCode", -1);

		nspy_group_add(&g->failed, who, "%s%s%s, exit %d (%s)", phase, reason ? ": " : "",
			       reason ? reason : "", code,
			       code < 0 ? "not known" : exit_meaning(code));
	}
	if (!told && phase && strcmp(phase, "Pending") == 0 &&
	    (!made || !b->taken_s || b->taken_s > made + PENDING_LONG_S)) {
		const char *hint, *why = why_pending(b, pod, &hint);

		nspy_group_add(&g->pending, who, "%s: %.250s", hint, why);
	}
	free(who);
}

void nspy_bundle_pods(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct groups g = {0};
	const cJSON *pod;

	cJSON_ArrayForEach(pod, nspy_js(nspy_bundle_tree(b, "k8s/pods.json"), "items"))
		judge_pod(&g, b, pod);
	nspy_group_tell(&g.oom, findings, NSPY_FINDING_OOM_KILLED, "pod",
			"kubectl describe pod %s -n %s", nspy_js_plain(g.oom_pod),
			nspy_js_plain(g.oom_ns));
	nspy_group_tell(&g.crash, findings, NSPY_FINDING_POD_CRASH_LOOP, "pod",
			"kubectl logs %s -n %s --previous --tail=100", nspy_js_plain(g.crash_pod),
			nspy_js_plain(g.crash_ns));
	nspy_group_tell(&g.image, findings, NSPY_FINDING_POD_IMAGE_PULL, "pod", NULL);
	nspy_group_tell(&g.init, findings, NSPY_FINDING_POD_INIT_FAILED, "pod", NULL);
	nspy_group_tell(&g.failed, findings, NSPY_FINDING_POD_FAILED, "pod", NULL);
	nspy_group_tell(&g.pending, findings, NSPY_FINDING_POD_PENDING, "pod", NULL);
}
