/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL that works past us: loaded with RTLD_DEEPBIND, or linked into something with its symbols
 * hidden. A trace with nothing in it would look as if NCCL had not been used, so a process that
 * evidently used it says so when it ends, in one line and as the fact nccl.unseen.
 *
 * Having NCCL mapped is no evidence: `import torch` does that. Evidence is one of
 *
 *	shared memory of NCCL's that is still mapped: it has a communicator;
 *	a look-up that only NCCL does, when it sets up its network;
 *	a rank of several, which has had a GPU and an NCCL mapped and has run for a minute.
 */
#ifndef NSPY_UNSEEN_H
#define NSPY_UNSEEN_H

/* NCCL sets up its network: the code at that address just looked up what only NCCL does. */
void nspy_unseen_evidence(const void *address);

/* The library has been loaded: a child that is forked without an exec has nothing to say. */
void nspy_unseen_load(void);

/* The process ends. Cheap where no NCCL and no CUDA is mapped, or calls were seen. */
void nspy_unseen_check(void);

#endif
