/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Linux rxe has sent, read and written again by the codecs of wire/. The figures of each
 * recording are those of tshark.
 */
#include "rxe_golden.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "wire/iba_aeth.h"
#include "wire/ibcm.h"

/* Packets, and how many of them are of an opcode that matters in this recording. */
struct story {
	const char *name;
	uint32_t packets;
	uint8_t opcode;
	uint32_t count;
};

static const struct story stories[] = {
	{ "atomic", 13, 0x13, 2 }, { "badread", 9, 0x0c, 1 },	{ "badwrite", 11, 0x0a, 2 },
	{ "cm", 41, 0x04, 12 },	   { "cm_many", 39, 0x64, 15 }, { "cm_refused", 2, 0x64, 2 },
	{ "cm_ud", 8, 0x65, 6 },   { "imm", 25, 0x0b, 1 },	{ "ipv6", 29, 0x10, 2 },
	{ "iser", 191, 0x17, 17 }, { "loss", 217, 0x11, 60 },	{ "mtu4096", 17, 0x0e, 1 },
	{ "nvme", 247, 0x07, 60 }, { "oob", 9, 0x11, 1 },	{ "rc", 50, 0x01, 20 },
	{ "rnr", 13, 0x04, 4 },	   { "sendinv", 9, 0x17, 1 },	{ "srq", 80, 0x02, 16 },
	{ "uc", 40, 0x21, 20 },	   { "ud", 10, 0x64, 10 },	{ "write", 38, 0x06, 2 },
};

enum { STORIES = sizeof(stories) / sizeof(stories[0]) };

static void each(void (*look)(const struct rxe_packet *p))
{
	for (int i = 0; i < STORIES; i++) {
		struct rxe *r = rxe_open(stories[i].name);

		REQUIRE(r->count == stories[i].packets);
		for (uint32_t k = 0; k < r->count; k++)
			look(&r->packets[k]);
		rxe_close(r);
	}
}

static uint32_t differs(const struct rxe_packet *p, const struct iba_icrc_ip *ip)
{
	return iba_icrc_differs(iba_icrc_begin(ip, p->length), p->bytes, p->length);
}

static void icrc_look(const struct rxe_packet *p)
{
	uint32_t factor = iba_icrc_factor(p->length), due, found;
	struct iba_icrc_ip unknown = p->ip;
	uint8_t *copy = malloc(p->length);

	REQUIRE(copy);
	REQUIRE(differs(p, &p->ip) == 0);
	/* What sockets do not tell comes out. */
	unknown.ipv4_id = unknown.ipv4_fragment = 0;
	due = p->ip.is_ipv6 ? 0 : (uint32_t)p->ip.ipv4_id << 16 | p->ip.ipv4_fragment;
	found = iba_icrc_ipv4_word(differs(p, &unknown), factor);
	REQUIRE(found == due && (p->ip.is_ipv6 || (found & 0xffff) == IBA_IPV4_DF));
	/* Any byte but the one that does not count. */
	memcpy(copy, p->bytes, p->length);
	for (uint32_t i = 0; i < p->length; i += i < 80 ? 1 : 61) {
		uint32_t begin = iba_icrc_begin(&p->ip, p->length);

		copy[i] ^= 0x10;
		REQUIRE((iba_icrc_differs(begin, copy, p->length) == 0) == (i == 4));
		copy[i] ^= 0x10;
	}
	free(copy);
}

TEST(test_iba_a17_icrc_of_every_rxe_packet)
{
	each(icrc_look);
}

/* Headers, payload from where it lies in two pieces, and the trailer: as rxe sent it. */
static void packet_look(const struct rxe_packet *r)
{
	uint8_t headers[IBA_HEADERS_MAX], trailer[IBA_TRAILER_MAX];
	struct iba_packet p;
	uint32_t head, tail, half, crc;

	REQUIRE(iba_decode(&p, r->bytes, r->length) == WEFT_OK);
	head = iba_encode(&p, headers);
	REQUIRE(p.payload == r->bytes + head && memcmp(headers, r->bytes, head) == 0);
	REQUIRE(p.pad == iba_pad(p.payload_bytes));
	REQUIRE(iba_packet_bytes(p.opcode, p.payload_bytes) == r->length);
	half = p.payload_bytes / 3;
	crc = iba_icrc_begin(&r->ip, r->length);
	crc = iba_icrc_add_packet(crc, headers, head);
	crc = crc32_add(crc, p.payload, half);
	crc = crc32_add(crc, p.payload + half, p.payload_bytes - half);
	tail = iba_trailer_encode(crc, p.pad, trailer);
	REQUIRE(head + p.payload_bytes + tail == r->length);
	REQUIRE(memcmp(trailer, p.payload + p.payload_bytes, tail) == 0);
	/* rxe has no flags of congestion, is never migrated, and uses the default partition. */
	REQUIRE(!p.has_fecn && !p.has_becn && !p.is_migrated && p.p_key == IBA_PKEY_DEFAULT);
	REQUIRE(p.dest_qp > 0 && (p.dest_qp != IBA_QPN_GSI || p.q_key == IBA_QKEY_GSI));
}

TEST(test_iba_9_every_rxe_packet_there_and_back)
{
	each(packet_look);
}

TEST(test_iba_9_2_1_rxe_opcodes)
{
	for (int i = 0; i < STORIES; i++) {
		struct rxe *r = rxe_open(stories[i].name);
		uint32_t count = 0;

		for (uint32_t k = 0; k < r->count; k++)
			count += r->packets[k].bytes[0] == stories[i].opcode;
		EXPECT_EQ(count, stories[i].count);
		rxe_close(r);
	}
}

static struct iba_packet at(const struct rxe *r, uint32_t number)
{
	struct iba_packet p;

	REQUIRE(number >= 1 && number <= r->count);
	REQUIRE(iba_decode(&p, r->packets[number - 1].bytes, r->packets[number - 1].length) ==
		WEFT_OK);
	return p;
}

/* Numbers are those of the frames in the file. */
TEST(test_iba_9_3_rxe_write_and_read)
{
	struct rxe *r = rxe_open("write");
	struct iba_packet p = at(r, 6);

	EXPECT_EQ(p.opcode, iba_opcode(IBA_RC, IBA_WRITE_FIRST));
	EXPECT_EQ(p.psn, 10216485);
	EXPECT(p.va == 0xffffb1bdf000 && p.r_key == 0xdf9 && p.dma_bytes == 4096);
	EXPECT_EQ(p.payload_bytes, 1024);
	EXPECT(!p.is_ack_requested);
	p = at(r, 9);
	EXPECT_EQ(p.opcode, iba_opcode(IBA_RC, IBA_WRITE_LAST));
	EXPECT(p.is_ack_requested && p.va == 0 && p.psn == 10216488);
	p = at(r, 10);
	EXPECT(p.syndrome == iba_syndrome_ack(IBA_CREDITS_UNUSED) && p.msn == 2);
	p = at(r, 13);
	EXPECT(p.opcode == iba_opcode(IBA_RC, IBA_READ_REQUEST) && p.payload_bytes == 0);
	EXPECT(p.psn == 10216490 && p.dma_bytes == 4096);
	rxe_close(r);
}

TEST(test_iba_9_3_rxe_atomics)
{
	struct rxe *r = rxe_open("atomic");
	struct iba_packet p = at(r, 4);

	EXPECT_EQ(iba_op(p.opcode), IBA_FETCH_ADD);
	EXPECT(p.va == 0xffff96b4f000 && p.r_key == 0x1348);
	EXPECT(p.swap_add == 1 && p.compare == 0);
	p = at(r, 6);
	EXPECT_EQ(iba_op(p.opcode), IBA_COMPARE_SWAP);
	EXPECT(p.swap_add == 1234605616436508552 && p.compare == 1011058086043640796);
	p = at(r, 7);
	EXPECT_EQ(iba_op(p.opcode), IBA_ATOMIC_ACKNOWLEDGE);
	EXPECT(p.msn == 2 && p.original == 3542682660399613697);
	rxe_close(r);
}

TEST(test_iba_9_3_rxe_immediate_invalidate_and_naks)
{
	struct rxe *r = rxe_open("imm");

	EXPECT_EQ(at(r, 11).imm, 0x77656674);
	rxe_close(r);
	r = rxe_open("sendinv");
	EXPECT_EQ(at(r, 6).inv_r_key, 0x1148);
	rxe_close(r);
	r = rxe_open("rnr");
	EXPECT_EQ(iba_syndrome(at(r, 5).syndrome), IBA_SYNDROME_RNR);
	EXPECT_EQ(iba_rnr_ns(at(r, 5).syndrome), 655360000);
	rxe_close(r);
	r = rxe_open("badwrite");
	EXPECT_EQ(at(r, 7).syndrome, iba_syndrome_nak(IBA_NAK_ACCESS));
	EXPECT_STR(iba_syndrome_name(at(r, 7).syndrome), "NAK remote access error");
	rxe_close(r);
}

/* ---- connection management ------------------------------------------------------------------ */

static void cm_look(const struct rxe_packet *r)
{
	uint8_t again[MAD_BYTES], header[IBCM_IP_BYTES];
	struct iba_packet p;
	struct ibcm_msg m;
	struct ibcm_ip a;
	uint64_t service;

	REQUIRE(iba_decode(&p, r->bytes, r->length) == WEFT_OK);
	if (p.dest_qp != IBA_QPN_GSI)
		return;
	REQUIRE(p.src_qp == IBA_QPN_GSI);
	REQUIRE(ibcm_decode(&m, p.payload, p.payload_bytes) == WEFT_OK);
	ibcm_encode(&m, again);
	REQUIRE(memcmp(again, p.payload, MAD_BYTES) == 0);
	if (m.kind != IBCM_REQ && m.kind != IBCM_SIDR_REQ)
		return;
	service = m.kind == IBCM_REQ ? m.req.service_id : m.sidr_req.service_id;
	REQUIRE(ibcm_is_service(service, m.kind == IBCM_REQ ? IBCM_PS_TCP : IBCM_PS_UDP));
	REQUIRE(ibcm_ip_decode(&a, service, m.private_data) == WEFT_OK);
	ibcm_ip_encode(&a, header);
	REQUIRE(memcmp(header, m.private_data.bytes, sizeof(header)) == 0);
	REQUIRE(a.is_ipv6 == r->ip.is_ipv6 && a.to.port == (uint16_t)service);
	REQUIRE(memcmp(a.from.address, r->from.address, 16) == 0);
	REQUIRE(memcmp(a.to.address, r->to.address, 16) == 0);
}

TEST(test_iba_12_6_every_rxe_message_there_and_back)
{
	each(cm_look);
}

static struct ibcm_msg cm_at(const struct rxe *r, uint32_t number)
{
	struct iba_packet p = at(r, number);
	struct ibcm_msg m;

	REQUIRE(ibcm_decode(&m, p.payload, p.payload_bytes) == WEFT_OK);
	return m;
}

TEST(test_iba_12_6_5_rxe_request)
{
	struct rxe *r = rxe_open("cm");
	struct ibcm_msg m = cm_at(r, 1);
	const struct ibcm_req *q = &m.req;
	const struct ibcm_path *path = &q->primary;
	struct ibcm_ip a;

	EXPECT(m.kind == IBCM_REQ && m.tid == 0x4964113b2 && m.local_id == 0xb2134196);
	EXPECT_EQ(q->service_id, ibcm_service_id(IBCM_PS_TCP, 0x1c06));
	EXPECT_EQ(q->ca_guid, 0x505400fffe77000c);
	EXPECT(q->q_key == 0 && q->qpn == 0x16 && q->eecn == 0 && q->remote_eecn == 0);
	EXPECT(q->responder_resources == 1 && q->initiator_depth == 1);
	EXPECT(q->remote_timeout == 20 && q->local_timeout == 20 && q->retry_count == 7);
	EXPECT(q->transport == IBCM_TRANSPORT_RC && !q->has_flow_control && !q->has_srq);
	EXPECT(q->psn == 0xc906ee && q->p_key == 0xffff && iba_mtu_bytes(q->path_mtu) == 1024);
	EXPECT(!q->has_rdc && q->rnr_retry == 7 && q->cm_retries == 15);
	EXPECT(q->extended_transport == 0 && !q->has_sap);
	EXPECT(path->local_lid == 0xffff && path->remote_lid == 0xffff);
	/* 3f fa 70 00: tshark 4.0 cuts this word elsewhere. */
	EXPECT(path->flow_label == 0x3ffa7 && path->packet_rate == 0 && path->hop_limit == 64);
	EXPECT(path->sl == 0 && !path->is_subnet_local && path->ack_timeout == 19);
	EXPECT_MEM(path->local_gid + 10, "\xff\xff\x0a\x4d\x00\x0c", 6);
	EXPECT_MEM(path->remote_gid + 10, "\xff\xff\x0a\x4d\x00\x0b", 6);
	EXPECT(q->alternate.local_lid == 0 && q->alternate.ack_timeout == 0);
	EXPECT_EQ(m.private_data.length, 92);
	EXPECT_EQ(ibcm_ip_decode(&a, q->service_id, m.private_data), WEFT_OK);
	EXPECT(!a.is_ipv6 && a.from.port == 0xa43f && a.to.port == 7174);
	rxe_close(r);
}

TEST(test_iba_12_6_rxe_answers)
{
	struct rxe *r = rxe_open("cm");
	struct ibcm_msg m = cm_at(r, 2);

	EXPECT(m.kind == IBCM_REP && m.local_id == 0x6d76f576 && m.remote_id == 0xb2134196);
	EXPECT(m.rep.qpn == 0x16 && m.rep.psn == 0xb26edb && m.rep.q_key == 0);
	EXPECT(m.rep.responder_resources == 1 && m.rep.initiator_depth == 1);
	EXPECT(m.rep.ack_delay == 15 && m.rep.rnr_retry == 7 && !m.rep.has_srq);
	EXPECT(m.rep.failover == 0 && !m.rep.has_flow_control && m.rep.vendor_id == 0);
	EXPECT_EQ(m.rep.ca_guid, 0x505400fffe77000b);
	m = cm_at(r, 3);
	EXPECT(m.kind == IBCM_RTU && m.local_id == 0xb2134196 && m.remote_id == 0x6d76f576);
	m = cm_at(r, 40);
	EXPECT(m.kind == IBCM_DREQ && m.dreq_remote_qpn == 0x16 && m.tid != 0);
	m = cm_at(r, 41);
	EXPECT(m.kind == IBCM_DREP && m.local_id == 0x6d76f576);
	rxe_close(r);
}

TEST(test_iba_12_6_rxe_reject_and_sidr)
{
	struct rxe *r = rxe_open("cm_refused");
	struct ibcm_msg m = cm_at(r, 2);

	EXPECT(m.kind == IBCM_REJ && m.local_id == 0 && m.remote_id == 0xb3134196);
	EXPECT(m.rej.about == IBCM_ABOUT_REQ && m.rej.reason == IBCM_REJECT_SERVICE_ID);
	EXPECT(m.info.length == 0 && m.private_data.length == 148);
	rxe_close(r);
	r = rxe_open("cm_ud");
	m = cm_at(r, 1);
	EXPECT(m.kind == IBCM_SIDR_REQ && m.sidr_req.request_id == 0xb0134196);
	EXPECT(m.sidr_req.p_key == 0xffff && m.sidr_req.service_id == 0x1111c06);
	m = cm_at(r, 2);
	EXPECT(m.kind == IBCM_SIDR_REP && m.sidr_rep.status == IBCM_SIDR_OK);
	EXPECT(m.sidr_rep.request_id == 0xb0134196 && m.sidr_rep.service_id == 0x1111c06);
	EXPECT_EQ(m.sidr_rep.q_key, IBCM_QKEY_UDP);
	EXPECT_EQ(m.sidr_rep.qpn, at(r, 3).dest_qp);
	rxe_close(r);
}
