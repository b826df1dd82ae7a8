/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/roce/roce_way.h"

#include <stdlib.h>
#include <string.h>

#include "live/verbs_fixture.h"

const struct weft_address roce_loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

struct weft_adapter *roce_adapter_open(void)
{
	struct weft_adapter *a;

	MUST(weft_adapter_open(&node_tables, &a));
	MUST(weft_roce_open(a));
	return a;
}

struct weft_adapter *roce_adapter_open_udp(void)
{
	struct weft_adapter *a;

	const char *was = getenv("WEFT_NEAR");
	bool is_near = !was || strcmp(was, "off") != 0;

	REQUIRE(setenv("WEFT_NEAR", "off", 1) == 0);
	a = roce_adapter_open();
	if (is_near)
		REQUIRE(setenv("WEFT_NEAR", "on", 1) == 0);
	return a;
}

void tcp_end_open_roce(struct tcp_end *e)
{
	node_close(&e->node, NULL);
	MUST(weft_roce_open(e->adapter));
	node_open(e->adapter, &e->node, NULL);
}

struct weft_roce_attr roce_way(uint32_t peer_number)
{
	return (struct weft_roce_attr){
		.path = { .from = roce_loopback, .to = roce_loopback, .mtu_bytes = 1024 },
		.peer_number = peer_number,
		.reads_in = 1,
		.reads_out = 1,
		.timeout_code = 18,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
	};
}

void roce_start(struct weft_qp *qp, const struct weft_roce_attr *way)
{
	MUST(weft_qp_to_rtr(qp, way));
	MUST(weft_qp_to_rts(qp, way));
}

void roce_start_both(struct weft_qp *a, struct weft_qp *b)
{
	const struct weft_roce_attr to_a = roce_way(weft_qp_number(a)),
				    to_b = roce_way(weft_qp_number(b));

	roce_start(a, &to_b);
	roce_start(b, &to_a);
}
