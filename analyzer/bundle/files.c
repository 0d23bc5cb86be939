/* SPDX-License-Identifier: Apache-2.0 */
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bundle.h"
#include "tar.h"

#define MAGIC        "ncclspy.bundle/1\n"
#define MANIFEST     "manifest.txt"
#define MANIFEST_MAX (1u << 20)

static bool is_manifest(const char *text)
{
	return strncmp(text, MAGIC, strlen(MAGIC)) == 0;
}

static bool directory_is(const char *path)
{
	char *manifest = nspy_xasprintf("%s/" MANIFEST, path);
	char *text = nspy_read_text(manifest, MANIFEST_MAX);
	bool yes = text && is_manifest(text);

	free(text);
	free(manifest);
	return yes;
}

/* --- archives --- */

/* NULL if it is none. */
static struct nspy_tar *open_archive(const char *path, struct nspy_stream **ret_stream)
{
	struct nspy_stream *stream;
	const char *data;
	size_t bytes;

	if (nspy_stream_open(path, &stream) < 0)
		return NULL;
	bytes = nspy_stream_peek(stream, &data);
	if (!nspy_tar_is(data, bytes)) {
		nspy_stream_close(stream);
		return NULL;
	}
	*ret_stream = stream;
	return nspy_tar_open(stream);
}

/* Where in an archive the bundle begins, "name/" or ""; NULL if none is in it. Caller frees. */
static char *find_root(struct nspy_tar *tar)
{
	struct nspy_tar_entry entry;
	char *root = NULL;

	while (!root && nspy_tar_next(tar, &entry)) {
		const char *slash = strrchr(entry.name, '/');
		const char *base = slash ? slash + 1 : entry.name;
		char *folder, *text;
		size_t bytes;

		if (!entry.regular || strcmp(base, MANIFEST) != 0)
			continue;
		folder = nspy_xstrndup(entry.name, (size_t)(base - entry.name));
		text = nspy_tar_content(tar, MANIFEST_MAX, &bytes);
		if (text && is_manifest(text))
			root = folder;
		else
			free(folder);
		free(text);
	}
	return root;
}

static char *archive_root(const char *path)
{
	struct nspy_stream *stream;
	struct nspy_tar *tar = open_archive(path, &stream);
	char *root = NULL;

	if (tar) {
		root = find_root(tar);
		nspy_tar_close(tar);
		nspy_stream_close(stream);
	}
	return root;
}

static size_t depth(const char *name)
{
	size_t slashes = 0;

	for (; *name; name++)
		slashes += *name == '/';
	return slashes;
}

static void archive_files(struct nspy_tar *tar, const char *root, struct nspy_texts *problems,
			  void (*each)(void *arg, struct nspy_bundle_file *file), void *arg)
{
	struct nspy_tar_entry entry;

	while (nspy_tar_next(tar, &entry)) {
		struct nspy_bundle_file file = {0};
		char *name;

		if (!entry.regular || strncmp(entry.name, root, strlen(root)) != 0 ||
		    depth(entry.name + strlen(root)) > 2)
			continue;
		name = nspy_xstrdup(entry.name + strlen(root));
		file.name = name;
		file.data = nspy_tar_content(tar, NSPY_BUNDLE_DOC_MAX, &file.bytes);
		if (file.data)
			each(arg, &file);
		else
			nspy_texts_add(problems, nspy_xasprintf("%s: too large, or cut", name));
		free(file.data);
		free(name);
	}
}

static void each_of_archive(const char *path, struct nspy_texts *problems,
			    void (*each)(void *arg, struct nspy_bundle_file *file), void *arg)
{
	struct nspy_stream *stream;
	char *root = archive_root(path);
	struct nspy_tar *tar = root ? open_archive(path, &stream) : NULL;
	const char *why;
	size_t refused;

	if (!tar) {
		nspy_texts_add(problems, nspy_xasprintf("%s: no bundle in it", path));
		free(root);
		return;
	}
	archive_files(tar, root, problems, each, arg);
	refused = nspy_tar_refused(tar, &why);
	if (refused)
		nspy_texts_add(problems, nspy_xasprintf("%s: %zu entries refused, the last one: %s",
							path, refused, why));
	if (nspy_tar_error(tar))
		nspy_texts_add(problems, nspy_xasprintf("%s: %s; what came before was read", path,
							nspy_tar_error(tar)));
	nspy_tar_close(tar);
	nspy_stream_close(stream);
	free(root);
}

/* --- directories --- */

static int by_name(const FTSENT **x, const FTSENT **y)
{
	return strcmp((*x)->fts_name, (*y)->fts_name);
}

static void each_of_directory(const char *path,
			      void (*each)(void *arg, struct nspy_bundle_file *file), void *arg)
{
	char *paths[] = {(char *)path, NULL};
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	FTSENT *entry;

	while (fts && (entry = fts_read(fts))) {
		struct nspy_bundle_file file = {.path = entry->fts_path};

		file.name = entry->fts_path + strlen(path);
		file.name += strspn(file.name, "/");
		if (entry->fts_info == FTS_D && entry->fts_level > 2)
			fts_set(fts, entry, FTS_SKIP);
		else if (entry->fts_info == FTS_F)
			each(arg, &file);
	}
	if (fts)
		fts_close(fts);
}

bool nspy_bundle_is(const char *path)
{
	struct stat st;
	char *root;

	if (stat(path, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return directory_is(path);
	root = S_ISREG(st.st_mode) ? archive_root(path) : NULL;
	if (!root)
		return false;
	free(root);
	return true;
}

void nspy_bundle_each(const char *path, struct nspy_texts *problems,
		      void (*each)(void *arg, struct nspy_bundle_file *file), void *arg)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		each_of_directory(path, each, arg);
	else
		each_of_archive(path, problems, each, arg);
}

char *nspy_bundle_file_text(struct nspy_bundle_file *file, size_t limit, size_t *ret_bytes)
{
	char *text;

	if (file->path) {
		text = nspy_read_text(file->path, limit);
		*ret_bytes = text ? strlen(text) : 0;
		return text;
	}
	if (file->bytes > limit)
		return NULL;
	text = file->data;
	*ret_bytes = file->bytes;
	file->data = NULL;
	return text;
}
