/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_cm_fixture.h"

void bed_open(struct cm_bed *b, const struct ib_cm_config *config)
{
	struct ib_cm_config c = config ? *config : (struct ib_cm_config){ 0 };

	memset(b, 0, sizeof(*b));
	b->now_ns = 1000;
	for (int i = 0; i < 2; i++) {
		c.adapter_slot = (uint8_t)(5 + i);
		c.key[0] = 77 + (uint64_t)i;
		c.ca_guid = 0xaa00 + (uint64_t)i;
		b->cm[i] = ib_cm_create(&c);
		REQUIRE(b->cm[i]);
	}
}

void bed_close(struct cm_bed *b)
{
	for (int i = 0; i < 2; i++)
		ib_cm_destroy(b->cm[i]);
}

struct ibcm_ip bed_ip(int from)
{
	struct ibcm_ip ip = { .from = { { 10, 0, 0, (uint8_t)(1 + from) }, 0 },
			      .to = { { 10, 0, 0, (uint8_t)(2 - from) }, 0 } };

	return ip;
}

void bed_take(struct cm_bed *b, int from, enum ibcm_kind kind)
{
	struct ibcm_ip ip = bed_ip(from);

	REQUIRE(ib_cm_send(b->cm[from], b->now_ns, &b->out));
	REQUIRE(ibcm_decode(&b->m, b->out.bytes, MAD_BYTES) == WEFT_OK);
	REQUIRE(b->m.kind == kind && b->out.kind == kind);
	REQUIRE(memcmp(&b->out.ip.from, &ip.from, sizeof(ip.from)) == 0);
	REQUIRE(memcmp(&b->out.ip.to, &ip.to, sizeof(ip.to)) == 0);
}

void bed_land(struct cm_bed *b, int to)
{
	struct ibcm_ip ip = bed_ip(1 - to);

	b->reason = ib_cm_recv(b->cm[to], b->now_ns, &ip, b->out.bytes, MAD_BYTES);
}

void bed_carry(struct cm_bed *b, int from, enum ibcm_kind kind)
{
	bed_take(b, from, kind);
	bed_land(b, 1 - from);
	REQUIRE(b->reason == WEFT_OK);
}

enum weft_reason bed_say(struct cm_bed *b, int to, const struct ibcm_msg *m)
{
	struct ibcm_ip ip = bed_ip(1 - to);
	uint8_t bytes[MAD_BYTES];

	ibcm_encode(m, bytes);
	return ib_cm_recv(b->cm[to], b->now_ns, &ip, bytes, sizeof(bytes));
}

void bed_quiet(struct cm_bed *b, int from)
{
	REQUIRE(!ib_cm_has_output(b->cm[from]) && !ib_cm_send(b->cm[from], b->now_ns, &b->out));
}

struct ib_cm_event bed_event(struct cm_bed *b, int at, enum ib_cm_event_kind kind)
{
	struct ib_cm_event e;

	REQUIRE(ib_cm_event(b->cm[at], &e));
	REQUIRE(e.kind == kind);
	return e;
}

void bed_no_event(struct cm_bed *b, int at)
{
	struct ib_cm_event e;

	REQUIRE(!ib_cm_event(b->cm[at], &e));
}

void bed_pass(struct cm_bed *b, uint64_t time_ns)
{
	b->now_ns += time_ns;
	for (int i = 0; i < 2; i++)
		ib_cm_expire(b->cm[i], b->now_ns);
}

void bed_due(struct cm_bed *b, int at)
{
	uint64_t due = ib_cm_due(b->cm[at]);

	REQUIRE(due != UINT64_MAX && due > b->now_ns);
	b->now_ns = due;
	ib_cm_expire(b->cm[at], b->now_ns);
}

struct ib_cm_connect bed_request(void)
{
	struct ib_cm_connect c = {
		.ip = bed_ip(A),
		.service_id = ibcm_service_id(IBCM_PS_TCP, PORT),
		.end = { .qpn = QPN_A,
			 .psn = 0x123456,
			 .reads_in = 4,
			 .reads_out = 8,
			 .retries = 6,
			 .rnr_retries = 5,
			 .has_srq = true },
		.mtu_bytes = 1024,
		.private_data = DATA("hello"),
	};

	c.ip.from.port = PORT_A;
	return c;
}

uint32_t bed_connect(struct cm_bed *b)
{
	const struct ib_cm_connect c = bed_request();
	uint32_t id = 0;

	REQUIRE(ib_cm_connect(b->cm[A], b->now_ns, &c, &id) == WEFT_OK);
	return id;
}

uint32_t bed_requested(struct cm_bed *b, uint32_t *id_a)
{
	*id_a = bed_connect(b);
	bed_carry(b, A, IBCM_REQ);
	return bed_event(b, B, IB_CM_REQUESTED).id;
}

void bed_accept(struct cm_bed *b, uint32_t id)
{
	const struct ib_cm_accept a = { .end = { .qpn = QPN_B,
						 .psn = 0x654321,
						 .reads_in = 3,
						 .reads_out = 7,
						 .rnr_retries = 2,
						 .ack_delay = 15 },
					.private_data = DATA("welcome"),
					.owner = b };

	REQUIRE(ib_cm_accept(b->cm[B], b->now_ns, id, &a) == WEFT_OK);
}

struct cm_ids bed_replied(struct cm_bed *b)
{
	struct cm_ids ids;

	ids.id[B] = bed_requested(b, &ids.id[A]);
	bed_accept(b, ids.id[B]);
	bed_carry(b, B, IBCM_REP);
	REQUIRE(bed_event(b, A, IB_CM_REPLIED).id == ids.id[A]);
	return ids;
}

struct cm_ids bed_connected(struct cm_bed *b)
{
	struct cm_ids ids = bed_replied(b);

	REQUIRE(ib_cm_ready(b->cm[A], b->now_ns, ids.id[A], NO_DATA) == WEFT_OK);
	bed_carry(b, A, IBCM_RTU);
	REQUIRE(bed_event(b, B, IB_CM_ESTABLISHED).id == ids.id[B]);
	return ids;
}

enum ib_cm_state bed_state(struct cm_bed *b, int at, uint32_t id)
{
	return ib_cm_state(b->cm[at], id);
}
