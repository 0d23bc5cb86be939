/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "mode.h"

#include <string.h>

#include "core.h"

static struct {
	_Atomic uint32_t mode;
	_Atomic uint32_t dump;
	/* Commands, from the watcher to the writer. */
	_Atomic uint32_t put, taken; /* ever */
	_Atomic uint64_t done;
	struct nspy_command at[NSPY_CONTROL_COMMANDS];
} state;

static void publish(enum nspy_mode mode, uint64_t now_ns)
{
	atomic_store_explicit(&state.mode, mode, memory_order_relaxed);
	atomic_store_explicit(&nspy_core.head->mode_since_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&nspy_core.head->mode, mode, memory_order_release);
}

void nspy_mode_start(void)
{
	const char *wanted = nspy_core.env.NCCLSPY_MODE;
	enum nspy_mode mode = strcmp(wanted, "off") == 0     ? NSPY_MODE_OFF
			      : strcmp(wanted, "watch") == 0 ? NSPY_MODE_WATCH
							     : NSPY_MODE_RECORD;

	atomic_store(&state.dump, 0);
	atomic_store(&state.put, 0);
	atomic_store(&state.taken, 0);
	atomic_store(&state.done, 0);
	publish(mode, 0);
}

enum nspy_mode nspy_mode_now(void)
{
	return (enum nspy_mode)atomic_load_explicit(&state.mode, memory_order_relaxed);
}

bool nspy_mode_put(const struct nspy_command *command)
{
	uint32_t put = atomic_load_explicit(&state.put, memory_order_relaxed);

	if (put - atomic_load_explicit(&state.taken, memory_order_acquire) == NSPY_CONTROL_COMMANDS)
		return false;
	state.at[put % NSPY_CONTROL_COMMANDS] = *command;
	/* Pairs with the acquire load of the writer. */
	atomic_store_explicit(&state.put, put + 1, memory_order_release);
	return true;
}

uint64_t nspy_mode_done(void)
{
	return atomic_load_explicit(&state.done, memory_order_acquire);
}

void nspy_mode_ask_dump(void)
{
	atomic_store_explicit(&state.dump, 1, memory_order_release);
}

const struct nspy_command *nspy_mode_next(void)
{
	uint32_t taken = atomic_load_explicit(&state.taken, memory_order_relaxed);

	if (taken == atomic_load_explicit(&state.put, memory_order_acquire))
		return NULL;
	return &state.at[taken % NSPY_CONTROL_COMMANDS];
}

void nspy_mode_confirm(void)
{
	uint32_t taken = atomic_load_explicit(&state.taken, memory_order_relaxed);

	atomic_store_explicit(&state.done, state.at[taken % NSPY_CONTROL_COMMANDS].id,
			      memory_order_release);
	/* Pairs with the acquire load of the watcher: the place may be used again. */
	atomic_store_explicit(&state.taken, taken + 1, memory_order_release);
}

bool nspy_mode_take_dump(void)
{
	return atomic_exchange_explicit(&state.dump, 0, memory_order_acq_rel);
}

void nspy_mode_set(enum nspy_mode mode, uint64_t now_ns)
{
	publish(mode, now_ns);
}
