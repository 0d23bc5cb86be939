/* SPDX-License-Identifier: Apache-2.0 */
/* Live pages of processes that still run or died a moment ago, and whether they run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "load.h"
#include "source.h"
#include "trace_live.h"
#include "trace_salvage.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

bool nspy_proc_is_local(const struct nspy_proc *proc)
{
	const char *theirs = nspy_proc_fact(proc, "boot_id");
	char *ours;
	bool local;

	if (proc->summary) /* whether it was where the summary was made */
		return proc->life != NSPY_LIFE_UNKNOWN;
	ours = nspy_read_text(BOOT_ID_PATH, 64);

	if (ours)
		ours[strcspn(ours, "\n")] = '\0';
	local = theirs && ours && strcmp(theirs, ours) == 0;
	free(ours);
	return local;
}

static bool same_pid_namespace(const struct nspy_proc *proc)
{
	const char *fact = nspy_proc_fact(proc, "pidns");
	uint64_t theirs, ours;

	return fact && nspy_parse_u64(fact, &theirs) && nspy_pid_namespace(&ours) == 0 &&
	       theirs == ours;
}

bool nspy_proc_alive(const struct nspy_proc *proc)
{
	const char *fact = nspy_proc_fact(proc, "starttime");
	uint64_t theirs, ticks;

	if (proc->summary)
		return proc->life == NSPY_LIFE_ALIVE;
	return proc->pid > 0 && nspy_proc_is_local(proc) && same_pid_namespace(proc) && fact &&
	       nspy_parse_u64(fact, &theirs) &&
	       nspy_process_starttime((uint64_t)proc->pid, &ticks) == 0 && ticks == theirs;
}

/* The original on this host's shared memory: only if it belongs to whoever owns the trace. */
static int open_original(const struct nspy_proc *proc, struct nspy_live **ret_live,
			 const char **ret_path)
{
	const char *path = nspy_proc_fact(proc, "live.path");
	struct stat live, trace;
	int rc;

	if (proc->summary || !path || path[0] != '/' || proc->file_count == 0 ||
	    !nspy_proc_is_local(proc))
		return -ENOENT;
	if (lstat(path, &live) < 0 || !S_ISREG(live.st_mode) ||
	    stat(proc->files[0].path, &trace) < 0 || live.st_uid != trace.st_uid)
		return -ENOENT;
	rc = nspy_live_open(path, ret_live);
	if (rc == 0)
		*ret_path = path;
	return rc;
}

int nspy_load_live(const struct nspy_proc *proc, struct nspy_live **ret_live, const char **ret_path)
{
	struct nspy_live_info info;
	struct nspy_live *live;
	int rc;

	for (size_t i = 0; i < proc->file_count; i++) {
		if (proc->files[i].kind != NSPY_FILE_LIVE)
			continue;
		rc = nspy_input_live(&proc->files[i], ret_live);
		if (rc == 0)
			*ret_path = proc->files[i].path;
		return rc;
	}
	rc = open_original(proc, &live, ret_path);
	if (rc < 0)
		return rc;
	nspy_live_info(live, &info);
	if (info.run_id != proc->run_id) { /* the name was taken over by a later process */
		nspy_live_free(live);
		return -ENOENT;
	}
	*ret_live = live;
	return 0;
}
