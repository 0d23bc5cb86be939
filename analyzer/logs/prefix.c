/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The many things that launchers, containers and NCCL write in front of a line. All are looked for
 * wherever they stand before the message: several may be stacked, and in lines that two processes
 * wrote at the same time the one nearest to the message counts.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "log.h"

static bool word_char(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

static size_t digits(const char *p, const char *end, int64_t *ret)
{
	size_t n = 0;
	int64_t value = 0;

	while (p + n < end && isdigit((unsigned char)p[n]) && n < 18) {
		value = value * 10 + (p[n] - '0');
		n++;
	}
	*ret = value;
	return n;
}

/* "2026-01-02T03:04:05.678" or with a blank; returns its length. */
static size_t iso_time(const char *p, const char *end, uint64_t *ret_ns)
{
	struct tm tm = {0};
	int64_t v[6], fraction = 0;
	static const char marks[] = "--T::";
	const char *q = p;

	if (end - p < 19)
		return 0;
	for (int i = 0; i < 6; i++) {
		size_t n = digits(q, end, &v[i]);

		if (n != (i == 0 ? 4u : 2u))
			return 0;
		q += n;
		if (i < 5 && *q != marks[i] && !(i == 2 && *q == ' '))
			return 0;
		q += i < 5;
	}
	if (v[0] < 1990 || v[0] > 2200 || v[1] < 1 || v[1] > 12 || v[2] < 1 || v[2] > 31)
		return 0;
	tm.tm_year = (int)v[0] - 1900;
	tm.tm_mon = (int)v[1] - 1;
	tm.tm_mday = (int)v[2];
	tm.tm_hour = (int)v[3];
	tm.tm_min = (int)v[4];
	tm.tm_sec = (int)v[5];
	if (q < end && (*q == '.' || *q == ',')) {
		size_t n = digits(q + 1, end, &fraction);

		for (size_t i = n; i < 9; i++)
			fraction *= 10;
		for (size_t i = 9; i < n; i++)
			fraction /= 10;
		q += n + 1;
	}
	*ret_ns = (uint64_t)timegm(&tm) * NSPY_NS_PER_S + (uint64_t)fraction;
	return (size_t)(q - p);
}

/* "host:123:456 [" of NCCL; returns the length up to the blank. */
static size_t nccl_prefix(const char *p, const char *end, struct nspy_log_who *who)
{
	const char *q = p;
	bool letter = false;
	int64_t pid, tid;
	size_t n;

	while (q < end && word_char(*q)) {
		letter |= isalpha((unsigned char)*q) != 0;
		q++;
	}
	/* "12:34:56" is a time. An address has dots. */
	if (!letter && !memchr(p, '.', (size_t)(q - p)))
		return 0;
	if (q == p || q >= end || *q != ':')
		return 0;
	n = digits(q + 1, end, &pid);
	if (!n || q + 1 + n >= end || q[1 + n] != ':')
		return 0;
	who->host_bytes = (size_t)(q - p);
	q += n + 2;
	n = digits(q, end, &tid);
	if (!n || q + n >= end || (q[n] != ' ' && q[n] != '[')) {
		who->host_bytes = 0;
		return 0;
	}
	who->host = p;
	who->pid = pid;
	return (size_t)(q + n - p);
}

/* "rank3", "Rank 3", "rank: 3", "mpirank:3"; p stands behind the word. */
static size_t rank_number(const char *p, const char *end, int64_t *ret)
{
	const char *q = p;
	size_t n;

	while (q < end && q - p < 2 && (*q == ' ' || *q == ':' || *q == '='))
		q++;
	n = digits(q, end, ret);
	return n && n < 8 ? (size_t)(q - p) + n : 0;
}

static void rank_word(const char *p, const char *line, const char *end, struct nspy_log_who *who)
{
	int64_t rank;
	size_t n = rank_number(p + 4, end, &rank);
	bool group;

	if (!n)
		return;
	/* "[PG ID 1 PG GUID 2 Rank 0]" and "[Rank 0]" count within a process group. */
	group = p > line && (p[-1] == ' ' || p[-1] == '[') && p[0] == 'R' && p[4] == ' ' &&
		p + 4 + n < end && p[4 + n] == ']';
	if (group)
		who->pg_rank = rank;
	else
		who->rank = rank;
}

/* What stands at the very beginning: "[1,12]<stdout>:", " 11: ", "[pod/name/box] ", "node1: ". */
static size_t line_start(const char *line, const char *end, struct nspy_log_who *who)
{
	const char *p = line;
	int64_t a, b;
	size_t n, m;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (end - p > 5 && strncmp(p, "[pod/", 5) == 0) {
		for (n = 5; p + n < end && p[n] != '/' && p[n] != ']'; n++)
			;
		who->label = p + 5;
		who->label_bytes = n - 5;
		return (size_t)(p - line) + n;
	}
	if (p < end && *p == '[' && (n = digits(p + 1, end, &a)) && p[1 + n] == ',' &&
	    (m = digits(p + 2 + n, end, &b))) {
		who->rank = b;
		return (size_t)(p - line) + 2 + n + m;
	}
	n = digits(p, end, &a);
	if (n && n < 7 && p + n + 1 < end && p[n] == ':' && p[n + 1] == ' ') {
		who->rank = a;
		return (size_t)(p - line) + n + 2;
	}
	for (n = 0; p + n < end && word_char(p[n]); n++)
		;
	m = n;
	while (m && p + m < end && p[m] == ' ' && m - n < 12)
		m++;
	if (!n || n > 63 || p + m >= end || strncasecmp(p, "rank", 4) == 0 ||
	    !isalpha((unsigned char)*p))
		return 0;
	/* A name with a number in it, and something that ends a label. */
	if ((memchr(p, '-', n) || strncmp(p, "node", 4) == 0 || strncmp(p, "host", 4) == 0) &&
	    !memchr(p, '.', n) &&
	    (p[m] == '|' || p[m] == '[' || p[m] == '(' ||
	     (m == n && p[m] == ':' && p[m + 1] == ' '))) {
		who->label = p;
		who->label_bytes = n;
	}
	return (size_t)(p - line);
}

static void key_value(const char *p, const char *end, struct nspy_log_who *who)
{
	int64_t number;

	if (strncmp(p, "pid=", 4) == 0 && digits(p + 4, end, &number)) {
		who->pid = number;
	} else if (strncmp(p, "ip=", 3) == 0) {
		size_t n = 0;

		while (p + 3 + n < end && (isdigit((unsigned char)p[3 + n]) || p[3 + n] == '.'))
			n++;
		if (n) {
			who->host = p + 3;
			who->host_bytes = n;
		}
	}
}

void nspy_log_prefix(const char *text, size_t limit, struct nspy_log_who *who)
{
	const char *end = text + limit, *p;
	bool start = true; /* of a word */

	*who = (struct nspy_log_who){.pid = -1, .rank = -1, .pg_rank = -1};
	p = text + line_start(text, end, who);
	while (p < end) {
		size_t n = 0;

		if (start && isdigit((unsigned char)*p) && !who->when_ns)
			n = iso_time(p, end, &who->when_ns);
		if (!n && start && word_char(*p))
			n = nccl_prefix(p, end, who);
		if (n) {
			p += n;
			start = true;
			continue;
		}
		if ((*p == 'r' || *p == 'R') && (start || (p > text && p[-1] == 'i')) &&
		    end - p > 4 && strncasecmp(p, "rank", 4) == 0)
			rank_word(p, text, end, who);
		else if (start && (*p == 'p' || *p == 'i') && end - p > 5)
			key_value(p, end, who);
		start = !word_char(*p);
		p++;
	}
	who->bytes = limit;
}

/* --- JSON envelopes of container runtimes and log services --- */

static const char *string_of(const char *text, const char *key, size_t *ret_bytes)
{
	const char *p = strstr(text, key);
	const char *q;

	if (!p)
		return NULL;
	p += strlen(key);
	while (*p == ' ' || *p == ':')
		p++;
	if (*p != '"')
		return NULL;
	for (q = ++p; *q && *q != '"'; q++)
		q += *q == '\\' && q[1];
	*ret_bytes = (size_t)(q - p);
	return p;
}

static size_t unescape(char *to, const char *from, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++) {
		char c = from[i];

		if (c == '\\' && i + 1 < bytes) {
			c = from[++i];
			if (c == 'u') {
				/* Escapes and signs of other scripts mean nothing to us. */
				i += bytes - i > 4 ? 4 : bytes - i - 1;
				c = ' ';
			} else if (c == 'n' || c == 't' || c == 'r') {
				c = ' ';
			}
		}
		to[n++] = c;
	}
	return n;
}

bool nspy_log_unwrap(struct nspy_line *line, struct nspy_log_who *who)
{
	static const char *const keys[] = {"\"log\"",         "\"message\"",  "\"msg\"",
					   "\"textPayload\"", "\"@message\"", "\"line\""};
	static const char *const names[] = {"\"pod_name\"", "\"pod\"", "\"host\"", "\"hostname\"",
					    "\"logStream\""};
	const char *value = NULL;
	size_t bytes = 0;

	for (size_t i = 0; i < nspy_array_size(keys) && !value; i++)
		value = string_of(line->text, keys[i], &bytes);
	if (!value)
		return false;
	for (size_t i = 0; i < nspy_array_size(names) && !who->label; i++)
		who->label = string_of(line->text, names[i], &who->label_bytes);
	if (who->label && who->label_bytes < 256) {
		/* The text is about to be moved: the label goes behind it. */
		static _Thread_local char kept[256];

		memcpy(kept, who->label, who->label_bytes);
		who->label = kept;
	} else {
		who->label = NULL;
	}
	line->bytes = unescape(line->text, value, bytes);
	line->text[line->bytes] = '\0';
	return true;
}
