/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "versions.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api_ids.h"
#include "copies.h"
#include "core.h"
#include "facts.h"
#include "resolve.h"
#include "say.h"
#include "symbols.h"
#include "thread.h"
#include "trace_encode.h"

#define BUILD_ID_BYTES_MAX ((NSPY_BUILD_ID_BYTES - 1) / 2)
#define UNKNOWN_BYTES_MAX  512u
#define PATH_SHOWN         150 /* of a path in a line for people; its end tells most */

struct object {
	struct link_map *map;
	const char *path;
	char build_id[NSPY_BUILD_ID_BYTES];
};

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

static void build_id_of(const ElfW(Phdr) * ph, int n, uintptr_t base, char ret[NSPY_BUILD_ID_BYTES])
{
	ret[0] = '\0';
	for (int i = 0; i < n && !ret[0]; i++)
		if (ph[i].p_type == PT_NOTE)
			read_build_id((const uint8_t *)(base + ph[i].p_vaddr), ph[i].p_memsz, ret);
}

void nspy_versions_build_id(const struct dl_phdr_info *info, char ret[NSPY_BUILD_ID_BYTES])
{
	build_id_of(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr, ret);
}

/* What object an address lies in; false if in none. It must stay loaded meanwhile. */
static bool find_object(const void *inside, struct object *ret)
{
	const ElfW(Ehdr) * head;
	const ElfW(Phdr) * ph;
	Dl_info info;

	memset(ret, 0, sizeof(*ret));
	if (!inside || !nspy_sys_dladdr1(inside, &info, (void **)&ret->map, RTLD_DL_LINKMAP) ||
	    !info.dli_fbase || !ret->map)
		return false;
	ret->path = info.dli_fname ? info.dli_fname : "";
	head = info.dli_fbase;
	ph = (const void *)((const char *)head + head->e_phoff);
	build_id_of(ph, head->e_phnum, ret->map->l_addr, ret->build_id);
	return true;
}

/* Where facts go: into a payload while recording starts, later one by one. */
struct facts {
	uint8_t *payload; /* NULL = nspy_facts_add */
	size_t capacity;
	size_t *used;
};

static void fact(struct facts *f, const char *key, const char *value)
{
	if (!value[0])
		return;
	if (f->payload)
		(void)nspy_ident_put(f->payload, f->capacity, f->used, key, value);
	else
		nspy_facts_add(key, value);
}

/* Path and build id. */
static void fact_object(struct facts *f, const char *prefix, const struct object *object)
{
	char key[64];

	(void)snprintf(key, sizeof(key), "%s.path", prefix);
	fact(f, key, object->path);
	(void)snprintf(key, sizeof(key), "%s.build_id", prefix);
	fact(f, key, object->build_id);
}

static int ask_version(nspy_any_fn *ask)
{
	typedef int ask_fn(int *version);
	int version = 0;

	return ask && ((ask_fn *)ask)(&version) == 0 ? version : 0;
}

static void fact_version(struct facts *f, const char *key, int version)
{
	char text[16];

	if (!version)
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
static void fact_unknown_functions(struct facts *f, const struct link_map *map)
{
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *hash = NULL;
	char names[UNKNOWN_BYTES_MAX] = "";

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
}

/* The copy that the call which starts the recording ends in. */
static void fact_nccl(struct facts *f)
{
	nspy_any_fn *get_version = nspy_real_in(nspy_tls.copy, NSPY_FN_NCCL_GET_VERSION);
	struct object object;

	if (!find_object((const void *)get_version, &object))
		return;
	fact_version(f, "nccl.version", ask_version(get_version));
	fact_object(f, "nccl", &object);
	fact_unknown_functions(f, object.map);
}

static const char *end_of(const char *path)
{
	size_t bytes = strlen(path);

	return bytes > PATH_SHOWN ? path + bytes - PATH_SHOWN : path;
}

/* All copies, if there are several. */
static void fact_copies(struct facts *f)
{
	unsigned int count = nspy_copies(NSPY_LIB_NCCL);
	struct object objects[NSPY_COPIES_MAX];
	int versions[NSPY_COPIES_MAX];
	char key[32], text[16];

	if (count < 2)
		return;
	for (unsigned int i = 0; i < count; i++) {
		nspy_any_fn *get_version = nspy_copy_find(i, NSPY_FN_NCCL_GET_VERSION);

		if (!find_object((const void *)get_version, &objects[i]))
			return;
		versions[i] = ask_version(get_version);
		(void)snprintf(key, sizeof(key), "nccl.copy.%u.version", i + 1);
		fact_version(f, key, versions[i]);
		(void)snprintf(key, sizeof(key), "nccl.copy.%u", i + 1);
		fact_object(f, key, &objects[i]);
	}
	(void)snprintf(text, sizeof(text), "%u%s", count,
		       nspy_copies_too_many(NSPY_LIB_NCCL) ? "+" : "");
	fact(f, "nccl.copies", text);
	/* Every rank has the facts; one speaks for them. */
	if (nspy_core.id.rank <= 0)
		nspy_say(NSPY_SAY_WARN,
			 "this process has %s copies of NCCL: %s (%d) and %s (%d); a communicator "
			 "of one must not be used through the other",
			 text, end_of(objects[count - 2].path), versions[count - 2],
			 end_of(objects[count - 1].path), versions[count - 1]);
}

static void fact_cuda(struct facts *f)
{
	nspy_any_fn *malloc_fn = nspy_real_in(0, NSPY_FN_CUDA_MALLOC);
	struct object object;
	void *handle;

	if (find_object((const void *)malloc_fn, &object)) {
		fact_object(f, "cudart", &object);
		fact_version(f, "cudart.version",
			     ask_version((nspy_any_fn *)nspy_elf_find(object.map,
								      "cudaRuntimeGetVersion")));
	}
	handle = nspy_sys_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (handle) {
		fact_version(
			f, "cuda.driver",
			ask_version((nspy_any_fn *)nspy_sys_dlsym(handle, "cuDriverGetVersion")));
		nspy_sys_dlclose(handle);
	}
}

void nspy_versions_facts(uint8_t *payload, size_t capacity, size_t *used)
{
	struct facts f = {payload, capacity, used};

	nspy_copies_scan();
	fact_nccl(&f);
	fact_copies(&f);
	fact_cuda(&f);
	nspy_dlerror_clear();
}

void nspy_versions_copy_found(void)
{
	struct facts f = {NULL, 0, NULL};
	struct nspy_tls *t = &nspy_tls;
	bool busy = t->busy;

	if (!nspy_is_recording())
		return; /* nspy_versions_facts will see it */
	t->busy = true;
	fact_copies(&f);
	t->busy = busy;
}

void nspy_versions_mixed(unsigned int made_by, unsigned int used_through)
{
	static _Atomic uint32_t said;
	char text[32];

	if (!nspy_is_recording() || atomic_exchange_explicit(&said, 1, memory_order_relaxed) != 0)
		return;
	(void)snprintf(text, sizeof(text), "%u through %u", made_by + 1, used_through + 1);
	nspy_facts_add("nccl.mixed", text);
	nspy_say(NSPY_SAY_WARN,
		 "a communicator of %s was used through %s; the call was passed to the former",
		 end_of(nspy_copy_map(NSPY_LIB_NCCL, made_by)->l_name),
		 end_of(nspy_copy_map(NSPY_LIB_NCCL, used_through)->l_name));
}

struct place {
	uintptr_t inside;
	char *ret;
	size_t bytes;
	bool found;
};

static int look_around(struct dl_phdr_info *info, size_t size, void *data)
{
	struct place *place = data;
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	const char *slash = strrchr(path, '/');

	(void)size;
	for (int i = 0; i < info->dlpi_phnum && !place->found; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + ph->p_vaddr;

		place->found = ph->p_type == PT_LOAD && place->inside >= begin &&
			       place->inside < begin + ph->p_memsz;
	}
	if (place->found)
		(void)snprintf(place->ret, place->bytes, "%s",
			       slash     ? slash + 1
			       : path[0] ? path
					 : "the program");
	return place->found;
}

/* Unlike dladdr this holds the object: a plugin that failed may be unloaded at any time. */
bool nspy_versions_is_nccl(const void *address, char *ret, size_t bytes)
{
	struct place place = {.inside = (uintptr_t)address, .ret = ret, .bytes = bytes};

	(void)snprintf(ret, bytes, "?");
	dl_iterate_phdr(look_around, &place);
	if (!place.found)
		return false;
	return strncmp(ret, "libnccl", 7) == 0 || strncmp(ret, "libfabric", 9) == 0 ||
	       nspy_copy_of_address(NSPY_LIB_NCCL, address) != NSPY_NO_COPY;
}
