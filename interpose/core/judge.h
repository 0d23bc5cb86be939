/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong, said while the job runs: gathers facts about the process and its machine in stages
 * and applies interpose/rules to them. Each finding is kept as the fact "finding.ID" and printed
 * once: what concerns a node by its first rank, what concerns the job by rank 0.
 * context: writer thread.
 */
#ifndef NSPY_JUDGE_H
#define NSPY_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

/* Forgets what was said: a new recording begins. context: before the writer thread starts. */
void nspy_judge_start(void);

/* Does what is due: the machine at once, what NCCL loaded after the first communicator. */
void nspy_judge_tick(uint64_t now_ns);

/* A communicator has been made, or its creation has failed. context: any thread, no lock. */
void nspy_judge_comm_outcome(bool good);

/* Facts were added that the rules should see. context: any thread, no lock. */
void nspy_judge_again(void);

/* What is left to say before the recording ends. */
void nspy_judge_last(uint64_t now_ns);

#endif
