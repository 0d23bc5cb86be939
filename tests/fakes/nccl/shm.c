/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in /dev/shm that a communicator's proxies share: named nccl-XXXXXX, unlinked as soon as
 * it is mapped, mapped for as long as the communicator lives. Nothing is exchanged through it here;
 * a look at the process's mappings shows it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define SHM_BYTES 4096

void fake_shm_open(struct ncclComm *comm)
{
	char path[] = "/dev/shm/nccl-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		return;
	if (ftruncate(fd, SHM_BYTES) == 0)
		comm->shm = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (comm->shm == MAP_FAILED)
		comm->shm = NULL;
	(void)unlink(path);
	(void)close(fd);
}

void fake_shm_close(struct ncclComm *comm)
{
	if (comm->shm)
		(void)munmap(comm->shm, SHM_BYTES);
	comm->shm = NULL;
}
