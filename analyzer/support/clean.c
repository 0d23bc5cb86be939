/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define REDACTOR "ncclspy-redact"

FILE *nspy_support_temporary(void)
{
	FILE *file = tmpfile();

	if (!file) {
		fprintf(stderr, "ncclspy-analyze: no temporary file: %s\n", strerror(errno));
		exit(4);
	}
	return file;
}

/* Exit status, or negative errno. */
static int run(const char *program, const char *const *command, int in, int out, int err)
{
	posix_spawn_file_actions_t actions;
	int rc, status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	if (in < 0)
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	else
		posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, err, 2);
	rc = posix_spawn(&pid, program, &actions, NULL, (char *const *)command, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		return -rc;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int nspy_support_run(const struct nspy_support *s, const char *const *command, FILE *out, FILE *err)
{
	const char **all;
	size_t count = 0;
	int rc;

	while (command[count])
		count++;
	all = nspy_xcalloc(count + (size_t)s->argument_count + 3, sizeof(*all));
	all[0] = "ncclspy-analyze";
	memcpy(all + 1, command, count * sizeof(*all));
	all[count + 1] = "--";
	if (s->argument_count)
		memcpy(all + count + 2, s->arguments, (size_t)s->argument_count * sizeof(*all));
	rc = run("/proc/self/exe", all, -1, fileno(out), fileno(err));
	free(all);
	return rc;
}

char *nspy_support_redactor(void)
{
	/* Beside this program when installed, in its own folder of the build tree. */
	static const char *const places[] = {"", "../tools/collect/"};
	char here[4096], *path, *dirs, *dir, *save = NULL;
	ssize_t bytes = readlink("/proc/self/exe", here, sizeof(here) - 1);
	const char *variable = getenv("PATH");

	here[bytes > 0 ? bytes : 0] = '\0';
	for (size_t i = 0; strrchr(here, '/') && i < nspy_array_size(places); i++) {
		int folder = (int)(strrchr(here, '/') - here);

		path = nspy_xasprintf("%.*s/%s" REDACTOR, folder, here, places[i]);
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	dirs = nspy_xstrdup(variable ? variable : "");
	path = NULL;
	for (dir = strtok_r(dirs, ":", &save); dir && !path; dir = strtok_r(NULL, ":", &save)) {
		path = nspy_xasprintf("%s/" REDACTOR, dir);
		if (access(path, X_OK) == 0)
			break;
		free(path);
		path = NULL;
	}
	free(dirs);
	return path;
}

char *nspy_support_clean(const struct nspy_support *s, FILE *raw, const char *kind,
			 size_t *ret_bytes, const char **ret_why)
{
	const char *const command[] = {REDACTOR, kind, NULL};
	FILE *out = nspy_support_temporary(), *err = nspy_support_temporary();
	char *text = NULL;
	long size;
	int rc;

	*ret_bytes = 0;
	*ret_why = "the redactor could not be run";
	fflush(raw);
	if (lseek(fileno(raw), 0, SEEK_SET) == 0)
		rc = run(s->redactor, command, fileno(raw), fileno(out), fileno(err));
	else
		rc = -errno;
	if (rc > 0)
		*ret_why = "not of the kind that its name says, so secrets in it cannot be found";
	if (rc == 0 && fseek(out, 0, SEEK_END) == 0 && (size = ftell(out)) >= 0) {
		rewind(out);
		text = nspy_xmalloc((size_t)size + 1);
		*ret_bytes = fread(text, 1, (size_t)size, out);
		text[*ret_bytes] = '\0';
	}
	(void)fclose(out);
	(void)fclose(err);
	return text;
}
