/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-04: memory that the program unmaps, protects or truncates while it is registered. The access
 * of a peer, or of the program's own request, fails with its reason; the program and every other
 * connection go on. What the program maps there later is neither read nor written, until it is
 * registered itself.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/sys/notice.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "lone_pages.h"
#include "own_network.h"

/* ---- Memory that goes ----------------------------------------------------------------------- */

enum { PAGES = 4, GONE_FROM = 2, OLD_BYTE = 0x5a, NEW_BYTE = 0xc3 };

struct patch {
	uint8_t *memory;
	size_t page;
	int file;
	uint32_t tag;
	void *elsewhere;
};

static uint32_t patch_register(const struct patch *p, struct weft_pd *pd)
{
	const struct weft_region_options o = {
		.addr = (uintptr_t)p->memory,
		.length = PAGES * p->page,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC | WEFT_BIND,
	};
	uint32_t tag;

	MUST(weft_region_register(pd, &o, &tag));
	return tag;
}

static void patch_open(struct patch *p, struct weft_pd *pd)
{
	*p = (struct patch){ .page = (size_t)sysconf(_SC_PAGESIZE) };
	p->file = memfd_create("weft", 0);
	REQUIRE(p->file >= 0 && ftruncate(p->file, (off_t)(PAGES * p->page)) == 0);
	p->memory = lone_map(PAGES * p->page, MAP_SHARED, p->file);
	memset(p->memory, OLD_BYTE, PAGES * p->page);
	p->tag = patch_register(p, pd);
}

static void patch_close(struct patch *p, struct weft_pd *pd)
{
	MUST(weft_region_deregister(pd, p->tag));
	munmap(p->memory, PAGES * p->page);
	if (p->elsewhere)
		munmap(p->elsewhere, (PAGES - GONE_FROM) * p->page);
	close(p->file);
}

static uint8_t *gone_at(const struct patch *p)
{
	return p->memory + GONE_FROM * p->page;
}

static size_t gone_bytes(const struct patch *p)
{
	return (PAGES - GONE_FROM) * p->page;
}

static void unmap(struct patch *p)
{
	REQUIRE(munmap(gone_at(p), gone_bytes(p)) == 0);
}

static void protect(struct patch *p)
{
	REQUIRE(mprotect(gone_at(p), gone_bytes(p), PROT_NONE) == 0);
}

static void make_read_only(struct patch *p)
{
	REQUIRE(mprotect(gone_at(p), gone_bytes(p), PROT_READ) == 0);
}

static void move_away(struct patch *p)
{
	p->elsewhere = lone_pages(gone_bytes(p));
	REQUIRE(mremap(gone_at(p), gone_bytes(p), gone_bytes(p), MREMAP_MAYMOVE | MREMAP_FIXED,
		       p->elsewhere) == p->elsewhere);
}

static void truncate_file(struct patch *p)
{
	REQUIRE(ftruncate(p->file, (off_t)(GONE_FROM * p->page)) == 0);
}

/* Other memory at the same addresses. */
static void map_over(struct patch *p)
{
	REQUIRE(mmap(gone_at(p), gone_bytes(p), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == gone_at(p));
	memset(gone_at(p), NEW_BYTE, gone_bytes(p));
}

static void map_anew(struct patch *p)
{
	unmap(p);
	map_over(p);
}

static void map_after_move(struct patch *p)
{
	move_away(p);
	map_over(p);
}

/* The same file at the same addresses: it is mapped by other means now. */
static void map_back(struct patch *p)
{
	unmap(p);
	memset(p->memory, OLD_BYTE, GONE_FROM * p->page);
	REQUIRE(mmap(gone_at(p), gone_bytes(p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		     p->file, (off_t)(GONE_FROM * p->page)) == gone_at(p));
	memset(gone_at(p), NEW_BYTE, gone_bytes(p));
}

static const struct way_to_go {
	const char *name;
	void (*go)(struct patch *p);
	bool is_readable; /* still */
	bool has_new;	  /* other memory is there */
} ways[] = {
	{ "unmapped", unmap, false, false },
	{ "protected", protect, false, false },
	{ "read-only", make_read_only, true, false },
	{ "moved away", move_away, false, false },
	{ "truncated", truncate_file, false, false },
	{ "mapped over", map_over, false, true },
	{ "unmapped and mapped anew", map_anew, false, true },
	{ "moved away and mapped anew", map_after_move, false, true },
	{ "unmapped and mapped back", map_back, false, true },
};

/* ---- Accesses ------------------------------------------------------------------------------- */

static const struct access_kind {
	const char *name;
	enum weft_opcode opcode;
	bool is_far;   /* the far side's memory is gone; else that of the request itself */
	bool is_write; /* to the memory that is gone */
	bool is_receive;
} kinds[] = {
	{ "Write to it", WEFT_OP_WRITE, true, true, false },
	{ "Read of it", WEFT_OP_READ, true, false, false },
	{ "atomic on it", WEFT_OP_FETCH_ADD, true, true, false },
	{ "Send into it", WEFT_OP_SEND, true, true, true },
	{ "Write from it", WEFT_OP_WRITE, false, false, false },
	{ "Send from it", WEFT_OP_SEND, false, false, false },
	{ "Read into it", WEFT_OP_READ, false, true, false },
};

/* Without a CRC the kernel reads and places payload; with one it passes through weft's memory. */
enum transport { OVER_TCP, OVER_TCP_WITHOUT_CRC, OVER_UDP, IN_PROCESS };

struct bench {
	enum transport transport;
	struct tcp_end near, far;
	struct node steady_near, steady_far;
};

static void connect_nodes(struct bench *b)
{
	const struct weft_connect_options without_crc = { .is_crc_off = true };

	switch (b->transport) {
	case OVER_TCP:
		tcp_ends_connect(&b->near, &b->far, NULL);
		break;
	case OVER_TCP_WITHOUT_CRC:
		tcp_ends_connect(&b->near, &b->far, &without_crc);
		break;
	case OVER_UDP:
		roce_start_both(b->near.node.qp, b->far.node.qp);
		break;
	default:
		nodes_connect(&b->near.node, &b->far.node);
	}
}

static void bench_open(struct bench *b, enum transport transport)
{
	b->transport = transport;
	tcp_end_open(&b->near);
	if (transport == IN_PROCESS) {
		b->far = b->near;
		node_open(b->near.adapter, &b->far.node, NULL);
	} else {
		tcp_end_open(&b->far);
	}
	if (transport == OVER_UDP) {
		tcp_end_open_roce(&b->near);
		tcp_end_open_roce(&b->far);
	}
	connect_nodes(b);
	b->steady_near = b->near.node;
	b->steady_far = b->far.node;
}

static void bench_close(struct bench *b)
{
	b->near.node = b->steady_near;
	b->far.node = b->steady_far;
	if (b->transport == IN_PROCESS)
		node_close(&b->far.node, NULL);
	else
		tcp_end_close(&b->far);
	tcp_end_close(&b->near);
}

/* Another connection of the same adapters still works. */
static void expect_steady(struct bench *b)
{
	struct weft_sge s = node_seg(&b->steady_near, 0, 5000);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 90, &s, &b->steady_far);
	struct weft_completion c;

	REQUIRE(node_post(&b->steady_near, &wr));
	REQUIRE(node_take(b->steady_near.cq, &c) && c.id == 90);
	wr = node_wr(WEFT_OP_READ, 91, &s, &b->steady_far);
	REQUIRE(node_post(&b->steady_near, &wr));
	REQUIRE(node_take(b->steady_near.cq, &c) && c.id == 91);
}

/* The queue pair has failed, for this reason or for what its peer said. */
static void expect_failed(struct weft_qp *qp, bool is_own)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct weft_qp_attr s;

	do {
		REQUIRE(thread_now_ns() < end_ns);
		MUST(weft_qp_query(qp, &s));
	} while (s.state != WEFT_QPS_ERROR);
	if (is_own)
		EXPECT_EQ(s.reason, WEFT_R_MEMORY_GONE);
}

/* By an event, with the reason. */
static void expect_told(struct weft_adapter *adapter, struct weft_qp *qp)
{
	struct weft_event e = { 0 };
	uint32_t number = weft_qp_number(qp);
	bool has = true, is_told = false;

	while (!is_told && has) {
		MUST(weft_event_next(adapter, PATIENCE_NS, &e, &has));
		is_told = has && e.number == number && e.reason == WEFT_R_MEMORY_GONE &&
			  (e.kind == WEFT_EVENT_QP_REFUSED || e.kind == WEFT_EVENT_QP_ERROR);
	}
	EXPECT(is_told);
}

static bool has_byte(const uint8_t *bytes, size_t length, uint8_t wanted)
{
	return memchr(bytes, wanted, length) != NULL;
}

/* What was mapped later is as it was, and none of it has come across. */
static void expect_untouched(struct bench *b, const struct patch *p)
{
	for (size_t i = 0; i < gone_bytes(p); i++)
		MUST_EQ(gone_at(p)[i], NEW_BYTE);
	EXPECT(!has_byte(b->near.node.memory, NODE_BYTES, NEW_BYTE));
	EXPECT(!has_byte(b->far.node.memory, NODE_BYTES, NEW_BYTE));
}

/* Over TCP a Write or a Send has ended when it has left, or is flushed when the Terminate comes. */
static void expect_status(enum transport transport, const struct access_kind *k,
			  enum weft_status status)
{
	bool is_answered = k->opcode == WEFT_OP_READ || k->opcode == WEFT_OP_FETCH_ADD;
	bool is_tcp = transport == OVER_TCP || transport == OVER_TCP_WITHOUT_CRC;

	if (!k->is_far)
		EXPECT_EQ(status, WEFT_ERR_LOCAL_ACCESS);
	else if (is_tcp && !is_answered)
		EXPECT(status == WEFT_SUCCESS || status == WEFT_ERR_FLUSHED);
	else
		EXPECT_EQ(status,
			  k->is_receive ? WEFT_ERR_REMOTE_OPERATION : WEFT_ERR_REMOTE_ACCESS);
}

static void run_case(struct bench *b, const struct way_to_go *way, const struct access_kind *k,
		     uint32_t length, bool is_across)
{
	struct node *near, *far;
	struct weft_sge s, into;
	struct weft_send_wr wr;
	struct weft_completion c;
	struct patch p;
	uint64_t at;

	node_open(b->near.adapter, &b->near.node, NULL);
	node_open(b->far.adapter, &b->far.node, NULL);
	connect_nodes(b);
	near = &b->near.node;
	far = &b->far.node;
	patch_open(&p, k->is_far ? far->pd : near->pd);
	at = (uintptr_t)gone_at(&p) - (is_across ? length / 2 : 0);
	s = k->is_far ? node_seg(near, 0, length) : (struct weft_sge){ at, length, p.tag };
	wr = node_wr(k->opcode, 7, &s, far);
	if (k->is_far) {
		wr.remote_addr = at;
		wr.remote_tag = p.tag;
	}
	into = k->is_receive ? (struct weft_sge){ at, length, p.tag } : node_seg(far, 0, length);
	if (k->opcode == WEFT_OP_SEND)
		MUST(weft_qp_post_recv(
			far->qp, &(struct weft_recv_wr){ .id = 8, .sges = &into, .sge_count = 1 },
			1, NULL));
	way->go(&p);
	REQUIRE(node_post(near, &wr));
	c = node_next(near->cq);
	EXPECT_EQ(c.id, 7);
	expect_status(b->transport, k, c.status);
	expect_failed(near->qp, !k->is_far);
	if (k->is_receive)
		EXPECT_EQ(node_next(far->cq).status, WEFT_ERR_LOCAL_ACCESS);
	if (k->is_far)
		expect_failed(far->qp, true);
	expect_told(k->is_far ? b->far.adapter : b->near.adapter, k->is_far ? far->qp : near->qp);
	expect_steady(b);
	if (way->has_new)
		expect_untouched(b, &p);
	patch_close(&p, k->is_far ? far->pd : near->pd);
	node_close(near, NULL);
	node_close(far, NULL);
}

static void run_all(enum transport transport, bool has_new)
{
	static struct bench b;

	bench_open(&b, transport);
	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
		if (ways[w].has_new != has_new)
			continue;
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			if (ways[w].is_readable && !kinds[k].is_write)
				continue;
			printf("# %s: %s\n", ways[w].name, kinds[k].name);
			run_case(&b, &ways[w], &kinds[k], 8, false);
			if (kinds[k].opcode == WEFT_OP_FETCH_ADD)
				continue;
			run_case(&b, &ways[w], &kinds[k], 5000, false);
			run_case(&b, &ways[w], &kinds[k], 5000, true);
		}
	}
	bench_close(&b);
}

TEST(test_vmm_04_memory_that_goes_over_tcp)
{
	run_all(OVER_TCP, false);
}

TEST(test_vmm_04_memory_that_goes_over_tcp_without_a_crc)
{
	run_all(OVER_TCP_WITHOUT_CRC, false);
}

static void run_last_of_three(enum transport transport, uint32_t bytes)
{
	static struct bench b;
	struct weft_send_wr wrs[3];
	struct weft_sge sges[3];
	struct node *near, *far;
	struct weft_completion c;
	struct patch p;

	bench_open(&b, transport);
	node_open(b.near.adapter, &b.near.node, NULL);
	node_open(b.far.adapter, &b.far.node, NULL);
	connect_nodes(&b);
	near = &b.near.node;
	far = &b.far.node;
	patch_open(&p, near->pd);
	for (uint64_t i = 0; i < 3; i++) {
		uint8_t *from = i == 2 ? gone_at(&p) : p.memory;

		sges[i] = (struct weft_sge){ (uintptr_t)from, bytes, p.tag };
		wrs[i] = node_wr(WEFT_OP_WRITE, i, &sges[i], far);
	}
	protect(&p);
	MUST(weft_qp_post_send(near->qp, wrs, 3, NULL));
	for (uint64_t i = 0; i < 3; i++) {
		c = node_next(near->cq);
		EXPECT_EQ(c.id, i);
		EXPECT_EQ(c.status, i == 2 ? WEFT_ERR_LOCAL_ACCESS : WEFT_SUCCESS);
	}
	patch_close(&p, near->pd);
	node_close(near, NULL);
	node_close(far, NULL);
	bench_close(&b);
}

/*
 * Of small ones copies are sent. Of large ones the kernel says, of several requests at once, that
 * a page is gone, and not of which.
 */
TEST(test_vmm_04_requests_before_the_one_whose_page_is_gone_end_well)
{
	static const uint32_t sizes[] = { 8, 100, 2000, 8000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		run_last_of_three(OVER_TCP, sizes[i]);
		run_last_of_three(OVER_TCP_WITHOUT_CRC, sizes[i]);
	}
}

TEST(test_vmm_04_memory_that_goes_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	run_all(OVER_UDP, false);
}

TEST(test_vmm_04_memory_that_goes_in_one_process)
{
	run_all(IN_PROCESS, false);
}

/* ---- Memory mapped later -------------------------------------------------------------------- */

/* Why the kernel does not tell what is unmapped; NULL: it does. */
static const char *why_no_notices(void)
{
	struct weft_adapter *adapter;
	struct notice_counts counts;
	struct weft_pd *pd;
	struct patch p;

	MUST(weft_adapter_open(NULL, &adapter));
	MUST(weft_pd_create(adapter, NULL, &pd));
	patch_open(&p, pd);
	notice_query(&counts);
	patch_close(&p, pd);
	MUST(weft_pd_destroy(pd));
	MUST(weft_adapter_close(adapter));
	if (!counts.is_on)
		return "this kernel lets this process have no userfaultfd that tells of unmapped memory";
	return counts.unwatched > 0 ? "this kernel does not watch shared memory" : NULL;
}

TEST(test_vmm_04_memory_mapped_later_is_not_reached_over_tcp)
{
	const char *why_not = why_no_notices();

	if (why_not)
		SKIP(why_not);
	run_all(OVER_TCP, true);
}

TEST(test_vmm_04_memory_mapped_later_is_not_reached_over_tcp_without_a_crc)
{
	const char *why_not = why_no_notices();

	if (why_not)
		SKIP(why_not);
	run_all(OVER_TCP_WITHOUT_CRC, true);
}

TEST(test_vmm_04_memory_mapped_later_is_not_reached_over_udp)
{
	const char *why_not = why_no_notices();

	if (!why_not)
		why_not = own_network_enter();
	if (why_not)
		SKIP(why_not);
	run_all(OVER_UDP, true);
}

TEST(test_vmm_04_memory_mapped_later_is_not_reached_in_one_process)
{
	const char *why_not = why_no_notices();

	if (why_not)
		SKIP(why_not);
	run_all(IN_PROCESS, true);
}
