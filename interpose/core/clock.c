/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CLOCKSOURCE_PATH "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define SAMPLE_TRIES     5
/* An error found at one anchor is gone when the next one is due. */
#define SLEW_NS 1000000000
/* A deviation that slewing would take minutes to remove is a new epoch (suspend, migration). */
#define JUMP_NS 1000000

struct sample {
	uint64_t ticks;
	uint64_t mono_ns;
	uint64_t real_ns;
};

static uint64_t load_counter;
static uint64_t load_mono_ns;
static struct sample previous; /* last anchor as measured */

static uint64_t counter(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return 0;
#endif
}

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t nspy_clock_load_ns(void)
{
	return load_mono_ns;
}

void nspy_clock_load(void)
{
	load_counter = counter();
	load_mono_ns = nspy_monotonic_ns();
}

/* The tightest of a few pairs: ticks taken in the middle of the shortest clock read. */
static struct sample take_sample(void)
{
	struct sample best = {0};
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < SAMPLE_TRIES; i++) {
		uint64_t before = nspy_ticks();
		uint64_t mono_ns = nspy_monotonic_ns();
		uint64_t after = nspy_ticks();

		if (after - before < best_width) {
			best_width = after - before;
			best.ticks = before + (after - before) / 2;
			best.mono_ns = mono_ns;
		}
	}
	best.real_ns = realtime_ns() - (nspy_monotonic_ns() - best.mono_ns);
	if (nspy_hot->clock_source == NSPY_CLOCK_MONOTONIC)
		best.ticks = best.mono_ns;
	return best;
}

static bool kernel_uses(const char *name)
{
	char text[32] = {0};
	int fd = open(CLOCKSOURCE_PATH, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return n > 0 && strncmp(text, name, strlen(name)) == 0;
}

static uint32_t usable_source(void)
{
#if defined(__x86_64__)
	if (kernel_uses("tsc"))
		return NSPY_CLOCK_TSC;
#elif defined(__aarch64__)
	if (kernel_uses("arch_sys_counter"))
		return NSPY_CLOCK_CNTVCT;
#endif
	return NSPY_CLOCK_MONOTONIC;
}

static uint64_t ns_per_tick(uint64_t ticks, uint64_t ns)
{
	if (ticks == 0)
		return 1ULL << 32;
	return (uint64_t)(((unsigned __int128)ns << 32) / ticks);
}

/* Readers see either the old ring or the new one: the version is odd in between. */
static void add_piece(struct nspy_live_head *head, const struct nspy_clock_piece *piece)
{
	uint32_t count = head->clock_count;

	atomic_fetch_add_explicit(&head->clock_version, 1, memory_order_acq_rel);
	head->clock[count % NSPY_CLOCK_PIECES] = *piece;
	atomic_store_explicit(&head->clock_count, count + 1, memory_order_release);
	atomic_fetch_add_explicit(&head->clock_version, 1, memory_order_release);
}

void nspy_clock_start(struct nspy_live_head *head, bool allow_counter)
{
	struct nspy_clock_piece piece = {0};
	struct sample now;

	nspy_hot->clock_source = allow_counter ? usable_source() : NSPY_CLOCK_MONOTONIC;
	head->clock_source = nspy_hot->clock_source;
	now = take_sample();
	piece.base_ticks = now.ticks;
	piece.base_ns = now.mono_ns;
	piece.mult = 1ULL << 32;
	piece.mono_to_real_ns = (int64_t)(now.real_ns - now.mono_ns);
	if (nspy_hot->clock_source != NSPY_CLOCK_MONOTONIC)
		piece.mult = ns_per_tick(now.ticks - load_counter, now.mono_ns - load_mono_ns);
	previous = now;
	add_piece(head, &piece);
}

uint32_t nspy_clock_pieces(const struct nspy_live_head *head,
			   struct nspy_clock_piece ret[NSPY_CLOCK_PIECES])
{
	uint32_t made = head->clock_count;
	uint32_t kept = made < NSPY_CLOCK_PIECES ? made : NSPY_CLOCK_PIECES;

	for (uint32_t i = 0; i < kept; i++)
		ret[i] = head->clock[(made - kept + i) % NSPY_CLOCK_PIECES];
	return kept;
}

/* After a counter that ran backwards or a jump (suspend, migration): start over. */
static void new_epoch(struct nspy_live_head *head, struct nspy_clock_piece piece,
		      const struct sample *now)
{
	piece.base_ticks = now->ticks;
	piece.base_ns = now->mono_ns;
	piece.epoch++;
	add_piece(head, &piece);
}

void nspy_clock_anchor(struct nspy_live_head *head)
{
	struct nspy_clock_piece piece = head->clock[(head->clock_count - 1) % NSPY_CLOCK_PIECES];
	struct sample now = take_sample();
	struct sample before = previous;
	uint64_t predicted_ns, rate;
	int64_t error_ns;

	previous = now;
	piece.mono_to_real_ns = (int64_t)(now.real_ns - now.mono_ns);
	if (nspy_hot->clock_source == NSPY_CLOCK_MONOTONIC || now.ticks <= before.ticks ||
	    now.ticks <= piece.base_ticks) {
		new_epoch(head, piece, &now);
		return;
	}
	predicted_ns = nspy_clock_to_ns(&piece, 1, now.ticks);
	error_ns = (int64_t)(now.mono_ns - predicted_ns);
	rate = ns_per_tick(now.ticks - before.ticks, now.mono_ns - before.mono_ns);
	if (error_ns > JUMP_NS || error_ns < -JUMP_NS) {
		piece.mult = rate;
		new_epoch(head, piece, &now);
		return;
	}
	/* Join where the old line is and lean towards the clock. */
	piece.base_ticks = now.ticks;
	piece.base_ns = predicted_ns;
	piece.mult = rate + (uint64_t)((__int128)rate * error_ns / SLEW_NS);
	add_piece(head, &piece);
}
