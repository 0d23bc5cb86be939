/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detectors: pure functions from a case to findings, one per file, listed in registry.c. A detector
 * file begins with the question it answers, the evidence, the thresholds and their origin, and the
 * false positives it is known to have; docs/DETECTORS.md tells the same at length.
 */
#ifndef NSPY_DETECT_H
#define NSPY_DETECT_H

#include "case.h"

typedef void nspy_detect_fn(const struct nspy_case *c, struct nspy_findings *out);

nspy_detect_fn nspy_detect_ranks_missing;
nspy_detect_fn nspy_detect_rank_died;
nspy_detect_fn nspy_detect_terminated;
nspy_detect_fn nspy_detect_mismatch;
nspy_detect_fn nspy_detect_hang;
nspy_detect_fn nspy_detect_versions;
nspy_detect_fn nspy_detect_call_failed;
nspy_detect_fn nspy_detect_p2p_mismatch;
nspy_detect_fn nspy_detect_order;
nspy_detect_fn nspy_detect_straggler;
nspy_detect_fn nspy_detect_stalled;
nspy_detect_fn nspy_detect_io_stall;
nspy_detect_fn nspy_detect_bandwidth;
nspy_detect_fn nspy_detect_oom;
nspy_detect_fn nspy_detect_aborted;
nspy_detect_fn nspy_detect_drift;
nspy_detect_fn nspy_detect_facts;
nspy_detect_fn nspy_detect_fleet;
nspy_detect_fn nspy_detect_device_fault;
nspy_detect_fn nspy_detect_registration;
nspy_detect_fn nspy_detect_fabric;
nspy_detect_fn nspy_detect_efa_unavailable;
nspy_detect_fn nspy_detect_tcp_fallback;

/* Runs all of them and sorts the outcome. */
void nspy_detect_all(const struct nspy_case *c, struct nspy_findings *out);

/* An error of NCCL that a peer's death, or a wait in vain, explains. */
bool nspy_error_follows_death(const struct nspy_case *c, const struct nspy_proc *proc,
			      const struct nspy_error *error);
bool nspy_error_follows_wait(const struct nspy_case *c, const struct nspy_proc *proc,
			     const struct nspy_error *error);
/* Adds to finding which ranks got such errors. */
void nspy_tell_errors(const struct nspy_case *c, struct nspy_finding *finding);

/* tell.c: sentences that several detectors need; all are owned by the caller. */

/* "7 ranks wait since 12.3 s in cudaStreamSynchronize, ..." */
char *nspy_tell_waiters(const struct nspy_case *c, const struct nspy_hang *hang);
/* "rank 3: outside NCCL since 14:02:11.482, last call ..." */
char *nspy_tell_doing(const struct nspy_case *c, const struct nspy_proc *proc);
/* "ncclAllReduce(1024 x float32, sum) #41 of world (8 ranks)" for what an object stands for. */
void nspy_add_object(struct nspy_str *s, const struct nspy_case *c,
		     const struct nspy_wait_object *object);
/* "signal 9 (SIGKILL)", "exit code 1", "" */
void nspy_add_exit(struct nspy_str *s, const struct nspy_proc *proc);
/* Adds to finding the last call of proc that failed, if any did. */
void nspy_tell_last_error(const struct nspy_case *c, struct nspy_finding *finding,
			  const struct nspy_proc *proc);
/* What exit codes and signals usually mean, or NULL. */
const char *nspy_explain_exit(const struct nspy_proc *proc);

#endif
