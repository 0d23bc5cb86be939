/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the real NCCL where it needs no GPU and prints all that comes back. realnccl.py compares
 * what it prints with and without the recorder: nothing may differ.
 *
 * It is linked to a stand-in named libnccl.so.2 (realnccl_link.c), so that building it needs no
 * NCCL; the real one is put before it with LD_LIBRARY_PATH.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ncclComm;

/* Laid out as NCCL passes it: 128 bytes by value. */
struct unique_id {
	char bytes[128];
};

int ncclGetVersion(int *version);
int ncclGetUniqueId(struct unique_id *id);
const char *ncclGetErrorString(int result);
const char *ncclGetLastError(struct ncclComm *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *send, void *receive, size_t count, int datatype, int op,
		  struct ncclComm *comm, void *stream);
int ncclBcast(void *buffer, size_t count, int datatype, int root, struct ncclComm *comm,
	      void *stream);
int ncclSend(const void *send, size_t count, int datatype, int peer, struct ncclComm *comm,
	     void *stream);
int ncclCommInitRank(struct ncclComm **comm, int nranks, struct unique_id id, int rank);
int ncclCommInitAll(struct ncclComm **comms, int ndev, const int *devices);
int ncclCommCount(struct ncclComm *comm, int *count);
int ncclCommGetAsyncError(struct ncclComm *comm, int *state);
int ncclCommFinalize(struct ncclComm *comm);
int ncclCommDestroy(struct ncclComm *comm);
int ncclCommAbort(struct ncclComm *comm);
int ncclMemAlloc(void **address, size_t bytes);

#define UNTOUCHED    ((void *)0x5a5a)
#define ERRNO_BEFORE 77

/* Evaluates the call with a known errno and prints what it returned and what it left there. */
#define SHOW(call)                                                                                 \
	do {                                                                                       \
		errno = ERRNO_BEFORE;                                                              \
		int result_ = (call);                                                              \
		int errno_ = errno;                                                                \
		printf("%s: %d errno %d\n", #call, result_, errno_);                               \
	} while (0)

/* As SHOW, for calls that do real work and may leave any errno. */
#define SHOW_RESULT(call) printf("%s: %d\n", #call, (call))

static void show_texts(void)
{
	int version = 0;
	int code;

	SHOW(ncclGetVersion(&version));
	SHOW(ncclGetVersion(NULL));
	printf("version %d\n", version);
	for (code = -1; code <= 9; code++)
		printf("error %d: %s\n", code, ncclGetErrorString(code));
	printf("last error: %s\n", ncclGetLastError(NULL));
}

static void show_groups(void)
{
	char buffer[64] = "";

	SHOW_RESULT(ncclGroupStart());
	SHOW(ncclGroupEnd());
	SHOW(ncclGroupEnd());
	SHOW(ncclAllReduce(buffer, buffer, 4, 7, 0, NULL, NULL));
	printf("last error: %s\n", ncclGetLastError(NULL));
	/* ncclBcast calls ncclBroadcast through its own symbol: a wrapper inside a wrapper. */
	SHOW(ncclBcast(buffer, 4, 7, 0, NULL, NULL));
	printf("last error: %s\n", ncclGetLastError(NULL));
	SHOW(ncclGroupStart());
	SHOW(ncclGroupStart());
	SHOW(ncclSend(buffer, 4, 7, 1, NULL, NULL));
	SHOW(ncclGroupEnd());
	SHOW(ncclGroupEnd());
	SHOW(ncclGroupEnd());
}

static void show_communicators(void)
{
	struct unique_id id = {{0}};
	struct ncclComm *comm = UNTOUCHED;
	void *address = UNTOUCHED;
	int value = -5;
	int device = 0;

	SHOW(ncclCommCount(NULL, &value));
	SHOW(ncclCommGetAsyncError(NULL, &value));
	printf("value %d\n", value);
	SHOW_RESULT(ncclGetUniqueId(&id));
	SHOW_RESULT(ncclCommInitRank(&comm, 1, id, 0));
	printf("comm %s\n", comm == UNTOUCHED ? "untouched" : "written");
	printf("last error: %s\n", ncclGetLastError(NULL));
	SHOW_RESULT(ncclCommInitAll(&comm, 1, &device));
	printf("comm %s\n", comm == UNTOUCHED ? "untouched" : "written");
	SHOW_RESULT(ncclMemAlloc(&address, 4096));
	printf("address %s\n", address == UNTOUCHED ? "untouched" : "written");
	SHOW_RESULT(ncclCommFinalize(NULL));
	SHOW_RESULT(ncclCommDestroy(NULL));
	SHOW_RESULT(ncclCommAbort(NULL));
}

/* What a training job does first, and nothing else that fails: "realnccl init". */
static void show_init(void)
{
	struct unique_id id = {{0}};
	struct ncclComm *comm = NULL;

	SHOW_RESULT(ncclGetUniqueId(&id));
	SHOW_RESULT(ncclCommInitRank(&comm, 1, id, 0));
	printf("last error: %s\n", ncclGetLastError(NULL));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "init") == 0) {
		show_init();
	} else {
		show_texts();
		show_groups();
		show_communicators();
	}
	return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
