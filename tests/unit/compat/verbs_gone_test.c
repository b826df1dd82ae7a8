/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program may still touch of a completion queue that it has destroyed. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "test.h"

enum { ENTRIES = 16, KEPT = 16, TURNS = 3 * KEPT };

static struct ibv_context *open_first(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;

	REQUIRE(list);
	for (int i = 0; i < count && !context; i++)
		context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	REQUIRE(context);
	return context;
}

TEST(test_a_destroyed_cq_is_empty_and_refuses)
{
	struct ibv_context *context = open_first();
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
	struct ibv_context *context = open_first();
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
	struct ibv_context *context = open_first();
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
