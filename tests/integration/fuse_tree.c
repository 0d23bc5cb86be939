/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system in memory, mounted through /dev/fuse without a library: fuse_tree DIRECTORY. It
 * says "mounted" when it is there. From SIGUSR1 to SIGUSR2 it takes no requests: a file system that
 * does not answer. (SIGSTOP might hit it while it holds a request, and the kernel lets nobody be
 * killed who waits for such a one; nor for a flush, which this server therefore does not have.)
 * Needs the right to mount; exits with 77 without.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODES     512u
#define WRITE_MAX 65536u
#define REPLY_MAX (1u << 20) /* a read asks for as much as the kernel likes */

/* Node number n + 1; the root is number 0. */
struct node {
	uint64_t parent;
	char name[200];
	uint32_t mode; /* 0 = unused */
	char *data;
	size_t size;
};

static struct node nodes[NODES] = {{.mode = S_IFDIR | 0700}};
static int device;
static volatile sig_atomic_t silent;
static uint64_t unique;

static void reply(int error, const void *data, size_t bytes)
{
	struct fuse_out_header head = {(uint32_t)(sizeof(head) + bytes), -error, unique};
	static char out[sizeof(head) + REPLY_MAX];

	if (bytes > REPLY_MAX)
		abort();
	memcpy(out, &head, sizeof(head));
	if (bytes)
		memcpy(out + sizeof(head), data, bytes);
	if (write(device, out, head.len) < 0 && errno != ENOENT)
		exit(1);
}

static struct fuse_attr attributes(uint64_t at)
{
	return (struct fuse_attr){
		.ino = at + 1,
		.size = nodes[at].size,
		.mode = nodes[at].mode,
		.nlink = 1,
		.uid = getuid(),
		.gid = getgid(),
		.blksize = 4096,
	};
}

static struct fuse_entry_out entry(uint64_t at)
{
	return (struct fuse_entry_out){.nodeid = at + 1, .generation = 1, .attr = attributes(at)};
}

static void reply_entry(uint64_t at)
{
	struct fuse_entry_out out = entry(at);

	reply(0, &out, sizeof(out));
}

/* 0 (the root, which nobody looks up) if there is none. */
static uint64_t find(uint64_t parent, const char *name)
{
	for (uint64_t i = 1; i < NODES; i++)
		if (nodes[i].mode && nodes[i].parent == parent && strcmp(nodes[i].name, name) == 0)
			return i;
	return 0;
}

static uint64_t make(uint64_t parent, const char *name, uint32_t mode)
{
	for (uint64_t i = 1; i < NODES; i++) {
		if (nodes[i].mode)
			continue;
		nodes[i] = (struct node){.parent = parent, .mode = mode};
		(void)snprintf(nodes[i].name, sizeof(nodes[i].name), "%s", name);
		return i;
	}
	return 0;
}

static void drop(uint64_t at)
{
	free(nodes[at].data);
	nodes[at] = (struct node){0};
}

static void start(void)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = 65536,
		.max_write = WRITE_MAX,
	};

	reply(0, &out, sizeof(out));
}

static void create(uint64_t at, const struct fuse_create_in *in)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = {0};
	uint64_t made = make(at, (const char *)(in + 1), S_IFREG | (in->mode & 0777));

	if (!made) {
		reply(ENOSPC, NULL, 0);
		return;
	}
	out.entry = entry(made);
	reply(0, &out, sizeof(out));
}

static void take(uint64_t at, const struct fuse_write_in *in)
{
	struct fuse_write_out out = {.size = in->size};
	size_t end = in->offset + in->size;

	if (end > nodes[at].size) {
		char *more = realloc(nodes[at].data, end);

		if (!more) {
			reply(ENOSPC, NULL, 0);
			return;
		}
		memset(more + nodes[at].size, 0, end - nodes[at].size);
		nodes[at].data = more;
		nodes[at].size = end;
	}
	memcpy(nodes[at].data + in->offset, in + 1, in->size);
	reply(0, &out, sizeof(out));
}

static void give(uint64_t at, const struct fuse_read_in *in)
{
	size_t left = in->offset < nodes[at].size ? nodes[at].size - in->offset : 0;

	reply(0, nodes[at].data + (left ? in->offset : 0), left < in->size ? left : in->size);
}

static void list(uint64_t at, const struct fuse_read_in *in)
{
	char out[WRITE_MAX];
	size_t used = 0;

	for (uint64_t i = in->offset + 1; i < NODES; i++) {
		struct fuse_dirent *e = (struct fuse_dirent *)(void *)(out + used);
		size_t length = strlen(nodes[i].name);
		size_t bytes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + length);

		if (!nodes[i].mode || nodes[i].parent != at)
			continue;
		if (used + bytes > in->size || used + bytes > sizeof(out))
			break;
		memset(e, 0, bytes);
		e->ino = i + 1;
		e->off = i;
		e->namelen = (uint32_t)length;
		e->type = nodes[i].mode >> 12;
		memcpy(e->name, nodes[i].name, length);
		used += bytes;
	}
	reply(0, out, used);
}

static void set(uint64_t at, const struct fuse_setattr_in *in)
{
	struct fuse_attr_out out = {0};

	if (in->valid & FATTR_MODE)
		nodes[at].mode = (nodes[at].mode & S_IFMT) | (in->mode & 07777);
	if ((in->valid & FATTR_SIZE) && in->size < nodes[at].size)
		nodes[at].size = in->size;
	out.attr = attributes(at);
	reply(0, &out, sizeof(out));
}

static void move(uint64_t from, uint64_t to_dir, const char *name)
{
	uint64_t at = find(from, name);
	const char *to = name + strlen(name) + 1;
	uint64_t over = find(to_dir, to);

	if (!at) {
		reply(ENOENT, NULL, 0);
		return;
	}
	if (over && over != at)
		drop(over);
	nodes[at].parent = to_dir;
	(void)snprintf(nodes[at].name, sizeof(nodes[at].name), "%s", to);
	reply(0, NULL, 0);
}

static void look_up(uint64_t at, const char *name)
{
	uint64_t found = find(at, name);

	if (found)
		reply_entry(found);
	else
		reply(ENOENT, NULL, 0);
}

static void remove_node(uint64_t at, const char *name)
{
	uint64_t found = find(at, name);

	if (found)
		drop(found);
	reply(found ? 0 : ENOENT, NULL, 0);
}

static void serve_names(const struct fuse_in_header *head, const void *in)
{
	uint64_t at = head->nodeid - 1, made;

	switch (head->opcode) {
	case FUSE_LOOKUP:
		look_up(at, in);
		break;
	case FUSE_MKDIR:
		made = make(at, (const char *)((const struct fuse_mkdir_in *)in + 1),
			    S_IFDIR | 0700);
		if (made)
			reply_entry(made);
		else
			reply(ENOSPC, NULL, 0);
		break;
	case FUSE_CREATE:
		create(at, in);
		break;
	case FUSE_UNLINK:
	case FUSE_RMDIR:
		remove_node(at, in);
		break;
	case FUSE_RENAME:
		move(at, ((const struct fuse_rename_in *)in)->newdir - 1,
		     (const char *)((const struct fuse_rename_in *)in + 1));
		break;
	case FUSE_RENAME2:
		move(at, ((const struct fuse_rename2_in *)in)->newdir - 1,
		     (const char *)((const struct fuse_rename2_in *)in + 1));
		break;
	default:
		reply(ENOSYS, NULL, 0);
	}
}

static void serve(const struct fuse_in_header *head, const void *in)
{
	uint64_t at = head->nodeid - 1;
	struct fuse_attr_out attr = {0};
	struct fuse_open_out open_out = {0};
	struct fuse_statfs_out statfs_out = {.st = {.bsize = 4096, .namelen = 199}};

	switch (head->opcode) {
	case FUSE_INIT:
		start();
		break;
	case FUSE_GETATTR:
		attr.attr = attributes(at);
		reply(0, &attr, sizeof(attr));
		break;
	case FUSE_SETATTR:
		set(at, in);
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		reply(0, &open_out, sizeof(open_out));
		break;
	case FUSE_READ:
		give(at, in);
		break;
	case FUSE_READDIR:
		list(at, in);
		break;
	case FUSE_WRITE:
		take(at, in);
		break;
	case FUSE_STATFS:
		reply(0, &statfs_out, sizeof(statfs_out));
		break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		reply(0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break; /* want no answer */
	default:
		serve_names(head, in);
	}
}

static void on_signal(int signal)
{
	silent = signal == SIGUSR1;
}

/* Waits for a request, or for ever while silent. Signals come nowhere else. */
static void await_request(const sigset_t *outside)
{
	struct pollfd ready = {.fd = device, .events = POLLIN};

	while (silent || ppoll(&ready, 1, NULL, outside) < 0)
		if (silent)
			(void)sigsuspend(outside);
}

static void catch_signals(sigset_t *ret_outside)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGUSR1);
	sigaddset(&ours, SIGUSR2);
	sigprocmask(SIG_BLOCK, &ours, ret_outside);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
}

int main(int argc, char **argv)
{
	static _Alignas(8) char in[WRITE_MAX + 4096];
	char options[128];
	sigset_t outside;
	ssize_t n;

	device = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", device, getuid(),
		       getgid());
	if (argc != 2 || device < 0 ||
	    mount("fuse_tree", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		return 77;
	catch_signals(&outside);
	puts("mounted");
	(void)fflush(stdout);
	for (;;) {
		await_request(&outside);
		n = read(device, in, sizeof(in));
		if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		if (n < (ssize_t)sizeof(struct fuse_in_header))
			return 0; /* unmounted */
		unique = ((const struct fuse_in_header *)(void *)in)->unique;
		serve((const struct fuse_in_header *)(void *)in,
		      in + sizeof(struct fuse_in_header));
	}
}
