/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvidia-ml whose two GPUs answer as NSPY_FAKE_NVML says: "key=number,..." for GPU 1 (GPU 0
 * is well); "hang" never answers, "nodriver" fails to start, "crash" dies.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlSystemGetDriverVersion(char *version, unsigned bytes);
int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius);
int nvmlDeviceGetName(void *device, char *name, unsigned bytes);
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes);
int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, unsigned type, unsigned *mhz);
int nvmlDeviceGetTotalEccErrors(void *device, unsigned type, unsigned since,
				unsigned long long *count);
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
			      unsigned *pending, unsigned *failed);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active);
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width);

static char gpus[2];

static const char *script(void)
{
	const char *text = getenv("NSPY_FAKE_NVML");

	return text ? text : "";
}

static unsigned say(const void *device, const char *key, unsigned healthy)
{
	const char *at = strstr(script(), key);

	if (device == &gpus[0] || !at || at[strlen(key)] != '=')
		return healthy;
	return (unsigned)strtoul(at + strlen(key) + 1, NULL, 10);
}

int nvmlInit_v2(void)
{
	if (strcmp(script(), "crash") == 0)
		raise(SIGKILL);
	while (strcmp(script(), "hang") == 0)
		pause();
	return strcmp(script(), "nodriver") == 0 ? 9 : 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	*device = &gpus[index];
	return 0;
}

int nvmlSystemGetDriverVersion(char *version, unsigned bytes)
{
	snprintf(version, bytes, "570.86.15");
	return 0;
}

int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius)
{
	*celsius = say(device, "celsius", 45);
	return sensor == 0 ? (int)say(device, "lost", 0) : 2;
}

int nvmlDeviceGetName(void *device, char *name, unsigned bytes)
{
	(void)device;
	snprintf(name, bytes, "NVIDIA H100 80GB HBM3");
	return 0;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned bytes)
{
	snprintf(uuid, bytes, "GPU-%d", device == &gpus[1]);
	return 0;
}

int nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *mhz)
{
	*mhz = say(device, "mhz", 1900);
	return type == 1 ? 0 : 2;
}

int nvmlDeviceGetMaxClockInfo(void *device, unsigned type, unsigned *mhz)
{
	(void)device;
	*mhz = 1980;
	return type == 1 ? 0 : 2;
}

int nvmlDeviceGetTotalEccErrors(void *device, unsigned type, unsigned since,
				unsigned long long *count)
{
	*count = say(device, since == 0 ? "ecc" : "life", 0);
	return type == 1 ? 0 : 2;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
			      unsigned *pending, unsigned *failed)
{
	*corrected = *uncorrected = 0;
	*pending = say(device, "pending", 0);
	*failed = say(device, "failed", 0);
	return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
	*active = link < say(device, "links", 18);
	return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width)
{
	*width = say(device, "width", 16);
	return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *width)
{
	(void)device;
	*width = 16;
	return 0;
}
