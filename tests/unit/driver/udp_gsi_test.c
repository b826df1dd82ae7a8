/* SPDX-License-Identifier: BSD-2-Clause */
/* Management datagrams find their adapter, whichever gets them (IBA 12.6, CM over the GSI). */
#include <string.h>

#include "driver/udp/udp_inside.h"
#include "udp_fixture.h"
#include "wire/ibcm.h"

enum { PORTS = 24 };

static struct udp_side a, b, c;
static struct udp_side *all[] = { &a, &b, &c };

static void open_all(void)
{
	for (int i = 0; i < 3; i++)
		side_open(all[i]);
}

static void close_all(void)
{
	for (int i = 0; i < 3; i++)
		side_close(all[i]);
}

/* From many source ports, so that each adapter gets some of them. */
static void lay_message(const struct ibcm_msg *m)
{
	static struct ib_out outs[PORTS];
	static struct ib_path paths[PORTS];
	uint8_t mad[MAD_BYTES];

	ibcm_encode(m, mad);
	for (uint32_t i = 0; i < PORTS; i++) {
		paths[i] = path_of("127.0.0.1", "127.0.0.1", (uint16_t)(0xc000 + i * 31));
		make(&outs[i], &(struct making){ .path = &paths[i],
						 .dest_qp = IBA_QPN_GSI,
						 .psn = i,
						 .management = mad });
	}
	for (int i = 0; i < 3; i++)
		side_forget(all[i]);
	side_send(&a, outs, PORTS);
}

static void send_message(const struct ibcm_msg *m)
{
	lay_message(m);
	sides_pump(all, 3);
}

TEST(test_iba_12_6_requests_go_to_who_claims_the_service)
{
	struct ibcm_msg req = { .kind = IBCM_REQ, .local_id = 0x01000005 };
	struct ibcm_msg sidr = { .kind = IBCM_SIDR_REQ };

	WORLD_OR_SKIP();
	open_all();
	req.req.service_id = ibcm_service_id(IBCM_PS_TCP, 7471);
	req.req.path_mtu = req.req.primary.packet_rate = 3;
	sidr.sidr_req.service_id = ibcm_service_id(IBCM_PS_UDP, 7471);
	EXPECT_EQ(udp_claim_service(c.udp, req.req.service_id), WEFT_OK);
	EXPECT_EQ(udp_claim_service(b.udp, req.req.service_id), WEFT_R_ADDRESS_IN_USE);
	EXPECT_EQ(udp_claim_service(b.udp, sidr.sidr_req.service_id), WEFT_OK);
	send_message(&req);
	EXPECT_EQ(c.count, PORTS);
	EXPECT(c.seen[0].is_good);
	send_message(&sidr);
	EXPECT_EQ(b.count, PORTS);
	/* A request for an unclaimed service stays where it came: it is rejected there. */
	udp_release_service(c.udp, req.req.service_id);
	send_message(&req);
	EXPECT_EQ(a.count + b.count + c.count, PORTS);
	EXPECT(a.count > 0 && b.count > 0 && c.count > 0);
	EXPECT_EQ(udp_claim_service(b.udp, req.req.service_id), WEFT_OK);
	EXPECT_EQ(udp_counts(a.udp)->lost_on, 0);
	close_all();
}

/* In a flood few requests for unclaimed services are looked up; those for known services arrive. */
TEST(test_iba_12_6_not_all_services_of_a_flood_are_looked_for)
{
	struct ibcm_msg known = { .kind = IBCM_REQ, .local_id = 0x01000005 }, unknown;
	uint32_t answered = 0;

	WORLD_OR_SKIP();
	open_all();
	known.req.path_mtu = known.req.primary.packet_rate = 3;
	unknown = known;
	known.req.service_id = ibcm_service_id(IBCM_PS_TCP, 7471);
	EXPECT_EQ(udp_claim_service(b.udp, known.req.service_id), WEFT_OK);
	send_message(&known);
	EXPECT_EQ(b.count, PORTS);
	for (uint16_t port = 8000; port < 8040; port++) {
		unknown.req.service_id = ibcm_service_id(IBCM_PS_TCP, port);
		send_message(&unknown);
		answered += a.count + b.count + c.count;
	}
	EXPECT(answered >= PORTS && answered < 40 * PORTS / 2);
	send_message(&known);
	EXPECT_EQ(b.count, PORTS);
	/* Some time later. */
	for (int i = 0; i < 3; i++) {
		udp_retry_slots(all[i]->udp);
		all[i]->udp->names_budget_until_ns = 0;
	}
	send_message(&unknown);
	EXPECT_EQ(a.count + b.count + c.count, PORTS);
	close_all();
}

/* It may have a hidden name: only the kernel could say that no process has the service. */
TEST(test_iba_12_6_a_service_that_was_not_looked_for_is_not_refused)
{
	struct ibcm_msg req = { .kind = IBCM_REQ, .local_id = 0x01000005 };
	uint64_t lost = 0;

	WORLD_OR_SKIP();
	open_all();
	req.req.path_mtu = req.req.primary.packet_rate = 3;
	req.req.service_id = ibcm_service_id(IBCM_PS_TCP, 7471);
	for (int i = 0; i < 3; i++)
		all[i]->udp->names_budget_until_ns = UINT64_MAX;
	send_message(&req);
	EXPECT_EQ(a.count + b.count + c.count, 0);
	for (int i = 0; i < 3; i++) {
		lost += udp_counts(all[i]->udp)->lost_on;
		all[i]->udp->names_budget_until_ns = 0;
	}
	EXPECT_EQ(lost, PORTS);
	send_message(&req);
	EXPECT_EQ(a.count + b.count + c.count, PORTS);
	close_all();
}

TEST(test_iba_12_6_answers_go_by_the_communication_id)
{
	static const enum ibcm_kind kinds[] = { IBCM_REP, IBCM_RTU,  IBCM_REJ,
						IBCM_MRA, IBCM_DREQ, IBCM_DREP };
	struct ibcm_msg m = { 0 };

	WORLD_OR_SKIP();
	open_all();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		m = (struct ibcm_msg){ .kind = kinds[i],
				       .local_id = a.adapter_slot << 24 | 1,
				       .remote_id = c.adapter_slot << 24 | 77 };
		send_message(&m);
		EXPECT_EQ(c.count, PORTS);
	}
	m = (struct ibcm_msg){ .kind = IBCM_SIDR_REP };
	m.sidr_rep.request_id = b.adapter_slot << 24 | 3;
	send_message(&m);
	EXPECT_EQ(b.count, PORTS);
	/* A slot that is free or cannot exist: the adapter that gets the message answers. */
	m = (struct ibcm_msg){ .kind = IBCM_DREQ, .remote_id = 77u << 24 };
	send_message(&m);
	EXPECT_EQ(a.count + b.count + c.count, PORTS);
	EXPECT_EQ(udp_counts(a.udp)->lost_on, 0);
	m.remote_id = 5;
	send_message(&m);
	EXPECT_EQ(a.count + b.count + c.count, PORTS);
	close_all();
}

/* What lies there when an adapter closes is not lost with it, if it is another's. */
TEST(test_iba_12_6_who_leaves_hands_on_what_it_has)
{
	struct ibcm_msg m = { .kind = IBCM_REP };

	WORLD_OR_SKIP();
	open_all();
	m.remote_id = c.adapter_slot << 24 | 77;
	lay_message(&m);
	side_close(&b);
	sides_pump(&all[2], 1);
	EXPECT(c.count < PORTS); /* the rest is a's to hand on */
	sides_pump(all, 1);
	sides_pump(&all[2], 1);
	EXPECT_EQ(c.count, PORTS);
	side_close(&a);
	side_close(&c);
}

/* One that has left is told from one that has nothing to say. */
TEST(test_iba_12_6_who_has_nothing_to_hand_on_stays)
{
	struct ibcm_msg m = { .kind = IBCM_REP };

	WORLD_OR_SKIP();
	open_all();
	m.remote_id = c.adapter_slot << 24 | 77;
	send_message(&m);
	EXPECT_EQ(c.udp->client_count, 2);
	side_close(&b);
	sides_pump(&all[2], 1);
	EXPECT_EQ(c.udp->client_count, 1);
	/* As polls ask those that had something lately. */
	for (int i = 0; i < 100; i++)
		(void)udp_fetch(c.udp, true);
	EXPECT_EQ(c.udp->client_count, 1);
	side_close(&a);
	side_close(&c);
}
