/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's own lines (NCCL_DEBUG), heard where NCCL writes them: with fwrite up to 2.29, with
 * vfprintf later, whatever file they go to. No descriptor and no file of the job is touched, and
 * what is written stays what it was. Lines of NCCL's plugins are among them.
 *
 * Every program comes through here. Where no copy of NCCL is known the way is one load and one
 * branch longer, else the caller's address is compared with its extent.
 *
 * Not heard: a copy of NCCL with hidden symbols or opened with RTLD_DEEPBIND.
 */
#include "compat.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "copies.h"
#include "export.h"
#include "nccl_hear.h"
#include "symbols.h"

#define CALLER __builtin_return_address(0)

typedef size_t fwrite_fn(const void *data, size_t size, size_t count, FILE *to);
typedef int vfprintf_fn(FILE *to, const char *format, va_list args);

static fwrite_fn *next_fwrite;
static vfprintf_fn *next_vfprintf;

static fwrite_fn *find_fwrite(void)
{
	fwrite_fn *found = (fwrite_fn *)nspy_elf_next("fwrite");

	__atomic_store_n(&next_fwrite, found, __ATOMIC_RELEASE);
	return found;
}

static vfprintf_fn *find_vfprintf(void)
{
	vfprintf_fn *found = (vfprintf_fn *)nspy_elf_next("vfprintf");

	__atomic_store_n(&next_vfprintf, found, __ATOMIC_RELEASE);
	return found;
}

/* Before the program runs, as in libc_calls.c; a constructor before this one finds for itself. */
static __attribute__((constructor)) void find_both(void)
{
	(void)find_fwrite();
	(void)find_vfprintf();
}

static bool near_nccl(void)
{
	return atomic_load_explicit(&nspy_nccl_extent_count, memory_order_relaxed) != 0;
}

/* Apart, so that the usual way saves no registers. */
static NSPY_NOINLINE size_t fwrite_looking(const void *data, size_t size, size_t count, FILE *to,
					   const void *caller)
{
	fwrite_fn *real = __atomic_load_n(&next_fwrite, __ATOMIC_ACQUIRE);

	if (size == 1 && nspy_is_nccl(caller))
		nspy_nccl_hear(data, count);
	return (real ? real : find_fwrite())(data, size, count, to);
}

NSPY_EXPORT size_t fwrite(const void *data, size_t size, size_t count, FILE *to)
{
	fwrite_fn *real = __atomic_load_n(&next_fwrite, __ATOMIC_ACQUIRE);

	if (nspy_likely(real && !near_nccl()))
		return real(data, size, count, to);
	return fwrite_looking(data, size, count, to, CALLER);
}

static NSPY_NOINLINE int vfprintf_looking(FILE *to, const char *format, va_list args,
					  const void *caller)
{
	vfprintf_fn *real = __atomic_load_n(&next_vfprintf, __ATOMIC_ACQUIRE);

	if (nspy_is_nccl(caller))
		nspy_nccl_hear_format(format, args);
	return (real ? real : find_vfprintf())(to, format, args);
}

NSPY_EXPORT int vfprintf(FILE *to, const char *format, va_list args)
{
	vfprintf_fn *real = __atomic_load_n(&next_vfprintf, __ATOMIC_ACQUIRE);

	if (nspy_likely(real && !near_nccl()))
		return real(to, format, args);
	return vfprintf_looking(to, format, args, CALLER);
}
