/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From counters and events to NET chunks: once a second the differences, every few seconds (at once
 * after an error) a chunk. What is urgent is also said on stderr, once per kind.
 */
#ifndef NSPY_PUBLISH_H
#define NSPY_PUBLISH_H

/* Registers with the writer thread. context: any thread, again and again. */
void nspy_publish_start(void);

#endif
