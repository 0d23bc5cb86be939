/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* Values made, copies included: a dump of 2000 operations with stacks has a few 100,000. */
#define VALUES_MAX (4u << 20)
#define TEXT_MAX   (1u << 20) /* one string */
#define STACK_MAX  (1u << 20)
#define MEMO_MAX   (1u << 22)
#define DEPTH_MAX  64u /* of containers in containers */

enum kind { VALUE, MARK, NAME };

struct item {
	enum kind kind;
	cJSON *value;
	unsigned depth; /* of containers in it */
};

struct reader {
	const uint8_t *begin, *at, *end;
	struct item *stack;
	size_t count, capacity;
	cJSON **memo; /* not owned: values on the stack or inside them */
	size_t memo_count;
	size_t memo_next; /* slot that MEMOIZE fills */
	cJSON *graveyard; /* values taken off the stack that the memo may still show */
	size_t values;
	const char *error;
};

static void fail(struct reader *r, const char *what)
{
	if (!r->error)
		r->error = what;
}

static const uint8_t *take(struct reader *r, size_t bytes)
{
	const uint8_t *p = r->at;

	if ((size_t)(r->end - r->at) < bytes) {
		fail(r, "cut off");
		return NULL;
	}
	r->at += bytes;
	return p;
}

static uint64_t number(struct reader *r, size_t bytes)
{
	const uint8_t *p = take(r, bytes);
	uint64_t value = 0;

	for (size_t i = 0; p && i < bytes; i++)
		value |= (uint64_t)p[i] << (8 * i);
	return value;
}

static void push_kind(struct reader *r, enum kind kind, cJSON *value)
{
	if (r->count >= STACK_MAX) {
		fail(r, "nested too deeply");
		cJSON_Delete(value);
		return;
	}
	r->stack = nspy_grow(r->stack, r->count, &r->capacity, sizeof(*r->stack));
	r->stack[r->count++] = (struct item){kind, value, 0};
}

static void push(struct reader *r, cJSON *value)
{
	if (!value || ++r->values > VALUES_MAX)
		fail(r, "holds more values than a dump can have");
	push_kind(r, VALUE, value);
}

/* Depth of a container around the values from `first` on; too deep ones are refused. */
static unsigned around(struct reader *r, size_t first)
{
	unsigned depth = 0;

	for (size_t i = first; i < r->count; i++)
		depth = r->stack[i].depth + 1 > depth ? r->stack[i].depth + 1 : depth;
	if (depth > DEPTH_MAX)
		fail(r, "nested too deeply");
	return depth;
}

/* The container at `at` is about to take in the values from `first` on. */
static bool deepen(struct reader *r, size_t at, size_t first)
{
	unsigned depth = around(r, first);

	if (depth > r->stack[at].depth)
		r->stack[at].depth = depth;
	return depth <= DEPTH_MAX;
}

static cJSON *pop(struct reader *r)
{
	if (r->count == 0 || r->stack[r->count - 1].kind != VALUE) {
		fail(r, "not a well-formed pickle");
		return NULL;
	}
	return r->stack[--r->count].value;
}

static void bury(struct reader *r, cJSON *value)
{
	if (value)
		cJSON_AddItemToArray(r->graveyard, value);
}

static size_t find_mark(struct reader *r)
{
	for (size_t i = r->count; i-- > 0;) {
		if (r->stack[i].kind == MARK)
			return i;
	}
	fail(r, "not a well-formed pickle");
	return r->count;
}

/* --- values --- */

static void push_text(struct reader *r, uint64_t bytes)
{
	const uint8_t *p = bytes > TEXT_MAX ? NULL : take(r, bytes);
	char *text;

	if (!p) {
		fail(r, bytes > TEXT_MAX ? "a string of absurd length" : "cut off");
		return;
	}
	text = nspy_xstrndup((const char *)p, bytes);
	push(r, cJSON_CreateString(text));
	free(text);
}

static void push_long(struct reader *r, size_t bytes)
{
	const uint8_t *p = take(r, bytes);
	double value = 0;

	if (!p)
		return;
	for (size_t i = bytes; i-- > 0;)
		value = value * 256 + p[i];
	if (bytes && (p[bytes - 1] & 0x80)) {
		double wrap = 1;

		for (size_t i = 0; i < bytes; i++)
			wrap *= 256;
		value -= wrap;
	}
	push(r, cJSON_CreateNumber(value));
}

static void push_float(struct reader *r)
{
	const uint8_t *p = take(r, 8);
	uint64_t bits = 0;
	double value;

	for (int i = 0; p && i < 8; i++)
		bits = bits << 8 | p[i];
	memcpy(&value, &bits, sizeof(value));
	push(r, cJSON_CreateNumber(value));
}

/* --- containers --- */

static void append_from(struct reader *r, size_t mark)
{
	cJSON *list =
		mark > 0 && r->stack[mark - 1].kind == VALUE ? r->stack[mark - 1].value : NULL;

	if (!list || !cJSON_IsArray(list) || !deepen(r, mark - 1, mark + 1)) {
		fail(r, "not a well-formed pickle");
		return;
	}
	for (size_t i = mark + 1; i < r->count; i++)
		cJSON_AddItemToArray(list, r->stack[i].value);
	r->count = mark;
}

static void set_pair(struct reader *r, cJSON *dict, cJSON *key, cJSON *value)
{
	char name[32];

	if (cJSON_IsString(key)) {
		cJSON_AddItemToObject(dict, key->valuestring, value);
	} else {
		(void)snprintf(name, sizeof(name), "%.0f",
			       cJSON_IsNumber(key) ? key->valuedouble : 0);
		cJSON_AddItemToObject(dict, name, value);
	}
	bury(r, key);
}

static void set_from(struct reader *r, size_t mark)
{
	cJSON *dict =
		mark > 0 && r->stack[mark - 1].kind == VALUE ? r->stack[mark - 1].value : NULL;

	if (!dict || !cJSON_IsObject(dict) || (r->count - mark) % 2 == 0 ||
	    !deepen(r, mark - 1, mark + 1)) {
		fail(r, "not a well-formed pickle");
		return;
	}
	for (size_t i = mark + 1; i + 1 < r->count; i += 2)
		set_pair(r, dict, r->stack[i].value, r->stack[i + 1].value);
	r->count = mark;
}

static void tuple_from(struct reader *r, size_t first, bool mark)
{
	unsigned depth = around(r, first + mark);
	cJSON *list;

	for (size_t i = first + mark; i < r->count; i++) {
		if (r->stack[i].kind != VALUE)
			fail(r, "not a well-formed pickle");
	}
	if (r->error)
		return;
	list = cJSON_CreateArray();
	for (size_t i = first + mark; i < r->count; i++)
		cJSON_AddItemToArray(list, r->stack[i].value);
	r->count = first;
	push(r, list);
	if (r->count)
		r->stack[r->count - 1].depth = depth;
}

/* --- what was seen before --- */

static size_t weigh(const cJSON *value, unsigned depth, unsigned *ret_depth)
{
	size_t weight = 1;

	if (depth > *ret_depth)
		*ret_depth = depth;
	for (const cJSON *child = value->child; child && weight < VALUES_MAX; child = child->next)
		weight += weigh(child, depth + 1, ret_depth);
	return weight;
}

static void get(struct reader *r, uint64_t slot)
{
	const cJSON *value = slot < r->memo_count ? r->memo[slot] : NULL;
	unsigned depth = 0;
	cJSON *copy;

	if (!value) {
		/* Names of functions are memorised, too. */
		push_kind(r, NAME, NULL);
		return;
	}
	r->values += weigh(value, 0, &depth);
	if (r->values > VALUES_MAX) {
		fail(r, "holds more values than a dump can have");
		return;
	}
	copy = cJSON_Duplicate(value, true);
	if (copy && copy->string) {
		/* It was the value of a key there. */
		cJSON_free(copy->string);
		copy->string = NULL;
	}
	push(r, copy);
	if (r->count)
		r->stack[r->count - 1].depth = depth;
}

static void put(struct reader *r, uint64_t slot)
{
	if (slot >= MEMO_MAX || r->count == 0) {
		fail(r, "not a well-formed pickle");
		return;
	}
	if (slot >= r->memo_count) {
		size_t more = r->memo_count ? r->memo_count : 256;

		while (more <= slot)
			more *= 2;
		r->memo = nspy_xrealloc(r->memo, more, sizeof(cJSON *));
		memset(r->memo + r->memo_count, 0, (more - r->memo_count) * sizeof(cJSON *));
		r->memo_count = more;
	}
	r->memo[slot] = r->stack[r->count - 1].value;
	if (slot >= r->memo_next)
		r->memo_next = slot + 1;
}

/* --- functions: none is called --- */

static const char *const harmless[] = {
	"torch.jit._pickle\nbuild_intlist\n",  "torch.jit._pickle\nbuild_doublelist\n",
	"torch.jit._pickle\nbuild_boollist\n", "torch.jit._pickle\nrestore_type_tag\n",
	"collections\nOrderedDict\n",
};

static void push_name(struct reader *r)
{
	const uint8_t *begin = r->at;

	for (int lines = 0; lines < 2; lines++) {
		const uint8_t *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));

		if (!newline) {
			fail(r, "cut off");
			return;
		}
		r->at = newline + 1;
	}
	for (size_t i = 0; i < nspy_array_size(harmless); i++) {
		size_t bytes = strlen(harmless[i]);

		if ((size_t)(r->at - begin) == bytes && memcmp(begin, harmless[i], bytes) == 0) {
			push_kind(r, NAME, NULL);
			return;
		}
	}
	r->at = begin;
	fail(r, "asks for a function to be called, which a dump of plain data does not: refused");
}

/* name, (value, ...) -> value */
static void reduce(struct reader *r)
{
	unsigned depth = r->count ? r->stack[r->count - 1].depth : 0;
	cJSON *arguments = pop(r);

	if (!arguments || r->count == 0 || r->stack[r->count - 1].kind != NAME) {
		fail(r, "not a well-formed pickle");
		bury(r, arguments);
		return;
	}
	r->count--;
	if (cJSON_IsArray(arguments) && arguments->child)
		push(r, cJSON_DetachItemViaPointer(arguments, arguments->child));
	else
		push(r, cJSON_CreateObject());
	if (r->count)
		r->stack[r->count - 1].depth = depth;
	bury(r, arguments);
}

/* --- opcodes --- */

static bool scalar(struct reader *r, uint8_t op)
{
	switch (op) {
	case 'N':
		push(r, cJSON_CreateNull());
		return true;
	case 0x88:
	case 0x89:
		push(r, cJSON_CreateBool(op == 0x88));
		return true;
	case 'K':
		push(r, cJSON_CreateNumber((double)number(r, 1)));
		return true;
	case 'M':
		push(r, cJSON_CreateNumber((double)number(r, 2)));
		return true;
	case 'J':
		push(r, cJSON_CreateNumber((double)(int32_t)number(r, 4)));
		return true;
	case 0x8a:
		push_long(r, number(r, 1));
		return true;
	case 'G':
		push_float(r);
		return true;
	case 'U':
	case 'C':
	case 0x8c:
		push_text(r, number(r, 1));
		return true;
	case 'T':
	case 'X':
	case 'B':
		push_text(r, number(r, 4));
		return true;
	case 0x8d:
		push_text(r, number(r, 8));
		return true;
	default:
		return false;
	}
}

/* The last `values` items go into the container below them. */
static bool can_take(struct reader *r, size_t values)
{
	for (size_t i = 0; i <= values; i++) {
		if (r->count <= i || r->stack[r->count - 1 - i].kind != VALUE) {
			fail(r, "not a well-formed pickle");
			return false;
		}
	}
	return deepen(r, r->count - 1 - values, r->count - values);
}

static void append_one(struct reader *r)
{
	cJSON *list;

	if (!can_take(r, 1))
		return;
	list = r->stack[r->count - 2].value;
	if (!cJSON_IsArray(list))
		fail(r, "not a well-formed pickle");
	else
		cJSON_AddItemToArray(list, r->stack[--r->count].value);
}

static void set_one(struct reader *r)
{
	cJSON *dict;

	if (!can_take(r, 2))
		return;
	dict = r->stack[r->count - 3].value;
	if (!cJSON_IsObject(dict)) {
		fail(r, "not a well-formed pickle");
		return;
	}
	r->count -= 2;
	set_pair(r, dict, r->stack[r->count].value, r->stack[r->count + 1].value);
}

/* Everything above the mark must be a value. */
static size_t values_mark(struct reader *r)
{
	size_t mark = find_mark(r);

	for (size_t i = mark + 1; i < r->count; i++) {
		if (r->stack[i].kind != VALUE)
			fail(r, "not a well-formed pickle");
	}
	return mark;
}

static bool container(struct reader *r, uint8_t op)
{
	size_t mark;

	switch (op) {
	case '(':
		push_kind(r, MARK, NULL);
		return true;
	case ']':
	case ')':
		push(r, cJSON_CreateArray());
		return true;
	case '}':
		push(r, cJSON_CreateObject());
		return true;
	case 'a':
		append_one(r);
		return true;
	case 's':
		set_one(r);
		return true;
	case 'e':
	case 'u':
	case 't':
	case 'l':
		mark = values_mark(r);
		if (r->error)
			return true;
		if (op == 'e')
			append_from(r, mark);
		else if (op == 'u')
			set_from(r, mark);
		else
			tuple_from(r, mark, true);
		return true;
	case 0x85:
	case 0x86:
	case 0x87:
		if (r->count < (size_t)(op - 0x84))
			fail(r, "not a well-formed pickle");
		else
			tuple_from(r, r->count - (size_t)(op - 0x84), false);
		return true;
	default:
		return false;
	}
}

static bool reference(struct reader *r, uint8_t op)
{
	switch (op) {
	case 'q':
		put(r, number(r, 1));
		return true;
	case 'r':
		put(r, number(r, 4));
		return true;
	case 0x94: /* MEMOIZE: the next free one */
		put(r, r->memo_next);
		return true;
	case 'h':
		get(r, number(r, 1));
		return true;
	case 'j':
		get(r, number(r, 4));
		return true;
	case 'c':
		push_name(r);
		return true;
	case 'R':
		reduce(r);
		return true;
	case '0':
		bury(r, pop(r));
		return true;
	case 0x80:
		take(r, 1);
		return true;
	case 0x95:
		take(r, 8);
		return true;
	default:
		return false;
	}
}

static void run(struct reader *r)
{
	while (!r->error) {
		const uint8_t *op = take(r, 1);

		if (!op || *op == '.')
			return;
		if (!scalar(r, *op) && !container(r, *op) && !reference(r, *op)) {
			r->at--;
			fail(r, "an instruction that plain data does not need: refused");
		}
	}
}

struct cJSON *nspy_pickle_read(const void *data, size_t bytes, char *ret_error, size_t error_bytes)
{
	struct reader r = {.begin = data, .at = data, .end = (const uint8_t *)data + bytes};
	cJSON *result = NULL;

	r.graveyard = cJSON_CreateArray();
	run(&r);
	if (!r.error && r.count == 1 && r.stack[0].kind == VALUE)
		result = r.stack[--r.count].value;
	else
		fail(&r, "not a well-formed pickle");
	if (!result)
		(void)snprintf(ret_error, error_bytes, "pickle: %s, at offset %zu", r.error,
			       (size_t)(r.at - r.begin));
	for (size_t i = 0; i < r.count; i++)
		cJSON_Delete(r.stack[i].value);
	cJSON_Delete(r.graveyard);
	free(r.stack);
	free(r.memo);
	return result;
}
