/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "rio_fixture.h"
#include "wire/rio_text.h"

enum { BYTES_MAX = RIO_MSG_BYTES_MAX + 64, HEADER = RIO_MSG_HEADER_BYTES };

/* Decodes from memory of just that length, which has gone afterwards unless *keep wants it. */
static enum rio_msg_err decode_keep(const uint8_t *bytes, size_t length, struct rio_msg *m,
				    uint8_t **keep)
{
	struct rio_msg v, before;
	enum rio_msg_err err;

	*keep = malloc(length ? length : 1);
	REQUIRE(*keep);
	memcpy(*keep, bytes, length);
	memset(&v, 0xdb, sizeof(v));
	memcpy(&before, &v, sizeof(v));
	err = rio_msg_decode(&v, *keep, length);
	if (err)
		REQUIRE(memcmp(&v, &before, sizeof(v)) == 0);
	else
		*m = v;
	return err;
}

static enum rio_msg_err decode(const uint8_t *bytes, size_t length)
{
	struct rio_msg m;
	uint8_t *keep;
	enum rio_msg_err err = decode_keep(bytes, length, &m, &keep);

	free(keep);
	return err;
}

static size_t encode(const struct rio_msg *m, uint8_t bytes[BYTES_MAX])
{
	struct wr w = wr_of(bytes, BYTES_MAX);

	rio_msg_encode(m, &w);
	REQUIRE(!w.is_short);
	return (size_t)(w.at - bytes);
}

static enum rio_msg_err recoded(const struct rio_msg *m)
{
	uint8_t bytes[BYTES_MAX];

	return decode(bytes, encode(m, bytes));
}

static void set_length(uint8_t *bytes, size_t length)
{
	struct wr w = wr_of(bytes + 4, 4);

	wr_u32(&w, (uint32_t)length);
}

/*
 * A status by hand: "RF", version 2, type 6; 68 bytes; the second of its direction; about request
 * 0x20; reason 36 in transaction 1, 4096 bytes done; 5 bytes of text, padded to 8; the seal.
 */
static const uint8_t status_wire[] = {
	0x52, 0x46, 0x02, 0x06, 0x00, 0x00, 0x00, 0x44, /* */
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, /* */
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, /* */
	0x00, 0x00, 0x00, 0x24, 0x00, 0x00, 0x00, 0x01, /* */
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, /* */
	0x00, 0x05, 0x00, 0x00, 's',  't',  'a',  'l',	/* */
	'e',  0x00, 0x00, 0x00,				/* */
	0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, /* */
	0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, /* */
};

TEST(test_rio_02e_status_has_the_written_layout)
{
	struct rio_msg m;
	uint8_t bytes[BYTES_MAX], *keep;

	EXPECT_EQ(decode_keep(status_wire, sizeof(status_wire), &m, &keep), RIO_MSG_OK);
	EXPECT_EQ(m.type, RIO_STATUS);
	EXPECT_EQ(m.sequence, 2);
	EXPECT_EQ(m.id, 0x20);
	EXPECT_EQ(m.status.reason, 36);
	EXPECT_EQ(m.status.transaction, 1);
	EXPECT_EQ(m.status.done_bytes, 4096);
	EXPECT_EQ(m.status.text.length, 5);
	EXPECT_MEM(m.status.text.bytes, "stale", 5);
	EXPECT_MEM(m.seal, status_wire + 52, RIO_SEAL_BYTES);
	EXPECT_EQ(encode(&m, bytes), sizeof(status_wire));
	EXPECT_MEM(bytes, status_wire, sizeof(status_wire));
	free(keep);
}

/* "RD", version 1, an answer: reason 7; from 7.1 to 9.0; counter 12; nonce; seal. */
static const uint8_t data_wire[RIO_DATA_BYTES] = {
	0x52,	     0x44, 0x01, 0x01, 0x00, 0x00, 0x00, 0x07, /* */
	0x00,	     0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x01, /* */
	0x00,	     0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, /* */
	0x00,	     0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, /* */
	[32] = 0xa0,					       /* */
	[63] = 0xa1,					       /* */
	[64] = 0xb0,					       /* */
	[79] = 0xb1,
};

TEST(test_rio_02f_private_data_has_the_written_layout)
{
	struct rio_data d;
	uint8_t bytes[RIO_DATA_BYTES];

	EXPECT_EQ(rio_data_decode(&d, data_wire, sizeof(data_wire)), RIO_MSG_OK);
	EXPECT(d.is_answer);
	EXPECT_EQ(d.reason, 7);
	EXPECT(d.from.unit == 7 && d.from.process == 1);
	EXPECT(d.to.unit == 9 && d.to.process == 0);
	EXPECT_EQ(d.counter, 12);
	EXPECT(d.nonce[0] == 0xa0 && d.nonce[31] == 0xa1);
	EXPECT(d.seal[0] == 0xb0 && d.seal[15] == 0xb1);
	EXPECT_EQ(RIO_DATA_SEALED_BYTES + RIO_SEAL_BYTES, RIO_DATA_BYTES);
	rio_data_encode(&d, bytes);
	EXPECT_MEM(bytes, data_wire, sizeof(bytes));
}

/* As long as docs/wire/rio.md says. */
TEST(test_rio_02e_every_message_round_trip)
{
	static const size_t lengths[RIO_MSG_TYPE_COUNT] = {
		[RIO_HELLO] = HEADER + 92,
		[RIO_WELCOME] = HEADER + 164,
		[RIO_PROVE] = HEADER + 88,
		[RIO_REQUEST] = HEADER + 8 + 96 + 16,
		[RIO_COMMAND] = HEADER + 24 + 96 + 16,
		[RIO_STATUS] = HEADER + 20 + 16 + 16,
		[RIO_ANNOUNCE] = HEADER + 40 + 8 + 40 + 40 + 16,
		[RIO_GRANT] = HEADER + 60 + 16,
		[RIO_DEVICES] = HEADER + 8 + 40 + 40 + 16,
		[RIO_REVOKE] = HEADER + 8 + 16,
		[RIO_CANCEL] = HEADER + 16,
		[RIO_PING] = HEADER + 16,
		[RIO_PONG] = HEADER + 16,
		[RIO_BYE] = HEADER + 8 + 16,
		[RIO_NOTIFIED] = HEADER + 8 + 32 + 16,
		[RIO_INQUIRE] = HEADER + 8 + 16,
		[RIO_REPORT] = HEADER + 8 + 3 * 60 + 4 + 8 + 12 + 40 + 16,
	};

	for (int type = RIO_HELLO; type < RIO_MSG_TYPE_COUNT; type++) {
		struct rio_msg m = fixture_message((enum rio_msg_type)type), v;
		uint8_t bytes[BYTES_MAX], again[BYTES_MAX], *keep;
		size_t length = encode(&m, bytes);

		EXPECT_EQ(length, lengths[type]);
		EXPECT_EQ(decode_keep(bytes, length, &v, &keep), RIO_MSG_OK);
		EXPECT_EQ(v.type, type);
		EXPECT_EQ(v.sequence, m.sequence);
		EXPECT_EQ(v.id, m.id);
		EXPECT_MEM(v.seal, m.seal, sizeof(m.seal));
		EXPECT_EQ(encode(&v, again), length);
		EXPECT_MEM(bytes, again, length);
		free(keep);
	}
}

/* Fields that a wrong order of both encoding and decoding would not show. */
TEST(test_rio_02e_fields_stand_where_they_are_written)
{
	struct rio_msg m = fixture_message(RIO_WELCOME);
	uint8_t bytes[BYTES_MAX];

	encode(&m, bytes);
	EXPECT_MEM(bytes, "RF\x02\x02\0\0\0\xbc\0\0\0\0\0\0\0\x05", 16);
	EXPECT_MEM(bytes + HEADER, "\0\0\0\x07\0\0\0\x01\x02\0\0\0\xe1", 13);
	EXPECT_EQ(bytes[HEADER + 43], 0xe1);
	EXPECT_EQ(bytes[HEADER + 44], 0x4b);
	EXPECT_MEM(bytes + HEADER + 76, "\x7e\0\0\0\0\0\0\x01\x7f\0\0\0\0\0\0\x02", 16);
	EXPECT_MEM(bytes + HEADER + 92, "\0\0\0\x40\0\0\x1f\xd0\x51", 9);
	EXPECT_EQ(RIO_WELCOME_SIGNED_BYTES + RIO_SIGNATURE_BYTES, 188);
	m = fixture_message(RIO_PROVE);
	encode(&m, bytes);
	EXPECT_MEM(bytes + HEADER + 63, "\x52\x1d\x2f\0\0\x06\0\0\0\xfd", 10);
	EXPECT_EQ(RIO_PROVE_SIGNED_AT, HEADER + 64);
	EXPECT_EQ(RIO_PROVE_SIGNED_AT + RIO_PROVE_SIGNED_BYTES, 112);
	m = fixture_message(RIO_COMMAND);
	encode(&m, bytes);
	EXPECT_MEM(bytes + HEADER,
		   "\0\0\0\x07\0\0\0\x01\x11\x12\x13\x14\x15\x16\x17\x18\0\0\x75\x30\0\0\0\x01\x01",
		   25);
	m = fixture_message(RIO_GRANT);
	encode(&m, bytes);
	EXPECT_MEM(bytes + HEADER + 39, "\x70\x04\0\x1d\x2f\xc0\0\x02\x07\0", 10);
	m = fixture_message(RIO_DEVICES);
	encode(&m, bytes);
	EXPECT_MEM(bytes + HEADER, "\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\x10\0", 16);
	EXPECT_MEM(bytes + HEADER + 16, "\0\0\x03\0\0\0\0\0\x1a\x1b\x1c\x1d\x1e\x1f\x20\x21", 16);
	EXPECT_MEM(bytes + HEADER + 32, "\0\0\0\x0e\0\x07\0\0archive\0", 16);
}

/* What is cut off is refused, whether or not the length was made to match. */
TEST(test_rio_02e_every_truncation_is_refused)
{
	for (int type = RIO_HELLO; type < RIO_MSG_TYPE_COUNT; type++) {
		struct rio_msg m = fixture_message((enum rio_msg_type)type);
		uint8_t bytes[BYTES_MAX];
		size_t length = encode(&m, bytes);
		/* Of a list any part is one to the message. */
		size_t least = type == RIO_REQUEST   ? HEADER + 8 + 4 + 16
			       : type == RIO_COMMAND ? HEADER + 24 + 4 + 16
						     : length;

		for (size_t n = 0; n < length; n++) {
			set_length(bytes, length);
			EXPECT(decode(bytes, n) == RIO_MSG_ERR_SHORT ||
			       decode(bytes, n) == RIO_MSG_ERR_LENGTH);
			set_length(bytes, n);
			EXPECT_EQ(decode(bytes, n) == RIO_MSG_OK, n >= least && n % 4 == 0);
		}
	}
}

TEST(test_rio_02e_whatever_follows_is_refused)
{
	for (int type = RIO_HELLO; type < RIO_MSG_TYPE_COUNT; type++) {
		struct rio_msg m = fixture_message((enum rio_msg_type)type);
		uint8_t bytes[BYTES_MAX] = { 0 };
		size_t length = encode(&m, bytes);

		for (size_t more = 1; more < 40; more++) {
			EXPECT_EQ(decode(bytes, length + more), RIO_MSG_ERR_LENGTH);
			set_length(bytes, length + more);
			if (type != RIO_REQUEST && type != RIO_COMMAND)
				EXPECT_EQ(decode(bytes, length + more), RIO_MSG_ERR_LENGTH);
			set_length(bytes, length);
		}
	}
}

TEST(test_rio_02e_bad_headers_are_refused)
{
	struct rio_msg m = fixture_message(RIO_PING);
	uint8_t bytes[BYTES_MAX];
	size_t length = encode(&m, bytes);

	for (int bit = 0; bit < 16; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_MAGIC);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (unsigned int v = 0; v < 256; v++) {
		bytes[2] = (uint8_t)v;
		EXPECT_EQ(decode(bytes, length), v == 2 ? RIO_MSG_OK : RIO_MSG_ERR_VERSION);
	}
	bytes[2] = 2;
	for (unsigned int v = 0; v < 256; v++) {
		bytes[3] = (uint8_t)v;
		EXPECT_EQ(decode(bytes, length) == RIO_MSG_ERR_TYPE, v < 1 || v > 17);
	}
	m.sequence = 0;
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_SEQUENCE);
}

TEST(test_rio_02e_reserved_bytes_and_padding_are_zero)
{
	static const struct {
		enum rio_msg_type type;
		size_t at, bytes;
	} reserved[] = {
		{ RIO_HELLO, 9, 3 },	{ RIO_WELCOME, 9, 3 },	{ RIO_PROVE, 66, 2 },
		{ RIO_PROVE, 69, 3 },	{ RIO_REQUEST, 4, 4 },	{ RIO_COMMAND, 20, 3 },
		{ RIO_STATUS, 18, 2 },	{ RIO_STATUS, 34, 2 },	{ RIO_ANNOUNCE, 44, 4 },
		{ RIO_GRANT, 41, 1 },	{ RIO_GRANT, 48, 12 },	{ RIO_DEVICES, 4, 4 },
		{ RIO_DEVICES, 38, 2 }, { RIO_DEVICES, 47, 1 }, { RIO_BYE, 4, 4 },
		{ RIO_NOTIFIED, 4, 4 }, { RIO_INQUIRE, 4, 4 },	{ RIO_REPORT, 10, 2 },
		{ RIO_REPORT, 66, 2 },	{ RIO_REPORT, 130, 2 }, { RIO_REPORT, 202, 2 },
		{ RIO_REPORT, 242, 2 },
	};

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		for (size_t bit = 0; bit < 8 * reserved[i].bytes; bit++) {
			struct rio_msg m = fixture_message(reserved[i].type);
			uint8_t bytes[BYTES_MAX];
			size_t length = encode(&m, bytes);

			bytes[HEADER + reserved[i].at + bit / 8] ^= (uint8_t)(1 << bit % 8);
			EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_RESERVED);
		}
	}
}

TEST(test_rio_02e_a_command_has_no_other_flag_than_urgent)
{
	struct rio_msg m = fixture_message(RIO_COMMAND), v;
	uint8_t bytes[BYTES_MAX];
	size_t length = encode(&m, bytes);

	REQUIRE(rio_msg_decode(&v, bytes, length) == RIO_MSG_OK);
	EXPECT(v.request.is_urgent);
	for (int bit = 1; bit < 8; bit++) {
		bytes[HEADER + 23] = (uint8_t)(1 << bit);
		EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_RESERVED);
	}
	bytes[HEADER + 23] = 0;
	REQUIRE(rio_msg_decode(&v, bytes, length) == RIO_MSG_OK);
	EXPECT(!v.request.is_urgent);
}

TEST(test_rio_02i_notified_has_as_many_entries_as_it_says)
{
	struct rio_msg m = fixture_message(RIO_NOTIFIED), v;
	uint8_t bytes[BYTES_MAX], *keep;
	size_t length = encode(&m, bytes);
	struct rio_notified_entry e;
	struct rd at;

	EXPECT_EQ(decode_keep(bytes, length, &v, &keep), RIO_MSG_OK);
	EXPECT_EQ(v.notified.count, 2);
	at = rd_of(v.notified.entries.bytes, v.notified.entries.length);
	(void)rio_notified_next(&at);
	e = rio_notified_next(&at);
	EXPECT(e.id == 0x22 && e.done_bytes == 8192 && at.at == at.end);
	free(keep);
	for (uint8_t count = 0; count < 4; count++) {
		bytes[HEADER + 3] = count;
		EXPECT_EQ(decode(bytes, length), count == 2 ? RIO_MSG_OK : RIO_MSG_ERR_LENGTH);
	}
	m.notified = (struct rio_notified){ 0 };
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_LENGTH);
}

TEST(test_rio_02e_a_report_has_what_it_says)
{
	struct rio_msg m = fixture_message(RIO_REPORT), v;
	uint8_t bytes[BYTES_MAX], *keep;
	size_t length = encode(&m, bytes);
	struct rio_seen s = { 0 };
	struct rd at;

	EXPECT_EQ(decode_keep(bytes, length, &v, &keep), RIO_MSG_OK);
	EXPECT(v.report.total == 7 && v.report.count == 4);
	at = rd_of(v.report.entries.bytes, v.report.entries.length);
	EXPECT_EQ(rio_seen_next(&s, &at), RIO_MSG_OK);
	EXPECT(s.kind == RIO_SEEN_OWNER && s.is_here && s.now == 3 && s.name.length == 0);
	EXPECT(s.moved.payload_in == 0 && s.moved.control_in == 70000 &&
	       s.moved.control_out == 90000);
	EXPECT_EQ(rio_seen_next(&s, &at), RIO_MSG_OK);
	EXPECT(s.kind == RIO_SEEN_REQUESTER && !s.is_here && s.platform.unit == 7);
	EXPECT(s.done.requests == 12 && s.done.refused == 2 && s.done.failed == 1);
	EXPECT(s.done.read_bytes == 1 << 20 && s.done.written_bytes == 8192);
	EXPECT(s.name.length == 2 && memcmp(s.name.bytes, "db", 2) == 0);
	EXPECT_EQ(rio_seen_next(&s, &at), RIO_MSG_OK);
	EXPECT(s.kind == RIO_SEEN_IOUNIT && s.name.length == 5);
	EXPECT_EQ(rio_seen_next(&s, &at), RIO_MSG_OK);
	EXPECT(s.kind == RIO_SEEN_DEVICE && s.device.number == 0x10003 && at.at == at.end);
	EXPECT_EQ(rio_seen_next(&s, &at), RIO_MSG_ERR_SHORT);
	free(keep);
}

TEST(test_rio_02e_entries_that_cannot_be_are_refused)
{
	struct rio_msg m = fixture_message(RIO_REPORT);
	uint8_t bytes[BYTES_MAX];
	size_t length = encode(&m, bytes);

	for (unsigned int kind = 0; kind < 256; kind++) {
		bytes[HEADER + 8] = (uint8_t)kind;
		EXPECT_EQ(decode(bytes, length) == RIO_MSG_ERR_SEEN, kind < 1 || kind > 4);
	}
	bytes[HEADER + 8] = RIO_SEEN_OWNER;
	for (unsigned int here = 0; here < 256; here++) {
		bytes[HEADER + 9] = (uint8_t)here;
		EXPECT_EQ(decode(bytes, length), here > 1 ? RIO_MSG_ERR_SEEN : RIO_MSG_OK);
	}
	bytes[HEADER + 9] = 1;
	bytes[HEADER + 15] = 0; /* the unit */
	EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_UNIT);
	bytes[HEADER + 15] = 1;
	bytes[HEADER + 7] = 5; /* entries, of four */
	EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_SHORT);
	bytes[HEADER + 7] = 3;
	EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_LENGTH);
	bytes[HEADER + 7] = 4;
	bytes[HEADER + 3] = 3; /* in all */
	EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_LENGTH);
	bytes[HEADER + 3] = 4;
	EXPECT_EQ(decode(bytes, length), RIO_MSG_OK);
	bytes[HEADER + 8 + 60 + 60] = '\n'; /* in the requester's name */
	EXPECT_EQ(decode(bytes, length), RIO_MSG_ERR_TEXT);
}

TEST(test_rio_02e_an_entry_is_put_whole_or_not_at_all)
{
	const uint8_t long_name[RIO_DEVICE_NAME_MAX + 1] = "";
	struct rio_seen s = { .kind = RIO_SEEN_OWNER, .platform = { 1, 1 } };
	uint8_t bytes[128];
	struct wr w = wr_of(bytes, 59);
	struct rd r;

	rio_seen_put(&s, &w);
	EXPECT(w.is_short && w.at == bytes);
	w = wr_of(bytes, 60);
	rio_seen_put(&s, &w);
	EXPECT(!w.is_short && w.at == w.end);
	s.name = (struct rio_bytes){ long_name, sizeof(long_name) };
	w = wr_of(bytes, sizeof(bytes));
	rio_seen_put(&s, &w);
	r = rd_of(bytes, (size_t)(w.at - bytes));
	EXPECT_EQ(rio_seen_next(&s, &r), RIO_MSG_ERR_TEXT);
}

TEST(test_rio_14_messages_do_not_name_unit_0)
{
	struct rio_msg m = fixture_message(RIO_HELLO);

	m.hello.platform.unit = 0;
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_UNIT);
	m = fixture_message(RIO_WELCOME);
	m.welcome.hello.platform.unit = 0;
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_UNIT);
	m = fixture_message(RIO_COMMAND);
	m.request.requester.unit = 0;
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_UNIT);
	m = fixture_message(RIO_ANNOUNCE);
	m.announce.iounit.unit = 0;
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_UNIT);
	m = fixture_message(RIO_GRANT);
	m.grant.requester.unit = 0;
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_UNIT);
	m = fixture_message(RIO_REVOKE);
	m.revoked.unit = 0;
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_UNIT);
}

TEST(test_rio_02e_roles)
{
	for (unsigned int role = 0; role < 256; role++) {
		struct rio_msg m = fixture_message(RIO_HELLO);
		bool is_good = role >= RIO_REQUESTER && role <= RIO_FABRIC_PART;

		m.hello.role = (enum rio_role)role;
		EXPECT_EQ(recoded(&m), is_good ? RIO_MSG_OK : RIO_MSG_ERR_ROLE);
		m = fixture_message(RIO_WELCOME);
		m.welcome.hello.role = (enum rio_role)role;
		EXPECT_EQ(recoded(&m), is_good ? RIO_MSG_OK : RIO_MSG_ERR_ROLE);
	}
}

TEST(test_rio_02f_addresses)
{
	for (unsigned int family = 0; family < 256; family++) {
		bool is_good = family == 4 || family == 6;
		struct rio_msg m = fixture_message(RIO_GRANT);

		m.grant.address.family = (uint8_t)family;
		EXPECT_EQ(recoded(&m), is_good ? RIO_MSG_OK : RIO_MSG_ERR_ADDRESS);
		m.grant.address.port = 0;
		EXPECT_EQ(recoded(&m), RIO_MSG_ERR_ADDRESS);
		m = fixture_message(RIO_PROVE);
		memset(m.prove.address.ip + 4, 0, 12);
		m.prove.address.family = (uint8_t)family;
		EXPECT_EQ(recoded(&m), is_good ? RIO_MSG_OK : RIO_MSG_ERR_ADDRESS);
		m.prove.address.port = 0;
		EXPECT_EQ(recoded(&m), RIO_MSG_ERR_ADDRESS);
		/* A side that takes no data connections sends all zeros. */
		memset(m.prove.address.ip, 0, RIO_IP_BYTES);
		EXPECT_EQ(recoded(&m), family == 0 ? RIO_MSG_OK : RIO_MSG_ERR_ADDRESS);
		m.prove.address.port = 1;
		EXPECT_EQ(recoded(&m), is_good ? RIO_MSG_OK : RIO_MSG_ERR_ADDRESS);
	}
}

TEST(test_rio_02c_a_request_has_a_list_of_whole_words)
{
	for (int i = 0; i < 2; i++) {
		struct rio_msg m = fixture_message(i ? RIO_COMMAND : RIO_REQUEST);

		for (size_t n = 0; n <= FIXTURE_LIST_BYTES; n++) {
			m.request.list.length = n;
			EXPECT_EQ(recoded(&m), n > 0 && n % 4 == 0 ? RIO_MSG_OK : RIO_MSG_ERR_LIST);
		}
	}
}

/* To the last byte, and not one more. */
TEST(test_rio_02e_no_message_is_longer_than_8_kib)
{
	static uint8_t list[RIO_MSG_BYTES_MAX + 4], bytes[2 * RIO_MSG_BYTES_MAX];

	for (int i = 0; i < 2; i++) {
		struct rio_msg m = fixture_message(i ? RIO_COMMAND : RIO_REQUEST);
		struct wr w = wr_of(bytes, sizeof(bytes));

		m.request.list = (struct rio_bytes){ list, (size_t)(i ? RIO_COMMAND_LIST_MAX
								      : RIO_REQUEST_LIST_MAX) };
		rio_msg_encode(&m, &w);
		EXPECT(!w.is_short);
		EXPECT_EQ(w.at - bytes, RIO_MSG_BYTES_MAX);
		EXPECT_EQ(decode(bytes, RIO_MSG_BYTES_MAX), RIO_MSG_OK);
		set_length(bytes, RIO_MSG_BYTES_MAX + 4);
		EXPECT_EQ(decode(bytes, RIO_MSG_BYTES_MAX + 4), RIO_MSG_ERR_LENGTH);
		m.request.list.length += 4;
		w = wr_of(bytes, sizeof(bytes));
		rio_msg_encode(&m, &w);
		EXPECT(w.is_short);
		EXPECT(w.at == bytes);
	}
}

TEST(test_rio_02e_what_does_not_fit_is_not_written)
{
	for (int type = RIO_HELLO; type < RIO_MSG_TYPE_COUNT; type++) {
		struct rio_msg m = fixture_message((enum rio_msg_type)type);
		uint8_t bytes[BYTES_MAX];
		size_t length = encode(&m, bytes);

		for (size_t room = 0; room < length; room++) {
			uint8_t *some = malloc(room ? room : 1);
			struct wr w = wr_of(some, room);

			REQUIRE(some);
			rio_msg_encode(&m, &w);
			EXPECT(w.is_short);
			EXPECT(w.at == some && w.end == some + room);
			free(some);
		}
	}
}

TEST(test_rio_02i_status_texts)
{
	static char text[RIO_TEXT_MAX + 8];
	struct rio_msg m = fixture_message(RIO_STATUS);

	memset(text, 'x', sizeof(text));
	for (size_t n = 0; n < sizeof(text); n++) {
		m.status.text = (struct rio_bytes){ (const uint8_t *)text, n };
		EXPECT_EQ(recoded(&m), n <= RIO_TEXT_MAX ? RIO_MSG_OK : RIO_MSG_ERR_TEXT);
	}
	m.status.text = (struct rio_bytes){ (const uint8_t *)"a\nb", 3 };
	EXPECT_EQ(recoded(&m), RIO_MSG_ERR_TEXT);
	/* A reason of a newer peer is still one. */
	m.status.text.length = 0;
	m.status.reason = UINT32_MAX;
	EXPECT_EQ(recoded(&m), RIO_MSG_OK);
}

TEST(test_rio_02i_texts_are_utf_8_without_control_characters)
{
	static const struct {
		const char *text;
		bool is_good;
	} texts[] = {
		{ "", true },
		{ "plain ~", true },
		{ "\x1f", false },
		{ "\x7f", false },
		{ "\xc2\xa0", true },
		{ "\xc2\x9f", false }, /* C1 */
		{ "\xc2", false },
		{ "\x80", false },
		{ "\xc1\xbf", false }, /* not in its shortest form */
		{ "\xdf\xbf", true },
		{ "\xe0\x9f\xbf", false },
		{ "\xe0\xa0\x80", true },
		{ "\xe2\x82", false },
		{ "\xe2\x82\xac!", true },
		{ "\xe2\x82!", false },
		{ "\xed\x9f\xbf", true },
		{ "\xed\xa0\x80", false }, /* half a pair */
		{ "\xed\xbf\xbf", false },
		{ "\xee\x80\x80", true },
		{ "\xf0\x8f\xbf\xbf", false },
		{ "\xf0\x90\x80\x80", true },
		{ "\xf4\x8f\xbf\xbf", true },
		{ "\xf4\x90\x80\x80", false },
		{ "\xf8\x88\x80\x80\x80", false },
		{ "\xff", false },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		size_t length = strlen(texts[i].text);
		uint8_t *copy = malloc(length ? length : 1);

		REQUIRE(copy);
		memcpy(copy, texts[i].text, length);
		EXPECT_EQ(rio_text_is_good(copy, length), texts[i].is_good);
		free(copy);
	}
}

static enum rio_msg_err device_recoded(const struct rio_device *d)
{
	uint8_t bytes[256];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd r;
	struct rio_device v;
	enum rio_msg_err err;

	rio_device_put(d, &w);
	REQUIRE(!w.is_short);
	r = rd_of(bytes, (size_t)(w.at - bytes));
	err = rio_device_next(&v, &r);
	REQUIRE(err ? r.at == bytes : r.at == w.at);
	return err;
}

TEST(test_rio_02e_devices)
{
	static const uint8_t name[RIO_DEVICE_NAME_MAX + 1] = "disk";
	const struct rio_device good = {
		.number = 1, .block_bytes = 512, .size_bytes = 1024, .name = { name, 4 }
	};
	struct rio_device d = good;

	EXPECT_EQ(device_recoded(&d), RIO_MSG_OK);
	for (uint32_t block = 1; block != 0; block <<= 1) {
		d.size_bytes = UINT64_C(1) << 41;
		d.block_bytes = block;
		EXPECT_EQ(device_recoded(&d),
			  block >= 512 && block <= 65536 ? RIO_MSG_OK : RIO_MSG_ERR_DEVICE);
		d.block_bytes = block | 1024 | 256;
		EXPECT_EQ(device_recoded(&d), RIO_MSG_ERR_DEVICE);
	}
	d.block_bytes = 0;
	EXPECT_EQ(device_recoded(&d), RIO_MSG_ERR_DEVICE);
	d = good;
	d.size_bytes = 1025;
	EXPECT_EQ(device_recoded(&d), RIO_MSG_ERR_DEVICE);
	d.size_bytes = 0; /* an empty drive */
	EXPECT_EQ(device_recoded(&d), RIO_MSG_OK);
	for (int bit = 0; bit < 32; bit++) {
		d.flags = UINT32_C(1) << bit;
		EXPECT_EQ(device_recoded(&d), bit < 5 ? RIO_MSG_OK : RIO_MSG_ERR_DEVICE);
	}
	d = good;
	d.name.length = 0;
	EXPECT_EQ(device_recoded(&d), RIO_MSG_ERR_TEXT);
	d.name.length = 5; /* with a NUL */
	EXPECT_EQ(device_recoded(&d), RIO_MSG_ERR_TEXT);
}

TEST(test_rio_02e_device_names_of_every_length)
{
	static uint8_t name[RIO_DEVICE_NAME_MAX + 4];
	struct rio_device d = { .number = 1, .block_bytes = 512, .size_bytes = 1024 };

	memset(name, 'n', sizeof(name));
	for (size_t n = 1; n <= sizeof(name); n++) {
		d.name = (struct rio_bytes){ name, n };
		EXPECT_EQ(device_recoded(&d),
			  n <= RIO_DEVICE_NAME_MAX ? RIO_MSG_OK : RIO_MSG_ERR_TEXT);
	}
}

/* A device list is just as long as its count. */
TEST(test_rio_02e_device_counts)
{
	for (uint32_t count = 0; count < 6; count++) {
		struct rio_msg m = fixture_message(RIO_DEVICES);

		m.devices.count = count;
		EXPECT_EQ(recoded(&m), count < 2   ? RIO_MSG_ERR_LENGTH
				       : count > 2 ? RIO_MSG_ERR_SHORT
						   : RIO_MSG_OK);
		m = fixture_message(RIO_ANNOUNCE);
		m.announce.devices.count = count;
		EXPECT_EQ(recoded(&m), count < 2   ? RIO_MSG_ERR_LENGTH
				       : count > 2 ? RIO_MSG_ERR_SHORT
						   : RIO_MSG_OK);
	}
	{
		struct rio_msg m = fixture_message(RIO_DEVICES);

		m.devices.count = UINT32_MAX;
		EXPECT_EQ(recoded(&m), RIO_MSG_ERR_SHORT);
		m.devices = (struct rio_devices){ 0 };
		EXPECT_EQ(recoded(&m), RIO_MSG_OK);
	}
}

TEST(test_rio_02e_the_seal_is_the_end_of_all_but_the_greeting)
{
	for (int type = RIO_HELLO; type < RIO_MSG_TYPE_COUNT; type++) {
		struct rio_msg m = fixture_message((enum rio_msg_type)type);
		uint8_t bytes[BYTES_MAX];
		size_t length = encode(&m, bytes);
		size_t covered = rio_msg_sealed_bytes(m.type, length);

		EXPECT_EQ(rio_msg_is_sealed(m.type), type >= RIO_REQUEST);
		EXPECT_EQ(covered, type >= RIO_REQUEST ? length - RIO_SEAL_BYTES : 0);
		if (covered > 0)
			EXPECT_MEM(bytes + covered, m.seal, sizeof(m.seal));
	}
	EXPECT_EQ(rio_msg_sealed_bytes(RIO_PING, 40), 24);
	EXPECT_EQ(rio_msg_sealed_bytes(RIO_PING, 39), 0);
	EXPECT_EQ(rio_msg_sealed_bytes(RIO_PING, 0), 0);
}

TEST(test_rio_02f_bad_private_data_is_refused)
{
	struct rio_data d = fixture_data(), v = d;
	uint8_t bytes[RIO_DATA_BYTES + 8] = { 0 };

	rio_data_encode(&d, bytes);
	for (size_t n = 0; n < sizeof(bytes); n++)
		EXPECT_EQ(rio_data_decode(&v, bytes, n), n < RIO_DATA_BYTES   ? RIO_MSG_ERR_SHORT
							 : n > RIO_DATA_BYTES ? RIO_MSG_ERR_LENGTH
									      : RIO_MSG_OK);
	bytes[0] ^= 1;
	EXPECT_EQ(rio_data_decode(&v, bytes, RIO_DATA_BYTES), RIO_MSG_ERR_MAGIC);
	bytes[0] ^= 1;
	bytes[2] = 2;
	EXPECT_EQ(rio_data_decode(&v, bytes, RIO_DATA_BYTES), RIO_MSG_ERR_VERSION);
	bytes[2] = 1;
	bytes[3] = 2;
	EXPECT_EQ(rio_data_decode(&v, bytes, RIO_DATA_BYTES), RIO_MSG_ERR_TYPE);
	d.reason = 1;
	rio_data_encode(&d, bytes);
	EXPECT_EQ(rio_data_decode(&v, bytes, RIO_DATA_BYTES), RIO_MSG_ERR_ASK);
	d = fixture_data();
	d.from.unit = 0;
	rio_data_encode(&d, bytes);
	EXPECT_EQ(rio_data_decode(&v, bytes, RIO_DATA_BYTES), RIO_MSG_ERR_UNIT);
	d = fixture_data();
	d.to.unit = 0;
	rio_data_encode(&d, bytes);
	EXPECT_EQ(rio_data_decode(&v, bytes, RIO_DATA_BYTES), RIO_MSG_ERR_UNIT);
	d = fixture_data();
	d.counter = 0;
	rio_data_encode(&d, bytes);
	EXPECT_EQ(rio_data_decode(&v, bytes, RIO_DATA_BYTES), RIO_MSG_ERR_SEQUENCE);
	EXPECT_EQ(v.counter, 12); /* as the only good one left it */
}

TEST(test_rio_02e_names)
{
	EXPECT_STR(rio_msg_type_name(RIO_HELLO), "hello");
	EXPECT_STR(rio_msg_type_name(RIO_BYE), "bye");
	EXPECT_STR(rio_msg_type_name((enum rio_msg_type)0), "unknown message");
	EXPECT_STR(rio_msg_type_name(RIO_MSG_TYPE_COUNT), "unknown message");
}
