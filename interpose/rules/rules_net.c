/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about the network. What NCCL chose is not asked of NCCL but read from what is mapped after
 * the first communicator: a plugin that failed to load or to initialise is unloaded again, and
 * NCCL's own InfiniBand transport maps libibverbs. These conclusions are marked probable.
 */
#include <stdio.h>
#include <string.h>

#include "rules_parts.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool nspy_rules_is_plugin(const char *word, const char *kind, const char *path)
{
	const char *base = base_name(path);
	char name[256];

	if (strcmp(word, path) == 0 || strcmp(base_name(word), base) == 0)
		return true;
	(void)snprintf(name, sizeof(name), "libnccl-%s-%.128s.so", kind, word);
	if (strcmp(name, base) == 0)
		return true;
	/* NCCL 2.28 and later also take a plain library name. */
	(void)snprintf(name, sizeof(name), "lib%.128s.so", word);
	return strcmp(name, base) == 0;
}

static bool in_list(const char *name, const char *list, bool whole)
{
	while (*list) {
		size_t n = strcspn(list, ",");
		size_t word = strcspn(list, ",:"); /* ":port" may follow in lists of devices */

		if (word && strncmp(name, list, word) == 0 && (!whole || name[word] == '\0'))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

size_t nspy_rules_interfaces(const char *pattern, const char *interfaces, char *ret, size_t bytes)
{
	bool not = pattern[0] == '^';
	bool whole = pattern[not ? 1 : 0] == '=';
	const char *list = pattern + not +whole;
	size_t count = 0, used = 0;

	if (bytes)
		ret[0] = '\0';
	while (*interfaces) {
		size_t n = strcspn(interfaces, " ");
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", n < 63 ? (int)n : 63, interfaces);
		if (n && in_list(name, list, whole) != not ) {
			count++;
			if (used + n + 2 <= bytes)
				used += (size_t)snprintf(ret + used, bytes - used, "%s%s",
							 used ? " " : "", name);
		}
		interfaces += n + (interfaces[n] == ' ');
	}
	return count;
}

/*
 * --- NCCL_SOCKET_IFNAME ---
 * What is called a node may be a container with others beside it: loopback is wrong only if no
 * communicator comes of it.
 */

static bool ifname_invalid(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *pattern = nspy_rule_get(facts, "env.NCCL_SOCKET_IFNAME");
	const char *interfaces = nspy_rule_get(facts, "net.interfaces");
	char left[128];
	size_t count;

	if (!pattern || !interfaces)
		return false;
	count = nspy_rules_interfaces(pattern, interfaces, left, sizeof(left));
	if (count == 0)
		nspy_rule_say(hit, 0, NSPY_RULE_NODE,
			      "NCCL_SOCKET_IFNAME=%.80s leaves no network interface: with an "
			      "address there are %.120s",
			      pattern, interfaces);
	else if (strcmp(left, "lo") == 0 && facts->span == NSPY_SPAN_NODES &&
		 !nspy_rule_is(facts, "net.up", "1") && !nspy_rule_is(facts, "net.pending", "1"))
		nspy_rule_say(
			hit, 0, NSPY_RULE_NODE,
			"NCCL_SOCKET_IFNAME=%.80s leaves only the loopback interface, but the "
			"job runs on several nodes",
			pattern);
	else
		return false;
	return true;
}

/* --- plugins --- */

static bool is_special(const char *word)
{
	return strcmp(word, "none") == 0 || strcmp(word, "STATIC_PLUGIN") == 0 ||
	       strcmp(word, "default") == 0;
}

/* The first word of a plugin list that nothing mapped stands for; false if there is none. */
static bool missing_plugin(const char *wanted, const char *mapped, char *ret, size_t bytes)
{
	while (*wanted) {
		size_t n = strcspn(wanted, ",");

		(void)snprintf(ret, bytes, "%.*s", n < 200 ? (int)n : 200, wanted);
		if (n && !is_special(ret) && !(mapped && nspy_rules_is_plugin(ret, "net", mapped)))
			return true;
		wanted += n + (wanted[n] == ',');
	}
	return false;
}

/* A plugin that was found gave up: its init failed, or it found no device. Seen, not concluded. */
static bool plugin_gave_up(const struct nspy_rule_facts *facts)
{
	const char *init = nspy_rule_get(facts, "net_plugin.init");

	return init && (strcmp(init, "0") != 0 || nspy_rule_is(facts, "net_plugin.devices", "0"));
}

/* Whether NCCL works through a plugin, as far as is known. */
static bool plugin_works(const struct nspy_rule_facts *facts)
{
	return nspy_rule_get(facts, "net_plugin.path") && !plugin_gave_up(facts);
}

/*
 * What NCCL itself said of the network it uses (NCCL_DEBUG), or NULL: of connections rather than of
 * the choice.
 */
static const char *said(const struct nspy_rule_facts *facts)
{
	const char *via = nspy_rule_get(facts, "nccl.via");

	return via ? via : nspy_rule_get(facts, "nccl.network");
}

static bool said_socket(const struct nspy_rule_facts *facts)
{
	const char *name = said(facts);

	return name && strcmp(name, "Socket") == 0;
}

/* It works with something that is neither its own sockets nor its own InfiniBand transport. */
static bool said_plugin(const struct nspy_rule_facts *facts)
{
	const char *name = said(facts);

	return name && !said_socket(facts) && strcmp(name, "IB") != 0 &&
	       strncmp(name, "IB/", 3) != 0;
}

static void say_gave_up(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *name = nspy_rule_get(facts, "net_plugin.name");
	const char *version = nspy_rule_get(facts, "net_plugin.version");
	const char *init = nspy_rule_get(facts, "net_plugin.init");
	const char *why = nspy_rule_get(facts, "net_plugin.error");
	bool failed = strcmp(init, "0") != 0;

	nspy_rule_say(
		hit, facts->span == NSPY_SPAN_NODES ? 0 : 1, NSPY_RULE_NODE,
		"the network plugin %.40s%s%.30s %s%.12s, and NCCL goes on without it%s%.150s",
		name ? name : "", version ? " " : "", version ? version : "",
		failed ? "could not start, result " : "found no device", failed ? init : "",
		why ? ": " : "", why ? why : "");
}

static bool plugin_failed(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *wanted = nspy_rule_get(facts, "env.NCCL_NET_PLUGIN");
	const char *mapped = nspy_rule_get(facts, "net_plugin.path");
	const char *why = nspy_rule_get(facts, "net_plugin.probe");
	const char *none = nspy_rule_get(facts, "nccl.net_error");
	char word[208];

	if (none) {
		nspy_rule_say(hit, 0, NSPY_RULE_NODE, "NCCL says that it has no network: %.100s",
			      none);
		return true;
	}
	if (said_plugin(facts))
		return false;
	/* Images have plugins for networks that the machine may not have. */
	if (plugin_gave_up(facts) && (wanted || nspy_rule_rdma(facts, "efa")) &&
	    facts->span != NSPY_SPAN_ONE_NODE && !(wanted && strchr(wanted, ','))) {
		say_gave_up(facts, hit);
		return true;
	}
	/* Lists: with one plugin in place another may be missing on purpose. */
	if (!wanted || facts->span == NSPY_SPAN_ONE_NODE ||
	    !nspy_rule_is(facts, "net.looked", "1") || (mapped && strchr(wanted, ',')) ||
	    !missing_plugin(wanted, mapped, word, sizeof(word)))
		return false;
	nspy_rule_say(
		hit, facts->span == NSPY_SPAN_NODES ? 0 : 1, NSPY_RULE_NODE,
		"the network plugin that NCCL_NET_PLUGIN=%.100s asks for is not in the process "
		"after the first communicator; NCCL goes on without it%s%.120s",
		word, why ? "; probe: " : "", why ? why : "");
	hit->probable = true;
	return true;
}

/* Whether NCCL's own InfiniBand transport may be at work. */
static bool may_use_ib(const struct nspy_rule_facts *facts)
{
	return nspy_rule_get(facts, "libibverbs.path") &&
	       !nspy_rule_is(facts, "env.NCCL_IB_DISABLE", "1") &&
	       (nspy_rule_rdma(facts, "mlx5_core") || nspy_rule_rdma(facts, "mlx4_core") ||
		!nspy_rule_rdma(facts, "efa"));
}

static bool is_tcp_provider(const char *list)
{
	return nspy_rule_has_word(list, "tcp") || nspy_rule_has_word(list, "sockets") ||
	       nspy_rule_has_word(list, "tcp;ofi_rxm");
}

/* Why it would be TCP, or NULL: from settings and from what is mapped. */
static const char *why_tcp(const struct nspy_rule_facts *facts)
{
	bool plugin = plugin_works(facts), other = said(facts) && !said_socket(facts);
	const char *provider = nspy_rule_get(facts, "net_plugin.provider");

	if (!provider)
		provider = nspy_rule_get(facts, "env.FI_PROVIDER");
	if (nspy_rule_is(facts, "env.NCCL_NET", "Socket"))
		return "NCCL_NET=Socket is set";
	if (plugin && provider && is_tcp_provider(provider))
		return nspy_rule_get(facts, "net_plugin.provider")
			       ? "the network plugin has selected a TCP provider"
			       : "FI_PROVIDER names a TCP provider";
	/* NCCL knows better than what is mapped. */
	if (other)
		return NULL;
	if (plugin_gave_up(facts) && !may_use_ib(facts))
		return "the network plugin gave up";
	if (!plugin && nspy_rule_is(facts, "env.NCCL_IB_DISABLE", "1"))
		return "NCCL_IB_DISABLE=1 is set and no network plugin is loaded";
	if (!plugin && !may_use_ib(facts))
		return nspy_rule_rdma(facts, "efa")
			       ? "no network plugin is loaded, and NCCL cannot use EFA by itself"
			       : "neither a network plugin nor libibverbs is loaded";
	return NULL;
}

static bool tcp_fallback(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *devices = nspy_rule_get(facts, "rdma.devices");
	const char *failed = nspy_rule_get(facts, "nccl.net_failed");
	const char *carried = nspy_rule_get(facts, "nccl.tcp_mib");
	const char *why;

	if (facts->span != NSPY_SPAN_NODES || !nspy_rule_rdma(facts, NULL) ||
	    nspy_rule_number(facts, "rdma.active", 0) == 0)
		return false;
	why = why_tcp(facts);
	if (said_socket(facts)) {
		nspy_rule_say(hit, 0, NSPY_RULE_NODE,
			      "NCCL uses TCP between nodes, it says itself: network Socket%s%.60s%s"
			      "%.80s; RDMA devices here: %.90s",
			      failed ? ", and could not start " : "", failed ? failed : "",
			      why ? "; " : "", why ? why : "", devices ? devices : "not listed");
		return true;
	}
	if (!why || !nspy_rule_is(facts, "net.looked", "1"))
		return false;
	if (carried) {
		nspy_rule_say(hit, 0, NSPY_RULE_NODE,
			      "NCCL uses TCP between nodes, a connection of its own has carried "
			      "%.12s MiB: %s; RDMA devices here: %.90s",
			      carried, why, devices ? devices : "not listed");
		return true;
	}
	nspy_rule_say(hit, 0, NSPY_RULE_NODE,
		      "NCCL will probably use TCP between nodes: %s; RDMA devices here: %.120s",
		      why, devices ? devices : "not listed");
	hit->probable = true;
	return true;
}

/* --- devices --- */

static bool no_device_nodes(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	if (facts->span == NSPY_SPAN_ONE_NODE || !nspy_rule_rdma(facts, NULL) ||
	    nspy_rule_number(facts, "rdma.uverbs", 1) != 0)
		return false;
	nspy_rule_say(hit, facts->span == NSPY_SPAN_NODES ? 0 : 1, NSPY_RULE_NODE,
		      "the host has %.10s RDMA devices (%.120s), but the process sees no "
		      "/dev/infiniband/uverbs*: it was not given them",
		      nspy_rule_get(facts, "rdma.count"), nspy_rule_get(facts, "rdma.devices"));
	return true;
}

/* A port that is down may be unused on purpose, unless it is EFA or was asked for by name. */
static bool port_down(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *down = nspy_rule_get(facts, "rdma.down");
	const char *wanted = nspy_rule_get(facts, "env.NCCL_IB_HCA");
	char left[160] = "";
	size_t count = 0;

	if (!down || facts->span == NSPY_SPAN_ONE_NODE)
		return false;
	if (wanted && wanted[0] != '^')
		count = nspy_rules_interfaces(wanted, down, left, sizeof(left));
	else if (nspy_rule_is(facts, "rdma.drivers", "efa"))
		count = nspy_rules_interfaces("^=-", down, left, sizeof(left));
	if (!count)
		return false;
	nspy_rule_say(hit, 0, NSPY_RULE_NODE, "%zu RDMA port%s not active: %.150s%s", count,
		      count == 1 ? " is" : "s are", left, wanted ? " (named by NCCL_IB_HCA)" : "");
	return true;
}

/* Devices that instances of a type have. From the vendor's tables. */
static const struct {
	const char *type;
	unsigned int count;
} efa_devices[] = {
	{"p4d.24xlarge", 4},   {"p4de.24xlarge", 4},    {"p5.48xlarge", 32},  {"p5e.48xlarge", 32},
	{"p5en.48xlarge", 16}, {"p6-b200.48xlarge", 8}, {"trn1.32xlarge", 8}, {"trn2.48xlarge", 16},
};

static bool nic_count_low(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *type = nspy_rule_get(facts, "instance.type");
	uint64_t count = nspy_rule_number(facts, "rdma.count", 0);

	if (!type || !count || !nspy_rule_is(facts, "rdma.drivers", "efa") ||
	    facts->span == NSPY_SPAN_ONE_NODE)
		return false;
	for (size_t i = 0; i < sizeof(efa_devices) / sizeof(efa_devices[0]); i++) {
		if (strcmp(type, efa_devices[i].type) != 0 || count >= efa_devices[i].count)
			continue;
		nspy_rule_say(hit, 1, NSPY_RULE_NODE,
			      "%u EFA devices where a %s has %u: some are missing or not attached",
			      (unsigned int)count, type, efa_devices[i].count);
		return true;
	}
	return false;
}

/* --- whether NICs reach GPU memory --- */

/* A setting that forbids it, or NULL. */
static const char *gdr_forbidden(const struct nspy_rule_facts *facts)
{
	const char *level = nspy_rule_get(facts, "env.NCCL_NET_GDR_LEVEL");

	if (level && strcmp(level, "0") == 0)
		return "NCCL_NET_GDR_LEVEL=0 is set";
	if (level && strcmp(level, "LOC") == 0)
		return "NCCL_NET_GDR_LEVEL=LOC is set";
	if (nspy_rule_rdma(facts, "efa") && nspy_rule_is(facts, "env.FI_EFA_USE_DEVICE_RDMA", "0"))
		return "FI_EFA_USE_DEVICE_RDMA=0 is set";
	return NULL;
}

/* What the machine or libfabric lacks, or NULL. Instances of the G family have EFA without it. */
static const char *gdr_lacking(const struct nspy_rule_facts *facts)
{
	const char *type = nspy_rule_get(facts, "instance.type");

	if (nspy_rule_is(facts, "efa.gpu_memory", "0") && !(type && type[0] == 'g'))
		return "libfabric offers EFA only without access to GPU memory (FI_HMEM)";
	if ((nspy_rule_rdma(facts, "mlx5_core") || nspy_rule_rdma(facts, "mlx4_core")) &&
	    nspy_rule_is(facts, "gpu.peermem", "0") &&
	    nspy_rule_is(facts, "gpu.module", "proprietary"))
		return "the module nvidia-peermem is not loaded, and the driver's proprietary "
		       "modules do not offer dmabuf instead";
	return NULL;
}

static bool no_gpudirect(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *setting = gdr_forbidden(facts);
	const char *why = setting ? setting : gdr_lacking(facts);
	const char *off = nspy_rule_get(facts, "nccl.gdr_off");

	/* Some devices can and some cannot: NCCL may use the right ones. */
	if (off && !nspy_rule_get(facts, "nccl.gdr_on") && nspy_rule_rdma(facts, NULL) &&
	    facts->span != NSPY_SPAN_ONE_NODE) {
		nspy_rule_say(hit, 1, NSPY_RULE_NODE,
			      "data between GPUs and NICs goes through host memory, NCCL says "
			      "itself: GPU Direct RDMA Disabled for HCA %.60s%s%.120s",
			      off, why ? "; " : "", why ? why : "");
		return true;
	}
	if (!why || facts->span == NSPY_SPAN_ONE_NODE || !nspy_rule_rdma(facts, NULL))
		return false;
	nspy_rule_say(hit, 1, setting ? NSPY_RULE_JOB : NSPY_RULE_NODE,
		      "data between GPUs and NICs goes through host memory: %s", why);
	hit->probable = !setting;
	return true;
}

/* --- plugin and libfabric --- */

/* "1.22.0" as 1022; 0 if it is no version. */
static unsigned int version_of(const char *text)
{
	unsigned int major = 0, minor = 0;

	while (text && *text >= '0' && *text <= '9' && major < 1000)
		major = major * 10 + (unsigned int)(*text++ - '0');
	if (!text || *text++ != '.')
		return 0;
	while (*text >= '0' && *text <= '9' && minor < 1000)
		minor = minor * 10 + (unsigned int)(*text++ - '0');
	return major * 1000 + minor;
}

/* aws-ofi-nccl refuses the EFA provider of a libfabric that is too old. */
static bool plugin_libfabric(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit)
{
	const char *plugin_text = nspy_rule_get(facts, "net_plugin.version");
	const char *fabric_text = nspy_rule_get(facts, "libfabric.version");
	unsigned int plugin = version_of(plugin_text), fabric = version_of(fabric_text);
	unsigned int floor = plugin >= 1013 ? 1022 : plugin >= 1008 ? 1018 : 0;

	if (!plugin || !fabric || fabric >= floor || !nspy_rule_rdma(facts, "efa"))
		return false;
	nspy_rule_say(hit, 0, NSPY_RULE_NODE,
		      "aws-ofi-nccl %.30s needs libfabric %u.%u for EFA, and libfabric %.30s is "
		      "loaded",
		      plugin_text, floor / 1000, floor % 1000, fabric_text);
	return true;
}

const struct nspy_rule nspy_rules_net[] = {
	{"NO_RDMA_DEVICE_IN_CONTAINER", no_device_nodes},
	{"PLUGIN_LIBFABRIC_INCOMPATIBLE", plugin_libfabric},
	{"NET_PLUGIN_LOAD_FAILED", plugin_failed},
	{"SOCKET_IFNAME_INVALID", ifname_invalid},
	{"NIC_PORT_DOWN", port_down},
	{"NIC_COUNT_LOW", nic_count_low},
	{"TCP_FALLBACK", tcp_fallback},
	{"NO_GPUDIRECT_RDMA", no_gpudirect},
	{NULL, NULL},
};
