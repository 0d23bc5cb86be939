/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "identity.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "comm.h"
#include "procfs.h"
#include "trace_encode.h"

/* Variables in the order in which they are believed. torchrun under srun sets both kinds, and its
 * own are the right ones. */
static const char *const rank_names[] = {
	"RANK",         "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
	"SLURM_PROCID", "JOB_COMPLETION_INDEX", NULL,
};
static const char *const world_names[] = {
	"WORLD_SIZE",          "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PMI_SIZE",
	"MV2_COMM_WORLD_SIZE", "SLURM_NTASKS",         NULL,
};
static const char *const local_rank_names[] = {
	"LOCAL_RANK",      "OMPI_COMM_WORLD_LOCAL_RANK",
	"MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK",
	"SLURM_LOCALID",   NULL,
};
static const char *const local_world_names[] = {
	"LOCAL_WORLD_SIZE",
	"OMPI_COMM_WORLD_LOCAL_SIZE",
	"MPI_LOCALNRANKS",
	"MV2_COMM_WORLD_LOCAL_SIZE",
	NULL,
};

static int first_number(const char *const *names, const char **ret_name)
{
	for (; *names; names++) {
		const char *text = nspy_env_get(*names);
		char *end;
		long value;

		if (!text)
			continue;
		value = strtol(text, &end, 10);
		if (end == text || *end || value < 0 || value > INT_MAX)
			continue;
		if (ret_name)
			*ret_name = *names;
		return (int)value;
	}
	return -1;
}

/* A name becomes one path component: no slash, no leading dot, nothing a terminal would act on. */
static void copy_name(char *ret, size_t bytes, const char *text)
{
	size_t n = 0;

	for (; *text && n + 1 < bytes; text++) {
		unsigned char c = (unsigned char)*text;

		ret[n] = isalnum(c) || c == '-' || c == '_' || (c == '.' && n) ? (char)c : '_';
		n++;
	}
	ret[n] = '\0';
}

static void find_job(struct nspy_identity *id, const char **ret_source)
{
	static const char *const names[] = {"JOB_NAME", "PBS_JOBID", "LSB_JOBID", NULL};
	const char *slurm = nspy_env_get("SLURM_JOB_ID");
	const char *array_job = nspy_env_get("SLURM_ARRAY_JOB_ID");
	const char *array_task = nspy_env_get("SLURM_ARRAY_TASK_ID");
	const char *elastic = nspy_env_get("TORCHELASTIC_RUN_ID");
	const char *addr = nspy_env_get("MASTER_ADDR");
	const char *port = nspy_env_get("MASTER_PORT");
	char text[256];

	*ret_source = "NCCLSPY_JOB";
	copy_name(id->job, sizeof(id->job), nspy_core.env.NCCLSPY_JOB);
	if (id->job[0])
		return;
	if (slurm) {
		*ret_source = "SLURM_JOB_ID";
		if (array_job && array_task)
			(void)snprintf(text, sizeof(text), "%s_%s", array_job, array_task);
		else
			(void)snprintf(text, sizeof(text), "%s", slurm);
		copy_name(id->job, sizeof(id->job), text);
		return;
	}
	for (const char *const *name = names; *name; name++)
		if (nspy_env_get(*name)) {
			*ret_source = *name;
			copy_name(id->job, sizeof(id->job), nspy_env_get(*name));
			return;
		}
	if (elastic && strcmp(elastic, "none") != 0) {
		*ret_source = "TORCHELASTIC_RUN_ID";
		copy_name(id->job, sizeof(id->job), elastic);
	} else if (addr) {
		*ret_source = "MASTER_ADDR";
		(void)snprintf(text, sizeof(text), "%s_%s", addr, port ? port : "0");
		copy_name(id->job, sizeof(id->job), text);
	} else {
		*ret_source = "none";
		copy_name(id->job, sizeof(id->job), "job");
	}
}

static void find_node(struct nspy_identity *id)
{
	const char *named = nspy_env_get("NODE_NAME");
	char host[NSPY_NAME_MAX] = "";

	if (!named)
		named = nspy_env_get("SLURMD_NODENAME");
	if (!named) {
		(void)gethostname(host, sizeof(host) - 1);
		named = host[0] ? host : "localhost";
	}
	copy_name(id->node, sizeof(id->node), named);
}

static void find_paths(struct nspy_identity *id, const char *boot_id)
{
	const char *dir = nspy_core.env.NCCLSPY_DIR;
	const char *tmp = nspy_env_get("TMPDIR");
	char root[NSPY_ENV_TEXT_MAX];
	char cwd[NSPY_ENV_TEXT_MAX / 2] = "";

	id->node_local = !dir[0];
	if (id->node_local)
		(void)snprintf(root, sizeof(root), "%.400s/ncclspy-%u", tmp ? tmp : "/tmp",
			       id->uid);
	else if (dir[0] == '/' || !getcwd(cwd, sizeof(cwd)))
		(void)snprintf(root, sizeof(root), "%s", dir);
	else /* the application may change its directory later */
		(void)snprintf(root, sizeof(root), "%s/%.200s", cwd, dir);
	(void)snprintf(id->dir, sizeof(id->dir), "%s/%s/%s", root, id->job, id->node);
	(void)snprintf(id->base, sizeof(id->base), "%.700s/%.8s.%llu.%u.%llu", id->dir, boot_id,
		       (unsigned long long)id->pidns, id->pid, (unsigned long long)id->starttime);
	(void)snprintf(id->live_path, sizeof(id->live_path),
		       "/dev/shm/ncclspy.%u.%016llx.%llu.%u.%016llx.live", id->uid,
		       (unsigned long long)nspy_hash(id->job, strlen(id->job), 0),
		       (unsigned long long)id->pidns, id->pid, (unsigned long long)id->run_id);
}

static uint64_t random_id(void)
{
	uint64_t id = 0;

	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id) || id == 0)
		id = nspy_monotonic_ns() ^ (uint64_t)getpid() << 40;
	return id;
}

void nspy_identity_find(struct nspy_identity *id)
{
	const char *source;
	char boot_id[64];

	memset(id, 0, sizeof(*id));
	id->pid = (uint32_t)getpid();
	id->uid = (uint32_t)getuid();
	id->run_id = random_id();
	id->pidns = nspy_proc_pid_namespace();
	id->starttime = nspy_proc_starttime();
	id->rank = first_number(rank_names, NULL);
	id->world_size = first_number(world_names, NULL);
	id->local_world_size = first_number(local_world_names, NULL);
	nspy_proc_boot_id(boot_id, sizeof(boot_id));
	find_job(id, &source);
	find_node(id);
	find_paths(id, boot_id);
}

struct facts {
	uint8_t *payload;
	size_t capacity;
	size_t *used;
};

static void fact(struct facts *f, const char *key, const char *value)
{
	if (value && value[0])
		(void)nspy_ident_put(f->payload, f->capacity, f->used, key, value);
}

static void fact_number(struct facts *f, const char *key, long long value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%lld", value);
	fact(f, key, text);
}

static void fact_from_variables(struct facts *f)
{
	static const struct {
		const char *key, *name;
	} from[] = {
		{"pod", "POD_NAME"},
		{"namespace", "POD_NAMESPACE"},
		{"attempt.hint", "TORCHELASTIC_RESTART_COUNT"},
		{"attempt.hint", "SLURM_RESTART_COUNT"},
	};

	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		fact(f, from[i].key, nspy_env_get(from[i].name));
}

static void fact_allowed_variables(struct facts *f)
{
	size_t cursor = 0;
	const char *pair;

	while ((pair = nspy_env_next_allowed(&cursor)) != NULL) {
		const char *equals = strchr(pair, '=');
		char key[160];

		if (!equals || equals - pair > 128)
			continue;
		(void)snprintf(key, sizeof(key), "env.%.*s", (int)(equals - pair), pair);
		fact(f, key, equals + 1);
	}
}

static void fact_machine(struct facts *f)
{
	char text[NSPY_PATH_MAX];

	if (gethostname(text, sizeof(text) - 1) == 0)
		fact(f, "host", text);
	nspy_proc_boot_id(text, sizeof(text));
	fact(f, "boot_id", text);
	if (nspy_proc_read("/sys/devices/virtual/dmi/id/board_asset_tag", text, sizeof(text)) > 0 &&
	    strncmp(text, "i-", 2) == 0)
		fact(f, "instance.id", text);
	if (nspy_proc_read("/sys/devices/virtual/dmi/id/product_name", text, sizeof(text)) > 0)
		fact(f, "instance.type", text);
	if (nspy_proc_exe(text, sizeof(text)))
		fact(f, "exe", text);
	nspy_proc_cmdline(text, sizeof(text));
	fact(f, "cmdline", text);
}

void nspy_identity_facts(const struct nspy_identity *id, uint8_t *payload, size_t capacity,
			 size_t *used)
{
	struct facts f = {payload, capacity, used};
	const char *job_source, *rank_source = NULL;
	struct nspy_identity again;
	char text[32];

	memcpy(&again, id, sizeof(again));
	find_job(&again, &job_source);
	fact(&f, "ncclspy.version", NSPY_VERSION);
	(void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)id->run_id);
	fact(&f, "run_id", text);
	fact(&f, "job", id->job);
	fact(&f, "job.source", job_source);
	if (nspy_core.env.NCCLSPY_TAG[0])
		fact(&f, "job.tag", nspy_core.env.NCCLSPY_TAG);
	fact(&f, "node", id->node);
	fact_machine(&f);
	fact_number(&f, "pidns", (long long)id->pidns);
	fact_number(&f, "pid", id->pid);
	fact_number(&f, "starttime", (long long)id->starttime);
	fact_number(&f, "uid", id->uid);
	if (first_number(rank_names, &rank_source) >= 0) {
		fact_number(&f, "rank", id->rank);
		fact(&f, "rank.source", rank_source);
	}
	if (id->world_size >= 0)
		fact_number(&f, "world_size", id->world_size);
	if (first_number(local_rank_names, NULL) >= 0)
		fact_number(&f, "local_rank", first_number(local_rank_names, NULL));
	if (id->local_world_size >= 0)
		fact_number(&f, "local_world_size", id->local_world_size);
	fact(&f, "trace.base", id->base);
	fact(&f, "live.path", id->live_path);
	fact(&f, "dir.node_local", id->node_local ? "1" : "0");
	fact_from_variables(&f);
	fact_allowed_variables(&f);
}
