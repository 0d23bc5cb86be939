/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer thread: moves records from pages to segments, anchors the clock, keeps the heartbeat,
 * saves the pages of dead siblings. It is the only thread that touches a file system other than
 * tmpfs and /proc. It prints if there is no watcher, or into a log file.
 */
#ifndef NSPY_WRITER_H
#define NSPY_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts the thread, all signals blocked. false: none could be had (live pages still record). */
bool nspy_writer_start(void);

/*
 * Asks for a last flush and an END chunk, and waits for it at most timeout_ms. Returns whether it
 * is done. context: async-signal-safe, the exiting thread.
 */
bool nspy_writer_stop(unsigned int timeout_ms);

/* Waits until *word is not value, or for that long. context: our own threads. */
void nspy_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);

#endif
