/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory is host memory that is accounted for: each device of each process has a size
 * (NSPY_FAKE_MEMORY) and allocations beyond it fail as on a real device.
 */
#include <stdlib.h>

#include "cuda_abi.h"
#include "fault_script.h"
#include "gpu.h"

#define BUCKETS   4096
#define ALIGNMENT 512

struct allocation {
	struct allocation *next;
	char *ptr;
	size_t bytes;
	enum fake_memory_kind kind;
	int device;
};

static struct allocation *buckets[BUCKETS];
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t used[FAKE_GPU_MAX];

static struct allocation **bucket(const void *ptr)
{
	return &buckets[((uintptr_t)ptr / ALIGNMENT) % BUCKETS];
}

/* The script counts what the program allocates, not what libraries do for themselves. */
static __thread bool unscripted;

void fake_memory_unscripted(bool on)
{
	unscripted = on;
}

static int faulted(void)
{
	struct fake_fault faults[4];
	struct fake_occurrence event = {
		.op = FAKE_OP_MALLOC, .rank = fake_thread_rank(), .in_library = true};
	int due = fake_fault_due(&event, faults, 4);

	for (int i = 0; i < due; i++) {
		if (faults[i].act == FAKE_ACT_OOM)
			return cudaErrorMemoryAllocation;
		if (faults[i].act == FAKE_ACT_FAIL)
			return (int)faults[i].arg;
	}
	return cudaSuccess;
}

static int reserve(size_t bytes, enum fake_memory_kind kind, int device)
{
	if (kind == FAKE_MEMORY_HOST)
		return cudaSuccess;
	if (bytes > fake_gpu_memory_bytes() - used[device])
		return cudaErrorMemoryAllocation;
	used[device] += bytes;
	return cudaSuccess;
}

static int allocate(void **ret_ptr, size_t bytes, enum fake_memory_kind kind)
{
	size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	struct allocation *one = calloc(1, sizeof(*one));
	int result;

	if (!one)
		return cudaErrorMemoryAllocation;
	*one = (struct allocation){.bytes = rounded, .kind = kind, .device = fake_gpu_current()};
	pthread_mutex_lock(&memory_lock);
	result = rounded < bytes ? cudaErrorMemoryAllocation : reserve(rounded, kind, one->device);
	if (result == cudaSuccess) {
		one->ptr = aligned_alloc(ALIGNMENT, rounded);
		if (!one->ptr) {
			used[one->device] -= kind == FAKE_MEMORY_HOST ? 0 : rounded;
			result = cudaErrorMemoryAllocation;
		}
	}
	if (result == cudaSuccess) {
		one->next = *bucket(one->ptr);
		*bucket(one->ptr) = one;
		*ret_ptr = one->ptr;
		one = NULL;
	}
	pthread_mutex_unlock(&memory_lock);
	free(one);
	return result;
}

int fake_memory_alloc(void **ret_ptr, size_t bytes, enum fake_memory_kind kind)
{
	int result;

	if (!ret_ptr)
		return cudaErrorInvalidValue;
	if (fake_gpu_count() == 0)
		return cudaErrorNoDevice;
	result = fake_capture_forbids();
	if (result == 0)
		result = atomic_load(&fake_gpu_sticky);
	if (result == 0 && kind != FAKE_MEMORY_HOST && !unscripted)
		result = faulted();
	if (result)
		return result;
	if (bytes == 0) {
		*ret_ptr = NULL;
		return cudaSuccess;
	}
	return allocate(ret_ptr, bytes, kind);
}

int fake_memory_free(void *ptr)
{
	struct allocation *one = NULL;

	if (!ptr)
		return cudaSuccess;
	pthread_mutex_lock(&memory_lock);
	for (struct allocation **link = bucket(ptr); *link; link = &(*link)->next) {
		if ((*link)->ptr == ptr) {
			one = *link;
			*link = one->next;
			if (one->kind != FAKE_MEMORY_HOST)
				used[one->device] -= one->bytes;
			break;
		}
	}
	pthread_mutex_unlock(&memory_lock);
	if (!one)
		return cudaErrorInvalidValue;
	free(one->ptr);
	free(one);
	return cudaSuccess;
}

struct free_work {
	struct fake_work work;
	void *ptr;
};

static void run_free(struct fake_work *work, uint64_t ticket)
{
	(void)ticket;
	fake_memory_free(((struct free_work *)work)->ptr);
}

static void free_free_work(struct fake_work *work)
{
	free(work);
}

int fake_memory_free_async(void *ptr, struct fake_stream *stream)
{
	struct free_work *one;

	if (!ptr)
		return cudaSuccess;
	one = calloc(1, sizeof(*one));
	if (!one)
		return cudaErrorMemoryAllocation;
	fake_work_init(&one->work, run_free, free_free_work);
	one->ptr = ptr;
	return fake_stream_submit(stream, &one->work);
}

void fake_memory_info(size_t *ret_free, size_t *ret_total)
{
	pthread_mutex_lock(&memory_lock);
	*ret_total = (size_t)fake_gpu_memory_bytes();
	*ret_free = *ret_total - (size_t)used[fake_gpu_current()];
	pthread_mutex_unlock(&memory_lock);
}

bool fake_memory_find(const void *ptr, enum fake_memory_kind *ret_kind, int *ret_device)
{
	const char *at = ptr;
	bool found = false;

	pthread_mutex_lock(&memory_lock);
	for (size_t i = 0; i < BUCKETS && !found; i++) {
		for (struct allocation *one = buckets[i]; one && !found; one = one->next) {
			if (at >= one->ptr && at < one->ptr + one->bytes) {
				*ret_kind = one->kind;
				*ret_device = one->device;
				found = true;
			}
		}
	}
	pthread_mutex_unlock(&memory_lock);
	return found;
}
