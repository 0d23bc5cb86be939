/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether a signal was meant for the launcher alone or for everybody around it.
 *
 * A supervisor that signals one process (kubelet, torchrun's agent) means the launcher, which must
 * pass the signal on. A terminal, `kill -- -PGID` and slurmstepd signal the launcher and the
 * command: passed on, the command would get it twice, and a second SIGUSR1 can mean a second
 * checkpoint. Nothing in a signal says which it was. So a second, idle process of ours sits in the
 * same process group, session and control group; if it gets the signal too, so did the command.
 */
#ifndef NSPY_WITNESS_H
#define NSPY_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One signal the witness got. */
struct nspy_sighting {
	int signal;
	pid_t sender;
	uint64_t when_ns; /* CLOCK_MONOTONIC */
};

#define NSPY_SIGHTINGS 32 /* older ones are too old to matter */

struct nspy_witness {
	pid_t pid; /* 0 = there is none */
	int fd;    /* its sightings come out here; -1 = it is gone */
	unsigned int count;
	struct nspy_sighting sightings[NSPY_SIGHTINGS]; /* a ring */
};

/* Starts it; signals: those it watches. Without it (-errno) every signal counts as ours alone. */
int nspy_witness_start(struct nspy_witness *witness, const sigset_t *signals);

/*
 * Whether the witness got the signal as well: same number, same sender, at most 100 ms before or
 * after. Waits that long at most. Of two equal signals closer than that, one to all and one to the
 * launcher, the second is taken for part of the first, as the kernel does with pending ones.
 */
bool nspy_witness_saw(struct nspy_witness *witness, const siginfo_t *info);

/* Ends and collects it. */
void nspy_witness_stop(struct nspy_witness *witness);

#endif
