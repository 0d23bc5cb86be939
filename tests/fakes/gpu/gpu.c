/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, settings, time, and what runs on streams. */
#include "gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_abi.h"
#include "fault_script.h"

pthread_mutex_t fake_gpu_lock = PTHREAD_MUTEX_INITIALIZER;
atomic_int fake_gpu_sticky;

static __thread int current_device;
static __thread int thread_rank;
static __thread bool thread_rank_known;

__attribute__((constructor)) static void read_script(void)
{
	fake_fault_load();
}

uint64_t fake_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void fake_sleep_ns(uint64_t ns)
{
	struct timespec rest = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
		;
}

void fake_work_init(struct fake_work *work, void (*run)(struct fake_work *, uint64_t),
		    void (*release)(struct fake_work *))
{
	work->run = run;
	work->ticket = NULL;
	work->free = release;
	atomic_init(&work->refs, 1);
}

void fake_work_get(struct fake_work *work)
{
	atomic_fetch_add(&work->refs, 1);
}

void fake_work_put(struct fake_work *work)
{
	if (atomic_fetch_sub(&work->refs, 1) == 1)
		work->free(work);
}

void fake_set_thread_rank(int rank)
{
	thread_rank = rank;
	thread_rank_known = true;
}

int fake_thread_rank(void)
{
	static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
					    "SLURM_PROCID"};

	if (thread_rank_known)
		return thread_rank;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return atoi(value);
	}
	return -1;
}

/* A setting that cannot be read ends the process: a typing error must not look like a clean run. */
static uint64_t setting(const char *name, uint64_t otherwise, uint64_t max)
{
	const char *value = getenv(name);
	uint64_t number, unit = 1;
	char *end;

	if (!value || *value == '\0')
		return otherwise;
	number = strtoull(value, &end, 10);
	if (*end == 'K' || *end == 'M' || *end == 'G')
		unit = 1ull << (*end == 'K' ? 10 : *end == 'M' ? 20 : 30);
	if (unit > 1)
		end++;
	if (end == value || *end != '\0' || *value == '-' || number > max / unit) {
		fprintf(stderr, "%s: '%s' is not a number up to %llu\n", name, value,
			(unsigned long long)max);
		_Exit(2);
	}
	return number * unit;
}

int fake_gpu_count(void)
{
	static atomic_int known;
	int count = atomic_load(&known);

	if (count == 0) {
		count = 1 + (int)setting("NSPY_FAKE_GPUS", 8, FAKE_GPU_MAX);
		atomic_store(&known, count);
	}
	return count - 1;
}

int fake_gpu_driver_version(void)
{
	return (int)setting("NSPY_FAKE_DRIVER", 13000, 1000000);
}

uint64_t fake_gpu_memory_bytes(void)
{
	return setting("NSPY_FAKE_MEMORY", 80ull << 30, 1ull << 46);
}

uint64_t fake_gpu_kernel_ns(void)
{
	static atomic_ullong known;
	unsigned long long ns = atomic_load(&known);

	if (ns == 0) {
		ns = 1 + 1000 * setting("NSPY_FAKE_KERNEL_US", 0, 1000000000);
		atomic_store(&known, ns);
	}
	return ns - 1;
}

int fake_gpu_current(void)
{
	return current_device;
}

int fake_gpu_select(int device)
{
	if (fake_gpu_count() == 0)
		return cudaErrorNoDevice;
	if (device < 0 || device >= fake_gpu_count())
		return cudaErrorInvalidDevice;
	current_device = device;
	return cudaSuccess;
}

void fake_gpu_bus_id(int device, char *ret_text, size_t bytes)
{
	snprintf(ret_text, bytes, "00000000:%02X:00.0", 0x10 + device);
}

void fake_gpu_uuid(int device, unsigned char ret_uuid[16])
{
	static const unsigned char base[16] = {0xfa, 0x4e, 0x67, 0x70, 0x75, 0x00, 0x40, 0x00,
					       0x80, 0x00, 0x6e, 0x73, 0x70, 0x79, 0x00, 0x00};

	memcpy(ret_uuid, base, sizeof(base));
	ret_uuid[15] = (unsigned char)device;
}
