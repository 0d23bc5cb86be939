/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about environment variables: tables where a line is enough, functions where it is not. */
#include <stdio.h>
#include <string.h>

#include "rules_parts.h"

enum when {
	ALWAYS,
	WITH_RDMA, /* some RDMA device is there */
	WITH_EFA,
	WITH_IB,         /* a device that NCCL drives itself */
	WITH_NEIGHBOURS, /* more than one rank on the node */
};

/* value: "*" any, "!0" any but 0, "0", "1", ... equal; "tcp" etc. for FI_PROVIDER as a word. */
struct variable {
	const char *name;
	const char *value;
	enum when when;
	int priority;
	const char *words;
};

static const struct variable harmful[] = {
	{"NCCL_SHM_DISABLE", "1", WITH_NEIGHBOURS, 1,
	 "ranks of a node without peer access then talk over the network"},
	{"NCCL_IB_DISABLE", "1", WITH_IB, 1,
	 "NCCL may not use the InfiniBand devices of this host"},
	{"NCCL_COLLNET_ENABLE", "1", WITH_EFA, 1, "there is no CollNet on EFA"},
	{"FI_PROVIDER", "tcp", WITH_RDMA, 1, "libfabric may not use the RDMA devices of this host"},
	{"FI_PROVIDER", "sockets", WITH_RDMA, 1,
	 "libfabric may not use the RDMA devices of this host"},
	{"CUDA_LAUNCH_BLOCKING", "1", ALWAYS, 1, "every kernel launch waits for its end"},
	{"NCCL_ALGO", "*", ALWAYS, 2, "forces an algorithm; NCCL's own choice is usually better"},
	{"NCCL_PROTO", "*", ALWAYS, 2, "forces a protocol; NCCL's own choice is usually better"},
	{NULL, NULL, ALWAYS, 0, NULL},
};

static const struct variable ineffective[] = {
	{"NCCL_TIMEOUT", "*", ALWAYS, 2,
	 "is no variable of NCCL; timeouts are set in the framework's code"},
	{"NCCL_LL_THRESHOLD", "*", ALWAYS, 2, "is not read since NCCL 2.5; NCCL_PROTO replaced it"},
	{"NCCL_TREE_THRESHOLD", "*", ALWAYS, 2,
	 "is not read since NCCL 2.5; NCCL_ALGO replaced it"},
	{"NCCL_ASYNC_ERROR_HANDLING", "*", ALWAYS, 2,
	 "belongs to PyTorch and is now TORCH_NCCL_ASYNC_ERROR_HANDLING"},
	{"NCCL_BLOCKING_WAIT", "*", ALWAYS, 2,
	 "belongs to PyTorch and is now TORCH_NCCL_BLOCKING_WAIT"},
	{"NCCL_DESYNC_DEBUG", "*", ALWAYS, 2,
	 "belongs to PyTorch and is now TORCH_NCCL_DESYNC_DEBUG"},
	{"FI_EFA_ENABLE_SHM_TRANSFER", "1", ALWAYS, 2,
	 "is the default, and the plugin switches it off"},
	{"FI_EFA_FORK_SAFE", "1", ALWAYS, 2,
	 "is set by the plugin itself and does nothing on kernels since 5.13"},
	{NULL, NULL, ALWAYS, 0, NULL},
};

static bool applies(const struct nspy_rule_facts *facts, enum when when)
{
	switch (when) {
	case WITH_RDMA:
		return nspy_rule_rdma(facts, NULL) && facts->span != NSPY_SPAN_ONE_NODE;
	case WITH_EFA:
		return nspy_rule_rdma(facts, "efa") && facts->span != NSPY_SPAN_ONE_NODE;
	case WITH_IB:
		return (nspy_rule_rdma(facts, "mlx5_core") || nspy_rule_rdma(facts, "bnxt_en")) &&
		       facts->span != NSPY_SPAN_ONE_NODE;
	case WITH_NEIGHBOURS:
		return nspy_rule_number(facts, "local_world_size", 0) > 1;
	default:
		return true;
	}
}

static const char *variable(const struct nspy_rule_facts *facts, const char *name)
{
	char key[96];

	(void)snprintf(key, sizeof(key), "env.%s", name);
	return nspy_rule_get(facts, key);
}

/* Names all variables of a table that are set so; the gravest gives the priority. */
static bool table(const struct nspy_rule_facts *facts, const struct variable *rows,
		  struct nspy_rule_hit *hit)
{
	size_t used = 0;
	bool found = false;

	for (int priority = 0; priority <= 2; priority++) {
		for (const struct variable *row = rows; row->name; row++) {
			const char *value =
				row->priority == priority ? variable(facts, row->name) : NULL;
			int n;

			if (!value || !applies(facts, row->when) ||
			    (row->value[0] != '*' && !nspy_rule_has_word(value, row->value)))
				continue;
			if (!found)
				hit->priority = priority;
			n = snprintf(hit->text + used, sizeof(hit->text) - used, "%s%s=%.30s %s",
				     found ? "; " : "", row->name, value, row->words);
			found = true;
			if (n < 0 || used + (size_t)n >= sizeof(hit->text))
				return true;
			used += (size_t)n;
		}
	}
	hit->scope = NSPY_RULE_JOB;
	return found;
}

static bool env_harmful(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	hit->scope = NSPY_RULE_JOB;
	return table(facts, harmful, hit);
}

static bool env_ineffective(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	hit->scope = NSPY_RULE_JOB;
	return table(facts, ineffective, hit);
}

static bool p2p_disabled(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *level = variable(facts, "NCCL_P2P_LEVEL");
	bool off = nspy_rule_is(facts, "env.NCCL_P2P_DISABLE", "1");

	if (!off && !(level && (strcmp(level, "0") == 0 || strcmp(level, "LOC") == 0)))
		return false;
	if (!applies(facts, WITH_NEIGHBOURS))
		return false;
	nspy_rule_say(hit, 1, NSPY_RULE_JOB,
		      "GPUs of a node may not talk to each other directly: %s%.20s is set",
		      off ? "NCCL_P2P_DISABLE=1" : "NCCL_P2P_LEVEL=", off ? "" : level);
	return true;
}

static bool debug_costly(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *level = variable(facts, "NCCL_DEBUG");
	const char *subsystems = variable(facts, "NCCL_DEBUG_SUBSYS");
	bool all = subsystems && (nspy_rule_has_word(subsystems, "ALL") ||
				  nspy_rule_has_word(subsystems, "COLL") ||
				  nspy_rule_has_word(subsystems, "P2P"));

	if (!level || (strcmp(level, "TRACE") != 0 && (strcmp(level, "INFO") != 0 || !all)))
		return false;
	nspy_rule_say(hit, 2, NSPY_RULE_JOB,
		      "NCCL_DEBUG=%.10s%s%.60s writes lines for every operation and slows the job "
		      "down",
		      level, subsystems ? " NCCL_DEBUG_SUBSYS=" : "", subsystems ? subsystems : "");
	return true;
}

static bool topo_file(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *path = variable(facts, "NCCL_TOPO_FILE");

	if (!path)
		return false;
	nspy_rule_say(hit, 2, NSPY_RULE_JOB,
		      "NCCL_TOPO_FILE=%.200s replaces what NCCL finds out about the machine", path);
	return true;
}

static bool rendezvous(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *address = variable(facts, "MASTER_ADDR"),
		   *port = variable(facts, "MASTER_PORT");
	const char *rank = variable(facts, "RANK"), *world = variable(facts, "WORLD_SIZE");
	uint64_t ranks = nspy_rule_number(facts, "env.WORLD_SIZE", NSPY_UNLIMITED);

	if (rank && world && nspy_rule_number(facts, "env.RANK", 0) >= ranks)
		nspy_rule_say(hit, 1, NSPY_RULE_RANK, "RANK=%.12s is not below WORLD_SIZE=%.12s",
			      rank, world);
	else if (address && (!port || !rank != !world))
		nspy_rule_say(hit, 1, NSPY_RULE_RANK, "MASTER_ADDR is set, but %s is not",
			      !port  ? "MASTER_PORT"
			      : rank ? "WORLD_SIZE"
				     : "RANK");
	else
		return false;
	return true;
}

/* Entries of CUDA_VISIBLE_DEVICES; an entry below 0 ends the list, as for CUDA. */
static unsigned int visible(const char *list)
{
	unsigned int count = 0;

	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == 0 || *list == '-')
			break;
		count++;
		list += n + (list[n] == ',');
	}
	return count;
}

static bool gpu_visibility(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *list = variable(facts, "CUDA_VISIBLE_DEVICES");
	uint64_t local = nspy_rule_number(facts, "env.LOCAL_RANK", NSPY_UNLIMITED);
	unsigned int count = list ? visible(list) : 0;

	if (!list)
		return false;
	if (count == 0)
		nspy_rule_say(hit, 1, NSPY_RULE_RANK, "CUDA_VISIBLE_DEVICES=%.60s hides all GPUs",
			      list);
	else if (count > 1 && local != NSPY_UNLIMITED && local >= count)
		nspy_rule_say(hit, 1, NSPY_RULE_RANK,
			      "LOCAL_RANK=%llu has no GPU of its own: CUDA_VISIBLE_DEVICES=%.60s "
			      "shows %u",
			      (unsigned long long)local, list, count);
	else
		return false;
	return true;
}

const struct nspy_rule nspy_rules_env[] = {
	{"RENDEZVOUS_ENV_MISSING", rendezvous}, {"GPU_VISIBILITY", gpu_visibility},
	{"ENV_HARMFUL", env_harmful},           {"P2P_DISABLED", p2p_disabled},
	{"DEBUG_LEVEL_COSTLY", debug_costly},   {"ENV_INEFFECTIVE", env_ineffective},
	{"TOPO_FILE_SET", topo_file},           {NULL, NULL},
};
