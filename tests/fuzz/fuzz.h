/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is one file with LLVMFuzzerTestOneInput and asserts what must hold for every input.
 * With clang and -Dfuzz=enabled it is a libFuzzer program; otherwise replay.c gives it a main that
 * runs the files of its corpus, so that the same target is an ordinary test.
 */
#ifndef NSPY_FUZZ_H
#define NSPY_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Holds in every build, also with NDEBUG. */
#define FUZZ_ASSERT(condition)                                                                     \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

#endif
