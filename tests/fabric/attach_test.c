/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters at ports of a fabric: who gets which frames. */
#include <poll.h>

#include "driver/sys/clock.h"
#include "fabric/attach_end.h"
#include "test.h"
#include "wire/ibcm.h"

/* Frames are posted, all of them; or cross at once, those that can. */
const char *harness_round(uint64_t round)
{
	fabric_bed_let_cross(round == 1);
	return round == 0 ? "posted" : round == 1 ? "crossing" : NULL;
}

/* SYS-01: several adapters of one node, each with its queue pairs. */
TEST(test_sys_01_a_frame_goes_to_the_adapter_of_its_queue_pair)
{
	struct end ends[3];

	end_open(&ends[0], 0);
	end_open(&ends[1], 1);
	end_open(&ends[2], 1);
	EXPECT(fabric_attach_slot(ends[1].attach) != fabric_attach_slot(ends[2].attach));
	EXPECT_EQ(fabric_attach_state(ends[1].attach)->port_guid, 0x201);
	for (int i = 1; i < 3; i++) {
		end_send(&ends[0], &ends[i]);
		EXPECT_EQ(iba_dest_qp(end_next(&ends[i])->bytes, 64), end_qp(&ends[i]));
	}
	/* To itself, and to another adapter of its own port: without a link. */
	end_send(&ends[1], &ends[1]);
	EXPECT_EQ(end_next(&ends[1])->local.from, end_lid(&ends[1]));
	end_send(&ends[1], &ends[2]);
	EXPECT_EQ(end_next(&ends[2])->local.to, end_lid(&ends[2]));
	for (int i = 0; i < 3; i++)
		fabric_attach_close(ends[i].attach);
	EXPECT(hub_await(hub_has_adapters, 0));
	fabric_bed_close();
}

/* FAB-22f: which of its LIDs it came to; FAB-23. */
TEST(test_fab_22f_path_bits_of_several_lids)
{
	struct end a, b;
	uint8_t frame[IBA_FRAME_MAX];

	end_open(&a, 0);
	end_open(&b, 1);
	for (uint16_t bits = 0; bits < 2; bits++) {
		uint16_t from = (uint16_t)(end_lid(&a) + bits), to = (uint16_t)(end_lid(&b) + bits);

		REQUIRE(end_post(&a, frame, end_frame(frame, from, to, end_qp(&b), NULL), false));
		EXPECT_EQ(end_next(&b)->path_bits, bits);
	}
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

static void go_init(struct attach_state *s)
{
	s->info.state = SM_PORT_INIT;
}

static void go_active(struct attach_state *s)
{
	s->info.state = SM_PORT_ACTIVE;
}

/* What an adapter may not send: in the name of others, to management, or while it is not Active. */
TEST(test_fab_22c_adapter_sends_only_as_itself)
{
	struct end a, b;
	uint8_t frame[IBA_FRAME_MAX];
	uint16_t from, to;

	end_open(&a, 0);
	end_open(&b, 1);
	from = end_lid(&a);
	to = end_lid(&b);
	REQUIRE(end_post(&a, frame, end_frame(frame, (uint16_t)(from + 2), to, end_qp(&b), NULL),
			 false));
	REQUIRE(end_post(&a, frame, end_frame(frame, from, to, 0, NULL), false));
	REQUIRE(end_post(&a, frame, end_frame(frame, from, 0, end_qp(&b), NULL), false));
	REQUIRE(end_post(&a, frame, end_frame(frame, from, 0xffff, end_qp(&b), NULL), false));
	REQUIRE(end_post(&a, frame, 20, false)); /* not as long as it says */
	EXPECT(hub_await(hub_has_refused, 5));
	fabric_bed_change(0, go_init, ATTACH_NEWS_STATE);
	end_look(&a);
	EXPECT_EQ(a.news, ATTACH_NEWS_STATE);
	EXPECT_EQ(fabric_attach_state(a.attach)->info.state, SM_PORT_INIT);
	end_send(&a, &b);
	EXPECT(hub_await(hub_has_refused, 6));
	EXPECT_EQ(fabric_bed_frames(), 0);
	fabric_bed_change(0, go_active, ATTACH_NEWS_STATE);
	end_send(&a, &b);
	(void)end_next(&b);
	/* A queue pair that no adapter has. */
	REQUIRE(end_post(&a, frame, end_frame(frame, from, to, 0xfe0001, NULL), false));
	EXPECT(hub_await(hub_has_lost, 1));
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

TEST(test_fab_22a_nodes_and_slots_that_are_not_there)
{
	struct end e, all[254];

	fabric_bed_open();
	EXPECT_EQ(end_try(&e, "middle", 0), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(end_try(&e, "left", 2), WEFT_R_FABRIC_NODE);
	EXPECT_EQ(end_try(&e, "elsewhere", 0), WEFT_R_FABRIC_PART);
	for (int i = 0; i < 254; i++)
		MUST(end_try(&all[i], "left", 1));
	EXPECT_EQ(end_try(&e, "left", 1), WEFT_R_FABRIC_SLOTS);
	fabric_attach_close(all[7].attach);
	EXPECT(hub_await(hub_has_adapters, 253));
	MUST(end_try(&all[7], "left", 1));
	for (int i = 0; i < 254; i++)
		fabric_attach_close(all[i].attach);
	fabric_bed_close();
	EXPECT_EQ(end_try(&e, "left", 0), WEFT_R_FABRIC_ABSENT);
}

/* A service is one adapter's at a port, until it releases it, or ends. */
TEST(test_fab_20_services_of_a_port)
{
	struct end a, b, c;

	end_open(&a, 0);
	end_open(&b, 0);
	end_open(&c, 1);
	MUST(fabric_attach_claim(a.attach, 7));
	MUST(fabric_attach_claim(a.attach, 7));
	EXPECT_EQ(fabric_attach_claim(b.attach, 7), WEFT_R_ADDRESS_IN_USE);
	MUST(fabric_attach_claim(c.attach, 7));
	fabric_attach_release(a.attach, 7);
	EXPECT_EQ(fabric_attach_claim(b.attach, 7), WEFT_R_ADDRESS_IN_USE);
	fabric_attach_release(a.attach, 7);
	MUST(fabric_attach_claim(a.attach, 8)); /* so the release was heard */
	MUST(fabric_attach_claim(b.attach, 7));
	fabric_attach_close(b.attach);
	EXPECT(hub_await(hub_has_adapters, 2));
	MUST(fabric_attach_claim(a.attach, 7));
	fabric_attach_close(a.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* A thread that rests would not hear of the frame. */
TEST(test_sys_01_a_wake_up_that_a_question_has_read_is_told)
{
	struct pollfd p = { .events = POLLIN };
	struct end a, b;

	end_open(&a, 0);
	end_open(&b, 1);
	MUST(fabric_attach_claim(b.attach, 7));
	EXPECT(!fabric_attach_was_woken(b.attach));
	for (uint64_t service = 8; service < 10; service++) {
		REQUIRE(!fabric_attach_next(b.attach) && fabric_attach_rest(b.attach));
		end_send(&a, &b);
		p.fd = b.watch->fd;
		REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
		MUST(fabric_attach_claim(b.attach, service));
		EXPECT(fabric_attach_was_woken(b.attach));
		EXPECT(!fabric_attach_was_woken(b.attach));
		(void)end_next(&b);
	}
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

TEST(test_fab_20_an_adapter_has_so_many_services_at_most)
{
	enum { SERVICES = 4096 };
	struct end a;

	end_open(&a, 0);
	for (uint64_t i = 1; i <= SERVICES; i++)
		MUST(fabric_attach_claim(a.attach, i));
	EXPECT_EQ(fabric_attach_claim(a.attach, SERVICES + 1), WEFT_R_LIMIT);
	MUST(fabric_attach_claim(a.attach, 1)); /* it has that one */
	fabric_attach_close(a.attach);
	fabric_bed_close();
}

/* UD: all that have joined get a copy, its sender too. */
TEST(test_ud_01_group_of_several_adapters)
{
	static const uint8_t gid[16] = { 0xff, 0x12, [15] = 9 };
	struct end a, b, c;
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	MUST(fabric_attach_join(a.attach, gid));
	MUST(fabric_attach_join(b.attach, gid));
	length = end_frame(frame, end_lid(&a), 0xc001, IBA_QPN_MULTICAST, gid);
	REQUIRE(end_post(&a, frame, length, true));
	EXPECT_EQ(end_next(&a)->local.to, 0xc001);
	EXPECT_EQ(end_next(&b)->local.to, 0xc001);
	fabric_attach_leave(b.attach, gid);
	MUST(fabric_attach_join(c.attach, gid));
	REQUIRE(end_post(&a, frame, length, true));
	EXPECT_EQ(end_next(&c)->local.to, 0xc001);
	end_send(&a, &b);
	EXPECT_EQ(end_next(&b)->local.to, end_lid(&b)); /* and not the group's before it */
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

static void end_drain(struct end *e)
{
	while (fabric_attach_next(e->attach))
		continue;
}

/* FAB-13: a member that does not read holds back what its group is sent, and loses none of it. */
TEST(test_fab_13_a_group_waits_for_a_member_that_does_not_read)
{
	static const uint8_t gid[16] = { 0xff, 0x12, [15] = 9 };
	struct end a, b, c;
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length, sent = 0;
	uint64_t held;
	bool is_held = false, is_full = false;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	MUST(fabric_attach_join(b.attach, gid));
	MUST(fabric_attach_join(c.attach, gid));
	length = end_frame(frame, end_lid(&a), 0xc001, IBA_QPN_MULTICAST, gid);
	held = fabric_bed_counts().held;
	while (!is_full) {
		while (end_post(&a, frame, length, true))
			sent++;
		end_drain(&c); /* one member reads, the other does not */
		is_full = fabric_attach_rest(a.attach) && is_held;
		is_held = fabric_bed_counts().held > held;
	}
	for (uint32_t come = 0; come < sent; come++) {
		end_drain(&c);
		EXPECT_EQ(end_next(&b)->local.to, 0xc001);
	}
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* IBA 13.6.4: an answer about a service goes to the adapter that asked, by the number it gave. */
TEST(test_fab_20_an_answer_about_a_service_goes_to_its_asker)
{
	enum { SLOT_SHIFT = 24 };
	struct end a, b, c;
	uint8_t mad[MAD_BYTES] = { 0 }, frame[IBA_FRAME_MAX];
	struct ibcm_msg m = { .kind = IBCM_SIDR_REP };
	struct iba_frame f = { .packet = { .opcode = IBA_UD_SEND,
					   .p_key = IBA_PKEY_DEFAULT,
					   .dest_qp = IBA_QPN_GSI,
					   .payload = mad,
					   .payload_bytes = MAD_BYTES } };

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	f.lrh.from = end_lid(&a);
	f.lrh.to = end_lid(&c);
	m.sidr_rep.request_id = (uint32_t)fabric_attach_slot(c.attach) << SLOT_SHIFT | 5;
	ibcm_encode(&m, mad);
	REQUIRE(end_post(&a, frame, iba_frame_encode(&f, frame), false));
	EXPECT_EQ(iba_dest_qp(end_next(&c)->bytes, 64), IBA_QPN_GSI);
	EXPECT(fabric_attach_next(b.attach) == NULL);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* Lane 15 is of management; which lane data has, the port says. */
TEST(test_fab_11_an_adapter_chooses_no_lane)
{
	struct end a, b;
	uint8_t frame[IBA_FRAME_MAX];
	const struct ib_in *in;
	uint32_t length;

	end_open(&a, 0);
	end_open(&b, 1);
	length = end_frame(frame, end_lid(&a), end_lid(&b), end_qp(&b), NULL);
	frame[0] |= IBA_LANE_MANAGEMENT << 4;
	REQUIRE(end_post(&a, frame, length, false));
	in = end_next(&b);
	EXPECT_EQ(iba_lane(in->bytes - in->route_bytes), 0);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* FAB-13: one that does not read holds its port's frames back, and loses none; FAB-10. */
TEST(test_fab_13_adapter_that_does_not_read_loses_nothing)
{
	struct end a, b;
	uint32_t sent;

	end_open(&a, 0);
	end_open(&b, 1);
	sent = end_fill(&a, &b);
	for (uint32_t come = 0; come < sent; come++)
		(void)end_next(&b);
	EXPECT(fabric_attach_next(b.attach) == NULL);
	EXPECT(fabric_attach_has_room(a.attach));
	end_send(&a, &b);
	(void)end_next(&b);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

enum { STILL_MS = 200 };

static const uint64_t ms_ns = 1000 * 1000;

/* So many ms from now on, for the hub. */
static void expire(uint64_t ms)
{
	fabric_bed_hold();
	fabric_bed_expire(clock_ns() + ms * ms_ns);
	fabric_bed_release();
}

/* A process that is stopped for long loses what comes, and others have the port; FAB-10. */
TEST(test_fab_13_adapter_that_stands_still_holds_others_back_no_longer)
{
	struct end a, b, c;
	uint64_t untaken;
	uint32_t sent;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	sent = end_fill(&a, &b);
	expire(0);
	EXPECT_EQ(fabric_bed_counts().untaken, 0);
	expire(STILL_MS);
	while (!fabric_attach_has_room(a.attach))
		end_look(&a);
	end_send(&a, &c);
	EXPECT_EQ(iba_dest_qp(end_next(&c)->bytes, 64), end_qp(&c));
	untaken = fabric_bed_counts().untaken;
	EXPECT(untaken > 0);
	/* It goes on: what was in its ring is there, and what comes from now on. */
	for (uint32_t come = 0; come < sent - untaken; come++)
		(void)end_next(&b);
	EXPECT(fabric_attach_next(b.attach) == NULL);
	end_send(&a, &b);
	(void)end_next(&b);
	EXPECT_EQ(fabric_bed_counts().untaken, untaken);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* A hostile one that takes some now and then, and half of its ring never, gains no more time. */
TEST(test_fab_13_adapter_that_takes_little_holds_others_back_no_longer)
{
	struct end a, b;

	end_open(&a, 0);
	end_open(&b, 1);
	for (int come = 0, sent = (int)end_fill(&a, &b); come < sent / 6; come++)
		(void)end_next(&b);
	expire(STILL_MS);
	EXPECT(hub_await(hub_has_untaken, 1));
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* One that has taken half of its ring, and does not say so, loses nothing. */
TEST(test_fab_13_adapter_that_takes_much_loses_nothing)
{
	struct end a, b;
	uint32_t sent, come = 0;

	end_open(&a, 0);
	end_open(&b, 1);
	sent = end_fill(&a, &b);
	fabric_bed_hold();
	for (; come < sent / 3; come++) /* half of its ring, and less than waits */
		(void)end_next(&b);
	fabric_bed_expire(clock_ns() + STILL_MS * ms_ns);
	fabric_bed_release();
	for (; come < sent; come++)
		(void)end_next(&b);
	EXPECT_EQ(fabric_bed_counts().untaken, 0);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* Nor does it hold back datagrams to a group that others have joined, too. */
TEST(test_ud_01_member_of_a_group_that_stands_still_holds_others_back_no_longer)
{
	static const uint8_t gid[16] = { 0xff, 0x12, [15] = 9 };
	struct end a, b, c;
	uint8_t frame[IBA_FRAME_MAX];
	uint32_t length;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	MUST(fabric_attach_join(b.attach, gid));
	MUST(fabric_attach_join(c.attach, gid));
	(void)end_fill(&a, &b);
	expire(STILL_MS);
	while (!fabric_attach_has_room(a.attach))
		end_look(&a);
	length = end_frame(frame, end_lid(&a), 0xc001, IBA_QPN_MULTICAST, gid);
	REQUIRE(end_post(&a, frame, length, true));
	EXPECT_EQ(end_next(&c)->local.to, 0xc001);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

TEST(test_fab_13_frames_that_cross_keep_their_order)
{
	enum { FRAMES = 5000, STEP = 300 };
	uint32_t sent = 0, come = 0, length;
	uint8_t frame[IBA_FRAME_MAX];
	struct end a, b;

	end_open(&a, 0);
	end_open(&b, 1);
	fabric_bed_let_cross(true);
	length = end_frame(frame, end_lid(&a), end_lid(&b), end_qp(&b), NULL);
	while (come < FRAMES) {
		iba_psn_put(frame + IBA_LRH_BYTES, sent);
		while (sent < FRAMES && end_post(&a, frame, length, false))
			iba_psn_put(frame + IBA_LRH_BYTES, ++sent);
		for (uint32_t i = 0; i < STEP && come < sent; i++, come++)
			REQUIRE(iba_psn(end_next(&b)->bytes) == come);
	}
	EXPECT(fabric_bed_crossed() > 0 && fabric_bed_crossed() <= FRAMES);
	fabric_attach_close(a.attach);
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

TEST(test_sys_01_frames_that_cross_go_to_the_adapters_of_their_queue_pairs)
{
	enum { FRAMES = 40 };
	struct end ends[3];

	end_open(&ends[0], 0);
	end_open(&ends[1], 1);
	end_open(&ends[2], 1);
	fabric_bed_let_cross(true);
	fabric_bed_hold();
	for (int i = 0; i < FRAMES; i++)
		end_send(&ends[0], &ends[1 + i % 2]);
	fabric_bed_release();
	for (int i = 0; i < FRAMES; i++) {
		struct end *to = &ends[1 + i % 2];

		EXPECT_EQ(iba_dest_qp(end_next(to)->bytes, 64), end_qp(to));
	}
	EXPECT_EQ(fabric_bed_crossed(), FRAMES);
	for (int i = 0; i < 3; i++)
		fabric_attach_close(ends[i].attach);
	fabric_bed_close();
}

/* A process that dies with its ring full lets the frames of others pass at once. */
TEST(test_sys_01_dead_adapter_holds_back_no_frames)
{
	struct end a, b, c;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 1);
	(void)end_fill(&a, &b);
	fabric_attach_close(b.attach);
	while (!fabric_attach_has_room(a.attach))
		end_look(&a);
	end_send(&a, &c);
	EXPECT_EQ(iba_dest_qp(end_next(&c)->bytes, 64), end_qp(&c));
	fabric_attach_close(a.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* What a program sent before it ended arrives: its peer may wait for it. */
TEST(test_sys_01_frames_of_an_adapter_that_has_closed_arrive)
{
	enum { FRAMES = 200 }; /* more than the hub takes before it hears of the end */
	struct end a, b;

	end_open(&a, 0);
	end_open(&b, 1);
	fabric_bed_hold();
	for (int i = 0; i < FRAMES; i++)
		end_send(&a, &b);
	fabric_attach_close(a.attach);
	fabric_bed_release();
	for (int i = 0; i < FRAMES; i++)
		EXPECT_EQ(iba_dest_qp(end_next(&b)->bytes, 64), end_qp(&b));
	EXPECT(hub_await(hub_has_adapters, 1));
	fabric_attach_close(b.attach);
	fabric_bed_close();
}

/* Also if they have to wait for one that does not read. */
TEST(test_fab_13_frames_of_an_adapter_that_has_closed_are_held_back)
{
	struct end a, b, c;
	uint32_t sent, come = 0;
	uint64_t held;

	end_open(&a, 0);
	end_open(&b, 1);
	end_open(&c, 0);
	sent = end_fill(&a, &b);
	fabric_attach_close(a.attach);
	EXPECT(hub_await(hub_has_adapters, 2));
	held = fabric_bed_counts().held;
	fabric_bed_hold();
	for (; come < sent / 3; come++) /* half of its ring, and less than waits */
		(void)end_next(&b);
	fabric_bed_release();
	EXPECT(hub_await(hub_has_held, held + 1));
	for (; come < sent; come++)
		EXPECT_EQ(iba_dest_qp(end_next(&b)->bytes, 64), end_qp(&b));
	end_send(&c, &b);
	(void)end_next(&b);
	EXPECT(fabric_attach_next(b.attach) == NULL);
	fabric_attach_close(b.attach);
	fabric_attach_close(c.attach);
	fabric_bed_close();
}

/* The fabric ends: the port is down, and nothing waits for it. */
TEST(test_sys_01_fabric_that_ends_takes_its_ports_along)
{
	const uint8_t gid[16] = { 0xff, 0x12 };
	struct end a;

	end_open(&a, 0);
	fabric_bed_close();
	end_look(&a);
	EXPECT(a.has_gone);
	EXPECT_EQ(fabric_attach_state(a.attach)->info.state, SM_PORT_DOWN);
	EXPECT_EQ(fabric_attach_claim(a.attach, 1), WEFT_R_FABRIC_ABSENT);
	EXPECT_EQ(fabric_attach_join(a.attach, gid), WEFT_R_FABRIC_ABSENT);
	EXPECT(fabric_attach_next(a.attach) == NULL);
	fabric_attach_close(a.attach);
}
