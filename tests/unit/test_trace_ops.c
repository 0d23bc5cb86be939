/* SPDX-License-Identifier: Apache-2.0 */
/* OPS payloads and whole chunks: what goes in comes out, and damage is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace_encode.h"

#define COUNT 1500

struct fixture {
	union nspy_any_rec in[NSPY_CHUNK_RECORDS_MAX];
	union nspy_any_rec out[NSPY_CHUNK_RECORDS_MAX];
	uint8_t *payload;
	size_t payload_capacity;
	void *scratch;
};

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return random_state >> 11;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->payload_capacity = nspy_ops_bound(NSPY_CHUNK_RECORDS_MAX);
	f->payload = malloc(f->payload_capacity);
	f->scratch = malloc(nspy_ops_scratch_bytes());
	random_state = 7;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->payload);
	free(f->scratch);
	free(f);
	return 0;
}

/* A step of 24 operations over two communicators, sends and calls without a sequence number. */
static void make_step_job(struct fixture *f, size_t count)
{
	uint64_t now = 1000000000000ULL, seq[2] = {0, 41};

	for (size_t i = 0; i < count; i++) {
		struct nspy_rec *rec = &f->in[i].call;
		size_t k = i % 24;

		*rec = (struct nspy_rec){
			.enter = now + 200000 + next_random() % 20000,
			.count = 1024 << (k % 8),
			.arg = 0x7f0000001000,
			.comm = (uint32_t)(k % 2),
			.peer = NSPY_PEER_NONE,
			.fn = (uint16_t)(3 + k % 5),
			.kind = NSPY_REC_CALL,
			.datatype = 7,
			.redop = 0,
			.callno = (uint32_t)i + 1,
			.group = (uint32_t)(i / 24),
		};
		rec->leave = rec->enter + 10000 + next_random() % 2000;
		if (k == 20) {
			rec->flags = NSPY_CALL_PEER_SEQ;
			rec->peer = 5;
			rec->seq = i / 24 + 1;
		} else if (k != 21) {
			rec->seq = ++seq[k % 2];
		}
		if (k == 22)
			rec->result = -3;
		now = rec->leave;
	}
}

static void round_trip(struct fixture *f, size_t count)
{
	size_t got = 0;
	long bytes = nspy_ops_encode(f->in, count, f->scratch, f->payload, f->payload_capacity);

	assert_true(bytes > 0);
	memset(f->out, 0xA5, sizeof(f->out));
	assert_int_equal(
		nspy_ops_decode(f->payload, (size_t)bytes, f->out, NSPY_CHUNK_RECORDS_MAX, &got),
		0);
	assert_int_equal(got, count);
	assert_memory_equal(f->in, f->out, count * sizeof(f->in[0]));
}

static void step_job_survives(void **state)
{
	struct fixture *f = *state;

	make_step_job(f, COUNT);
	round_trip(f, COUNT);
}

static void empty_and_single_chunks_survive(void **state)
{
	struct fixture *f = *state;

	make_step_job(f, 1);
	round_trip(f, 0);
	round_trip(f, 1);
}

static void random_records_survive(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 20; round++) {
		size_t count = next_random() % NSPY_CHUNK_RECORDS_MAX;

		for (size_t i = 0; i < count; i++) {
			uint8_t *raw = (uint8_t *)&f->in[i];

			for (size_t k = 0; k < NSPY_REC_BYTES; k++)
				raw[k] = (uint8_t)next_random();
			f->in[i].call.kind = NSPY_REC_CALL;
			f->in[i].call.flags &= (uint8_t)~NSPY_CALL_OPEN;
			f->in[i].call.leave = f->in[i].call.enter + next_random() % 1000;
			if (f->in[i].call.leave == 0)
				f->in[i].call.leave = f->in[i].call.enter = 1;
		}
		round_trip(f, count);
	}
}

static void open_calls_keep_their_leave_empty(void **state)
{
	struct fixture *f = *state;

	make_step_job(f, 3);
	f->in[1].call.leave = 0;
	f->in[1].call.flags |= NSPY_CALL_OPEN;
	f->in[2].call.enter = f->in[1].call.enter + 5;
	f->in[2].call.leave = f->in[2].call.enter + 5;
	round_trip(f, 3);
}

static void side_records_keep_their_place(void **state)
{
	struct fixture *f = *state;

	make_step_job(f, 30);
	f->in[0].comm = (struct nspy_comm_rec){
		.when = 5,
		.key = 0x123456789abcdef0,
		.nranks = 8,
		.rank = 3,
		.origin = NSPY_COMM_SPLIT,
		.kind = NSPY_REC_COMM,
		.flags = NSPY_COMM_READY,
		.color = -1,
		.ordinal = 2,
	};
	memset(&f->in[17], 0, sizeof(f->in[17]));
	f->in[17].text = (struct nspy_text_rec){
		.when = 6,
		.text = "hello",
		.topic = NSPY_TEXT_NOTE,
		.kind = NSPY_REC_TEXT,
		.bytes = 5,
		.callno = 17,
	};
	f->in[29].comm = f->in[0].comm;
	round_trip(f, 30);
}

static void too_many_records_are_refused(void **state)
{
	struct fixture *f = *state;

	assert_true(nspy_ops_encode(f->in, NSPY_CHUNK_RECORDS_MAX + 1, f->scratch, f->payload,
				    f->payload_capacity) < 0);
	make_step_job(f, 100);
	assert_true(nspy_ops_encode(f->in, 100, f->scratch, f->payload, 50) < 0);
}

/* Every shortened payload and every flipped bit is an error or other records, never a crash. */
static void damaged_payloads_do_no_harm(void **state)
{
	struct fixture *f = *state;
	size_t got;
	long bytes;

	make_step_job(f, 60);
	bytes = nspy_ops_encode(f->in, 60, f->scratch, f->payload, f->payload_capacity);
	for (long n = 0; n < bytes; n++) {
		/* A copy of exact size lets a sanitizer see one byte too far. */
		uint8_t *cut = malloc((size_t)n + 1);

		memcpy(cut, f->payload, (size_t)n);
		assert_true(nspy_ops_decode(cut, (size_t)n, f->out, NSPY_CHUNK_RECORDS_MAX, &got) <
			    0);
		free(cut);
	}
	for (long bit = 0; bit < bytes * 8; bit++) {
		f->payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (nspy_ops_decode(f->payload, (size_t)bytes, f->out, NSPY_CHUNK_RECORDS_MAX,
				    &got) == 0)
			assert_true(got <= NSPY_CHUNK_RECORDS_MAX);
		f->payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(step_job_survives, setup, teardown),
		cmocka_unit_test_setup_teardown(empty_and_single_chunks_survive, setup, teardown),
		cmocka_unit_test_setup_teardown(random_records_survive, setup, teardown),
		cmocka_unit_test_setup_teardown(open_calls_keep_their_leave_empty, setup, teardown),
		cmocka_unit_test_setup_teardown(side_records_keep_their_place, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_records_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged_payloads_do_no_harm, setup, teardown),
	};

	return cmocka_run_group_tests_name("trace_ops", tests, NULL, NULL);
}
