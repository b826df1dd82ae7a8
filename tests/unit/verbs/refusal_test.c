/* SPDX-License-Identifier: BSD-2-Clause */
/* Refusals at the edges between objects: whose space, whose tag, whose completion. */
#include <stdlib.h>

#include "test.h"
#include <weft/weft.h>

enum { BYTES = 4096 };

static _Alignas(4096) uint8_t memory[2 * BYTES];

/* A connected pair on one completion queue, by the public calls. */
struct public_pair {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *a, *b;
	uint32_t tag; /* of memory, with every right */
};

static void pair_open(struct public_pair *pair, uint32_t cq_entries, enum weft_qp_service service)
{
	const struct weft_region_options region = {
		.addr = (uintptr_t)memory,
		.length = sizeof(memory),
		.rights = 0x3f,
	};
	struct weft_qp_options o = { .service = service };

	MUST(weft_adapter_open(NULL, &pair->adapter));
	MUST(weft_pd_create(pair->adapter, &(struct weft_pd_options){ .is_privileged = true },
			    &pair->pd));
	MUST(weft_cq_create(pair->adapter, &(struct weft_cq_options){ .entries_max = cq_entries },
			    &pair->cq));
	o.send_cq = o.recv_cq = pair->cq;
	MUST(weft_qp_create(pair->pd, &o, &pair->a));
	MUST(weft_qp_create(pair->pd, &o, &pair->b));
	MUST(weft_qp_connect(pair->a, pair->b));
	MUST(weft_region_register(pair->pd, &region, &pair->tag));
}

static void pair_close(struct public_pair *pair)
{
	MUST(weft_qp_destroy(pair->a));
	MUST(weft_qp_destroy(pair->b));
	MUST(weft_cq_destroy(pair->cq));
	MUST(weft_region_deregister(pair->pd, pair->tag));
	MUST(weft_pd_destroy(pair->pd));
	MUST(weft_adapter_close(pair->adapter));
}

/* 24 + 8 bits leave 256 instances, but binds that failed must not use them up. */
TEST(test_mem_04c_failed_binds_do_not_lead_back_to_the_tag_in_use)
{
	struct weft_bind good = { .length = 16, .rights = WEFT_REMOTE_READ };
	struct weft_bind bad;
	struct public_pair pair;
	uint32_t first;

	pair_open(&pair, 0, WEFT_RC);
	MUST(weft_window_alloc(pair.pd, &good.window_tag));
	good.region_tag = pair.tag;
	good.addr = (uintptr_t)memory;
	bad = good;
	bad.length = 3 * BYTES;
	MUST(weft_window_bind(pair.pd, &good));
	first = good.tag;
	for (int i = 0; i < 600; i++) {
		EXPECT_EQ(weft_window_bind(pair.pd, &bad), WEFT_R_RANGE_BOUNDS);
		if (i % 51 == 0) {
			uint32_t before = good.tag;

			good.addr++;
			MUST(weft_window_bind(pair.pd, &good));
			EXPECT(good.tag != before && good.tag != first);
		}
	}
	MUST(weft_window_unbind(pair.pd, good.tag));
	MUST(weft_window_free(pair.pd, good.tag));
	pair_close(&pair);
}

/* A request may choose its key, but not the key that is bound. */
TEST(test_mem_04c_a_bind_cannot_ask_for_the_tag_in_use)
{
	struct weft_send_wr wr = { .opcode = WEFT_OP_BIND };
	struct public_pair pair;

	pair_open(&pair, 0, WEFT_RC);
	wr.bind = (struct weft_bind){
		.region_tag = pair.tag,
		.addr = (uintptr_t)memory,
		.length = 16,
		.rights = WEFT_REMOTE_READ,
	};
	MUST(weft_window_alloc(pair.pd, &wr.bind.window_tag));
	MUST(weft_qp_post_send(pair.a, &wr, 1, NULL));
	EXPECT_EQ(weft_qp_post_send(pair.a, &wr, 1, NULL), WEFT_R_TAG_INSTANCE);
	wr.bind.tag ^= 0x40;
	MUST(weft_qp_post_send(pair.a, &wr, 1, NULL));
	MUST(weft_window_unbind(pair.pd, wr.bind.tag));
	MUST(weft_window_free(pair.pd, wr.bind.tag));
	pair_close(&pair);
}

static void space_open(struct weft_adapter *adapter, bool is_virtual, struct weft_space **space)
{
	const struct weft_space_options o = {
		.memory = memory,
		.size_bytes = sizeof(memory),
		.mappings_max = 1,
		.is_virtual = is_virtual,
	};

	MUST(weft_space_create(adapter, &o, space));
}

TEST(test_sqr_07_frames_are_for_privileged_domains)
{
	const uint64_t pages[] = { BYTES };
	const struct weft_page_list list = { .pages = pages, .count = 1, .page_size_bytes = BYTES };
	const struct weft_region_options o = { .length = BYTES, .rights = 0x3f, .pages = &list };
	struct weft_adapter *adapter;
	struct weft_space *space;
	struct weft_pd *pd;
	uint32_t tag;

	MUST(weft_adapter_open(NULL, &adapter));
	space_open(adapter, false, &space);
	for (int is_privileged = 0; is_privileged < 2; is_privileged++) {
		struct weft_pd_options domain = { .space = space, .is_privileged = is_privileged };

		MUST(weft_pd_create(adapter, &domain, &pd));
		EXPECT_EQ(weft_region_register(pd, &o, &tag),
			  is_privileged ? WEFT_OK : WEFT_R_REG_FRAMES);
		if (is_privileged)
			MUST(weft_region_deregister(pd, tag));
		MUST(weft_pd_destroy(pd));
	}
	MUST(weft_space_destroy(space));
	MUST(weft_adapter_close(adapter));
}

/* ---- The owner of an adapter ----------------------------------------------------------------- */

/* What code gets that is not the adapter's owner. */
struct library {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_qp *qp;
	uint32_t tag; /* of a region in a virtual space, which it was told */
};

/* Each way to be privileged, or to do what only privileged code may. */
static void library_tries(const struct library *l)
{
	static const struct weft_space_options spaces[] = {
		{ .memory = memory, .size_bytes = BYTES, .mappings_max = 1 },
		{ .memory = memory, .size_bytes = BYTES, .mappings_max = 1, .is_virtual = true },
		{ .mappings_max = 1, .kind = WEFT_SPACE_PROCESS },
	};
	const struct weft_qp_attr on = { .is_register_enabled = true };
	const struct weft_region_options all = { .rights = WEFT_REMOTE_READ };
	struct weft_pd_options o = { .is_privileged = true };
	uint64_t authority = 0;
	struct weft_pd *pd;
	uint32_t tag;

	EXPECT_EQ(weft_adapter_claim(l->adapter, &authority), WEFT_R_NOT_OWNER);
	EXPECT_EQ(authority, 0);
	EXPECT_EQ(weft_pd_create(l->adapter, &o, &pd), WEFT_R_NOT_OWNER);
	for (o.authority = 1; o.authority != 0; o.authority <<= 1)
		EXPECT_EQ(weft_pd_create(l->adapter, &o, &pd), WEFT_R_NOT_OWNER);
	/* Neither does a space of its own make it the owner of the adapter. */
	for (int i = 0; i < 3; i++) {
		MUST(weft_space_create(l->adapter, &spaces[i], &o.space));
		EXPECT_EQ(weft_pd_create(l->adapter, &o, &pd), WEFT_R_NOT_OWNER);
		MUST(weft_space_destroy(o.space));
	}
	EXPECT_EQ(weft_qp_modify(l->qp, &on, WEFT_QP_REGISTER), WEFT_R_SQR_PRIVILEGE);
	EXPECT_EQ(weft_region_share(l->pd, l->tag, &all, &tag), WEFT_R_REG_VIRTUAL);
}

TEST(test_vmm_04_rkey_03_sqr_07_ordinary_handles_give_no_privilege)
{
	const struct weft_space_options so = {
		.memory = memory, .size_bytes = BYTES, .mappings_max = 1, .is_virtual = true
	};
	struct weft_region_options o = { .length = BYTES, .rights = WEFT_REMOTE_READ };
	const struct weft_qp_attr on = { .is_register_enabled = true };
	struct weft_pd_options domain = { .is_privileged = true };
	struct weft_qp_options qp = { 0 };
	struct weft_pd *kernel;
	struct library l;
	struct weft_cq *cq;

	MUST(weft_adapter_open(NULL, &l.adapter));
	MUST(weft_adapter_claim(l.adapter, &domain.authority));
	MUST(weft_pd_create(l.adapter, &domain, &kernel));
	MUST(weft_space_create(l.adapter, &so, &o.space));
	MUST(weft_space_map(o.space, 0, BYTES, 0));
	MUST(weft_region_register(kernel, &o, &l.tag));
	MUST(weft_cq_create(l.adapter, NULL, &cq));
	MUST(weft_pd_create(l.adapter, NULL, &l.pd));
	qp.send_cq = qp.recv_cq = cq;
	MUST(weft_qp_create(l.pd, &qp, &l.qp));
	library_tries(&l);
	MUST(weft_qp_destroy(l.qp));
	/* What the owner makes is privileged, and only that. */
	MUST(weft_qp_create(kernel, &qp, &l.qp));
	MUST(weft_qp_modify(l.qp, &on, WEFT_QP_REGISTER));
	MUST(weft_qp_destroy(l.qp));
	MUST(weft_cq_destroy(cq));
	MUST(weft_region_deregister(kernel, l.tag));
	MUST(weft_space_destroy(o.space));
	MUST(weft_pd_destroy(kernel));
	MUST(weft_pd_destroy(l.pd));
	MUST(weft_adapter_close(l.adapter));
}

/* Programs of before an adapter could be claimed. */
TEST(test_vmm_04_an_adapter_that_is_not_claimed_belongs_to_all)
{
	struct weft_pd_options domain = { .is_privileged = true };
	struct weft_adapter *adapter;
	struct weft_pd *pd;

	MUST(weft_adapter_open(NULL, &adapter));
	MUST(weft_pd_create(adapter, &domain, &pd));
	MUST(weft_pd_destroy(pd));
	domain.authority = 7; /* which nothing has given */
	EXPECT_EQ(weft_pd_create(adapter, &domain, &pd), WEFT_R_NOT_OWNER);
	MUST(weft_adapter_close(adapter));
}

TEST(test_rkey_03_a_space_of_another_adapter_is_refused)
{
	struct weft_adapter *other;
	struct weft_space *foreign;
	struct weft_region_options o = { .addr = 0x10000, .length = 8, .rights = 0x3f };
	struct public_pair pair;
	uint32_t tag;

	pair_open(&pair, 0, WEFT_RC);
	MUST(weft_adapter_open(NULL, &other));
	space_open(other, true, &foreign);
	MUST(weft_space_map(foreign, 0x10000, BYTES, 0));
	o.space = foreign;
	EXPECT_EQ(weft_region_register(pair.pd, &o, &tag), WEFT_R_BAD_ARGUMENT);
	MUST(weft_space_destroy(foreign));
	MUST(weft_adapter_close(other));
	pair_close(&pair);
}

/* The space could be destroyed before the request's turn. */
TEST(test_sqr_07_a_posted_registration_is_in_the_domains_own_space)
{
	struct weft_send_wr wr = { .opcode = WEFT_OP_REGISTER };
	struct weft_usage before, after;
	struct weft_space *other;
	struct public_pair pair;

	pair_open(&pair, 0, WEFT_RC);
	space_open(pair.adapter, true, &other);
	wr.reg.region.length = 8;
	wr.reg.region.space = other;
	MUST(weft_adapter_query(pair.adapter, &before));
	EXPECT_EQ(weft_qp_post_send(pair.a, &wr, 1, NULL), WEFT_R_REG_SPACE);
	MUST(weft_adapter_query(pair.adapter, &after));
	EXPECT_EQ(before.tags_free, after.tags_free);
	MUST(weft_space_destroy(other));
	pair_close(&pair);
}

TEST(test_rkey_02b_no_process_has_memory_there)
{
	static const uint64_t nowhere[] = { 0, 8, 4095, UINT64_C(1) << 56,
					    UINT64_C(0xffff800000000000) };
	struct weft_region_options o = { .length = 16, .rights = 0x3f };
	struct public_pair pair;
	uint32_t tag;

	pair_open(&pair, 0, WEFT_RC);
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		o.addr = nowhere[i];
		EXPECT_EQ(weft_region_register(pair.pd, &o, &tag), WEFT_R_REG_SPACE);
	}
	pair_close(&pair);
}

/* Posts two Writes of nothing to a queue of one, and empties it. */
static void overrun_once(struct public_pair *pair)
{
	struct weft_send_wr wrs[2] = { { .opcode = WEFT_OP_WRITE, .flags = WEFT_SIGNALLED },
				       { .opcode = WEFT_OP_WRITE, .flags = WEFT_SIGNALLED } };
	struct weft_completion c;
	struct weft_qp_attr attr;
	uint32_t count;

	MUST(weft_qp_post_send(pair->a, wrs, 2, NULL));
	MUST(weft_qp_query(pair->a, &attr));
	REQUIRE(attr.state == WEFT_QPS_ERROR && attr.reason == WEFT_R_CQ_OVERRUN);
	MUST(weft_cq_poll(pair->cq, &c, 1, &count));
	REQUIRE(count == 1 && c.status == WEFT_SUCCESS);
	REQUIRE(weft_cq_poll(pair->cq, &c, 1, &count) == WEFT_R_CQ_OVERRUN);
	MUST(weft_cq_poll(pair->cq, &c, 1, &count)); /* said once */
	REQUIRE(count == 0);
}

static bool has_event(struct public_pair *pair, enum weft_event_kind kind)
{
	struct weft_event event;
	bool is_there = true, is_found = false;

	while (is_there) {
		MUST(weft_event_next(pair->adapter, 0, &event, &is_there));
		is_found = is_found || (is_there && event.kind == kind);
	}
	return is_found;
}

TEST(test_qp_10_every_overrun_is_reported)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct public_pair pair;

	pair_open(&pair, 1, WEFT_RC);
	for (int i = 0; i < 3; i++) {
		overrun_once(&pair);
		EXPECT(has_event(&pair, WEFT_EVENT_CQ_OVERRUN));
		EXPECT(!has_event(&pair, WEFT_EVENT_CQ_OVERRUN));
		MUST(weft_qp_modify(pair.a, &reset, WEFT_QP_STATE));
		MUST(weft_qp_modify(pair.b, &reset, WEFT_QP_STATE));
		MUST(weft_qp_connect(pair.a, pair.b));
	}
	pair_close(&pair);
}

/* The consumer's choice holds for every service. */
TEST(test_sqr_06a_sqr_06b_the_choice_is_not_only_for_reliable_connections)
{
	for (int choice = WEFT_FAIL_TERMINATE; choice <= WEFT_FAIL_DRAIN; choice++) {
		struct weft_qp_attr attr = { .on_failure = (enum weft_failure)choice };
		const struct weft_recv_wr recv = { .id = 1 };
		struct weft_sge bad = { .addr = 1, .length = 1, .tag = 0xffffffff };
		struct weft_send_wr wr = { .sges = &bad, .sge_count = 1 };
		struct public_pair pair;

		pair_open(&pair, 0, WEFT_UC);
		MUST(weft_qp_modify(pair.a, &attr, WEFT_QP_ON_FAILURE));
		MUST(weft_qp_post_recv(pair.a, &recv, 1, NULL));
		MUST(weft_qp_post_send(pair.a, &wr, 1, NULL));
		MUST(weft_qp_query(pair.a, &attr));
		EXPECT_EQ(attr.state, choice == WEFT_FAIL_DRAIN ? WEFT_QPS_SQE : WEFT_QPS_ERROR);
		EXPECT_EQ(attr.recv_queued, choice == WEFT_FAIL_DRAIN);
		pair_close(&pair);
	}
}

static struct weft_send_wr bind_request(struct public_pair *pair, uint32_t window, bool is_qp_bound)
{
	struct weft_send_wr wr = { .opcode = WEFT_OP_BIND };

	wr.bind = (struct weft_bind){
		.window_tag = window,
		.region_tag = pair->tag,
		.addr = (uintptr_t)memory,
		.length = 16,
		.rights = WEFT_REMOTE_WRITE,
		.is_qp_bound = is_qp_bound,
	};
	return wr;
}

/* What was opened to one peer is not for the next one that gets this queue pair, or its number. */
TEST(test_rkey_07_a_window_of_one_queue_pair_ends_with_its_stream)
{
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct weft_send_wr wr;
	struct weft_usage usage;
	struct public_pair pair;
	uint32_t window;

	pair_open(&pair, 0, WEFT_RC);
	MUST(weft_window_alloc(pair.pd, &window));
	wr = bind_request(&pair, window, true);
	MUST(weft_qp_post_send(pair.a, &wr, 1, NULL));
	MUST(weft_qp_modify(pair.a, &reset, WEFT_QP_STATE));
	EXPECT_EQ(weft_window_unbind(pair.pd, wr.bind.tag), WEFT_R_WINDOW_UNBOUND);
	/* One of the whole domain stays. */
	MUST(weft_qp_modify(pair.b, &reset, WEFT_QP_STATE));
	MUST(weft_qp_connect(pair.a, pair.b));
	wr = bind_request(&pair, window, false);
	MUST(weft_qp_post_send(pair.a, &wr, 1, NULL));
	MUST(weft_qp_modify(pair.a, &reset, WEFT_QP_STATE));
	MUST(weft_window_unbind(pair.pd, wr.bind.tag));
	MUST(weft_window_free(pair.pd, wr.bind.tag));
	MUST(weft_adapter_query(pair.adapter, &usage));
	EXPECT_EQ(usage.windows, 0);
	pair_close(&pair);
}

/* Else the bind would meet another window under the same number. */
TEST(test_rkey_02d_a_window_is_not_freed_while_a_bind_of_it_is_queued)
{
	struct weft_send_wr wrs[2] = { { .opcode = WEFT_OP_DELAY, .delay_ns = UINT64_MAX } };
	const struct weft_qp_attr reset = { .state = WEFT_QPS_RESET };
	struct public_pair pair;
	uint32_t window;

	pair_open(&pair, 0, WEFT_RC);
	MUST(weft_window_alloc(pair.pd, &window));
	wrs[1] = bind_request(&pair, window, false);
	MUST(weft_qp_post_send(pair.a, wrs, 2, NULL));
	EXPECT_EQ(weft_window_free(pair.pd, window), WEFT_R_BUSY);
	MUST(weft_qp_modify(pair.a, &reset, WEFT_QP_STATE));
	MUST(weft_window_free(pair.pd, window));
	pair_close(&pair);
}

/* Sharing gives nothing that registering would refuse. */
TEST(test_mem_09_sharing_keeps_to_the_rules_of_registering)
{
	const struct weft_region_options again = { .rights = 0x3f };
	struct weft_region_options o = { .addr = 0x10000, .length = 8, .rights = WEFT_LOCAL_READ };
	struct weft_pd_options domain = { 0 };
	struct weft_space *space;
	struct weft_pd *user;
	struct public_pair pair;
	uint32_t tag, shared;

	pair_open(&pair, 0, WEFT_RC);
	space_open(pair.adapter, false, &space);
	MUST(weft_space_map(space, 0x10000, BYTES, 0));
	domain.space = space;
	MUST(weft_pd_create(pair.adapter, &domain, &user));
	MUST(weft_region_register(user, &o, &tag));
	/* Not even a privileged domain, for the space is another process's own. */
	EXPECT_EQ(weft_region_share(pair.pd, tag, &again, &shared), WEFT_R_REG_VIRTUAL);
	MUST(weft_region_share(user, tag, &again, &shared));
	MUST(weft_region_deregister(user, shared));
	MUST(weft_region_deregister(user, tag));
	MUST(weft_pd_destroy(user));
	MUST(weft_space_destroy(space));
	pair_close(&pair);
}
