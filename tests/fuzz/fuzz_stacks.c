/* SPDX-License-Identifier: Apache-2.0 */
/* Stack files of anybody: indices stay inside, texts are printable, the tree counts what it got. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "trace_stacks.h"

static uint32_t at_top;

static void check_text(const char *text)
{
	for (; *text; text++)
		FUZZ_ASSERT(*text >= 0x20 && *text <= 0x7e);
}

static void line(void *context, unsigned int depth, const char *who, uint32_t count,
		 const char *frames)
{
	(void)context;
	FUZZ_ASSERT(who[0] && frames[0] && depth <= NSPY_STACKS_DEPTH_MAX);
	check_text(frames);
	at_top += depth == 0 ? count : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_stack_tree *tree;
	struct nspy_stacks stacks;
	char text[300];
	uint32_t added = 0;

	if (nspy_stacks_parse((const char *)data, bytes, &stacks) < 0)
		return 0;
	tree = nspy_stack_tree_new();
	FUZZ_ASSERT(tree && stacks.thread_count <= NSPY_STACKS_THREADS_MAX);
	FUZZ_ASSERT((nspy_stacks_caller(&stacks) == NULL) == (stacks.thread_count == 0));
	for (uint32_t i = 0; i < stacks.thread_count; i++) {
		const struct nspy_stack_thread *thread = &stacks.threads[i];

		FUZZ_ASSERT(thread->frames <= NSPY_STACKS_DEPTH_MAX);
		FUZZ_ASSERT(thread->frame + thread->frames <= stacks.frame_count);
		nspy_stacks_tell(&stacks, thread, text, sizeof(text));
		check_text(text);
		FUZZ_ASSERT((text[0] == '\0') == (thread->frames == 0));
		added += nspy_stack_tree_add(tree, &stacks, thread, stacks.rank) == 0;
	}
	for (uint32_t i = 0; i < stacks.note_count; i++)
		check_text(stacks.notes[i]);
	at_top = 0;
	FUZZ_ASSERT(nspy_stack_tree_walk(tree, SIZE_MAX, line, NULL) == 0);
	FUZZ_ASSERT(at_top == added);
	nspy_stack_tree_free(tree);
	nspy_stacks_done(&stacks);
	return 0;
}
