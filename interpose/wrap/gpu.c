/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "gpu.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "facts.h"
#include "hot.h"

/* From the CUDA driver's interface: CUdevice is an int, CUuuid 16 bytes. */
typedef int get_device_fn(int *device);
typedef int get_bus_id_fn(char *text, int bytes, int device);
typedef int get_uuid_fn(unsigned char uuid[16], int device);

static void note_uuid(void *driver, int device)
{
	get_uuid_fn *get_uuid = (get_uuid_fn *)nspy_sys_dlsym(driver, "cuDeviceGetUuid");
	unsigned char u[16];
	char text[48];

	if (!get_uuid || get_uuid(u, device) != 0)
		return;
	(void)snprintf(text, sizeof(text),
		       "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		       u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
		       u[12], u[13], u[14], u[15]);
	nspy_facts_add("gpu.uuid", text);
}

static void note_device(void *driver)
{
	get_device_fn *get_device = (get_device_fn *)nspy_sys_dlsym(driver, "cuCtxGetDevice");
	get_bus_id_fn *get_bus_id = (get_bus_id_fn *)nspy_sys_dlsym(driver, "cuDeviceGetPCIBusId");
	char text[32];
	int device;

	if (!get_device || get_device(&device) != 0)
		return; /* no context on this thread */
	(void)snprintf(text, sizeof(text), "%d", device);
	nspy_facts_add("gpu.index", text);
	if (get_bus_id && get_bus_id(text, (int)sizeof(text), device) == 0)
		nspy_facts_add("gpu.pci", text);
	note_uuid(driver, device);
}

void nspy_gpu_note(void)
{
	static _Atomic uint32_t noted; /* epoch: a forked child that records asks again */
	uint32_t epoch = nspy_hot->epoch;
	int saved = errno;
	void *driver;

	if (atomic_exchange_explicit(&noted, epoch, memory_order_relaxed) == epoch)
		return;
	driver = nspy_sys_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (driver) {
		note_device(driver);
		nspy_sys_dlclose(driver);
	}
	nspy_dlerror_clear();
	errno = saved;
}
