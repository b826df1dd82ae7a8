/* SPDX-License-Identifier: BSD-2-Clause */
/* A target that is wrong: each check of ISCSI-05 and ISCSI-01i, and damage. */
#include "offload_bed.h"

#include <string.h>

static const uint8_t bytes[1024] = { 1, 2, 3, 4 };

/* Posts a command and lets it go: its task tag. */
static uint32_t begin(struct bed *b, enum mem_way way, uint32_t length)
{
	(void)bed_command(b, way, length);
	bed_move(b);
	REQUIRE(bed_completion(b).opcode == WEFT_OP_ISCSI_COMMAND);
	return expect_sent(b, ISCSI_SCSI_COMMAND)->pdu.itt;
}

/* The Data-In was passed to the consumer with all of its data, and nothing was moved. */
static void expect_refused_data(struct bed *b, enum weft_reason reason, uint32_t length)
{
	struct weft_completion c = expect_receive(b, WEFT_OP_RECV_ISCSI, reason);
	const uint8_t *at = bed_received(b, (uint32_t)c.id - 1000);

	REQUIRE(c.command_id == 0 && !c.has_invalidated);
	REQUIRE(c.byte_count == ISCSI_BHS_BYTES + length);
	REQUIRE(at[0] == ISCSI_DATA_IN && memcmp(at + ISCSI_BHS_BYTES, bytes, length) == 0);
	REQUIRE(is_unchanged(b));
}

static void expect_refused_r2t(struct bed *b, enum weft_reason reason)
{
	struct weft_completion c = expect_receive(b, WEFT_OP_RECV_ISCSI, reason);

	REQUIRE(c.byte_count == ISCSI_BHS_BYTES);
	REQUIRE(bed_received(b, (uint32_t)c.id - 1000)[0] == ISCSI_R2T);
	REQUIRE(!target_next(b));
}

/* Both kinds of data PDU with this tag are refused for the reason. */
static void expect_both_refused(struct bed *b, uint32_t itt, enum weft_reason reason)
{
	uint64_t refused = bed_query(b).refused;

	target_data_in(b, itt, 0, bytes, 100);
	target_r2t(b, itt, 1, 0, 100);
	bed_move(b);
	expect_refused_data(b, reason, 100);
	expect_refused_r2t(b, reason);
	REQUIRE(bed_query(b).refused == refused + 2);
}

/* Ends the command in good order. */
static void finish(struct bed *b, uint32_t itt)
{
	target_response(b, itt);
	bed_move(b);
	REQUIRE(bed_completion(b).opcode == WEFT_OP_RECV_ISCSI_RESPONSE);
}

TEST(test_iscsi_05a_iscsi_s2_entry_that_is_not_valid)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t itt;

		bed_receive(b, 9);
		itt = begin(b, MEM_WAY_IN, 512);
		finish(b, itt);
		expect_both_refused(b, itt, WEFT_R_ISCSI_ENTRY_INVALID);
		/* Outside the table; and index 0, which no entry has. */
		expect_both_refused(b, 0xfffffe00, WEFT_R_ISCSI_ENTRY_INVALID);
		expect_both_refused(b, 5, WEFT_R_ISCSI_ENTRY_INVALID);
	}
}

TEST(test_iscsi_05b_iscsi_s2_entry_of_a_region)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		bed_receive(b, 2);
		expect_both_refused(b, b->tag, WEFT_R_ISCSI_ENTRY_TYPE);
	}
}

/* An entry as a command of this queue pair would make it, but for what is given. */
static uint32_t forge(struct bed *b, const struct weft_pd *pd, const struct mem_command *c)
{
	const struct mem_owner owner = pd_owner(pd);
	uint32_t tag;

	MUST(mem_command_register(&b->adapter.mem, &owner, c, &tag));
	return tag;
}

TEST(test_iscsi_05c_iscsi_s2_entry_of_another_domain)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		const struct mem_command c = { .qp = b->qp->number,
					       .way = MEM_WAY_IN,
					       .length = 512 };
		uint32_t tag = forge(b, b->other_pd, &c);

		bed_receive(b, 2);
		expect_both_refused(b, tag, WEFT_R_ISCSI_ENTRY_PD);
		mem_command_deregister(&b->adapter.mem, tag);
	}
}

/* Its index is in use again: the instance tells. */
TEST(test_iscsi_05d_iscsi_s2_stale_instance)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t itt;

		bed_receive(b, 3);
		itt = begin(b, MEM_WAY_IN, 512);
		expect_both_refused(b, itt - 1, WEFT_R_ISCSI_ENTRY_INSTANCE);
		finish(b, itt);
	}
}

/* AMB-20: offset and length. */
TEST(test_iscsi_05e_iscsi_s2_mem_12_beyond_the_memory)
{
	static const struct {
		uint32_t offset, length;
		bool is_good;
	} cases[] = {
		{ 0, 512, true },    { 511, 1, true },	{ 0, 513, false },
		{ 512, 1, false },   { 511, 2, false }, { 0xfffffff0, 15, false },
		{ 1024, 64, false },
	};

	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t read, write;

		bed_receive(b, 16);
		read = begin(b, MEM_WAY_IN, 512);
		write = begin(b, MEM_WAY_OUT, 512);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			if (cases[i].is_good)
				continue;
			target_data_in(b, read, cases[i].offset, bytes, cases[i].length);
			target_r2t(b, write, 1, cases[i].offset, cases[i].length);
			bed_move(b);
			expect_refused_data(b, WEFT_R_ISCSI_ENTRY_RANGE, cases[i].length);
			expect_refused_r2t(b, WEFT_R_ISCSI_ENTRY_RANGE);
		}
		for (size_t i = 0; i < 2; i++) {
			target_data_in(b, read, cases[i].offset, bytes, cases[i].length);
			bed_move(b);
			expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
			EXPECT_MEM(b->memory + cases[i].offset, bytes, cases[i].length);
		}
		finish(b, read);
		finish(b, write);
	}
}

/* ISCSI-03: what a command enables is the way of its data only. */
TEST(test_iscsi_05f_iscsi_03_iscsi_s2_data_the_wrong_way)
{
	const struct setup setup = { .terms = { .is_immediate_off = true } };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t read, write, none;
		const struct mem_entry *entries = b->adapter.mem.entries;

		bed_receive(b, 7);
		read = begin(b, MEM_WAY_IN, 512);
		write = begin(b, MEM_WAY_OUT, 512);
		none = begin(b, MEM_WAY_NONE, 0);
		EXPECT_EQ(entries[weft_tag_index(read)].rights, WEFT_REMOTE_WRITE);
		EXPECT_EQ(entries[weft_tag_index(write)].rights, WEFT_REMOTE_READ);
		EXPECT_EQ(entries[weft_tag_index(none)].rights, 0);
		target_data_in(b, write, 0, bytes, 512);
		target_r2t(b, read, 1, 0, 512);
		target_data_in(b, none, 0, NULL, 0);
		bed_move(b);
		expect_refused_data(b, WEFT_R_ISCSI_ENTRY_RIGHT, 512);
		expect_refused_r2t(b, WEFT_R_ISCSI_ENTRY_RIGHT);
		expect_refused_data(b, WEFT_R_ISCSI_ENTRY_RIGHT, 0);
		finish(b, read);
		finish(b, write);
		finish(b, none);
	}
}

/* 05g: a command of another connection; and one whose entry says another way than its rights. */
TEST(test_iscsi_05g_iscsi_s2_not_the_command_of_this_queue_pair)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct mem_command c = { .qp = b->qp->number + 1,
					 .way = MEM_WAY_IN,
					 .length = 512 };
		uint32_t tag = forge(b, b->pd, &c);
		struct mem_entry *e;

		bed_receive(b, 3);
		target_data_in(b, tag, 0, bytes, 100);
		bed_move(b);
		expect_refused_data(b, WEFT_R_ISCSI_ENTRY_COMMAND, 100);
		mem_command_deregister(&b->adapter.mem, tag);
		c.qp = b->qp->number;
		tag = forge(b, b->pd, &c);
		e = &b->adapter.mem.entries[weft_tag_index(tag)];
		e->rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE;
		target_r2t(b, tag, 1, 0, 100);
		target_data_in(b, tag, 0, bytes, 100);
		bed_move(b);
		expect_refused_r2t(b, WEFT_R_ISCSI_ENTRY_COMMAND);
		/* No command of this queue pair has that tag. */
		expect_refused_data(b, WEFT_R_ISCSI_ENTRY_COMMAND, 100);
		mem_command_deregister(&b->adapter.mem, tag);
	}
}

/* Whatever the entry's rights: a read gets no R2T, and a write no Data-In. */
TEST(test_iscsi_05g_iscsi_s2_command_of_the_other_way)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		uint32_t read, write;

		bed_receive(b, 4);
		read = begin(b, MEM_WAY_IN, 512);
		write = begin(b, MEM_WAY_OUT, 512);
		b->adapter.mem.entries[weft_tag_index(read)].rights |= WEFT_REMOTE_READ;
		b->adapter.mem.entries[weft_tag_index(write)].rights |= WEFT_REMOTE_WRITE;
		target_r2t(b, read, 1, 0, 100);
		target_data_in(b, write, 0, bytes, 100);
		bed_move(b);
		expect_refused_r2t(b, WEFT_R_ISCSI_ENTRY_COMMAND);
		expect_refused_data(b, WEFT_R_ISCSI_ENTRY_COMMAND, 100);
		finish(b, read);
		finish(b, write);
	}
}

/* The order of the checks: a message that fails all of them fails the first. */
TEST(test_iscsi_05_checks_in_their_order)
{
	struct bed *b = bed_first(NULL);
	const struct mem_command c = { .qp = b->qp->number + 1, .way = MEM_WAY_OUT, .length = 8 };
	const uint32_t tag = forge(b, b->other_pd, &c);
	struct mem_entry *e = &b->adapter.mem.entries[weft_tag_index(tag)];
	struct mem_access a = { .addr = 9,
				.tag = tag - 1,
				.pd = b->pd->number,
				.qp = b->qp->number,
				.kind = MEM_DATA_IN };
	struct mem_table *mem = &b->adapter.mem;

	e->type = MEM_REGION;
	e->state = MEM_RESERVED;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_R_ISCSI_ENTRY_INVALID);
	e->state = MEM_VALID;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_R_ISCSI_ENTRY_TYPE);
	e->type = MEM_ISCSI_REGION;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_R_ISCSI_ENTRY_PD);
	a.pd = b->other_pd->number;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_R_ISCSI_ENTRY_INSTANCE);
	a.tag = tag;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_R_ISCSI_ENTRY_RANGE);
	a.addr = 8;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_R_ISCSI_ENTRY_RIGHT);
	a.kind = MEM_R2T;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_R_ISCSI_ENTRY_COMMAND);
	a.qp++;
	EXPECT_EQ(mem_access_look(mem, &a), WEFT_OK);
	mem_command_deregister(mem, tag);
	while ((b = bed_next(b)))
		continue;
}

/* ---- Responses ------------------------------------------------------------------------------ */

/* The Response was dropped: counted, no receive taken, the command goes on. */
static void expect_dropped(struct bed *b, uint64_t dropped)
{
	bed_move(b);
	expect_no_completion(b);
	REQUIRE(b->stream && bed_query(b).dropped == dropped);
}

TEST(test_iscsi_01i_iscsi_01k_iscsi_s2_responses_that_are_dropped)
{
	static const uint8_t sense[20] = { 0, 18, 0x70, 0, 5 };

	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct iscsi_pdu p = { .opcode = ISCSI_SCSI_RESPONSE, .is_final = true };
		uint32_t itt, old;
		struct mem_command other = { .qp = b->qp->number + 1, .length = 8 };

		bed_receive(b, 4);
		old = begin(b, MEM_WAY_IN, 512);
		finish(b, old);
		itt = begin(b, MEM_WAY_IN, 512);
		/* StatSN: one too far, one used before; with data and without. */
		p.itt = itt;
		p.stat_sn = b->stat_sn + 1;
		target_pdu(b, &p, NULL);
		expect_dropped(b, 1);
		p.stat_sn = b->stat_sn - 1;
		p.data_bytes = sizeof(sense);
		target_pdu(b, &p, sense);
		expect_dropped(b, 2);
		/* The entry: not valid, of another kind, a stale instance, another connection's. */
		p.stat_sn = b->stat_sn;
		p.itt = old;
		target_pdu(b, &p, sense);
		expect_dropped(b, 3);
		p.itt = b->tag;
		target_pdu(b, &p, sense);
		expect_dropped(b, 4);
		p.itt = itt - 1;
		p.data_bytes = 0;
		target_pdu(b, &p, NULL);
		expect_dropped(b, 5);
		p.itt = forge(b, b->pd, &other);
		target_pdu(b, &p, NULL);
		expect_dropped(b, 6);
		mem_command_deregister(&b->adapter.mem, p.itt);
		/* None of them used up a StatSN; the command is as before. */
		EXPECT_EQ(bed_entries(b), 1);
		target_data_in(b, itt, 0, bytes, 512);
		p.itt = itt;
		p.data_bytes = sizeof(sense);
		b->stat_sn++;
		target_pdu(b, &p, sense);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		EXPECT_EQ(expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK).byte_count,
			  ISCSI_BHS_BYTES + sizeof(sense));
		EXPECT_MEM(bed_received(b, 2) + ISCSI_BHS_BYTES, sense, sizeof(sense));
		/* Two Responses: the second finds nothing. */
		target_pdu(b, &p, sense);
		expect_dropped(b, 7);
	}
}

/* AMB-19: a Data-In whose status has a wrong StatSN is good as data, and dropped as a Response. */
TEST(test_iscsi_07_iscsi_01i_status_in_data_in_with_a_wrong_stat_sn)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct iscsi_pdu p = { .opcode = ISCSI_DATA_IN,
				       .is_final = true,
				       .has_status = true,
				       .data_bytes = 512 };
		struct weft_completion c;
		uint32_t first;

		bed_receive(b, 3);
		first = begin(b, MEM_WAY_IN, 512);
		finish(b, first);
		p.itt = begin(b, MEM_WAY_IN, 512);
		p.stat_sn = b->stat_sn + 5;
		target_pdu(b, &p, bytes);
		bed_move(b);
		c = expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_R_ISCSI_STAT_SN);
		EXPECT(!c.has_invalidated);
		EXPECT_MEM(b->memory, bytes, 512);
		EXPECT_EQ(bed_query(b).dropped, 1);
		EXPECT_EQ(bed_entries(b), 1);
		finish(b, p.itt);
	}
}

/* ---- Damage --------------------------------------------------------------------------------- */

/* Damaged data is never told as placed, nor does a damaged PDU end its command. */
TEST(test_iscsi_data_digest_that_is_wrong)
{
	const struct setup setup = { .terms = { .has_data_digest = true } };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct iscsi_pdu p = { .opcode = ISCSI_SCSI_RESPONSE,
				       .is_final = true,
				       .data_bytes = 20 };
		struct weft_completion c;

		bed_receive(b, 4);
		p.itt = begin(b, MEM_WAY_IN, 512);
		p.stat_sn = b->stat_sn;
		b->is_data_bad = true;
		target_data_in(b, p.itt, 0, bytes, 512);
		bed_move(b);
		c = expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_DATA_DIGEST);
		EXPECT_EQ(c.byte_count, ISCSI_BHS_BYTES);
		EXPECT_EQ(bed_query(b).data_ins, 0);
		b->is_data_bad = true;
		target_pdu(b, &p, bytes);
		bed_move(b);
		c = expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_DATA_DIGEST);
		EXPECT(!c.has_invalidated);
		EXPECT_EQ(bed_entries(b), 1);
		/* It can be sent again. */
		target_data_in(b, p.itt, 0, bytes, 512);
		target_pdu(b, &p, bytes);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
		expect_receive(b, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
	}
}

TEST(test_iscsi_header_digest_that_is_wrong_ends_the_stream)
{
	const struct setup setup = { .terms = { .has_header_digest = true } };

	for (struct bed *b = bed_first(&setup); b; b = bed_next(b)) {
		uint32_t itt;

		bed_receive(b, 1);
		itt = begin(b, MEM_WAY_IN, 512);
		b->is_header_bad = true;
		target_data_in(b, itt, 0, bytes, 512);
		bed_move(b);
		EXPECT(b->is_aborted);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		EXPECT_EQ(b->qp->reason, WEFT_R_ISCSI_HEADER_DIGEST);
		EXPECT_EQ(bed_entries(b), 0);
		EXPECT(is_unchanged(b));
	}
}

/* What is no PDU at all goes to the consumer with the reason, without its data. */
TEST(test_iscsi_06c_pdus_that_are_none)
{
	for (struct bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct iscsi_pdu vendor = { .opcode = ISCSI_DATA_IN, .itt = 1, .data_bytes = 5 };
		struct iscsi_pdu wrap = { .opcode = ISCSI_DATA_IN,
					  .is_final = true,
					  .offset = 0xfffffff0,
					  .data_bytes = 100 };
		uint32_t itt;

		bed_receive(b, 3);
		itt = begin(b, MEM_WAY_IN, 512);
		wrap.itt = itt;
		target_pdu(b, &wrap, bytes);
		bed_move(b);
		EXPECT_EQ(expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_RANGE).byte_count,
			  ISCSI_BHS_BYTES);
		vendor.has_status = true; /* without F */
		target_pdu(b, &vendor, bytes);
		bed_move(b);
		expect_receive(b, WEFT_OP_RECV_ISCSI, WEFT_R_ISCSI_FLAGS);
		EXPECT(is_unchanged(b));
		finish(b, itt);
	}
}
