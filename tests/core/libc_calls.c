/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the C library that ncclspy passes on, with outcomes of every kind, written out in full.
 * Run with and without the preload: the output must be the same to the letter.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void show(const char *what, long ret)
{
	printf("%s: %ld, errno %d\n", what, ret, errno);
	errno = 4242; /* whoever does not touch it leaves this */
}

static struct sockaddr_in local(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static void try_bind_and_connect(void)
{
	struct sockaddr_in address = local(0), taken;
	struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "/nowhere/at/all"};
	socklen_t bytes = sizeof(taken);
	int holder = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	int error = 4242;

	show("bind", bind(holder, (struct sockaddr *)&address, sizeof(address)));
	show("listen", listen(holder, 4));
	(void)getsockname(holder, (struct sockaddr *)&taken, &bytes);
	show("bind taken", bind(fd, (struct sockaddr *)&taken, sizeof(taken)));
	show("bind short", bind(fd, (struct sockaddr *)&taken, 3));
	show("bind no descriptor", bind(-1, (struct sockaddr *)&taken, sizeof(taken)));
	show("connect", connect(fd, (struct sockaddr *)&taken, sizeof(taken)));
	show("connect again", connect(fd, (struct sockaddr *)&taken, sizeof(taken)));
	bytes = sizeof(error);
	show("getsockopt", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes));
	printf("%d, %u bytes\n", error, bytes);
	show("getsockopt bad", getsockopt(fd, SOL_SOCKET, 99999, &error, &bytes));
	show("getsockopt no memory", getsockopt(fd, SOL_SOCKET, SO_ERROR, NULL, NULL));
	close(fd);
	close(holder);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	show("connect refused", connect(fd, (struct sockaddr *)&taken, sizeof(taken)));
	show("connect null", connect(fd, NULL, 16));
	show("connect wild", connect(fd, (struct sockaddr *)8, 16));
	show("bind wild", bind(fd, (struct sockaddr *)8, 16));
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	error = connect(fd, (struct sockaddr *)&taken, sizeof(taken));
	show("connect background", error);
	close(fd);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	show("connect unix", connect(fd, (struct sockaddr *)&path, sizeof(path)));
	show("bind unix", bind(fd, (struct sockaddr *)&path, sizeof(path)));
	close(fd);
	show("connect no descriptor", connect(-1, (struct sockaddr *)&taken, sizeof(taken)));
}

static void try_names(void)
{
	static const char *const names[] = {"127.0.0.1", "::1", "localhost", "300.1.2.3", "", NULL};
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int ret = getaddrinfo(names[i], "80", &hints, &list);

		show(names[i] ? names[i] : "(null)", ret);
		if (ret == 0) {
			printf("family %d\n", list->ai_family);
			freeaddrinfo(list);
		}
	}
	show("no name, no service", getaddrinfo(NULL, NULL, NULL, &list));
}

static void try_space(void)
{
	char name[] = "/tmp/ncclspy-libc-XXXXXX";
	int fd = mkstemp(name), pipes[2];
	struct stat st;

	unlink(name);
	show("fallocate", fallocate(fd, 0, 100, 900));
	show("fallocate negative", fallocate(fd, 0, -1, 10));
	show("fallocate bad", fallocate(-1, 0, 0, 10));
	show("posix_fallocate", posix_fallocate(fd, 0, 5000));
	show("posix_fallocate bad", posix_fallocate(-1, 0, 10));
	show("posix_fallocate none", posix_fallocate(fd, 0, 0));
	show("ftruncate", ftruncate(fd, 12345));
	show("ftruncate negative", ftruncate(fd, -1));
	show("ftruncate bad", ftruncate(-1, 1));
	(void)fstat(fd, &st);
	printf("%ld bytes\n", (long)st.st_size);
	if (pipe(pipes) == 0)
		show("fallocate pipe", fallocate(pipes[1], 0, 0, 10));
	close(fd);
}

static void try_fork(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(17);
	(void)waitpid(child, &status, 0);
	printf("fork: %d, status %d\n", child > 0, WEXITSTATUS(status));
}

/* What NCCL writes is looked at in passing. */
static int write_list(FILE *to, const char *format, ...)
{
	va_list args;
	int ret;

	va_start(args, format);
	ret = vfprintf(to, format, args);
	va_end(args);
	return ret;
}

static void try_streams(void)
{
	FILE *closed = fopen("/dev/null", "r"), *full = fopen("/dev/full", "w");
	char big[8192];

	memset(big, 'x', sizeof(big));
	show("fwrite", (long)fwrite("h:1:2 [0] NCCL INFO Using network Socket\n", 1, 41, stdout));
	show("fwrite none", (long)fwrite("x", 0, 4, stdout));
	show("fwrite in words", (long)fwrite("abcdefgh\n", 3, 3, stdout));
	show("fwrite for reading", (long)fwrite("x", 1, 1, closed));
	show("fwrite full", (long)fwrite(big, 1, sizeof(big), full));
	show("vfprintf", write_list(stdout, "%s:%d:%.2f:%c:%ld:%s%n\n", "text", 7, 2.5, 'c',
				    1L << 40, "end", &(int){0}));
	show("vfprintf many", write_list(stdout, "%d %d %d %d %d %d %d %d %f %f\n", 1, 2, 3, 4, 5,
					 6, 7, 8, 9.0, 10.0));
	show("vfprintf for reading", write_list(closed, "%d", 1));
	(void)fclose(closed);
	(void)fclose(full);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0); /* a child must not write it twice */
	errno = 4242;
	try_bind_and_connect();
	try_names();
	try_space();
	try_streams();
	try_fork();
	return 0;
}
