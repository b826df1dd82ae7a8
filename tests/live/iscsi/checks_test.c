/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target that is wrong, by TCP: each check of ISCSI-05 and ISCSI-01i as its consumer meets it
 * (ISCSI-S2). Nothing is moved, and the connection works as ever.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "live/iscsi/live_iscsi.h"
#include "wire/trace_file.h"

static const struct weft_iscsi_terms no_immediate = { .is_immediate_off = true };

/* ---- ISCSI-05 ------------------------------------------------------------------------------- */

static uint8_t before[DATA_BYTES];

static void note(const struct pair *p)
{
	memcpy(before, p->c.memory, DATA_BYTES);
}

/* All of the PDU is in the receive, and memory is as it was. */
static void expect_refused_data(struct pair *p, enum weft_reason reason, uint32_t length)
{
	struct arrival a = expect_arrival(&p->c, WEFT_OP_RECV_ISCSI, reason);

	REQUIRE(a.pdu.opcode == ISCSI_DATA_IN && a.completion.command_id == 0);
	MUST_EQ(a.completion.byte_count, ISCSI_BHS_BYTES + length);
	REQUIRE(length == 0 || memcmp(a.data, pattern, length) == 0);
	REQUIRE(memcmp(before, p->c.memory, DATA_BYTES) == 0);
}

static void expect_refused_r2t(struct pair *p, enum weft_reason reason)
{
	struct arrival a = expect_arrival(&p->c, WEFT_OP_RECV_ISCSI, reason);

	REQUIRE(a.pdu.opcode == ISCSI_R2T && a.completion.command_id == 0);
	MUST_EQ(a.completion.byte_count, ISCSI_BHS_BYTES);
}

/* Data-In and R2T of this tag fail the check; nothing answers the R2T, see expect_goes_on(). */
static void expect_both_refused(struct pair *p, uint32_t itt, enum weft_reason reason)
{
	uint64_t refused = consumer_query(&p->c).refused;

	fill_pattern(itt);
	note(p);
	script_data_in(&p->s, itt, 0, pattern, 100);
	script_r2t(&p->s, itt, 0, 100);
	expect_refused_data(p, reason, 100);
	expect_refused_r2t(p, reason);
	MUST_EQ(consumer_query(&p->c).refused, refused + 2);
}

TEST(test_iscsi_05a_iscsi_s2_live_entry_that_is_not_valid)
{
	struct pair p;
	uint32_t itt;

	pair_open(&p, NULL, NULL);
	itt = pair_read(&p, 0, 1, NULL);
	pair_finish(&p, itt);
	expect_both_refused(&p, itt, WEFT_R_ISCSI_ENTRY_INVALID);
	expect_both_refused(&p, 0xfffffe00, WEFT_R_ISCSI_ENTRY_INVALID);
	expect_both_refused(&p, 5, WEFT_R_ISCSI_ENTRY_INVALID);
	expect_goes_on(&p);
	pair_close(&p);
}

TEST(test_iscsi_05b_iscsi_s2_live_entry_of_a_region)
{
	struct pair p;

	pair_open(&p, NULL, NULL);
	expect_both_refused(&p, p.c.tag, WEFT_R_ISCSI_ENTRY_TYPE);
	expect_goes_on(&p);
	pair_close(&p);
}

/* Two connections of one adapter, in a domain each: neither target reaches the other's command. */
TEST(test_iscsi_05c_iscsi_s2_live_entry_of_another_domain)
{
	struct consumer_options beside = { 0 };
	struct pair p, other;
	uint32_t itt;

	pair_open(&p, NULL, NULL);
	beside.beside = p.c.adapter;
	pair_open(&other, &beside, NULL);
	itt = pair_read(&other, 0, 1, NULL);
	expect_both_refused(&p, itt, WEFT_R_ISCSI_ENTRY_PD);
	pair_finish(&other, itt);
	expect_goes_on(&p);
	pair_close(&other);
	pair_close(&p);
}

TEST(test_iscsi_05d_iscsi_s2_live_stale_instance)
{
	struct pair p;
	uint32_t itt;

	pair_open(&p, NULL, NULL);
	itt = pair_read(&p, 0, 1, NULL);
	expect_both_refused(&p, itt ^ 1, WEFT_R_ISCSI_ENTRY_INSTANCE);
	expect_both_refused(&p, itt ^ 0x80, WEFT_R_ISCSI_ENTRY_INSTANCE);
	pair_finish(&p, itt);
	expect_goes_on(&p);
	pair_close(&p);
}

/* MEM-12: offsets count from the first byte of the command's memory, wherever that lies. */
TEST(test_iscsi_05e_iscsi_s2_mem_12_live_beyond_the_memory)
{
	static const struct {
		uint32_t offset, length;
	} cases[] = { { 0, 513 }, { 512, 1 }, { 511, 2 }, { 0xfffffff0, 15 }, { 1024, 64 } };
	struct pair p;
	uint32_t read, write;

	pair_open(&p, NULL, &no_immediate);
	read = pair_read(&p, 4096, 1, NULL);
	write = pair_write(&p, 8192, 1, NULL);
	fill_pattern(9);
	note(&p);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		script_data_in(&p.s, read, cases[i].offset, pattern, cases[i].length);
		script_r2t(&p.s, write, cases[i].offset, cases[i].length);
		expect_refused_data(&p, WEFT_R_ISCSI_ENTRY_RANGE, cases[i].length);
		expect_refused_r2t(&p, WEFT_R_ISCSI_ENTRY_RANGE);
	}
	script_data_in(&p.s, read, 511, pattern, 1);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	EXPECT_EQ(p.c.memory[4096 + 511], pattern[0]);
	p.c.memory[4096 + 511] = before[4096 + 511];
	EXPECT_MEM(p.c.memory, before, DATA_BYTES);
	pair_finish(&p, read);
	pair_finish(&p, write);
	pair_close(&p);
}

TEST(test_iscsi_05f_iscsi_03_iscsi_s2_live_data_the_wrong_way)
{
	struct iscsi_pdu ready = { .opcode = ISCSI_SCSI_COMMAND, .is_final = true, .cmd_sn = 9 };
	uint32_t read, write, none;
	struct pair p;

	pair_open(&p, NULL, &no_immediate);
	read = pair_read(&p, 0, 1, NULL);
	write = pair_write(&p, 4096, 1, NULL);
	(void)consumer_command(&p.c, &ready, 0);
	expect_sent_well(&p.c);
	none = script_take(&p.s, ISCSI_SCSI_COMMAND)->pdu.itt;
	fill_pattern(10);
	note(&p);
	script_data_in(&p.s, write, 0, pattern, 512);
	script_r2t(&p.s, read, 0, 512);
	script_data_in(&p.s, none, 0, pattern, 0);
	expect_refused_data(&p, WEFT_R_ISCSI_ENTRY_RIGHT, 512);
	expect_refused_r2t(&p, WEFT_R_ISCSI_ENTRY_RIGHT);
	expect_refused_data(&p, WEFT_R_ISCSI_ENTRY_RIGHT, 0);
	pair_finish(&p, none);
	pair_finish(&p, write);
	pair_finish(&p, read);
	pair_close(&p);
}

/* Two connections in one domain: the address field tells whose command it is. */
TEST(test_iscsi_05g_iscsi_s2_live_not_the_command_of_this_queue_pair)
{
	struct consumer_options options = { 0 };
	struct pair p, other;
	uint32_t read, write;

	pair_open(&p, NULL, NULL);
	options.beside = p.c.adapter;
	options.domain = &p.c;
	pair_open(&other, &options, &no_immediate);
	read = pair_read(&other, 0, 1, NULL);
	write = pair_write(&other, 4096, 1, NULL);
	fill_pattern(12);
	note(&p);
	script_data_in(&p.s, read, 0, pattern, 100);
	script_r2t(&p.s, write, 0, 100);
	expect_refused_data(&p, WEFT_R_ISCSI_ENTRY_COMMAND, 100);
	expect_refused_r2t(&p, WEFT_R_ISCSI_ENTRY_COMMAND);
	EXPECT_EQ(other.c.memory[0], 0);
	pair_finish(&other, read);
	pair_finish(&other, write);
	expect_goes_on(&p);
	pair_close(&other);
	pair_close(&p);
}

/* ---- ISCSI-01i ------------------------------------------------------------------------------ */

/* The Response was dropped and counted; what comes behind it tells that it was seen. */
static void expect_dropped(struct pair *p, uint64_t dropped)
{
	const struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN,
				       .is_final = true,
				       .itt = ISCSI_TAG_NONE,
				       .ttt = 3,
				       .stat_sn = p->s.stat_sn };

	script_pdu(&p->s, &nop, NULL);
	REQUIRE(expect_arrival(&p->c, WEFT_OP_RECV_ISCSI, WEFT_OK).pdu.opcode == ISCSI_NOP_IN);
	MUST_EQ(consumer_query(&p->c).dropped, dropped);
	MUST_EQ(consumer_query(&p->c).responses, 0);
	MUST_EQ(consumer_query(&p->c).commands_open, 1);
}

TEST(test_iscsi_01i_iscsi_01k_iscsi_s2_live_responses_that_are_dropped)
{
	struct consumer_options options = { 0 };
	struct pair p, other;
	uint32_t itt, foreign;

	pair_open(&p, NULL, NULL);
	options.beside = p.c.adapter;
	options.domain = &p.c;
	pair_open(&other, &options, NULL);
	itt = pair_read(&p, 0, 1, NULL);
	foreign = pair_read(&other, 0, 1, NULL);
	script_response(&p.s, itt ^ 1); /* a stale instance */
	p.s.stat_sn--;
	expect_dropped(&p, 1);
	script_response(&p.s, 5); /* no entry */
	p.s.stat_sn--;
	expect_dropped(&p, 2);
	script_response(&p.s, p.c.tag); /* a region */
	p.s.stat_sn--;
	expect_dropped(&p, 3);
	script_response(&p.s, foreign); /* another connection's */
	p.s.stat_sn--;
	expect_dropped(&p, 4);
	p.s.stat_sn++; /* not the next */
	script_response(&p.s, itt);
	p.s.stat_sn -= 2;
	expect_dropped(&p, 5);
	EXPECT_EQ(consumer_entries(&p.c), 2);
	pair_finish(&p, itt);
	pair_finish(&other, foreign);
	pair_close(&other);
	pair_close(&p);
}

/* Events of a kind with this tag, in a trace file: their reason; WEFT_OK: there is none. */
static enum weft_reason traced(const char *path, enum trace_kind kind, uint32_t tag)
{
	uint8_t bytes[TRACE_FILE_RECORD_BYTES];
	enum weft_reason found = WEFT_OK;
	struct trace_file_record record;
	FILE *f = fopen(path, "rb");

	REQUIRE(f && fseek(f, TRACE_FILE_HEAD_BYTES, SEEK_SET) == 0);
	while (fread(bytes, sizeof(bytes), 1, f) == 1) {
		struct rd r = rd_of(bytes, sizeof(bytes));

		REQUIRE(trace_file_record_decode(&record, &r));
		if (record.event.kind == kind &&
		    (kind == TRACE_REFUSED ? record.event.b : record.event.a) == tag)
			found = (enum weft_reason)record.event.reason;
	}
	REQUIRE(fclose(f) == 0);
	return found;
}

/* A trace names what was refused, and what was dropped, each with its reason. */
TEST(test_iscsi_05d_iscsi_01k_live_refusals_are_traced)
{
	char path[] = "/tmp/live_iscsi_XXXXXX";
	int fd = mkstemp(path);
	struct pair p;
	uint32_t itt;

	REQUIRE(fd >= 0 && close(fd) == 0 && unlink(path) == 0);
	REQUIRE(setenv("WEFT_TRACE", path, 1) == 0);
	pair_open(&p, NULL, NULL);
	itt = pair_read(&p, 0, 1, NULL);
	fill_pattern(13);
	note(&p);
	script_data_in(&p.s, itt ^ 1, 0, pattern, 100);
	expect_refused_data(&p, WEFT_R_ISCSI_ENTRY_INSTANCE, 100);
	script_response(&p.s, itt ^ 2);
	p.s.stat_sn--;
	expect_dropped(&p, 1);
	pair_finish(&p, itt);
	pair_close(&p);
	unsetenv("WEFT_TRACE");
	EXPECT_EQ(traced(path, TRACE_REFUSED, itt ^ 1), WEFT_R_ISCSI_ENTRY_INSTANCE);
	EXPECT_EQ(traced(path, TRACE_RESPONSE_DROPPED, itt ^ 2), WEFT_R_ISCSI_ENTRY_INSTANCE);
	EXPECT_EQ(traced(path, TRACE_RESPONSE_DROPPED, itt), WEFT_OK);
	unlink(path);
}

/* AMB-19: as data it is good, as a Response it is not. */
TEST(test_iscsi_07_iscsi_01i_live_status_in_data_in_with_a_wrong_stat_sn)
{
	struct iscsi_pdu in = {
		.opcode = ISCSI_DATA_IN, .is_final = true, .has_status = true, .data_bytes = 512
	};
	struct arrival a;
	struct pair p;

	pair_open(&p, NULL, NULL);
	fill_pattern(11);
	in.itt = pair_read(&p, 0, 1, NULL);
	in.stat_sn = p.s.stat_sn + 1;
	script_pdu(&p.s, &in, pattern);
	a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_R_ISCSI_STAT_SN);
	EXPECT(!a.completion.has_invalidated);
	EXPECT_MEM(p.c.memory, pattern, 512);
	EXPECT_EQ(consumer_query(&p.c).dropped, 1);
	in.stat_sn = p.s.stat_sn++;
	script_pdu(&p.s, &in, pattern + 512);
	a = expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	EXPECT(a.completion.has_invalidated && a.completion.invalidated_tag == in.itt);
	EXPECT_MEM(p.c.memory, pattern + 512, 512);
	EXPECT_EQ(consumer_entries(&p.c), 0);
	pair_close(&p);
}
