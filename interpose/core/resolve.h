/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the real functions. Whoever is linked to NCCL or CUDA reaches our exported wrapper, and
 * the wrapper finds what the caller would have got without us, in this order: the next definition
 * in the search order if another interposer made it (it keeps its place), then the copy of the
 * library (copies.h) that the caller's object is linked to, then the first copy there is. A
 * communicator belongs to the copy that made it, whoever uses it. A function never found is looked
 * for again at its next use.
 *
 * All callers but those of unusual processes come from one object and mean one copy. For them the
 * answer is remembered: one pointer a function, and the extent of that object beside the words that
 * every call reads anyway (hot.h).
 *
 * A pointer obtained by dlsym(handle, ...) belongs to one copy and does not come here: dlsym
 * (wrap/dlsym.c) hands out an entry that says which.
 */
#ifndef NSPY_RESOLVE_H
#define NSPY_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "hot.h"

#define NSPY_COPIES_MAX 4u /* of a library in one process, that we keep apart */

typedef void nspy_any_fn(void);

/* One entry per wrapped function, in id order; generated from the call tables. */
struct nspy_fn_info {
	const char *name;
	const char *alias; /* "pnccl..." or NULL */
	uint8_t library;   /* enum nspy_library */
	uint8_t klass;     /* enum nspy_fn_class */
};

enum nspy_library { NSPY_LIB_NCCL = 0, NSPY_LIB_CUDART = 1, NSPY_LIB_COUNT };
_Static_assert(NSPY_LIB_COUNT == NSPY_HOT_LIBRARIES, "a place for each in the hot words");

/* One entry per library; generated. */
struct nspy_library_info {
	const char *name;
	const char *const
		*known_by; /* functions that only the library itself defines; NULL-ended */
	nspy_any_fn *const *entries; /* NSPY_COPIES_MAX for each function from first_fn on */
	uint32_t first_fn;
};

extern const struct nspy_fn_info nspy_fn_table[];           /* generated */
extern const struct nspy_library_info nspy_library_table[]; /* generated */
extern const uint16_t nspy_fn_by_name[];                    /* generated; ids, sorted by name */
extern const unsigned int nspy_fn_count;                    /* generated */

/* What callers of the usual object get; read with nspy_real only. Generated, one per function. */
extern nspy_any_fn *nspy_real_slots[];

/*
 * The real function for a call from that address about that communicator (or NULL); NULL if no
 * loaded object defines it. errno and dlerror are left alone. Cold or lukewarm.
 */
nspy_any_fn *nspy_route(unsigned int fn, const void *comm, const void *caller);

static inline nspy_any_fn *nspy_real(unsigned int fn, unsigned int library, const void *comm,
				     const void *caller)
{
	const struct nspy_hot *hot = __atomic_load_n(&nspy_hot, __ATOMIC_ACQUIRE);
	const struct nspy_direct *direct = &hot->direct[library];
	nspy_any_fn *real = __atomic_load_n(&nspy_real_slots[fn], __ATOMIC_ACQUIRE);
	uintptr_t begin = __atomic_load_n(&direct->begin, __ATOMIC_RELAXED);

	if (__builtin_expect(real && (uintptr_t)caller - begin <
					     __atomic_load_n(&direct->bytes, __ATOMIC_RELAXED),
			     1))
		return real;
	return nspy_route(fn, comm, caller);
}

/*
 * The same for the calls that any use of NCCL begins with, all cold: an object may have been
 * unloaded and another one, linked to another copy, lie in its place. All later calls are about a
 * communicator of a copy that is known by then.
 */
nspy_any_fn *nspy_real_anew(unsigned int fn, unsigned int library, const void *comm,
			    const void *caller);

/* The real function for a call through an entry of a copy. */
nspy_any_fn *nspy_real_of(unsigned int copy, unsigned int fn, const void *comm);

/*
 * For questions of our own to a copy of the library. nspy_tls.copy is the one that the calling
 * thread's current NCCL call ends in.
 */
nspy_any_fn *nspy_real_in(unsigned int copy, unsigned int fn);

/* The copy that a call from that address would end in; NSPY_NO_COPY if there is none. */
unsigned int nspy_route_copy(unsigned int library, const void *caller);

/* The function of another interposer that comes after us in the search order, or NULL. */
nspy_any_fn *nspy_next_interposer(unsigned int fn);

/* The id of a function by either of its names; -1 if it is not wrapped. */
int nspy_fn_find(const char *name);

/* What dlsym returns for a function of a copy. */
static inline nspy_any_fn *nspy_entry(unsigned int copy, unsigned int fn)
{
	const struct nspy_library_info *library = &nspy_library_table[nspy_fn_table[fn].library];

	return library->entries[(fn - library->first_fn) * NSPY_COPIES_MAX + copy];
}

/* A second copy has appeared: from now on every call is looked at. */
void nspy_route_split(unsigned int library);

/* A forked child: a table that the parent was changing is usable again. */
void nspy_route_forked(void);

/* A wrapper was reached and no real function exists: says so once. */
void nspy_say_missing(unsigned int fn);

#endif
