/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stack files: where the threads of a process stood, as text that people can read too. Written by
 * ncclspy-stack-helper at a hang as <job>/<node>/<run id>.stacks, read by the report and by
 * ncclspy-stacks. docs/TRACE_FORMAT.md describes the lines.
 *
 * Everything read is bounded and cleaned: printable ASCII only. Errors are negative errno.
 * context: any thread, one at a time per object; what is parsed is owned by the caller and ends
 * with nspy_stacks_done().
 */
#ifndef NSPY_TRACE_STACKS_H
#define NSPY_TRACE_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_STACKS_SUFFIX      ".stacks"
#define NSPY_STACKS_MAGIC       "ncclspy-stacks 1\n"
#define NSPY_STACKS_BYTES_MAX   (1u << 20) /* of a file */
#define NSPY_STACKS_THREADS_MAX 1024u
#define NSPY_STACKS_DEPTH_MAX   96u /* frames of a thread */

struct nspy_stack_frame {
	const char *symbol; /* "" = not known */
	const char *object; /* file name without folders, "" = none */
	uint64_t offset;    /* in the object's file */
};

struct nspy_stack_thread {
	uint32_t tid;
	char state;        /* as in /proc/<pid>/stat, '?' = not known */
	const char *wchan; /* "" = not known */
	int32_t syscall;   /* it is in, -1 = none or not known */
	const char *name;  /* of the thread */
	uint32_t frame;    /* its innermost one, index into frames */
	uint32_t frames;   /* 0 = could not be read */
	bool cut;          /* there are more, or the way out was lost */
};

struct nspy_stacks {
	uint32_t pid;
	uint32_t caller; /* the thread that calls NCCL, 0 = not known */
	uint64_t run_id; /* of its recording, 0 = none */
	int32_t rank;    /* -1 = not known */
	uint64_t real_ns;
	const char *node;
	bool complete; /* the file has its end */
	struct nspy_stack_thread *threads;
	uint32_t thread_count;
	struct nspy_stack_frame *frames;
	uint32_t frame_count;
	const char **notes; /* why something is not there; lines of RAS begin with "RAS: " */
	uint32_t note_count;
	char *text; /* what all of the above points into */
};

/* 0; -EBADMSG: no stack file; -ENOMEM. A file that is cut is read as far as it goes. */
int nspy_stacks_parse(const char *data, size_t bytes, struct nspy_stacks *ret);
/* The same from a file: regular, not a link, at most NSPY_STACKS_BYTES_MAX of it. */
int nspy_stacks_read(const char *path, struct nspy_stacks *ret);
void nspy_stacks_done(struct nspy_stacks *stacks);

/* The thread that calls NCCL, else the first one of the process; NULL if there is none. */
const struct nspy_stack_thread *nspy_stacks_caller(const struct nspy_stacks *stacks);

/* "read_batch < train_step < main, in clock_nanosleep"; "" if there are no frames. */
void nspy_stacks_tell(const struct nspy_stacks *stacks, const struct nspy_stack_thread *thread,
		      char *out, size_t bytes);

/* --- many stacks as one tree, outermost frames first --- */

struct nspy_stack_tree;

struct nspy_stack_tree *nspy_stack_tree_new(void);
void nspy_stack_tree_free(struct nspy_stack_tree *tree);
/* label: the rank or pid that stands there. -ENOMEM, -E2BIG if the tree is full. */
int nspy_stack_tree_add(struct nspy_stack_tree *tree, const struct nspy_stacks *stacks,
			const struct nspy_stack_thread *thread, int64_t label);

/*
 * One line: who ("0-4,6") went along the frames ("main > step > wait"), how deep in the tree.
 * count is the number of stacks, not of labels.
 */
typedef void nspy_stack_line(void *context, unsigned int depth, const char *who, uint32_t count,
			     const char *frames);
/* In order, those with the most stacks first; lines_max at most. Returns how many were left out. */
size_t nspy_stack_tree_walk(const struct nspy_stack_tree *tree, size_t lines_max,
			    nspy_stack_line *line, void *context);

#endif
