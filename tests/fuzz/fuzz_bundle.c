/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever an API may answer: the first byte chooses whose answer it is, the rest is judged. */
#include <string.h>

#include "bundle/bundle.h"
#include "fuzz.h"

static const char *const names[] = {
	"manifest.txt",
	"k8s/pods.json",
	"k8s/nodes.json",
	"k8s/events.json",
	"k8s/services.json",
	"k8s/networkpolicies.json",
	"k8s/daemonsets.json",
	"k8s/dns.json",
	"slurm/nodes.txt",
	"slurm/jobs.txt",
	"slurm/sacct.txt",
	"slurm/ping.txt",
	"aws/cluster.json",
	"aws/nodes.json",
	"aws/node.i-1.json",
	"aws/events.json",
	"aws/security-groups.json",
	"aws/fsx.fs-1.X.json",
	"snapshots/a.json",
};

/* Pods are looked at together with what else the same document says about them. */
static void add_pods(struct nspy_bundle *b, const char *data, size_t bytes)
{
	for (size_t i = 1; i <= 7; i++)
		nspy_bundle_add(b, names[i], data, bytes);
	nspy_bundle_add(b, "snapshots/b.json", data, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_bundle *b = nspy_bundle_new("bundle");
	struct nspy_findings findings = {0};
	size_t which = bytes ? data[0] % (nspy_array_size(names) + 1) : 0;

	if (bytes && which < nspy_array_size(names))
		nspy_bundle_add(b, names[which], (const char *)data + 1, bytes - 1);
	else if (bytes)
		add_pods(b, (const char *)data + 1, bytes - 1);
	nspy_bundle_judge(b, &findings);
	for (size_t i = 0; i < findings.count; i++) {
		FUZZ_ASSERT(findings.items[i]->summary && findings.items[i]->cause);
		FUZZ_ASSERT(!strpbrk(findings.items[i]->summary, "\n\x1b"));
	}
	nspy_findings_done(&findings);
	nspy_bundle_free(b);
	return 0;
}
