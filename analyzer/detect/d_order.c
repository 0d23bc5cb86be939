/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ORDER_INVERSION
 *
 * Question: do ranks use two communicators in different order, so that they block each other?
 * Evidence: ranks are stuck and nobody is missing, and either their waits form a circle over two
 *   communicators, or the order in which they queued their last operations differs. The smaller
 *   side is named; with equal sides nobody.
 * Threshold: that of COLLECTIVE_HANG.
 * Known false positives: none known. Calls of several threads have no order and are not compared.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "text.h"
#include "who.h"

static void add_first(struct nspy_str *s, const struct nspy_case *c, const struct nspy_order_op *op)
{
	nspy_add_op(s, c->model, op->comm, op->seq);
	nspy_str_add(s, " of ");
	nspy_add_comm(s, op->comm);
}

void nspy_detect_order(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_order *order = &c->order;
	struct nspy_finding *finding;
	struct nspy_str s = {0};

	if (!order->found || nspy_hang_teller(c, &c->waits.hangs[0]) != NSPY_TOLD_BY_ORDER)
		return;
	finding = nspy_findings_add(out, NSPY_FINDING_ORDER_INVERSION);
	nspy_add_procs(&s, order->odd.items, order->odd.count);
	nspy_str_add(&s, " called ");
	add_first(&s, c, &order->odd_first);
	nspy_str_add(&s, " first, ");
	nspy_add_procs_short(&s, order->usual.items, order->usual.count);
	nspy_str_add(&s, " called ");
	add_first(&s, c, &order->usual_first);
	nspy_str_add(&s, " first: they block each other");
	finding->summary = nspy_str_take(&s);
	nspy_add_procs(&s, order->odd.items, order->odd.count);
	nspy_str_add(&s, order->tie ? " and as many others use two communicators in opposite order"
				    : " uses two communicators in another order than the others");
	finding->cause = nspy_str_take(&s);
	finding->comm = order->odd_first.comm;
	finding->seq = order->odd_first.seq;
	finding->when_ns = c->waits.hangs[0].since_ns;
	finding->confidence = nspy_case_confidence(c, finding->comm);
	for (size_t i = 0; !order->tie && i < order->odd.count; i++)
		nspy_finding_blame(finding, order->odd.items[i]);
	if (order->tie)
		nspy_finding_detail(finding, "equally many ranks on both sides: which order is "
					     "right is not determinable");
	if (c->waits.held.op && !order->tie)
		nspy_finding_detail(finding, "it may as well have left out a call: all later ones "
					     "then come one turn too early");
	nspy_texts_add(&finding->consequences, nspy_tell_waiters(c, &c->waits.hangs[0]));
}
