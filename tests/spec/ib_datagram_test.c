/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams: address handles, keys, groups, and management datagrams. */
#include <string.h>

#include "ib_bed.h"
#include "loopback/loopback.h"

enum { MTU = 256, Q_KEY = 0x1234567, GRH = 40, THERE = 0x775566 };

static const uint8_t data[MTU] = { 9, 8, 7, 6 };

static struct ib_bed *open_ud(void)
{
	struct ib_config config = bed_config();

	config.q_key = Q_KEY;
	config.path.to = (struct inet_end){ .port = 0 };
	return bed_open(&config, WEFT_UD);
}

static struct weft_path a_path(void)
{
	return (struct weft_path){
		.from = { .family = 4, .ip = { 192, 0, 2, 1 }, .port = 0xc005 },
		.to = { .family = 4, .ip = { 198, 51, 100, 7 } },
		.traffic_class = 0x68,
		.hop_limit = 9,
	};
}

static struct weft_send_wr to_handle(const struct weft_ah *ah, uint32_t q_key)
{
	return (struct weft_send_wr){ .id = 1,
				      .opcode = WEFT_OP_SEND,
				      .ah = ah,
				      .dest_qp_number = THERE,
				      .remote_q_key = q_key };
}

TEST(test_ud_01_a_request_goes_where_its_handle_says)
{
	struct ib_bed *b = open_ud();
	struct weft_path path = a_path();
	struct weft_ah *ah;
	struct bed_packet *p;

	MUST(ah_create(b->pd, &path, &ah));
	EXPECT_EQ(pd_destroy(b->pd), WEFT_R_BUSY);
	bed_post(b, to_handle(ah, 0x42), 0, 8);
	p = bed_next(b);
	EXPECT_EQ(p->p.opcode, IBA_UD_SEND);
	EXPECT_EQ(p->p.dest_qp, THERE);
	EXPECT_EQ(p->p.src_qp, b->qp->number);
	EXPECT_EQ(p->p.q_key, 0x42);
	EXPECT_MEM(p->path.to.address, path.to.ip, 4);
	EXPECT_MEM(p->path.from.address, path.from.ip, 4);
	EXPECT_EQ(p->path.to.port, IBA_UDP_PORT);
	EXPECT_EQ(p->path.from.port, 0xc005);
	EXPECT_EQ(p->path.traffic_class, 0x68);
	EXPECT_EQ(p->path.hop_limit, 9);
	EXPECT_MEM(p->payload, b->memory, 8);
	bed_completed(b, 1, WEFT_SUCCESS);
	/* IBA 10.2.5: the top bit asks for the queue pair's own key. */
	bed_post(b, to_handle(ah, UINT32_C(0x80000042)), 0, 8);
	EXPECT_EQ(bed_next(b)->p.q_key, Q_KEY);
	bed_completed(b, 1, WEFT_SUCCESS);
	ah_destroy(ah);
	/* IPv6, and a port that stands for the flow label. */
	path.from = (struct weft_address){ .family = 6, .ip = { 0xfd, [15] = 1 } };
	path.to = (struct weft_address){ .family = 6, .ip = { 0xfd, [15] = 2 } };
	path.flow_label = 0x12345;
	MUST(ah_create(b->pd, &path, &ah));
	bed_post(b, to_handle(ah, 1), 0, 8);
	p = bed_next(b);
	EXPECT(p->path.is_ipv6);
	EXPECT_MEM(p->path.to.address, path.to.ip, 16);
	EXPECT_EQ(p->path.from.port, iba_udp_port(0x12345));
	bed_completed(b, 1, WEFT_SUCCESS);
	ah_destroy(ah);
	bed_close(b);
}

TEST(test_ud_03_what_a_handle_does_not_allow)
{
	struct ib_bed *b = open_ud();
	struct weft_path path = a_path();
	struct weft_sge s = { (uintptr_t)b->memory, MTU, b->tag };
	struct weft_send_wr wr = to_handle(NULL, 1);
	struct weft_pd *other;
	struct weft_ah *ah;
	uint32_t posted;

	wr.sges = &s;
	wr.sge_count = 1;
	EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_NULL_ARGUMENT);
	path.mtu_bytes = 128;
	MUST(ah_create(b->pd, &path, &ah));
	wr.ah = ah;
	EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_WR_LENGTH);
	ah_destroy(ah);
	path.mtu_bytes = 4096;
	MUST(ah_create(b->pd, &path, &ah));
	wr.ah = ah;
	s.length = MTU + 1;
	EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_WR_LENGTH);
	ah_destroy(ah);
	/* Of another domain. */
	MUST(pd_create(&b->adapter, &(struct weft_pd_options){ 0 }, &other));
	MUST(ah_create(other, &path, &ah));
	wr.ah = ah;
	s.length = 8;
	EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_TAG_PD);
	ah_destroy(ah);
	MUST(pd_destroy(other));
	path.to.family = 6;
	EXPECT_EQ(ah_create(b->pd, &path, &ah), WEFT_R_BAD_ARGUMENT);
	path.to.family = path.from.family = 0;
	EXPECT_EQ(ah_create(b->pd, &path, &ah), WEFT_R_BAD_ARGUMENT);
	bed_silent(b);
	bed_close(b);
}

/* One that is gone when the request comes to its turn: it fails, and what follows is flushed. */
TEST(test_ud_01_a_handle_that_is_gone)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct ib_bed *b = open_ud();
	const struct weft_path path = a_path();
	struct weft_ah *ah;

	/* Begun, but not sent yet. */
	MUST(ah_create(b->pd, &path, &ah));
	b->is_held = true;
	bed_post(b, to_handle(ah, 1), 0, 8);
	bed_post(b, to_handle(ah, 1), 0, 8);
	ah_destroy(ah);
	b->is_held = false;
	bed_run(b);
	bed_silent(b);
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	bed_completed(b, 1, WEFT_ERR_FLUSHED);
	EXPECT_EQ(b->qp->state, WEFT_QPS_SQE);
	EXPECT_EQ(b->qp->reason, WEFT_R_PEER_UNKNOWN);
	/* And it goes on. Not begun yet: */
	MUST(qp_modify(b->qp, &rts, WEFT_QP_STATE));
	b->qp->on_failure = WEFT_FAIL_DRAIN;
	MUST(ah_create(b->pd, &path, &ah));
	struct weft_send_wr wrs[2] = { { .id = 2, .opcode = WEFT_OP_DELAY, .delay_ns = 5 },
				       to_handle(ah, 1) };
	uint32_t posted;

	MUST(qp_post_send(b->qp, wrs, 2, &posted));
	b->posted += 2;
	bed_run(b);
	ah_destroy(ah);
	b->now_ns += 5;
	bed_run(b);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	bed_silent(b);
	bed_close(b);
}

static struct iba_packet datagram(uint32_t dest_qp)
{
	return (struct iba_packet){ .opcode = IBA_UD_SEND,
				    .psn = 1,
				    .p_key = IBA_PKEY_DEFAULT,
				    .dest_qp = dest_qp,
				    .q_key = Q_KEY,
				    .src_qp = 0x99 };
}

/* The next completion: of a datagram that was taken. */
static void expect_datagram(struct ib_bed *b, uint64_t id)
{
	struct weft_completion c = { 0 };
	uint32_t count;

	MUST(cq_poll(b->cq, &c, 1, &count));
	REQUIRE(count == 1);
	b->completed++;
	REQUIRE(c.id == id && c.status == WEFT_SUCCESS && c.has_route && c.has_ipv4_route);
	REQUIRE(c.byte_count == GRH + 8 && c.src_qp_number == 0x99);
}

/* RAW-01: what a raw queue pair takes are frames; a datagram is no frame, whatever its key. */
TEST(test_raw_01_a_raw_queue_pair_takes_no_datagrams)
{
	const struct ib_raw raw = { .next_header = 17, .is_any = true };
	struct ib_bed *b = open_ud();

	MUST(ib_raw_bind(b->conn, &raw));
	bed_recv(b, 1, 0, GRH + 8);
	EXPECT_EQ(bed_put(b, datagram(weft_qp_number(b->qp)), data, 8), WEFT_R_IB_SERVICE);
	bed_silent(b);
	bed_close(b);
}

struct second {
	struct weft_qp *qp;
	struct ib_conn *conn;
};

/* Another queue pair of the same port. */
static struct second second_open(struct ib_bed *b)
{
	const struct weft_qp_options o = { .send_cq = b->cq, .recv_cq = b->cq, .service = WEFT_UD };
	struct second s;

	REQUIRE(qp_create(b->pd, &o, &loopback_transport, &s.qp) == WEFT_OK);
	REQUIRE(ib_create(b->port, s.qp, &b->config, &s.conn) == WEFT_OK);
	return s;
}

static void second_recv(struct ib_bed *b, struct second *s, uint64_t id, uint64_t offset)
{
	const struct weft_sge at = { (uintptr_t)b->memory + offset, MTU, b->tag };
	const struct weft_recv_wr wr = { .id = id, .sges = &at, .sge_count = 1 };
	uint32_t posted;

	MUST(qp_post_recv(s->qp, &wr, 1, &posted));
	b->posted++;
}

static void second_close(struct ib_bed *b, struct second *s)
{
	qp_destroy(s->qp);
	bed_run(b);
	REQUIRE(ib_port_event(b->port) == s->conn);
	ib_destroy(s->conn);
}

static enum weft_reason put_group_changed(struct ib_bed *b, const struct ib_group *g,
					  struct iba_packet p,
					  void (*change)(uint8_t *bytes, size_t *length))
{
	struct inet_end to = { .port = IBA_UDP_PORT };
	const struct bed_way way = { .from = { { 198, 51, 100, 7 }, 0xc777 },
				     .to = &to,
				     .change = change };

	memcpy(to.address, g->address, 4);
	return bed_put_by(b, &way, p, data, 8);
}

static enum weft_reason put_group(struct ib_bed *b, const struct ib_group *g, struct iba_packet p)
{
	return put_group_changed(b, g, p, NULL);
}

static void break_icrc(uint8_t *bytes, size_t *length)
{
	bytes[*length - 1] ^= 1;
}

/* Its total: IPv4, UDP, BTH, DETH, 8 bytes of payload, ICRC. */
static const uint8_t ipv4_of_datagram[] = { 0x45, 0, 0, 20 + 8 + 12 + 8 + 8 + 4 };

/* IBA 10.5.2: every member of the group gets a copy, and no other queue pair. */
TEST(test_iba_10_5_datagrams_to_a_group)
{
	const struct ib_group one = { .address = { 239, 1, 1, 1 } };
	const struct ib_group two = { .address = { 239, 1, 1, 2 } };
	const struct ib_group unicast = { .address = { 10, 1, 1, 1 } };
	struct ib_bed *b = open_ud();
	struct second s = second_open(b);
	struct iba_packet p = datagram(IBA_QPN_MULTICAST);

	EXPECT_EQ(put_group(b, &one, p), WEFT_R_PEER_UNKNOWN);
	/* The ICRC costs most: it is not looked at where there are no members. */
	EXPECT_EQ(put_group_changed(b, &one, p, break_icrc), WEFT_R_PEER_UNKNOWN);
	EXPECT_EQ(ib_join(b->conn, &unicast), WEFT_R_BAD_ARGUMENT);
	MUST(ib_join(b->conn, &one));
	EXPECT_EQ(put_group_changed(b, &one, p, break_icrc), WEFT_R_IB_ICRC);
	MUST(ib_join(b->conn, &one));
	MUST(ib_join(b->conn, &two));
	MUST(ib_join(s.conn, &one));
	EXPECT_EQ(put_group(b, &one, p), WEFT_R_RECEIVER_NOT_READY);
	for (uint64_t i = 0; i < 3; i++)
		bed_recv(b, 10 + i, 1024 * i, MTU);
	second_recv(b, &s, 20, 4096);
	/* Both; one alone; and one whose other has no receive. */
	MUST(put_group(b, &one, p));
	expect_datagram(b, 10);
	expect_datagram(b, 20);
	EXPECT_MEM(b->memory + GRH, data, 8);
	EXPECT_MEM(b->memory + 4096 + GRH, data, 8);
	EXPECT_MEM(b->memory + 36, one.address, 4);
	EXPECT_MEM(b->memory + 20, ipv4_of_datagram, sizeof(ipv4_of_datagram));
	MUST(put_group(b, &two, p));
	expect_datagram(b, 11);
	bed_incomplete(b);
	MUST(put_group(b, &one, p));
	expect_datagram(b, 12);
	/* Keys count here too. */
	second_recv(b, &s, 21, 4096);
	p.q_key++;
	EXPECT_EQ(put_group(b, &one, p), WEFT_R_IB_QKEY);
	p.q_key--;
	p.p_key = 0x8002;
	EXPECT_EQ(put_group(b, &one, p), WEFT_R_IB_PKEY);
	p.p_key = IBA_PKEY_DEFAULT;
	p.opcode = iba_opcode(IBA_UC, IBA_SEND_ONLY);
	EXPECT_EQ(put_group(b, &one, p), WEFT_R_IB_SERVICE);
	p.opcode = IBA_UD_SEND;
	ib_leave(b->conn, &one);
	ib_leave(b->conn, &one);
	bed_recv(b, 13, 1024, MTU);
	MUST(put_group(b, &one, p));
	expect_datagram(b, 21);
	bed_incomplete(b);
	second_close(b, &s);
	EXPECT_EQ(put_group(b, &one, p), WEFT_R_PEER_UNKNOWN);
	bed_close(b);
}

TEST(test_iba_10_5_only_datagrams_join_groups)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct ib_group group = { .address = { 239, 1, 2, 3 } };

	EXPECT_EQ(ib_join(b->conn, &group), WEFT_R_WR_SERVICE);
	bed_close(b);
}

TEST(test_iba_10_5_memberships_of_a_port_are_bounded)
{
	enum { MEMBERS_MAX = 4096 };
	struct ib_bed *b = open_ud();
	struct ib_group group = { .address = { 239 } }, first = group;

	for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
		group.address[2] = (uint8_t)(i >> 8);
		group.address[3] = (uint8_t)i;
		MUST(ib_join(b->conn, &group));
	}
	group.address[1] = 1;
	EXPECT_EQ(ib_join(b->conn, &group), WEFT_R_LIMIT);
	ib_leave(b->conn, &first);
	MUST(ib_join(b->conn, &group));
	EXPECT_EQ(ib_join(b->conn, &first), WEFT_R_LIMIT);
	bed_close(b);
}

/* A member that fails by what it gets leaves its groups; the others are served. */
TEST(test_iba_10_5_a_member_that_fails)
{
	const struct ib_group one = { .address = { 239, 1, 1, 1 } };
	const struct ib_group two = { .address = { 239, 1, 1, 2 } };
	struct ib_bed *b = open_ud();
	struct second s = second_open(b);
	const struct weft_sge bad = { 0, MTU, b->tag };
	const struct weft_recv_wr wr = { .id = 30, .sges = &bad, .sge_count = 1 };
	uint32_t posted;

	MUST(ib_join(s.conn, &one));
	MUST(ib_join(s.conn, &two));
	MUST(ib_join(b->conn, &one));
	MUST(qp_post_recv(s.qp, &wr, 1, &posted));
	b->posted++;
	bed_recv(b, 31, 0, MTU);
	MUST(put_group(b, &one, datagram(IBA_QPN_MULTICAST)));
	bed_completed(b, 30, WEFT_ERR_LOCAL_ACCESS);
	expect_datagram(b, 31);
	EXPECT_EQ(s.qp->state, WEFT_QPS_ERROR);
	EXPECT_EQ(ib_join(s.conn, &one), WEFT_R_QP_STATE);
	EXPECT_EQ(ib_raw_bind(s.conn, &(struct ib_raw){ .is_any = true }), WEFT_R_QP_STATE);
	second_close(b, &s);
	bed_close(b);
}

static enum weft_reason put_mad(struct ib_bed *b, struct iba_packet p, uint32_t bytes)
{
	const struct bed_way way = { .from = { { 198, 51, 100, 7 }, 0xc777 } };
	uint8_t mad[MAD_BYTES + 4];

	for (uint32_t i = 0; i < sizeof(mad); i++)
		mad[i] = (uint8_t)(i * 3);
	return bed_put_by(b, &way, p, mad, bytes);
}

/* IBA 13.5.3.3: management datagrams come to queue pair 1, with their own key. */
TEST(test_iba_13_5_3_mads_that_arrive)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct iba_packet p = datagram(IBA_QPN_GSI);
	struct ib_mad mad;
	uint32_t taken = 0;

	EXPECT_EQ(put_mad(b, p, MAD_BYTES), WEFT_R_IB_QKEY);
	p.q_key = IBA_QKEY_GSI;
	EXPECT_EQ(put_mad(b, p, MAD_BYTES - 4), WEFT_R_IB_LENGTH);
	p.p_key = 0x8003;
	EXPECT_EQ(put_mad(b, p, MAD_BYTES), WEFT_R_IB_PKEY);
	p.p_key = 0x7fff; /* a limited member, with a full one */
	EXPECT(!ib_port_mad(b->port, &mad));
	MUST(put_mad(b, p, MAD_BYTES));
	REQUIRE(ib_port_mad(b->port, &mad));
	EXPECT_EQ(mad.bytes[255], (uint8_t)(255 * 3));
	EXPECT_MEM(mad.path.to.address, ((uint8_t[]){ 198, 51, 100, 7 }), 4);
	EXPECT_MEM(mad.path.from.address, b->config.path.from.address, 4);
	EXPECT_EQ(mad.path.to.port, IBA_UDP_PORT);
	EXPECT_EQ(mad.p_key, 0x7fff);
	EXPECT(!ib_port_mad(b->port, &mad));
	p.opcode = IBA_UD_SEND_IMM;
	EXPECT_EQ(put_mad(b, p, MAD_BYTES), WEFT_R_IB_SERVICE);
	/* A flood fills the queue; messages that were in it stay. */
	p.opcode = IBA_UD_SEND;
	for (int i = 0; i < 1000; i++)
		taken += put_mad(b, p, MAD_BYTES) == WEFT_OK;
	EXPECT_EQ(taken, 64);
	EXPECT_EQ(ib_port_counts(b->port)->dropped_for, WEFT_R_LIMIT);
	while (ib_port_mad(b->port, &mad))
		taken--;
	EXPECT_EQ(taken, 0);
	bed_close(b);
}

TEST(test_iba_13_5_3_mads_that_are_sent)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct ib_mad mad = { .path = b->config.path };
	struct bed_packet *p;
	uint32_t queued = 0;

	for (uint32_t i = 0; i < MAD_BYTES; i++)
		mad.bytes[i] = (uint8_t)(i ^ 0x5a);
	EXPECT(!ib_port_has_output(b->port));
	EXPECT(ib_port_mad_send(b->port, &mad));
	EXPECT(ib_port_has_output(b->port));
	bed_run(b);
	p = bed_next(b);
	EXPECT_EQ(p->p.opcode, IBA_UD_SEND);
	EXPECT_EQ(p->p.dest_qp, IBA_QPN_GSI);
	EXPECT_EQ(p->p.src_qp, IBA_QPN_GSI);
	EXPECT_EQ(p->p.q_key, IBA_QKEY_GSI);
	EXPECT_EQ(p->p.p_key, IBA_PKEY_DEFAULT);
	EXPECT_EQ(p->p.payload_bytes, MAD_BYTES);
	EXPECT_MEM(p->payload, mad.bytes, MAD_BYTES);
	EXPECT_EQ(p->ecn, IB_ECN_NOT);
	while (queued < 1000 && ib_port_mad_send(b->port, &mad))
		queued++;
	EXPECT_EQ(queued, 64);
	bed_run(b);
	for (uint32_t i = 0; i < queued; i++)
		EXPECT_EQ(bed_next(b)->p.psn, i + 1);
	bed_silent(b);
	bed_close(b);
}
