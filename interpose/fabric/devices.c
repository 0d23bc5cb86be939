/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "devices.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "procfs.h"

#define CLASS "/sys/class/infiniband"

/* As the kernel returns it from getdents64; readdir would allocate. */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

static struct nspy_device devices[NSPY_DEVICES_MAX];
static uint32_t count;
static bool looked;

static void look_at(const char *name)
{
	struct nspy_device *device = &devices[count];
	char path[160], text[160];
	ssize_t n;

	if (name[0] == '.' || count == NSPY_DEVICES_MAX || strlen(name) >= sizeof(device->name))
		return;
	*device = (struct nspy_device){0};
	strcpy(device->name, name);
	(void)snprintf(path, sizeof(path), CLASS "/%s/device/driver", name);
	n = readlink(path, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	(void)snprintf(device->driver, sizeof(device->driver), "%.31s",
		       strrchr(text, '/') ? strrchr(text, '/') + 1 : "");
	(void)snprintf(path, sizeof(path), CLASS "/%s/ports/1/state", name);
	/* "4: ACTIVE" */
	if (nspy_proc_read(path, text, sizeof(text)) > 0)
		(void)snprintf(device->state, sizeof(device->state), "%.23s",
			       strstr(text, ": ") ? strstr(text, ": ") + 2 : text);
	count++;
}

void nspy_devices_look(void)
{
	uint64_t buffer[512];
	long n;
	int fd;

	if (looked)
		return;
	looked = true;
	fd = open(CLASS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n;) {
			const struct entry *entry = (void *)((char *)buffer + at);

			look_at(entry->name);
			at += entry->bytes;
		}
	}
	if (fd >= 0)
		close(fd);
}

uint32_t nspy_device_count(void)
{
	return count;
}

const struct nspy_device *nspy_device_at(uint32_t i)
{
	return &devices[i];
}

bool nspy_device_any(const char *driver)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!driver || strcmp(devices[i].driver, driver) == 0)
			return true;
	}
	return false;
}
