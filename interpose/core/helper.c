/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "helper.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "facts.h"
#include "procfs.h"
#include "spawn.h"

#define DEADLINE_NS 3000000000ull /* the helper ends itself a second earlier */

static struct {
	char file[NSPY_PATH_MAX + 64];
	char program[NSPY_PATH_MAX + 64];
	char plugin[256], gpu[64];
	uint64_t deadline_ns; /* 0 = not running */
} helper;

/* Beside the library. */
static bool find_program(const char *name)
{
	static const char anchor = 0;
	struct link_map *map;
	Dl_info where;
	const char *slash;

	if (!nspy_sys_dladdr1(&anchor, &where, (void **)&map, RTLD_DL_LINKMAP) || !where.dli_fname)
		return false;
	slash = strrchr(where.dli_fname, '/');
	(void)snprintf(helper.program, sizeof(helper.program), "%.*s%s",
		       slash ? (int)(slash + 1 - where.dli_fname) : 0, where.dli_fname, name);
	return syscall(SYS_faccessat, AT_FDCWD, helper.program, X_OK) == 0;
}

bool nspy_helper_spawn(const char *name, char *const arguments[], bool adopt)
{
	struct nspy_spawn what = {
		.program = helper.program, .arguments = arguments, .input = -1, .adopt = adopt};
	char **environment;

	if (!find_program(name))
		return false;
	(void)nspy_spawn_environment(&environment, 0);
	what.environment = environment;
	return nspy_spawn(&what);
}

void nspy_helper_start(const char *plugin, const char *gpu, uint64_t now_ns)
{
	static char name[] = "ncclspy-probe";
	char *arguments[5] = {name, helper.file};
	size_t n = 2;

	(void)snprintf(helper.file, sizeof(helper.file), "%s.%016llx.probe", nspy_core.id.base,
		       (unsigned long long)nspy_core.id.run_id);
	(void)snprintf(helper.plugin, sizeof(helper.plugin), "plugin=%s", plugin ? plugin : "");
	(void)snprintf(helper.gpu, sizeof(helper.gpu), "gpu=%s", gpu ? gpu : "");
	if (plugin)
		arguments[n++] = helper.plugin;
	if (gpu)
		arguments[n] = helper.gpu;
	if (nspy_helper_spawn(name, arguments, false))
		helper.deadline_ns = now_ns + DEADLINE_NS;
}

static void take(char *text)
{
	while (*text) {
		char *end = strchr(text, '\n'), *equals = strchr(text, '=');

		if (!end || !equals || equals > end)
			break;
		*end = *equals = '\0';
		if (strcmp(text, "done") != 0)
			nspy_facts_add(text, equals + 1);
		text = end + 1;
	}
}

void nspy_helper_end(void)
{
	if (helper.deadline_ns)
		(void)unlink(helper.file);
	helper.deadline_ns = 0;
}

bool nspy_helper_poll(uint64_t now_ns)
{
	static char text[4096];
	ssize_t bytes;

	if (!helper.deadline_ns)
		return false;
	bytes = nspy_proc_read_all(helper.file, text, sizeof(text));
	if (now_ns < helper.deadline_ns && !strstr(text, "done=1\n"))
		return false;
	if (bytes > 0)
		take(text);
	nspy_helper_end();
	return bytes > 0;
}
