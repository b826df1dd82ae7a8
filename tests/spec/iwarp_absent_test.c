/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-09 on a stream: the second half of a message's memory is away. The stream rests there,
 * however its bytes come, and goes on when the page is there; what is behind it comes behind it.
 */
#include "iwarp_peer.h"

#include <string.h>

enum { AT = 0x100000, HALF = 5000, ALL = 2 * HALF, SMALL = 40 };

static uint8_t data[ALL];

/* A space over the first bytes of the consumer's memory, of two mappings; a region of both. */
struct absent {
	struct iwarp_bed *b;
	struct weft_space *space;
	uint32_t tag;
};

static struct absent absent_open(struct iwarp_bed *b)
{
	const struct weft_space_options so = { .memory = b->memory,
					       .size_bytes = ALL,
					       .mappings_max = 2,
					       .is_virtual = true,
					       .has_pager = true };
	struct weft_region_options ro = { .addr = AT, .length = ALL, .rights = ALL_RIGHTS };
	struct mem_owner owner = pd_owner(b->pd);
	struct absent a = { .b = b };

	for (uint32_t i = 0; i < ALL; i++)
		data[i] = (uint8_t)(i * 11 + 5);
	memset(b->memory, 1, ALL);
	MUST(space_create(&b->adapter, &so, &a.space));
	MUST(mem_space_map(a.space, AT, HALF, 0));
	MUST(mem_space_map(a.space, AT + HALF, HALF, WEFT_REAL_NONE));
	ro.space = a.space;
	owner.is_privileged = true;
	MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &a.tag));
	return a;
}

static void absent_close(struct absent *a)
{
	EXPECT_EQ(a->b->qp->state, WEFT_QPS_RTS);
	bed_deregister(a->b, a->tag);
	MUST(space_destroy(a->space));
}

/* The program was told where; then the page comes. */
static void page_comes(struct absent *a)
{
	struct weft_event event;

	do {
		REQUIRE(event_pop(&a->b->adapter.events, &event));
	} while (event.kind != WEFT_EVENT_FAULT);
	MUST_EQ(event.addr, AT + HALF);
	MUST(mem_space_move(a->space, AT + HALF, HALF));
	adapter_memory_changed(&a->b->adapter);
	bed_move(a->b);
}

static struct weft_sge all_of(const struct absent *a)
{
	return (struct weft_sge){ .addr = AT, .length = ALL, .tag = a->tag };
}

TEST(test_vmm_09_iwarp_write_and_what_follows_wait_for_the_page)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		uint32_t tag = bed_region(b, ALL, SMALL, ALL_RIGHTS);

		bed_receive(b, tag, ALL, SMALL);
		peer_write(b, a.tag, AT, data, ALL);
		peer_send(b, RDMAP_SEND, 0, data, SMALL);
		bed_move(b);
		expect_no_completion(b);
		EXPECT_EQ(b->memory[HALF], 1);
		page_comes(&a);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		EXPECT_MEM(b->memory, data, ALL);
		EXPECT_MEM(b->memory + ALL, data, SMALL);
		bed_deregister(b, tag);
		absent_close(&a);
	}
}

TEST(test_vmm_09_iwarp_receive_waits_for_the_page)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		const struct weft_sge s = all_of(&a);
		uint32_t posted;

		MUST(qp_post_recv(b->qp,
				  &(struct weft_recv_wr){ .id = 1, .sges = &s, .sge_count = 1 }, 1,
				  &posted));
		b->posted++;
		peer_send(b, RDMAP_SEND, 0, data, ALL);
		bed_move(b);
		expect_no_completion(b);
		EXPECT_EQ(b->memory[HALF], 1);
		page_comes(&a);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		EXPECT_MEM(b->memory, data, ALL);
		absent_close(&a);
	}
}

TEST(test_vmm_09_iwarp_sink_of_a_read_waits_for_the_page)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		const struct weft_sge s = all_of(&a);
		struct weft_send_wr wr = { .opcode = WEFT_OP_READ, .sges = &s, .sge_count = 1 };

		MUST(bed_post(b, &wr));
		expect_frame(b, RDMAP_READ_REQUEST);
		peer_response(b, a.tag, AT, data, ALL);
		bed_move(b);
		expect_no_completion(b);
		EXPECT_EQ(b->memory[HALF], 1);
		page_comes(&a);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		EXPECT_MEM(b->memory, data, ALL);
		absent_close(&a);
	}
}

/* Of a Write of ours, or of a Read of the peer: all frames, with the bytes of both halves. */
static void expect_sent(struct iwarp_bed *b, enum rdmap_opcode opcode)
{
	for (uint32_t at = 0; at < ALL;) {
		const struct frame *f = expect_frame(b, opcode);

		REQUIRE(f->bytes > 0 && f->bytes <= ALL - at);
		EXPECT_MEM(f->payload, data + at, f->bytes);
		at += f->bytes;
		bed_move(b);
	}
}

TEST(test_vmm_09_iwarp_source_of_a_write_waits_for_the_page)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		const struct weft_sge s = all_of(&a);
		struct weft_send_wr wr = { .opcode = WEFT_OP_WRITE,
					   .sges = &s,
					   .sge_count = 1,
					   .remote_addr = 0x5000,
					   .remote_tag = 0x500 };

		memcpy(b->memory, data, ALL);
		MUST(bed_post(b, &wr));
		bed_move(b);
		expect_no_completion(b);
		page_comes(&a);
		expect_sent(b, RDMAP_WRITE);
		expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
		absent_close(&a);
	}
}

TEST(test_vmm_09_iwarp_source_of_a_read_waits_for_the_page)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);

		memcpy(b->memory, data, ALL);
		peer_read(b, a.tag, AT, ALL);
		bed_move(b);
		page_comes(&a);
		expect_sent(b, RDMAP_READ_RESPONSE);
		absent_close(&a);
	}
}

/* QP-S3: once, when its page is there. */
TEST(test_vmm_09_iwarp_atomic_waits_for_the_page)
{
	for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
		struct absent a = absent_open(b);
		uint64_t word;

		peer_atomic(b, &(struct rdmap_atomic_request){ .opcode = RDMAP_FETCH_ADD,
							       .id = 3,
							       .stag = a.tag,
							       .to = AT + HALF,
							       .add_swap = 1 });
		bed_move(b);
		EXPECT_EQ(peer_left(b), 0);
		page_comes(&a);
		expect_frame(b, RDMAP_ATOMIC_RESPONSE);
		memcpy(&word, b->memory + HALF, sizeof(word));
		EXPECT(word == UINT64_C(0x0101010101010102));
		absent_close(&a);
	}
}

/* Without a pager, or when the mapping goes, a stream does not wait. */
TEST(test_vmm_09_rkey_08c_iwarp_page_that_never_comes_is_refused)
{
	static const struct stream_end end = { WEFT_R_SPACE_MAPPING, { 1, 1, 0x01 }, HEADERS_DDP };
	const struct setup setup = { .terms = { .is_initiator = true, .has_crc = true },
				     .is_plain = true };

	for (struct iwarp_bed *b = bed_first(&setup); b; b = bed_next(b)) {
		struct absent a = absent_open(b);

		peer_write(b, a.tag, AT + HALF, data, SMALL);
		bed_move(b);
		bed_note(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		MUST(mem_space_unmap(a.space, AT + HALF));
		adapter_memory_changed(&b->adapter);
		bed_move(b);
		expect_refused(b, &end);
		bed_deregister(b, a.tag);
		MUST(space_destroy(a.space));
	}
}

/* ---- Pages of the process ------------------------------------------------------------------- */

/* They are there, but for one question. */
static struct {
	uint32_t asked, away_at;
} flaky;

static enum mem_presence flaky_ask(void *context, uint64_t addr, uint64_t length, bool is_written,
				   uint32_t qp)
{
	(void)qp;
	(void)context;
	(void)addr;
	(void)length;
	(void)is_written;
	return ++flaky.asked == flaky.away_at ? MEM_AWAY : MEM_HERE;
}

static const struct mem_pager flaky_pager = { .ask = flaky_ask };

static struct absent flaky_open(struct iwarp_bed *b, uint32_t away_at)
{
	const struct weft_space_options so = { .mappings_max = 1,
					       .is_virtual = true,
					       .kind = WEFT_SPACE_PROCESS };
	struct absent a = absent_open(b);
	struct weft_region_options ro = { .addr = AT, .length = ALL, .rights = ALL_RIGHTS };
	struct mem_owner owner = pd_owner(b->pd);

	bed_deregister(b, a.tag);
	MUST(space_destroy(a.space));
	MUST(space_create(&b->adapter, &so, &a.space));
	a.space->pager = &flaky_pager;
	MUST(mem_space_map(a.space, AT, ALL, (uintptr_t)b->memory));
	ro.space = a.space;
	owner.is_privileged = true;
	MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &a.tag));
	flaky.asked = 0;
	flaky.away_at = away_at;
	return a;
}

enum { QUESTIONS = 8 };

TEST(test_vmm_09_iwarp_sink_that_goes_at_any_question)
{
	for (uint32_t n = 1; n <= QUESTIONS; n++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			struct absent a = flaky_open(b, n);
			uint32_t tag = bed_region(b, ALL, SMALL, ALL_RIGHTS);

			bed_receive(b, tag, ALL, SMALL);
			peer_write(b, a.tag, AT, data, ALL);
			peer_send(b, RDMAP_SEND, 0, data, SMALL);
			bed_move(b);
			if (flaky.asked >= n)
				expect_no_completion(b);
			adapter_memory_changed(&b->adapter);
			bed_move(b);
			expect_completion(b, 1, WEFT_SUCCESS, WEFT_OK);
			EXPECT_MEM(b->memory, data, ALL);
			bed_deregister(b, tag);
			absent_close(&a);
		}
	}
}

TEST(test_vmm_09_iwarp_source_that_goes_at_any_question)
{
	for (uint32_t n = 1; n <= QUESTIONS; n++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			struct absent a = flaky_open(b, n);

			memcpy(b->memory, data, ALL);
			peer_read(b, a.tag, AT, ALL);
			bed_move(b);
			adapter_memory_changed(&b->adapter);
			bed_move(b);
			expect_sent(b, RDMAP_READ_RESPONSE);
			absent_close(&a);
		}
	}
}
