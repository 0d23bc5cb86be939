/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that NCCL takes for itself. Its CUDA runtime is usually linked into it, so that
 * only the driver sees it: through functions that it looks up by dlsym and by cuGetProcAddress.
 * With NCCLSPY_CUDA_DRIVER=1 those for memory are ours. They pass everything on and count what was
 * asked for from within NCCL, together and for the communicator that the thread is creating or
 * using.
 *
 * Sources: cuda.h and cudaTypedefs.h (PFN_*) of CUDA 11.3 to 13: the forms below have not changed
 * since the versions named in cuda_driver.c.
 */
#ifndef NSPY_CUDA_DRIVER_H
#define NSPY_CUDA_DRIVER_H

#include <stdbool.h>

/*
 * For a look-up of name in the driver that found real: our function, or NULL if it is none of
 * those, or not wanted. context: any thread, inside dlsym.
 */
void *nspy_cuda_driver_entry(const char *name, void *real);

/*
 * Makes facts of what has grown: nccl.memory.live, .peak, .pieces (bytes, bytes, number) and
 * nccl.memory.comm.<index> (peak in bytes). last: exactly, else each time it has doubled.
 * context: writer thread.
 */
void nspy_cuda_driver_facts(bool last);

/* Bytes that NCCL holds now, as far as seen. context: any. */
unsigned long long nspy_cuda_driver_live(void);

#endif
