/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "live.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core.h"

#define SHM_DIR    "/dev/shm"
#define SHM_SHARE  32u /* at most this part of the free space: a pod's default is 64 MiB in all */
#define PAGES_MIN  16u /* with fewer, private memory serves better */
#define ALIGN      64u
#define SLOT_BYTES (NSPY_LIVE_SLOTS * sizeof(struct nspy_slot))
#define FIXED_BYTES                                                                                \
	(NSPY_LIVE_HEAD_BYTES + NSPY_LIVE_IDENT_BYTES + NSPY_LIVE_SCHEMA_BYTES + SLOT_BYTES)

_Static_assert(sizeof(struct nspy_live_head) <= NSPY_LIVE_HEAD_BYTES, "head fits its place");
_Static_assert(FIXED_BYTES % ALIGN == 0, "pages are aligned");

/* What /dev/shm grants us, or 0. */
static size_t shm_budget(void)
{
	struct rlimit file_size;
	struct statfs fs;
	uint64_t share;

	/* Only tmpfs: a shared mapping on a disk or network file system stalls in writeback. */
	if (statfs(SHM_DIR, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return 0;
	share = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / SHM_SHARE;
	if (share > NSPY_LIVE_BYTES)
		share = NSPY_LIVE_BYTES;
	/* Reserving more than the limit would raise SIGXFSZ in the application's thread. */
	if (getrlimit(RLIMIT_FSIZE, &file_size) < 0 || file_size.rlim_cur < share)
		return 0;
	return share < FIXED_BYTES + PAGES_MIN * NSPY_PAGE_BYTES ? 0 : (size_t)share;
}

void *nspy_live_map_file(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	void *p = MAP_FAILED;

	if (fd < 0)
		return NULL;
	/* Reserved for good: a page that cannot be had shows here, not as SIGBUS in the job. */
	/* Not through our own fallocate, which would note our failure as the job's. */
	if (syscall(SYS_fallocate, fd, 0, (off_t)0, (off_t)bytes) == 0)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	if (p == MAP_FAILED) {
		unlink(path);
		return NULL;
	}
	/* A forked child must not write into its parent's pages. */
	(void)madvise(p, bytes, MADV_DONTFORK);
	return p;
}

void *nspy_live_map_private(size_t bytes, int flags)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
		       0);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, bytes, MADV_DONTFORK);
	return p;
}

static size_t fit_pages(size_t bytes)
{
	return FIXED_BYTES + (bytes - FIXED_BYTES) / NSPY_PAGE_BYTES * NSPY_PAGE_BYTES;
}

static void lay_out(struct nspy_live_head *head, size_t bytes)
{
	head->version = NSPY_LIVE_VERSION;
	head->head_bytes = NSPY_LIVE_HEAD_BYTES;
	head->file_bytes = bytes;
	head->run_id = nspy_core.id.run_id;
	head->pid = nspy_core.id.pid;
	head->ident_offset = NSPY_LIVE_HEAD_BYTES;
	head->schema_offset = head->ident_offset + NSPY_LIVE_IDENT_BYTES;
	head->slot_offset = head->schema_offset + NSPY_LIVE_SCHEMA_BYTES;
	head->slot_count = NSPY_LIVE_SLOTS;
	head->page_offset = head->slot_offset + (uint32_t)SLOT_BYTES;
	head->page_count = (uint32_t)((bytes - head->page_offset) / NSPY_PAGE_BYTES);
	head->state = NSPY_LIVE_RUNNING;
	/* The magic number last: until then a reader sees no live file. */
	__atomic_store_n(&head->magic, NSPY_LIVE_MAGIC, __ATOMIC_RELEASE);
}

bool nspy_live_create(bool want_file)
{
	size_t budget = want_file ? shm_budget() : 0;
	size_t bytes = budget ? fit_pages(budget) : 0;
	size_t extra_slot_bytes = NSPY_EXTRA_SLOTS * sizeof(struct nspy_slot);
	uint8_t *area = NULL, *extra;

	if (bytes > FIXED_BYTES)
		area = nspy_live_map_file(nspy_core.id.live_path, bytes);
	nspy_core.live_on_tmpfs = area != NULL;
	if (!area) {
		nspy_core.id.live_path[0] = '\0';
		bytes = fit_pages(NSPY_LIVE_BYTES);
		area = nspy_live_map_private(bytes, MAP_POPULATE);
	}
	extra = nspy_live_map_private(
		extra_slot_bytes + NSPY_EXTRA_PAGES * sizeof(struct nspy_page), MAP_NORESERVE);
	if (!area || !extra)
		return false;
	lay_out((struct nspy_live_head *)area, bytes);
	nspy_core.live_bytes = bytes;
	nspy_core.head = (struct nspy_live_head *)area;
	nspy_core.slots = (struct nspy_slot *)(area + nspy_core.head->slot_offset);
	nspy_core.pages = (struct nspy_page *)(area + nspy_core.head->page_offset);
	nspy_core.extra_slots = (struct nspy_slot *)extra;
	nspy_core.extra_pages = (struct nspy_page *)(extra + extra_slot_bytes);
	return true;
}

void nspy_live_publish_ident(const uint8_t *ident, size_t bytes)
{
	uint8_t *area = (uint8_t *)nspy_core.head;

	if (bytes > NSPY_LIVE_IDENT_BYTES)
		return;
	memcpy(area + nspy_core.head->ident_offset, ident, bytes);
	atomic_store_explicit(&nspy_core.head->ident_bytes, (uint32_t)bytes, memory_order_release);
}

void nspy_live_publish_schema(const char *schema, size_t bytes)
{
	uint8_t *area = (uint8_t *)nspy_core.head;

	if (bytes > NSPY_LIVE_SCHEMA_BYTES)
		return;
	memcpy(area + nspy_core.head->schema_offset, schema, bytes);
	atomic_store_explicit(&nspy_core.head->schema_bytes, (uint32_t)bytes, memory_order_release);
}

void nspy_live_remove(void)
{
	if (nspy_core.id.live_path[0])
		unlink(nspy_core.id.live_path);
}
