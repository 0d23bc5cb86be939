/* SPDX-License-Identifier: Apache-2.0 */
#include "rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules_parts.h"

uint64_t nspy_rule_number(const struct nspy_rule_facts *facts, const char *key, uint64_t fallback)
{
	const char *text = nspy_rule_get(facts, key);
	unsigned long long value;
	char *end;

	if (!text || !text[0] || text[0] == '-')
		return fallback;
	if (strcmp(text, "unlimited") == 0)
		return NSPY_UNLIMITED;
	value = strtoull(text, &end, 10);
	return *end ? fallback : value;
}

bool nspy_rule_is(const struct nspy_rule_facts *facts, const char *key, const char *value)
{
	const char *text = nspy_rule_get(facts, key);

	return text && strcmp(text, value) == 0;
}

bool nspy_rule_has_word(const char *list, const char *word)
{
	size_t bytes = strlen(word);

	while (list && *list) {
		size_t n = strcspn(list, ",");

		if (n == bytes && memcmp(list, word, n) == 0)
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

bool nspy_rule_rdma(const struct nspy_rule_facts *facts, const char *driver)
{
	if (!nspy_rule_number(facts, "rdma.count", 0))
		return false;
	return !driver || nspy_rule_has_word(nspy_rule_get(facts, "rdma.drivers"), driver);
}

void nspy_rule_say(struct nspy_rule_hit *hit, int priority, enum nspy_rule_scope scope,
		   const char *format, ...)
{
	va_list args;

	hit->priority = priority;
	hit->scope = scope;
	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	(void)vsnprintf(hit->text, sizeof(hit->text), format, args);
	va_end(args);
}

enum nspy_rule_span nspy_rules_span(const struct nspy_rule_facts *facts)
{
	uint64_t world = nspy_rule_number(facts, "world_size", 0);
	uint64_t local = nspy_rule_number(facts, "local_world_size", 0);

	if (nspy_rule_number(facts, "env.SLURM_NNODES", 1) > 1)
		return NSPY_SPAN_NODES;
	if (!world || !local)
		return NSPY_SPAN_UNKNOWN;
	return world > local ? NSPY_SPAN_NODES : NSPY_SPAN_ONE_NODE;
}

static void run(const struct nspy_rule *rule, const struct nspy_rule_facts *facts,
		nspy_rule_sink *sink, void *context)
{
	for (; rule->id; rule++) {
		struct nspy_rule_hit hit = {.id = rule->id};

		if (rule->check(facts, &hit))
			sink(&hit, context);
	}
}

void nspy_rules_run(const struct nspy_rule_facts *facts, nspy_rule_sink *sink, void *context)
{
	run(nspy_rules_net, facts, sink, context);
	run(nspy_rules_host, facts, sink, context);
	run(nspy_rules_env, facts, sink, context);
}
