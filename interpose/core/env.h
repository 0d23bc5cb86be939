/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment, read once when recording starts (env.def). Later changes by the application
 * have no effect, and we never race with its setenv again.
 */
#ifndef NSPY_ENV_H
#define NSPY_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_ENV_TEXT_MAX 512u

/* Values by name, clamped to their range; text is cut to NSPY_ENV_TEXT_MAX - 1 bytes. */
struct nspy_env {
#define NSPY_ENV_FIELD_switch(name)               bool name
#define NSPY_ENV_FIELD_number(name)               uint64_t name
#define NSPY_ENV_FIELD_text(name)                 char name[NSPY_ENV_TEXT_MAX]
#define NSPY_ENV(name, type, def, min, max, help) NSPY_ENV_FIELD_##type(name);
#include "env.def"
#undef NSPY_ENV
	char bad[128]; /* first variable with an unusable value, "" = none */
};

/* context: any thread; reads environ, allocates nothing. */
void nspy_env_read(struct nspy_env *ret);

/* The kill switch alone, for the constructor. */
bool nspy_env_killed(void);

/* A variable of the application, or NULL; "" counts as unset. */
const char *nspy_env_get(const char *name);

/* The i-th variable (NAME=value) of the allow-list, or NULL after the last; *cursor starts at 0. */
const char *nspy_env_next_allowed(size_t *cursor);

#endif
