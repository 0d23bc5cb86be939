/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job amounts to as metrics of OpenTelemetry. All are gauges: a report says how things stood
 * when it was made, and one of a running job is followed by others.
 */
#include <cjson/cJSON.h>
#include <time.h>

#include "export.h"
#include "otlp.h"
#include "util.h"

struct gauges {
	cJSON *metrics;
	uint64_t start_ns, time_ns;
};

static cJSON *points_of(struct gauges *g, const char *name, const char *unit, const char *about)
{
	cJSON *metric = cJSON_CreateObject();

	cJSON_AddStringToObject(metric, "name", name);
	cJSON_AddStringToObject(metric, "description", about);
	cJSON_AddStringToObject(metric, "unit", unit);
	cJSON_AddItemToArray(g->metrics, metric);
	return cJSON_AddArrayToObject(cJSON_AddObjectToObject(metric, "gauge"), "dataPoints");
}

/* Returns the point's attributes. */
static cJSON *add_point(const struct gauges *g, cJSON *points, double value)
{
	cJSON *point = cJSON_CreateObject();

	nspy_otlp_time(point, "startTimeUnixNano", g->start_ns);
	nspy_otlp_time(point, "timeUnixNano", g->time_ns);
	cJSON_AddNumberToObject(point, "asDouble", value);
	cJSON_AddItemToArray(points, point);
	return cJSON_AddArrayToObject(point, "attributes");
}

/* A member of an object that is a number; nothing if it has none. */
static void add_number(struct gauges *g, const cJSON *object, const char *member, const char *name,
		       const char *unit, const char *about)
{
	const cJSON *number = cJSON_GetObjectItemCaseSensitive(object, member);

	if (cJSON_IsNumber(number))
		add_point(g, points_of(g, name, unit, about), number->valuedouble);
}

static void add_findings(struct gauges *g, const cJSON *findings)
{
	static const char *const names[] = {"P0", "P1", "P2"};
	cJSON *points = points_of(g, "ncclspy.findings", "{finding}",
				  "Findings of the report that are not accepted, by priority");
	unsigned counts[nspy_array_size(names)] = {0};
	const cJSON *finding;

	cJSON_ArrayForEach(finding, findings)
	{
		int priority = nspy_export_priority(finding);

		if (priority >= 0 && priority < (int)nspy_array_size(counts) &&
		    !cJSON_GetObjectItemCaseSensitive(finding, "ignored"))
			counts[priority]++;
	}
	for (size_t i = 0; i < nspy_array_size(names); i++)
		nspy_otlp_text(add_point(g, points, counts[i]), "ncclspy.priority", names[i]);
}

static void add_totals(struct gauges *g, const cJSON *totals)
{
	add_number(g, totals, "ranks", "ncclspy.ranks", "{rank}", "Ranks whose traces were read");
	add_number(g, totals, "world_size", "ncclspy.world_size", "{rank}",
		   "Ranks that the job has");
	add_number(g, totals, "nodes", "ncclspy.nodes", "{node}", "Nodes whose traces were read");
	add_number(g, totals, "operations", "ncclspy.operations", "{operation}",
		   "Collectives and messages of NCCL, counted once");
	add_number(g, totals, "bytes", "ncclspy.bytes", "By", "Bytes that they were given");
	add_number(g, totals, "lost_records", "ncclspy.records.lost", "{record}",
		   "Calls that were not recorded for want of room");
	add_number(g, totals, "trace_bytes", "ncclspy.trace.size", "By", "Size of the traces");
}

static void add_by_node(struct gauges *g, const cJSON *charges)
{
	cJSON *points;
	const cJSON *charge;

	if (!cJSON_GetArraySize(charges))
		return;
	points = points_of(g, "ncclspy.lost_time.by_node", "s",
			   "Rank-seconds that others waited for ranks of the node");
	cJSON_ArrayForEach(charge, charges)
	{
		const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(charge, "seconds");

		if (cJSON_IsNumber(seconds))
			nspy_otlp_text(add_point(g, points, seconds->valuedouble), "host.name",
				       nspy_export_text(charge, "node"));
	}
}

static void add_parts(struct gauges *g, const cJSON *total)
{
	cJSON *points;
	const cJSON *part;

	if (!total)
		return;
	points = points_of(g, "ncclspy.rank_time.part", "s",
			   "Where the hosts of the ranks spent their time");
	cJSON_ArrayForEach(part, total)
	{
		if (cJSON_IsNumber(part) && part->string)
			nspy_otlp_text(add_point(g, points, part->valuedouble), "ncclspy.part",
				       part->string);
	}
}

static void add_costs(struct gauges *g, const cJSON *costs)
{
	const cJSON *steps = cJSON_GetObjectItemCaseSensitive(costs, "steps");
	const cJSON *time = cJSON_GetObjectItemCaseSensitive(costs, "time");

	add_number(g, costs, "rank_seconds", "ncclspy.rank_time", "s", "Seconds of all ranks");
	add_number(g, costs, "lost_seconds", "ncclspy.lost_time", "s",
		   "Rank-seconds of waiting for the rank that came last");
	add_by_node(g, cJSON_GetObjectItemCaseSensitive(costs, "by_node"));
	add_parts(g, cJSON_GetObjectItemCaseSensitive(time, "total"));
	add_number(g, steps, "count", "ncclspy.steps", "{step}", "Steps that were recognised");
	add_number(g, steps, "median_seconds", "ncclspy.step.median", "s", "Median step");
	add_number(g, steps, "slowest_seconds", "ncclspy.step.slowest", "s", "Slowest step");
}

static void add_bandwidth_point(const struct gauges *g, cJSON *points, const cJSON *operation)
{
	static const char *const numbers[][2] = {{"ncclspy.ranks", "ranks"},
						 {"ncclspy.size.from", "size_from"},
						 {"ncclspy.size.below", "size_below"}};
	const cJSON *bound = cJSON_GetObjectItemCaseSensitive(operation, "busbw_at_least");
	const cJSON *median = cJSON_GetObjectItemCaseSensitive(bound, "median");
	cJSON *attributes;

	if (!cJSON_IsNumber(median))
		return;
	attributes = add_point(g, points, median->valuedouble);
	nspy_otlp_text(attributes, "ncclspy.function", nspy_export_text(operation, "function"));
	nspy_otlp_text(attributes, "ncclspy.shape", nspy_export_text(operation, "shape"));
	for (size_t i = 0; i < nspy_array_size(numbers); i++) {
		const cJSON *number = cJSON_GetObjectItemCaseSensitive(operation, numbers[i][1]);

		if (cJSON_IsNumber(number))
			nspy_otlp_integer(attributes, numbers[i][0], (int64_t)number->valuedouble);
	}
}

static void add_bandwidth(struct gauges *g, const cJSON *bandwidth)
{
	const cJSON *operations = cJSON_GetObjectItemCaseSensitive(bandwidth, "operations");
	const cJSON *operation;
	cJSON *points;

	if (!cJSON_GetArraySize(operations))
		return;
	points = points_of(g, "ncclspy.busbw.at_least", "By/s",
			   "Median bus bandwidth, a lower bound: from ends that the host saw");
	cJSON_ArrayForEach(operation, operations) add_bandwidth_point(g, points, operation);
}

static void add_job(cJSON *list, const cJSON *job)
{
	struct gauges g = {
		.metrics = nspy_otlp_resource(list, job, "scopeMetrics", "metrics"),
		.start_ns = nspy_otlp_parse_time(nspy_export_text(job, "start")),
		.time_ns = nspy_otlp_parse_time(nspy_export_text(job, "end")),
	};

	if (!g.time_ns)
		g.time_ns = (uint64_t)time(NULL) * 1000000000u;
	add_findings(&g, cJSON_GetObjectItemCaseSensitive(job, "findings"));
	add_totals(&g, cJSON_GetObjectItemCaseSensitive(job, "totals"));
	add_costs(&g, cJSON_GetObjectItemCaseSensitive(job, "costs"));
	add_bandwidth(&g, cJSON_GetObjectItemCaseSensitive(job, "bandwidth"));
}

char *nspy_export_otlp_metrics(const cJSON *jobs)
{
	cJSON *document = cJSON_CreateObject();
	cJSON *list = cJSON_AddArrayToObject(document, "resourceMetrics");
	const cJSON *job;

	cJSON_ArrayForEach(job, jobs) add_job(list, job);
	return nspy_otlp_line(document);
}
