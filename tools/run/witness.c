/* SPDX-License-Identifier: Apache-2.0 */
#include "witness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A signal sent process by process reaches us and the witness this far apart, not further. */
#define APART_NS 100000000u
#define MS_NS    1000000u

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Lets go of everything inherited, so that nobody waits for a pipe or a mount because of us. */
static int keep_only(int fd)
{
	DIR *open_files = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!open_files || chdir("/") < 0)
		return -errno;
	while ((entry = readdir(open_files))) {
		int other = (int)strtol(entry->d_name, NULL, 10);

		if (entry->d_name[0] != '.' && other != fd && other != dirfd(open_files))
			(void)close(other);
	}
	(void)closedir(open_files);
	return 0;
}

_Noreturn static void watch(int fd, const sigset_t *signals, pid_t launcher)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_NAME, "ncclspy-signals");
	if (keep_only(fd) < 0)
		_exit(1);
	while (getppid() == launcher) {
		struct nspy_sighting sighting = {0};
		siginfo_t info;

		sighting.signal = sigwaitinfo(signals, &info);
		sighting.sender = info.si_pid;
		sighting.when_ns = now_ns();
		if (sighting.signal > 0 && write(fd, &sighting, sizeof(sighting)) < 0)
			break;
	}
	_exit(0);
}

int nspy_witness_start(struct nspy_witness *witness, const sigset_t *signals)
{
	pid_t launcher = getpid();
	int ends[2];

	*witness = (struct nspy_witness){.fd = -1};
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	witness->pid = fork();
	if (witness->pid < 0) {
		int error = errno;

		close(ends[0]);
		close(ends[1]);
		witness->pid = 0;
		return -error;
	}
	if (witness->pid == 0)
		watch(ends[1], signals, launcher);
	close(ends[1]);
	witness->fd = ends[0];
	(void)fcntl(witness->fd, F_SETFL, O_NONBLOCK);
	return 0;
}

static void take_sightings(struct nspy_witness *witness)
{
	struct nspy_sighting sighting;
	ssize_t got;

	/* Each was written in one piece, so it is read in one. */
	while ((got = read(witness->fd, &sighting, sizeof(sighting))) == sizeof(sighting))
		witness->sightings[witness->count++ % NSPY_SIGHTINGS] = sighting;
	if (got == 0) {
		close(witness->fd);
		witness->fd = -1;
	}
}

static bool sighted(const struct nspy_witness *witness, const siginfo_t *info, uint64_t when_ns)
{
	for (int i = 0; i < NSPY_SIGHTINGS; i++) {
		const struct nspy_sighting *s = &witness->sightings[i];

		if (s->signal == info->si_signo && s->sender == info->si_pid &&
		    s->when_ns + APART_NS >= when_ns && when_ns + APART_NS >= s->when_ns)
			return true;
	}
	return false;
}

bool nspy_witness_saw(struct nspy_witness *witness, const siginfo_t *info)
{
	uint64_t when_ns = now_ns();

	for (;;) {
		struct pollfd ready = {.fd = witness->fd, .events = POLLIN};
		uint64_t passed_ns = now_ns() - when_ns;

		if (sighted(witness, info, when_ns))
			return true;
		if (witness->fd < 0 || passed_ns >= APART_NS)
			return false;
		if (poll(&ready, 1, (int)((APART_NS - passed_ns) / MS_NS) + 1) > 0)
			take_sightings(witness);
	}
}

void nspy_witness_stop(struct nspy_witness *witness)
{
	if (witness->pid > 0) {
		(void)kill(witness->pid, SIGKILL);
		while (waitpid(witness->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	if (witness->fd >= 0)
		close(witness->fd);
	*witness = (struct nspy_witness){.fd = -1};
}
