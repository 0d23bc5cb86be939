/* SPDX-License-Identifier: Apache-2.0 */
/* Makes two communicators, takes memory of its own at the driver, and destroys one. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

struct id {
	char internal[128];
};

int ncclGetVersion(int *version);
int ncclCommInitRank(void **comm, int nranks, struct id id, int rank);
int ncclCommDestroy(void *comm);

int main(void)
{
	typedef int alloc_fn(uint64_t * address, size_t bytes);
	struct id first = {{0}}, second = {{1}};
	void *one = NULL, *two = NULL;
	uint64_t own = 0;
	alloc_fn *alloc = (alloc_fn *)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
	int version;

	if (!alloc || ncclGetVersion(&version) != 0)
		return 1;
	printf("%d %d %d\n", ncclCommInitRank(&one, 1, first, 0),
	       ncclCommInitRank(&two, 1, second, 0), alloc(&own, (size_t)100 << 20));
	(void)usleep(300000);
	printf("%d\n", ncclCommDestroy(two));
	return 0;
}
