/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every wrapped function by every route and checks that the library got what was passed, and
 * the caller what was returned: arguments, memory behind them, return code, errno.
 *
 *	conform [FUNCTION]
 *
 * Prints the name of every function and the number of routes. It must come to the same with and
 *without the recorder.
 */
#include "conform.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS       16
#define SLOT_BYTES  2048u
#define ERRNO_FIRST 55
#define FAILURES    20 /* then it gives up */

/* What is passed: sound values; numbers that make no sense; and no pointers. */
enum round { SOUND, WILD, NO_POINTERS, ROUNDS };

static unsigned char memory[SLOTS][SLOT_BYTES] __attribute__((aligned(64)));
static unsigned char as_filled[SLOTS][SLOT_BYTES];
static enum round round_now;
static const struct conform_call *call_now;
static const char *route_now;
static unsigned char passed[ECHO_BYTES];
static size_t passed_bytes;
static int failures;

static void failed(const char *what)
{
	(void)fprintf(stderr, "conform: %s, by %s, round %d, code %d: %s\n", call_now->name,
		      route_now, (int)round_now, echo.give_code, what);
	if (++failures >= FAILURES)
		exit(1);
}

void *conform_pointer(unsigned int i)
{
	return round_now == NO_POINTERS ? NULL : memory[i];
}

/* Sound ones fit the memory that they may be the length of. */
uint64_t conform_number(unsigned int i, size_t bytes)
{
	static const uint64_t wild[] = {UINT64_MAX, 0x8000000080000000u, 0x7fffffff7fffffffu,
					0x0123456789abcdefu, 0};

	if (round_now == WILD)
		return wild[i % (sizeof(wild) / sizeof(wild[0]))];
	return bytes == sizeof(uint64_t) ? 0x1000000000u + i : i + 1;
}

const void *conform_bytes(unsigned int i)
{
	return memory[i];
}

void conform_argument(const void *argument, size_t bytes)
{
	memcpy(passed + passed_bytes, argument, bytes);
	passed_bytes += bytes;
}

void conform_before(void)
{
	memcpy(memory, as_filled, sizeof(memory));
	echo.function = call_now->name;
	echo.calls = 0;
	errno = ERRNO_FIRST;
}

void conform_after_nothing(void)
{
	int after = errno;

	echo.function = NULL;
	if (after != echo.give_errno)
		failed("errno after the call");
	if (echo.calls != 1)
		failed("not called exactly once");
	else if (echo.got_errno != ERRNO_FIRST)
		failed("errno at entry");
	/* A later form of a function has fewer arguments. */
	if (echo.used < passed_bytes || memcmp(echo.bytes, passed, passed_bytes) != 0)
		failed("arguments");
	if (memcmp(memory, as_filled, sizeof(memory)) != 0)
		failed("memory that is the caller's");
}

void conform_after(int code)
{
	conform_after_nothing();
	if (code != echo.give_code)
		failed("return code");
}

void conform_after_text(const char *text)
{
	conform_after_nothing();
	if (!text || strcmp(text, "a text") != 0)
		failed("returned text");
}

static void call(const struct conform_call *what, const char *route, void *through)
{
	/* No success where no library would give one. */
	static const int codes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, -3, 999};
	static const int errnos[] = {0, ENOMEM, EINTR};

	for (round_now = SOUND; round_now < ROUNDS; round_now++)
		for (size_t i = round_now == WILD; i < sizeof(codes) / sizeof(codes[0]); i++) {
			if (round_now == WILD && codes[i] == 7)
				continue; /* in progress: as good as success */
			call_now = what;
			route_now = route;
			echo.give_code = codes[i];
			echo.give_errno = errnos[i % 3];
			passed_bytes = 0;
			what->call(through);
		}
}

static void *find(const struct conform_call *what, const char *name)
{
	static void *libraries[2];
	static const char *const names[2] = {"libecho_cuda.so", "libecho_nccl.so"};
	void *found;

	if (!libraries[what->nccl])
		libraries[what->nccl] = dlopen(names[what->nccl], RTLD_LAZY | RTLD_NOLOAD);
	found = libraries[what->nccl] ? dlsym(libraries[what->nccl], name) : NULL;
	if (!found) {
		(void)fprintf(stderr, "conform: %s: %s\n", name, dlerror());
		exit(1);
	}
	return found;
}

static void fill_memory(void)
{
	const void *comm = memory[CONFORM_COMM];

	/* What is read as a handle is one that is known. */
	for (size_t at = 0; at < sizeof(as_filled); at += sizeof(comm))
		memcpy((unsigned char *)as_filled + at, &comm, sizeof(comm));
}

/*
 * The first call begins the recording, for which the recorder asks the library for its version:
 * that must not be the function of which calls are counted.
 */
static unsigned int first_call(void)
{
	unsigned int i = 0;

	while (strcmp(conform_calls[i].name, "ncclGroupStart") != 0)
		i++;
	return i;
}

int main(int argc, char **argv)
{
	unsigned int first = first_call();

	fill_memory();
	for (unsigned int i = 0; i < conform_call_count; i++) {
		const struct conform_call *what = &conform_calls[(first + i) % conform_call_count];

		if (argc > 1 && strcmp(argv[1], what->name) != 0)
			continue;
		call(what, "name", NULL);
		call(what, "handle", find(what, what->name));
		if (what->alias)
			call(what, "alias", find(what, what->alias));
		(void)printf("%s %d\n", what->name, what->alias ? 3 : 2);
	}
	return failures ? 1 : 0;
}
