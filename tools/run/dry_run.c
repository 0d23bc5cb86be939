/* SPDX-License-Identifier: Apache-2.0 */
/* --dry-run: the command as a shell would be told it, with the environment that it would get. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

char **nspy_environment_copy(void)
{
	size_t count = 0;
	char **copy;

	while (environ[count])
		count++;
	copy = calloc(count + 1, sizeof(*copy));
	if (copy)
		memcpy(copy, environ, count * sizeof(*copy));
	return copy;
}

static bool was_there(char *const *before, const char *variable)
{
	for (; *before; before++) {
		if (strcmp(*before, variable) == 0)
			return true;
	}
	return false;
}

/* What a shell takes as one word. */
static void print_word(const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_-./:=,+@%";

	if (*word && !word[strspn(word, plain)]) {
		(void)fputs(word, stdout);
		return;
	}
	(void)putchar('\'');
	for (; *word; word++) {
		if (*word == '\'')
			(void)fputs("'\\''", stdout);
		else
			(void)putchar(*word);
	}
	(void)putchar('\'');
}

int nspy_print_launch(char *const *before, char *const *command)
{
	(void)fputs("env", stdout);
	for (char **variable = environ; *variable; variable++) {
		if (was_there(before, *variable))
			continue;
		(void)putchar(' ');
		print_word(*variable);
	}
	for (; *command; command++) {
		(void)putchar(' ');
		print_word(*command);
	}
	(void)putchar('\n');
	return fflush(stdout) == 0 ? 0 : -errno;
}
