/* SPDX-License-Identifier: Apache-2.0 */
/* What moves: error counters of RDMA ports and the CPUs' waiting for I/O, read twice. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "snapshot.h"

#define IOWAIT_SHARE 0.2

struct counter {
	char path[SNAP_PATH_MAX / 2];
	unsigned long long value;
};

struct snap_counters {
	struct counter *items;
	size_t count, capacity;
	unsigned long long cpu_total, cpu_iowait;
	bool has_cpu;
};

/* From Documentation/ABI/stable/sysfs-class-infiniband, and the efa driver's. */
static const char *const names[] = {
	"counters/port_rcv_errors",
	"counters/port_xmit_discards",
	"counters/symbol_error",
	"counters/link_downed",
	"counters/link_error_recovery",
	"counters/local_link_integrity_errors",
	"counters/excessive_buffer_overrun_errors",
	"hw_counters/rx_drops",
	"hw_counters/rdma_read_wr_err",
	"hw_counters/rdma_write_wr_err",
	"hw_counters/unresponsive_remote_events",
	"hw_counters/impaired_remote_conn_events",
	"hw_counters/packet_seq_err",
};

static bool read_cpu(const char *root, unsigned long long *ret_total,
		     unsigned long long *ret_iowait)
{
	char text[4096], *at;

	*ret_total = *ret_iowait = 0;
	if (snap_read_at(root, "/proc/stat", text, sizeof(text)) <= 0 || !snap_starts(text, "cpu "))
		return false;
	at = text + 4;
	/* user nice system idle iowait irq softirq steal */
	for (int i = 0; i < 8; i++) {
		unsigned long long value = strtoull(at, &at, 10);

		*ret_total += value;
		if (i == 4)
			*ret_iowait = value;
	}
	return true;
}

static void add_port(const struct snap *s, struct snap_counters *c, const char *port)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct counter counter;
		char text[64];

		snprintf(counter.path, sizeof(counter.path), "%.400s/%s", port, names[i]);
		if (snap_read_at(s->root, counter.path, text, sizeof(text)) <= 0)
			continue;
		counter.value = strtoull(text, NULL, 10);
		c->items = snap_grow(c->items, c->count, &c->capacity, sizeof(*c->items));
		c->items[c->count++] = counter;
	}
}

struct snap_counters *snap_counters_begin(const struct snap *s)
{
	struct snap_counters *c = calloc(1, sizeof(*c));
	struct snap_names devices, ports;

	if (!c)
		return NULL;
	c->has_cpu = read_cpu(s->root, &c->cpu_total, &c->cpu_iowait);
	if (snap_list(s, "/sys/class/infiniband", &devices) < 0)
		return c;
	for (size_t d = 0; d < devices.count; d++) {
		char folder[400], port[SNAP_PATH_MAX / 2];

		snprintf(folder, sizeof(folder), "/sys/class/infiniband/%.200s/ports",
			 devices.name[d]);
		if (snap_list(s, folder, &ports) < 0)
			continue;
		for (size_t p = 0; p < ports.count; p++) {
			snprintf(port, sizeof(port), "%s/%.40s", folder, ports.name[p]);
			add_port(s, c, port);
		}
		snap_names_done(&ports);
	}
	snap_names_done(&devices);
	return c;
}

static void judge_iowait(struct snap *s, const struct snap_counters *c, const char *root)
{
	unsigned long long total, iowait;
	double share;

	if (!c->has_cpu || !read_cpu(root, &total, &iowait)) {
		snap_missing(s, "waiting for I/O: /proc/stat cannot be read");
		return;
	}
	if (total <= c->cpu_total || iowait < c->cpu_iowait)
		return; /* no time went by */
	share = (double)(iowait - c->cpu_iowait) / (double)(total - c->cpu_total);
	snap_fact(s, SNAP_MEASURED, "cpu.iowait_percent", "%.0f", share * 100);
	snap_check(s, share > IOWAIT_SHARE ? SNAP_CONCERN : SNAP_OK,
		   share > IOWAIT_SHARE ? "HOST_IOWAIT_HIGH" : NULL,
		   "CPUs waited for I/O %.0f %% of the time", share * 100);
}

static void judge_counter(struct snap *s, const struct counter *counter, const char *root,
			  size_t *ret_rising)
{
	const char *name = counter->path + strlen("/sys/class/infiniband/");
	unsigned long long now;
	char text[64];

	if (snap_read_at(root, counter->path, text, sizeof(text)) <= 0)
		return;
	now = strtoull(text, NULL, 10);
	if (now > counter->value) {
		snap_check(s, SNAP_CONCERN, "NIC_PORT_ERRORS", "%s rose by %llu to %llu", name,
			   now - counter->value, now);
		++*ret_rising;
	} else if (now) {
		snap_check(s, SNAP_INFO, NULL, "%s is %llu, not rising now", name, now);
	}
	if (now)
		snap_fact(s, SNAP_MEASURED, name, "%llu", now);
}

void snap_counters_end(struct snap *s, struct snap_counters *c)
{
	const char *root = s->after ? s->after : s->root;
	size_t rising = 0;

	if (!c)
		return;
	if (!s->after)
		usleep(s->interval_ms * 1000);
	judge_iowait(s, c, root);
	for (size_t i = 0; i < c->count; i++)
		judge_counter(s, &c->items[i], root, &rising);
	if (c->count && !rising)
		snap_check(s, SNAP_OK, NULL, "no error counter of an RDMA port rose in %.1f s",
			   s->interval_ms / 1000.0);
	free(c->items);
	free(c);
}
