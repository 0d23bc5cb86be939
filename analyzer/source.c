/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int nspy_input_reader(const struct nspy_input_file *file, struct nspy_reader **ret)
{
	return file->kept ? nspy_summary_reader(file->kept, ret)
			  : nspy_reader_open(file->path, ret);
}

int nspy_input_live(const struct nspy_input_file *file, struct nspy_live **ret)
{
	return file->kept ? nspy_summary_live(file->kept, ret) : nspy_live_open(file->path, ret);
}

char *nspy_input_name(const struct nspy_input_file *file)
{
	if (!file->kept)
		return nspy_xstrdup(file->path);
	/* Of chunks that were whole when the summary was made only the summary can be damaged. */
	if (file->kept->recoded)
		return nspy_xstrdup(file->kept->summary->path);
	return nspy_xasprintf("%s:%s", file->kept->summary->path, file->kept->name);
}

const char *nspy_path_end(const char *path)
{
	const char *slash = strrchr(path, '/');

	while (slash && slash > path && slash[-1] != '/')
		slash--;
	return slash ? slash : path;
}

char *nspy_input_text(const struct nspy_proc *proc, const char *path, size_t limit)
{
	const struct nspy_summary_file *file;

	if (!proc->summary)
		return nspy_read_text(path, limit);
	file = nspy_summary_find(proc->summary, nspy_path_end(path));
	return file ? nspy_summary_text(file, limit) : NULL;
}

int nspy_input_stacks(const struct nspy_proc *proc, const char *path, struct nspy_stacks *ret)
{
	const struct nspy_summary_file *file;
	char *text;
	int rc;

	if (!proc->summary)
		return nspy_stacks_read(path, ret);
	file = nspy_summary_find(proc->summary, nspy_path_end(path));
	text = file ? nspy_summary_text(file, NSPY_STACKS_BYTES_MAX) : NULL;
	if (!text)
		return -ENOENT;
	rc = nspy_stacks_parse(text, (size_t)file->bytes, ret);
	free(text);
	return rc;
}
