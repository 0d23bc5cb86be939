/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call at a time: the caller says what it passes, the library what it got. Both write down the
 * bytes of each argument; a wrapper in between must not show.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <stddef.h>
#include <stdint.h>

#define ECHO_BYTES   1024
#define CONFORM_COMM 15 /* the pointer that is every call's communicator */

/* --- the library's side, in libecho.so --- */

struct echo {
	const char *function; /* the one that is being called; others are not the caller's */
	int give_code, give_errno;
	int calls;
	int got_errno;
	size_t used;
	unsigned char bytes[ECHO_BYTES];
};
extern struct echo echo;

void echo_enter(const char *function);
void echo_argument(const void *argument, size_t bytes);
int echo_leave(void);
const char *echo_text(void);

/* --- the caller's side, in conform.c --- */

struct conform_call {
	const char *name;
	const char *alias; /* NULL if it has none */
	int nccl;
	void (*call)(void *through); /* NULL: by name */
};
extern const struct conform_call conform_calls[];
extern const unsigned int conform_call_count;

/* Values of argument i in this round. */
void *conform_pointer(unsigned int i);
uint64_t conform_number(unsigned int i, size_t bytes);
const void *conform_bytes(unsigned int i);

void conform_argument(const void *argument, size_t bytes);
void conform_before(void);
void conform_after(int code);
void conform_after_text(const char *text);
void conform_after_nothing(void);

#endif
