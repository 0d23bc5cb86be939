/* SPDX-License-Identifier: Apache-2.0 */
/* What all objects have: fid.ops. */
#include "compat.h"

#include <errno.h>
#include <stdio.h>

#include "events.h"
#include "objects.h"
#include "traffic.h"

static int watched_close(struct nspy_fi_fid *fid)
{
	const struct nspy_shadow *s = nspy_shadow_of(&fid->ops);
	const struct nspy_fi_ops *real = s ? s->orig : NULL;
	struct nspy_fab *fab = s ? s->owner : NULL;
	int rc;

	if (!fab)
		return -NSPY_FI_ENOSYS;
	/* A provider's cache has handed this registration out more than once. */
	if (atomic_fetch_sub(&fab->refs, 1) > 1) {
		nspy_fabric_depth++;
		rc = real->close(fid);
		nspy_fabric_depth--;
		return rc;
	}
	nspy_fab_restore(fab);
	nspy_fabric_depth++;
	rc = real->close(fid);
	nspy_fabric_depth--;
	if (rc == -NSPY_FI_EBUSY) { /* still alive */
		atomic_store(&fab->refs, 1);
		nspy_fab_apply(fab);
		return rc;
	}
	nspy_fab_closed(fab);
	nspy_fab_free(fab);
	return rc;
}

/* Enabling may change tables or look at them; an alias copies them. */
static int watched_control(struct nspy_fi_fid *fid, int command, void *arg)
{
	const struct nspy_shadow *s = nspy_shadow_of(&fid->ops);
	const struct nspy_fi_ops *real = s ? s->orig : NULL;
	struct nspy_fab *fab = s ? s->owner : NULL;
	int rc;

	if (!fab)
		return -NSPY_FI_ENOSYS;
	nspy_fab_restore(fab);
	nspy_fabric_depth++;
	rc = real->control(fid, command, arg);
	nspy_fabric_depth--;
	nspy_fab_apply(fab);
	return rc;
}

bool nspy_fab_watch_close(struct nspy_fab *fab, struct nspy_fi_fid *fid)
{
	struct nspy_fi_ops *ops = nspy_shadow_make(fab, &fid->ops);

	if (!ops || !nspy_fi_has(ops, close)) {
		nspy_fab_free(fab);
		return false;
	}
	ops->close = watched_close;
	if (fab->kind == NSPY_FAB_EP && nspy_fi_has(ops, control))
		ops->control = watched_control;
	nspy_shadow_install(ops);
	return true;
}

void nspy_fab_closed(struct nspy_fab *fab)
{
	switch ((enum nspy_fab_kind)fab->kind) {
	case NSPY_FAB_MR:
		nspy_memory_released(NSPY_NET_LIBFABRIC, fab->bytes);
		break;
	case NSPY_FAB_CQ:
		nspy_poll_cell_put(fab->polls);
		break;
	case NSPY_FAB_DOMAIN:
		atomic_fetch_sub(&fab->rail->domains, 1);
		break;
	default:
		break;
	}
}

void nspy_open_failed(const char *what, struct nspy_rail *rail, int error)
{
	struct nspy_fabric_event *event;
	int saved = errno;

	if (error != -ENOMEM) /* ENOSYS, EINVAL and so on are how callers probe */
		return;
	event = nspy_fabric_event_new(NSPY_NET_OPEN_FAILED);
	if (event) {
		event->error = -error;
		event->rail = rail ? rail->id : NSPY_NET_NONE;
		(void)snprintf(event->text, sizeof(event->text), "%s", what);
		nspy_fabric_event_ready(event);
	}
	errno = saved;
}
