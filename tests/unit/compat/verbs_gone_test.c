/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program may still touch when it has destroyed a completion queue, or closed a device. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"

enum { ENTRIES = 16, KEPT = 16, TURNS = 3 * KEPT };

TEST(test_a_destroyed_cq_is_empty_and_refuses)
{
	struct ibv_context *context = loop_context();
	struct ibv_cq *cq = ibv_create_cq(context, ENTRIES, NULL, NULL, 0);
	struct ibv_wc wc;

	REQUIRE(cq);
	REQUIRE(ibv_destroy_cq(cq) == 0);
	EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	EXPECT_EQ(ibv_req_notify_cq(cq, 0), EINVAL);
	EXPECT_EQ(ibv_resize_cq(cq, ENTRIES), EINVAL);
	EXPECT_EQ(ibv_destroy_cq(cq), EINVAL);
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_a_destroyed_extended_cq_is_empty)
{
	struct ibv_context *context = loop_context();
	struct ibv_cq_init_attr_ex attr = { .cqe = ENTRIES };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);
	struct ibv_poll_cq_attr poll = { 0 };

	REQUIRE(cq);
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	EXPECT_EQ(ibv_start_poll(cq, &poll), ENOENT);
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_the_last_destroyed_cqs_stay_while_others_come_and_go)
{
	struct ibv_context *context = loop_context();
	struct ibv_cq *last[KEPT];
	struct ibv_wc wc;

	for (int i = 0; i < TURNS; i++) {
		struct ibv_cq *cq = ibv_create_cq(context, ENTRIES, NULL, NULL, 0);

		REQUIRE(cq);
		REQUIRE(ibv_destroy_cq(cq) == 0);
		last[i % KEPT] = cq;
	}
	for (int i = 0; i < KEPT; i++)
		EXPECT_EQ(ibv_poll_cq(last[i], 1, &wc), 0);
	EXPECT_EQ(ibv_close_device(context), 0);
}

/* man ibv_close_device: it "does not release all the resources allocated using context". */
TEST(test_ibv_close_device_before_its_objects)
{
	struct ibv_cq *event_cq;
	struct ibv_wc wc;
	struct loop l;
	void *which;

	loop_make(&l);
	EXPECT_EQ(ibv_req_notify_cq(l.cq, 0), 0);
	EXPECT_EQ(ibv_close_device(l.context), 0);
	/* One more than there is room for: the queue tells of an overrun, and the pair fails. */
	for (int i = 0; i <= LOOP_CQ; i++)
		EXPECT_EQ(loop_write_nothing(&l), 0);
	EXPECT_EQ(ibv_poll_cq(l.cq, 1, &wc), 1);
	EXPECT_EQ(ibv_get_cq_event(l.channel, &event_cq, &which), 0);
	ibv_ack_cq_events(event_cq, 1);
	EXPECT_EQ(ibv_destroy_qp(l.near), 0);
	EXPECT_EQ(ibv_destroy_qp(l.far), 0);
	EXPECT_EQ(ibv_destroy_cq(l.cq), 0);
	EXPECT_EQ(ibv_dealloc_pd(l.pd), 0);
	EXPECT_EQ(ibv_destroy_comp_channel(l.channel), 0);
}
