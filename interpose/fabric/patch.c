/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "patch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK_TRIES 1000u

static struct nspy_patch patches[NSPY_PATCHES_MAX];
static _Atomic uint32_t count;
static _Atomic uint32_t locked;

/* Gives up rather than wait: a fork may have left it locked for ever. */
static bool lock(void)
{
	for (uint32_t i = 0; i < LOCK_TRIES; i++) {
		uint32_t expected = 0;

		if (atomic_compare_exchange_strong(&locked, &expected, 1))
			return true;
		sched_yield();
	}
	return false;
}

/* One line of /proc/self/maps: "from-to perms ...". */
static bool line_covers(const char *line, uintptr_t from, uintptr_t to)
{
	char *end;
	uintptr_t first = strtoull(line, &end, 16), last;

	if (*end != '-')
		return false;
	last = strtoull(end + 1, &end, 16);
	return first <= from && to <= last && end[0] == ' ' && end[1] == 'r' && end[2] == 'w';
}

/* Whether one mapping holds all of it and may be written. Reads /proc/self/maps. */
static bool is_writable(const void *table, size_t bytes)
{
	uintptr_t from = (uintptr_t)table;
	char buffer[4096];
	size_t kept = 0;
	bool found = false;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	while (fd >= 0 && !found && (n = read(fd, buffer + kept, sizeof(buffer) - 1 - kept)) > 0) {
		char *line = buffer, *newline;

		buffer[kept + (size_t)n] = '\0';
		while (!found && (newline = strchr(line, '\n'))) {
			found = line_covers(line, from, from + bytes);
			line = newline + 1;
		}
		kept = strlen(line);
		if (kept >= sizeof(buffer) - 1)
			break; /* no line is that long */
		memmove(buffer, line, kept);
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static const struct nspy_patch *find_table(const void *table)
{
	/* The latest first: a library may have been loaded again at the same place. */
	for (uint32_t i = atomic_load_explicit(&count, memory_order_acquire); i-- > 0;) {
		if (patches[i].table == table)
			return &patches[i];
	}
	return NULL;
}

/* Changed, and not loaded anew since at the same place. */
static bool is_changed(void *const *table)
{
	const struct nspy_patch *patch = find_table(table);

	return patch &&
	       memcmp(table + 1, patch->entry + 1, (patch->entries - 1) * sizeof(*table)) != 0;
}

static enum nspy_net_sight change_table(void **table, void (*change)(void *copy))
{
	struct nspy_patch *patch = &patches[count];
	size_t bytes = *(const size_t *)(void *)table;
	void *copy[NSPY_PATCH_ENTRIES];

	if (is_changed(table))
		return NSPY_NET_SEEN;
	if (count == NSPY_PATCHES_MAX || bytes % sizeof(void *) || bytes < sizeof(void *))
		return NSPY_NET_UNKNOWN;
	/* Longer than what we know: the rest of it is not touched. */
	if (bytes > sizeof(copy))
		bytes = sizeof(copy);
	if (!is_writable(table, bytes))
		return NSPY_NET_CONSTANT;
	memcpy(copy, table, bytes);
	copy[0] = (void *)bytes;
	patch->table = table;
	patch->entries = bytes / sizeof(void *);
	memcpy(patch->entry, copy, bytes);
	change(copy);
	/* Known before the first call can come through it. */
	atomic_fetch_add_explicit(&count, 1, memory_order_release);
	for (size_t i = 1; i < patch->entries; i++) {
		if (copy[i] != patch->entry[i])
			__atomic_store_n(&table[i], copy[i], __ATOMIC_RELEASE);
	}
	return NSPY_NET_SEEN;
}

enum nspy_net_sight nspy_patch_table(void *table, void (*change)(void *copy))
{
	enum nspy_net_sight sight = NSPY_NET_UNKNOWN;
	int saved = errno;

	if (table && lock()) {
		sight = change_table(table, change);
		atomic_store_explicit(&locked, 0, memory_order_release);
	}
	errno = saved;
	return sight;
}

const void *nspy_patch_find(const void *table, size_t mark)
{
	const struct nspy_patch *patch = find_table(table);
	uint32_t used = atomic_load_explicit(&count, memory_order_acquire);
	void *const *theirs = table;

	for (uint32_t i = 0; i < used && !patch; i++) {
		if (mark < patches[i].entries && theirs[mark] &&
		    patches[i].entry[mark] == theirs[mark])
			patch = &patches[i];
	}
	return patch ? patch->entry : NULL;
}
