/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What limits this process and what its machine has: facts from /proc, /sys, /dev and the process's
 * own limits. Only read, nothing allocates. context: writer thread; may block on a broken device.
 */
#ifndef NSPY_HOST_FACTS_H
#define NSPY_HOST_FACTS_H

/* limit.*, cap.*, mem.*, shm.*, cgroup.*, kernel. */
void nspy_host_facts(void);

/* net.interfaces, rdma.*, gpu.module, gpu.peermem. */
void nspy_nic_facts(void);

/* shm.nccl_mapped, shm.stale*: once NCCL has made its communicators. */
void nspy_shm_segment_facts(void);

/* cgroup.*: again; cheap. */
void nspy_cgroup_facts(void);

/*
 * What is mapped: net_plugin.*, tuner_plugin.*, profiler_plugin.*, libfabric.*, libibverbs.*,
 * nvml.* (path, build_id, version), and net.looked=1: the first communicator has been made, so what
 * NCCL wanted to load it has loaded. wanted: values of the variables that name plugins, "" if not
 * set.
 */
enum nspy_wanted { NSPY_WANTED_NET, NSPY_WANTED_TUNER, NSPY_WANTED_PROFILER, NSPY_WANTED_COUNT };
void nspy_object_facts(const char *const wanted[NSPY_WANTED_COUNT]);

#endif
