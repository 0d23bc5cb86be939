/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of ncclspy-run: what the user asked for, and the steps of a run. All functions return
 * 0 or a negative errno unless they say otherwise; only main.c and check.c print. The launcher has
 * one thread.
 */
#ifndef NSPY_LAUNCH_H
#define NSPY_LAUNCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Exit codes of the launcher's own troubles, as env(1) has them. */
enum nspy_run_exit {
	NSPY_RUN_FAILED = 125,
	NSPY_RUN_CANNOT_EXECUTE = 126,
	NSPY_RUN_NOT_FOUND = 127,
};

struct nspy_launch {
	const char *directory;     /* -o, as given; NULL = not given */
	const char *job;           /* --job */
	const char *library;       /* --lib */
	bool check;                /* --check: look, do not run */
	bool dry_run;              /* --dry-run: say what would be run */
	bool quiet;                /* --quiet */
	bool verbose;              /* --verbose */
	char *const *command;      /* NULL-terminated; NULL = none */
	char trace_root[PATH_MAX]; /* absolute directory the traces go below */
	char preload[PATH_MAX];    /* absolute path of libncclspy.so, "" = not found */
};

/* --- environ.c --- */

/*
 * Finds libncclspy.so: the file given, else what lies beside this program (../lib, ../lib64,
 * ../lib/<anything>) or in its build tree. Writes an absolute path. -ENOENT: not there or not
 * readable; -EINVAL: the path holds a blank or a colon, which LD_PRELOAD cannot express.
 */
int nspy_find_library(const char *given, char *ret_path, size_t bytes);

/*
 * The directory that traces go below: -o, else NCCLSPY_DIR, else ncclspy-<uid> under TMPDIR or
 * /tmp. Made absolute, since the command may change its directory. -ENAMETOOLONG.
 */
int nspy_trace_root(const char *given, char *ret_path, size_t bytes);

/* NCCLSPY=0 in the environment: run the command and do nothing else. */
bool nspy_switched_off(void);

/* Puts LD_PRELOAD and the NCCLSPY_* variables of the options into this process's environment. */
int nspy_apply_environment(const struct nspy_launch *launch);

/* --- dry_run.c --- */

/* The variables as they are now; the strings stay the environment's. NULL: no memory. Caller frees.
 */
char **nspy_environment_copy(void);
/* Prints the command with the variables that are new since before, as one line for a shell. */
int nspy_print_launch(char *const *before, char *const *command);

/*
 * If the command starts its ranks on other machines or in other containers (srun, mpirun, kubectl
 * and the like): a sentence that says where ncclspy-run belongs. Else NULL.
 */
const char *nspy_misplaced(const char *command);

/* --- child.c --- */

struct nspy_child {
	pid_t pid;
	uint64_t starttime; /* clock ticks after boot */
	int status;         /* as of waitpid */
	uint64_t ended_real_ns;
	uint64_t asked_real_ns; /* when SIGTERM first came to us or to all, 0 = never */
	pid_t asked_by;         /* 0 = the kernel, or a process of another pid namespace */
};

/*
 * Runs the command and waits for its end, passing on signals so that each reaches the command
 * exactly once. As pid 1 also collects orphans. -ENOENT, -EACCES and the like: it could not be
 * executed.
 */
int nspy_run_child(char *const *command, struct nspy_child *ret);

/* Ends this process the way the child ended: same exit status, or the same signal. */
_Noreturn void nspy_end_like(int status);

/* --- salvage.c --- */

struct nspy_salvage_outcome {
	unsigned int saved;    /* traces whose last pages were saved */
	unsigned int failed;   /* traces whose pages could not be saved */
	int error;             /* of the last failure */
	bool timed_out;        /* the directory did not answer in time */
	bool recorded;         /* a trace of the direct child, or a saved one, was seen */
	char failed_base[256]; /* which, shortened from the left */
};

/*
 * Saves the live pages of processes of this run that died, and notes how the direct child ended
 * beside its trace. A directory that hangs delays the end by a few seconds at most.
 */
void nspy_salvage_after(const struct nspy_launch *launch, const struct nspy_child *child,
			struct nspy_salvage_outcome *ret);

/* Whether any trace below root was written to at or after the time given (CLOCK_REALTIME ns). */
bool nspy_traces_since(const char *root, uint64_t real_ns);

/* --- inspect.c --- */

enum nspy_program_kind {
	NSPY_PROGRAM_DYNAMIC = 0, /* preloading works */
	NSPY_PROGRAM_STATIC,      /* no dynamic loader: preloading is ignored */
	NSPY_PROGRAM_MUSL,        /* not glibc: the library would keep it from starting */
	NSPY_PROGRAM_FOREIGN,     /* other architecture or word size */
	NSPY_PROGRAM_PRIVILEGED,  /* set-user-id, set-group-id: the loader drops the preload */
	NSPY_PROGRAM_UNKNOWN,     /* neither ELF nor a script that names an interpreter */
};

struct nspy_program {
	char path[PATH_MAX];        /* as found on PATH */
	char interpreter[PATH_MAX]; /* what runs it, after "#!" lines; path itself for ELF */
	enum nspy_program_kind kind;
};

/* Looks at a command without running it. -ENOENT: not found on PATH. */
int nspy_inspect(const char *command, struct nspy_program *ret);
const char *nspy_program_kind_text(enum nspy_program_kind kind);

/* --- check.c --- */

/* Prints what would be seen of the command. Exit status: 0 all well, 1 not (all) of it is seen. */
int nspy_check(const struct nspy_launch *launch, int library_error);

/* Runs as the program started for nspy_check under the preload; prints facts, returns 0. */
int nspy_probe(void);

#endif
