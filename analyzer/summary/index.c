/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a summary and where: headers of all chunks, payloads only of those that describe. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "summary_parts.h"
#include "trace_bytes.h"
#include "trace_chunk.h"

#define SEARCH_BYTES (64u << 10)
#define FILES_MAX    (1u << 20)

struct walk {
	int fd;
	uint64_t at, size;
	struct nspy_summary_index *summary;
	bool open; /* the last of summary->files still goes on */
};

/* The next place after at where a header could begin, or the end. */
static uint64_t search(const struct walk *walk, uint64_t at)
{
	uint8_t *window = nspy_xmalloc(SEARCH_BYTES);
	uint64_t found = walk->size;

	while (found == walk->size && at < walk->size) {
		ssize_t got = pread(walk->fd, window, SEARCH_BYTES, (off_t)at);

		if (got < (ssize_t)NSPY_CHUNK_PREFIX_BYTES)
			break;
		for (size_t i = 0; i + NSPY_CHUNK_PREFIX_BYTES <= (size_t)got; i++) {
			if (nspy_chunk_prefix_ok(window + i)) {
				found = at + i;
				break;
			}
		}
		at += (size_t)got - NSPY_CHUNK_PREFIX_BYTES + 1;
	}
	free(window);
	return found;
}

int nspy_summary_chunk(const char *path, uint64_t begin, uint64_t end, struct nspy_reader **ret)
{
	size_t bytes = (size_t)(end - begin), got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint8_t *data;

	if (fd < 0)
		return -errno;
	data = malloc(bytes + 1);
	while (data && got < bytes) {
		ssize_t n = pread(fd, data + got, bytes - got, (off_t)(begin + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(fd);
	if (!data)
		return -ENOMEM;
	return nspy_reader_open_owned(data, got, ret);
}

static void note_damage(struct nspy_summary_index *summary, uint64_t at)
{
	if (at < summary->damaged_at)
		summary->damaged_at = at;
}

static struct nspy_summary_file *begin_file(struct walk *walk, const struct nspy_chunk_info *info)
{
	struct nspy_summary_index *summary = walk->summary;
	struct nspy_summary_file *file;

	summary->files = nspy_grow(summary->files, summary->count, &summary->capacity,
				   sizeof(*summary->files));
	file = &summary->files[summary->count++];
	*file = (struct nspy_summary_file){
		.number = info->sequence,
		.segment = info->segment,
		.run_id = info->run_id,
		.begin = walk->at,
		.recoded = info->kind != NSPY_CHUNK_BYTES,
	};
	walk->open = true;
	return file;
}

static int take_file(struct walk *walk, const struct nspy_chunk_info *info, const uint8_t *payload)
{
	struct nspy_summary_file *file = begin_file(walk, info);
	struct nspy_file_head head;

	if (!payload || nspy_file_head_load(payload, info->raw_bytes, &head) < 0) {
		note_damage(walk->summary, walk->at);
		file->name = nspy_xstrdup("?/?");
		file->job = nspy_xstrdup("?");
		return 0;
	}
	file->kind = head.kind;
	file->life = head.life;
	file->recoded = head.recoded;
	file->bytes = head.bytes;
	file->name = nspy_xstrndup(head.name, head.name_bytes);
	file->job = nspy_xstrndup(head.job, head.job_bytes);
	return 0;
}

static int take_head(struct nspy_summary_index *summary, const struct nspy_chunk_info *info,
		     const uint8_t *payload)
{
	struct nspy_get g = {payload, payload + (payload ? info->raw_bytes : 0), false};
	uint64_t version = nspy_get_varint(&g), made_ns = nspy_get_varint(&g);
	bool last = nspy_get_varint(&g) != 0;

	if (g.bad)
		return 0;
	if (version > NSPY_SUMMARY_VERSION)
		return -EPROTONOSUPPORT;
	summary->made_ns = made_ns;
	summary->whole |= last;
	return 0;
}

/* Its place is remembered; kept twice, whichever is whole is used. */
static void take_shared(struct nspy_summary_index *summary, const struct nspy_chunk_info *info,
			const uint8_t *payload)
{
	struct nspy_shared *shared;

	if (!payload || nspy_map_get(&summary->shared, info->first_index))
		return;
	shared = nspy_xcalloc(1, sizeof(*shared));
	shared->bytes = info->raw_bytes;
	shared->payload = nspy_xmalloc((size_t)info->raw_bytes + 1);
	memcpy(shared->payload, payload, info->raw_bytes);
	nspy_map_put(&summary->shared, info->first_index, shared);
}

/* A chunk that describes: its payload is looked at. */
static int take(struct walk *walk, const struct nspy_chunk_info *info, uint64_t end)
{
	struct nspy_summary_index *summary = walk->summary;
	struct nspy_reader *reader = NULL;
	struct nspy_chunk_info again;
	const uint8_t *payload = NULL;
	int rc = nspy_summary_chunk(summary->path, walk->at, end, &reader);

	if (rc == 0 && nspy_reader_next(reader, &again, &payload) < 0) {
		note_damage(summary, walk->at);
		payload = NULL;
	}
	if (rc == 0 && info->kind == NSPY_CHUNK_FILE)
		rc = take_file(walk, info, payload);
	else if (rc == 0 && info->kind == NSPY_CHUNK_SHARED)
		take_shared(summary, info, payload);
	else if (rc == 0 && info->kind == NSPY_CHUNK_SUMMARY)
		rc = take_head(summary, info, payload);
	nspy_reader_free(reader);
	return rc;
}

/*
 * Bytes of a file that is no segment: who reads those takes what is there, and would miss what is
 * not without a word. Segments and blocks are checked when they are read.
 */
static void check_bytes(struct walk *walk, uint64_t end)
{
	const struct nspy_summary_file *file = &walk->summary->files[walk->summary->count - 1];
	struct nspy_reader *reader = NULL;
	struct nspy_chunk_info info;
	const uint8_t *payload;

	if (file->kind == NSPY_SUMMARY_SEGMENT ||
	    nspy_summary_chunk(walk->summary->path, walk->at, end, &reader) < 0)
		return;
	if (nspy_reader_next(reader, &info, &payload) < 0)
		note_damage(walk->summary, walk->at);
	nspy_reader_free(reader);
}

static int step(struct walk *walk, const struct nspy_chunk_info *info)
{
	struct nspy_summary_index *summary = walk->summary;
	uint64_t end = walk->at + NSPY_CHUNK_HEADER_BYTES + info->packed_bytes;
	bool piece = info->kind == NSPY_CHUNK_BLOCK || info->kind == NSPY_CHUNK_BYTES;
	int rc = 0;

	if (end > walk->size) {
		note_damage(summary, walk->at);
		walk->at = search(walk, walk->at + NSPY_CHUNK_HEADER_BYTES);
		return 0;
	}
	if (!piece || !walk->open || summary->files[summary->count - 1].number != info->sequence)
		walk->open = false;
	if (summary->count >= FILES_MAX)
		return -E2BIG;
	if (piece && !walk->open) /* what describes it is lost */
		rc = take_file(walk, info, NULL);
	else if (!piece)
		rc = take(walk, info, end);
	else if (info->kind == NSPY_CHUNK_BYTES)
		check_bytes(walk, end);
	if (walk->open) {
		struct nspy_summary_file *file = &summary->files[summary->count - 1];

		file->end = end;
		file->lead_end = file->lead_end ? file->lead_end : end;
	}
	walk->at = end;
	return rc;
}

static int walk_all(struct walk *walk)
{
	uint8_t header[NSPY_CHUNK_HEADER_BYTES];
	struct nspy_chunk_info info = {0};
	bool any = false;

	while (walk->at < walk->size) {
		int rc = pread(walk->fd, header, sizeof(header), (off_t)walk->at) ==
					 (ssize_t)sizeof(header)
				 ? nspy_chunk_header_load(header, &info)
				 : -EBADMSG;

		if (rc == -EPROTONOSUPPORT && !any) /* later on it is damage */
			return rc;
		if (rc < 0 || !(info.flags & NSPY_CHUNK_IN_SUMMARY)) {
			note_damage(walk->summary, walk->at);
			walk->at = search(walk, walk->at + 1);
			continue;
		}
		any = true;
		rc = step(walk, &info);
		if (rc < 0)
			return rc;
	}
	return any ? 0 : -EBADMSG;
}

int nspy_summary_open(const char *path, struct nspy_summary_index **ret)
{
	struct nspy_summary_index *summary = nspy_xcalloc(1, sizeof(*summary));
	struct walk walk = {.summary = summary};
	struct stat st = {0};
	int rc = 0;

	summary->path = nspy_xstrdup(path);
	summary->damaged_at = UINT64_MAX;
	walk.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (walk.fd < 0 || fstat(walk.fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EBADMSG;
	if (rc == 0) {
		walk.size = (uint64_t)st.st_size;
		rc = walk_all(&walk);
	}
	if (walk.fd >= 0)
		close(walk.fd);
	if (rc < 0) {
		nspy_summary_free(summary);
		return rc;
	}
	for (size_t i = 0; i < summary->count; i++)
		summary->files[i].summary = summary;
	*ret = summary;
	return 0;
}

void nspy_summary_free(struct nspy_summary_index *summary)
{
	if (!summary)
		return;
	for (size_t i = 0; i < summary->count; i++) {
		free(summary->files[i].name);
		free(summary->files[i].job);
	}
	free(summary->files);
	for (size_t i = 0; i < summary->shared.capacity; i++) {
		struct nspy_shared *shared = summary->shared.slots[i].value;

		if (shared)
			free(shared->payload);
		free(shared);
	}
	nspy_map_done(&summary->shared);
	free(summary->path);
	free(summary);
}

const struct nspy_summary_file *nspy_summary_find(const struct nspy_summary_index *summary,
						  const char *name)
{
	for (size_t i = 0; i < summary->count; i++) {
		if (strcmp(summary->files[i].name, name) == 0)
			return &summary->files[i];
	}
	return NULL;
}
