/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target's datamover of iSER: initiators that send messages and lend memory, sound or not. The
 * queue pair is a list of what the target posted; a test says when that is done, and how.
 */
#include <stdlib.h>
#include <string.h>

#include "iscsi/target/target_iser.h"
#include "target_fixture.h"

enum { ENDS = 2, WORK_MAX = 64, MEMORY = 64 << 10, TAG = 0x1234, ITT_AT = 16 };

static const uint64_t base = UINT64_C(0x7f0000001000);

/* An initiator, and the target's end of its connection. */
struct end {
	struct iscsi_connection *c; /* NULL: closed by the target */
	uint32_t cmd_sn, exp_stat_sn, itt;
	bool is_idle;	  /* nothing is posted */
	bool is_slow;	  /* posted work stays until work_done() */
	bool can_read;	  /* the target may have a Read under way */
	uint8_t *message; /* of the last Send */
	uint32_t message_bytes;
	uint32_t sends, reads, writes;
	bool is_in_order; /* the tags of its Sends went up */
	uint32_t sent_itt;
	struct iser_work work[WORK_MAX];
	uint8_t messages[WORK_MAX][ISER_ANSWER_MAX];
	uint32_t posted;
	uint8_t memory[MEMORY];
	char answer[2048]; /* to the login */
	uint32_t answer_bytes;
};

static struct rig r;
static struct end ends[ENDS];
static int end_count;

/* ---- The queue pair ------------------------------------------------------------------------- */

static void work_do(struct end *e, const struct iser_work *w)
{
	uint64_t at = w->remote_addr - base;

	if (w->kind != ISER_SEND) {
		REQUIRE(w->remote_tag == TAG);
		REQUIRE(at <= MEMORY && w->memory.length <= MEMORY - at);
	}
	if (w->kind == ISER_WRITE)
		memcpy(e->memory + at, w->memory.bytes, w->memory.length);
	else if (w->kind == ISER_READ)
		memcpy(w->memory.bytes, e->memory + at, w->memory.length);
}

static void work_done(struct end *e, enum weft_reason reason)
{
	struct iser_work w = e->work[0];

	REQUIRE(e->posted > 0);
	if (reason == WEFT_OK)
		work_do(e, &w);
	if (w.kind == ISER_SEND) {
		struct rd itt = rd_of(e->messages[0] + ISER_HEADER_BYTES + ITT_AT, 4);
		uint32_t sent_itt = rd_u32(&itt);

		e->is_in_order &= sent_itt > e->sent_itt;
		e->sent_itt = sent_itt;
		memcpy(e->message, e->messages[0], w.length);
		e->message_bytes = w.length;
	}
	e->posted--;
	memmove(e->work, e->work + 1, e->posted * sizeof(w));
	memmove(e->messages[0], e->messages[1], (size_t)e->posted * ISER_ANSWER_MAX);
	iscsi_iser_done(e->c, w.id, reason, r.now_ns);
}

static bool work_take(struct end *e)
{
	struct iser_work *w = &e->work[e->posted];
	struct iser_room room = { .message = e->messages[e->posted], .can_read = e->can_read };

	if (e->is_idle || e->posted == WORK_MAX || !iscsi_iser_next(e->c, &room, w))
		return false;
	e->sends += w->kind == ISER_SEND;
	e->reads += w->kind == ISER_READ;
	e->writes += w->kind == ISER_WRITE;
	e->posted++;
	return true;
}

static void attend(struct end *e)
{
	while (e->c && (work_take(e) || (!e->is_slow && e->posted > 0))) {
		while (!e->is_slow && e->posted > 0)
			work_done(e, WEFT_OK);
	}
	if (iscsi_connection_action(e->c) != ISCSI_ACTION_NONE && e->posted == 0) {
		iscsi_connection_destroy(e->c, r.now_ns);
		e->c = NULL;
	}
}

static void run(void)
{
	struct iscsi_connection *c;

	do {
		iscsi_node_run(r.node, r.now_ns);
		c = iscsi_node_attend(r.node);
		if (c)
			attend(iscsi_connection_owner(c));
	} while (c);
}

/* ---- Messages ------------------------------------------------------------------------------- */

/* A message of an iSER header, a PDU, and so many bytes of data. */
static void deliver(struct end *e, const struct iser_header *h, const struct iscsi_pdu *p,
		    const void *data, uint32_t data_bytes)
{
	uint8_t bytes[ISER_MESSAGE_MAX] = { 0 };
	struct wr w = wr_of(bytes, sizeof(bytes));

	iser_encode(h, ISER_RFC7145, &w);
	if (p)
		iscsi_encode(p, &w);
	if (data)
		wr_bytes(&w, data, data_bytes);
	iscsi_iser_received(e->c, bytes, (uint32_t)(w.at - bytes), r.now_ns);
	run();
}

static void send_plain(struct end *e, const struct iscsi_pdu *p, const void *data)
{
	const struct iser_header h = { .kind = ISER_CONTROL };

	deliver(e, &h, p, data, data ? p->data_bytes : 0);
}

/* What the target last sent. */
static struct iscsi_pdu last(struct end *e, uint8_t opcode)
{
	struct rd at = rd_of(e->message, e->message_bytes);
	struct iser_header h;
	struct iscsi_pdu p;

	REQUIRE(e->message_bytes > 0);
	REQUIRE(iser_decode(&h, ISER_RFC7145, &at) == WEFT_OK && h.kind == ISER_CONTROL);
	REQUIRE(iscsi_decode(&p, ISCSI_TARGET, rd_of(at.at, ISCSI_BHS_BYTES), ISCSI_DATA_MAX) ==
		WEFT_OK);
	REQUIRE(p.opcode == opcode);
	e->message_bytes = 0;
	if (p.opcode != ISCSI_NOP_IN || p.itt != ISCSI_TAG_NONE)
		e->exp_stat_sn = p.stat_sn + 1;
	return p;
}

static struct iscsi_pdu command(struct end *e, uint8_t opcode, uint32_t lba, uint32_t blocks)
{
	struct iscsi_pdu p = { .opcode = ISCSI_SCSI_COMMAND,
			       .is_final = true,
			       .attr = ISCSI_ATTR_SIMPLE,
			       .itt = ++e->itt,
			       .is_read = opcode == 0x28,
			       .is_write = opcode == 0x2a,
			       .expected_bytes = blocks * RIG_BLOCK,
			       .cmd_sn = e->cmd_sn++,
			       .exp_stat_sn = e->exp_stat_sn };

	p.cdb[0] = opcode;
	p.cdb[5] = (uint8_t)lba;
	p.cdb[8] = (uint8_t)blocks;
	return p;
}

/* Where the initiator lends memory for it: at an offset. */
static struct iser_header lend(const struct iscsi_pdu *p, uint32_t offset)
{
	return (struct iser_header){ .kind = ISER_CONTROL,
				     .has_write = p->is_write,
				     .has_read = p->is_read,
				     .write_stag = p->is_write ? TAG : 0,
				     .read_stag = p->is_read ? TAG : 0,
				     .write_to = p->is_write ? base + offset : 0,
				     .read_to = p->is_read ? base + offset : 0 };
}

static struct end *connect_end(void)
{
	struct end *e = &ends[end_count++];
	struct iscsi_accept a = { .peer = "10.0.0.1:5000", .local = "10.0.0.2:3260", .owner = e };

	*e = (struct end){ .can_read = true,
			   .is_in_order = true,
			   .cmd_sn = 100,
			   .message = malloc(ISER_ANSWER_MAX) };
	REQUIRE(iscsi_node_accept_iser(r.node, &a, r.now_ns, &e->c) == WEFT_OK);
	return e;
}

static struct iscsi_pdu ask_to_log_in(struct end *e, const char *keys)
{
	static const char text[] = "InitiatorName=" RIG_INITIATOR "\0TargetName=" RIG_TARGET "\0";
	struct iscsi_pdu p = { .opcode = ISCSI_LOGIN_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .csg = ISCSI_STAGE_OPERATIONAL,
			       .nsg = ISCSI_STAGE_FULL_FEATURE,
			       .isid = 0x400000000001 + (uint64_t)(e - ends),
			       .itt = ++e->itt,
			       .cmd_sn = e->cmd_sn };
	uint8_t bytes[512];
	uint32_t length = sizeof(text) - 1;

	memcpy(bytes, text, length);
	for (const char *at = keys; *at; at++)
		bytes[length++] = *at == ' ' ? '\0' : (uint8_t)*at;
	p.data_bytes = length;
	send_plain(e, &p, bytes);
	e->answer_bytes = e->message_bytes - ISER_HEADER_BYTES - ISCSI_BHS_BYTES;
	memcpy(e->answer, e->message + ISER_HEADER_BYTES + ISCSI_BHS_BYTES, e->answer_bytes);
	return last(e, ISCSI_LOGIN_RESPONSE);
}

/* Logged in, with the unit attention of a new session taken. */
static struct end *login(const char *keys)
{
	struct end *e = connect_end();
	struct iscsi_pdu p = ask_to_log_in(e, keys);

	REQUIRE(p.status_class == 0 && p.is_final && p.nsg == ISCSI_STAGE_FULL_FEATURE);
	p = command(e, 0x00, 0, 0);
	send_plain(e, &p, NULL);
	p = last(e, ISCSI_SCSI_RESPONSE);
	REQUIRE(p.status == SCSI_CHECK_CONDITION);
	return e;
}

static void rig_begin(void)
{
	rig_init(&r);
	rig_start(&r);
	end_count = 0;
}

static struct end *start(void)
{
	rig_begin();
	return login("RDMAExtensions=Yes ");
}

static void stop(void)
{
	for (int i = 0; i < end_count; i++) {
		struct end *e = &ends[i];

		if (e->c)
			iscsi_connection_eof(e->c, r.now_ns);
		while (e->posted > 0)
			work_done(e, WEFT_R_PEER_GONE);
		run();
		REQUIRE(e->c == NULL);
		free(e->message);
	}
	rig_stop(&r);
}

/* The connection is closed for this reason; another session does not notice. */
static void expect_end(struct end *e, enum weft_reason reason)
{
	struct end *other;
	struct iscsi_pdu p;
	struct iser_header h;

	REQUIRE(e->c == NULL);
	REQUIRE(r.last.kind == ISCSI_NOTE_END);
	EXPECT_EQ(r.last.reason, reason);
	other = login("RDMAExtensions=Yes ");
	p = command(other, 0x28, 0, 1);
	h = lend(&p, 0);
	deliver(other, &h, &p, NULL, 0);
	EXPECT_EQ(last(other, ISCSI_SCSI_RESPONSE).status, SCSI_GOOD);
	stop();
}

/* ---- What initiators do --------------------------------------------------------------------- */

TEST(test_rfc7145_7_data_goes_by_write_and_read_where_the_initiator_said)
{
	struct end *e = start();
	struct iscsi_pdu p = command(e, 0x28, 3, 4);
	struct iser_header h = lend(&p, 4096);

	deliver(e, &h, &p, NULL, 0);
	EXPECT_EQ(last(e, ISCSI_SCSI_RESPONSE).status, SCSI_GOOD);
	EXPECT(e->writes == 1 && memcmp(e->memory + 4096, r.disk[0] + 3 * RIG_BLOCK, 2048) == 0);
	p = command(e, 0x2a, 8, 2);
	h = lend(&p, 100);
	memset(e->memory, 0xa5, MEMORY);
	deliver(e, &h, &p, NULL, 0);
	EXPECT_EQ(last(e, ISCSI_SCSI_RESPONSE).status, SCSI_GOOD);
	EXPECT(e->reads == 1 && memcmp(r.disk[0] + 8 * RIG_BLOCK, e->memory, 1024) == 0);
	stop();
}

/* Of a login's answer. */
static bool has_pair(const struct end *e, const char *pair)
{
	return memmem(e->answer, e->answer_bytes, pair, strlen(pair) + 1) != NULL;
}

TEST(test_iser_no_data_comes_unasked_whatever_the_initiator_wishes)
{
	static const char *const keys[] = { "RDMAExtensions=Yes ",
					    "RDMAExtensions=Yes ImmediateData=Yes InitialR2T=No ",
					    "ImmediateData=Yes InitialR2T=No RDMAExtensions=Yes " };
	uint8_t data[512] = { 0 };

	for (int i = 0; i < 3; i++) {
		struct end *e;
		struct iscsi_pdu p;
		struct iser_header h;

		rig_begin();
		e = login(keys[i]);
		EXPECT(has_pair(e, "ImmediateData=No"));
		EXPECT(i == 0 || has_pair(e, "InitialR2T=Yes"));
		p = command(e, 0x2a, 0, 1);
		p.data_bytes = sizeof(data);
		h = lend(&p, 0);
		deliver(e, &h, &p, data, sizeof(data));
		EXPECT_EQ(last(e, ISCSI_SCSI_RESPONSE).status, SCSI_CHECK_CONDITION);
		EXPECT(e->reads == 0 && e->c != NULL);
		stop();
	}
}

TEST(test_iser_a_message_with_part_of_its_data_ends_the_connection)
{
	struct end *e = start();
	struct iscsi_pdu p = command(e, 0x2a, 0, 2);
	struct iser_header h = lend(&p, 0);

	p.data_bytes = 1024;
	deliver(e, &h, &p, e->memory, 512);
	expect_end(e, WEFT_R_ISCSI_SHORT);
}

TEST(test_iser_a_message_without_the_data_of_its_text_ends_the_connection)
{
	struct end *e = start();
	const struct iscsi_pdu p = { .opcode = ISCSI_TEXT_REQUEST,
				     .is_final = true,
				     .itt = 77,
				     .ttt = ISCSI_TAG_NONE,
				     .cmd_sn = e->cmd_sn,
				     .data_bytes = 100 };
	const struct iser_header h = { .kind = ISER_CONTROL };

	deliver(e, &h, &p, NULL, 0);
	expect_end(e, WEFT_R_ISCSI_SHORT);
}

TEST(test_iser_a_message_of_a_header_alone_ends_the_connection)
{
	struct end *e = start();
	const struct iser_header h = { .kind = ISER_CONTROL };

	deliver(e, &h, NULL, NULL, 0);
	expect_end(e, WEFT_R_ISCSI_SHORT);
}

TEST(test_rfc7145_9_hello_that_was_not_agreed_upon_ends_the_connection)
{
	struct end *e = start();
	const struct iser_header h = {
		.kind = ISER_HELLO, .version_max = 10, .version = 10, .depth = 4
	};

	deliver(e, &h, NULL, NULL, 0);
	expect_end(e, WEFT_R_ISER_OPCODE);
}

TEST(test_rfc7145_9_hello_instead_of_a_login_ends_the_connection)
{
	const struct iser_header h = {
		.kind = ISER_HELLO, .version_max = 10, .version = 10, .depth = 4
	};
	struct end *e;

	rig_begin();
	e = connect_end();
	deliver(e, &h, NULL, NULL, 0);
	EXPECT(e->c == NULL);
	stop();
}

TEST(test_rfc7145_7_a_command_without_the_stag_that_it_needs_ends_the_connection)
{
	for (int is_write = 0; is_write < 2; is_write++) {
		struct end *e = start();
		struct iscsi_pdu p = command(e, is_write ? 0x2a : 0x28, 0, 1);
		struct iser_header h;

		/* That of the other direction is of no use. */
		h = (struct iser_header){ .kind = ISER_CONTROL,
					  .has_write = !is_write,
					  .has_read = is_write,
					  .write_stag = is_write ? 0 : TAG,
					  .read_stag = is_write ? TAG : 0 };
		deliver(e, &h, &p, NULL, 0);
		expect_end(e, WEFT_R_ISER_NO_TAG);
	}
}

TEST(test_iser_an_stag_that_is_refused_ends_the_session_and_frees_its_tasks)
{
	struct end *e = start();
	struct iscsi_pdu p = command(e, 0x2a, 0, 4);
	struct iser_header h = lend(&p, 0);

	e->is_slow = true;
	deliver(e, &h, &p, NULL, 0);
	p = command(e, 0x28, 0, 4);
	h = lend(&p, 0);
	deliver(e, &h, &p, NULL, 0);
	REQUIRE(e->posted == 3 && e->reads == 1 && e->writes == 1);
	work_done(e, WEFT_R_PEER_RIGHTS);
	run();
	/* Memory of tasks is in use until the rest has ended. */
	REQUIRE(e->c != NULL && iscsi_connection_action(e->c) != ISCSI_ACTION_NONE);
	work_done(e, WEFT_R_FLUSHED);
	work_done(e, WEFT_R_FLUSHED);
	attend(e);
	EXPECT(r.disk[0][0] == 0);
	expect_end(e, WEFT_R_PEER_RIGHTS);
}

/* The target waits for an answer for longer than it then leaves the initiator alone. */
TEST(test_iser_an_idle_initiator_that_answers_pings_stays)
{
	const uint64_t second_ns = 1000000000;
	struct iscsi_pdu p = { 0 };
	uint32_t pings = 0;
	struct end *e;

	rig_init(&r);
	r.config.ping_after_ns = 10 * second_ns;
	r.config.ping_wait_ns = 20 * second_ns;
	rig_start(&r);
	end_count = 0;
	e = login("RDMAExtensions=Yes ");
	for (int i = 0; i < 20; i++) {
		r.now_ns = iscsi_node_due(r.node);
		iscsi_node_expire(r.node, r.now_ns);
		run();
		REQUIRE(e->c != NULL);
		if (e->message_bytes == 0)
			continue;
		p = (struct iscsi_pdu){ .opcode = ISCSI_NOP_OUT,
					.is_immediate = true,
					.is_final = true,
					.itt = ISCSI_TAG_NONE,
					.ttt = last(e, ISCSI_NOP_IN).ttt,
					.cmd_sn = e->cmd_sn,
					.exp_stat_sn = e->exp_stat_sn };
		pings++;
		send_plain(e, &p, NULL);
	}
	EXPECT(pings > 5);
	stop();
}

TEST(test_iser_a_queue_pair_that_fails_ends_the_session_for_its_reason)
{
	struct end *e = start();

	iscsi_iser_lost(e->c, WEFT_R_RECEIVE_TOO_SHORT, r.now_ns);
	run();
	expect_end(e, WEFT_R_RECEIVE_TOO_SHORT);
	e = start();
	iscsi_iser_lost(e->c, WEFT_R_PEER_GONE, r.now_ns);
	run();
	expect_end(e, WEFT_R_STREAM_LOST);
}

TEST(test_iser_reads_wait_until_the_peer_allows_one_more)
{
	struct end *e = start();
	struct iscsi_pdu p = command(e, 0x2a, 0, 1);
	struct iser_header h = lend(&p, 0);

	e->can_read = false;
	deliver(e, &h, &p, NULL, 0);
	EXPECT(e->reads == 0 && e->posted == 0);
	/* Others go on meanwhile. */
	p = command(e, 0x28, 1, 1);
	h = lend(&p, 512);
	deliver(e, &h, &p, NULL, 0);
	EXPECT(last(e, ISCSI_SCSI_RESPONSE).itt == p.itt);
	e->can_read = true;
	attend(e);
	run();
	EXPECT(e->reads == 1);
	EXPECT(last(e, ISCSI_SCSI_RESPONSE).itt == p.itt - 1);
	stop();
}

/* An abort is over when no Read writes to memory of the task any more. */
TEST(test_iser_memory_of_an_aborted_write_stays_until_its_read_has_ended)
{
	struct end *e = start();
	struct iscsi_pdu w = command(e, 0x2a, 0, 8);
	struct iscsi_pdu m = { .opcode = ISCSI_TASK_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .code = ISCSI_ABORT_TASK,
			       .itt = 1000,
			       .ref_itt = w.itt,
			       .cmd_sn = e->cmd_sn };
	struct iser_header h = lend(&w, 0);
	struct iscsi_node_counts counts;

	e->is_slow = true;
	deliver(e, &h, &w, NULL, 0);
	send_plain(e, &m, NULL);
	EXPECT(e->posted == 1 && e->reads == 1);
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.memory_used, 4096);
	work_done(e, WEFT_OK);
	run();
	iscsi_node_counts(r.node, &counts);
	EXPECT_EQ(counts.memory_used, 0);
	REQUIRE(e->posted == 1);
	work_done(e, WEFT_OK);
	EXPECT_EQ(last(e, ISCSI_TASK_RESPONSE).code, ISCSI_TASK_COMPLETE);
	EXPECT(r.disk[0][0] == 0);
	stop();
}

TEST(test_iser_a_logout_closes_once_its_response_is_sent)
{
	struct end *e = start();
	struct iscsi_pdu p = { .opcode = ISCSI_LOGOUT_REQUEST,
			       .is_immediate = true,
			       .is_final = true,
			       .code = ISCSI_LOGOUT_SESSION,
			       .itt = 77,
			       .cmd_sn = e->cmd_sn };

	e->is_slow = true;
	send_plain(e, &p, NULL);
	EXPECT(e->posted == 1 && iscsi_connection_action(e->c) == ISCSI_ACTION_NONE);
	work_done(e, WEFT_OK);
	EXPECT_EQ(last(e, ISCSI_LOGOUT_RESPONSE).code, ISCSI_LOGOUT_OK);
	run();
	expect_end(e, WEFT_OK);
}

static struct iscsi_pdu ping_of(const struct end *e, uint32_t data_bytes)
{
	return (struct iscsi_pdu){ .opcode = ISCSI_NOP_OUT,
				   .is_final = true,
				   .is_immediate = true,
				   .itt = 1000,
				   .ttt = ISCSI_TAG_NONE,
				   .cmd_sn = e->cmd_sn,
				   .data_bytes = data_bytes };
}

/* More NOPs than control messages fit: the rest waits, in its order, and nothing is lost. */
TEST(test_iser_messages_that_waited_are_answered_when_there_is_room)
{
	enum { PINGS = 50 };
	struct end *e = start();
	uint8_t data[1024] = { 7 };
	struct iscsi_pdu p = ping_of(e, sizeof(data));
	uint32_t answered = e->sends;
	struct iscsi_node_counts counts;

	/* What comes while some wait is behind them, even if there is room again. */
	e->is_slow = true;
	for (int i = 0; i < PINGS; i++, p.itt++) {
		e->is_idle = i < 10;
		if (i == 10)
			attend(e);
		send_plain(e, &p, data);
		if (i == 10)
			REQUIRE(e->posted < 10);
	}
	EXPECT(e->sends - answered < PINGS);
	iscsi_node_counts(r.node, &counts);
	EXPECT(counts.memory_used <= (uint64_t)PINGS * ISCSI_MEMORY_UNIT);
	e->is_slow = false;
	attend(e);
	run();
	EXPECT_EQ(e->sends - answered, PINGS);
	EXPECT_EQ(last(e, ISCSI_NOP_IN).itt, p.itt - 1);
	EXPECT(e->is_in_order);
	stop();
}

/* It keeps nothing that others need: receives are free again, and what waits has a bound. */
TEST(test_iser_an_initiator_that_takes_nothing_ends_when_too_much_waits)
{
	struct end *e = start();
	uint8_t data[1024] = { 7 };
	struct iscsi_pdu p = ping_of(e, sizeof(data));
	uint32_t count = 0, sends;

	e->is_slow = true;
	for (; iscsi_connection_action(e->c) == ISCSI_ACTION_NONE && count < 1000; count++) {
		send_plain(e, &p, data);
		p.itt++;
	}
	EXPECT(count > 100 && count < 200);
	sends = e->sends;
	e->is_slow = false;
	attend(e);
	EXPECT_EQ(e->sends, sends); /* a connection that has ended sends no more */
	expect_end(e, WEFT_R_ISCSI_FLOOD);
}

TEST(test_iser_a_message_with_an_unknown_opcode_ends_the_connection)
{
	struct end *e = start();
	uint8_t bytes[ISER_HEADER_BYTES + ISCSI_BHS_BYTES] = { 0x70 };

	iscsi_iser_received(e->c, bytes, sizeof(bytes), r.now_ns);
	run();
	expect_end(e, WEFT_R_ISER_OPCODE);
}

TEST(test_rfc7145_6_1_a_login_must_say_that_it_wants_rdma)
{
	struct end *e;

	rig_begin();
	e = connect_end();
	EXPECT(ask_to_log_in(e, "").status_class != 0);
	run();
	stop();
}
