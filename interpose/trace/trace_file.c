/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_up_to(int fd, uint8_t *data, size_t bytes, size_t *ret_got)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t n = read(fd, data + got, bytes - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) /* shorter than a moment ago: it is being rotated away */
			break;
		got += (size_t)n;
	}
	*ret_got = got;
	return 0;
}

static int read_fd(int fd, uint8_t **ret_data, size_t *ret_bytes)
{
	struct stat st;
	uint8_t *data;
	size_t got = 0;
	int rc;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	if (st.st_size > (off_t)NSPY_FILE_BYTES_MAX)
		return -E2BIG;
	data = malloc((size_t)st.st_size + 1);
	if (!data)
		return -ENOMEM;
	rc = read_up_to(fd, data, (size_t)st.st_size, &got);
	if (rc < 0) {
		free(data);
		return rc;
	}
	*ret_data = data;
	*ret_bytes = got;
	return 0;
}

int nspy_file_read(const char *path, uint8_t **ret_data, size_t *ret_bytes)
{
	/* O_NONBLOCK: a FIFO planted in the directory must not hang the reader. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc;

	if (fd < 0)
		return -errno;
	rc = read_fd(fd, ret_data, ret_bytes);
	close(fd);
	return rc;
}
