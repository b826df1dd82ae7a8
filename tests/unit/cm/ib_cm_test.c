/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent of InfiniBand's CM: cm_ids that go well, and how they end (IBA 12.9). */
#include "ib_cm_fixture.h"

static struct cm_bed bed, *const b = &bed;

TEST(test_iba_12_9_6_connection_set_up)
{
	struct ib_cm_event e;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	id_a = bed_connect(b);
	EXPECT_EQ(id_a >> 24, 5);
	EXPECT_EQ(bed_state(b, A, id_a), IB_CM_REQ_SENT);
	bed_carry(b, A, IBCM_REQ);
	EXPECT(b->out.id == id_a && b->out.attempt == 0 && b->m.local_id == id_a);
	e = bed_event(b, B, IB_CM_REQUESTED);
	bed_no_event(b, B);
	id_b = e.id;
	EXPECT_EQ(id_b >> 24, 6);
	EXPECT(e.has_ip_header && e.service_id == ibcm_service_id(IBCM_PS_TCP, PORT));
	EXPECT(!e.ip.is_ipv6 && e.ip.from.port == PORT && e.ip.to.port == PORT_A);
	EXPECT(e.ip.from.address[3] == 2 && e.ip.to.address[3] == 1);
	EXPECT(e.peer.qpn == QPN_A && e.peer.psn == 0x123456 && e.peer.retries == 6);
	EXPECT(e.peer.reads_in == 4 && e.peer.reads_out == 8 && e.peer.rnr_retries == 5);
	EXPECT(e.peer.has_srq && !e.peer.has_flow_control && e.mtu_bytes == 1024);
	EXPECT(e.transport == IBCM_TRANSPORT_RC && e.p_key == 0xffff && e.ack_code == 19);
	EXPECT(e.hop_limit == 64 && e.ca_guid == 0xaa00);
	EXPECT_EQ(e.private_bytes, IB_CM_REQ_DATA);
	EXPECT_MEM(e.private_data, "hello\0", 7);
	bed_accept(b, id_b);
	bed_carry(b, B, IBCM_REP);
	/* Of our Reads no more are in flight than the peer serves. */
	EXPECT(b->m.rep.initiator_depth == 4 && b->m.rep.responder_resources == 3);
	EXPECT_EQ(b->m.rep.failover, 0);
	e = bed_event(b, A, IB_CM_REPLIED);
	EXPECT(e.peer.qpn == QPN_B && e.peer.psn == 0x654321 && e.peer.ack_delay == 15);
	EXPECT(e.peer.reads_in == 3 && e.peer.reads_out == 4 && e.peer.rnr_retries == 2);
	EXPECT(e.ca_guid == 0xaa01 && e.ip.to.port == 0 && e.ip.from.port == PORT_A);
	EXPECT_EQ(e.private_bytes, 196);
	EXPECT_MEM(e.private_data, "welcome", 8);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, id_a, DATA("so be it")), WEFT_OK);
	EXPECT_EQ(bed_state(b, A, id_a), IB_CM_CONNECTED);
	bed_carry(b, A, IBCM_RTU);
	e = bed_event(b, B, IB_CM_ESTABLISHED);
	EXPECT(e.owner == b && e.private_bytes == 224);
	EXPECT_MEM(e.private_data, "so be it", 9);
	EXPECT_EQ(bed_state(b, B, id_b), IB_CM_CONNECTED);
	EXPECT(ib_cm_due(b->cm[A]) == UINT64_MAX && ib_cm_due(b->cm[B]) == UINT64_MAX);
	bed_close(b);
}

TEST(test_iba_12_9_8_4_parting_and_time_wait)
{
	struct cm_ids ids;
	struct ib_cm_event e;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], DATA("bye")), WEFT_OK);
	EXPECT_EQ(bed_state(b, A, ids.id[A]), IB_CM_DREQ_SENT);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_R_CM_STATE);
	bed_carry(b, A, IBCM_DREQ);
	EXPECT_EQ(b->m.dreq_remote_qpn, QPN_B);
	e = bed_event(b, B, IB_CM_DISCONNECTED);
	EXPECT(e.is_by_peer && e.reason == WEFT_R_PEER_GONE && e.reject == 0);
	EXPECT_EQ(e.private_bytes, 220);
	EXPECT_MEM(e.private_data, "bye", 4);
	bed_quiet(b, B);
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], DATA("so long")), WEFT_OK);
	bed_carry(b, B, IBCM_DREP);
	e = bed_event(b, A, IB_CM_DISCONNECTED);
	EXPECT(!e.is_by_peer && e.reason == WEFT_OK && e.private_bytes == 224);
	EXPECT_MEM(e.private_data, "so long", 8);
	/* The time wait of the ACK timeout's code 19. */
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(bed_state(b, i, ids.id[i]), IB_CM_TIMEWAIT);
		EXPECT_EQ(ib_cm_counts(b->cm[i])->timewait, 1);
		EXPECT_EQ(ib_cm_due(b->cm[i]), b->now_ns + 4096ULL * (1 << 19));
		bed_no_event(b, i);
	}
	bed_pass(b, 4096ULL * (1 << 19));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(ib_cm_counts(b->cm[i])->cm_ids, 1);
		EXPECT_EQ(bed_event(b, i, IB_CM_RELEASED).id, ids.id[i]);
		EXPECT_EQ(ib_cm_counts(b->cm[i])->cm_ids, 0);
		EXPECT_EQ(ib_cm_due(b->cm[i]), UINT64_MAX);
		EXPECT_EQ(ib_cm_disconnect(b->cm[i], b->now_ns, ids.id[i], NO_DATA),
			  WEFT_R_CM_UNKNOWN);
	}
	bed_close(b);
}

/* An owner that does not say so itself has parted half of the peer's first wait later. */
TEST(test_iba_12_9_8_drep_goes_by_itself)
{
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], NO_DATA), WEFT_OK);
	bed_carry(b, B, IBCM_DREQ);
	EXPECT_EQ(b->m.dreq_remote_qpn, QPN_A);
	bed_event(b, A, IB_CM_DISCONNECTED);
	bed_due(b, A);
	EXPECT(b->now_ns < ib_cm_due(b->cm[B]));
	bed_carry(b, A, IBCM_DREP);
	bed_event(b, B, IB_CM_DISCONNECTED);
	bed_no_event(b, A);
	bed_close(b);
}

TEST(test_iba_12_9_8_both_part_at_once)
{
	struct cm_ids ids;
	struct ib_cm_out dreq;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], DATA("a")), WEFT_OK);
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], DATA("b")), WEFT_OK);
	bed_take(b, A, IBCM_DREQ);
	dreq = b->out;
	bed_carry(b, B, IBCM_DREQ);
	b->out = dreq;
	bed_land(b, B);
	for (int i = 0; i < 2; i++) {
		struct ib_cm_event e = bed_event(b, i, IB_CM_DISCONNECTED);

		EXPECT(e.is_by_peer && e.private_data[0] == (i == A ? 'b' : 'a'));
		EXPECT_EQ(bed_state(b, i, ids.id[i]), IB_CM_TIMEWAIT);
		bed_carry(b, i, IBCM_DREP);
		bed_quiet(b, i);
		bed_no_event(b, i);
	}
	bed_close(b);
}

static void reject_looks(uint16_t code, enum weft_reason reason)
{
	const struct ib_cm_reject r = { code, DATA("info"), DATA("no") };
	struct ib_cm_event e;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	EXPECT_EQ(ib_cm_reject(b->cm[B], b->now_ns, id_b, &r), WEFT_OK);
	EXPECT_EQ(ib_cm_reject(b->cm[B], b->now_ns, id_b, &r), WEFT_R_CM_STATE);
	bed_carry(b, B, IBCM_REJ);
	EXPECT(b->m.rej.about == IBCM_ABOUT_REQ && b->m.rej.reason == code);
	e = bed_event(b, A, IB_CM_FAILED);
	EXPECT(e.reason == reason && e.reject == code && e.reject_about == IBCM_ABOUT_REQ);
	EXPECT_EQ(e.private_bytes, 148);
	EXPECT_MEM(e.private_data, "no", 3);
	EXPECT(e.info_bytes == (code == IBCM_REJECT_TIMEOUT ? 8 : 5));
	EXPECT_EQ(ib_cm_counts(b->cm[B])->rejects_out, 1);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->rejects_in, 1);
	bed_pass(b, 60ULL * 1000 * MS);
	bed_event(b, A, IB_CM_RELEASED);
	/* The rejecting side gets no event. */
	bed_no_event(b, B);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->cm_ids, 0);
	bed_close(b);
}

TEST(test_iba_12_6_7_rejects_and_their_reasons)
{
	reject_looks(IBCM_REJECT_SERVICE_ID, WEFT_R_CONNECT_REFUSED);
	reject_looks(IBCM_REJECT_CONSUMER, WEFT_R_CONNECT_REJECTED);
	reject_looks(IBCM_REJECT_TIMEOUT, WEFT_R_CONNECT_TIMEOUT);
	reject_looks(IBCM_REJECT_COMM_ID, WEFT_R_CONNECT_CLOSED);
	reject_looks(IBCM_REJECT_STALE, WEFT_R_CM_STALE);
	reject_looks(IBCM_REJECT_NO_QP, WEFT_R_CM_REFUSED);
	reject_looks(IBCM_REJECT_MTU, WEFT_R_CM_REFUSED);
	reject_looks(999, WEFT_R_CM_REFUSED);
}

TEST(test_iba_12_6_7_reply_is_rejected)
{
	const struct ib_cm_reject r = { .code = IBCM_REJECT_CONSUMER, .private_data = DATA("no") };
	struct ib_cm_event e;
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_replied(b);
	EXPECT_EQ(ib_cm_reject(b->cm[A], b->now_ns, ids.id[A], &r), WEFT_OK);
	bed_carry(b, A, IBCM_REJ);
	EXPECT(b->m.rej.about == IBCM_ABOUT_REP && b->m.remote_id == ids.id[B]);
	e = bed_event(b, B, IB_CM_FAILED);
	EXPECT(e.reason == WEFT_R_CONNECT_REJECTED && e.owner == b);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_R_CM_STATE);
	bed_close(b);
}

TEST(test_iba_12_9_6_first_packet_is_as_good_as_rtu)
{
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_replied(b);
	EXPECT_EQ(ib_cm_established(b->cm[B], b->now_ns, ids.id[B]), WEFT_OK);
	EXPECT_EQ(bed_event(b, B, IB_CM_ESTABLISHED).private_bytes, 0);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	EXPECT_EQ(ib_cm_due(b->cm[B]), UINT64_MAX);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_RTU);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->duplicates, 1);
	EXPECT_EQ(ib_cm_established(b->cm[B], b->now_ns, ids.id[B]), WEFT_OK);
	EXPECT_EQ(ib_cm_established(b->cm[B], b->now_ns, 77), WEFT_R_CM_UNKNOWN);
	bed_no_event(b, B);
	bed_close(b);
}

/* ---- Who takes long ------------------------------------------------------------------------- */

TEST(test_iba_12_6_6_mra_in_time)
{
	uint64_t begin, half = 4096ULL * (1 << 20) / 2;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	begin = b->now_ns;
	EXPECT_EQ(ib_cm_due(b->cm[B]), begin + half);
	b->now_ns = begin + half;
	ib_cm_expire(b->cm[B], b->now_ns);
	EXPECT_EQ(bed_state(b, B, id_b), IB_CM_MRA_REQ_SENT);
	bed_carry(b, B, IBCM_MRA);
	EXPECT(b->m.mra.about == IBCM_ABOUT_REQ && b->m.mra.timeout == 24);
	EXPECT_EQ(bed_state(b, A, id_a), IB_CM_MRA_REQ_RCVD);
	EXPECT_EQ(ib_cm_due(b->cm[A]), b->now_ns + 4096ULL * (1 << 24) + 4096ULL * (1 << 20));
	/* An hour later neither end has given up, or repeated anything but MRA. */
	for (int i = 0; i < 100; i++) {
		EXPECT(ib_cm_due(b->cm[B]) < ib_cm_due(b->cm[A]));
		bed_due(b, B);
		bed_carry(b, B, IBCM_MRA);
		bed_quiet(b, A);
	}
	EXPECT(b->now_ns > 3400ULL * 1000 * MS);
	bed_accept(b, id_b);
	bed_carry(b, B, IBCM_REP);
	bed_event(b, A, IB_CM_REPLIED);
	bed_close(b);
}

TEST(test_iba_12_6_6_mra_of_the_reply)
{
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_replied(b);
	bed_due(b, A);
	EXPECT_EQ(bed_state(b, A, ids.id[A]), IB_CM_MRA_REP_SENT);
	bed_carry(b, A, IBCM_MRA);
	EXPECT(b->m.mra.about == IBCM_ABOUT_REP && b->m.remote_id == ids.id[B]);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_MRA_REP_RCVD);
	bed_due(b, A);
	bed_carry(b, A, IBCM_MRA);
	EXPECT_EQ(b->out.attempt, 1);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_RTU);
	bed_event(b, B, IB_CM_ESTABLISHED);
	bed_close(b);
}

/* However long the peer says that it takes, the owner's own limit holds. */
TEST(test_ib_cm_limit_of_a_request)
{
	struct ib_cm_connect c = bed_request();
	struct ib_cm_event e;
	uint64_t limit_ns;
	uint32_t id;

	bed_open(b, NULL);
	c.timeout_ns = 3000ULL * MS;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	limit_ns = b->now_ns + c.timeout_ns;
	bed_carry(b, A, IBCM_REQ);
	bed_event(b, B, IB_CM_REQUESTED);
	bed_due(b, A);
	bed_carry(b, A, IBCM_REQ); /* again: the owner has it already */
	bed_carry(b, B, IBCM_MRA);
	EXPECT_EQ(ib_cm_due(b->cm[A]), limit_ns);
	bed_due(b, A);
	e = bed_event(b, A, IB_CM_FAILED);
	EXPECT(e.reason == WEFT_R_CONNECT_TIMEOUT && e.reject == 0 && e.private_bytes == 0);
	/* The other end learns it, and its owner. */
	EXPECT_EQ(bed_state(b, A, id), IB_CM_TIMEWAIT);
	bed_carry(b, A, IBCM_REJ);
	EXPECT(b->m.rej.reason == IBCM_REJECT_TIMEOUT && b->m.rej.about == IBCM_ABOUT_OTHER);
	EXPECT_EQ(b->m.info.length, 8);
	EXPECT_MEM(b->m.info.bytes, "\0\0\0\0\0\0\xaa\0", 8);
	e = bed_event(b, B, IB_CM_FAILED);
	EXPECT(e.reason == WEFT_R_CONNECT_TIMEOUT && e.reject == IBCM_REJECT_TIMEOUT);
	bed_close(b);
}

/* ---- Arguments ------------------------------------------------------------------------------ */

TEST(test_iba_12_6_private_data_that_fits)
{
	static const uint8_t much[300];
	struct ib_cm_connect c = bed_request();
	struct ib_cm_accept a = { .end = { .qpn = QPN_B } };
	struct ib_cm_reject r = { .code = 28 };
	uint32_t id, id_b;

	bed_open(b, NULL);
	c.private_data = (struct ibcm_bytes){ much, 57 };
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_R_PRIVATE_DATA);
	c.is_plain = true;
	c.private_data.length = 93;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_R_PRIVATE_DATA);
	c.is_plain = false;
	c.private_data.length = 56;
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	bed_carry(b, A, IBCM_REQ);
	id_b = bed_event(b, B, IB_CM_REQUESTED).id;
	r.private_data = (struct ibcm_bytes){ much, 149 };
	EXPECT_EQ(ib_cm_reject(b->cm[B], b->now_ns, id_b, &r), WEFT_R_PRIVATE_DATA);
	r.private_data = NO_DATA;
	r.info = (struct ibcm_bytes){ much, IBCM_INFO_MAX + 1 };
	EXPECT_EQ(ib_cm_reject(b->cm[B], b->now_ns, id_b, &r), WEFT_R_PRIVATE_DATA);
	a.private_data = (struct ibcm_bytes){ much, 197 };
	EXPECT_EQ(ib_cm_accept(b->cm[B], b->now_ns, id_b, &a), WEFT_R_PRIVATE_DATA);
	a.private_data.length = 196;
	EXPECT_EQ(ib_cm_accept(b->cm[B], b->now_ns, id_b, &a), WEFT_OK);
	EXPECT_EQ(ib_cm_accept(b->cm[B], b->now_ns, id_b, &a), WEFT_R_CM_STATE);
	bed_carry(b, B, IBCM_REP);
	bed_event(b, A, IB_CM_REPLIED);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, id, (struct ibcm_bytes){ much, 225 }),
		  WEFT_R_PRIVATE_DATA);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, id, (struct ibcm_bytes){ much, 224 }), WEFT_OK);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, id, (struct ibcm_bytes){ much, 221 }),
		  WEFT_R_PRIVATE_DATA);
	bed_close(b);
}

TEST(test_iba_12_6_private_data_of_the_last_answer_fits)
{
	static const uint8_t much[300];
	const uint32_t max = ibcm_private_max(IBCM_DREP);
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_DREQ);
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B],
				   (struct ibcm_bytes){ much, max + 1 }),
		  WEFT_R_PRIVATE_DATA);
	EXPECT_EQ(
		ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], (struct ibcm_bytes){ much, max }),
		WEFT_OK);
	bed_close(b);
}

TEST(test_ib_cm_as_many_ids_as_it_was_made_for)
{
	const struct ib_cm_config config = { .cm_ids_max = 1 };
	const struct ib_cm_resolve question = { .ip = bed_ip(A) };
	const struct ib_cm_connect c = bed_request();
	uint32_t id;

	bed_open(b, &config);
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_R_LIMIT);
	EXPECT_EQ(ib_cm_resolve(b->cm[A], b->now_ns, &question, &id), WEFT_R_LIMIT);
	bed_close(b);
}

/* Bytes of the peer's address as another family's are not its own. */
TEST(test_ib_cm_only_the_peer_of_that_family_is_heard)
{
	struct ibcm_ip ip = bed_ip(B);
	uint32_t id_a;

	bed_open(b, NULL);
	bed_accept(b, bed_requested(b, &id_a));
	bed_take(b, B, IBCM_REP);
	ip.is_ipv6 = true;
	EXPECT_EQ(ib_cm_recv(b->cm[A], b->now_ns, &ip, b->out.bytes, MAD_BYTES), WEFT_R_CM_SENDER);
	bed_land(b, A);
	EXPECT_EQ(b->reason, WEFT_OK);
	bed_close(b);
}

TEST(test_ib_cm_arguments)
{
	struct ib_cm_connect c = bed_request(), bad;
	static const struct ib_cm_accept accepts[] = {
		{ .end = { .qpn = 1 } },
		{ .end = { .qpn = 0xffffff } },
		{ .end = { .qpn = QPN_B, .psn = 1 << 24 } },
		{ .end = { .qpn = QPN_B, .rnr_retries = 8 } },
		{ .end = { .qpn = QPN_B, .ack_delay = 32 } },
	};
	const struct ib_cm_accept a = { .end = { .qpn = QPN_B } };
	const struct ib_cm_reject r = { .code = 28 };
	uint32_t id, id_b;

	bed_open(b, NULL);
	for (int i = 0; i < 7; i++) {
		bad = c;
		bad.end.qpn = i == 0 ? 1 : i == 1 ? 0xffffff : bad.end.qpn;
		bad.end.psn = i == 2 ? 1 << 24 : bad.end.psn;
		bad.end.retries = i == 3 ? 8 : bad.end.retries;
		bad.mtu_bytes = i == 4 ? 255 : bad.mtu_bytes;
		bad.transport = i == 5 ? IBCM_TRANSPORT_RD : bad.transport;
		bad.flow_label = i == 6 ? 1 << 20 : 0;
		EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &bad, &id), WEFT_R_BAD_ARGUMENT);
	}
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, id, NO_DATA), WEFT_R_CM_STATE);
	EXPECT_EQ(ib_cm_accept(b->cm[A], b->now_ns, id, &a), WEFT_R_CM_STATE);
	EXPECT_EQ(ib_cm_reject(b->cm[A], b->now_ns, id, &r), WEFT_R_CM_STATE);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, 1, NO_DATA), WEFT_R_CM_UNKNOWN);
	EXPECT_EQ(ib_cm_accept(b->cm[A], b->now_ns, 1, &a), WEFT_R_CM_UNKNOWN);
	EXPECT_EQ(ib_cm_reject(b->cm[A], b->now_ns, 1, &r), WEFT_R_CM_UNKNOWN);
	bed_carry(b, A, IBCM_REQ);
	id_b = bed_event(b, B, IB_CM_REQUESTED).id;
	for (size_t i = 0; i < sizeof(accepts) / sizeof(accepts[0]); i++)
		EXPECT_EQ(ib_cm_accept(b->cm[B], b->now_ns, id_b, &accepts[i]),
			  WEFT_R_BAD_ARGUMENT);
	EXPECT_STR(ib_cm_state_name(bed_state(b, B, id_b)), "REQ_RCVD");
	EXPECT_STR(ib_cm_state_name(IB_CM_STATE_COUNT), "unknown");
	bed_close(b);
}

/* An end that knows that its peer is gone need not wait for an answer. */
TEST(test_ib_cm_id_with_one_that_is_lost_ends)
{
	struct cm_ids ids;
	struct ib_cm_event e;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	ids = bed_connected(b);
	ib_cm_lost(b->cm[B], b->now_ns, ids.id[B]);
	e = bed_event(b, B, IB_CM_DISCONNECTED);
	EXPECT(e.reason == WEFT_R_STREAM_LOST && !e.is_by_peer && e.private_bytes == 0);
	bed_quiet(b, B);
	ib_cm_lost(b->cm[B], b->now_ns, ids.id[B]); /* it has ended */
	bed_no_event(b, B);
	bed_close(b);

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	ib_cm_lost(b->cm[B], b->now_ns, id_b);
	e = bed_event(b, B, IB_CM_FAILED);
	EXPECT(e.reason == WEFT_R_CONNECT_CLOSED && e.reject == 0);
	bed_quiet(b, B);
	bed_close(b);

	bed_open(b, NULL);
	ids = bed_replied(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], NO_DATA), WEFT_OK);
	ib_cm_lost(b->cm[B], b->now_ns, ids.id[B]); /* DREQ was sent: it is answered */
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_DREQ_SENT);
	ib_cm_lost(b->cm[B], b->now_ns, 0);
	bed_close(b);
}
