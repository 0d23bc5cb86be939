/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board's way to the job's directory and back, <NCCLSPY_DIR>/<job>/board. The watcher puts and
 * asks, and never waits; the writer thread does the input and output, which may block for as long
 * as the file system likes. Files are written beside and renamed, and opened anew for each reading.
 * What cannot be handed over because the writer is busy is left out and offered again next time.
 */
#ifndef NSPY_WATCH_EXCHANGE_H
#define NSPY_WATCH_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h"

/* Empties all. context: the thread that starts recording. */
void nspy_exchange_start(void);

/* --- watcher thread --- */

/* Room for a node file of that many bytes, or NULL: the last one has not been written yet. */
uint8_t *nspy_exchange_room(size_t bytes);
void nspy_exchange_post(size_t bytes);
/* Whether the last node file could not be written: the disk is full, say. */
bool nspy_exchange_refused(void);

/*
 * Asks for the node files of all others, or for the first page of each. false: the last request
 * has not been served and taken yet.
 */
bool nspy_exchange_ask_pages(bool heads_only);
/* Whether files have come; they stay until nspy_exchange_done. */
bool nspy_exchange_pages(bool *ret_heads_only);
/* The next of them, NULL after the last; *cursor starts at 0. */
const uint8_t *nspy_exchange_next(size_t *cursor, size_t *ret_bytes);
void nspy_exchange_done(void);

void nspy_exchange_post_digest(const struct nspy_digest *digest);
void nspy_exchange_ask_digest(void);
/* true: one has been read since the last time. */
bool nspy_exchange_digest(struct nspy_digest *ret);

/* --- writer thread --- */

/* A file of the board for reading, -1 if there is none. */
int nspy_exchange_open(const char *name);
/* Whether files that we write there belong to this user: storage may call us by another name. */
bool nspy_exchange_is_ours(uint32_t uid);

/* Serves what was asked for. */
void nspy_exchange_work(void);

#endif
