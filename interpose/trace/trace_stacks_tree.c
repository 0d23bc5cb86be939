/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_stacks.h"

#define NODES_MAX  65536u
#define WHO_BYTES  256u
#define PATH_BYTES 1024u
#define NAME_BYTES 160u
#define NAME_SHOWN 80
#define WAY_HEAD   3u /* frames shown of a long way, PATH_BYTES hold them */
#define WAY_TAIL   8u

struct node {
	char name[NAME_BYTES];
	struct node *children, *next;
	int64_t *labels; /* one per stack, in order of arrival */
	uint32_t count, capacity;
	uint32_t ends; /* stacks whose innermost frame it is */
};

struct nspy_stack_tree {
	struct node root;
	uint32_t nodes;
};

struct walk {
	nspy_stack_line *line;
	void *context;
	size_t room, left_out;
};

struct nspy_stack_tree *nspy_stack_tree_new(void)
{
	return calloc(1, sizeof(struct nspy_stack_tree));
}

/* No deeper than NSPY_STACKS_DEPTH_MAX. */
static void free_children(struct node *node)
{
	struct node *next;

	for (struct node *child = node->children; child; child = next) {
		next = child->next;
		free_children(child);
		free(child->labels);
		free(child);
	}
}

void nspy_stack_tree_free(struct nspy_stack_tree *tree)
{
	if (!tree)
		return;
	free_children(&tree->root);
	free(tree->root.labels);
	free(tree);
}

static int add_label(struct node *node, int64_t label)
{
	if (node->count == node->capacity) {
		uint32_t capacity = node->capacity ? 2 * node->capacity : 4;
		int64_t *more = realloc(node->labels, capacity * sizeof(*more));

		if (!more)
			return -ENOMEM;
		node->labels = more;
		node->capacity = capacity;
	}
	node->labels[node->count++] = label;
	return 0;
}

static int child_of(struct nspy_stack_tree *tree, struct node *node, const char *name,
		    struct node **ret)
{
	struct node **link = &node->children;

	while (*link && strcmp((*link)->name, name) != 0)
		link = &(*link)->next;
	if (!*link) {
		if (tree->nodes == NODES_MAX)
			return -E2BIG;
		*link = calloc(1, sizeof(**link));
		if (!*link)
			return -ENOMEM;
		(void)snprintf((*link)->name, NAME_BYTES, "%s", name);
		tree->nodes++;
	}
	*ret = *link;
	return 0;
}

static void name_of(const struct nspy_stack_frame *frame, char name[NAME_BYTES])
{
	if (frame->symbol[0])
		(void)snprintf(name, NAME_BYTES, "%s", frame->symbol);
	else
		(void)snprintf(name, NAME_BYTES, "%.100s+0x%llx",
			       frame->object[0] ? frame->object : "?",
			       (unsigned long long)frame->offset);
}

/* A thread without frames: what the kernel says of it. */
static void name_state(const struct nspy_stack_thread *thread, char name[NAME_BYTES])
{
	(void)snprintf(name, NAME_BYTES, "(no stack; state %c%s%.64s)", thread->state,
		       thread->wchan[0] ? " in " : "", thread->wchan);
}

int nspy_stack_tree_add(struct nspy_stack_tree *tree, const struct nspy_stacks *stacks,
			const struct nspy_stack_thread *thread, int64_t label)
{
	const struct nspy_stack_frame *frames = stacks->frames + thread->frame;
	struct node *node = &tree->root;
	uint32_t levels = thread->frames ? thread->frames : 1;
	int rc = add_label(node, label);

	for (uint32_t i = 0; rc == 0 && i < levels; i++) {
		char name[NAME_BYTES];

		if (thread->frames)
			name_of(&frames[levels - 1 - i], name);
		else
			name_state(thread, name);
		rc = child_of(tree, node, name, &node);
		if (rc == 0)
			rc = add_label(node, label);
	}
	if (rc == 0)
		node->ends++;
	return rc;
}

/* --- walking --- */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void tell_labels(const struct node *node, char out[WHO_BYTES])
{
	int64_t *sorted = malloc(node->count * sizeof(*sorted));
	size_t used = 0;

	out[0] = '\0';
	if (!sorted)
		return;
	memcpy(sorted, node->labels, node->count * sizeof(*sorted));
	qsort(sorted, node->count, sizeof(*sorted), by_value);
	for (uint32_t i = 0; i < node->count;) {
		int64_t first = sorted[i], last = first;
		int n;

		while (i < node->count && (sorted[i] == last || sorted[i] - 1 == last))
			last = sorted[i++];
		n = first == last ? snprintf(out + used, WHO_BYTES - used, "%s%lld",
					     used ? "," : "", (long long)first)
				  : snprintf(out + used, WHO_BYTES - used, "%s%lld-%lld",
					     used ? "," : "", (long long)first, (long long)last);
		if (n < 0 || used + (size_t)n >= WHO_BYTES) {
			(void)snprintf(out + WHO_BYTES - 5, 5, ",...");
			break;
		}
		used += (size_t)n;
	}
	free(sorted);
}

/* Of a long way its beginning and its end: where a thread stands is at the end. */
static void tell_path(const struct node *const *way, uint32_t count, char path[PATH_BYTES])
{
	size_t used = 0;

	path[0] = '\0';
	for (uint32_t i = 0; i < count && used < PATH_BYTES; i++) {
		bool gap = count > WAY_HEAD + WAY_TAIL && i == WAY_HEAD;
		int n;

		if (gap)
			i = count - WAY_TAIL;
		n = snprintf(path + used, PATH_BYTES - used, "%s%s%.*s", i ? " > " : "",
			     gap ? "... > " : "", NAME_SHOWN, way[i]->name);
		used += n > 0 ? (size_t)n : 0;
	}
}

/* The child with the most stacks that has not been told: most first, then as they came. */
static const struct node *next_child(const struct node *node, const struct node *before)
{
	const struct node *best = NULL;
	bool passed = false;

	for (const struct node *child = node->children; child; child = child->next) {
		bool after = !before || child->count < before->count ||
			     (child->count == before->count && passed);

		passed = passed || child == before;
		if (after && child != before && (!best || child->count > best->count))
			best = child;
	}
	return best;
}

static void walk_children(struct walk *walk, const struct node *node, unsigned int depth);

static void walk_node(struct walk *walk, const struct node *node, unsigned int depth)
{
	const struct node *way[NSPY_STACKS_DEPTH_MAX];
	char path[PATH_BYTES], who[WHO_BYTES];
	uint32_t count = 0;

	way[count++] = node;
	/* As long as all go the same way it is one line. */
	while (node->children && !node->children->next && !node->ends &&
	       count < NSPY_STACKS_DEPTH_MAX) {
		node = node->children;
		way[count++] = node;
	}
	tell_path(way, count, path);
	walk->room--;
	tell_labels(node, who);
	walk->line(walk->context, depth, who, node->count, path);
	walk_children(walk, node, depth + 1);
}

/* No deeper than NSPY_STACKS_DEPTH_MAX. */
static void walk_children(struct walk *walk, const struct node *node, unsigned int depth)
{
	uint32_t told = 0;

	for (const struct node *child = next_child(node, NULL); child && walk->room;
	     child = next_child(node, child), told++)
		walk_node(walk, child, depth);
	for (const struct node *child = node->children; child; child = child->next)
		walk->left_out += told ? (told--, 0) : 1;
}

size_t nspy_stack_tree_walk(const struct nspy_stack_tree *tree, size_t lines_max,
			    nspy_stack_line *line, void *context)
{
	struct walk walk = {.line = line, .context = context, .room = lines_max};

	walk_children(&walk, &tree->root, 0);
	return walk.left_out;
}
