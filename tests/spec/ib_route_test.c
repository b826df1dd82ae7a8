/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets as frames of a fabric: by LIDs, and by GIDs as well. */
#include <string.h>

#include "ib_bed.h"

enum { MTU = 256, P0 = PSN_PEERS, OUR_LID = 0x0102, PEER_LID = 0x0304, LEVEL = 5, GRH = 40 };

static uint8_t data[MTU];

static struct ib_config route_config(bool has_grh)
{
	struct ib_config k = bed_config();

	k.path.local = (struct ib_local){ OUR_LID, PEER_LID, LEVEL, has_grh };
	k.path.is_ipv6 = has_grh;
	memset(k.path.from.address, 0, sizeof(k.path.from.address));
	memset(k.path.to.address, 0, sizeof(k.path.to.address));
	if (has_grh) {
		memcpy(k.path.from.address, (uint8_t[16]){ 0xfe, 0x80, [15] = 1 }, 16);
		memcpy(k.path.to.address, (uint8_t[16]){ 0xfe, 0x80, [15] = 2 }, 16);
	}
	return k;
}

/* A frame of the peer, as another encoder writes it. */
static struct iba_frame frame_of(const struct ib_bed *b, const struct ib_config *k,
				 struct iba_packet p)
{
	struct iba_frame f = {
		.lrh = { .level = LEVEL, .to = OUR_LID, .from = PEER_LID },
		.has_grh = k->path.local.has_grh,
		.grh = { .next_header = IBA_GRH_NEXT_BTH, .hop_limit = 9 },
		.packet = p,
	};

	f.packet.dest_qp = b->qp->number;
	f.packet.p_key = IBA_PKEY_DEFAULT;
	memcpy(f.grh.from, k->path.to.address, 16);
	memcpy(f.grh.to, k->path.from.address, 16);
	return f;
}

static enum weft_reason put_bytes(struct ib_bed *b, const uint8_t *bytes, uint32_t length)
{
	struct ib_in in;
	enum weft_reason r = ib_in_of_frame(&in, bytes, length);

	if (r != WEFT_OK)
		return r;
	r = ib_port_recv(b->port, b->now_ns, &in);
	bed_run(b);
	return r;
}

static enum weft_reason put(struct ib_bed *b, const struct iba_frame *f)
{
	uint8_t bytes[IBA_FRAME_MAX];

	return put_bytes(b, bytes, iba_frame_encode(f, bytes));
}

static struct iba_packet send_only(uint32_t psn)
{
	struct iba_packet p = peer_op(IBA_SEND_ONLY, psn);

	p.payload = data;
	p.payload_bytes = 5;
	return p;
}

/* FAB-02: of every kind of packet the headers are those of the path, and both lengths right. */
TEST(test_fab_02_packets_leave_as_frames)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		const struct ib_config k = route_config(has_grh);
		struct ib_bed *b = bed_open(&k, WEFT_RC);
		struct bed_packet *p;

		bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0,
			 9 * MTU + 3);
		bed_run(b);
		p = bed_expect(b, IBA_WRITE_FIRST, PSN_OURS);
		EXPECT_EQ(memcmp(p->payload, b->memory, MTU), 0);
		if (has_grh) {
			EXPECT_EQ(memcmp(p->grh.from, k.path.from.address, 16), 0);
			EXPECT_EQ(memcmp(p->grh.to, k.path.to.address, 16), 0);
			EXPECT_EQ(p->grh.hop_limit, 64);
			EXPECT_EQ(p->grh.next_header, IBA_GRH_NEXT_BTH);
			EXPECT_EQ(p->grh.payload_bytes, 12 + 16 + MTU + 4);
		}
		for (uint32_t i = 1; i < 9; i++)
			EXPECT_EQ(memcmp(bed_expect(b, IBA_WRITE_MIDDLE,
						    (PSN_OURS + i) & IBA_PSN_MASK)
						 ->payload,
					 b->memory + (size_t)i * MTU, MTU),
				  0);
		EXPECT(b->taken_together > 0);
		p = bed_expect(b, IBA_WRITE_LAST, (PSN_OURS + 9) & IBA_PSN_MASK);
		EXPECT_EQ(p->p.payload_bytes, 3);
		struct iba_frame ack = frame_of(
			b, &k, peer_ack(IBA_SYNDROME_ACK, (PSN_OURS + 9) & IBA_PSN_MASK, 1));
		EXPECT_EQ(put(b, &ack), WEFT_OK);
		bed_completed(b, 1, WEFT_SUCCESS);
		bed_close(b);
	}
}

/* Sends that come, each of which takes a receive; acknowledgements are not asked for. */
static void put_sends(struct ib_bed *b, const struct ib_config *k, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct iba_frame f = frame_of(b, k, send_only((P0 + i) & IBA_PSN_MASK));

		f.packet.is_ack_requested = false;
		EXPECT_EQ(put(b, &f), WEFT_OK);
		bed_completed(b, 1 + i, WEFT_SUCCESS);
	}
}

/* AMB-35: though it asks for none, and several came before there was time for an answer. */
TEST(test_rc_02_each_frame_in_a_fabric_has_an_acknowledgement_of_its_own)
{
	const struct ib_config k = route_config(false);
	struct ib_bed *b = bed_open(&k, WEFT_RC);

	for (uint32_t i = 0; i < 7; i++)
		bed_recv(b, 1 + i, 0, 64);
	put_sends(b, &k, 0, 1);
	bed_expect_ack(b, IBA_SYNDROME_ACK, P0);
	bed_silent(b);
	b->is_held = true;
	put_sends(b, &k, 1, 5);
	b->is_held = false;
	bed_run(b);
	for (uint32_t i = 1; i < 5; i++)
		bed_expect_ack(b, IBA_SYNDROME_ACK, (P0 + i) & IBA_PSN_MASK);
	bed_silent(b);
	bed_close(b);
}

/* The same, whether they are made together or one by one; what they say is as of one made alone. */
TEST(test_rc_02_acknowledgements_of_frames_are_made_together)
{
	for (int i = 0; i < 4; i++) {
		const bool has_grh = i % 2, is_together = i / 2;
		const struct ib_config k = route_config(has_grh);
		struct ib_bed *b = bed_open(&k, WEFT_RC);

		harness_note("%s, %s", has_grh ? "by GID" : "by LID",
			     is_together ? "together" : "one by one");
		b->is_one_by_one = !is_together;
		for (uint32_t n = 0; n < 8; n++)
			bed_recv(b, 1 + n, 0, 64);
		b->is_held = true;
		put_sends(b, &k, 0, 6);
		b->is_held = false;
		bed_run(b);
		for (uint32_t n = 0; n < 6; n++) {
			struct bed_packet *p = bed_expect(b, IBA_ACKNOWLEDGE,
							  (P0 + n) & IBA_PSN_MASK);

			EXPECT_EQ(p->p.syndrome, iba_syndrome_ack(iba_credit_code(2)));
			EXPECT_EQ(p->p.msn, 6);
			EXPECT_EQ(p->ecn, IB_ECN_NOT);
		}
		bed_silent(b);
		EXPECT_EQ(b->taken_together, is_together ? 4 : 0); /* of six, and twice one alone */
		/* Requests of ours take turns with them. */
		b->is_held = true;
		put_sends(b, &k, 6, 8);
		for (uint32_t n = 0; n < 2; n++)
			bed_post(b, (struct weft_send_wr){ .opcode = WEFT_OP_WRITE }, 0, 8);
		b->is_held = false;
		bed_run(b);
		for (uint32_t n = 0; n < 2; n++) {
			(void)bed_expect(b, IBA_WRITE_ONLY, (PSN_OURS + n) & IBA_PSN_MASK);
			bed_expect_ack(b, IBA_SYNDROME_ACK, (P0 + 6 + n) & IBA_PSN_MASK);
		}
		bed_silent(b);
		EXPECT_EQ(b->taken_together, is_together ? 4 : 0);
		bed_close(b);
	}
}

/* A duplicate has one answer, for all that has come. */
TEST(test_rc_02_a_duplicate_in_a_fabric_is_acknowledged_once)
{
	const struct ib_config k = route_config(false);
	struct ib_bed *b = bed_open(&k, WEFT_RC);
	struct iba_frame f;

	for (uint32_t i = 0; i < 4; i++)
		bed_recv(b, 1 + i, 0, 64);
	put_sends(b, &k, 0, 3);
	for (uint32_t i = 0; i < 3; i++)
		bed_expect_ack(b, IBA_SYNDROME_ACK, (P0 + i) & IBA_PSN_MASK);
	f = frame_of(b, &k, send_only(P0));
	EXPECT_EQ(put(b, &f), WEFT_OK);
	bed_expect_ack(b, IBA_SYNDROME_ACK, (P0 + 2) & IBA_PSN_MASK);
	bed_silent(b);
	bed_close(b);
}

/* IBA 9.6.1.5: a connection hears its peer by its own route only. */
TEST(test_rc_01_frame_by_another_route_is_refused)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		const struct ib_config k = route_config(has_grh);
		struct ib_bed *b = bed_open(&k, WEFT_RC);
		struct iba_frame good = frame_of(b, &k, send_only(P0)), f;

		bed_recv(b, 1, 0, 64);
		f = good;
		f.lrh.from++;
		EXPECT_EQ(put(b, &f), WEFT_R_IB_SOURCE);
		f = good;
		f.lrh.to++;
		EXPECT_EQ(put(b, &f), WEFT_R_IB_SOURCE);
		f = good;
		f.has_grh = !f.has_grh;
		EXPECT_EQ(put(b, &f), WEFT_R_IB_SOURCE);
		for (int i = 0; has_grh && i < 2; i++) {
			f = good;
			(i ? f.grh.from : f.grh.to)[8] ^= 1;
			EXPECT_EQ(put(b, &f), WEFT_R_IB_SOURCE);
		}
		bed_incomplete(b);
		/* Another level is another lane, not another peer. */
		good.lrh.level = LEVEL + 1;
		EXPECT_EQ(put(b, &good), WEFT_OK);
		bed_completed(b, 1, WEFT_SUCCESS);
		bed_close(b);
	}
}

/* And a connection by UDP is none by LIDs, nor the other way round. */
TEST(test_rc_01_frame_and_udp_are_two_ways)
{
	const struct ib_config k = route_config(false);
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct iba_frame f = frame_of(b, &k, send_only(P0));

	bed_recv(b, 1, 0, 64);
	EXPECT_EQ(put(b, &f), WEFT_R_IB_SOURCE);
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 5), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* FAB-07: every bit that the ICRC covers, and that no earlier check has refused. */
TEST(test_fab_07_damaged_frame_is_never_delivered)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		const struct ib_config k = route_config(has_grh);
		struct ib_bed *b = bed_open(&k, WEFT_RC);
		struct iba_frame f = frame_of(b, &k, send_only(P0));
		uint8_t bytes[IBA_FRAME_MAX];
		uint32_t length = iba_frame_encode(&f, bytes), taken = 0;
		uint32_t bth = has_grh ? 48 : 8;

		bed_recv(b, 1, 0, 64);
		for (uint32_t bit = 8; bit < 8 * (length - IBA_VCRC_BYTES); bit++) {
			uint32_t at = bit / 8;
			bool may_change = has_grh && (at < 12 || at == 15);

			if (may_change || at == bth + 4)
				continue;
			bytes[at] ^= (uint8_t)(1 << bit % 8);
			taken += put_bytes(b, bytes, length) == WEFT_OK;
			bytes[at] ^= (uint8_t)(1 << bit % 8);
		}
		EXPECT_EQ(taken, 0);
		EXPECT(ib_port_dropped(b->port, WEFT_R_IB_ICRC) > 100);
		bed_incomplete(b);
		/* What links and routers may change does not count. */
		bytes[0] |= 0xf0;
		if (has_grh)
			bytes[15]--;
		EXPECT_EQ(put_bytes(b, bytes, length), WEFT_OK);
		bed_completed(b, 1, WEFT_SUCCESS);
		bed_close(b);
	}
}

/* What is no frame of the transport. */
TEST(test_fab_02_frames_that_are_none)
{
	const struct ib_config k = route_config(true);
	struct ib_bed *b = bed_open(&k, WEFT_RC);
	struct iba_frame f = frame_of(b, &k, send_only(P0));
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = iba_frame_encode(&f, bytes);
	struct ib_in in;

	EXPECT_EQ(ib_in_of_frame(&in, bytes, IBA_FRAME_MIN - 1), WEFT_R_FRAME_SHORT);
	EXPECT_EQ(ib_in_of_frame(&in, bytes, length - 4), WEFT_R_FRAME_LENGTH);
	bytes[1] = (uint8_t)((bytes[1] & ~3) | IBA_NEXT_RAW);
	EXPECT_EQ(ib_in_of_frame(&in, bytes, length), WEFT_R_IB_SERVICE);
	bytes[1] |= IBA_NEXT_GRH;
	bytes[8] ^= 0x10;
	EXPECT_EQ(ib_in_of_frame(&in, bytes, length), WEFT_R_IB_VERSION);
	/* Its global route does not fit. */
	bytes[5] = 4;
	bytes[4] = 0;
	EXPECT_EQ(ib_in_of_frame(&in, bytes, 4 * 4 + IBA_VCRC_BYTES), WEFT_R_FRAME_SHORT);
	/* RAW-02: no IPv6 packet, or one of another length than the frame has room for. */
	length = iba_frame_encode(&f, bytes);
	bytes[1] = (uint8_t)((bytes[1] & ~3) | IBA_NEXT_IPV6);
	bytes[IBA_LRH_BYTES + 4] = 0;
	bytes[IBA_LRH_BYTES + 5] = (uint8_t)(length - IBA_LRH_BYTES - IBA_GRH_BYTES -
					     IBA_VCRC_BYTES);
	MUST(ib_in_of_frame(&in, bytes, length));
	EXPECT(in.is_raw && in.bytes == bytes + IBA_LRH_BYTES);
	bytes[IBA_LRH_BYTES + 5] ^= 8;
	EXPECT_EQ(ib_in_of_frame(&in, bytes, length), WEFT_R_FRAME_LENGTH);
	bytes[5] = 4;
	bytes[4] = 0;
	EXPECT_EQ(ib_in_of_frame(&in, bytes, 4 * 4 + IBA_VCRC_BYTES), WEFT_R_FRAME_SHORT);
	/* Without room for a transport header. */
	bytes[1] = (uint8_t)((bytes[1] & ~3) | IBA_NEXT_BTH);
	EXPECT_EQ(put_bytes(b, bytes, 4 * 4 + IBA_VCRC_BYTES), WEFT_R_IB_SHORT);
	bed_close(b);
}

/* UD-01: the completion says the way; the 40 bytes are the route header, if there was one. */
TEST(test_ud_01_datagram_tells_its_local_route)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		struct ib_config k = route_config(has_grh);
		struct ib_bed *b;
		struct iba_frame f;
		struct ib_in in;
		uint8_t bytes[IBA_FRAME_MAX], route[GRH];
		uint32_t length;

		k.q_key = 7;
		b = bed_open(&k, WEFT_UD);
		f = frame_of(b, &k, send_only(P0));
		f.packet.opcode = IBA_UD_SEND;
		f.packet.q_key = 7;
		f.packet.src_qp = PEER_QP;
		bed_recv(b, 1, 0, 64);
		length = iba_frame_encode(&f, bytes);
		MUST(ib_in_of_frame(&in, bytes, length));
		in.path_bits = 2;
		MUST(ib_port_recv(b->port, b->now_ns, &in));
		bed_run(b);
		bed_completed(b, 1, WEFT_SUCCESS);
		EXPECT_EQ(b->completion.src_lid, PEER_LID);
		EXPECT_EQ(b->completion.service_level, LEVEL);
		EXPECT_EQ(b->completion.path_bits, 2);
		EXPECT_EQ(b->completion.has_route, has_grh);
		EXPECT(!b->completion.has_ipv4_route);
		memset(route, 0, sizeof(route));
		if (has_grh)
			iba_grh_encode(&(struct iba_grh){ .next_header = IBA_GRH_NEXT_BTH,
							  .hop_limit = 9 },
				       route);
		if (has_grh) {
			memcpy(route, bytes + IBA_LRH_BYTES, GRH);
			EXPECT_EQ(b->memory[6], IBA_GRH_NEXT_BTH);
		}
		EXPECT_EQ(memcmp(b->memory, route, GRH), 0);
		EXPECT_EQ(memcmp(b->memory + GRH, data, 5), 0);
		bed_close(b);
	}
}

/* UD-02: management datagrams come with the route of the answer, and leave by it. */
TEST(test_ud_02_management_goes_back_the_way_it_came)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		const struct ib_config k = route_config(has_grh);
		struct ib_bed *b = bed_open(&k, WEFT_RC);
		struct iba_frame f = frame_of(b, &k, send_only(P0));
		struct bed_packet *p;
		struct ib_mad mad;

		f.packet.opcode = IBA_UD_SEND;
		f.packet.dest_qp = f.packet.src_qp = IBA_QPN_GSI;
		f.packet.q_key = IBA_QKEY_GSI;
		f.packet.payload_bytes = MAD_BYTES;
		EXPECT_EQ(put(b, &f), WEFT_OK);
		REQUIRE(ib_port_mad(b->port, &mad));
		EXPECT_EQ(mad.path.local.to, PEER_LID);
		EXPECT_EQ(mad.path.local.from, OUR_LID);
		EXPECT_EQ(mad.path.local.level, LEVEL);
		REQUIRE(ib_port_mad_send(b->port, &mad));
		bed_run(b);
		p = bed_next(b);
		EXPECT_EQ(p->p.dest_qp, IBA_QPN_GSI);
		if (has_grh)
			EXPECT_EQ(memcmp(p->grh.to, f.grh.from, 16), 0);
		bed_close(b);
	}
}
