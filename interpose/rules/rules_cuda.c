/* SPDX-License-Identifier: Apache-2.0 */
/* Return codes of the CUDA runtime that mean more than a failed call. Numbers: driver_types.h. */
#include <stddef.h>

#include "rules.h"

static const struct nspy_cuda_fault faults[] = {
	{35, "DRIVER_RUNTIME_MISMATCH", "the driver is too old for the CUDA runtime", "node",
	 "helps-elsewhere", "update the driver, or use an image with an older CUDA"},
	{803, "DRIVER_RUNTIME_MISMATCH",
	 "kernel driver and user-space driver are of different releases", "node", "helps-elsewhere",
	 "reboot the node after a driver update, or mend what mounts the driver into the "
	 "container"},
	{46, "CUDA_DEVICE_FAULT", "the devices are busy or unavailable", "node", "helps-elsewhere",
	 "look for another process on the GPU and for Xid lines in the node's kernel log"},
	{214, "CUDA_DEVICE_FAULT", "uncorrectable memory error (ECC)", "node", "helps-elsewhere",
	 "drain the node, reset or replace the GPU"},
	{220, "CUDA_DEVICE_FAULT", "uncorrectable NVLink error", "node", "helps-elsewhere",
	 "drain the node and check NVLink and Fabric Manager"},
	{226, "CUDA_DEVICE_FAULT", "a fault of the device that was contained to this process",
	 "node", "helps-elsewhere", "drain the node and look for Xid lines in its kernel log"},
	{700, "CUDA_DEVICE_FAULT", "illegal memory access", "application", "useless",
	 "find the kernel with compute-sanitizer or CUDA_LAUNCH_BLOCKING=1"},
	{702, "CUDA_DEVICE_FAULT", "a kernel ran into the time limit of a display GPU", "node",
	 "useless", "run on a GPU without a display"},
	{710, "CUDA_DEVICE_FAULT", "a device-side assertion failed", "application", "useless",
	 "read the assertion in that rank's output"},
	{714, "CUDA_DEVICE_FAULT", "the hardware stack was damaged", "application", "useless",
	 "find the kernel with compute-sanitizer"},
	{715, "CUDA_DEVICE_FAULT", "illegal instruction", "application", "useless",
	 "find the kernel with compute-sanitizer"},
	{716, "CUDA_DEVICE_FAULT", "misaligned address", "application", "useless",
	 "find the kernel with compute-sanitizer"},
	{717, "CUDA_DEVICE_FAULT", "invalid address space", "application", "useless",
	 "find the kernel with compute-sanitizer"},
	{718, "CUDA_DEVICE_FAULT", "invalid program counter", "application", "useless",
	 "find the kernel with compute-sanitizer"},
	{719, "CUDA_DEVICE_FAULT", "a kernel failed to run", "unknown", "helps-elsewhere",
	 "look for Xid lines in the node's kernel log, then for the kernel in the program"},
};

const struct nspy_cuda_fault *nspy_rules_cuda_fault(int code)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i].code == code)
			return &faults[i];
	return NULL;
}
