/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "snapshot.h"

#define RECORDED "/ncclspy-recorded"

bool snap_starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Only plain files and what looks like one in /proc and /sys: a FIFO in a tree must not block. */
static ssize_t read_file(const char *path, char *buf, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t have = 0;
	ssize_t got = 0;

	buf[0] = '\0';
	if (fd < 0)
		return -errno;
	while (have + 1 < bytes && (got = read(fd, buf + have, bytes - 1 - have)) > 0)
		have += (size_t)got;
	if (got < 0 && have == 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	close(fd);
	while (have > 0 && strchr(" \t\r\n", buf[have - 1]))
		have--;
	buf[have] = '\0';
	return (ssize_t)have;
}

ssize_t snap_read_at(const char *root, const char *path, char *buf, size_t bytes)
{
	char full[2 * SNAP_PATH_MAX];
	int length = snprintf(full, sizeof(full), "%s%s", root, path);

	buf[0] = '\0';
	if (length < 0 || (size_t)length >= sizeof(full))
		return -ENAMETOOLONG;
	return read_file(full, buf, bytes);
}

ssize_t snap_read(const struct snap *s, char *buf, size_t bytes, const char *path_format, ...)
{
	char path[SNAP_PATH_MAX];
	va_list args;
	int length;

	va_start(args, path_format);
	length = vsnprintf(path, sizeof(path), path_format, args);
	va_end(args);
	buf[0] = '\0';
	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	return snap_read_at(s->root, path, buf, bytes);
}

char *snap_read_all(const char *path, size_t limit)
{
	size_t capacity = 1 << 16;
	char *text = malloc(capacity);
	ssize_t got;

	while (text) {
		char *larger;

		got = read_file(path, text, capacity);
		if (got < 0 || capacity > limit) {
			free(text);
			return NULL;
		}
		if ((size_t)got + 1 < capacity)
			return text;
		capacity *= 2;
		larger = realloc(text, capacity);
		if (!larger)
			free(text);
		text = larger;
	}
	return NULL;
}

bool snap_exists(const struct snap *s, const char *path_format, ...)
{
	char path[SNAP_PATH_MAX], full[2 * SNAP_PATH_MAX];
	va_list args;
	int length;

	va_start(args, path_format);
	length = vsnprintf(path, sizeof(path), path_format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(path))
		return false;
	snprintf(full, sizeof(full), "%s%s", s->root, path);
	return access(full, F_OK) == 0;
}

void snap_names_add(struct snap_names *names, const char *name)
{
	names->name = snap_grow(names->name, names->count, &names->capacity, sizeof(*names->name));
	names->name[names->count++] = snap_strdup(name);
}

void snap_names_done(struct snap_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->name[i]);
	free(names->name);
	*names = (struct snap_names){0};
}

/* "mlx5_2" before "mlx5_10". */
static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

int snap_list(const struct snap *s, const char *path, struct snap_names *ret)
{
	char full[2 * SNAP_PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	*ret = (struct snap_names){0};
	snprintf(full, sizeof(full), "%s%s", s->root, path);
	dir = opendir(full);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			snap_names_add(ret, entry->d_name);
	}
	closedir(dir);
	if (ret->count)
		qsort(ret->name, ret->count, sizeof(char *), by_version);
	return 0;
}

bool snap_line_number(const char *text, const char *key, unsigned long long *ret)
{
	size_t bytes = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		char *end;

		line += *line == '\n';
		if (strncmp(line, key, bytes) != 0)
			continue;
		line += bytes;
		*ret = strtoull(line, &end, 10);
		if (end != line)
			return true;
	}
	return false;
}

bool snap_recorded(const struct snap *s, const char *key, unsigned long long *numbers, size_t count)
{
	char text[16384];
	size_t bytes = strlen(key);

	if (snap_read(s, text, sizeof(text), RECORDED) < 0)
		return false;
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, bytes) != 0 || line[bytes] != ' ')
			continue;
		line += bytes;
		for (size_t i = 0; i < count; i++) {
			char *end;

			numbers[i] = strtoull(line, &end, 10);
			if (end == line)
				return false;
			line = end;
		}
		return true;
	}
	return false;
}
