/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPT_DEPTH_MAX   4
#define PROGRAM_HEADER_MAX 256
#define LINE_BYTES         256

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#error "x86-64 and aarch64 only"
#endif

static bool runnable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As execvp looks for it. */
static int on_path(const char *command, char *ret_path, size_t bytes)
{
	const char *at = getenv("PATH");

	if (strchr(command, '/')) {
		if (snprintf(ret_path, bytes, "%s", command) >= (int)bytes)
			return -ENAMETOOLONG;
		return access(command, F_OK) == 0 ? 0 : -ENOENT;
	}
	for (at = at ? at : "/bin:/usr/bin"; *at;) {
		size_t length = strcspn(at, ":");

		if (snprintf(ret_path, bytes, "%.*s/%s", (int)length, length ? at : ".", command) <
			    (int)bytes &&
		    runnable(ret_path))
			return 0;
		at += length + (at[length] == ':');
	}
	return -ENOENT;
}

static bool read_exactly(int fd, void *data, size_t bytes, off_t offset)
{
	return pread(fd, data, bytes, offset) == (ssize_t)bytes;
}

/* --- ELF --- */

static enum nspy_program_kind by_loader(int fd, const ElfW(Phdr) * segment)
{
	char loader[LINE_BYTES] = "";

	if (segment->p_filesz == 0 || segment->p_filesz >= sizeof(loader) ||
	    !read_exactly(fd, loader, segment->p_filesz, (off_t)segment->p_offset))
		return NSPY_PROGRAM_UNKNOWN;
	return strstr(loader, "ld-musl") ? NSPY_PROGRAM_MUSL : NSPY_PROGRAM_DYNAMIC;
}

static enum nspy_program_kind elf_kind(int fd, const unsigned char *start)
{
	ElfW(Ehdr) head;

	if (start[EI_CLASS] != ELFCLASS64 || start[EI_DATA] != ELFDATA2LSB)
		return NSPY_PROGRAM_FOREIGN;
	if (!read_exactly(fd, &head, sizeof(head), 0) || head.e_phentsize != sizeof(ElfW(Phdr)) ||
	    head.e_phnum > PROGRAM_HEADER_MAX)
		return NSPY_PROGRAM_UNKNOWN;
	if (head.e_machine != OWN_MACHINE)
		return NSPY_PROGRAM_FOREIGN;
	for (unsigned int i = 0; i < head.e_phnum; i++) {
		ElfW(Phdr) segment;
		off_t offset = (off_t)(head.e_phoff + i * sizeof(segment));

		if (!read_exactly(fd, &segment, sizeof(segment), offset))
			return NSPY_PROGRAM_UNKNOWN;
		if (segment.p_type == PT_INTERP)
			return by_loader(fd, &segment);
	}
	return NSPY_PROGRAM_STATIC;
}

/* What makes the loader run in secure mode, in which it drops the preload. */
static bool privileged(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	return ((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	       ((st.st_mode & S_ISGID) && st.st_gid != getgid()) ||
	       (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

/* --- scripts --- */

static size_t next_word(const char **at, char *ret, size_t bytes)
{
	size_t length;

	*at += strspn(*at, " \t");
	length = strcspn(*at, " \t\r\n");
	(void)snprintf(ret, bytes, "%.*s", (int)length, *at);
	*at += length;
	return length;
}

/* The program of a "#!" line; for env the one that env starts. */
static int interpreter_of(const char *line, char *ret_path, size_t bytes)
{
	char word[LINE_BYTES], program[LINE_BYTES];
	const char *slash;

	if (!next_word(&line, program, sizeof(program)))
		return -ENOEXEC;
	slash = strrchr(program, '/');
	if (!slash || strcmp(slash + 1, "env") != 0)
		return on_path(program, ret_path, bytes);
	while (next_word(&line, word, sizeof(word)))
		if (word[0] != '-' && !strchr(word, '='))
			return on_path(word, ret_path, bytes);
	return -ENOEXEC;
}

/* 1: a script, *ret_path names what runs it. 0: kind is set. */
static int look(const char *path, char *ret_path, size_t bytes, enum nspy_program_kind *ret_kind)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char start[LINE_BYTES] = "";
	int rc = 0;

	*ret_kind = NSPY_PROGRAM_UNKNOWN;
	if (fd < 0)
		return 0;
	if (pread(fd, start, sizeof(start) - 1, 0) >= EI_NIDENT) {
		if (memcmp(start, ELFMAG, SELFMAG) == 0)
			*ret_kind = privileged(fd) ? NSPY_PROGRAM_PRIVILEGED
						   : elf_kind(fd, (const void *)start);
		else if (start[0] == '#' && start[1] == '!')
			rc = interpreter_of(start + 2, ret_path, bytes) == 0;
	}
	close(fd);
	return rc;
}

int nspy_inspect(const char *command, struct nspy_program *ret)
{
	char next[PATH_MAX];
	int rc = on_path(command, ret->path, sizeof(ret->path));

	if (rc < 0)
		return rc;
	(void)snprintf(ret->interpreter, sizeof(ret->interpreter), "%s", ret->path);
	for (int i = 0; i < SCRIPT_DEPTH_MAX; i++) {
		if (!look(ret->interpreter, next, sizeof(next), &ret->kind))
			break;
		(void)snprintf(ret->interpreter, sizeof(ret->interpreter), "%s", next);
	}
	return 0;
}

const char *nspy_program_kind_text(enum nspy_program_kind kind)
{
	switch (kind) {
	case NSPY_PROGRAM_DYNAMIC:
		return "dynamically linked with glibc";
	case NSPY_PROGRAM_STATIC:
		return "statically linked: the loader that preloads is not used";
	case NSPY_PROGRAM_MUSL:
		return "linked with musl: libncclspy.so needs glibc and would keep it from "
		       "starting";
	case NSPY_PROGRAM_FOREIGN:
		return "of another architecture or word size than libncclspy.so";
	case NSPY_PROGRAM_PRIVILEGED:
		return "set-user-id or has file capabilities: the loader ignores the preload";
	case NSPY_PROGRAM_UNKNOWN:
		break;
	}
	return "neither an ELF program nor a script that names its interpreter";
}
