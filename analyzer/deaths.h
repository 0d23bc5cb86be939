/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes died, in which order, and which death began it. */
#ifndef NSPY_DEATHS_H
#define NSPY_DEATHS_H

#include "waits.h"

struct nspy_death {
	const struct nspy_proc *proc;
	uint64_t when_ns;
	bool exact; /* told by the launcher, not guessed from the last sign of life */
	bool crash; /* of its own: a fault, an exit code, or singled out by a hard kill */
};

struct nspy_deaths {
	struct nspy_death *items; /* by time */
	size_t count;
	struct nspy_procs first; /* whose death began it; empty if nobody's */
	bool together;           /* all died at once, none stands out */
	/* Every process was asked to end (SIGTERM), none before it had died of something else. */
	bool terminated;
	uint64_t asked_ns, asked_until_ns; /* then: the first and the last of these requests */
	size_t outlived;                   /* processes that lived on */
};

/* Needs the waits. */
void nspy_deaths_find(struct nspy_case *c);
void nspy_deaths_done(struct nspy_deaths *deaths);

/* When it was asked to end, or died of being asked; 0 = nothing is known of that. */
uint64_t nspy_proc_asked_ns(const struct nspy_proc *proc);

bool nspy_proc_died(const struct nspy_proc *proc);
const struct nspy_death *nspy_death_of(const struct nspy_deaths *deaths,
				       const struct nspy_proc *proc);

#endif
