/* SPDX-License-Identifier: BSD-2-Clause */
/* One touch (TOUCH) through queues: one message to a tag, then it is dead until bound afresh. */
#include "conformance.h"

enum { ID = 41, ALL_REMOTE = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC };

static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_WRITE_IMM,
					    WEFT_OP_FETCH_ADD, WEFT_OP_COMPARE_SWAP };
enum { OPCODES = sizeof(opcodes) / sizeof(*opcodes) };

static bool is_known(enum weft_opcode opcode)
{
	return pair_can(PAIR_ATOMICS) ||
	       (opcode != WEFT_OP_FETCH_ADD && opcode != WEFT_OP_COMPARE_SWAP);
}

/* A one-touch window over b's bytes at DST, asked for through the send queue. */
static uint32_t bind_one_touch(struct pair_end *b, uint32_t window)
{
	struct weft_send_wr wr = wr_make(WEFT_OP_BIND, ID, NULL, 0);

	wr.bind = (struct weft_bind){
		.window_tag = window,
		.region_tag = b->tag,
		.addr = b->addr + DST,
		.length = 4096,
		.rights = ALL_REMOTE,
		.is_one_touch = true,
	};
	end_succeeds(b, &wr);
	return wr.bind.tag;
}

/* The operation by this tag; the peer has a receive for a Write with immediate. */
static struct weft_send_wr touch_wr(struct pair_end *a, enum weft_opcode opcode,
				    const struct weft_sge *s, uint32_t tag)
{
	struct weft_send_wr wr = end_wr(a, opcode, ID, s, DST + 8);

	wr.remote_tag = tag;
	if (opcode == WEFT_OP_WRITE_IMM)
		end_post_recv(a->peer, ID, SRC, 64);
	return wr;
}

static void touch_good(struct pair_end *a, enum weft_opcode opcode, uint32_t length, uint32_t tag)
{
	const struct weft_sge s = end_seg(a, SRC, length);
	struct weft_send_wr wr = touch_wr(a, opcode, &s, tag);

	end_succeeds(a, &wr);
	if (opcode == WEFT_OP_WRITE_IMM)
		end_received(a->peer, ID);
}

static void touch_refused(struct pair_end *a, enum weft_opcode opcode, uint32_t length,
			  uint32_t tag)
{
	const struct weft_sge s = end_seg(a, SRC, length);
	struct weft_send_wr wr = touch_wr(a, opcode, &s, tag);

	pair_blank(a->pair);
	end_refused(a, &wr, WEFT_R_TAG_SPENT);
	end_is_blank(a->peer, DST, 4096);
	end_is_blank(a, SRC, length);
	pair_revive(a->pair);
}

/* The first message is an ordinary request to the peer, the second is refused (TOUCH-03, S1). */
TEST(test_touch_01_touch_03_touch_s1_rkey_10_good_once_then_refused)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	for (int first = 0; first < OPCODES; first++) {
		for (int second = 0; second < OPCODES; second++) {
			uint32_t window, tag;

			if (!is_known(opcodes[first]) || !is_known(opcodes[second]))
				continue;
			MUST(weft_window_alloc(b->pd, &window));
			tag = bind_one_touch(b, window);
			touch_good(a, opcodes[first], 8, tag);
			touch_refused(a, opcodes[second], 8, tag);
			touch_refused(a, opcodes[first], 8, tag);
			MUST(weft_window_free(b->pd, tag));
		}
	}
	pair_close(&p);
}

TEST(test_touch_01_a_whole_long_message_is_one_touch)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	struct weft_bind bind;

	pair_open(&p, NULL);
	bind = (struct weft_bind){
		.region_tag = b->tag,
		.addr = b->addr + DST,
		.length = 65536 + 3,
		.rights = WEFT_REMOTE_WRITE,
		.is_one_touch = true,
	};
	MUST(weft_window_alloc(b->pd, &bind.window_tag));
	MUST(weft_window_bind(b->pd, &bind));
	end_fill(a, SRC, 65536 + 3, 3);
	s = end_seg(a, SRC, 65536 + 3);
	wr = end_wr(a, WEFT_OP_WRITE, ID, &s, DST);
	wr.remote_tag = bind.tag;
	end_succeeds(a, &wr);
	end_holds(b, DST, 65536 + 3, 3);
	EXPECT_EQ(weft_window_unbind(b->pd, bind.tag), WEFT_R_WINDOW_UNBOUND); /* it has closed */
	MUST(weft_window_free(b->pd, bind.tag));
	pair_close(&p);
}

/* LOC-04, TOUCH-02: asked for when binding. A window bound without it lives on. */
TEST(test_loc_04_touch_02_one_touch_is_asked_for_when_binding)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t window, tag;

	pair_open(&p, NULL);
	MUST(weft_window_alloc(b->pd, &window));
	tag = bind_one_touch(b, window);
	touch_good(a, WEFT_OP_WRITE, 8, tag);
	touch_refused(a, WEFT_OP_WRITE, 8, tag);
	MUST(weft_window_free(b->pd, tag));
	tag = end_bind(b, DST, 4096, ALL_REMOTE);
	for (int i = 0; i < 20; i++)
		touch_good(a, is_known(opcodes[i % OPCODES]) ? opcodes[i % OPCODES] : WEFT_OP_WRITE,
			   8, tag);
	end_unbind(b, tag);
	pair_close(&p);
}

TEST(test_touch_02_a_region_may_be_one_touch_too)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_region_options o = { .length = 4096,
					 .rights = ALL_REMOTE,
					 .is_one_touch = true };
	uint32_t tag;

	pair_open(&p, NULL);
	o.addr = b->addr + DST;
	o.rights |= WEFT_BIND;
	EXPECT_EQ(weft_region_register(b->pd, &o, &tag), WEFT_R_REG_TOUCH);
	o.rights &= ~(uint32_t)WEFT_BIND;
	MUST(weft_region_register(b->pd, &o, &tag));
	touch_good(a, WEFT_OP_READ, 64, tag);
	touch_refused(a, WEFT_OP_WRITE, 8, tag);
	MUST(weft_region_deregister(b->pd, tag));
	pair_close(&p);
}

TEST(test_touch_10_a_read_uses_the_touch_when_it_is_answered)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t window, tag;

	pair_open(&p, NULL);
	MUST(weft_window_alloc(b->pd, &window));
	tag = bind_one_touch(b, window);
	end_fill(b, DST, 4096, 6);
	s = end_seg(a, SRC, 4096);
	wr = end_wr(a, WEFT_OP_READ, ID, &s, DST);
	wr.remote_tag = tag;
	end_succeeds(a, &wr);
	end_holds(a, SRC, 4096, 6);
	touch_refused(a, WEFT_OP_READ, 8, tag);
	MUST(weft_window_free(b->pd, tag));
	pair_close(&p);
}

TEST(test_touch_11_a_fresh_bind_opens_it_again_under_another_tag)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t window, old, tag;
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	MUST(weft_window_alloc(b->pd, &window));
	tag = bind_one_touch(b, window);
	for (int round = 0; round < 5; round++) {
		touch_good(a, WEFT_OP_WRITE, 8, tag);
		touch_refused(a, WEFT_OP_WRITE, 8, tag);
		old = tag;
		tag = bind_one_touch(b, window);
		EXPECT(tag != old);
		s = end_seg(a, SRC, 8);
		wr = end_wr(a, WEFT_OP_WRITE, ID, &s, DST);
		wr.remote_tag = old;
		end_refused(a, &wr, WEFT_R_TAG_INSTANCE);
		pair_revive(&p);
	}
	end_unbind(b, tag);
	pair_close(&p);
}

/* What never reached the window's memory has not touched it. */
TEST(test_touch_01_refused_and_empty_messages_do_not_touch)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	const struct weft_sge nothing = { 0 };
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t window, tag;

	pair_open(&p, NULL);
	MUST(weft_window_alloc(b->pd, &window));
	tag = bind_one_touch(b, window);
	wr = touch_wr(a, WEFT_OP_WRITE, &nothing, tag);
	end_succeeds(a, &wr);
	wr = touch_wr(a, WEFT_OP_READ, &nothing, tag);
	end_succeeds(a, &wr);
	s = end_seg(a, SRC, 4096);
	wr = touch_wr(a, WEFT_OP_WRITE, &s, tag); /* ends 8 bytes past the window */
	end_refused(a, &wr, WEFT_R_RANGE_BOUNDS);
	pair_revive(&p);
	touch_good(a, WEFT_OP_WRITE, 8, tag);
	touch_refused(a, WEFT_OP_WRITE, 8, tag);
	MUST(weft_window_free(b->pd, tag));
	pair_close(&p);
}

/* AMB-04: the response to a Read is a message to its sink, and uses up the sink's one touch. */
TEST(test_touch_01_a_response_touches_its_sink)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_region_options o = {
		.length = 64,
		.rights = WEFT_LOCAL_WRITE,
		.is_one_touch = true,
	};
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t tag;

	pair_open(&p, NULL);
	o.addr = a->addr + SRC;
	MUST(weft_region_register(a->pd, &o, &tag));
	end_fill(b, DST, 64, 7);
	s = end_seg(a, SRC, 0);
	s.tag = tag;
	wr = end_wr(a, WEFT_OP_READ, ID, &s, DST);
	end_succeeds(a, &wr); /* of nothing: touches nothing */
	s.length = 64;
	end_succeeds(a, &wr);
	end_holds(a, SRC, 64, 7);
	end_fill(b, DST, 64, 8);
	end_post(a, &wr);
	end_send_failed(a, ID, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_SPENT);
	end_holds(a, SRC, 64, 7);
	MUST(weft_region_deregister(a->pd, tag));
	pair_revive(&p);
	pair_close(&p);
}
