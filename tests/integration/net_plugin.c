/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network plugin of NCCL with tables of three versions, for plugin_host.c and for jobs in which
 * it is only mapped. The one of version 8 cannot start; the one of version 10 completes its table
 * when it starts.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

typedef void logger(int level, unsigned long flags, const char *file, int line, const char *format,
		    ...);
typedef void any_fn(void);

struct table {
	const char *name;
	any_fn *init, *devices, *properties, *listen;
};

static logger *say;

static int devices(int *count)
{
	*count = 3;
	errno = 44;
	return 0;
}

static int properties(int device, void *unused)
{
	(void)unused;
	say(3, 8, __func__, __LINE__, "NET/Test properties of %d", device);
	return 0;
}

static int listen_late(void *unused)
{
	(void)unused;
	return 77;
}

static int init_8(logger *log)
{
	log(3, 1, __func__, __LINE__, "NET/Test Initializing aws-ofi-nccl %d.%d.%s", 1, 9, "2");
	log(2, 1, __func__, __LINE__, "NET/Test no %s with %5.2f %c", "provider", 2.5, '!');
	log(2, 1, __func__, __LINE__, "NET/Test giving up");
	errno = 41;
	return 3;
}

static int init_10(logger *log, void *profiler);

static int init_12(void **context, uint64_t comm, void *config, logger *log, void *profiler)
{
	log(3, 1, __func__, __LINE__, "NET/Test Initializing aws-ofi-nccl %s", "1.21.1");
	log(3, 1, __func__, __LINE__, "NET/Test Selected provider is %s, fabric is %s", "efa", "x");
	log(3, 1, __func__, __LINE__, "NET/Test %llx %s %s", (unsigned long long)comm,
	    config == context ? "same" : "other", profiler ? "profiler" : "no profiler");
	*context = profiler;
	say = log;
	errno = 43;
	return 0;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT struct table ncclNetPlugin_v8 = {"Old", (any_fn *)init_8, (any_fn *)devices,
					(any_fn *)properties, NULL};
EXPORT struct table ncclNetPlugin_v10 = {"Ten", (any_fn *)init_10, (any_fn *)devices,
					 (any_fn *)properties, NULL};
EXPORT struct table ncclNetPlugin_v12 = {"Test", (any_fn *)init_12, (any_fn *)devices,
					 (any_fn *)properties, (any_fn *)listen_late};

static int init_10(logger *log, void *profiler)
{
	say = log;
	log(3, 1, __func__, __LINE__, "NET/Test Initializing aws-ofi-nccl 1.13.0");
	ncclNetPlugin_v10.name = "Ten, started";
	ncclNetPlugin_v10.listen = (any_fn *)listen_late;
	errno = profiler ? 42 : 0;
	return 0;
}
