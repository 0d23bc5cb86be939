/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace_stat.h"

#define NOTES_MAX  512u
#define FRAMES_MAX (NSPY_STACKS_BYTES_MAX / 8u) /* a line of a frame is longer than that */
#define TOLD       3u                           /* frames of a thread, in one line */

/* What is printed later must not steer a terminal. */
static void clean(char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (text[i] != '\n' && (text[i] < 0x20 || text[i] > 0x7e))
			text[i] = '?';
}

/* The next word of the line, "" at its end. */
static char *word(char **line)
{
	char *begin = *line + strspn(*line, " ");
	size_t length = strcspn(begin, " ");

	*line = begin + length;
	if (**line)
		*(*line)++ = '\0';
	return begin;
}

static const char *unless_dash(const char *text)
{
	return strcmp(text, "-") == 0 ? "" : text;
}

static int grow(void **array, uint32_t count, size_t element)
{
	void *more;

	if (count & (count - 1) || (count && count < 16))
		return 0;
	more = realloc(*array, (count ? 2 * (size_t)count : 16) * element);
	if (!more)
		return -ENOMEM;
	*array = more;
	return 0;
}

static int take_thread(struct nspy_stacks *s, char *line)
{
	struct nspy_stack_thread *thread;

	if (s->thread_count == NSPY_STACKS_THREADS_MAX)
		return 0;
	if (grow((void **)&s->threads, s->thread_count, sizeof(*s->threads)) < 0)
		return -ENOMEM;
	thread = &s->threads[s->thread_count++];
	*thread = (struct nspy_stack_thread){.frame = s->frame_count};
	thread->tid = (uint32_t)strtoul(word(&line), NULL, 10);
	thread->state = *word(&line);
	if (!thread->state)
		thread->state = '?';
	thread->wchan = unless_dash(word(&line));
	thread->syscall = (int32_t)strtol(word(&line), NULL, 10);
	thread->name = line + strspn(line, " ");
	return 0;
}

static int take_frame(struct nspy_stacks *s, char *line)
{
	struct nspy_stack_thread *thread;
	struct nspy_stack_frame *frame;

	if (!s->thread_count || s->frame_count == FRAMES_MAX)
		return 0;
	thread = &s->threads[s->thread_count - 1];
	if (thread->frames == NSPY_STACKS_DEPTH_MAX) {
		thread->cut = true;
		return 0;
	}
	if (grow((void **)&s->frames, s->frame_count, sizeof(*s->frames)) < 0)
		return -ENOMEM;
	frame = &s->frames[s->frame_count++];
	frame->offset = strtoull(word(&line), NULL, 16);
	frame->object = unless_dash(word(&line));
	frame->symbol = unless_dash(line + strspn(line, " "));
	thread->frames++;
	return 0;
}

static int take_note(struct nspy_stacks *s, char *line)
{
	if (s->note_count == NOTES_MAX)
		return 0;
	if (grow((void **)&s->notes, s->note_count, sizeof(*s->notes)) < 0)
		return -ENOMEM;
	s->notes[s->note_count++] = line;
	return 0;
}

static int take_line(struct nspy_stacks *s, char *line)
{
	char *key = word(&line);

	if (strcmp(key, "f") == 0)
		return take_frame(s, line);
	if (strcmp(key, "thread") == 0)
		return take_thread(s, line);
	if (strcmp(key, "note") == 0)
		return take_note(s, line);
	if (strcmp(key, "cut") == 0 && s->thread_count)
		s->threads[s->thread_count - 1].cut = true;
	else if (strcmp(key, "pid") == 0)
		s->pid = (uint32_t)strtoul(line, NULL, 10);
	else if (strcmp(key, "caller") == 0)
		s->caller = (uint32_t)strtoul(line, NULL, 10);
	else if (strcmp(key, "run") == 0)
		s->run_id = strtoull(line, NULL, 16);
	else if (strcmp(key, "rank") == 0)
		s->rank = (int32_t)strtol(line, NULL, 10);
	else if (strcmp(key, "time") == 0)
		s->real_ns = strtoull(line, NULL, 10);
	else if (strcmp(key, "node") == 0)
		s->node = line;
	else if (strcmp(key, "end") == 0)
		s->complete = true;
	return 0;
}

int nspy_stacks_parse(const char *data, size_t bytes, struct nspy_stacks *ret)
{
	const size_t head = sizeof(NSPY_STACKS_MAGIC) - 1;
	int rc = 0;

	*ret = (struct nspy_stacks){.rank = -1, .node = ""};
	if (bytes < head || memcmp(data, NSPY_STACKS_MAGIC, head) != 0)
		return -EBADMSG;
	bytes = bytes > NSPY_STACKS_BYTES_MAX ? NSPY_STACKS_BYTES_MAX : bytes;
	ret->text = malloc(bytes + 1);
	if (!ret->text)
		return -ENOMEM;
	memcpy(ret->text, data, bytes);
	clean(ret->text, bytes);
	ret->text[bytes] = '\0';
	for (char *line = ret->text + head; rc == 0 && *line;) {
		char *end = strchr(line, '\n');

		if (!end) /* the last line is cut */
			break;
		*end = '\0';
		rc = take_line(ret, line);
		line = end + 1;
	}
	if (rc < 0)
		nspy_stacks_done(ret);
	return rc;
}

int nspy_stacks_read(const char *path, struct nspy_stacks *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t bytes = 0;
	struct stat st;
	ssize_t got = 1;
	char *data;
	int rc;

	*ret = (struct nspy_stacks){0};
	if (fd < 0)
		return -errno;
	data = malloc(NSPY_STACKS_BYTES_MAX);
	rc = !data ? -ENOMEM : nspy_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -EBADMSG : 0;
	while (rc == 0 && got > 0 && bytes < NSPY_STACKS_BYTES_MAX) {
		got = read(fd, data + bytes, NSPY_STACKS_BYTES_MAX - bytes);
		rc = got < 0 ? -errno : 0;
		bytes += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	if (rc == 0)
		rc = nspy_stacks_parse(data, bytes, ret);
	free(data);
	return rc;
}

void nspy_stacks_done(struct nspy_stacks *stacks)
{
	free(stacks->threads);
	free(stacks->frames);
	free((void *)stacks->notes);
	free(stacks->text);
	*stacks = (struct nspy_stacks){0};
}

const struct nspy_stack_thread *nspy_stacks_caller(const struct nspy_stacks *stacks)
{
	const struct nspy_stack_thread *first = NULL;

	for (uint32_t i = 0; i < stacks->thread_count; i++) {
		const struct nspy_stack_thread *thread = &stacks->threads[i];

		if (stacks->caller && thread->tid == stacks->caller)
			return thread;
		if (!first || thread->tid == stacks->pid)
			first = thread;
	}
	return first;
}

/* The C library's own functions say how somebody waits, not who. */
static bool is_plumbing(const struct nspy_stack_frame *frame)
{
	static const char *const objects[] = {"libc.so", "libc-2", "libpthread", "ld-linux",
					      "[vdso]"};

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		if (strncmp(frame->object, objects[i], strlen(objects[i])) == 0)
			return true;
	return false;
}

static void name_frame(const struct nspy_stack_frame *frame, char *out, size_t bytes)
{
	if (frame->symbol[0])
		(void)snprintf(out, bytes, "%.200s", frame->symbol);
	else
		(void)snprintf(out, bytes, "%.100s+0x%llx", frame->object[0] ? frame->object : "?",
			       (unsigned long long)frame->offset);
}

void nspy_stacks_tell(const struct nspy_stacks *stacks, const struct nspy_stack_thread *thread,
		      char *out, size_t bytes)
{
	const struct nspy_stack_frame *frames = stacks->frames + thread->frame;
	uint32_t first = 0;
	char name[256];
	size_t used = 0;

	out[0] = '\0';
	while (first < thread->frames && is_plumbing(&frames[first]))
		first++;
	if (first == thread->frames)
		first = 0;
	for (uint32_t i = first; i < thread->frames && i < first + TOLD && used < bytes; i++) {
		int n;

		name_frame(&frames[i], name, sizeof(name));
		n = snprintf(out + used, bytes - used, "%s%s", i > first ? " < " : "", name);
		used += n > 0 ? (size_t)n : 0;
	}
	if (first && used < bytes) {
		name_frame(&frames[first - 1], name, sizeof(name));
		(void)snprintf(out + used, bytes - used, ", in %s", name);
	}
}
