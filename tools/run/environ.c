/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY_NAME "libncclspy.so"

static int absolute(const char *path, char *ret_path, size_t bytes)
{
	char here[PATH_MAX];
	int length;

	if (path[0] == '/') {
		length = snprintf(ret_path, bytes, "%s", path);
	} else {
		if (!getcwd(here, sizeof(here)))
			return -errno;
		length = snprintf(ret_path, bytes, "%s/%s", here, path);
	}
	return length < 0 || (size_t)length >= bytes ? -ENAMETOOLONG : 0;
}

/* --- the library --- */

static int own_directory(char *ret_path, size_t bytes)
{
	ssize_t length = readlink("/proc/self/exe", ret_path, bytes - 1);
	char *slash;

	if (length < 0)
		return -errno;
	ret_path[length] = '\0';
	slash = strrchr(ret_path, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

/* First readable file that matches. */
static int match(const char *directory, const char *pattern, char *ret_path, size_t bytes)
{
	char full[PATH_MAX];
	glob_t found;
	int rc = -ENOENT;

	if (snprintf(full, sizeof(full), "%s/%s", directory, pattern) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	if (glob(full, 0, NULL, &found) != 0)
		return -ENOENT;
	for (size_t i = 0; i < found.gl_pathc && rc < 0; i++) {
		char real[PATH_MAX];

		if (!realpath(found.gl_pathv[i], real) || access(real, R_OK) < 0)
			continue;
		rc = absolute(real, ret_path, bytes);
	}
	globfree(&found);
	return rc;
}

static int find_beside(char *ret_path, size_t bytes)
{
	static const char *const places[] = {
		"../lib/" LIBRARY_NAME, "../lib64/" LIBRARY_NAME, "../lib/*/" LIBRARY_NAME,
		"../../interpose/" LIBRARY_NAME, /* build tree */
	};
	char directory[PATH_MAX];
	int rc = own_directory(directory, sizeof(directory));

	for (size_t i = 0; rc == 0 && i < sizeof(places) / sizeof(places[0]); i++)
		if (match(directory, places[i], ret_path, bytes) == 0)
			return 0;
	return rc < 0 ? rc : -ENOENT;
}

int nspy_find_library(const char *given, char *ret_path, size_t bytes)
{
	char found[PATH_MAX] = "";
	int rc;

	if (given) {
		rc = absolute(given, found, sizeof(found));
		if (rc == 0 && access(found, R_OK) < 0)
			rc = -errno;
	} else {
		rc = find_beside(found, sizeof(found));
	}
	if (rc < 0)
		return rc;
	if (strpbrk(found, ": \t\n"))
		return -EINVAL;
	return absolute(found, ret_path, bytes);
}

/* --- the directory --- */

int nspy_trace_root(const char *given, char *ret_path, size_t bytes)
{
	const char *path = given ? given : getenv("NCCLSPY_DIR");
	const char *temporary = getenv("TMPDIR");
	char fallback[PATH_MAX];

	if (!path || !*path) {
		int length = snprintf(fallback, sizeof(fallback), "%s/ncclspy-%lu",
				      temporary && *temporary ? temporary : "/tmp",
				      (unsigned long)getuid());

		if (length < 0 || (size_t)length >= sizeof(fallback))
			return -ENAMETOOLONG;
		path = fallback;
	}
	return absolute(path, ret_path, bytes);
}

/* --- variables --- */

bool nspy_switched_off(void)
{
	const char *value = getenv("NCCLSPY");

	return value && strcmp(value, "0") == 0;
}

static bool lists(const char *preload, const char *library)
{
	size_t bytes = strlen(library);

	for (const char *at = preload; *at; at += strcspn(at, ": ")) {
		at += strspn(at, ": ");
		if (strcspn(at, ": ") == bytes && memcmp(at, library, bytes) == 0)
			return true;
	}
	return false;
}

/* Others come first: allocators and sanitizers insist on it, and we do not mind. */
static int add_preload(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *joined;
	int rc = 0;

	if (!before || !*before)
		return setenv("LD_PRELOAD", library, 1) < 0 ? -errno : 0;
	if (lists(before, library))
		return 0;
	if (asprintf(&joined, "%s:%s", before, library) < 0)
		return -ENOMEM;
	if (setenv("LD_PRELOAD", joined, 1) < 0)
		rc = -errno;
	free(joined);
	return rc;
}

/* --- the profiler plugin --- */

#define PROFILER_NAME "libnccl-profiler.so"

static bool in_path(const char *path)
{
	char file[PATH_MAX];

	for (const char *at = path; at && *at;) {
		size_t bytes = strcspn(at, ":;");

		if (bytes &&
		    snprintf(file, sizeof(file), "%.*s/" PROFILER_NAME, (int)bytes, at) <
			    (int)sizeof(file) &&
		    access(file, F_OK) == 0)
			return true;
		at += bytes;
		at += *at != '\0';
	}
	return false;
}

/* The loader's cache holds names as plain text. */
static bool in_cache(void)
{
	FILE *cache = fopen("/etc/ld.so.cache", "re");
	char *text = NULL;
	size_t bytes = 0;
	bool found = false;

	if (!cache)
		return false;
	while (!found && getdelim(&text, &bytes, '\0', cache) > 0)
		found = strcmp(text, PROFILER_NAME) == 0;
	free(text);
	(void)fclose(cache);
	return found;
}

/*
 * NCCL loads a plugin of this name without being told to: it is the user's, and the library wraps
 * it.
 */
static bool has_default_profiler(void)
{
	return in_path(getenv("LD_LIBRARY_PATH")) || in_cache() ||
	       in_path("/lib:/lib64:/usr/lib:/usr/lib64");
}

/*
 * If asked for, and where the user has no plugin of his own, NCCL is to look for one in what is
 * loaded: in us.
 */
static int choose_profiler(void)
{
	const char *wanted = getenv("NCCLSPY_PROFILER"), *theirs = getenv("NCCL_PROFILER_PLUGIN");

	if (!wanted || !*wanted || strcmp(wanted, "none") == 0 || theirs || has_default_profiler())
		return 0;
	return setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 1) < 0 ? -errno : 0;
}

int nspy_apply_environment(const struct nspy_launch *launch)
{
	const char *directory = getenv("NCCLSPY_DIR");
	int rc = 0;

	if (launch->preload[0])
		rc = add_preload(launch->preload);
	if (rc == 0 && launch->preload[0])
		rc = choose_profiler();
	/* Without -o and NCCLSPY_DIR the library's own default (and its smaller limits) holds. */
	if (rc == 0 && (launch->directory || (directory && *directory)) &&
	    setenv("NCCLSPY_DIR", launch->trace_root, 1) < 0)
		rc = -errno;
	if (rc == 0 && launch->job && setenv("NCCLSPY_JOB", launch->job, 1) < 0)
		rc = -errno;
	if (rc == 0 && launch->quiet && setenv("NCCLSPY_QUIET", "1", 1) < 0)
		rc = -errno;
	return rc;
}

/* --- where it belongs --- */

const char *nspy_misplaced(const char *command)
{
	static const struct {
		const char *name;
		const char *advice;
	} starters[] = {
		{"srun", "srun [options] ncclspy-run -- PROGRAM"},
		{"salloc", "salloc [options], then srun [options] ncclspy-run -- PROGRAM"},
		{"sbatch", "inside the batch script: srun [options] ncclspy-run -- PROGRAM"},
		{"mpirun", "mpirun [options] ncclspy-run -- PROGRAM"},
		{"mpiexec", "mpiexec [options] ncclspy-run -- PROGRAM"},
		{"orterun", "orterun [options] ncclspy-run -- PROGRAM"},
		{"prterun", "prterun [options] ncclspy-run -- PROGRAM"},
		{"kubectl",
		 "in the container's command: [\"ncclspy-run\", \"--\", \"PROGRAM\", ...]"},
		{"docker", "docker run [options] IMAGE ncclspy-run -- PROGRAM"},
		{"podman", "podman run [options] IMAGE ncclspy-run -- PROGRAM"},
		{"ssh", "ssh HOST ncclspy-run -- PROGRAM"},
		{"pdsh", "pdsh -w HOSTS ncclspy-run -- PROGRAM"},
	};
	const char *slash = strrchr(command, '/');
	const char *name = slash ? slash + 1 : command;

	for (size_t i = 0; i < sizeof(starters) / sizeof(starters[0]); i++)
		if (strcmp(name, starters[i].name) == 0)
			return starters[i].advice;
	return NULL;
}
