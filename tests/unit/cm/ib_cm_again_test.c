/* SPDX-License-Identifier: BSD-2-Clause */
/* The agent of InfiniBand's CM: what is lost, what comes twice, and what comes late. */
#include "ib_cm_fixture.h"

static struct cm_bed bed, *const b = &bed;

static const uint64_t response_ns = 4096ULL << 20;

/*
 * Sent at once, then after 100 ms, twice that, and so on up to a second; the last third of the
 * times after the whole time that the peer has.
 */
TEST(test_iba_12_9_8_5_request_is_sent_again)
{
	static const uint64_t waits_ms[16] = { 100,  200,  400,	 800,  1000,
					       1000, 1000, 1000, 1000, 1000 };
	uint64_t begin;
	struct ib_cm_event e;
	uint32_t id;

	bed_open(b, NULL);
	begin = b->now_ns;
	id = bed_connect(b);
	for (uint32_t i = 0; i <= 15; i++) {
		bed_take(b, A, IBCM_REQ);
		EXPECT(b->out.attempt == i && b->out.id == id);
		bed_quiet(b, A);
		EXPECT_EQ(ib_cm_due(b->cm[A]),
			  b->now_ns + (waits_ms[i] ? waits_ms[i] * MS : response_ns));
		bed_due(b, A);
	}
	EXPECT_EQ(ib_cm_counts(b->cm[A])->again, 15);
	EXPECT(b->now_ns - begin > 30000ULL * MS);
	e = bed_event(b, A, IB_CM_FAILED);
	EXPECT(e.reason == WEFT_R_CONNECT_TIMEOUT && e.reject == 0);
	/* A REJ goes out, in case the peer is there after all; it lacks the peer's id. */
	bed_take(b, A, IBCM_REJ);
	EXPECT(b->m.remote_id == 0 && b->m.rej.reason == IBCM_REJECT_TIMEOUT);
	bed_quiet(b, A);
	bed_due(b, A);
	bed_event(b, A, IB_CM_RELEASED);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
	bed_close(b);
}

/* Both take the retries and the time that the REQ says, and never longer than our own. */
TEST(test_iba_12_6_5_retries_of_the_reply)
{
	struct ibcm_msg m;
	uint32_t id;

	bed_open(b, NULL);
	bed_connect(b);
	bed_take(b, A, IBCM_REQ);
	m = b->m;
	m.req.cm_retries = 2;
	m.req.local_timeout = 31;
	EXPECT_EQ(bed_say(b, B, &m), WEFT_OK);
	id = bed_event(b, B, IB_CM_REQUESTED).id;
	bed_accept(b, id);
	for (uint32_t i = 0; i <= 2; i++) {
		bed_take(b, B, IBCM_REP);
		EXPECT_EQ(b->out.attempt, i);
		EXPECT(ib_cm_due(b->cm[B]) - b->now_ns <= response_ns);
		bed_due(b, B);
	}
	EXPECT_EQ(bed_event(b, B, IB_CM_FAILED).reason, WEFT_R_CONNECT_TIMEOUT);
	bed_take(b, B, IBCM_REJ);
	EXPECT(b->m.rej.about == IBCM_ABOUT_OTHER && b->m.remote_id == m.local_id);
	bed_close(b);
}

TEST(test_iba_12_9_8_dreq_without_answer)
{
	struct cm_ids ids;
	struct ib_cm_event e;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	for (uint32_t i = 0; i <= 15; i++) {
		bed_take(b, A, IBCM_DREQ);
		EXPECT_EQ(b->out.attempt, i);
		bed_no_event(b, A);
		bed_due(b, A);
	}
	e = bed_event(b, A, IB_CM_DISCONNECTED);
	EXPECT(e.reason == WEFT_R_STREAM_LOST && !e.is_by_peer);
	bed_quiet(b, A);
	EXPECT_EQ(bed_state(b, A, ids.id[A]), IB_CM_TIMEWAIT);
	bed_close(b);
}

/* ---- Twice ---------------------------------------------------------------------------------- */

TEST(test_iba_12_9_7_request_twice)
{
	struct ib_cm_out req;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	req = b->out;
	/* While the owner thinks: it takes a while. */
	bed_land(b, B);
	bed_carry(b, B, IBCM_MRA);
	EXPECT_EQ(bed_state(b, A, id_a), IB_CM_MRA_REQ_RCVD);
	bed_accept(b, id_b);
	bed_take(b, B, IBCM_REP);
	/* The reply was lost. */
	b->out = req;
	bed_land(b, B);
	bed_carry(b, B, IBCM_REP);
	EXPECT_EQ(b->out.attempt, 1);
	bed_event(b, A, IB_CM_REPLIED);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, id_a, NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_RTU);
	bed_event(b, B, IB_CM_ESTABLISHED);
	/* Connected: it is too old to mean anything. */
	b->out = req;
	bed_land(b, B);
	bed_quiet(b, B);
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, id_b, NO_DATA), WEFT_OK);
	bed_carry(b, B, IBCM_DREQ);
	bed_event(b, A, IB_CM_DISCONNECTED);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, id_a, NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_DREP);
	bed_event(b, B, IB_CM_DISCONNECTED);
	/* In time wait: as Linux says it. */
	b->out = req;
	bed_land(b, B);
	bed_carry(b, B, IBCM_REJ);
	EXPECT_EQ(b->m.rej.reason, IBCM_REJECT_STALE);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->duplicates, 4);
	bed_no_event(b, A);
	bed_no_event(b, B);
	bed_close(b);
}

TEST(test_iba_12_9_7_rejected_request_twice)
{
	const struct ib_cm_reject r = { .code = IBCM_REJECT_CONSUMER, .private_data = DATA("no") };
	struct ib_cm_out req;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	req = b->out;
	EXPECT_EQ(ib_cm_reject(b->cm[B], b->now_ns, id_b, &r), WEFT_OK);
	bed_take(b, B, IBCM_REJ);
	b->out = req;
	bed_land(b, B);
	bed_carry(b, B, IBCM_REJ);
	EXPECT_EQ(b->out.attempt, 1);
	EXPECT_MEM(b->m.private_data.bytes, "no", 3);
	bed_event(b, A, IB_CM_FAILED);
	bed_no_event(b, B);
	bed_close(b);
}

TEST(test_iba_12_9_7_reply_twice)
{
	struct ib_cm_out rep;
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_replied(b);
	rep = b->out;
	bed_land(b, A);
	bed_carry(b, A, IBCM_MRA);
	EXPECT_EQ(bed_state(b, B, ids.id[B]), IB_CM_MRA_REP_RCVD);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], DATA("go")), WEFT_OK);
	bed_take(b, A, IBCM_RTU);
	/* The RTU was lost: it is said again, and not by a clock. */
	b->out = rep;
	bed_land(b, A);
	bed_carry(b, A, IBCM_RTU);
	EXPECT_EQ(b->out.attempt, 1);
	EXPECT_MEM(bed_event(b, B, IB_CM_ESTABLISHED).private_data, "go", 3);
	bed_land(b, B);
	bed_no_event(b, B);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	b->out = rep;
	bed_land(b, A);
	bed_carry(b, A, IBCM_DREQ);
	bed_quiet(b, A);
	bed_no_event(b, A);
	bed_close(b);
}

TEST(test_iba_12_9_7_rejected_reply_twice)
{
	const struct ib_cm_reject r = { .code = IBCM_REJECT_CONSUMER };
	struct ib_cm_out rep;
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_replied(b);
	rep = b->out;
	EXPECT_EQ(ib_cm_reject(b->cm[A], b->now_ns, ids.id[A], &r), WEFT_OK);
	bed_take(b, A, IBCM_REJ);
	b->out = rep;
	bed_land(b, A);
	bed_carry(b, A, IBCM_REJ);
	EXPECT(b->out.attempt == 1 && b->m.rej.about == IBCM_ABOUT_REP);
	bed_event(b, B, IB_CM_FAILED);
	bed_close(b);
}

TEST(test_iba_12_9_7_dreq_twice)
{
	struct ib_cm_out dreq;
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_DREQ);
	dreq = b->out;
	bed_event(b, B, IB_CM_DISCONNECTED);
	bed_land(b, B);
	bed_quiet(b, B);
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], DATA("x")), WEFT_OK);
	bed_take(b, B, IBCM_DREP);
	b->out = dreq;
	bed_land(b, B);
	bed_take(b, B, IBCM_DREP);
	EXPECT(b->out.attempt == 1 && b->m.private_data.bytes[0] == 'x');
	bed_no_event(b, B);
	/* And when all is forgotten (Linux does so too). */
	bed_pass(b, 10ULL * 1000 * MS);
	bed_event(b, B, IB_CM_RELEASED);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->cm_ids, 0);
	b->out = dreq;
	bed_land(b, B);
	EXPECT_EQ(b->reason, WEFT_R_CM_UNKNOWN);
	bed_carry(b, B, IBCM_DREP);
	EXPECT(b->out.id == 0 && b->m.local_id == ids.id[B] && b->m.remote_id == ids.id[A]);
	bed_event(b, A, IB_CM_DISCONNECTED);
	bed_land(b, A);
	bed_no_event(b, A);
	bed_close(b);
}

/* ---- Out of order --------------------------------------------------------------------------- */

/* A DREQ that overtakes the RTU says it as well. */
TEST(test_iba_12_9_7_dreq_before_rtu)
{
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_replied(b);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_take(b, A, IBCM_RTU);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_DREQ);
	EXPECT_EQ(bed_event(b, B, IB_CM_ESTABLISHED).private_bytes, 0);
	EXPECT(bed_event(b, B, IB_CM_DISCONNECTED).is_by_peer);
	bed_close(b);
}

/* The passive end leaves before it has heard of the RTU: in each state of the active one. */
TEST(test_iba_12_9_7_passive_end_leaves_early)
{
	for (int i = 0; i < 3; i++) {
		struct cm_ids ids;
		struct ib_cm_event e;

		bed_open(b, NULL);
		ids.id[B] = bed_requested(b, &ids.id[A]);
		bed_accept(b, ids.id[B]);
		bed_take(b, B, IBCM_REP);
		if (i > 0)
			bed_land(b, A);
		if (i == 2) {
			bed_event(b, A, IB_CM_REPLIED);
			EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
			bed_take(b, A, IBCM_RTU);
		}
		EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], NO_DATA), WEFT_OK);
		bed_carry(b, B, IBCM_DREQ);
		e = bed_event(b, A, i == 2 ? IB_CM_DISCONNECTED : IB_CM_FAILED);
		EXPECT_EQ(e.reason, i == 2 ? WEFT_R_PEER_GONE : WEFT_R_CONNECT_CLOSED);
		if (i == 2)
			EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA),
				  WEFT_OK);
		bed_carry(b, A, IBCM_DREP);
		bed_quiet(b, A);
		EXPECT_EQ(bed_event(b, B, IB_CM_DISCONNECTED).reason, WEFT_OK);
		bed_close(b);
	}
}

/* A reply to who has given up is refused, whether that is still known or not. */
TEST(test_iba_12_9_7_reply_too_late)
{
	for (int i = 0; i < 2; i++) {
		uint32_t id_a, id_b;

		bed_open(b, NULL);
		id_b = bed_requested(b, &id_a);
		ib_cm_forget(b->cm[A], b->now_ns, id_a);
		bed_take(b, A, IBCM_REJ);
		if (i == 1) {
			bed_due(b, A);
			EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
		}
		bed_accept(b, id_b);
		bed_take(b, B, IBCM_REP);
		bed_land(b, A);
		EXPECT_EQ(b->reason, i == 0 ? WEFT_OK : WEFT_R_CM_UNKNOWN);
		bed_carry(b, A, IBCM_REJ);
		EXPECT(b->m.rej.reason == IBCM_REJECT_COMM_ID && b->m.rej.about == IBCM_ABOUT_REP);
		EXPECT_EQ(bed_event(b, B, IB_CM_FAILED).reason, WEFT_R_CONNECT_CLOSED);
		bed_no_event(b, A);
		bed_close(b);
	}
}

/* A requester that gave up before it heard of us names us by its own id alone. */
TEST(test_iba_12_6_7_timeout_of_a_requester)
{
	struct ib_cm_where where;
	uint32_t id_a, id_b;

	bed_open(b, NULL);
	id_b = bed_requested(b, &id_a);
	ib_cm_forget(b->cm[A], b->now_ns, id_a);
	bed_carry(b, A, IBCM_REJ);
	EXPECT(ib_cm_where(b->out.bytes, MAD_BYTES, &where) && where.adapter_slot == 0);
	EXPECT(b->m.remote_id == 0 && b->m.rej.about == IBCM_ABOUT_OTHER);
	EXPECT_EQ(bed_event(b, B, IB_CM_FAILED).id, id_b);
	bed_no_event(b, A);
	bed_close(b);
}

/* What the owner has not heard of when it ends, it never hears of. */
TEST(test_ib_cm_request_that_was_never_reported)
{
	uint32_t id_a;

	bed_open(b, NULL);
	id_a = bed_connect(b);
	bed_carry(b, A, IBCM_REQ);
	ib_cm_forget(b->cm[A], b->now_ns, id_a);
	bed_carry(b, A, IBCM_REJ);
	bed_no_event(b, B);
	bed_pass(b, 60ULL * 1000 * MS);
	bed_no_event(b, B);
	EXPECT_EQ(ib_cm_counts(b->cm[B])->cm_ids, 0);
	bed_close(b);
}

/* What was still to be said, and is no longer of use, is not. */
TEST(test_ib_cm_nothing_is_said_too_late)
{
	struct cm_ids ids;

	bed_open(b, NULL);
	ids.id[B] = bed_requested(b, &ids.id[A]);
	bed_land(b, B); /* an MRA is due */
	bed_accept(b, ids.id[B]);
	bed_take(b, B, IBCM_REP);
	bed_quiet(b, B);
	bed_due(b, A); /* and a REQ once more */
	EXPECT(ib_cm_has_output(b->cm[A]));
	bed_land(b, A);
	bed_quiet(b, A);
	bed_event(b, A, IB_CM_REPLIED);
	EXPECT_EQ(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_RTU);
	/* Nor told: who parts need not hear that it is connected. */
	EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], NO_DATA), WEFT_OK);
	bed_no_event(b, B);
	bed_close(b);
}

/* The limit of a request is none for what comes after it. */
TEST(test_ib_cm_limit_ends_with_the_reply)
{
	struct ib_cm_connect c = bed_request();
	uint32_t id;

	bed_open(b, NULL);
	c.timeout_ns = 1000ULL * MS;
	EXPECT_EQ(ib_cm_connect(b->cm[A], b->now_ns, &c, &id), WEFT_OK);
	bed_carry(b, A, IBCM_REQ);
	bed_accept(b, bed_event(b, B, IB_CM_REQUESTED).id);
	bed_carry(b, B, IBCM_REP);
	bed_event(b, A, IB_CM_REPLIED);
	EXPECT_EQ(ib_cm_due(b->cm[A]), b->now_ns + response_ns / 2);
	bed_close(b);
}

/* Peers do not make us wait for hours. */
TEST(test_ib_cm_long_waits_are_cut)
{
	struct ibcm_msg m = { .kind = IBCM_MRA, .mra = { IBCM_ABOUT_REQ, 31 } }, req;
	const struct ib_cm_reject r = { .code = IBCM_REJECT_CONSUMER };
	uint32_t id;

	bed_open(b, NULL);
	m.remote_id = bed_connect(b);
	bed_take(b, A, IBCM_REQ);
	EXPECT_EQ(bed_say(b, A, &m), WEFT_OK);
	EXPECT_EQ(ib_cm_due(b->cm[A]), b->now_ns + (4096ULL << 26) + response_ns);
	req = b->m;
	req.req.primary.ack_timeout = 31;
	req.req.remote_timeout = 31;
	EXPECT_EQ(bed_say(b, B, &req), WEFT_OK);
	EXPECT_EQ(ib_cm_due(b->cm[B]), b->now_ns + response_ns / 2);
	id = bed_event(b, B, IB_CM_REQUESTED).id;
	EXPECT_EQ(ib_cm_reject(b->cm[B], b->now_ns, id, &r), WEFT_OK);
	EXPECT_EQ(ib_cm_due(b->cm[B]), b->now_ns + (4096ULL << 22));
	bed_close(b);
}

/* ---- Forgetting ----------------------------------------------------------------------------- */

/* In every state: the peer's owner learns it, ours hears nothing more, and nothing stays. */
TEST(test_ib_cm_forget_in_every_state)
{
	enum { STAGES = 8 };

	for (int stage = 0; stage < STAGES; stage++) {
		struct cm_ids ids = { { 0 } };
		struct ib_cm_event e;
		int who = stage == 1 || stage == 3 || stage == 6 ? B : A;
		bool is_ended = false;

		bed_open(b, NULL);
		if (stage <= 1) {
			ids.id[B] = bed_requested(b, &ids.id[A]);
		} else if (stage <= 3) {
			ids = bed_replied(b);
		} else {
			ids = bed_connected(b);
		}
		if (stage >= 5) {
			EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA),
				  WEFT_OK);
			bed_carry(b, A, IBCM_DREQ);
		}
		if (stage == 6)
			bed_event(b, B, IB_CM_DISCONNECTED);
		if (stage == 7) {
			EXPECT_EQ(ib_cm_disconnect(b->cm[B], b->now_ns, ids.id[B], NO_DATA),
				  WEFT_OK);
			bed_carry(b, B, IBCM_DREP);
		}
		ib_cm_forget(b->cm[who], b->now_ns, ids.id[who]);
		for (int n = 0; n < 50; n++) {
			for (int i = 0; i < 2; i++) {
				while (ib_cm_send(b->cm[i], b->now_ns, &b->out))
					bed_land(b, 1 - i);
			}
			while (ib_cm_event(b->cm[1 - who], &e))
				is_ended |= e.kind == IB_CM_FAILED || e.kind == IB_CM_DISCONNECTED;
			bed_no_event(b, who);
			bed_pass(b, 1000ULL * MS);
		}
		EXPECT(is_ended || stage == 6);
		for (int i = 0; i < 2; i++) {
			EXPECT_EQ(ib_cm_counts(b->cm[i])->cm_ids, 0);
			EXPECT_EQ(ib_cm_due(b->cm[i]), UINT64_MAX);
		}
		bed_close(b);
	}
}

/* Also when only its last event is left. */
TEST(test_ib_cm_forget_before_the_last_event)
{
	struct cm_ids ids;

	bed_open(b, NULL);
	ids = bed_connected(b);
	EXPECT_EQ(ib_cm_disconnect(b->cm[A], b->now_ns, ids.id[A], NO_DATA), WEFT_OK);
	bed_carry(b, A, IBCM_DREQ);
	bed_event(b, B, IB_CM_DISCONNECTED);
	bed_pass(b, 50ULL * MS + 1);
	bed_carry(b, B, IBCM_DREP);
	bed_pass(b, 10ULL * 1000 * MS);
	EXPECT_EQ(bed_state(b, A, ids.id[A]), IB_CM_IDLE);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 1);
	ib_cm_forget(b->cm[A], b->now_ns, ids.id[A]);
	bed_no_event(b, A);
	EXPECT_EQ(ib_cm_counts(b->cm[A])->cm_ids, 0);
	ib_cm_forget(b->cm[A], b->now_ns, ids.id[A]);
	EXPECT_EQ(bed_event(b, B, IB_CM_RELEASED).id, ids.id[B]);
	bed_close(b);
}
