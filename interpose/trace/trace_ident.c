/* SPDX-License-Identifier: Apache-2.0 */
/* IDENT payloads (length, key, length, value) and the lines of SCHEMA payloads. */
#include <errno.h>
#include <string.h>

#include "trace_bytes.h"
#include "trace_encode.h"

#define KEY_BYTES_MAX 255u

int nspy_ident_put(uint8_t *payload, size_t capacity, size_t *used, const char *key,
		   const char *value)
{
	struct nspy_put w = {payload + *used, payload + capacity, false};
	size_t key_bytes = strlen(key);
	size_t value_bytes = strnlen(value, NSPY_TEXT_BYTES_MAX);

	if (key_bytes == 0 || key_bytes > KEY_BYTES_MAX)
		return -EINVAL;
	nspy_put_varint(&w, key_bytes);
	nspy_put_copy(&w, key, key_bytes);
	nspy_put_varint(&w, value_bytes);
	nspy_put_copy(&w, value, value_bytes);
	if (w.bad)
		return -ENOBUFS;
	*used = (size_t)(w.at - payload);
	return 0;
}

int nspy_ident_next(const uint8_t *payload, size_t bytes, size_t *cursor, const char **ret_key,
		    size_t *ret_key_bytes, const char **ret_value, size_t *ret_value_bytes)
{
	struct nspy_get g;
	const uint8_t *key, *value;
	size_t key_bytes, value_bytes;

	if (*cursor >= bytes)
		return -ENODATA;
	g = (struct nspy_get){payload + *cursor, payload + bytes, false};
	key_bytes = nspy_get_limited(&g, KEY_BYTES_MAX);
	key = nspy_get_bytes(&g, key_bytes);
	value_bytes = nspy_get_limited(&g, NSPY_TEXT_BYTES_MAX);
	value = nspy_get_bytes(&g, value_bytes);
	if (g.bad || key_bytes == 0)
		return -EBADMSG;
	*cursor = (size_t)(g.at - payload);
	*ret_key = (const char *)key;
	*ret_key_bytes = key_bytes;
	*ret_value = (const char *)value;
	*ret_value_bytes = value_bytes;
	return 0;
}

int nspy_schema_next(const uint8_t *payload, size_t bytes, size_t *cursor, const char **ret_line,
		     size_t *ret_line_bytes)
{
	const uint8_t *line, *end;

	if (*cursor >= bytes)
		return -ENODATA;
	line = payload + *cursor;
	end = memchr(line, '\n', bytes - *cursor);
	if (!end)
		end = payload + bytes;
	*ret_line = (const char *)line;
	*ret_line_bytes = (size_t)(end - line);
	*cursor += (size_t)(end - line) + 1;
	return 0;
}
