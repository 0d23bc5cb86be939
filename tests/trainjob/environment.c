/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a rank: what launchers set, and --env on top of it. */
#include "trainjob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_number(const char *name, int value)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* `R`, `R-S` or `any` before the colon; the text after it, or NULL. */
static const char *parse_ranks(const char *text, long *ret_first, long *ret_last)
{
	char *end;

	if (strncmp(text, "any:", 4) == 0) {
		*ret_first = 0;
		*ret_last = MAX_RANKS - 1;
		return text + 4;
	}
	*ret_first = *ret_last = strtol(text, &end, 10);
	if (end == text)
		return NULL;
	if (*end == '-') {
		text = end + 1;
		*ret_last = strtol(text, &end, 10);
		if (end == text)
			return NULL;
	}
	if (*end != ':' || *ret_first < 0 || *ret_first > *ret_last || *ret_last >= MAX_RANKS)
		return NULL;
	return end + 1;
}

bool job_env_valid(const char *text)
{
	long first, last;
	const char *rest = parse_ranks(text, &first, &last);

	return rest && *rest != '=' && strchr(rest, '=');
}

static void set_from_option(const char *text, int rank, int ranks_per_process)
{
	long first, last;
	const char *rest = parse_ranks(text, &first, &last);
	const char *equals = rest ? strchr(rest, '=') : NULL;
	char *name;

	if (!equals || first >= rank + ranks_per_process || last < rank)
		return;
	name = strndup(rest, (size_t)(equals - rest));
	if (name)
		setenv(name, equals + 1, 1);
	free(name);
}

/* What torchrun and its like give a rank. */
void job_set_environment(const struct job_options *options, int rank)
{
	int node_size = options->node_size > 0 ? options->node_size : options->ranks;
	char node[32];

	set_number("RANK", rank);
	set_number("WORLD_SIZE", options->ranks);
	set_number("LOCAL_RANK", rank % node_size);
	set_number("LOCAL_WORLD_SIZE", node_size);
	setenv("MASTER_ADDR", "127.0.0.1", 0);
	setenv("MASTER_PORT", "29500", 0);
	if (options->node_size > 0) {
		snprintf(node, sizeof(node), "node-%d", rank / node_size);
		setenv("NODE_NAME", node, 1);
		setenv("NCCL_HOSTID", node, 1);
	}
	if (!getenv("NSPY_FAKE_GPUS"))
		set_number("NSPY_FAKE_GPUS", node_size < 8 ? 8 : node_size > 64 ? 64 : node_size);
	for (int i = 0; i < options->env_count; i++)
		set_from_option(options->env[i], rank, options->ranks_per_process);
}
