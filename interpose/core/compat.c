/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include <errno.h>

/* libzstd.a's thread pool refers to these (redirected with --wrap); we never ask for threads. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg);
int __wrap_pthread_join(pthread_t thread, void **ret);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
			  void *arg)
{
	(void)thread;
	(void)attr;
	(void)start;
	(void)arg;
	return EAGAIN;
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
	(void)thread;
	(void)ret;
	return EINVAL;
}

int nspy_compat_complete(void)
{
	return nspy_sys_dladdr1 && nspy_sys_dlclose && nspy_sys_dlerror && nspy_sys_dlopen &&
	       nspy_sys_pthread_attr_setstacksize && nspy_sys_pthread_create &&
	       nspy_sys_pthread_detach && nspy_sys_pthread_key_create &&
	       nspy_sys_pthread_setspecific && nspy_sys_pthread_sigmask;
}

/*
 * Hooks that libzstd.a calls if the process has them, as weak references: the application's own
 * zstd might define them, and our writer must not run its code.
 */
unsigned long long ZSTD_trace_compress_begin(const void *context);
void ZSTD_trace_compress_end(unsigned long long token, const void *trace);

unsigned long long ZSTD_trace_compress_begin(const void *context)
{
	(void)context;
	return 0; /* do not trace */
}

void ZSTD_trace_compress_end(unsigned long long token, const void *trace)
{
	(void)token;
	(void)trace;
}
