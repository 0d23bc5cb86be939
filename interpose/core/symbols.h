/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking names up in loaded objects by hand, and the real dlsym and dlvsym. We export dlsym
 * ourselves, so the loader cannot be asked for the real one by name; and a sanitizer calls dlsym
 * before anything of its own works, so the way there must call nothing: no libc function, no
 * instrumented code (interpose/meson.build compiles symbols.c apart). context: any, from the first
 * instruction of the process on.
 */
#ifndef NSPY_SYMBOLS_H
#define NSPY_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct link_map;

/*
 * The address of a function that this very object defines, its default version if it has several;
 * NULL if it defines none of that name. Its dependencies are not searched. The object must stay
 * loaded meanwhile.
 */
void *nspy_elf_find(const struct link_map *map, const char *name);

/* Whether an address lies in the object that this code is part of. */
bool nspy_elf_is_ours(const void *address);

/* The first and the length of the addresses of the object that begins at base (dli_fbase). */
void nspy_elf_extent(const void *base, uintptr_t *ret_begin, uintptr_t *ret_bytes);

/*
 * The C library's dlsym, past our own hook and past anybody else's, as if this library had called
 * it. NULL also if there is no dlsym.
 */
void *nspy_sys_dlsym(void *handle, const char *name);
void *nspy_sys_dlvsym(void *handle, const char *name, const char *version);

/*
 * What the application's look-ups come to without us: the next dlsym and dlvsym in the search
 * order. NULL before nspy_elf_boot has found them.
 */
typedef void *nspy_dlsym_fn(void *handle, const char *name);
typedef void *nspy_dlvsym_fn(void *handle, const char *name, const char *version);
extern nspy_dlsym_fn *nspy_next_dlsym __attribute__((visibility("hidden")));
extern nspy_dlvsym_fn *nspy_next_dlvsym __attribute__((visibility("hidden")));
void nspy_elf_boot(void);

/*
 * The function of that name behind ours in the search order, else the C library's own. Not NULL
 * for what every C library has, once nspy_elf_boot ran.
 */
void *nspy_elf_next(const char *name);

/* The C library, NULL before it is found. */
const struct link_map *nspy_elf_libc(void);

/* strcmp(a, b) == 0 */
static inline bool nspy_elf_same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

#endif
