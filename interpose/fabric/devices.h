/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices of the host, as /sys shows them. context: writer thread. */
#ifndef NSPY_DEVICES_H
#define NSPY_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#define NSPY_DEVICES_MAX 64u

struct nspy_device {
	char name[32];
	char driver[32]; /* "efa", "mlx5_core", ...; "" = not known */
	char state[24];  /* of port 1: "ACTIVE", "DOWN", ...; "" = not known */
};

/* Reads /sys/class/infiniband, the first time only. */
void nspy_devices_look(void);
uint32_t nspy_device_count(void);
const struct nspy_device *nspy_device_at(uint32_t i);
bool nspy_device_any(const char *driver); /* NULL = whichever */

#endif
