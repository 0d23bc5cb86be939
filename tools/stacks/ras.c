/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A query of NCCL's RAS service, over the socket that each process of a job offers on its own
 * host. The exchange is that of NCCL's client, ncclras (src/ras/client.cc, NCCL 2.24 and later):
 * lines of text, then the status until the other side closes. Only asked for: there are versions of
 * NCCL that a query has brought down.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "read.h"

#define DEFAULT_PORT 28028
#define REPLY_BYTES  (64u << 10)
#define LINES_MAX    200u

struct query {
	int fd;
	uint64_t until_ns;
	size_t used;
	char reply[REPLY_BYTES];
};

/* "HOST:PORT", "[IPV6]:PORT" or ":PORT"; numbers and localhost, so that no resolver can block. */
static int parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_bytes)
{
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)ret;
	const char *colon = strrchr(text, ':');
	long port = colon ? strtol(colon + 1, NULL, 10) : DEFAULT_PORT;
	size_t length = colon ? (size_t)(colon - text) : strlen(text);
	char host[64];

	memset(ret, 0, sizeof(*ret));
	if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
		text++;
		length -= 2;
	}
	if (port <= 0 || port > 65535 || length >= sizeof(host))
		return -EINVAL;
	(void)snprintf(host, sizeof(host), "%.*s", (int)length, text);
	if (!host[0] || strcmp(host, "localhost") == 0)
		(void)snprintf(host, sizeof(host), "127.0.0.1");
	if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)port);
		*ret_bytes = sizeof(*four);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &six->sin6_addr) != 1)
		return -EINVAL;
	six->sin6_family = AF_INET6;
	six->sin6_port = htons((uint16_t)port);
	*ret_bytes = sizeof(*six);
	return 0;
}

static int wait_for(const struct query *q, short events)
{
	struct pollfd poller = {.fd = q->fd, .events = events};
	uint64_t now = now_ns();
	int rc =
		now < q->until_ns ? poll(&poller, 1, (int)((q->until_ns - now) / 1000000u) + 1) : 0;

	return rc > 0 ? 0 : rc == 0 ? -ETIMEDOUT : -errno;
}

static int open_query(struct query *q, const char *address)
{
	struct sockaddr_storage where;
	socklen_t bytes, length = sizeof(int);
	int rc = parse_address(address, &where, &bytes), error = 0;

	if (rc < 0)
		return rc;
	q->fd = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (q->fd < 0)
		return -errno;
	if (connect(q->fd, (struct sockaddr *)&where, bytes) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	rc = wait_for(q, POLLOUT);
	if (rc == 0 && getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0)
		rc = -error;
	return rc;
}

/* What comes until a line has its end, or (whole) until the other side closes. */
static int receive(struct query *q, bool whole)
{
	q->used = 0;
	for (;;) {
		int rc = wait_for(q, POLLIN);
		ssize_t got =
			rc < 0 ? 0
			       : recv(q->fd, q->reply + q->used, sizeof(q->reply) - 1 - q->used, 0);

		if (rc < 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
			q->reply[q->used] = '\0';
			return rc < 0 ? rc : -errno;
		}
		q->used += got > 0 ? (size_t)got : 0;
		q->reply[q->used] = '\0';
		if (got == 0 || q->used == sizeof(q->reply) - 1 ||
		    (!whole && strchr(q->reply, '\n')))
			return q->used ? 0 : -ECONNRESET;
	}
}

static int ask(struct query *q, const char *line, const char *wanted)
{
	size_t bytes = strlen(line);
	int rc;

	if (send(q->fd, line, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		return -errno;
	rc = receive(q, wanted == NULL);
	if (rc == 0 && wanted && strncmp(q->reply, wanted, strlen(wanted)) != 0)
		return -EPROTO;
	return rc;
}

static void add_lines(struct query *q, struct text *out)
{
	size_t lines = 0;
	char *save = NULL;

	for (char *line = strtok_r(q->reply, "\r\n", &save); line && lines < LINES_MAX;
	     line = strtok_r(NULL, "\r\n", &save), lines++)
		add(out, "note RAS: %s\n", line);
}

const char *ras_address(const char *given)
{
	const char *set = getenv("NCCL_RAS_ADDR");

	if (given && *given)
		return given;
	return set && *set ? set : RAS_ADDRESS;
}

void add_ras(const char *address, int timeout_ms, struct text *out)
{
	static struct query q;
	char timeout[32];
	int rc;

	q = (struct query){.fd = -1, .until_ns = now_ns() + (uint64_t)timeout_ms * 1000000u};
	(void)snprintf(timeout, sizeof(timeout), "TIMEOUT %d\n", timeout_ms / 2000 + 1);
	rc = open_query(&q, address);
	if (rc == 0)
		rc = ask(&q, "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL ");
	if (rc == 0)
		rc = ask(&q, timeout, "OK");
	if (rc == 0) {
		rc = ask(&q, "STATUS\n", NULL);
		add_lines(&q, out);
	}
	if (rc < 0)
		add(out, "note RAS: no %sanswer from %s: %s\n", q.used ? "complete " : "", address,
		    strerror(-rc));
	if (q.fd >= 0)
		close(q.fd);
}
