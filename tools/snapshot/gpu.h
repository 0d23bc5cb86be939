/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of NVML. Source: NVIDIA's NVML API reference; calls that a library lacks are
 * left out of "has".
 */
#ifndef SNAPSHOT_GPU_H
#define SNAPSHOT_GPU_H

#include "snapshot.h"

#define GPUS_MAX 32

enum {
	GPU_HAS_HEAT = 1,
	GPU_HAS_CLOCK = 2,
	GPU_HAS_ECC = 4,
	GPU_HAS_REMAP = 8,
	GPU_HAS_NVLINK = 16,
	GPU_HAS_PCIE = 32,
};

struct gpu_state {
	char name[96], uuid[96];
	unsigned has;
	bool lost;
	unsigned celsius, clock_mhz, clock_max_mhz;
	unsigned links, links_up, pcie_width, pcie_width_max;
	unsigned remap_pending, remap_failed;
	unsigned long long ecc_volatile, ecc_aggregate; /* uncorrectable */
};

struct gpu_answer {
	char error[128]; /* "" = none */
	char driver[80];
	unsigned count;
	struct gpu_state gpus[GPUS_MAX];
};

/* Runs in a child; arg is the library's name. Writes one struct gpu_answer. */
void gpu_ask_nvml(int fd, const void *arg);

#endif
