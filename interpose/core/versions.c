/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "versions.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api_ids.h"
#include "resolve.h"
#include "say.h"
#include "trace_encode.h"

#define BUILD_ID_BYTES_MAX ((NSPY_BUILD_ID_BYTES - 1) / 2)
#define UNKNOWN_BYTES_MAX  512u

struct object {
	const void *inside; /* an address in the object looked for */
	char path[1024];
	char build_id[NSPY_BUILD_ID_BYTES];
	bool found;
};

static bool covers(const struct dl_phdr_info *info, const void *address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_LOAD && (uintptr_t)address >= begin &&
		    (uintptr_t)address < begin + ph->p_memsz)
			return true;
	}
	return false;
}

static void read_build_id(const uint8_t *note, size_t bytes, char *ret)
{
	while (bytes >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) head;
		size_t name_bytes, whole;

		memcpy(&head, note, sizeof(head));
		name_bytes = (head.n_namesz + 3u) & ~3u;
		whole = sizeof(head) + name_bytes + ((head.n_descsz + 3u) & ~3u);
		if (whole > bytes)
			return;
		if (head.n_type == NT_GNU_BUILD_ID && head.n_descsz <= BUILD_ID_BYTES_MAX) {
			const uint8_t *id = note + sizeof(head) + name_bytes;

			for (uint32_t i = 0; i < head.n_descsz; i++)
				(void)sprintf(ret + 2 * i, "%02x", id[i]);
			return;
		}
		note += whole;
		bytes -= whole;
	}
}

void nspy_versions_build_id(const struct dl_phdr_info *info, char ret[NSPY_BUILD_ID_BYTES])
{
	ret[0] = '\0';
	for (int i = 0; i < info->dlpi_phnum && !ret[0]; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_NOTE)
			read_build_id((const uint8_t *)(info->dlpi_addr + ph->p_vaddr), ph->p_memsz,
				      ret);
	}
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object *object = data;

	(void)size;
	if (!covers(info, object->inside))
		return 0;
	object->found = true;
	(void)snprintf(object->path, sizeof(object->path), "%s",
		       info->dlpi_name ? info->dlpi_name : "");
	nspy_versions_build_id(info, object->build_id);
	return 1;
}

struct facts {
	uint8_t *payload;
	size_t capacity;
	size_t *used;
};

static void fact(struct facts *f, const char *key, const char *value)
{
	if (value[0])
		(void)nspy_ident_put(f->payload, f->capacity, f->used, key, value);
}

/* Path and build id of whatever object defines an address. */
static void fact_object(struct facts *f, const char *library, const void *inside)
{
	struct object object = {.inside = inside};
	char key[64];

	dl_iterate_phdr(look_at, &object);
	if (!object.found)
		return;
	(void)snprintf(key, sizeof(key), "%s.path", library);
	fact(f, key, object.path);
	(void)snprintf(key, sizeof(key), "%s.build_id", library);
	fact(f, key, object.build_id);
}

static void fact_version(struct facts *f, const char *key, nspy_any_fn *ask)
{
	typedef int ask_fn(int *version);
	char text[16];
	int version = 0;

	if (!ask || ((ask_fn *)ask)(&version) != 0)
		return;
	(void)snprintf(text, sizeof(text), "%d", version);
	fact(f, key, text);
}

static bool is_known(const char *name)
{
	for (unsigned int i = 0; i < nspy_fn_count; i++)
		if (strcmp(nspy_fn_table[i].name, name) == 0)
			return true;
	for (unsigned int i = 0; i < nspy_fn_ignored_count; i++)
		if (strcmp(nspy_fn_ignored[i], name) == 0)
			return true;
	return false;
}

/* Number of entries of a dynamic symbol table, from its GNU hash table. */
static uint32_t symbol_count(const uint32_t *hash)
{
	const uint32_t buckets = hash[0], first = hash[1];
	const uint32_t *bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t last = 0;

	for (uint32_t i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static size_t list_unknown(const ElfW(Sym) * symbols, uint32_t count, const char *strings,
			   char *ret)
{
	size_t used = 0;

	for (uint32_t i = 0; i < count; i++) {
		const char *name = strings + symbols[i].st_name;
		size_t bytes = strlen(name);

		if (symbols[i].st_shndx == SHN_UNDEF || strncmp(name, "nccl", 4) != 0 ||
		    (symbols[i].st_info & 0xf) != STT_FUNC || is_known(name) ||
		    used + bytes + 2 > UNKNOWN_BYTES_MAX)
			continue;
		used += (size_t)sprintf(ret + used, "%s%s", used ? "," : "", name);
	}
	return used;
}

/* A newer NCCL may have calls that pass us by: the loss of coverage is said, not hidden. */
static void fact_unknown_functions(struct facts *f, const char *path)
{
	struct link_map *map = nspy_sys_dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *hash = NULL;
	char names[UNKNOWN_BYTES_MAX] = "";

	if (!map)
		return;
	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			symbols = (const ElfW(Sym) *)d->d_un.d_ptr;
		else if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr;
		else if (d->d_tag == DT_GNU_HASH)
			hash = (const uint32_t *)d->d_un.d_ptr;
	}
	if (symbols && strings && hash &&
	    list_unknown(symbols, symbol_count(hash), strings, names)) {
		fact(f, "nccl.unknown", names);
		nspy_say(NSPY_SAY_INFO,
			 "this NCCL has functions ncclspy does not know and cannot see: %.300s",
			 names);
	}
	nspy_sys_dlclose(map);
}

static void fact_nccl(struct facts *f)
{
	nspy_any_fn *version = nspy_real(NSPY_FN_NCCL_GET_VERSION);
	struct object object = {.inside = (const void *)version};

	if (!version)
		return;
	fact_version(f, "nccl.version", version);
	fact_object(f, "nccl", (const void *)version);
	dl_iterate_phdr(look_at, &object);
	if (object.found && object.path[0])
		fact_unknown_functions(f, object.path);
}

static void fact_cuda(struct facts *f)
{
	nspy_any_fn *malloc_fn = nspy_real(NSPY_FN_CUDA_MALLOC);
	Dl_info where;
	void *handle;

	if (malloc_fn && nspy_sys_dladdr((const void *)malloc_fn, &where) && where.dli_fname) {
		fact_object(f, "cudart", (const void *)malloc_fn);
		handle = nspy_sys_dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		if (handle) {
			fact_version(
				f, "cudart.version",
				(nspy_any_fn *)nspy_sys_dlsym(handle, "cudaRuntimeGetVersion"));
			nspy_sys_dlclose(handle);
		}
	}
	handle = nspy_sys_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		fact_version(f, "cuda.driver",
			     (nspy_any_fn *)nspy_sys_dlsym(handle, "cuDriverGetVersion"));
		nspy_sys_dlclose(handle);
	}
}

void nspy_versions_facts(uint8_t *payload, size_t capacity, size_t *used)
{
	struct facts f = {payload, capacity, used};

	fact_nccl(&f);
	fact_cuda(&f);
	(void)nspy_sys_dlerror();
}

bool nspy_versions_is_nccl(const void *address, char *ret, size_t bytes)
{
	struct object nccl = {.inside = (const void *)nspy_real(NSPY_FN_NCCL_GET_VERSION)};
	struct object object = {.inside = address};
	const char *slash;

	dl_iterate_phdr(look_at, &object);
	slash = strrchr(object.path, '/');
	(void)snprintf(ret, bytes, "%s",
		       !object.found    ? "?"
		       : slash          ? slash + 1
		       : object.path[0] ? object.path
					: "the program");
	if (!object.found)
		return false;
	if (strncmp(ret, "libnccl", 7) == 0 || strncmp(ret, "libfabric", 9) == 0)
		return true;
	dl_iterate_phdr(look_at, &nccl);
	return nccl.found && strcmp(nccl.path, object.path) == 0;
}
