/* SPDX-License-Identifier: Apache-2.0 */
/* ncclspy-stacks: where processes stand, merged into one tree. For jobs without ncclspy too. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "read.h"
#include "trace_stacks.h"

#define PIDS_MAX       1024u
#define LINES_MAX      2000u
#define READ_NS        10000000000ull /* per process */
#define RAS_TIMEOUT_MS 8000

struct run {
	bool json, all_threads, node;
	const char *ras; /* NULL = not asked for */
	pid_t pids[PIDS_MAX];
	size_t pid_count;
	struct nspy_stack_tree *tree;
	struct nspy_stacks read[PIDS_MAX];
	size_t read_count;
	size_t lines; /* printed */
};

static struct run run;
static char buffer[NSPY_STACKS_BYTES_MAX];

static const struct option long_options[] = {
	{"all-threads", no_argument, NULL, 'a'},
	{"json", no_argument, NULL, 'j'},
	{"node", no_argument, NULL, 'n'},
	{"ras", optional_argument, NULL, 'r'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-stacks [OPTION]... PID...\n"
	      "       ncclspy-stacks [OPTION]... --node\n"
	      "\n"
	      "Says where processes stand: their native stacks as one tree, with who is where. "
	      "Each\n"
	      "thread is stopped for a moment; nothing is loaded into the processes.\n"
	      "\n"
	      "Options:\n"
	      "  -a, --all-threads   all threads, not only the first one of each process\n"
	      "  -n, --node          all processes of this node that have NCCL loaded\n"
	      "      --json          machine-readable output\n"
	      "      --ras[=ADDRESS] ask NCCL's RAS service too (default: $NCCL_RAS_ADDR or\n"
	      "                      " RAS_ADDRESS "); some versions of NCCL crash on that\n"
	      "  -h, --help          show this help and exit\n"
	      "  -V, --version       show the version and exit\n"
	      "\n"
	      "Exit status: 0 stacks were read, 1 of no process, 2 usage, 3 no such process.\n",
	      out);
}

/* --- whom to read --- */

static bool maps_nccl(pid_t pid)
{
	char path[64], line[4352];
	bool found = false;
	FILE *maps;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, "/libnccl.so") || strstr(line, "/libtorch_cuda.so");
	if (maps)
		(void)fclose(maps);
	return found;
}

static void find_on_node(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc)) && run.pid_count < PIDS_MAX) {
		pid_t pid = (pid_t)number_of(entry->d_name);

		if (pid > 0 && pid != getpid() && maps_nccl(pid))
			run.pids[run.pid_count++] = pid;
	}
	if (proc)
		(void)closedir(proc);
}

static int take_pids(int count, char **arguments)
{
	for (int i = 0; i < count; i++) {
		char *end;
		long pid = strtol(arguments[i], &end, 10);

		if (*end || pid <= 0 || pid > INT32_MAX || run.pid_count == PIDS_MAX) {
			fprintf(stderr, "ncclspy-stacks: '%s' is no pid\n", arguments[i]);
			return -EINVAL;
		}
		run.pids[run.pid_count++] = (pid_t)pid;
	}
	return 0;
}

/* --- reading --- */

static void read_one(pid_t pid)
{
	struct text text = {.data = buffer, .room = sizeof(buffer) - TEXT_RESERVE};
	struct subject subject = {.pid = pid, .rank = -1, .node = "-"};
	struct nspy_stacks *stacks = &run.read[run.read_count];
	int rc;

	subject.deadline_ns = now_ns() + READ_NS;
	rc = read_process(&subject, &text);
	finish(&text);
	if (rc == 0)
		rc = nspy_stacks_parse(text.data, text.used, stacks);
	if (rc < 0) {
		fprintf(stderr, "ncclspy-stacks: %d: %s\n", (int)pid,
			rc == -ENOENT ? "no such process" : strerror(-rc));
		return;
	}
	run.read_count++;
	for (uint32_t i = 0; i < stacks->thread_count; i++) {
		const struct nspy_stack_thread *thread = &stacks->threads[i];

		if (run.all_threads || thread == nspy_stacks_caller(stacks))
			(void)nspy_stack_tree_add(run.tree, stacks, thread, pid);
	}
}

static bool has_frames(void)
{
	for (size_t i = 0; i < run.read_count; i++)
		if (run.read[i].frame_count)
			return true;
	return false;
}

/* The status goes the way of all notes: cleaned, in lines. */
static void read_ras(struct nspy_stacks *ret)
{
	struct text text = {.data = buffer, .room = sizeof(buffer) - TEXT_RESERVE};

	add(&text, NSPY_STACKS_MAGIC);
	add_ras(run.ras, RAS_TIMEOUT_MS, &text);
	finish(&text);
	(void)nspy_stacks_parse(text.data, text.used, ret);
}

/* --- output --- */

static void print_line(void *context, unsigned int depth, const char *who, uint32_t count,
		       const char *frames)
{
	(void)context;
	printf("%*s%u  pid %s  %s\n", 2 * (int)depth, "", count, who, frames);
}

static void print_text(const struct nspy_stacks *ras)
{
	size_t left_out = 0;

	printf("%zu process%s, %s; outermost frame first\n", run.read_count,
	       run.read_count == 1 ? "" : "es",
	       run.all_threads ? "all threads" : "the first thread of each");
	left_out = nspy_stack_tree_walk(run.tree, LINES_MAX, print_line, NULL);
	if (left_out)
		printf("... %zu more branches\n", left_out);
	for (size_t i = 0; i < run.read_count; i++)
		for (uint32_t k = 0; k < run.read[i].note_count; k++)
			printf("note: pid %u: %s\n", run.read[i].pid, run.read[i].notes[k]);
	for (uint32_t k = 0; k < ras->note_count; k++)
		printf("%s\n", ras->notes[k]);
}

/* All texts are printable ASCII. */
static void put_json(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void json_line(void *context, unsigned int depth, const char *who, uint32_t count,
		      const char *frames)
{
	(void)context;
	printf("%s{\"depth\":%u,\"count\":%u,\"pids\":", run.lines++ ? "," : "", depth, count);
	put_json(who);
	printf(",\"frames\":");
	put_json(frames);
	putchar('}');
}

static void json_notes(const struct nspy_stacks *stacks)
{
	printf("\"notes\":[");
	for (uint32_t k = 0; k < stacks->note_count; k++) {
		printf("%s", k ? "," : "");
		put_json(stacks->notes[k]);
	}
	putchar(']');
}

static void json_thread(const struct nspy_stacks *stacks, const struct nspy_stack_thread *thread)
{
	printf("{\"tid\":%u,\"name\":", thread->tid);
	put_json(thread->name);
	printf(",\"state\":\"%c\",\"wchan\":",
	       isalpha((unsigned char)thread->state) ? thread->state : '?');
	put_json(thread->wchan);
	printf(",\"syscall\":%d,\"cut\":%s,\"frames\":[", thread->syscall,
	       thread->cut ? "true" : "false");
	for (uint32_t i = 0; i < thread->frames; i++) {
		const struct nspy_stack_frame *frame = &stacks->frames[thread->frame + i];

		printf("%s{\"symbol\":", i ? "," : "");
		put_json(frame->symbol);
		printf(",\"object\":");
		put_json(frame->object);
		printf(",\"offset\":%llu}", (unsigned long long)frame->offset);
	}
	printf("]}");
}

static void print_json(const struct nspy_stacks *ras)
{
	printf("{\"schema\":\"ncclspy.stacks/1\",\"processes\":[");
	for (size_t i = 0; i < run.read_count; i++) {
		const struct nspy_stacks *stacks = &run.read[i];

		printf("%s{\"pid\":%u,\"threads\":[", i ? "," : "", stacks->pid);
		for (uint32_t k = 0; k < stacks->thread_count; k++) {
			printf("%s", k ? "," : "");
			json_thread(stacks, &stacks->threads[k]);
		}
		printf("],");
		json_notes(stacks);
		putchar('}');
	}
	printf("],\"tree\":[");
	(void)nspy_stack_tree_walk(run.tree, LINES_MAX, json_line, NULL);
	printf("],\"ras\":{");
	json_notes(ras);
	printf("}}\n");
}

static bool set_option(int opt)
{
	switch (opt) {
	case 'a':
		run.all_threads = true;
		return true;
	case 'j':
		run.json = true;
		return true;
	case 'n':
		run.node = true;
		return true;
	case 'r':
		run.ras = ras_address(optarg);
		return true;
	default:
		return false;
	}
}

static int work(void)
{
	struct nspy_stacks ras = {0};
	int rc;

	run.tree = nspy_stack_tree_new();
	if (!run.tree)
		return 4;
	for (size_t i = 0; i < run.pid_count; i++)
		read_one(run.pids[i]);
	if (run.ras)
		read_ras(&ras);
	if (run.json)
		print_json(&ras);
	else
		print_text(&ras);
	rc = run.read_count == 0 ? 3 : has_frames() ? 0 : 1;
	for (size_t i = 0; i < run.read_count; i++)
		nspy_stacks_done(&run.read[i]);
	nspy_stacks_done(&ras);
	nspy_stack_tree_free(run.tree);
	return rc;
}

int main(int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "anhV", long_options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return 0;
		}
		if (opt == 'V') {
			printf("ncclspy-stacks %s\n", NSPY_VERSION);
			return 0;
		}
		if (!set_option(opt)) {
			usage(stderr);
			return 2;
		}
	}
	if (take_pids(argc - optind, argv + optind) < 0)
		return 2;
	if (run.node)
		find_on_node();
	if (!run.pid_count && !run.node) {
		usage(stderr);
		return 2;
	}
	return work();
}
