/* SPDX-License-Identifier: BSD-2-Clause */
/* MADs and the messages of connection management: IBA 13.4.2, 12.6 and annex A11. */
#include "wire/ibcm.h"

#include <string.h>

#include "test.h"

static const enum ibcm_kind kinds[] = { IBCM_REQ, IBCM_MRA,	 IBCM_REJ,  IBCM_REP,
					IBCM_RTU, IBCM_DREQ,	 IBCM_DREP, IBCM_SIDR_REQ,
					IBCM_LAP, IBCM_SIDR_REP, IBCM_APR };

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void header(uint8_t *mad, uint16_t attribute)
{
	const struct mad h = { MAD_CM, IBCM_CLASS_VERSION, MAD_SEND, .tid = 5,
			       .attribute = attribute };

	memset(mad, 0, MAD_BYTES);
	mad_encode(&h, mad);
}

static enum weft_reason decode(const uint8_t *mad, size_t length)
{
	struct ibcm_msg m = { .tid = 77 };
	enum weft_reason reason = ibcm_decode(&m, mad, length);

	REQUIRE((reason == WEFT_OK) == (m.tid != 77));
	return reason;
}

TEST(test_iba_13_4_mad_header)
{
	static const uint8_t bytes[MAD_BYTES] = { 1, 0x81, 2, 0x83, 0x12, 0x34, 0x56, 0x78,
						  1, 2,	   3, 4,    5,	  6,	7,    8,
						  0, 0x11, 9, 9,    0xa,  0xb,	0xc,  0xd };
	uint8_t again[MAD_HEADER_BYTES];
	struct mad m = { .tid = 77 };

	EXPECT_EQ(mad_decode(&m, bytes, sizeof(bytes) - 1), WEFT_R_MAD_LENGTH);
	EXPECT_EQ(m.tid, 77);
	EXPECT_EQ(mad_decode(&m, bytes, sizeof(bytes)), WEFT_OK);
	EXPECT(m.mgmt_class == MAD_SUBNET_DIRECTED && m.class_version == 2 && m.method == 0x83);
	EXPECT(m.status == 0x1234 && m.class_specific == 0x5678 && m.attribute == 0x11);
	EXPECT(m.tid == 0x0102030405060708 && m.modifier == 0x0a0b0c0d);
	mad_encode(&m, again);
	EXPECT_MEM(again, bytes, 18);
	EXPECT(again[18] == 0 && again[19] == 0); /* reserved */
	EXPECT_MEM(again + 20, bytes + 20, 4);
}

TEST(test_iba_13_4_mads_that_are_refused)
{
	uint8_t mad[MAD_BYTES + 1];

	header(mad, IBCM_RTU);
	EXPECT_EQ(decode(mad, MAD_BYTES), WEFT_OK);
	EXPECT_EQ(decode(mad, MAD_BYTES + 1), WEFT_R_MAD_LENGTH);
	EXPECT_EQ(decode(NULL, 0), WEFT_R_MAD_LENGTH);
	mad[0] = 2;
	EXPECT_EQ(decode(mad, MAD_BYTES), WEFT_R_MAD_VERSION);
	header(mad, IBCM_RTU);
	mad[1] = MAD_SUBNET_ADMIN;
	EXPECT_EQ(decode(mad, MAD_BYTES), WEFT_R_MAD_KIND);
	header(mad, IBCM_RTU);
	mad[2] = 1;
	EXPECT_EQ(decode(mad, MAD_BYTES), WEFT_R_MAD_VERSION);
	header(mad, IBCM_RTU);
	mad[3] = MAD_GET;
	EXPECT_EQ(decode(mad, MAD_BYTES), WEFT_R_MAD_KIND);
	for (uint32_t i = 0; i < 0x10000; i++) {
		bool is_known = i >= IBCM_REQ && i <= IBCM_APR;

		header(mad, (uint16_t)i);
		EXPECT_EQ(decode(mad, MAD_BYTES), is_known ? WEFT_OK : WEFT_R_MAD_KIND);
	}
}

/* Which bits of the data a message of this kind has; the others are reserved. */
static void used_bits(enum ibcm_kind kind, uint8_t *used)
{
	struct ibcm_msg m;
	uint8_t mad[MAD_BYTES], back[MAD_BYTES];

	header(mad, (uint16_t)kind);
	memset(mad + MAD_HEADER_BYTES, 0xff, MAD_DATA_BYTES);
	/* Lengths that there are. */
	if (kind == IBCM_REJ)
		mad[MAD_HEADER_BYTES + 9] = 72 << 1;
	if (kind == IBCM_APR)
		mad[MAD_HEADER_BYTES + 8] = 72;
	if (kind == IBCM_SIDR_REP)
		mad[MAD_HEADER_BYTES + 5] = 72;
	REQUIRE(ibcm_decode(&m, mad, sizeof(mad)) == WEFT_OK);
	ibcm_encode(&m, back);
	memcpy(used, back + MAD_HEADER_BYTES, MAD_DATA_BYTES);
	/* They are read from where they are written. */
	REQUIRE(ibcm_decode(&m, back, sizeof(back)) == WEFT_OK);
	ibcm_encode(&m, mad);
	REQUIRE(memcmp(mad, back, sizeof(mad)) == 0);
}

static uint32_t count_bits(const uint8_t *bytes, uint32_t from, uint32_t to)
{
	uint32_t count = 0;

	for (uint32_t i = from; i < to; i++)
		count += (uint32_t)__builtin_popcount(bytes[i]);
	return count;
}

/* No bit is lost, and no other is written: by the widths of all fields of the specification. */
TEST(test_iba_12_6_every_bit_there_and_back)
{
	static const struct {
		enum ibcm_kind kind;
		uint32_t fixed_bytes, bits;
	} rows[] = {
		/* ids, vendor, service, GUID, Q_Key, 4 words in full, MTU word, two paths, SAP */
		{ IBCM_REQ, 140,
		  32 + 24 + 128 + 32 + 5 * 32 + 2 * (32 + 256 + 26 + 16 + 5 + 5) + 1 },
		{ IBCM_MRA, 10, 64 + 2 + 5 },
		{ IBCM_REP, 36, 64 + 32 + 96 + 28 + 64 },
		{ IBCM_RTU, 8, 64 },
		{ IBCM_DREQ, 12, 64 + 24 },
		{ IBCM_DREP, 8, 64 },
		{ IBCM_SIDR_REQ, 16, 32 + 16 + 64 },
		{ IBCM_LAP, 64, 64 + 24 + 5 + 32 + 256 + 26 + 16 + 5 + 5 },
	};
	uint8_t used[MAD_DATA_BYTES];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t rest = MAD_DATA_BYTES - rows[i].fixed_bytes;

		used_bits(rows[i].kind, used);
		EXPECT_EQ(count_bits(used, 0, rows[i].fixed_bytes), rows[i].bits);
		EXPECT_EQ(ibcm_private_max(rows[i].kind), rest);
		EXPECT_EQ(count_bits(used, rows[i].fixed_bytes, MAD_DATA_BYTES), 8 * rest);
	}
	/* The length, which was not of ones only, comes by itself. */
	used_bits(IBCM_REJ, used);
	EXPECT(used[8] == 0xc0 && used[9] == 72 << 1 && count_bits(used, 10, 232) == 222 * 8);
	used_bits(IBCM_APR, used);
	EXPECT(used[8] == 72 && used[9] == 0xff && used[10] == 0 && used[11] == 0);
	EXPECT_EQ(count_bits(used, 12, 232), 220 * 8);
	used_bits(IBCM_SIDR_REP, used);
	EXPECT(used[4] == 0xff && used[5] == 72 && used[6] == 0 && used[11] == 0);
	EXPECT_EQ(count_bits(used, 12, 232), 220 * 8);
}

/* One field at a time: it is where it should be, and no other hears of it. */
TEST(test_iba_12_6_5_fields_of_a_request)
{
	static const struct {
		uint8_t at, mask;
	} places[] = {
		{ 43, 0xf8 },  { 43, 0x06 },  { 43, 0x01 }, { 47, 0xf8 }, { 47, 0x07 },
		{ 50, 0xf0 },  { 50, 0x08 },  { 50, 0x07 }, { 51, 0xf0 }, { 51, 0x08 },
		{ 51, 0x07 },  { 91, 0x3f },  { 94, 0xf0 }, { 94, 0x08 }, { 95, 0xf8 },
		{ 139, 0xf8 }, { 139, 0x04 },
	};
	uint8_t mad[MAD_BYTES];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct ibcm_msg m;
		const struct ibcm_req *q = &m.req;

		header(mad, IBCM_REQ);
		mad[MAD_HEADER_BYTES + places[i].at] = places[i].mask;
		EXPECT_EQ(ibcm_decode(&m, mad, sizeof(mad)), WEFT_OK);
		EXPECT_EQ(q->remote_timeout, i == 0 ? 31 : 0);
		EXPECT_EQ(q->transport, i == 1 ? 3 : 0);
		EXPECT_EQ(q->has_flow_control, i == 2);
		EXPECT_EQ(q->local_timeout, i == 3 ? 31 : 0);
		EXPECT_EQ(q->retry_count, i == 4 ? 7 : 0);
		EXPECT_EQ(q->path_mtu, i == 5 ? 15 : 0);
		EXPECT_EQ(q->has_rdc, i == 6);
		EXPECT_EQ(q->rnr_retry, i == 7 ? 7 : 0);
		EXPECT_EQ(q->cm_retries, i == 8 ? 15 : 0);
		EXPECT_EQ(q->has_srq, i == 9);
		EXPECT_EQ(q->extended_transport, i == 10 ? 7 : 0);
		EXPECT_EQ(q->primary.packet_rate, i == 11 ? 63 : 0);
		EXPECT_EQ(q->primary.sl, i == 12 ? 15 : 0);
		EXPECT_EQ(q->primary.is_subnet_local, i == 13);
		EXPECT_EQ(q->primary.ack_timeout, i == 14 ? 31 : 0);
		EXPECT_EQ(q->alternate.ack_timeout, i == 15 ? 31 : 0);
		EXPECT_EQ(q->has_sap, i == 16);
	}
}

TEST(test_iba_12_6_numbers_of_a_request)
{
	struct ibcm_msg m = { .kind = IBCM_REQ, .local_id = 0x01020304 };
	uint8_t mad[MAD_BYTES], *data = mad + MAD_HEADER_BYTES;

	m.req = (struct ibcm_req){ .vendor_id = 0xa1a2a3,
				   .service_id = 0x1122334455667788,
				   .ca_guid = 0x99aabbccddeeff00,
				   .q_key = 0xc1c2c3c4,
				   .qpn = 0xd1d2d3,
				   .responder_resources = 0xd4,
				   .eecn = 0xe1e2e3,
				   .initiator_depth = 0xe4,
				   .remote_eecn = 0xf1f2f3,
				   .psn = 0x515253,
				   .p_key = 0x6162 };
	m.req.primary = (struct ibcm_path){ .local_lid = 0x7172,
					    .remote_lid = 0x7374,
					    .flow_label = 0xabcde,
					    .traffic_class = 0x81,
					    .hop_limit = 0x82 };
	m.req.alternate.remote_gid[0] = 0x93;
	ibcm_encode(&m, mad);
	EXPECT_MEM(data, "\x01\x02\x03\x04\x00\xa1\xa2\xa3\x11\x22\x33\x44\x55\x66\x77\x88", 16);
	EXPECT_MEM(data + 16, "\x99\xaa\xbb\xcc\xdd\xee\xff\x00\0\0\0\0\xc1\xc2\xc3\xc4", 16);
	EXPECT_MEM(data + 32, "\xd1\xd2\xd3\xd4\xe1\xe2\xe3\xe4\xf1\xf2\xf3\0\x51\x52\x53\0", 16);
	EXPECT_MEM(data + 48, "\x61\x62\0\0\x71\x72\x73\x74", 8);
	EXPECT_MEM(data + 88, "\xab\xcd\xe0\0\x81\x82\0\0", 8);
	EXPECT_EQ(data[116], 0x93);
}

TEST(test_iba_12_6_fields_of_the_others)
{
	uint8_t mad[MAD_BYTES], *data = mad + MAD_HEADER_BYTES;
	struct ibcm_msg m;

	header(mad, IBCM_REP);
	memcpy(data + 12, "\x01\x02\x03\xa1\x04\x05\x06\xa2\x07\x08\x09\xa3\x11\x12\xfe\xf0", 16);
	EXPECT_EQ(ibcm_decode(&m, mad, sizeof(mad)), WEFT_OK);
	EXPECT(m.rep.qpn == 0x010203 && m.rep.eecn == 0x040506 && m.rep.psn == 0x070809);
	EXPECT(m.rep.vendor_id == 0xa1a2a3 && m.rep.responder_resources == 0x11);
	EXPECT(m.rep.initiator_depth == 0x12 && m.rep.ack_delay == 31 && m.rep.failover == 3);
	EXPECT(!m.rep.has_flow_control && m.rep.rnr_retry == 7 && m.rep.has_srq);
	data[26] = 1;
	data[27] = 0x20;
	EXPECT_EQ(ibcm_decode(&m, mad, sizeof(mad)), WEFT_OK);
	EXPECT(m.rep.ack_delay == 0 && m.rep.failover == 0 && m.rep.has_flow_control);
	EXPECT(m.rep.rnr_retry == 1 && !m.rep.has_srq);
	header(mad, IBCM_MRA);
	memcpy(data, "\0\0\0\x01\0\0\0\x02\x7f\x8f", 10);
	EXPECT_EQ(ibcm_decode(&m, mad, sizeof(mad)), WEFT_OK);
	EXPECT(m.local_id == 1 && m.remote_id == 2);
	EXPECT(m.mra.about == IBCM_ABOUT_REP && m.mra.timeout == 17);
	header(mad, IBCM_DREQ);
	memcpy(data + 8, "\x01\x02\x03\xff", 4);
	EXPECT_EQ(ibcm_decode(&m, mad, sizeof(mad)), WEFT_OK);
	EXPECT_EQ(m.dreq_remote_qpn, 0x010203);
	header(mad, IBCM_LAP);
	memcpy(data + 12, "\x01\x02\x03\x98\0\0\0\0\x11\x12\x13\x14", 12);
	memcpy(data + 56, "\xab\xcd\xe0\x81\x82\x2a\x98\xb0", 8);
	EXPECT_EQ(ibcm_decode(&m, mad, sizeof(mad)), WEFT_OK);
	EXPECT(m.lap.remote_qpn == 0x010203 && m.lap.remote_timeout == 19);
	EXPECT(m.lap.alternate.local_lid == 0x1112 && m.lap.alternate.remote_lid == 0x1314);
	EXPECT(m.lap.alternate.flow_label == 0xabcde && m.lap.alternate.traffic_class == 0x81);
	EXPECT(m.lap.alternate.hop_limit == 0x82 && m.lap.alternate.packet_rate == 0x2a);
	EXPECT(m.lap.alternate.sl == 9 && m.lap.alternate.is_subnet_local);
	EXPECT_EQ(m.lap.alternate.ack_timeout, 22);
}

/* What more is said has at most 72 bytes. */
TEST(test_iba_12_6_additional_information)
{
	static const struct {
		enum ibcm_kind kind;
		uint8_t length_at, shift, info_at;
	} rows[] = { { IBCM_REJ, 9, 1, 12 }, { IBCM_APR, 8, 0, 12 }, { IBCM_SIDR_REP, 5, 0, 24 } };

	for (int i = 0; i < 3; i++) {
		uint8_t mad[MAD_BYTES], *data = mad + MAD_HEADER_BYTES;
		struct ibcm_msg m;

		header(mad, (uint16_t)rows[i].kind);
		data[rows[i].length_at] = (uint8_t)(73 << rows[i].shift);
		EXPECT_EQ(decode(mad, MAD_BYTES), WEFT_R_CM_FORM);
		data[rows[i].length_at] = (uint8_t)(72 << rows[i].shift);
		EXPECT_EQ(ibcm_decode(&m, mad, MAD_BYTES), WEFT_OK);
		EXPECT(m.info.bytes == data + rows[i].info_at && m.info.length == 72);
		EXPECT(m.private_data.bytes == data + rows[i].info_at + 72);
	}
}

/* Shorter private data is followed by zeros, whatever was there. */
TEST(test_iba_12_6_private_data)
{
	static const uint8_t words[] = "words";

	for (int i = 0; i < KINDS; i++) {
		struct ibcm_msg m = { .kind = kinds[i], .private_data = { words, 5 } }, back;
		uint8_t mad[MAD_BYTES];

		memset(mad, 0xee, sizeof(mad));
		ibcm_encode(&m, mad);
		EXPECT_EQ(ibcm_decode(&back, mad, sizeof(mad)), WEFT_OK);
		EXPECT_EQ(back.kind, kinds[i]);
		EXPECT_EQ(back.private_data.length, ibcm_private_max(kinds[i]));
		EXPECT(back.private_data.bytes + back.private_data.length <= mad + MAD_BYTES);
		EXPECT_MEM(back.private_data.bytes, words, 5);
		for (uint32_t k = 5; k < back.private_data.length; k++)
			EXPECT_EQ(back.private_data.bytes[k], 0);
		EXPECT(strcmp(ibcm_kind_name(kinds[i]), "unknown") != 0);
	}
	EXPECT_STR(ibcm_kind_name((enum ibcm_kind)0x0f), "unknown");
	EXPECT_STR(ibcm_kind_name((enum ibcm_kind)0x1b), "unknown");
	for (uint16_t i = 1; i <= IBCM_REJECT_ALT_FLOW_LABEL; i++)
		EXPECT(ibcm_reject_name(i) && strcmp(ibcm_reject_name(i), "unknown reason") != 0);
	EXPECT_STR(ibcm_reject_name(0), "unknown reason");
	EXPECT_STR(ibcm_reject_name(34), "unknown reason");
}

TEST(test_iba_a11_addresses)
{
	uint8_t bytes[IBCM_IP_BYTES] = { 0, 0x40, 0x12,	     0x34, [16] = 10, 77,
					 0, 12,	  [32] = 10, 77,   0,	      11 };
	const struct ibcm_bytes all = { bytes, sizeof(bytes) };
	const struct ibcm_bytes cut = { bytes, sizeof(bytes) - 1 };
	uint8_t again[IBCM_IP_BYTES];
	struct ibcm_ip a = { .from.port = 7 };

	EXPECT_EQ(ibcm_ip_decode(&a, ibcm_service_id(IBCM_PS_TCP, 7174), all), WEFT_OK);
	EXPECT(!a.is_ipv6 && a.from.port == 0x1234 && a.to.port == 7174);
	EXPECT_MEM(a.from.address, "\x0a\x4d\x00\x0c\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	EXPECT_MEM(a.to.address, "\x0a\x4d\x00\x0b", 4);
	ibcm_ip_encode(&a, again);
	EXPECT_MEM(again, bytes, sizeof(bytes));
	bytes[1] = 0x60;
	bytes[4] = 0xfd;
	EXPECT_EQ(ibcm_ip_decode(&a, 1, all), WEFT_OK);
	EXPECT(a.is_ipv6 && a.from.address[0] == 0xfd && a.to.address[15] == 11);
	ibcm_ip_encode(&a, again);
	EXPECT_MEM(again, bytes, sizeof(bytes));
	a.from.port = 7;
	EXPECT_EQ(ibcm_ip_decode(&a, 1, cut), WEFT_R_CM_ADDRESS);
	bytes[1] = 0x50;
	EXPECT_EQ(ibcm_ip_decode(&a, 1, all), WEFT_R_CM_ADDRESS);
	bytes[1] = 0x40;
	bytes[0] = 1;
	EXPECT_EQ(ibcm_ip_decode(&a, 1, all), WEFT_R_CM_ADDRESS);
	EXPECT_EQ(a.from.port, 7);
}

TEST(test_cm_parting_words)
{
	const struct ibcm_parting said = { .is_failed = true, .nak = 0x62, .nak_psn = 0xabcdef };
	uint8_t bytes[IBCM_PARTING_BYTES];
	struct ibcm_parting heard;

	ibcm_parting_encode(&said, bytes);
	ibcm_parting_decode(&heard, bytes, sizeof(bytes));
	EXPECT(heard.is_failed && heard.nak == 0x62 && heard.nak_psn == 0xabcdef);
	/* Cut short, or from another implementation. */
	ibcm_parting_decode(&heard, bytes, sizeof(bytes) - 1);
	EXPECT(!heard.is_failed && heard.nak == 0 && heard.nak_psn == 0);
	bytes[0] ^= 1;
	ibcm_parting_decode(&heard, bytes, sizeof(bytes));
	EXPECT(!heard.is_failed && heard.nak == 0);
}

TEST(test_iba_a11_service_ids)
{
	EXPECT_EQ(ibcm_service_id(IBCM_PS_TCP, 0x1c06), 0x1061c06);
	EXPECT_EQ(ibcm_service_id(IBCM_PS_IB, 0xffff), 0x13fffff);
	EXPECT(ibcm_is_service(0x1061c06, IBCM_PS_TCP) && !ibcm_is_service(0x1061c06, IBCM_PS_UDP));
	EXPECT(!ibcm_is_service(0x10000001061c06, IBCM_PS_TCP));
}
