/* SPDX-License-Identifier: Apache-2.0 */
/* Common work: computing (asleep), copying, calling the host back. */
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"
#include "gpu.h"

struct simple_work {
	struct fake_work work;
	uint64_t ns;
	void *to;
	const void *from;
	size_t bytes;
	int value;
	void (*func)(void *);
};

static void free_simple(struct fake_work *work)
{
	free(work);
}

static int submit(struct fake_stream *stream, const struct simple_work *what,
		  void (*run)(struct fake_work *, uint64_t))
{
	struct simple_work *one = malloc(sizeof(*one));

	if (!one)
		return cudaErrorMemoryAllocation;
	*one = *what;
	fake_work_init(&one->work, run, free_simple);
	return fake_stream_submit(stream, &one->work);
}

static void run_compute(struct fake_work *work, uint64_t ticket)
{
	(void)ticket;
	fake_sleep_ns(((struct simple_work *)work)->ns);
}

int fake_stream_compute(struct fake_stream *stream, uint64_t ns)
{
	struct simple_work what = {.ns = ns};

	return submit(stream, &what, run_compute);
}

static void run_host_func(struct fake_work *work, uint64_t ticket)
{
	struct simple_work *one = (struct simple_work *)work;

	(void)ticket;
	one->func(one->to);
}

int fake_stream_host_func(struct fake_stream *stream, void (*func)(void *), void *arg)
{
	struct simple_work what = {.func = func, .to = arg};

	return func ? submit(stream, &what, run_host_func) : cudaErrorInvalidValue;
}

static void run_copy(struct fake_work *work, uint64_t ticket)
{
	struct simple_work *one = (struct simple_work *)work;

	(void)ticket;
	memmove(one->to, one->from, one->bytes);
}

int fake_stream_copy(struct fake_stream *stream, void *to, const void *from, size_t bytes)
{
	struct simple_work what = {.to = to, .from = from, .bytes = bytes};

	return bytes ? submit(stream, &what, run_copy) : cudaSuccess;
}

static void run_set(struct fake_work *work, uint64_t ticket)
{
	struct simple_work *one = (struct simple_work *)work;

	(void)ticket;
	memset(one->to, one->value, one->bytes);
}

int fake_stream_set(struct fake_stream *stream, void *to, int value, size_t bytes)
{
	struct simple_work what = {.to = to, .value = value, .bytes = bytes};

	return bytes ? submit(stream, &what, run_set) : cudaSuccess;
}
