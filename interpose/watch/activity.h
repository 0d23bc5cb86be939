/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes do outside our calls, from /proc: of this one, whether its calling thread has
 * worked since its last call; of others, whether they live. context: watcher thread; no allocation.
 */
#ifndef NSPY_WATCH_ACTIVITY_H
#define NSPY_WATCH_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_status.h"

void nspy_activity_start(void);

/*
 * Fills in what status says of the calling thread tid (0 = none yet). Costs a comparison while
 * calls are made; /proc is read only once they have ceased.
 */
void nspy_activity_look(struct nspy_status *status, uint32_t tid, uint64_t now_ns);

/* The watcher has read or written so many bytes, which are not the application's. */
void nspy_activity_own_io(size_t bytes);

enum nspy_alive {
	NSPY_ALIVE_YES,
	NSPY_ALIVE_STOPPED, /* by a signal or a debugger */
	NSPY_ALIVE_NO,
};

/* The process with that pid and start time, of our own pid namespace. */
enum nspy_alive nspy_activity_alive(uint32_t pid, uint64_t starttime);

#endif
