/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of nspy_profile_make. */
#ifndef NSPY_COMPARE_MEASURE_H
#define NSPY_COMPARE_MEASURE_H

#include "profile.h"

/* When the steps of the job's communicator began; count + 1 times, ascending. */
struct nspy_step_times {
	uint64_t *starts;
	size_t count;
	size_t length; /* operations in a step */
};

void nspy_steps_walk(const struct nspy_comm *world, struct nspy_step_times *ret);

/* How operations spread and what they are: one rank of each communicator is read again. */
void nspy_measure_ops(const struct nspy_model *model, const struct nspy_attempt *attempt,
		      const struct nspy_step_times *steps, struct nspy_run *run);
/* Where the hosts spend a step: some ranks are read again. */
void nspy_measure_steps(const struct nspy_model *model, const struct nspy_attempt *attempt,
			const struct nspy_step_times *steps, struct nspy_run *run);

/* How long single operations and those of the network took. */
void nspy_measure_transfers(const struct nspy_model *model, const struct nspy_attempt *attempt,
			    struct nspy_run *run);

#endif
