/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "unseen.h"

#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "copies.h"
#include "core.h"
#include "facts.h"
#include "identity.h"
#include "say.h"

#define RUN_NS     60000000000u /* shorter runs may have ended before they came to use NCCL */
#define PATH_BYTES 512u

static _Atomic(const void *) network_setup;
static pid_t load_pid;

/* What /proc/self/maps shows. */
struct mapped {
	bool nccl_memory;
	bool gpu;
};

struct suspects {
	bool cuda;              /* without it there is no NCCL at work */
	char torch[PATH_BYTES]; /* library that often has a hidden NCCL in it */
};

void nspy_unseen_load(void)
{
	load_pid = getpid();
}

void nspy_unseen_evidence(const void *address)
{
	const void *none = NULL;

	(void)atomic_compare_exchange_strong(&network_setup, &none, address);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	struct suspects *suspects = data;
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	const char *name = slash ? slash + 1 : "";

	(void)size;
	if (strncmp(name, "libcuda", 7) == 0)
		suspects->cuda = true; /* also libcudart */
	if (strncmp(name, "libtorch_cuda", 13) == 0 && strlen(info->dlpi_name) < PATH_BYTES)
		(void)snprintf(suspects->torch, sizeof(suspects->torch), "%s", info->dlpi_name);
	return 0;
}

static void look_at_line(const char *line, struct mapped *ret)
{
	const char *device = strstr(line, " /dev/nvidia");

	if (strstr(line, " /dev/shm/nccl-"))
		ret->nccl_memory = true;
	if (device && device[12] >= '0' && device[12] <= '9')
		ret->gpu = true;
}

static void read_maps(struct mapped *ret)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char text[4096];
	size_t used = 0;
	ssize_t got;

	memset(ret, 0, sizeof(*ret));
	while (fd >= 0 && (got = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
		char *line = text, *end;

		used += (size_t)got;
		text[used] = '\0';
		while ((end = strchr(line, '\n'))) {
			*end = '\0';
			look_at_line(line, ret);
			line = end + 1;
		}
		used -= (size_t)(line - text);
		memmove(text, line, used);
		if (used == sizeof(text) - 1)
			used = 0; /* an absurd path */
	}
	if (fd >= 0)
		close(fd);
}

static bool is_long_running_rank(void)
{
	static struct nspy_identity id;

	nspy_identity_find(&id);
	return id.world_size > 1 && nspy_monotonic_ns() - nspy_clock_load_ns() >= RUN_NS;
}

/* Whether NCCL was at work here; *ret_path: the object it is in, as far as can be told. */
static bool was_used(char *ret_path, size_t bytes)
{
	const void *setup = atomic_load_explicit(&network_setup, memory_order_relaxed);
	struct suspects suspects = {0};
	struct link_map *map = NULL;
	struct mapped mapped;
	Dl_info info;

	dl_iterate_phdr(look_at, &suspects);
	if (!suspects.cuda && !setup)
		return false;
	nspy_copies_scan();
	read_maps(&mapped);
	if (nspy_copies(NSPY_LIB_NCCL))
		(void)snprintf(ret_path, bytes, "%s", nspy_copy_map(NSPY_LIB_NCCL, 0)->l_name);
	else if (setup && nspy_sys_dladdr1(setup, &info, (void **)&map, RTLD_DL_LINKMAP))
		(void)snprintf(ret_path, bytes, "%s", info.dli_fname ? info.dli_fname : "");
	else
		(void)snprintf(ret_path, bytes, "%s", suspects.torch);
	return setup || mapped.nccl_memory || (ret_path[0] && mapped.gpu && is_long_running_rank());
}

void nspy_unseen_check(void)
{
	char path[PATH_BYTES] = "";

	if (atomic_load_explicit(&nspy_core.phase, memory_order_acquire) != NSPY_PHASE_IDLE ||
	    getpid() != load_pid || !nspy_compat_complete() || !was_used(path, sizeof(path)))
		return;
	nspy_core.unseen = true;
	if (!nspy_start())
		return;
	nspy_facts_add("nccl.unseen", path[0] ? path : "?");
	/* Every rank has the fact; one speaks for them. */
	if (nspy_core.id.rank <= 0)
		nspy_say(NSPY_SAY_WARN,
			 "an NCCL object is mapped (%.200s), but no call of it reached ncclspy: it "
			 "was loaded with RTLD_DEEPBIND, or linked with hidden symbols",
			 path[0] ? path : "with hidden symbols");
}
