/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMM-04: regions of addresses that no process can have mapped. They can be registered, as other
 * memory that is not there; every access is refused, and the program lives.
 */
#include "live/gone/ends.h"
#include "own_network.h"

enum { BYTES = 4096, LIST_VA = 0x10000 };

static struct tcp_end near, far;

static void expect_gone(struct weft_qp *qp)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct weft_qp_attr s;

	do {
		REQUIRE(thread_now_ns() < end_ns);
		MUST(weft_qp_query(qp, &s));
	} while (s.state != WEFT_QPS_ERROR);
	MUST_EQ(s.reason, WEFT_R_MEMORY_GONE);
}

/* One request: of a peer to the region, or of the program's own from or to it. */
struct nowhere_case {
	enum weft_opcode opcode;
	bool is_far;
	bool is_list; /* the address is that of a page in a list */
	uint64_t at;
};

static void expect_refused(enum transport transport, const struct nowhere_case *k)
{
	const struct weft_page_list list = { .pages = &k->at,
					     .count = 1,
					     .page_size_bytes = BYTES };
	struct weft_region_options o = {
		.addr = k->is_list ? 0 : k->at,
		.va = k->is_list ? LIST_VA : 0,
		.pages = k->is_list ? &list : NULL,
		.length = BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	};
	uint64_t at = k->is_list ? LIST_VA : k->at;
	struct weft_pd *owner;
	struct weft_send_wr wr;
	struct weft_sge s;
	uint32_t tag;

	ends_open(transport, &near, &far);
	owner = k->is_far ? far.node.pd : near.node.pd;
	MUST(weft_region_register(owner, &o, &tag));
	s = k->is_far ? node_seg(&near.node, 0, 8) : (struct weft_sge){ at, 8, tag };
	wr = node_wr(k->opcode, 1, &s, &far.node);
	if (k->is_far) {
		wr.remote_addr = at;
		wr.remote_tag = tag;
	}
	REQUIRE(node_post(&near.node, &wr));
	(void)node_next(near.node.cq); /* over TCP a Write ends when it has left */
	expect_gone(k->is_far ? far.node.qp : near.node.qp);
	MUST(weft_region_deregister(owner, tag));
	ends_close(transport, &near, &far);
}

static void expect_all_refused(enum transport transport)
{
	static const struct nowhere_case cases[] = {
		{ WEFT_OP_WRITE, true, false, UINT64_C(0x900000000000) },
		{ WEFT_OP_READ, true, false, (UINT64_C(1) << 56) - BYTES },
		{ WEFT_OP_FETCH_ADD, true, false, (UINT64_C(1) << 55) - BYTES },
		{ WEFT_OP_WRITE, false, false, UINT64_C(0x900000000000) },
		{ WEFT_OP_READ, false, false, (UINT64_C(1) << 56) - BYTES },
		{ WEFT_OP_WRITE, true, true, UINT64_C(0xdead000000000000) },
		{ WEFT_OP_READ, true, true, UINT64_C(0xdead000000000000) },
		{ WEFT_OP_WRITE, false, true, UINT64_C(0xdead000000000000) },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_refused(transport, &cases[i]);
}

TEST(test_vmm_04_regions_of_no_address_are_refused_over_tcp)
{
	expect_all_refused(OVER_TCP);
}

TEST(test_vmm_04_regions_of_no_address_are_refused_over_udp)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	expect_all_refused(OVER_UDP);
}

TEST(test_vmm_04_regions_of_no_address_are_refused_in_one_process)
{
	expect_all_refused(IN_PROCESS);
}
