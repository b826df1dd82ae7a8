/* SPDX-License-Identifier: BSD-2-Clause */
/* The sending agent (SEND) on a line that loses packets, in virtual time. */
#include "base/check.h"
#include "sim/roce/ib_line.h"
#include "store/store.h"
#include "test.h"
#include "wire/iba_psn.h"

#include <string.h>

enum { PAGE = 4096, PAGES = 16, MTU = 1024, PSN = 0xffff00, ALL_LOST = 1000000 };

static struct ib_line *line;
static struct store *disk; /* where pages are that are away */
static uint8_t platter[PAGES][PAGE];
static uint8_t pattern[PAGES][PAGE];

static struct ib_line_options options(void)
{
	return (struct ib_line_options){
		.seed = 1,
		.rate_bps = UINT64_C(10000000000),
		.delay_ns = 50000,
		.mtu_bytes = MTU,
		.timeout_code = 10, /* 4 ms */
		.retries = 3,
		.send_max = 8,
		.pages = PAGES,
		.page_bytes = PAGE,
		.frames = 2 * PAGES,
		.has_pager = true,
	};
}

/* Every page has bytes of its own, in the frame of its number. */
static void open_line(const struct ib_line_options *o)
{
	const struct mem_store_config medium = { platter[0], sizeof(platter), PAGE, false };

	line = ib_line_open(o);
	REQUIRE(line);
	if (!disk)
		REQUIRE(mem_store_create(&medium, &disk) == WEFT_OK);
	for (uint32_t i = 0; i < PAGES * PAGE; i++)
		pattern[i / PAGE][i % PAGE] = (uint8_t)(i * 13 + i / PAGE * 101);
	memcpy(line->ends[0].memory, pattern, sizeof(pattern));
	memset(line->ends[1].memory, 0, (size_t)o->frames * PAGE);
}

static struct weft_pins pins(void)
{
	struct weft_pins n;

	mem_pins_query(line->ends[0].space->paging, line->world.now_ns, &n);
	return n;
}

static void lose(uint32_t ppm)
{
	line->ends[0].out.line.faults.loss_ppm = ppm;
}

/* ---- A pager -------------------------------------------------------------------------------- */

static enum weft_reason page_move(uint32_t page, uint64_t real)
{
	enum weft_reason r;

	r = mem_space_move(line->ends[0].space, IB_LINE_ADDR + (uint64_t)page * PAGE, real);
	adapter_memory_changed(&line->ends[0].core);
	ib_line_work(line, 0);
	return r;
}

static uint8_t *frame_at(uint32_t frame)
{
	return line->ends[0].memory + (size_t)frame * PAGE;
}

/* SEND-01: the storage has a controller, which takes requests and says how they went. */
static void disk_run(enum store_op op, uint32_t page, uint8_t *bytes)
{
	const struct span span = { bytes, PAGE };
	struct store_request r = {
		.op = op,
		.offset = (uint64_t)page * PAGE,
		.length = PAGE,
		.spans = &span,
		.span_count = 1,
	};

	REQUIRE(store_submit(disk, &r, line->world.now_ns) == WEFT_OK);
	REQUIRE(store_next_done(disk, line->world.now_ns) == &r);
	REQUIRE(r.reason == WEFT_OK);
}

/* Written out, and what lies in its frame is another's now. */
static void page_out(uint32_t page, uint32_t frame)
{
	disk_run(STORE_WRITE, page, frame_at(frame));
	memset(frame_at(frame), 0xdd, PAGE);
	REQUIRE(page_move(page, WEFT_REAL_NONE) == WEFT_OK);
}

static void page_in(uint32_t page, uint32_t frame)
{
	disk_run(STORE_READ, page, frame_at(frame));
	REQUIRE(page_move(page, (uint64_t)frame * PAGE) == WEFT_OK);
}

/* The page that the sender has met without finding it; PAGES: none. */
static uint32_t fault(void)
{
	struct weft_event event;

	do {
		if (!event_pop(&line->ends[0].core.events, &event))
			return PAGES;
	} while (event.kind != WEFT_EVENT_FAULT);
	REQUIRE(event.addr >= IB_LINE_ADDR && event.addr < IB_LINE_ADDR + PAGES * PAGE);
	return (uint32_t)((event.addr - IB_LINE_ADDR) / PAGE);
}

/* ---- Time ----------------------------------------------------------------------------------- */

/* Until the line has taken so many packets of end 0; at every step at most one is pinned. */
static void run_packets(uint64_t packets)
{
	while (ib_port_counts(line->ends[0].port)->packets_out < packets) {
		REQUIRE(ib_line_step(line));
		REQUIRE(pins().count <= 1);
	}
}

static void completes(uint32_t requests)
{
	struct weft_completion c;

	while (requests > 0) {
		if (ib_line_poll(line, 0, &c, 1) == 0) {
			REQUIRE(ib_line_step(line));
			continue;
		}
		REQUIRE(c.status == WEFT_SUCCESS);
		requests--;
	}
}

/* All of the pages is at the other end, and nothing is pinned here. */
static void close_whole(void)
{
	REQUIRE(memcmp(line->ends[1].memory, pattern, sizeof(pattern)) == 0);
	REQUIRE(pins().count == 0);
	REQUIRE(pins().bytes == 0);
	REQUIRE(ib_port_counts(line->ends[0].port)->kept_bytes == 0);
	REQUIRE(line->ends[0].qp->state == WEFT_QPS_RTS);
	ib_line_close(line);
}

/* ---- Scenarios ------------------------------------------------------------------------------ */

TEST(test_send_s1_send_09_send_10_pages_go_and_come_between_send_and_resend)
{
	const uint32_t packets = PAGES * PAGE / MTU;
	const struct ib_line_options o = options();
	struct weft_completion c;
	uint32_t faults = 0, brought = 0, page = PAGES;

	open_line(&o);
	REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
	run_packets(packets / 4);
	lose(ALL_LOST);
	run_packets(packets);
	while (line->ends[0].idle_ns > line->world.now_ns)
		REQUIRE(ib_line_step(line));
	EXPECT_EQ(pins().count, 0);
	EXPECT_EQ(pins().pinned, packets);
	for (uint32_t i = 0; i < PAGES; i++)
		page_out(i, i);
	lose(0);
	/*
	 * It waits for its pager for as long as that takes: when nothing more happens, the time of
	 * all retries is over. What it wants is the oldest that is not known to have arrived.
	 */
	while (ib_line_step(line)) {
		uint32_t found = fault();

		EXPECT_EQ(pins().count, 0);
		page = found < PAGES ? found : page;
		faults += found < PAGES;
	}
	EXPECT(faults > 0 && faults <= 2); /* of two packets at most */
	EXPECT_EQ(page, 0);
	EXPECT_EQ(ib_line_poll(line, 0, &c, 1), 0);
	/* One by one they come back, each to another place, and each after a while. */
	for (uint32_t frame = 2 * PAGES - 1; page < PAGES; frame--, brought++) {
		page_in(page, frame);
		page = PAGES;
		while (ib_line_step(line)) {
			uint32_t found = fault();

			EXPECT(pins().count <= 1);
			page = found < PAGES ? found : page;
		}
	}
	completes(1);
	/* By the first page the peer tells what it has: that was not brought back. */
	EXPECT_EQ(brought, 1 + PAGES - PAGES / 4);
	EXPECT_EQ(ib_port_counts(line->ends[0].port)->timeouts, 0);
	close_whole();
}

TEST(test_send_01_send_03_pages_may_be_away_before_the_first_send)
{
	const struct ib_line_options o = options();
	uint32_t page;

	open_line(&o);
	for (uint32_t i = 0; i < PAGES; i++)
		page_out(i, i);
	REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
	for (uint32_t faults = 0; faults < PAGES;) {
		page = fault();
		if (page < PAGES)
			page_in(page, 2 * PAGES - 1 - page);
		else
			REQUIRE(ib_line_step(line));
		faults += page < PAGES;
	}
	completes(1);
	close_whole();
}

/* SEND-15: without a pager, or without the mapping, the page never comes. */
TEST(test_send_15_what_cannot_be_had_again_fails_the_send)
{
	for (int k = 0; k < 3; k++) {
		struct ib_line_options o = options();
		struct weft_completion c;

		o.has_pager = k > 0;
		open_line(&o);
		REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
		lose(ALL_LOST);
		run_packets(8);
		while (line->ends[0].idle_ns > line->world.now_ns)
			REQUIRE(ib_line_step(line));
		page_out(PAGES - 1, PAGES - 1);
		lose(0); /* only when the first has an answer the others are sent again */
		if (k == 1)
			REQUIRE(mem_space_unmap(line->ends[0].space,
						IB_LINE_ADDR + (PAGES - 1) * PAGE) == WEFT_OK);
		while (ib_line_poll(line, 0, &c, 1) == 0 && ib_line_step(line)) {
			/* It waits: then the segment goes. */
			if (k == 2 && fault() < PAGES) {
				REQUIRE(mem_space_unmap(line->ends[0].space,
							IB_LINE_ADDR + (PAGES - 1) * PAGE) ==
					WEFT_OK);
				adapter_memory_changed(&line->ends[0].core);
				ib_line_work(line, 0);
			}
		}
		EXPECT_EQ(c.status, WEFT_ERR_LOCAL_ACCESS);
		EXPECT_EQ(c.reason, WEFT_R_SOURCE_GONE);
		EXPECT_EQ(pins().count, 0);
		ib_line_close(line);
	}
}

/* Form B: pinned while it is sent, and not to be moved meanwhile. Form A: copied out. */
TEST(test_send_s2_send_04_send_05_send_06_both_forms_with_balanced_pins)
{
	for (int k = 0; k < 2; k++) {
		struct ib_line_options o = options();
		uint32_t busy = 0;

		o.is_handing = k;
		o.loss_ppm = 20000;
		open_line(&o);
		for (uint32_t i = 0; i < 4; i++)
			REQUIRE(ib_line_post(line, WEFT_OP_WRITE, i * 4 * PAGE, 4 * PAGE) ==
				WEFT_OK);
		for (struct weft_completion c; busy < 4;) {
			if (ib_line_poll(line, 0, &c, 1) == 1) {
				EXPECT_EQ(c.status, WEFT_SUCCESS);
				busy++;
				continue;
			}
			REQUIRE(ib_line_step(line));
			EXPECT(pins().bytes == pins().count * MTU);
		}
		EXPECT(ib_port_counts(line->ends[0].port)->again > 0);
		if (k == 0) {
			EXPECT_EQ(pins().pinned * MTU,
				  ib_port_counts(line->ends[0].port)->payload_out);
			EXPECT_EQ(pins().bytes_handed, 0);
			EXPECT_EQ(pins().count_max, 1);
			EXPECT(pins().byte_ns > 0);
		} else {
			EXPECT_EQ(pins().pinned, 0);
			EXPECT_EQ(pins().byte_ns, 0);
			EXPECT_EQ(pins().bytes_handed,
				  ib_port_counts(line->ends[0].port)->payload_out);
		}
		close_whole();
	}
}

/* Each packet has its own copy, until the port says that there is no room for more. */
TEST(test_send_04_what_is_handed_over_goes_in_batches)
{
	enum { BATCH = 16 };
	static struct ib_out outs[BATCH];
	struct ib_line_options o = options();
	struct ib_port *port;

	o.is_handing = true;
	open_line(&o);
	port = line->ends[0].port;
	REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
	ib_port_sent(port, line->world.now_ns); /* its first packet is on the line */
	for (uint32_t i = 0; i < BATCH; i++) {
		REQUIRE(ib_port_send(port, line->world.now_ns, &outs[i]));
		EXPECT_EQ(outs[i].is_last, i == BATCH - 1);
	}
	for (uint32_t i = 0; i < BATCH; i++)
		EXPECT_MEM(outs[i].spans.spans[1].bytes,
			   pattern[(i + 1) * MTU / PAGE] + (i + 1) * MTU % PAGE, MTU);
	ib_port_sent(port, line->world.now_ns);
	completes(1); /* they are lost, and come again */
	close_whole();
}

TEST(test_send_05_send_07_what_is_pinned_does_not_move)
{
	const struct ib_line_options o = options();
	struct weft_space *space;

	open_line(&o);
	space = line->ends[0].space;
	REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
	EXPECT_EQ(pins().count, 1); /* its first packet is on the line */
	EXPECT_EQ(mem_space_move(space, IB_LINE_ADDR, WEFT_REAL_NONE), WEFT_R_BUSY);
	EXPECT_EQ(mem_space_unmap(space, IB_LINE_ADDR), WEFT_R_BUSY);
	EXPECT_EQ(mem_space_move(space, IB_LINE_ADDR + PAGE, PAGE), WEFT_OK);
	EXPECT_EQ(mem_space_move(space, IB_LINE_ADDR + 1, 0), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(mem_space_move(space, IB_LINE_ADDR + PAGE, UINT64_C(2) * PAGES * PAGE),
		  WEFT_R_BAD_ARGUMENT);
	completes(1);
	EXPECT_EQ(mem_space_move(space, IB_LINE_ADDR, 0), WEFT_OK);
	close_whole();
}

/* The frame of a page after scatter_pages(): none lies beside its neighbour. */
static uint32_t frame_of(uint32_t page)
{
	return PAGES + page * 5 % PAGES;
}

static void scatter_pages(void)
{
	for (uint32_t i = 0; i < PAGES; i++) {
		page_out(i, i);
		page_in(i, frame_of(i));
	}
}

/* The only pinned stretch is this packet's, by its physical address. */
static void expect_pinned(uint32_t packet, uint32_t frame)
{
	const struct mem_pin *pin = &line->ends[0].space->paging->pins[0];

	REQUIRE(pins().count == 1);
	REQUIRE(pin->real == (uint64_t)frame * PAGE + packet * MTU % PAGE);
	REQUIRE(pin->length == MTU);
}

/*
 * SEND-07: each packet's virtual address comes with the physical one of that moment: the page is
 * pinned there while the line takes the packet. A page that moves before its turn is pinned at its
 * new place.
 */
TEST(test_send_07_every_packet_is_retrieved_by_its_physical_address)
{
	const uint32_t packets = PAGES * PAGE / MTU, moved = PAGES / 2;
	struct ib_line_options o = options();

	o.timeout_code = 14; /* nothing goes again */
	open_line(&o);
	scatter_pages();
	REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
	for (uint32_t i = 0; i < packets; i++) {
		uint32_t page = i * MTU / PAGE;

		while (pins().pinned <= i)
			REQUIRE(ib_line_step(line));
		REQUIRE(pins().pinned == i + 1);
		expect_pinned(i, page == moved ? moved : frame_of(page));
		if (i == packets / 4) {
			page_out(moved, frame_of(moved));
			page_in(moved, moved);
		}
	}
	completes(1);
	EXPECT_EQ(ib_port_counts(line->ends[0].port)->again, 0);
	close_whole();
}

/* Requests of scattered pieces, of which the middle one loses packets in its middle. */
TEST(test_send_s3_send_02_send_11_send_12_send_13_a_loss_in_a_chain_of_scattered_blocks)
{
	enum { PIECES = 4, REQUESTS = 4, PACKETS = PIECES * PAGE / MTU };
	struct ib_line_options o = options();
	const uint32_t lost = PACKETS + PACKETS / 2 + 1; /* of the second request */
	struct ib_block block;

	o.timeout_code = 14; /* the NAK comes first */
	open_line(&o);
	scatter_pages();
	for (uint32_t r = 0; r < REQUESTS; r++) {
		struct weft_sge segments[PIECES];
		struct weft_send_wr wr = {
			.opcode = WEFT_OP_WRITE,
			.sges = segments,
			.sge_count = PIECES,
			.remote_addr = IB_LINE_ADDR + (uint64_t)r * PIECES * PAGE,
			.remote_tag = line->ends[1].tag,
		};
		uint32_t posted;

		for (uint32_t i = 0; i < PIECES; i++) {
			uint32_t page = (r * PIECES + i) * 3 % PAGES;

			segments[i].addr = IB_LINE_ADDR + (uint64_t)page * PAGE;
			segments[i].length = PAGE;
			segments[i].tag = line->ends[0].tag;
			memcpy(pattern[r * PIECES + i], platter[page], PAGE);
		}
		REQUIRE(qp_post_send(line->ends[0].qp, &wr, 1, &posted) == WEFT_OK);
	}
	ib_line_work(line, 0);
	run_packets(lost);
	lose(ALL_LOST);
	run_packets(lost + 2);
	lose(0);
	/* The block of the lost packet by its number, and the way to the next. */
	EXPECT(ib_block_find(line->ends[0].conn, iba_psn_add(PSN, lost), &block));
	EXPECT_EQ(block.addr, IB_LINE_ADDR + (PIECES + 2) * 3 % PAGES * PAGE + MTU);
	EXPECT_EQ(block.length, PAGE - MTU);
	EXPECT_EQ(block.psn, iba_psn_add(PSN, lost));
	EXPECT_EQ(block.tag, line->ends[0].tag);
	EXPECT_EQ(block.left, 2); /* the third of four, and the fourth behind it */
	EXPECT_EQ(block.at[1].addr, IB_LINE_ADDR + (PIECES + 3) * 3 % PAGES * PAGE);
	EXPECT(!ib_block_find(line->ends[0].conn, iba_psn_add(PSN, REQUESTS * PACKETS), &block));
	completes(REQUESTS);
	EXPECT(!ib_block_find(line->ends[0].conn, iba_psn_add(PSN, lost), &block));
	/* Just what was lost, and what came too early behind it, went again, and one to ask. */
	EXPECT(ib_port_counts(line->ends[0].port)->again <= REQUESTS * PACKETS - lost + 1);
	close_whole();
}

/* SEND-14: what the peer has is not yet what we know that it has. */
TEST(test_send_14_send_08_a_send_completes_when_it_is_acknowledged)
{
	const struct ib_line_options o = options();
	struct weft_completion c;

	open_line(&o);
	line->ends[1].out.line.faults.loss_ppm = ALL_LOST;
	REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
	run_packets(PAGES * PAGE / MTU);
	while (line->world.now_ns < 1000000)
		REQUIRE(ib_line_step(line));
	EXPECT_MEM(line->ends[1].memory, pattern, sizeof(pattern));
	EXPECT_EQ(ib_line_poll(line, 0, &c, 1), 0);
	EXPECT_EQ(ib_port_counts(line->ends[0].port)->kept_bytes, PAGES * PAGE);
	line->ends[1].out.line.faults.loss_ppm = 0;
	completes(1);
	close_whole();
}

/*
 * SEND-S4, of one Write without a loss, where the clock says what either must be: a packet is
 * pinned while the line takes it, the Write is kept until the last packet has been there and back.
 */
TEST(test_send_s4_one_write_is_pinned_and_kept_for_as_long_as_the_line_says)
{
	const double bytes = PAGES * PAGE, packet_ns = MTU / 1.25;
	struct ib_line_options o = options();
	const double way_ns = bytes / MTU * packet_ns + 2.0 * (double)o.delay_ns;
	const struct ib_counts *n;

	o.timeout_code = 14; /* longer than a round trip that is not known yet */
	open_line(&o);
	n = ib_port_counts(line->ends[0].port);
	REQUIRE(ib_line_post(line, WEFT_OP_WRITE, 0, PAGES * PAGE) == WEFT_OK);
	completes(1);
	EXPECT_EQ(n->again, 0);
	EXPECT_EQ(pins().pinned, PAGES * PAGE / MTU);
	EXPECT_EQ(pins().bytes_max, MTU);
	EXPECT((double)pins().byte_ns >= bytes * packet_ns);
	EXPECT((double)pins().byte_ns <= 1.1 * bytes * packet_ns); /* with its headers */
	EXPECT_EQ(n->kept_bytes_max, PAGES * PAGE);
	EXPECT((double)n->kept_byte_ns >= bytes * way_ns);
	EXPECT((double)n->kept_byte_ns <= 1.1 * bytes * way_ns);
	close_whole();
}
