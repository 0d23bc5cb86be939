/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another tool whose constructor runs before the recorder's (the loader begins with what comes last
 * in LD_PRELOAD) and goes all the ways to NCCL. Its path is in NSPY_EARLY_NCCL.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static __attribute__((constructor)) void begin(void)
{
	const char *path = getenv("NSPY_EARLY_NCCL");
	int (*get_version)(int *version) = NULL;
	int version = 0;
	void *nccl;

	(void)printf("early: %s\n", dlsym(RTLD_DEFAULT, "ncclAllReduce") ? "there" : "not there");
	nccl = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	if (nccl)
		*(void **)&get_version = dlsym(nccl, "ncclGetVersion");
	if (get_version && get_version(&version) == 0)
		(void)printf("early: %d\n", version);
	(void)printf("early: %s\n", nccl && dlsym(nccl, "ncclCommGrow") ? "grows" : dlerror());
}
