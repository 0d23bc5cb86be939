/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in a child process only: every call here may block for ever. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define NVML_SUCCESS         0
#define NVML_GPU_IS_LOST     15
#define NVML_TEMPERATURE_GPU 0
#define NVML_CLOCK_SM        1
#define NVML_UNCORRECTED     1
#define NVML_VOLATILE        0
#define NVML_AGGREGATE       1
#define NVML_LINKS_MAX       18

typedef void *nvml_device_t;

static void *library;

/* A function of the library, by its type. */
#define CALL(name, ...) ((int (*)(__VA_ARGS__))dlsym(library, name))

static bool fetch_number(const char *name, nvml_device_t device, unsigned *ret)
{
	int (*fn)(nvml_device_t, unsigned *) = CALL(name, nvml_device_t, unsigned *);

	return fn && fn(device, ret) == NVML_SUCCESS;
}

static bool fetch_by(const char *name, nvml_device_t device, unsigned which, unsigned *ret)
{
	int (*fn)(nvml_device_t, unsigned, unsigned *) =
		CALL(name, nvml_device_t, unsigned, unsigned *);

	return fn && fn(device, which, ret) == NVML_SUCCESS;
}

static bool fetch_text(const char *name, nvml_device_t device, char *buf, size_t bytes)
{
	int (*fn)(nvml_device_t, char *, unsigned) = CALL(name, nvml_device_t, char *, unsigned);

	return fn && fn(device, buf, (unsigned)bytes) == NVML_SUCCESS;
}

static bool fetch_ecc(nvml_device_t device, unsigned since, unsigned long long *ret)
{
	int (*fn)(nvml_device_t, unsigned, unsigned, unsigned long long *) =
		CALL("nvmlDeviceGetTotalEccErrors", nvml_device_t, unsigned, unsigned,
		     unsigned long long *);

	return fn && fn(device, NVML_UNCORRECTED, since, ret) == NVML_SUCCESS;
}

static bool fetch_remap(nvml_device_t device, struct gpu_state *gpu)
{
	unsigned corrected, uncorrected;
	int (*fn)(nvml_device_t, unsigned *, unsigned *, unsigned *, unsigned *) =
		CALL("nvmlDeviceGetRemappedRows", nvml_device_t, unsigned *, unsigned *, unsigned *,
		     unsigned *);

	return fn && fn(device, &corrected, &uncorrected, &gpu->remap_pending,
			&gpu->remap_failed) == NVML_SUCCESS;
}

static void fetch_links(nvml_device_t device, struct gpu_state *gpu)
{
	for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
		unsigned active;

		if (!fetch_by("nvmlDeviceGetNvLinkState", device, link, &active))
			continue;
		gpu->has |= GPU_HAS_NVLINK;
		gpu->links++;
		gpu->links_up += active != 0;
	}
}

static void fetch_gpu(nvml_device_t device, struct gpu_state *gpu)
{
	int (*heat)(nvml_device_t, unsigned, unsigned *) =
		CALL("nvmlDeviceGetTemperature", nvml_device_t, unsigned, unsigned *);
	int rc = heat ? heat(device, NVML_TEMPERATURE_GPU, &gpu->celsius) : -1;

	gpu->lost = rc == NVML_GPU_IS_LOST;
	if (gpu->lost)
		return;
	if (rc == NVML_SUCCESS)
		gpu->has |= GPU_HAS_HEAT;
	fetch_text("nvmlDeviceGetName", device, gpu->name, sizeof(gpu->name));
	fetch_text("nvmlDeviceGetUUID", device, gpu->uuid, sizeof(gpu->uuid));
	if (fetch_by("nvmlDeviceGetClockInfo", device, NVML_CLOCK_SM, &gpu->clock_mhz) &&
	    fetch_by("nvmlDeviceGetMaxClockInfo", device, NVML_CLOCK_SM, &gpu->clock_max_mhz))
		gpu->has |= GPU_HAS_CLOCK;
	if (fetch_ecc(device, NVML_VOLATILE, &gpu->ecc_volatile) &&
	    fetch_ecc(device, NVML_AGGREGATE, &gpu->ecc_aggregate))
		gpu->has |= GPU_HAS_ECC;
	if (fetch_remap(device, gpu))
		gpu->has |= GPU_HAS_REMAP;
	if (fetch_number("nvmlDeviceGetCurrPcieLinkWidth", device, &gpu->pcie_width) &&
	    fetch_number("nvmlDeviceGetMaxPcieLinkWidth", device, &gpu->pcie_width_max))
		gpu->has |= GPU_HAS_PCIE;
	fetch_links(device, gpu);
}

static void ask(const char *name, struct gpu_answer *answer)
{
	int (*init)(void), (*count)(unsigned *), (*driver)(char *, unsigned);
	int (*handle)(unsigned, nvml_device_t *);

	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(answer->error, sizeof(answer->error), "%s is not here (no driver)", name);
		return;
	}
	init = CALL("nvmlInit_v2", void);
	count = CALL("nvmlDeviceGetCount_v2", unsigned *);
	handle = CALL("nvmlDeviceGetHandleByIndex_v2", unsigned, nvml_device_t *);
	driver = CALL("nvmlSystemGetDriverVersion", char *, unsigned);
	if (!init || !count || !handle) {
		snprintf(answer->error, sizeof(answer->error), "%s is too old", name);
		return;
	}
	if (init() != NVML_SUCCESS || count(&answer->count) != NVML_SUCCESS) {
		snprintf(answer->error, sizeof(answer->error),
			 "cannot be initialised (no driver "
			 "loaded, or no permission)");
		return;
	}
	if (driver)
		driver(answer->driver, sizeof(answer->driver));
	answer->count = answer->count > GPUS_MAX ? GPUS_MAX : answer->count;
	for (unsigned i = 0; i < answer->count; i++) {
		nvml_device_t device;
		int rc = handle(i, &device);

		if (rc == NVML_SUCCESS)
			fetch_gpu(device, &answer->gpus[i]);
		else
			answer->gpus[i].lost = rc == NVML_GPU_IS_LOST;
	}
}

void gpu_ask_nvml(int fd, const void *arg)
{
	static struct gpu_answer answer;
	const char *at = (const char *)&answer;
	size_t left = sizeof(answer);
	ssize_t done;

	ask(arg, &answer);
	while (left > 0 && (done = write(fd, at, left)) > 0) {
		at += done;
		left -= (size_t)done;
	}
}
