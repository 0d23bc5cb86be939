/* SPDX-License-Identifier: Apache-2.0 */
/* Saving live pages: who is dead, what is copied where, and what must be left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace_encode.h"
#include "trace_salvage.h"

#define RUN_ID   0x0123456789abcdefull
#define JOB_HASH 0x1122334455667788ull
#define BYTES    (NSPY_LIVE_HEAD_BYTES + NSPY_LIVE_IDENT_BYTES + 5000)

static char scratch[PATH_MAX / 4]; /* <scratch>/shm, <scratch>/out */
static uint8_t image[BYTES];
static struct nspy_salvage salvage;

static const char *path_of(const char *name)
{
	static char path[PATH_MAX / 2];

	(void)snprintf(path, sizeof(path), "%s/%s", scratch, name);
	return path;
}

static int set_up(void **state)
{
	const char *temporary = getenv("TMPDIR");

	(void)state;
	(void)snprintf(scratch, sizeof(scratch), "%s/ncclspy-salvage-XXXXXX",
		       temporary ? temporary : "/tmp");
	if (!mkdtemp(scratch) || mkdir(path_of("shm"), 0700) < 0 || mkdir(path_of("out"), 0700) < 0)
		return -1;
	return 0;
}

static int tear_down(void **state)
{
	char command[PATH_MAX];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	return system(command);
}

/* A process that has ended and been collected: its number is free. */
static pid_t dead_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	(void)waitpid(pid, NULL, 0);
	return pid;
}

struct made {
	pid_t pid;
	uint64_t starttime;
	const char *base; /* NULL = <scratch>/out/trace */
};

/* A live file as the library makes it, as far as saving is concerned. */
static void fill_image(const struct made *made)
{
	struct nspy_live_head *head = (struct nspy_live_head *)image;
	char starttime[24];
	size_t used = 0;

	for (size_t i = 0; i < sizeof(image); i++)
		image[i] = (uint8_t)(i * 31);
	memset(head, 0, sizeof(*head));
	head->magic = NSPY_LIVE_MAGIC;
	head->version = NSPY_LIVE_VERSION;
	head->head_bytes = NSPY_LIVE_HEAD_BYTES;
	head->file_bytes = sizeof(image);
	head->run_id = RUN_ID;
	head->pid = (uint32_t)made->pid;
	head->ident_offset = NSPY_LIVE_HEAD_BYTES;
	(void)snprintf(starttime, sizeof(starttime), "%llu", (unsigned long long)made->starttime);
	assert_int_equal(nspy_ident_put(image + head->ident_offset, NSPY_LIVE_IDENT_BYTES, &used,
					"starttime", starttime),
			 0);
	assert_int_equal(nspy_ident_put(image + head->ident_offset, NSPY_LIVE_IDENT_BYTES, &used,
					"trace.base",
					made->base ? made->base : path_of("out/trace")),
			 0);
	head->ident_bytes = (uint32_t)used;
}

static const char *live_name(pid_t pid)
{
	static char name[256];

	(void)snprintf(name, sizeof(name), "shm/ncclspy.%u.%016llx.4711.%ld.%016llx.live", getuid(),
		       JOB_HASH, (long)pid, RUN_ID);
	return name;
}

static void write_image(pid_t pid)
{
	int fd = open(path_of(live_name(pid)), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, image, sizeof(image)), sizeof(image));
	close(fd);
}

static void make_live(const struct made *made)
{
	fill_image(made);
	write_image(made->pid);
}

static bool there(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

/* Entries of a directory of the scratch directory. */
static int count_in(const char *name)
{
	char command[PATH_MAX];
	FILE *list;
	int count = 0;

	(void)snprintf(command, sizeof(command), "ls -A '%s' | wc -l", path_of(name));
	list = popen(command, "r");
	assert_non_null(list);
	assert_int_equal(fscanf(list, "%d", &count), 1);
	pclose(list);
	return count;
}

static struct nspy_salvage *scope(void)
{
	static char directory[PATH_MAX];

	(void)snprintf(directory, sizeof(directory), "%s", path_of("shm"));
	salvage = (struct nspy_salvage){
		.directory = directory,
		.uid = getuid(),
		.pid_namespace = 4711,
		.job_hash = JOB_HASH,
		.mode = 0600,
	};
	return &salvage;
}

static void expect(unsigned int alive, unsigned int saved, unsigned int failed)
{
	assert_int_equal(salvage.alive, alive);
	assert_int_equal(salvage.saved, saved);
	assert_int_equal(salvage.failed, failed);
}

#define TARGET "out/trace.0123456789abcdef.live"

static void names_are_parsed(void **state)
{
	static const char *const bad[] = {
		"",
		"ncclspy.",
		"ncclspy.1.2.3.4.5.live",
		"other.0.1122334455667788.3.4.0123456789abcdef.live",
		"ncclspy.0.1122334455667788.3.4.0123456789abcdef.liv",
		"ncclspy.0.1122334455667788.3.4.0123456789abcdef.live2",
		"ncclspy.0.1122334455667788.3.4.0123456789ABCDEF.live",
		"ncclspy.0.1122334455667788.3..0123456789abcdef.live",
		"ncclspy.0.1122334455667788.3.-4.0123456789abcdef.live",
		"ncclspy.0.112233445566778.3.4.0123456789abcdef.live",
		"ncclspy.99999999999999999999.1122334455667788.3.4.0123456789abcdef.live",
	};
	struct nspy_live_name got;

	(void)state;
	assert_int_equal(
		nspy_live_name_parse("ncclspy.7.1122334455667788.3.4.0123456789abcdef.live", &got),
		0);
	assert_true(got.uid == 7 && got.job_hash == JOB_HASH && got.pid_namespace == 3 &&
		    got.pid == 4 && got.run_id == RUN_ID);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(nspy_live_name_parse(bad[i], &got), -EINVAL);
}

static void processes_are_told_apart(void **state)
{
	uint64_t mine = 0, again = 0;
	siginfo_t info;
	pid_t pid;

	(void)state;
	assert_int_equal(nspy_process_starttime((uint64_t)getpid(), &mine), 0);
	assert_int_equal(nspy_process_starttime((uint64_t)getpid(), &again), 0);
	assert_true(mine > 0 && mine == again);
	assert_int_equal(nspy_process_starttime((uint64_t)dead_pid(), &mine), -ESRCH);
	/* A zombie has ended although its number is still taken. */
	pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(nspy_process_starttime((uint64_t)pid, &mine), -ESRCH);
	(void)waitpid(pid, NULL, 0);
}

static void dead_process_is_saved(void **state)
{
	static uint8_t copy[BYTES + 1];
	struct made made = {.pid = dead_pid(), .starttime = 5};
	struct stat st;
	int fd;

	(void)state;
	make_live(&made);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 1, 0);
	assert_int_equal(count_in("shm"), 0);
	assert_int_equal(count_in("out"), 1);
	fd = open(path_of(TARGET), O_RDONLY);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(read(fd, copy, sizeof(copy)), BYTES);
	assert_memory_equal(copy, image, BYTES);
	close(fd);
}

static void living_process_is_left_alone(void **state)
{
	struct made made = {.pid = getpid()};

	(void)state;
	assert_int_equal(nspy_process_starttime((uint64_t)getpid(), &made.starttime), 0);
	make_live(&made);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(1, 0, 0);
	assert_true(there(live_name(made.pid)) && count_in("out") == 0);
	/* The same number, but an earlier process: that one is dead. */
	made.starttime--;
	make_live(&made);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 1, 0);
	assert_true(there(TARGET) && count_in("shm") == 0);
}

/* A program that execs keeps pid and start time: its earlier recording is over all the same. */
static void recording_before_an_exec_is_saved(void **state)
{
	struct made made = {.pid = getpid()};

	(void)state;
	assert_int_equal(nspy_process_starttime((uint64_t)getpid(), &made.starttime), 0);
	make_live(&made);
	(void)scope();
	salvage.own_run_id = RUN_ID; /* the one that goes on */
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	expect(1, 0, 0);
	salvage.own_run_id = RUN_ID + 1;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	expect(0, 1, 0);
	assert_true(there(TARGET) && count_in("shm") == 0);
}

static void others_are_left_alone(void **state)
{
	struct made made = {.pid = dead_pid()};
	char root[PATH_MAX];

	(void)state;
	make_live(&made);
	scope()->job_hash = 1;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	scope()->uid = getuid() + 1;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	scope()->pid_namespace = 1;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	(void)snprintf(root, sizeof(root), "%s", path_of("other"));
	scope()->trace_root = root;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	(void)snprintf(root, sizeof(root), "%s", path_of("ou"));
	scope()->trace_root = root;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	expect(0, 0, 0);
	assert_true(there(live_name(made.pid)) && count_in("out") == 0);
	/* Any job, below the right directory. */
	(void)snprintf(root, sizeof(root), "%s", path_of("out/"));
	scope()->trace_root = root;
	salvage.any_job = true;
	salvage.job_hash = 1;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	expect(0, 1, 0);
}

static void path_cannot_climb_out(void **state)
{
	struct made made = {.pid = dead_pid()};
	char root[PATH_MAX], base[PATH_MAX];

	(void)state;
	(void)snprintf(root, sizeof(root), "%s", path_of("out"));
	(void)snprintf(base, sizeof(base), "%s", path_of("out/../shm/x"));
	made.base = base;
	make_live(&made);
	scope()->trace_root = root;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	expect(0, 0, 0);
	assert_int_equal(count_in("shm"), 1);
}

static int reported_error;
static void note_report(void *context, const struct nspy_live_facts *facts, int error)
{
	reported_error = error;
	*(uint32_t *)context = facts->pid;
}

static void failure_keeps_the_source(void **state)
{
	struct made made = {.pid = dead_pid()};
	uint32_t pid = 0;
	char base[PATH_MAX];
	int fd = open(path_of("out/file"), O_WRONLY | O_CREAT, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	(void)snprintf(base, sizeof(base), "%s", path_of("out/file/trace"));
	made.base = base;
	make_live(&made);
	scope()->report = note_report;
	salvage.context = &pid;
	assert_int_equal(nspy_salvage_run(&salvage), 0);
	expect(0, 0, 1);
	assert_int_equal(reported_error, -ENOTDIR);
	assert_int_equal(pid, made.pid);
	assert_true(there(live_name(made.pid)));
}

/* Killed before the first segment: the trace's folders are not there yet. */
static void folders_are_made(void **state)
{
	struct made made = {.pid = dead_pid()};
	char base[PATH_MAX];
	struct stat st;

	(void)state;
	(void)snprintf(base, sizeof(base), "%s", path_of("out/job/node/trace"));
	made.base = base;
	make_live(&made);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 1, 0);
	assert_true(there("out/job/node/trace.0123456789abcdef.live"));
	assert_int_equal(stat(path_of("out/job"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

/* The copy ends in the middle: nothing half done is left, the source stays. */
static void full_disk_leaves_no_half_copy(void **state)
{
	struct made made = {.pid = dead_pid()};
	struct rlimit old, small = {BYTES / 2, RLIM_INFINITY};

	(void)state;
	make_live(&made);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small.rlim_max = old.rlim_max;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	(void)signal(SIGXFSZ, SIG_DFL);
	expect(0, 0, 1);
	assert_int_equal(count_in("out"), 0);
	assert_true(there(live_name(made.pid)));
	/* With room again it works. */
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 1, 0);
}

static void saving_twice_is_saving_once(void **state)
{
	struct made made = {.pid = dead_pid()};

	(void)state;
	make_live(&made);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	write_image(made.pid); /* another one was a moment later */
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 1, 0);
	assert_int_equal(count_in("out"), 1);
}

static void only_plain_files_are_read(void **state)
{
	pid_t pid = dead_pid();
	char target[PATH_MAX];

	(void)state;
	(void)snprintf(target, sizeof(target), "%s", path_of("elsewhere"));
	fill_image(&(struct made){.pid = pid});
	write_image(pid);
	assert_int_equal(rename(path_of(live_name(pid)), target), 0);
	assert_int_equal(symlink(target, path_of(live_name(pid))), 0);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 0, 0);
	assert_int_equal(unlink(path_of(live_name(pid))), 0);
	assert_int_equal(mkfifo(path_of(live_name(pid)), 0600), 0);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 0, 0);
	assert_int_equal(count_in("out"), 0);
	scope()->directory = "/nonexistent";
	assert_int_equal(nspy_salvage_run(&salvage), -ENOENT);
}

static void unfinished_file_goes_with_its_process(void **state)
{
	struct nspy_live_head *head = (struct nspy_live_head *)image;
	pid_t pid = dead_pid();

	(void)state;
	fill_image(&(struct made){.pid = pid});
	head->ident_bytes = 0;
	write_image(pid);
	write_image(getpid());
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 0, 0);
	assert_false(there(live_name(pid)));
	assert_true(there(live_name(getpid())));
}

static void newer_format_is_left_alone(void **state)
{
	struct nspy_live_head *head = (struct nspy_live_head *)image;
	pid_t pid = dead_pid();

	(void)state;
	fill_image(&(struct made){.pid = pid});
	head->version = NSPY_LIVE_VERSION + 1;
	write_image(pid);
	assert_int_equal(nspy_salvage_run(scope()), 0);
	expect(0, 0, 0);
	assert_true(there(live_name(pid)));
}

/* Nothing is trusted: whatever bit is wrong, nothing is written outside the trace directory. */
static void flipped_bits_do_no_harm(void **state)
{
	struct made made = {.pid = dead_pid()};
	char root[PATH_MAX];
	size_t ends[2][2], saved = 0;

	(void)state;
	(void)snprintf(root, sizeof(root), "%s", path_of("out"));
	fill_image(&made);
	ends[0][0] = 0;
	ends[0][1] = sizeof(struct nspy_live_head);
	ends[1][0] = NSPY_LIVE_HEAD_BYTES;
	ends[1][1] = NSPY_LIVE_HEAD_BYTES + ((struct nspy_live_head *)image)->ident_bytes;
	for (int part = 0; part < 2; part++) {
		for (size_t bit = ends[part][0] * 8; bit < ends[part][1] * 8; bit++) {
			image[bit / 8] ^= (uint8_t)(1u << bit % 8);
			write_image(made.pid);
			scope()->trace_root = root;
			assert_int_equal(nspy_salvage_run(&salvage), 0);
			saved += salvage.saved;
			image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
	assert_true(saved > 0); /* most of the head does not matter here */
	assert_true(count_in("shm") <= 1);
	assert_int_equal(count_in("."), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(names_are_parsed),
		TEST(processes_are_told_apart),
		TEST(dead_process_is_saved),
		TEST(living_process_is_left_alone),
		TEST(recording_before_an_exec_is_saved),
		TEST(others_are_left_alone),
		TEST(path_cannot_climb_out),
		TEST(failure_keeps_the_source),
		TEST(folders_are_made),
		TEST(full_disk_leaves_no_half_copy),
		TEST(saving_twice_is_saving_once),
		TEST(only_plain_files_are_read),
		TEST(unfinished_file_goes_with_its_process),
		TEST(newer_format_is_left_alone),
		TEST(flipped_bits_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
