/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only for linking realnccl.c. If one of these ever runs, the real library was not found, and a
 * comparison of two such runs would prove nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#define FOR_LINKING(name)                                                                          \
	void name(void);                                                                           \
	void name(void)                                                                            \
	{                                                                                          \
		fputs("the real libnccl.so.2 was not loaded\n", stderr);                           \
		abort();                                                                           \
	}

FOR_LINKING(ncclGetVersion)
FOR_LINKING(ncclGetUniqueId)
FOR_LINKING(ncclGetErrorString)
FOR_LINKING(ncclGetLastError)
FOR_LINKING(ncclGroupStart)
FOR_LINKING(ncclGroupEnd)
FOR_LINKING(ncclAllReduce)
FOR_LINKING(ncclBcast)
FOR_LINKING(ncclSend)
FOR_LINKING(ncclCommInitRank)
FOR_LINKING(ncclCommInitAll)
FOR_LINKING(ncclCommCount)
FOR_LINKING(ncclCommGetAsyncError)
FOR_LINKING(ncclCommFinalize)
FOR_LINKING(ncclCommDestroy)
FOR_LINKING(ncclCommAbort)
FOR_LINKING(ncclMemAlloc)
