/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NSPY_EXPORT_H
#define NSPY_EXPORT_H

/* Everything else is hidden: a symbol we leak may preempt one of the application's. */
#define NSPY_EXPORT __attribute__((visibility("default")))

#define NSPY_INLINE   __attribute__((always_inline))
#define NSPY_NOINLINE __attribute__((noinline))

#define nspy_likely(x)   __builtin_expect(!!(x), 1)
#define nspy_unlikely(x) __builtin_expect(!!(x), 0)

#endif
