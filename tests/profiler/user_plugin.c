/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's own profiler plugin: checks that it is given what it gave, and prints what it saw when
 * its communicators are gone. USER_MASK says what it asks for. USER_VERSION, when built, is the
 * version it has.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler_abi.h"

#define KINDS  15
#define EVENTS (1 << 20)

struct event {
	int kind;
	bool open;
	const struct event *parent;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event events[EVENTS]; /* never used twice: a handle stays good as a parent */
static int used, contexts, open_contexts;
static unsigned long started[KINDS], stopped[KINDS], states, wrong, with_parent;

static bool is_event(const void *handle)
{
	const struct event *event = handle;

	return event >= events && event < events + used && event->kind >= 0;
}

static int begin(void **context, int *mask, bool is_wrong)
{
	const char *wanted = getenv("USER_MASK");

	pthread_mutex_lock(&lock);
	wrong += is_wrong;
	*context = &open_contexts;
	*mask = wanted ? (int)strtol(wanted, NULL, 0) : 0;
	contexts++;
	open_contexts++;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int start(void *context, void **handle, void *descr)
{
#if USER_VERSION >= 5
	const struct nspy_descr_v5 *d = descr;
#else
	const struct nspy_descr_v4 *d = descr;
#endif
	struct event *event;

	pthread_mutex_lock(&lock);
	wrong += context != &open_contexts;
	event = &events[used++ % EVENTS];
	event->kind = __builtin_ctz((unsigned int)d->type);
	event->open = true;
	wrong += event->kind >= KINDS || (d->parent && !is_event(d->parent));
	with_parent += d->parent != NULL;
	event->parent = d->parent;
	started[event->kind % KINDS]++;
	*handle = event;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int stop(void *handle)
{
	struct event *event = handle;

	pthread_mutex_lock(&lock);
	if (is_event(handle) && event->open) {
		event->open = false;
		stopped[event->kind]++;
	} else {
		wrong++;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static int state(void *handle, int new_state, void *args)
{
	const struct event *event = handle;

	(void)new_state;
	pthread_mutex_lock(&lock);
	wrong += !is_event(handle) || !event->open || !args;
	states++;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int finalize(void *context)
{
	pthread_mutex_lock(&lock);
	wrong += context != &open_contexts;
	if (--open_contexts == 0) {
		printf("user: contexts %d", contexts);
		for (int i = 0; i < KINDS; i++)
			printf(" %lu/%lu", started[i], stopped[i]);
		printf(" states %lu parents %lu wrong %lu\n", states, with_parent, wrong);
		fflush(stdout);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

#if USER_VERSION <= 3
#define ENTRY init_v1
static int init(void **context, int *mask)
{
	return begin(context, mask, false);
}
#elif USER_VERSION == 4
#define ENTRY init_v4
static int init(void **context, int *mask, const char *name, uint64_t hash, int nodes, int nranks,
		int rank, void *log)
{
	(void)log;
	return begin(context, mask,
		     strcmp(name, "drive") != 0 || !hash || nodes != 2 || nranks != 2 || rank != 0);
}
#else
#define ENTRY init_v5
static int init(void **context, uint64_t hash, int *mask, const char *name, int nodes, int nranks,
		int rank, void *log)
{
	(void)log;
	return begin(context, mask,
		     strcmp(name, "drive") != 0 || !hash || nodes != 2 || nranks != 2 || rank != 0);
}
#endif

#define PASTE_(a, b)  a##b
#define PASTE(a, b)   PASTE_(a, b)
#define TABLE_OF_USER PASTE(ncclProfiler_v, USER_VERSION)

extern const struct nspy_profiler_table TABLE_OF_USER;
const struct nspy_profiler_table TABLE_OF_USER = {
	.name = "user",
	.ENTRY = init,
	.start = start,
	.stop = stop,
	.state = state,
	.finalize = finalize,
};
