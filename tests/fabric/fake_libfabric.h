/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two files of the stand-in for libfabric. */
#ifndef NSPY_FAKE_LIBFABRIC_H
#define NSPY_FAKE_LIBFABRIC_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* Prints, leaves an errno, returns an error that no caller of ours treats in a special way. */
#define SAY(name, format, ...)                                                                     \
	do {                                                                                       \
		printf("  %s " format "\n", name, __VA_ARGS__);                                    \
		errno = 4000 + (int)strlen(name);                                                  \
	} while (0)
#define P(x) ((void *)(x))
#define N(x) ((unsigned long long)(x))

/* An endpoint begins with the first table of messages; enabling puts the second one in place. */
extern struct fi_ops_msg fake_msg_early, fake_msg_late;
extern struct fi_ops_tagged fake_tagged;
extern struct fi_ops_rma fake_rma;

#endif
