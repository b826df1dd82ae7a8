/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/trace_file.h"

#include <string.h>

#include "test.h"

TEST(test_trace_file_head_is_read_back)
{
	uint8_t bytes[TRACE_FILE_HEAD_BYTES];
	struct trace_file_head head;
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd r;

	trace_file_head_encode(0x01020304, &w);
	EXPECT(!w.is_short && w.at == w.end);
	r = rd_of(bytes, sizeof(bytes));
	EXPECT(trace_file_head_decode(&head, &r));
	EXPECT(r.at == r.end);
	EXPECT_EQ(head.version, TRACE_FILE_VERSION);
	EXPECT_EQ(head.record_bytes, TRACE_FILE_RECORD_BYTES);
	EXPECT_EQ(head.pid, 0x01020304);
}

static bool is_head(const uint8_t *bytes, size_t length)
{
	struct trace_file_head head;
	struct rd r = rd_of(bytes, length);

	return trace_file_head_decode(&head, &r);
}

/* Any byte of the mark, any length that is too short, records that cannot be. */
TEST(test_trace_file_head_of_another_kind_is_refused)
{
	uint8_t bytes[TRACE_FILE_HEAD_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));

	trace_file_head_encode(1, &w);
	for (size_t i = 0; i < 16; i++) {
		bytes[i] ^= 0x20;
		EXPECT(!is_head(bytes, sizeof(bytes)));
		bytes[i] ^= 0x20;
	}
	for (size_t i = 0; i < sizeof(bytes); i++)
		EXPECT(!is_head(bytes, i));
	bytes[18] = 0;
	bytes[19] = TRACE_FILE_RECORD_BYTES - 1;
	EXPECT(!is_head(bytes, sizeof(bytes)));
	bytes[18] = 1;
	bytes[19] = 1;
	EXPECT(!is_head(bytes, sizeof(bytes)));
	bytes[19] = 0;
	EXPECT(is_head(bytes, sizeof(bytes)));
}

TEST(test_trace_file_record_is_read_back)
{
	const struct trace_file_record given = {
		.adapter = 0x11121314,
		.event = { .time_ns = 0x0102030405060708,
			   .a = 0x2122232425262728,
			   .b = 0x3132333435363738,
			   .who = 0x41424344,
			   .kind = 0x5152,
			   .reason = 0x6162 },
	};
	uint8_t bytes[TRACE_FILE_RECORD_BYTES];
	struct trace_file_record read = { 0 };
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd r = rd_of(bytes, sizeof(bytes) - 1);

	trace_file_record_encode(&given, &w);
	EXPECT(!w.is_short && w.at == w.end);
	EXPECT(!trace_file_record_decode(&read, &r));
	EXPECT_EQ(read.adapter, 0);
	r = rd_of(bytes, sizeof(bytes));
	EXPECT(trace_file_record_decode(&read, &r));
	EXPECT_EQ(read.adapter, given.adapter);
	EXPECT_EQ(read.event.time_ns, given.event.time_ns);
	EXPECT_EQ(read.event.a, given.event.a);
	EXPECT_EQ(read.event.b, given.event.b);
	EXPECT_EQ(read.event.who, given.event.who);
	EXPECT_EQ(read.event.kind, given.event.kind);
	EXPECT_EQ(read.event.reason, given.event.reason);
}
