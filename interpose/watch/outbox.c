/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "outbox.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

#define LINES 16u

static struct {
	_Atomic uint32_t put, taken; /* lines ever */
	_Atomic uint32_t dropped;
	size_t bytes[LINES];
	char text[LINES][NSPY_OUTBOX_LINE_MAX];
} box;

void nspy_outbox_start(void)
{
	atomic_store(&box.put, 0);
	atomic_store(&box.taken, 0);
}

bool nspy_outbox_put(const char *line, size_t bytes)
{
	uint32_t put = atomic_load_explicit(&box.put, memory_order_relaxed);

	if (bytes > NSPY_OUTBOX_LINE_MAX ||
	    put - atomic_load_explicit(&box.taken, memory_order_acquire) == LINES) {
		atomic_fetch_add(&box.dropped, 1);
		return false;
	}
	memcpy(box.text[put % LINES], line, bytes);
	box.bytes[put % LINES] = bytes;
	/* Pairs with the acquire load of the writer. */
	atomic_store_explicit(&box.put, put + 1, memory_order_release);
	return true;
}

/* <NCCLSPY_DIR>/<job>/events.jsonl; several nodes append, a line with one write each. */
static int open_events(void)
{
	char path[NSPY_PATH_MAX + 32];
	const char *slash = strrchr(nspy_core.id.dir, '/');

	if (!slash)
		return -1;
	(void)snprintf(path, sizeof(path), "%.*s/events.jsonl", (int)(slash - nspy_core.id.dir),
		       nspy_core.id.dir);
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
		    nspy_core.group_readable ? 0640 : 0600);
}

void nspy_outbox_write(void)
{
	uint32_t put = atomic_load_explicit(&box.put, memory_order_acquire);
	uint32_t taken = atomic_load_explicit(&box.taken, memory_order_relaxed);
	int fd;

	if (taken == put)
		return;
	fd = open_events();
	if (fd < 0)
		return;
	for (; taken != put; taken++)
		if (write(fd, box.text[taken % LINES], box.bytes[taken % LINES]) < 0)
			break;
	close(fd);
	/* Pairs with the acquire load of the watcher: the place may be used again. */
	atomic_store_explicit(&box.taken, taken, memory_order_release);
}
