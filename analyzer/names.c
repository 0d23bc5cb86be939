/* SPDX-License-Identifier: Apache-2.0 */
/* Names that all traces of a job share: functions, datatypes, results. */
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "text.h"

/*
 * Calls that are one operation to the other ranks: ncclBcast is ncclBroadcast in place, and the
 * ...Config forms only add options of the calling rank.
 */
static char *peer_name(const char *name)
{
	size_t bytes = strlen(name);

	if (strcmp(name, "ncclBcast") == 0)
		return nspy_xstrdup("ncclBroadcast");
	if (bytes > 6 && strcmp(name + bytes - 6, "Config") == 0)
		return nspy_xstrndup(name, bytes - 6);
	return nspy_xstrdup(name);
}

static uint16_t find_fn(const struct nspy_model *model, const char *name)
{
	for (size_t i = 1; i < model->fn_count; i++) {
		if (strcmp(model->fns[i].name, name) == 0)
			return (uint16_t)i;
	}
	return 0;
}

static uint8_t spent_on(enum nspy_model_lib lib, unsigned int klass)
{
	if (klass == NSPY_CLASS_SYNC)
		return NSPY_SPENT_WAITING;
	return lib == NSPY_MODEL_NCCL ? NSPY_SPENT_NCCL : NSPY_SPENT_OTHER;
}

static uint16_t add_fn(struct nspy_model *model, const char *name, enum nspy_model_lib lib,
		       unsigned int klass, bool fallible)
{
	uint16_t id = find_fn(model, name);

	if (id || model->fn_count == NSPY_FNS_MAX)
		return id;
	id = (uint16_t)model->fn_count;
	model->fns[id] = (struct nspy_fn){
		.name = nspy_xstrdup(name),
		.klass = klass < NSPY_CLASS_COUNT ? (uint8_t)klass : NSPY_CLASS_OTHER,
		.lib = (uint8_t)lib,
		.fallible = fallible,
		.spent = spent_on(lib, klass),
		.device = strcmp(name, "cudaDeviceSynchronize") == 0,
		.replays = strcmp(name, "cudaGraphLaunch") == 0,
		.canon = id,
	};
	/* Readers of other threads see the entry only through an id they got under the lock. */
	model->fn_count++;
	return id;
}

uint16_t nspy_model_fn(struct nspy_model *model, const char *name, enum nspy_model_lib lib,
		       unsigned int klass, bool fallible)
{
	char *clean = nspy_xstrdup(name);
	char *peers;
	uint16_t id, canon;

	nspy_clean(clean);
	pthread_mutex_lock(&model->lock);
	id = find_fn(model, clean);
	if (!id) {
		peers = peer_name(clean);
		id = add_fn(model, clean, lib, klass, fallible);
		canon = add_fn(model, peers, lib, klass, fallible);
		if (id && canon)
			model->fns[id].canon = canon;
		free(peers);
	}
	pthread_mutex_unlock(&model->lock);
	free(clean);
	return id;
}

void nspy_model_name_type(struct nspy_model *model, uint8_t type, const char *name)
{
	pthread_mutex_lock(&model->lock);
	if (!model->type_names[type]) {
		char *clean = nspy_xstrdup(name);

		nspy_clean(clean);
		model->type_names[type] = clean;
	}
	pthread_mutex_unlock(&model->lock);
}

static uint64_t result_key(enum nspy_model_lib lib, int code)
{
	return (uint64_t)lib << 32 | (uint32_t)code;
}

void nspy_model_name_result(struct nspy_model *model, enum nspy_model_lib lib, int code,
			    const char *name)
{
	uint64_t key = result_key(lib, code);

	pthread_mutex_lock(&model->lock);
	if (!nspy_map_get(&model->result_names, key) && model->result_names.count < 4096) {
		char *clean = nspy_xstrdup(name);

		nspy_clean(clean);
		nspy_map_put(&model->result_names, key, clean);
	}
	pthread_mutex_unlock(&model->lock);
}

const char *nspy_model_result(const struct nspy_model *model, enum nspy_model_lib lib, int code)
{
	const char *name = nspy_map_get(&model->result_names, result_key(lib, code));

	return name ? name : "unknown code";
}
