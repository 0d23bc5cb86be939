/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the real functions. Order: the plain name after us in the search order (so that other
 * interposers keep their place), then the strong p-name and the plain name of a loaded object that
 * defines it and is not us (NCCL usually sits behind an RTLD_LOCAL dlopen, where RTLD_NEXT is
 * blind). A function never found stays NULL and is looked for again at its next use.
 */
#ifndef NSPY_RESOLVE_H
#define NSPY_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

typedef void nspy_any_fn(void);

/* One entry per wrapped function, in id order; generated from the call tables. */
struct nspy_fn_info {
	const char *name;
	const char *alias; /* "pnccl..." or NULL */
	uint8_t library;   /* enum nspy_library */
	uint8_t klass;     /* enum nspy_fn_class */
};

enum nspy_library { NSPY_LIB_NCCL = 0, NSPY_LIB_CUDART = 1, NSPY_LIB_COUNT };

extern const struct nspy_fn_info nspy_fn_table[]; /* generated */
extern const unsigned int nspy_fn_count;          /* generated */

/* Slots filled in on first use; read with nspy_real only. Generated, one per function. */
extern nspy_any_fn *nspy_real_slots[];

/* Looks the function up and remembers it; NULL if no loaded object defines it. Cold. */
nspy_any_fn *nspy_resolve(unsigned int fn);

static inline nspy_any_fn *nspy_real(unsigned int fn)
{
	nspy_any_fn *real = __atomic_load_n(&nspy_real_slots[fn], __ATOMIC_ACQUIRE);
	return __builtin_expect(real != 0, 1) ? real : nspy_resolve(fn);
}

/* A wrapper was reached and no real function exists: says so once. */
void nspy_say_missing(unsigned int fn);

#endif
