/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stand-in runtime share. */
#ifndef FAKE_RUNTIME_H
#define FAKE_RUNTIME_H

#include "cuda_abi.h"
#include "gpu.h"

#define API FAKE_EXPORT cudaError_t

/*
 * A call on a stream and its _ptsz form, in which a NULL stream means the thread's own. The
 * parameter has to be called stream.
 */
#define STREAM_API(name, params, args)                                                             \
	API name##_ptsz params;                                                                    \
	API name##_ptsz params                                                                     \
	{                                                                                          \
		if (!stream)                                                                       \
			stream = (cudaStream_t)FAKE_STREAM_PER_THREAD;                             \
		return name args;                                                                  \
	}                                                                                          \
	API name params

static inline struct fake_stream *as_stream(cudaStream_t stream)
{
	return (struct fake_stream *)stream;
}

static inline struct fake_event *as_event(cudaEvent_t event)
{
	return (struct fake_event *)event;
}

/* Keeps a failure for cudaGetLastError and hands it on. */
cudaError_t fake_runtime_note(int result);

#endif
