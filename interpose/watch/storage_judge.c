/* SPDX-License-Identifier: Apache-2.0 */
#include "storage.h"

enum nspy_storage_news nspy_storage_judge(struct nspy_storage *storage, uint64_t since_ns,
					  uint64_t now_ns, uint64_t *ret_for_ns)
{
	uint64_t told = storage->told_since_ns;

	if (told && since_ns != told) {
		storage->told_since_ns = 0;
		*ret_for_ns = (since_ns ? since_ns : now_ns) - told;
		return NSPY_STORAGE_RETURNED;
	}
	*ret_for_ns = since_ns && now_ns > since_ns ? now_ns - since_ns : 0;
	if (told || *ret_for_ns < NSPY_STORAGE_SUSPECT_NS)
		return NSPY_STORAGE_NOTHING;
	storage->told_since_ns = since_ns;
	return NSPY_STORAGE_STUCK;
}
