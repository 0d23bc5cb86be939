/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libfabric's exported functions. Each is there once for every version of the symbol, because
 * structures differ between versions: a caller's version goes to the same version of the real one.
 * The versions are declared in exports.map.
 */
#include "compat.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "events.h"
#include "export.h"
#include "fabric_abi.h"
#include "facts.h"
#include "find.h"
#include "objects.h"
#include "session.h"

typedef int getinfo_fn(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct nspy_fi_info *hints, struct nspy_fi_info **info);
typedef void freeinfo_fn(struct nspy_fi_info *info);
typedef struct nspy_fi_info *dupinfo_fn(const struct nspy_fi_info *info);
typedef int fabric_fn(struct nspy_fi_fabric_attr *attr, struct nspy_fi_fabric **fabric,
		      void *context);
typedef int fabric2_fn(struct nspy_fi_info *info, struct nspy_fi_fabric **fabric, uint64_t flags,
		       void *context);

enum symbol {
#define NSPY_SYMBOL(name, version) SYMBOL_##name##_##version,
#include "fabric.def"
#undef NSPY_SYMBOL
};

/* Names of providers in a list of results, each once: "efa,tcp". */
static void add_providers(char *ret, size_t room, const struct nspy_fi_info *info)
{
	const char *last = "";
	size_t n = 0;

	for (; info; info = info->next) {
		const char *name = info->fabric_attr ? info->fabric_attr->prov_name : NULL;
		int more;

		if (!name || strcmp(name, last) == 0 || strstr(ret, name))
			continue;
		more = snprintf(ret + n, room - n, "%s%s", n ? "," : "", name);
		if (more < 0 || n + (size_t)more >= room)
			break;
		n += (size_t)more;
		last = name;
	}
}

/*
 * Whether EFA was offered with access to GPU memory: plugins ask for that first, and if it is
 * refused again without.
 */
static void note_gpu_memory(const struct nspy_fi_info *hints, const char *providers)
{
	static _Atomic uint32_t refused;
	bool asked = hints && (hints->caps & NSPY_FI_HMEM);
	bool offered = strstr(providers, "efa") != NULL;

	if (asked)
		atomic_store_explicit(&refused, !offered, memory_order_relaxed);
	if (offered && asked)
		nspy_facts_add("efa.gpu_memory", "1");
	else if (offered && atomic_load_explicit(&refused, memory_order_relaxed))
		nspy_facts_add("efa.gpu_memory", "0");
}

static void note_getinfo(unsigned int minor, const struct nspy_fi_info *hints, int rc,
			 const struct nspy_fi_info *info)
{
	const char *asked = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	struct nspy_fabric_event *event;
	int saved = errno;

	if (!nspy_session_on())
		return;
	nspy_fabric_caller_abi(minor);
	event = nspy_fabric_event_new(NSPY_NET_GETINFO);
	if (!event)
		return;
	event->error = rc < 0 ? -rc : rc;
	event->values[0] = minor;
	event->value_count = 1;
	(void)snprintf(event->text, sizeof(event->text), "%s", asked ? asked : "");
	if (rc == 0)
		add_providers(event->more, sizeof(event->more), info);
	note_gpu_memory(hints, event->more);
	nspy_fabric_event_ready(event);
	errno = saved;
}

static int getinfo(struct nspy_net_symbol *symbol, unsigned int minor, uint32_t version,
		   const char *node, const char *service, uint64_t flags,
		   const struct nspy_fi_info *hints, struct nspy_fi_info **info)
{
	getinfo_fn *real = (getinfo_fn *)nspy_net_real(symbol);
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	if (!nspy_outermost() || nspy_session_off())
		return real(version, node, service, flags, hints, info);
	nspy_fabric_depth++;
	rc = real(version, node, service, flags, hints, info);
	nspy_fabric_depth--;
	/* Which layout a look-up without version meant is not known: the oldest is safe. */
	note_getinfo(symbol->substitute ? 0 : minor, hints, rc, rc == 0 && info ? *info : NULL);
	return rc;
}

static int fabric(struct nspy_net_symbol *symbol, struct nspy_fi_fabric_attr *attr,
		  struct nspy_fi_fabric **ret, void *context)
{
	fabric_fn *real = (fabric_fn *)nspy_net_real(symbol);
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	if (!nspy_outermost() || nspy_session_off())
		return real(attr, ret, context);
	nspy_fabric_depth++;
	rc = real(attr, ret, context);
	nspy_fabric_depth--;
	if (rc == 0 && nspy_session_on())
		nspy_fabric_opened(*ret, attr->prov_name, attr->name);
	return rc;
}

static int fabric2(struct nspy_net_symbol *symbol, struct nspy_fi_info *info,
		   struct nspy_fi_fabric **ret, uint64_t flags, void *context)
{
	fabric2_fn *real = (fabric2_fn *)nspy_net_real(symbol);
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	if (!nspy_outermost() || nspy_session_off())
		return real(info, ret, flags, context);
	nspy_fabric_depth++;
	rc = real(info, ret, flags, context);
	nspy_fabric_depth--;
	if (rc == 0 && info->fabric_attr && nspy_session_on())
		nspy_fabric_opened(*ret, info->fabric_attr->prov_name, info->fabric_attr->name);
	return rc;
}

static void freeinfo(struct nspy_net_symbol *symbol, struct nspy_fi_info *info)
{
	freeinfo_fn *real = (freeinfo_fn *)nspy_net_real(symbol);

	if (real)
		real(info);
}

static struct nspy_fi_info *dupinfo(struct nspy_net_symbol *symbol, const struct nspy_fi_info *info)
{
	dupinfo_fn *real = (dupinfo_fn *)nspy_net_real(symbol);

	return real ? real(info) : NULL;
}

/* --- one function for each version of each symbol --- */

#define SYMBOL(name, version) &nspy_fabric_symbols[SYMBOL_##name##_##version]

#define DEFINE_fi_getinfo(minor)                                                                   \
	NSPY_EXPORT int nspy_fi_getinfo_##minor(                                                   \
		uint32_t version, const char *node, const char *service, uint64_t flags,           \
		const struct nspy_fi_info *hints, struct nspy_fi_info **info);                     \
	NSPY_EXPORT int nspy_fi_getinfo_##minor(                                                   \
		uint32_t version, const char *node, const char *service, uint64_t flags,           \
		const struct nspy_fi_info *hints, struct nspy_fi_info **info)                      \
	{                                                                                          \
		return getinfo(SYMBOL(fi_getinfo, minor), minor, version, node, service, flags,    \
			       hints, info);                                                       \
	}
#define DEFINE_fi_freeinfo(minor)                                                                  \
	NSPY_EXPORT void nspy_fi_freeinfo_##minor(struct nspy_fi_info *info);                      \
	NSPY_EXPORT void nspy_fi_freeinfo_##minor(struct nspy_fi_info *info)                       \
	{                                                                                          \
		freeinfo(SYMBOL(fi_freeinfo, minor), info);                                        \
	}
#define DEFINE_fi_dupinfo(minor)                                                                   \
	NSPY_EXPORT struct nspy_fi_info *nspy_fi_dupinfo_##minor(const struct nspy_fi_info *info); \
	NSPY_EXPORT struct nspy_fi_info *nspy_fi_dupinfo_##minor(const struct nspy_fi_info *info)  \
	{                                                                                          \
		return dupinfo(SYMBOL(fi_dupinfo, minor), info);                                   \
	}
#define DEFINE_fi_fabric(minor)                                                                    \
	NSPY_EXPORT int nspy_fi_fabric_##minor(struct nspy_fi_fabric_attr *attr,                   \
					       struct nspy_fi_fabric **ret, void *context);        \
	NSPY_EXPORT int nspy_fi_fabric_##minor(struct nspy_fi_fabric_attr *attr,                   \
					       struct nspy_fi_fabric **ret, void *context)         \
	{                                                                                          \
		return fabric(SYMBOL(fi_fabric, minor), attr, ret, context);                       \
	}
#define DEFINE_fi_fabric2(minor)                                                                   \
	NSPY_EXPORT int nspy_fi_fabric2_##minor(struct nspy_fi_info *info,                         \
						struct nspy_fi_fabric **ret, uint64_t flags,       \
						void *context);                                    \
	NSPY_EXPORT int nspy_fi_fabric2_##minor(struct nspy_fi_info *info,                         \
						struct nspy_fi_fabric **ret, uint64_t flags,       \
						void *context)                                     \
	{                                                                                          \
		return fabric2(SYMBOL(fi_fabric2, minor), info, ret, flags, context);              \
	}

#define NSPY_SYMBOL(name, version)                                                                 \
	DEFINE_##name(version) __asm__(".symver nspy_" #name "_" #version "," #name                \
				       "@FABRIC_1." #version);
#define NSPY_SYMBOL_NEWEST(name, version)                                                          \
	DEFINE_##name(version) __asm__(".symver nspy_" #name "_" #version "," #name                \
				       "@@FABRIC_1." #version);
#include "fabric.def"
#undef NSPY_SYMBOL
#undef NSPY_SYMBOL_NEWEST

#define ROW(symbol, minor, is_newest)                                                              \
	{                                                                                          \
		.name = #symbol,                                                                   \
		.version = "FABRIC_1." #minor,                                                     \
		.library = "libfabric",                                                            \
		.entry = (nspy_net_fn *)nspy_##symbol##_##minor,                                   \
		.newest = (is_newest),                                                             \
	},
struct nspy_net_symbol nspy_fabric_symbols[] = {
#define NSPY_SYMBOL(symbol, minor)        ROW(symbol, minor, 0)
#define NSPY_SYMBOL_NEWEST(symbol, minor) ROW(symbol, minor, 1)
#include "fabric.def"
#undef NSPY_SYMBOL
};
const size_t nspy_fabric_symbol_count =
	sizeof(nspy_fabric_symbols) / sizeof(nspy_fabric_symbols[0]);
