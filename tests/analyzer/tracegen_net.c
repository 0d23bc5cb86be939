/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank does on the network below NCCL: the verb "net". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace_net.h"
#include "tracegen_verbs.h"

#define PAYLOAD_BYTES (256u << 10)

static struct nspy_net_text text_of(const char *word)
{
	return (struct nspy_net_text){word, strlen(word)};
}

/* An optional word; "-" is none. */
static const char *optional(const struct nspy_tg_line *line, size_t i)
{
	return i < line->count && strcmp(line->words[i], "-") != 0 ? line->words[i] : "";
}

static uint64_t number(const struct nspy_tg_line *line, size_t i)
{
	const char *word = nspy_tg_word(line, i);

	return strcmp(word, "unlimited") == 0 ? NSPY_NET_UNLIMITED : strtoull(word, NULL, 10);
}

static uint32_t id(const struct nspy_tg_line *line, size_t i)
{
	return strcmp(nspy_tg_word(line, i), "-") == 0 ? NSPY_NET_NONE : (uint32_t)number(line, i);
}

static int rail(struct nspy_net_buffer *b, const struct nspy_tg_line *line)
{
	const char *sight = optional(line, 7);

	return nspy_net_put_rail(
		b, &(struct nspy_net_rail){
			   .id = id(line, 3),
			   .sight = strcmp(sight, "not-asked") == 0  ? NSPY_NET_NOT_ASKED
				    : strcmp(sight, "constant") == 0 ? NSPY_NET_CONSTANT
								     : NSPY_NET_SEEN,
			   .domains = 1,
			   .provider = text_of(nspy_tg_word(line, 4)),
			   .domain = text_of(optional(line, 5)),
			   .address = text_of(optional(line, 6)),
		   });
}

static int sent(struct nspy_net_buffer *b, const struct nspy_tg_line *line, uint64_t now_ns)
{
	const struct nspy_net_second second = {.when_ns = now_ns, .span_ns = 1000000000u};
	struct nspy_net_row row = {.peer = id(line, 3)};
	int rc = nspy_net_put_second(b, &second);

	row.counter[NSPY_NET_SENDS] = row.counter[NSPY_NET_COMPLETIONS] = number(line, 4);
	row.counter[NSPY_NET_SEND_BYTES] = number(line, 5);
	return rc ? rc : nspy_net_put_row(b, &row);
}

/* Writes whose time from posting to completion was taken: microseconds on average. */
static int timed(struct nspy_net_buffer *b, const struct nspy_tg_line *line, uint64_t now_ns)
{
	const struct nspy_net_second second = {.when_ns = now_ns, .span_ns = 1000000000u};
	struct nspy_net_row row = {.peer = id(line, 3)};
	int rc = nspy_net_put_second(b, &second);

	row.counter[NSPY_NET_WRITES] = row.counter[NSPY_NET_COMPLETIONS] =
		row.counter[NSPY_NET_TIMED] = number(line, 4);
	row.counter[NSPY_NET_WRITE_BYTES] = number(line, 4) * number(line, 5);
	row.counter[NSPY_NET_TIME_SUM] = number(line, 4) * number(line, 6) * 1000;
	row.counter[NSPY_NET_TIME_MAX] = number(line, 6) * 2000;
	return rc ? rc : nspy_net_put_row(b, &row);
}

static int error(struct nspy_net_buffer *b, const struct nspy_tg_line *line, uint64_t now_ns)
{
	return nspy_net_put_event(
		b, &(struct nspy_net_event){
			   .when_ns = now_ns,
			   .what = NSPY_NET_CQ_ERROR,
			   .rail = id(line, 3),
			   .peer = id(line, 4),
			   .error = (int32_t)number(line, 5),
			   .provider = line->count > 6 ? (int32_t)number(line, 6) : 0,
			   .text = text_of("fi_cq_readerr"),
		   });
}

static int refused(struct nspy_net_buffer *b, const struct nspy_tg_line *line, uint64_t now_ns)
{
	struct nspy_net_event event = {
		.when_ns = now_ns,
		.what = NSPY_NET_REG_FAILED,
		.rail = NSPY_NET_NONE,
		.peer = NSPY_NET_NONE,
		.error = ENOMEM,
		.value_count = NSPY_NET_VALUES_MAX,
		.text = text_of("ibv_reg_mr"),
	};

	event.values[NSPY_NET_REG_BYTES] = number(line, 3);
	event.values[NSPY_NET_REG_LIMIT] = number(line, 4);
	event.values[NSPY_NET_REG_PINNED] = event.values[NSPY_NET_REG_LIVE] = number(line, 5);
	event.values[NSPY_NET_REG_MAY_LOCK] = strcmp(optional(line, 6), "may-lock") == 0;
	event.values[NSPY_NET_REG_BEFORE] = 4;
	event.values[NSPY_NET_REG_LAYER] = NSPY_NET_VERBS;
	return nspy_net_put_event(b, &event);
}

static int memory(struct nspy_net_buffer *b, const struct nspy_tg_line *line, uint64_t now_ns)
{
	return nspy_net_put_memory(b, &(struct nspy_net_memory){
					      .when_ns = now_ns,
					      .layer = NSPY_NET_VERBS,
					      .registrations = number(line, 3),
					      .live_bytes = number(line, 4),
					      .failures = number(line, 5),
					      .no_memory = number(line, 6),
					      .largest_since = number(line, 7),
				      });
}

static int getinfo(struct nspy_net_buffer *b, const struct nspy_tg_line *line, uint64_t now_ns)
{
	return nspy_net_put_event(b, &(struct nspy_net_event){
					     .when_ns = now_ns,
					     .what = NSPY_NET_GETINFO,
					     .rail = NSPY_NET_NONE,
					     .peer = NSPY_NET_NONE,
					     .error = (int32_t)number(line, 4),
					     .text = text_of(optional(line, 3)),
					     .more = text_of(optional(line, 5)),
				     });
}

static int put(struct nspy_net_buffer *b, const struct nspy_tg_line *line, uint64_t now_ns)
{
	const char *what = nspy_tg_word(line, 2);

	if (strcmp(what, "rail") == 0)
		return rail(b, line);
	if (strcmp(what, "peer") == 0)
		return nspy_net_put_peer(b, &(struct nspy_net_peer){
						    .id = id(line, 3),
						    .rail = id(line, 4),
						    .address = text_of(nspy_tg_word(line, 5)),
					    });
	if (strcmp(what, "device") == 0)
		return nspy_net_put_device(b, &(struct nspy_net_device){
						      .name = text_of(nspy_tg_word(line, 3)),
						      .driver = text_of(nspy_tg_word(line, 4)),
						      .state = text_of("ACTIVE"),
					      });
	if (strcmp(what, "sent") == 0)
		return sent(b, line, now_ns);
	if (strcmp(what, "timed") == 0)
		return timed(b, line, now_ns);
	if (strcmp(what, "error") == 0)
		return error(b, line, now_ns);
	if (strcmp(what, "refused") == 0)
		return refused(b, line, now_ns);
	if (strcmp(what, "memory") == 0)
		return memory(b, line, now_ns);
	if (strcmp(what, "getinfo") == 0)
		return getinfo(b, line, now_ns);
	nspy_tg_bad(line, "no network verb '%s'", what);
}

void nspy_tg_net(const struct nspy_tg_line *line, struct nspy_tg_rank *rank)
{
	struct nspy_net_buffer b = {.capacity = PAYLOAD_BYTES, .used = rank->net_bytes};

	if (!rank->net)
		rank->net = malloc(PAYLOAD_BYTES);
	b.data = rank->net;
	if (put(&b, line, rank->now_ns) < 0)
		nspy_tg_bad(line, "too much network");
	rank->net_bytes = b.used;
}
