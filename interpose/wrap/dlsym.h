/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlsym and dlvsym as we export them. The two functions are assembly stubs (dlsym_*.S), because
 * they must be able to jump to the real function as if they had never been there: for RTLD_NEXT and
 * RTLD_DEFAULT the loader looks at the return address to find out who asks. The stub asks the
 * filter below what to do.
 */
#ifndef NSPY_DLSYM_H
#define NSPY_DLSYM_H

/* What the filter answers, besides the pointer to return. */
#define NSPY_DLSYM_PASS 0 /* jump to the real function */
#define NSPY_DLSYM_NONE 1 /* return NULL; dlerror has the reason */

#ifndef __ASSEMBLER__

/*
 * version: NULL for dlsym. caller: the return address. Calls nothing unless the name looks like
 * one of ours; errno and dlerror are as the real function leaves them. context: any, see symbols.h.
 */
void *nspy_dlsym_filter(void *handle, const char *name, const char *version, const void *caller);

/* The rest of it, for names that look like ours. */
void *nspy_dlsym_answer(void *handle, const char *name, const char *version, const void *caller);

#endif
#endif
