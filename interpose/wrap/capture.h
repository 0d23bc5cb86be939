/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. Before the process's first capture nothing is asked; after it, the driver's
 * cuStreamIsCapturing is asked on the caller's thread, which is legal at any time and disturbs no
 * capture. (A capture is not confined to the stream it was begun on: events carry it to others.)
 */
#ifndef NSPY_CAPTURE_H
#define NSPY_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hot.h"

/* A capture has begun. Cold: finds the driver's query. */
void nspy_capture_begun(void);

bool nspy_ask_captured(const void *stream);

static inline bool nspy_is_captured(const void *stream)
{
	return atomic_load_explicit(&nspy_hot->captures, memory_order_relaxed) &&
	       nspy_ask_captured(stream);
}

#endif
