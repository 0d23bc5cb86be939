/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that end a process, noted on their way (NCCLSPY_CRASH, NCCLSPY_TERM; off by default). The
 * handlers only store what is known, in the live pages and behind the status page, print one line,
 * and pass the signal on: to the handler that was there before, which runs under exactly the mask,
 * the flags and on the stack that it asked for, or to the default action. A signal that the program
 * ignores is left alone, and so is whoever installs a handler later: sigaction is not wrapped.
 *
 * The kernel's own rules end a crash within a handler: the signal is blocked, so the default action
 * is taken. A fault of ours under another number is given back to the default action at once.
 */
#ifndef NSPY_WATCH_SIGNALS_H
#define NSPY_WATCH_SIGNALS_H

/* context: the application's thread, when recording starts. */
void nspy_signals_start(void);

#endif
