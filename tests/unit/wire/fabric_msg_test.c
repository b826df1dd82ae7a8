/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs and the process of a fabric say to each other (docs/wire/fabric.md). */
#include "test.h"

#include <string.h>

#include "wire/fabric_msg.h"

static struct fabric_msg sample(enum fabric_msg_kind kind)
{
	struct fabric_msg m = { .kind = kind, .reason = WEFT_R_FABRIC_NODE, .value = 77 };

	switch (kind) {
	case FABRIC_MSG_IS_PORT:
		m.port.node = 3;
		m.port.port = 2;
		m.port.is_manager = true;
		m.port.node_info = (struct sm_node_info){
			.node_type = SM_NODE_CA, .ports = 2, .node_guid = 0x1234, .pkeys = 32
		};
		memcpy(m.port.description.text, "h3", 2);
		m.port.port_info = (struct sm_port_info){
			.lid = 9, .state = SM_PORT_ACTIVE, .capabilities = 2, .mtu = 5
		};
		m.port.guids.guids[0] = 0x1235;
		m.port.pkeys.pkeys[1] = 0x8001;
		break;
	case FABRIC_MSG_IS_PART:
		m.part = (struct fabric_msg_part){ "main", "desk", "192.0.2.7", true };
		break;
	case FABRIC_MSG_AGENT:
		m.agent = (struct fabric_msg_agent){ .mgmt_class = 0x30,
						     .class_version = 1,
						     .rmpp_version = 1,
						     .oui = { 0, 0x14, 5 },
						     .methods = { 2, 0, 0, 1u << 31 } };
		break;
	case FABRIC_MSG_SEND:
	case FABRIC_MSG_RECEIVED:
		m.mad = (struct fabric_msg_mad){ .agent = 5,
						 .error = 110,
						 .timeout_ms = 100,
						 .retries = 3,
						 .length = 256,
						 .lid = 17,
						 .pkey_index = 1,
						 .qpn = 1,
						 .q_key = 0x80010000,
						 .level = 2,
						 .path_bits = 1,
						 .has_grh = true,
						 .gid_index = 1,
						 .hop_limit = 64,
						 .traffic_class = 4,
						 .flow_label = 0xabcde,
						 .gid = { 0xfe, 0x80 } };
		break;
	case FABRIC_MSG_ANSWER:
	case FABRIC_MSG_AGENT_REMOVE:
	case FABRIC_MSG_FRAME:
		break;
	default:
		m.where = (struct fabric_msg_where){ .node = "h3", .port = 1 };
	}
	return m;
}

static bool may_have_tail(enum fabric_msg_kind kind)
{
	return kind == FABRIC_MSG_SEND || kind == FABRIC_MSG_RECEIVED || kind == FABRIC_MSG_FRAME;
}

TEST(test_fab_22a_every_message_comes_as_it_was_said)
{
	for (int kind = FABRIC_MSG_ANSWER; kind < FABRIC_MSG_KINDS; kind++) {
		struct fabric_msg m = sample((enum fabric_msg_kind)kind), v;
		uint8_t bytes[FABRIC_MSG_BYTES_MAX], again[FABRIC_MSG_BYTES_MAX];
		uint32_t length = fabric_msg_encode(&m, bytes);
		size_t used;

		memset(&v, 0xa5, sizeof(v));
		EXPECT_EQ(fabric_msg_decode(&v, bytes, length, &used), WEFT_OK);
		EXPECT_EQ(used, length);
		EXPECT_EQ(v.kind, kind);
		EXPECT_EQ(v.reason, WEFT_R_FABRIC_NODE);
		EXPECT_EQ(v.value, 77);
		EXPECT_EQ(fabric_msg_encode(&v, again), length);
		EXPECT_MEM(again, bytes, length);
	}
}

/* Spot checks, so that what is lost on both ways is seen. */
TEST(test_fab_22a_fields_of_messages_survive)
{
	uint8_t bytes[FABRIC_MSG_BYTES_MAX];
	struct fabric_msg m = sample(FABRIC_MSG_IS_PORT), v;
	size_t used;

	MUST(fabric_msg_decode(&v, bytes, fabric_msg_encode(&m, bytes), &used));
	EXPECT_EQ(v.port.port_info.lid, 9);
	EXPECT_EQ(v.port.node_info.node_guid, 0x1234);
	EXPECT_EQ(v.port.guids.guids[0], 0x1235);
	EXPECT_EQ(v.port.pkeys.pkeys[1], 0x8001);
	EXPECT(v.port.is_manager);
	m = sample(FABRIC_MSG_SEND);
	MUST(fabric_msg_decode(&v, bytes, fabric_msg_encode(&m, bytes), &used));
	EXPECT_EQ(v.mad.flow_label, 0xabcde);
	EXPECT_EQ(v.mad.q_key, 0x80010000);
	EXPECT_EQ(v.mad.length, 256);
	m = sample(FABRIC_MSG_CUT);
	MUST(fabric_msg_decode(&v, bytes, fabric_msg_encode(&m, bytes), &used));
	EXPECT_STR(v.where.node, "h3");
}

/* Of another version, of no kind, cut, too long, or with a name that has no end. */
TEST(test_fab_22a_messages_that_no_program_of_weft_sends_are_refused)
{
	enum { NAME_END = 16 + 4 + FABRIC_MSG_NAME - 1 };

	for (int kind = FABRIC_MSG_ANSWER; kind < FABRIC_MSG_KINDS; kind++) {
		struct fabric_msg m = sample((enum fabric_msg_kind)kind), v = { .value = 5 };
		uint8_t bytes[FABRIC_MSG_BYTES_MAX + 1] = { 0 };
		uint32_t length = fabric_msg_encode(&m, bytes);
		size_t used;

		for (uint32_t n = 0; n < length; n++)
			EXPECT_EQ(fabric_msg_decode(&v, bytes, n, &used), WEFT_R_FABRIC_ASK);
		EXPECT_EQ(fabric_msg_decode(&v, bytes, length + 1, &used),
			  may_have_tail(m.kind) ? WEFT_OK : WEFT_R_FABRIC_ASK);
		bytes[0]++;
		EXPECT_EQ(fabric_msg_decode(&v, bytes, length, &used), WEFT_R_FABRIC_ASK);
		bytes[0]--;
		bytes[1] = 0;
		EXPECT_EQ(fabric_msg_decode(&v, bytes, length, &used), WEFT_R_FABRIC_ASK);
		bytes[1] = FABRIC_MSG_KINDS;
		EXPECT_EQ(fabric_msg_decode(&v, bytes, length, &used), WEFT_R_FABRIC_ASK);
		bytes[1] = (uint8_t)kind;
		memset(bytes + 4, 0xff, 4);
		EXPECT_EQ(fabric_msg_decode(&v, bytes, length, &used), WEFT_R_FABRIC_ASK);
		if (m.where.node[0] != 'h')
			continue;
		length = fabric_msg_encode(&m, bytes);
		bytes[NAME_END] = 'x';
		EXPECT_EQ(fabric_msg_decode(&v, bytes, length, &used), WEFT_R_FABRIC_ASK);
	}
}
