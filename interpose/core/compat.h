/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The glibc floor is 2.28, wherever the library is built. Functions that later versions of glibc
 * re-stamped with a newer symbol version are bound to their old one under an nspy_sys_ name: an
 * unmet version in a preloaded object would keep every program from starting. They are weak,
 * because before glibc 2.34 they lived in libdl and libpthread, which a small program does not
 * load and which we must not drag in; a program with NCCL has both. Included before anything else
 * in every file of the library; what libzstd.a imports is dealt with in compat.c. tests/abi looks
 * at the result. dlsym is not among them: we export one, see symbols.h.
 */
#ifndef NSPY_COMPAT_H
#define NSPY_COMPAT_H

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "symbols.h"

#if defined(__x86_64__)
#define NSPY_GLIBC_BASE  "GLIBC_2.2.5"
#define NSPY_GLIBC_2_3_3 "GLIBC_2.3.3"
#define NSPY_GLIBC_2_3_4 "GLIBC_2.3.4"
#elif defined(__aarch64__)
#define NSPY_GLIBC_BASE  "GLIBC_2.17"
#define NSPY_GLIBC_2_3_3 NSPY_GLIBC_BASE
#define NSPY_GLIBC_2_3_4 NSPY_GLIBC_BASE
#else
#error "ncclspy supports x86-64 and aarch64"
#endif

#define NSPY_OLD_AT(name, version)                                                                 \
	extern __typeof__(name) nspy_sys_##name __attribute__((weak));                             \
	__asm__(".symver nspy_sys_" #name "," #name "@" version)
#define NSPY_OLD(name) NSPY_OLD_AT(name, NSPY_GLIBC_BASE)

NSPY_OLD_AT(dladdr1, NSPY_GLIBC_2_3_3);
NSPY_OLD(dlclose);
NSPY_OLD(dlerror);
NSPY_OLD_AT(dlinfo, NSPY_GLIBC_2_3_3);
NSPY_OLD_AT(dlmopen, NSPY_GLIBC_2_3_4);
NSPY_OLD(dlopen);
NSPY_OLD(pthread_attr_setstacksize);
NSPY_OLD(pthread_create);
NSPY_OLD(pthread_detach);
NSPY_OLD(pthread_key_create);
NSPY_OLD(pthread_setspecific);
NSPY_OLD(pthread_sigmask);

#undef NSPY_OLD
#undef NSPY_OLD_AT

/* Forgets that a look-up of ours failed: dlerror is the application's. */
static inline void nspy_dlerror_clear(void)
{
	if (nspy_sys_dlerror)
		(void)nspy_sys_dlerror();
}

/* Whether this process has what recording needs. */
int nspy_compat_complete(void);

#endif
