/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses every function of libibverbs and libmlx5 that ncclspy wraps, linked and in each old version,
 * and prints result and errno. Calls NCCL first, so that the process records. The output must be
 * the same with and without the library.
 *
 * usage: verbs_ops BYTES...   registers each size and gives it back, unless it is refused
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs_fake.h"

int ncclGetVersion(int *version);
struct fake_mr *ibv_reg_mr(void *pd, void *addr, size_t length, int access);
struct fake_mr *old_reg_mr(void *pd, void *addr, size_t length, int access);
struct fake_mr *ibv_reg_mr_iova(void *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);
struct fake_mr *ibv_reg_mr_iova2(void *pd, void *addr, size_t length, uint64_t iova,
				 unsigned int access);
struct fake_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
				  int access);
struct fake_mr *mlx5dv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova,
				     int fd, int access, int mlx5_access);
int ibv_rereg_mr(struct fake_mr *mr, int flags, void *pd, void *addr, size_t length, int access);
int ibv_dereg_mr(struct fake_mr *mr);
int old_dereg_mr(struct fake_mr *mr);
void *ibv_create_cq(void *context, int entries, void *cq_context, void *channel, int vector);
void *old_create_cq(void *context, int entries, void *cq_context, void *channel, int vector);
void *ibv_create_qp(void *pd, void *attr);
void *old_create_qp(void *pd, void *attr);
__asm__(".symver old_reg_mr,ibv_reg_mr@IBVERBS_1.0");
__asm__(".symver old_dereg_mr,ibv_dereg_mr@IBVERBS_1.0");
__asm__(".symver old_create_cq,ibv_create_cq@IBVERBS_1.0");
__asm__(".symver old_create_qp,ibv_create_qp@IBVERBS_1.0");

static void *const pd = (void *)0x1000, *const address = (void *)0x2000;

static void given(struct fake_mr *mr, int (*give_back)(struct fake_mr *mr))
{
	printf("%s, errno %d\n", mr ? "registered" : "refused", errno);
	if (mr)
		printf("given back: %d, errno %d\n", give_back(mr), errno);
}

static void made(const void *queue)
{
	printf("queue %s, errno %d\n", queue ? "made" : "refused", errno);
}

static void one_size(size_t bytes)
{
	struct fake_mr *mr;

	given(ibv_reg_mr(pd, address, bytes, 7), ibv_dereg_mr);
	given(old_reg_mr(pd, address, bytes, 7), old_dereg_mr);
	given(ibv_reg_mr_iova(pd, address, bytes, 9, 7), ibv_dereg_mr);
	given(ibv_reg_mr_iova2(pd, address, bytes, 9, 7u), ibv_dereg_mr);
	given(ibv_reg_dmabuf_mr(pd, 1, bytes, 9, 3, 7), ibv_dereg_mr);
	given(mlx5dv_reg_dmabuf_mr(pd, 1, bytes, 9, 3, 7, 8), ibv_dereg_mr);
	mr = ibv_reg_mr(pd, address, 1, 7);
	printf("again: %d", ibv_rereg_mr(mr, 3, pd, address, bytes, 7));
	printf(", errno %d\n", errno);
	given(mr, ibv_dereg_mr);
	made(ibv_create_cq(pd, (int)bytes, address, NULL, 1));
	made(old_create_cq(pd, (int)bytes, address, NULL, 1));
	made(ibv_create_qp(pd, (void *)bytes));
	made(old_create_qp(pd, (void *)bytes));
}

int main(int argc, char **argv)
{
	int version;

	(void)ncclGetVersion(&version);
	for (int i = 1; i < argc; i++)
		one_size(strtoull(argv[i], NULL, 10));
	fflush(stdout);
	return 0;
}
