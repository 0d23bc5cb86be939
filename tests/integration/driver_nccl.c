/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NCCL and a CUDA driver in one, for driver_host.c: its runtime is linked into it, so that it
 * finds the driver by dlsym and cuGetProcAddress, and takes memory for each communicator.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MIB    ((size_t)1 << 20)
#define EXPORT __attribute__((visibility("default")))

struct id {
	char internal[128];
};

struct prop {
	int type, handle_types, location_type, location_id;
};

typedef int find_fn(const char *symbol, void **function, int version, uint64_t flags, int *status);
typedef int alloc_fn(uint64_t *address, size_t bytes);
typedef int free_fn(uint64_t address);
typedef int create_fn(uint64_t *handle, size_t bytes, const struct prop *prop,
		      unsigned long long flags);

/* --- the driver --- */

static uint64_t next = 0x7000000000;

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes);
EXPORT int cuMemFree_v2(uint64_t address);
EXPORT int cuMemCreate(uint64_t *handle, size_t bytes, const struct prop *prop,
		       unsigned long long flags);
EXPORT int cuMemRelease(uint64_t handle);
EXPORT int cuInit(unsigned int flags);
EXPORT int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
			       int *status);

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	errno = 31;
	if (bytes == 0)
		return 1;
	*address = next += bytes;
	printf("driver: alloc %zu\n", bytes);
	return 0;
}

int cuMemFree_v2(uint64_t address)
{
	printf("driver: free %s errno %d\n", address > 0x7000000000 ? "something" : "nothing",
	       errno);
	errno = 32;
	return address ? 0 : 1;
}

int cuMemCreate(uint64_t *handle, size_t bytes, const struct prop *prop, unsigned long long flags)
{
	printf("driver: create %zu at %d:%d flags %llx\n", bytes, prop->location_type,
	       prop->location_id, flags);
	*handle = next += bytes;
	errno = 33;
	return 0;
}

int cuMemRelease(uint64_t handle)
{
	printf("driver: release %s\n", handle > 0x7000000000 ? "something" : "nothing");
	return 0;
}

int cuInit(unsigned int flags)
{
	return flags ? 1 : 0;
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
			int *status)
{
	static const struct {
		const char *name;
		void *function;
	} all[] = {
		{"cuMemAlloc", (void *)cuMemAlloc_v2},
		{"cuMemFree", (void *)cuMemFree_v2},
		{"cuMemCreate", (void *)cuMemCreate},
		{"cuMemRelease", (void *)cuMemRelease},
		{"cuInit", (void *)cuInit},
	};

	*function = NULL;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(symbol, all[i].name) == 0)
			*function = all[i].function;
	printf("driver: asked for %s %d %llx\n", symbol, version, (unsigned long long)flags);
	if (status)
		*status = *function ? 0 : 1;
	return *function ? 0 : 500;
}

/* --- the NCCL --- */

static struct comm {
	uint64_t address, handle, host;
} comms[4];

static void *driver(const char *symbol)
{
	find_fn *find = (find_fn *)dlsym(dlopen(NULL, RTLD_LAZY), "cuGetProcAddress_v2");
	void *function = NULL;
	int status = 9;

	if (!find)
		find = (find_fn *)cuGetProcAddress_v2;
	if (find(symbol, &function, 12000, 1, &status) != 0)
		printf("%s is not there, status %d\n", symbol, status);
	return function;
}

EXPORT int ncclGetVersion(int *version);
EXPORT int ncclCommInitRank(void **comm, int nranks, struct id id, int rank);
EXPORT int ncclCommDestroy(void *comm);
EXPORT int ncclCommCount(const void *comm, int *count);
EXPORT int ncclCommUserRank(const void *comm, int *rank);
EXPORT const char *ncclGetErrorString(int result);

int ncclGetVersion(int *version)
{
	*version = 22809;
	return 0;
}

int ncclCommInitRank(void **comm, int nranks, struct id id, int rank)
{
	const struct prop device = {1, 0, 1, 3}, host = {1, 0, 3, 0};
	alloc_fn *alloc = (alloc_fn *)driver("cuMemAlloc");
	create_fn *create = (create_fn *)driver("cuMemCreate");
	struct comm *made = &comms[(unsigned char)id.internal[0] % 4];
	int failed;

	errno = 0;
	failed = alloc(&made->address, 0);
	printf("nothing gives %d errno %d\n", failed, errno);
	failed = alloc(&made->address, 8 * MIB * (size_t)nranks);
	printf("alloc gives %d errno %d\n", failed, errno);
	failed = create(&made->handle, 16 * MIB, &device, 0) |
		 create(&made->host, 4 * MIB, &host, (unsigned long long)rank);
	printf("create gives %d errno %d\n", failed, errno);
	(void)driver("cuNotThere");
	*comm = made;
	return 0;
}

int ncclCommDestroy(void *comm)
{
	free_fn *give_back = (free_fn *)driver("cuMemFree"),
		*release = (free_fn *)driver("cuMemRelease");
	struct comm *made = comm;
	int failed;

	errno = 7;
	failed = give_back(made->address);
	printf("free gives %d errno %d\n", failed, errno);
	return release(made->handle) | release(made->host);
}

int ncclCommCount(const void *comm, int *count)
{
	*count = comm ? 1 : 0;
	return 0;
}

int ncclCommUserRank(const void *comm, int *rank)
{
	*rank = comm ? 0 : -1;
	return 0;
}

const char *ncclGetErrorString(int result)
{
	return result ? "error" : "no error";
}
