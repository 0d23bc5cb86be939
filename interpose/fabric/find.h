/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real functions of libfabric, libibverbs and libmlx5, each in the very version that the
 * caller asked for: structures differ between versions. Looked for after us in the search order,
 * then in the loaded objects of that name, because they usually sit behind an RTLD_LOCAL dlopen.
 * What was never found is looked for again at the next use. context: any thread; errno and dlerror
 * are kept; cold but for the first line.
 */
#ifndef NSPY_FIND_H
#define NSPY_FIND_H

#include <stdbool.h>
#include <stddef.h>

typedef void nspy_net_fn(void);

/* One exported function in one version. */
struct nspy_net_symbol {
	const char *name;
	const char *version;
	const char *library; /* how file names of the objects that define it begin */
	nspy_net_fn *entry;  /* our wrapper */
	nspy_net_fn *real;   /* NULL until found */
	int newest;          /* 1 = what a look-up without version means */
	int substitute;      /* 1 = real is of another version, see nspy_net_find */
};

/*
 * NULL if no loaded object defines it. Where the library is older than our newest version, that one
 * stands for the library's own newest: only a look-up without version can have come to it.
 */
nspy_net_fn *nspy_net_find(struct nspy_net_symbol *symbol);

static inline nspy_net_fn *nspy_net_real(struct nspy_net_symbol *symbol)
{
	nspy_net_fn *real = __atomic_load_n(&symbol->real, __ATOMIC_ACQUIRE);

	return __builtin_expect(real != NULL, 1) ? real : nspy_net_find(symbol);
}

/* All symbols of a library of ours; nspy_net_entry looks through both. */
extern struct nspy_net_symbol nspy_fabric_symbols[], nspy_verbs_symbols[];
extern const size_t nspy_fabric_symbol_count, nspy_verbs_symbol_count;

/*
 * Our wrapper for what dlsym (version NULL: the newest) or dlvsym found, or NULL if it is none of
 * ours. found is what the look-up gave; it becomes the real function if none was known.
 */
void *nspy_net_entry(const char *name, const char *version, void *found);

/* Whether a loaded object defines one of ours: in that version, or (NULL) in any. */
bool nspy_net_has(const char *name, const char *version);

#endif
