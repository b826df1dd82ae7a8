/* SPDX-License-Identifier: BSD-2-Clause */
/* ISCSI-S3: the table is full when a command is carried out, under both error options. */
#include <string.h>

#include "live/iscsi/live_iscsi.h"

enum { TAGS = 8 };

static const struct weft_adapter_options small_table = { .tags_max = TAGS,
							 .translations_max = 1 << 16 };
static const struct weft_iscsi_terms no_immediate = { .is_immediate_off = true };

/* A write and reads in progress, until no entry is left: how many. */
static uint32_t fill_table(struct pair *p, uint32_t itts[TAGS])
{
	struct weft_usage usage;
	uint32_t count = 0;

	itts[count++] = pair_write(p, 0, 1, NULL);
	MUST(weft_adapter_query(p->c.adapter, &usage));
	while (usage.tags_free > 0) {
		REQUIRE(count < TAGS);
		itts[count] = pair_read(p, (size_t)count * 4096, 1, NULL);
		count++;
		MUST(weft_adapter_query(p->c.adapter, &usage));
	}
	return count;
}

/* Two commands at once: the first finds no entry, the second comes behind it. */
static void post_two(struct pair *p)
{
	const struct weft_sge sge = consumer_sge(&p->c, 0, 512);
	struct weft_iscsi_pdu pdus[2];
	struct weft_send_wr wrs[2];
	struct weft_completion c;

	for (int i = 0; i < 2; i++) {
		const struct iscsi_pdu read = read_pdu(&p->c, 0, 1);

		pdus[i] = wr_pdu(&read);
		wrs[i] = (struct weft_send_wr){ .id = 7000U + (uint32_t)i,
						.opcode = WEFT_OP_ISCSI_COMMAND,
						.flags = WEFT_SIGNALLED,
						.iscsi = &pdus[i],
						.sges = &sge,
						.sge_count = 1 };
	}
	MUST(weft_qp_post_send(p->c.qp, wrs, 2, NULL));
	c = node_next(p->c.sent);
	REQUIRE(c.id == 7000 && c.status == WEFT_ERR_REGISTER && c.reason == WEFT_R_TABLE_FULL);
	c = node_next(p->c.sent);
	REQUIRE(c.id == 7001 && c.status == WEFT_ERR_FLUSHED);
}

static enum weft_qp_state state_of(const struct consumer *c)
{
	struct weft_qp_attr attr;

	MUST(weft_qp_query(c->qp, &attr));
	return attr.state;
}

/*
 * ISCSI-01e: Send Queue Drained. Receives, R2Ts, Data-In and messages go on; so do commands in
 * progress; and after RTS the request may be tried again.
 */
TEST(test_iscsi_s3_iscsi_01e_live_full_table_reactive)
{
	const struct consumer_options drain = { .adapter = &small_table,
						.on_failure = WEFT_FAIL_DRAIN };
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	const struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN,
				       .is_final = true,
				       .itt = ISCSI_TAG_NONE,
				       .ttt = 3,
				       .stat_sn = 501 };
	uint32_t itts[TAGS], count;
	const struct said *said;
	struct pair p;

	pair_open(&p, &drain, &no_immediate);
	count = fill_table(&p, itts);
	post_two(&p);
	EXPECT_EQ(state_of(&p.c), WEFT_QPS_SQE);
	EXPECT_EQ(consumer_entries(&p.c), count);
	EXPECT_EQ(consumer_query(&p.c).commands_open, count);
	fill_pattern(18);
	memcpy(p.c.memory, pattern, 512);
	script_r2t(&p.s, itts[0], 0, 512);
	script_pdu(&p.s, &nop, NULL);
	script_data_in(&p.s, itts[1], 0, pattern + 1000, 512);
	said = script_take(&p.s, ISCSI_DATA_OUT);
	EXPECT_MEM(said->data, pattern, 512);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI, WEFT_OK);
	(void)expect_arrival(&p.c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	EXPECT_MEM(p.c.memory + 4096, pattern + 1000, 512);
	pair_finish(&p, itts[1]);
	MUST(weft_qp_modify(p.c.qp, &rts, WEFT_QP_STATE));
	itts[1] = pair_read(&p, 0, 1, NULL);
	for (uint32_t i = 0; i < count; i++)
		pair_finish(&p, itts[i]);
	EXPECT_EQ(consumer_entries(&p.c), 0);
	pair_close(&p);
}

/* ISCSI-01f: the stream ends; everything is flushed, and no entry is left by then. */
TEST(test_iscsi_s3_iscsi_01f_live_full_table_anticipatory)
{
	const struct consumer_options terminate = { .adapter = &small_table,
						    .on_failure = WEFT_FAIL_TERMINATE };
	uint32_t itts[TAGS], flushed = 0;
	struct weft_completion c;
	struct pair p;

	pair_open(&p, &terminate, &no_immediate);
	(void)fill_table(&p, itts);
	post_two(&p);
	EXPECT_EQ(state_of(&p.c), WEFT_QPS_ERROR);
	EXPECT_EQ(consumer_entries(&p.c), 0);
	EXPECT(!script_ended(&p.s));
	while (flushed < RECEIVES) {
		c = node_next(p.c.received);
		EXPECT_EQ(c.status, WEFT_ERR_FLUSHED);
		flushed++;
	}
	pair_close(&p);
}
