/* SPDX-License-Identifier: BSD-2-Clause */
/* A process of this host that writes the address of another host into its packets. */
#include <stdlib.h>
#include <string.h>

#include <weft/roce.h>

#include "unit/driver/near_fixture.h"

enum { NO_QP = 0x1234 };

/* A way to the adapter of that slot, which takes the ring by its own thread. */
static uint32_t reach(struct end *e, uint8_t adapter_slot)
{
	uint32_t number = near_reach(e->near, adapter_slot);

	REQUIRE(number != 0);
	while (!near_is_taken(e->near, number))
		REQUIRE(end_look(e, PATIENCE_MS));
	return number;
}

/* Sends a packet to no queue pair of the adapter: why the adapter dropped it. */
static enum weft_reason why_dropped(struct end *e, struct weft_adapter *a, struct ib_path *path)
{
	struct iba_packet p = { .opcode = iba_opcode(IBA_RC, IBA_WRITE_ONLY), .dest_qp = NO_QP };
	uint8_t bytes[IBA_HEADERS_MAX + IBA_ICRC_BYTES] = { 0 };
	static struct ib_out out;
	struct weft_roce_counts before, now;

	MUST(weft_roce_query(a, &before));
	out.path = path;
	out.spans = (struct span_list){ .count = 1 };
	out.spans.length = iba_encode(&p, bytes) + IBA_ICRC_BYTES;
	out.spans.spans[0] = (struct span){ bytes, out.spans.length };
	MUST_EQ(near_send(e->near, 0, &out), NEAR_SENT);
	near_flush(e->near);
	do
		MUST(weft_roce_query(a, &now));
	while (now.near_in == before.near_in || now.dropped == before.dropped);
	MUST_EQ(now.packets_in - before.packets_in, 1);
	return now.dropped_for;
}

TEST(test_near_packet_from_another_host_is_dropped)
{
	struct ib_path path = path_to_far;
	struct weft_adapter *a;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct end e;

	WORLD_OR_SKIP();
	REQUIRE(setenv("WEFT_NEAR", "on", 1) == 0);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_roce_open(a));
	MUST(weft_pd_create(a, NULL, &pd));
	MUST(weft_cq_create(a, NULL, &cq));
	MUST(weft_qp_create(pd, &(struct weft_qp_options){ .send_cq = cq, .recv_cq = cq }, &qp));
	end_open(&e, 200);
	path.near_number = reach(&e, (uint8_t)(weft_qp_number(qp) >> 16));
	EXPECT_EQ(why_dropped(&e, a, &path), WEFT_R_IB_SOURCE);
	memcpy(path.from.address, (uint8_t[]){ 127, 0, 0, 1 }, 4);
	EXPECT_EQ(why_dropped(&e, a, &path), WEFT_R_PEER_UNKNOWN);
	end_close(&e);
	MUST(weft_qp_destroy(qp));
	MUST(weft_cq_destroy(cq));
	MUST(weft_pd_destroy(pd));
	MUST(weft_adapter_close(a));
}
