/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc and /sys say about this process. Cold; errno may change; nothing allocates. */
#ifndef NSPY_PROCFS_H
#define NSPY_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* First line of a file without its newline; bytes, 0 for an empty file, or -1. Always terminates.
 */
ssize_t nspy_proc_read(const char *path, char *ret, size_t bytes);

/* "0" if unknown. */
void nspy_proc_boot_id(char *ret, size_t bytes);
bool nspy_proc_exe(char *ret, size_t bytes);
/* Arguments joined by blanks. */
void nspy_proc_cmdline(char *ret, size_t bytes);

/*
 * Calls fn for each entry of a directory but those that begin with a dot, until it returns false.
 * Number of calls, or -1 if the directory cannot be read.
 */
typedef bool nspy_proc_entry_fn(const char *name, void *context);
int nspy_proc_list(const char *path, nspy_proc_entry_fn *fn, void *context);

/* As nspy_proc_read with all lines. */
ssize_t nspy_proc_read_all(const char *path, char *ret, size_t bytes);

/* 0 if unknown. */
uint64_t nspy_proc_pid_namespace(void);
uint64_t nspy_proc_starttime(void);

#endif
