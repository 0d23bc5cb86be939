/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two groups of runs beside their times: often the cause. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "text.h"

#define MIX_SHARE 0.02 /* a smaller change of how often an operation is called is none */
#define NAMED_MAX 8u

/* The value all runs of a group agree on; NULL if none has it, "" if they disagree. */
static const char *agreed(const struct nspy_runs *runs, const char *key)
{
	const char *value = nspy_run_fact(&runs->items[0], key);

	for (size_t i = 1; i < runs->count; i++) {
		const char *other = nspy_run_fact(&runs->items[i], key);

		if (other != value && (!other || !value || strcmp(other, value) != 0))
			return "";
	}
	return value;
}

static void compare_fact(struct nspy_comparison *c, const char *key)
{
	const char *base = agreed(c->base, key), *now = agreed(c->now, key);
	const char *name = strncmp(key, "env.", 4) == 0 ? key + 4 : key;
	struct nspy_str s = {0};

	if (base == now || (base && now && strcmp(base, now) == 0))
		return;
	/* A version that one side could not tell is not another one; a variable not set is. */
	if (name == key && (!base || !now))
		return;
	nspy_str_addf(&s, "%s: %s -> %s", name,
		      !base   ? "not set"
		      : *base ? base
			      : "differs from run to run",
		      !now   ? "not set"
		      : *now ? now
			     : "differs from run to run");
	nspy_texts_add(&c->differences, nspy_str_take(&s));
}

static void compare_facts(struct nspy_comparison *c)
{
	const struct nspy_run *base = &c->base->items[0], *now = &c->now->items[0];

	for (size_t i = 0; i < base->fact_count; i++)
		compare_fact(c, base->facts[i].key);
	for (size_t i = 0; i < now->fact_count; i++) {
		if (!nspy_run_fact(base, now->facts[i].key))
			compare_fact(c, now->facts[i].key);
	}
}

static bool any_has(const struct nspy_runs *runs, const char *host)
{
	for (size_t i = 0; i < runs->count; i++) {
		if (nspy_run_host(&runs->items[i], host))
			return true;
	}
	return false;
}

static void name_hosts(struct nspy_comparison *c, const struct nspy_runs *of,
		       const struct nspy_runs *not_of, const char *words)
{
	const struct nspy_run *last = &of->items[of->count - 1];
	const char **names = nspy_xcalloc(last->host_count + 1, sizeof(*names));
	struct nspy_str s = {0};
	size_t count = 0;

	for (size_t h = 0; h < last->host_count; h++) {
		if (!any_has(not_of, last->hosts[h].name))
			names[count++] = last->hosts[h].name;
	}
	if (count) {
		nspy_str_addf(&s, "%zu of %zu node%s %s: ", count, last->host_count,
			      last->host_count == 1 ? "" : "s", words);
		nspy_add_hostlist(&s, names, count);
		nspy_texts_add(&c->differences, nspy_str_take(&s));
	}
	free(names);
}

static const struct nspy_mix *find_mix(const struct nspy_run *run, const char *key)
{
	for (size_t i = 0; i < run->mix_count; i++) {
		if (strcmp(run->mix[i].key, key) == 0)
			return &run->mix[i];
	}
	return NULL;
}

static double rate_of(const struct nspy_runs *runs, const char *key)
{
	double sum = 0;

	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_mix *mix = find_mix(&runs->items[i], key);

		sum += mix ? mix->per_step : 0;
	}
	return sum / (double)runs->count;
}

static void compare_rate(struct nspy_comparison *c, const char *key, size_t *told)
{
	double base = rate_of(c->base, key), now = rate_of(c->now, key);
	const char *per = c->base->items[0].steps ? " per step" : "";

	if (fabs(now - base) <= MIX_SHARE * fmax(now, base))
		return;
	if (++*told > NAMED_MAX)
		return;
	nspy_texts_add(&c->differences, nspy_xasprintf("%s: %.4g%s -> %.4g", key, base, per, now));
}

static void compare_mix(struct nspy_comparison *c)
{
	const struct nspy_run *base = &c->base->items[0], *now = &c->now->items[0];
	size_t told = 0;

	if (!base->steps != !now->steps) /* totals against rates */
		return;
	for (size_t i = 0; i < base->mix_count; i++)
		compare_rate(c, base->mix[i].key, &told);
	for (size_t i = 0; i < now->mix_count; i++) {
		if (!find_mix(base, now->mix[i].key))
			compare_rate(c, now->mix[i].key, &told);
	}
	if (told > NAMED_MAX)
		nspy_texts_add(&c->differences,
			       nspy_xasprintf("%zu more kinds of operation come more or less often",
					      told - NAMED_MAX));
}

void nspy_compare_differences(struct nspy_comparison *comparison)
{
	compare_facts(comparison);
	name_hosts(comparison, comparison->now, comparison->base, "new");
	name_hosts(comparison, comparison->base, comparison->now, "no longer used");
	compare_mix(comparison);
}
