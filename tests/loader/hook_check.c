/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym and dlvsym with the library preloaded, checked from within: what they must leave alone and
 * what they must change. Needs nothing but a library that looks like NCCL.
 *
 * usage: LD_PRELOAD=libncclspy.so hook_check LIBNCCL
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			(void)fprintf(stderr, "hook_check:%d: not so: %s\n", __LINE__,             \
				      #condition);                                                 \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static const char *object_of(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

static int is_ours(const void *address)
{
	return strstr(object_of(address), "libncclspy.so") != NULL;
}

static const char *reason(void)
{
	const char *text = dlerror();

	return text ? text : "";
}

/* Look-ups that are none of our business. */
static void check_others(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *hook = (void *)(uintptr_t)dlsym;

	EXPECT(is_ours(hook));
	EXPECT(dlsym(RTLD_DEFAULT, "getenv") == (void *)(uintptr_t)getenv);
	EXPECT(dlsym(RTLD_NEXT, "getenv") == (void *)(uintptr_t)getenv);
	EXPECT(libc && dlsym(libc, "getenv") == (void *)(uintptr_t)getenv);
	/* RTLD_NEXT from this program: what comes after it is first of all the library. */
	EXPECT(is_ours(dlsym(RTLD_NEXT, "dlsym")));
	EXPECT(is_ours(dlsym(RTLD_NEXT, "ncclAllReduce")));
	EXPECT(libc && !is_ours(dlsym(libc, "dlsym")));
	EXPECT(dlerror() == NULL);
	EXPECT(dlsym(RTLD_DEFAULT, "hook_check_has_no_such") == NULL);
	EXPECT(strstr(reason(), "undefined symbol: hook_check_has_no_such"));
	EXPECT(dlvsym(RTLD_DEFAULT, "getenv", "HOOK_CHECK_1.0") == NULL);
	EXPECT(strstr(reason(), "HOOK_CHECK_1.0"));
	EXPECT(dlsym(RTLD_DEFAULT, "cuda") == NULL && dlerror());
	EXPECT(dlsym(RTLD_DEFAULT, "") == NULL && dlerror());
}

static void check_absent(void)
{
	/* We export it, but there is no NCCL. */
	errno = 77;
	EXPECT(dlsym(RTLD_DEFAULT, "ncclAllReduce") == NULL);
	EXPECT(errno == 77);
	EXPECT(strstr(reason(), "undefined symbol: ncclAllReduce"));
	EXPECT(dlsym(dlopen(NULL, RTLD_LAZY), "ncclAllReduce") == NULL && dlerror());
	EXPECT(dlsym(RTLD_DEFAULT, "pncclAllReduce") == NULL && dlerror());
	EXPECT(dlvsym(RTLD_DEFAULT, "ncclAllReduce", "NONE_1") == NULL && dlerror());
}

static void check_nccl(const char *path)
{
	void *nccl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int (*get_version)(int *version), version = 0;

	if (!nccl) {
		(void)fprintf(stderr, "hook_check: %s\n", reason());
		exit(1);
	}
	*(void **)&get_version = dlsym(nccl, "ncclGetVersion");
	EXPECT(get_version && is_ours((void *)(uintptr_t)get_version));
	EXPECT(dlerror() == NULL);
	EXPECT(dlsym(nccl, "ncclGetVersion") == (void *)(uintptr_t)get_version);
	EXPECT(get_version && get_version(&version) == 0 && version == 22809);
	/* Of this library's own, and in no call table. */
	EXPECT(strcmp(object_of(dlsym(nccl, "null_nccl_mark")), path) == 0);
	/* In a call table, but not in this library. */
	EXPECT(dlsym(nccl, "ncclCommGrow") == NULL);
	EXPECT(strstr(reason(), "undefined symbol: ncclCommGrow"));
	/* It was opened for nobody but us. */
	EXPECT(dlsym(RTLD_DEFAULT, "ncclGetVersion") == NULL && dlerror());
	EXPECT(dlopen(path, RTLD_NOW | RTLD_GLOBAL) == nccl);
	EXPECT(is_ours(dlsym(RTLD_DEFAULT, "ncclGetVersion")));
	EXPECT(dlsym(RTLD_DEFAULT, "ncclCommGrow") == NULL && dlerror());
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	check_others();
	check_absent();
	check_nccl(argv[1]);
	return failures ? 1 : 0;
}
