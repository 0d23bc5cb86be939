/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ncclspy-collect gathered: documents of Kubernetes, Slurm and AWS, and snapshots of hosts,
 * judged by rules of their own. Source of facts: the public API references of Kubernetes (v1),
 * SageMaker, EC2 and CloudWatch, and the man pages of scontrol and sacct.
 *
 * Everything in a bundle is somebody else's text: it is cleaned before it is shown, and only plain
 * names get into suggested commands.
 * Ownership: a bundle owns its documents. context: one thread.
 */
#ifndef NSPY_BUNDLE_H
#define NSPY_BUNDLE_H

#include <stdio.h>

#include "../finding.h"

struct cJSON;

struct nspy_bundle_doc {
	char *name;         /* "k8s/pods.json" */
	struct cJSON *tree; /* NULL: text */
	char *text;
};

/* A line of the manifest. */
struct nspy_bundle_step {
	char *status, *file, *why;
};

/* A log: where it lies, or what an archive had of it. */
struct nspy_bundle_log {
	char *name;
	char *path; /* or NULL */
	char *data;
	size_t bytes;
};

struct nspy_bundle {
	char *path;
	uint64_t taken_s; /* Unix time, 0 = not known */
	struct nspy_bundle_doc *docs;
	size_t doc_count, doc_capacity;
	struct nspy_bundle_step *steps;
	size_t step_count, step_capacity;
	struct nspy_bundle_log *logs;
	size_t log_count, log_capacity;
	struct nspy_texts problems; /* "file: why" */
};

/* --- files.c: a bundle's files, in a directory or packed --- */
#define NSPY_BUNDLE_DOC_MAX (256u << 20)

struct nspy_bundle_file {
	const char *name; /* "k8s/pods.json" */
	const char *path; /* NULL: in an archive */
	char *data;       /* content, in an archive; whoever keeps it sets it to NULL */
	size_t bytes;
};

/* A directory or an archive (tar; plain, gzip or zstd) with a bundle's manifest in it? */
bool nspy_bundle_is(const char *path);
/*
 * Calls each for every file: only regular ones, two levels deep, by name in a directory. What is
 * left out or cannot be read is noted. Nothing is written to disk.
 */
void nspy_bundle_each(const char *path, struct nspy_texts *problems,
		      void (*each)(void *arg, struct nspy_bundle_file *file), void *arg);
/* Content as text, to be freed by the caller; NULL if it cannot be read or is larger than limit. */
char *nspy_bundle_file_text(struct nspy_bundle_file *file, size_t limit, size_t *ret_bytes);

/* --- bundle.c --- */
struct nspy_bundle *nspy_bundle_new(const char *path);
/* Reads all of it. */
void nspy_bundle_read(struct nspy_bundle *b);
/* One document; false if it is not what its name says. */
bool nspy_bundle_add(struct nspy_bundle *b, const char *name, const char *data, size_t bytes);
void nspy_bundle_free(struct nspy_bundle *b);
/* NULL if it is not there. */
const struct cJSON *nspy_bundle_tree(const struct nspy_bundle *b, const char *name);
const char *nspy_bundle_text(const struct nspy_bundle *b, const char *name);

/* All rules; findings are sorted. */
void nspy_bundle_judge(const struct nspy_bundle *b, struct nspy_findings *findings);
void nspy_bundle_k8s(const struct nspy_bundle *b, struct nspy_findings *findings);
void nspy_bundle_pods(const struct nspy_bundle *b, struct nspy_findings *findings);
void nspy_bundle_jobs(const struct nspy_bundle *b, struct nspy_findings *findings);
void nspy_bundle_slurm(const struct nspy_bundle *b, struct nspy_findings *findings);
void nspy_bundle_aws(const struct nspy_bundle *b, struct nspy_findings *findings);
void nspy_bundle_hosts(const struct nspy_bundle *b, struct nspy_findings *findings);

/* --- bundle_report.c --- */
void nspy_bundle_print(const struct nspy_bundle *b, const struct nspy_findings *findings, FILE *out,
		       bool colour);
/* An object like those of nspy_report_json. */
struct cJSON *nspy_bundle_json(const struct nspy_bundle *b, const struct nspy_findings *findings);

/* --- parts.c: what the rules share --- */
/* Member by path, "metadata>labels>topology.kubernetes.io/zone"; NULL if there is none. */
const struct cJSON *nspy_js(const struct cJSON *object, const char *path);
const char *nspy_js_text(const struct cJSON *object, const char *path); /* or NULL */
double nspy_js_number(const struct cJSON *object, const char *path, double otherwise);
/* Quantities: 32, "32"; 0 if it is none. */
double nspy_js_quantity(const struct cJSON *object, const char *name);
/* "2026-12-02T14:02:11Z" (or with an offset) as Unix time; 0 if it is none. */
uint64_t nspy_js_time(const char *text);
/* "ns/name" */
char *nspy_js_who(const struct cJSON *object);
/* A name fit for a command line, else "<name>". */
const char *nspy_js_plain(const char *name);
bool nspy_js_owner_same(const struct cJSON *a, const struct cJSON *b);
/* What a container asks for, limits before requests. */
double nspy_pod_wants(const struct cJSON *pod, const char *resource);

/* Several objects with the same fault make one finding. */
struct nspy_group {
	struct nspy_texts who, why;
};
/* why is formatted; who is copied. */
void nspy_group_add(struct nspy_group *g, const char *who, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * A finding if there is something in the group: "3 pods: a, b, c" and the reasons as details;
 * command: what to run, with names filled in, or NULL. Frees the group. NULL if it was empty.
 */
struct nspy_finding *nspy_group_tell(struct nspy_group *g, struct nspy_findings *findings,
				     enum nspy_finding_id id, const char *noun,
				     const char *command_format, ...)
	__attribute__((format(printf, 5, 6)));

#endif
