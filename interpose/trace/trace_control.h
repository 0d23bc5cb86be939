/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands to a running job: a small text that ncclspy-ctl writes, as <job>/board/job.control for
 * all nodes and as /dev/shm/ncclspy.<uid>.<job hash>.control for those on its own host. It holds
 *the newest commands; a rank carries out those with a higher id than the last it knows, and none
 *from before it began. Lines:
 *
 *	ncclspy-control 1
 *	job <directory>
 *	<id> <verb> [text]
 *	sum <16 hex digits: XXH64 of all before this line>
 *
 * Whoever reads it must check who may have written it: the file's owner and mode. Nothing here
 * allocates or keeps state. context: any thread.
 */
#ifndef NSPY_TRACE_CONTROL_H
#define NSPY_TRACE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_CONTROL_NAME        "job.control"
#define NSPY_CONTROL_SUFFIX      ".control"
#define NSPY_CONTROL_BYTES_MAX   8192u
#define NSPY_CONTROL_COMMANDS    16u  /* that a file holds at most, the newest */
#define NSPY_CONTROL_TEXT_BYTES  200u /* with the terminator */
#define NSPY_CONTROL_THRESHOLD_S 86400u

enum nspy_control_verb {
	NSPY_CONTROL_UNKNOWN, /* of a newer version: nothing is done */
	NSPY_CONTROL_ON,
	NSPY_CONTROL_WATCH,
	NSPY_CONTROL_OFF,
	NSPY_CONTROL_MARK,      /* text */
	NSPY_CONTROL_DUMP,      /* value 1: with stacks */
	NSPY_CONTROL_THRESHOLD, /* value: seconds */
	NSPY_CONTROL_VERBS
};

struct nspy_command {
	uint64_t id; /* CLOCK_REALTIME ns when it was given; rises within a job */
	uint32_t verb;
	uint64_t value;
	char text[NSPY_CONTROL_TEXT_BYTES]; /* what follows the verb, printable ASCII and UTF-8 */
};

struct nspy_control {
	char job_dir[256];
	uint32_t count;
	struct nspy_command at[NSPY_CONTROL_COMMANDS]; /* in the order of their ids */
};

const char *nspy_control_verb_name(uint32_t verb);

/*
 * Fills verb and value (and text, cleaned of control characters) of a command from its words.
 * -EINVAL: no such verb; -ERANGE: a text is missing, too long or not wanted, or a number is out of
 * range.
 */
int nspy_command_parse(const char *verb, const char *text, struct nspy_command *ret);

/* Appends a command; the oldest makes room. */
void nspy_control_add(struct nspy_control *control, const struct nspy_command *command);

/* Bytes of the text, or -ENOBUFS. */
long nspy_control_encode(const struct nspy_control *control, char *out, size_t bytes);

/* -EBADMSG: cut, damaged or none. Commands with an unknown verb are kept as such. */
int nspy_control_decode(const char *data, size_t bytes, struct nspy_control *ret);

#endif
