/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trace_salvage.h"
#include "witness.h"

/* Signal state the command must start with, as if we were not there. */
struct inherited {
	sigset_t mask;
	struct sigaction child;
	struct sigaction pipe;
};

/*
 * Everything that can be sent from outside. Not the faults a process brings on itself, and not the
 * two that stop it for touching the terminal from the background.
 */
static void passed_on(sigset_t *ret)
{
	static const int own[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP,
				  SIGSYS,  SIGABRT, SIGTTIN, SIGTTOU, SIGPIPE};

	sigfillset(ret);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(ret, own[i]);
}

static int take_over_signals(struct inherited *ret_before, sigset_t *ret_signals)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	passed_on(ret_signals);
	if (sigprocmask(SIG_BLOCK, ret_signals, &ret_before->mask) < 0 ||
	    /* An inherited SIG_IGN would hide the child's end from us. */
	    sigaction(SIGCHLD, &standard, &ret_before->child) < 0 ||
	    sigaction(SIGPIPE, &ignore, &ret_before->pipe) < 0)
		return -errno;
	return 0;
}

static void give_back_signals(const struct inherited *before)
{
	(void)sigaction(SIGCHLD, &before->child, NULL);
	(void)sigaction(SIGPIPE, &before->pipe, NULL);
	(void)sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* In the child: becomes the command, or writes the reason to the pipe. */
_Noreturn static void become(char *const *command, const struct inherited *before, int error_fd,
			     pid_t launcher)
{
	int error;

	/* Whoever kills the launcher outright means the command. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != launcher)
		_exit(NSPY_RUN_FAILED);
	give_back_signals(before);
	(void)execvp(command[0], command);
	error = errno;
	if (write(error_fd, &error, sizeof(error)) != sizeof(error))
		_exit(NSPY_RUN_FAILED);
	_exit(NSPY_RUN_NOT_FOUND);
}

/* Waits until the child is the command (0) or could not become it (negative). */
static int await_exec(int error_fd)
{
	int error;
	ssize_t got;

	do {
		got = read(error_fd, &error, sizeof(error));
	} while (got < 0 && errno == EINTR);
	return got == sizeof(error) ? -error : 0;
}

static int start(char *const *command, const struct inherited *before, struct nspy_child *child)
{
	pid_t launcher = getpid();
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	child->pid = fork();
	if (child->pid == 0)
		become(command, before, ends[1], launcher);
	rc = child->pid < 0 ? -errno : 0;
	close(ends[1]);
	if (rc == 0) {
		(void)nspy_process_starttime((uint64_t)child->pid, &child->starttime);
		rc = await_exec(ends[0]);
		if (rc < 0)
			(void)waitpid(child->pid, NULL, 0);
	}
	close(ends[0]);
	return rc;
}

static uint64_t real_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note_end(struct nspy_child *child, int status)
{
	child->ended_real_ns = real_ns();
	child->status = status;
}

static bool stopped_by_job_control(int status)
{
	int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;

	return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/*
 * Collects whoever has ended; true when the command itself has. When job control has stopped the
 * command we stop as well, or its shell would wait for ever; "fg" and "bg" wake both.
 */
static bool collect(struct nspy_child *child)
{
	bool ended = false, stop = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0 ||
	       (pid < 0 && errno == EINTR)) {
		if (pid != child->pid)
			continue;
		stop = stopped_by_job_control(status);
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			note_end(child, status);
			ended = true;
		}
	}
	if (stop && !ended)
		(void)kill(getpid(), SIGSTOP);
	return ended;
}

/* Whether the command got this signal without our help. */
static bool reached(const struct nspy_child *child, struct nspy_witness *witness,
		    const siginfo_t *info)
{
	if (getpgid(child->pid) != getpgrp())
		return false;
	/* From the kernel: the terminal, which signals the whole group. */
	if (info->si_code == SI_KERNEL)
		return true;
	return nspy_witness_saw(witness, info);
}

/* The first time that somebody wants it to end; what it does about that is its own business. */
static void note_request(struct nspy_child *child, const siginfo_t *info)
{
	if (info->si_signo != SIGTERM || child->asked_real_ns)
		return;
	child->asked_real_ns = real_ns();
	child->asked_by = info->si_pid;
}

static void pass_on(struct nspy_child *child, struct nspy_witness *witness, const siginfo_t *info)
{
	note_request(child, info);
	if (!reached(child, witness, info))
		(void)kill(child->pid, info->si_signo);
}

static void await_end(struct nspy_child *child, const sigset_t *signals,
		      struct nspy_witness *witness)
{
	bool ended = collect(child);

	while (!ended) {
		siginfo_t info;
		int signal = sigwaitinfo(signals, &info);

		if (signal == SIGCHLD)
			ended = collect(child);
		else if (signal > 0)
			pass_on(child, witness, &info);
	}
}

int nspy_run_child(char *const *command, struct nspy_child *ret)
{
	struct nspy_child child = {0};
	struct nspy_witness witness;
	struct inherited before;
	sigset_t signals;
	int rc = take_over_signals(&before, &signals);

	if (rc < 0)
		return rc;
	/* First, so that it has seen whatever the command has seen. */
	(void)nspy_witness_start(&witness, &signals);
	rc = start(command, &before, &child);
	if (rc == 0) {
		await_end(&child, &signals, &witness);
		*ret = child;
	}
	nspy_witness_stop(&witness);
	return rc;
}

_Noreturn void nspy_end_like(int status)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	struct rlimit none = {0, 0};
	sigset_t deadly;
	int signal;

	if (!WIFSIGNALED(status))
		exit(WEXITSTATUS(status));
	signal = WTERMSIG(status);
	/* The command has left its core already. */
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)sigaction(signal, &standard, NULL);
	/* Only this one: another may be waiting, and must not win. */
	sigemptyset(&deadly);
	sigaddset(&deadly, signal);
	(void)sigprocmask(SIG_UNBLOCK, &deadly, NULL);
	(void)kill(getpid(), signal);
	/* Pid 1 cannot be killed from inside. */
	exit(128 + signal);
}
