/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends in the middle, receives that are missing, and commands that are over while data flows. */
#include "offload_bed.h"

#include <string.h>

static const uint8_t bytes[1024] = { 7, 7, 7 };

static uint32_t begin(struct bed *b, enum mem_way way, uint32_t length, uint32_t *id)
{
	*id = bed_command(b, way, length);
	bed_move(b);
	REQUIRE(bed_completion(b).opcode == WEFT_OP_ISCSI_COMMAND);
	return expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
}

/* Everything that was posted comes back, and the table is as before (ISCSI-S1). */
static void expect_all_over(struct bed *b, enum weft_reason reason)
{
	struct weft_completion c;

	REQUIRE(b->qp->state == WEFT_QPS_ERROR && b->qp->reason == reason);
	REQUIRE(bed_entries(b) == 0 && b->qp->commands->ids.used == 0);
	while (bed_poll(b, &c))
		REQUIRE(c.status == WEFT_ERR_FLUSHED || c.opcode == WEFT_OP_ISCSI_COMMAND);
	REQUIRE(b->completed == b->posted);
}

/* The connection is lost, closed, or closed within a PDU, at each stage of a transfer. */
TEST(test_iscsi_01_iscsi_s1_lost_connection_gives_all_entries_back)
{
	for (int kind = 0; kind < 3; kind++) {
		for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
			static const enum weft_reason reasons[] = { WEFT_R_STREAM_LOST,
								    WEFT_R_PEER_GONE,
								    WEFT_R_STREAM_CUT };
			uint32_t id, itt;

			bed_receive(b, 2);
			itt = begin(b, MEM_WAY_IN, 512, &id);
			(void)begin(b, MEM_WAY_OUT, 512, &id);
			(void)begin(b, MEM_WAY_NONE, 0, &id);
			EXPECT_EQ(bed_entries(b), 3);
			if (kind == 2) {
				target_data_in(b, itt, 0, bytes, 512);
				b->in.length -= 5;
			}
			bed_move(b);
			b->out_credit = 10; /* the next command is half sent */
			(void)bed_command(b, MEM_WAY_OUT, 512);
			bed_move(b);
			if (kind == 0)
				bed_lost(b);
			else
				bed_eof(b);
			expect_all_over(b, reasons[kind]);
			EXPECT(kind == 0 ? b->is_aborted : b->is_closed);
			EXPECT_EQ(iscsi_offload_end(b->qp, id), WEFT_R_ISCSI_COMMAND);
		}
	}
}

/* In good order: our direction is shut, and the rest of what the target sends is thrown away. */
TEST(test_iscsi_offload_disconnect_in_good_order)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t id, itt;

		bed_receive(b, 1);
		itt = begin(b, MEM_WAY_IN, 512, &id);
		MUST(qp_disconnect(b->qp));
		bed_move(b);
		EXPECT(b->is_shut && b->stream);
		expect_all_over(b, WEFT_R_FLUSHED);
		target_data_in(b, itt, 0, bytes, 512);
		bed_eof(b);
		EXPECT(b->is_closed);
		EXPECT(is_unchanged(b));
	}
}

/* A target that does not close its direction is given up. */
TEST(test_iscsi_offload_disconnect_without_an_end)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		MUST(qp_disconnect(b->qp));
		bed_move(b);
		EXPECT(b->is_shut && b->stream);
		bed_wait(b, CLOSE_WAIT_NS - 1);
		EXPECT(b->stream != NULL);
		bed_wait(b, 1);
		EXPECT(b->is_aborted);
	}
}

/* ---- Receives ------------------------------------------------------------------------------- */

/* ISCSI-01b: without a receive nothing is read, for some time. */
TEST(test_iscsi_01b_no_receive_stops_reading)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t id, itt = begin(b, MEM_WAY_IN, 512, &id);

		target_data_in(b, itt, 0, bytes, 512);
		target_response(b, itt);
		for (int i = 0; i < 40; i++) /* more than is read ahead */
			target_response(b, itt);
		bed_move(b);
		expect_no_completion(b);
		EXPECT(!iscsi_offload_wants(b->stream));
		EXPECT_EQ(bed_entries(b), 1);
		bed_wait(b, RECEIVER_WAIT_NS - 1);
		bed_receive(b, 1);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		expect_no_completion(b);
		EXPECT(!iscsi_offload_wants(b->stream));
		bed_wait(b, RECEIVER_WAIT_NS - 1); /* the time begins anew */
		EXPECT(b->stream != NULL);
		bed_receive(b, 1);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
		EXPECT_EQ(bed_query(b).dropped, 40);
		EXPECT(iscsi_offload_wants(b->stream));
	}
}

TEST(test_iscsi_01b_no_receive_in_time_ends_the_stream)
{
	for (int kind = 0; kind < 2; kind++) {
		for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
			struct iscsi_pdu nop = { .opcode = ISCSI_NOP_IN,
						 .itt = ISCSI_TAG_NONE,
						 .ttt = 1 };
			const struct weft_qp_attr none = { .receiver_wait_ns = 0 };
			uint32_t id;

			(void)begin(b, MEM_WAY_IN, 512, &id);
			if (kind == 1)
				MUST(qp_modify(b->qp, &none, WEFT_QP_RECEIVER_WAIT));
			target_pdu(b, &nop, NULL);
			bed_move(b);
			if (kind == 0)
				bed_wait(b, RECEIVER_WAIT_NS);
			EXPECT(b->is_aborted);
			expect_all_over(b, WEFT_R_RECEIVER_NOT_READY);
		}
	}
}

/* A receive that cannot hold the PDU, or of memory that is not there. */
TEST(test_iscsi_06c_receive_that_is_of_no_use)
{
	for (int kind = 0; kind < 3; kind++) {
		for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
			const struct weft_sge sges[] = {
				bed_sge(b, RECEIVES_AT, ISCSI_BHS_BYTES + 99),
				{ (uintptr_t)b->memory, 512, b->tag + 1 },
				bed_sge(b, RECEIVES_AT, ISCSI_BHS_BYTES - 1),
			};
			const struct weft_recv_wr wr = { .sges = &sges[kind], .sge_count = 1 };
			const struct iscsi_pdu p = { .opcode = ISCSI_NOP_IN,
						     .itt = 1,
						     .ttt = ISCSI_TAG_NONE,
						     .data_bytes = kind == 2 ? 0 : 100 };
			struct weft_completion c;
			uint32_t posted;

			MUST(qp_post_recv(b->qp, &wr, 1, &posted));
			b->posted++;
			target_pdu(b, &p, bytes);
			bed_move(b);
			c = bed_completion(b);
			EXPECT_EQ(c.status,
				  kind == 1 ? WEFT_ERR_LOCAL_ACCESS : WEFT_ERR_LOCAL_LENGTH);
			EXPECT_EQ(c.reason,
				  kind == 1 ? WEFT_R_TAG_INSTANCE : WEFT_R_RECEIVE_TOO_SHORT);
			EXPECT(b->is_aborted);
			EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		}
	}
}

/* A PDU that just fits, over several elements. */
TEST(test_iscsi_06c_receive_of_several_elements)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		const struct weft_sge sges[] = { bed_sge(b, RECEIVES_AT, 10),
						 bed_sge(b, RECEIVES_AT + 100, 40),
						 bed_sge(b, RECEIVES_AT + 200, 98) };
		const struct weft_recv_wr wr = { .sges = sges, .sge_count = 3 };
		const struct iscsi_pdu p = {
			.opcode = ISCSI_NOP_IN, .itt = 1, .ttt = ISCSI_TAG_NONE, .data_bytes = 100
		};
		uint32_t posted;

		MUST(qp_post_recv(b->qp, &wr, 1, &posted));
		b->posted++;
		target_pdu(b, &p, bytes);
		bed_move(b);
		EXPECT_EQ(expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK).byte_count, 148);
		EXPECT_EQ(b->memory[RECEIVES_AT], ISCSI_NOP_IN);
		EXPECT_MEM(b->memory + RECEIVES_AT + 138, bytes, 2);
		EXPECT_MEM(b->memory + RECEIVES_AT + 200, bytes + 2, 98);
	}
}

/* ---- Commands that are over while data flows ------------------------------------------------ */

/* How many of the first bytes of a burst in PDUs of 1000 are data. */
static uint32_t data_in(uint32_t sent, uint32_t header, uint32_t trailer)
{
	uint32_t whole = header + 1000 + trailer, rest = sent % whole;
	uint32_t begun = rest > header ? rest - header : 0;

	return sent / whole * 1000 + (begun < 1000 ? begun : 1000);
}

/* What is left of the burst: the first bytes as they were, zeroes behind; digests fit. */
static void expect_voided(struct bed *b, uint32_t itt, uint32_t real)
{
	const struct sent *s;
	uint32_t seen = 0;

	while ((s = target_next(b))) {
		REQUIRE(s->pdu.opcode == ISCSI_DATA_OUT && s->pdu.itt == itt);
		for (uint32_t i = 0; i < s->pdu.data_bytes; i++, seen++)
			REQUIRE(s->data[i] == (seen < real ? b->shadow[s->pdu.offset + i] : 0));
	}
}

/*
 * A Response while Data-Out is being sent: the memory is the consumer's again, and not one byte of
 * it is sent, or read, after that. The stream goes on.
 */
TEST(test_iscsi_01j_response_while_data_out_is_sent)
{
	const struct setup setup = {
		.terms = { .is_immediate_off = true, .send_bytes_max = 1000 },
	};

	for (uint32_t credit = 0; credit < 2200; credit += 53) {
		for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
			uint32_t header = ISCSI_BHS_BYTES + 4 * b->terms.has_header_digest;
			uint32_t trailer = 4 * b->terms.has_data_digest;
			uint32_t real, id, itt;
			struct weft_completion c;

			bed_receive(b, 3);
			itt = begin(b, MEM_WAY_OUT, 5000, &id);
			b->out_credit = credit;
			target_r2t(b, itt, 1, 0, 3000);
			target_r2t(b, itt, 2, 3000, 2000);
			bed_move(b);
			target_response(b, itt);
			bed_move(b);
			(void)bed_completion(b);
			(void)bed_completion(b);
			c = expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
			EXPECT(c.has_invalidated);
			EXPECT_EQ(bed_entries(b), 0);
			memset(b->memory, 0xee, 5000);
			b->out_credit = SIZE_MAX;
			bed_move(b);
			real = data_in(credit, header, trailer);
			expect_voided(b, itt, real);
			EXPECT_EQ(b->out.at, b->out.length);
			/* And the next command finds all in order. */
			bed_note(b);
			bed_receive(b, 1);
			itt = begin(b, MEM_WAY_NONE, 0, &id);
			target_response(b, itt);
			bed_move(b);
			expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
		}
	}
}

/* The same while unsolicited data is sent: the request ends with its command. */
TEST(test_iscsi_01j_response_before_the_request_has_ended)
{
	const struct setup setup = {
		.terms = { .is_unsolicited_on = true,
			   .send_bytes_max = 1000,
			   .first_burst_bytes = 60000 },
	};

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t id, itt;
		const struct sent *s;

		bed_receive(b, 1);
		b->out_credit = 1500;
		id = bed_command(b, MEM_WAY_OUT, 60000);
		bed_move(b);
		expect_no_completion(b);
		MUST(iscsi_offload_tag(b->qp, id, &itt));
		EXPECT_EQ(iscsi_offload_end(b->qp, id), WEFT_R_BUSY);
		target_response(b, itt);
		bed_move(b);
		EXPECT_EQ(bed_completion(b).opcode, WEFT_OP_ISCSI_COMMAND);
		expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
		EXPECT_EQ(bed_query(b).commands_open, 0);
		memset(b->memory, 0xee, 60000);
		b->out_credit = SIZE_MAX;
		bed_move(b);
		s = expect_sent(b, ISCSI_SCSI_COMMAND);
		EXPECT_MEM(s->data, b->shadow, 1000);
		while ((s = target_next(b)))
			EXPECT(memchr(s->data, 0xee, s->pdu.data_bytes) == NULL ||
			       s->pdu.offset == 1000);
		EXPECT_EQ(b->out.at, b->out.length);
	}
}

/* weft_qp_end_command(): of a task that was aborted. Data that comes for it is thrown away. */
TEST(test_iscsi_01l_command_ended_by_its_consumer)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t id, itt;

		bed_receive(b, 3);
		itt = begin(b, MEM_WAY_IN, 512, &id);
		EXPECT_EQ(iscsi_offload_end(b->qp, id + 1), WEFT_R_ISCSI_COMMAND);
		MUST(iscsi_offload_end(b->qp, id));
		EXPECT_EQ(iscsi_offload_end(b->qp, id), WEFT_R_ISCSI_COMMAND);
		EXPECT_EQ(bed_entries(b), 0);
		target_data_in(b, itt, 0, bytes, 512);
		target_response(b, itt);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_ENTRY_INVALID);
		EXPECT_EQ(bed_query(b).dropped, 1);
		EXPECT(is_unchanged(b));
		/* In the middle of a PDU. */
		b->stat_sn--;
		itt = begin(b, MEM_WAY_IN, 1024, &id);
		target_data_in(b, itt, 0, bytes, 1024);
		b->in.length -= 600;
		bed_move(b);
		MUST(iscsi_offload_end(b->qp, id));
		bed_note(b);
		b->in.length += 600;
		bed_move(b);
		EXPECT_EQ(expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_ENTRY_INVALID)
				  .byte_count,
			  ISCSI_BHS_BYTES);
		EXPECT(is_unchanged(b));
		EXPECT_EQ(bed_query(b).data_ins, 0);
	}
}

/* More R2Ts than may wait: the stream is not read until some are answered. */
TEST(test_iscsi_08_more_r2ts_than_may_wait)
{
	enum { COUNT = 120 };
	const struct setup setup = { .terms = { .is_immediate_off = true, .send_bytes_max = 512 },
				     .outstanding_max = 2 };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t id, itt, r2ts = 0, sent = 0;
		const struct sent *out;
		struct weft_completion c;

		bed_receive(b, 16);
		itt = begin(b, MEM_WAY_OUT, COUNT * 512, &id);
		b->out_credit = 0; /* until the target's are all taken, or wait */
		for (uint32_t i = 0; i < COUNT; i++)
			target_r2t(b, itt, i, i * 512, 512);
		for (int round = 0; round < 200 && sent < COUNT; round++) {
			uint32_t before = r2ts;

			bed_move(b);
			while (bed_poll(b, &c)) {
				EXPECT_EQ(c.opcode, WEFT_OP_RECV_ISCSI_R2T);
				EXPECT_EQ(bed_received(b, r2ts++)[0], ISCSI_R2T);
				bed_receive(b, 1);
			}
			while ((out = target_next(b))) {
				EXPECT_EQ(out->pdu.ttt, sent);
				EXPECT_EQ(out->pdu.offset, sent++ * 512);
			}
			b->out_credit = r2ts > before ? b->out_credit : 3000;
		}
		EXPECT_EQ(r2ts, COUNT);
		EXPECT_EQ(sent, COUNT);
		EXPECT_EQ(bed_query(b).bytes_sent, COUNT * 512);
	}
}

/* Answers to R2Ts and new commands take turns. */
TEST(test_iscsi_08_commands_do_not_wait_for_all_r2ts)
{
	const struct setup setup = { .terms = { .is_immediate_off = true, .send_bytes_max = 512 },
				     .is_plain = true };
	struct bed *b = bed_first(&setup);
	const struct sent *s;
	uint32_t id, itt, before = 0;

	bed_receive(b, 16);
	itt = begin(b, MEM_WAY_OUT, 60000, &id);
	b->out_credit = 0;
	for (uint32_t i = 0; i < 10; i++)
		target_r2t(b, itt, i, i * 6000, 6000);
	bed_move(b);
	(void)bed_command(b, MEM_WAY_IN, 512);
	bed_move(b);
	b->out_credit = SIZE_MAX;
	bed_move(b);
	while ((s = target_next(b)) && s->pdu.opcode == ISCSI_DATA_OUT)
		before++;
	EXPECT(s && before < 60);
	while ((b = bed_next(b)))
		continue;
}

/* ---- Memory that goes ----------------------------------------------------------------------- */

/* The region of a command is deregistered while it is in progress. */
TEST(test_iscsi_01d_region_that_goes)
{
	for (int kind = 0; kind < 2; kind++) {
		for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
			const struct mem_owner owner = pd_owner(b->pd);
			const struct weft_region_options options = {
				.addr = (uintptr_t)b->memory + RECEIVES_AT,
				.length = MEMORY_BYTES - RECEIVES_AT,
				.rights = ALL_RIGHTS,
			};
			uint32_t id, itt, tag = b->tag;

			itt = begin(b, kind ? MEM_WAY_OUT : MEM_WAY_IN, 512, &id);
			MUST(mem_region_register(&b->adapter.mem, &owner, &options, &b->tag));
			bed_receive(b, 2);
			MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, tag));
			if (kind)
				target_r2t(b, itt, 1, 0, 512);
			else
				target_data_in(b, itt, 0, bytes, 512);
			bed_move(b);
			expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_TAG_INVALID);
			EXPECT(is_unchanged(b));
			target_response(b, itt);
			bed_move(b);
			expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
		}
	}
}

/* The program has unmapped memory that is being received into, or sent from. */
TEST(test_iscsi_memory_that_is_unmapped)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t id, itt;

		bed_receive(b, 2);
		itt = begin(b, MEM_WAY_IN, 512, &id);
		b->is_gone = true;
		target_data_in(b, itt, 0, bytes, 512);
		iscsi_offload_sink_gone(b->stream);
		bed_move(b);
		EXPECT(b->is_aborted);
		EXPECT_EQ(b->qp->reason, WEFT_R_MEMORY_GONE);
		EXPECT_EQ(bed_entries(b), 0);
	}
}
