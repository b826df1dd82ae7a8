/* SPDX-License-Identifier: BSD-2-Clause */
/* Windows for one queue pair without a request: weft_window_bind_to(), weft_window_give(). */
#include <string.h>

#include <weft/weft.h>

#include "test.h"

enum { PAIRS = 2, BYTES = 64 };

/* Requesters a, and responders b whose memory the window opens. */
static struct weft_adapter *adapter;
static struct weft_pd *pd;
static struct weft_cq *cq;
static struct weft_qp *a[PAIRS], *b[PAIRS];
static uint8_t memory[BYTES], source[BYTES];
static uint32_t region, window;

static void open_all(void)
{
	struct weft_region_options r = { .addr = (uintptr_t)memory,
					 .length = BYTES,
					 .rights = WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE |
						   WEFT_BIND };
	struct weft_qp_options options = { 0 };

	memset(memory, 0, BYTES);
	REQUIRE(weft_adapter_open(NULL, &adapter) == WEFT_OK);
	REQUIRE(weft_pd_create(adapter, NULL, &pd) == WEFT_OK);
	REQUIRE(weft_cq_create(adapter, NULL, &cq) == WEFT_OK);
	options.send_cq = options.recv_cq = cq;
	for (int i = 0; i < PAIRS; i++) {
		REQUIRE(weft_qp_create(pd, &options, &a[i]) == WEFT_OK);
		REQUIRE(weft_qp_create(pd, &options, &b[i]) == WEFT_OK);
		REQUIRE(weft_qp_connect(a[i], b[i]) == WEFT_OK);
	}
	REQUIRE(weft_region_register(pd, &r, &region) == WEFT_OK);
	REQUIRE(weft_window_alloc(pd, &window) == WEFT_OK);
}

static void close_all(void)
{
	REQUIRE(weft_window_discard(pd, window) == WEFT_OK);
	for (int i = 0; i < PAIRS; i++) {
		REQUIRE(weft_qp_destroy(a[i]) == WEFT_OK);
		REQUIRE(weft_qp_destroy(b[i]) == WEFT_OK);
	}
	REQUIRE(weft_region_deregister(pd, region) == WEFT_OK);
	REQUIRE(weft_cq_destroy(cq) == WEFT_OK);
	REQUIRE(weft_pd_destroy(pd) == WEFT_OK);
	REQUIRE(weft_adapter_close(adapter) == WEFT_OK);
}

static struct weft_bind bind_of_all(void)
{
	return (struct weft_bind){ .window_tag = window,
				   .region_tag = region,
				   .addr = (uintptr_t)memory,
				   .length = BYTES,
				   .rights = WEFT_REMOTE_WRITE };
}

/* A Write by the i-th pair through the window; how it ended. */
static enum weft_reason write_by(int i, uint32_t tag, uint8_t byte)
{
	struct weft_sge sge = { .addr = (uintptr_t)source, .length = 1 };
	struct weft_send_wr wr = { .opcode = WEFT_OP_WRITE,
				   .flags = WEFT_SIGNALLED | WEFT_INLINE,
				   .sges = &sge,
				   .sge_count = 1,
				   .remote_tag = tag,
				   .remote_addr = (uintptr_t)memory + (uint64_t)i };
	struct weft_completion c;
	uint32_t count = 0;

	source[0] = byte;
	REQUIRE(weft_qp_post_send(a[i], &wr, 1, NULL) == WEFT_OK);
	while (count == 0)
		REQUIRE(weft_cq_poll(cq, &c, 1, &count) == WEFT_OK);
	return c.reason;
}

TEST(test_rkey_06_a_window_bound_to_a_queue_pair_serves_no_other)
{
	struct weft_bind bind;

	open_all();
	bind = bind_of_all();
	EXPECT_EQ(weft_window_bind_to(b[0], &bind), WEFT_OK);
	EXPECT(bind.tag != 0 && weft_tag_index(bind.tag) == weft_tag_index(window));
	EXPECT_EQ(write_by(0, bind.tag, 7), WEFT_OK);
	EXPECT_EQ(memory[0], 7);
	EXPECT_EQ(write_by(1, bind.tag, 8), WEFT_R_TAG_QP);
	EXPECT_EQ(memory[1], 0);
	close_all();
}

TEST(test_rkey_06_a_window_bound_to_a_queue_pair_ends_with_its_reset)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct weft_bind bind;

	open_all();
	bind = bind_of_all();
	EXPECT_EQ(weft_window_bind_to(b[0], &bind), WEFT_OK);
	EXPECT_EQ(weft_region_deregister(pd, region), WEFT_R_REGION_HAS_WINDOWS);
	EXPECT_EQ(weft_qp_modify(a[0], &reset, WEFT_QP_STATE), WEFT_OK);
	EXPECT_EQ(weft_qp_modify(b[0], &reset, WEFT_QP_STATE), WEFT_OK);
	EXPECT_EQ(weft_qp_connect(a[0], b[0]), WEFT_OK);
	EXPECT(write_by(0, bind.tag, 7) != WEFT_OK);
	EXPECT_EQ(memory[0], 0);
	close_all();
}

TEST(test_rkey_11_a_bind_to_a_queue_pair_that_is_refused_changes_nothing)
{
	struct weft_bind bind;

	open_all();
	bind = bind_of_all();
	bind.rights = WEFT_REMOTE_READ;
	EXPECT_EQ(weft_window_bind_to(b[0], &bind), WEFT_R_BIND_RIGHTS);
	EXPECT_EQ(bind.tag, 0);
	EXPECT_EQ(weft_window_unbind(pd, window), WEFT_R_WINDOW_UNBOUND);
	close_all();
}

TEST(test_rkey_06_a_window_is_given_to_a_queue_pair_with_its_tag)
{
	struct weft_bind bind;

	open_all();
	bind = bind_of_all();
	EXPECT_EQ(weft_window_bind(pd, &bind), WEFT_OK);
	EXPECT_EQ(write_by(0, bind.tag, 1), WEFT_OK);
	EXPECT_EQ(write_by(1, bind.tag, 2), WEFT_OK);
	EXPECT_EQ(weft_window_give(b[1], bind.tag), WEFT_OK);
	EXPECT_EQ(write_by(1, bind.tag, 3), WEFT_OK);
	EXPECT_EQ(write_by(0, bind.tag, 4), WEFT_R_TAG_QP);
	EXPECT_EQ(memory[0], 1);
	EXPECT_EQ(memory[1], 3);
	close_all();
}

TEST(test_rkey_06_only_a_bound_window_can_be_given)
{
	open_all();
	EXPECT_EQ(weft_window_give(b[0], region), WEFT_R_TAG_TYPE);
	EXPECT_EQ(weft_window_give(b[0], window), WEFT_R_WINDOW_UNBOUND);
	EXPECT_EQ(weft_window_give(b[0], 0), WEFT_R_TAG_INVALID);
	close_all();
}
