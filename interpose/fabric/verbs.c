/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs and libmlx5: registrations of memory, and what else fails for want of it. The
 * functions have the versions of rdma-core 44; those of the first interface (IBVERBS_1.0) have
 * other structures behind the same arguments and are only passed on. verbs.h turns ibv_reg_mr into
 * ibv_reg_mr_iova2 for some callers, so both are here.
 *
 * errno is part of the result: NCCL tells apart by it what it may try next.
 */
#include "compat.h"

#include <errno.h>
#include <stdio.h>

#include "events.h"
#include "export.h"
#include "fabric_abi.h"
#include "find.h"
#include "session.h"

enum symbol {
	REG_MR_1_1,
	REG_MR_1_0,
	REG_MR_IOVA_1_7,
	REG_MR_IOVA2_1_8,
	REG_DMABUF_MR_1_12,
	REREG_MR_1_1,
	DEREG_MR_1_1,
	DEREG_MR_1_0,
	CREATE_CQ_1_1,
	CREATE_CQ_1_0,
	CREATE_QP_1_1,
	CREATE_QP_1_0,
	MLX5_REG_DMABUF_MR,
	SYMBOLS
};

static __thread bool inside; /* one of these functions calls another */

static struct nspy_ibv_mr *no_function(void)
{
	errno = ENOSYS;
	return NULL;
}

static void registered(const struct nspy_ibv_mr *mr, size_t length, const char *call)
{
	int error = errno;

	(void)nspy_session_on(); /* if not, the sums wait until it is */
	if (mr)
		nspy_memory_registered(NSPY_NET_VERBS, length);
	else
		nspy_memory_failed(NSPY_NET_VERBS, call, length, error);
	errno = error;
}

/* Calls from within libfabric count here as well as there: they are two layers. */
#define REGISTER(symbol, fn_type, length, call, ...)                                               \
	fn_type *real = (fn_type *)nspy_net_real(&nspy_verbs_symbols[symbol]);                     \
	struct nspy_ibv_mr *mr;                                                                    \
                                                                                                   \
	if (!real)                                                                                 \
		return no_function();                                                              \
	if (inside || nspy_session_off())                                                          \
		return real(__VA_ARGS__);                                                          \
	inside = true;                                                                             \
	mr = real(__VA_ARGS__);                                                                    \
	inside = false;                                                                            \
	registered(mr, length, call);                                                              \
	return mr

typedef struct nspy_ibv_mr *reg_mr_fn(void *pd, void *addr, size_t length, int access);
typedef struct nspy_ibv_mr *reg_mr_iova_fn(void *pd, void *addr, size_t length, uint64_t iova,
					   unsigned int access);
typedef struct nspy_ibv_mr *reg_dmabuf_mr_fn(void *pd, uint64_t offset, size_t length,
					     uint64_t iova, int fd, int access);
typedef struct nspy_ibv_mr *mlx5_reg_dmabuf_mr_fn(void *pd, uint64_t offset, size_t length,
						  uint64_t iova, int fd, int access,
						  int mlx5_access);
typedef int rereg_mr_fn(struct nspy_ibv_mr *mr, int flags, void *pd, void *addr, size_t length,
			int access);
typedef int dereg_mr_fn(struct nspy_ibv_mr *mr);
typedef void *create_cq_fn(void *context, int entries, void *cq_context, void *channel, int vector);
typedef void *create_qp_fn(void *pd, void *attr);

NSPY_EXPORT reg_mr_fn nspy_ibv_reg_mr_1_1, nspy_ibv_reg_mr_1_0;
NSPY_EXPORT reg_mr_iova_fn nspy_ibv_reg_mr_iova_1_7, nspy_ibv_reg_mr_iova2_1_8;
NSPY_EXPORT reg_dmabuf_mr_fn nspy_ibv_reg_dmabuf_mr_1_12;
NSPY_EXPORT mlx5_reg_dmabuf_mr_fn nspy_mlx5dv_reg_dmabuf_mr;
NSPY_EXPORT rereg_mr_fn nspy_ibv_rereg_mr_1_1;
NSPY_EXPORT dereg_mr_fn nspy_ibv_dereg_mr_1_1, nspy_ibv_dereg_mr_1_0;
NSPY_EXPORT create_cq_fn nspy_ibv_create_cq_1_1, nspy_ibv_create_cq_1_0;
NSPY_EXPORT create_qp_fn nspy_ibv_create_qp_1_1, nspy_ibv_create_qp_1_0;

struct nspy_ibv_mr *nspy_ibv_reg_mr_1_1(void *pd, void *addr, size_t length, int access)
{
	REGISTER(REG_MR_1_1, reg_mr_fn, length, "ibv_reg_mr", pd, addr, length, access);
}

struct nspy_ibv_mr *nspy_ibv_reg_mr_1_0(void *pd, void *addr, size_t length, int access)
{
	REGISTER(REG_MR_1_0, reg_mr_fn, length, "ibv_reg_mr", pd, addr, length, access);
}

struct nspy_ibv_mr *nspy_ibv_reg_mr_iova_1_7(void *pd, void *addr, size_t length, uint64_t iova,
					     unsigned int access)
{
	REGISTER(REG_MR_IOVA_1_7, reg_mr_iova_fn, length, "ibv_reg_mr_iova", pd, addr, length, iova,
		 access);
}

struct nspy_ibv_mr *nspy_ibv_reg_mr_iova2_1_8(void *pd, void *addr, size_t length, uint64_t iova,
					      unsigned int access)
{
	REGISTER(REG_MR_IOVA2_1_8, reg_mr_iova_fn, length, "ibv_reg_mr_iova2", pd, addr, length,
		 iova, access);
}

struct nspy_ibv_mr *nspy_ibv_reg_dmabuf_mr_1_12(void *pd, uint64_t offset, size_t length,
						uint64_t iova, int fd, int access)
{
	REGISTER(REG_DMABUF_MR_1_12, reg_dmabuf_mr_fn, length, "ibv_reg_dmabuf_mr", pd, offset,
		 length, iova, fd, access);
}

struct nspy_ibv_mr *nspy_mlx5dv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length,
					      uint64_t iova, int fd, int access, int mlx5_access)
{
	REGISTER(MLX5_REG_DMABUF_MR, mlx5_reg_dmabuf_mr_fn, length, "mlx5dv_reg_dmabuf_mr", pd,
		 offset, length, iova, fd, access, mlx5_access);
}

int nspy_ibv_rereg_mr_1_1(struct nspy_ibv_mr *mr, int flags, void *pd, void *addr, size_t length,
			  int access)
{
	rereg_mr_fn *real = (rereg_mr_fn *)nspy_net_real(&nspy_verbs_symbols[REREG_MR_1_1]);
	int rc;

	if (!real) {
		errno = ENOSYS;
		return -1;
	}
	rc = real(mr, flags, pd, addr, length, access);
	/* IBV_REREG_MR_ERR_CMD and its relatives are negative, the reason is in errno. */
	if (rc && errno == ENOMEM && !nspy_session_off())
		nspy_memory_failed(NSPY_NET_VERBS, "ibv_rereg_mr", length, ENOMEM);
	return rc;
}

int nspy_ibv_dereg_mr_1_1(struct nspy_ibv_mr *mr)
{
	dereg_mr_fn *real = (dereg_mr_fn *)nspy_net_real(&nspy_verbs_symbols[DEREG_MR_1_1]);
	size_t length;
	int rc;

	if (!real)
		return ENOSYS;
	if (inside || !mr)
		return real(mr);
	length = mr->length;
	inside = true;
	rc = real(mr);
	inside = false;
	if (rc == 0)
		nspy_memory_released(NSPY_NET_VERBS, length);
	return rc;
}

int nspy_ibv_dereg_mr_1_0(struct nspy_ibv_mr *mr)
{
	dereg_mr_fn *real = (dereg_mr_fn *)nspy_net_real(&nspy_verbs_symbols[DEREG_MR_1_0]);

	return real ? real(mr) : ENOSYS;
}

/* Queues are pinned memory too and fail by the same limits. */
static void *created(void *made, const char *call)
{
	int error = errno;

	if (!made && error == ENOMEM && !inside && !nspy_session_off()) {
		(void)nspy_session_on();
		nspy_memory_failed(NSPY_NET_VERBS, call, 0, error);
		errno = error;
	}
	return made;
}

static void *create_cq(enum symbol symbol, void *context, int entries, void *cq_context,
		       void *channel, int vector)
{
	create_cq_fn *real = (create_cq_fn *)nspy_net_real(&nspy_verbs_symbols[symbol]);

	if (!real)
		return no_function();
	return created(real(context, entries, cq_context, channel, vector), "ibv_create_cq");
}

void *nspy_ibv_create_cq_1_1(void *context, int entries, void *cq_context, void *channel,
			     int vector)
{
	return create_cq(CREATE_CQ_1_1, context, entries, cq_context, channel, vector);
}

void *nspy_ibv_create_cq_1_0(void *context, int entries, void *cq_context, void *channel,
			     int vector)
{
	return create_cq(CREATE_CQ_1_0, context, entries, cq_context, channel, vector);
}

static void *create_qp(enum symbol symbol, void *pd, void *attr)
{
	create_qp_fn *real = (create_qp_fn *)nspy_net_real(&nspy_verbs_symbols[symbol]);

	return real ? created(real(pd, attr), "ibv_create_qp") : no_function();
}

void *nspy_ibv_create_qp_1_1(void *pd, void *attr)
{
	return create_qp(CREATE_QP_1_1, pd, attr);
}

void *nspy_ibv_create_qp_1_0(void *pd, void *attr)
{
	return create_qp(CREATE_QP_1_0, pd, attr);
}

__asm__(".symver nspy_ibv_reg_mr_1_1,ibv_reg_mr@@IBVERBS_1.1");
__asm__(".symver nspy_ibv_reg_mr_1_0,ibv_reg_mr@IBVERBS_1.0");
__asm__(".symver nspy_ibv_reg_mr_iova_1_7,ibv_reg_mr_iova@@IBVERBS_1.7");
__asm__(".symver nspy_ibv_reg_mr_iova2_1_8,ibv_reg_mr_iova2@@IBVERBS_1.8");
__asm__(".symver nspy_ibv_reg_dmabuf_mr_1_12,ibv_reg_dmabuf_mr@@IBVERBS_1.12");
__asm__(".symver nspy_ibv_rereg_mr_1_1,ibv_rereg_mr@@IBVERBS_1.1");
__asm__(".symver nspy_ibv_dereg_mr_1_1,ibv_dereg_mr@@IBVERBS_1.1");
__asm__(".symver nspy_ibv_dereg_mr_1_0,ibv_dereg_mr@IBVERBS_1.0");
__asm__(".symver nspy_ibv_create_cq_1_1,ibv_create_cq@@IBVERBS_1.1");
__asm__(".symver nspy_ibv_create_cq_1_0,ibv_create_cq@IBVERBS_1.0");
__asm__(".symver nspy_ibv_create_qp_1_1,ibv_create_qp@@IBVERBS_1.1");
__asm__(".symver nspy_ibv_create_qp_1_0,ibv_create_qp@IBVERBS_1.0");
__asm__(".symver nspy_mlx5dv_reg_dmabuf_mr,mlx5dv_reg_dmabuf_mr@@MLX5_1.25");

#define ROW(symbol_name, symbol_version, object, wrapper, is_newest)                               \
	{                                                                                          \
		.name = (symbol_name), .version = (symbol_version), .library = (object),           \
		.entry = (nspy_net_fn *)(wrapper), .newest = (is_newest),                          \
	}
#define VERBS(name, version, wrapper, newest) ROW(name, version, "libibverbs", wrapper, newest)

struct nspy_net_symbol nspy_verbs_symbols[SYMBOLS] = {
	[REG_MR_1_1] = VERBS("ibv_reg_mr", "IBVERBS_1.1", nspy_ibv_reg_mr_1_1, 1),
	[REG_MR_1_0] = VERBS("ibv_reg_mr", "IBVERBS_1.0", nspy_ibv_reg_mr_1_0, 0),
	[REG_MR_IOVA_1_7] = VERBS("ibv_reg_mr_iova", "IBVERBS_1.7", nspy_ibv_reg_mr_iova_1_7, 1),
	[REG_MR_IOVA2_1_8] = VERBS("ibv_reg_mr_iova2", "IBVERBS_1.8", nspy_ibv_reg_mr_iova2_1_8, 1),
	[REG_DMABUF_MR_1_12] =
		VERBS("ibv_reg_dmabuf_mr", "IBVERBS_1.12", nspy_ibv_reg_dmabuf_mr_1_12, 1),
	[REREG_MR_1_1] = VERBS("ibv_rereg_mr", "IBVERBS_1.1", nspy_ibv_rereg_mr_1_1, 1),
	[DEREG_MR_1_1] = VERBS("ibv_dereg_mr", "IBVERBS_1.1", nspy_ibv_dereg_mr_1_1, 1),
	[DEREG_MR_1_0] = VERBS("ibv_dereg_mr", "IBVERBS_1.0", nspy_ibv_dereg_mr_1_0, 0),
	[CREATE_CQ_1_1] = VERBS("ibv_create_cq", "IBVERBS_1.1", nspy_ibv_create_cq_1_1, 1),
	[CREATE_CQ_1_0] = VERBS("ibv_create_cq", "IBVERBS_1.0", nspy_ibv_create_cq_1_0, 0),
	[CREATE_QP_1_1] = VERBS("ibv_create_qp", "IBVERBS_1.1", nspy_ibv_create_qp_1_1, 1),
	[CREATE_QP_1_0] = VERBS("ibv_create_qp", "IBVERBS_1.0", nspy_ibv_create_qp_1_0, 0),
	[MLX5_REG_DMABUF_MR] =
		ROW("mlx5dv_reg_dmabuf_mr", "MLX5_1.25", "libmlx5", nspy_mlx5dv_reg_dmabuf_mr, 1),
};
const size_t nspy_verbs_symbol_count = SYMBOLS;
