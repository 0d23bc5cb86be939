/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the board costs the leading node of a job of 64, 512 and 2,048 nodes with 8 ranks each: node
 * files are written to a directory as their nodes would, then read, decoded and judged as the
 *leader does every NCCLSPY_BOARD_S (10) seconds; judging it does once a second.
 *
 *	bench_board [NODES...]
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "board.h"
#include "straggler.h"
#include "verdict.h"

#define S       1000000000ull
#define RANKS   8u /* of a node */
#define COMMS   4u /* world, data, tensor and pipeline groups */
#define OPS     256u
#define WAYS    4u
#define BOARD_S 10.0
#define NOW     (100000 * S)
#define TIMES   5u

static char dir[] = "/tmp/bench_board.XXXXXX";
static struct nspy_verdict verdict;

/* CPU time of this thread: what others do on the machine does not matter. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * S + (uint64_t)ts.tv_nsec;
}

static void *take(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		bench_die("no memory");
	return p;
}

/* A rank in the middle of its work: some thousand operations done, none of them late. */
static void fill(struct nspy_status *page, uint32_t node, uint32_t local, uint32_t nodes)
{
	static char names[4][NSPY_STATUS_NAME_BYTES] = {"ncclAllReduce", "ncclAllGather",
							"ncclReduceScatter", "ncclSend"};
	static struct nspy_status_comm comms[COMMS];
	static struct nspy_status_op ops[OPS];
	static struct nspy_status_way ways[WAYS];
	const int32_t sizes[COMMS] = {(int32_t)(nodes * RANKS), (int32_t)nodes, RANKS, 4};
	int32_t rank = (int32_t)(node * RANKS + local);

	*page = (struct nspy_status){.run_id = (uint64_t)rank + 1,
				     .pid = 1000 + local,
				     .state = NSPY_STATUS_RUNNING,
				     .rank = rank,
				     .world_size = sizes[0],
				     .published_ns = NOW - S,
				     .published_real_ns = NOW - S,
				     .starttime = 1,
				     .pidns = 1,
				     .calls = 100000,
				     .rounds = 500,
				     .longest_wait_ns = S,
				     .work_ns = {S / 4, S / 4},
				     .round_ns = {S / 2, S / 2},
				     .best_round_ns = S / 2,
				     .last_call_ns = NOW - S,
				     .caller_tid = 1000 + local,
				     .caller_state = 'S',
				     .nccl = 22809,
				     .cudart = 13000,
				     .comm_count = COMMS,
				     .op_count = OPS,
				     .way_count = WAYS,
				     .name_count = 4,
				     .comms = comms,
				     .ops = ops,
				     .ways = ways,
				     .names = names};
	(void)snprintf(page->node, sizeof(page->node), "node-%05u", node);
	(void)snprintf(page->job_dir, sizeof(page->job_dir), "/fsx/spy/8123");
	for (uint32_t i = 0; i < COMMS; i++) {
		uint32_t group = i == 0 ? 0 : i == 1 ? local : i == 2 ? node : (uint32_t)rank / 4;

		comms[i] = (struct nspy_status_comm){.key = (uint64_t)(i + 1) << 32 | group,
						     .enqueued = 4000,
						     .completed = 4000,
						     .last_ns = NOW - S,
						     .nranks = sizes[i],
						     .rank = rank % sizes[i],
						     .flags = 2,
						     .async_error = -1,
						     .datatype = 7,
						     .root = -1,
						     .count = 1 << 20};
	}
	for (uint32_t i = 0; i < OPS; i++)
		ops[i] = (struct nspy_status_op){.enter_ns = NOW - S - (OPS - i) * 1000,
						 .seq = 4000 - (OPS - 1 - i) / COMMS,
						 .count = 1 << 20,
						 .stream = 0x7f0012345678,
						 .peer = -1,
						 .comm = (uint16_t)(i % COMMS),
						 .name = (uint16_t)(i % 4),
						 .klass = 1,
						 .datatype = 7};
	for (uint32_t i = 0; i < WAYS; i++)
		ways[i] = (struct nspy_status_way){3, (int32_t)i, 1000, 1000};
}

static size_t write_node(uint32_t node, uint32_t nodes)
{
	static uint8_t file[RANKS * NSPY_STATUS_BYTES_MAX];
	size_t used = 0;
	char path[128];
	int fd;

	for (uint32_t local = 0; local < RANKS; local++) {
		struct nspy_status page;
		long bytes;

		fill(&page, node, local, nodes);
		bytes = nspy_board_encode(&page, 1, 0, file + used, sizeof(file) - used);
		if (bytes < 0)
			bench_die("a page does not fit");
		used += (size_t)bytes;
	}
	(void)snprintf(path, sizeof(path), "%s/node-%05u.1.node", dir, node);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, file, used) != (ssize_t)used || close(fd) < 0)
		bench_die("cannot write");
	return used;
}

static uint32_t read_all(uint32_t nodes, uint8_t *file, size_t room, struct nspy_arena *arena,
			 struct nspy_status *pages, uint32_t capacity)
{
	uint32_t count = 0;
	bool small = false;

	arena->used = 0;
	for (uint32_t node = 0; node < nodes; node++) {
		char path[128];
		ssize_t n;
		int fd;

		(void)snprintf(path, sizeof(path), "%s/node-%05u.1.node", dir, node);
		fd = open(path, O_RDONLY);
		n = fd < 0 ? -1 : read(fd, file, room);
		if (n <= 0)
			bench_die("cannot read");
		close(fd);
		count += nspy_board_decode(file, (size_t)n, arena, &pages[count], capacity - count,
					   &small);
	}
	if (small)
		bench_die("too little memory");
	return count;
}

static void judge(const struct nspy_status *pages, uint32_t count, struct nspy_arena *scratch)
{
	const struct nspy_limits limits = {.note_ns = 30 * S,
					   .hang_ns = 180 * S,
					   .start_ns = 600 * S,
					   .confirm_ns = S,
					   .warm_up_rounds = 20};

	scratch->used = 0;
	if (nspy_verdict_find(pages, count, NOW, &limits, scratch, &verdict) < 0)
		bench_die("too little memory");
	if (verdict.id == NSPY_FOUND_NONE &&
	    nspy_straggler_find(pages, count, NOW, scratch, &verdict) < 0)
		bench_die("too little memory");
	if (verdict.id != NSPY_FOUND_NONE)
		bench_die("a job that is well was blamed");
}

static void print(const char *what, uint32_t nodes, double value, const char *unit)
{
	char metric[64];

	(void)snprintf(metric, sizeof(metric), "board_%s_%u_nodes", what, nodes);
	bench_print("board", metric, value, unit, "");
}

static void measure(uint32_t nodes)
{
	uint32_t capacity = nodes * RANKS;
	struct nspy_status *pages = take(capacity * sizeof(*pages));
	struct nspy_arena arena = {.bytes = (size_t)capacity * 8192u + (1u << 20)};
	struct nspy_arena scratch = {.bytes = (size_t)64 << 20};
	uint8_t *file = take(RANKS * NSPY_STATUS_BYTES_MAX);
	double reading[TIMES], judging[TIMES];
	size_t total = 0;

	arena.base = take(arena.bytes);
	scratch.base = take(scratch.bytes);
	for (uint32_t node = 0; node < nodes; node++)
		total += write_node(node, nodes);
	for (uint32_t i = 0; i < TIMES; i++) {
		uint64_t begin = cpu_ns(), middle;
		uint32_t count = read_all(nodes, file, RANKS * NSPY_STATUS_BYTES_MAX, &arena, pages,
					  capacity);

		if (count != capacity)
			bench_die("pages are missing");
		middle = cpu_ns();
		judge(pages, count, &scratch);
		reading[i] = (double)(middle - begin) / 1e6;
		judging[i] = (double)(cpu_ns() - middle) / 1e6;
	}
	print("node_file", nodes, (double)total / nodes, "bytes");
	print("read", nodes, (double)total / BOARD_S, "bytes/s");
	print("pages", nodes, capacity / BOARD_S, "pages/s");
	print("written_by_a_node", nodes, (double)total / nodes / BOARD_S, "bytes/s");
	print("read_and_decode", nodes, bench_median(reading, TIMES), "ms of CPU");
	print("judge", nodes, bench_median(judging, TIMES), "ms of CPU");
	print("memory", nodes,
	      (double)(capacity * sizeof(*pages) + arena.used + scratch.used) / (1 << 20), "MiB");
	for (uint32_t node = 0; node < nodes; node++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/node-%05u.1.node", dir, node);
		(void)unlink(path);
	}
	free(pages);
	free(arena.base);
	free(scratch.base);
	free(file);
}

int main(int argc, char **argv)
{
	static const uint32_t usual[] = {64, 512, 2048};

	if (!mkdtemp(dir))
		bench_die("no directory");
	for (int i = 1; i < argc; i++) {
		unsigned long nodes = strtoul(argv[i], NULL, 10);

		if (nodes < 1 || nodes > 4096)
			bench_die("1 to 4096 nodes");
		measure((uint32_t)nodes);
	}
	for (size_t i = 0; argc < 2 && i < sizeof(usual) / sizeof(usual[0]); i++)
		measure(usual[i]);
	(void)rmdir(dir);
	return 0;
}
