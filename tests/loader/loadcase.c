/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaches NCCL in every way a program can. It is linked to neither NCCL nor CUDA.
 *
 *	loadcase WORD...
 *
 * Words are carried out in order; numbers and texts go to stdout, a failure ends it with status 1.
 *	dlopen:PATH:N        open with RTLD_LOCAL, look up with dlsym, N calls of ncclAllReduce
 *	global:PATH          open with RTLD_GLOBAL and keep
 *	keep:PATH            open with RTLD_LOCAL and keep
 *	dlmopen:PATH:N       as dlopen, in a namespace of its own
 *	version:PATH         print ncclGetVersion of that library
 *	cudart:PATH:VER:N    N calls of cudaMalloc, looked up with dlvsym at version VER
 *	verbs:PATH           register memory with functions of that libibverbs, as NCCL finds them
 *	default:NAME         look up in RTLD_DEFAULT, print "yes", or "no" and the reason
 *	program:NAME         the same through the handle of the program
 *	in:PATH:NAME         the same in that library, without the library's path
 *	clients:A:B          two client libraries, their calls interleaved; prints both versions
 *	client:PATH:N        a client library, opened with RTLD_LOCAL, N calls
 *	deepbind:PATH        a client library, opened with RTLD_DEEPBIND, leaves communicators
 *	deepload:PATH        the same without a call
 *	hidden:PATH          a client library that leaves communicators
 *	mixed:A:B            a communicator of library A, used through library B
 *	reload:A:B:N         N times each: open a client library, print its version, close it
 *	fork:A:B:N           N children that look up and call, while threads do
 *	signal:PATH:N        N look-ups and calls, and N calls in a signal handler
 *	race:A:B:T:N         T threads open, look up, call and close A and B in turn, N times each
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session.h"

#define WORDS_MAX   5
#define THREADS_MAX 32
#define PAUSE_US    100 /* between the calls of a thread that calls all the time */
#define VERSION_A   22809
#define VERSION_B   22703

_Noreturn static void give_up(const char *what, const char *why)
{
	(void)fprintf(stderr, "loadcase: %s: %s\n", what, why ? why : "no reason given");
	exit(1);
}

static void *open_or_end(const char *path, int flags)
{
	void *handle = dlopen(path, RTLD_NOW | flags);

	if (!handle)
		give_up(path, dlerror());
	return handle;
}

static void *find_or_end(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	if (!found)
		give_up(name, dlerror());
	if (dlerror())
		give_up(name, "found, and yet dlerror has something to say");
	return found;
}

static struct session_calls calls_of(void *handle)
{
	struct session_calls calls;

	*(void **)&calls.get_version = find_or_end(handle, "ncclGetVersion");
	*(void **)&calls.get_unique_id = find_or_end(handle, "ncclGetUniqueId");
	*(void **)&calls.init_rank = find_or_end(handle, "ncclCommInitRank");
	*(void **)&calls.init_all = find_or_end(handle, "ncclCommInitAll");
	*(void **)&calls.all_reduce = find_or_end(handle, "ncclAllReduce");
	*(void **)&calls.destroy = find_or_end(handle, "ncclCommDestroy");
	return calls;
}

static void run_session(void *handle, const char *times)
{
	struct session_calls calls = calls_of(handle);

	if (session(&calls, atoi(times)) != 0)
		give_up("session", "a call failed");
}

static void print_found(const void *found)
{
	const char *reason = found ? NULL : dlerror();
	/* Whose name stands before it depends on who asked; the rest is the loader's own. */
	const char *text = reason ? strstr(reason, "undefined symbol") : NULL;

	(void)printf(found ? "yes\n" : "no: %s\n", text ? text : NAME_UNKNOWN);
}

/* --- libraries that are linked to NCCL --- */

struct client {
	client_version_fn *version;
	client_open_fn *open;
	client_reduce_fn *reduce;
	client_close_fn *close;
	client_leave_open_fn *leave_open;
};

static struct client client_of(const char *path, int flags)
{
	void *handle = open_or_end(path, flags);
	struct client client;

	*(void **)&client.version = find_or_end(handle, "client_version");
	*(void **)&client.open = find_or_end(handle, "client_open");
	*(void **)&client.reduce = find_or_end(handle, "client_reduce");
	*(void **)&client.close = find_or_end(handle, "client_close");
	*(void **)&client.leave_open = find_or_end(handle, "client_leave_open");
	return client;
}

/* The first is at work when the second is loaded: its calls must not change. */
static void run_clients(const char *path_a, const char *path_b)
{
	struct client a = client_of(path_a, RTLD_LOCAL), b;
	void *comm_a = a.open(), *comm_b;

	if (!comm_a || a.reduce(comm_a, 10) != 0)
		give_up(path_a, "a call failed");
	b = client_of(path_b, RTLD_LOCAL);
	(void)printf("%d %d\n", a.version(), b.version());
	comm_b = b.open();
	if (!comm_b)
		give_up(path_b, "no communicator");
	for (int i = 0; i < 10; i++)
		if (a.reduce(comm_a, 1) != 0 || b.reduce(comm_b, 2) != 0)
			give_up(path_b, "a call failed");
	if (a.close(comm_a) != 0 || b.close(comm_b) != 0)
		give_up(path_b, "cannot destroy");
}

static void run_client(const char *path, const char *times)
{
	struct client client = client_of(path, RTLD_LOCAL);
	void *comm = client.open();

	if (!comm || client.reduce(comm, atoi(times)) != 0 || client.close(comm) != 0)
		give_up(path, "a call failed");
}

static void leave_open(const char *path, int flags)
{
	if (client_of(path, flags).leave_open() != 0)
		give_up(path, "no communicators");
}

static void run_mixed(const char *path_a, const char *path_b)
{
	struct session_calls a = calls_of(open_or_end(path_a, RTLD_LOCAL));
	struct session_calls b = calls_of(open_or_end(path_b, RTLD_LOCAL));
	void *comm = session_open(&a);

	if (!comm || session_reduce(&b, comm, 5) != 0 || a.destroy(comm) != 0)
		give_up(path_b, "a call failed");
}

/* --- CUDA by version --- */

static void run_cudart(const char *path, const char *version, long times)
{
	int (*cuda_malloc)(void **address, size_t bytes);
	void *address;

	*(void **)&cuda_malloc = dlvsym(open_or_end(path, RTLD_LOCAL), "cudaMalloc", version);
	if (!cuda_malloc)
		give_up("cudaMalloc", dlerror());
	while (times-- > 0)
		if (cuda_malloc(&address, 256) != 0)
			give_up("cudaMalloc", "failed");
}

/* --- libibverbs by version --- */

/* Structures and behaviour differ between versions: each must be the one that was asked for. */
static void run_verbs(const char *path)
{
	void *handle = open_or_end(path, RTLD_LOCAL);
	static const char *const versions[] = {"IBVERBS_1.0", "IBVERBS_1.1"};

	for (int i = 0; i < 2; i++) {
		void *(*reg_mr)(void *pd, void *address, size_t bytes, int access);

		*(void **)&reg_mr = dlvsym(handle, "ibv_reg_mr", versions[i]);
		if (!reg_mr)
			give_up("ibv_reg_mr", dlerror());
		if (!reg_mr(&handle, NULL, 4096, 7))
			give_up("ibv_reg_mr", "failed");
	}
	print_found(dlvsym(handle, "ibv_reg_mr", "IBVERBS_9.9"));
	print_found(dlsym(handle, "ibv_reg_mr"));
	print_found(dlsym(handle, "ibv_no_such_thing"));
}

/* --- a race --- */

struct racer {
	const char *const *paths;
	long rounds;
	int failed;
};

static void *race(void *arg)
{
	struct racer *racer = arg;

	for (long i = 0; i < racer->rounds && !racer->failed; i++) {
		void *handle = dlopen(racer->paths[i & 1], RTLD_NOW | RTLD_LOCAL);
		int (*get_version)(int *version) = NULL;
		int version = 0, expected = i & 1 ? VERSION_B : VERSION_A;

		if (handle)
			*(void **)&get_version = dlsym(handle, "ncclGetVersion");
		racer->failed = !get_version || get_version(&version) != 0 || version != expected ||
				dlsym(handle, "ncclCommGrow") || !dlerror() || dlclose(handle) != 0;
	}
	return NULL;
}

static void run_race(const char *path_a, const char *path_b, int threads, long rounds)
{
	const char *const paths[2] = {path_a, path_b};
	pthread_t ids[THREADS_MAX];
	struct racer racers[THREADS_MAX];

	for (int i = 0; i < threads && i < THREADS_MAX; i++) {
		racers[i] = (struct racer){paths, rounds, 0};
		if (pthread_create(&ids[i], NULL, race, &racers[i]) != 0)
			give_up("race", "no thread");
	}
	for (int i = 0; i < threads && i < THREADS_MAX; i++) {
		pthread_join(ids[i], NULL);
		if (racers[i].failed)
			give_up("race", "a thread got a wrong answer");
	}
}

/* --- unloading, forking, signals --- */

/* The second may come to lie where the first was. */
static void run_reload(const char *path_a, const char *path_b, long rounds)
{
	for (long i = 0; i < 2 * rounds; i++) {
		void *handle = open_or_end(i & 1 ? path_b : path_a, RTLD_LOCAL);
		client_version_fn *version;

		*(void **)&version = find_or_end(handle, "client_version");
		(void)printf("%d\n", version());
		if (dlclose(handle) != 0)
			give_up("reload", dlerror());
	}
}

static int version_in(void *handle)
{
	int (*get_version)(int *version), version = 0;

	*(void **)&get_version = dlsym(handle, "ncclGetVersion");
	return get_version && get_version(&version) == 0 ? version : -1;
}

static atomic_bool enough;

static void *look_up_always(void *handle)
{
	while (!atomic_load(&enough)) {
		if (version_in(handle) < 0)
			give_up("fork", "a thread found nothing");
		(void)usleep(PAUSE_US);
	}
	return NULL;
}

static void child_of_fork(const char *path_a, const char *path_b)
{
	struct session_calls a = calls_of(open_or_end(path_a, RTLD_LOCAL));
	struct session_calls b = calls_of(open_or_end(path_b, RTLD_LOCAL));

	_exit(session_version(&a) == VERSION_A && session_version(&b) == VERSION_B &&
			      !dlsym(RTLD_DEFAULT, "ncclAllReduce")
		      ? 0
		      : 1);
}

static void run_fork(const char *path_a, const char *path_b, long children)
{
	pthread_t ids[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&ids[i], NULL, look_up_always,
				   open_or_end(i ? path_b : path_a, RTLD_LOCAL)) != 0)
			give_up("fork", "no thread");
	while (children-- > 0) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			child_of_fork(path_a, path_b);
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
			give_up("fork", "a child is not well");
	}
	atomic_store(&enough, true);
	for (int i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
}

/* The C library's own dlsym may not be called in a handler: the calls only. */
static struct session_calls in_handler;
static volatile sig_atomic_t handled, handled_well;

static void handle_signal(int number)
{
	(void)number;
	handled++;
	if (session_version(&in_handler) == VERSION_A)
		handled_well++;
}

static void run_signal(const char *path, long rounds)
{
	const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};

	void *handle = open_or_end(path, RTLD_LOCAL);

	in_handler = calls_of(handle);
	(void)signal(SIGALRM, handle_signal);
	(void)setitimer(ITIMER_REAL, &often, NULL);
	for (long i = 0; i < rounds || handled < rounds; i++)
		if (version_in(handle) != VERSION_A)
			give_up("signal", "wrong answer");
	(void)setitimer(ITIMER_REAL, &never, NULL);
	if (handled != handled_well)
		give_up("signal", "wrong answer in the handler");
}

/* --- words --- */

static int look_up(const char *word, char *const *rest)
{
	if (strcmp(word, "default") == 0)
		print_found(dlsym(RTLD_DEFAULT, rest[0]));
	else if (strcmp(word, "program") == 0)
		print_found(dlsym(open_or_end(NULL, 0), rest[0]));
	else if (strcmp(word, "in") == 0)
		print_found(dlsym(open_or_end(rest[0], RTLD_LOCAL), rest[1]));
	else
		return 0;
	return 1;
}

static int open_library(const char *word, char *const *rest)
{
	if (strcmp(word, "dlopen") == 0)
		run_session(open_or_end(rest[0], RTLD_LOCAL), rest[1]);
	else if (strcmp(word, "global") == 0)
		(void)open_or_end(rest[0], RTLD_GLOBAL);
	else if (strcmp(word, "keep") == 0)
		(void)open_or_end(rest[0], RTLD_LOCAL);
	else if (strcmp(word, "dlmopen") == 0)
		run_session(dlmopen(LM_ID_NEWLM, rest[0], RTLD_NOW), rest[1]);
	else if (strcmp(word, "version") == 0) {
		struct session_calls calls = calls_of(open_or_end(rest[0], RTLD_LOCAL));

		(void)printf("%d\n", session_version(&calls));
	} else if (strcmp(word, "verbs") == 0)
		run_verbs(rest[0]);
	else if (strcmp(word, "cudart") == 0)
		run_cudart(rest[0], rest[1], atol(rest[2]));
	else
		return 0;
	return 1;
}

static int use_client(const char *word, char *const *rest)
{
	if (strcmp(word, "clients") == 0)
		run_clients(rest[0], rest[1]);
	else if (strcmp(word, "client") == 0)
		run_client(rest[0], rest[1]);
	else if (strcmp(word, "deepbind") == 0)
		leave_open(rest[0], RTLD_DEEPBIND);
	else if (strcmp(word, "deepload") == 0)
		(void)client_of(rest[0], RTLD_DEEPBIND);
	else if (strcmp(word, "hidden") == 0)
		leave_open(rest[0], RTLD_LOCAL);
	else if (strcmp(word, "mixed") == 0)
		run_mixed(rest[0], rest[1]);
	else if (strcmp(word, "reload") == 0)
		run_reload(rest[0], rest[1], atol(rest[2]));
	else
		return 0;
	return 1;
}

static int use_at_once(const char *word, char *const *rest)
{
	if (strcmp(word, "fork") == 0)
		run_fork(rest[0], rest[1], atol(rest[2]));
	else if (strcmp(word, "signal") == 0)
		run_signal(rest[0], atol(rest[1]));
	else if (strcmp(word, "race") == 0)
		run_race(rest[0], rest[1], atoi(rest[2]), atol(rest[3]));
	else
		return 0;
	return 1;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		char *words[WORDS_MAX + 1] = {NULL};
		char *save = NULL, *word = strtok_r(argv[i], ":", &save);

		for (int n = 0; word && n < WORDS_MAX; n++) {
			words[n] = word;
			word = strtok_r(NULL, ":", &save);
		}
		for (int n = 1; n < WORDS_MAX; n++)
			if (!words[n])
				words[n] = (char *)"";
		if (!look_up(words[0], words + 1) && !open_library(words[0], words + 1) &&
		    !use_client(words[0], words + 1) && !use_at_once(words[0], words + 1))
			give_up(words[0], "no such word");
		(void)fflush(stdout);
	}
	return 0;
}
