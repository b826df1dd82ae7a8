/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic path migration (IBA 17.2.8): a second path of a connection in a fabric. */
#include <string.h>

#include "ib_bed.h"

enum {
	P0 = PSN_PEERS,
	OUR_LID = 0x0100,
	OTHER_LID = 0x0101, /* a second one of the port */
	PEER_LID = 0x0300,
	PEER_OTHER_LID = 0x0301,
	RETRIES = 2,
	TIMEOUT_CODE = 10,
	OTHER_TIMEOUT_CODE = 12
};

static const uint8_t data[8] = "payload";

static struct ib_path path_of(uint16_t from, uint16_t to)
{
	return (struct ib_path){ .mtu_bytes = 256, .local = { .from = from, .to = to } };
}

static struct ib_bed *open_service(enum weft_qp_service service)
{
	struct ib_config k = bed_config();

	k.path = path_of(OUR_LID, PEER_LID);
	k.retries = RETRIES;
	k.timeout_code = TIMEOUT_CODE;
	k.alternate = (struct ib_alternate){
		.path = path_of(OTHER_LID, PEER_OTHER_LID),
		.timeout_code = OTHER_TIMEOUT_CODE,
	};
	k.migration = IB_REARM;
	return bed_open(&k, service);
}

static struct ib_paths paths_of(const struct ib_bed *b)
{
	struct ib_paths paths;

	ib_paths_tell(b->conn, &paths);
	return paths;
}

static enum weft_reason put_on(struct ib_bed *b, uint16_t from, uint16_t to, struct iba_packet p,
			       bool is_migrated)
{
	struct iba_frame f = { .lrh = { .from = from, .to = to }, .packet = p };
	uint8_t bytes[IBA_FRAME_MAX];
	struct ib_in in;
	enum weft_reason r;

	f.packet.dest_qp = b->qp->number;
	f.packet.p_key = IBA_PKEY_DEFAULT;
	f.packet.is_migrated = is_migrated;
	MUST(ib_in_of_frame(&in, bytes, iba_frame_encode(&f, bytes)));
	r = ib_port_recv(b->port, b->now_ns, &in);
	bed_run(b);
	return r;
}

/* By the path that it began with; by the alternate one. */
static enum weft_reason put(struct ib_bed *b, struct iba_packet p, bool is_migrated)
{
	return put_on(b, PEER_LID, OUR_LID, p, is_migrated);
}

static enum weft_reason put_other(struct ib_bed *b, struct iba_packet p, bool is_migrated)
{
	return put_on(b, PEER_OTHER_LID, OTHER_LID, p, is_migrated);
}

static struct iba_packet send_only(uint32_t psn)
{
	struct iba_packet p = peer_op(IBA_SEND_ONLY, psn);

	p.payload = data;
	p.payload_bytes = sizeof(data);
	return p;
}

static struct ib_bed *open_rearm(void)
{
	struct ib_bed *b = open_service(WEFT_RC);

	MUST(ib_adjust(b->conn, &b->config, IB_ALTERNATE | IB_MIGRATION));
	return b;
}

/* The peer has said that it is ready. */
static struct ib_bed *open_armed(void)
{
	struct ib_bed *b = open_rearm();

	bed_recv(b, 1, 0, 64);
	MUST(put(b, send_only(P0), false));
	bed_completed(b, 1, WEFT_SUCCESS);
	REQUIRE(!bed_expect(b, IBA_ACKNOWLEDGE, P0)->p.is_migrated);
	REQUIRE(paths_of(b).migration == IB_ARMED);
	return b;
}

static bool has_event(struct ib_bed *b, enum weft_event_kind kind, enum weft_reason reason)
{
	struct weft_event e;

	return event_pop(&b->adapter.events, &e) && e.kind == kind && e.reason == reason;
}

static bool is_on(const struct bed_packet *p, uint16_t from, uint16_t to, bool is_migrated)
{
	return p->path.local.from == from && p->path.local.to == to &&
	       p->p.is_migrated == is_migrated;
}

static void write_post(struct ib_bed *b, uint64_t id)
{
	bed_post(b, (struct weft_send_wr){ .id = id, .opcode = WEFT_OP_WRITE }, 0, 16);
}

/* Takes what goes out until something is on the alternate path; how many went by the other. */
static uint32_t until_other(struct ib_bed *b)
{
	uint32_t before = 0;

	while (is_on(bed_next(b), OUR_LID, PEER_LID, false))
		before++;
	return before;
}

/* IBA 9.2.4: MigReq says that it has migrated; none that would migrate says so. */
TEST(test_iba_17_2_8_both_ends_are_armed_by_what_they_hear)
{
	struct ib_bed *b = open_service(WEFT_RC);

	EXPECT_EQ(paths_of(b).migration, IB_MIGRATED);
	EXPECT_EQ(paths_of(b).alternate.mtu_bytes, 0);
	write_post(b, 1);
	EXPECT(is_on(bed_expect(b, IBA_WRITE_ONLY, PSN_OURS), OUR_LID, PEER_LID, true));
	MUST(ib_adjust(b->conn, &b->config, IB_ALTERNATE | IB_MIGRATION));
	EXPECT_EQ(paths_of(b).migration, IB_REARM);
	EXPECT_EQ(paths_of(b).alternate.local.to, PEER_OTHER_LID);
	/* A peer that is not ready. */
	MUST(put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS, 1), true));
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(paths_of(b).migration, IB_REARM);
	write_post(b, 2);
	EXPECT(is_on(bed_expect(b, IBA_WRITE_ONLY, (PSN_OURS + 1) & IBA_PSN_MASK), OUR_LID,
		     PEER_LID, false));
	MUST(put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS + 1, 2), false));
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT_EQ(paths_of(b).migration, IB_ARMED);
	EXPECT_EQ(paths_of(b).migrations, 0);
	bed_close(b);
}

/* TRN-S2, RC-04, FAB-20: retries by the path are spent: the request goes by the other, once. */
TEST(test_rc_04_fab_20_silence_takes_the_alternate_path)
{
	struct ib_bed *b = open_armed();
	struct ib_paths paths;

	write_post(b, 2);
	for (int i = 0; i < 200 && !has_event(b, WEFT_EVENT_PATH_MIGRATED, WEFT_OK); i++)
		bed_wait(b, 1000000);
	/* The first, and its retries at least; then the other path. */
	EXPECT(until_other(b) > RETRIES);
	EXPECT_EQ(ib_port_counts(b->port)->timeouts, RETRIES + 1);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	paths = paths_of(b);
	EXPECT_EQ(paths.migration, IB_MIGRATED);
	EXPECT_EQ(paths.migrations, 1);
	EXPECT_EQ(paths.path.local.to, PEER_OTHER_LID);
	EXPECT_EQ(paths.path.mtu_bytes, 256);
	EXPECT_EQ(paths.alternate.local.to, PEER_LID);
	bed_incomplete(b);
	MUST(put_other(b, peer_ack(iba_syndrome_ack(1), PSN_OURS, 1), true));
	bed_completed(b, 2, WEFT_SUCCESS);
	while (b->out_count > 0)
		(void)bed_next(b);
	write_post(b, 3);
	EXPECT(is_on(bed_expect(b, IBA_WRITE_ONLY, (PSN_OURS + 1) & IBA_PSN_MASK), OTHER_LID,
		     PEER_OTHER_LID, true));
	MUST(put_other(b, peer_ack(iba_syndrome_ack(1), PSN_OURS + 1, 2), true));
	bed_completed(b, 3, WEFT_SUCCESS);
	EXPECT_EQ(b->qp->ends.peer.family, 4); /* a path by LIDs has no address */
	bed_close(b);
}

/* All of the consumer's retries count anew, and by the other path's time; then it is the end. */
TEST(test_fab_20_alternate_path_has_retries_of_its_own)
{
	struct ib_bed *b = open_armed();
	uint64_t began_ns, first_ns;

	write_post(b, 2);
	began_ns = b->now_ns;
	while (!has_event(b, WEFT_EVENT_PATH_MIGRATED, WEFT_OK))
		bed_wait(b, 100000);
	first_ns = b->now_ns - began_ns;
	for (int i = 0; i < 2000 && b->qp->state == WEFT_QPS_RTS; i++) {
		bed_wait(b, 100000);
		b->out_first = b->out_count = 0;
	}
	bed_completed(b, 2, WEFT_ERR_PEER_GONE);
	EXPECT_EQ(b->completion.reason, WEFT_R_PEER_GONE);
	EXPECT_EQ(ib_port_counts(b->port)->timeouts, 2 * (RETRIES + 1));
	/* 4.096 us * 2^10 and 2^12. */
	EXPECT(first_ns >= (RETRIES + 1) * iba_timeout_ns(TIMEOUT_CODE));
	EXPECT(b->now_ns - began_ns - first_ns >=
	       (RETRIES + 1) * iba_timeout_ns(OTHER_TIMEOUT_CODE) - 100000);
	bed_close(b);
}

/* One that is not armed has one path only, and so has one whose peer is not. */
TEST(test_fab_20_unarmed_connection_ends_with_its_path)
{
	for (int is_rearm = 0; is_rearm < 2; is_rearm++) {
		struct ib_bed *b = is_rearm ? open_rearm() : open_service(WEFT_RC);

		if (!is_rearm)
			MUST(ib_adjust(b->conn, &b->config, IB_ALTERNATE));
		write_post(b, 1);
		bed_wait(b, UINT64_C(1000000000));
		bed_completed(b, 1, WEFT_ERR_PEER_GONE);
		while (b->out_count > 0)
			EXPECT(is_on(bed_next(b), OUR_LID, PEER_LID, !is_rearm));
		bed_close(b);
	}
}

/* The peer has migrated: its packet is taken, and answered where it came from. */
TEST(test_fab_20_peer_that_migrates_is_followed)
{
	for (int is_armed = 0; is_armed < 2; is_armed++) {
		struct ib_bed *b = is_armed ? open_armed() : open_rearm();
		uint32_t psn = P0 + (is_armed ? 1 : 0);

		bed_recv(b, 5, 0, 64);
		b->out_first = b->out_count = 0; /* the peer hears of a receive */
		MUST(put_other(b, send_only(psn), true));
		bed_completed(b, 5, WEFT_SUCCESS);
		EXPECT(is_on(bed_expect(b, IBA_ACKNOWLEDGE, psn), OTHER_LID, PEER_OTHER_LID, true));
		EXPECT(has_event(b, WEFT_EVENT_PATH_MIGRATED, WEFT_OK));
		EXPECT_EQ(paths_of(b).migrations, 1);
		/* What was under way by the path that was left is still the peer's. */
		bed_recv(b, 6, 0, 64);
		MUST(put(b, send_only(psn + 1), false));
		bed_completed(b, 6, WEFT_SUCCESS);
		EXPECT_EQ(paths_of(b).migration, IB_MIGRATED);
		b->out_first = b->out_count = 0;
		bed_close(b);
	}
}

/* IBA 17.2.8.1: the consumer may want to. */
TEST(test_fab_20_consumer_migrates)
{
	struct ib_bed *b = open_armed();

	b->config.migration = IB_MIGRATED;
	MUST(ib_adjust(b->conn, &b->config, IB_MIGRATION));
	EXPECT(has_event(b, WEFT_EVENT_PATH_MIGRATED, WEFT_OK));
	write_post(b, 2);
	EXPECT(is_on(bed_expect(b, IBA_WRITE_ONLY, PSN_OURS), OTHER_LID, PEER_OTHER_LID, true));
	/* The same again changes nothing. */
	MUST(ib_adjust(b->conn, &b->config, IB_MIGRATION));
	EXPECT_EQ(paths_of(b).migrations, 1);
	MUST(put_other(b, peer_ack(iba_syndrome_ack(1), PSN_OURS, 1), true));
	bed_completed(b, 2, WEFT_SUCCESS);
	/* And back, when the first path is mended. */
	b->config.migration = IB_REARM;
	MUST(ib_adjust(b->conn, &b->config, IB_MIGRATION));
	bed_recv(b, 3, 0, 64);
	MUST(put_other(b, send_only(P0 + 1), false));
	bed_completed(b, 3, WEFT_SUCCESS);
	EXPECT_EQ(paths_of(b).migration, IB_ARMED);
	bed_recv(b, 4, 0, 64);
	MUST(put(b, send_only(P0 + 2), true));
	bed_completed(b, 4, WEFT_SUCCESS);
	EXPECT_EQ(paths_of(b).path.local.to, PEER_LID);
	EXPECT_EQ(paths_of(b).migrations, 2);
	b->out_first = b->out_count = 0;
	bed_close(b);
}

/* A path that is neither is no path of the peer; where it asks us to follow, the consumer hears. */
TEST(test_fab_20_migration_to_another_path_is_refused)
{
	struct ib_bed *b = open_armed();
	struct iba_frame f = { .lrh = { .from = PEER_OTHER_LID, .to = OTHER_LID + 1 } };
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length;
	struct ib_in in;

	bed_recv(b, 5, 0, 64);
	EXPECT_EQ(put_on(b, PEER_LID, OTHER_LID, send_only(P0 + 1), false), WEFT_R_IB_SOURCE);
	EXPECT(list_is_empty(&b->adapter.events));
	/* Damaged, it says nothing. */
	f.packet = send_only(P0 + 1);
	f.packet.dest_qp = b->qp->number;
	f.packet.p_key = IBA_PKEY_DEFAULT;
	f.packet.is_migrated = true;
	length = iba_frame_encode(&f, bytes);
	bytes[length - IBA_VCRC_BYTES - 1] ^= 1;
	MUST(ib_in_of_frame(&in, bytes, length));
	EXPECT_EQ(ib_port_recv(b->port, b->now_ns, &in), WEFT_R_IB_SOURCE);
	EXPECT(list_is_empty(&b->adapter.events));
	EXPECT_EQ(put_on(b, PEER_OTHER_LID, OTHER_LID + 1, send_only(P0 + 1), true),
		  WEFT_R_IB_SOURCE);
	EXPECT(has_event(b, WEFT_EVENT_PATH_REFUSED, WEFT_R_PATH_ALTERNATE));
	bed_incomplete(b);
	EXPECT_EQ(paths_of(b).migration, IB_ARMED);
	/* In the partition of the alternate path, and no other. */
	f.packet.p_key = 0x8001;
	f.lrh.to = OTHER_LID;
	MUST(ib_in_of_frame(&in, bytes, iba_frame_encode(&f, bytes)));
	EXPECT_EQ(ib_port_recv(b->port, b->now_ns, &in), WEFT_R_IB_PKEY);
	EXPECT_EQ(paths_of(b).migration, IB_ARMED);
	MUST(put(b, send_only(P0 + 1), false));
	bed_completed(b, 5, WEFT_SUCCESS);
	b->out_first = b->out_count = 0;
	bed_close(b);
}

/* A new alternate path may be another than the one that the peer is armed for. */
TEST(test_fab_20_new_alternate_path_is_armed_anew)
{
	struct ib_bed *b = open_armed();

	b->config.alternate.path.local.to = PEER_OTHER_LID + 1;
	MUST(ib_adjust(b->conn, &b->config, IB_ALTERNATE));
	EXPECT_EQ(paths_of(b).migration, IB_REARM);
	EXPECT_EQ(paths_of(b).alternate.local.to, PEER_OTHER_LID + 1);
	bed_recv(b, 5, 0, 64);
	MUST(put(b, send_only(P0 + 1), false));
	bed_completed(b, 5, WEFT_SUCCESS);
	EXPECT_EQ(paths_of(b).migration, IB_ARMED);
	EXPECT_EQ(put_other(b, send_only(P0 + 2), true), WEFT_R_IB_SOURCE);
	b->out_first = b->out_count = 0;
	bed_close(b);
}

/* What there is to be refused, and that it changes nothing. */
TEST(test_fab_20_migration_that_is_none_is_refused)
{
	struct ib_bed *b = open_service(WEFT_RC);
	const struct ib_config good = b->config;

	EXPECT_EQ(ib_adjust(b->conn, &good, IB_MIGRATION), WEFT_R_PATH_NONE);
	b->config.migration = IB_ARMED;
	EXPECT_EQ(ib_adjust(b->conn, &b->config, IB_ALTERNATE | IB_MIGRATION), WEFT_R_PATH_STATE);
	b->config.migration = IB_MIGRATIONS;
	EXPECT_EQ(ib_adjust(b->conn, &b->config, IB_MIGRATION), WEFT_R_BAD_ARGUMENT);
	b->config = good;
	b->config.alternate.timeout_code = 32;
	EXPECT_EQ(ib_adjust(b->conn, &b->config, IB_ALTERNATE), WEFT_R_BAD_ARGUMENT);
	b->config = good;
	b->config.alternate.path.local.to = 0;
	EXPECT_EQ(ib_adjust(b->conn, &b->config, IB_ALTERNATE), WEFT_R_PATH_FABRIC);
	EXPECT_EQ(paths_of(b).alternate.mtu_bytes, 0);
	EXPECT_EQ(paths_of(b).migration, IB_MIGRATED);
	b->config = good;
	MUST(ib_adjust(b->conn, &good, IB_ALTERNATE | IB_MIGRATION));
	/* Its peer may have heard of REARM, and be armed. */
	b->config.migration = IB_MIGRATED;
	EXPECT_EQ(ib_adjust(b->conn, &b->config, IB_MIGRATION), WEFT_R_PATH_STATE);
	EXPECT_EQ(paths_of(b).migration, IB_REARM);
	bed_close(b);

	b = bed_open(NULL, WEFT_RC);
	b->config.alternate = good.alternate;
	EXPECT_EQ(ib_adjust(b->conn, &b->config, IB_ALTERNATE), WEFT_R_PATH_FABRIC);
	bed_close(b);

	b = open_service(WEFT_UD);
	EXPECT_EQ(ib_adjust(b->conn, &b->config, IB_ALTERNATE), WEFT_R_WR_SERVICE);
	bed_close(b);
}

/* UC says and hears the same, but has no answer to miss. */
TEST(test_fab_20_uc_migrates_with_its_peer)
{
	struct ib_bed *b = open_service(WEFT_UC);
	struct iba_packet p = send_only(P0);

	MUST(ib_adjust(b->conn, &b->config, IB_ALTERNATE | IB_MIGRATION));
	p.opcode = iba_opcode(IBA_UC, IBA_SEND_ONLY);
	p.is_ack_requested = false;
	bed_recv(b, 1, 0, 64);
	MUST(put(b, p, false));
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(paths_of(b).migration, IB_ARMED);
	p.psn = (P0 + 1) & IBA_PSN_MASK;
	bed_recv(b, 2, 0, 64);
	MUST(put_other(b, p, true));
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT_EQ(paths_of(b).migrations, 1);
	write_post(b, 3);
	EXPECT(is_on(bed_expect(b, IBA_WRITE_ONLY, PSN_OURS), OTHER_LID, PEER_OTHER_LID, true));
	bed_completed(b, 3, WEFT_SUCCESS);
	bed_close(b);
}

/* ---- FAB-21: several link engines, seen by no consumer -------------------------------------- */

enum { STRIPES = 9, STRIPE_BYTES = STRIPES * 256 };

/* Both ends are armed; the peer's next PSN is P0 + 1. */
static struct ib_bed *open_striping(void)
{
	struct ib_bed *b = open_rearm();

	ib_port_set_striping(b->port, true);
	for (uint32_t id = 1; id < 16; id++)
		bed_recv(b, id, 0, 64);
	b->out_first = b->out_count = 0;
	MUST(put(b, send_only(P0), false));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_expect_ack(b, IBA_SYNDROME_ACK, P0);
	return b;
}

static void stripes_post(struct ib_bed *b, uint64_t id)
{
	bed_post(b, (struct weft_send_wr){ .id = id, .opcode = WEFT_OP_WRITE }, 0, STRIPE_BYTES);
	bed_run(b);
}

/* How many of the frames that go out, which are of one message, go by the alternate path. */
static uint32_t stripes_by_other(struct ib_bed *b)
{
	uint32_t by_other = 0;

	for (; b->out_count > 0; by_other++) {
		const struct bed_packet *p = bed_next(b);

		if (is_on(p, OUR_LID, PEER_LID, false))
			by_other--;
		else
			REQUIRE(is_on(p, OTHER_LID, PEER_OTHER_LID, false) && p->p.psn % 2 == 1);
	}
	return by_other;
}

TEST(test_fab_21_frames_of_a_message_go_by_both_paths_in_turn)
{
	struct ib_bed *b = open_striping();

	stripes_post(b, 20);
	EXPECT_EQ(b->out_count, STRIPES);
	EXPECT_EQ(stripes_by_other(b), STRIPES / 2);
	MUST(put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS + STRIPES - 1, 1), false));
	bed_completed(b, 20, WEFT_SUCCESS);
	/* Nothing goes by two paths whose port does not do so, or whose ends are not both armed. */
	MUST(ib_adjust(b->conn, &b->config, IB_ALTERNATE));
	stripes_post(b, 21);
	EXPECT_EQ(b->out_count, STRIPES);
	EXPECT_EQ(stripes_by_other(b), 0);
	bed_close(b);
	b = open_armed();
	stripes_post(b, 22);
	EXPECT_EQ(stripes_by_other(b), 0);
	bed_close(b);
}

/* What is lost by a path that has failed comes by the first, and so does what is new. */
TEST(test_fab_21_what_was_lost_and_what_follows_go_by_the_first_path)
{
	for (int is_silent = 0; is_silent < 2; is_silent++) {
		struct ib_bed *b = open_striping();

		stripes_post(b, 20);
		b->out_first = b->out_count = 0;
		if (is_silent)
			bed_wait(b, 2 * iba_timeout_ns(TIMEOUT_CODE));
		else
			MUST(put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), PSN_OURS + 1, 0),
				 false));
		EXPECT(b->out_count > 0);
		EXPECT_EQ(stripes_by_other(b), 0);
		MUST(put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS + STRIPES - 1, 1), false));
		bed_completed(b, 20, WEFT_SUCCESS);
		b->out_first = b->out_count = 0;
		stripes_post(b, 21);
		EXPECT_EQ(b->out_count, STRIPES);
		EXPECT_EQ(stripes_by_other(b), 0);
		bed_close(b);
	}
}

/* One path is slower: its frames are waited for, and none is delivered before them. */
TEST(test_fab_21_frames_by_two_paths_are_delivered_in_order)
{
	struct ib_bed *b = open_striping();

	MUST(put_other(b, send_only(P0 + 2), false));
	bed_incomplete(b);
	bed_silent(b);
	MUST(put_other(b, send_only(P0 + 4), false));
	bed_incomplete(b);
	bed_silent(b);
	MUST(put(b, send_only(P0 + 1), false));
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_completed(b, 3, WEFT_SUCCESS);
	bed_incomplete(b);
	bed_expect_ack(b, IBA_SYNDROME_ACK, (P0 + 1) & IBA_PSN_MASK);
	bed_expect_ack(b, IBA_SYNDROME_ACK, (P0 + 2) & IBA_PSN_MASK);
	bed_silent(b);
	/* A later one of the same path: that at P0 + 3 was lost. */
	MUST(put(b, send_only(P0 + 5), false));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), (P0 + 3) & IBA_PSN_MASK);
	MUST(put(b, send_only(P0 + 3), false));
	for (uint64_t id = 4; id <= 6; id++)
		bed_completed(b, id, WEFT_SUCCESS);
	bed_close(b);
}

/* Without it a gap is a loss at once. */
TEST(test_fab_21_a_port_that_does_not_stripe_asks_for_what_is_missing_at_once)
{
	struct ib_bed *b = open_armed();

	bed_recv(b, 2, 0, 64);
	bed_recv(b, 3, 0, 64);
	b->out_first = b->out_count = 0;
	MUST(put_other(b, send_only(P0 + 2), false));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), (P0 + 1) & IBA_PSN_MASK);
	bed_close(b);
}
