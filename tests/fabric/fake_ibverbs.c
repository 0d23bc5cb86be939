/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs_fake.h"

void *reg_mr_1_1(void *pd, void *addr, size_t length, int access);
void *reg_mr_1_0(void *pd, void *addr, size_t length, int access);
void *reg_mr_iova_1_7(void *pd, void *addr, size_t length, uint64_t iova, unsigned int access);
void *reg_mr_iova2_1_8(void *pd, void *addr, size_t length, uint64_t iova, unsigned int access);
void *reg_dmabuf_mr_1_12(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			 int access);
int rereg_mr_1_1(struct fake_mr *mr, int flags, void *pd, void *addr, size_t length, int access);
int dereg_mr_1_1(struct fake_mr *mr);
int dereg_mr_1_0(struct fake_mr *mr);
void *create_cq_1_1(void *context, int entries, void *cq_context, void *channel, int vector);
void *create_cq_1_0(void *context, int entries, void *cq_context, void *channel, int vector);
void *create_qp_1_1(void *pd, void *attr);
void *create_qp_1_0(void *pd, void *attr);

void *reg_mr_1_1(void *pd, void *addr, size_t length, int access)
{
	printf("  ibv_reg_mr@1.1 %p %p %zu %d\n", pd, addr, length, access);
	return fake_mr(pd, addr, length);
}

void *reg_mr_1_0(void *pd, void *addr, size_t length, int access)
{
	printf("  ibv_reg_mr@1.0 %p %p %zu %d\n", pd, addr, length, access);
	return fake_mr(pd, addr, length);
}

void *reg_mr_iova_1_7(void *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	printf("  ibv_reg_mr_iova@1.7 %p %p %zu %llu %u\n", pd, addr, length,
	       (unsigned long long)iova, access);
	return fake_mr(pd, addr, length);
}

void *reg_mr_iova2_1_8(void *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	printf("  ibv_reg_mr_iova2@1.8 %p %p %zu %llu %u\n", pd, addr, length,
	       (unsigned long long)iova, access);
	return fake_mr(pd, addr, length);
}

void *reg_dmabuf_mr_1_12(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			 int access)
{
	printf("  ibv_reg_dmabuf_mr@1.12 %p %llu %zu %llu %d %d\n", pd, (unsigned long long)offset,
	       length, (unsigned long long)iova, fd, access);
	return fake_mr(pd, (void *)(uintptr_t)iova, length);
}

int rereg_mr_1_1(struct fake_mr *mr, int flags, void *pd, void *addr, size_t length, int access)
{
	printf("  ibv_rereg_mr@1.1 %zu %d %p %p %zu %d\n", mr->length, flags, pd, addr, length,
	       access);
	return fake_refuses(length) ? -5 : 0; /* IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW */
}

int dereg_mr_1_1(struct fake_mr *mr)
{
	printf("  ibv_dereg_mr@1.1 %zu\n", mr->length);
	free(mr);
	errno = 4711;
	return 0;
}

int dereg_mr_1_0(struct fake_mr *mr)
{
	printf("  ibv_dereg_mr@1.0 %zu\n", mr->length);
	free(mr);
	errno = 4711;
	return 0;
}

static void *fake_queue(size_t entries)
{
	static char queue;

	return fake_refuses(entries) ? NULL : &queue;
}

void *create_cq_1_1(void *context, int entries, void *cq_context, void *channel, int vector)
{
	printf("  ibv_create_cq@1.1 %p %d %p %p %d\n", context, entries, cq_context, channel,
	       vector);
	return fake_queue((size_t)entries);
}

void *create_cq_1_0(void *context, int entries, void *cq_context, void *channel, int vector)
{
	printf("  ibv_create_cq@1.0 %p %d %p %p %d\n", context, entries, cq_context, channel,
	       vector);
	return fake_queue((size_t)entries);
}

void *create_qp_1_1(void *pd, void *attr)
{
	printf("  ibv_create_qp@1.1 %p %p\n", pd, attr);
	return fake_queue((uintptr_t)attr);
}

void *create_qp_1_0(void *pd, void *attr)
{
	printf("  ibv_create_qp@1.0 %p %p\n", pd, attr);
	return fake_queue((uintptr_t)attr);
}

__asm__(".symver reg_mr_1_1,ibv_reg_mr@@IBVERBS_1.1");
__asm__(".symver reg_mr_1_0,ibv_reg_mr@IBVERBS_1.0");
__asm__(".symver reg_mr_iova_1_7,ibv_reg_mr_iova@@IBVERBS_1.7");
__asm__(".symver reg_mr_iova2_1_8,ibv_reg_mr_iova2@@IBVERBS_1.8");
__asm__(".symver reg_dmabuf_mr_1_12,ibv_reg_dmabuf_mr@@IBVERBS_1.12");
__asm__(".symver rereg_mr_1_1,ibv_rereg_mr@@IBVERBS_1.1");
__asm__(".symver dereg_mr_1_1,ibv_dereg_mr@@IBVERBS_1.1");
__asm__(".symver dereg_mr_1_0,ibv_dereg_mr@IBVERBS_1.0");
__asm__(".symver create_cq_1_1,ibv_create_cq@@IBVERBS_1.1");
__asm__(".symver create_cq_1_0,ibv_create_cq@IBVERBS_1.0");
__asm__(".symver create_qp_1_1,ibv_create_qp@@IBVERBS_1.1");
__asm__(".symver create_qp_1_0,ibv_create_qp@IBVERBS_1.0");
