/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/gone/ends.h"

#include "live/roce/roce_way.h"

void ends_open(enum transport transport, struct tcp_end *near, struct tcp_end *far)
{
	tcp_end_open(near);
	if (transport == IN_PROCESS) {
		*far = *near;
		node_open(near->adapter, &far->node, NULL);
		nodes_connect(&near->node, &far->node);
		return;
	}
	tcp_end_open(far);
	if (transport == OVER_TCP) {
		tcp_ends_connect(near, far, NULL);
		return;
	}
	tcp_end_open_roce(near);
	tcp_end_open_roce(far);
	roce_start_both(near->node.qp, far->node.qp);
}

void ends_close(enum transport transport, struct tcp_end *near, struct tcp_end *far)
{
	if (transport == IN_PROCESS)
		node_close(&far->node, NULL);
	else
		tcp_end_close(far);
	tcp_end_close(near);
}
