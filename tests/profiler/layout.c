/* SPDX-License-Identifier: Apache-2.0 */
/* interpose/profiler/profiler_abi.h against NCCL's plugin headers: compiling is the test. */
#include <stddef.h>
#include <sys/types.h>

#include "err.h"
#include "profiler.h"

#include "profiler_abi.h"

#define SAME_AS(theirs, ours)                                                                      \
	_Static_assert(sizeof(((THEIRS *)0)->theirs) == sizeof(((struct OURS *)0)->ours) &&        \
			       offsetof(THEIRS, theirs) == offsetof(struct OURS, ours),            \
		       #theirs)
#define WHOLE _Static_assert(sizeof(THEIRS) == sizeof(struct OURS), "size of a descriptor")
#define PROXY                                                                                      \
	SAME_AS(type, type);                                                                       \
	SAME_AS(parentObj, parent);                                                                \
	SAME_AS(rank, rank);                                                                       \
	SAME_AS(proxyOp.pid, proxy_op.pid);                                                        \
	SAME_AS(proxyOp.channelId, proxy_op.channel);                                              \
	SAME_AS(proxyOp.peer, proxy_op.peer);                                                      \
	SAME_AS(proxyOp.nSteps, proxy_op.steps);                                                   \
	SAME_AS(proxyOp.chunkSize, proxy_op.chunk_bytes);                                          \
	SAME_AS(proxyOp.isSend, proxy_op.is_send);                                                 \
	SAME_AS(proxyStep.step, step)
#define COLL(theirs, ours)                                                                         \
	SAME_AS(theirs.seqNumber, ours.seq);                                                       \
	SAME_AS(theirs.func, ours.func);                                                           \
	SAME_AS(theirs.count, ours.count);                                                         \
	SAME_AS(theirs.root, ours.root);                                                           \
	SAME_AS(theirs.datatype, ours.datatype);                                                   \
	SAME_AS(theirs.algo, ours.algo);                                                           \
	SAME_AS(theirs.proto, ours.proto)
#define P2P                                                                                        \
	SAME_AS(p2p.func, p2p.func);                                                               \
	SAME_AS(p2p.count, p2p.count);                                                             \
	SAME_AS(p2p.datatype, p2p.datatype);                                                       \
	SAME_AS(p2p.peer, p2p.peer)
#define NAMED                                                                                      \
	SAME_AS(coll.commHash, coll.comm_hash);                                                    \
	SAME_AS(coll.nMaxChannels, coll.channels);                                                 \
	SAME_AS(p2p.commHash, p2p.comm_hash)
#define KERNEL                                                                                     \
	SAME_AS(kernelCh.channelId, kernel.channel);                                               \
	SAME_AS(kernelCh.pTimer, kernel.timer);                                                    \
	SAME_AS(netPlugin.id, net.id)
#define API                                                                                        \
	SAME_AS(groupApi.graphCaptured, group_api.captured);                                       \
	SAME_AS(collApi.graphCaptured, coll_api.captured);                                         \
	SAME_AS(p2pApi.graphCaptured, p2p_api.captured);                                           \
	SAME_AS(coll.parentGroup, coll.parent_group);                                              \
	SAME_AS(p2p.parentGroup, p2p.parent_group)

#define THEIRS ncclProfilerEventDescr_v1_t
#define OURS   nspy_descr_v1
WHOLE;
PROXY;
COLL(coll, coll);
P2P;
NAMED;
#undef THEIRS
#undef OURS

#define THEIRS ncclProfilerEventDescr_v2_t
#define OURS   nspy_descr_v2
WHOLE;
PROXY;
COLL(coll, coll);
P2P;
NAMED;
#undef THEIRS
#undef OURS

#define THEIRS ncclProfilerEventDescr_v3_t
#define OURS   nspy_descr_v3
WHOLE;
PROXY;
COLL(coll, coll);
P2P;
NAMED;
SAME_AS(kernelCh.channelId, kernel.channel);
#undef THEIRS
#undef OURS

#define THEIRS ncclProfilerEventDescr_v4_t
#define OURS   nspy_descr_v4
WHOLE;
PROXY;
COLL(coll, coll);
P2P;
KERNEL;
SAME_AS(coll.nChannels, coll.channels);
SAME_AS(p2p.nChannels, p2p.channels);
#undef THEIRS
#undef OURS

#define THEIRS ncclProfilerEventDescr_v5_t
#define OURS   nspy_descr_v5
WHOLE;
PROXY;
COLL(coll, coll.as_v4);
P2P;
KERNEL;
API;
SAME_AS(coll.nChannels, coll.as_v4.channels);
SAME_AS(p2p.nChannels, p2p.channels);
#undef THEIRS
#undef OURS

#define THEIRS ncclProfilerEventDescr_v6_t
#define OURS   nspy_descr_v6
WHOLE;
PROXY;
COLL(coll, coll.as_v4);
P2P;
KERNEL;
API;
SAME_AS(ceColl.seqNumber, ce_coll.seq);
SAME_AS(ceColl.func, ce_coll.func);
SAME_AS(ceColl.count, ce_coll.count);
SAME_AS(ceColl.root, ce_coll.root);
SAME_AS(ceColl.datatype, ce_coll.datatype);
SAME_AS(ceColl.stream, ce_coll.stream);
SAME_AS(ceCollBatch.totalBytes, ce_batch.bytes);
#undef THEIRS
#undef OURS

#define TABLE(n)                                                                                   \
	_Static_assert(sizeof(ncclProfiler_v##n##_t) == sizeof(struct nspy_profiler_table),        \
		       "size of a table");                                                         \
	_Static_assert(offsetof(ncclProfiler_v##n##_t, finalize) ==                                \
			       offsetof(struct nspy_profiler_table, finalize),                     \
		       "order of a table")
TABLE(1);
TABLE(2);
TABLE(3);
TABLE(4);
TABLE(5);
TABLE(6);

_Static_assert(sizeof(ncclProfilerEventStateArgs_v1_t) == sizeof(union nspy_state_args_v1), "");
_Static_assert(sizeof(ncclProfilerEventStateArgs_v4_t) == sizeof(union nspy_state_args), "");
_Static_assert(sizeof(ncclProfilerEventStateArgs_v6_t) == sizeof(union nspy_state_args), "");

#define VALUE(theirs, ours) _Static_assert((int)(theirs) == (int)(ours), #ours)
VALUE(ncclProfileColl, NSPY_PROFILE_COLL);
VALUE(ncclProfileP2p, NSPY_PROFILE_P2P);
VALUE(ncclProfileProxyOp, NSPY_PROFILE_PROXY_OP);
VALUE(ncclProfileProxyStep, NSPY_PROFILE_PROXY_STEP);
VALUE(ncclProfileProxyCtrl, NSPY_PROFILE_PROXY_CTRL);
VALUE(ncclProfileKernelCh, NSPY_PROFILE_KERNEL_CH);
VALUE(ncclProfileNetPlugin, NSPY_PROFILE_NET_PLUGIN);
VALUE(ncclProfileGroupApi, NSPY_PROFILE_GROUP_API);
VALUE(ncclProfileCollApi, NSPY_PROFILE_COLL_API);
VALUE(ncclProfileP2pApi, NSPY_PROFILE_P2P_API);
VALUE(ncclProfileKernelLaunch, NSPY_PROFILE_KERNEL_LAUNCH);
VALUE(ncclProfileCeColl, NSPY_PROFILE_CE_COLL);
VALUE(ncclProfileCeBatch, NSPY_PROFILE_CE_BATCH);
VALUE(ncclProfilerProxyStepSendGPUWait, NSPY_PROFILE_SEND_GPU_WAIT);
VALUE(ncclProfilerProxyStepSendPeerWait_v4, NSPY_PROFILE_SEND_PEER_WAIT);
VALUE(ncclProfilerProxyStepSendWait, NSPY_PROFILE_SEND_WAIT);
VALUE(ncclProfilerProxyStepRecvWait, NSPY_PROFILE_RECV_WAIT);
VALUE(ncclProfilerProxyStepRecvFlushWait, NSPY_PROFILE_RECV_FLUSH_WAIT);
VALUE(ncclProfilerProxyStepRecvGPUWait, NSPY_PROFILE_RECV_GPU_WAIT);
VALUE(ncclProfilerKernelChStop, NSPY_PROFILE_KERNEL_CH_STOP);
