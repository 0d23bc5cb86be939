/* SPDX-License-Identifier: Apache-2.0 */
/* Who the host is, its CPUs, kernel, clock, and settings that NCCL's shared memory depends on. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/timex.h>
#include <unistd.h>

#include "snapshot.h"

/* --- identity --- */

static void take_stable(struct snap *s, const char *key, const char *path)
{
	char text[512];

	if (snap_read(s, text, sizeof(text), "%s", path) > 0) {
		text[strcspn(text, "\n")] = '\0';
		snap_fact(s, SNAP_STABLE, key, "%s", text);
	}
}

static void identity(struct snap *s)
{
	char text[4096];

	if (snap_read(s, text, sizeof(text), "/proc/sys/kernel/hostname") > 0)
		snap_fact(s, SNAP_IDENTITY, "host.name", "%s", text);
	if (snap_read(s, text, sizeof(text), "/sys/devices/virtual/dmi/id/board_asset_tag") > 0)
		snap_fact(s, SNAP_IDENTITY, "host.asset", "%s", text);
	take_stable(s, "host.vendor", "/sys/devices/virtual/dmi/id/sys_vendor");
	take_stable(s, "host.product", "/sys/devices/virtual/dmi/id/product_name");
	take_stable(s, "kernel.release", "/proc/sys/kernel/osrelease");
	s->container = snap_exists(s, "/.dockerenv") || snap_exists(s, "/run/.containerenv") ||
		       snap_exists(s, "/var/run/secrets/kubernetes.io") ||
		       (snap_read(s, text, sizeof(text), "/proc/1/cgroup") > 0 &&
			(strstr(text, "kubepods") || strstr(text, "docker") ||
			 strstr(text, "containerd")));
}

/* --- CPUs --- */

static void governors(struct snap *s, const struct snap_names *cpus)
{
	char text[64], odd[64] = "";
	size_t count = 0, other = 0;

	for (size_t i = 0; i < cpus->count; i++) {
		if (!snap_starts(cpus->name[i], "cpu") || !isdigit((unsigned char)cpus->name[i][3]))
			continue;
		if (snap_read(s, text, sizeof(text),
			      "/sys/devices/system/cpu/%s/cpufreq/scaling_governor",
			      cpus->name[i]) <= 0)
			continue;
		count++;
		if (strcmp(text, "performance") != 0) {
			other++;
			snprintf(odd, sizeof(odd), "%s", text);
		}
	}
	if (!count) {
		snap_missing(s, "CPU frequency governor: no cpufreq here (usual in virtual "
				"machines)");
		return;
	}
	snap_fact(s, SNAP_STABLE, "cpu.governor", "%s", other ? odd : "performance");
	if (other)
		snap_check(s, SNAP_CONCERN, "CPU_GOVERNOR",
			   "CPU frequency governor is '%s' on %zu of %zu CPUs, not performance",
			   odd, other, count);
	else
		snap_check(s, SNAP_OK, NULL,
			   "CPU frequency governor is performance on all %zu CPUs", count);
}

static void cpus(struct snap *s)
{
	struct snap_names names;
	char text[4096];
	int rc = snap_list(s, "/sys/devices/system/cpu", &names);

	if (rc < 0) {
		snap_missing(s, "CPUs: /sys/devices/system/cpu: %s", strerror(-rc));
		return;
	}
	governors(s, &names);
	snap_names_done(&names);
	take_stable(s, "cpu.online", "/sys/devices/system/cpu/online");
	if (snap_read(s, text, sizeof(text), "/sys/devices/system/cpu/smt/active") > 0) {
		snap_fact(s, SNAP_STABLE, "cpu.smt", "%s", strcmp(text, "1") == 0 ? "on" : "off");
		snap_check(s, SNAP_INFO, NULL, "hyper-threading is %s",
			   strcmp(text, "1") == 0 ? "on" : "off");
	}
	rc = snap_list(s, "/sys/devices/system/node", &names);
	if (rc < 0 || names.count == 0)
		snap_check(s, SNAP_INFO, NULL,
			   "NUMA nodes are not visible: NCCL cannot place host memory "
			   "(NCCL_CUMEM_HOST_ENABLE=0 avoids errors)");
	if (rc == 0)
		snap_names_done(&names);
}

/* --- kernel --- */

static void iommu(struct snap *s)
{
	char text[4096], *word, *save = NULL;
	struct snap_names names;
	bool on = snap_list(s, "/sys/class/iommu", &names) == 0 && names.count > 0;

	if (snap_read(s, text, sizeof(text), "/proc/cmdline") > 0) {
		for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
			if (strstr(word, "iommu"))
				snap_fact(s, SNAP_STABLE, "kernel.iommu", "%s", word);
		}
	}
	if (on)
		snap_check(s, SNAP_INFO, NULL,
			   "an IOMMU is active: GPUs without NVLink may have to go through host "
			   "memory");
	snap_names_done(&names);
}

static void clock_sync(struct snap *s)
{
	unsigned long long recorded[2];
	struct timex timex = {0};
	int state;

	if (*s->root) {
		if (!snap_recorded(s, "adjtimex", recorded, 2)) {
			snap_missing(s, "time synchronisation: not recorded");
			return;
		}
		timex.status = (int)recorded[0];
		timex.maxerror = (long)recorded[1];
		state = 0;
	} else {
		state = adjtimex(&timex);
	}
	if (state < 0) {
		snap_missing(s, "time synchronisation: adjtimex: %s", strerror(errno));
		return;
	}
	snap_fact(s, SNAP_MEASURED, "clock.max_error_us", "%ld", timex.maxerror);
	snap_fact(s, SNAP_STABLE, "clock.synchronised", "%s",
		  timex.status & STA_UNSYNC ? "no" : "yes");
	if (timex.status & STA_UNSYNC)
		snap_check(s, SNAP_CONCERN, "CLOCK_UNSYNCHRONISED",
			   "the kernel says that nothing synchronises its clock (maximal error "
			   "%.1f s)",
			   (double)timex.maxerror / 1e6);
	else
		snap_check(s, SNAP_OK, NULL, "the clock is synchronised (maximal error %.1f ms)",
			   (double)timex.maxerror / 1e3);
}

/* --- logind --- */

/* The last assignment counts, as systemd reads its files. */
static void remove_ipc_in(const char *text, char *value, size_t bytes)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += strspn(line, "\n \t");
		if (snap_starts(line, "RemoveIPC=")) {
			line += strlen("RemoveIPC=");
			snprintf(value, bytes, "%.*s", (int)strcspn(line, " \t\r\n#"), line);
		}
	}
}

static bool is_yes(const char *value)
{
	return strcasecmp(value, "yes") == 0 || strcasecmp(value, "true") == 0 ||
	       strcasecmp(value, "on") == 0 || strcmp(value, "1") == 0;
}

static void remove_ipc(struct snap *s)
{
	static const char *const folders[] = {"/usr/lib/systemd/logind.conf.d",
					      "/run/systemd/logind.conf.d",
					      "/etc/systemd/logind.conf.d"};
	char text[16384], value[16] = "";
	bool seen = snap_read(s, text, sizeof(text), "/etc/systemd/logind.conf") >= 0;

	if (seen)
		remove_ipc_in(text, value, sizeof(value));
	for (size_t f = 0; f < 3; f++) {
		struct snap_names names;

		if (snap_list(s, folders[f], &names) < 0)
			continue;
		for (size_t i = 0; i < names.count; i++) {
			if (snap_read(s, text, sizeof(text), "%s/%s", folders[f], names.name[i]) >
			    0)
				remove_ipc_in(text, value, sizeof(value));
			seen = true;
		}
		snap_names_done(&names);
	}
	if (!seen) {
		snap_missing(s, "RemoveIPC of systemd-logind: no logind.conf here");
	} else if (!*value) {
		snap_check(
			s, SNAP_INFO, NULL,
			"RemoveIPC is not set: the distribution's default holds (upstream: yes)");
	} else {
		snap_fact(s, SNAP_STABLE, "logind.remove_ipc", "%s", value);
		if (is_yes(value))
			snap_check(s, SNAP_CONCERN, "REMOVE_IPC",
				   "systemd-logind removes shared memory of users who log out "
				   "(RemoveIPC=%s)",
				   value);
		else
			snap_check(s, SNAP_OK, NULL, "systemd-logind leaves shared memory alone");
	}
}

/* --- kernel log --- */

/* Numbers that stand for broken hardware, from NVIDIA's Xid document; the others need a look. */
static bool xid_is_hardware(long xid)
{
	static const short hardware[] = {46, 48, 61,  62,  63,  64,  74,  79,  92,
					 94, 95, 110, 119, 120, 136, 140, 143, 155};

	for (size_t i = 0; i < sizeof(hardware) / sizeof(hardware[0]); i++) {
		if (hardware[i] == xid)
			return true;
	}
	return false;
}

static void judge_xid(struct snap *s, const char *line, size_t bytes)
{
	const char *at = memmem(line, bytes, "NVRM: Xid (", 11), *colon;
	long xid;

	if (!at)
		return;
	colon = memmem(at, bytes - (size_t)(at - line), "): ", 3);
	if (!colon)
		return;
	xid = strtol(colon + 3, NULL, 10);
	snap_check(s, xid_is_hardware(xid) ? SNAP_CONCERN : SNAP_INFO, "GPU_XID",
		   "kernel log: Xid %ld%s: %.*s", xid,
		   xid_is_hardware(xid) ? " (hardware)" : " (may be the application's fault)",
		   (int)(bytes - (size_t)(at - line) > 160 ? 160 : bytes - (size_t)(at - line)),
		   at);
}

#define XID_LINES_MAX 8

void snap_kernel_log(struct snap *s)
{
	size_t limit = 4 << 20, lines = 0;
	char *text = malloc(limit);
	int got;

	if (!text)
		return;
	got = *s->root ? (int)snap_read(s, text, limit, "/dev/kmsg")
		       : klogctl(3 /* SYSLOG_ACTION_READ_ALL */, text, (int)limit - 1);
	if (got < 0) {
		snap_missing(s, "kernel log (Xid, OOM): %s",
			     *s->root ? "not recorded" : strerror(errno));
		free(text);
		return;
	}
	text[got] = '\0';
	for (char *line = text; *line;) {
		size_t bytes = strcspn(line, "\n");

		if (memmem(line, bytes, "NVRM: Xid (", 11) && lines++ < XID_LINES_MAX)
			judge_xid(s, line, bytes);
		line += bytes + (line[bytes] != '\0');
	}
	if (lines == 0)
		snap_check(s, SNAP_OK, NULL, "no Xid in the kernel log");
	if (lines > XID_LINES_MAX)
		snap_check(s, SNAP_INFO, NULL, "%zu more Xid lines in the kernel log",
			   lines - XID_LINES_MAX);
	free(text);
}

void snap_host(struct snap *s)
{
	identity(s);
	cpus(s);
	iommu(s);
	clock_sync(s);
	remove_ipc(s);
}
