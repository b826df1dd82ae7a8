/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-04: memory that the program unmaps, protects or truncates while it is registered. The access
 * of a peer, or of the program's own request, fails with its reason; the program and every other
 * connection go on.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

/* ---- Memory that goes ----------------------------------------------------------------------- */

enum { PAGES = 4, GONE_FROM = 2 };

struct patch {
	uint8_t *memory;
	size_t page;
	int file;
	uint32_t tag;
	void *elsewhere;
};

static void patch_open(struct patch *p, struct weft_pd *pd)
{
	struct weft_region_options o = {
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	};

	*p = (struct patch){ .page = (size_t)sysconf(_SC_PAGESIZE) };
	p->file = memfd_create("weft", 0);
	REQUIRE(p->file >= 0 && ftruncate(p->file, (off_t)(PAGES * p->page)) == 0);
	p->memory = mmap(NULL, PAGES * p->page, PROT_READ | PROT_WRITE, MAP_SHARED, p->file, 0);
	REQUIRE(p->memory != MAP_FAILED);
	memset(p->memory, 0x5a, PAGES * p->page);
	o.addr = (uintptr_t)p->memory;
	o.length = PAGES * p->page;
	MUST(weft_region_register(pd, &o, &p->tag));
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
	p->elsewhere = mremap(gone_at(p), gone_bytes(p), gone_bytes(p) + p->page, MREMAP_MAYMOVE);
	REQUIRE(p->elsewhere != MAP_FAILED && p->elsewhere != gone_at(p));
}

static void truncate_file(struct patch *p)
{
	REQUIRE(ftruncate(p->file, (off_t)(GONE_FROM * p->page)) == 0);
}

static const struct way_to_go {
	const char *name;
	void (*go)(struct patch *p);
	bool is_readable; /* still */
} ways[] = {
	{ "unmapped", unmap, false },	       { "protected", protect, false },
	{ "read-only", make_read_only, true }, { "moved away", move_away, false },
	{ "truncated", truncate_file, false },
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

enum transport { OVER_TCP, OVER_UDP, IN_PROCESS, TRANSPORTS };

struct bench {
	enum transport transport;
	struct tcp_end near, far;
	struct node steady_near, steady_far;
};

static void connect_nodes(struct bench *b)
{
	switch (b->transport) {
	case OVER_TCP:
		tcp_ends_connect(&b->near, &b->far, NULL);
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

/* The next completion of a queue, whatever its status. */
static struct weft_completion next_of(struct weft_cq *cq)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct weft_completion c = { 0 };
	bool has = false;

	while (!has) {
		REQUIRE(thread_now_ns() < end_ns);
		REQUIRE(node_poll(cq, &c, &has));
	}
	return c;
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
	EXPECT(!is_own || s.reason == WEFT_R_SPACE_MAPPING || s.reason == WEFT_R_SOURCE_GONE ||
	       s.reason == WEFT_R_SINK_GONE);
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
	c = next_of(near->cq);
	EXPECT_EQ(c.id, 7);
	if (k->is_far)
		EXPECT(c.status == WEFT_ERR_REMOTE_ACCESS ||
		       c.status == WEFT_ERR_REMOTE_OPERATION ||
		       (b->transport == OVER_TCP && c.status != WEFT_ERR_LOCAL_ACCESS));
	else
		EXPECT_EQ(c.status, WEFT_ERR_LOCAL_ACCESS);
	expect_failed(near->qp, !k->is_far);
	if (k->is_receive)
		EXPECT_EQ(next_of(far->cq).status, WEFT_ERR_LOCAL_ACCESS);
	if (k->is_far)
		expect_failed(far->qp, true);
	expect_steady(b);
	patch_close(&p, k->is_far ? far->pd : near->pd);
	node_close(near, NULL);
	node_close(far, NULL);
}

static void run_all(enum transport transport)
{
	static struct bench b;

	bench_open(&b, transport);
	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
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
	run_all(OVER_TCP);
}

TEST(test_vmm_04_memory_that_goes_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	run_all(OVER_UDP);
}

TEST(test_vmm_04_memory_that_goes_in_one_process)
{
	run_all(IN_PROCESS);
}
