/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of sessions: each kind, what is refused, memory, discovery, and loss of the target. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "live/iscsi/session_fixture.h"

enum { MIB = 1 << 20, BLOCK = 512 };

static bool is_all(const uint8_t *bytes, size_t length, uint8_t value)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != value)
			return false;
	}
	return true;
}

static void zero_and_unmap(enum session_way way)
{
	uint8_t *memory = malloc(2 * MIB);
	struct weft_iscsi_session *s;
	struct unit u = { 0 };

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, way, NULL), NULL);
	memset(memory, 0xaa, 2 * MIB);
	EXPECT_EQ(move(s, WEFT_ISCSI_WRITE, MIB, memory, 2 * MIB), WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_WRITE_ZEROES, MIB, NULL, MIB), WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_UNMAP, 2 * MIB, NULL, MIB / 2), WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_FLUSH, 0, NULL, 0), WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_READ, MIB, memory, 2 * MIB), WEFT_OK);
	EXPECT(is_all(memory, MIB + MIB / 2, 0));
	EXPECT(is_all(memory + MIB + MIB / 2, MIB / 2, 0xaa));
	weft_iscsi_session_close(s);
	unit_close(&u);
	free(memory);
}

TEST(test_iscsi_session_zeroes_and_unmaps_by_tcp)
{
	zero_and_unmap(WAY_TCP);
}

TEST(test_iscsi_session_zeroes_and_unmaps_by_iser)
{
	zero_and_unmap(WAY_ROCE);
}

/* A CDB of the program's own: INQUIRY of another LUN; and one that the unit does not know. */
static void command_of_own(enum session_way way)
{
	uint8_t answer[64];
	const struct weft_sge sges[] = { { (uintptr_t)answer, 10, 0 },
					 { (uintptr_t)answer + 10, 26, 0 } };
	struct weft_iscsi_request r = { .operation = WEFT_ISCSI_COMMAND,
					.length = 36,
					.sges = sges,
					.sge_count = 2,
					.has_lun = true,
					.lun = 1,
					.cdb = { 0x12, 0, 0, 0, 36 } };
	char text[WEFT_ISCSI_TEXT_MAX];
	struct weft_iscsi_session *s;
	struct weft_iscsi_result e;
	struct unit u = { 0 };

	unit_open(&u, "lun 0 mem:1M\nlun 1 mem:1M\n");
	s = must_open(unit_url(&u, way, NULL), NULL);
	EXPECT_EQ(weft_iscsi_request_do(s, &r, &e), WEFT_OK);
	EXPECT_EQ(e.done_bytes, 36);
	EXPECT(memcmp(answer + 8, "weft    ", 8) == 0);
	r = (struct weft_iscsi_request){ .operation = WEFT_ISCSI_COMMAND, .cdb = { 0xc5 } };
	EXPECT_EQ(weft_iscsi_request_do(s, &r, &e), WEFT_R_ISCSI_STATUS);
	EXPECT_EQ(e.reason, WEFT_R_ISCSI_STATUS);
	EXPECT_EQ(e.status, 0x02);
	EXPECT_EQ(e.sense_key, 5);
	EXPECT_EQ(e.additional_code, 0x20);
	EXPECT(e.sense_bytes >= 18);
	weft_iscsi_result_text(&e, text);
	EXPECT_STR(text, "the unit refused it: CHECK CONDITION, ILLEGAL REQUEST, 20h/00h: the unit "
			 "does not know the command");
	weft_iscsi_session_close(s);
	unit_close(&u);
}

TEST(test_iscsi_session_commands_of_the_program_by_tcp)
{
	command_of_own(WAY_TCP);
}

TEST(test_iscsi_session_commands_of_the_program_by_iser)
{
	command_of_own(WAY_IWARP);
}

TEST(test_iscsi_session_refuses_what_cannot_be_asked)
{
	uint8_t memory[2 * BLOCK];
	const struct weft_sge short_one = { (uintptr_t)memory, 100, 0 };
	struct weft_iscsi_request r = {
		.operation = WEFT_ISCSI_READ, .length = BLOCK, .sges = &short_one, .sge_count = 1
	};
	struct weft_iscsi_session *s;
	struct unit u = { 0 };

	unit_open(&u, "lun 0 mem:1M\nlun 1 readonly mem:1M\n");
	s = must_open(unit_url(&u, WAY_TCP, NULL), NULL);
	EXPECT_EQ(move(s, WEFT_ISCSI_READ, 1, memory, BLOCK), WEFT_R_ISCSI_BLOCKS);
	EXPECT_EQ(move(s, WEFT_ISCSI_READ, 0, memory, 100), WEFT_R_ISCSI_BLOCKS);
	EXPECT_EQ(move(s, WEFT_ISCSI_READ, MIB, memory, BLOCK), WEFT_R_ISCSI_BLOCKS);
	EXPECT_EQ(move(s, WEFT_ISCSI_READ, MIB - BLOCK, memory, 2 * BLOCK), WEFT_R_ISCSI_BLOCKS);
	EXPECT_EQ(move(s, WEFT_ISCSI_READ, 0, memory, 0), WEFT_R_ISCSI_BLOCKS);
	EXPECT_EQ(weft_iscsi_request_do(s, &r, NULL), WEFT_R_BAD_ARGUMENT);
	r.sge_count = 65;
	EXPECT_EQ(weft_iscsi_request_do(s, &r, NULL), WEFT_R_LIMIT);
	r.sge_count = 1;
	r.reserved[0] = 1;
	EXPECT_EQ(weft_iscsi_request_do(s, &r, NULL), WEFT_R_RESERVED);
	r.reserved[0] = 0;
	r.operation = 99;
	EXPECT_EQ(weft_iscsi_request_submit(s, &r), WEFT_R_BAD_ARGUMENT);
	weft_iscsi_session_close(s);
	/* A unit that cannot forget. */
	s = must_open(unit_url(&u, WAY_TCP, "1"), NULL);
	EXPECT_EQ(move(s, WEFT_ISCSI_UNMAP, 0, NULL, BLOCK), WEFT_R_ISCSI_UNSUPPORTED);
	EXPECT_EQ(move(s, WEFT_ISCSI_WRITE, 0, memory, BLOCK), WEFT_R_ISCSI_STATUS);
	weft_iscsi_session_close(s);
	unit_close(&u);
}

/* Memory that was added has a tag; requests name parts of it, and nothing beyond. */
static void name_memory(enum session_way way)
{
	uint8_t *memory = calloc(4, BLOCK);
	struct weft_sge sge = { (uintptr_t)memory + BLOCK, 2 * BLOCK, 0 };
	struct weft_iscsi_request r = {
		.operation = WEFT_ISCSI_READ, .length = 2 * BLOCK, .sges = &sge, .sge_count = 1
	};
	struct weft_iscsi_session *s;
	struct unit u = { 0 };
	uint32_t tag;

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, way, NULL), NULL);
	memset(memory, 0x5b, 4 * BLOCK);
	EXPECT_EQ(weft_iscsi_memory_add(s, memory, 3 * BLOCK, &tag), WEFT_OK);
	sge.tag = tag;
	EXPECT_EQ(weft_iscsi_request_do(s, &r, NULL), WEFT_OK);
	EXPECT(is_all(memory, BLOCK, 0x5b) && is_all(memory + BLOCK, 2 * BLOCK, 0) &&
	       is_all(memory + 3 * BLOCK, BLOCK, 0x5b));
	sge.addr += BLOCK;
	EXPECT_EQ(weft_iscsi_request_do(s, &r, NULL), WEFT_R_RANGE_BOUNDS);
	EXPECT(is_all(memory + 3 * BLOCK, BLOCK, 0x5b));
	EXPECT_EQ(weft_iscsi_memory_remove(s, tag), WEFT_OK);
	EXPECT_EQ(weft_iscsi_memory_remove(s, tag), WEFT_R_BAD_ARGUMENT);
	sge.addr -= BLOCK;
	EXPECT(weft_iscsi_request_do(s, &r, NULL) != WEFT_OK);
	weft_iscsi_session_close(s);
	unit_close(&u);
	free(memory);
}

TEST(test_iscsi_session_memory_is_named_by_tcp)
{
	name_memory(WAY_TCP);
}

TEST(test_iscsi_session_memory_is_named_by_iser)
{
	name_memory(WAY_ROCE);
}

/* Discovery lists targets with their portals. */
TEST(test_iscsi_session_finds_targets)
{
	struct weft_iscsi_target found[4];
	struct unit u = { 0 };
	char url[64];
	uint32_t count;

	unit_open(&u, "lun 0 mem:1M\ntarget iqn.2026-11.org.example:other\nlun 0 mem:1M\n");
	snprintf(url, sizeof(url), "iscsi://127.0.0.1:%u", u.ports[WAY_TCP]);
	EXPECT_EQ(weft_iscsi_target_find(url, NULL, found, 4, &count), WEFT_OK);
	EXPECT_EQ(count, 2);
	EXPECT_STR(found[0].name, SESSION_TARGET);
	EXPECT_STR(found[1].name, "iqn.2026-11.org.example:other");
	EXPECT_STR(found[0].portal, url + strlen("iscsi://"));
	EXPECT_EQ(found[0].portal_group, 1);
	EXPECT_EQ(weft_iscsi_target_find(url, NULL, found, 1, &count), WEFT_OK);
	EXPECT_EQ(count, 2);
	unit_close(&u);
}

/* ---- A target that goes and comes ----------------------------------------------------------- */

/*
 * It begins anew: what was under way comes through. Of a disk in memory, a write that no flush had
 * covered is lost, which the next flush tells, once.
 */
static void restart(enum session_way way)
{
	uint8_t block[BLOCK] = { 1 };
	struct weft_iscsi_session *s;
	struct weft_iscsi_info i;
	struct unit u = { 0 };

	unit_open(&u, NULL);
	s = must_open(unit_url(&u, way, NULL), NULL);
	EXPECT_EQ(move(s, WEFT_ISCSI_WRITE, 0, block, BLOCK), WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_FLUSH, 0, NULL, 0), WEFT_OK);
	unit_stop(&u);
	unit_start(&u);
	EXPECT_EQ(move(s, WEFT_ISCSI_WRITE, BLOCK, block, BLOCK), WEFT_OK);
	EXPECT_EQ(weft_iscsi_session_query(s, &i), WEFT_OK);
	EXPECT_EQ(i.reconnects, 1);
	EXPECT_EQ(i.state, WEFT_ISCSI_CONNECTED);
	EXPECT(i.reason != WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_FLUSH, 0, NULL, 0), WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_WRITE, BLOCK, block, BLOCK), WEFT_OK);
	unit_stop(&u);
	unit_start(&u);
	EXPECT_EQ(move(s, WEFT_ISCSI_READ, BLOCK, block, BLOCK), WEFT_OK);
	EXPECT_EQ(move(s, WEFT_ISCSI_FLUSH, 0, NULL, 0), WEFT_R_ISCSI_WRITES_LOST);
	EXPECT_EQ(move(s, WEFT_ISCSI_FLUSH, 0, NULL, 0), WEFT_OK);
	weft_iscsi_session_close(s);
	unit_close(&u);
}

TEST(test_iscsi_session_survives_a_restart_by_tcp)
{
	restart(WAY_TCP);
}

TEST(test_iscsi_session_survives_a_restart_by_iser_on_roce)
{
	restart(WAY_ROCE);
}

TEST(test_iscsi_session_survives_a_restart_by_iser_on_iwarp)
{
	restart(WAY_IWARP);
}

/* Without retries it is over at once; with them, when their time is. */
TEST(test_iscsi_session_is_over_when_the_target_stays_away)
{
	const struct weft_iscsi_options options[] = {
		{ .retry_ns = WEFT_ISCSI_NO_RETRY },
		{ .retry_ns = 300 * 1000 * 1000 },
	};
	uint8_t block[BLOCK] = { 1 };
	struct weft_iscsi_result e;
	struct weft_iscsi_info i;
	struct unit u = { 0 };
	uint32_t count;

	unit_open(&u, NULL);
	for (int k = 0; k < 2; k++) {
		struct weft_iscsi_session *s = must_open(unit_url(&u, WAY_TCP, NULL), &options[k]);

		unit_stop(&u);
		EXPECT(move(s, WEFT_ISCSI_READ, 0, block, BLOCK) != WEFT_OK);
		EXPECT_EQ(weft_iscsi_request_wait(s, UINT64_MAX, &e, 1, &count),
			  WEFT_R_ISCSI_ENDED);
		EXPECT_EQ(weft_iscsi_session_query(s, &i), WEFT_OK);
		EXPECT_EQ(i.state, WEFT_ISCSI_CLOSED);
		EXPECT(i.reason != WEFT_OK);
		EXPECT_EQ(move(s, WEFT_ISCSI_READ, 0, block, BLOCK), WEFT_R_ISCSI_ENDED);
		weft_iscsi_session_close(s);
		unit_start(&u);
	}
	unit_close(&u);
}
