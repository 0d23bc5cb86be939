/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of signals, as the opt-in handlers of the library leave them (NCCLSPY_CRASH, NCCLSPY_TERM):
 * in the head of the live pages, and behind the status page. Written with plain stores by a signal
 * handler; the seal comes last, so that half a note, or noise in the file, is none.
 *
 * Nothing here allocates, locks, or keeps state. context: any thread; all of it async-signal-safe.
 */
#ifndef NSPY_TRACE_SIGNAL_H
#define NSPY_TRACE_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_SIGNAL_MAX 64

enum nspy_signal_flag {
	NSPY_SIGNAL_IN_CALL = 1, /* the thread was inside the wrapped call */
	NSPY_SIGNAL_IN_US = 2,   /* the fault lies in code of libncclspy.so itself */
	NSPY_SIGNAL_HANDLED = 4, /* the program had a handler for it, and may go on */
};

struct nspy_signal_note {
	uint64_t when_ns; /* CLOCK_MONOTONIC */
	uint64_t address; /* of a fault, 0 = none; see nspy_signal_faults */
	int32_t number;
	int32_t code;    /* si_code */
	uint32_t tid;    /* the thread that got it */
	uint32_t sender; /* pid, of signals that a process sent; 0 = the kernel, or not known */
	uint16_t fn;    /* last wrapped call of that thread: number of the function + 1, 0 = none */
	uint16_t flags; /* enum nspy_signal_flag */
	_Atomic uint32_t seal;
};
_Static_assert(sizeof(struct nspy_signal_note) == 40, "part of two file formats");

/* Puts a note where readers may look meanwhile. */
void nspy_signal_note_write(struct nspy_signal_note *where, const struct nspy_signal_note *note);

/* A copy of what was written. false: none, or not whole. */
bool nspy_signal_note_read(const struct nspy_signal_note *where, struct nspy_signal_note *ret);

/* SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT: a process brings them on itself. */
bool nspy_signal_is_crash(int number);

/* Whether code says that the kernel saw an instruction fail, so that the address means something.
 */
bool nspy_signal_faults(int number, int code);

/* "SIGSEGV", "signal 34" for those without a name of their own. */
const char *nspy_signal_name(int number, char *scratch, size_t bytes);

/* What si_code says, as a clause: "nothing is mapped at the address"; "" if it says nothing. */
const char *nspy_signal_code(int number, int code);

#endif
