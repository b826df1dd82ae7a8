/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The agent of InfiniBand's CM against requests whose source address is forged: no connection ends
 * by one, those who are connected find room whatever comes, and what is sent to an address that
 * has not answered is no more than came from there.
 */
#include "ib_cm_fixture.h"

static struct cm_bed bed, *const b = &bed;

enum { GUID_A = 0xaa00, SECOND = 1000 * MS };

/* As by A, for a service that has no addresses in its private data. */
static struct ibcm_msg request(void)
{
	struct ibcm_msg m = { .kind = IBCM_REQ, .tid = 5, .local_id = 0x05abcdef };

	m.req = (struct ibcm_req){
		.service_id = 1,
		.ca_guid = GUID_A,
		.qpn = QPN_A,
		.psn = 0x777,
		.transport = IBCM_TRANSPORT_RC,
		.path_mtu = 3,
		.cm_retries = 15,
		.local_timeout = IB_CM_RESPONSE_CODE,
		.remote_timeout = IB_CM_RESPONSE_CODE,
		.primary = { .local_gid = { [10] = 0xff, 0xff, 10, 0, 0, 1 },
			     .remote_gid = { [10] = 0xff, 0xff, 10, 0, 0, 2 },
			     .ack_timeout = IB_CM_ACK_CODE },
	};
	return m;
}

/* The n-th request from an address 10.x.y.z, by a CA of that GUID. */
static enum weft_reason ask_from(uint32_t address, uint64_t guid, uint32_t n)
{
	struct ibcm_ip ip = bed_ip(A);
	struct ibcm_msg m = request();
	uint8_t bytes[MAD_BYTES];

	m.local_id = m.req.qpn = 1000 + n;
	m.req.ca_guid = guid;
	for (int i = 0; i < 3; i++)
		ip.from.address[1 + i] = m.req.primary.local_gid[13 + i] = (uint8_t)(address >>
										     (16 - 8 * i));
	ibcm_encode(&m, bytes);
	return ib_cm_recv(b->cm[B], b->now_ns, &ip, bytes, sizeof(bytes));
}

/* The program takes all that comes. How many. */
static uint32_t accept_all(void)
{
	struct ib_cm_event e;
	uint32_t count = 0;

	while (ib_cm_event(b->cm[B], &e)) {
		if (e.kind != IB_CM_REQUESTED)
			continue;
		bed_accept(b, e.id);
		count++;
	}
	return count;
}

static uint32_t send_all(void)
{
	struct ib_cm_out out;
	uint32_t count = 0;

	while (ib_cm_send(b->cm[B], b->now_ns, &out))
		count++;
	return count;
}

/* ---- Connections that a request contradicts -------------------------------------------------- */

/* The peer has the connection: it is asked, says nothing, and nothing happens to it. */
TEST(test_rfc_5961_4_2_forged_request_ends_no_connection)
{
	struct ibcm_msg m;
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_connected(b);
	m = request();
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STALE);
		/* One answer at most, which names the connection and no queue pair. */
		bed_take(b, B, IBCM_DREQ);
		EXPECT(b->m.dreq_remote_qpn == 0 && b->m.local_id == ids.id[B] &&
		       b->m.remote_id == ids.id[A]);
		bed_land(b, A);
		EXPECT_EQ(b->reason, WEFT_R_CM_FORM);
		bed_quiet(b, A);
		bed_no_event(b, A);
		/* Soon after there is none at all. */
		EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STALE);
		bed_quiet(b, B);
		bed_no_event(b, B);
		bed_pass(b, 100 * MS);
	}
	/* A peer that insists is told that the older one stands. */
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STALE);
	bed_take(b, B, IBCM_REJ);
	EXPECT(b->m.remote_id == m.local_id && b->m.rej.reason == IBCM_REJECT_STALE);
	bed_quiet(b, B);
	bed_no_event(b, B);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	EXPECT_EQ(bed_state(b, A, ids.id[A]), IB_CM_CONNECTED);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->challenges, 4);
	bed_close(b);
}

/* All queue pair numbers, with a GUID that is not the peer's: not even a question comes of it. */
TEST(test_rfc_5961_sweep_of_queue_pairs_ends_nothing)
{
	struct ibcm_msg m;
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_connected(b);
	m = request();
	m.req.ca_guid = 0xbad;
	for (uint32_t qpn = QPN_A & 0xff0000; qpn <= (QPN_A | 0xffff); qpn++) {
		m.local_id = m.req.qpn = qpn;
		(void)bed_say(b, B, &m);
	}
	while (send_all() + accept_all() > 0) {
	}
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->challenges, 0);
	bed_close(b);
}

/* IBA 12.9.8.3.1: the peer began anew. It forgot the connection, says so, and its REQ succeeds. */
TEST(test_iba_12_9_8_3_1_peer_that_began_anew_gets_in)
{
	struct ib_cm_event e;
	struct cm_ids ids;
	uint32_t again;

	bed_open(b, NULL);
	ids = bed_connected(b);
	ib_cm_destroy(b->cm[A]);
	b->cm[A] = ib_cm_create(
		&(struct ib_cm_config){ .adapter_slot = 5, .key = { 4711 }, .ca_guid = GUID_A });
	again = bed_connect(b);
	bed_take(b, A, IBCM_REQ);
	bed_land(b, B);
	EXPECT_EQ(b->reason, WEFT_R_CM_STALE);
	bed_no_event(b, B);
	bed_take(b, B, IBCM_DREQ);
	bed_land(b, A);
	EXPECT_EQ(b->reason, WEFT_R_CM_UNKNOWN);
	bed_carry(b, A, IBCM_DREP);
	e = bed_event(b, B, IB_CM_DISCONNECTED);
	EXPECT(e.id == ids.id[B] && e.reason == WEFT_R_CM_STALE);
	bed_quiet(b, B);
	/* The REQ comes again by itself. */
	bed_due(b, A);
	bed_carry(b, A, IBCM_REQ);
	bed_accept(b, bed_event(b, B, IB_CM_REQUESTED).id);
	bed_carry(b, B, IBCM_REP);
	EXPECT_EQ(bed_event(b, A, IB_CM_REPLIED).id, again);
	bed_close(b);
}

/* The answer to a question counts, and only of the peer that was asked, and only for a while. */
TEST(test_rfc_5961_only_an_answer_ends_the_connection)
{
	struct ibcm_msg m, drep = { .kind = IBCM_DREP };
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_connected(b);
	m = request();
	drep.local_id = ids.id[A];
	drep.remote_id = ids.id[B];
	EXPECT_EQ(bed_say(b, B, &drep), WEFT_R_CM_STATE);
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STALE);
	drep.local_id++;
	EXPECT_EQ(bed_say(b, B, &drep), WEFT_R_CM_UNKNOWN);
	drep.local_id--;
	drep.remote_id++;
	EXPECT_EQ(bed_say(b, B, &drep), WEFT_R_CM_UNKNOWN);
	drep.remote_id--;
	bed_pass(b, 10 * (uint64_t)SECOND);
	EXPECT_EQ(bed_say(b, B, &drep), WEFT_R_CM_STATE);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	bed_close(b);
}

/* Another CA at the address has the number: the older connection ends once the newer is proved. */
TEST(test_iba_12_9_8_3_1_other_ca_ends_the_older_when_established)
{
	struct ibcm_msg m, rtu = { .kind = IBCM_RTU };
	struct cm_ids ids;
	uint32_t id;

	bed_open(b, NULL);
	ids = bed_connected(b);
	m = request();
	m.req.ca_guid = 0xcafe;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	id = bed_event(b, B, IB_CM_REQUESTED).id;
	bed_accept(b, id);
	bed_take(b, B, IBCM_REP);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	rtu.local_id = m.local_id;
	rtu.remote_id = id;
	EXPECT_EQ(bed_say(b, B, &rtu), WEFT_OK);
	EXPECT_EQ(bed_event(b, B, IB_CM_DISCONNECTED).id, ids.id[B]);
	EXPECT_EQ(bed_event(b, B, IB_CM_ESTABLISHED).id, id);
	EXPECT_EQ(bed_state(b, B, id), IB_CM_CONNECTED);
	bed_close(b);
}

/* IBA 12.6.7: a requester that gave up does not say our id, as it never heard it. */
TEST(test_rfc_5961_reject_without_our_id_ends_only_what_is_half_open)
{
	struct ibcm_msg m = { .kind = IBCM_REJ, .rej = { IBCM_ABOUT_OTHER, IBCM_REJECT_TIMEOUT } };
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_replied(b);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_RTU);
	bed_event(b, B, IB_CM_ESTABLISHED);
	m.local_id = ids.id[A];
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STATE);
	bed_no_event(b, B);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_CONNECTED);
	bed_close(b);
	bed_open(b, NULL);
	ids = bed_replied(b);
	m.local_id = ids.id[A];
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	EXPECT_EQ(bed_event(b, B, IB_CM_FAILED).id, ids.id[B]);
	bed_close(b);
}

/* A request that is half open does not end by one of another CA either, of its QP or its id. */
TEST(test_ib_cm_forged_request_ends_no_half_open_one)
{
	struct ibcm_msg m;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	m = request();
	m.req.ca_guid = 0xbad;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	bed_event(b, B, IB_CM_REQUESTED);
	m.local_id = id_a;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_R_CM_STALE);
	bed_no_event(b, B);
	EXPECT_EQ(bed_state(b, B, id_b), IB_CM_REQ_RCVD);
	bed_close(b);
}

/* ---- Floods --------------------------------------------------------------------------------- */

/* 600 addresses that never answer: a moment later there is room, the oldest of them ends. */
TEST(test_ib_cm_flood_from_many_addresses_blocks_no_peer)
{
	const struct ib_cm_counts *n;

	bed_open(b, NULL);
	n = ib_cm_counts(b->cm[B]);
	for (uint32_t i = 0; i < 600; i++)
		EXPECT_EQ(ask_from(0x010000 + i, i, i), i < 512 ? WEFT_OK : WEFT_R_LIMIT);
	EXPECT_EQ(accept_all(), 512);
	EXPECT(n->half_open == 512 && n->full == 88 && n->displaced == 0);
	(void)send_all();
	bed_pass(b, 250 * MS);
	(void)send_all();
	(void)bed_connect(b);
	bed_carry(b, A, IBCM_REQ);
	EXPECT_EQ(bed_event(b, B, IB_CM_FAILED).reason, WEFT_R_CM_CROWD);
	bed_event(b, B, IB_CM_REQUESTED);
	EXPECT(n->half_open == 512 && n->displaced == 1);
	/* And so on: never more than were there. */
	for (uint32_t i = 0; i < 2000; i++) {
		(void)ask_from(0x020000 + i, i, i);
		EXPECT(n->half_open <= 512);
		(void)accept_all();
		(void)send_all();
		bed_pass(b, 1 * MS);
	}
	bed_close(b);
}

/* Of the most crowded address the oldest makes room, also for a newcomer of another. */
TEST(test_ib_cm_flood_from_one_address_displaces_its_own)
{
	const struct ib_cm_counts *n;

	bed_open(b, &(struct ib_cm_config){ .half_open_max = 8, .cm_ids_max = 32 });
	n = ib_cm_counts(b->cm[B]);
	EXPECT_EQ(ask_from(1, 1, 0), WEFT_OK);
	for (uint32_t i = 0; i < 8; i++)
		EXPECT_EQ(ask_from(7, i, i), i < 6 ? WEFT_OK : WEFT_R_CM_CROWD);
	EXPECT_EQ(ask_from(2, 1, 0), WEFT_OK);
	EXPECT_EQ(ask_from(3, 1, 0), WEFT_R_LIMIT);
	EXPECT_EQ(n->half_open, 8);
	bed_pass(b, 250 * MS);
	EXPECT_EQ(ask_from(3, 1, 0), WEFT_OK);
	EXPECT_EQ(ask_from(7, 9, 9), WEFT_OK);
	EXPECT(n->half_open == 8 && n->displaced == 2);
	/* The others are still there: asked again they are known as the same. */
	for (uint32_t host = 1; host < 4; host++)
		EXPECT_EQ(ask_from(host, 1, 0), WEFT_OK);
	EXPECT_EQ(n->duplicates, 3);
	bed_close(b);
}

/* An unproven peer that was accepted late is as old as its request, and makes room first. */
TEST(test_ib_cm_unproven_peer_that_was_accepted_keeps_its_age)
{
	struct ib_cm_event e;
	uint32_t first;

	bed_open(b, &(struct ib_cm_config){ .half_open_max = 2, .cm_ids_max = 32 });
	EXPECT_EQ(ask_from(1, 1, 0), WEFT_OK);
	first = bed_event(b, B, IB_CM_REQUESTED).id;
	bed_pass(b, 200 * MS);
	EXPECT_EQ(ask_from(2, 1, 0), WEFT_OK);
	bed_event(b, B, IB_CM_REQUESTED);
	bed_accept(b, first);
	EXPECT_EQ(bed_state(b, B, first), IB_CM_REP_SENT);
	EXPECT_EQ(ask_from(3, 1, 0), WEFT_R_LIMIT);
	bed_pass(b, 60 * MS);
	EXPECT_EQ(ask_from(3, 1, 0), WEFT_OK);
	e = bed_event(b, B, IB_CM_FAILED);
	EXPECT(e.id == first && e.reason == WEFT_R_CM_CROWD);
	bed_close(b);
}

/* A connected peer gets in at once, despite a flood, even from its own address. */
TEST(test_ib_cm_connected_peer_always_gets_in)
{
	const struct ib_cm_counts *n;

	bed_open(b, NULL);
	n = ib_cm_counts(b->cm[B]);
	(void)bed_connected(b);
	for (uint32_t i = 0; i < 600; i++)
		(void)ask_from(0x010000 + i, i, i);
	EXPECT_EQ(n->half_open, 512);
	for (uint32_t i = 0; i < 20; i++)
		EXPECT_EQ(ask_from(1, GUID_A, 5000 + i), WEFT_OK);
	EXPECT(n->half_open == 512 && n->displaced == 20);
	/* With only the address, which any attacker knows, it is one of the flood. */
	EXPECT_EQ(ask_from(1, 0xbad, 6000), WEFT_R_LIMIT);
	bed_close(b);
}

/* It is not unproven peers that a known peer must fear, but it leaves room for other known ones. */
TEST(test_ib_cm_known_peers_crowd_too)
{
	bed_open(b, &(struct ib_cm_config){ .half_open_max = 8, .cm_ids_max = 32 });
	(void)bed_connected(b);
	for (uint32_t i = 0; i < 20; i++)
		EXPECT_EQ(ask_from(1, GUID_A, i), i < 6 ? WEFT_OK : WEFT_R_CM_CROWD);
	bed_close(b);
}

/* A genuine peer that was displaced learns of it when it answers. */
TEST(test_ib_cm_displaced_unproven_peer_is_rejected_when_it_answers)
{
	struct cm_ids ids;
	struct ib_cm_event e;

	bed_open(b, &(struct ib_cm_config){ .half_open_max = 1, .cm_ids_max = 32 });
	ids = bed_replied(b);
	bed_pass(b, 300 * MS);
	(void)send_all();
	EXPECT_EQ(ask_from(9, 1, 0), WEFT_OK);
	e = bed_event(b, B, IB_CM_FAILED);
	EXPECT(e.id == ids.id[B] && e.reason == WEFT_R_CM_CROWD);
	bed_quiet(b, B);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_RTU);
	bed_carry(b, B, IBCM_REJ);
	EXPECT_EQ(bed_event(b, A, IB_CM_DISCONNECTED).id, ids.id[A]);
	bed_close(b);
}

/* ---- Answers to forged addresses ------------------------------------------------------------- */

/* 600 requests get 600 answers, and a few more, in all the time until they are given up. */
TEST(test_ib_cm_forged_addresses_get_no_more_than_was_sent)
{
	uint64_t end_ns;
	uint32_t sent = 0, asked = 0;

	bed_open(b, &(struct ib_cm_config){ .half_open_max = 1024 });
	for (uint32_t i = 0; i < 600; i++)
		asked += ask_from(0x010000 + i, i, i) == WEFT_OK;
	EXPECT_EQ(asked, 600);
	end_ns = b->now_ns + 60 * (uint64_t)SECOND;
	while (b->now_ns < end_ns) {
		(void)accept_all();
		sent += send_all();
		bed_pass(b, 10 * MS);
	}
	/* One for each; 8, and one for each second, that make good a loss. */
	EXPECT(sent >= 600 && sent <= 600 + 8 + 60);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->half_open, 0);
	bed_close(b);
}

/* A program that takes long, and then says no, says one thing as well. */
TEST(test_ib_cm_forged_addresses_get_no_mra_and_answer)
{
	uint32_t sent = 0;
	struct ib_cm_event e;

	bed_open(b, NULL);
	for (uint32_t i = 0; i < 100; i++)
		EXPECT_EQ(ask_from(0x010000 + i, i, i), WEFT_OK);
	for (int i = 0; i < 100; i++) {
		bed_pass(b, 100 * MS);
		sent += send_all();
	}
	while (ib_cm_event(b->cm[B], &e))
		ib_cm_forget(b->cm[B], b->now_ns, e.id);
	sent += send_all();
	EXPECT(sent >= 100 && sent <= 100 + 8 + 10);
	bed_close(b);
}

/* A lone peer whose RTU is lost gets its REP again; one that asks again gets it each time. */
TEST(test_ib_cm_losses_are_made_good_for_unproven_peers)
{
	uint32_t id_a, id_b, asked = 0;

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	bed_accept(b, id_b);
	for (int i = 0; i < 10; i++) {
		bed_take(b, B, IBCM_REP); /* and is lost */
		bed_due(b, B);
	}
	while (asked < 10) {
		bed_pass(b, 100 * MS);
		if (!ib_cm_has_output(b->cm[A]))
			continue;
		(void)send_all();
		bed_carry(b, A, IBCM_REQ);
		bed_take(b, B, IBCM_REP);
		asked++;
	}
	bed_close(b);
}
