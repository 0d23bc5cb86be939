/* SPDX-License-Identifier: Apache-2.0 */
/* ncclspy-run --check: what would be seen of a command, without running it. */
#include "launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <gnu/libc-version.h>
#include <libgen.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_DEADLINE_MS 20000
#define PROBE_BYTES       4096
#define TMPFS_MAGIC       0x01021994
#define MIB               (1024ull * 1024ull)
#define GLIBC_FLOOR       "2.28"

/* --- inside the probe --- */

static bool mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, name) != NULL;
	if (maps)
		(void)fclose(maps);
	return found;
}

static void probe_nccl(void)
{
	void *nccl = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
	struct link_map *object = NULL;
	int (*get_version)(int *);
	int version = 0;

	if (!nccl)
		return;
	(void)dlinfo(nccl, RTLD_DI_LINKMAP, &object);
	get_version = (int (*)(int *))dlsym(nccl, "pncclGetVersion");
	if (!get_version)
		get_version = (int (*)(int *))dlsym(nccl, "ncclGetVersion");
	if (get_version && get_version(&version) == 0)
		printf("nccl_version=%d\n", version);
	printf("nccl_path=%s\n", object ? object->l_name : "libnccl.so.2");
}

int nspy_probe(void)
{
	printf("glibc=%s\n", gnu_get_libc_version());
	printf("loaded=%d\n", mapped("/libncclspy.so"));
	(void)fflush(stdout); /* should NCCL hang below, this much is known */
	probe_nccl();
	return fflush(stdout) == 0 ? 0 : NSPY_RUN_FAILED;
}

/* --- running the probe --- */

_Noreturn static void become_probe(int fd)
{
	/* It must leave no trace. */
	if (setenv("NCCLSPY", "0", 1) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		_exit(NSPY_RUN_FAILED);
	(void)execl("/proc/self/exe", "ncclspy-run", "--probe", (char *)NULL);
	_exit(NSPY_RUN_FAILED);
}

static size_t read_until_end(int fd, char *text, size_t bytes)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	size_t used = 0;

	while (used < bytes - 1 && poll(&ready, 1, PROBE_DEADLINE_MS) > 0) {
		ssize_t got = read(fd, text + used, bytes - 1 - used);

		if (got <= 0)
			break;
		used += (size_t)got;
	}
	text[used] = '\0';
	return used;
}

static int run_probe(char *text, size_t bytes)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		become_probe(ends[1]);
	close(ends[1]);
	if (pid > 0) {
		(void)read_until_end(ends[0], text, bytes);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	close(ends[0]);
	return pid < 0 ? -EAGAIN : 0;
}

/* Value of "key=" in the probe's lines; false if it is not there. */
static bool answer(const char *text, const char *key, char *ret_value, size_t bytes)
{
	size_t key_bytes = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, key_bytes) != 0 || line[key_bytes] != '=')
			continue;
		line += key_bytes + 1;
		(void)snprintf(ret_value, bytes, "%.*s", (int)strcspn(line, "\n"), line);
		return true;
	}
	return false;
}

/* --- the report --- */

struct findings {
	unsigned int failed;
};

__attribute__((format(printf, 4, 5))) static void say(struct findings *findings, const char *tag,
						      const char *subject, const char *format, ...)
{
	va_list arguments;

	if (strcmp(tag, "FAIL") == 0)
		findings->failed++;
	printf("[%s] %s: ", tag, subject);
	va_start(arguments, format);
	(void)vprintf(format, arguments);
	va_end(arguments);
	(void)putchar('\n');
}

static void check_switch(struct findings *findings)
{
	if (nspy_switched_off())
		say(findings, "FAIL", "switch",
		    "NCCLSPY=0 is set: the command runs as if ncclspy were not there");
}

static void check_library(struct findings *findings, const struct nspy_launch *launch, int error,
			  const char *probe)
{
	char loaded[8] = "0", glibc[32] = "?";

	if (error == -EINVAL) {
		say(findings, "FAIL", "library",
		    "its path holds a blank or a colon, which LD_PRELOAD cannot express; install "
		    "it elsewhere or name a copy with --lib");
		return;
	}
	if (error < 0) {
		say(findings, "FAIL", "library", "%s: %s; --lib names it",
		    launch->library ? launch->library : "libncclspy.so beside this program",
		    strerror(-error));
		return;
	}
	(void)answer(probe, "loaded", loaded, sizeof(loaded));
	(void)answer(probe, "glibc", glibc, sizeof(glibc));
	if (strcmp(loaded, "1") == 0)
		say(findings, "PASS", "library", "%s loads (glibc %s)", launch->preload, glibc);
	else
		say(findings, "FAIL", "library",
		    "%s does not load here (glibc %s, needs %s or later; the loader's own message "
		    "stands above)",
		    launch->preload, glibc, GLIBC_FLOOR);
}

static void check_program(struct findings *findings, const char *command,
			  struct nspy_program *program)
{
	const char *advice = nspy_misplaced(command);

	if (advice)
		say(findings, "WARN", "place", "%s starts the ranks elsewhere; write: %s", command,
		    advice);
	if (nspy_inspect(command, program) < 0) {
		say(findings, "FAIL", "program", "%s is not on PATH", command);
		return;
	}
	if (strcmp(program->path, program->interpreter) == 0)
		say(findings, program->kind == NSPY_PROGRAM_DYNAMIC ? "PASS" : "FAIL", "program",
		    "%s is %s", program->path, nspy_program_kind_text(program->kind));
	else
		say(findings, program->kind == NSPY_PROGRAM_DYNAMIC ? "PASS" : "FAIL", "program",
		    "%s is run by %s, which is %s", program->path, program->interpreter,
		    nspy_program_kind_text(program->kind));
}

static bool first_match(const char *prefix, char *ret_path, size_t bytes)
{
	char pattern[PATH_MAX];
	glob_t found;
	bool ok = false;

	if (snprintf(pattern, sizeof(pattern),
		     "%s/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
		     prefix) >= (int)sizeof(pattern) ||
	    glob(pattern, 0, NULL, &found) != 0)
		return false;
	if (found.gl_pathc > 0)
		ok = snprintf(ret_path, bytes, "%s", found.gl_pathv[0]) < (int)bytes;
	globfree(&found);
	return ok;
}

/* The copy that Python packages bring along, seen from the interpreter's place. */
static bool wheel(const struct nspy_program *program, char *ret_path, size_t bytes)
{
	const char *environment = getenv("VIRTUAL_ENV");
	char real[PATH_MAX], direct[PATH_MAX];

	if (environment && first_match(environment, ret_path, bytes))
		return true;
	(void)snprintf(direct, sizeof(direct), "%s", program->interpreter);
	if (first_match(dirname(dirname(direct)), ret_path, bytes))
		return true;
	return realpath(program->interpreter, real) &&
	       first_match(dirname(dirname(real)), ret_path, bytes);
}

static void check_nccl(struct findings *findings, const struct nspy_program *program,
		       const char *probe)
{
	char path[PATH_MAX], version[16] = "";
	long number;

	if (answer(probe, "nccl_path", path, sizeof(path))) {
		(void)answer(probe, "nccl_version", version, sizeof(version));
		number = strtol(version, NULL, 10);
		if (number >= 10000)
			say(findings, "PASS", "NCCL", "%ld.%ld.%ld at %s", number / 10000,
			    number / 100 % 100, number % 100, path);
		else
			say(findings, "PASS", "NCCL", "at %s", path);
	} else if (program->interpreter[0] && wheel(program, path, sizeof(path))) {
		say(findings, "PASS", "NCCL", "a Python package brings %s", path);
	} else {
		say(findings, "INFO", "NCCL",
		    "libnccl.so.2 is not on the loader's path; a copy that the program brings "
		    "along is seen all the same");
	}
}

/* The nearest directory that exists already. */
static void existing_part(const char *path, char *ret, size_t bytes)
{
	(void)snprintf(ret, bytes, "%s", path);
	while (access(ret, F_OK) < 0) {
		char *slash = strrchr(ret, '/');

		if (!slash || slash == ret) {
			(void)snprintf(ret, bytes, "/");
			return;
		}
		*slash = '\0';
	}
}

static void check_directory(struct findings *findings, const char *root)
{
	char there[PATH_MAX];
	struct statvfs space;

	existing_part(root, there, sizeof(there));
	if (access(there, W_OK | X_OK) < 0) {
		say(findings, "FAIL", "traces", "%s: no files can be made in %s: %s", root, there,
		    strerror(errno));
		return;
	}
	if (statvfs(there, &space) < 0)
		say(findings, "PASS", "traces", "go to %s", root);
	else
		say(findings, "PASS", "traces", "go to %s (%llu MiB free)", root,
		    (unsigned long long)space.f_bavail * space.f_frsize / MIB);
}

static void check_live_pages(struct findings *findings)
{
	struct statfs shm;

	if (statfs("/dev/shm", &shm) < 0 || shm.f_type != TMPFS_MAGIC ||
	    access("/dev/shm", W_OK) < 0)
		say(findings, "WARN", "live pages",
		    "/dev/shm is no writable tmpfs: a killed process loses up to its last 200 ms");
	else
		say(findings, "PASS", "live pages",
		    "/dev/shm has %llu MiB free: calls survive a SIGKILL",
		    (unsigned long long)shm.f_bavail * (unsigned long long)shm.f_bsize / MIB);
}

static void say_limits(void)
{
	puts("not seen: GPU-side times (a call's return says \"enqueued\", not \"done\"); an NCCL "
	     "that is loaded");
	puts("          with RTLD_DEEPBIND or linked statically with hidden symbols");
}

int nspy_check(const struct nspy_launch *launch, int library_error)
{
	struct nspy_program program = {0};
	struct findings findings = {0};
	char probe[PROBE_BYTES] = "";

	(void)fflush(stdout);
	if (nspy_apply_environment(launch) < 0 || run_probe(probe, sizeof(probe)) < 0)
		say(&findings, "FAIL", "probe", "cannot start a process: %s", strerror(errno));
	check_switch(&findings);
	check_library(&findings, launch, library_error, probe);
	if (launch->command)
		check_program(&findings, launch->command[0], &program);
	check_nccl(&findings, &program, probe);
	check_directory(&findings, launch->trace_root);
	check_live_pages(&findings);
	say_limits();
	if (fflush(stdout) != 0)
		return NSPY_RUN_FAILED;
	return findings.failed ? 1 : 0;
}
