/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our declarations against NVIDIA's header, where there is one. The prototypes are compared by the
 * compiler: both are in this file, over the header's types, and a difference is an error. Layouts
 * are compared at run time with those of test_abi_own.c, which has only our declarations.
 */
#include <stdio.h>

#ifdef HAVE_VENDOR_HEADERS

#include <nccl.h>

#define FAKE_TYPES_FROM_VENDOR
#include "nccl_abi.h"

#include "test_abi.h"

static const struct abi_fact vendor[] = {ABI_FACTS};

int main(void)
{
	int failed = 0;

	for (int i = 0; i < abi_own_count; i++) {
		if (abi_own[i].value == vendor[i].value)
			continue;
		printf("%s is %ld, in the vendor's header %ld\n", abi_own[i].text, abi_own[i].value,
		       vendor[i].value);
		failed = 1;
	}
	if (abi_own_count != (int)(sizeof(vendor) / sizeof(vendor[0])) || abi_own_count == 0)
		failed = 1;
	printf("%d facts compared with NCCL %d\n", abi_own_count, NCCL_VERSION_CODE);
	return failed;
}

#else

int main(void)
{
	puts("no nccl.h on this machine");
	return 77;
}

#endif
