/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that are refused when they are posted, and those that fail when they are executed. */
#include "offload_bed.h"

#include <string.h>

/* Posts a command with this header and one element. */
static enum weft_reason post(struct bed *b, const struct iscsi_pdu *p, uint32_t length,
			     struct weft_iscsi_pdu *pdu)
{
	const struct weft_sge sge = bed_sge(b, 0, length);
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = pdu,
				   .sges = &sge,
				   .sge_count = length > 0 };

	if (p)
		*pdu = wr_pdu(p);
	return bed_post(b, &wr);
}

/* ISCSI-01c: what is invalid is refused at once, and changes nothing. */
TEST(test_iscsi_01c_iscsi_01d_commands_refused_at_once)
{
	struct bed *b = bed_first(NULL);
	const struct iscsi_pdu good = command_pdu(b, MEM_WAY_IN, 512);
	struct iscsi_pdu p = good;
	struct weft_iscsi_pdu pdu;
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND };

	EXPECT_EQ(bed_post(b, &wr), WEFT_R_NULL_ARGUMENT);
	/* Segments: of another length than the command, or without a direction. */
	EXPECT_EQ(post(b, &good, 511, &pdu), WEFT_R_ISCSI_LENGTH);
	EXPECT_EQ(post(b, &good, 0, &pdu), WEFT_R_ISCSI_LENGTH);
	p = command_pdu(b, MEM_WAY_NONE, 0);
	EXPECT_EQ(post(b, &p, 512, &pdu), WEFT_R_ISCSI_LENGTH);
	/* Command valid? */
	p = good;
	p.is_read = false;
	EXPECT_EQ(post(b, &p, 512, &pdu), WEFT_R_ISCSI_FLAGS);
	p = good;
	p.is_write = true;
	p.has_read_expected = true;
	p.read_expected_bytes = 512;
	EXPECT_EQ(post(b, &p, 512, &pdu), WEFT_R_ISCSI_BOTH_WAYS);
	p.is_write = false; /* the length of a second direction alone */
	EXPECT_EQ(post(b, &p, 512, &pdu), WEFT_R_ISCSI_BOTH_WAYS);
	p = good;
	p.data_bytes = 4;
	EXPECT_EQ(post(b, &p, 512, &pdu), WEFT_R_ISCSI_REQUEST);
	p = (struct iscsi_pdu){ .opcode = ISCSI_NOP_OUT, .itt = 1, .ttt = ISCSI_TAG_NONE };
	EXPECT_EQ(post(b, &p, 0, &pdu), WEFT_R_ISCSI_REQUEST);
	p = (struct iscsi_pdu){ .opcode = ISCSI_NOP_IN, .itt = 1, .ttt = ISCSI_TAG_NONE };
	EXPECT_EQ(post(b, &p, 0, &pdu), WEFT_R_ISCSI_DIRECTION);
	/* Its own struct. */
	pdu = wr_pdu(&good);
	pdu.reserved[3] = 1;
	EXPECT_EQ(post(b, NULL, 512, &pdu), WEFT_R_RESERVED);
	pdu = wr_pdu(&good);
	pdu.ahs_bytes = 8;
	EXPECT_EQ(post(b, NULL, 512, &pdu), WEFT_R_NULL_ARGUMENT);
	pdu.ahs = pdu.bhs;
	EXPECT_EQ(post(b, NULL, 512, &pdu), WEFT_R_ISCSI_AHS); /* the header says none */
	pdu.ahs_bytes = WEFT_ISCSI_AHS_MAX + 4;
	EXPECT_EQ(post(b, NULL, 512, &pdu), WEFT_R_ISCSI_AHS);
	/* Real addresses: not in this domain. */
	pdu = wr_pdu(&good);
	pdu.end_offset = 1;
	EXPECT_EQ(post(b, NULL, 512, &pdu), WEFT_R_ISCSI_PAGES);
	EXPECT_EQ(pdu.command_id, 0);
	EXPECT_EQ(bed_query(b).commands_open, 0);
	wr.opcode = WEFT_OP_SEND;
	EXPECT_EQ(bed_post(b, &wr), WEFT_R_WR_SERVICE);
	while ((b = bed_next(b)))
		continue;
}

/* ISCSI-02. */
TEST(test_iscsi_02_page_lists_refused_at_once)
{
	const struct setup setup = { .is_privileged = true, .is_plain = true };
	struct bed *b = bed_first(&setup);
	const uint64_t pages[] = { (uintptr_t)b->memory, (uintptr_t)b->memory + 4096 };
	struct weft_page_list list = {
		.pages = pages, .count = 2, .page_size_bytes = 4096, .first_offset = 96
	};
	const struct iscsi_pdu p = command_pdu(b, MEM_WAY_IN, 4096);
	struct weft_iscsi_pdu pdu = wr_pdu(&p);

	pdu.pages = &list;
	pdu.end_offset = 96;
	EXPECT_EQ(post(b, NULL, 4096, &pdu), WEFT_R_ISCSI_PAGES); /* elements as well */
	pdu.end_offset = 97;
	EXPECT_EQ(post(b, NULL, 0, &pdu), WEFT_R_ISCSI_LENGTH);
	pdu.end_offset = 4097;
	EXPECT_EQ(post(b, NULL, 0, &pdu), WEFT_R_ISCSI_PAGES);
	pdu.end_offset = 96;
	list.page_size_bytes = 4095;
	EXPECT_EQ(post(b, NULL, 0, &pdu), WEFT_R_ISCSI_PAGES);
	list.page_size_bytes = 4096;
	list.first_offset = 4096;
	EXPECT_EQ(post(b, NULL, 0, &pdu), WEFT_R_ISCSI_PAGES);
	list.first_offset = 96;
	list.count = 1; /* it would end before it begins */
	EXPECT_EQ(post(b, NULL, 0, &pdu), WEFT_R_ISCSI_PAGES);
	list.count = 2;
	list.reserved[1] = 1;
	EXPECT_EQ(post(b, NULL, 0, &pdu), WEFT_R_RESERVED);
	list.reserved[1] = 0;
	MUST(post(b, NULL, 0, &pdu));
	while ((b = bed_next(b)))
		continue;
}

/* ISCSI-04: the consumer's own task tags are none that the table may give. */
TEST(test_iscsi_04_control_pdus_refused_at_once)
{
	struct bed *b = bed_first(NULL);
	struct iscsi_pdu p = { .opcode = ISCSI_NOP_OUT,
			       .is_immediate = true,
			       .itt = WEFT_ISCSI_TAGS_MAX,
			       .ttt = ISCSI_TAG_NONE };
	static const uint8_t opcodes[] = { ISCSI_SCSI_COMMAND, ISCSI_DATA_OUT, ISCSI_SNACK };

	EXPECT_EQ(bed_control(b, &p, NULL), WEFT_R_ISCSI_TASK_TAG);
	p.itt = b->tag;
	EXPECT_EQ(bed_control(b, &p, NULL), WEFT_R_ISCSI_TASK_TAG);
	for (size_t i = 0; i < sizeof(opcodes); i++) {
		p = (struct iscsi_pdu){ .opcode = opcodes[i],
					.is_final = true,
					.itt = opcodes[i] == ISCSI_SNACK ? ISCSI_TAG_NONE : 1,
					.code = ISCSI_SNACK_STATUS,
					.ttt = ISCSI_TAG_NONE };
		EXPECT_EQ(bed_control(b, &p, NULL), WEFT_R_ISCSI_REQUEST);
	}
	p = (struct iscsi_pdu){ .opcode = ISCSI_TEXT_REQUEST,
				.is_final = true,
				.itt = 1,
				.ttt = ISCSI_TAG_NONE,
				.data_bytes = 8193 };
	{
		const struct weft_sge sge = bed_sge(b, 0, 8193);
		struct weft_iscsi_pdu pdu = wr_pdu(&p);
		struct weft_send_wr wr = {
			.opcode = WEFT_OP_ISCSI_CONTROL, .iscsi = &pdu, .sges = &sge, .sge_count = 1
		};

		EXPECT_EQ(bed_post(b, &wr), WEFT_R_ISCSI_DATA_LIMIT);
		wr.sge_count = 0;
		EXPECT_EQ(bed_post(b, &wr), WEFT_R_ISCSI_LENGTH);
	}
	/* The tags of the whole table are others. */
	p = (struct iscsi_pdu){
		.opcode = ISCSI_NOP_OUT, .is_immediate = true, .itt = ISCSI_TAG_NONE, .ttt = 5
	};
	MUST(bed_control(b, &p, NULL));
	p.itt = WEFT_ISCSI_TAGS_MAX - 1;
	MUST(bed_control(b, &p, NULL));
	bed_move(b);
	EXPECT(weft_tag_index(WEFT_ISCSI_TAGS_MAX - 1) == 0);
	while ((b = bed_next(b)))
		continue;
}

/* As many commands as outstanding_max says, from posting on until they are over. */
TEST(test_iscsi_01c_qp_02_commands_in_progress_are_bounded)
{
	const struct setup setup = { .outstanding_max = 2 };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		const struct iscsi_pdu p = command_pdu(b, MEM_WAY_IN, 512);
		struct weft_iscsi_pdu pdu = wr_pdu(&p);
		uint32_t first, second, itt;

		bed_receive(b, 1);
		first = bed_command(b, MEM_WAY_IN, 512);
		second = bed_command(b, MEM_WAY_IN, 512);
		EXPECT(first != second);
		EXPECT(id_slot(first) < 2 && id_slot(second) < 2);
		EXPECT_EQ(post(b, NULL, 512, &pdu), WEFT_R_QUEUE_FULL);
		bed_move(b);
		EXPECT_EQ(post(b, NULL, 512, &pdu), WEFT_R_QUEUE_FULL);
		itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		target_response(b, itt);
		bed_move(b);
		MUST(post(b, NULL, 512, &pdu));
		EXPECT(pdu.command_id != first && pdu.command_id != second);
	}
}

/* ISCSI-01c: the Command ID is there at once, the tag when the command is executed. */
TEST(test_iscsi_01c_tag_of_a_command_that_was_not_sent)
{
	struct bed *b = bed_first(NULL);
	uint32_t id = bed_command(b, MEM_WAY_IN, 512), tag = 0;

	EXPECT_EQ(iscsi_offload_tag(b->qp, id, &tag), WEFT_R_ISCSI_COMMAND);
	EXPECT_EQ(iscsi_offload_end(b->qp, id), WEFT_R_BUSY);
	bed_move(b);
	MUST(iscsi_offload_tag(b->qp, id, &tag));
	EXPECT(tag >= WEFT_ISCSI_TAGS_MAX);
	while ((b = bed_next(b)))
		continue;
}

/* Requests that are posted all together or not at all give their commands back. */
TEST(test_iscsi_01c_posting_all_or_none)
{
	struct bed *b = bed_first(NULL);
	const struct iscsi_pdu p = command_pdu(b, MEM_WAY_IN, 512);
	struct weft_iscsi_pdu pdus[2] = { wr_pdu(&p), wr_pdu(&p) };
	const struct weft_sge sge = bed_sge(b, 0, 512);
	struct weft_send_wr wrs[2] = {
		{ .opcode = WEFT_OP_ISCSI_COMMAND,
		  .iscsi = &pdus[0],
		  .sges = &sge,
		  .sge_count = 1 },
		{ .opcode = WEFT_OP_ISCSI_COMMAND, .iscsi = &pdus[1] },
	};

	EXPECT_EQ(qp_post_send_all(b->qp, wrs, 2), WEFT_R_ISCSI_LENGTH);
	EXPECT_EQ(pdus[0].command_id, 0);
	EXPECT_EQ(bed_query(b).commands_open, 0);
	while ((b = bed_next(b)))
		continue;
}

/* ---- Failures when it is executed ----------------------------------------------------------- */

/* Two commands in progress, a write among them; then as many entries as the table has. */
static void fill_table(struct bed *b, uint32_t *read, uint32_t *write)
{
	uint32_t tag;

	bed_receive(b, 6);
	(void)bed_command(b, MEM_WAY_IN, 512);
	(void)bed_command(b, MEM_WAY_OUT, 512);
	bed_move(b);
	*read = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
	*write = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
	REQUIRE(bed_completion(b).status == WEFT_SUCCESS);
	REQUIRE(bed_completion(b).status == WEFT_SUCCESS);
	while (mem_tag_reserve(&b->adapter.mem, b->other_pd->number, &tag) == WEFT_OK)
		continue;
}

static void empty_table(struct bed *b)
{
	struct mem_table *mem = &b->adapter.mem;

	for (uint32_t i = 1; i < mem->tags_max; i++)
		(void)mem_tag_release(mem, b->other_pd->number,
				      mem_tag(i, mem->entries[i].instance));
}

static void expect_failed(struct bed *b, enum weft_status status, enum weft_reason reason)
{
	struct weft_completion c = bed_completion(b);

	REQUIRE(c.opcode == WEFT_OP_ISCSI_COMMAND && c.status == status && c.reason == reason);
}

/*
 * ISCSI-S3, ISCSI-01e: the table is full. Option 1: Send Queue Drained; later requests flush; what
 * is in progress goes on, and the request may be tried again.
 */
TEST(test_iscsi_01e_iscsi_s3_full_table_reactive)
{
	const struct setup setup = { .on_failure = WEFT_FAIL_DRAIN,
				     .terms = { .is_immediate_off = true } };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		const uint8_t bytes[512] = { 9 };
		const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
		uint32_t read, write, id;

		fill_table(b, &read, &write);
		(void)bed_command(b, MEM_WAY_IN, 512);
		(void)bed_command(b, MEM_WAY_IN, 512);
		bed_move(b);
		expect_failed(b, WEFT_ERR_REGISTER, WEFT_R_TABLE_FULL);
		expect_failed(b, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
		EXPECT_EQ(b->qp->state, WEFT_QPS_SQE);
		EXPECT_EQ(bed_entries(b), 2);
		EXPECT_EQ(bed_query(b).commands_open, 2);
		/* Data-In, R2T, control messages and Responses go on. */
		target_data_in(b, read, 0, bytes, 512);
		target_r2t(b, write, 3, 0, 512);
		target_response(b, read);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		expect_receive(b, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
		expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
		EXPECT_EQ(expect_sent(b, ISCSI_DATA_OUT)->pdu.data_bytes, 512);
		EXPECT_MEM(b->memory, bytes, 512);
		/* Again, now that there is an entry free. */
		MUST(qp_modify(b->qp, &rts, WEFT_QP_STATE));
		id = bed_command(b, MEM_WAY_IN, 512);
		bed_move(b);
		expect_failed(b, WEFT_SUCCESS, WEFT_OK);
		read = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		target_response(b, read);
		target_response(b, write);
		bed_move(b);
		EXPECT_EQ(bed_completion(b).command_id, id);
		EXPECT_EQ(bed_completion(b).opcode, WEFT_OP_RECV_ISCSI_RESPONSE);
		empty_table(b);
	}
}

/* ISCSI-S3, ISCSI-01f: option 2: the stream ends, everything is flushed. */
TEST(test_iscsi_01f_iscsi_s3_full_table_anticipatory)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t read, write;
		struct weft_completion c;

		fill_table(b, &read, &write);
		(void)bed_command(b, MEM_WAY_IN, 512);
		(void)bed_command(b, MEM_WAY_IN, 512);
		bed_move(b);
		expect_failed(b, WEFT_ERR_REGISTER, WEFT_R_TABLE_FULL);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		EXPECT(b->is_aborted);
		EXPECT_EQ(bed_entries(b), 0);
		expect_failed(b, WEFT_ERR_FLUSHED, WEFT_R_FLUSHED);
		for (int i = 0; i < 6; i++) {
			c = bed_completion(b);
			EXPECT(c.status == WEFT_ERR_FLUSHED && c.opcode == WEFT_OP_RECV);
		}
		expect_no_completion(b);
		empty_table(b);
	}
}

/* ISCSI-01d: segments that wrap, or that the domain does not have. */
TEST(test_iscsi_01d_bad_segments)
{
	const struct setup setup = { .on_failure = WEFT_FAIL_DRAIN };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		const struct weft_sge bad[] = {
			{ UINT64_MAX - 100, 512, b->tag },
			{ (uintptr_t)b->memory, 512, b->tag ^ 1 },
			{ (uintptr_t)b->memory + MEMORY_BYTES - 511, 512, b->tag },
		};
		const enum weft_reason reasons[] = { WEFT_R_RANGE_WRAP, WEFT_R_TAG_INSTANCE,
						     WEFT_R_RANGE_BOUNDS };

		for (size_t i = 0; i < 3; i++) {
			const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
			const struct iscsi_pdu p = command_pdu(b, MEM_WAY_IN, 512);
			struct weft_iscsi_pdu pdu = wr_pdu(&p);
			struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
						   .iscsi = &pdu,
						   .sges = &bad[i],
						   .sge_count = 1 };

			MUST(bed_post(b, &wr));
			bed_move(b);
			expect_failed(b, WEFT_ERR_LOCAL_ACCESS, reasons[i]);
			EXPECT_EQ(b->qp->state, WEFT_QPS_SQE);
			EXPECT_EQ(bed_entries(b), 0);
			EXPECT_EQ(bed_query(b).commands_open, 0);
			EXPECT(!target_next(b));
			MUST(qp_modify(b->qp, &rts, WEFT_QP_STATE));
		}
	}
}

/* ISCSI-01a, ISCSI-09: only queue pairs of this service have commands, and they have no peer. */
TEST(test_iscsi_01a_iscsi_09_mode_of_a_queue_pair)
{
	struct bed *b = bed_first(NULL);
	struct weft_qp *other = bed_qp(b, b->pd), *rc;
	struct weft_qp_options options = { .send_cq = b->cq, .recv_cq = b->cq };
	const struct iscsi_offload_config config = { .attention = &b->attention };
	struct weft_iscsi_attr attr;
	struct iscsi_offload *stream;
	struct weft_qp *bad;
	uint32_t tag;

	EXPECT_EQ(qp_connect(b->qp, other), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(qp_modify(other, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT }, WEFT_QP_STATE),
		  WEFT_OK);
	EXPECT_EQ(qp_modify(other, &(struct weft_qp_attr){ .state = WEFT_QPS_RTR }, WEFT_QP_STATE),
		  WEFT_R_QP_UNCONNECTED);
	EXPECT_EQ(iscsi_offload_query(other, &attr), WEFT_R_QP_UNCONNECTED);
	EXPECT_EQ(iscsi_offload_set(other, &(struct weft_iscsi_terms){ 0 }), WEFT_R_QP_UNCONNECTED);
	EXPECT_EQ(iscsi_offload_tag(other, 1, &tag), WEFT_R_ISCSI_COMMAND);
	EXPECT_EQ(iscsi_offload_end(other, 1), WEFT_R_ISCSI_COMMAND);
	MUST(qp_create(b->pd, &options, b->qp->transport_at_first, &rc));
	EXPECT_EQ(iscsi_offload_create(rc, &config, &stream), WEFT_R_WR_SERVICE);
	for (int i = 0; i < 2; i++) {
		struct weft_send_wr wr = { .opcode = i ? WEFT_OP_ISCSI_COMMAND
						       : WEFT_OP_ISCSI_CONTROL };
		uint32_t posted;

		EXPECT_EQ(qp_post_send(rc, &wr, 1, &posted), WEFT_R_WR_SERVICE);
	}
	EXPECT_EQ(iscsi_offload_query(rc, &attr), WEFT_R_WR_SERVICE);
	EXPECT_EQ(iscsi_offload_set(rc, &(struct weft_iscsi_terms){ 0 }), WEFT_R_WR_SERVICE);
	EXPECT_EQ(iscsi_offload_tag(rc, 1, &tag), WEFT_R_WR_SERVICE);
	EXPECT_EQ(iscsi_offload_end(rc, 1), WEFT_R_WR_SERVICE);
	EXPECT_EQ(iscsi_offload_create(b->qp, &config, &stream), WEFT_R_QP_STATE);
	EXPECT_EQ(iscsi_offload_set(b->qp, &(struct weft_iscsi_terms){ .send_bytes_max = 511 }),
		  WEFT_R_ISCSI_VALUE);
	EXPECT_EQ(
		iscsi_offload_set(b->qp, &(struct weft_iscsi_terms){ .recv_bytes_max = 1U << 24 }),
		WEFT_R_ISCSI_VALUE);
	options.service = WEFT_ISCSI;
	options.outstanding_max = 65536;
	EXPECT_EQ(qp_create(b->pd, &options, b->qp->transport_at_first, &bad), WEFT_R_BAD_ARGUMENT);
	qp_destroy(rc);
	qp_destroy(other);
	while ((b = bed_next(b)))
		continue;
}
