/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces, RDMA devices and their ports, kernel modules, and versions of the network's stack. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

/* EC2 carries 9001 bytes between instances of a VPC; elsewhere 1500 may be right. */
#define MTU_EC2 9000

static void module(struct snap *s, const char *name)
{
	char key[64], version[128];

	if (!snap_exists(s, "/sys/module/%s", name))
		return;
	snprintf(key, sizeof(key), "module.%s", name);
	if (snap_read(s, version, sizeof(version), "/sys/module/%s/version", name) <= 0)
		snprintf(version, sizeof(version), "loaded");
	snap_fact(s, SNAP_STABLE, key, "%s", version);
}

static void first_line(struct snap *s, const char *key, const char *path)
{
	char text[1024];

	if (snap_read(s, text, sizeof(text), "%s", path) > 0) {
		text[strcspn(text, "\n")] = '\0';
		snap_fact(s, SNAP_STABLE, key, "%s", text);
	}
}

static void versions(struct snap *s)
{
	static const char *const modules[] = {"efa",    "ib_uverbs",      "mlx5_core", "nvidia",
					      "gdrdrv", "nvidia_peermem", "nvidia_fs", "lustre"};
	char text[64];

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		module(s, modules[i]);
	first_line(s, "version.efa_installer", "/opt/amazon/efa_installed_packages");
	first_line(s, "version.nvidia_driver", "/proc/driver/nvidia/version");
	if (snap_read(s, text, sizeof(text), "/sys/devices/virtual/dmi/id/sys_vendor") > 0 &&
	    strcmp(text, "Amazon EC2") == 0 && !snap_get(s, "version.efa_installer"))
		snap_missing(s, "EFA installer: no /opt/amazon/efa_installed_packages (it may be "
				"in the container only, which is no defect)");
}

/* --- interfaces --- */

static bool virtual_interface(const char *name)
{
	static const char *const prefixes[] = {"lo",   "docker", "veth",    "virbr", "br-",  "cni",
					       "cali", "eni",    "flannel", "tun",   "bond_"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (snap_starts(name, prefixes[i]))
			return true;
	}
	return false;
}

static void interface(struct snap *s, const char *name, bool ec2)
{
	char state[32], mtu[32], key[96];

	if (virtual_interface(name) ||
	    snap_read(s, state, sizeof(state), "/sys/class/net/%s/operstate", name) <= 0 ||
	    snap_read(s, mtu, sizeof(mtu), "/sys/class/net/%s/mtu", name) <= 0)
		return;
	snprintf(key, sizeof(key), "interface.%.60s", name);
	snap_fact(s, SNAP_STABLE, key, "%s, mtu %s", state, mtu);
	if (ec2 && strcmp(state, "up") == 0 && strtol(mtu, NULL, 10) < MTU_EC2)
		snap_check(s, SNAP_CONCERN, "MTU_LOW", "%s has an MTU of %s; EC2 carries 9001",
			   name, mtu);
}

static void interfaces(struct snap *s)
{
	const char *vendor = snap_get(s, "host.vendor");
	bool ec2 = vendor && strcmp(vendor, "Amazon EC2") == 0;
	struct snap_names names;
	int rc = snap_list(s, "/sys/class/net", &names);

	if (rc < 0) {
		snap_missing(s, "interfaces: /sys/class/net: %s", strerror(-rc));
		return;
	}
	for (size_t i = 0; i < names.count; i++)
		interface(s, names.name[i], ec2);
	snap_names_done(&names);
}

/* --- RDMA --- */

/* EFA devices of EC2 types, as in the EC2 user guide. */
static const struct {
	const char *product;
	size_t devices;
} expected[] = {
	{"p4d.24xlarge", 4},   {"p4de.24xlarge", 4},    {"p5.48xlarge", 32},  {"p5e.48xlarge", 32},
	{"p5en.48xlarge", 16}, {"p6-b200.48xlarge", 8}, {"trn1.32xlarge", 8}, {"trn2.48xlarge", 16},
};

static size_t ports(struct snap *s, const char *device, size_t *ret_bad)
{
	char folder[SNAP_PATH_MAX / 2];
	struct snap_names names;
	size_t count = 0;

	snprintf(folder, sizeof(folder), "/sys/class/infiniband/%.200s/ports", device);
	if (snap_list(s, folder, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		char state[64], rate[64], key[300];

		if (snap_read(s, state, sizeof(state), "%s/%s/state", folder, names.name[i]) <= 0)
			continue;
		count++;
		if (snap_read(s, rate, sizeof(rate), "%s/%s/rate", folder, names.name[i]) > 0) {
			snprintf(key, sizeof(key), "rdma.%.200s/%.40s", device, names.name[i]);
			snap_fact(s, SNAP_STABLE, key, "%s, %s", state, rate);
		}
		if (!strstr(state, "ACTIVE")) {
			snap_check(s, SNAP_CONCERN, "NIC_PORT_DOWN", "port %s of %s is '%s'",
				   names.name[i], device, state);
			++*ret_bad;
		}
	}
	snap_names_done(&names);
	return count;
}

static void judge_count(struct snap *s, size_t count)
{
	const char *product = snap_get(s, "host.product");

	for (size_t i = 0; product && i < sizeof(expected) / sizeof(expected[0]); i++) {
		if (strcmp(product, expected[i].product) != 0)
			continue;
		if (count < expected[i].devices)
			snap_check(s, SNAP_CONCERN, "NIC_COUNT_LOW",
				   "%zu RDMA devices; a %s has %zu", count, product,
				   expected[i].devices);
		else
			snap_check(s, SNAP_OK, NULL, "%zu RDMA devices, as a %s has", count,
				   product);
	}
}

static void firmware(struct snap *s, const char *device)
{
	char text[128], key[300];

	if (snap_read(s, text, sizeof(text), "/sys/class/infiniband/%s/fw_ver", device) > 0) {
		snprintf(key, sizeof(key), "rdma.firmware.%.200s", device);
		snap_fact(s, SNAP_STABLE, key, "%s", text);
	}
}

/* Kernels before 5.12 have no dmabuf for RDMA: there only nvidia-peermem connects NIC and GPU. */
static void gpudirect(struct snap *s, const struct snap_names *devices)
{
	const char *release = snap_get(s, "kernel.release");
	char *end;
	long major, minor;

	if (!snap_get(s, "module.nvidia") || snap_get(s, "module.nvidia_peermem") || !release)
		return;
	if (!snap_get(s, "module.mlx5_core") || !devices->count)
		return; /* EFA brings its own */
	major = strtol(release, &end, 10);
	minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
	if (major < 5 || (major == 5 && minor < 12))
		snap_check(s, SNAP_CONCERN, "NO_GPUDIRECT_RDMA",
			   "nvidia-peermem is not loaded, and kernel %s has no dmabuf instead",
			   release);
	else
		snap_check(s, SNAP_INFO, NULL,
			   "nvidia-peermem is not loaded; GPUDirect RDMA needs dmabuf then");
}

static void rdma(struct snap *s)
{
	struct snap_names names, nodes;
	size_t count = 0, bad = 0, uverbs = 0;
	int rc = snap_list(s, "/sys/class/infiniband", &names);

	if (rc < 0) {
		snap_missing(s, "RDMA devices: none (no /sys/class/infiniband)");
		judge_count(s, 0);
		return;
	}
	snap_fact(s, SNAP_STABLE, "rdma.devices", "%zu", names.count);
	for (size_t i = 0; i < names.count; i++) {
		firmware(s, names.name[i]);
		count += ports(s, names.name[i], &bad);
	}
	if (count && !bad)
		snap_check(s, SNAP_OK, NULL, "all %zu RDMA ports are active", count);
	judge_count(s, names.count);
	gpudirect(s, &names);
	if (snap_list(s, "/dev/infiniband", &nodes) == 0) {
		for (size_t i = 0; i < nodes.count; i++)
			uverbs += snap_starts(nodes.name[i], "uverbs");
		snap_names_done(&nodes);
	}
	if (names.count && !uverbs)
		snap_check(s, SNAP_CONCERN, "NO_RDMA_DEVICE_IN_CONTAINER",
			   "%zu RDMA devices in /sys, none in /dev/infiniband", names.count);
	snap_names_done(&names);
}

void snap_net(struct snap *s)
{
	versions(s);
	interfaces(s);
	rdma(s);
}
