/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as PCI devices (sysfs) and as NVML sees them, the latter in a child (nvml.c). */
#include "gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOT_C         88 /* where H100 and A100 begin to slow down, with a margin */
#define THROTTLE_C    80
#define THROTTLE_PART 0.5

static size_t pci_gpus(struct snap *s)
{
	struct snap_names names;
	size_t count = 0;

	if (snap_list(s, "/sys/bus/pci/devices", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		char vendor[16], class[16], width[16], max[16];
		const char *device = names.name[i];

		if (snap_read(s, vendor, sizeof(vendor), "/sys/bus/pci/devices/%s/vendor",
			      device) <= 0 ||
		    strcmp(vendor, "0x10de") != 0 ||
		    snap_read(s, class, sizeof(class), "/sys/bus/pci/devices/%s/class", device) <=
			    0 ||
		    !snap_starts(class, "0x03"))
			continue;
		count++;
		if (snap_read(s, width, sizeof(width), "/sys/bus/pci/devices/%s/current_link_width",
			      device) <= 0 ||
		    snap_read(s, max, sizeof(max), "/sys/bus/pci/devices/%s/max_link_width",
			      device) <= 0)
			continue;
		if (strtol(width, NULL, 10) < strtol(max, NULL, 10))
			snap_check(s, SNAP_CONCERN, "GPU_HEALTH", "GPU %s uses %s of %s PCIe lanes",
				   device, width, max);
	}
	snap_names_done(&names);
	return count;
}

static void judge_memory(struct snap *s, const struct gpu_state *gpu, const char *who)
{
	if (gpu->has & GPU_HAS_ECC && gpu->ecc_volatile)
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH",
			   "%s: %llu uncorrectable ECC errors since the driver was loaded", who,
			   gpu->ecc_volatile);
	else if (gpu->has & GPU_HAS_ECC && gpu->ecc_aggregate)
		snap_check(s, SNAP_INFO, NULL, "%s: %llu uncorrectable ECC errors in its life", who,
			   gpu->ecc_aggregate);
	if (!(gpu->has & GPU_HAS_REMAP))
		return;
	if (gpu->remap_failed)
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH",
			   "%s: a memory row could not be remapped: replace the GPU", who);
	else if (gpu->remap_pending)
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH",
			   "%s: a memory row waits to be remapped: reset the GPU", who);
}

static void judge_heat(struct snap *s, const struct gpu_state *gpu, const char *who)
{
	if (!(gpu->has & GPU_HAS_HEAT))
		return;
	if (gpu->celsius >= HOT_C)
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH", "%s: %u degrees Celsius", who,
			   gpu->celsius);
	else if (gpu->has & GPU_HAS_CLOCK && gpu->celsius >= THROTTLE_C &&
		 gpu->clock_mhz < gpu->clock_max_mhz * THROTTLE_PART)
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH",
			   "%s: slowed down by heat: %u of %u MHz at %u degrees Celsius", who,
			   gpu->clock_mhz, gpu->clock_max_mhz, gpu->celsius);
}

static void judge_links(struct snap *s, const struct gpu_state *gpu, const char *who)
{
	if (gpu->has & GPU_HAS_NVLINK && gpu->links_up && gpu->links_up < gpu->links)
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH", "%s: %u of %u NVLinks are active", who,
			   gpu->links_up, gpu->links);
	if (gpu->has & GPU_HAS_PCIE && gpu->pcie_width < gpu->pcie_width_max)
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH", "%s: uses %u of %u PCIe lanes", who,
			   gpu->pcie_width, gpu->pcie_width_max);
}

static void judge(struct snap *s, const struct gpu_state *gpu, unsigned index)
{
	size_t before = s->check_count;
	char who[96], key[64];

	snprintf(who, sizeof(who), "GPU %u (%.40s)", index, *gpu->uuid ? gpu->uuid : "?");
	snprintf(key, sizeof(key), "gpu.%u.name", index);
	snap_fact(s, SNAP_STABLE, key, "%s", gpu->name);
	snprintf(key, sizeof(key), "gpu.%u.uuid", index);
	snap_fact(s, SNAP_IDENTITY, key, "%s", gpu->uuid);
	if (gpu->has & GPU_HAS_HEAT) {
		snprintf(key, sizeof(key), "gpu.%u.celsius", index);
		snap_fact(s, SNAP_MEASURED, key, "%u", gpu->celsius);
	}
	if (gpu->has & GPU_HAS_CLOCK) {
		snprintf(key, sizeof(key), "gpu.%u.sm_mhz", index);
		snap_fact(s, SNAP_MEASURED, key, "%u", gpu->clock_mhz);
	}
	if (gpu->has & GPU_HAS_NVLINK) {
		snprintf(key, sizeof(key), "gpu.%u.nvlinks", index);
		snap_fact(s, SNAP_STABLE, key, "%u", gpu->links_up);
	}
	if (gpu->lost) {
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH", "GPU %u: the driver has lost it", index);
		return;
	}
	judge_memory(s, gpu, who);
	judge_heat(s, gpu, who);
	judge_links(s, gpu, who);
	if (s->check_count == before)
		snap_check(s, SNAP_OK, NULL, "%s: %s, nothing wrong", who, gpu->name);
}

static void take_nvml(struct snap *s, size_t on_bus)
{
	struct gpu_answer *answer = calloc(1, sizeof(*answer));
	ssize_t got;

	if (!answer)
		return;
	got = snap_child(gpu_ask_nvml, s->nvml, answer, sizeof(*answer), SNAP_DEADLINE_MS);
	if (got == -ETIMEDOUT) {
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH",
			   "NVML does not answer within %d s: the driver or a GPU hangs",
			   SNAP_DEADLINE_MS / 1000);
	} else if (got != sizeof(*answer)) {
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH", "asking NVML crashed");
	} else if (*answer->error) {
		snap_missing(s, "NVML: %s", answer->error);
		if (on_bus)
			snap_check(s, SNAP_INFO, NULL,
				   "%zu GPUs on the bus, but NVML cannot be asked", on_bus);
	} else {
		snap_fact(s, SNAP_STABLE, "gpu.driver", "%s", answer->driver);
		snap_fact(s, SNAP_STABLE, "gpu.count", "%u", answer->count);
		for (unsigned i = 0; i < answer->count; i++)
			judge(s, &answer->gpus[i], i);
		if (answer->count < on_bus && !s->container)
			snap_check(s, SNAP_CONCERN, "GPU_HEALTH",
				   "%zu GPUs on the bus, NVML knows %u", on_bus, answer->count);
	}
	free(answer);
}

static bool runs(struct snap *s, const char *name)
{
	struct snap_names names;
	bool found = false;

	if (snap_list(s, "/proc", &names) < 0)
		return false;
	for (size_t i = 0; i < names.count && !found; i++) {
		char comm[32];

		found = names.name[i][0] >= '0' && names.name[i][0] <= '9' &&
			snap_read(s, comm, sizeof(comm), "/proc/%s/comm", names.name[i]) > 0 &&
			snap_starts(comm, name);
	}
	snap_names_done(&names);
	return found;
}

static void fabric_manager(struct snap *s)
{
	if (!snap_exists(s, "/dev/nvidia-nvswitchctl"))
		return;
	if (s->container)
		snap_missing(s, "fabric manager: not to be seen from a container");
	else if (runs(s, "nv-fabricmanage")) /* the kernel keeps 15 characters */
		snap_check(s, SNAP_OK, NULL, "the fabric manager runs");
	else
		snap_check(s, SNAP_CONCERN, "NVLS_FAILURE",
			   "there are NVSwitches and no nv-fabricmanager process");
}

void snap_gpu(struct snap *s)
{
	size_t on_bus = pci_gpus(s);

	if (on_bus)
		snap_fact(s, SNAP_STABLE, "gpu.on_bus", "%zu", on_bus);
	else
		snap_missing(s, "GPUs: no NVIDIA GPU on the PCI bus");
	fabric_manager(s);
	take_nvml(s, on_bus);
}
