/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One time scale for several hosts. Processes of one boot share the monotonic clock and are exact
 * to each other; between hosts only the system time is known at first. The blocking creation of a
 * communicator gives more: nobody leaves it before everybody has entered it. So does a collective
 * after which the host waited for its stream. These inequalities bound how far two clocks are apart
 * and how one drifts against the other (clock_fit.h); a system time outside the bounds is
 * corrected. Clocks that never met the first one are bounded through those that did.
 */
#ifndef NSPY_CLOCKS_H
#define NSPY_CLOCKS_H

#include "model.h"

/* Gives the processes of each boot one offset and numbers the clocks. Before loading. */
void nspy_clocks_join(struct nspy_model *model);
/*
 * After loading: bounds the clocks against the first one and corrects offsets that the traces
 * contradict. True if some changed: the traces must then be loaded again.
 */
bool nspy_clocks_align(struct nspy_model *model);

#endif
