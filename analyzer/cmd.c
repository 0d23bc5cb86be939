/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <stdio.h>

int nspy_cmd_try_help(const struct nspy_cmd *cmd)
{
	fprintf(stderr, "Try 'ncclspy-analyze %s --help' for more information.\n", cmd->name);
	return NSPY_EXIT_USAGE;
}
