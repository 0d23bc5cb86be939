/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

#define EXIT_USAGE    2
#define EXIT_INTERNAL 4

enum { OPT_JSON = 256, OPT_ROOT, OPT_AFTER, OPT_INTERVAL, OPT_NVML, OPT_TOOLS };

static const struct option long_options[] = {
	{"json", no_argument, NULL, OPT_JSON},
	{"root", required_argument, NULL, OPT_ROOT},
	{"after", required_argument, NULL, OPT_AFTER},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"nvml", required_argument, NULL, OPT_NVML},
	{"tools", no_argument, NULL, OPT_TOOLS},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-snapshot [OPTION]...\n"
	      "       ncclspy-snapshot compare [--json] FILE.json FILE.json...\n"
	      "\n"
	      "Says in what state this host is, as far as it concerns NCCL: GPUs, network cards,\n"
	      "limits, memory, file systems, clock, versions. Reads only, needs no root, and says\n"
	      "what it could not read. 'compare' shows where nodes differ.\n"
	      "\n"
	      "Options:\n"
	      "      --json          machine-readable output\n"
	      "      --interval SEC  time between two readings of counters (default: 1)\n"
	      "      --tools         also ask nvidia-smi, fi_info, lspci and lfs (10 s each)\n"
	      "      --nvml FILE     load this instead of libnvidia-ml.so.1\n"
	      "      --root DIR      read a recorded tree instead of this host\n"
	      "      --after DIR     with --root: tree for the second reading of counters\n"
	      "  -V, --version       show the version and exit\n"
	      "  -h, --help          show this help and exit\n"
	      "\n"
	      "Exit status: 0 the snapshot is complete, whatever it says; compare: 1 nodes "
	      "differ;\n"
	      "2 usage, 3 a file of compare cannot be read, 4 internal error.\n",
	      out);
}

static int bad_usage(void)
{
	fputs("Try 'ncclspy-snapshot --help'.\n", stderr);
	return EXIT_USAGE;
}

static bool set_option(struct snap *s, int opt, const char *value)
{
	double seconds;
	char *end;

	switch (opt) {
	case OPT_ROOT:
		s->root = strcmp(value, "/") == 0 ? "" : value;
		return strlen(value) < SNAP_PATH_MAX;
	case OPT_AFTER:
		s->after = value;
		return strlen(value) < SNAP_PATH_MAX;
	case OPT_NVML:
		s->nvml = value;
		return true;
	default:
		seconds = strtod(value, &end);
		s->interval_ms = seconds >= 0 && seconds <= 3600 ? (unsigned)(seconds * 1000) : 0;
		return end != value && !*end && seconds >= 0 && seconds <= 3600;
	}
}

static int take(struct snap *s, bool json)
{
	struct snap_counters *counters = snap_counters_begin(s);
	int rc = 0;

	snap_host(s);
	snap_memory(s);
	snap_mounts(s);
	snap_kernel_log(s);
	snap_net(s);
	snap_gpu(s);
	if (s->tools)
		snap_probes(s);
	snap_counters_end(s, counters);
	if (json)
		rc = snap_print_json(s, stdout);
	else
		snap_print(s, stdout);
	snap_done(s);
	return rc < 0 || fflush(stdout) != 0 ? EXIT_INTERNAL : 0;
}

int main(int argc, char **argv)
{
	struct snap s = {.root = "", .nvml = "libnvidia-ml.so.1", .interval_ms = 1000};
	bool compare = argc > 1 && strcmp(argv[1], "compare") == 0, json = false;
	int opt;

	argc -= compare;
	argv += compare;
	while ((opt = getopt_long(argc, argv, "hV", long_options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return 0;
		}
		if (opt == 'V') {
			puts("ncclspy-snapshot " NSPY_VERSION);
			return 0;
		}
		if (opt == OPT_JSON) {
			json = true;
		} else if (opt == OPT_TOOLS && !compare) {
			s.tools = true;
		} else if (opt == '?') {
			return bad_usage();
		} else if (compare || !set_option(&s, opt, optarg)) {
			fprintf(stderr, "ncclspy-snapshot: bad option or value '%s'\n", optarg);
			return bad_usage();
		}
	}
	if (compare && argc - optind >= 2)
		return snap_compare(argv + optind, (size_t)(argc - optind), json);
	if (compare || optind < argc || (s.after && !*s.root)) {
		fputs(compare ? "ncclspy-snapshot: compare needs two files or more\n"
			      : "ncclspy-snapshot: wrong arguments\n",
		      stderr);
		return bad_usage();
	}
	return take(&s, json);
}
