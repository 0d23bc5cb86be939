/* SPDX-License-Identifier: Apache-2.0 */
/* Creating communicators from unique ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct init_args {
	const char *caller;
	ncclUniqueId id;
	ncclComm_t *newcomm;
};

FAKE_NCCL_API(ncclResult_t, GetUniqueId, (ncclUniqueId * id))
{
	if (!id) {
		WARN("misc/argcheck.cc", "%s : %s argument is NULL", "GetUniqueId", "out");
		return ncclInvalidArgument;
	}
	return fake_bootstrap_create(id);
}

/* What the lines say; the network itself is always the same. */
const char *fake_network_name(void)
{
	const char *name = getenv("NSPY_FAKE_NET");

	return name && *name ? name : "Socket";
}

/* The lines a plain installation without InfiniBand and plugins prints. */
static void log_network(void)
{
	const char *name = fake_network_name();
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool told;
	union fake_address address;
	char text[256];

	pthread_mutex_lock(&lock);
	if (!told && fake_interface(&address, text, sizeof(text)) == 0) {
		fake_info(FAKE_LOG_INIT | FAKE_LOG_NET,
			  "NET/Plugin: Could not find: libnccl-net.so");
		fake_info(FAKE_LOG_INIT | FAKE_LOG_NET, "NET/IB : No device found.");
		fake_info(FAKE_LOG_INIT | FAKE_LOG_NET, "NET/Socket : Using [0]%s", text);
		fake_info(FAKE_LOG_INIT | FAKE_LOG_NET, "Initialized NET plugin %s", name);
		told = true;
	}
	pthread_mutex_unlock(&lock);
	fake_info(FAKE_LOG_INIT | FAKE_LOG_NET, "Assigned NET plugin %s to comm", name);
	fake_info(FAKE_LOG_INIT, "Using network %s", name);
}

static void log_init(const struct ncclComm *comm, const char *caller, const char *what)
{
	fake_info(FAKE_LOG_INIT,
		  "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx commId 0x%llx - "
		  "Init %s",
		  caller, (const void *)comm, comm->rank, comm->nranks, comm->device, comm->device,
		  (unsigned long)(0x10 + comm->device) << 12, (unsigned long long)comm->hash, what);
}

static ncclResult_t run_init(struct fake_job *job)
{
	struct init_args *args = job->args;
	struct ncclComm *comm = job->comm;
	uint64_t begun = fake_now_ns();
	ncclResult_t result;
	double total;

	comm->hash = fake_hash(3, &args->id, sizeof(args->id));
	result = fake_bootstrap_ready();
	if (comm->rank == 0)
		fake_log_version();
	log_network();
	log_init(comm, args->caller, "START");
	if (result == ncclSuccess)
		result = fake_comm_allocate(comm);
	if (result == ncclSuccess)
		result = fake_bootstrap_join(comm, &args->id);
	if (result == ncclSuccess)
		result = fake_check_peers(comm);
	if (result != ncclSuccess) {
		if (comm->blocking) {
			*args->newcomm = NULL;
			fake_comm_put(comm);
		}
		return result;
	}
	fake_links_register(comm);
	fake_rail_connect(comm);
	fake_log_topology(comm);
	log_init(comm, args->caller, "COMPLETE");
	total = (double)(fake_now_ns() - begun) / 1e9;
	fake_info(FAKE_LOG_INIT,
		  "Init timings - %s: rank %d nranks %d total %.2f (kernels %.2f, alloc %.2f, "
		  "bootstrap %.2f, allgathers %.2f, topo %.2f, graphs %.2f, connections %.2f, "
		  "rest %.2f)",
		  args->caller, comm->rank, comm->nranks, total, 0.0, 0.0, total, 0.0, 0.0, 0.0,
		  0.0, 0.0);
	return ncclSuccess;
}

static ncclResult_t check_args(const void *newcomm, int nranks, int rank)
{
	if (!newcomm) {
		WARN("misc/argcheck.cc", "%s : %s argument is NULL", "CommInitRank", "newcomm");
		return ncclInvalidArgument;
	}
	if (nranks < 1 || rank < 0 || rank >= nranks) {
		WARN("init.cc", "Invalid rank requested : %d/%d", rank, nranks);
		return ncclInvalidArgument;
	}
	if (fake_gpu_count() == 0) {
		WARN("init.cc", "Cuda failure 'no CUDA-capable device is detected'");
		return ncclUnhandledCudaError;
	}
	return ncclSuccess;
}

static ncclResult_t init(const char *caller, ncclComm_t *newcomm, int nranks,
			 const ncclUniqueId *id, int rank, const ncclConfig_t *config)
{
	struct init_args *args;
	struct fake_job *job;
	struct ncclComm *comm;
	ncclResult_t result = check_args(newcomm, nranks, rank);

	if (result == ncclSuccess)
		result = fake_config_check(config);
	if (result != ncclSuccess)
		return fake_group_note(result);
	comm = fake_comm_new(nranks, rank, config, NULL);
	result = fake_call_fault(comm, FAKE_OP_INIT, NULL);
	if (result != ncclSuccess) {
		fake_comm_put(comm);
		return fake_group_note(result);
	}
	args = calloc(1, sizeof(*args));
	job = calloc(1, sizeof(*job));
	if (!args || !job)
		abort();
	*args = (struct init_args){caller, *id, newcomm};
	*job = (struct fake_job){.comm = comm, .run = run_init, .args = args};
	*newcomm = comm;
	return fake_group_add_job(job);
}

FAKE_NCCL_API(ncclResult_t, CommInitRank,
	      (ncclComm_t * newcomm, int nranks, ncclUniqueId id, int rank))
{
	return init("ncclCommInitRank", newcomm, nranks, &id, rank, NULL);
}

FAKE_NCCL_API(ncclResult_t, CommInitRankConfig,
	      (ncclComm_t * newcomm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config))
{
	return init("ncclCommInitRankConfig", newcomm, nranks, &id, rank, config);
}

/* The roots of the other ids stay idle: one is enough for what a stand-in has to carry. */
FAKE_NCCL_API(ncclResult_t, CommInitRankScalable,
	      (ncclComm_t * newcomm, int nranks, int rank, int id_count, ncclUniqueId *ids,
	       ncclConfig_t *config))
{
	if (id_count < 1 || id_count > nranks || !ids) {
		WARN("init.cc", "improper usage of ncclCommInitRank: nId = %d, nranks=%d", id_count,
		     nranks);
		return fake_group_note(ncclInvalidArgument);
	}
	return init("ncclCommInitRankScalable", newcomm, nranks, &ids[0], rank, config);
}

FAKE_NCCL_API(ncclResult_t, CommInitAll, (ncclComm_t * comms, int count, const int *devices))
{
	int before = fake_gpu_current();
	ncclResult_t result = ncclSuccess, end;
	ncclUniqueId id;

	if (!comms || count < 1 || count > fake_gpu_count()) {
		WARN("init.cc", "invalid device count (%d) requested", count);
		return ncclInvalidArgument;
	}
	result = fake_bootstrap_create(&id);
	if (result != ncclSuccess)
		return result;
	fake_group_start();
	for (int i = 0; i < count && result == ncclSuccess; i++) {
		if (fake_gpu_select(devices ? devices[i] : i) != 0)
			result = fake_group_note(ncclUnhandledCudaError);
		else
			result = init("ncclCommInitAll", &comms[i], count, &id, i, NULL);
	}
	end = fake_group_end();
	fake_gpu_select(before);
	return result != ncclSuccess ? result : end;
}
