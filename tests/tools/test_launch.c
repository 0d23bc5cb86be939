/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's own steps: which library, which directory, which environment, which program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"

static char scratch[PATH_MAX / 4];

static const char *path_of(const char *name)
{
	static char path[PATH_MAX / 2];

	(void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

static int set_up(void **state)
{
	const char *temporary = getenv("TMPDIR");

	(void)state;
	(void)snprintf(scratch, sizeof(scratch), "%s/ncclspy-launch-XXXXXX",
		       temporary ? temporary : "/tmp");
	return mkdtemp(scratch) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[PATH_MAX];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	return system(command);
}

static void make_file(const char *name, const void *bytes, size_t count, mode_t mode)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, count), (ssize_t)count);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void library_paths(void **state)
{
	char found[PATH_MAX] = "untouched", here[PATH_MAX];

	(void)state;
	make_file("lib.so", "x", 1, 0600);
	make_file("with blank.so", "x", 1, 0600);
	make_file("with:colon.so", "x", 1, 0600);
	assert_int_equal(nspy_find_library(path_of("nothing.so"), found, sizeof(found)), -ENOENT);
	assert_int_equal(nspy_find_library(path_of("with blank.so"), found, sizeof(found)),
			 -EINVAL);
	assert_int_equal(nspy_find_library(path_of("with:colon.so"), found, sizeof(found)),
			 -EINVAL);
	assert_string_equal(found, "untouched");
	assert_int_equal(nspy_find_library(path_of("lib.so"), found, sizeof(found)), 0);
	assert_string_equal(found, path_of("lib.so"));
	/* The command may change its directory: a relative path is made absolute. */
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(scratch), 0);
	assert_int_equal(nspy_find_library("lib.so", found, sizeof(found)), 0);
	assert_string_equal(found, path_of("lib.so"));
	assert_int_equal(chdir(here), 0);
}

static void trace_directory(void **state)
{
	char root[PATH_MAX], expected[PATH_MAX], here[PATH_MAX - 8];

	(void)state;
	assert_non_null(getcwd(here, sizeof(here)));
	setenv("NCCLSPY_DIR", "/from/variable", 1);
	assert_int_equal(nspy_trace_root("/given", root, sizeof(root)), 0);
	assert_string_equal(root, "/given");
	assert_int_equal(nspy_trace_root(NULL, root, sizeof(root)), 0);
	assert_string_equal(root, "/from/variable");
	assert_int_equal(nspy_trace_root("here", root, sizeof(root)), 0);
	(void)snprintf(expected, sizeof(expected), "%s/here", here);
	assert_string_equal(root, expected);
	setenv("NCCLSPY_DIR", "", 1);
	setenv("TMPDIR", "/scratch", 1);
	assert_int_equal(nspy_trace_root(NULL, root, sizeof(root)), 0);
	(void)snprintf(expected, sizeof(expected), "/scratch/ncclspy-%u", getuid());
	assert_string_equal(root, expected);
	assert_int_equal(nspy_trace_root("/much/too/long", root, 8), -ENAMETOOLONG);
	unsetenv("TMPDIR");
	unsetenv("NCCLSPY_DIR");
}

static void preload_is_appended_once(void **state)
{
	struct nspy_launch launch = {.preload = "/opt/libncclspy.so"};

	(void)state;
	unsetenv("LD_PRELOAD");
	assert_int_equal(nspy_apply_environment(&launch), 0);
	assert_string_equal(getenv("LD_PRELOAD"), "/opt/libncclspy.so");
	assert_int_equal(nspy_apply_environment(&launch), 0);
	assert_string_equal(getenv("LD_PRELOAD"), "/opt/libncclspy.so");
	setenv("LD_PRELOAD", "libjemalloc.so.2 /opt/libncclspy.so.old", 1);
	assert_int_equal(nspy_apply_environment(&launch), 0);
	assert_string_equal(getenv("LD_PRELOAD"),
			    "libjemalloc.so.2 /opt/libncclspy.so.old:/opt/libncclspy.so");
	/* No library, no change. */
	launch.preload[0] = '\0';
	setenv("LD_PRELOAD", "mine.so", 1);
	assert_int_equal(nspy_apply_environment(&launch), 0);
	assert_string_equal(getenv("LD_PRELOAD"), "mine.so");
	unsetenv("LD_PRELOAD");
}

static void variables_follow_the_options(void **state)
{
	struct nspy_launch launch = {.trace_root = "/t"};

	(void)state;
	unsetenv("NCCLSPY_DIR");
	assert_int_equal(nspy_apply_environment(&launch), 0);
	assert_null(getenv("NCCLSPY_DIR")); /* the library's default has smaller limits */
	assert_null(getenv("NCCLSPY_JOB"));
	assert_null(getenv("NCCLSPY_QUIET"));
	launch.directory = "t";
	launch.job = "j";
	launch.quiet = true;
	assert_int_equal(nspy_apply_environment(&launch), 0);
	assert_string_equal(getenv("NCCLSPY_DIR"), "/t");
	assert_string_equal(getenv("NCCLSPY_JOB"), "j");
	assert_string_equal(getenv("NCCLSPY_QUIET"), "1");
}

static void switch_is_exactly_zero(void **state)
{
	(void)state;
	unsetenv("NCCLSPY");
	assert_false(nspy_switched_off());
	setenv("NCCLSPY", "1", 1);
	assert_false(nspy_switched_off());
	setenv("NCCLSPY", "0", 1);
	assert_true(nspy_switched_off());
	unsetenv("NCCLSPY");
}

static void starters_are_known(void **state)
{
	(void)state;
	assert_non_null(nspy_misplaced("srun"));
	assert_non_null(nspy_misplaced("/usr/bin/mpirun"));
	assert_non_null(nspy_misplaced("kubectl"));
	assert_null(nspy_misplaced("torchrun"));
	assert_null(nspy_misplaced("/opt/srun/bin/python3"));
}

static void programs_are_told_apart(void **state)
{
	static const char script[] = "#!/bin/sh\nexit 0\n";
	static const char with_env[] = "#!/usr/bin/env -S FOO=1 sh -e\nexit 0\n";
	enum nspy_program_kind shell;
	struct nspy_program program;
	char loop[PATH_MAX];

	(void)state;
	assert_int_equal(nspy_inspect("no-such-program-anywhere", &program), -ENOENT);
	assert_int_equal(nspy_inspect("/proc/self/exe", &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_DYNAMIC);
	assert_string_equal(program.path, program.interpreter);
	/* Under an emulator the shell is of another architecture than this test. */
	assert_int_equal(nspy_inspect("sh", &program), 0);
	shell = program.kind;
	make_file("script", script, sizeof(script) - 1, 0700);
	assert_int_equal(nspy_inspect(path_of("script"), &program), 0);
	assert_int_equal(program.kind, shell);
	assert_string_equal(program.interpreter, "/bin/sh");
	make_file("env", with_env, sizeof(with_env) - 1, 0700);
	assert_int_equal(nspy_inspect(path_of("env"), &program), 0);
	assert_int_equal(program.kind, shell);
	assert_string_equal(strrchr(program.interpreter, '/'), "/sh");
	make_file("text", "hello, world, hello\n", 20, 0700);
	assert_int_equal(nspy_inspect(path_of("text"), &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_UNKNOWN);
	/* A script that names itself ends the search. */
	(void)snprintf(loop, sizeof(loop), "#!%s\n", path_of("loop"));
	make_file("loop", loop, strlen(loop), 0700);
	assert_int_equal(nspy_inspect(path_of("loop"), &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_UNKNOWN);
}

/* The least of an ELF file: what decides is the class, the machine and the loader's name. */
static void elf_files_are_told_apart(void **state)
{
	static const char musl[] = "/lib/ld-musl-x86_64.so.1";
	unsigned char elf[256] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
	struct nspy_program program;
	uint64_t offset = 64, name_at = 200, name_bytes = sizeof(musl);
	uint16_t machine, count = 1, size = 56;
	uint32_t interpreter = 3;
	FILE *self = fopen("/proc/self/exe", "re");

	(void)state;
	assert_non_null(self);
	assert_int_equal(fseek(self, 18, SEEK_SET), 0);
	assert_int_equal(fread(&machine, sizeof(machine), 1, self), 1);
	(void)fclose(self);
	memcpy(elf + 18, &machine, 2);
	memcpy(elf + 32, &offset, 8);
	memcpy(elf + 54, &size, 2);
	make_file("static", elf, sizeof(elf), 0700);
	assert_int_equal(nspy_inspect(path_of("static"), &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_STATIC);
	memcpy(elf + 56, &count, 2);
	memcpy(elf + 64, &interpreter, 4);
	memcpy(elf + 64 + 8, &name_at, 8);
	memcpy(elf + 64 + 32, &name_bytes, 8);
	memcpy(elf + name_at, musl, sizeof(musl));
	make_file("musl", elf, sizeof(elf), 0700);
	assert_int_equal(nspy_inspect(path_of("musl"), &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_MUSL);
	/* Cut off before the segment it announces. */
	make_file("cut", elf, 70, 0700);
	assert_int_equal(nspy_inspect(path_of("cut"), &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_UNKNOWN);
	elf[18] = 0xf3;
	make_file("foreign", elf, sizeof(elf), 0700);
	assert_int_equal(nspy_inspect(path_of("foreign"), &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_FOREIGN);
	elf[4] = 1;
	make_file("narrow", elf, sizeof(elf), 0700);
	assert_int_equal(nspy_inspect(path_of("narrow"), &program), 0);
	assert_int_equal(program.kind, NSPY_PROGRAM_FOREIGN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(library_paths),
		TEST(trace_directory),
		TEST(preload_is_appended_once),
		TEST(variables_follow_the_options),
		TEST(switch_is_exactly_zero),
		TEST(starters_are_known),
		TEST(programs_are_told_apart),
		TEST(elf_files_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
