/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the library that the recorder does not know register themselves here when the library
 * is loaded; the recorder calls them. Functions may be NULL.
 */
#ifndef NSPY_SERVICE_H
#define NSPY_SERVICE_H

#include <stdbool.h>

struct nspy_service {
	/* Recording starts, also again in a forked child. context: the application's thread, cold.
	 */
	void (*start)(void);
	/* Now and then; may block in a file system. context: writer thread. */
	void (*write)(void);
	/* The process ends. context: the exiting thread, async-signal-safe. */
	void (*stop)(void);
	/* The writer has done its last work, or has been waited for long enough. context: as stop.
	 */
	void (*ended)(void);
	const struct nspy_service *next; /* set by nspy_service_register */
};

/* context: a constructor. */
void nspy_service_register(struct nspy_service *service);

void nspy_service_start(void);
void nspy_service_write(void);
void nspy_service_stop(void);
void nspy_service_ended(void);

#endif
