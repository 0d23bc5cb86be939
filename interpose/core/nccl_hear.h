/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL writes into its log (NCCL_DEBUG), on its way there. What a line says about the network
 * becomes a fact (rules/nccl_line.h) and is judged at once.
 *
 * Whoever writes the line waits in NCCL, under its lock: as a rule no more than a look, a fact
 * takes a lock of ours for a moment; no malloc, no system call. errno is kept. context: any thread.
 */
#ifndef NSPY_NCCL_HEAR_H
#define NSPY_NCCL_HEAR_H

#include <stdarg.h>
#include <stddef.h>

/* Not ended by a zero. */
void nspy_nccl_hear(const void *data, size_t bytes);

/* args is not used up. */
void nspy_nccl_hear_format(const char *format, va_list args);

#endif
