/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCLSPY_PROM_DIR: what the speaker of a node knows of the node's ranks, as a text file for the
 * node exporter. A fixed number of series per job and node, none per rank.
 */
#ifndef NSPY_WATCH_PROM_H
#define NSPY_WATCH_PROM_H

#include <stddef.h>
#include <stdint.h>

#include "trace_status.h"

#define NSPY_PROM_BYTES 16384u /* enough for the longest names */

struct nspy_prom_labels {
	const char *job, *node;
};

/* The file's text. Its bytes, or -ENOBUFS. Pure. */
long nspy_prom_text(const struct nspy_status *pages, uint32_t count, const struct nspy_status *own,
		    const struct nspy_prom_labels *labels, uint64_t now_ns, uint64_t now_real_ns,
		    char out[NSPY_PROM_BYTES]);

void nspy_prom_start(void);
/* Hands over what is to be written, if it is time. context: watcher thread of the speaker. */
void nspy_prom_look(const struct nspy_status *pages, uint32_t count, const struct nspy_status *own,
		    uint64_t now_ns);
/* Writes it beside and renames it. context: writer thread. */
void nspy_prom_write(void);
/* Removes the file: what is not updated any more only misleads. context: exiting thread. */
void nspy_prom_stop(void);

#endif
