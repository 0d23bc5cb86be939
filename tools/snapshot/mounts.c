/* SPDX-License-Identifier: Apache-2.0 */
/* File systems: fill, inodes, /dev/shm. A server that does not answer costs the deadline, once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "snapshot.h"

#define FULL_SHARE 0.9
#define SHM_MIN    (1ULL << 30)
#define SHM_WISH   (4ULL << 30)
#define MOUNTS_MAX 32

struct mount {
	char path[256];
	char type[32];
};

struct fill {
	uint64_t bytes, free_bytes, inodes, free_inodes;
	bool known;
};

static bool wanted(const struct mount *mount)
{
	static const char *const types[] = {"lustre", "nfs",    "nfs4", "ceph",        "beegfs",
					    "gpfs",   "wekafs", "zfs",  "fuse.juicefs"};
	static const char *const paths[] = {
		"/",    "/dev/shm",        "/tmp",          "/var", "/scratch",
		"/fsx", "/opt/dlami/nvme", "/opt/sagemaker"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strcmp(mount->type, types[i]) == 0)
			return true;
	}
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (strcmp(mount->path, paths[i]) == 0)
			return true;
	}
	return false;
}

static size_t read_mounts(struct snap *s, struct mount *mounts)
{
	char *text = malloc(1 << 18), *line, *save = NULL;
	size_t count = 0;

	if (!text || snap_read(s, text, 1 << 18, "/proc/self/mounts") <= 0) {
		snap_missing(s, "mounts: /proc/self/mounts cannot be read");
		free(text);
		return 0;
	}
	for (line = strtok_r(text, "\n", &save); line && count < MOUNTS_MAX;
	     line = strtok_r(NULL, "\n", &save)) {
		struct mount *mount = &mounts[count];
		size_t same = 0;

		if (sscanf(line, "%*s %255s %31s", mount->path, mount->type) != 2 || !wanted(mount))
			continue;
		while (same < count && strcmp(mounts[same].path, mount->path) != 0)
			same++;
		if (same < count)
			mounts[same] = *mount; /* mounted over: the last one counts */
		else
			count++;
	}
	free(text);
	return count;
}

static void ask(int fd, const void *arg)
{
	struct statvfs vfs;
	struct fill fill = {0};

	if (statvfs(arg, &vfs) == 0)
		fill = (struct fill){(uint64_t)vfs.f_blocks * vfs.f_frsize,
				     (uint64_t)vfs.f_bavail * vfs.f_frsize, vfs.f_files,
				     vfs.f_favail, true};
	if (write(fd, &fill, sizeof(fill)) < 0)
		_exit(1);
}

/* false if nothing can be said; then that is said. */
static bool fill_of(struct snap *s, const struct mount *mount, struct fill *ret)
{
	unsigned long long numbers[4];
	char key[300];
	ssize_t got;

	if (*s->root) {
		snprintf(key, sizeof(key), "statvfs:%s", mount->path);
		if (!snap_recorded(s, key, numbers, 4)) {
			snap_missing(s, "fill of %s: not recorded", mount->path);
			return false;
		}
		*ret = (struct fill){numbers[0], numbers[1], numbers[2], numbers[3], true};
		return true;
	}
	got = snap_child(ask, mount->path, ret, sizeof(*ret), SNAP_DEADLINE_MS);
	if (got == -ETIMEDOUT)
		snap_check(s, SNAP_CONCERN, "MOUNT_UNRESPONSIVE",
			   "%s (%s) does not answer within %d s", mount->path, mount->type,
			   SNAP_DEADLINE_MS / 1000);
	else if (got != sizeof(*ret) || !ret->known)
		snap_missing(s, "fill of %s: cannot be asked", mount->path);
	return got == sizeof(*ret) && ret->known;
}

static void judge_fill(struct snap *s, const struct mount *mount, const struct fill *fill)
{
	double used = fill->bytes ? 1 - (double)fill->free_bytes / (double)fill->bytes : 0;
	double inodes = fill->inodes ? 1 - (double)fill->free_inodes / (double)fill->inodes : 0;
	char key[300];

	snprintf(key, sizeof(key), "mount.used_percent:%s", mount->path);
	snap_fact(s, SNAP_MEASURED, key, "%.0f", used * 100);
	snprintf(key, sizeof(key), "mount.type:%s", mount->path);
	snap_fact(s, SNAP_STABLE, key, "%s", mount->type);
	if (used >= FULL_SHARE)
		snap_check(s, SNAP_CONCERN, "DISK_OR_INODE_FULL", "%s (%s) is %.0f %% full",
			   mount->path, mount->type, used * 100);
	else if (inodes >= FULL_SHARE)
		snap_check(s, SNAP_CONCERN, "DISK_OR_INODE_FULL",
			   "%s (%s) has %.0f %% of its inodes in use", mount->path, mount->type,
			   inodes * 100);
	else
		snap_check(s, SNAP_OK, NULL, "%s (%s) is %.0f %% full", mount->path, mount->type,
			   used * 100);
}

static void judge_shm(struct snap *s, const struct mount *mount, const struct fill *fill)
{
	double gib = (double)fill->bytes / (double)(1ULL << 30);
	struct snap_names names;
	size_t left = 0;

	snap_fact(s, SNAP_STABLE, "shm.gib", "%.1f", gib);
	if (strcmp(mount->type, "tmpfs") != 0)
		snap_check(s, SNAP_INFO, NULL, "/dev/shm is %s, not tmpfs", mount->type);
	if (fill->bytes < SHM_MIN)
		snap_check(s, SNAP_CONCERN, "SHM_TOO_SMALL", "/dev/shm has %.2f GiB only", gib);
	else if (fill->bytes < SHM_WISH)
		snap_check(s, SNAP_INFO, NULL,
			   "/dev/shm has %.1f GiB: little for 8 GPUs and data loaders", gib);
	else
		snap_check(s, SNAP_OK, NULL, "/dev/shm has %.1f GiB", gib);
	if (snap_list(s, "/dev/shm", &names) < 0)
		return;
	for (size_t i = 0; i < names.count; i++)
		left += snap_starts(names.name[i], "nccl-");
	if (left)
		snap_check(s, SNAP_INFO, NULL,
			   "%zu segments of NCCL in /dev/shm: of running jobs, or left over", left);
	snap_names_done(&names);
}

void snap_mounts(struct snap *s)
{
	struct mount mounts[MOUNTS_MAX];
	size_t count = read_mounts(s, mounts);

	for (size_t i = 0; i < count; i++) {
		struct fill fill = {0};

		if (!fill_of(s, &mounts[i], &fill))
			continue;
		if (strcmp(mounts[i].path, "/dev/shm") == 0)
			judge_shm(s, &mounts[i], &fill);
		judge_fill(s, &mounts[i], &fill);
	}
}
