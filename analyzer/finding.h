/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings: what a detector concludes, and the catalogue they are instances of.
 * Ownership: a list owns its findings and their texts.
 */
#ifndef NSPY_FINDING_H
#define NSPY_FINDING_H

#include "model.h"

enum nspy_finding_id {
#define NSPY_FINDING(id, ...) NSPY_FINDING_##id,
#include "findings.def"
#undef NSPY_FINDING
	NSPY_FINDING_COUNT
};

struct nspy_catalog {
	const char *id;
	int priority;
	int section;
	const char *title;
	const char *file;
	const char *owner;
	const char *restart;
	const char *action;
};

extern const struct nspy_catalog nspy_catalog[NSPY_FINDING_COUNT];
/* -1 if there is no such id. Case does not matter. */
int nspy_catalog_find(const char *id);

enum nspy_confidence {
	NSPY_CERTAIN,  /* follows from what was recorded */
	NSPY_PROBABLE, /* losses or missing traces could change it */
	NSPY_WEAK,     /* a hint */
};

struct nspy_texts {
	char **text;
	size_t count, capacity;
};

/* Records of the traces: an operation of all ranks or of one, or all of one process. */
struct nspy_evidence {
	const struct nspy_comm *comm; /* or NULL */
	uint64_t seq;                 /* operation, 0 = all */
	const struct nspy_proc *proc; /* NULL = all ranks */
};

struct nspy_finding {
	enum nspy_finding_id id;
	int priority;
	enum nspy_confidence confidence;
	uint64_t when_ns; /* when it began, 0 = not known */
	/* Lower comes first within a priority: root causes before what follows from them. */
	int order;
	char *summary; /* what, who, evidence: one line */
	char *cause;   /* for the verdict line, shorter */
	const char *owner;
	const char *restart;
	const char *action;
	struct nspy_texts details;
	struct nspy_texts consequences; /* what follows from it, folded */
	struct nspy_texts commands;     /* suggested, with names filled in: suggest.h */
	/* Whom it names; empty if nobody is to blame. */
	const struct nspy_proc **culprits;
	size_t culprit_count, culprit_capacity;
	const struct nspy_comm *comm; /* or NULL */
	uint64_t seq;                 /* operation in it, or 0 */
	char *ignored;                /* reason from the ignore file, or NULL */
	/* From here on see evidence.h. */
	struct nspy_evidence *evidence;
	size_t evidence_count, evidence_capacity;
	struct nspy_texts not_seen; /* what could change it */
	char *next;                 /* a command that shows more, or NULL */
	char *where;                /* the traces, as a word for a shell, or NULL */
};

struct nspy_findings {
	struct nspy_finding **items;
	size_t count, capacity;
};

/* A new finding with the catalogue's defaults, in the list. */
struct nspy_finding *nspy_findings_add(struct nspy_findings *list, enum nspy_finding_id id);
void nspy_findings_sort(struct nspy_findings *list);
void nspy_findings_done(struct nspy_findings *list);
/* Takes all of a kind out of the list, in favour of one that knows more. */
void nspy_findings_drop(struct nspy_findings *list, enum nspy_finding_id id);
/* The first one of a kind, or NULL. */
struct nspy_finding *nspy_findings_get(const struct nspy_findings *list, enum nspy_finding_id id);

/* Adds records once. */
void nspy_finding_evidence(struct nspy_finding *finding, const struct nspy_comm *comm, uint64_t seq,
			   const struct nspy_proc *proc);
void nspy_finding_blame(struct nspy_finding *finding, const struct nspy_proc *proc);
bool nspy_finding_blames(const struct nspy_finding *finding, const struct nspy_proc *proc);
/* Both take ownership of text. */
void nspy_texts_add(struct nspy_texts *texts, char *text);
void nspy_finding_detail(struct nspy_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

const char *nspy_confidence_name(enum nspy_confidence confidence);

#endif
