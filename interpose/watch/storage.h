/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHARED_DIR_SLOW: the writer thread does all input and output of a process on file systems, and
 * the watcher none; here the watcher notices that the writer does not come back. context: watcher
 * thread.
 */
#ifndef NSPY_WATCH_STORAGE_H
#define NSPY_WATCH_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#define NSPY_STORAGE_SUSPECT_NS 5000000000ull

enum nspy_storage_news {
	NSPY_STORAGE_NOTHING,
	NSPY_STORAGE_STUCK,    /* for longer than the limit, not told yet */
	NSPY_STORAGE_RETURNED, /* after it was told */
};

struct nspy_storage {
	uint64_t told_since_ns; /* since when the writer was stuck when that was told, 0 = it was
				   not */
};

/*
 * since_ns: when the writer began what it does now, 0 = it rests. *ret_for_ns: how long it has been
 * stuck. A pure function but for *storage.
 */
enum nspy_storage_news nspy_storage_judge(struct nspy_storage *storage, uint64_t since_ns,
					  uint64_t now_ns, uint64_t *ret_for_ns);

void nspy_storage_start(void);

/* speaks: this process tells for its node. */
void nspy_storage_look(uint64_t now_ns, bool speaks);

#endif
