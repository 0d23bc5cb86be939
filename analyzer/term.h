/* SPDX-License-Identifier: Apache-2.0 */
/* Colour and progress. context: any thread for progress, else the main thread. */
#ifndef NSPY_TERM_H
#define NSPY_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Colour on out: a terminal, NO_COLOR unset or empty, TERM not dumb. */
bool nspy_term_colour(FILE *out);
/* Progress can be shown: stderr is a terminal. */
bool nspy_term_progress(void);

/* Shows how far it is, at most a few times a second. */
void nspy_progress(const char *what, size_t done, size_t of);
/* Wipes the line. */
void nspy_progress_end(void);

#endif
