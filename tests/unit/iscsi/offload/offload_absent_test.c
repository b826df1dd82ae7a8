/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-09 on a queue pair in iSCSI mode: the second half of a command's memory is away. The transfer
 * rests there, however its bytes move, and goes on when the page is there.
 */
#include "offload_bed.h"

#include <string.h>

enum { AT = 0x100000, HALF = 3000, ALL = 2 * HALF };

static uint8_t data[ALL];

/* A space over the first bytes of the consumer's memory, of two mappings; a region of both. */
struct absent {
	struct bed *b;
	struct weft_space *space;
	uint32_t tag;
};

static struct absent absent_make(struct bed *b, bool has_pager, uint64_t second)
{
	const struct weft_space_options so = { .memory = b->memory,
					       .size_bytes = ALL,
					       .mappings_max = 2,
					       .is_virtual = true,
					       .has_pager = has_pager };
	struct weft_region_options ro = { .addr = AT, .length = ALL, .rights = ALL_RIGHTS };
	struct mem_owner owner = pd_owner(b->pd);
	struct absent a = { .b = b };

	for (uint32_t i = 0; i < ALL; i++)
		data[i] = (uint8_t)(i * 11 + 5);
	memset(b->memory, 1, ALL);
	MUST(space_create(&b->adapter, &so, &a.space));
	MUST(mem_space_map(a.space, AT, HALF, 0));
	MUST(mem_space_map(a.space, AT + HALF, HALF, second));
	ro.space = a.space;
	owner.is_privileged = true;
	MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &a.tag));
	return a;
}

static struct absent absent_open(struct bed *b)
{
	return absent_make(b, true, WEFT_REAL_NONE);
}

static void absent_close(struct absent *a)
{
	REQUIRE(a->b->qp->state == WEFT_QPS_RTS);
	MUST(mem_region_deregister(&a->b->adapter.mem, a->b->pd->number, a->tag));
	MUST(space_destroy(a->space));
}

static void page_comes(struct absent *a)
{
	MUST(mem_space_move(a->space, AT + HALF, HALF));
	adapter_memory_changed(&a->b->adapter);
	bed_move(a->b);
}

/* Posts a command of all of it. */
static uint32_t post(struct absent *a, enum mem_way way)
{
	const struct iscsi_pdu p = command_pdu(a->b, way, ALL);
	const struct weft_sge sge = { AT, ALL, a->tag };
	struct weft_iscsi_pdu pdu = wr_pdu(&p);
	struct weft_send_wr wr = { .opcode = WEFT_OP_ISCSI_COMMAND,
				   .flags = WEFT_SIGNALLED,
				   .iscsi = &pdu,
				   .sges = &sge,
				   .sge_count = 1 };

	MUST(bed_post(a->b, &wr));
	return pdu.command_id;
}

static void end(struct absent *a, uint32_t itt)
{
	target_response(a->b, itt);
	bed_move(a->b);
	expect_receive(a->b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
	absent_close(a);
}

TEST(test_vmm_09_iscsi_data_in_waits_for_the_page)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		uint32_t itt;

		bed_receive(b, 3);
		(void)post(&a, MEM_WAY_IN);
		bed_move(b);
		(void)bed_completion(b);
		itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		target_data_in(b, itt, 0, data, ALL);
		bed_move(b);
		expect_no_completion(b);
		EXPECT_EQ(b->memory[HALF], 1);
		page_comes(&a);
		expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		EXPECT_MEM(b->memory, data, ALL);
		end(&a, itt);
	}
}

/* All Data-Out PDUs: the bytes of both halves. */
static void expect_all(struct bed *b, uint32_t at)
{
	const struct sent *s;

	for (; at < ALL; at += s->pdu.data_bytes) {
		s = expect_sent(b, ISCSI_DATA_OUT);
		REQUIRE(s->pdu.offset == at);
		REQUIRE(memcmp(s->data, b->memory + at, s->pdu.data_bytes) == 0);
	}
}

TEST(test_vmm_09_iscsi_answer_to_an_r2t_waits_for_the_page)
{
	const struct setup setup = {
		.terms = { .is_immediate_off = true, .send_bytes_max = 1000 },
	};

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		uint32_t itt;

		bed_receive(b, 3);
		(void)post(&a, MEM_WAY_OUT);
		bed_move(b);
		(void)bed_completion(b);
		itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		target_r2t(b, itt, 1, 0, ALL);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_R2T, WEFT_OK);
		EXPECT(b->out.length - b->out.at < ALL);
		memset(b->memory + HALF, 2, HALF);
		page_comes(&a);
		expect_all(b, 0);
		end(&a, itt);
	}
}

/* A command with immediate data, and what was posted behind it. */
TEST(test_vmm_09_iscsi_immediate_data_waits_for_the_page)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		const struct sent *s;
		uint32_t itt;

		bed_receive(b, 2);
		(void)post(&a, MEM_WAY_OUT);
		(void)bed_command(b, MEM_WAY_NONE, 0);
		bed_move(b);
		expect_no_completion(b);
		page_comes(&a);
		s = expect_sent(b, ISCSI_SCSI_COMMAND);
		EXPECT_EQ(s->pdu.data_bytes, ALL);
		EXPECT_MEM(s->data, b->memory, ALL);
		itt = s->pdu.itt;
		s = expect_sent(b, ISCSI_SCSI_COMMAND);
		(void)bed_completion(b);
		(void)bed_completion(b);
		target_response(b, s->pdu.itt);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
		end(&a, itt);
	}
}

TEST(test_vmm_09_iscsi_receive_waits_for_the_page)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		/* The header begins before what is away, and the data is behind. */
		const struct weft_sge sge = { AT + HALF - 20, ALL - HALF + 20, a.tag };
		const struct weft_recv_wr wr = { .sges = &sge, .sge_count = 1 };
		const struct iscsi_pdu p = {
			.opcode = ISCSI_NOP_IN, .itt = 1, .ttt = ISCSI_TAG_NONE, .data_bytes = 1000
		};
		uint32_t posted;

		MUST(qp_post_recv(b->qp, &wr, 1, &posted));
		b->posted++;
		target_pdu(b, &p, data);
		bed_move(b);
		expect_no_completion(b);
		page_comes(&a);
		EXPECT_EQ(expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_OK).byte_count, 1048);
		EXPECT_EQ(b->memory[HALF - 20], ISCSI_NOP_IN);
		EXPECT_MEM(b->memory + HALF + 28, data, 1000);
		absent_close(&a);
	}
}

/* The mapping goes for good while the stream waits: the stream ends. */
TEST(test_vmm_09_iscsi_mapping_that_goes)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		uint32_t itt;

		bed_receive(b, 3);
		(void)post(&a, MEM_WAY_IN);
		bed_move(b);
		(void)bed_completion(b);
		itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		target_data_in(b, itt, 0, data, ALL);
		bed_move(b);
		MUST(mem_space_unmap(a.space, AT + HALF));
		adapter_memory_changed(&b->adapter);
		bed_move(b);
		EXPECT(b->is_aborted);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		EXPECT_EQ(bed_entries(b), 0);
		EXPECT_EQ(b->memory[HALF], 1);
		MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, a.tag));
		MUST(space_destroy(a.space));
	}
}

/* No pager brings it: the consumer is told, and the stream goes on. */
TEST(test_iscsi_05_memory_that_does_not_come_is_told)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_make(b, false, HALF);
		uint32_t itt;

		bed_receive(b, 2);
		(void)post(&a, MEM_WAY_IN);
		bed_move(b);
		(void)bed_completion(b);
		itt = expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
		MUST(mem_space_move(a.space, AT + HALF, WEFT_REAL_NONE));
		target_data_in(b, itt, 0, data, 512);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_SPACE_UNMAPPED);
		EXPECT_EQ(b->memory[0], 1);
		MUST(mem_space_move(a.space, AT + HALF, HALF));
		end(&a, itt);
	}
}
