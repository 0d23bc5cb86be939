/* SPDX-License-Identifier: Apache-2.0 */
/* The scenario language: lines to lists of records. */
#include "tracegen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracegen_verbs.h"

#define RANKS_MAX 4096
#define CALL_NS   2000u

static void grow(void **array, size_t count, size_t *capacity, size_t bytes)
{
	if (count < *capacity)
		return;
	*capacity = *capacity ? *capacity * 2 : 16;
	*array = realloc(*array, *capacity * bytes);
	if (!*array)
		abort();
}

/* --- words --- */

void nspy_tg_bad(const struct nspy_tg_line *line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s:%u: ", line->name, line->number);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

const char *nspy_tg_word(const struct nspy_tg_line *line, size_t i)
{
	if (i >= line->count)
		nspy_tg_bad(line, "a word is missing");
	return line->words[i];
}

uint64_t nspy_tg_duration(const struct nspy_tg_line *line, const char *word)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	double value = strtod(word, &end);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (end != word && strcmp(end, units[i].unit) == 0)
			return (uint64_t)(int64_t)(value * units[i].ns);
	}
	nspy_tg_bad(line, "'%s' is no duration", word);
	return 0;
}

/* Splits at blanks; "..." holds a word together. */
static void split(struct nspy_tg_line *line, char *text)
{
	line->count = 0;
	for (;;) {
		char end = ' ';

		text += strspn(text, " \t");
		if (*text == '\0' || *text == '#')
			return;
		if (line->count == NSPY_TG_WORDS_MAX)
			nspy_tg_bad(line, "too many words");
		if (*text == '"') {
			end = '"';
			text++;
		}
		line->words[line->count++] = text;
		while (*text && *text != end && !(end == ' ' && *text == '\t'))
			text++;
		if (*text)
			*text++ = '\0';
	}
}

/* "all", "3", "0-3,7" into a sorted list of numbers. */
static size_t parse_ranks(const struct nspy_tg *tg, const struct nspy_tg_line *line,
			  const char *word, int *ranks)
{
	size_t count = 0;

	if (strcmp(word, "all") == 0) {
		for (int r = 0; r < tg->size; r++)
			ranks[count++] = r;
		return count;
	}
	while (*word) {
		char *end;
		long first = strtol(word, &end, 10), last = first;

		if (end == word || first < 0)
			nspy_tg_bad(line, "'%s' is no list of ranks", word);
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long r = first; r <= last && count < RANKS_MAX; r++)
			ranks[count++] = (int)r;
		word = *end == ',' ? end + 1 : end;
		if (*end && *end != ',')
			nspy_tg_bad(line, "'%s' is no list of ranks", word);
	}
	return count;
}

/* --- processes --- */

struct nspy_tg_rank *nspy_tg_find(struct nspy_tg *tg, int rank)
{
	for (size_t i = tg->rank_count; i-- > 0;) {
		if (tg->ranks[i]->generation == tg->generation && tg->ranks[i]->rank == rank)
			return tg->ranks[i];
	}
	return NULL;
}

static void add_rank(struct nspy_tg *tg, int rank, const char *node, uint64_t start_ns)
{
	struct nspy_tg_rank *r = calloc(1, sizeof(*r));

	r->rank = rank;
	r->generation = tg->generation;
	(void)snprintf(r->node, sizeof(r->node), "%s", node);
	r->start_ns = r->now_ns = start_ns;
	r->fate = NSPY_TG_ENDS;
	grow((void **)&tg->ranks, tg->rank_count, &tg->rank_capacity, sizeof(*tg->ranks));
	tg->ranks[tg->rank_count++] = r;
}

static void cmd_share(struct nspy_tg *tg, const struct nspy_tg_line *line)
{
	tg->share = atoi(nspy_tg_word(line, 1));
	tg->one_thread = line->count > 2 && strcmp(line->words[2], "one-thread") == 0;
	if (tg->share < 2 || tg->size % tg->share || (line->count > 2 && !tg->one_thread))
		nspy_tg_bad(line, "share K [one-thread], K a divisor of the number of ranks");
}

static void cmd_ranks(struct nspy_tg *tg, const struct nspy_tg_line *line)
{
	int per_node;
	char node[32];

	tg->size = atoi(nspy_tg_word(line, 1));
	per_node = line->count > 3 ? atoi(nspy_tg_word(line, 3)) : tg->size;
	if (tg->size < 1 || tg->size > RANKS_MAX || per_node < 1)
		nspy_tg_bad(line, "bad number of ranks");
	for (int r = 0; r < tg->size; r++) {
		(void)snprintf(node, sizeof(node), "node%d", r / per_node + 1);
		add_rank(tg, r, node, NSPY_TG_START_MONO_NS + (uint64_t)r * 1000000u);
	}
}

static void cmd_restart(struct nspy_tg *tg, const struct nspy_tg_line *line)
{
	uint64_t latest = 0;
	size_t count = tg->rank_count;

	for (size_t i = 0; i < count; i++)
		latest = tg->ranks[i]->now_ns > latest ? tg->ranks[i]->now_ns : latest;
	latest += nspy_tg_duration(line, nspy_tg_word(line, 1));
	tg->generation++;
	for (int r = 0; r < tg->size; r++)
		add_rank(tg, r, tg->ranks[count - (size_t)tg->size + (size_t)r]->node,
			 latest + (uint64_t)r * 1000000u);
	for (size_t i = 0; i < tg->comm_count; i++)
		tg->comms[i].children = 0;
}

static void cmd_node(struct nspy_tg *tg, const struct nspy_tg_line *line)
{
	int ranks[RANKS_MAX];
	size_t count = parse_ranks(tg, line, nspy_tg_word(line, 2), ranks);

	for (size_t i = 0; i < count; i++) {
		struct nspy_tg_rank *r = nspy_tg_find(tg, ranks[i]);

		if (!r)
			nspy_tg_bad(line, "no rank %d", ranks[i]);
		(void)snprintf(r->node, sizeof(r->node), "%s", nspy_tg_word(line, 1));
	}
}

/* --- communicators --- */

struct nspy_tg_comm *nspy_tg_comm(struct nspy_tg *tg, const struct nspy_tg_line *line,
				  const char *name)
{
	for (size_t i = 0; i < tg->comm_count; i++) {
		if (strcmp(tg->comms[i].name, name) == 0)
			return &tg->comms[i];
	}
	nspy_tg_bad(line, "no communicator '%s'", name);
	return NULL;
}

static void cmd_comm(struct nspy_tg *tg, const struct nspy_tg_line *line)
{
	int ranks[RANKS_MAX];
	size_t count = parse_ranks(tg, line, nspy_tg_word(line, 2), ranks);
	struct nspy_tg_comm *comm;

	grow((void **)&tg->comms, tg->comm_count, &tg->comm_capacity, sizeof(*tg->comms));
	comm = &tg->comms[tg->comm_count++];
	memset(comm, 0, sizeof(*comm));
	(void)snprintf(comm->name, sizeof(comm->name), "%s", nspy_tg_word(line, 1));
	comm->ranks = malloc(count * sizeof(int));
	memcpy(comm->ranks, ranks, count * sizeof(int));
	comm->nranks = (int)count;
	if (line->count > 3 && strncmp(line->words[3], "parent=", 7) == 0)
		(void)snprintf(comm->parent, sizeof(comm->parent), "%s", line->words[3] + 7);
}

/* --- records --- */

uint64_t nspy_tg_jitter(struct nspy_tg *tg)
{
	if (!tg->jitter_ns)
		return 0;
	tg->random = tg->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (tg->random >> 33) % tg->jitter_ns;
}

union nspy_any_rec *nspy_tg_record(struct nspy_tg_rank *rank)
{
	grow((void **)&rank->records, rank->count, &rank->capacity, sizeof(*rank->records));
	memset(&rank->records[rank->count], 0, sizeof(*rank->records));
	return &rank->records[rank->count++];
}

struct nspy_rec nspy_tg_call(struct nspy_tg *tg, struct nspy_tg_rank *rank,
			     const struct nspy_tg_line *line, const char *fn)
{
	int id = nspy_tg_fn(fn);

	if (id < 0)
		nspy_tg_bad(line, "no function '%s'", fn);
	rank->now_ns += nspy_tg_jitter(tg);
	return (struct nspy_rec){
		.enter = rank->now_ns,
		.comm = NSPY_COMM_INDEX_NONE,
		.peer = NSPY_PEER_NONE,
		.fn = (uint16_t)id,
		.kind = NSPY_REC_CALL,
		.flags = rank->in_group ? NSPY_CALL_GROUPED : 0,
		.datatype = NSPY_DATATYPE_NONE,
		.redop = NSPY_REDOP_NONE,
		.callno = ++rank->callno,
		.group = rank->in_group ? rank->group : 0,
	};
}

void nspy_tg_return(struct nspy_tg_rank *rank, struct nspy_rec *rec, uint64_t took_ns)
{
	rank->now_ns = rec->enter + (took_ns ? took_ns : CALL_NS);
	rec->leave = rank->now_ns;
	nspy_tg_record(rank)->call = *rec;
}

/* --- lines --- */

static void run_text(struct nspy_tg *tg, char *text, const char *name, unsigned int number);

/* From the line after "repeat" to its "done"; returns where to go on. */
static char *repeat_block(struct nspy_tg *tg, const struct nspy_tg_line *line, char *text)
{
	unsigned long times = strtoul(nspy_tg_word(line, 1), NULL, 10);
	char *end = text;
	size_t depth = 1;

	while (*end) {
		const char *first = end + strspn(end, " \t");

		if (strncmp(first, "repeat ", 7) == 0)
			depth++;
		else if (strncmp(first, "done", 4) == 0 && --depth == 0)
			break;
		end += strcspn(end, "\n");
		end += *end == '\n';
	}
	if (!*end)
		nspy_tg_bad(line, "repeat without done");
	for (unsigned long i = 0; i < times; i++) {
		char *copy = strndup(text, (size_t)(end - text));

		run_text(tg, copy, line->name, line->number + 1);
		free(copy);
	}
	return end + strcspn(end, "\n");
}

static bool run_global(struct nspy_tg *tg, const struct nspy_tg_line *line)
{
	const char *verb = line->words[0];

	if (strcmp(verb, "job") == 0)
		(void)snprintf(tg->job, sizeof(tg->job), "%s", nspy_tg_word(line, 1));
	else if (strcmp(verb, "ranks") == 0)
		cmd_ranks(tg, line);
	else if (strcmp(verb, "restart") == 0)
		cmd_restart(tg, line);
	else if (strcmp(verb, "node") == 0)
		cmd_node(tg, line);
	else if (strcmp(verb, "comm") == 0)
		cmd_comm(tg, line);
	else if (strcmp(verb, "jitter") == 0)
		tg->jitter_ns = nspy_tg_duration(line, nspy_tg_word(line, 1));
	else if (strcmp(verb, "fixed-ids") == 0)
		tg->fixed_ids = true;
	else if (strcmp(verb, "share") == 0)
		cmd_share(tg, line);
	else if (strcmp(verb, "skew") == 0) {
		if (tg->skew_count == 16)
			nspy_tg_bad(line, "too many skews");
		(void)snprintf(tg->skews[tg->skew_count].node, 32, "%s", nspy_tg_word(line, 1));
		tg->skews[tg->skew_count++].skew_ns =
			(int64_t)nspy_tg_duration(line, nspy_tg_word(line, 2));
	} else
		return false;
	return true;
}

static void run_line(struct nspy_tg *tg, const struct nspy_tg_line *line)
{
	int ranks[RANKS_MAX];
	struct nspy_tg_rank *selected[RANKS_MAX];
	size_t count;

	if (run_global(tg, line))
		return;
	count = parse_ranks(tg, line, line->words[0], ranks);
	for (size_t i = 0; i < count; i++) {
		selected[i] = nspy_tg_find(tg, ranks[i]);
		if (!selected[i])
			nspy_tg_bad(line, "no rank %d", ranks[i]);
	}
	nspy_tg_verb(tg, line, selected, count);
}

static void run_text(struct nspy_tg *tg, char *text, const char *name, unsigned int number)
{
	struct nspy_tg_line line = {.name = name, .number = number};

	while (*text) {
		char *next = text + strcspn(text, "\n");
		bool more = *next == '\n';

		*next = '\0';
		if (strcmp(text, "---") == 0)
			return;
		split(&line, text);
		if (line.count && strcmp(line.words[0], "repeat") == 0) {
			next = repeat_block(tg, &line, next + more);
			more = *next == '\n';
		} else if (line.count) {
			run_line(tg, &line);
		}
		line.number++;
		text = next + more;
	}
}

void nspy_tg_run(struct nspy_tg *tg, const char *text, const char *name)
{
	char *copy = strdup(text);

	run_text(tg, copy, name, 1);
	free(copy);
}

struct nspy_tg *nspy_tg_new(void)
{
	struct nspy_tg *tg = calloc(1, sizeof(*tg));

	(void)snprintf(tg->job, sizeof(tg->job), "test");
	tg->random = 42;
	return tg;
}

static void free_rank(struct nspy_tg_rank *rank)
{
	for (size_t i = 0; i < rank->fact_count; i++) {
		free(rank->facts[i].key);
		free(rank->facts[i].value);
	}
	free(rank->facts);
	free(rank->records);
	free(rank->comms);
	free(rank->seqs);
	free(rank->peers);
	free(rank->exit_line);
	free(rank->net);
	free(rank->prof);
	free(rank);
}

void nspy_tg_free(struct nspy_tg *tg)
{
	for (size_t i = 0; i < tg->rank_count; i++)
		free_rank(tg->ranks[i]);
	free(tg->ranks);
	for (size_t i = 0; i < tg->comm_count; i++)
		free(tg->comms[i].ranks);
	free(tg->comms);
	free(tg);
}

/* Indexes of communicators are those of the process. */
static void move_comms(struct nspy_tg_rank *rank, uint32_t by)
{
	for (size_t i = 0; i < rank->count; i++) {
		union nspy_any_rec *rec = &rank->records[i];

		if (rec->call.kind == NSPY_REC_CALL && rec->call.comm != NSPY_COMM_INDEX_NONE)
			rec->call.comm += by;
		else if (rec->call.kind == NSPY_REC_COMM)
			rec->comm.comm += by;
	}
	for (size_t i = 0; i < rank->comm_count; i++)
		rank->comms[i].comm += by;
	if (rank->open.comm != NSPY_COMM_INDEX_NONE)
		rank->open.comm += by;
}

void nspy_tg_write(struct nspy_tg *tg, const char *directory)
{
	size_t share = tg->share ? (size_t)tg->share : 1;

	for (size_t i = 0; i < tg->rank_count; i++) {
		if (!tg->ranks[i]->exit_ns)
			tg->ranks[i]->exit_ns = tg->ranks[i]->now_ns;
		move_comms(tg->ranks[i], (uint32_t)(i % share) * 1000u);
	}
	for (size_t i = 0; i < tg->rank_count; i += share) {
		if (!tg->ranks[i]->silent)
			nspy_tg_write_process(tg, &tg->ranks[i], share, directory);
	}
}
