/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-09 on a line that loses packets, in virtual time: pages of the target, of a receive, of a
 * Read's source and of its sink are away when a packet needs them, and go again as they please. A
 * pager brings back what an event asks for, after a while. The peer sees no error.
 */
#include "base/prng.h"
#include "sim/roce/ib_line.h"
#include "test.h"

#include <string.h>

enum { PAGE = 1024, PAGES = 32, MTU = 256, SEEDS = 40, STEPS_MAX = 1000000, DELAY_NS = 3000000 };

static struct ib_line *line;

/* The pager of one end. */
struct pager {
	int end;
	uint8_t store[PAGES][PAGE];
	bool is_in[PAGES];
	uint32_t wanted;  /* the page that was asked for; PAGES: none */
	uint64_t due_ns;  /* when it comes */
	uint64_t brought; /* so far */
	struct prng *prng;
};

static void open_line(uint64_t seed)
{
	const struct ib_line_options o = {
		.seed = seed,
		.rate_bps = UINT64_C(10000000000),
		.delay_ns = 20000,
		.loss_ppm = seed % 2 ? 20000 : 0,
		.mtu_bytes = MTU,
		.timeout_code = 10, /* 4 ms */
		.retries = 7,
		.send_max = 8,
		.reads = 4,
		.pages = PAGES,
		.page_bytes = PAGE,
		.frames = PAGES,
		.has_pager = true,
	};

	line = ib_line_open(&o);
	REQUIRE(line);
	for (uint32_t i = 0; i < PAGES * PAGE; i++) {
		line->ends[0].memory[i] = (uint8_t)(i * 13 + i / PAGE * 101);
		line->ends[1].memory[i] = (uint8_t)(i * 29 + i / PAGE * 7);
	}
}

static enum weft_reason page_move(const struct pager *p, uint32_t page, uint64_t real)
{
	struct ib_line_end *e = &line->ends[p->end];
	enum weft_reason r = mem_space_move(e->space, IB_LINE_ADDR + (uint64_t)page * PAGE, real);

	adapter_memory_changed(&e->core);
	ib_line_work(line, p->end);
	return r;
}

/* Unless it is just being sent from. */
static void page_out(struct pager *p, uint32_t page)
{
	uint8_t *frame = line->ends[p->end].memory + (size_t)page * PAGE;

	if (!p->is_in[page] || page_move(p, page, WEFT_REAL_NONE) != WEFT_OK)
		return;
	memcpy(p->store[page], frame, PAGE);
	memset(frame, 0xdd, PAGE);
	p->is_in[page] = false;
}

static void page_in(struct pager *p, uint32_t page)
{
	if (p->is_in[page])
		return;
	memcpy(line->ends[p->end].memory + (size_t)page * PAGE, p->store[page], PAGE);
	REQUIRE(page_move(p, page, (uint64_t)page * PAGE) == WEFT_OK);
	p->is_in[page] = true;
	p->brought++;
}

/* is_idle: nothing else happens, so its time has come. */
static void pager_step(struct pager *p, bool is_idle)
{
	struct weft_event event;

	if (p->wanted == PAGES) {
		while (event_pop(&line->ends[p->end].core.events, &event)) {
			REQUIRE(event.kind == WEFT_EVENT_FAULT);
			p->wanted = (uint32_t)((event.addr - IB_LINE_ADDR) / PAGE);
			p->due_ns = line->world.now_ns + prng_below(p->prng, DELAY_NS);
			if (p->is_in[p->wanted])
				p->wanted = PAGES;
			else
				break;
		}
	} else if (line->world.now_ns >= p->due_ns || is_idle) {
		page_in(p, p->wanted);
		p->wanted = PAGES;
	}
	if (prng_below(p->prng, 100) == 0) {
		uint32_t page = prng_below(p->prng, PAGES);

		if (page != p->wanted)
			page_out(p, page);
	}
}

/* All pages of one end are away at first. */
static void run(enum weft_opcode opcode, int end, uint64_t seed)
{
	static struct pager p;
	const uint8_t salt = opcode == WEFT_OP_READ ? 29 : 13,
		      step = opcode == WEFT_OP_READ ? 7 : 101;
	struct ib_line_end *to;
	struct weft_completion c;
	uint32_t done = 0, steps = 0;
	bool is_idle = false;
	struct prng prng = { seed };

	open_line(seed);
	p = (struct pager){ .end = end, .wanted = PAGES, .prng = &prng };
	for (uint32_t i = 0; i < PAGES; i++) {
		p.is_in[i] = true;
		page_out(&p, i);
	}
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t bytes = PAGES * PAGE / 4;

		if (opcode == WEFT_OP_SEND)
			REQUIRE(ib_line_receive(line, i * bytes, bytes) == WEFT_OK);
		REQUIRE(ib_line_post(line, opcode, i * bytes, bytes) == WEFT_OK);
	}
	while (done < 4) {
		REQUIRE(steps++ < STEPS_MAX);
		pager_step(&p, is_idle);
		if (ib_line_poll(line, 0, &c, 1) == 1) {
			REQUIRE(c.status == WEFT_SUCCESS);
			done++;
		} else {
			is_idle = !ib_line_step(line);
		}
	}
	if (opcode == WEFT_OP_SEND) {
		for (done = 0; done < 4; done++)
			REQUIRE(ib_line_poll(line, 1, &c, 1) == 1 && c.status == WEFT_SUCCESS &&
				c.byte_count == PAGES * PAGE / 4);
	}
	REQUIRE(p.brought >= PAGES);
	for (uint32_t i = 0; i < PAGES; i++)
		page_in(&p, i);
	to = &line->ends[opcode == WEFT_OP_READ ? 0 : 1];
	for (uint32_t i = 0; i < PAGES * PAGE; i++)
		REQUIRE(to->memory[i] == (uint8_t)(i * salt + i / PAGE * step));
	ib_line_close(line);
}

TEST(test_vmm_09_targets_of_writes_wait_for_their_pages)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(WEFT_OP_WRITE, 1, seed);
}

TEST(test_vmm_09_receives_wait_for_their_pages)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(WEFT_OP_SEND, 1, seed);
}

TEST(test_vmm_09_sources_of_reads_wait_for_their_pages)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(WEFT_OP_READ, 1, seed);
}

TEST(test_vmm_09_sinks_of_reads_wait_for_their_pages)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		run(WEFT_OP_READ, 0, seed);
}

TEST(test_vmm_09_sources_of_sends_and_writes_wait_for_their_pages)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		run(WEFT_OP_SEND, 0, seed);
		run(WEFT_OP_WRITE, 0, seed);
	}
}
