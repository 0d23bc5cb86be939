/* SPDX-License-Identifier: Apache-2.0 */
/* Which network, plugin, NICs and NCCL each rank has. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static void take_version(struct nspy_log_look *look)
{
	const char *p = look->line->text + look->at;
	size_t n = 0;

	while (isdigit((unsigned char)p[n]) || (p[n] == '.' && isdigit((unsigned char)p[n + 1])))
		n++;
	if (n >= 3 && memchr(p, '.', n))
		nspy_log_keep(&look->source->version, p, n);
}

/* "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB ; OOB eth0:..": how many */
static uint32_t count_nics(const char *p)
{
	const char *end = strchr(p, ';');
	uint32_t count = 0;

	for (; *p && (!end || p < end); p++)
		count += *p == '[' && isdigit((unsigned char)p[1]);
	return count;
}

static const char *number_before(const char *text, const char *at, int64_t *ret)
{
	const char *p = at;

	while (p > text && isalnum((unsigned char)p[-1]))
		p--;
	*ret = isdigit((unsigned char)*p) ? strtoll(p, NULL, 10) : -1;
	return p;
}

/*
 * "Channel 00/0 : 9[1a000] -> 2[6b000] [send] via NET/IB/0/GDRDMA": the sender's GPU memory is
 * meant in its own line, the receiver's in the receiver's.
 */
static void take_channel(struct nspy_log_look *look)
{
	struct nspy_log *log = look->log;
	const char *text = look->line->text, *via = text + look->at;
	bool gdr = strstr(via, "GDRDMA") != NULL;
	bool receive = strstr(text, "[receive]") != NULL;
	const char *arrow = strstr(text, " -> "), *open;
	int64_t from = -1, to = -1;
	uint64_t key;
	uintptr_t seen, bit;

	if (strncmp(via, "Socket", 6) == 0)
		look->source->socket_seen = true;
	look->source->channels++;
	look->source->channels_gdr += gdr;
	if (!arrow || !(receive || strstr(text, "[send]")))
		return;
	open = arrow;
	while (open > text && *open != '[')
		open--;
	number_before(text, open, &from);
	to = strtoll(arrow + 4, NULL, 10);
	key = nspy_mix((uint64_t)from << 32 ^ (uint64_t)to) + (uint64_t)log->file_count;
	seen = (uintptr_t)nspy_map_get(&log->gdr_ways, key);
	bit = gdr ? (receive ? 2u : 1u) : (receive ? 8u : 4u);
	/* One end with and the other without GPUDirect. */
	if (!((seen | bit) == seen) && (((seen | bit) & 9u) == 9u || ((seen | bit) & 6u) == 6u)) {
		log->gdr_uneven++;
		nspy_log_keep(&log->gdr_text, text, look->line->bytes);
		if (!gdr) {
			struct nspy_log_event *event = nspy_log_event(look, NSPY_LOG_CHANNEL,
								      receive ? to : from, NULL, 0);

			event->rank = receive ? to : from;
		}
	}
	if (log->gdr_ways.count < 100000)
		nspy_map_put(&log->gdr_ways, key,
			     (void *)(seen | bit)); // NOLINT(performance-no-int-to-ptr)
}

static void ofi_failed(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	look->source->ofi_seen = true;
	look->source->ofi_failed = true;
	nspy_log_event(look, rule, 0, NULL, 0);
}

static void take_provider(struct nspy_log_look *look)
{
	size_t bytes = 0;
	const char *name = nspy_log_word(look->line->text, "Selected provider is ", " ,(", &bytes);
	int64_t nics = 0;

	look->source->ofi_seen = true;
	nspy_log_keep(&look->source->provider, name, bytes);
	if (nspy_log_number(look->line->text, "(found ", &nics) && nics > 0)
		look->source->nics = (uint32_t)nics;
	nspy_log_event(look, NSPY_LOG_OFI_PROVIDER, 0, NULL, 0);
}

static void take_network(struct nspy_log_look *look, const char *key)
{
	size_t bytes = 0;
	const char *name = nspy_log_word(look->line->text, key, "\r\n", &bytes);

	while (bytes && name[bytes - 1] == ' ')
		bytes--;
	nspy_log_keep(&look->source->network, name, bytes);
	nspy_log_event(look, NSPY_LOG_NET_USING, 0, NULL, 0);
}

void nspy_log_take_net(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	struct nspy_log_source *s = look->source;

	switch (rule) {
	case NSPY_LOG_NCCL_VERSION:
		take_version(look);
		return;
	case NSPY_LOG_NET_USING:
		take_network(look, "Using network ");
		return;
	case NSPY_LOG_PLUGIN_USED:
		take_network(look, "Initialized NET plugin ");
		s->plugin_loaded = true;
		return;
	case NSPY_LOG_OFI_NONE:
	case NSPY_LOG_OFI_OPTIMAL:
	case NSPY_LOG_OFI_GETINFO:
	case NSPY_LOG_OFI_INIT:
	case NSPY_LOG_OFI_INIT2:
	case NSPY_LOG_OFI_PROTOCOL:
		ofi_failed(look, rule);
		return;
	case NSPY_LOG_PLUGIN_FAILED:
		nspy_log_event(look, rule, 0, NULL, 0);
		return;
	case NSPY_LOG_OFI_START:
		s->ofi_seen = true;
		return;
	case NSPY_LOG_OFI_PROVIDER:
		take_provider(look);
		return;
	case NSPY_LOG_PLUGIN_LOADED:
		s->plugin_loaded = true;
		return;
	case NSPY_LOG_NO_IB:
		s->ib_absent = true;
		return;
	case NSPY_LOG_NET_SOCKET:
		s->socket_seen = true;
		nspy_log_event(look, rule, 0, NULL, 0);
		return;
	case NSPY_LOG_NET_IB:
		s->ib_seen = true;
		s->nics = count_nics(look->line->text + look->at - 1);
		nspy_log_event(look, rule, s->nics, NULL, 0);
		return;
	case NSPY_LOG_GDR_HCA:
		s->gdr_hca_off++;
		nspy_log_event(look, rule, 0, NULL, 0);
		return;
	case NSPY_LOG_GDR_HCA_ON:
		s->gdr_hca_on++;
		return;
	case NSPY_LOG_GDR_PAIR:
		s->gdr_pair_off++;
		nspy_log_event(look, rule, 0, NULL, 0);
		return;
	case NSPY_LOG_GDR_PAIR_ON:
		s->gdr_pair_on++;
		return;
	case NSPY_LOG_CHANNEL:
		take_channel(look);
		return;
	default:
		return;
	}
}
