/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking secrets out of what is collected. Two lines of defence: values of environment variables,
 * annotations and the like pass only if their name is on a list of what NCCL's diagnosis needs;
 * everything else that stays is searched for things that look like secrets.
 *
 * This removes what it knows. It cannot know every secret: look at a bundle before you send it.
 * context: one thread.
 */
#ifndef REDACT_H
#define REDACT_H

#include <stdbool.h>
#include <stddef.h>

#define REDACT_REMOVED "<removed>"

/* May the value of this environment variable be kept? */
bool redact_variable_allowed(const char *name, size_t bytes);
/* Does a name say that its value is secret ("password", "api_key", "AuthToken")? */
bool redact_name_is_secret(const char *name, size_t bytes);
/* A copy of a line without what looks like a secret, to be freed; NULL: out of memory. */
char *redact_line(const char *line);

struct cJSON;
/* A document of a cluster's API, in place. 0, or -ENOMEM. */
int redact_tree(struct cJSON *tree);

#endif
