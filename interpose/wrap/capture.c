/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "capture.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#define CAPTURE_NONE 0 /* CU_STREAM_CAPTURE_STATUS_NONE */

typedef int is_capturing_fn(const void *stream, int *status);

static _Atomic(is_capturing_fn *) is_capturing;

void nspy_capture_begun(void)
{
	int saved = errno;

	if (!atomic_load_explicit(&is_capturing, memory_order_relaxed)) {
		/* The driver is loaded, or nothing could have been captured; we never load it. */
		void *driver = nspy_sys_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

		if (driver) {
			atomic_store_explicit(
				&is_capturing,
				(is_capturing_fn *)nspy_sys_dlsym(driver, "cuStreamIsCapturing"),
				memory_order_release);
			nspy_sys_dlclose(driver);
		}
	}
	atomic_fetch_add_explicit(&nspy_hot->captures, 1, memory_order_release);
	errno = saved;
}

bool nspy_ask_captured(const void *stream)
{
	is_capturing_fn *ask = atomic_load_explicit(&is_capturing, memory_order_acquire);
	int status = CAPTURE_NONE;

	if (!ask)
		return false;
	/* An error (906: the legacy stream beside a capture) means that nothing may run now. */
	return ask(stream, &status) != 0 || status != CAPTURE_NONE;
}
