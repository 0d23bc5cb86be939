/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C library's function behind one that we export under its name. It must be found in any
 * program, also where libdl is not loaded (before glibc 2.34), and before any constructor ran.
 */
#ifndef NSPY_LIBC_NEXT_H
#define NSPY_LIBC_NEXT_H

#include "resolve.h"

/*
 * The next definition in the search order, else the C library's own. Never NULL: what every C
 * library has is there. Cold; takes the loader's lock, as the first call through a PLT does.
 */
nspy_any_fn *nspy_libc_next(const char *name);

#endif
