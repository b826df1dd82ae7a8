/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "unit/wire/push_fixture.h"

enum { BYTES_MAX = PUSH_MSG_BYTES_MAX + 64 };

/* Decodes from memory of just that length. */
static enum weft_reason decode(const uint8_t *bytes, size_t length, struct push_msg *m)
{
	uint8_t *copy = malloc(length ? length : 1);
	enum weft_reason reason;

	REQUIRE(copy);
	memcpy(copy, bytes, length);
	reason = push_msg_decode(m, copy, length);
	free(copy);
	return reason;
}

static size_t encode(const struct push_msg *m, uint8_t bytes[BYTES_MAX])
{
	struct wr w = wr_of(bytes, BYTES_MAX);

	push_msg_encode(m, &w);
	REQUIRE(!w.is_short);
	return (size_t)(w.at - bytes);
}

static enum weft_reason recoded(const struct push_msg *m)
{
	uint8_t bytes[BYTES_MAX];
	struct push_msg v = { 0 };

	return decode(bytes, encode(m, bytes), &v);
}

/* As D2 draws it: function, version; transaction context; pool references. */
TEST(test_push_16d_flush_request_is_byte_exact)
{
	static const uint8_t wire[] = {
		0, 4, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 7, 0, 0, 1, 44
	};
	struct push_msg m = { 0 };
	uint8_t bytes[BYTES_MAX];
	struct rd r;

	EXPECT_EQ(push_msg_decode(&m, wire, sizeof(wire)), WEFT_OK);
	EXPECT_EQ(m.function, PUSH_FLUSH_REQUEST);
	EXPECT_EQ(m.context, INT64_C(0x0102030405060708));
	EXPECT_EQ(m.references.count, 2);
	r = rd_of(m.references.bytes, 8);
	EXPECT_EQ(push_reference_next(&r), 7);
	EXPECT_EQ(push_reference_next(&r), 300);
	EXPECT_EQ(encode(&m, bytes), sizeof(wire));
	EXPECT_MEM(bytes, wire, sizeof(wire));
	m.function = PUSH_RELEASE_REQUEST; /* the initiator's differs in the function alone */
	EXPECT_EQ(encode(&m, bytes), sizeof(wire));
	EXPECT_EQ(bytes[1], 10);
	EXPECT_MEM(bytes + 2, wire + 2, sizeof(wire) - 2);
}

TEST(test_push_16e_flush_reply_is_byte_exact)
{
	static const uint8_t wire[12] = { 0, 5, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8 };
	struct push_msg m = { 0 };
	uint8_t bytes[BYTES_MAX];

	EXPECT_EQ(push_msg_decode(&m, wire, sizeof(wire)), WEFT_OK);
	EXPECT_EQ(m.function, PUSH_FLUSH_REPLY);
	EXPECT_EQ(m.context, INT64_C(0x0102030405060708));
	EXPECT_EQ(encode(&m, bytes), sizeof(wire));
	EXPECT_MEM(bytes, wire, sizeof(wire));
}

/* As long as docs/wire/push.md says. */
TEST(test_push_16_every_message_round_trip)
{
	static const size_t lengths[PUSH_FIXTURES] = { 48, 20, 28, 20, 12, 30, 32,  16, 24, 56,
						       28, 24, 38, 32, 28, 20, 112, 36, 24 };

	for (int i = 0; i < PUSH_FIXTURES; i++) {
		const char *name;
		struct push_msg m = push_fixture(i, &name), v = { 0 };
		uint8_t bytes[BYTES_MAX], again[BYTES_MAX];
		size_t length = encode(&m, bytes);

		harness_note("%s", name);
		EXPECT_EQ(length, lengths[i]);
		EXPECT_EQ(push_msg_decode(&v, bytes, length), WEFT_OK);
		EXPECT_EQ(v.function, m.function);
		EXPECT_EQ(v.context, m.context);
		EXPECT_EQ(encode(&v, again), length);
		EXPECT_MEM(bytes, again, length);
		EXPECT(push_function_name(m.function)[0] == 'B' ||
		       push_function_name(m.function)[0] == 'S' ||
		       push_function_name(m.function)[0] == 'C');
	}
	EXPECT_STR(push_function_name((enum push_function)12), "unknown function");
	EXPECT_STR(push_kind_name(PUSH_PING), "ping");
	EXPECT_STR(push_kind_name((enum push_kind)0), "unknown kind");
}

/* Fields that a wrong order of both encoding and decoding would not show. */
TEST(test_push_16a_fields_stand_where_they_are_written)
{
	const char *name;
	struct push_msg m = push_fixture(0, &name), v = { 0 };
	uint8_t bytes[BYTES_MAX];
	struct push_pool p;
	struct rd r;

	EXPECT_EQ(push_msg_decode(&v, bytes, encode(&m, bytes)), WEFT_OK);
	EXPECT_MEM(bytes, "\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x01\0\0\0\x07", 20);
	r = rd_of(v.pools.bytes, PUSH_POOL_BYTES);
	p = push_pool_next(&r);
	EXPECT_EQ(p.index, 7);
	EXPECT_EQ(p.handle, 0xa105);
	EXPECT_EQ(p.elements, 256);
	EXPECT_EQ(p.element_bytes, 256);
	EXPECT_EQ(p.address, 0x7f0012340000);
	EXPECT_EQ(p.context, 9);
}

TEST(test_push_16h_fields_stand_where_they_are_written)
{
	const char *name;
	struct push_msg m = push_fixture(9, &name);
	uint8_t bytes[BYTES_MAX];

	encode(&m, bytes);
	EXPECT_MEM(bytes + 12, "\0\x01\0\0\0\0\0\x24\x01\x02\x01\0\x23\x28\0\x02", 16);
	EXPECT_MEM(bytes + 28, "\x80\0\0\0\0\0\x08\x01\x02\0\0\0\0\x07\0\0", 16);
	EXPECT_MEM(bytes + 44, "\0\0\0\x10\0\0\x10\0\0\0\x08\0", 12);
	m = push_fixture(12, &name);
	encode(&m, bytes);
	EXPECT_MEM(bytes + 20, "\0\0\0\x02\0\x02\0\x01\0\x07\x0f\xfe\x33\x33\0\0\0\x01", 18);
}

TEST(test_push_16_every_truncation_and_excess_is_refused)
{
	for (int i = 0; i < PUSH_FIXTURES; i++) {
		const char *name;
		struct push_msg m = push_fixture(i, &name), v = { 0 };
		uint8_t bytes[BYTES_MAX] = { 0 };
		size_t length = encode(&m, bytes);
		bool is_list = m.function == PUSH_FLUSH_REQUEST; /* of any length */

		harness_note("%s", name);
		for (size_t n = 0; n < length; n++)
			EXPECT((decode(bytes, n, &v) != WEFT_OK) !=
			       (is_list && n > 12 && n % 4 == 0));
		is_list = is_list || m.function == PUSH_RELEASE_REQUEST;
		for (size_t more = 1; more < 9; more++)
			EXPECT((decode(bytes, length + more, &v) != WEFT_OK) !=
			       (is_list && more % 4 == 0));
	}
}

TEST(test_push_16_what_ends_inside_a_field_is_short)
{
	static const uint8_t counted[] = { PUSH_RECV_POOL,     PUSH_RECV_POOL_UPDATE,
					   PUSH_RDMA_INDICATE, PUSH_RECV_POOL_GET,
					   PUSH_SEND_DATA,     PUSH_PULL,
					   PUSH_CFG_REQUEST,   PUSH_CFG_REPLY };
	uint8_t bytes[20] = { 0, 0, 0, PUSH_VERSION };
	struct push_msg v = { 0 };

	EXPECT_EQ(decode(bytes, 11, &v), WEFT_R_PUSH_SHORT);
	for (size_t i = 0; i < sizeof(counted); i++) {
		bytes[1] = counted[i];
		EXPECT_EQ(decode(bytes, 15, &v), WEFT_R_PUSH_SHORT);
	}
	/* The data, or the content, is said to be longer than the message. */
	bytes[1] = PUSH_SEND_DATA;
	bytes[15] = 5;
	EXPECT_EQ(decode(bytes, 20, &v), WEFT_R_PUSH_SHORT);
	bytes[1] = PUSH_CFG_REQUEST;
	bytes[13] = PUSH_STATISTICS;
	bytes[15] = 0;
	bytes[19] = 1;
	EXPECT_EQ(decode(bytes, 20, &v), WEFT_R_PUSH_SHORT);
	/* Or shorter than its kind. */
	bytes[13] = PUSH_PING;
	bytes[19] = 0;
	EXPECT_EQ(decode(bytes, 20, &v), WEFT_R_PUSH_SHORT);
}

TEST(test_push_18_unknown_function_or_version_is_refused)
{
	const char *name;
	struct push_msg m = push_fixture(4, &name), v = { 0 };
	uint8_t bytes[BYTES_MAX];
	size_t length = encode(&m, bytes);

	for (int f = 0; f < 256; f++) {
		bytes[1] = (uint8_t)f;
		EXPECT_EQ(decode(bytes, length, &v) == WEFT_R_PUSH_FUNCTION,
			  f == 0 || f >= PUSH_FUNCTION_COUNT);
	}
	bytes[0] = 1;
	EXPECT_EQ(decode(bytes, length, &v), WEFT_R_PUSH_FUNCTION);
	encode(&m, bytes);
	for (int version = 0; version < 256; version++) {
		bytes[3] = (uint8_t)version;
		EXPECT_EQ(decode(bytes, length, &v),
			  version == PUSH_VERSION ? WEFT_OK : WEFT_R_PUSH_VERSION);
	}
}

TEST(test_push_16_lists_are_as_long_as_their_counts)
{
	static const int lists[] = { 0, 2, 6 };

	for (size_t i = 0; i < 3; i++) {
		const char *name;
		struct push_msg m = push_fixture(lists[i], &name), v = { 0 };
		uint8_t bytes[BYTES_MAX];
		size_t length = encode(&m, bytes);

		bytes[15] = 0;
		EXPECT_EQ(decode(bytes, 16, &v), WEFT_R_PUSH_LENGTH);
		bytes[15] = 2;
		EXPECT_EQ(decode(bytes, length, &v), WEFT_R_PUSH_LENGTH);
		memset(bytes + 12, 0xff, 4);
		EXPECT_EQ(decode(bytes, length, &v), WEFT_R_PUSH_LENGTH);
	}
}

TEST(test_push_16d_a_flush_names_whole_pools)
{
	uint8_t bytes[20] = { 0, PUSH_FLUSH_REQUEST, 0, PUSH_VERSION };
	struct push_msg v = { 0 };

	EXPECT_EQ(decode(bytes, 12, &v), WEFT_R_PUSH_LENGTH);
	EXPECT_EQ(decode(bytes, 18, &v), WEFT_R_PUSH_LENGTH);
	EXPECT_EQ(decode(bytes, 20, &v), WEFT_OK);
}

TEST(test_push_16f_data_is_bounded_by_the_message)
{
	static uint8_t data[PUSH_MSG_BYTES_MAX];
	struct push_msg m = { .function = PUSH_SEND_DATA, .data = { data, PUSH_INLINE_MAX } };
	uint8_t bytes[BYTES_MAX];
	struct push_msg v = { 0 };
	struct wr w;

	EXPECT_EQ(encode(&m, bytes), PUSH_MSG_BYTES_MAX);
	EXPECT_EQ(decode(bytes, PUSH_MSG_BYTES_MAX, &v), WEFT_OK);
	m.data.length++;
	w = wr_of(bytes, sizeof(bytes));
	push_msg_encode(&m, &w);
	EXPECT(w.is_short && w.at == bytes);
	bytes[15]++;
	EXPECT_EQ(decode(bytes, PUSH_MSG_BYTES_MAX + 1, &v), WEFT_R_PUSH_LENGTH);
	m.data.length = 0;
	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_LENGTH);
}

static enum weft_reason with_pool(uint32_t elements, uint32_t bytes, uint64_t address)
{
	const struct push_pool p = { .elements = elements,
				     .element_bytes = bytes,
				     .address = address };
	uint8_t entry[PUSH_POOL_BYTES];
	struct wr w = wr_of(entry, sizeof(entry));

	push_pool_put(&p, &w);
	return recoded(&(struct push_msg){ .function = PUSH_RECV_POOL, .pools = { 1, entry } });
}

TEST(test_push_15_a_pool_is_an_array_of_elements_in_memory)
{
	EXPECT_EQ(with_pool(1, 1, 0), WEFT_OK);
	EXPECT_EQ(with_pool(0, 256, 0), WEFT_R_PUSH_FORM);
	EXPECT_EQ(with_pool(256, 0, 0), WEFT_R_PUSH_FORM);
	EXPECT_EQ(with_pool(65536, 65535, 0), WEFT_OK);
	EXPECT_EQ(with_pool(65536, 65536, 0), WEFT_R_PUSH_FORM);
	EXPECT_EQ(with_pool(16, 16, UINT64_MAX - 256), WEFT_OK);
	EXPECT_EQ(with_pool(16, 16, UINT64_MAX - 255), WEFT_R_PUSH_FORM);
}

TEST(test_push_16_fields_that_no_sender_writes_are_refused)
{
	struct push_msg m = { .function = PUSH_RECV_POOL_GET, .get = { 0, 1 } };
	uint8_t run[PUSH_RUN_BYTES] = { 0 }, u[PUSH_USED_BYTES] = { [11] = 1, [15] = 1 };

	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_FORM);
	m.get = (struct push_get){ 1, 0 };
	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_FORM);
	m = (struct push_msg){ .function = PUSH_PULL, .pull = { 1, 1, 0 } };
	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_FORM);
	m.pull = (struct push_run){ 1, UINT32_MAX, 1 };
	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_FORM);
	m = (struct push_msg){ .function = PUSH_RECV_POOL_UPDATE, .runs = { 1, run } };
	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_FORM);
	m = (struct push_msg){ .function = PUSH_RDMA_INDICATE, .used = { 1, u } };
	EXPECT_EQ(recoded(&m), WEFT_OK);
	u[15] = 0;
	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_FORM);
	u[15] = 1;
	u[11] = 0;
	EXPECT_EQ(recoded(&m), WEFT_R_PUSH_FORM);
}

/* The byte of the fixture's encoding becomes another: then it is refused. */
static void expect_bad(int nth, size_t at, uint8_t value)
{
	const char *name;
	struct push_msg m = push_fixture(nth, &name), v = { 0 };
	uint8_t bytes[BYTES_MAX];
	size_t length = encode(&m, bytes);

	harness_note("%s, byte %zu = %u", name, at, value);
	bytes[at] = value;
	EXPECT_EQ(decode(bytes, length, &v), WEFT_R_PUSH_FORM);
}

TEST(test_push_09_contents_that_no_sender_writes_are_refused)
{
	enum { AT = 20, HELLO = 9, MAC, MTU, FILTER, OFFERS, LINK };
	static const struct {
		int nth;
		uint8_t at, value;
	} bad[] = {
		{ HELLO, 13, 99 }, /* no such kind */
		{ HELLO, 14, 1 },
		{ HELLO, AT, 0 },
		{ HELLO, AT, 3 },
		{ HELLO, AT + 1, 0 },
		{ HELLO, AT + 1, 3 },
		{ HELLO, AT + 2, 4 },
		{ HELLO, AT + 3, 1 },
		{ HELLO, AT + 4, 0x24 },
		{ HELLO, AT + 7, 0 },
		{ HELLO, AT + 8, 0 }, /* offload without the header */
		{ HELLO, AT + 15, 5 },
		{ HELLO, AT + 16, 1 },
		{ HELLO, AT + 22, 1 },
		{ HELLO, AT + 34, 7 },
		{ MAC, AT, 1 },
		{ MAC, AT + 7, 1 },
		{ MTU, AT, 0xff },
		{ MTU, AT + 2, 1 },
		{ FILTER, AT + 3, 16 },
		{ FILTER, AT + 5, 65 },
		{ FILTER, AT + 7, 65 },
		{ FILTER, AT + 9, 0 },
		{ FILTER, AT + 11, 0xff },
		{ FILTER, AT + 12, 0x32 },
		{ OFFERS, AT + 7, 4 }, /* no such feature */
		{ OFFERS, AT + 9, 0 },
		{ OFFERS, AT + 11, 1 },
		{ LINK, AT, 2 },
		{ LINK, AT + 1, 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_bad(bad[i].nth, bad[i].at, bad[i].value);
}

TEST(test_push_16_a_content_longer_than_its_kind_is_refused)
{
	static const uint8_t wire[24] = {
		0, PUSH_CFG_REQUEST, 0, PUSH_VERSION, [13] = PUSH_STATISTICS, [19] = 4
	};
	struct push_msg v = { 0 };

	EXPECT_EQ(decode(wire, sizeof(wire), &v), WEFT_R_PUSH_LENGTH);
}

TEST(test_push_20_immediate_data_is_8_8_16)
{
	const struct push_immediate example = { 7, 5, 256 }, largest = { 255, 255, 65536 };
	struct push_immediate i;

	EXPECT_EQ(push_immediate_encode(&example), 0x07050100);
	EXPECT_EQ(push_immediate_encode(&largest), 0xffff0000); /* AMB-31: 0 means 65536 */
	i = push_immediate_decode(0x07050100);
	EXPECT(i.pool == 7 && i.element == 5 && i.element_bytes == 256);
	i = push_immediate_decode(0xffff0000);
	EXPECT(i.pool == 255 && i.element == 255 && i.element_bytes == 65536);
	i = push_immediate_decode(0x00ff0001);
	EXPECT(i.pool == 0 && i.element == 255 && i.element_bytes == 1);
}
