/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in cells, which are lost, damaged, or come in another order. */
#include "test.h"

#include <string.h>

#include "push/cells.h"

enum { DATA_MAX = 65536, CELLS_MAX = 256 };

static uint8_t data[DATA_MAX], memory[DATA_MAX];
static uint8_t cells[CELLS_MAX][PUSH_CELL_BYTES_MAX];
static size_t lengths[CELLS_MAX];

/* Cuts a packet; the number of its cells. */
static uint32_t cut(uint32_t number, uint32_t bytes)
{
	const struct push_cell of = { .packet = number,
				      .packet_bytes = bytes,
				      .is_write = true,
				      .has_immediate = true,
				      .address = 0x1000,
				      .handle = 7,
				      .immediate = 0x07050100 };
	struct push_cut c;
	uint32_t count = 0;

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(i * 7 + number);
	MUST(push_cut_begin(&c, &of, data, true));
	for (struct wr w;; count++) {
		w = wr_of(cells[count], PUSH_CELL_BYTES_MAX);
		if (!push_cut_next(&c, &w))
			return count;
		REQUIRE(!w.is_short);
		lengths[count] = (size_t)(w.at - cells[count]);
	}
}

/* A cell arrives; true: the packet is whole, in memory. */
static bool arrive(struct push_join *j, uint32_t nth, enum weft_reason *reason)
{
	struct push_place place = { 0 };
	struct push_cell c;

	*reason = push_cell_decode(&c, cells[nth], lengths[nth]);
	if (*reason == WEFT_OK)
		*reason = push_join_take(j, &c, &place);
	if (*reason != WEFT_OK)
		return false;
	REQUIRE(place.offset + place.length <= DATA_MAX);
	REQUIRE(place.first->address == 0x1000 && place.first->handle == 7);
	memcpy(memory + place.offset, c.data, place.length);
	REQUIRE(place.is_whole == place.has_immediate);
	REQUIRE(!place.has_immediate || place.immediate == 0x07050100);
	return place.is_whole;
}

TEST(test_push_s6_payloads_of_256_257_and_many_cells_arrive)
{
	static const uint32_t sizes[] = { 14, 255, 256, 257, 512, 1514, 9018, 65535, 65536 };
	struct push_join j = { 0 };
	enum weft_reason reason;

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t count = cut(i, sizes[i]);

		EXPECT_EQ(count, (sizes[i] + 255) / 256);
		for (uint32_t nth = 0; nth < count; nth++) {
			EXPECT_EQ(arrive(&j, nth, &reason), nth == count - 1);
			EXPECT_EQ(reason, WEFT_OK);
		}
		EXPECT_MEM(memory, data, sizes[i]);
	}
	EXPECT_EQ(j.lost, 0);
}

/* The packet is lost, the next one comes. */
TEST(test_push_s6_a_lost_middle_cell_loses_its_packet_alone)
{
	struct push_join j = { 0 };
	enum weft_reason reason;

	for (uint32_t lost = 0; lost < 6; lost++) {
		bool is_whole = false;

		cut(lost, 1500);
		for (uint32_t nth = 0; nth < 6; nth++) {
			if (nth == lost)
				continue;
			is_whole = arrive(&j, nth, &reason) || is_whole;
			EXPECT_EQ(reason, nth < lost ? WEFT_OK : WEFT_R_PUSH_CELL_LOST);
		}
		EXPECT(!is_whole);
		cut(100 + lost, 300);
		EXPECT(!arrive(&j, 0, &reason));
		EXPECT(arrive(&j, 1, &reason));
		EXPECT_MEM(memory, data, 300);
	}
	EXPECT_EQ(j.lost, 5); /* of the packet without its first cell nothing was there to lose */
}

TEST(test_push_s6_a_corrupt_middle_cell_loses_its_packet_alone)
{
	struct push_join j = { 0 };
	enum weft_reason reason;

	cut(1, 1500);
	cells[3][100] ^= 1;
	for (uint32_t nth = 0; nth < 6; nth++) {
		EXPECT(!arrive(&j, nth, &reason));
		EXPECT_EQ(reason, nth < 3    ? WEFT_OK
				  : nth == 3 ? WEFT_R_PUSH_CELL_CRC
					     : WEFT_R_PUSH_CELL_LOST);
	}
	EXPECT_EQ(j.lost, 1);
	cut(2, 1500);
	for (uint32_t nth = 0; nth < 6; nth++)
		EXPECT_EQ(arrive(&j, nth, &reason), nth == 5);
	EXPECT_MEM(memory, data, 1500);
}

/* Cells of two packets do not mix, and none counts twice. */
TEST(test_push_13_cells_belong_to_one_packet_in_order)
{
	struct push_join j = { 0 };
	enum weft_reason reason;

	cut(1, 600);
	EXPECT(!arrive(&j, 0, &reason));
	EXPECT(!arrive(&j, 2, &reason));
	EXPECT_EQ(reason, WEFT_R_PUSH_CELL_LOST);
	EXPECT(!arrive(&j, 1, &reason)); /* too late */
	EXPECT_EQ(reason, WEFT_R_PUSH_CELL_LOST);
	EXPECT(!arrive(&j, 0, &reason));
	EXPECT(!arrive(&j, 1, &reason));
	EXPECT(!arrive(&j, 1, &reason));
	EXPECT_EQ(reason, WEFT_R_PUSH_CELL_LOST);
	EXPECT(!arrive(&j, 0, &reason));
	cut(2, 600);
	EXPECT(!arrive(&j, 1, &reason));
	EXPECT_EQ(reason, WEFT_R_PUSH_CELL_LOST);
	/* The same number, but of another length. */
	EXPECT(!arrive(&j, 0, &reason));
	cut(2, 700);
	EXPECT(!arrive(&j, 1, &reason));
	EXPECT_EQ(reason, WEFT_R_PUSH_CELL);
	EXPECT_EQ(j.lost, 4);
}

/* All cells of a packet say the same of it; the one in the middle does not. */
TEST(test_push_13_push_11_a_cell_of_another_sort_or_channel_loses_its_packet)
{
	enum { BYTES = 600, WAYS = 5 };

	for (int way = 0; way < WAYS; way++) {
		struct push_cell of = { .packet = 1, .packet_bytes = BYTES, .is_write = true };
		struct push_join j = { 0 };
		struct push_place place;
		struct push_cell c;
		uint8_t bytes[PUSH_CELL_BYTES_MAX];
		enum weft_reason reason;
		struct push_cut cells_of;

		MUST(push_cut_begin(&cells_of, &of, data, true));
		for (int cell = 0; cell < 2; cell++) {
			struct wr w = wr_of(bytes, sizeof(bytes));

			if (cell == 1 && way == 0)
				cells_of.next.is_write = false;
			if (cell == 1 && way == 1)
				cells_of.next.to.qpn = 1;
			if (cell == 1 && way == 2)
				cells_of.next.from.qpn = 1;
			if (cell == 1 && way == 3)
				cells_of.next.from.mac[5] = 1;
			REQUIRE(push_cut_next(&cells_of, &w));
			MUST(push_cell_decode(&c, bytes, (size_t)(w.at - bytes)));
			reason = push_join_take(&j, &c, &place);
			if (cell == 0)
				MUST(reason);
		}
		harness_note("way %d", way);
		EXPECT_EQ(reason, way < WAYS - 1 ? WEFT_R_PUSH_CELL : WEFT_OK);
		EXPECT_EQ(j.lost, way < WAYS - 1 ? 1 : 0);
	}
}

/* PUSH-13: a cell that is damaged, and whose own CRC is right again, is found by the packet's. */
TEST(test_push_13_the_packet_crc_covers_all_cells)
{
	struct push_join j = { 0 };
	struct push_place place;
	struct push_cell c;
	uint8_t other[PUSH_CELL_DATA];

	cut(1, 600);
	for (uint32_t nth = 0; nth < 3; nth++) {
		MUST(push_cell_decode(&c, cells[nth], lengths[nth]));
		if (nth == 1) {
			memcpy(other, c.data, sizeof(other));
			other[9] ^= 4;
			c.data = other;
		}
		EXPECT_EQ(push_join_take(&j, &c, &place),
			  nth < 2 ? WEFT_OK : WEFT_R_PUSH_PACKET_CRC);
	}
	EXPECT_EQ(j.lost, 1);
}

TEST(test_ud_03_connectionless_packets_are_of_one_cell)
{
	struct push_cell of = { .packet_bytes = 256 };
	struct push_cut c;

	EXPECT_EQ(push_cut_begin(&c, &of, data, false), WEFT_OK);
	of.packet_bytes = 257;
	EXPECT_EQ(push_cut_begin(&c, &of, data, false), WEFT_R_PUSH_SINGLE_CELL);
	EXPECT_EQ(push_cut_begin(&c, &of, data, true), WEFT_OK);
}
