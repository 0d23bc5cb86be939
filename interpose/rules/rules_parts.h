/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of interpose/rules share; not for users. */
#ifndef NSPY_RULES_PARTS_H
#define NSPY_RULES_PARTS_H

#include <stdint.h>

#include "rules.h"

#define NSPY_UNLIMITED UINT64_MAX

/* A rule fills in priority, scope, probable and text and returns true, or returns false. */
typedef bool nspy_rule_fn(const struct nspy_rule_facts *facts, struct nspy_rule_hit *hit);

struct nspy_rule {
	const char *id;
	nspy_rule_fn *check;
};

extern const struct nspy_rule nspy_rules_host[];
extern const struct nspy_rule nspy_rules_net[];
extern const struct nspy_rule nspy_rules_env[];

static inline const char *nspy_rule_get(const struct nspy_rule_facts *facts, const char *key)
{
	return facts->get(facts->context, key);
}

/* A number, or fallback if the fact is missing or none; "unlimited" is NSPY_UNLIMITED. */
uint64_t nspy_rule_number(const struct nspy_rule_facts *facts, const char *key, uint64_t fallback);

/* Whether the fact is there and equal. */
bool nspy_rule_is(const struct nspy_rule_facts *facts, const char *key, const char *value);

/* Whether a comma-separated value has the word. */
bool nspy_rule_has_word(const char *list, const char *word);

/* An RDMA device of a driver is there: "efa", "mlx5_core", NULL = any. */
bool nspy_rule_rdma(const struct nspy_rule_facts *facts, const char *driver);

void nspy_rule_say(struct nspy_rule_hit *hit, int priority, enum nspy_rule_scope scope,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
