/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "libc_failures.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "clock.h"
#include "copies.h"
#include "facts.h"
#include "tcp_data.h"
#include "versions.h"

#define FAILURES_MAX 16u
#define PENDING_MAX  64u /* connections being made in the background, by descriptor */
#define NAME_BYTES   96u
#define TMPFS_MAGIC  0x01021994
/* NCCL tries again and again for a minute; after this long without a communicator it is told. */
#define PATIENCE_NS 10000000000ull

enum what { CONNECT, BIND, LOOKUP, SPACE, FORK, WHATS };
enum slot_state { FREE, BUSY, READY };

static const char *const keys[WHATS] = {"connect", "bind", "dns", "shm", "fork"};

struct target {
	struct sockaddr_storage address; /* connect, bind; ss_family 0 = not known */
	char name[NAME_BYTES];           /* name, or call */
	uint64_t bytes;
};

static struct failure {
	_Atomic uint32_t state;
	enum what what;
	int error;
	_Atomic uint32_t count;
	_Atomic uint32_t forgiven;
	uint32_t told; /* count when it was last told; writer thread only */
	const void *caller;
	struct target target;
} failures[FAILURES_MAX];
static _Atomic uint32_t noted; /* something is in failures */

static struct pending {
	_Atomic int fd; /* plus one, so that 0 is free */
	struct sockaddr_storage address;
} pending[PENDING_MAX];

static bool is_internet(const struct sockaddr *address, socklen_t bytes)
{
	return address &&
	       ((address->sa_family == AF_INET && bytes >= sizeof(struct sockaddr_in)) ||
		(address->sa_family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)));
}

static size_t address_bytes(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static void copy_address(struct sockaddr_storage *to, const void *from)
{
	const struct sockaddr *address = from;

	memset(to, 0, sizeof(*to));
	memcpy(to, from,
	       address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in));
}

static bool same(const struct failure *f, enum what what, int error, const struct target *target)
{
	return f->what == what && f->error == error &&
	       memcmp(&f->target.address, &target->address, address_bytes(&target->address)) == 0 &&
	       strcmp(f->target.name, target->name) == 0;
}

/* Two threads that note the same failure for the first time may take two slots: no harm. */
static void note(enum what what, int error, const struct target *target, const void *caller)
{
	for (uint32_t i = 0; i < FAILURES_MAX; i++) {
		struct failure *f = &failures[i];
		uint32_t state = atomic_load_explicit(&f->state, memory_order_acquire);

		if (state == READY && same(f, what, error, target)) {
			atomic_fetch_add_explicit(&f->count, 1, memory_order_relaxed);
			atomic_store_explicit(&f->forgiven, 0, memory_order_relaxed);
			atomic_store_explicit(&noted, 1, memory_order_release);
			return;
		}
		if (state != FREE || !atomic_compare_exchange_strong(&f->state, &state, BUSY))
			continue;
		f->what = what;
		f->error = error;
		f->caller = caller;
		f->target = *target;
		f->count = 1;
		f->forgiven = 0;
		f->told = 0;
		atomic_store_explicit(&f->state, READY, memory_order_release);
		atomic_store_explicit(&noted, 1, memory_order_release);
		return;
	}
}

void nspy_failed_connect(int fd, const struct sockaddr *address, socklen_t bytes,
			 const void *caller)
{
	struct target target = {0};
	struct pending *p = &pending[(unsigned int)fd % PENDING_MAX];
	int error = errno;

	/* EFAULT first: the address must not be read then. */
	if (error == EFAULT || error == EINTR || error == EALREADY || error == EISCONN ||
	    error == EAGAIN || !is_internet(address, bytes))
		return;
	if (error == EINPROGRESS) {
		atomic_store_explicit(&p->fd, 0, memory_order_relaxed);
		copy_address(&p->address, address);
		atomic_store_explicit(&p->fd, fd + 1, memory_order_release);
		if (nspy_is_nccl(caller))
			nspy_tcp_note(fd, &p->address);
	} else {
		copy_address(&target.address, address);
		note(CONNECT, error, &target, caller);
	}
	errno = error;
}

void nspy_failed_background(int fd, int error, const void *caller)
{
	struct pending *p = &pending[(unsigned int)fd % PENDING_MAX];
	struct target target = {0};

	if (atomic_load_explicit(&p->fd, memory_order_acquire) != fd + 1)
		return;
	target.address = p->address;
	atomic_store_explicit(&p->fd, 0, memory_order_relaxed);
	note(CONNECT, error, &target, caller);
}

void nspy_failed_bind(const struct sockaddr *address, socklen_t bytes, const void *caller)
{
	struct target target = {0};
	int error = errno;

	if ((error != EADDRINUSE && error != EADDRNOTAVAIL) || !is_internet(address, bytes))
		return;
	copy_address(&target.address, address);
	note(BIND, error, &target, caller);
	errno = error;
}

void nspy_failed_lookup(const char *name, int code, const void *caller)
{
	struct target target = {0};
	int saved = errno;

	if (!name || code == EAI_FAMILY || code == EAI_BADFLAGS || code == EAI_SERVICE)
		return;
	(void)snprintf(target.name, sizeof(target.name), "%s", name);
	note(LOOKUP, code, &target, caller);
	errno = saved;
}

void nspy_found_name(const char *name)
{
	if (!name || !atomic_load_explicit(&noted, memory_order_acquire))
		return;
	for (uint32_t i = 0; i < FAILURES_MAX; i++) {
		struct failure *f = &failures[i];

		if (atomic_load_explicit(&f->state, memory_order_acquire) == READY &&
		    f->what == LOOKUP && strncmp(f->target.name, name, NAME_BYTES - 1) == 0)
			atomic_store_explicit(&f->forgiven, 1, memory_order_relaxed);
	}
}

void nspy_failed_space(int fd, uint64_t bytes, int error, const char *call, const void *caller)
{
	struct target target = {.bytes = bytes};
	int saved = errno;
	struct statfs fs;

	if ((error == ENOSPC || error == ENOMEM) && fstatfs(fd, &fs) == 0 &&
	    fs.f_type == TMPFS_MAGIC) {
		(void)snprintf(target.name, sizeof(target.name), "%s", call);
		note(SPACE, error, &target, caller);
	}
	errno = saved;
}

void nspy_failed_fork(const void *caller)
{
	struct target target = {0};
	int error = errno;

	note(FORK, error, &target, caller);
	errno = error;
}

/* --- telling; writer thread --- */

static const char *error_words(enum what what, int error, char *buffer, size_t bytes)
{
	if (what == LOOKUP) {
		switch (error) {
		case EAI_NONAME:
			return "Name or service not known";
		case EAI_AGAIN:
			return "Temporary failure in name resolution";
		default:
			(void)snprintf(buffer, bytes, "name lookup failed (%d)", error);
			return buffer;
		}
	}
	return strerror_r(error, buffer, bytes);
}

static unsigned int port_of(const struct sockaddr_storage *address)
{
	return ntohs(address->ss_family == AF_INET6
			     ? ((const struct sockaddr_in6 *)address)->sin6_port
			     : ((const struct sockaddr_in *)address)->sin_port);
}

static void describe(const struct failure *f, const char *library, char *ret, size_t bytes)
{
	char what[128] = "", error[96], host[64] = "?";
	const struct sockaddr_storage *address = &f->target.address;
	uint32_t count = atomic_load_explicit(&f->count, memory_order_relaxed);
	const void *number =
		address->ss_family == AF_INET6
			? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
			: (const void *)&((const struct sockaddr_in *)address)->sin_addr;

	switch (f->what) {
	case CONNECT:
	case BIND:
		(void)inet_ntop(address->ss_family, number, host, sizeof(host));
		(void)snprintf(what, sizeof(what),
			       address->ss_family == AF_INET6 ? "[%s]:%u: " : "%s:%u: ", host,
			       port_of(address));
		break;
	case LOOKUP:
		(void)snprintf(what, sizeof(what), "%s: ", f->target.name);
		break;
	case SPACE:
		(void)snprintf(what, sizeof(what), "%s to %llu bytes: ", f->target.name,
			       (unsigned long long)f->target.bytes);
		break;
	default:
		break;
	}
	(void)snprintf(ret, bytes, "%s%s, %u time%s, called by %.80s", what,
		       error_words(f->what, f->error, error, sizeof(error)), count,
		       count == 1 ? "" : "s", library);
}

/* What a framework's own store or a helper's probe met with says nothing about NCCL. */
static bool concerns_us(const struct failure *f, const struct nspy_creations *creations,
			bool by_nccl)
{
	char text[16];

	switch (f->what) {
	case LOOKUP:
		return by_nccl ||
		       (creations->master_addr[0] &&
			strncmp(creations->master_addr, f->target.name, NAME_BYTES - 1) == 0);
	case BIND:
		(void)snprintf(text, sizeof(text), "%u", port_of(&f->target.address));
		return by_nccl || strcmp(creations->master_port, text) == 0;
	case CONNECT:
		return by_nccl;
	default:
		return true;
	}
}

/* Whether it is the reason why there is no communicator, as far as can be told now. */
static bool is_reason(const struct failure *f, const struct nspy_creations *creations)
{
	if (f->what == SPACE || f->what == FORK)
		return true;
	if (atomic_load_explicit(&f->forgiven, memory_order_relaxed) || creations->good)
		return false;
	return creations->failed || creations->waiting_ns >= PATIENCE_NS;
}

static bool tell(struct failure *f, const struct nspy_creations *creations)
{
	bool by_nccl, reason = is_reason(f, creations);
	uint32_t count = atomic_load_explicit(&f->count, memory_order_relaxed);
	char library[128], key[32], text[256];

	/* Not decided yet: it may still go well. */
	if (!reason && !creations->good && !creations->last)
		return false;
	/* Each is told once, and again at the end if it went on. */
	if (f->told == count || (f->told && !creations->last))
		return false;
	by_nccl = nspy_versions_is_nccl(f->caller, library, sizeof(library));
	f->told = count;
	if (!concerns_us(f, creations, by_nccl))
		return false;
	describe(f, library, text, sizeof(text));
	(void)snprintf(key, sizeof(key), "%s.%s", reason ? "fail" : "tried", keys[f->what]);
	nspy_facts_add(key, text);
	return true;
}

bool nspy_libc_failures_tell(const struct nspy_creations *creations)
{
	bool any = false;

	if (!atomic_load_explicit(&noted, memory_order_acquire))
		return false;
	for (uint32_t i = 0; i < FAILURES_MAX; i++)
		if (atomic_load_explicit(&failures[i].state, memory_order_acquire) == READY)
			any |= tell(&failures[i], creations);
	return any;
}
