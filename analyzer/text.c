/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Length of the UTF-8 sequence at p, 0 if it is none or stands for something invisible. */
static size_t visible_utf8(const unsigned char *p)
{
	uint32_t code;
	size_t n;

	if (p[0] < 0x80)
		return p[0] >= 0x20 && p[0] != 0x7F;
	if (p[0] >= 0xC2 && p[0] <= 0xDF) {
		n = 2;
		code = p[0] & 0x1Fu;
	} else if ((p[0] & 0xF0) == 0xE0) {
		n = 3;
		code = p[0] & 0x0Fu;
	} else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
		n = 4;
		code = p[0] & 0x07u;
	} else {
		return 0;
	}
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3Fu);
	}
	if (code < 0xA0 || (n == 3 && code < 0x800) || (n == 4 && code < 0x10000) ||
	    code > 0x10FFFF)
		return 0;
	if ((code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
	    (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF ||
	    (code >= 0xD800 && code <= 0xDFFF))
		return 0;
	return n;
}

void nspy_clean(char *text)
{
	unsigned char *p = (unsigned char *)text;

	while (*p) {
		size_t n = visible_utf8(p);

		if (n == 0)
			*p = *p == '\t' || *p == '\n' || *p == '\r' ? ' ' : '?';
		p += n ? n : 1;
	}
}

void nspy_add_duration(struct nspy_str *s, uint64_t ns)
{
	uint64_t seconds = ns / NSPY_NS_PER_S;

	if (seconds >= 3600)
		nspy_str_addf(s, "%" PRIu64 "h%02" PRIu64 "m", seconds / 3600, seconds / 60 % 60);
	else if (seconds >= 600)
		nspy_str_addf(s, "%" PRIu64 "m%02" PRIu64 "s", seconds / 60, seconds % 60);
	else if (ns >= NSPY_NS_PER_S)
		nspy_str_addf(s, "%.1f s", (double)ns / 1e9);
	else if (ns >= NSPY_NS_PER_MS)
		nspy_str_addf(s, "%.0f ms", (double)ns / 1e6);
	else
		nspy_str_addf(s, "%.0f us", (double)ns / 1e3);
}

static bool split_time(uint64_t real_ns, struct tm *ret_tm)
{
	time_t seconds = (time_t)(real_ns / NSPY_NS_PER_S);

	return gmtime_r(&seconds, ret_tm) != NULL;
}

void nspy_add_time(struct nspy_str *s, uint64_t real_ns)
{
	struct tm tm;

	if (!split_time(real_ns, &tm)) {
		nspy_str_add(s, "?");
		return;
	}
	nspy_str_addf(s, "%04d-%02d-%02d ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
	nspy_add_clock(s, real_ns);
}

void nspy_add_clock(struct nspy_str *s, uint64_t real_ns)
{
	struct tm tm;

	if (split_time(real_ns, &tm))
		nspy_str_addf(s, "%02d:%02d:%02d.%03u", tm.tm_hour, tm.tm_min, tm.tm_sec,
			      (unsigned int)(real_ns % NSPY_NS_PER_S / NSPY_NS_PER_MS));
	else
		nspy_str_add(s, "?");
}

void nspy_add_bytes(struct nspy_str *s, double bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
	size_t unit = 0;

	while (bytes >= 1000 && unit + 1 < nspy_array_size(units)) {
		bytes /= 1000;
		unit++;
	}
	nspy_str_addf(s, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void nspy_add_bytes_binary(struct nspy_str *s, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < nspy_array_size(units)) {
		value /= 1024;
		unit++;
	}
	nspy_str_addf(s, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void nspy_add_count(struct nspy_str *s, uint64_t count)
{
	if (count >= 10000000000ULL)
		nspy_str_addf(s, "%.1f G", (double)count / 1e9);
	else if (count >= 10000000)
		nspy_str_addf(s, "%.1f M", (double)count / 1e6);
	else if (count >= 1000000)
		nspy_str_addf(s, "%u,%03u,%03u", (unsigned int)(count / 1000000),
			      (unsigned int)(count / 1000 % 1000), (unsigned int)(count % 1000));
	else if (count >= 10000)
		nspy_str_addf(s, "%u,%03u", (unsigned int)(count / 1000),
			      (unsigned int)(count % 1000));
	else
		nspy_str_addf(s, "%" PRIu64, count);
}

static int compare_numbers(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

size_t nspy_sort_unique(int64_t *numbers, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(numbers, count, sizeof(*numbers), compare_numbers);
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || numbers[kept - 1] != numbers[i])
			numbers[kept++] = numbers[i];
	}
	return kept;
}

void nspy_add_ranges(struct nspy_str *s, const int64_t *numbers, size_t count)
{
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1; end++)
			;
		nspy_str_addf(s, "%s%" PRId64, i ? "," : "", numbers[i]);
		if (end - i > 1)
			nspy_str_addf(s, "%s%" PRId64, end - i > 2 ? "-" : ",", numbers[end - 1]);
	}
}

/* A host name split at its trailing number. */
struct host {
	const char *name;
	size_t prefix_bytes;
	size_t digits;
	size_t width; /* digits if numbers of this prefix and length are zero-padded, else 0 */
	uint64_t number;
};

static struct host split_host(const char *name)
{
	struct host host = {.name = name, .prefix_bytes = strlen(name)};

	while (host.prefix_bytes && host.digits < 18 &&
	       isdigit((unsigned char)name[host.prefix_bytes - 1])) {
		host.prefix_bytes--;
		host.digits++;
	}
	if (host.digits)
		host.number = strtoull(name + host.prefix_bytes, NULL, 10);
	return host;
}

static bool same_prefix(const struct host *a, const struct host *b)
{
	return a->prefix_bytes == b->prefix_bytes && memcmp(a->name, b->name, a->prefix_bytes) == 0;
}

/* gpu[001-100] are padded, all of them; n1, n2 and n10 are not. */
static void find_width(struct host *host, const struct host *hosts, size_t count)
{
	for (size_t i = 0; i < count && !host->width; i++) {
		if (hosts[i].digits == host->digits && same_prefix(&hosts[i], host) &&
		    hosts[i].name[hosts[i].prefix_bytes] == '0')
			host->width = host->digits;
	}
}

static int compare_hosts(const void *a, const void *b)
{
	const struct host *x = a, *y = b;
	size_t shorter = x->prefix_bytes < y->prefix_bytes ? x->prefix_bytes : y->prefix_bytes;
	int order = memcmp(x->name, y->name, shorter);

	if (order)
		return order;
	if (x->prefix_bytes != y->prefix_bytes)
		return x->prefix_bytes < y->prefix_bytes ? -1 : 1;
	/* Zero-padded numbers of different width are different names. */
	if (x->width != y->width)
		return x->width < y->width ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static bool same_group(const struct host *a, const struct host *b)
{
	return a->digits && b->digits && same_prefix(a, b) && a->width == b->width;
}

static void add_host_group(struct nspy_str *s, const struct host *hosts, size_t count)
{
	if (count == 1) {
		nspy_str_add(s, hosts[0].name);
		return;
	}
	nspy_str_addn(s, hosts[0].name, hosts[0].prefix_bytes);
	nspy_str_add(s, "[");
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && hosts[end].number == hosts[end - 1].number + 1;
		     end++)
			;
		nspy_str_addf(s, "%s%s", i ? "," : "", hosts[i].name + hosts[i].prefix_bytes);
		if (end - i > 1)
			nspy_str_addf(s, "%s%s", end - i > 2 ? "-" : ",",
				      hosts[end - 1].name + hosts[end - 1].prefix_bytes);
	}
	nspy_str_add(s, "]");
}

void nspy_add_hostlist(struct nspy_str *s, const char **names, size_t count)
{
	struct host *hosts = nspy_xcalloc(count, sizeof(*hosts));
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		hosts[i] = split_host(names[i]);
	for (size_t i = 0; i < count; i++)
		find_width(&hosts[i], hosts, count);
	qsort(hosts, count, sizeof(*hosts), compare_hosts);
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || strcmp(hosts[kept - 1].name, hosts[i].name) != 0)
			hosts[kept++] = hosts[i];
	}
	for (size_t i = 0, end; i < kept; i = end) {
		for (end = i + 1; end < kept && same_group(&hosts[i], &hosts[end]); end++)
			;
		if (i)
			nspy_str_add(s, ",");
		add_host_group(s, hosts + i, end - i);
	}
	free(hosts);
}
