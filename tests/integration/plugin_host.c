/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does with a network plugin what NCCL does, and prints all it sees of it:
 * plugin_host PLUGIN VERSION...
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void logger(int level, unsigned long flags, const char *file, int line, const char *format,
		    ...);
typedef void any_fn(void);

struct table {
	const char *name;
	any_fn *init, *devices, *properties, *listen;
};

int ncclGetVersion(int *version);

static void hear(int level, unsigned long flags, const char *file, int line, const char *format,
		 ...)
{
	va_list args;

	printf("log %d %lu %s:%d errno %d: ", level, flags, file, line, errno);
	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	vprintf(format, args);
	va_end(args);
	printf("\n");
	errno = 9;
}

static int start(const struct table *table, int api)
{
	void *context = NULL, *profiler = (void *)hear;
	int ret;

	errno = 5;
	if (api < 10)
		ret = ((int (*)(logger *))table->init)(hear);
	else if (api == 10)
		ret = ((int (*)(logger *, void *))table->init)(hear, profiler);
	else
		ret = ((int (*)(void **, uint64_t, void *, logger *, void *))table->init)(
			&context, 0x123456789abcdefull, (void *)&context, hear, profiler);
	printf("init %d errno %d name %s context %s\n", ret, errno, table->name,
	       context == profiler ? "set" : "not set");
	return ret;
}

static void use(const struct table *table)
{
	int count = -1, ret;

	errno = 5;
	ret = ((int (*)(int *))table->devices)(&count);
	printf("devices %d count %d errno %d\n", ret, count, errno);
	printf("properties %d\n", ((int (*)(int, void *))table->properties)(2, NULL));
	printf("listen %d\n", ((int (*)(void *))table->listen)(NULL));
}

int main(int argc, char **argv)
{
	int version = 0;
	void *plugin;

	if (argc < 3 || ncclGetVersion(&version) != 0)
		return 2;
	plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		return 3;
	for (int i = 2; i < argc; i++) {
		char name[64];
		const struct table *table;

		(void)snprintf(name, sizeof(name), "ncclNetPlugin_v%s", argv[i]);
		table = dlsym(plugin, name);
		printf("%s %s\n", name, table ? table->name : dlerror() ? "not there" : "?");
		if (table && dlsym(plugin, name) != table)
			printf("another one the second time\n");
		if (table && start(table, (int)strtol(argv[i], NULL, 10)) == 0)
			use(table);
	}
	dlclose(plugin);
	return 0;
}
