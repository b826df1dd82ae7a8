/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that go well: their life from posting to the Response, in every kind of transfer. */
#include "offload_bed.h"

#include <string.h>

static uint8_t pattern[64 * 1024];

static void fill_pattern(uint8_t seed)
{
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 13 + i / 251 + seed);
}

/* The request of a command has ended well. */
static void expect_command_sent(struct bed *b)
{
	struct weft_completion c = bed_completion(b);

	REQUIRE(c.status == WEFT_SUCCESS && c.opcode == WEFT_OP_ISCSI_COMMAND);
}

/* The Response of the command is in the next receive. */
static void expect_over(struct bed *b, uint32_t id, uint32_t itt)
{
	struct weft_completion c = expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);

	REQUIRE(c.command_id == id && c.has_invalidated && c.invalidated_tag == itt);
	REQUIRE(c.byte_count == ISCSI_BHS_BYTES);
}

/*
 * ISCSI-S1: a disk read. ISCSI-01a: the queue pair is in iSCSI mode; 01b: the receive first; 01c:
 * the Command ID at once; 01g, 01h, 01j, 01l. ISCSI-04: the Initiator Task Tag is the entry's tag.
 */
TEST(test_iscsi_s1_iscsi_01_iscsi_04_read_registers_runs_deregisters)
{
	fill_pattern(1);
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		const struct sent *s;
		uint32_t id, itt;
		struct weft_completion c;

		bed_receive(b, 3);
		EXPECT_EQ(bed_entries(b), 0);
		id = bed_command(b, MEM_WAY_IN, 6000);
		EXPECT_EQ(bed_entries(b), 0); /* made when it is executed */
		bed_move(b);
		EXPECT_EQ(bed_entries(b), 1);
		expect_command_sent(b);
		s = expect_sent(b, ISCSI_SCSI_COMMAND);
		EXPECT(s->pdu.is_read && !s->pdu.is_write && s->pdu.is_final);
		EXPECT_EQ(s->pdu.expected_bytes, 6000);
		EXPECT_EQ(s->pdu.cmd_sn, 1);
		EXPECT_EQ(s->pdu.data_bytes, 0);
		itt = s->pdu.itt;
		MUST(iscsi_offload_tag(b->qp, id, &c.invalidated_tag));
		EXPECT_EQ(c.invalidated_tag, itt);
		EXPECT_EQ(b->adapter.mem.entries[weft_tag_index(itt)].type, MEM_ISCSI_REGION);

		target_data_in(b, itt, 0, pattern, 4000);
		target_data_in(b, itt, 4000, pattern + 4000, 2000);
		target_response(b, itt);
		bed_move(b);
		for (int i = 0; i < 2; i++) {
			c = expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
			EXPECT_EQ(c.command_id, id);
			EXPECT_EQ(c.byte_count, ISCSI_BHS_BYTES); /* control information only */
			EXPECT(!c.has_invalidated);
		}
		expect_over(b, id, itt);
		EXPECT_EQ(bed_entries(b), 0);
		EXPECT_MEM(b->memory, pattern, 6000);
		EXPECT_MEM(b->memory + 6000, b->shadow + 6000, RECEIVES_AT - 6000);
		EXPECT_EQ(bed_received(b, 2)[0], ISCSI_SCSI_RESPONSE);
		EXPECT_EQ(iscsi_offload_tag(b->qp, id, &itt), WEFT_R_ISCSI_COMMAND);
		EXPECT_EQ(bed_query(b).commands, 1);
		EXPECT_EQ(bed_query(b).responses, 1);
		EXPECT_EQ(bed_query(b).data_ins, 2);
		EXPECT_EQ(bed_query(b).bytes_placed, 6000);
		EXPECT_EQ(bed_query(b).commands_open, 0);
	}
}

/* Collects Data-Out PDUs of a burst: in order, DataSN from 0, F on the last. */
static void expect_burst(struct bed *b, const struct iscsi_pdu *first, uint32_t length)
{
	uint32_t offset = first->offset, end = offset + length, data_sn = 0;

	while (offset < end) {
		const struct sent *s = expect_sent(b, ISCSI_DATA_OUT);

		REQUIRE(s->pdu.itt == first->itt && s->pdu.ttt == first->ttt);
		REQUIRE(s->pdu.offset == offset && s->pdu.data_sn == data_sn++);
		REQUIRE(s->pdu.lun == 0x0001000000000000);
		REQUIRE(memcmp(s->data, b->shadow + offset, s->pdu.data_bytes) == 0);
		offset += s->pdu.data_bytes;
		REQUIRE(offset <= end && s->pdu.is_final == (offset == end));
	}
}

/*
 * ISCSI-S1: a disk write. ISCSI-06a, ISCSI-08: several R2Ts, in any order of offsets, answered
 * straight from memory, in PDUs of what the target takes.
 */
TEST(test_iscsi_s1_iscsi_06a_iscsi_08_write_answers_r2ts_in_any_order)
{
	const struct setup setup = {
		.terms = { .is_immediate_off = true, .send_bytes_max = 1000 },
	};

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct iscsi_pdu first = { .ttt = 5, .offset = 3000 };
		const struct sent *s;
		uint32_t id;

		bed_receive(b, 3);
		id = bed_command(b, MEM_WAY_OUT, 5500);
		bed_move(b);
		expect_command_sent(b);
		s = expect_sent(b, ISCSI_SCSI_COMMAND);
		EXPECT(s->pdu.is_final && s->pdu.is_write);
		EXPECT_EQ(s->pdu.data_bytes, 0);
		first.itt = s->pdu.itt;
		target_r2t(b, first.itt, 5, 3000, 2500);
		target_r2t(b, first.itt, 6, 0, 3000);
		bed_move(b);
		expect_burst(b, &first, 2500);
		first.ttt = 6;
		first.offset = 0;
		expect_burst(b, &first, 3000);
		EXPECT(!target_next(b));
		for (int i = 0; i < 2; i++) {
			struct weft_completion c = expect_receive(b, WEFT_OP_RECV_ISCSI_R2T,
								  WEFT_OK);

			EXPECT_EQ(c.command_id, id);
			EXPECT_EQ(c.byte_count, ISCSI_BHS_BYTES);
		}
		target_response(b, first.itt);
		bed_move(b);
		expect_over(b, id, first.itt);
		EXPECT_EQ(bed_entries(b), 0);
		EXPECT(is_unchanged(b));
		EXPECT_EQ(bed_query(b).r2ts, 2);
		EXPECT_EQ(bed_query(b).data_outs, 6);
		EXPECT_EQ(bed_query(b).bytes_sent, 5500);
	}
}

/* RFC 7143 sections 13.10, 13.11 and 13.14: what goes without being asked for. */
static const struct {
	struct weft_iscsi_terms terms;
	uint32_t length, immediate, unsolicited;
} plans[] = {
	{ { .send_bytes_max = 1000 }, 5000, 1000, 0 },
	{ { .send_bytes_max = 1000 }, 900, 900, 0 },
	{ { .send_bytes_max = 4096, .first_burst_bytes = 512 }, 5000, 512, 0 },
	{ { .is_immediate_off = true, .send_bytes_max = 1000 }, 5000, 0, 0 },
	{ { .is_unsolicited_on = true, .send_bytes_max = 1000, .first_burst_bytes = 3500 },
	  5000,
	  1000,
	  2500 },
	{ { .is_unsolicited_on = true, .is_immediate_off = true, .send_bytes_max = 1000 },
	  5000,
	  0,
	  5000 },
	{ { .is_unsolicited_on = true, .send_bytes_max = 8192 }, 5000, 5000, 0 },
};

TEST(test_iscsi_01g_immediate_and_unsolicited_data)
{
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		const struct setup setup = { .terms = plans[i].terms };

		for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
			struct iscsi_pdu first = { .ttt = ISCSI_TAG_NONE,
						   .offset = plans[i].immediate };
			const struct sent *s;
			uint32_t id;

			bed_receive(b, 1);
			id = bed_command(b, MEM_WAY_OUT, plans[i].length);
			bed_move(b);
			expect_command_sent(b);
			s = expect_sent(b, ISCSI_SCSI_COMMAND);
			EXPECT_EQ(s->pdu.data_bytes, plans[i].immediate);
			EXPECT_MEM(s->data, b->memory, plans[i].immediate);
			EXPECT_EQ(s->pdu.is_final, plans[i].unsolicited == 0);
			first.itt = s->pdu.itt;
			expect_burst(b, &first, plans[i].unsolicited);
			EXPECT(!target_next(b));
			EXPECT_EQ(bed_query(b).bytes_sent,
				  plans[i].immediate + plans[i].unsolicited);
			target_response(b, first.itt);
			bed_move(b);
			expect_over(b, id, first.itt);
		}
	}
}

/* ISCSI-07: a Data-In with the status acts as data and as Response, also without data. */
TEST(test_iscsi_07_iscsi_01h_status_in_data_in_ends_the_command)
{
	fill_pattern(3);
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		for (uint32_t length = 0; length <= 512; length += 512) {
			struct iscsi_pdu p = { .opcode = ISCSI_DATA_IN,
					       .is_final = true,
					       .has_status = true,
					       .data_bytes = length };
			struct weft_completion c;
			uint32_t id;

			bed_receive(b, 1);
			id = bed_command(b, MEM_WAY_IN, 512);
			bed_move(b);
			expect_command_sent(b);
			p.itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
			p.stat_sn = b->stat_sn++;
			target_pdu(b, &p, pattern);
			bed_move(b);
			c = expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
			EXPECT_EQ(c.command_id, id);
			EXPECT(c.has_invalidated);
			EXPECT_EQ(c.invalidated_tag, p.itt);
			EXPECT_EQ(bed_entries(b), 0);
			EXPECT_MEM(b->memory, pattern, length);
			EXPECT_EQ(bed_query(b).exp_stat_sn, b->stat_sn);
		}
	}
}

/* ISCSI-08: Data-In at any offset, in any order, by elements that are apart. */
TEST(test_iscsi_08_iscsi_06b_data_in_of_any_order_over_several_elements)
{
	fill_pattern(4);
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		const struct iscsi_pdu p = command_pdu(b, MEM_WAY_IN, 3000);
		const struct weft_sge sges[] = { bed_sge(b, 100, 1), bed_sge(b, 5000, 1999),
						 bed_sge(b, 2000, 1000) };
		struct weft_iscsi_pdu pdu = wr_pdu(&p);
		struct weft_send_wr wr = {
			.opcode = WEFT_OP_ISCSI_COMMAND, .iscsi = &pdu, .sges = sges, .sge_count = 3
		};
		uint32_t itt;

		bed_receive(b, 4);
		MUST(bed_post(b, &wr));
		b->posted--; /* not signalled: no completion */
		bed_move(b);
		expect_no_completion(b);
		itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		target_data_in(b, itt, 1500, pattern + 1500, 1500);
		target_data_in(b, itt, 1, pattern + 1, 1499);
		target_data_in(b, itt, 0, pattern, 1);
		target_response(b, itt);
		bed_move(b);
		for (int i = 0; i < 3; i++)
			expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		expect_over(b, pdu.command_id, itt);
		EXPECT_EQ(b->memory[100], pattern[0]);
		EXPECT_MEM(b->memory + 5000, pattern + 1, 1999);
		EXPECT_MEM(b->memory + 2000, pattern + 2000, 1000);
	}
}

/*
 * ISCSI-02, LOC-05: in a privileged domain a command names memory by real addresses: the first page
 * from an offset on, the last up to one, whole pages in between. No element is checked.
 */
TEST(test_iscsi_02_loc_05_memory_by_real_addresses)
{
	const struct setup setup = { .is_privileged = true };

	fill_pattern(5);
	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		const uint64_t start = (uintptr_t)b->memory;
		const uint64_t pages[] = { start + 8192, start, start + 20480 };
		const struct weft_page_list list = {
			.pages = pages, .count = 3, .page_size_bytes = 4096, .first_offset = 4000
		};
		const struct iscsi_pdu p = command_pdu(b, MEM_WAY_IN, 96 + 4096 + 10);
		struct weft_iscsi_pdu pdu = wr_pdu(&p);
		struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
					   .flags = WEFT_SIGNALLED,
					   .iscsi = &pdu };
		uint32_t itt;

		pdu.pages = &list;
		pdu.end_offset = 10;
		bed_receive(b, 2);
		MUST(bed_post(b, &wr));
		bed_move(b);
		expect_command_sent(b);
		EXPECT(b->adapter.mem.atts.used > 0);
		itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		target_data_in(b, itt, 0, pattern, 96 + 4096 + 10);
		target_response(b, itt);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		expect_over(b, pdu.command_id, itt);
		EXPECT_MEM(b->memory + 8192 + 4000, pattern, 96);
		EXPECT_MEM(b->memory, pattern + 96, 4096);
		EXPECT_MEM(b->memory + 20480, pattern + 96 + 4096, 10);
		memcpy(b->shadow, b->memory, 4096);
		memcpy(b->shadow + 12192, b->memory + 12192, 96);
		memcpy(b->shadow + 20480, b->memory + 20480, 10);
		EXPECT(is_unchanged(b));
		EXPECT_EQ(b->adapter.mem.atts.used, 0);
	}
}

/* ISCSI-06c, and RFC 7143 section 4.2.2.2: other PDUs are the consumer's, whole. */
TEST(test_iscsi_06c_other_pdus_go_to_the_consumer_whole)
{
	static const char text[] = "pong pong";

	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct iscsi_pdu out = { .opcode = ISCSI_NOP_OUT,
					 .is_immediate = true,
					 .itt = 9,
					 .ttt = ISCSI_TAG_NONE,
					 .data_bytes = sizeof(text) };
		struct iscsi_pdu in = { .opcode = ISCSI_NOP_IN,
					.itt = 9,
					.ttt = ISCSI_TAG_NONE,
					.stat_sn = b->stat_sn,
					.data_bytes = sizeof(text) };
		struct weft_completion c;
		const struct sent *s;

		bed_receive(b, 3);
		MUST(bed_control(b, &out, text));
		bed_move(b);
		EXPECT_EQ(bed_completion(b).opcode, WEFT_OP_ISCSI_CONTROL);
		s = expect_sent(b, ISCSI_NOP_OUT);
		EXPECT_EQ(s->pdu.itt, 9);
		EXPECT_EQ(s->pdu.exp_stat_sn, 0);
		EXPECT_MEM(s->data, text, sizeof(text));
		target_pdu(b, &in, text);
		bed_move(b);
		c = expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK);
		EXPECT_EQ(c.byte_count, ISCSI_BHS_BYTES + sizeof(text));
		EXPECT_EQ(c.command_id, 0);
		EXPECT_EQ(bed_received(b, 0)[0], ISCSI_NOP_IN);
		EXPECT_MEM(bed_received(b, 0) + ISCSI_BHS_BYTES, text, sizeof(text));
		EXPECT_EQ(bed_query(b).exp_stat_sn, b->stat_sn + 1);
		/* A ping has the next StatSN, and does not use it up. */
		in.itt = ISCSI_TAG_NONE;
		in.ttt = 3;
		in.data_bytes = 0;
		in.stat_sn = ++b->stat_sn;
		target_pdu(b, &in, NULL);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK);
		EXPECT_EQ(bed_query(b).exp_stat_sn, b->stat_sn);
		/* What is sent next acknowledges it. */
		out.data_bytes = 0;
		MUST(bed_control(b, &out, NULL));
		bed_move(b);
		EXPECT_EQ(bed_completion(b).opcode, WEFT_OP_ISCSI_CONTROL);
		EXPECT_EQ(expect_sent(b, ISCSI_NOP_OUT)->pdu.exp_stat_sn, b->stat_sn);
		/* A StatSN that is not the next is told with the PDU. */
		in.itt = 9;
		in.ttt = ISCSI_TAG_NONE;
		in.stat_sn = b->stat_sn + 1;
		target_pdu(b, &in, NULL);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_STAT_SN);
		EXPECT_EQ(bed_query(b).exp_stat_sn, b->stat_sn);
	}
}

/* RFC 7143 section 4.2.2.2: whatever is sent acknowledges the status that came. */
TEST(test_iscsi_01g_all_pdus_have_the_exp_stat_sn)
{
	static const struct setup setup = { .terms = { .is_immediate_off = true } };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		const struct iscsi_pdu in = { .opcode = ISCSI_NOP_IN,
					      .itt = 9,
					      .ttt = ISCSI_TAG_NONE,
					      .stat_sn = b->stat_sn++ };
		const struct sent *s;
		uint32_t id, itt;

		bed_receive(b, 3);
		target_pdu(b, &in, NULL);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK);
		id = bed_command(b, MEM_WAY_OUT, 512);
		bed_move(b);
		expect_command_sent(b);
		s = expect_sent(b, ISCSI_SCSI_COMMAND);
		EXPECT_EQ(s->pdu.exp_stat_sn, b->stat_sn);
		itt = s->pdu.itt;
		target_r2t(b, itt, 1, 0, 512);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
		EXPECT_EQ(expect_sent(b, ISCSI_DATA_OUT)->pdu.exp_stat_sn, b->stat_sn);
		target_response(b, itt);
		bed_move(b);
		expect_over(b, id, itt);
	}
}

/* RFC 7143 section 11.13.4: the numbers of a login that was refused mean nothing. */
TEST(test_iscsi_01i_a_refused_login_has_no_stat_sn)
{
	static const struct setup setup = { .is_raw = true };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct iscsi_pdu login = { .opcode = ISCSI_LOGIN_RESPONSE,
					   .csg = ISCSI_STAGE_OPERATIONAL,
					   .stat_sn = b->stat_sn++ };

		bed_receive(b, 2);
		b->terms = (struct weft_iscsi_terms){ 0 };
		target_pdu(b, &login, NULL);
		login.status_class = 2;
		login.stat_sn = b->stat_sn + 7;
		target_pdu(b, &login, NULL);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK);
		EXPECT_EQ(bed_query(b).exp_stat_sn, b->stat_sn);
	}
}

/* After the login nothing is read until the terms are there, and they hold for what comes next. */
TEST(test_iscsi_01a_terms_hold_from_the_end_of_the_login_on)
{
	static const struct setup setup = { .is_raw = true };
	static const struct weft_iscsi_terms none;

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct weft_iscsi_terms terms = b->terms;
		struct iscsi_pdu login = { .opcode = ISCSI_LOGIN_RESPONSE,
					   .is_final = true,
					   .csg = ISCSI_STAGE_OPERATIONAL,
					   .nsg = ISCSI_STAGE_FULL_FEATURE,
					   .tsih = 1 };
		struct iscsi_pdu ping = { .opcode = ISCSI_NOP_IN, .itt = ISCSI_TAG_NONE, .ttt = 1 };
		const struct iscsi_pdu out = { .opcode = ISCSI_NOP_OUT,
					       .is_immediate = true,
					       .is_final = true,
					       .itt = ISCSI_TAG_NONE,
					       .ttt = 1 };

		b->terms = none;
		MUST(iscsi_offload_set(b->qp, &none)); /* too early to be those of the login */
		/* A target may even end a login twice. */
		for (uint32_t round = 0; round < 2; round++) {
			bed_receive(b, 2);
			login.stat_sn = b->stat_sn++;
			ping.stat_sn = b->stat_sn;
			target_pdu(b, &login, NULL);
			bed_move(b);
			expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK);
			/* What the consumer sends meanwhile lets nothing in. */
			MUST(bed_control(b, &out, NULL));
			bed_move(b);
			EXPECT_EQ(bed_completion(b).opcode, WEFT_OP_ISCSI_CONTROL);
			(void)expect_sent(b, ISCSI_NOP_OUT);
			b->terms = terms;
			target_pdu(b, &ping, NULL);
			bed_move(b);
			expect_no_completion(b);
			bed_wait(b, 10 * RECEIVER_WAIT_NS);
			EXPECT(b->stream != NULL);
			MUST(iscsi_offload_set(b->qp, &terms));
			bed_move(b);
			expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK);
			EXPECT_EQ(bed_received(b, 2 * round + 1)[0], ISCSI_NOP_IN);
		}
		EXPECT_EQ(bed_query(b).terms.has_data_digest, terms.has_data_digest);
		EXPECT_EQ(bed_query(b).terms.recv_bytes_max, 8192);
	}
}

/* QP-07h: a command without data, with a long CDB, is one request like the others. */
TEST(test_qp_07h_command_without_data_and_with_a_long_cdb)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct iscsi_pdu p = command_pdu(b, MEM_WAY_NONE, 0);
		struct weft_iscsi_pdu pdu;
		struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
					   .flags = WEFT_SIGNALLED };
		const struct sent *s;
		uint32_t itt;

		p.cdb_more = (const uint8_t *)"0123456789abcdef";
		p.cdb_more_bytes = 16;
		pdu = wr_pdu(&p);
		wr.iscsi = &pdu;
		bed_receive(b, 1);
		MUST(bed_post(b, &wr));
		bed_move(b);
		expect_command_sent(b);
		s = expect_sent(b, ISCSI_SCSI_COMMAND);
		EXPECT_EQ(s->pdu.cdb_more_bytes, 16);
		EXPECT_MEM(s->pdu.cdb_more, "0123456789abcdef", 16);
		itt = s->pdu.itt;
		EXPECT_EQ(bed_entries(b), 1);
		target_response(b, itt);
		bed_move(b);
		expect_over(b, pdu.command_id, itt);
		EXPECT_EQ(bed_entries(b), 0);
	}
}

/* The header of a command is its own from its posting on, whatever is posted behind it. */
TEST(test_qp_07h_commands_posted_in_a_row_keep_their_long_cdbs)
{
	static const char *const cdbs[] = { "0123456789abcdef", "fedcba9876543210" };

	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		for (int i = 0; i < 2; i++) {
			struct iscsi_pdu p = command_pdu(b, MEM_WAY_NONE, 0);
			struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
						   .flags = WEFT_SIGNALLED };
			struct weft_iscsi_pdu pdu;

			p.cdb_more = (const uint8_t *)cdbs[i];
			p.cdb_more_bytes = 16;
			pdu = wr_pdu(&p);
			wr.iscsi = &pdu;
			MUST(bed_post(b, &wr));
			memset(&pdu, 0xff, sizeof(pdu));
		}
		bed_move(b);
		for (int i = 0; i < 2; i++) {
			const struct sent *s = expect_sent(b, ISCSI_SCSI_COMMAND);

			expect_command_sent(b);
			EXPECT_EQ(s->pdu.cdb_more_bytes, 16);
			EXPECT_MEM(s->pdu.cdb_more, cdbs[i], 16);
		}
	}
}
