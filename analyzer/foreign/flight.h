/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps of PyTorch's flight recorder: what each rank's process groups were asked to do. Source of
 * the format: torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.0 to 2.10.
 *
 * Compared are, per process group, operations with the same number: function, type, and size where
 * all ranks must agree. Only what a rank's ring still holds is compared. That an operation is at
 * different stages on different ranks is progress, not a fault. A rank without a dump is told,
 * never taken for one that did not come; one whose dump has nothing of a group it belongs to did
 * not come, unless its ring lost the beginning. Sends and receives are paired in the order of calls
 * between two ranks. Who is late only because it waits elsewhere is not blamed.
 */
#ifndef NSPY_FLIGHT_H
#define NSPY_FLIGHT_H

#include "../finding.h"

struct cJSON;
struct nspy_flights;

struct nspy_flights *nspy_flights_new(void);
void nspy_flights_free(struct nspy_flights *flights);
/* Is this the tree of such a dump? */
bool nspy_flight_is(const struct cJSON *dump);
/* The rank of the dump is told by its file name. False if there is nothing in it. */
bool nspy_flights_add(struct nspy_flights *flights, const char *path, const struct cJSON *dump);
size_t nspy_flights_count(const struct nspy_flights *flights);
/* Processes named are added to the model. */
void nspy_flights_judge(const struct nspy_flights *flights, struct nspy_model *model,
			struct nspy_findings *out);

#endif
