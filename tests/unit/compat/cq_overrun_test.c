/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_poll_cq(3) of a queue that was too small: what is in it, then the failure, once. */
#include "test.h"
#include "unit/compat/loop_fixture.h"

TEST(test_ibv_poll_cq_tells_of_an_overrun_after_what_was_kept)
{
	struct ibv_async_event event;
	struct ibv_wc wc[2 * LOOP_CQ];
	struct loop l;

	loop_make(&l);
	for (uint64_t i = 0; i <= LOOP_CQ; i++)
		EXPECT_EQ(loop_write_nothing(&l), 0);
	/* More are asked for than there are, so that the end of the queue is met. */
	EXPECT_EQ(ibv_poll_cq(l.cq, 2 * LOOP_CQ, wc), LOOP_CQ);
	for (int i = 0; i < LOOP_CQ; i++)
		EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_poll_cq(l.cq, 1, wc), -1);
	EXPECT_EQ(ibv_poll_cq(l.cq, 1, wc), 0);
	EXPECT_EQ(ibv_get_async_event(l.context, &event), 0);
	EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
	EXPECT(event.element.cq == l.cq);
	ibv_ack_async_event(&event);
	loop_free(&l);
}
