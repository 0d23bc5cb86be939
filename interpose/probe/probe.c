/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-probe: does on behalf of a recording process what must not happen inside it, because it
 * may block for ever (NVML on a lost GPU) or runs foreign constructors (loading a plugin to hear
 * why it does not load). It is started by libncclspy.so in the environment of that process.
 *
 *	ncclspy-probe FILE [plugin=WORD] [gpu=PCI-BUS-ID]
 *
 * Writes lines "key=value" to FILE as it finds them, "done=1" last. The kernel ends it after two
 * seconds, wherever it is. Exit status: 0, or 2 if FILE cannot be made.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define DEADLINE_S     2
#define NVLINKS_MAX    18u
#define NVML_SM_CLOCK  1
#define NVML_UNCORRECT 1
#define NVML_VOLATILE  0
#define NVML_GPU_TEMP  0

static int out = -1;

static void put(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(const char *key, const char *format, ...)
{
	char value[400], line[480];
	va_list args;
	int n;

	va_start(args, format);
	(void)vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	for (char *c = value; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
	n = snprintf(line, sizeof(line), "%s=%s\n", key, value);
	if (n > 0 && write(out, line, (size_t)n) != n)
		_exit(2);
}

/* --- why a plugin does not load --- */

static bool try_to_load(const char *name, char *ret_error, size_t bytes)
{
	const char *error;

	if (dlopen(name, RTLD_NOW | RTLD_LOCAL))
		return true;
	error = dlerror();
	(void)snprintf(ret_error, bytes, "%s", error ? error : "it does not load");
	return false;
}

/*
 * The names that NCCL tries. A file that is not there is the least telling answer: what is told is
 * the error of a file that is there and does not load.
 */
static void probe_plugin(const char *word)
{
	char name[512], error[400], best[400] = "";
	static const char *const forms[][2] = {{"", ""}, {"libnccl-net-", ".so"}, {"lib", ".so"}};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		(void)snprintf(name, sizeof(name), "%s%s%s", forms[i][0], word, forms[i][1]);
		if (try_to_load(name, error, sizeof(error))) {
			put("net_plugin.probe", "%s loads by itself; it may have failed to start",
			    name);
			return;
		}
		/* "NAME: cannot open ..." speaks of the file itself, anything else of its needs. */
		if (!best[0] || strncmp(error, name, strlen(name)) != 0)
			(void)snprintf(best, sizeof(best), "%s", error);
	}
	put("net_plugin.probe", "%s", best);
}

/* --- the GPU --- */

static void *nvml;

static void *function(const char *name)
{
	return nvml ? dlsym(nvml, name) : NULL;
}

static void put_number(const char *key, const char *name, void *device, int what)
{
	typedef int get_fn(void *device, int what, unsigned int *value);
	get_fn *get = (get_fn *)function(name);
	unsigned int value = 0;

	if (get && get(device, what, &value) == 0)
		put(key, "%u", value);
}

static void put_name(void *device)
{
	typedef int get_fn(void *device, char *text, unsigned int bytes);
	get_fn *get = (get_fn *)function("nvmlDeviceGetName");
	char text[96] = "";

	if (get && get(device, text, sizeof(text)) == 0)
		put("gpu.name", "%s", text);
}

static void put_ecc(void *device)
{
	typedef int get_fn(void *device, int kind, int counter, unsigned long long *value);
	get_fn *get = (get_fn *)function("nvmlDeviceGetTotalEccErrors");
	unsigned long long value = 0;

	if (get && get(device, NVML_UNCORRECT, NVML_VOLATILE, &value) == 0)
		put("gpu.ecc_uncorrected", "%llu", value);
}

static void put_nvlink(void *device)
{
	typedef int get_fn(void *device, unsigned int link, int *active);
	get_fn *get = (get_fn *)function("nvmlDeviceGetNvLinkState");
	unsigned int inactive = 0, links = 0;

	for (unsigned int link = 0; get && link < NVLINKS_MAX; link++) {
		int active = 0;

		if (get(device, link, &active) != 0)
			continue;
		links++;
		inactive += !active;
	}
	if (links)
		put("gpu.nvlink_inactive", "%u", inactive);
}

static void probe_gpu(const char *bus_id)
{
	typedef int init_fn(void);
	typedef int find_fn(const char *bus_id, void **device);
	typedef int count_fn(unsigned int *count);
	init_fn *init;
	find_fn *find;
	count_fn *count;
	unsigned int devices = 0;
	void *device = NULL;

	nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	init = (init_fn *)function("nvmlInit_v2");
	find = (find_fn *)function("nvmlDeviceGetHandleByPciBusId_v2");
	count = (count_fn *)function("nvmlDeviceGetCount_v2");
	if (!init || !find || init() != 0)
		return;
	if (count && count(&devices) == 0)
		put("gpu.count", "%u", devices);
	if (find(bus_id, &device) != 0)
		return;
	put_name(device);
	put_number("gpu.sm_mhz", "nvmlDeviceGetClockInfo", device, NVML_SM_CLOCK);
	put_number("gpu.sm_mhz_max", "nvmlDeviceGetMaxClockInfo", device, NVML_SM_CLOCK);
	put_number("gpu.temperature", "nvmlDeviceGetTemperature", device, NVML_GPU_TEMP);
	put_ecc(device);
	put_nvlink(device);
}

int main(int argc, char **argv)
{
	const struct rlimit no_core = {0, 0};
	sigset_t none;

	/* The thread that started us had all signals blocked. */
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(DEADLINE_S);
	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (argc < 2)
		return 2;
	out = open(argv[1], O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return 2;
	for (int i = 2; i < argc; i++) {
		if (strncmp(argv[i], "plugin=", 7) == 0)
			probe_plugin(argv[i] + 7);
		else if (strncmp(argv[i], "gpu=", 4) == 0)
			probe_gpu(argv[i] + 4);
	}
	put("done", "1");
	/* Not by exit: the destructors of what was loaded may block too. */
	_exit(0);
}
