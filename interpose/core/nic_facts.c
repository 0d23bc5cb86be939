/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces with an address, and RDMA devices with the state of their ports. */
#include "compat.h"

#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "facts.h"
#include "host_facts.h"
#include "procfs.h"

#define INTERFACES_MAX 64
#define LIST_BYTES     512u
#define RDMA           "/sys/class/infiniband"

struct list {
	char text[LIST_BYTES];
	size_t used;
};

static bool has(const struct list *list, const char *word, char separator)
{
	size_t bytes = strlen(word);

	for (const char *at = list->text; *at;) {
		const char *end = strchr(at, separator);
		size_t n = end ? (size_t)(end - at) : strlen(at);

		if (n == bytes && memcmp(at, word, n) == 0)
			return true;
		at += n + (end != NULL);
	}
	return false;
}

static void add(struct list *list, const char *word, char separator)
{
	int n;

	if (has(list, word, separator) || list->used + strlen(word) + 2 > sizeof(list->text))
		return;
	n = snprintf(list->text + list->used, sizeof(list->text) - list->used, "%.1s%s",
		     list->used ? &separator : "", word);
	list->used += n > 0 ? (size_t)n : 0;
}

static void add_ipv4(struct list *list)
{
	static struct ifreq found[INTERFACES_MAX];
	struct ifconf conf = {.ifc_len = sizeof(found), .ifc_req = found};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (ioctl(fd, SIOCGIFCONF, &conf) == 0) {
		for (size_t i = 0; i < (size_t)conf.ifc_len / sizeof(found[0]); i++) {
			char name[IFNAMSIZ + 1];

			(void)snprintf(name, sizeof(name), "%.*s", IFNAMSIZ, found[i].ifr_name);
			add(list, name, ' ');
		}
	}
	close(fd);
}

/* Lines of "address index prefix scope flags name". */
static void add_ipv6(struct list *list)
{
	static char text[4096];
	const char *line = text;

	if (nspy_proc_read_all("/proc/net/if_inet6", text, sizeof(text)) <= 0)
		return;
	while (*line) {
		size_t bytes = strcspn(line, "\n");
		const char *name = line + bytes;
		char copy[IFNAMSIZ + 1];

		while (name > line && name[-1] != ' ')
			name--;
		(void)snprintf(copy, sizeof(copy), "%.*s", (int)(line + bytes - name), name);
		if (copy[0])
			add(list, copy, ' ');
		line += bytes + (line[bytes] == '\n');
	}
}

struct rdma {
	struct list devices, down, drivers, firmware;
	unsigned int count, active;
};

struct port {
	struct rdma *rdma;
	const char *device;
	bool down;
	bool active;
};

static bool look_at_port(const char *name, void *context)
{
	struct port *port = context;
	char path[512], state[64];

	(void)snprintf(path, sizeof(path), RDMA "/%.64s/ports/%.16s/state", port->device, name);
	if (nspy_proc_read(path, state, sizeof(state)) <= 0)
		return true;
	if (strncmp(state, "4:", 2) == 0) /* "4: ACTIVE" */
		port->active = true;
	else
		port->down = true;
	return true;
}

static bool look_at_device(const char *name, void *context)
{
	struct rdma *rdma = context;
	struct port port = {.rdma = rdma, .device = name};
	char path[512], text[256];
	const char *slash;
	ssize_t n;

	rdma->count++;
	add(&rdma->devices, name, ' ');
	(void)snprintf(path, sizeof(path), RDMA "/%.64s/ports", name);
	(void)nspy_proc_list(path, look_at_port, &port);
	if (port.active)
		rdma->active++;
	else if (port.down)
		add(&rdma->down, name, ' ');
	(void)snprintf(path, sizeof(path), RDMA "/%.64s/device/driver", name);
	n = readlink(path, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	slash = strrchr(text, '/');
	if (slash)
		add(&rdma->drivers, slash + 1, ',');
	(void)snprintf(path, sizeof(path), RDMA "/%.64s/fw_ver", name);
	if (nspy_proc_read(path, text, sizeof(text)) > 0)
		add(&rdma->firmware, text, ',');
	return true;
}

static bool count_uverbs(const char *name, void *context)
{
	unsigned int *count = context;

	*count += strncmp(name, "uverbs", 6) == 0;
	return true;
}

static void rdma_facts(void)
{
	static struct rdma rdma;
	unsigned int uverbs = 0;

	memset(&rdma, 0, sizeof(rdma));
	if (nspy_proc_list(RDMA, look_at_device, &rdma) < 0)
		rdma.count = 0;
	nspy_facts_add_number("rdma.count", rdma.count);
	if (!rdma.count)
		return;
	(void)nspy_proc_list("/dev/infiniband", count_uverbs, &uverbs);
	nspy_facts_add_number("rdma.uverbs", uverbs);
	nspy_facts_add_number("rdma.active", rdma.active);
	nspy_facts_add("rdma.devices", rdma.devices.text);
	if (rdma.down.used)
		nspy_facts_add("rdma.down", rdma.down.text);
	if (rdma.drivers.used)
		nspy_facts_add("rdma.drivers", rdma.drivers.text);
	if (rdma.firmware.used)
		nspy_facts_add("rdma.firmware", rdma.firmware.text);
}

/*
 * What lets NICs reach GPU memory: the module nvidia-peermem (nv_mem in its earlier form, where
 * NCCL looks, too), or dmabuf, which the driver offers in its open modules only. "P" in the
 * kernel's notes about a module: a licence that is not free.
 */
static void gpu_module_facts(void)
{
	static const char *const peermem[] = {
		"/sys/module/nvidia_peermem/version",
		"/sys/module/nvidia_peermem/refcnt",
		"/sys/kernel/mm/memory_peers/nv_mem/version",
		"/sys/kernel/mm/memory_peers/nv_mem_nc/version",
	};
	char text[64];
	bool there = false;

	if (nspy_proc_read("/sys/module/nvidia/taint", text, sizeof(text)) < 0)
		return;
	nspy_facts_add("gpu.module", strchr(text, 'P') ? "proprietary" : "open");
	for (size_t i = 0; i < sizeof(peermem) / sizeof(peermem[0]) && !there; i++)
		there = nspy_proc_read(peermem[i], text, sizeof(text)) >= 0;
	nspy_facts_add("gpu.peermem", there ? "1" : "0");
}

void nspy_nic_facts(void)
{
	static struct list interfaces;

	memset(&interfaces, 0, sizeof(interfaces));
	add_ipv4(&interfaces);
	add_ipv6(&interfaces);
	if (interfaces.used)
		nspy_facts_add("net.interfaces", interfaces.text);
	rdma_facts();
	gpu_module_facts();
}
