/* SPDX-License-Identifier: Apache-2.0 */
#include "term.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util.h"

#define PROGRESS_AFTER_NS NSPY_NS_PER_S
#define PROGRESS_EVERY_NS (NSPY_NS_PER_S / 5)

static _Atomic uint64_t progress_started;
static _Atomic uint64_t progress_shown;

static bool capable(FILE *file)
{
	const char *term = getenv("TERM");

	return isatty(fileno(file)) && term && *term && strcmp(term, "dumb") != 0;
}

bool nspy_term_colour(FILE *out)
{
	const char *no_color = getenv("NO_COLOR");

	return !(no_color && *no_color) && capable(out);
}

bool nspy_term_progress(void)
{
	return capable(stderr);
}

void nspy_progress(const char *what, size_t done, size_t of)
{
	struct timespec ts;
	uint64_t now, none = 0, shown = atomic_load(&progress_shown);

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * NSPY_NS_PER_S + (uint64_t)ts.tv_nsec;
	atomic_compare_exchange_strong(&progress_started, &none, now);
	/* Short work says nothing; one thread at a time speaks. */
	if (now - atomic_load(&progress_started) < PROGRESS_AFTER_NS ||
	    now - shown < PROGRESS_EVERY_NS ||
	    !atomic_compare_exchange_strong(&progress_shown, &shown, now))
		return;
	fprintf(stderr, "\r%s: %zu of %zu\x1b[K", what, done, of);
}

void nspy_progress_end(void)
{
	if (atomic_load(&progress_shown))
		fputs("\r\x1b[K", stderr);
	atomic_store(&progress_shown, 0);
	atomic_store(&progress_started, 0);
}
