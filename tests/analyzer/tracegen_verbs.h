/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of tracegen. */
#ifndef NSPY_TRACEGEN_VERBS_H
#define NSPY_TRACEGEN_VERBS_H

#include "tracegen.h"

#define NSPY_TG_WORDS_MAX 16

struct nspy_tg_line {
	const char *name;
	unsigned int number;
	char *words[NSPY_TG_WORDS_MAX];
	size_t count;
};

void nspy_tg_bad(const struct nspy_tg_line *line, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
const char *nspy_tg_word(const struct nspy_tg_line *line, size_t i);
uint64_t nspy_tg_duration(const struct nspy_tg_line *line, const char *word);
struct nspy_tg_rank *nspy_tg_find(struct nspy_tg *tg, int rank);
struct nspy_tg_comm *nspy_tg_comm(struct nspy_tg *tg, const struct nspy_tg_line *line,
				  const char *name);
uint64_t nspy_tg_jitter(struct nspy_tg *tg);
union nspy_any_rec *nspy_tg_record(struct nspy_tg_rank *rank);
/* A call entered now; nspy_tg_return ends it and records it. */
struct nspy_rec nspy_tg_call(struct nspy_tg *tg, struct nspy_tg_rank *rank,
			     const struct nspy_tg_line *line, const char *fn);
void nspy_tg_return(struct nspy_tg_rank *rank, struct nspy_rec *rec, uint64_t took_ns);

/* tracegen_net.c: the verb "net". */
void nspy_tg_net(const struct nspy_tg_line *line, struct nspy_tg_rank *rank);

/* Runs words[1...] for each of the ranks. */
void nspy_tg_verb(struct nspy_tg *tg, const struct nspy_tg_line *line, struct nspy_tg_rank **ranks,
		  size_t count);

#endif
