/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

int nspy_cmd_try_help(const struct nspy_cmd *cmd)
{
	fprintf(stderr, "Try 'ncclspy-analyze %s --help' for more information.\n", cmd->name);
	return NSPY_EXIT_USAGE;
}

bool nspy_cmd_level(const char *text, int *ret_level)
{
	static const char *const names[] = {"P0", "P1", "P2"};

	for (int i = 0; i < 3; i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret_level = i;
			return true;
		}
	}
	*ret_level = -1;
	return strcmp(text, "none") == 0;
}
