/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of interpose/rules: facts in, findings out, with the values around each threshold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "rules.h"

/* Ids of the catalogue: a rule's finding must be one of them. */
static const char *const ids[] = {
#define NSPY_FINDING(id, ...) #id,
#include "findings.def"
#undef NSPY_FINDING
};

#define RDMA "rdma.count=2 rdma.active=2 rdma.uverbs=2 rdma.devices=m0 rdma.drivers=mlx5_core "
#define EFA  "rdma.count=2 rdma.active=2 rdma.uverbs=2 rdma.devices=e0 rdma.drivers=efa "
#define IB   "net.looked=1 libibverbs.path=/x "

/* finding: what must come out with that priority, or none if priority is -1. */
static const struct {
	const char *facts;
	enum nspy_rule_span span;
	const char *finding;
	int priority;
} cases[] = {
	{RDMA "limit.memlock=65536 cap.ipc_lock=0", NSPY_SPAN_NODES, "MEMLOCK_LOW", 0},
	{RDMA "limit.memlock=65537 cap.ipc_lock=0", NSPY_SPAN_NODES, "MEMLOCK_LOW", 1},
	{RDMA "limit.memlock=1073741823 cap.ipc_lock=0", NSPY_SPAN_UNKNOWN, "MEMLOCK_LOW", 1},
	{RDMA "limit.memlock=1073741824 cap.ipc_lock=0", NSPY_SPAN_NODES, "MEMLOCK_LOW", -1},
	{RDMA "limit.memlock=unlimited cap.ipc_lock=0", NSPY_SPAN_NODES, "MEMLOCK_LOW", -1},
	{RDMA "limit.memlock=65536 cap.ipc_lock=1", NSPY_SPAN_NODES, "MEMLOCK_LOW", -1},
	{RDMA "limit.memlock=65536 cap.ipc_lock=0", NSPY_SPAN_ONE_NODE, "MEMLOCK_LOW", -1},
	{"limit.memlock=65536 cap.ipc_lock=0", NSPY_SPAN_NODES, "MEMLOCK_LOW", -1},
	{"limit.stack=unlimited nccl.version=22802", 0, "STACK_LIMIT_UNSAFE", 2},
	{"limit.stack=unlimited nccl.version=22803", 0, "STACK_LIMIT_UNSAFE", -1},
	{"limit.stack=4194303 nccl.version=22703", 0, "STACK_LIMIT_UNSAFE", 2},
	{"limit.stack=4194304 nccl.version=22703", 0, "STACK_LIMIT_UNSAFE", -1},
	{"limit.stack=unlimited nccl.version=22703 world_size=256", 0, "STACK_LIMIT_UNSAFE", 1},
	{"limit.stack=unlimited nccl.version=22703 world_size=255", 0, "STACK_LIMIT_UNSAFE", 2},
	{"limit.stack=unlimited", 0, "STACK_LIMIT_UNSAFE", -1},
	{"shm.type=tmpfs shm.bytes=1073741823 shm.free=67108864 shm.nccl_mapped=1", 0,
	 "SHM_TOO_SMALL", 2},
	{"shm.type=tmpfs shm.bytes=67108864 shm.free=67108863 shm.nccl_mapped=1", 0,
	 "SHM_TOO_SMALL", 1},
	{"shm.type=tmpfs shm.bytes=1073741824 shm.free=1 shm.nccl_mapped=1", 0, "SHM_TOO_SMALL",
	 -1},
	{"shm.type=tmpfs shm.bytes=1 shm.free=1 shm.nccl_mapped=0", 0, "SHM_TOO_SMALL", -1},
	{"shm.type=0xef53 shm.bytes=99999999999 shm.free=1 shm.nccl_mapped=1", 0, "SHM_TOO_SMALL",
	 2},
	{"shm.stale=1 shm.stale_bytes=4096", 0, "SHM_STALE_SEGMENTS", 2},
	{"shm.nccl_mapped=7", 0, "SHM_STALE_SEGMENTS", -1},
	{"cgroup.max=1048576 cgroup.used_percent=95", 0, "CGROUP_MEMORY_PRESSURE", 1},
	{"cgroup.max=1048576 cgroup.used_percent=94", 0, "CGROUP_MEMORY_PRESSURE", -1},
	{"cgroup.max=1048576 cgroup.used_percent=1 cgroup.oom_kills=2", 0, "CGROUP_MEMORY_PRESSURE",
	 1},
	{"cudart.version=13000 cuda.driver=12090", 0, "DRIVER_RUNTIME_MISMATCH", 0},
	{"cudart.version=12090 cuda.driver=12000", 0, "DRIVER_RUNTIME_MISMATCH", -1},
	{"cudart.version=12090 cuda.driver=13000", 0, "DRIVER_RUNTIME_MISMATCH", -1},
	{"cudart.version=13000", 0, "DRIVER_RUNTIME_MISMATCH", -1},
	{"fail.dns=x", 0, "DNS_RESOLUTION_FAILED", 0},
	{"tried.dns=x", 0, "DNS_RESOLUTION_FAILED", -1},
	{"fail.connect=x", 0, "BOOTSTRAP_CONNECT_FAILED", 0},
	{"tried.connect=x", 0, "BOOTSTRAP_CONNECT_FAILED", -1},
	{"fail.bind=x", 0, "PORT_IN_USE", 1},
	{"tried.bind=x", 0, "PORT_IN_USE", -1},
	{"fail.shm=x", 0, "SHM_ALLOC_FAILED", 0},
	{"tried.shm=x", 0, "SHM_ALLOC_FAILED", -1},
	{"fail.fork=x", 0, "FORK_ENOMEM", 1},
	{"tried.fork=x", 0, "FORK_ENOMEM", -1},
	{"env.NCCL_SOCKET_IFNAME=eth net.interfaces=lo,ens5", 0, "SOCKET_IFNAME_INVALID", 0},
	{"env.NCCL_SOCKET_IFNAME=ens net.interfaces=lo,ens5", 0, "SOCKET_IFNAME_INVALID", -1},
	{"env.NCCL_SOCKET_IFNAME==ens net.interfaces=lo,ens5", 0, "SOCKET_IFNAME_INVALID", 0},
	{"env.NCCL_SOCKET_IFNAME=^lo,ens net.interfaces=lo,ens5", 0, "SOCKET_IFNAME_INVALID", 0},
	{"env.NCCL_SOCKET_IFNAME=lo net.interfaces=lo,ens5", NSPY_SPAN_NODES,
	 "SOCKET_IFNAME_INVALID", 0},
	{"env.NCCL_SOCKET_IFNAME=lo net.interfaces=lo,ens5", NSPY_SPAN_ONE_NODE,
	 "SOCKET_IFNAME_INVALID", -1},
	{"env.NCCL_SOCKET_IFNAME=lo net.interfaces=lo,ens5 net.up=1", NSPY_SPAN_NODES,
	 "SOCKET_IFNAME_INVALID", -1},
	{"env.NCCL_SOCKET_IFNAME=lo net.interfaces=lo,ens5 net.pending=1", NSPY_SPAN_NODES,
	 "SOCKET_IFNAME_INVALID", -1},
	{"env.NCCL_SOCKET_IFNAME=eth", 0, "SOCKET_IFNAME_INVALID", -1},
	{"env.NCCL_NET_PLUGIN=ofi net.looked=1", NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", 0},
	{"env.NCCL_NET_PLUGIN=ofi net.looked=1", NSPY_SPAN_UNKNOWN, "NET_PLUGIN_LOAD_FAILED", 1},
	{"env.NCCL_NET_PLUGIN=ofi net.looked=1", NSPY_SPAN_ONE_NODE, "NET_PLUGIN_LOAD_FAILED", -1},
	{"env.NCCL_NET_PLUGIN=ofi", NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", -1},
	{"env.NCCL_NET_PLUGIN=none net.looked=1", NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", -1},
	{"env.NCCL_NET_PLUGIN=ofi net.looked=1 net_plugin.path=/a/libnccl-net-ofi.so",
	 NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", -1},
	{"env.NCCL_NET_PLUGIN=/b/libx.so net.looked=1 net_plugin.path=/a/libnccl-net.so",
	 NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", 0},
	{"env.NCCL_NET_PLUGIN=ofi net.looked=1 net_plugin.path=/a/libnccl-net-ofi.so "
	 "net_plugin.init=3 net_plugin.error=no",
	 NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", 0},
	{EFA "net_plugin.init=3", NSPY_SPAN_UNKNOWN, "NET_PLUGIN_LOAD_FAILED", 1},
	{EFA "net_plugin.init=0 net_plugin.devices=0", NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED",
	 0},
	{EFA "net_plugin.init=0 net_plugin.devices=4", NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED",
	 -1},
	{EFA "net_plugin.init=3", NSPY_SPAN_ONE_NODE, "NET_PLUGIN_LOAD_FAILED", -1},
	{RDMA "net_plugin.init=3", NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", -1},
	{"net_plugin.init=3", NSPY_SPAN_NODES, "NET_PLUGIN_LOAD_FAILED", -1},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so net_plugin.init=3", NSPY_SPAN_NODES,
	 "TCP_FALLBACK", 0},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so net_plugin.init=0 "
	     "net_plugin.devices=1 net_plugin.provider=tcp",
	 NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so net_plugin.init=0 "
	     "net_plugin.devices=1 net_plugin.provider=efa env.FI_PROVIDER=tcp",
	 NSPY_SPAN_NODES, "TCP_FALLBACK", -1},
	{RDMA IB "net_plugin.path=/a/libnccl-net.so net_plugin.init=3", NSPY_SPAN_NODES,
	 "TCP_FALLBACK", -1},
	{EFA "net.looked=1", NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{EFA IB, NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{EFA "net.looked=1", NSPY_SPAN_UNKNOWN, "TCP_FALLBACK", -1},
	{EFA, NSPY_SPAN_NODES, "TCP_FALLBACK", -1},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so", NSPY_SPAN_NODES, "TCP_FALLBACK", -1},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so env.FI_PROVIDER=tcp", NSPY_SPAN_NODES,
	 "TCP_FALLBACK", 0},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so env.FI_PROVIDER=efa", NSPY_SPAN_NODES,
	 "TCP_FALLBACK", -1},
	{RDMA IB, NSPY_SPAN_NODES, "TCP_FALLBACK", -1},
	{RDMA IB "env.NCCL_IB_DISABLE=1", NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{RDMA IB "env.NCCL_NET=Socket", NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{"rdma.count=0 net.looked=1", NSPY_SPAN_NODES, "TCP_FALLBACK", -1},
	{EFA "nccl.network=Socket", NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{EFA "nccl.via=Socket", NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{RDMA IB "nccl.network=Socket", NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{EFA "nccl.network=Socket", NSPY_SPAN_ONE_NODE, "TCP_FALLBACK", -1},
	{"rdma.count=0 nccl.network=Socket", NSPY_SPAN_NODES, "TCP_FALLBACK", -1},
	{EFA "net.looked=1 nccl.network=Libfabric", NSPY_SPAN_NODES, "TCP_FALLBACK", -1},
	{EFA "net.looked=1 nccl.network=Socket nccl.via=Libfabric/GDRDMA", NSPY_SPAN_NODES,
	 "TCP_FALLBACK", -1},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so net_plugin.init=0 "
	     "net_plugin.devices=1 net_plugin.provider=tcp nccl.network=Libfabric",
	 NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{"env.NCCL_NET_PLUGIN=ofi net.looked=1 nccl.network=Libfabric", NSPY_SPAN_NODES,
	 "NET_PLUGIN_LOAD_FAILED", -1},
	{"env.NCCL_NET_PLUGIN=ofi net.looked=1 nccl.network=IB", NSPY_SPAN_NODES,
	 "NET_PLUGIN_LOAD_FAILED", 0},
	{EFA "net.looked=1 nccl.tcp_mib=40", NSPY_SPAN_NODES, "TCP_FALLBACK", 0},
	{EFA "net.looked=1 nccl.tcp_mib=40", NSPY_SPAN_ONE_NODE, "TCP_FALLBACK", -1},
	{EFA "net.looked=1 net_plugin.path=/a/libnccl-net.so nccl.tcp_mib=40", NSPY_SPAN_NODES,
	 "TCP_FALLBACK", -1},
	{"nccl.net_error=x", NSPY_SPAN_UNKNOWN, "NET_PLUGIN_LOAD_FAILED", 0},
	{RDMA "nccl.gdr_off=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", 1},
	{RDMA "nccl.gdr_off=0 nccl.gdr_on=1", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{RDMA "nccl.gdr_off=0", NSPY_SPAN_ONE_NODE, "NO_GPUDIRECT_RDMA", -1},
	{"nccl.gdr_off=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{"rdma.count=2 rdma.active=0 rdma.drivers=mlx5_core net.looked=1", NSPY_SPAN_NODES,
	 "TCP_FALLBACK", -1},
	{"rdma.count=2 rdma.uverbs=0 rdma.devices=m", NSPY_SPAN_NODES,
	 "NO_RDMA_DEVICE_IN_CONTAINER", 0},
	{"rdma.count=2 rdma.uverbs=1 rdma.devices=m", NSPY_SPAN_NODES,
	 "NO_RDMA_DEVICE_IN_CONTAINER", -1},
	{EFA "rdma.down=e0", NSPY_SPAN_NODES, "NIC_PORT_DOWN", 0},
	{RDMA "rdma.down=m0", NSPY_SPAN_NODES, "NIC_PORT_DOWN", -1},
	{RDMA "rdma.down=m0 env.NCCL_IB_HCA=m", NSPY_SPAN_NODES, "NIC_PORT_DOWN", 0},
	{RDMA "rdma.down=m0 env.NCCL_IB_HCA=^m0", NSPY_SPAN_NODES, "NIC_PORT_DOWN", -1},
	{EFA "instance.type=p4d.24xlarge", NSPY_SPAN_NODES, "NIC_COUNT_LOW", 1},
	{EFA "instance.type=m5.large", NSPY_SPAN_NODES, "NIC_COUNT_LOW", -1},
	{EFA "net_plugin.version=1.13.0 libfabric.version=1.21", NSPY_SPAN_NODES,
	 "PLUGIN_LIBFABRIC_INCOMPATIBLE", 0},
	{EFA "net_plugin.version=1.13.0 libfabric.version=1.22", NSPY_SPAN_NODES,
	 "PLUGIN_LIBFABRIC_INCOMPATIBLE", -1},
	{EFA "net_plugin.version=1.21.1 libfabric.version=2.1", NSPY_SPAN_NODES,
	 "PLUGIN_LIBFABRIC_INCOMPATIBLE", -1},
	{EFA "net_plugin.version=1.9.0 libfabric.version=1.17", NSPY_SPAN_NODES,
	 "PLUGIN_LIBFABRIC_INCOMPATIBLE", 0},
	{"net_plugin.version=1.13.0 libfabric.version=1.21", NSPY_SPAN_NODES,
	 "PLUGIN_LIBFABRIC_INCOMPATIBLE", -1},
	{"env.CUDA_LAUNCH_BLOCKING=1", 0, "ENV_HARMFUL", 1},
	{"env.CUDA_LAUNCH_BLOCKING=0", 0, "ENV_HARMFUL", -1},
	{"env.NCCL_ALGO=Ring", 0, "ENV_HARMFUL", 2},
	{"env.NCCL_ALGO=Ring env.CUDA_LAUNCH_BLOCKING=1", 0, "ENV_HARMFUL", 1},
	{EFA "env.FI_EFA_USE_DEVICE_RDMA=0", NSPY_SPAN_NODES, "ENV_HARMFUL", -1},
	{EFA "env.FI_EFA_USE_DEVICE_RDMA=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", 1},
	{EFA "env.FI_EFA_USE_DEVICE_RDMA=0", NSPY_SPAN_ONE_NODE, "NO_GPUDIRECT_RDMA", -1},
	{EFA "env.FI_EFA_USE_DEVICE_RDMA=1", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{RDMA "env.FI_EFA_USE_DEVICE_RDMA=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{"env.FI_EFA_USE_DEVICE_RDMA=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{RDMA "env.NCCL_NET_GDR_LEVEL=LOC", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", 1},
	{EFA "env.NCCL_NET_GDR_LEVEL=0", NSPY_SPAN_UNKNOWN, "NO_GPUDIRECT_RDMA", 1},
	{RDMA "env.NCCL_NET_GDR_LEVEL=SYS", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{"env.NCCL_NET_GDR_LEVEL=LOC", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{RDMA "gpu.module=proprietary gpu.peermem=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", 1},
	{RDMA "gpu.module=proprietary gpu.peermem=1", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{RDMA "gpu.module=open gpu.peermem=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{RDMA "gpu.module=proprietary", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{RDMA "gpu.module=proprietary gpu.peermem=0", NSPY_SPAN_ONE_NODE, "NO_GPUDIRECT_RDMA", -1},
	{"gpu.module=proprietary gpu.peermem=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{EFA "gpu.module=proprietary gpu.peermem=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{EFA "efa.gpu_memory=0", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", 1},
	{EFA "efa.gpu_memory=0 instance.type=p5.48xlarge", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", 1},
	{EFA "efa.gpu_memory=0 instance.type=g5.48xlarge", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA",
	 -1},
	{EFA "efa.gpu_memory=1", NSPY_SPAN_NODES, "NO_GPUDIRECT_RDMA", -1},
	{"env.NCCL_SHM_DISABLE=1 local_world_size=2", 0, "ENV_HARMFUL", 1},
	{"env.NCCL_SHM_DISABLE=1 local_world_size=1", 0, "ENV_HARMFUL", -1},
	{"env.NCCL_TIMEOUT=1800", 0, "ENV_INEFFECTIVE", 2},
	{"env.TORCH_NCCL_BLOCKING_WAIT=1", 0, "ENV_INEFFECTIVE", -1},
	{"env.NCCL_DEBUG=TRACE", 0, "DEBUG_LEVEL_COSTLY", 2},
	{"env.NCCL_DEBUG=INFO", 0, "DEBUG_LEVEL_COSTLY", -1},
	{"env.NCCL_DEBUG=INFO env.NCCL_DEBUG_SUBSYS=INIT,COLL", 0, "DEBUG_LEVEL_COSTLY", 2},
	{"env.NCCL_DEBUG=WARN env.NCCL_DEBUG_SUBSYS=ALL", 0, "DEBUG_LEVEL_COSTLY", -1},
	{"env.NCCL_P2P_DISABLE=1 local_world_size=8", 0, "P2P_DISABLED", 1},
	{"env.NCCL_P2P_LEVEL=LOC local_world_size=8", 0, "P2P_DISABLED", 1},
	{"env.NCCL_P2P_LEVEL=NVL local_world_size=8", 0, "P2P_DISABLED", -1},
	{"env.NCCL_P2P_DISABLE=1 local_world_size=1", 0, "P2P_DISABLED", -1},
	{"env.NCCL_TOPO_FILE=/x", 0, "TOPO_FILE_SET", 2},
	{"env.NCCL_TOPO_DUMP_FILE=/x", 0, "TOPO_FILE_SET", -1},
	{"env.RANK=4 env.WORLD_SIZE=4", 0, "RENDEZVOUS_ENV_MISSING", 1},
	{"env.RANK=3 env.WORLD_SIZE=4", 0, "RENDEZVOUS_ENV_MISSING", -1},
	{"env.MASTER_ADDR=a env.RANK=3 env.WORLD_SIZE=4", 0, "RENDEZVOUS_ENV_MISSING", 1},
	{"env.MASTER_ADDR=a env.MASTER_PORT=1 env.RANK=3", 0, "RENDEZVOUS_ENV_MISSING", 1},
	{"env.MASTER_ADDR=a env.MASTER_PORT=1", 0, "RENDEZVOUS_ENV_MISSING", -1},
	{"env.CUDA_VISIBLE_DEVICES=0,1 env.LOCAL_RANK=2", 0, "GPU_VISIBILITY", 1},
	{"env.CUDA_VISIBLE_DEVICES=0,1 env.LOCAL_RANK=1", 0, "GPU_VISIBILITY", -1},
	{"env.CUDA_VISIBLE_DEVICES=3 env.LOCAL_RANK=3", 0, "GPU_VISIBILITY", -1},
	{"env.CUDA_VISIBLE_DEVICES=-1", 0, "GPU_VISIBILITY", 1},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

/* Facts are separated by blanks; in a list of interfaces or devices a comma stands for one. */
struct table {
	char text[1024];
	const char *keys[32], *values[32];
	size_t count;
};

static void parse(struct table *t, const char *facts)
{
	char *at = t->text;

	t->count = 0;
	(void)snprintf(t->text, sizeof(t->text), "%s", facts);
	while (*at) {
		char *end = at + strcspn(at, " "), *equals = strchr(at, '=');

		if (*end)
			*end++ = '\0';
		assert_non_null(equals);
		*equals = '\0';
		t->keys[t->count] = at;
		t->values[t->count++] = equals + 1;
		if (strcmp(at, "net.interfaces") == 0)
			for (char *c = equals + 1; *c; c++)
				*c = *c == ',' ? ' ' : *c;
		at = end;
	}
}

static const char *get(const void *context, const char *key)
{
	const struct table *t = context;

	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->keys[i], key) == 0)
			return t->values[i];
	return NULL;
}

struct outcome {
	const char *wanted;
	int priority; /* of the wanted one, -1 = not found */
};

static void take(const struct nspy_rule_hit *hit, void *context)
{
	struct outcome *outcome = context;
	bool known = false;

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		known |= strcmp(ids[i], hit->id) == 0;
	assert_true(known);
	assert_true(hit->text[0] && hit->priority >= 0 && hit->priority <= 2);
	if (strcmp(hit->id, outcome->wanted) == 0) {
		assert_int_equal(outcome->priority, -1); /* never twice */
		outcome->priority = hit->priority;
	}
}

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		struct table t;
		struct nspy_rule_facts facts = {get, &t, cases[i].span};
		struct outcome outcome = {cases[i].finding, -1};

		parse(&t, cases[i].facts);
		nspy_rules_run(&facts, take, &outcome);
		if (outcome.priority != cases[i].priority)
			fail_msg("'%s': %s is %d, not %d", cases[i].facts, cases[i].finding,
				 outcome.priority, cases[i].priority);
	}
}

/* No row that must stay silent is about a finding that never comes. */
static void test_both_ways(void **state)
{
	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		bool fires = false;

		for (size_t j = 0; j < CASES; j++)
			fires |= strcmp(cases[i].finding, cases[j].finding) == 0 &&
				 cases[j].priority >= 0;
		assert_true(fires);
	}
}

static void test_no_facts(void **state)
{
	struct table t = {.count = 0};
	struct nspy_rule_facts facts = {get, &t, NSPY_SPAN_NODES};
	struct outcome outcome = {"", -1};

	(void)state;
	nspy_rules_run(&facts, take, &outcome);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		outcome.wanted = ids[i];
		nspy_rules_run(&facts, take, &outcome);
		assert_int_equal(outcome.priority, -1);
	}
}

static void test_interfaces(void **state)
{
	static const struct {
		const char *pattern, *interfaces, *left;
	} rows[] = {
		{"eth", "lo eth0 eth1 ib0", "eth0 eth1"},
		{"=eth0", "eth0 eth00", "eth0"},
		{"^lo,docker", "lo docker0 eth0", "eth0"},
		{"^=eth0", "eth0 eth00", "eth00"},
		{"eth1,ib", "lo eth0 eth1 ib0", "eth1 ib0"},
		{"mlx5_0:1", "mlx5_0 mlx5_1", "mlx5_0"},
		{"", "lo eth0", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char left[64];

		(void)nspy_rules_interfaces(rows[i].pattern, rows[i].interfaces, left,
					    sizeof(left));
		assert_string_equal(left, rows[i].left);
	}
}

/* Long facts are cut, never written past the end. */
static void test_long_facts(void **state)
{
	char text[4096];
	struct table t = {.count = 0};
	struct nspy_rule_facts facts = {get, &t, NSPY_SPAN_NODES};
	struct outcome outcome = {"DNS_RESOLUTION_FAILED", -1};

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	t.keys[0] = "fail.dns";
	t.keys[1] = "env.NCCL_ALGO";
	t.keys[2] = "env.NCCL_TOPO_FILE";
	t.values[0] = t.values[1] = t.values[2] = text;
	t.count = 3;
	nspy_rules_run(&facts, take, &outcome);
	assert_int_equal(outcome.priority, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),      cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_no_facts),   cmocka_unit_test(test_interfaces),
		cmocka_unit_test(test_long_facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
