/* SPDX-License-Identifier: Apache-2.0 */
/* Which interface to use, and addresses as text. NCCL's rules for NCCL_SOCKET_IFNAME. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

socklen_t fake_address_bytes(const union fake_address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

const char *fake_address_text(const union fake_address *address, char *text, size_t bytes)
{
	char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";

	getnameinfo(&address->any, fake_address_bytes(address), host, sizeof(host), port,
		    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, bytes, "%s<%s>", host, port);
	return text;
}

/* "a,b" prefixes, "=a" exact names, "^a" everything else; NCCL's syntax. */
static bool name_matches(const char *name, const char *pattern)
{
	bool invert = *pattern == '^', exact, found = false;
	char copy[256], *save = NULL;

	pattern += invert;
	exact = *pattern == '=';
	snprintf(copy, sizeof(copy), "%s", pattern + exact);
	for (char *word = strtok_r(copy, ",", &save); word && !found;
	     word = strtok_r(NULL, ",", &save))
		found = exact ? strcmp(name, word) == 0 : strncmp(name, word, strlen(word)) == 0;
	return found != invert;
}

static int wanted_family(void)
{
	const char *value = getenv("NCCL_SOCKET_FAMILY");

	if (value && strcmp(value, "AF_INET") == 0)
		return AF_INET;
	if (value && strcmp(value, "AF_INET6") == 0)
		return AF_INET6;
	return AF_UNSPEC;
}

static bool usable(const struct ifaddrs *one)
{
	int wanted = wanted_family();
	const union fake_address *address = (const void *)one->ifa_addr;

	if (!address || !(one->ifa_flags & IFF_UP))
		return false;
	if (address->any.sa_family != AF_INET && address->any.sa_family != AF_INET6)
		return false;
	if (wanted != AF_UNSPEC && address->any.sa_family != wanted)
		return false;
	/* link-local addresses need a scope that other hosts do not share */
	return address->any.sa_family == AF_INET ||
	       (!IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr) &&
		!IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr));
}

static bool pick(const struct ifaddrs *all, const char *pattern, union fake_address *ret_address,
		 char *ret_name)
{
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (!usable(one) || !name_matches(one->ifa_name, pattern))
			continue;
		memset(ret_address, 0, sizeof(*ret_address));
		memcpy(ret_address, one->ifa_addr,
		       one->ifa_addr->sa_family == AF_INET6 ? sizeof(ret_address->v6)
							    : sizeof(ret_address->v4));
		ret_address->v4.sin_port = 0;
		snprintf(ret_name, IF_NAMESIZE, "%s", one->ifa_name);
		return true;
	}
	return false;
}

int fake_interface(union fake_address *ret_address, char *ret_text, size_t bytes)
{
	static const char *const automatic[] = {"ib", "^docker,lo", "docker", "lo"};
	const char *wanted = getenv("NCCL_SOCKET_IFNAME");
	char name[IF_NAMESIZE], address[128];
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return -errno;
	if (wanted && *wanted) {
		fake_info(FAKE_LOG_ENV, "NCCL_SOCKET_IFNAME set by environment to %s", wanted);
		found = pick(all, wanted, ret_address, name);
	} else {
		for (size_t i = 0; i < sizeof(automatic) / sizeof(automatic[0]) && !found; i++)
			found = pick(all, automatic[i], ret_address, name);
	}
	freeifaddrs(all);
	if (!found)
		return -ENODEV;
	snprintf(ret_text, bytes, "%s:%s", name,
		 fake_address_text(ret_address, address, sizeof(address)));
	return 0;
}

/* "host:port" or "[v6]:port" */
int fake_address_parse(const char *text, union fake_address *ret_address)
{
	char copy[256], *host = copy, *port;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;

	snprintf(copy, sizeof(copy), "%s", text);
	port = strrchr(copy, ':');
	if (!port || port == copy)
		return -EINVAL;
	*port++ = '\0';
	if (*host == '[' && port[-2] == ']') {
		host++;
		port[-2] = '\0';
	}
	if (getaddrinfo(host, port, &hints, &found) != 0)
		return -EINVAL;
	memset(ret_address, 0, sizeof(*ret_address));
	memcpy(ret_address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

int fake_listen(union fake_address *address)
{
	socklen_t bytes = fake_address_bytes(address);
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1, error;

	if (fd < 0)
		return -errno;
	if (address->v4.sin_port != 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, &address->any, bytes) != 0 || listen(fd, 1024) != 0 ||
	    getsockname(fd, &address->any, &bytes) != 0) {
		error = errno;
		close(fd);
		return -error;
	}
	return fd;
}
