/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one host as an unprivileged process sees it: facts, judgements, and what could not
 * be read. Nothing is ever changed.
 *
 * Source of facts: /proc and /sys as documented in Documentation/ of the Linux kernel, NVML as
 * documented in NVIDIA's API reference. Below another root (recorded trees) system calls are
 * answered from the file "ncclspy-recorded" in it.
 *
 * Units are in the names. Memory: a snapshot owns its strings; the program ends when there is none.
 * context: one thread.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define SNAP_SCHEMA           "ncclspy.snapshot/1"
#define SNAP_DEADLINE_MS      2000  /* for what a broken driver or file server may block */
#define SNAP_TOOL_DEADLINE_MS 10000 /* for a program of the vendor's */
#define SNAP_PATH_MAX         1024

enum snap_status { SNAP_OK, SNAP_INFO, SNAP_CONCERN };

/* What kind of fact it is. Only SNAP_STABLE ones are compared between nodes. */
enum snap_kind {
	SNAP_STABLE,   /* the same on all nodes of a healthy cluster */
	SNAP_MEASURED, /* differs from moment to moment */
	SNAP_IDENTITY, /* differs from node to node */
};

struct snap_fact {
	enum snap_kind kind;
	char *key, *value;
};

struct snap_check {
	enum snap_status status;
	const char *finding; /* id in references/findings.def, or NULL */
	char *text;
};

struct snap_names {
	char **name;
	size_t count, capacity;
};

struct snap {
	const char *root;  /* "" for the host itself */
	const char *after; /* tree for the second reading of counters; NULL: root, later */
	const char *nvml;  /* library to load */
	unsigned interval_ms;
	bool container;
	bool tools; /* ask other programs too */
	struct snap_fact *facts;
	size_t fact_count, fact_capacity;
	struct snap_check *checks;
	size_t check_count, check_capacity;
	struct snap_names missing; /* "what: why" */
};

/* --- snapshot.c: building one --- */
void snap_fact(struct snap *s, enum snap_kind kind, const char *key, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* NULL if there is no such fact. */
const char *snap_get(const struct snap *s, const char *key);
void snap_check(struct snap *s, enum snap_status status, const char *finding, const char *format,
		...) __attribute__((format(printf, 4, 5)));
void snap_missing(struct snap *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void snap_done(struct snap *s);
void *snap_grow(void *array, size_t count, size_t *capacity, size_t element_bytes);
char *snap_strdup(const char *text);

/* --- read.c: below the root --- */
/* Bytes read (buf is terminated, trailing white space cut), or negative errno. */
ssize_t snap_read_at(const char *root, const char *path, char *buf, size_t bytes);
ssize_t snap_read(const struct snap *s, char *buf, size_t bytes, const char *path_format, ...)
	__attribute__((format(printf, 4, 5)));
/* A whole file of at most limit bytes, or NULL. Caller frees. */
char *snap_read_all(const char *path, size_t limit);
bool snap_exists(const struct snap *s, const char *path_format, ...)
	__attribute__((format(printf, 2, 3)));
/* Sorted names in a directory, without those that begin with a dot. 0 or negative errno. */
int snap_list(const struct snap *s, const char *path, struct snap_names *ret);
void snap_names_add(struct snap_names *names, const char *name);
void snap_names_done(struct snap_names *names);
/* Number behind "key" at the beginning of a line; false if it is not there. */
bool snap_line_number(const char *text, const char *key, unsigned long long *ret);
/* What a system call answered when the tree was recorded; false if that was not recorded. */
bool snap_recorded(const struct snap *s, const char *key, unsigned long long *numbers,
		   size_t count);
bool snap_starts(const char *text, const char *with);

/* --- child.c --- */
/*
 * Runs fn in a child process and takes what it writes to the pipe, within the deadline.
 * Bytes, -ETIMEDOUT (the child is killed and left behind if it cannot die), or negative errno.
 */
ssize_t snap_child(void (*fn)(int fd, const void *arg), const void *arg, void *buf, size_t bytes,
		   int deadline_ms);

/* --- what is looked at; each adds facts, checks and what was not to be had --- */
void snap_host(struct snap *s);
void snap_memory(struct snap *s);
void snap_mounts(struct snap *s);
void snap_kernel_log(struct snap *s);
void snap_net(struct snap *s);
void snap_gpu(struct snap *s);
void snap_probes(struct snap *s); /* after all others: reads their facts */
/* Counters at the beginning, and what they did until the end. */
struct snap_counters;
struct snap_counters *snap_counters_begin(const struct snap *s);
void snap_counters_end(struct snap *s, struct snap_counters *before);

/* --- output.c --- */
void snap_print(const struct snap *s, FILE *out);
/* 0, or -ENOMEM. */
int snap_print_json(const struct snap *s, FILE *out);
/* The time of this snapshot, ISO 8601, UTC. */
void snap_time(char *buf, size_t bytes);

/* --- compare.c --- */
/* Exit status of the program: 0 alike, 1 different, 2 usage, 3 unreadable. */
int snap_compare(char **paths, size_t count, bool json);

#endif
