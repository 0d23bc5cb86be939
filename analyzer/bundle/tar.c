/* SPDX-License-Identifier: Apache-2.0 */
#include "tar.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "../text.h"
#include "../util.h"

#define BLOCK        512u
#define NAME_MAX_    1024u
#define EXTENDED_MAX (64u << 10)

/* Places in a header block. */
enum {
	AT_NAME = 0,
	AT_SIZE = 124,
	AT_SUM = 148,
	AT_TYPE = 156,
	AT_MAGIC = 257,
	AT_PREFIX = 345,
};

struct nspy_tar {
	struct nspy_stream *stream;
	uint64_t read;    /* bytes of the archive, unpacked */
	uint64_t left;    /* bytes of this entry's content not yet read */
	uint64_t padding; /* zero bytes behind it */
	size_t entries, refused;
	const char *why, *error;
	char name[NAME_MAX_ + 1];
	char *longer; /* name of the next entry by an extended header, or NULL */
};

static uint64_t number(const char *field, size_t bytes, bool *ret_ok)
{
	uint64_t value = 0;
	size_t i = 0;

	while (i < bytes && field[i] == ' ')
		i++;
	*ret_ok = i < bytes && field[i] >= '0' && field[i] <= '7';
	for (; i < bytes && field[i] >= '0' && field[i] <= '7'; i++)
		value = value * 8 + (uint64_t)(field[i] - '0');
	return value;
}

/* The sum of all bytes of the header, with blanks in place of the sum itself. */
static bool sum_fits(const char *block)
{
	uint64_t sum = 0, wanted;
	bool ok;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : (unsigned char)block[i];
	wanted = number(block + AT_SUM, 8, &ok);
	return ok && wanted == sum;
}

bool nspy_tar_is(const char *data, size_t bytes)
{
	return bytes >= BLOCK && memcmp(data + AT_MAGIC, "ustar", 5) == 0 && sum_fits(data);
}

struct nspy_tar *nspy_tar_open(struct nspy_stream *stream)
{
	struct nspy_tar *tar = nspy_xcalloc(1, sizeof(*tar));

	tar->stream = stream;
	return tar;
}

void nspy_tar_close(struct nspy_tar *tar)
{
	free(tar->longer);
	free(tar);
}

size_t nspy_tar_refused(const struct nspy_tar *tar, const char **ret_why)
{
	*ret_why = tar->why;
	return tar->refused;
}

const char *nspy_tar_error(const struct nspy_tar *tar)
{
	return tar->error;
}

/* Exactly so many bytes, else it is an error. data may be NULL: skip. */
static bool take(struct nspy_tar *tar, char *data, uint64_t bytes)
{
	char waste[64u << 10];

	while (bytes && !tar->error) {
		uint64_t want = !data && bytes > sizeof(waste) ? sizeof(waste) : bytes;
		size_t got = nspy_stream_read(tar->stream, data ? data : waste, (size_t)want);

		tar->read += got;
		if (tar->read > NSPY_TAR_BYTES_MAX)
			tar->error = "more than 256 MiB: given up";
		else if (!got)
			tar->error = "cut off, or damaged";
		data = data ? data + got : NULL;
		bytes -= got;
	}
	return !tar->error;
}

static bool skip_content(struct nspy_tar *tar)
{
	bool ok = take(tar, NULL, tar->left + tar->padding);

	tar->left = tar->padding = 0;
	return ok;
}

char *nspy_tar_content(struct nspy_tar *tar, size_t limit, size_t *ret_bytes)
{
	size_t bytes = (size_t)tar->left, have = 0;
	char *data;

	if (tar->left > limit)
		return NULL;
	/* Grows with what is there: a header may promise anything. */
	data = nspy_xmalloc(1);
	while (have < bytes) {
		size_t piece = bytes - have < (1u << 20) ? bytes - have : 1u << 20;

		data = nspy_xrealloc(data, have + piece + 1, 1);
		if (!take(tar, data + have, piece)) {
			free(data);
			return NULL;
		}
		have += piece;
	}
	tar->left = 0;
	data[bytes] = '\0';
	*ret_bytes = bytes;
	return data;
}

/* --- names --- */

static const char *unfit(const char *name)
{
	size_t bytes = strlen(name);

	if (!*name)
		return "an entry without a name";
	if (*name == '/')
		return "an absolute path";
	for (size_t i = 0; i < bytes; i++) {
		if (iscntrl((unsigned char)name[i]) || name[i] == '\\')
			return "control characters in a name";
	}
	for (const char *part = name; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2]))
			return "a path that leads out of the archive";
	}
	return NULL;
}

static void header_name(struct nspy_tar *tar, const char *block)
{
	size_t bytes = strnlen(block + AT_NAME, 100), prefix = strnlen(block + AT_PREFIX, 155);
	struct nspy_str s = {0};

	/* Behind "ustar" and a NUL; GNU tar has other things there. */
	if (tar->longer) {
		nspy_str_add(&s, tar->longer);
	} else if (block[AT_MAGIC + 5] == '\0' && prefix) {
		nspy_str_addn(&s, block + AT_PREFIX, prefix);
		nspy_str_add(&s, "/");
		nspy_str_addn(&s, block + AT_NAME, bytes);
	} else {
		nspy_str_addn(&s, block + AT_NAME, bytes);
	}
	free(tar->longer);
	tar->longer = NULL;
	tar->name[0] = '\0';
	if (s.bytes <= NAME_MAX_ && s.text) {
		const char *from = s.text;

		while (strncmp(from, "./", 2) == 0)
			from += 2 + strspn(from + 2, "/");
		(void)memcpy(tar->name, from, strlen(from) + 1);
	}
	nspy_str_done(&s);
}

/* "path=" of a pax header: records are "LENGTH KEY=VALUE\n". */
static void pax_name(struct nspy_tar *tar, const char *text, size_t bytes)
{
	const char *end = text + bytes;

	while (text < end) {
		char *after;
		size_t length = isdigit((unsigned char)*text) ? strtoul(text, &after, 10) : 0;
		const char *value;

		if (!length || length > (size_t)(end - text) || *after != ' ' ||
		    after >= text + length || text[length - 1] != '\n')
			return;
		value = after + 1;
		if (strncmp(value, "path=", 5) == 0 && text + length - 1 >= value + 5) {
			value += 5;
			free(tar->longer);
			tar->longer = nspy_xstrndup(value, (size_t)(text + length - 1 - value));
		}
		text += length;
	}
}

static bool extended(struct nspy_tar *tar, char type)
{
	size_t bytes;
	char *text = nspy_tar_content(tar, EXTENDED_MAX, &bytes);

	if (!text) {
		if (!tar->error)
			tar->error = "a header larger than any sane one";
		return false;
	}
	if (type == 'L') {
		free(tar->longer);
		tar->longer = nspy_xstrdup(text);
	} else if (type == 'x') {
		pax_name(tar, text, bytes);
	}
	free(text);
	return skip_content(tar);
}

/* --- entries --- */

static void refuse(struct nspy_tar *tar, const char *why)
{
	tar->refused++;
	tar->why = why;
}

/* A header block; false at the end or at an error. */
static bool header(struct nspy_tar *tar, char *block)
{
	static const char zeros[BLOCK];
	bool ok;

	if (!take(tar, block, BLOCK))
		return false;
	if (memcmp(block, zeros, BLOCK) == 0)
		return false; /* the archive's end; what may follow is padding */
	if (memcmp(block + AT_MAGIC, "ustar", 5) != 0 || !sum_fits(block)) {
		tar->error = "damaged: no header where one must be";
		return false;
	}
	if (++tar->entries > NSPY_TAR_ENTRIES_MAX) {
		tar->error = "too many entries: given up";
		return false;
	}
	tar->left = number(block + AT_SIZE, 12, &ok);
	if (!ok || tar->left > NSPY_TAR_BYTES_MAX) {
		tar->error = "an entry larger than 256 MiB: given up";
		return false;
	}
	tar->padding = (BLOCK - tar->left % BLOCK) % BLOCK;
	return true;
}

bool nspy_tar_next(struct nspy_tar *tar, struct nspy_tar_entry *ret_entry)
{
	char block[BLOCK];

	while (!tar->error && skip_content(tar) && header(tar, block)) {
		char type = block[AT_TYPE];
		const char *why;

		if (type == 'L' || type == 'K' || type == 'x' || type == 'g') {
			if (!extended(tar, type))
				return false;
			continue;
		}
		header_name(tar, block);
		why = type == '1' || type == '2'     ? "a link"
		      : type && !strchr("057", type) ? "neither file nor directory"
		      : type == '5' && !tar->name[0] ? NULL /* "./" */
						     : unfit(tar->name);
		if (why) {
			refuse(tar, why);
			continue;
		}
		*ret_entry = (struct nspy_tar_entry){tar->name, tar->left, type != '5'};
		return true;
	}
	return false;
}
