/* SPDX-License-Identifier: BSD-2-Clause */
/* What one session can take of the target's memory and slots, and what it leaves to others. */
#include <string.h>

#include "target_fixture.h"

static struct rig r;
static uint8_t data[RIG_DISK_BYTES];

static struct client *start(const char *keys)
{
	struct client *k;

	rig_init(&r);
	rig_start(&r);
	k = client_login(&r, keys);
	client_ready(&r, k);
	return k;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void say_that_it_is_there(struct client *k)
{
	const struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT,
				     .is_immediate = true,
				     .is_final = true,
				     .itt = ISCSI_TAG_NONE,
				     .ttt = ISCSI_TAG_NONE,
				     .cmd_sn = k->cmd_sn };

	if (k->c)
		client_send(&r, k, &p, NULL);
}

enum { GREEDY = 6, EACH_MIB = 40, MIB_BLOCKS = (1 << 20) / RIG_BLOCK };

/* Sessions that together take nearly all of the memory, by commands of 1 MiB each. */
static void start_greedy(struct client *k[GREEDY], bool is_write)
{
	rig_init(&r);
	rig_start(&r);
	for (int i = 0; i < GREEDY; i++) {
		k[i] = client_login(&r, "ImmediateData=No MaxRecvDataSegmentLength=65536 ");
		client_ready(&r, k[i]);
		k[i]->is_stalled = !is_write;
	}
	for (int n = 0; n < EACH_MIB; n++)
		for (int i = 0; i < GREEDY; i++) {
			struct iscsi_pdu p = is_write ? client_write(k[i], 0, MIB_BLOCKS)
						      : client_read(k[i], 0, MIB_BLOCKS);

			client_send(&r, k[i], &p, NULL);
		}
}

/* One that needs more than they left; it is refused, once there is memory to look at it. */
static struct iscsi_pdu send_large(struct client *k)
{
	struct iscsi_pdu p = client_read(k, 0, ISCSI_TRANSFER_MAX / RIG_BLOCK / 2);

	client_send(&r, k, &p, NULL);
	REQUIRE(!client_has(k));
	return p;
}

/* Takes one byte of what the target has for the client. */
static void drip(struct client *k)
{
	struct span_list l;

	if (!k->c || iscsi_connection_action(k->c) != ISCSI_ACTION_NONE)
		return;
	iscsi_connection_have(k->c, r.now_ns, &l);
	if (l.length > 0)
		iscsi_connection_sent(k->c, r.now_ns, 1);
}

static void expect_taken_back(struct client *k[GREEDY], struct client *other,
			      const struct iscsi_pdu *p)
{
	int ended = 0;

	for (int i = 0; i < GREEDY; i++)
		ended += k[i]->c == NULL;
	EXPECT(ended > 0 && r.last.reason == WEFT_R_ISCSI_HOLDING);
	EXPECT_EQ(client_expect(other, ISCSI_SCSI_RESPONSE).itt, p->itt);
}

TEST(test_iscsi_memory_for_data_that_never_comes_is_taken_back_for_others)
{
	struct client *k[GREEDY], *other;
	struct iscsi_pdu p;
	int seconds = 0;

	start_greedy(k, true);
	other = client_login(&r, "");
	client_ready(&r, other);
	p = send_large(other);
	while (!client_has(other) && seconds++ < 1000) {
		rig_wait(&r, RIG_SECOND);
		for (int i = 0; i < GREEDY; i++)
			say_that_it_is_there(k[i]);
		say_that_it_is_there(other);
	}
	expect_taken_back(k, other, &p);
	rig_stop(&r);
}

TEST(test_iscsi_memory_of_data_that_is_taken_too_slowly_is_taken_back_for_others)
{
	struct client *k[GREEDY], *other;
	struct iscsi_pdu p;
	int seconds = 0;

	start_greedy(k, false);
	other = client_login(&r, "");
	client_ready(&r, other);
	p = send_large(other);
	while (!client_has(other) && seconds++ < 1000) {
		rig_wait(&r, RIG_SECOND);
		for (int i = 0; i < GREEDY; i++)
			drip(k[i]);
		say_that_it_is_there(other);
	}
	expect_taken_back(k, other, &p);
	rig_stop(&r);
}

/* Whatever one session holds, whose device hangs, others have memory at once. */
TEST(test_iscsi_memory_is_left_to_others)
{
	struct client *k, *other;
	struct iscsi_node_counts counts;
	struct iscsi_pdu p;

	rig_init(&r);
	r.delay_ns = 3600 * (uint64_t)RIG_SECOND;
	rig_start(&r);
	k = client_login(&r, "");
	for (int n = 0; n < EACH_MIB; n++) {
		p = client_read(k, 0, MIB_BLOCKS);
		client_send(&r, k, &p, NULL);
	}
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.memory_used, r.config.memory_bytes / 2);
	other = client_login(&r, "ImmediateData=No ");
	p = client_write(other, 0, MIB_BLOCKS);
	client_send(&r, other, &p, NULL);
	EXPECT_EQ(client_expect(other, ISCSI_R2T).itt, p.itt);
	rig_stop(&r);
}

/* A small one that would fit does not overtake a large one that waits for its session's share. */
TEST(test_iscsi_commands_wait_for_the_share_of_their_session_in_their_order)
{
	struct iscsi_node_counts counts;
	struct iscsi_pdu p;
	struct client *k = start("ImmediateData=No ");

	for (int n = 0; n < 6; n++) {
		p = client_write(k, 0, 3 * MIB_BLOCKS);
		client_send(&r, k, &p, NULL);
	}
	p = client_write(k, 0, 1);
	client_send(&r, k, &p, NULL);
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.memory_used, 15 << 20);
	rig_stop(&r);
}

/* What waits for its own session's memory goes on with what that gives back, in its order. */
TEST(test_iscsi_commands_above_the_share_of_memory_are_carried_out)
{
	enum { READS = 40 };
	struct client *k;
	struct iscsi_pdu p;
	uint32_t first = 0;

	rig_init(&r);
	r.delay_ns = 1000;
	rig_start(&r);
	k = client_login(&r, "MaxRecvDataSegmentLength=1048576 MaxBurstLength=1048576 ");
	client_ready(&r, k);
	for (int n = 0; n < READS; n++) {
		p = client_read(k, 0, MIB_BLOCKS);
		first = n == 0 ? p.itt : first;
		client_send(&r, k, &p, NULL);
	}
	for (int n = 0; n < READS; n++) {
		while (!client_has(k)) {
			k->in_bytes = k->in_at = 0;
			rig_wait(&r, 500);
		}
		EXPECT_EQ(client_expect(k, ISCSI_DATA_IN).itt, first + (uint32_t)n);
	}
	rig_stop(&r);
}

TEST(test_iscsi_memory_that_no_other_needs_may_be_held)
{
	struct client *k = start("ImmediateData=No ");
	struct iscsi_pdu p = client_write(k, 0, 16), r2t, d;

	client_send(&r, k, &p, NULL);
	r2t = client_expect(k, ISCSI_R2T);
	for (int i = 0; i < 1000; i++) {
		rig_wait(&r, RIG_SECOND);
		say_that_it_is_there(k);
	}
	d = client_data_out(&p, r2t.ttt, 0, 0, 8192);
	client_send(&r, k, &d, data);
	(void)client_status(k, &p, SCSI_GOOD);
	rig_stop(&r);
}

/* The one that wanted the memory has gone before its holders were to give it up. */
TEST(test_iscsi_memory_that_no_other_needs_any_more_may_be_held)
{
	struct client *k[GREEDY], *other;

	start_greedy(k, true);
	other = client_login(&r, "");
	client_ready(&r, other);
	(void)send_large(other);
	client_close(&r, other);
	for (int seconds = 0; seconds < 1000; seconds++) {
		rig_wait(&r, RIG_SECOND);
		for (int i = 0; i < GREEDY; i++)
			say_that_it_is_there(k[i]);
	}
	for (int i = 0; i < GREEDY; i++)
		EXPECT(k[i]->c != NULL);
	rig_stop(&r);
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static void send_immediate(struct client *k)
{
	struct iscsi_pdu p = client_write(k, 0, 1);

	p.is_immediate = true;
	k->cmd_sn--;
	client_send(&r, k, &p, NULL);
}

/* RFC 7143 section 4.2.2.1: of immediate requests a target need not take many, but one of each. */
TEST(test_rfc7143_4_2_2_1_immediate_commands_leave_slots_for_others)
{
	struct client *k = start("ImmediateData=No "), *other;
	struct iscsi_node_counts counts;
	struct iscsi_pdu p = { .opcode = ISCSI_TASK_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .code = ISCSI_QUERY_TASK_SET,
			       .itt = 0x1000000,
			       .ref_itt = ISCSI_TAG_NONE };

	for (uint32_t n = 0; n < r.config.tasks_max; n++)
		send_immediate(k);
	iscsi_node_counts(r.node, &counts);
	EXPECT(counts.tasks > 0 && counts.tasks < 32);
	for (uint32_t n = 0; n < r.config.tasks_max; n++) {
		if (n < counts.tasks)
			(void)client_expect(k, ISCSI_R2T);
		else
			client_reject(k, ISCSI_REJECT_IMMEDIATE);
	}
	p.cmd_sn = k->cmd_sn;
	client_send(&r, k, &p, NULL);
	EXPECT_EQ(client_expect(k, ISCSI_TASK_RESPONSE).itt, p.itt);
	other = client_login(&r, "");
	client_ready(&r, other);
	rig_stop(&r);
}
