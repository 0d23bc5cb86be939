/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_line.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *const nspy_nccl_fact_keys[NSPY_NCCL_FACTS] = {
	[NSPY_NCCL_NETWORK] = "nccl.network",       [NSPY_NCCL_VIA] = "nccl.via",
	[NSPY_NCCL_NET_FAILED] = "nccl.net_failed", [NSPY_NCCL_NET_ERROR] = "nccl.net_error",
	[NSPY_NCCL_GDR_OFF] = "nccl.gdr_off",       [NSPY_NCCL_GDR_ON] = "nccl.gdr_on",
};

/* A line whose message begins so and has the words; the value follows the words. */
static const struct {
	const char *begins, *words;
	enum nspy_nccl_fact fact;
	bool whole; /* the message itself is the value */
} lines[] = {
	{"Using network ", "Using network ", NSPY_NCCL_NETWORK, false},
	{"Channel ", " via NET/", NSPY_NCCL_VIA, false},
	{"Failed to initialize NET plugin ", "plugin ", NSPY_NCCL_NET_FAILED, false},
	{"Failed to initialize any NET plugin", "", NSPY_NCCL_NET_ERROR, true},
	{"Error: network ", "not found", NSPY_NCCL_NET_ERROR, true},
	{"NET/", "GPU Direct RDMA Disabled for HCA ", NSPY_NCCL_GDR_OFF, false},
	{"NET/", "GPU Direct RDMA Enabled for HCA ", NSPY_NCCL_GDR_ON, false},
};

/* Behind "NCCL INFO " or "NCCL WARN "; NULL if there is no such line. */
static const char *message(const char *line)
{
	const char *at = strstr(line, "NCCL ");

	while (at && strncmp(at + 5, "INFO ", 5) != 0 && strncmp(at + 5, "WARN ", 5) != 0)
		at = strstr(at + 5, "NCCL ");
	return at ? at + 10 : NULL;
}

/* Up to the end of the line, without blanks around and what is no text. */
static void clean(const char *text, size_t bytes, char ret[NSPY_NCCL_WORD_BYTES])
{
	size_t n = 0;

	for (; bytes && *text && *text != '\n' && *text != '\r' && n < NSPY_NCCL_WORD_BYTES - 1;
	     text++, bytes--) {
		bool printable = *text >= 0x20 && *text < 0x7f;

		if (n || *text != ' ')
			ret[n++] = printable ? *text : '?';
	}
	while (n && ret[n - 1] == ' ')
		n--;
	ret[n] = '\0';
}

/* "IB/0/GDRDMA", "Socket/0", "AWS Libfabric/3(1)/GDRDMA/Shared": without the device. */
static void clean_via(const char *text, char ret[NSPY_NCCL_WORD_BYTES])
{
	const char *gdr = strstr(text, "/GDRDMA"), *end = strchr(text, '\n');
	size_t used;

	clean(text, strcspn(text, "/\n"), ret);
	used = strlen(ret);
	if (used && gdr && (!end || gdr < end) && used + sizeof("/GDRDMA") <= NSPY_NCCL_WORD_BYTES)
		(void)snprintf(ret + used, NSPY_NCCL_WORD_BYTES - used, "/GDRDMA");
}

bool nspy_nccl_line(const char *line, enum nspy_nccl_fact *ret_fact,
		    char ret_value[NSPY_NCCL_WORD_BYTES])
{
	const char *text = message(line);

	for (size_t i = 0; text && i < sizeof(lines) / sizeof(lines[0]); i++) {
		const char *at;

		if (strncmp(text, lines[i].begins, strlen(lines[i].begins)) != 0)
			continue;
		at = strstr(text, lines[i].words);
		/* Sockets have no business with GPU memory. */
		if (!at || (lines[i].begins[3] == '/' && strncmp(text, "NET/Socket", 10) == 0))
			continue;
		*ret_fact = lines[i].fact;
		at = lines[i].whole ? text : at + strlen(lines[i].words);
		if (lines[i].fact == NSPY_NCCL_VIA)
			clean_via(at, ret_value);
		else
			clean(at, (size_t)-1, ret_value);
		return ret_value[0] != '\0';
	}
	return false;
}
