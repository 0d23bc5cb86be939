/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder, as wrappers see it. A wrapper does
 *
 *	struct nspy_rec *rec = nspy_enter(NSPY_FN_...);
 *	if (!rec)
 *		return real(...);            not recording, too deep, or a forked child at rest
 *	nspy_put_...(rec, ...);              fill in what is known
 *	nspy_commit(rec);                    time it and publish it: evidence before the call
 *	result = real(...);
 *	nspy_got_...(rec, result, ...);
 *	nspy_leave(rec, result);             append the complete record
 *
 * context: any thread; no malloc, no lock, no system call, errno untouched (the first call of a
 * thread and of the process set things up and are cold).
 */
#ifndef NSPY_RECORD_H
#define NSPY_RECORD_H

#include "trace_record.h"

struct nspy_rec *nspy_enter(unsigned int fn);
void nspy_commit(struct nspy_rec *rec);
void nspy_leave(struct nspy_rec *rec, int result);

#endif
