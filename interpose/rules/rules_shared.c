/* SPDX-License-Identifier: Apache-2.0 */
/* Which settings all ranks of a job have to share. */
#include <stddef.h>
#include <string.h>

#include "rules.h"

/* Differ by design from rank to rank or node to node. */
static const char *const personal[] = {
	"NCCL_DEBUG",
	"NCCL_DEBUG_FILE",
	"NCCL_DEBUG_SUBSYS",
	"NCCL_HOSTID",
	"NCCL_COMM_ID",
	"NCCL_TOPO_DUMP_FILE",
	"NCCL_GRAPH_DUMP_FILE",
	"NCCL_SOCKET_IFNAME",
	"NCCL_IB_HCA",
	"NCCL_IB_GID_INDEX",
	"NCCL_RAS_ADDR",
	"NCCL_CONF_FILE",
	"NCCL_VERSION",
	"NCCL_DEBUG_TIMESTAMP_FORMAT",
	"NCCL_DEBUG_TIMESTAMP_LEVELS",
	"NCCL_SET_THREAD_NAME",
};

bool nspy_rules_is_shared_setting(const char *key)
{
	const char *name = key + 4;

	if (strncmp(key, "env.", 4) != 0)
		return false;
	for (size_t i = 0; i < sizeof(personal) / sizeof(personal[0]); i++)
		if (strcmp(name, personal[i]) == 0)
			return false;
	return strncmp(name, "NCCL_", 5) == 0 || strncmp(name, "FI_", 3) == 0 ||
	       strncmp(name, "OFI_NCCL_", 9) == 0;
}
