/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the network layers in words. */
#include <string.h>

#include "net.h"
#include "util.h"

const char *nspy_net_rail_name(const struct nspy_net_rail_view *rail)
{
	if (rail->nic[0])
		return rail->nic;
	return rail->domain[0] ? rail->domain : rail->provider;
}

const char *nspy_net_counter_name(enum nspy_net_counter counter)
{
	static const char *const names[NSPY_NET_COUNTER_COUNT] = {
		[NSPY_NET_SENDS] = "sends",          [NSPY_NET_SEND_BYTES] = "send_bytes",
		[NSPY_NET_WRITES] = "writes",        [NSPY_NET_WRITE_BYTES] = "write_bytes",
		[NSPY_NET_READS] = "reads",          [NSPY_NET_READ_BYTES] = "read_bytes",
		[NSPY_NET_RECEIVES] = "receives",    [NSPY_NET_COMPLETIONS] = "completions",
		[NSPY_NET_ERRORS] = "errors",        [NSPY_NET_AGAIN] = "again",
		[NSPY_NET_POLLS] = "empty_polls",    [NSPY_NET_TIMED] = "timed",
		[NSPY_NET_TIME_SUM] = "time_sum_ns", [NSPY_NET_TIME_MAX] = "time_max_ns",
	};

	return names[counter];
}

const char *nspy_net_event_name(uint32_t what)
{
	static const char *const names[] = {
		[NSPY_NET_CQ_ERROR] = "completion_error",
		[NSPY_NET_REG_FAILED] = "registration_failed",
		[NSPY_NET_GETINFO] = "getinfo",
		[NSPY_NET_POST_FAILED] = "post_failed",
		[NSPY_NET_OPEN_FAILED] = "open_failed",
	};

	return what < nspy_array_size(names) && names[what] ? names[what] : "unknown";
}

const char *nspy_net_sight_name(uint32_t sight)
{
	static const char *const names[] = {
		[NSPY_NET_SEEN] = "seen",
		[NSPY_NET_NOT_ASKED] = "not_asked",
		[NSPY_NET_CONSTANT] = "constant_tables",
		[NSPY_NET_UNKNOWN] = "unknown_tables",
	};

	return sight < nspy_array_size(names) ? names[sight] : "unknown";
}

const char *nspy_net_error_name(int error)
{
	/* rdma/fi_errno.h: libfabric's own numbers begin at 256. */
	static const char *const own[] = {
		"unspecified error",
		"provided buffer is too small",
		"operation not permitted in current state",
		"error available",
		"flags not supported",
		"missing or unavailable event queue",
		"invalid resource domain",
		"missing or unavailable completion queue",
		"CRC error",
		"truncation error",
		"required key not available",
		"missing or unavailable address vector",
		"queue has been overrun",
		"receiver not ready, no receive buffers available",
	};

	if (error >= 256 && (size_t)error - 256 < nspy_array_size(own))
		return own[error - 256];
	return error > 0 && error < 256 ? strerror(error) : "error of a number we do not know";
}

const char *nspy_net_status_name(const char *provider, int status)
{
	/* drivers/infiniband/hw/efa: enum efa_io_comp_status */
	static const char *const efa[] = {
		[1] = "flushed when the queue pair was closed",
		[2] = "internal queue pair error",
		[3] = "unsupported operation",
		[4] = "invalid address handle",
		[5] = "invalid local key",
		[6] = "local buffer too short",
		[7] = "remote address is invalid",
		[8] = "remote side aborted",
		[9] = "remote queue pair does not exist: the peer has gone or restarted",
		[10] = "remote side not ready to receive",
		[11] = "remote buffer too short",
		[12] = "queue pair in a wrong state",
		[13] = "remote side does not respond",
		[14] = "remote side does not know us",
		[15] = "remote side cannot be reached",
	};
	/* infiniband/verbs.h: enum ibv_wc_status */
	static const char *const verbs[] = {
		[1] = "local length error",
		[2] = "local queue pair error",
		[4] = "local protection error",
		[5] = "flushed: an earlier error is the cause",
		[9] = "remote invalid request",
		[10] = "remote access error",
		[11] = "remote operation error",
		[12] = "retries exceeded: the remote side does not answer",
		[13] = "remote side not ready to receive, retries exceeded",
	};

	if (status <= 0)
		return NULL;
	if (nspy_net_is(provider, "efa") && (size_t)status < nspy_array_size(efa))
		return efa[status];
	if (nspy_net_is(provider, "verbs") && (size_t)status < nspy_array_size(verbs))
		return verbs[status];
	return NULL;
}
