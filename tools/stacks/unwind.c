/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwinding a copied stack with libunwind: registers and stack come from the copy, the rest of the
 * memory from the process itself while it runs, tables and names from the files it has mapped.
 */
#include <inttypes.h>
#include <libunwind-ptrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "read.h"
#include "trace_stacks.h"

#define OBJECTS_MAX 4096u
#define CACHE       4096u /* names by address; threads of a pool stand in the same place */

struct object {
	uint64_t begin, end, offset;
	char name[64];
};

static struct {
	pid_t pid;
	void *upt;
	unw_addr_space_t space;
	const struct snapshot *snapshot;
	struct object objects[OBJECTS_MAX];
	size_t object_count;
	struct {
		uint64_t address;
		char name[200];
	} names[CACHE];
} state;

/* --- what libunwind asks for --- */

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need,
			  void *arg)
{
	return _UPT_find_proc_info(space, ip, info, need, arg);
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *arg)
{
	_UPT_put_unwind_info(space, info, arg);
}

static int no_list(unw_addr_space_t space, unw_word_t *address, void *arg)
{
	(void)space;
	(void)address;
	(void)arg;
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
		      void *arg)
{
	const struct snapshot *snapshot = state.snapshot;
	struct iovec here = {value, sizeof(*value)};
	struct iovec there = {(void *)address, sizeof(*value)}; /* NOLINT: of another process */

	(void)space;
	(void)arg;
	if (write)
		return -UNW_EINVAL;
	if (address >= snapshot->stack_pointer &&
	    address - snapshot->stack_pointer + sizeof(*value) <= snapshot->stack_bytes) {
		memcpy(value, snapshot->stack + (address - snapshot->stack_pointer),
		       sizeof(*value));
		return 0;
	}
	if (process_vm_readv(state.pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof(*value))
		return -UNW_EINVAL;
	return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write,
		      void *arg)
{
	const uint64_t *registers = state.snapshot->registers;

	(void)space;
	(void)arg;
	if (write)
		return -UNW_EREADONLYREG;
#if defined(__x86_64__)
	/* From libunwind's order, which is DWARF's, to that of struct user_regs_struct. */
	static const uint8_t order[] = {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16};

	if (number < 0 || (size_t)number >= sizeof(order))
		return -UNW_EBADREG;
	*value = registers[order[number]];
#elif defined(__aarch64__)
	if (number < 0 || number > UNW_AARCH64_PC)
		return -UNW_EBADREG;
	*value = registers[number];
#endif
	return 0;
}

static int no_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write,
		    void *arg)
{
	(void)space;
	(void)number;
	(void)value;
	(void)write;
	(void)arg;
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
	(void)space;
	(void)cursor;
	(void)arg;
	return -UNW_EINVAL;
}

static int proc_name(unw_addr_space_t space, unw_word_t address, char *name, size_t bytes,
		     unw_word_t *offset, void *arg)
{
	return _UPT_get_proc_name(space, address, name, bytes, offset, arg);
}

/* --- mapped files --- */

/* "begin-end perms offset ..." of a mapping; false unless it can be executed. */
static bool read_mapping(const char *line, struct object *ret)
{
	char *at;

	ret->begin = strtoull(line, &at, 16);
	if (*at != '-')
		return false;
	ret->end = strtoull(at + 1, &at, 16);
	if (*at != ' ' || strnlen(at, 7) < 7 || at[3] != 'x')
		return false;
	ret->offset = strtoull(at + 6, NULL, 16);
	return true;
}

static void read_objects(void)
{
	char path[64], line[4352];
	FILE *maps;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)state.pid);
	maps = fopen(path, "re");
	state.object_count = 0;
	while (maps && state.object_count < OBJECTS_MAX && fgets(line, sizeof(line), maps)) {
		struct object *object = &state.objects[state.object_count];
		const char *name = strpbrk(line, "/[");
		const char *slash = name ? strrchr(name, '/') : NULL;

		if (!name || !read_mapping(line, object))
			continue;
		name = slash ? slash + 1 : name;
		(void)snprintf(object->name, sizeof(object->name), "%.*s",
			       (int)strcspn(name, " \n"), name);
		state.object_count++;
	}
	if (maps)
		(void)fclose(maps);
}

static const struct object *object_of(uint64_t address)
{
	for (size_t i = 0; i < state.object_count; i++)
		if (address >= state.objects[i].begin && address < state.objects[i].end)
			return &state.objects[i];
	return NULL;
}

static const char *name_of(uint64_t address)
{
	size_t slot = (address ^ address >> 12) % CACHE;
	unw_word_t offset;
	char *name = state.names[slot].name;

	if (state.names[slot].address == address)
		return name;
	state.names[slot].address = address;
	/* A name that is cut is still one. */
	name[0] = '\0';
	(void)_UPT_get_proc_name(state.space, address, name, sizeof(state.names[slot].name),
				 &offset, state.upt);
	return name;
}

bool unwind_begin(pid_t pid)
{
	static unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = no_list,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = no_fpreg,
		.resume = no_resume,
		.get_proc_name = proc_name,
	};

	state.pid = pid;
	memset(state.names, 0, sizeof(state.names));
	state.space = unw_create_addr_space(&accessors, 0);
	state.upt = state.space ? _UPT_create(pid) : NULL;
	if (!state.upt)
		return false;
	unw_set_caching_policy(state.space, UNW_CACHE_GLOBAL);
	read_objects();
	return true;
}

void unwind_end(void)
{
	if (state.upt)
		_UPT_destroy(state.upt);
	if (state.space)
		unw_destroy_addr_space(state.space);
	state.upt = NULL;
	state.space = NULL;
}

static void add_frame(uint64_t address, bool innermost, struct text *out)
{
	const struct object *object = object_of(address);
	/* A return address may belong to the next function already. */
	const char *name = name_of(innermost ? address : address - 1);

	add(out, "f %" PRIx64 " %s %s\n",
	    object ? address - object->begin + object->offset : address,
	    object ? object->name : "-", name[0] ? name : "-");
}

void unwind_add(const struct snapshot *snapshot, struct text *out)
{
	unw_word_t address = 0, before_sp = 0, sp = 0;
	unw_cursor_t cursor;
	unsigned int depth = 0;
	int rc;

	state.snapshot = snapshot;
	rc = unw_init_remote(&cursor, state.space, state.upt);
	while (rc >= 0 && unw_get_reg(&cursor, UNW_REG_IP, &address) == 0 && address) {
		if (depth == NSPY_STACKS_DEPTH_MAX) {
			rc = -1;
			break;
		}
		add_frame(address, depth++ == 0, out);
		rc = unw_step(&cursor);
		(void)unw_get_reg(&cursor, UNW_REG_SP, &sp);
		/* Damaged tables must not lead in circles. */
		if (rc == 0 || (depth > 1 && sp <= before_sp))
			break;
		before_sp = sp;
	}
	if (rc != 0)
		add(out, "cut\n");
}
