/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <math.h>

#include "compare.h"
#include "report.h"
#include "text.h"

#define PAINT(on, code) ((on) ? (code) : "")

static void print_side(const struct nspy_runs *runs, const char *name, FILE *out)
{
	struct nspy_str s = {0};
	uint64_t steps = 0;

	for (size_t i = 0; i < runs->count; i++) {
		nspy_str_add(&s, i ? "," : "");
		if (i == 4 && runs->count > 5) {
			nspy_str_addf(&s, " and %zu more", runs->count - 4);
			break;
		}
		nspy_str_addf(&s, " %s", runs->items[i].job);
	}
	for (size_t i = 0; i < runs->count; i++)
		steps += runs->items[i].steps;
	fprintf(out, "%s: %zu run%s (%s)  %lld ranks on %lld node%s  %llu steps\n", name,
		runs->count, runs->count == 1 ? "" : "s", s.text + 1,
		(long long)runs->items[0].ranks, (long long)runs->items[0].nodes,
		runs->items[0].nodes == 1 ? "" : "s", (unsigned long long)steps);
	nspy_str_done(&s);
}

static const char *verdict_name(enum nspy_change verdict)
{
	static const char *const names[] = {
		[NSPY_CHANGE_NONE] = "none",
		[NSPY_CHANGE_WORSE] = "worse",
		[NSPY_CHANGE_BETTER] = "better",
		[NSPY_CHANGE_UNKNOWN] = "unknown",
	};

	return names[verdict];
}

static bool worth_a_line(const struct nspy_row *row)
{
	if (row->kind == NSPY_METRIC_STEP && !row->tail)
		return true;
	return row->verdict == NSPY_CHANGE_BETTER;
}

static void print_row(const struct nspy_comparison *c, const struct nspy_row *row, FILE *out,
		      bool colour)
{
	bool likely = nspy_row_is_likely(c, row), unknown = row->verdict == NSPY_CHANGE_UNKNOWN;
	struct nspy_str s = {0};

	nspy_row_add_name(&s, row);
	nspy_str_add(&s, " ");
	nspy_row_add_change(&s, row);
	if (row->verdict == NSPY_CHANGE_BETTER)
		nspy_str_add(&s, ", better");
	else if (unknown)
		nspy_str_add(&s, ", too few samples to judge");
	else if (!isnan(row->detectable))
		nspy_str_addf(&s, "; %sthese runs would show %.1f %% or more",
			      likely ? "likely slower, but " : "", row->detectable * 100);
	fprintf(out, "%s[%s]%s %s\n",
		PAINT(colour, likely    ? "\x1b[33m"
			      : unknown ? "\x1b[36m"
					: "\x1b[32m"),
		likely    ? "WARN"
		: unknown ? "INFO"
			  : "PASS",
		PAINT(colour, "\x1b[0m"), s.text);
	nspy_str_done(&s);
}

/* Steps that are likely slower: then "no regression" would be too much. */
static bool steps_are_likely(const struct nspy_comparison *c)
{
	for (size_t i = 0; i < c->row_count; i++) {
		if (c->rows[i].kind == NSPY_METRIC_STEP && !c->rows[i].tail &&
		    nspy_row_is_likely(c, &c->rows[i]))
			return true;
	}
	return false;
}

static void print_verdict(const struct nspy_comparison *c, FILE *out, bool colour)
{
	const struct nspy_finding *top = c->findings.count ? c->findings.items[0] : NULL;
	bool likely = steps_are_likely(c);

	if (top && top->priority <= 1)
		nspy_report_print_verdict(top, out, colour);
	else
		fprintf(out, "%sVERDICT: %s%s. page: nobody. do: %s. restart: not needed\n",
			PAINT(colour, "\x1b[1m"),
			!c->comparable ? "not comparable"
			: top          ? "no regression is proven, but see below"
			: likely       ? "steps are likely slower, which so few runs do not prove"
			: c->step_ns   ? "no regression is seen"
				       : "steps could not be compared, see below",
			PAINT(colour, "\x1b[0m"),
			c->run_variation && c->comparable && !likely
				? "nothing"
				: "compare several runs of one size");
}

void nspy_compare_print(const struct nspy_comparison *comparison, FILE *out, bool colour)
{
	print_side(comparison->base, "base", out);
	print_side(comparison->now, "new ", out);
	print_verdict(comparison, out, colour);
	for (size_t i = 0; i < comparison->findings.count; i++)
		nspy_report_print_finding(comparison->findings.items[i], out, colour);
	for (size_t i = 0; i < comparison->row_count; i++) {
		const struct nspy_row *row = &comparison->rows[i];

		if (worth_a_line(row) && row->verdict != NSPY_CHANGE_WORSE)
			print_row(comparison, row, out, colour);
	}
	for (size_t i = 0; i < comparison->reasons.count; i++)
		fprintf(out, "%s[WARN]%s %s\n", PAINT(colour, "\x1b[33m"), PAINT(colour, "\x1b[0m"),
			comparison->reasons.text[i]);
	for (size_t i = 0; i < comparison->differences.count; i++)
		fprintf(out, "%s[INFO]%s changed: %s\n", PAINT(colour, "\x1b[36m"),
			PAINT(colour, "\x1b[0m"), comparison->differences.text[i]);
	fputs("[INFO] times are those of the hosts' calls, not of the GPUs\n", out);
}

/* --- JSON --- */

static void add_number(cJSON *object, const char *name, double value)
{
	if (isnan(value))
		cJSON_AddNullToObject(object, name);
	else
		cJSON_AddNumberToObject(object, name, value);
}

static cJSON *row_json(const struct nspy_row *row)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "metric", nspy_metric_kind_name(row->kind));
	cJSON_AddStringToObject(object, "key", row->key);
	cJSON_AddBoolToObject(object, "tail", row->tail);
	if (row->bus_bytes > 0)
		add_number(object, "bus_bytes", row->bus_bytes);
	add_number(object, "base_ns", row->base_ns);
	add_number(object, "new_ns", row->now_ns);
	add_number(object, "change", row->change);
	add_number(object, "low", row->low);
	add_number(object, "high", row->high);
	add_number(object, "detectable", row->detectable);
	add_number(object, "p", row->p);
	cJSON_AddStringToObject(object, "verdict", verdict_name(row->verdict));
	return object;
}

static void add_texts(cJSON *object, const char *name, const struct nspy_texts *texts)
{
	cJSON *array = cJSON_AddArrayToObject(object, name);

	for (size_t i = 0; i < texts->count; i++)
		cJSON_AddItemToArray(array, cJSON_CreateString(texts->text[i]));
}

cJSON *nspy_compare_json(const struct nspy_comparison *comparison)
{
	cJSON *object = cJSON_CreateObject();
	cJSON *rows, *findings;

	cJSON_AddStringToObject(object, "schema", "ncclspy.compare/1");
	cJSON_AddStringToObject(object, "version", NSPY_VERSION);
	cJSON_AddBoolToObject(object, "comparable", comparison->comparable);
	cJSON_AddBoolToObject(object, "run_variation_known", comparison->run_variation);
	cJSON_AddNumberToObject(object, "min_effect", comparison->options.min_effect);
	cJSON_AddNumberToObject(object, "alpha", comparison->options.alpha);
	cJSON_AddItemToObject(object, "base", nspy_runs_json(comparison->base));
	cJSON_AddItemToObject(object, "new", nspy_runs_json(comparison->now));
	rows = cJSON_AddArrayToObject(object, "rows");
	for (size_t i = 0; i < comparison->row_count; i++)
		cJSON_AddItemToArray(rows, row_json(&comparison->rows[i]));
	if (comparison->node) {
		cJSON *node = cJSON_AddObjectToObject(object, "node");

		cJSON_AddStringToObject(node, "name", comparison->node);
		add_number(node, "base_ns", comparison->node_base_ns);
		add_number(node, "new_ns", comparison->node_now_ns);
	}
	findings = cJSON_AddArrayToObject(object, "findings");
	for (size_t i = 0; i < comparison->findings.count; i++)
		cJSON_AddItemToArray(findings,
				     nspy_report_finding_json(comparison->findings.items[i]));
	add_texts(object, "reasons", &comparison->reasons);
	add_texts(object, "differences", &comparison->differences);
	return object;
}
