/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent of InfiniBand's CM: services of datagrams (IBA 12.11), and whose a message is. */
#include "ib_cm_fixture.h"

static struct cm_bed bed, *const b = &bed;

static struct ib_cm_resolve question(void)
{
	struct ib_cm_resolve r = { .ip = bed_ip(A),
				   .service_id = ibcm_service_id(IBCM_PS_UDP, PORT),
				   .private_data = DATA("who"),
				   .owner = b };

	r.ip.from.port = PORT_A;
	return r;
}

static uint32_t ask(void)
{
	const struct ib_cm_resolve r = question();
	uint32_t id = 0;

	REQUIRE(ib_cm_resolve(b->cm[A], b->now_ns, &r, &id) == WEFT_OK);
	return id;
}

TEST(test_iba_12_11_service_is_found)
{
	const struct ib_cm_answer a = { .status = IBCM_SIDR_OK,
					.qpn = QPN_B,
					.q_key = IBCM_QKEY_UDP,
					.private_data = DATA("me") };
	static const uint8_t much[IBCM_INFO_MAX + 200];
	struct ib_cm_answer bad = a;
	struct ib_cm_event e;
	struct ib_cm_out req;
	uint32_t id;

	bed_open(b, NULL);
	id = ask();
	bed_carry(b, A, IBCM_SIDR_REQ);
	req = b->out;
	EXPECT(b->m.sidr_req.request_id == id && b->m.sidr_req.p_key == 0xffff);
	e = bed_event(b, B, IB_CM_SIDR_REQUESTED);
	EXPECT(e.service_id == 0x1110000 + PORT && e.p_key == 0xffff && e.has_ip_header);
	EXPECT(e.ip.from.port == PORT && e.ip.to.port == PORT_A);
	EXPECT_EQ(e.private_bytes, IB_CM_SIDR_REQ_DATA);
	EXPECT_MEM(e.private_data, "who", 4);
	/* Sent again while the owner thinks: nothing. */
	bed_land(b, B);
	bed_quiet(b, B);
	bed_no_event(b, B);
	/* B has asked nothing. */
	EXPECT_EQ(bed_say(b, B,
			  &(struct ibcm_msg){ .kind = IBCM_SIDR_REP, .sidr_rep.request_id = e.id }),
		  WEFT_R_CM_STATE);
	EXPECT_EQ(ib_cm_answer(b->cm[B], b->now_ns, e.id + 1, &a), WEFT_R_CM_UNKNOWN);
	bad.info = (struct ibcm_bytes){ much, IBCM_INFO_MAX + 1 };
	EXPECT_EQ(ib_cm_answer(b->cm[B], b->now_ns, e.id, &bad), WEFT_R_PRIVATE_DATA);
	bad = a;
	bad.private_data = (struct ibcm_bytes){ much, ibcm_private_max(IBCM_SIDR_REP) + 1 };
	EXPECT_EQ(ib_cm_answer(b->cm[B], b->now_ns, e.id, &bad), WEFT_R_PRIVATE_DATA);
	EXPECT_EQ(ib_cm_answer(b->cm[B], b->now_ns, e.id, &a), WEFT_OK);
	EXPECT_EQ(ib_cm_answer(b->cm[B], b->now_ns, e.id, &a), WEFT_R_CM_STATE);
	bed_take(b, B, IBCM_SIDR_REP);
	b->out = req;
	bed_land(b, B);
	bed_carry(b, B, IBCM_SIDR_REP);
	EXPECT_EQ(b->out.attempt, 1);
	e = bed_event(b, A, IB_CM_RESOLVED);
	EXPECT(e.id == id && e.owner == b && e.status == IBCM_SIDR_OK);
	EXPECT(e.peer.qpn == QPN_B && e.peer.q_key == IBCM_QKEY_UDP);
	EXPECT_EQ(e.private_bytes, 136);
	EXPECT_MEM(e.private_data, "me", 3);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
	bed_land(b, A);
	EXPECT_EQ(b->reason, WEFT_R_CM_UNKNOWN);
	bed_pass(b, 10ULL * 1000 * MS);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->cm_ids, 0);
	bed_no_event(b, A);
	bed_no_event(b, B);
	bed_close(b);
}

TEST(test_iba_12_11_service_is_refused)
{
	const struct ib_cm_answer a = { .status = IBCM_SIDR_UNSUPPORTED, .info = DATA("info") };
	struct ib_cm_event e;

	bed_open(b, NULL);
	(void)ask();
	bed_carry(b, A, IBCM_SIDR_REQ);
	e = bed_event(b, B, IB_CM_SIDR_REQUESTED);
	EXPECT_EQ(ib_cm_answer(b->cm[B], b->now_ns, e.id, &a), WEFT_OK);
	bed_carry(b, B, IBCM_SIDR_REP);
	e = bed_event(b, A, IB_CM_RESOLVED);
	EXPECT(e.status == IBCM_SIDR_UNSUPPORTED && e.info_bytes == 5);
	EXPECT_MEM(e.info, "info", 5);
	/* An owner that leaves says no. */
	(void)ask();
	bed_carry(b, A, IBCM_SIDR_REQ);
	ib_cm_forget(b->cm[B], b->now_ns, bed_event(b, B, IB_CM_SIDR_REQUESTED).id);
	bed_carry(b, B, IBCM_SIDR_REP);
	EXPECT_EQ(bed_event(b, A, IB_CM_RESOLVED).status, IBCM_SIDR_REJECT);
	bed_close(b);
}

TEST(test_iba_12_11_no_answer_comes)
{
	uint32_t id, tries = 0;

	bed_open(b, NULL);
	id = ask();
	while (ib_cm_send(b->cm[A], b->now_ns, &b->out)) {
		EXPECT(b->out.attempt == tries++ && b->out.id == id);
		bed_due(b, A);
	}
	EXPECT_EQ(tries, 16);
	EXPECT_EQ(bed_event(b, A, IB_CM_FAILED).reason, WEFT_R_CONNECT_TIMEOUT);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
	/* A service that never answers: it is told when the peer has stopped waiting. */
	bed_land(b, B);
	bed_event(b, B, IB_CM_SIDR_REQUESTED);
	EXPECT_EQ(ib_cm_due(b->cm[B]), b->now_ns + 16 * (4096ULL << 20));
	bed_due(b, B);
	bed_event(b, B, IB_CM_FAILED);
	bed_no_event(b, B);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->cm_ids, 0);
	/* One who loses patience before. */
	id = ask();
	ib_cm_forget(b->cm[A], b->now_ns, id);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
	bed_quiet(b, A);
	bed_close(b);
}

TEST(test_iba_12_11_questions_that_are_refused)
{
	struct ib_cm_resolve r = question();
	static const uint8_t much[300];
	uint8_t data[216];
	struct ibcm_msg m;
	uint32_t id;

	bed_open(b, NULL);
	r.private_data = (struct ibcm_bytes){ much, 181 };
	EXPECT_EQ(ib_cm_resolve(b->cm[A], b->now_ns, &r, &id), WEFT_R_PRIVATE_DATA);
	(void)ask();
	bed_take(b, A, IBCM_SIDR_REQ);
	m = b->m;
	memcpy(data, m.private_data.bytes, sizeof(data));
	m.private_data.bytes = data;
	data[4 + 15] = 9;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_SENDER);
	bed_take(b, B, IBCM_SIDR_REP);
	EXPECT_EQ(b->m.sidr_rep.status, IBCM_SIDR_REJECT);
	EXPECT_EQ(b->m.sidr_rep.request_id, m.sidr_req.request_id);
	bed_no_event(b, B);
	bed_close(b);
}

/* The same number of another question: when the first is answered, and not before. */
TEST(test_iba_12_11_number_is_used_again)
{
	const struct ib_cm_answer a = { .status = IBCM_SIDR_OK, .qpn = QPN_B };
	struct ib_cm_event e;
	struct ibcm_msg m;

	bed_open(b, NULL);
	(void)ask();
	bed_carry(b, A, IBCM_SIDR_REQ);
	m = b->m;
	m.sidr_req.service_id++;
	e = bed_event(b, B, IB_CM_SIDR_REQUESTED);
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	bed_no_event(b, B);
	EXPECT_EQ(ib_cm_answer(b->cm[B], b->now_ns, e.id, &a), WEFT_OK);
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	EXPECT_EQ(bed_event(b, B, IB_CM_SIDR_REQUESTED).service_id, m.sidr_req.service_id);
	bed_close(b);
}

TEST(test_ib_cm_whose_a_message_is)
{
	struct ib_cm_where where;
	struct cm_ids ids;
	uint32_t id;

	bed_open(b, NULL);
	(void)bed_connect(b);
	bed_take(b, A, IBCM_REQ);
	EXPECT(ib_cm_where(b->out.bytes, MAD_BYTES, &where) && where.is_request);
	EXPECT(where.kind == IBCM_REQ && where.service_id == 0x1060000 + PORT);
	EXPECT(!ib_cm_where(b->out.bytes, MAD_BYTES - 1, &where));
	id = ask();
	bed_take(b, A, IBCM_SIDR_REQ);
	EXPECT(ib_cm_where(b->out.bytes, MAD_BYTES, &where) && where.is_request);
	EXPECT_EQ(where.service_id, 0x1110000 + PORT);
	bed_land(b, B);
	ib_cm_forget(b->cm[B], b->now_ns, bed_event(b, B, IB_CM_SIDR_REQUESTED).id);
	bed_take(b, B, IBCM_SIDR_REP);
	EXPECT(ib_cm_where(b->out.bytes, MAD_BYTES, &where) && !where.is_request);
	EXPECT(where.adapter_slot == 5 && id >> 24 == 5);
	ids = bed_replied(b);
	EXPECT(ib_cm_where(b->out.bytes, MAD_BYTES, &where) && where.kind == IBCM_REP);
	EXPECT_EQ(where.adapter_slot, 5);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_take(b, A, IBCM_RTU);
	EXPECT(ib_cm_where(b->out.bytes, MAD_BYTES, &where) && where.adapter_slot == 6);
	bed_close(b);
}
