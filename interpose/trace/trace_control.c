/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_control.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HEAD           "ncclspy-control 1\n"
#define SUM_LINE_BYTES 21u /* "sum ", 16 digits and the end of the line */
#define LINE_BYTES     (NSPY_CONTROL_TEXT_BYTES + 64u)

static const char *const names[NSPY_CONTROL_VERBS] = {
	[NSPY_CONTROL_UNKNOWN] = "?",           [NSPY_CONTROL_ON] = "on",
	[NSPY_CONTROL_WATCH] = "watch",         [NSPY_CONTROL_OFF] = "off",
	[NSPY_CONTROL_MARK] = "mark",           [NSPY_CONTROL_DUMP] = "dump",
	[NSPY_CONTROL_THRESHOLD] = "threshold",
};

const char *nspy_control_verb_name(uint32_t verb)
{
	return names[verb < NSPY_CONTROL_VERBS ? verb : NSPY_CONTROL_UNKNOWN];
}

static bool parse_number(const char *text, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	*ret = value;
	return !errno && !*end && value <= max;
}

/* A command is a line of a file and part of a report: nothing that ends or colours one. */
static void copy_clean(char *to, const char *from)
{
	for (; *from; from++)
		*to++ = (unsigned char)*from < 0x20 || *from == 0x7f ? ' ' : *from;
	*to = '\0';
}

int nspy_command_parse(const char *verb, const char *text, struct nspy_command *ret)
{
	uint32_t i = NSPY_CONTROL_ON;
	bool good;

	while (i < NSPY_CONTROL_VERBS && strcmp(names[i], verb) != 0)
		i++;
	if (i == NSPY_CONTROL_VERBS)
		return -EINVAL;
	if (strlen(text) >= sizeof(ret->text))
		return -ERANGE;
	ret->verb = i;
	ret->value = 0;
	copy_clean(ret->text, text);
	switch (i) {
	case NSPY_CONTROL_MARK:
		good = strspn(ret->text, " ") < strlen(ret->text);
		break;
	case NSPY_CONTROL_DUMP:
		ret->value = strcmp(ret->text, "stacks") == 0;
		good = ret->value || !ret->text[0];
		break;
	case NSPY_CONTROL_THRESHOLD:
		good = parse_number(ret->text, NSPY_CONTROL_THRESHOLD_S, &ret->value) &&
		       ret->value >= 1;
		break;
	default:
		good = !ret->text[0];
	}
	return good ? 0 : -ERANGE;
}

void nspy_control_add(struct nspy_control *control, const struct nspy_command *command)
{
	if (control->count == NSPY_CONTROL_COMMANDS) {
		control->count--;
		memmove(&control->at[0], &control->at[1], control->count * sizeof(control->at[0]));
	}
	control->at[control->count++] = *command;
}

static void add(char *out, size_t bytes, size_t *used, int n)
{
	(void)out;
	*used = n < 0 || (size_t)n >= bytes - *used ? bytes : *used + (size_t)n;
}

long nspy_control_encode(const struct nspy_control *control, char *out, size_t bytes)
{
	size_t used = 0;

	if (!bytes)
		return -ENOBUFS;
	add(out, bytes, &used, snprintf(out, bytes, HEAD "job %s\n", control->job_dir));
	for (uint32_t i = 0; i < control->count && used < bytes; i++) {
		const struct nspy_command *c = &control->at[i];

		add(out, bytes, &used,
		    snprintf(out + used, bytes - used, "%" PRIu64 " %s%s%s\n", c->id,
			     nspy_control_verb_name(c->verb), c->text[0] ? " " : "", c->text));
	}
	if (used < bytes)
		add(out, bytes, &used,
		    snprintf(out + used, bytes - used, "sum %016" PRIx64 "\n",
			     (uint64_t)XXH64(out, used, 0)));
	return used < bytes ? (long)used : -ENOBUFS;
}

/* The line at *at as a text of its own; *at moves behind it. false: none that fits. */
static bool take_line(const char **at, const char *end, char *ret, size_t bytes)
{
	const char *stop = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
	size_t n = stop ? (size_t)(stop - *at) : 0;

	if (!stop || n >= bytes || memchr(*at, '\0', n))
		return false;
	memcpy(ret, *at, n);
	ret[n] = '\0';
	*at = stop + 1;
	return true;
}

static bool take_command(char *line, struct nspy_control *ret)
{
	struct nspy_command command = {0};
	char *verb = strchr(line, ' '), *text;
	uint64_t last = ret->count ? ret->at[ret->count - 1].id : 0;

	if (!verb)
		return false;
	*verb++ = '\0';
	text = strchr(verb, ' ');
	if (text)
		*text++ = '\0';
	if (!parse_number(line, UINT64_MAX, &command.id) || command.id <= last ||
	    ret->count == NSPY_CONTROL_COMMANDS)
		return false;
	/* What a newer version may mean is not for us, but it has its number. */
	if (nspy_command_parse(verb, text ? text : "", &command) < 0)
		command = (struct nspy_command){.id = command.id};
	nspy_control_add(ret, &command);
	return true;
}

int nspy_control_decode(const char *data, size_t bytes, struct nspy_control *ret)
{
	const char *at = data, *end;
	char line[LINE_BYTES], sum[SUM_LINE_BYTES + 1];

	memset(ret, 0, sizeof(*ret));
	if (bytes < strlen(HEAD) + SUM_LINE_BYTES || bytes > NSPY_CONTROL_BYTES_MAX ||
	    memcmp(data, HEAD, strlen(HEAD)) != 0)
		return -EBADMSG;
	end = data + bytes - SUM_LINE_BYTES;
	(void)snprintf(sum, sizeof(sum), "sum %016" PRIx64 "\n",
		       (uint64_t)XXH64(data, bytes - SUM_LINE_BYTES, 0));
	if (memcmp(end, sum, SUM_LINE_BYTES) != 0)
		return -EBADMSG;
	at += strlen(HEAD);
	if (!take_line(&at, end, line, sizeof(line)) || strncmp(line, "job ", 4) != 0 ||
	    strlen(line + 4) >= sizeof(ret->job_dir))
		return -EBADMSG;
	memcpy(ret->job_dir, line + 4, strlen(line + 4) + 1);
	while (at < end)
		if (!take_line(&at, end, line, sizeof(line)) || !take_command(line, ret))
			return -EBADMSG;
	return 0;
}
