/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What may appear in a trace. Prefixes whose variables configure NCCL and what lies below it, and
 * single names of launchers; nothing that could hold a secret.
 */
static const char *const allowed_prefixes[] = {
	"NCCL_", "NCCLSPY", "TORCH_NCCL_", "FI_", "OFI_NCCL_",
};
static const char *const allowed_names[] = {
	"CUDA_VISIBLE_DEVICES",
	"CUDA_DEVICE_MAX_CONNECTIONS",
	"CUDA_LAUNCH_BLOCKING",
	"CUDA_MODULE_LOADING",
	"NVIDIA_VISIBLE_DEVICES",
	"RANK",
	"LOCAL_RANK",
	"WORLD_SIZE",
	"LOCAL_WORLD_SIZE",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_RESTART_COUNT",
	"SLURM_JOB_ID",
	"SLURM_ARRAY_TASK_ID",
	"SLURM_PROCID",
	"SLURM_NTASKS",
	"SLURM_NNODES",
	"SLURM_LOCALID",
	"SLURMD_NODENAME",
	"SLURM_RESTART_COUNT",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"OMP_NUM_THREADS",
};

static bool text_to_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < min || value > max)
		return false;
	*ret = value;
	return true;
}

static void note_bad(struct nspy_env *env, const char *name, const char *text)
{
	if (!env->bad[0])
		(void)snprintf(env->bad, sizeof(env->bad), "%s=%.60s", name, text);
}

static void read_switch(struct nspy_env *env, bool *ret, const char *name, bool def)
{
	const char *text = nspy_env_get(name);
	uint64_t value;

	*ret = def;
	if (!text)
		return;
	if (text_to_number(text, 0, 1, &value))
		*ret = value;
	else
		note_bad(env, name, text);
}

static void read_number(struct nspy_env *env, uint64_t *ret, const char *name, uint64_t def,
			uint64_t min, uint64_t max)
{
	const char *text = nspy_env_get(name);

	*ret = def;
	if (text && !text_to_number(text, min, max, ret))
		note_bad(env, name, text);
}

static void read_text(char *ret, const char *name, const char *def)
{
	const char *text = nspy_env_get(name);

	(void)snprintf(ret, NSPY_ENV_TEXT_MAX, "%s", text ? text : def);
}

#define READ_switch(name, def, min, max) read_switch(ret, &ret->name, #name, def)
#define READ_number(name, def, min, max) read_number(ret, &ret->name, #name, def, min, max)
#define READ_text(name, def, min, max)   read_text(ret->name, #name, def)

void nspy_env_read(struct nspy_env *ret)
{
	int saved = errno;

	ret->bad[0] = '\0';
#define NSPY_ENV(name, type, def, min, max, help) READ_##type(name, def, min, max);
#include "env.def"
#undef NSPY_ENV
	errno = saved;
}

const char *nspy_env_get(const char *name)
{
	/* Not getenv: a set-user-id program must not be steered by its caller. */
	const char *value = secure_getenv(name);

	return value && value[0] ? value : NULL;
}

bool nspy_env_killed(void)
{
	const char *value = nspy_env_get("NCCLSPY");

	return value && strcmp(value, "0") == 0;
}

static bool is_allowed(const char *pair)
{
	size_t name_bytes = strcspn(pair, "=");

	for (size_t i = 0; i < sizeof(allowed_prefixes) / sizeof(allowed_prefixes[0]); i++)
		if (strncmp(pair, allowed_prefixes[i], strlen(allowed_prefixes[i])) == 0)
			return true;
	for (size_t i = 0; i < sizeof(allowed_names) / sizeof(allowed_names[0]); i++)
		if (strlen(allowed_names[i]) == name_bytes &&
		    memcmp(pair, allowed_names[i], name_bytes) == 0)
			return true;
	return false;
}

const char *nspy_env_next_allowed(size_t *cursor)
{
	while (environ && environ[*cursor]) {
		const char *pair = environ[(*cursor)++];

		if (is_allowed(pair))
			return pair;
	}
	return NULL;
}
