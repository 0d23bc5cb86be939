/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_script.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD_BYTES 64

struct rule {
	long rank_lo, rank_hi;
	long nth_lo, nth_hi;
	long step_lo, step_hi;
	enum fake_op op;
	bool has_op, has_act, has_step;
	char comm[WORD_BYTES];
	struct fake_fault fault;
	atomic_long seen[FAKE_FAULT_RANKS];
};

enum arg_kind { ARG_NONE, ARG_TIME, ARG_NUMBER, ARG_DATATYPE, ARG_OP, ARG_REDOP };

static const struct {
	const char *name;
	enum arg_kind arg;
	bool in_library;
} acts[] = {
	[FAKE_ACT_DELAY] = {"delay", ARG_TIME, false},
	[FAKE_ACT_JITTER] = {"jitter", ARG_TIME, false},
	[FAKE_ACT_HANG] = {"hang", ARG_NONE, false},
	[FAKE_ACT_SPIN] = {"spin", ARG_NONE, false},
	[FAKE_ACT_STOP] = {"stop", ARG_NONE, false},
	[FAKE_ACT_HOLD] = {"hold", ARG_NUMBER, false},
	[FAKE_ACT_SKIP] = {"skip", ARG_NONE, false},
	[FAKE_ACT_KILL] = {"kill", ARG_NONE, false},
	[FAKE_ACT_SEGV] = {"segv", ARG_NONE, false},
	[FAKE_ACT_EXIT] = {"exit", ARG_NUMBER, false},
	[FAKE_ACT_COUNT] = {"count", ARG_NUMBER, false},
	[FAKE_ACT_DATATYPE] = {"datatype", ARG_DATATYPE, false},
	[FAKE_ACT_OP] = {"op", ARG_OP, false},
	[FAKE_ACT_REDOP] = {"redop", ARG_REDOP, false},
	[FAKE_ACT_ROOT] = {"root", ARG_NUMBER, false},
	[FAKE_ACT_PEER] = {"peer", ARG_NUMBER, false},
	[FAKE_ACT_INVERT] = {"invert", ARG_NONE, false},
	[FAKE_ACT_HANG_INSIDE] = {"hang-inside", ARG_NONE, true},
	[FAKE_ACT_STALL] = {"stall", ARG_NONE, true},
	[FAKE_ACT_LATE] = {"late", ARG_TIME, true},
	[FAKE_ACT_SLOW] = {"slow", ARG_TIME, true},
	[FAKE_ACT_ASYNCERR] = {"asyncerr", ARG_NUMBER, true},
	[FAKE_ACT_GPUFAULT] = {"gpufault", ARG_NUMBER, true},
	[FAKE_ACT_FAIL] = {"fail", ARG_NUMBER, true},
	[FAKE_ACT_OOM] = {"oom", ARG_NONE, true},
	[FAKE_ACT_VERSION] = {"version", ARG_NUMBER, true},
};
#define ACTS (sizeof(acts) / sizeof(acts[0]))

static const char *const op_names[] = {
	[FAKE_OP_ALL_REDUCE] = "all_reduce",
	[FAKE_OP_ALL_GATHER] = "all_gather",
	[FAKE_OP_REDUCE_SCATTER] = "reduce_scatter",
	[FAKE_OP_REDUCE] = "reduce",
	[FAKE_OP_BROADCAST] = "broadcast",
	[FAKE_OP_ALL_TO_ALL] = "all_to_all",
	[FAKE_OP_GATHER] = "gather",
	[FAKE_OP_SCATTER] = "scatter",
	[FAKE_OP_SEND] = "send",
	[FAKE_OP_RECV] = "recv",
	[FAKE_OP_INIT] = "init",
	[FAKE_OP_SPLIT] = "split",
	[FAKE_OP_MALLOC] = "malloc",
	[FAKE_OP_SYNC] = "sync",
	[FAKE_OP_CHECKPOINT] = "checkpoint",
	[FAKE_OP_COMPUTE] = "compute",
	[FAKE_OP_COLL] = "coll",
	[FAKE_OP_P2P] = "p2p",
	[FAKE_OP_ANY] = "any",
};
#define OPS (sizeof(op_names) / sizeof(op_names[0]))

/* in the order of ncclDataType_t and ncclRedOp_t */
static const char *const datatype_names[] = {"int8",    "uint8",    "int32",      "uint32",
					     "int64",   "uint64",   "float16",    "float32",
					     "float64", "bfloat16", "float8e4m3", "float8e5m2"};
static const char *const redop_names[] = {"sum", "prod", "max", "min", "avg"};

static struct rule rules[FAKE_FAULT_RULES];
static int rule_count;
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

const char *fake_op_name(enum fake_op op)
{
	return op_names[op];
}

const char *fake_act_name(enum fake_act act)
{
	return acts[act].name;
}

static void __attribute__((noreturn, format(printf, 2, 3)))
reject(const char *rule, const char *format, ...)
{
	char text[512];
	va_list args;
	int n = snprintf(text, sizeof(text), "NSPY_FAKE: rule '%s': ", rule);

	va_start(args, format);
	vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
	va_end(args);
	fprintf(stderr, "%s\n", text);
	/* may run inside the dynamic loader: no exit handlers */
	_exit(2);
}

static int find_name(const char *const *names, size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(names[i], word) == 0)
			return (int)i;
	}
	return -1;
}

static int64_t parse_number(const char *rule, const char *word)
{
	char *end;
	long long value = strtoll(word, &end, 10);

	if (*word == '\0' || *end != '\0')
		reject(rule, "'%s' is not a number", word);
	return value;
}

/* 500ms, 2s, 1.5s, 100us -> nanoseconds */
static int64_t parse_time(const char *rule, const char *word)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	double value = strtod(word, &end);

	for (size_t i = 0; end != word && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) == 0 && value >= 0 && value < 1e6)
			return (int64_t)(value * units[i].ns);
	}
	reject(rule, "'%s' is not a time (100us, 500ms, 2s)", word);
}

/* "3", "3-5", "3-" and "any" */
static void parse_range(const char *rule, const char *word, long *ret_lo, long *ret_hi)
{
	char *end;

	*ret_lo = 0;
	*ret_hi = LONG_MAX;
	if (strcmp(word, "any") == 0)
		return;
	if (!isdigit((unsigned char)*word))
		reject(rule, "'%s' is not a number or range (3, 3-5, 3-, any)", word);
	*ret_lo = strtol(word, &end, 10);
	if (*end == '\0') {
		*ret_hi = *ret_lo;
		return;
	}
	if (*end == '-' && end[1] == '\0')
		return;
	if (*end == '-' && isdigit((unsigned char)end[1])) {
		*ret_hi = strtol(end + 1, &end, 10);
		if (*end == '\0' && *ret_hi >= *ret_lo)
			return;
	}
	reject(rule, "'%s' is not a number or range (3, 3-5, 3-, any)", word);
}

/* "op:" takes another collective or, as a shorthand, a reduction */
static void parse_op_arg(const char *text, const char *arg, struct fake_fault *fault)
{
	int op = find_name(op_names, FAKE_OP_SEND, arg);
	int redop = find_name(redop_names, sizeof(redop_names) / sizeof(redop_names[0]), arg);

	if (op >= 0) {
		fault->arg = op;
	} else if (redop >= 0) {
		fault->act = FAKE_ACT_REDOP;
		fault->arg = redop;
	} else {
		reject(text, "unknown operation '%s'", arg);
	}
}

static void parse_arg(const char *text, enum arg_kind kind, const char *arg,
		      struct fake_fault *fault)
{
	const char *const *names = kind == ARG_DATATYPE ? datatype_names : redop_names;
	size_t count = kind == ARG_DATATYPE ? 12 : 5;

	switch (kind) {
	case ARG_NONE:
		break;
	case ARG_TIME:
		fault->arg = parse_time(text, arg);
		break;
	case ARG_NUMBER:
		fault->arg = parse_number(text, arg);
		break;
	case ARG_OP:
		parse_op_arg(text, arg, fault);
		break;
	case ARG_DATATYPE:
	case ARG_REDOP:
		fault->arg = find_name(names, count, arg);
		if (fault->arg < 0)
			reject(text, "unknown word '%s' after '%s:'", arg, acts[fault->act].name);
		break;
	}
}

static void parse_act(const char *text, char *word, struct rule *rule)
{
	char *arg = strchr(word, ':');

	if (arg)
		*arg++ = '\0';
	for (size_t i = 0; i < ACTS; i++) {
		if (strcmp(acts[i].name, word) != 0)
			continue;
		if (!!arg != (acts[i].arg != ARG_NONE))
			reject(text, "'do=%s' %s", word, arg ? "takes no value" : "needs a value");
		rule->fault.act = (enum fake_act)i;
		rule->has_act = true;
		parse_arg(text, acts[i].arg, arg, &rule->fault);
		return;
	}
	reject(text, "unknown fault 'do=%s'", word);
}

static void parse_word(const char *text, char *word, struct rule *rule)
{
	char *value = strchr(word, '=');
	int op;

	if (!value)
		reject(text, "'%s' is not key=value", word);
	*value++ = '\0';
	if (strcmp(word, "rank") == 0) {
		parse_range(text, value, &rule->rank_lo, &rule->rank_hi);
	} else if (strcmp(word, "nth") == 0) {
		parse_range(text, value, &rule->nth_lo, &rule->nth_hi);
	} else if (strcmp(word, "step") == 0) {
		parse_range(text, value, &rule->step_lo, &rule->step_hi);
		rule->has_step = true;
	} else if (strcmp(word, "comm") == 0) {
		snprintf(rule->comm, sizeof(rule->comm), "%s", value);
	} else if (strcmp(word, "op") == 0) {
		op = find_name(op_names, OPS, value);
		if (op < 0)
			reject(text, "unknown operation 'op=%s'", value);
		rule->op = (enum fake_op)op;
		rule->has_op = true;
	} else if (strcmp(word, "do") == 0) {
		parse_act(text, value, rule);
	} else {
		reject(text, "unknown word '%s='", word);
	}
}

static bool rule_changes_arguments(const struct rule *rule)
{
	enum fake_act act = rule->fault.act;

	return act >= FAKE_ACT_COUNT && act <= FAKE_ACT_INVERT;
}

static void check_rule(const char *text, struct rule *rule)
{
	if (!rule->has_act)
		reject(text, "says nothing to do ('do=' is missing)");
	if (!rule->has_op)
		rule->op = rule->fault.act == FAKE_ACT_OOM ? FAKE_OP_MALLOC : FAKE_OP_ANY;
	if (acts[rule->fault.act].in_library && rule->has_step)
		reject(text, "'step=' is not known inside a library, use 'nth='");
	if (rule->fault.act == FAKE_ACT_OOM && rule->op != FAKE_OP_MALLOC)
		reject(text, "'do=oom' is for op=malloc");
	if (rule_changes_arguments(rule) && rule->op >= FAKE_OP_INIT && rule->op < FAKE_OP_COUNT)
		reject(text, "'do=%s' is for collectives, send and recv",
		       acts[rule->fault.act].name);
}

static void parse_rule(char *text)
{
	struct rule *rule;
	char whole[256];
	char *save = NULL;

	snprintf(whole, sizeof(whole), "%s", text);
	if (rule_count == FAKE_FAULT_RULES)
		reject(whole, "more than %d rules", FAKE_FAULT_RULES);
	rule = &rules[rule_count];
	rule->rank_hi = rule->nth_hi = rule->step_hi = LONG_MAX;
	for (char *word = strtok_r(text, ", \t\n", &save); word;
	     word = strtok_r(NULL, ", \t\n", &save))
		parse_word(whole, word, rule);
	check_rule(whole, rule);
	rule_count++;
}

static void load(void)
{
	const char *value = getenv("NSPY_FAKE");
	char *copy, *save = NULL;

	if (!value || *value == '\0')
		return;
	copy = strdup(value);
	if (!copy)
		_exit(2);
	for (char *rule = strtok_r(copy, ";", &save); rule; rule = strtok_r(NULL, ";", &save)) {
		if (rule[strspn(rule, " \t\n")] != '\0')
			parse_rule(rule);
	}
	free(copy);
}

void fake_fault_load(void)
{
	pthread_once(&loaded, load);
}

static bool op_matches(enum fake_op wanted, enum fake_op op)
{
	bool p2p = op == FAKE_OP_SEND || op == FAKE_OP_RECV;

	switch (wanted) {
	case FAKE_OP_COLL:
		return op < FAKE_OP_SEND;
	case FAKE_OP_P2P:
		return p2p;
	case FAKE_OP_ANY:
		return op < FAKE_OP_SEND || p2p;
	default:
		return wanted == op;
	}
}

static bool rule_matches(const struct rule *rule, const struct fake_occurrence *event)
{
	if (acts[rule->fault.act].in_library != event->in_library)
		return false;
	if (event->rank < rule->rank_lo || event->rank > rule->rank_hi)
		return false;
	if (event->step < rule->step_lo || event->step > rule->step_hi)
		return false;
	if (rule->comm[0] && (!event->comm || strcmp(rule->comm, event->comm) != 0))
		return false;
	return rule->fault.act != FAKE_ACT_VERSION && op_matches(rule->op, event->op);
}

int fake_fault_due(const struct fake_occurrence *event, struct fake_fault *ret_faults, int max)
{
	int due = 0;

	fake_fault_load();
	if (event->rank < 0)
		return 0;
	for (int i = 0; i < rule_count && due < max; i++) {
		struct rule *rule = &rules[i];
		long nth;

		if (!rule_matches(rule, event))
			continue;
		nth = 1 + atomic_fetch_add(&rule->seen[event->rank % FAKE_FAULT_RANKS], 1);
		if (nth >= rule->nth_lo && nth <= rule->nth_hi)
			ret_faults[due++] = rule->fault;
	}
	return due;
}

int fake_fault_version(int rank, int otherwise)
{
	fake_fault_load();
	for (int i = 0; i < rule_count; i++) {
		if (rules[i].fault.act == FAKE_ACT_VERSION && rank >= rules[i].rank_lo &&
		    rank <= rules[i].rank_hi)
			return (int)rules[i].fault.arg;
	}
	return otherwise;
}
