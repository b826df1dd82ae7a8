/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * D3 figure 17 over two real wires: the owner of a space over the process adds, changes and deletes
 * segments while queue pairs are open.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/sys/notice.h"
#include "live/roce/roce_way.h"
#include "live/space/live_space.h"
#include "lone_pages.h"
#include "own_network.h"

enum { BYTES = 1 << 16, PART = 3000, LATER = 0xc3 };

static uint64_t addr_of(const uint8_t *at)
{
	return (uintptr_t)at;
}

static bool is_all(const uint8_t *at, uint8_t value)
{
	for (uint32_t i = 0; i < PART; i++) {
		if (at[i] != value)
			return false;
	}
	return true;
}

/* A request of the near side on memory of the far side; its completion. */
static struct weft_completion ask(struct live_pair *p, enum weft_opcode opcode, uint64_t addr,
				  uint32_t tag)
{
	struct node *near = &p->near.end.node;
	struct weft_sge s = node_seg(near, 0, PART);
	struct weft_send_wr wr = node_wr(opcode, 7, &s, &p->far.end.node);

	wr.remote_addr = addr;
	wr.remote_tag = tag;
	REQUIRE(node_post(near, &wr));
	return node_next(near->cq);
}

static void write_well(struct live_pair *p, uint64_t addr, uint32_t tag, uint8_t value)
{
	memset(p->near.end.node.memory, value, PART);
	MUST_EQ(ask(p, WEFT_OP_WRITE, addr, tag).status, WEFT_SUCCESS);
	live_pair_expect_placed(p);
}

static void read_well(struct live_pair *p, uint64_t addr, uint32_t tag, uint8_t value)
{
	MUST_EQ(ask(p, WEFT_OP_READ, addr, tag).status, WEFT_SUCCESS);
	REQUIRE(is_all(p->near.end.node.memory, value));
}

static void segment_comes_and_goes(enum way way, enum weft_opcode last)
{
	static struct live_pair p;
	struct weft_region_options o = { .length = BYTES, .rights = ALL_RIGHTS };
	uint8_t *first = lone_pages(BYTES), *second = lone_pages(BYTES);
	enum weft_status status;
	struct weft_pd *pd;
	uint32_t tag;

	live_pair_open(&p, way, BYTES);
	pd = p.far.end.node.pd;
	o.addr = addr_of(first);
	/* VMM-05c: the OS has not made it a segment of the space. */
	EXPECT_EQ(weft_region_register(pd, &o, &tag), WEFT_R_REG_SPACE);
	/* VMM-05d: added. */
	MUST(weft_space_map(p.far.space, o.addr, BYTES, addr_of(first)));
	MUST(weft_region_register(pd, &o, &tag));
	write_well(&p, o.addr, tag, 3);
	EXPECT(is_all(first, 3));
	read_well(&p, o.addr, tag, 3);
	/* Changed: the same effective address is another one of the process. */
	MUST(weft_space_move(p.far.space, o.addr, addr_of(second)));
	write_well(&p, o.addr, tag, 4);
	EXPECT(is_all(first, 3) && is_all(second, 4));
	read_well(&p, o.addr, tag, 4);
	/* Deleted: refused from now on, and what peers wrote stays as it is. */
	MUST(weft_space_unmap(p.far.space, o.addr));
	memset(p.near.end.node.memory, 5, PART);
	status = ask(&p, last, o.addr, tag).status;
	if (last == WEFT_OP_READ || way != OVER_TCP) /* a Write of iWARP is over when it was sent */
		EXPECT_EQ(status, WEFT_ERR_REMOTE_ACCESS);
	MUST_EQ(tcp_end_await(&p.far.end, WEFT_EVENT_QP_REFUSED), WEFT_R_SPACE_MAPPING);
	EXPECT(is_all(first, 3) && is_all(second, 4));
	MUST(weft_region_deregister(pd, tag));
	live_pair_close(&p);
	munmap(first, BYTES);
	munmap(second, BYTES);
}

static void segments_come_and_go(enum way way)
{
	segment_comes_and_goes(way, WEFT_OP_READ);
	segment_comes_and_goes(way, WEFT_OP_WRITE);
}

TEST(test_vmm_s1_vmm_05d_segments_come_and_go_over_tcp)
{
	segments_come_and_go(OVER_TCP);
}

TEST(test_vmm_s1_vmm_05d_segments_come_and_go_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	segments_come_and_go(OVER_UDP);
}

/* An unreliable connection outlives a refusal: one queue pair sees all three. */
TEST(test_vmm_s1_refused_accepted_refused_on_one_queue_pair)
{
	const char *why_not = own_network_enter();
	static struct side near, far;
	struct weft_completion c;
	struct weft_send_wr wr;
	struct weft_sge s;
	uint64_t addr;

	if (why_not)
		SKIP(why_not);
	side_open(&near, OVER_UDP, BYTES, WEFT_UC);
	side_open(&far, OVER_UDP, BYTES, WEFT_UC);
	roce_start_both(near.end.node.qp, far.end.node.qp);
	addr = addr_of(far.end.node.memory);
	s = node_seg(&near.end.node, 0, PART);
	wr = node_wr(WEFT_OP_WRITE, 7, &s, &far.end.node);
	for (uint8_t round = 1; round < 6; round++) {
		bool is_mapped = round % 2 == 0;

		if (is_mapped)
			MUST(weft_space_map(far.space, addr, BYTES, addr));
		else
			MUST(weft_space_unmap(far.space, addr));
		memset(near.end.node.memory, round, PART);
		wr.opcode = is_mapped ? WEFT_OP_WRITE_IMM : WEFT_OP_WRITE;
		if (is_mapped)
			MUST(weft_qp_post_recv(far.end.node.qp, &(struct weft_recv_wr){ .id = 8 },
					       1, NULL));
		REQUIRE(node_post(&near.end.node, &wr));
		REQUIRE(node_take(near.end.node.cq, &c) && c.id == 7);
		if (is_mapped)
			REQUIRE(node_take(far.end.node.cq, &c) && c.id == 8);
		else
			MUST_EQ(tcp_end_await(&far.end, WEFT_EVENT_QP_REFUSED),
				WEFT_R_SPACE_MAPPING);
		REQUIRE(is_all(far.end.node.memory, is_mapped ? round : round - 1));
	}
	side_close(&near);
	side_close(&far);
}

/* The initiator's own addresses are read through its segments, too (QP-09). */
static void own_segment_goes(enum way way)
{
	static struct live_pair p;

	live_pair_open(&p, way, BYTES);
	write_well(&p, addr_of(p.far.end.node.memory), p.far.end.node.tag, 6);
	MUST(weft_space_unmap(p.near.space, addr_of(p.near.end.node.memory)));
	EXPECT_EQ(ask(&p, WEFT_OP_WRITE, addr_of(p.far.end.node.memory), p.far.end.node.tag).status,
		  WEFT_ERR_LOCAL_ACCESS);
	EXPECT(is_all(p.far.end.node.memory, 6));
	live_pair_close(&p);
}

TEST(test_vmm_05c_qp_09_own_segment_goes_over_tcp)
{
	own_segment_goes(OVER_TCP);
}

TEST(test_vmm_05c_qp_09_own_segment_goes_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	own_segment_goes(OVER_UDP);
}

/* The state of a queue pair is the adapter's: what the program gave to make it may go. */
TEST(test_vmm_05a_the_state_of_a_queue_pair_is_hidden)
{
	struct weft_qp_options o = { .send_max = 4, .service = WEFT_RC };
	struct side s = { 0 };
	struct weft_qp *qp;
	struct weft_qp_attr attr;

	side_open(&s, OVER_TCP, BYTES, WEFT_RC);
	o.send_cq = o.recv_cq = s.end.node.cq;
	MUST(weft_qp_create(s.end.node.pd, &o, &qp));
	memset(&o, 0xff, sizeof(o));
	MUST(weft_qp_query(qp, &attr));
	EXPECT_EQ(attr.state, WEFT_QPS_RESET);
	EXPECT_EQ(attr.send_max, 4);
	EXPECT_EQ(attr.service, WEFT_RC);
	MUST(weft_qp_connect(qp, s.end.node.qp));
	MUST(weft_qp_query(qp, &attr));
	EXPECT_EQ(attr.state, WEFT_QPS_RTS);
	MUST(weft_qp_destroy(qp));
	side_close(&s);
}

/* VMM-05b, VMM-05e: one table, whatever domains and queue pairs there are; one change for all. */
TEST(test_vmm_05b_vmm_05e_one_change_holds_for_all_queue_pairs)
{
	static struct live_pair p;
	struct node *far = &p.far.end.node, other = { 0 };
	const struct weft_pd_options in_space = { .space = NULL };
	struct weft_region_options o = { .length = BYTES, .rights = ALL_RIGHTS };
	struct weft_pd_options pd = in_space;
	struct weft_completion c;
	struct node peer;
	struct weft_send_wr wr;
	struct weft_sge s;
	struct weft_qp_options qp;

	live_pair_open(&p, OVER_TCP, BYTES);
	/* Another domain of the same space, with a queue pair connected in the adapter. */
	pd.space = p.far.space;
	MUST(weft_pd_create(p.far.end.adapter, &pd, &other.pd));
	o.addr = addr_of(far->memory);
	MUST(weft_region_register(other.pd, &o, &other.tag));
	qp = (struct weft_qp_options){ .send_cq = far->cq, .recv_cq = far->cq };
	MUST(weft_qp_create(other.pd, &qp, &other.qp));
	node_open(p.far.end.adapter, &peer, NULL);
	MUST(weft_qp_connect(peer.qp, other.qp));
	other.memory = far->memory;
	s = node_seg(&peer, 0, PART);
	wr = node_wr(WEFT_OP_WRITE, 1, &s, &other);
	REQUIRE(node_post(&peer, &wr) && node_take(peer.cq, &c));
	write_well(&p, o.addr, far->tag, 2);
	MUST(weft_space_unmap(p.far.space, o.addr));
	REQUIRE(node_post(&peer, &wr));
	EXPECT_EQ(node_next(peer.cq).status, WEFT_ERR_REMOTE_ACCESS);
	EXPECT_EQ(ask(&p, WEFT_OP_READ, o.addr, far->tag).status, WEFT_ERR_REMOTE_ACCESS);
	EXPECT(is_all(far->memory, 2));
	MUST(weft_qp_destroy(other.qp));
	MUST(weft_region_deregister(other.pd, other.tag));
	MUST(weft_pd_destroy(other.pd));
	node_close(&peer, NULL);
	live_pair_close(&p);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* The next fault of the far side, at this address. */
static void expect_fault(struct live_pair *p, uint64_t addr)
{
	struct weft_event event;
	bool has_event;

	do {
		MUST(weft_event_next(p->far.end.adapter, PATIENCE_NS, &event, &has_event));
		REQUIRE(has_event);
	} while (event.kind != WEFT_EVENT_FAULT);
	MUST_EQ(event.addr, addr);
	MUST_EQ(event.reason, WEFT_R_SPACE_UNMAPPED);
	MUST_EQ(event.number, weft_qp_number(p->far.end.node.qp));
}

/* VMM-10: the program is told of an address that was never mapped, and maps it (MapLocalPage). */
static void never_mapped(enum way way, enum weft_opcode opcode)
{
	static struct live_pair p;
	struct node *near = &p.near.end.node, *far = &p.far.end.node;
	struct weft_completion c;
	struct weft_send_wr wr;
	struct weft_sge s;
	uint64_t addr;

	live_pair_open(&p, way, BYTES);
	addr = addr_of(far->memory);
	memset(near->memory, 8, BYTES);
	memset(far->memory, 9, BYTES);
	MUST(weft_space_move(p.far.space, addr, WEFT_REAL_NONE));
	s = node_seg(near, 0, PART);
	wr = node_wr(opcode, 7, &s, far);
	if (opcode == WEFT_OP_SEND) {
		struct weft_sge into = node_seg(far, 0, PART);

		MUST(weft_qp_post_recv(
			far->qp, &(struct weft_recv_wr){ .id = 8, .sges = &into, .sge_count = 1 },
			1, NULL));
	}
	REQUIRE(node_post(near, &wr));
	expect_fault(&p, addr);
	MUST(weft_space_move(p.far.space, addr, addr));
	REQUIRE(node_take(near->cq, &c) && c.id == 7);
	if (opcode == WEFT_OP_SEND)
		REQUIRE(node_take(far->cq, &c) && c.id == 8);
	else if (opcode == WEFT_OP_WRITE)
		live_pair_expect_placed(&p);
	EXPECT(opcode == WEFT_OP_READ ? is_all(near->memory, 9) : is_all(far->memory, 8));
	live_pair_close(&p);
}

TEST(test_vmm_10_rkey_08d_never_mapped_address_waits_over_tcp)
{
	never_mapped(OVER_TCP, WEFT_OP_READ);
	never_mapped(OVER_TCP, WEFT_OP_WRITE);
	never_mapped(OVER_TCP, WEFT_OP_SEND);
}

TEST(test_vmm_10_rkey_08d_never_mapped_address_waits_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	never_mapped(OVER_UDP, WEFT_OP_READ);
	never_mapped(OVER_UDP, WEFT_OP_WRITE);
	never_mapped(OVER_UDP, WEFT_OP_SEND);
}

/* A kernel client knows system-wide virtual addresses; the owner says where they are. */
static void kernel_client(enum way way)
{
	const uint64_t va = UINT64_C(0xffff800000000000);
	const struct weft_space_options so = {
		.mappings_max = 1, .is_virtual = true, .has_pager = true, .kind = WEFT_SPACE_PROCESS
	};
	struct weft_region_options o = { .addr = va, .length = BYTES, .rights = ALL_RIGHTS };
	struct live_pair p = { .far.is_kernel = true };
	struct weft_completion c;
	struct weft_send_wr wr;
	struct weft_sge s;
	uint32_t tag;

	live_pair_open(&p, way, BYTES);
	MUST(weft_space_create(p.far.end.adapter, &so, &o.space));
	MUST(weft_space_map(o.space, va, BYTES, WEFT_REAL_NONE));
	MUST(weft_region_register(p.far.end.node.pd, &o, &tag));
	memset(p.near.end.node.memory, 7, PART);
	s = node_seg(&p.near.end.node, 0, PART);
	wr = node_wr(WEFT_OP_WRITE, 7, &s, &p.far.end.node);
	wr.remote_addr = va;
	wr.remote_tag = tag;
	REQUIRE(node_post(&p.near.end.node, &wr));
	expect_fault(&p, va);
	MUST(weft_space_move(o.space, va, addr_of(p.far.end.node.memory)));
	REQUIRE(node_take(p.near.end.node.cq, &c) && c.id == 7);
	live_pair_expect_placed(&p);
	EXPECT(is_all(p.far.end.node.memory, 7));
	MUST(weft_region_deregister(p.far.end.node.pd, tag));
	MUST(weft_space_destroy(o.space));
	live_pair_close(&p);
}

TEST(test_vmm_05f_vmm_10_virtual_addresses_of_a_kernel_client_over_tcp)
{
	kernel_client(OVER_TCP);
}

TEST(test_vmm_05f_vmm_10_virtual_addresses_of_a_kernel_client_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	kernel_client(OVER_UDP);
}

/* Asked for before they are needed, pages come without a request that waits. */
TEST(test_vmm_09_prefetch_brings_pages_in)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS, page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct weft_sge range;
	struct side s = { 0 };
	char *report;

	side_open(&s, OVER_TCP, BYTES, WEFT_RC);
	range = node_seg(&s.end.node, 0, BYTES);
	EXPECT_EQ(pages_in_memory(s.end.node.memory, BYTES), 0); /* never touched */
	MUST(weft_region_prefetch(s.end.node.pd, &range, 0));
	MUST(weft_region_prefetch(s.end.node.pd, &range, WEFT_LOCAL_WRITE));
	while (pages_in_memory(s.end.node.memory, BYTES) * page < BYTES)
		REQUIRE(thread_now_ns() < end_ns);
	EXPECT_EQ(side_faults(&s), 1);
	report = report_of(s.end.adapter);
	EXPECT(strstr(report, " faults=0 page_waits=1 brought=0"));
	free(report);
	side_close(&s);
}

/* ---- What the OS gives ----------------------------------------------------------------------- */

static void unmap_it(uint8_t *at)
{
	REQUIRE(munmap(at, BYTES) == 0);
}

/* Never touched, so a page must be made; which the kernel refuses. */
static void forbid_it(uint8_t *at)
{
	REQUIRE(mmap(at, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
}

/* The same, and the program can undo it. */
static void protect_it(uint8_t *at)
{
	REQUIRE(mprotect(at, BYTES, PROT_NONE) == 0);
	EXPECT_EQ(pages_in_memory(at, BYTES), 0);
}

static void expect_undone(struct live_pair *p, uint8_t *at, uint32_t tag)
{
	REQUIRE(mprotect(at, BYTES, PROT_READ | PROT_WRITE) == 0);
	live_pair_connect_anew(p);
	EXPECT_EQ(pages_in_memory(at, BYTES), 0);
	write_well(p, addr_of(at), tag, LATER);
	read_well(p, addr_of(at), tag, LATER);
}

/* Other memory lies there: not what the segment was made of. */
static void replace_it(uint8_t *at)
{
	REQUIRE(munmap(at, BYTES) == 0);
	REQUIRE(mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		     0) == at);
	memset(at, LATER, BYTES);
}

/* VMM-03, VMM-04: a segment gives no more than the OS does; a request does not wait for nothing. */
static void segment_without_memory(enum way way, void (*take)(uint8_t *at))
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ };

	for (int i = 0; i < 2; i++) {
		static struct live_pair p;
		uint8_t *at = lone_pages(BYTES);
		struct weft_region_options o = { .addr = addr_of(at),
						 .length = BYTES,
						 .rights = ALL_RIGHTS };
		struct weft_completion c;
		uint32_t tag;

		live_pair_open(&p, way, BYTES);
		MUST(weft_space_map(p.far.space, o.addr, BYTES, o.addr));
		MUST(weft_region_register(p.far.end.node.pd, &o, &tag));
		take(at);
		c = ask(&p, opcodes[i], o.addr, tag);
		/* Over TCP a Write has ended before it is refused. */
		EXPECT(c.status == WEFT_ERR_REMOTE_ACCESS ||
		       (way == OVER_TCP && opcodes[i] == WEFT_OP_WRITE));
		MUST_EQ(tcp_end_await(&p.far.end, WEFT_EVENT_QP_REFUSED), WEFT_R_SPACE_MAPPING);
		EXPECT(take != replace_it || is_all(at, LATER));
		if (take == protect_it)
			expect_undone(&p, at, tag);
		MUST(weft_region_deregister(p.far.end.node.pd, tag));
		live_pair_close(&p);
		munmap(at, BYTES);
	}
}

TEST(test_vmm_03_vmm_04_segment_without_memory_is_refused_over_tcp)
{
	segment_without_memory(OVER_TCP, unmap_it);
	segment_without_memory(OVER_TCP, forbid_it);
	segment_without_memory(OVER_TCP, protect_it);
}

TEST(test_vmm_03_vmm_04_segment_without_memory_is_refused_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	segment_without_memory(OVER_UDP, unmap_it);
	segment_without_memory(OVER_UDP, forbid_it);
	segment_without_memory(OVER_UDP, protect_it);
}

/* The far side has memory of BYTES, registered, of which the second page may not be used. */
static uint8_t *open_with_bad_page(struct live_pair *p, enum way way, uint32_t *tag)
{
	uint8_t *at = lone_pages(BYTES);
	const struct weft_region_options o = { .addr = addr_of(at),
					       .length = BYTES,
					       .rights = ALL_RIGHTS };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	live_pair_open(p, way, BYTES);
	MUST(weft_space_map(p->far.space, o.addr, BYTES, o.addr));
	MUST(weft_region_register(p->far.end.node.pd, &o, tag));
	memset(at, LATER, page);
	REQUIRE(mprotect(at + page, page, PROT_NONE) == 0);
	return at;
}

static void close_with_bad_page(struct live_pair *p, uint8_t *at, uint32_t tag)
{
	MUST(weft_region_deregister(p->far.end.node.pd, tag));
	live_pair_close(p);
	munmap(at, BYTES);
}

/* VMM-04: the failing page lies within the range, which begins before it. */
static void page_is_made_good(enum way way)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	static struct live_pair p;
	uint32_t tag;
	uint8_t *at = open_with_bad_page(&p, way, &tag);

	EXPECT_EQ(ask(&p, WEFT_OP_READ, addr_of(at) + page - PART / 2, tag).status,
		  WEFT_ERR_REMOTE_ACCESS);
	MUST_EQ(tcp_end_await(&p.far.end, WEFT_EVENT_QP_REFUSED), WEFT_R_SPACE_MAPPING);
	REQUIRE(mprotect(at + page, page, PROT_READ | PROT_WRITE) == 0);
	live_pair_connect_anew(&p);
	EXPECT_EQ(pages_in_memory(at + page, page), 0);
	EXPECT_EQ(ask(&p, WEFT_OP_READ, addr_of(at) + page - PART / 2, tag).status, WEFT_SUCCESS);
	close_with_bad_page(&p, at, tag);
}

TEST(test_vmm_04_page_that_is_made_good_is_used_over_tcp)
{
	page_is_made_good(OVER_TCP);
}

TEST(test_vmm_04_page_that_is_made_good_is_used_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	page_is_made_good(OVER_UDP);
}

static void prefetch_fails(enum way way)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS, page = (uint64_t)sysconf(_SC_PAGESIZE);
	static struct live_pair p;
	uint32_t tag;
	uint8_t *at = open_with_bad_page(&p, way, &tag);
	struct weft_sge bad = { addr_of(at) + page, 64, tag }, good = bad;

	good.addr += page;
	MUST(weft_region_prefetch(p.far.end.node.pd, &bad, WEFT_LOCAL_READ));
	MUST(weft_region_prefetch(p.far.end.node.pd, &good, WEFT_LOCAL_READ));
	/* The pager takes them in order: when the second page is here, the first has failed. */
	while (pages_in_memory(at + 2 * page, page) == 0)
		REQUIRE(thread_now_ns() < end_ns);
	REQUIRE(mprotect(at + page, page, PROT_READ | PROT_WRITE) == 0);
	EXPECT_EQ(ask(&p, WEFT_OP_READ, addr_of(at) + page, tag).status, WEFT_SUCCESS);
	close_with_bad_page(&p, at, tag);
}

TEST(test_vmm_09_failed_prefetch_denies_no_access_over_tcp)
{
	prefetch_fails(OVER_TCP);
}

TEST(test_vmm_09_failed_prefetch_denies_no_access_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	prefetch_fails(OVER_UDP);
}

/* Whether the kernel tells this process of unmapped memory. */
static bool is_kernel_telling(void)
{
	static struct live_pair p;
	struct notice_counts counts;
	uint8_t *at = lone_pages(BYTES);

	live_pair_open(&p, OVER_TCP, BYTES);
	MUST(weft_space_map(p.far.space, addr_of(at), BYTES, addr_of(at)));
	notice_query(&counts);
	MUST(weft_space_unmap(p.far.space, addr_of(at)));
	live_pair_close(&p);
	munmap(at, BYTES);
	return counts.is_on;
}

TEST(test_vmm_05d_segment_of_replaced_memory_is_refused_over_tcp)
{
	if (!is_kernel_telling())
		SKIP("this kernel does not tell this process of unmapped memory");
	segment_without_memory(OVER_TCP, replace_it);
}

TEST(test_vmm_05d_segment_of_replaced_memory_is_refused_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	if (!is_kernel_telling())
		SKIP("this kernel does not tell this process of unmapped memory");
	segment_without_memory(OVER_UDP, replace_it);
}
