/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent of InfiniBand's CM: unproven peers, forgers, floods, and peers that began anew. */
#include "ib_cm_fixture.h"
#include "wire/iba.h"

static struct cm_bed bed, *const b = &bed;

/* A REQ as A would send it, to be changed. */
static struct ibcm_msg a_request(void)
{
	static uint8_t data[92];
	struct ibcm_msg m;

	(void)bed_connect(b);
	bed_take(b, A, IBCM_REQ);
	m = b->m;
	memcpy(data, m.private_data.bytes, sizeof(data));
	m.private_data.bytes = data;
	return m;
}

static void refused(struct ibcm_msg m, uint16_t code, enum weft_reason reason)
{
	EXPECT_EQ(bed_say(b, B, &m), reason);
	bed_take(b, B, IBCM_REJ);
	EXPECT(b->m.rej.reason == code && b->m.rej.about == IBCM_ABOUT_REQ);
	EXPECT(b->m.local_id == 0 && b->m.remote_id == m.local_id && b->m.tid == m.tid);
	bed_quiet(b, B);
	bed_no_event(b, B);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->cm_ids, 0);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->dropped_for, reason);
}

TEST(test_iba_12_6_7_requests_that_the_agent_refuses)
{
	struct ibcm_msg m, ok;
	const uint8_t *data;
	uint8_t bad[92];

	bed_open(b, NULL);
	ok = a_request();
	data = ok.private_data.bytes;
	m = ok;
	m.req.transport = IBCM_TRANSPORT_RD;
	refused(m, IBCM_REJECT_TRANSPORT, WEFT_R_CM_FORM);
	m = ok;
	m.req.transport = IBCM_TRANSPORT_EXTENDED;
	refused(m, IBCM_REJECT_TRANSPORT, WEFT_R_CM_FORM);
	m = ok;
	m.req.primary.local_gid[15] = 9; /* for another */
	refused(m, IBCM_REJECT_GID, WEFT_R_CM_SENDER);
	m = ok;
	m.req.primary.remote_gid[15] = 9; /* to another */
	refused(m, IBCM_REJECT_GID, WEFT_R_CM_SENDER);
	m = ok;
	m.req.path_mtu = 6;
	refused(m, IBCM_REJECT_MTU, WEFT_R_CM_FORM);
	m = ok;
	m.req.qpn = 1;
	refused(m, IBCM_REJECT_UNSUPPORTED, WEFT_R_CM_FORM);
	m = ok;
	m.private_data.bytes = bad;
	memcpy(bad, data, sizeof(bad));
	bad[0] = 1; /* version */
	refused(m, IBCM_REJECT_UNSUPPORTED, WEFT_R_CM_ADDRESS);
	memcpy(bad, data, sizeof(bad));
	bad[4 + 15] = 9; /* the source address */
	refused(m, IBCM_REJECT_GID, WEFT_R_CM_SENDER);
	memcpy(bad, data, sizeof(bad));
	bad[20 + 15] = 9;
	refused(m, IBCM_REJECT_GID, WEFT_R_CM_SENDER);
	m = ok;
	m.req.transport = IBCM_TRANSPORT_UC;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	EXPECT_EQ(bed_event(b, B, IB_CM_REQUESTED).transport, IBCM_TRANSPORT_UC);
	bed_close(b);
}

/* Services that are no ports of the RDMA CM have all of the private data. */
TEST(test_iba_a11_request_without_header)
{
	struct ib_cm_connect c = bed_request();
	struct ib_cm_event e;
	uint32_t id;

	bed_open(b, NULL);
	c.is_plain = true;
	c.service_id = 0x1000000000000002;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	bed_carry(b, A, IBCM_REQ);
	e = bed_event(b, B, IB_CM_REQUESTED);
	EXPECT(!e.has_ip_header && e.private_bytes == 92 && e.ip.to.port == 0);
	EXPECT_MEM(e.private_data, "hello", 6);
	/* In the space of IB ports it may be there or not. */
	c.service_id = ibcm_service_id(IBCM_PS_IB, PORT);
	c.end.qpn++;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	bed_carry(b, A, IBCM_REQ);
	EXPECT(!bed_event(b, B, IB_CM_REQUESTED).has_ip_header);
	c.is_plain = false;
	c.end.qpn++;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	bed_carry(b, A, IBCM_REQ);
	e = bed_event(b, B, IB_CM_REQUESTED);
	EXPECT(e.has_ip_header && e.private_bytes == 56 && e.ip.to.port == PORT_A);
	bed_close(b);
}

TEST(test_iba_12_6_ipv6)
{
	struct ib_cm_connect c = bed_request();
	struct ibcm_ip ip = { .is_ipv6 = true,
			      .from = { { 0xfd, [15] = 1 }, 0 },
			      .to = { { 0xfd, [15] = 2 }, 0 } };
	struct ib_cm_out out;
	struct ibcm_msg m;
	uint32_t id;

	bed_open(b, NULL);
	c.ip = ip;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	EXPECT(ib_cm_send(b->cm[A], b->now_ns, &out) && out.ip.is_ipv6);
	EXPECT_EQ(ibcm_decode(&m, out.bytes, MAD_BYTES), WEFT_OK);
	EXPECT_MEM(m.req.primary.remote_gid, ip.to.address, 16);
	EXPECT_EQ(ib_cm_recv(b->cm[B], b->now_ns, &ip, out.bytes, MAD_BYTES), WEFT_OK);
	EXPECT(bed_event(b, B, IB_CM_REQUESTED).ip.is_ipv6);
	ip.from.address[14] = 7;
	EXPECT_EQ(ib_cm_recv(b->cm[B], b->now_ns, &ip, out.bytes, MAD_BYTES), WEFT_R_CM_SENDER);
	bed_close(b);
}

/* ---- Who is not the peer -------------------------------------------------------------------- */

TEST(test_ib_cm_only_the_peer_is_heard)
{
	static const enum ibcm_kind kinds[] = { IBCM_REP, IBCM_RTU,  IBCM_MRA,
						IBCM_REJ, IBCM_DREQ, IBCM_DREP };
	struct ibcm_ip other = bed_ip(A);
	struct cm_ids ids;
	uint8_t bytes[MAD_BYTES];

	bed_open(b, NULL);
	ids = bed_connected(b);
	other.from.address[3] = 9;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct ibcm_msg m = { .kind = kinds[i],
				      .local_id = ids.id[A],
				      .remote_id = ids.id[B] };

		if (m.kind == IBCM_DREQ)
			m.dreq_remote_qpn = QPN_B;
		/* From another address, and of another id. */
		ibcm_encode(&m, bytes);
		EXPECT_EQ(ib_cm_recv(b->cm[B], b->now_ns, &other, bytes, MAD_BYTES),
			  WEFT_R_CM_SENDER);
		m.local_id++;
		EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_UNKNOWN);
		m.local_id = 0;
		EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_UNKNOWN);
		bed_quiet(b, B);
		bed_no_event(b, B);
	}
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	bed_close(b);
}

/* IBA 12.6.10: a DREQ names the queue pair. */
TEST(test_iba_12_6_10_dreq_of_another_queue_pair)
{
	struct cm_ids ids;
	struct ibcm_msg m = { .kind = IBCM_DREQ, .dreq_remote_qpn = QPN_A };

	bed_open(b, NULL);
	ids = bed_connected(b);
	m.local_id = ids.id[A];
	m.remote_id = ids.id[B];
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_FORM);
	bed_no_event(b, B);
	bed_close(b);
}

/* Messages that no state accepts, and unknown ids: which are answered, and how. */
TEST(test_iba_12_9_7_messages_out_of_place)
{
	static const struct {
		enum ibcm_kind kind;
		enum ibcm_kind answer; /* to an unknown id; 0: none */
	} rows[] = { { IBCM_REP, IBCM_REJ }, { IBCM_RTU, 0 },  { IBCM_MRA, 0 },
		     { IBCM_REJ, 0 },	     { IBCM_DREP, 0 }, { IBCM_DREQ, IBCM_DREP },
		     { IBCM_LAP, IBCM_APR }, { IBCM_APR, 0 },  { IBCM_SIDR_REP, 0 } };

	bed_open(b, NULL);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibcm_msg m = { .kind = rows[i].kind, .local_id = 7, .remote_id = 8 };

		EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_UNKNOWN);
		if (rows[i].answer) {
			bed_take(b, B, rows[i].answer);
			EXPECT(b->m.local_id == 8 && b->m.remote_id == 7 && b->out.id == 0);
			EXPECT(b->m.kind != IBCM_REJ || (b->m.rej.about == IBCM_ABOUT_REP &&
							 b->m.rej.reason == IBCM_REJECT_COMM_ID));
			EXPECT(b->m.kind != IBCM_APR || b->m.apr_status == 1);
		}
		bed_quiet(b, B);
		bed_no_event(b, B);
	}
	bed_close(b);
}

TEST(test_iba_12_9_7_messages_of_the_other_role)
{
	static const enum ibcm_kind wrong[] = { IBCM_REP, IBCM_DREP, IBCM_APR };
	struct cm_ids ids;
	struct ibcm_msg m = { .kind = IBCM_RTU };

	bed_open(b, NULL);
	ids = bed_connected(b);
	m.local_id = ids.id[B];
	m.remote_id = ids.id[A];
	EXPECT_EQ(bed_say(b, A, &m), WEFT_R_CM_STATE);
	m.local_id = ids.id[A];
	m.remote_id = ids.id[B];
	for (int i = 0; i < 3; i++) {
		m.kind = wrong[i];
		EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STATE);
	}
	m.kind = IBCM_MRA;
	m.mra.about = IBCM_ABOUT_REQ;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STATE);
	m.kind = IBCM_SIDR_REP;
	m.sidr_rep = (struct ibcm_sidr_rep){ .request_id = ids.id[B] };
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STATE);
	/* No other path is taken. */
	m = (struct ibcm_msg){ .kind = IBCM_LAP, .local_id = ids.id[A], .remote_id = ids.id[B] };
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STATE);
	bed_take(b, B, IBCM_APR);
	EXPECT_EQ(b->m.apr_status, 2);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	EXPECT_EQ(ib_cm_recv(b->cm[B], b->now_ns, &b->out.ip, b->out.bytes, 255),
		  WEFT_R_MAD_LENGTH);
	bed_close(b);
}

TEST(test_iba_12_9_7_there_is_nothing_to_disconnect_before_the_reply)
{
	struct ibcm_msg m = { .kind = IBCM_DREQ };

	bed_open(b, NULL);
	m.remote_id = bed_requested(b, &m.local_id);
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STATE);
	EXPECT_EQ(bed_state(b, B, m.remote_id), IB_CM_REQ_RCVD);
	bed_no_event(b, B);
	bed_accept(b, m.remote_id);
	bed_carry(b, B, IBCM_REP);
	bed_close(b);
}

/* A REJ about the request, from a process that does not know of it, ends no connection. */
TEST(test_ib_cm_reject_of_a_request_too_late)
{
	struct cm_ids ids;
	struct ibcm_msg m = { .kind = IBCM_REJ, .rej = { IBCM_ABOUT_REQ, 8 } };

	bed_open(b, NULL);
	ids = bed_connected(b);
	m.remote_id = ids.id[A];
	EXPECT_EQ(bed_say(b, A, &m), WEFT_R_CM_UNKNOWN);
	EXPECT_EQ(bed_state(b, A, ids.id[A]), IB_CM_CONNECTED);
	/* One by the peer itself does. */
	m.local_id = ids.id[B];
	m.rej.about = IBCM_ABOUT_OTHER;
	EXPECT_EQ(bed_say(b, A, &m), WEFT_OK);
	EXPECT_EQ(bed_event(b, A, IB_CM_DISCONNECTED).reason, WEFT_R_STREAM_LOST);
	bed_close(b);
}

/* ---- Stale connections ---------------------------------------------------------------------- */

/* In time wait or half open the number is free for another. */
TEST(test_iba_12_9_8_3_queue_pair_is_used_again)
{
	struct cm_ids ids;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_DREQ);
	bed_event(b, B, IB_CM_DISCONNECTED);
	id_b = bed_requested(b, &id_a);
	EXPECT(id_b != ids.id[B]);
	/* The requester lost patience without our hearing of it, and asks once more. */
	ib_cm_forget(b->cm[A], b->now_ns, id_a);
	bed_take(b, A, IBCM_REJ);
	ids.id[B] = bed_connect(b);
	bed_carry(b, A, IBCM_REQ);
	EXPECT_EQ(bed_event(b, B, IB_CM_FAILED).reason, WEFT_R_CM_STALE);
	EXPECT(bed_event(b, B, IB_CM_REQUESTED).id != id_b);
	bed_close(b);
}

/* The same id for another request: of a peer that began anew with the same numbers. */
TEST(test_iba_12_9_8_3_stale_by_id)
{
	struct cm_ids ids;
	struct ibcm_msg m;

	bed_open(b, NULL);
	ids = bed_connected(b);
	m = a_request();
	m.local_id = ids.id[A];
	m.req.qpn = QPN_A + 5;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STALE);
	bed_take(b, B, IBCM_DREQ);
	EXPECT(b->m.dreq_remote_qpn == 0 && b->m.remote_id == ids.id[A]);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	/* It does not know of the older one any more. */
	EXPECT_EQ(bed_say(b, B,
			  &(struct ibcm_msg){ .kind = IBCM_DREP,
					      .local_id = ids.id[A],
					      .remote_id = ids.id[B] }),
		  WEFT_OK);
	EXPECT_EQ(bed_event(b, B, IB_CM_DISCONNECTED).reason, WEFT_R_CM_STALE);
	bed_quiet(b, B);
	/* And once more: the older one waits only. Another PSN is another request, too. */
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	bed_event(b, B, IB_CM_REQUESTED);
	m.req.psn++;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	EXPECT_EQ(bed_event(b, B, IB_CM_FAILED).reason, WEFT_R_CM_STALE);
	bed_event(b, B, IB_CM_REQUESTED);
	bed_close(b);
}

/* A reply that brings a queue pair which is connected already. */
TEST(test_iba_12_9_8_3_stale_reply)
{
	struct ib_cm_connect c = bed_request();
	struct ibcm_msg rep;
	struct cm_ids ids;
	uint32_t id;

	bed_open(b, NULL);
	ids = bed_connected(b);
	c.end.qpn++;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	bed_take(b, A, IBCM_REQ);
	rep = (struct ibcm_msg){ .kind = IBCM_REP, .local_id = 99, .remote_id = id };
	rep.rep.qpn = QPN_B;
	EXPECT_EQ(bed_say(b, A, &rep), WEFT_R_CM_STALE);
	EXPECT_EQ(bed_event(b, A, IB_CM_DISCONNECTED).id, ids.id[A]);
	EXPECT_EQ(bed_event(b, A, IB_CM_FAILED).reason, WEFT_R_CM_STALE);
	bed_take(b, A, IBCM_REJ);
	EXPECT_EQ(b->m.remote_id, ids.id[B]);
	bed_take(b, A, IBCM_REJ);
	EXPECT(b->m.remote_id == 99 && b->m.rej.about == IBCM_ABOUT_REP);
	/* One without a queue pair is none. */
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	bed_take(b, A, IBCM_REQ);
	rep.remote_id = id;
	rep.rep.qpn = 0;
	EXPECT_EQ(bed_say(b, A, &rep), WEFT_R_CM_FORM);
	EXPECT_EQ(bed_event(b, A, IB_CM_FAILED).reason, WEFT_R_CM_FORM);
	bed_close(b);
}

/* ---- Floods --------------------------------------------------------------------------------- */

/* The n-th of the host that has the address: for a service that asks for no addresses in it. */
static enum weft_reason ask_from(uint8_t host, struct ibcm_msg m, uint32_t n)
{
	struct ibcm_ip ip = bed_ip(A);
	uint8_t bytes[MAD_BYTES];

	m.local_id = m.req.qpn = 1000 + n;
	m.req.service_id = 1;
	ip.from.address[3] = m.req.primary.local_gid[15] = host;
	ibcm_encode(&m, bytes);
	return ib_cm_recv(b->cm[B], b->now_ns, &ip, bytes, sizeof(bytes));
}

/*
 * The number of half-open connections is limited, also per address, so that others find room.
 * Requests beyond it are dropped silently, so that an honest peer tries again.
 */
TEST(test_ib_cm_flood_of_requests)
{
	const struct ib_cm_counts *n;
	struct ibcm_msg m;
	uint32_t id;

	bed_open(b, &(struct ib_cm_config){ .half_open_max = 8, .cm_ids_max = 16 });
	n = ib_cm_counts(b->cm[B]);
	m = a_request();
	for (uint32_t i = 0; i < 1000; i++)
		EXPECT_EQ(ask_from(7, m, i), i < 6 ? WEFT_OK : WEFT_R_CM_CROWD);
	EXPECT(n->half_open == 6 && n->full == 994 && n->crowded == 994);
	EXPECT_EQ(n->dropped_for, WEFT_R_CM_CROWD);
	/* Others find room, for one at least, until there is none. */
	EXPECT_EQ(ask_from(8, m, 0), WEFT_OK);
	EXPECT_EQ(ask_from(7, m, 6), WEFT_R_CM_CROWD);
	EXPECT_EQ(ask_from(9, m, 0), WEFT_OK);
	for (uint8_t host = 10; host < 100; host++)
		EXPECT_EQ(ask_from(host, m, 0), WEFT_R_LIMIT);
	bed_quiet(b, B);
	EXPECT(n->half_open == 8 && n->cm_ids == 8 && n->full == 1085);
	EXPECT_EQ(n->crowded, 995);
	/* Room for one when one is answered, and our own requests have theirs. */
	id = bed_event(b, B, IB_CM_REQUESTED).id;
	ib_cm_forget(b->cm[B], b->now_ns, id);
	EXPECT_EQ(ask_from(10, m, 0), WEFT_OK);
	for (uint32_t i = 0; i < 5; i++) {
		id = bed_event(b, B, IB_CM_REQUESTED).id;
		ib_cm_forget(b->cm[B], b->now_ns, id);
	}
	EXPECT_EQ(ask_from(7, m, 7), WEFT_OK); /* it was the one with so many */
	EXPECT_EQ(ib_cm_connect(b->cm[B], b->now_ns,
				&(struct ib_cm_connect){ .ip = bed_ip(B),
							 .end = { .qpn = QPN_B },
							 .mtu_bytes = 1024 },
				&id),
		  WEFT_OK);
	bed_close(b);
}

/* Those in time wait make room, the oldest first. */
TEST(test_ib_cm_time_wait_makes_room)
{
	struct ibcm_msg m;
	uint32_t first = 0;

	bed_open(b, &(struct ib_cm_config){ .cm_ids_max = 16 });
	m = a_request();
	for (uint32_t i = 0; i < 100; i++) {
		const struct ib_cm_reject r = { .code = IBCM_REJECT_CONSUMER };
		struct ib_cm_event e;

		m.local_id = 1000 + i;
		m.req.qpn = 1000 + i;
		EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
		e = bed_event(b, B, IB_CM_REQUESTED);
		first = i == 0 ? e.id : first;
		EXPECT_EQ(ib_cm_reject(b->cm[B], b->now_ns, e.id, &r), WEFT_OK);
		bed_take(b, B, IBCM_REJ);
		EXPECT_EQ(bed_state(b, B, first), i < 16 ? IB_CM_TIMEWAIT : IB_CM_IDLE);
		EXPECT_EQ(ib_cm_counts(b->cm[B])->cm_ids, i < 15 ? i + 1 : 16);
	}
	bed_close(b);
}

/* Answers to unproven peers are bounded, and one for each message at most. */
TEST(test_ib_cm_flood_of_unproven_peers)
{
	struct ibcm_msg m = { .kind = IBCM_DREQ, .local_id = 7, .remote_id = 8 };
	uint32_t count = 0;

	bed_open(b, NULL);
	for (uint32_t i = 0; i < 10000; i++)
		EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_UNKNOWN);
	while (ib_cm_send(b->cm[B], b->now_ns, &b->out))
		count++;
	EXPECT_EQ(count, 64);
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_UNKNOWN);
	bed_take(b, B, IBCM_DREP);
	bed_quiet(b, B);
	bed_close(b);
}

/* Ids are spread, and so are not to be guessed from others; the place stays. */
TEST(test_ib_cm_ids)
{
	struct ib_cm_connect c = bed_request();
	uint32_t last = 0, near = 0, id;

	bed_open(b, NULL);
	for (int i = 0; i < 1000; i++) {
		EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
		EXPECT_EQ(id >> 24, 5);
		near += id - last < 1000 || last - id < 1000;
		last = id;
		ib_cm_forget(b->cm[A], b->now_ns, id);
	}
	EXPECT(near < 10);
	bed_close(b);
}
