/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another tool that wraps dlsym itself, in C and with the version written out, as some that share
 * GPUs do.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

typedef void *dlsym_fn(void *handle, const char *name);

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

static unsigned long looked_up;

void *dlsym(void *handle, const char *name)
{
	static dlsym_fn *next;

	if (!next)
		*(void **)&next = dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
	looked_up++;
	return next ? next(handle, name) : NULL;
}

static __attribute__((destructor)) void end(void)
{
	(void)printf("hooker: %s\n", looked_up ? "asked" : "not asked");
}
