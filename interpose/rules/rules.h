/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the facts of one process say by themselves: pure functions from facts (the keys of IDENT,
 * docs/TRACE_FORMAT.md) to findings. The recorder says at once what they find, the analyzer says
 * it again over all ranks; both use these rules, so that they cannot contradict each other.
 *
 * A rule that lacks a fact it needs is silent. Rules allocate nothing, take no lock and make no
 * system call. context: any thread.
 */
#ifndef NSPY_RULES_H
#define NSPY_RULES_H

#include <stdbool.h>
#include <stddef.h>

#define NSPY_RULES_TEXT_BYTES 320u

/* Whom a finding is about: who has to say it, so that not everybody does. */
enum nspy_rule_scope {
	NSPY_RULE_RANK, /* this process alone */
	NSPY_RULE_NODE, /* all processes of the node see the same */
	NSPY_RULE_JOB,  /* usually the same everywhere, e.g. a variable */
};

/* Whether the job runs on more than one node: without a network many things do not matter. */
enum nspy_rule_span { NSPY_SPAN_UNKNOWN, NSPY_SPAN_ONE_NODE, NSPY_SPAN_NODES };

struct nspy_rule_facts {
	/* The value of a fact, or NULL; it must stay valid while the rules run. */
	const char *(*get)(const void *context, const char *key);
	const void *context;
	enum nspy_rule_span span;
};

struct nspy_rule_hit {
	const char *id; /* as in references/findings.def */
	int priority;
	enum nspy_rule_scope scope;
	bool probable;                    /* concluded, not seen */
	char text[NSPY_RULES_TEXT_BYTES]; /* what is wrong, without names of ranks or nodes */
};

typedef void nspy_rule_sink(const struct nspy_rule_hit *hit, void *context);

/* Calls sink for each finding, none twice, in the order of the rules. */
void nspy_rules_run(const struct nspy_rule_facts *facts, nspy_rule_sink *sink, void *context);

/*
 * Whether a fact ("env.NAME") is a setting of NCCL or libfabric that both ends of a connection must
 * share; not names of interfaces and devices, files for debugging, and identities.
 */
bool nspy_rules_is_shared_setting(const char *key);

/* A return code of the CUDA runtime that says that a GPU, a kernel on it or the driver failed. */
struct nspy_cuda_fault {
	int code;
	const char *id; /* of the finding */
	const char *words;
	const char *owner, *restart, *action; /* instead of the catalogue's */
};

/* NULL: any other code. */
const struct nspy_cuda_fault *nspy_rules_cuda_fault(int code);

/* Whether the launcher's variables say that the job spans nodes, from the facts alone. */
enum nspy_rule_span nspy_rules_span(const struct nspy_rule_facts *facts);

/*
 * Which of the interfaces (separated by blanks) NCCL_SOCKET_IFNAME leaves, in NCCL's way: a list of
 * prefixes separated by commas, "=" asks for whole names, "^" excludes. Returns their number;
 * names go to ret, separated by blanks, as far as they fit.
 */
size_t nspy_rules_interfaces(const char *pattern, const char *interfaces, char *ret, size_t bytes);

/*
 * Whether a file name is the plugin that NCCL_NET_PLUGIN (one word of it) asks for: NCCL takes the
 * word as a path and puts it between "libnccl-net-" and ".so" (file = "net", or "tuner").
 */
bool nspy_rules_is_plugin(const char *word, const char *kind, const char *path);

#endif
