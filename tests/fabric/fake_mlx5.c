/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs_fake.h"

void *mlx5dv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			   int access, int mlx5_access);

void *mlx5dv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			   int access, int mlx5_access)
{
	printf("  mlx5dv_reg_dmabuf_mr %p %llu %zu %llu %d %d %d\n", pd, (unsigned long long)offset,
	       length, (unsigned long long)iova, fd, access, mlx5_access);
	return fake_mr(pd, (void *)(uintptr_t)iova, length);
}
