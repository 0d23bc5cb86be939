/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "prom.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "event.h"

#define PERIOD_NS 5000000000ull

static struct {
	_Atomic uint32_t full; /* 1: the writer's turn */
	_Atomic uint32_t written, stopping;
	uint64_t next_ns;
	size_t bytes;
	char text[NSPY_PROM_BYTES];
	char path[NSPY_PATH_MAX], beside[NSPY_PATH_MAX];
} prom;

/* A file's name takes no slash; names of jobs and nodes are clean already, mostly. */
static void clean(char *name)
{
	for (; *name; name++)
		if (*name == '/')
			*name = '_';
}

void nspy_prom_start(void)
{
	const struct nspy_identity *id = &nspy_core.id;
	char name[2 * NSPY_NAME_MAX];

	prom.next_ns = 0;
	atomic_store(&prom.full, 0);
	atomic_store(&prom.written, 0);
	atomic_store(&prom.stopping, 0);
	(void)snprintf(name, sizeof(name), "%.100s.%.100s", id->job, id->node);
	clean(name);
	(void)snprintf(prom.path, sizeof(prom.path), "%s/ncclspy.%s.prom",
		       nspy_core.env.NCCLSPY_PROM_DIR, name);
	/* Not with that ending: nobody may read it before it is whole. */
	(void)snprintf(prom.beside, sizeof(prom.beside), "%s/.ncclspy.%s.%016llx",
		       nspy_core.env.NCCLSPY_PROM_DIR, name, (unsigned long long)id->run_id);
}

void nspy_prom_look(const struct nspy_status *pages, uint32_t count, const struct nspy_status *own,
		    uint64_t now_ns)
{
	const struct nspy_prom_labels labels = {nspy_core.id.job, nspy_core.id.node};
	struct nspy_status told = *own;
	struct timespec real;
	long bytes;

	if (!nspy_core.env.NCCLSPY_PROM_DIR[0] || now_ns < prom.next_ns ||
	    atomic_load_explicit(&prom.full, memory_order_acquire))
		return;
	clock_gettime(CLOCK_REALTIME, &real);
	if (!nspy_event_in_full(own)) /* one node names it, not all */
		told.event_id[0] = '\0';
	bytes = nspy_prom_text(pages, count, &told, &labels, now_ns,
			       (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec,
			       prom.text);
	if (bytes < 0)
		return;
	prom.next_ns = now_ns + PERIOD_NS;
	prom.bytes = (size_t)bytes;
	/* Pairs with the acquire load of the writer. */
	atomic_store_explicit(&prom.full, 1, memory_order_release);
}

/* Readable for all: the exporter is another user, and there are no secrets in it. */
static void put_file(void)
{
	int fd = open(prom.beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	bool ok = fd >= 0 && write(fd, prom.text, prom.bytes) == (ssize_t)prom.bytes;

	if (fd >= 0)
		close(fd);
	if (fd >= 0 && (!ok || rename(prom.beside, prom.path) != 0))
		(void)unlink(prom.beside);
	atomic_store(&prom.written, 1);
	/* Whoever of the two comes second finds the file, or that there is none. */
	if (atomic_load(&prom.stopping))
		(void)unlink(prom.path);
}

void nspy_prom_write(void)
{
	if (!atomic_load_explicit(&prom.full, memory_order_acquire))
		return;
	put_file();
	atomic_store_explicit(&prom.full, 0, memory_order_release);
}

void nspy_prom_stop(void)
{
	atomic_store(&prom.stopping, 1);
	if (atomic_load(&prom.written))
		(void)unlink(prom.path);
}
