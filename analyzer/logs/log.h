/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What logs say, gathered over all files: who printed it (sources), what it means (events) and
 * where each rank stands (communicators, watchdog counters, networks). Memory is bounded by the
 * number of sources and by NSPY_LOG_EVENTS_MAX, not by the size of the logs.
 *
 * Ownership: everything belongs to the log and lives until nspy_log_free. One thread at a time.
 */
#ifndef NSPY_LOG_H
#define NSPY_LOG_H

#include "../finding.h"
#include "lines.h"
#include "match.h"

#define NSPY_LOG_SOURCES_MAX 16384u
#define NSPY_LOG_EVENTS_MAX  65536u
#define NSPY_LOG_COMMS_MAX   16384u
#define NSPY_LOG_SHOWN_MAX   400u /* bytes of a line that are kept */

enum nspy_log_class {
	NSPY_LOG_CAUSE,
	NSPY_LOG_SYMPTOM,
	NSPY_LOG_EFFECT,
	NSPY_LOG_NOISE,
	NSPY_LOG_FACT
};

enum nspy_log_rule_id {
#define NSPY_LOG_RULE(name, ...) NSPY_LOG_##name,
#include "rules.def"
#undef NSPY_LOG_RULE
	NSPY_LOG_RULE_COUNT
};

#define NSPY_FINDING_NONE NSPY_FINDING_COUNT

struct nspy_log_rule {
	const char *name;
	enum nspy_log_class klass;
	enum nspy_finding_id finding;
	int priority;
	const char *since, *until, *fragment, *also, *unless, *meaning;
};
extern const struct nspy_log_rule nspy_log_rules[NSPY_LOG_RULE_COUNT];

/* Who printed a line, as far as its prefix tells. Texts point into the line. */
struct nspy_log_who {
	const char *host, *label; /* label: pod, node or container, from the launcher */
	size_t host_bytes, label_bytes;
	int64_t pid;     /* -1 = not known */
	int64_t rank;    /* of the job, from the launcher; -1 = not known */
	int64_t pg_rank; /* "[Rank 3]": of a process group */
	uint64_t when_ns;
	size_t bytes; /* of the prefix */
};

/* One process that printed, or the nearest to it that is known. */
struct nspy_log_source {
	struct nspy_proc *proc;         /* in the log's model: rank, host, pid */
	char *label;                    /* pod or node of the launcher, or NULL */
	uint64_t first_line, last_line; /* running number over all files */
	uint32_t file;
	char *version;  /* "2.28.9" */
	char *network;  /* of "Using network" */
	char *provider; /* of libfabric */
	uint32_t nics;
	bool plugin_wanted, plugin_loaded, ofi_seen, ofi_failed, ib_seen, ib_absent, socket_seen;
	uint32_t gdr_hca_off, gdr_hca_on, gdr_pair_off, gdr_pair_on, channels, channels_gdr;
	bool traceback, aborting;
	char *exception;
	/* PyTorch's watchdog; the process group that timed out first */
	bool timed_out, stuck;
	char *pg;
	int64_t seq, enqueued, completed, numel_in, numel_out, ran_ms, pg_rank;
	char *op;
	uint64_t timed_out_line;
	char *gpu; /* that the kernel's last line named, for the lines that go on about it */
	int64_t table_rank; /* row of torchrun's table of failures, -1 = none */
	bool root_cause;    /* that row is the failure it saw first */
	int64_t waited_seq; /* the first operation that timed out, -1 = not told */
	uint32_t trouble;   /* events of class CAUSE, SYMPTOM or EFFECT */
};

/* Something a source printed, with how often. */
struct nspy_log_event {
	enum nspy_log_rule_id rule;
	enum nspy_finding_id finding; /* the rule's, or as the line itself says */
	enum nspy_log_class klass;
	int priority;
	struct nspy_log_source *source;
	uint64_t order; /* running number of the first line */
	uint64_t when_ns;
	uint64_t count;
	uint32_t file;
	uint64_t line;
	int64_t number; /* Xid, status, exit code, deepest result, ... */
	int64_t rank;   /* that the line is about, -1 = the one that prints it */
	int64_t other;  /* the other rank of a pair that the line names, -1 = none */
	bool nobody;    /* the line names a rank that is not to blame */
	char *peer;     /* address or name it complains about, or NULL */
	char *meaning;  /* instead of the rule's, or NULL */
	char *text;
};

/* A rank of a communicator, from its own init lines. */
struct nspy_log_member {
	struct nspy_log_source *source;
	int32_t rank;
	bool started, done;
};

struct nspy_log_comm {
	uint64_t id;
	int32_t nranks;
	uint64_t order;
	struct nspy_log_member *members;
	size_t member_count, member_capacity;
};

struct nspy_log_file {
	char *path;
	uint64_t lines, bytes, cut;
};

/* A row of a table of nccl-tests, kept if it says something. */
struct nspy_log_bench {
	uint32_t file;
	double bytes, busbw_out, busbw_in;
	int64_t wrong;
};

/* "hostA" of "#  Rank 0 Group 0 Pid 1 on hostA device ..." */
struct nspy_log_bench_run {
	uint32_t file;
	char *hosts[16];
	size_t host_count;
	double avg, best;
	int64_t wrong;
	bool json;
};

/* Where in the text of ncclras the last line was, and who is behind as far as it told. */
enum nspy_ras_section {
	NSPY_RAS_NONE,
	NSPY_RAS_DEAD,
	NSPY_RAS_INCOMPLETE,
	NSPY_RAS_COUNTS,
	NSPY_RAS_STATUS,
	NSPY_RAS_ERRORS
};

struct nspy_log_ras {
	enum nspy_ras_section section;
	int64_t serial; /* of headings */
	char kind[20];  /* of operation */
	int64_t op, low, high;
	bool low_unlisted; /* the ranks with the lowest count are not listed one by one */
	struct nspy_log_event *event, *behind[64];
	size_t behind_count;
};

struct nspy_log {
	struct nspy_model *model; /* its processes are the sources */
	const struct nspy_matcher *matcher;
	struct nspy_log_source **sources;
	size_t source_count, source_capacity;
	struct nspy_map by_name, by_rank; /* of sources */
	struct nspy_log_event **events;
	size_t event_count, event_capacity;
	struct nspy_map by_event;
	uint64_t events_lost;
	struct nspy_log_comm **comms;
	size_t comm_count, comm_capacity;
	struct nspy_map by_comm;
	struct nspy_log_file *files;
	size_t file_count, file_capacity;
	struct nspy_log_bench_run *runs;
	size_t run_count, run_capacity;
	bool in_table; /* the file shows a table of nccl-tests */
	bool in_traceback;
	uint64_t order; /* lines so far, all files */
	uint64_t first_ns, last_ns;
	uint64_t subsets_good, subsets_bad; /* GPUs of runs that passed, and of all that failed */
	uint32_t subset_bad_count;
	struct nspy_map env; /* hash of NAME and value -> struct nspy_log_env */
	struct nspy_log_env **envs;
	size_t env_count, env_capacity;
	struct nspy_map gdr_ways; /* channel "a -> b": which ends use GPUDirect */
	uint32_t gdr_uneven;      /* channels with GPUDirect at one end only */
	char *gdr_text;
	struct nspy_log_ras ras;
	struct nspy_flights *flights; /* dumps of PyTorch's flight recorder, or NULL */
	struct inspector *inspector;  /* lines of NCCL's Inspector, or NULL */
};

struct nspy_log_env {
	char *name, *value;
	struct nspy_log_source *first;
	uint32_t sources;
};

/* A line with what is known about it while it is looked at. */
struct nspy_log_look {
	struct nspy_log *log;
	struct nspy_line *line;
	struct nspy_log_source *source;
	struct nspy_log_who who;
	uint32_t at; /* offset behind the fragment that matched */
};

struct nspy_log *nspy_log_new(void);
void nspy_log_free(struct nspy_log *log);
/* Reads a text to its end; its lines count as one more file of this name. */
void nspy_log_read(struct nspy_log *log, const char *path, struct nspy_stream *stream);
/* The rules that apply to a line: of those that are not FACT the first only, and it comes first. */
size_t nspy_log_rules_for(const struct nspy_log *log, const char *text,
			  enum nspy_log_rule_id *ret_rules, size_t limit);
/* The source of a line of the current file; never NULL. */
struct nspy_log_source *nspy_log_source(struct nspy_log *log, const struct nspy_log_who *who);
/* The process with this rank, made if there is none. */
struct nspy_log_source *nspy_log_rank(struct nspy_log *log, int64_t rank);
/* Finds out who printed a line from what stands before its limit. */
void nspy_log_prefix(const char *text, size_t limit, struct nspy_log_who *ret_who);
/* Replaces a JSON envelope by the message in it; false if it is none. */
bool nspy_log_unwrap(struct nspy_line *line, struct nspy_log_who *ret_who);

/* Counts an event; the same of a source with the same number and peer is one. */
struct nspy_log_event *nspy_log_event(struct nspy_log_look *look, enum nspy_log_rule_id rule,
				      int64_t number, const char *peer, size_t peer_bytes);
/* What code makes of a line that matched a FACT rule. */
void nspy_log_take(struct nspy_log_look *look, enum nspy_log_rule_id rule);
void nspy_log_take_net(struct nspy_log_look *look, enum nspy_log_rule_id rule);
void nspy_log_take_torch(struct nspy_log_look *look, enum nspy_log_rule_id rule);
void nspy_log_take_exit(struct nspy_log_look *look, enum nspy_log_rule_id rule);
void nspy_log_take_ras(struct nspy_log_look *look, enum nspy_log_rule_id rule);
void nspy_log_take_table(struct nspy_log_look *look, enum nspy_log_rule_id rule);
/* A line in a table that no rule knows. */
void nspy_log_table_row(struct nspy_log *log, const struct nspy_line *line);

/* Helpers for lines. The number that follows key, in decimal or 0x; false if there is none. */
bool nspy_log_number(const char *text, const char *key, int64_t *ret_number);
/* The word that follows key, up to a blank or one of `stop`; NULL if there is none. */
const char *nspy_log_word(const char *text, const char *key, const char *stop, size_t *ret_bytes);
/* Is one of "a|b|c" in the text? Letters in either case. */
bool nspy_log_has(const char *text, const char *words);
uint64_t nspy_log_hash(const char *text, size_t bytes);
/* Replaces *slot by a copy of the word; keeps it if there is one already. */
void nspy_log_keep(char **slot, const char *text, size_t bytes);

/* --- blame.c --- */

/* The process with this rank; made in the model if no line was its own. */
const struct nspy_proc *nspy_log_proc(const struct nspy_log *log, int64_t rank);
/* Those whom the lines of one finding accuse. Events are sorted, the most telling first. */
void nspy_log_blame(const struct nspy_log *log, struct nspy_finding *finding,
		    const struct nspy_log_event *const *events, size_t count);
/* A process on this host, made in the model if nobody there printed; host may be an address. */
const struct nspy_proc *nspy_log_host(const struct nspy_log *log, const char *host);
/* Two ranks that a line names: "Rank 1 ... but Rank 2", "rank 3 and rank 0 both". */
void nspy_log_pair(struct nspy_log_event *event, const char *text);
/* The address on the PCI bus in a line; NULL if there is none. */
const char *nspy_log_pci(const char *text, size_t *ret_bytes);
/* Once all lines are read: what later ones say about earlier ones. */
void nspy_log_settle(struct nspy_log *log);

/* --- judging: judge*.c --- */

/* All findings of the logs. */
void nspy_log_judge(const struct nspy_log *log, struct nspy_findings *out);
void nspy_log_judge_net(const struct nspy_log *log, struct nspy_findings *out);
void nspy_log_judge_init(const struct nspy_log *log, struct nspy_findings *out);
void nspy_log_judge_torch(const struct nspy_log *log, struct nspy_findings *out);
void nspy_log_judge_bench(const struct nspy_log *log, struct nspy_findings *out);
void nspy_log_judge_deaths(const struct nspy_log *log, struct nspy_findings *out);
void nspy_log_judge_env(const struct nspy_log *log, struct nspy_findings *out);
/* A finding with summary and verdict; both are formatted. */
struct nspy_finding *nspy_log_finding(struct nspy_findings *out, enum nspy_finding_id id,
				      int priority, enum nspy_log_class klass, uint64_t order);
/* "path:12: text" as a detail. */
void nspy_log_quote(const struct nspy_log *log, struct nspy_finding *finding,
		    const struct nspy_log_event *event);
bool nspy_log_any(const struct nspy_log *log, enum nspy_log_rule_id rule);
/* Is there trouble of this class anywhere? */
bool nspy_log_trouble(const struct nspy_log *log, enum nspy_log_class klass);
/* "rank 3", "node a" or "pid 4 on b" of one source; several as "ranks 0-3". */
void nspy_log_add_who(struct nspy_str *s, struct nspy_log_source *const *sources, size_t count);

#endif
