/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vendors' own programs tell, where they are installed and the user has asked for it: how
 * GPUs and network cards are joined (nvidia-smi), what libfabric offers (fi_info), access control
 * of the PCI bus (lspci), the servers of a Lustre file system (lfs). Each only reads; one that
 * hangs costs its time limit.
 *
 * Source of facts: outputs of nvidia-smi topo -m, fi_info of libfabric 1.9 to 2.x, lspci of
 * pciutils 3.x and lfs df of Lustre 2.x.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "snapshot.h"

#define OUTPUT_MAX    (4u << 20)
#define GPUS_MAX      32u
#define COLUMNS_MAX   128u
#define FULL_PERCENT  90
#define RECORDED_PART "/ncclspy-tools/"

/* One after the other. */
struct lines {
	char *next;
};

static char *line_of(struct lines *lines)
{
	char *line = lines->next, *end;

	if (!line || !*line)
		return NULL;
	end = strchr(line, '\n');
	lines->next = end ? end + 1 : NULL;
	if (end)
		*end = '\0';
	return line;
}

static bool installed(const char *name)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t bytes = strcspn(path, ":");
		char full[SNAP_PATH_MAX];

		if (bytes && bytes < 512 &&
		    snprintf(full, sizeof(full), "%.*s/%s", (int)bytes, path, name) > 0 &&
		    access(full, X_OK) == 0)
			return true;
		path += bytes + (path[bytes] == ':');
	}
	return false;
}

static void run(int fd, const void *arg)
{
	char *const *argv = (char *const *)arg; /* execvp changes none */
	int none = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (none < 0 || dup2(none, 0) < 0 || dup2(fd, 1) < 0 || dup2(none, 2) < 0)
		_exit(127);
	setenv("LC_ALL", "C", 1);
	execvp(argv[0], argv);
	_exit(127);
}

/* What argv[0] printed, "" if nothing; NULL if it was not asked, which is said. Caller frees. */
static char *output_of(struct snap *s, const char *const *argv)
{
	char *text = malloc(OUTPUT_MAX + 1);
	ssize_t got;

	if (!text)
		return NULL;
	if (*s->root) {
		got = snap_read(s, text, OUTPUT_MAX, RECORDED_PART "%s", argv[0]);
		if (got < 0)
			snap_missing(s, "%s: not recorded", argv[0]);
	} else if (!installed(argv[0])) {
		got = -ENOENT;
		snap_missing(s, "%s: not installed", argv[0]);
	} else {
		got = snap_child(run, argv, text, OUTPUT_MAX, SNAP_TOOL_DEADLINE_MS);
		if (got == -ETIMEDOUT)
			snap_missing(s, "%s: no answer within %d s", argv[0],
				     SNAP_TOOL_DEADLINE_MS / 1000);
		else if (got < 0)
			snap_missing(s, "%s: cannot be run", argv[0]);
	}
	if (got < 0) {
		free(text);
		return NULL;
	}
	text[got] = '\0';
	return text;
}

/* --- nvidia-smi topo -m --- */

struct topo {
	unsigned gpus;
	char link[GPUS_MAX][GPUS_MAX][8];
	char nearest_nic[GPUS_MAX][8];
};

/* From near to far; NV# is before all of them. */
static int distance(const char *link)
{
	static const char *const order[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};

	for (int i = 0; i < 5; i++)
		if (strcmp(link, order[i]) == 0)
			return i;
	return 5;
}

/* The cells of a line, without escape sequences and blanks around them. */
static size_t cells_of(char *line, char **cells, size_t max)
{
	size_t count = 0;
	char *save = NULL;

	for (char *cell = strtok_r(line, "\t", &save); cell && count < max;
	     cell = strtok_r(NULL, "\t", &save)) {
		char *end;

		while (*cell == '\033') {
			cell++;
			cell += strspn(cell, "[0123456789;");
			cell += *cell == 'm';
		}
		cell += strspn(cell, " ");
		end = cell + strcspn(cell, " \033\r");
		*end = '\0';
		if (*cell)
			cells[count++] = cell;
	}
	return count;
}

static bool numbered(const char *name, const char *prefix)
{
	return snap_starts(name, prefix) && isdigit((unsigned char)name[strlen(prefix)]);
}

static void copy_link(char *to, const char *from)
{
	snprintf(to, 8, "%.7s", from);
}

static void topo_row(struct topo *topo, char **heads, size_t heads_count, char **cells,
		     size_t count)
{
	unsigned row = (unsigned)strtoul(cells[0] + 3, NULL, 10), column = 0;

	if (row >= topo->gpus)
		return;
	for (size_t i = 0; i < heads_count && i + 1 < count; i++) {
		const char *link = cells[i + 1];

		if (numbered(heads[i], "GPU")) {
			if (column < topo->gpus)
				copy_link(topo->link[row][column++], link);
		} else if (!*topo->nearest_nic[row] ||
			   distance(link) < distance(topo->nearest_nic[row])) {
			copy_link(topo->nearest_nic[row], link);
		}
	}
}

static void read_topo(struct topo *topo, char *text)
{
	struct lines lines = {text};
	char *heads[COLUMNS_MAX], *cells[COLUMNS_MAX], *line;
	size_t heads_count = 0, count;

	while ((line = line_of(&lines))) {
		count = cells_of(line, cells, COLUMNS_MAX);
		if (!count || !numbered(cells[0], "GPU"))
			continue;
		if (heads_count) {
			topo_row(topo, heads, heads_count, cells, count);
			continue;
		}
		/* The first such line is the heading: GPUs and cards, then affinities. */
		while (heads_count < count &&
		       (numbered(cells[heads_count], "GPU") ||
			numbered(cells[heads_count], "NIC") || strchr(cells[heads_count], '_'))) {
			topo->gpus += numbered(cells[heads_count], "GPU");
			heads[heads_count] = cells[heads_count];
			heads_count++;
		}
		if (topo->gpus > GPUS_MAX)
			topo->gpus = GPUS_MAX;
	}
}

struct tally {
	char link[16][8];
	unsigned times[16];
	size_t count;
};

static void tally_add(struct tally *tally, const char *link)
{
	size_t i = 0;

	while (i < tally->count && strcmp(tally->link[i], link) != 0)
		i++;
	if (i == 16)
		return;
	if (i == tally->count) {
		copy_link(tally->link[i], link);
		tally->times[tally->count++] = 0;
	}
	tally->times[i]++;
}

static void tally_fact(struct snap *s, const char *key, struct tally *tally)
{
	char text[16 * 24] = "";
	size_t used = 0;

	while (used < sizeof(text)) {
		size_t best = 0;

		for (size_t i = 1; i < tally->count; i++)
			if (tally->times[i] > tally->times[best])
				best = i;
		if (!tally->count || !tally->times[best])
			break;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u x %s",
					 used ? ", " : "", tally->times[best], tally->link[best]);
		tally->times[best] = 0;
	}
	if (used)
		snap_fact(s, SNAP_STABLE, key, "%s", text);
}

/* All others reach each other by NVLink and this one nobody: not a kind of machine, a fault. */
static void judge_topo(struct snap *s, const struct topo *topo)
{
	unsigned alone[GPUS_MAX] = {0}, outsider = GPUS_MAX, outsiders = 0, bare_pairs = 0;

	for (unsigned a = 0; a < topo->gpus; a++) {
		for (unsigned b = 0; b < topo->gpus; b++) {
			if (a == b || numbered(topo->link[a][b], "NV"))
				continue;
			alone[a]++;
			bare_pairs++;
		}
	}
	for (unsigned a = 0; a < topo->gpus; a++) {
		if (alone[a] == topo->gpus - 1) {
			outsider = a;
			outsiders++;
		}
	}
	if (outsiders == 1 && topo->gpus >= 4 && bare_pairs == 2 * (topo->gpus - 1))
		snap_check(s, SNAP_CONCERN, "GPU_HEALTH",
			   "GPU %u reaches no other GPU by NVLink; the other %u reach each other",
			   outsider, topo->gpus - 1);
}

static void ask_topology(struct snap *s)
{
	const char *const argv[] = {"nvidia-smi", "topo", "-m", NULL};
	char *text = output_of(s, argv);
	struct tally pairs = {0}, nics = {0};
	struct topo topo = {0};

	if (!text)
		return;
	read_topo(&topo, text);
	free(text);
	for (unsigned a = 0; a < topo.gpus; a++) {
		for (unsigned b = a + 1; b < topo.gpus; b++)
			tally_add(&pairs, topo.link[a][b]);
		if (*topo.nearest_nic[a])
			tally_add(&nics, topo.nearest_nic[a]);
	}
	if (!topo.gpus)
		snap_missing(s, "nvidia-smi: shows no topology");
	tally_fact(s, "gpu.links", &pairs);
	tally_fact(s, "gpu.nearest_nic", &nics);
	judge_topo(s, &topo);
}

/* --- fi_info --- */

static void ask_libfabric(struct snap *s)
{
	const char *const ask_version[] = {"fi_info", "--version", NULL};
	const char *const ask_efa[] = {"fi_info", "-p", "efa", "-t", "FI_EP_RDM", NULL};
	char *text = output_of(s, *s->root ? ask_efa : ask_version), *line;
	const char *domain = "";
	struct lines lines = {text};
	unsigned domains = 0;

	if (!text)
		return;
	if (!*s->root) {
		while ((line = line_of(&lines)))
			if (snap_starts(line, "libfabric: "))
				snap_fact(s, SNAP_STABLE, "libfabric.version", "%s", line + 11);
		free(text);
		text = output_of(s, ask_efa);
		lines.next = text;
		if (!text)
			return;
	}
	while ((line = line_of(&lines))) {
		line += strspn(line, " ");
		if (!snap_starts(line, "domain: ") || strcmp(line, domain) == 0)
			continue;
		domain = line;
		domains++;
	}
	snap_fact(s, SNAP_STABLE, "efa.domains", "%u", domains);
	if (!domains && snap_get(s, "module.efa") && snap_get(s, "rdma.devices"))
		snap_check(s, SNAP_CONCERN, "EFA_PROVIDER_UNAVAILABLE",
			   "fi_info -p efa finds nothing, though the driver is loaded and there "
			   "are %s RDMA devices",
			   snap_get(s, "rdma.devices"));
	free(text);
}

/* --- lspci: access control --- */

static bool virtual_machine(const struct snap *s)
{
	static char text[1 << 16];

	return snap_read(s, text, sizeof(text), "/proc/cpuinfo") > 0 && strstr(text, " hypervisor");
}

static void ask_access_control(struct snap *s)
{
	const char *const argv[] = {"lspci", "-vvv", NULL};
	char *text = output_of(s, argv), *line;
	struct lines lines = {text};
	unsigned on = 0, told = 0;
	bool refused = false;

	if (!text)
		return;
	while ((line = line_of(&lines))) {
		refused |= strstr(line, "Capabilities: <access denied>") != NULL;
		told += strstr(line, "ACSCtl:") != NULL;
		on += strstr(line, "ACSCtl:") && strstr(line, "SrcValid+");
	}
	free(text);
	if (refused && !told) {
		snap_missing(s, "PCI access control: lspci shows it to root only");
		return;
	}
	snap_fact(s, SNAP_STABLE, "pci.access_control", "%u of %u", on, told);
	/* A guest's bus is not the host's, and in one it is no choice. */
	if (on && snap_get(s, "gpu.on_bus"))
		snap_check(s, virtual_machine(s) ? SNAP_INFO : SNAP_CONCERN,
			   virtual_machine(s) ? NULL : "P2P_DISABLED",
			   "PCI access control is on at %u bridges or functions: what GPUs and "
			   "cards send each other over PCIe goes by way of the CPU",
			   on);
}

/* --- lfs df: each server of a Lustre file system --- */

static bool has_lustre(const struct snap *s)
{
	for (size_t i = 0; i < s->fact_count; i++)
		if (snap_starts(s->facts[i].key, "mount.type:") &&
		    strcmp(s->facts[i].value, "lustre") == 0)
			return true;
	return false;
}

/* "fsx-OST0001_UUID  1000  950  50  95% /fsx[OST:1]" or "OST0001 : inactive device" */
static void judge_target(struct snap *s, const char *line, int *fullest)
{
	const char *percent = strchr(line, '%'), *colon = strstr(line, " : ");
	char name[64];
	int used;

	if (sscanf(line, "%63s", name) != 1 || !(strstr(name, "OST") || strstr(name, "MDT")))
		return;
	if (!percent && colon) {
		snap_check(s, SNAP_CONCERN, "MOUNT_UNRESPONSIVE", "Lustre's %s:%.100s", name,
			   colon + 2);
		return;
	}
	while (percent && percent > line && isdigit((unsigned char)percent[-1]))
		percent--;
	used = percent ? (int)strtol(percent, NULL, 10) : 0;
	if (used > *fullest)
		*fullest = used;
	if (used >= FULL_PERCENT)
		snap_check(s, SNAP_CONCERN, "DISK_OR_INODE_FULL",
			   "Lustre's %s is %d %% full: files that lie on it cannot grow, whatever "
			   "df shows",
			   name, used);
}

static void ask_lustre(struct snap *s)
{
	const char *const argv[] = {"lfs", "df", NULL};
	char *text = has_lustre(s) ? output_of(s, argv) : NULL, *line;
	struct lines lines = {text};
	int fullest = -1;

	while ((line = line_of(&lines)))
		judge_target(s, line, &fullest);
	if (fullest >= 0)
		snap_fact(s, SNAP_MEASURED, "lustre.fullest_percent", "%d", fullest);
	free(text);
}

void snap_probes(struct snap *s)
{
	ask_topology(s);
	ask_libfabric(s);
	ask_access_control(s);
	ask_lustre(s);
}
