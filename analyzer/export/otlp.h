/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the OTLP/JSON documents: protobuf's JSON mapping, in which 64-bit integers are strings
 * and enumerations numbers (OpenTelemetry protocol, file exporter).
 */
#ifndef NSPY_EXPORT_OTLP_H
#define NSPY_EXPORT_OTLP_H

#include <stdint.h>

struct cJSON;

/* Key and value of an attribute, into an array of them; empty texts are left out. */
void nspy_otlp_text(struct cJSON *attributes, const char *key, const char *text);
void nspy_otlp_integer(struct cJSON *attributes, const char *key, int64_t value);
/* A time as the field name of an object; 0 = unknown, left out. */
void nspy_otlp_time(struct cJSON *object, const char *name, uint64_t unix_ns);
/* Of the report's form of a time, UTC; 0 if it is none. */
uint64_t nspy_otlp_parse_time(const char *text);

/*
 * Begins what belongs to a job: adds a resource named by it to list, with one scope, and returns
 * the scope's array `items` for the caller to fill.
 */
struct cJSON *nspy_otlp_resource(struct cJSON *list, const struct cJSON *job, const char *scopes,
				 const char *items);
/* The document as one line, as a file of JSON lines wants it; the document is freed. */
char *nspy_otlp_line(struct cJSON *document);

#endif
