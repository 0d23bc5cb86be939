/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "net_plugin.h"

#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "facts.h"
#include "resolve.h"

#define SLOTS          4u
#define TABLE_MAX      64u /* pointers; version 12 has 25 */
#define API_OLDEST     4u
#define API_NEWEST     12u
#define API_TWO_ARGS   10u
#define API_FIVE_ARGS  11u
#define LOG_TEXT_BYTES 2048u /* NCCL itself cuts lines at 1024 */
#define LOG_WARN       2     /* enum ncclDebugLogLevel */
#define HEARD_MAX      200u  /* lines; a plugin says what it has to say at the start */

typedef void logger(int level, unsigned long flags, const char *file, int line, const char *format,
		    ...);
typedef int init_1(logger *log);
typedef int init_2(logger *log, void *profiler);
typedef int init_5(void **context, uint64_t comm, void *config, logger *log, void *profiler);
typedef int devices_fn(int *count);
typedef void any_fn(void);

/* How every version of the table begins. */
struct table {
	const char *name;
	any_fn *init;
	any_fn *devices;
	any_fn *more[TABLE_MAX - 3];
};

struct slot {
	struct table ours;
	const struct table *theirs;
	size_t bytes;
	_Atomic(logger *) log; /* NCCL's */
	unsigned int api;
	_Atomic uint32_t state; /* 0 free, 1 being filled in, 2 in use, for good */
	_Atomic uint32_t heard, starting, complained;
};

static struct slot slots[SLOTS];

/* --- the plugin's lines --- */

/* What follows words in a line of the plugin is a fact. */
static const struct {
	const char *words, *fact;
	const char *end; /* the value ends before one of these */
} heard[] = {
	{"Initializing aws-ofi-nccl ", "net_plugin.version", " \n"},
	{"Using Libfabric version ", "net_plugin.libfabric", " \n"},
	{"Using transport protocol ", "net_plugin.protocol", " \n"},
	{"Selected provider is ", "net_plugin.provider", ",\n"},
};

static void keep(const char *fact, const char *text, const char *end)
{
	char value[256];
	size_t n = strcspn(text, end);

	(void)snprintf(value, sizeof(value), "%.*s", (int)(n < 250 ? n : 250), text);
	if (value[0])
		nspy_facts_add(fact, value);
}

static void hear(struct slot *slot, int level, const char *text)
{
	if (!nspy_is_recording() ||
	    atomic_fetch_add_explicit(&slot->heard, 1, memory_order_relaxed) >= HEARD_MAX)
		return;
	for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++) {
		const char *at = strstr(text, heard[i].words);

		if (at)
			keep(heard[i].fact, at + strlen(heard[i].words), heard[i].end);
	}
	/* The first complaint is nearest to the cause. */
	if (level == LOG_WARN && atomic_load(&slot->starting) &&
	    atomic_exchange(&slot->complained, 1) == 0)
		keep("net_plugin.error", text, "\n");
}

/* The arguments of the format cannot be passed on, so the finished text is. */
static void pass_line(struct slot *slot, int level, unsigned long flags, const char *file, int line,
		      const char *format, va_list args)
{
	int saved = errno;
	char text[LOG_TEXT_BYTES];

	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the callers have started it */
	(void)vsnprintf(text, sizeof(text), format, args);
	hear(slot, level, text);
	errno = saved;
	atomic_load_explicit(&slot->log, memory_order_relaxed)(level, flags, file, line, "%s",
							       text);
}

/* --- init and devices --- */

/* A plugin may fill in its table when it starts. Others may be reading what is the same. */
static void refresh(struct slot *slot)
{
	if (slot->ours.name != slot->theirs->name)
		slot->ours.name = slot->theirs->name;
	for (size_t i = 0; i < slot->bytes / sizeof(any_fn *) - 3; i++)
		if (slot->ours.more[i] != slot->theirs->more[i])
			slot->ours.more[i] = slot->theirs->more[i];
}

static void started(struct slot *slot, int result)
{
	int saved = errno;

	refresh(slot);
	if (nspy_is_recording()) {
		if (slot->ours.name)
			nspy_facts_add("net_plugin.name", slot->ours.name);
		nspy_facts_add_number("net_plugin.api", slot->api);
		nspy_facts_add_number("net_plugin.init", (uint64_t)(unsigned int)result);
	}
	atomic_fetch_sub(&slot->starting, 1);
	errno = saved;
}

/* May be called for each communicator. */
static logger *begin(struct slot *slot, logger *log, logger *ours)
{
	atomic_fetch_add(&slot->starting, 1);
	if (!log)
		return NULL;
	atomic_store_explicit(&slot->log, log, memory_order_relaxed);
	return ours;
}

static int devices(struct slot *slot, int *count)
{
	devices_fn *real = (devices_fn *)slot->theirs->devices;
	int ret = real(count), saved = errno;

	if (ret == 0 && count && *count >= 0 && nspy_is_recording())
		nspy_facts_add_number("net_plugin.devices", (uint64_t)*count);
	errno = saved;
	return ret;
}

/* One set for each place: a function of the table has no argument that says whose it is. */
#define SLOT(n)                                                                                    \
	static void log_##n(int level, unsigned long flags, const char *file, int line,            \
			    const char *format, ...)                                               \
	{                                                                                          \
		va_list args;                                                                      \
                                                                                                   \
		va_start(args, format);                                                            \
		pass_line(&slots[n], level, flags, file, line, format, args);                      \
		va_end(args);                                                                      \
	}                                                                                          \
	static int init_1_##n(logger *log)                                                         \
	{                                                                                          \
		init_1 *real = (init_1 *)slots[n].theirs->init;                                    \
		int ret = real(begin(&slots[n], log, log_##n));                                    \
                                                                                                   \
		started(&slots[n], ret);                                                           \
		return ret;                                                                        \
	}                                                                                          \
	static int init_2_##n(logger *log, void *profiler)                                         \
	{                                                                                          \
		init_2 *real = (init_2 *)slots[n].theirs->init;                                    \
		int ret = real(begin(&slots[n], log, log_##n), profiler);                          \
                                                                                                   \
		started(&slots[n], ret);                                                           \
		return ret;                                                                        \
	}                                                                                          \
	static int init_5_##n(void **context, uint64_t comm, void *config, logger *log,            \
			      void *profiler)                                                      \
	{                                                                                          \
		init_5 *real = (init_5 *)slots[n].theirs->init;                                    \
		int ret = real(context, comm, config, begin(&slots[n], log, log_##n), profiler);   \
                                                                                                   \
		started(&slots[n], ret);                                                           \
		return ret;                                                                        \
	}                                                                                          \
	static int devices_##n(int *count)                                                         \
	{                                                                                          \
		return devices(&slots[n], count);                                                  \
	}

SLOT(0)
SLOT(1)
SLOT(2)
SLOT(3)

static const struct {
	init_1 *one;
	init_2 *two;
	init_5 *five;
	devices_fn *devices;
} entries[SLOTS] = {
	{init_1_0, init_2_0, init_5_0, devices_0},
	{init_1_1, init_2_1, init_5_1, devices_1},
	{init_1_2, init_2_2, init_5_2, devices_2},
	{init_1_3, init_2_3, init_5_3, devices_3},
};

/* --- the look-up --- */

/* Of "ncclNetPlugin_v<number>"; 0 if it is anything else, or no version that we know. */
static unsigned int api_of(const char *name)
{
	static const char begins[] = "ncclNetPlugin_v";
	unsigned int api = 0;

	if (strncmp(name, begins, sizeof(begins) - 1) != 0)
		return 0;
	for (name += sizeof(begins) - 1; *name >= '0' && *name <= '9' && api < 100; name++)
		api = api * 10 + (unsigned int)(*name - '0');
	return !*name && api >= API_OLDEST && api <= API_NEWEST ? api : 0;
}

/* Its size as the plugin's symbol table has it; 0 if that is not known or cannot be right. */
static size_t size_of(const void *table)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!nspy_sys_dladdr1(table, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    info.dli_saddr != table || symbol->st_size > sizeof(struct table) ||
	    symbol->st_size < 4 * sizeof(void *))
		return 0;
	return symbol->st_size;
}

static void fill(struct slot *slot, const struct table *table, unsigned int api, size_t bytes)
{
	size_t i = (size_t)(slot - slots);

	slot->theirs = table;
	slot->api = api;
	slot->bytes = bytes;
	memcpy(&slot->ours, table, bytes);
	if (api < API_TWO_ARGS)
		slot->ours.init = (any_fn *)entries[i].one;
	else if (api < API_FIVE_ARGS)
		slot->ours.init = (any_fn *)entries[i].two;
	else
		slot->ours.init = (any_fn *)entries[i].five;
	slot->ours.devices = (any_fn *)entries[i].devices;
}

/* The place of a table, taken for it if it has none yet; NULL if all are taken. */
static struct slot *place(const struct table *table, unsigned int api, size_t bytes)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *slot = &slots[i];
		uint32_t state = 0;

		if (atomic_compare_exchange_strong(&slot->state, &state, 1)) {
			fill(slot, table, api, bytes);
			atomic_store_explicit(&slot->state, 2, memory_order_release);
			return slot;
		}
		if (state == 2 && slot->theirs == table && slot->api == api && slot->bytes == bytes)
			return slot;
	}
	return NULL;
}

void *nspy_net_plugin_table(const char *name, void *table)
{
	unsigned int api = api_of(name);
	size_t bytes = api ? size_of(table) : 0;
	const struct table *theirs = table;
	struct slot *slot;

	if (!bytes || !nspy_is_recording() || !nspy_core.env.NCCLSPY_NET_PLUGIN || !theirs->init ||
	    !theirs->devices)
		return NULL;
	slot = place(theirs, api, bytes);
	return slot ? &slot->ours : NULL;
}
