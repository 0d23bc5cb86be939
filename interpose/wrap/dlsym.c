/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "dlsym.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "chain.h"
#include "copies.h"
#include "cuda_driver.h"
#include "find.h"
#include "net_plugin.h"
#include "profiler_abi.h"
#include "resolve.h"
#include "symbols.h"
#include "unseen.h"

/*
 * NCCL takes its verbs functions by version, and asks net plugins for tables of these names. Nobody
 * else does either.
 */
static void note_network_setup(const char *name, const char *version, const void *caller)
{
	if ((version && strcmp(name, "ibv_get_device_list") == 0) ||
	    strncmp(name, "ncclNet", 7) == 0 || strncmp(name, "ncclCollNet", 11) == 0)
		nspy_unseen_evidence(caller);
}

/*
 * Fails like a look-up of something that is nowhere: looks in the C library, which has none of our
 * names. The reason it leaves in dlerror is the loader's own, for an object that is always there.
 */
static void *none(const char *name)
{
	static _Atomic(void *) libc;
	void *handle = atomic_load_explicit(&libc, memory_order_relaxed);

	if (!handle && nspy_elf_libc()) {
		handle = nspy_sys_dlopen(nspy_elf_libc()->l_name, RTLD_LAZY | RTLD_NOLOAD);
		atomic_store_explicit(&libc, handle, memory_order_relaxed);
	}
	if (handle)
		(void)nspy_sys_dlsym(handle, name);
	return (void *)NSPY_DLSYM_NONE;
}

/*
 * With NCCL_PROFILER_PLUGIN=STATIC_PLUGIN everything loaded is searched: for versions that the
 * user's own plugin does not have, ours must not be found, or NCCL would take it instead.
 */
static bool has_other_profiler(void *handle)
{
	for (unsigned int v = NSPY_PROFILER_OLDEST; v <= NSPY_PROFILER_NEWEST; v++) {
		char name[] = "ncclProfiler_v?";
		void *table;

		name[sizeof(name) - 2] = (char)('0' + v);
		table = nspy_next_dlsym(handle, name);
		if (table && !nspy_elf_is_ours(table))
			return true;
		/* Behind ours in the order of loading. */
		if (table && nspy_sys_dlsym(RTLD_NEXT, name))
			return true;
	}
	return false;
}

static void *answer_profiler(void *handle, const char *name, unsigned int version, void *table)
{
	void *behind;

	if (!nspy_elf_is_ours(table)) {
		void *ours = nspy_profiler_table(version, table);

		return ours ? ours : NSPY_DLSYM_PASS;
	}
	if (!has_other_profiler(handle)) {
		nspy_dlerror_clear();
		return table;
	}
	/* A preloaded plugin that comes after us. */
	behind = nspy_sys_dlsym(RTLD_NEXT, name);
	if (!behind)
		return none(name);
	nspy_dlerror_clear();
	table = nspy_profiler_table(version, behind);
	return table ? table : behind;
}

/* A table of a network plugin, or a function of the CUDA driver: found as the caller finds it. */
static void *answer_other(void *handle, const char *name, const char *version)
{
	unsigned int profiler = nspy_profiler_version(name);
	void *table, *copy;

	if (version || handle == RTLD_DEFAULT || handle == RTLD_NEXT)
		return NSPY_DLSYM_PASS;
	table = nspy_next_dlsym(handle, name);
	if (!table)
		return NSPY_DLSYM_PASS;
	if (profiler)
		return answer_profiler(handle, name, profiler, table);
	copy = name[0] == 'c' ? nspy_cuda_driver_entry(name, table)
			      : nspy_net_plugin_table(name, table);
	return copy ? copy : NSPY_DLSYM_PASS;
}

static bool is_program(const struct link_map *map)
{
	return map && !map->l_prev && !map->l_name[0];
}

/* Whether a look-up sees what is loaded for everybody and nothing else. */
static bool sees_global_only(void *handle, const void *caller)
{
	struct link_map *map = handle;
	Dl_info info;

	if (handle == RTLD_DEFAULT &&
	    !nspy_sys_dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP))
		return false;
	return is_program(map);
}

/*
 * The look-up found our own wrapper: it searched everything, and we export every function there
 * ever was. The answer is what it would have been without us: yes only if a library has it that the
 * caller can see. Where that cannot be told for certain, a library that is loaded will do.
 */
static void *answer_ours(unsigned int fn, void *found, void *handle, const char *name,
			 const void *caller)
{
	const unsigned int library = nspy_fn_table[fn].library;
	unsigned int copy;

	if (nspy_next_interposer(fn))
		return found;
	if (sees_global_only(handle, caller))
		copy = nspy_copy_of_handle(library, RTLD_NEXT);
	else
		copy = nspy_route_copy(library, caller);
	if (copy == NSPY_NO_COPY || !nspy_copy_find(copy, fn))
		return none(name);
	nspy_dlerror_clear();
	return nspy_copies(library) > 1 ? (void *)nspy_entry(copy, fn) : found;
}

/* The look-up found a function in some object: its entry, if the object is a copy of the library.
 */
static void *answer_theirs(unsigned int fn, void *found)
{
	unsigned int copy = nspy_copy_of_function(fn, found);

	nspy_dlerror_clear();
	/* Not if it is another version of the symbol than the one that the entry would call. */
	if (copy == NSPY_NO_COPY || (void *)nspy_copy_find(copy, fn) != found)
		return NSPY_DLSYM_PASS;
	return (void *)nspy_entry(copy, fn);
}

/* Whether the caller would find that function of a library below NCCL without us. */
static bool is_net_seen(void *handle, const char *name, const char *version, const void *caller)
{
	if (!sees_global_only(handle, caller))
		return nspy_net_has(name, version);
	return version ? nspy_sys_dlvsym(RTLD_NEXT, name, version)
		       : nspy_sys_dlsym(RTLD_NEXT, name);
}

/* Of a library below NCCL: the wrapper for that very version. */
static void *answer_net(void *found, void *handle, const char *name, const char *version,
			const void *caller)
{
	void *entry;

	if (nspy_elf_is_ours(found)) {
		if (!is_net_seen(handle, name, version, caller))
			return none(name);
		nspy_dlerror_clear();
		return found;
	}
	entry = nspy_net_entry(name, version, found);
	nspy_dlerror_clear();
	return entry ? entry : NSPY_DLSYM_PASS;
}

void *nspy_dlsym_answer(void *handle, const char *name, const char *version, const void *caller)
{
	int fn = nspy_fn_find(name), saved = errno;
	bool is_net = name[0] == 'f' || name[0] == 'i' || name[0] == 'm';
	void *found, *answer;

	if (fn < 0)
		note_network_setup(name, version, caller);
	if (!nspy_sys_dladdr1 || !nspy_next_dlsym || !nspy_next_dlvsym)
		return NSPY_DLSYM_PASS;
	if (fn < 0 && !is_net) {
		answer = answer_other(handle, name, version);
		errno = saved;
		return answer;
	}
	found = version ? nspy_next_dlvsym(handle, name, version) : nspy_next_dlsym(handle, name);
	/* The real function fails again, in the caller's own name. */
	if (!found)
		answer = NSPY_DLSYM_PASS;
	else if (is_net)
		answer = answer_net(found, handle, name, version, caller);
	else if (nspy_elf_is_ours(found))
		answer = answer_ours((unsigned int)fn, found, handle, name, caller);
	else
		answer = answer_theirs((unsigned int)fn, found);
	errno = saved;
	return answer;
}
