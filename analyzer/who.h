/* SPDX-License-Identifier: Apache-2.0 */
/* Names of ranks, communicators and operations as an operator needs them. */
#ifndef NSPY_WHO_H
#define NSPY_WHO_H

#include "model.h"

/* "rank 168 (node ip-10-0-3-7, i-0f3a, gpu 0 0000:53:00.0)", with whatever is known. */
void nspy_add_proc(struct nspy_str *s, const struct nspy_proc *proc);
/* The ranks that a process holds, ascending; caller frees. */
int64_t *nspy_proc_ranks(const struct nspy_proc *proc, size_t *ret_count);
/* Ranks that processes hold together; one whose rank is not known counts as one. */
size_t nspy_count_ranks(const struct nspy_proc *const *procs, size_t count);
/* "rank 168" or "pid 4711 on ip-10-0-3-7". */
void nspy_add_proc_short(struct nspy_str *s, const struct nspy_proc *proc);
/* One process in full; several as "ranks 0-3,7 (nodes a[1-2])". */
void nspy_add_procs(struct nspy_str *s, const struct nspy_proc *const *procs, size_t count);
/* "ranks 0-3,7", without nodes. */
void nspy_add_procs_short(struct nspy_str *s, const struct nspy_proc *const *procs, size_t count);

/* "world (8 ranks)" or "communicator 3f2a91c4 (4 ranks)". */
void nspy_add_comm(struct nspy_str *s, const struct nspy_comm *comm);

/* "ncclAllReduce #4117"; the function is taken from what most ranks called. */
void nspy_add_op(struct nspy_str *s, const struct nspy_model *model, const struct nspy_comm *comm,
		 uint64_t seq);
/* "ncclAllReduce(1048576 x float32, sum)"; rec->fn is a model function id. */
void nspy_add_call(struct nspy_str *s, const struct nspy_model *model, const struct nspy_rec *rec);
/* "inside cudaMalloc(2.0 GiB) since 14:02:11.482" or "outside NCCL since ..., after ..." */
void nspy_add_doing(struct nspy_str *s, const struct nspy_model *model,
		    const struct nspy_proc *proc);
/* "float32", "sum" without vendor prefixes. */
const char *nspy_type_name(const struct nspy_model *model, uint8_t type, char *buffer,
			   size_t bytes);
const char *nspy_redop_name(uint8_t redop);

/* A version as ncclGetVersion gives it: 22809 is 2.28.9; before 2.9 it was 2804 for 2.8.4. */
void nspy_add_nccl_version(struct nspy_str *s, const char *value);

/* The member of a process in a communicator, or NULL. */
const struct nspy_member *nspy_member_of(const struct nspy_comm *comm,
					 const struct nspy_proc *proc);
/* The member with this rank, or NULL. */
const struct nspy_member *nspy_member_by_rank(const struct nspy_comm *comm, int32_t rank);

#endif
