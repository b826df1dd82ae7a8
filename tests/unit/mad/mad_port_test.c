/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents, and requests with their answers (IBA 13.4). */
#include "test.h"

#include <string.h>

#include "unit/mad/mad_bed.h"

static const struct mad get = { .mgmt_class = MAD_SUBNET_ADMIN,
				.class_version = 2,
				.method = MAD_GET,
				.tid = UINT64_C(0xabcdef0012345678),
				.attribute = 0x11 };

/* The answer to a request that has come, sent by the agent that got it. */
static void answer(struct mad_bed *b, const struct mad_message *request)
{
	struct mad m;

	MUST(mad_decode(&m, request->bytes, MAD_BYTES));
	m.method |= MAD_RESPONSE;
	MUST(bed_send(b, 1, request->agent, &m, MAD_BYTES));
}

/* IBA 13.4.6.3: the answer has the transaction id of the request. */
TEST(test_sys_01_an_answer_goes_to_the_agent_that_asked)
{
	struct mad_bed b;
	uint32_t first, second, server;
	struct mad_message *m;
	struct mad asked;

	bed_open(&b, 1);
	first = bed_agent(&b, 0, 0);
	second = bed_agent(&b, 0, 0);
	server = bed_agent(&b, 1, MAD_GET);
	/* The same low half: the port's half of the id tells them apart. */
	MUST(bed_send(&b, 0, first, &get, MAD_BYTES));
	MUST(bed_send(&b, 0, second, &get, MAD_BYTES));
	bed_move(&b);
	for (int i = 0; i < 2; i++) {
		m = bed_take(&b, 1);
		MUST_EQ(m->agent, server);
		MUST(mad_decode(&asked, m->bytes, MAD_BYTES));
		MUST_EQ((uint32_t)asked.tid, (uint32_t)get.tid);
		answer(&b, m);
		mad_message_free(m);
	}
	bed_move(&b);
	m = bed_take(&b, 0);
	EXPECT_EQ(m->agent, first);
	EXPECT_EQ(m->is_timed_out, false);
	mad_message_free(m);
	m = bed_take(&b, 0);
	EXPECT_EQ(m->agent, second);
	mad_message_free(m);
	EXPECT_EQ(mad_due(b.port[0]), UINT64_MAX);
	EXPECT_EQ(mad_send_count(b.port[0]), 0);
	bed_close(&b);
}

/* As rdma-core's library has it: the request comes back as a status, with the id that it had. */
TEST(test_sys_01_a_request_without_an_answer_comes_back_after_its_retries)
{
	struct mad_bed b;
	uint32_t agent;
	struct mad_message *m;
	struct mad header;

	bed_open(&b, 2);
	agent = bed_agent(&b, 0, 0);
	b.lost_of_100 = 100;
	MUST(bed_send(&b, 0, agent, &get, MAD_BYTES));
	bed_run(&b, 2);
	EXPECT(!mad_take(b.port[0]));
	bed_run(&b, 10);
	EXPECT_EQ(b.sent, 3);
	EXPECT_EQ(b.now_ns, UINT64_C(3000000001));
	m = bed_take(&b, 0);
	EXPECT(m->is_timed_out);
	EXPECT_EQ(m->agent, agent);
	EXPECT_EQ(m->owner, BED_PROGRAM);
	EXPECT_EQ(m->length, MAD_HEADER_BYTES);
	EXPECT_EQ(m->address.lid, BED_LID + 1);
	memset(&header, 0, sizeof(header));
	{
		uint8_t whole[MAD_BYTES] = { 0 };

		memcpy(whole, m->bytes, MAD_HEADER_BYTES);
		MUST(mad_decode(&header, whole, MAD_BYTES));
	}
	EXPECT_EQ(header.tid, get.tid);
	mad_message_free(m);
	EXPECT_EQ(mad_send_count(b.port[0]), 0);
	bed_close(&b);
}

/* A late answer, or a second one, is of no use to an agent that has gone on. */
TEST(test_sys_01_an_answer_that_nobody_waits_for_is_dropped)
{
	struct mad_bed b;
	uint32_t agent;
	struct mad late = get;

	bed_open(&b, 3);
	agent = bed_agent(&b, 1, 0);
	(void)bed_agent(&b, 0, 0);
	late.method |= MAD_RESPONSE;
	late.tid = UINT64_C(1) << 32 | 5; /* the first agent's */
	MUST(bed_send(&b, 1, agent, &late, MAD_BYTES));
	bed_move(&b);
	EXPECT_EQ(b.refused, 1);
	EXPECT(!mad_take(b.port[0]));
	bed_close(&b);
}

TEST(test_sys_01_requests_go_by_class_version_and_method)
{
	struct mad_bed b;
	struct mad_agent_attr a = { .owner = 1, .mgmt_class = MAD_SUBNET_LID, .class_version = 1 };
	struct mad m = get;
	uint32_t lid, admin, sender;
	struct mad_message *got;

	bed_open(&b, 4);
	sender = bed_agent(&b, 0, 0);
	admin = bed_agent(&b, 1, MAD_GET);
	a.methods[0] = 1 << MAD_GET;
	MUST(mad_agent_add(b.port[1], &a, &lid));
	MUST(bed_send(&b, 0, sender, &m, MAD_BYTES));
	m.mgmt_class = MAD_SUBNET_LID;
	m.class_version = 1;
	MUST(bed_send(&b, 0, sender, &m, MAD_BYTES));
	m.class_version = 2;
	m.tid++;
	MUST(bed_send(&b, 0, sender, &m, MAD_BYTES));
	m.class_version = 1;
	m.method = MAD_SET;
	m.tid++;
	MUST(bed_send(&b, 0, sender, &m, MAD_BYTES));
	bed_move(&b);
	got = bed_take(&b, 1);
	EXPECT_EQ(got->agent, admin);
	mad_message_free(got);
	got = bed_take(&b, 1);
	EXPECT_EQ(got->agent, lid);
	mad_message_free(got);
	EXPECT(!mad_take(b.port[1]));
	EXPECT_EQ(b.refused, 2);
	bed_close(&b);
}

/* IBA 16.5: vendors share the classes from 0x30 on, and are told apart by their OUI. */
TEST(test_sys_01_classes_of_vendors_are_told_apart_by_the_oui)
{
	struct mad_bed b;
	struct mad_agent_attr a = { .owner = 1,
				    .mgmt_class = 0x32,
				    .class_version = 1,
				    .oui = { 0, 0x14, 5 },
				    .methods = { 1 << MAD_GET } };
	struct mad m = get;
	uint32_t one, two, sender;
	struct mad_message *got;
	uint8_t bytes[MAD_BYTES] = { 0 };
	struct mad_request r = { .bytes = bytes, .length = MAD_BYTES };

	bed_open(&b, 5);
	sender = bed_agent(&b, 0, 0);
	MUST(mad_agent_add(b.port[1], &a, &one));
	a.oui[2] = 6;
	MUST(mad_agent_add(b.port[1], &a, &two));
	m.mgmt_class = 0x32;
	m.class_version = 1;
	mad_encode(&m, bytes);
	bytes[38] = 0x14;
	bytes[39] = 6;
	r.agent = sender;
	MUST(mad_send(b.port[0], &r));
	bed_move(&b);
	got = bed_take(&b, 1);
	EXPECT_EQ(got->agent, two);
	mad_message_free(got);
	bed_close(&b);
}

TEST(test_sys_01_a_method_has_one_agent)
{
	struct mad_bed b;
	struct mad_agent_attr a = { .mgmt_class = MAD_SUBNET_ADMIN,
				    .class_version = 2,
				    .methods = { 1 << MAD_GET | 1 << MAD_SET } };
	uint32_t agent;

	bed_open(&b, 6);
	agent = bed_agent(&b, 0, MAD_SET);
	EXPECT_EQ(mad_agent_add(b.port[0], &a, &agent), WEFT_R_MAD_METHOD_TAKEN);
	mad_agent_remove(b.port[0], agent);
	EXPECT_EQ(mad_agent_add(b.port[0], &a, &agent), WEFT_OK);
	a.class_version = 8;
	EXPECT_EQ(mad_agent_add(b.port[0], &a, &agent), WEFT_R_MAD_AGENT);
	bed_close(&b);
}

TEST(test_sys_01_a_port_has_room_for_so_many_agents)
{
	struct mad_bed b;
	struct mad_agent_attr a = { .owner = BED_PROGRAM };
	uint32_t first, agent;

	bed_open(&b, 9);
	MUST(mad_agent_add(b.port[0], &a, &first));
	for (uint32_t i = 1; i < MAD_AGENTS_MAX; i++)
		MUST(mad_agent_add(b.port[0], &a, &agent));
	EXPECT_EQ(mad_agent_add(b.port[0], &a, &agent), WEFT_R_MAD_AGENT);
	mad_agent_remove(b.port[0], first);
	EXPECT_EQ(mad_agent_add(b.port[0], &a, &agent), WEFT_OK);
	EXPECT_EQ(agent, first);
	bed_close(&b);
}

TEST(test_sys_01_what_cannot_be_sent_is_refused)
{
	struct mad_bed b;
	uint32_t agent;
	struct mad m = get;

	bed_open(&b, 7);
	agent = bed_agent(&b, 0, 0);
	EXPECT_EQ(bed_send(&b, 0, agent + 1, &m, MAD_BYTES), WEFT_R_MAD_AGENT);
	EXPECT_EQ(bed_send(&b, 0, agent, &m, MAD_MESSAGE_MIN - 1), WEFT_R_MAD_LENGTH);
	MUST(bed_send(&b, 0, agent, &m, MAD_MESSAGE_MIN));
	EXPECT_EQ(bed_send(&b, 0, agent, &m, MAD_BYTES), WEFT_R_MAD_TID);
	m.mgmt_class = MAD_PERFORMANCE; /* has no segments */
	EXPECT_EQ(bed_send(&b, 0, agent, &m, MAD_BYTES + 1), WEFT_R_MAD_LENGTH);
	for (uint32_t i = 1; i < MAD_SENDS_MAX; i++) {
		m.tid++;
		m.method = MAD_GET_RESPONSE;
		MUST(bed_send(&b, 0, agent, &m, MAD_BYTES));
	}
	EXPECT_EQ(bed_send(&b, 0, agent, &m, MAD_BYTES), WEFT_R_MAD_BUSY);
	bed_close(&b);
}

/* A program that has died leaves neither requests nor messages of its own behind. */
TEST(test_sys_01_all_of_an_owner_goes_with_it)
{
	struct mad_bed b;
	uint32_t agent, server;

	bed_open(&b, 8);
	agent = bed_agent(&b, 0, 0);
	server = bed_agent(&b, 1, MAD_GET);
	MUST(bed_send(&b, 0, agent, &get, MAD_BYTES));
	bed_move(&b);
	mad_owner_remove(b.port[0], BED_PROGRAM);
	mad_owner_remove(b.port[1], BED_PROGRAM);
	EXPECT_EQ(mad_send_count(b.port[0]), 0);
	EXPECT_EQ(mad_due(b.port[0]), UINT64_MAX);
	EXPECT(!mad_take(b.port[1]));
	EXPECT_EQ(bed_send(&b, 1, server, &get, MAD_BYTES), WEFT_R_MAD_AGENT);
	bed_close(&b);
}
