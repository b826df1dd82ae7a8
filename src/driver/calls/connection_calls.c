/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls on a queue pair's connection. */
#include "base/reserved.h"
#include "driver/roce/roce.h"
#include "driver/tcp/tcp.h"

enum weft_reason weft_qp_dial(struct weft_qp *qp, const struct weft_address *to,
			      const struct weft_connect_options *options)
{
	static const struct weft_connect_options defaults;
	struct weft_adapter *a;
	struct tcp *tcp;
	enum weft_reason r;

	if (!qp || !to)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	a = adapter_enter_qp(qp);
	r = tcp_get(a, &tcp);
	if (r == WEFT_OK)
		r = link_dial(tcp, qp, to, options ? options : &defaults);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_qp_disconnect(struct weft_qp *qp)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp)
		return WEFT_R_NULL_ARGUMENT;
	a = net_enter_settled(qp);
	(void)adapter_now_ns(a); /* the time that closing may take begins */
	r = qp_disconnect(qp);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_qp_peer(struct weft_qp *qp, struct weft_peer *peer)
{
	struct weft_adapter *a;
	enum weft_reason r = WEFT_R_QP_UNCONNECTED;

	if (!qp || !peer)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	if (qp->link) {
		link_peer(qp->link, peer);
		r = WEFT_OK;
	}
	adapter_leave(a);
	return r;
}

enum weft_reason weft_qp_traffic(struct weft_qp *qp, struct weft_traffic *traffic)
{
	struct weft_adapter *a;
	enum weft_reason r = WEFT_R_QP_UNCONNECTED;

	if (!qp || !traffic)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	if (qp->tally.is_begun || qp->link)
		r = WEFT_OK;
	ib_collect_direct(qp);
	if (qp->tally.is_begun)
		roce_traffic(qp, traffic);
	else if (qp->link)
		link_traffic(qp->link, traffic);
	adapter_leave(a);
	return r;
}
