/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "account.h"

#include <string.h>
#include <time.h>

#include "clock.h"
#include "core.h"
#include "live.h"
#include "mode.h"
#include "record.h"
#include "say.h"
#include "segment.h"

#define PAYLOAD_BYTES 16384u
#define SAMPLE_NS     1000000000ull
#define SAMPLE_MAX_NS 20000u /* a sample longer than that was interrupted */

struct hole {
	uint64_t from_ns, until_ns, records;
};

/* Memory as a thread's own has it, so that a sample touches as many lines and pages. */
struct scratch {
	struct nspy_slot slot;
	struct nspy_page page;
};

static struct {
	struct hole holes[NSPY_NOTE_HOLES_MAX];
	uint32_t hole_count;
	struct nspy_note_command commands[NSPY_NOTE_COMMANDS_MAX];
	char texts[NSPY_NOTE_COMMANDS_MAX][NSPY_NOTE_TEXT_MAX + 16];
	uint32_t command_count;
	struct scratch *scratch;
	uint64_t next_sample_ns, samples, warm_ns, cold_ns;
	_Atomic uint64_t watcher_ns, writer_ns;
	uint8_t payload[PAYLOAD_BYTES];
} book;

void nspy_account_start(void)
{
	memset(&book, 0, sizeof(book));
	book.scratch = nspy_live_map_private(sizeof(*book.scratch), 0);
}

/* --- holes --- */

/* The two that are closest become one: more is called missing than was. */
static void join_closest(void)
{
	uint32_t best = 1;

	for (uint32_t i = 2; i < book.hole_count; i++)
		if (book.holes[i].from_ns - book.holes[i - 1].until_ns <
		    book.holes[best].from_ns - book.holes[best - 1].until_ns)
			best = i;
	book.holes[best - 1].until_ns = book.holes[best].until_ns;
	book.holes[best - 1].records += book.holes[best].records;
	book.hole_count--;
	memmove(&book.holes[best], &book.holes[best + 1],
		(book.hole_count - best) * sizeof(book.holes[0]));
}

static void publish(const struct hole *hole)
{
	struct nspy_live_head *head = nspy_core.head;

	atomic_store_explicit(&head->hole_from_ns, hole->from_ns, memory_order_relaxed);
	atomic_store_explicit(&head->hole_until_ns, hole->until_ns, memory_order_relaxed);
	atomic_store_explicit(&head->hole_records, hole->records, memory_order_release);
}

void nspy_account_hole(uint64_t from_ns, uint64_t until_ns, uint64_t records)
{
	uint64_t since_ns =
		atomic_load_explicit(&nspy_core.head->mode_since_ns, memory_order_relaxed);
	struct hole *last = book.hole_count ? &book.holes[book.hole_count - 1] : NULL;

	/* What is dropped of one time without recording is one hole. */
	if (last && (last->until_ns >= since_ns || from_ns <= last->until_ns)) {
		if (from_ns < last->from_ns)
			last->from_ns = from_ns;
		if (until_ns > last->until_ns)
			last->until_ns = until_ns;
		last->records += records;
	} else {
		if (book.hole_count == NSPY_NOTE_HOLES_MAX)
			join_closest();
		last = &book.holes[book.hole_count++];
		*last = (struct hole){from_ns, until_ns, records};
	}
	publish(last);
}

void nspy_account_command(const struct nspy_command *command, uint64_t now_ns)
{
	struct nspy_note_command *to;
	const char *verb = nspy_control_verb_name(command->verb);
	size_t n = strlen(verb), text = strnlen(command->text, sizeof(command->text));
	char *at;

	if (book.command_count == NSPY_NOTE_COMMANDS_MAX) {
		book.command_count--;
		memmove(&book.commands[0], &book.commands[1],
			book.command_count * sizeof(book.commands[0]));
		memmove(&book.texts[0], &book.texts[1], book.command_count * sizeof(book.texts[0]));
	}
	at = book.texts[book.command_count];
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): it has a length */
	memcpy(at, verb, n);
	if (text) {
		at[n++] = ' ';
		memcpy(at + n, command->text, text);
	}
	to = &book.commands[book.command_count++];
	*to = (struct nspy_note_command){.id = command->id, .taken_ns = now_ns};
	to->text_bytes = n + text < NSPY_NOTE_TEXT_MAX ? n + text : NSPY_NOTE_TEXT_MAX;
}

/* --- cost --- */

/* What a wrapper does around the real function, but for the hooks of the call. */
__attribute__((noinline)) static uint64_t record_once(struct scratch *s)
{
	struct nspy_tls t = {.slot = &s->slot, .page = &s->page};
	uint64_t begin = nspy_monotonic_ns();
	struct nspy_rec *rec;

	atomic_store_explicit(&s->page.committed, 0, memory_order_relaxed);
	rec = nspy_open_entry(&t, 0);
	if (rec) {
		rec->enter = nspy_ticks();
		atomic_store_explicit(&s->slot.depth, ++t.depth, memory_order_release);
		rec->leave = nspy_ticks();
		nspy_thread_append(&t, (const union nspy_any_rec *)rec);
		atomic_store_explicit(&s->slot.depth, --t.depth, memory_order_release);
	}
	return nspy_monotonic_ns() - begin;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec cpu;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) < 0)
		return 0;
	return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

void nspy_account_sample(uint64_t now_ns)
{
	uint64_t cold, warm, clock;

	if (now_ns < book.next_sample_ns || !book.scratch)
		return;
	book.next_sample_ns = now_ns + SAMPLE_NS;
	atomic_store_explicit(&book.writer_ns, thread_cpu_ns(), memory_order_relaxed);
	cold = record_once(book.scratch);
	(void)record_once(book.scratch);
	warm = record_once(book.scratch);
	/* The two readings that measure take as long as one. */
	clock = nspy_monotonic_ns();
	clock = nspy_monotonic_ns() - clock;
	if (cold > SAMPLE_MAX_NS || warm > SAMPLE_MAX_NS)
		return;
	book.samples++;
	book.cold_ns += cold > clock ? cold - clock : 0;
	book.warm_ns += warm > clock ? warm - clock : 0;
}

void nspy_account_watcher(void)
{
	atomic_store_explicit(&book.watcher_ns, thread_cpu_ns(), memory_order_relaxed);
}

uint64_t nspy_account_thread_ns(void)
{
	return atomic_load_explicit(&book.watcher_ns, memory_order_relaxed) +
	       atomic_load_explicit(&book.writer_ns, memory_order_relaxed);
}

/* --- the chunk --- */

bool nspy_account_matters(void)
{
	return book.hole_count || book.command_count || nspy_mode_now() != NSPY_MODE_RECORD;
}

static void put_self(struct nspy_put *w)
{
	struct nspy_note note = {.kind = NSPY_NOTE_SELF};

	atomic_store_explicit(&book.writer_ns, thread_cpu_ns(), memory_order_relaxed);
	note.self = (struct nspy_note_self){
		.when_ns = nspy_monotonic_ns(),
		.warm_ns = book.samples ? book.warm_ns / book.samples : 0,
		.cold_ns = book.samples ? book.cold_ns / book.samples : 0,
		.samples = book.samples,
		.watcher_ns = atomic_load_explicit(&book.watcher_ns, memory_order_relaxed),
		.writer_ns = atomic_load_explicit(&book.writer_ns, memory_order_relaxed),
		.written = nspy_segment_bytes_written(),
		.dropped = nspy_say_dropped(),
	};
	nspy_note_put(w, &note);
}

long nspy_account_encode(uint8_t *out, size_t bytes)
{
	struct nspy_put w = {out, out + bytes, false};
	struct nspy_note note = {
		.kind = NSPY_NOTE_MODE,
		.mode = {nspy_mode_now(), atomic_load_explicit(&nspy_core.head->mode_since_ns,
							       memory_order_relaxed)}};

	nspy_note_put(&w, &note);
	for (uint32_t i = 0; i < book.hole_count; i++) {
		const struct hole *hole = &book.holes[i];

		note = (struct nspy_note){.kind = NSPY_NOTE_HOLE,
					  .hole = {hole->from_ns, hole->until_ns, hole->records}};
		nspy_note_put(&w, &note);
	}
	for (uint32_t i = 0; i < book.command_count; i++) {
		note = (struct nspy_note){.kind = NSPY_NOTE_COMMAND, .command = book.commands[i]};
		note.command.text = book.texts[i];
		nspy_note_put(&w, &note);
	}
	put_self(&w);
	return w.bad ? -1 : (long)(w.at - out);
}

bool nspy_account_write(void)
{
	struct nspy_chunk_info info = {.kind = NSPY_CHUNK_NOTE};
	long bytes = nspy_account_encode(book.payload, sizeof(book.payload));

	info.first_ns = info.last_ns = nspy_monotonic_ns();
	return bytes >= 0 && nspy_segment_write(&info, book.payload, (size_t)bytes);
}
