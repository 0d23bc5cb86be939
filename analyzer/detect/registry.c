/* SPDX-License-Identifier: Apache-2.0 */
#include "detect.h"

static nspy_detect_fn *const detectors[] = {
	nspy_detect_ranks_missing, nspy_detect_rank_died,       nspy_detect_terminated,
	nspy_detect_mismatch,      nspy_detect_p2p_mismatch,    nspy_detect_order,
	nspy_detect_hang,          nspy_detect_versions,        nspy_detect_call_failed,
	nspy_detect_oom,           nspy_detect_aborted,         nspy_detect_stalled,
	nspy_detect_io_stall,      nspy_detect_straggler,       nspy_detect_facts,
	nspy_detect_fleet,         nspy_detect_device_fault,    nspy_detect_registration,
	nspy_detect_fabric,        nspy_detect_efa_unavailable, nspy_detect_tcp_fallback,
	nspy_detect_drift,         nspy_detect_bandwidth,
};

void nspy_detect_all(const struct nspy_case *c, struct nspy_findings *out)
{
	for (size_t i = 0; i < nspy_array_size(detectors); i++)
		detectors[i](c, out);
	nspy_findings_sort(out);
}
