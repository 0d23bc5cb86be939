/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL has loaded below itself. NCCL's dlopen is not wrapped: what counts is which objects are
 * mapped once the first communicator has been made.
 */
#include "compat.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "facts.h"
#include "host_facts.h"
#include "rules.h"
#include "versions.h"

#define PATH_BYTES 512u
/* Parts of the text that aws-ofi-nccl logs when it starts; its version follows the last word. */
#define PLUGIN_NAME "aws-ofi-nccl "

enum kind { NET_PLUGIN, TUNER_PLUGIN, PROFILER_PLUGIN, LIBFABRIC, LIBIBVERBS, NVML, KINDS };

_Static_assert((int)NET_PLUGIN == (int)NSPY_WANTED_NET &&
		       (int)PROFILER_PLUGIN == (int)NSPY_WANTED_PROFILER,
	       "what is wanted is indexed by kind");

static const struct {
	const char *key;
	const char *file; /* begins so, or as the variable asks for */
	const char *word; /* in the name that NCCL makes of the variable's value */
} kinds[KINDS] = {
	[NET_PLUGIN] = {"net_plugin", "libnccl-net", "net"},
	[TUNER_PLUGIN] = {"tuner_plugin", "libnccl-tuner", "tuner"},
	[PROFILER_PLUGIN] = {"profiler_plugin", "libnccl-profiler", "profiler"},
	[LIBFABRIC] = {"libfabric", "libfabric.so", NULL},
	[LIBIBVERBS] = {"libibverbs", "libibverbs.so", NULL},
	[NVML] = {"nvml", "libnvidia-ml.so", NULL},
};

struct found {
	char path[PATH_BYTES];
	char build_id[NSPY_BUILD_ID_BYTES];
	char version[32];
};

static struct found found[KINDS];

static bool is_kind(const char *const *wanted, enum kind kind, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *asked = kind < (enum kind)NSPY_WANTED_COUNT ? wanted[kind] : NULL;
	char word[256];

	if (strncmp(base, kinds[kind].file, strlen(kinds[kind].file)) == 0)
		return true;
	while (asked && *asked) {
		size_t n = strcspn(asked, ",");

		(void)snprintf(word, sizeof(word), "%.*s", n < 255 ? (int)n : 255, asked);
		if (n && nspy_rules_is_plugin(word, kinds[kind].word, path))
			return true;
		asked += n + (asked[n] == ',');
	}
	return false;
}

static void copy_version(const char *at, const char *end, char *ret, size_t bytes)
{
	size_t n = 0;

	while (at < end && n + 1 < bytes &&
	       ((*at >= '0' && *at <= '9') || *at == '.' || (n && *at == '-') ||
		(n && *at >= 'a' && *at <= 'z')))
		ret[n++] = *at++;
	ret[n] = '\0';
}

/* The plugin has no function that tells its version, but it logs a text that holds it. */
static void plugin_version(const struct dl_phdr_info *info, struct found *f)
{
	for (int i = 0; i < info->dlpi_phnum && !f->version[0]; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + ph->p_vaddr);
		const char *end = at + ph->p_filesz;

		if (ph->p_type != PT_LOAD || (ph->p_flags & (PF_R | PF_W)) != PF_R)
			continue;
		while (!f->version[0] && end - at > (ptrdiff_t)sizeof(PLUGIN_NAME)) {
			at = memchr(at, PLUGIN_NAME[0],
				    (size_t)(end - at) - sizeof(PLUGIN_NAME) + 1);
			if (!at)
				break;
			if (memcmp(at, PLUGIN_NAME, sizeof(PLUGIN_NAME) - 1) == 0)
				copy_version(at + sizeof(PLUGIN_NAME) - 1, end, f->version,
					     sizeof(f->version));
			at++;
		}
	}
}

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	const char *const *wanted = context;

	(void)size;
	for (int i = 0; *path && i < KINDS; i++) {
		struct found *f = &found[i];

		if (f->path[0] || !is_kind(wanted, (enum kind)i, path))
			continue;
		(void)snprintf(f->path, sizeof(f->path), "%s", path);
		nspy_versions_build_id(info, f->build_id);
		if (i == NET_PLUGIN)
			plugin_version(info, f);
	}
	return 0;
}

/* fi_version() gives a number that was compiled in. */
static void libfabric_version(struct found *f)
{
	typedef uint32_t version_fn(void);
	void *handle = nspy_sys_dlopen(f->path, RTLD_LAZY | RTLD_NOLOAD);
	version_fn *ask = handle ? (version_fn *)nspy_sys_dlsym(handle, "fi_version") : NULL;
	uint32_t version = ask ? ask() : 0;

	if (version)
		(void)snprintf(f->version, sizeof(f->version), "%u.%u", version >> 16,
			       version & 0xffff);
	if (handle)
		nspy_sys_dlclose(handle);
	nspy_dlerror_clear();
}

static void put(const char *key, const char *what, const char *value)
{
	char name[48];

	if (!value[0])
		return;
	(void)snprintf(name, sizeof(name), "%s.%s", key, what);
	nspy_facts_add(name, value);
}

void nspy_object_facts(const char *const wanted[NSPY_WANTED_COUNT])
{
	memset(found, 0, sizeof(found));
	dl_iterate_phdr(look_at, (void *)wanted);
	if (found[LIBFABRIC].path[0])
		libfabric_version(&found[LIBFABRIC]);
	for (int i = 0; i < KINDS; i++) {
		put(kinds[i].key, "path", found[i].path);
		put(kinds[i].key, "build_id", found[i].build_id);
		put(kinds[i].key, "version", found[i].version);
	}
	nspy_facts_add("net.looked", "1");
}
