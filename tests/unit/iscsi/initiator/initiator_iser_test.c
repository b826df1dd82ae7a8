/* SPDX-License-Identifier: BSD-2-Clause */
/* The port of an initiator on iSER: messages, tags, and what a target must not send. */
#include "iscsi/initiator/initiator_iser.h"

#include "test.h"

enum { DEPTH = 4, TAG = 0x1234 };

struct wire {
	struct iser_port *port;
	uint8_t message[ISER_PORT_SEND_MAX];
	uint32_t length;
	struct iser_header header; /* of the message */
	struct iscsi_pdu pdu;
};

static void wire_open(struct wire *w, bool has_immediate)
{
	struct iscsi_params p;

	w->port = iser_port_create(DEPTH);
	REQUIRE(w->port);
	iscsi_params_init(&p);
	p.session.has_immediate_data = has_immediate;
	p.session.first_burst_bytes_max = 4096;
	p.connection.target_recv_bytes_max = 8192;
	p.session.peer_unexpected_max = 2;
	iser_port_calls()->agreed(w->port, &p);
}

static void send(struct wire *w, struct iscsi_request *r, uint32_t slot)
{
	uint8_t bhs[ISCSI_BHS_BYTES];
	struct wr to = wr_of(bhs, sizeof(bhs));
	const struct iscsi_pdu pdu = { .opcode = ISCSI_SCSI_COMMAND,
				       .is_final = true,
				       .is_read = r->direction == ISCSI_READ,
				       .is_write = r->direction == ISCSI_WRITE,
				       .expected_bytes = r->expected_bytes };
	const struct iscsi_port_command c = { .bhs = bhs, .request = r, .slot = slot };

	iscsi_encode(&pdu, &to);
	REQUIRE(iser_port_calls()->send_command(w->port, &c));
}

static struct iser_message next(struct wire *w)
{
	struct iser_message m;
	struct rd r;

	REQUIRE(iser_port_next(w->port, &m));
	w->length = iser_port_encode(w->port, m.needs_tag ? TAG + m.slot : 0, 0, w->message);
	r = rd_of(w->message, w->length);
	REQUIRE(iser_decode(&w->header, ISER_RFC7145, &r) == WEFT_OK);
	REQUIRE(iscsi_decode(&w->pdu, ISCSI_INITIATOR, r, ISCSI_DATA_MAX) == WEFT_OK);
	return m;
}

/* What the target says of the last command. */
static struct iscsi_received give(struct wire *w, uint8_t opcode, uint32_t itt,
				  uint32_t invalidated)
{
	const struct iscsi_pdu pdu = { .opcode = opcode,
				       .is_final = true,
				       .itt = itt,
				       .ttt = opcode == ISCSI_R2T ? 7 : ISCSI_TAG_NONE,
				       .desired_bytes = 512 };
	const struct iser_header h = { .kind = ISER_CONTROL };
	struct wr to = wr_of(w->message, sizeof(w->message));
	struct iscsi_received r;

	iser_encode(&h, ISER_RFC7145, &to);
	iscsi_encode(&pdu, &to);
	iser_port_take(w->port, w->message, (uint32_t)(to.at - w->message), invalidated, &r);
	return r;
}

TEST(test_iscsi_iser_port_names_memory_by_direction)
{
	struct iscsi_request in = { .direction = ISCSI_READ, .expected_bytes = 512 };
	struct iscsi_request out = { .direction = ISCSI_WRITE, .expected_bytes = 4097 };
	struct wire w;

	wire_open(&w, true);
	send(&w, &in, 1);
	send(&w, &out, 2);
	EXPECT(next(&w).needs_tag);
	EXPECT(w.header.has_read && !w.header.has_write && w.header.read_stag == TAG + 1);
	EXPECT(next(&w).needs_tag);
	EXPECT(w.header.has_write && !w.header.has_read && w.header.write_stag == TAG + 2);
	EXPECT_EQ(w.pdu.data_bytes, 0);
	iser_port_destroy(w.port);
}

/* What fits goes with the command, whole, and names no memory. */
TEST(test_iscsi_iser_port_sends_short_writes_at_once)
{
	struct iscsi_request out = { .direction = ISCSI_WRITE, .expected_bytes = 4096 };
	struct iser_message m;
	struct wire w;

	wire_open(&w, true);
	send(&w, &out, 0);
	m = next(&w);
	EXPECT(!m.needs_tag && m.immediate_bytes == 4096);
	EXPECT(!w.header.has_write && w.pdu.data_bytes == 4096);
	iser_port_destroy(w.port);
	wire_open(&w, false);
	send(&w, &out, 0);
	m = next(&w);
	EXPECT(m.needs_tag && m.immediate_bytes == 0 && w.header.has_write);
	iser_port_destroy(w.port);
}

/* RFC 7145 section 7.3: of a response only the command's own tag may be invalidated. */
TEST(test_iscsi_iser_port_checks_what_is_invalidated)
{
	struct iscsi_request in = { .direction = ISCSI_READ, .expected_bytes = 512 };
	struct iscsi_received r;
	struct wire w;
	uint32_t slot;

	wire_open(&w, false);
	send(&w, &in, 0);
	send(&w, &in, 3);
	(void)next(&w);
	(void)next(&w);
	r = give(&w, ISCSI_SCSI_RESPONSE, w.pdu.itt, TAG);
	EXPECT_EQ(r.reason, WEFT_R_ISER_INVALIDATED);
	EXPECT(!iser_port_over(w.port, &slot));
	EXPECT_EQ(give(&w, ISCSI_NOP_IN, ISCSI_TAG_NONE, TAG).reason, WEFT_R_ISER_INVALIDATED);
	r = give(&w, ISCSI_SCSI_RESPONSE, w.pdu.itt, TAG + 3);
	EXPECT(r.reason == WEFT_OK && r.has_slot && r.slot == 3);
	EXPECT(iser_port_over(w.port, &slot) && slot == 3);
	/* Again: it is of no command any more. */
	EXPECT(!give(&w, ISCSI_SCSI_RESPONSE, w.pdu.itt, 0).has_slot);
	iser_port_destroy(w.port);
}

/* Messages that are none: cut anywhere, or a Hello, which was not agreed upon. */
TEST(test_iscsi_iser_port_refuses_messages_that_are_none)
{
	const struct iser_header hello = { .kind = ISER_HELLO, .version_max = 10, .version = 10 };
	struct iscsi_received r;
	struct wire w;
	struct wr to;

	wire_open(&w, false);
	(void)give(&w, ISCSI_NOP_IN, ISCSI_TAG_NONE, 0);
	iser_port_take(w.port, w.message, ISER_HEADER_BYTES + ISCSI_BHS_BYTES - 1, 0, &r);
	EXPECT_EQ(r.reason, WEFT_R_ISCSI_SHORT);
	w.message[ISER_HEADER_BYTES + 7] = 4; /* DataSegmentLength */
	iser_port_take(w.port, w.message, ISER_HEADER_BYTES + ISCSI_BHS_BYTES, 0, &r);
	EXPECT_EQ(r.reason, WEFT_R_ISCSI_SHORT);
	to = wr_of(w.message, sizeof(w.message));
	iser_encode(&hello, ISER_RFC7145, &to);
	iser_port_take(w.port, w.message, ISER_HEADER_BYTES + ISCSI_BHS_BYTES, 0, &r);
	EXPECT_EQ(r.reason, WEFT_R_ISER_OPCODE);
	iser_port_destroy(w.port);
}

/* RDMA takes their place. */
TEST(test_iscsi_iser_port_takes_no_data_pdus)
{
	struct iscsi_request in = { .direction = ISCSI_READ, .expected_bytes = 512 };
	struct wire w;

	wire_open(&w, false);
	send(&w, &in, 0);
	(void)next(&w);
	EXPECT_EQ(give(&w, ISCSI_R2T, w.pdu.itt, 0).reason, WEFT_R_ISCSI_UNEXPECTED);
	iser_port_destroy(w.port);
}

/* MaxOutstandingUnexpectedPDUs of the target; an answer to a NOP-In is expected. */
TEST(test_iscsi_iser_port_keeps_to_the_unexpected_limit)
{
	const struct iscsi_pdu ping = { .opcode = ISCSI_NOP_OUT,
					.is_immediate = true,
					.is_final = true,
					.itt = 5,
					.ttt = ISCSI_TAG_NONE };
	struct iscsi_pdu answer = ping;
	uint8_t bhs[ISCSI_BHS_BYTES], other[ISCSI_BHS_BYTES];
	const struct iscsi_port_calls *calls = iser_port_calls();
	struct wr to = wr_of(bhs, sizeof(bhs));
	struct wire w;

	iscsi_encode(&ping, &to);
	answer.itt = ISCSI_TAG_NONE;
	answer.ttt = 9;
	to = wr_of(other, sizeof(other));
	iscsi_encode(&answer, &to);
	wire_open(&w, false);
	EXPECT(calls->send_control(w.port, bhs, NULL, 0));
	EXPECT(calls->send_control(w.port, bhs, NULL, 0));
	EXPECT(!calls->send_control(w.port, bhs, NULL, 0));
	EXPECT(calls->send_control(w.port, other, NULL, 0));
	(void)next(&w);
	EXPECT_EQ(give(&w, ISCSI_NOP_IN, 5, 0).reason, WEFT_OK);
	EXPECT(calls->send_control(w.port, bhs, NULL, 0));
	iser_port_destroy(w.port);
}

/* A command whose memory cannot be named is not sent, nor are those behind it. */
TEST(test_iscsi_iser_port_gives_back_what_was_not_sent)
{
	struct iscsi_request in = { .direction = ISCSI_READ, .expected_bytes = 512 };
	struct iser_message m;
	struct wire w;
	uint32_t slot;

	wire_open(&w, false);
	send(&w, &in, 2);
	send(&w, &in, 0);
	EXPECT(iser_port_next(w.port, &m) && m.slot == 2);
	iser_port_refuse(w.port);
	EXPECT(!iser_port_next(w.port, &m));
	EXPECT(iser_port_unsent(w.port, &slot) && slot == 2);
	EXPECT(iser_port_unsent(w.port, &slot) && slot == 0);
	EXPECT(!iser_port_unsent(w.port, &slot));
	iser_port_destroy(w.port);
}
