/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL_DEBUG output in NCCL 2.28's format, and the text for ncclGetLastError. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum level { LEVEL_NONE, LEVEL_VERSION, LEVEL_WARN, LEVEL_INFO, LEVEL_ABORT, LEVEL_TRACE };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum level level;
static unsigned int subsystems = FAKE_LOG_INIT | FAKE_LOG_ENV | FAKE_LOG_BOOTSTRAP;
static FILE *output;
static char host[256];
static char last_error[1024];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	const char *name;
	unsigned int bits;
} subsystem_names[] = {
	{"INIT", FAKE_LOG_INIT},
	{"COLL", FAKE_LOG_COLL},
	{"P2P", FAKE_LOG_P2P},
	{"NET", FAKE_LOG_NET},
	{"ENV", FAKE_LOG_ENV},
	{"BOOTSTRAP", FAKE_LOG_BOOTSTRAP},
	{"ALL", ~0u},
};

static void read_level(void)
{
	static const char *const names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
	const char *value = getenv("NCCL_DEBUG");

	for (size_t i = 0; value && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcasecmp(value, names[i]) == 0)
			level = (enum level)i;
	}
}

static void read_subsystems(void)
{
	const char *value = getenv("NCCL_DEBUG_SUBSYS");
	char copy[256], *save = NULL;
	bool invert;

	if (!value || *value == '\0')
		return;
	invert = *value == '^';
	snprintf(copy, sizeof(copy), "%s", value + invert);
	subsystems = invert ? ~0u : 0;
	for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		for (size_t i = 0; i < sizeof(subsystem_names) / sizeof(subsystem_names[0]); i++) {
			if (strcasecmp(word, subsystem_names[i].name) != 0)
				continue;
			if (invert)
				subsystems &= ~subsystem_names[i].bits;
			else
				subsystems |= subsystem_names[i].bits;
		}
	}
}

/* %h is the host, %p the process */
static void open_output(void)
{
	const char *value = getenv("NCCL_DEBUG_FILE");
	char path[1024];
	size_t n = 0;

	output = stdout;
	if (!value || *value == '\0' || level == LEVEL_NONE)
		return;
	for (; *value && n < sizeof(path) - 1; value++) {
		int wrote = 1;

		if (value[0] == '%' && value[1] == 'h')
			wrote = snprintf(path + n, sizeof(path) - n, "%s", host);
		else if (value[0] == '%' && value[1] == 'p')
			wrote = snprintf(path + n, sizeof(path) - n, "%d", (int)getpid());
		else
			path[n] = *value;
		if (value[0] == '%' && (value[1] == 'h' || value[1] == 'p'))
			value++;
		n += (size_t)wrote < sizeof(path) - n ? (size_t)wrote : sizeof(path) - n - 1;
	}
	path[n] = '\0';
	output = fopen(path, "we");
	if (!output)
		output = stdout;
}

static void set_up(void)
{
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	read_level();
	read_subsystems();
	open_output();
}

static size_t put_prefix(char *line, size_t bytes)
{
	return (size_t)snprintf(line, bytes, "%s:%d:%ld [%d] ", host, (int)getpid(),
				(long)syscall(SYS_gettid), fake_gpu_current());
}

static void put_formatted(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vfprintf(output, format, args);
	va_end(args);
}

static void put_line(char *line, size_t bytes, size_t length)
{
	const char *manner = getenv("NSPY_FAKE_LOG");

	if (length > bytes - 2)
		length = bytes - 2;
	line[length] = '\n';
	line[length + 1] = '\0';
	/* As releases up to 2.29 do it, and later ones. */
	if (manner && strcmp(manner, "vfprintf") == 0)
		put_formatted("%s", line);
	else
		(void)fwrite(line, 1, length + 1, output);
	fflush(output);
}

void fake_info(unsigned int subsystem, const char *format, ...)
{
	int saved = errno;
	char line[1024];
	size_t n;
	va_list args;

	pthread_once(&once, set_up);
	if (level < LEVEL_INFO || !(subsystems & subsystem))
		return;
	n = put_prefix(line, sizeof(line));
	n += (size_t)snprintf(line + n, sizeof(line) - n, "NCCL INFO ");
	va_start(args, format);
	n += (size_t)vsnprintf(line + n, sizeof(line) - n, format, args);
	va_end(args);
	put_line(line, sizeof(line), n);
	errno = saved;
}

void fake_warn(const char *where, int line_number, const char *format, ...)
{
	int saved = errno;
	char line[1024], stamp[32];
	time_t now = time(NULL);
	struct tm parts;
	va_list args;
	size_t n;

	pthread_once(&once, set_up);
	va_start(args, format);
	pthread_mutex_lock(&lock);
	vsnprintf(last_error, sizeof(last_error), format, args);
	pthread_mutex_unlock(&lock);
	va_end(args);
	if (level < LEVEL_WARN)
		return;
	localtime_r(&now, &parts);
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &parts);
	n = (size_t)snprintf(line, sizeof(line), "\n[%s] ", stamp);
	n += put_prefix(line + n, sizeof(line) - n);
	n += (size_t)snprintf(line + n, sizeof(line) - n, "%s:%d NCCL WARN ", where, line_number);
	va_start(args, format);
	n += (size_t)vsnprintf(line + n, sizeof(line) - n, format, args);
	va_end(args);
	put_line(line, sizeof(line), n);
	errno = saved;
}

/* Once per process, by rank 0, from NCCL_DEBUG=VERSION on. */
void fake_log_version(void)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	pthread_once(&once, set_up);
	if (level < LEVEL_VERSION || atomic_flag_test_and_set(&told))
		return;
	fprintf(output, "NCCL version 2.28.9+cuda13.0\n");
	fflush(output);
}

const char *fake_last_error(void)
{
	return last_error;
}
