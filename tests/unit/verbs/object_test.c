/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of an adapter through the public calls: limits, defaults, use counts, bad arguments. */
#include <stdlib.h>
#include <string.h>

#include <weft/roce.h>

#include "test.h"

enum { NONE = 77 };

static struct weft_adapter *adapter_open(void)
{
	const struct weft_adapter_options o = {
		.tags_max = 64,
		.translations_max = 256,
		.qps_max = 4,
		.cqs_max = 3,
		.srqs_max = 2,
		.pds_max = 3,
	};
	struct weft_adapter *adapter;

	MUST(weft_adapter_open(&o, &adapter));
	return adapter;
}

TEST(test_qp_03_adapter_options_out_of_range)
{
	static const struct weft_adapter_options bad[] = {
		{ .tags_max = (1 << 24) + 1 },
		{ .tags_max = UINT32_MAX },
		{ .translations_max = UINT32_MAX },
		{ .qps_max = 65536 },
		{ .cqs_max = UINT32_MAX },
		{ .srqs_max = 65536 },
		{ .pds_max = 65536 },
		{ .policy = (enum weft_policy)2 },
		{ .profile = (enum weft_profile)3 },
		{ .ports_max = 255 },
		{ .profile = WEFT_PROFILE_IO, .ports_max = 3 },
	};
	struct weft_adapter *adapter = NULL;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		EXPECT_EQ(weft_adapter_open(&bad[i], &adapter), WEFT_R_BAD_ARGUMENT);
	EXPECT(!adapter);
	EXPECT_EQ(weft_adapter_open(NULL, NULL), WEFT_R_NULL_ARGUMENT);
}

static uint32_t rights_after(struct weft_qp *qp, uint32_t asked)
{
	struct weft_qp_attr attr = { .remote_rights = asked };

	MUST(weft_qp_modify(qp, &attr, WEFT_QP_REMOTE_RIGHTS));
	MUST(weft_qp_query(qp, &attr));
	return attr.remote_rights;
}

/* Peers are granted nothing by any queue pair of an I/O adapter, and it has few. */
TEST(test_sys_04_an_io_adapter_has_few_queue_pairs_and_no_inbound_rdma)
{
	static const uint32_t all = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC;
	const struct weft_adapter_options profiles[] = { { .profile = WEFT_PROFILE_IO },
							 { .profile = WEFT_PROFILE_HOST } };
	const uint32_t most[] = { 8, 4096 }, rights[] = { 0, all };

	for (int i = 0; i < 2; i++) {
		static struct weft_qp *qps[4097];
		struct weft_qp_options o = { .service = WEFT_RC };
		struct weft_adapter *adapter;
		struct weft_qp_attr attr;
		struct weft_pd *pd;
		uint32_t count = 0;

		MUST(weft_adapter_open(&profiles[i], &adapter));
		MUST(weft_pd_create(adapter, NULL, &pd));
		MUST(weft_cq_create(adapter, NULL, &o.send_cq));
		o.recv_cq = o.send_cq;
		while (count < 4097 && weft_qp_create(pd, &o, &qps[count]) == WEFT_OK)
			count++;
		EXPECT_EQ(count, most[i]);
		MUST(weft_qp_query(qps[0], &attr));
		EXPECT_EQ(attr.remote_rights, rights[i]);
		EXPECT_EQ(rights_after(qps[0], all), rights[i]);
		EXPECT_EQ(rights_after(qps[0], WEFT_REMOTE_READ), rights[i] & WEFT_REMOTE_READ);
		while (count > 0)
			MUST(weft_qp_destroy(qps[--count]));
		MUST(weft_cq_destroy(o.send_cq));
		MUST(weft_pd_destroy(pd));
		MUST(weft_adapter_close(adapter));
	}
}

TEST(test_qp_18_as_many_objects_as_the_adapter_was_opened_for)
{
	struct weft_adapter *adapter = adapter_open();
	struct weft_pd *pds[4];
	struct weft_cq *cqs[4];
	struct weft_srq *srqs[3];
	struct weft_qp *qps[5];
	struct weft_qp_options o = { 0 };
	struct weft_usage usage;

	for (int i = 0; i < 3; i++) {
		MUST(weft_pd_create(adapter, NULL, &pds[i]));
		MUST(weft_cq_create(adapter, NULL, &cqs[i]));
	}
	EXPECT_EQ(weft_pd_create(adapter, NULL, &pds[3]), WEFT_R_LIMIT);
	EXPECT_EQ(weft_cq_create(adapter, NULL, &cqs[3]), WEFT_R_LIMIT);
	for (int i = 0; i < 2; i++)
		MUST(weft_srq_create(pds[0], NULL, &srqs[i]));
	EXPECT_EQ(weft_srq_create(pds[0], NULL, &srqs[2]), WEFT_R_LIMIT);
	o.send_cq = cqs[0];
	o.recv_cq = cqs[1];
	for (int i = 0; i < 4; i++) {
		MUST(weft_qp_create(pds[0], &o, &qps[i]));
		for (int k = 0; k < i; k++)
			EXPECT(weft_qp_number(qps[i]) != weft_qp_number(qps[k]));
	}
	EXPECT_EQ(weft_qp_create(pds[0], &o, &qps[4]), WEFT_R_LIMIT);
	MUST(weft_adapter_query(adapter, &usage));
	EXPECT(usage.pds == 3 && usage.cqs == 3 && usage.srqs == 2 && usage.qps == 4);
	MUST(weft_qp_destroy(qps[1]));
	MUST(weft_qp_create(pds[0], &o, &qps[1]));
	for (int i = 0; i < 4; i++)
		MUST(weft_qp_destroy(qps[i]));
	for (int i = 0; i < 2; i++)
		MUST(weft_srq_destroy(srqs[i]));
	for (int i = 0; i < 3; i++) {
		MUST(weft_pd_destroy(pds[i]));
		MUST(weft_cq_destroy(cqs[i]));
	}
	MUST(weft_adapter_close(adapter));
}

/* Ids that outlive their object find nothing: a number is not given to the next one at once. */
TEST(test_qp_18_numbers_do_not_come_back_at_once)
{
	struct weft_adapter *adapter = adapter_open();
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp_options o = { 0 };
	uint32_t seen[100];

	MUST(weft_pd_create(adapter, NULL, &pd));
	MUST(weft_cq_create(adapter, NULL, &cq));
	o.send_cq = o.recv_cq = cq;
	for (int i = 0; i < 100; i++) {
		struct weft_qp *qp;

		MUST(weft_qp_create(pd, &o, &qp));
		seen[i] = weft_qp_number(qp);
		EXPECT(seen[i] > 0 && seen[i] < 1 << 24);
		for (int k = 0; k < i; k++)
			EXPECT(seen[i] != seen[k]);
		MUST(weft_qp_destroy(qp));
	}
	MUST(weft_cq_destroy(cq));
	MUST(weft_pd_destroy(pd));
	MUST(weft_adapter_close(adapter));
}

TEST(test_qp_02_what_a_new_queue_pair_is_like)
{
	struct weft_adapter *adapter = adapter_open();
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_qp_options o = { 0 };
	struct weft_qp_attr attr;

	MUST(weft_pd_create(adapter, NULL, &pd));
	MUST(weft_cq_create(adapter, NULL, &cq));
	o.send_cq = o.recv_cq = cq;
	MUST(weft_qp_create(pd, &o, &qp));
	MUST(weft_qp_query(qp, &attr));
	EXPECT_EQ(attr.state, WEFT_QPS_RESET);
	EXPECT_EQ(attr.remote_rights, WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC);
	EXPECT(!attr.is_register_enabled);
	EXPECT_EQ(attr.on_failure, WEFT_FAIL_TERMINATE);
	EXPECT_EQ(attr.receiver_wait_ns, 1000000000);
	EXPECT_EQ(attr.peer_number, 0);
	EXPECT_EQ(attr.reason, WEFT_OK);
	EXPECT_EQ(attr.send_queued + attr.recv_queued, 0);
	MUST(weft_qp_destroy(qp));
	MUST(weft_cq_destroy(cq));
	MUST(weft_pd_destroy(pd));
	MUST(weft_adapter_close(adapter));
}

TEST(test_qp_02_queue_options_out_of_range)
{
	struct weft_adapter *adapter = adapter_open();
	struct weft_pd *pd, *other;
	struct weft_cq *cq, *none = NULL;
	struct weft_srq *srq, *no_srq = NULL;
	struct weft_qp *qp = NULL;
	struct weft_qp_options good = { 0 };

	MUST(weft_pd_create(adapter, NULL, &pd));
	MUST(weft_pd_create(adapter, NULL, &other));
	MUST(weft_cq_create(adapter, NULL, &cq));
	MUST(weft_srq_create(other, NULL, &srq));
	good.send_cq = good.recv_cq = cq;
	struct weft_qp_options bad[] = { good, good, good, good, good, good, good };

	bad[0].send_max = WEFT_QUEUE_MAX + 1;
	bad[0].outstanding_max = 1; /* by default as many */
	bad[1].recv_max = UINT32_MAX;
	bad[2].sges_max = WEFT_SGES_MAX + 1;
	bad[3].inline_max_bytes = WEFT_INLINE_MAX + 1;
	bad[4].service = WEFT_SERVICE_COUNT;
	bad[5].service = (enum weft_qp_service) - 1;
	bad[6].outstanding_max = WEFT_QUEUE_MAX + 1;
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		EXPECT_EQ(weft_qp_create(pd, &bad[i], &qp), WEFT_R_BAD_ARGUMENT);
	bad[0] = good;
	bad[0].srq = srq; /* of another domain */
	EXPECT_EQ(weft_qp_create(pd, &bad[0], &qp), WEFT_R_TAG_PD);
	bad[0] = good;
	bad[0].send_cq = NULL;
	EXPECT_EQ(weft_qp_create(pd, &bad[0], &qp), WEFT_R_NULL_ARGUMENT);
	bad[0] = good;
	bad[0].recv_cq = NULL;
	EXPECT_EQ(weft_qp_create(pd, &bad[0], &qp), WEFT_R_NULL_ARGUMENT);
	EXPECT(!qp);
	EXPECT_EQ(weft_cq_create(adapter, &(struct weft_cq_options){ .entries_max = (1 << 22) + 1 },
				 &none),
		  WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(
		weft_srq_create(pd, &(struct weft_srq_options){ .recv_max = UINT32_MAX }, &no_srq),
		WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_srq_create(pd, &(struct weft_srq_options){ .sges_max = 33 }, &no_srq),
		  WEFT_R_BAD_ARGUMENT);
	EXPECT(!none && !no_srq);
	MUST(weft_srq_destroy(srq));
	MUST(weft_cq_destroy(cq));
	MUST(weft_pd_destroy(pd));
	MUST(weft_pd_destroy(other));
	MUST(weft_adapter_close(adapter));
}

/* Nothing that others use can be destroyed, and the refusal changes nothing. */
TEST(test_qp_16_objects_in_use_are_busy)
{
	uint64_t memory[64];
	const struct weft_space_options so = {
		.memory = memory,
		.size_bytes = sizeof(memory),
		.mappings_max = 2,
	};
	struct weft_adapter *adapter = adapter_open();
	struct weft_pd_options po = { 0 };
	struct weft_region_options ro = { .addr = 4096, .length = 64, .rights = WEFT_BIND };
	struct weft_qp_options qo = { 0 };
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_qp *qp;
	uint32_t region, window, reserved;

	MUST(weft_space_create(adapter, &so, &po.space));
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_R_BUSY);
	MUST(weft_space_map(po.space, 4096, sizeof(memory), 0));
	MUST(weft_pd_create(adapter, &po, &pd));
	EXPECT_EQ(weft_space_destroy(po.space), WEFT_R_BUSY);
	MUST(weft_cq_create(adapter, NULL, &send_cq));
	MUST(weft_cq_create(adapter, NULL, &recv_cq));
	MUST(weft_srq_create(pd, NULL, &qo.srq));
	EXPECT_EQ(weft_pd_destroy(pd), WEFT_R_BUSY);
	qo.send_cq = send_cq;
	qo.recv_cq = recv_cq;
	MUST(weft_qp_create(pd, &qo, &qp));
	EXPECT_EQ(weft_cq_destroy(send_cq), WEFT_R_BUSY);
	EXPECT_EQ(weft_cq_destroy(recv_cq), WEFT_R_BUSY);
	EXPECT_EQ(weft_srq_destroy(qo.srq), WEFT_R_BUSY);
	EXPECT_EQ(weft_pd_destroy(pd), WEFT_R_BUSY);
	MUST(weft_qp_destroy(qp));
	MUST(weft_srq_destroy(qo.srq));
	MUST(weft_region_register(pd, &ro, &region));
	EXPECT_EQ(weft_pd_destroy(pd), WEFT_R_BUSY);
	MUST(weft_region_deregister(pd, region));
	MUST(weft_window_alloc(pd, &window));
	EXPECT_EQ(weft_pd_destroy(pd), WEFT_R_BUSY);
	MUST(weft_window_free(pd, window));
	MUST(weft_tag_reserve(pd, &reserved));
	EXPECT_EQ(weft_pd_destroy(pd), WEFT_R_BUSY);
	MUST(weft_tag_release(pd, reserved));
	MUST(weft_pd_destroy(pd));
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_R_BUSY);
	MUST(weft_space_destroy(po.space));
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_R_BUSY);
	MUST(weft_cq_destroy(send_cq));
	MUST(weft_cq_destroy(recv_cq));
	MUST(weft_adapter_close(adapter));
}

TEST(test_rkey_02b_spaces_of_another_adapter)
{
	uint64_t memory[8];
	const struct weft_space_options so = {
		.memory = memory,
		.size_bytes = sizeof(memory),
		.mappings_max = 1,
	};
	struct weft_adapter *one = adapter_open(), *two = adapter_open();
	struct weft_pd_options po = { 0 };
	struct weft_pd *pd;

	MUST(weft_space_create(one, &so, &po.space));
	EXPECT_EQ(weft_pd_create(two, &po, &pd), WEFT_R_BAD_ARGUMENT);
	MUST(weft_space_destroy(po.space));
	MUST(weft_adapter_close(one));
	MUST(weft_adapter_close(two));
}

/* ---- NULL ----------------------------------------------------------------------------------- */

TEST(test_qp_03_null_instead_of_an_object)
{
	struct weft_bind bind = { 0 };
	struct weft_completion c;
	struct weft_event event;
	struct weft_qp_attr attr = { 0 };
	struct weft_usage usage;
	uint32_t count = NONE;
	bool has;

	EXPECT_EQ(weft_adapter_close(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_adapter_query(NULL, &usage), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_event_next(NULL, 0, &event, &has), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_space_destroy(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_space_map(NULL, 0, 1, 0), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_space_unmap(NULL, 0), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_pd_destroy(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_region_deregister(NULL, 1), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_tag_reserve(NULL, &count), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_tag_release(NULL, 1), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_window_alloc(NULL, &count), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_window_free(NULL, 1), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_window_discard(NULL, 1), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_window_bind(NULL, &bind), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_window_unbind(NULL, 1), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_cq_destroy(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_cq_number(NULL), 0);
	EXPECT_EQ(weft_cq_poll(NULL, &c, 1, &count), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_cq_arm(NULL, WEFT_ARM_NEXT), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_destroy(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_number(NULL), 0);
	EXPECT_EQ(weft_qp_modify(NULL, &attr, 0), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_query(NULL, &attr), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_post_send(NULL, NULL, 0, &count), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_post_recv(NULL, NULL, 0, &count), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_srq_destroy(NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_srq_post_recv(NULL, NULL, 0, &count), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_srq_arm(NULL, 0), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(count, NONE);
}

TEST(test_qp_03_null_instead_of_options_and_results)
{
	const struct weft_region_options ro = { .addr = 64, .length = 8 };
	const struct weft_space_options so = { 0 };
	struct weft_adapter *adapter = adapter_open();
	struct weft_space *space = NULL;
	struct weft_completion c;
	struct weft_event event;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_srq *srq;
	struct weft_qp_options qo = { 0 };
	struct weft_qp *qp;
	uint32_t n = NONE;
	bool has;

	EXPECT_EQ(weft_adapter_query(adapter, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_event_next(adapter, 0, NULL, &has), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_event_next(adapter, 0, &event, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_space_create(adapter, NULL, &space), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_space_create(adapter, &so, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_space_create(adapter, &so, &space), WEFT_R_NULL_ARGUMENT); /* no memory */
	EXPECT_EQ(weft_pd_create(adapter, NULL, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_cq_create(adapter, NULL, NULL), WEFT_R_NULL_ARGUMENT);
	MUST(weft_pd_create(adapter, NULL, &pd));
	MUST(weft_cq_create(adapter, NULL, &cq));
	EXPECT_EQ(weft_region_register(pd, NULL, &n), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_region_register(pd, &ro, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_region_share(pd, 1, NULL, &n), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_region_share(pd, 1, &ro, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_tag_reserve(pd, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_window_alloc(pd, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_window_bind(pd, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_cq_poll(cq, NULL, 1, &n), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_cq_poll(cq, &c, 1, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_create(pd, NULL, &qp), WEFT_R_NULL_ARGUMENT);
	qo.send_cq = qo.recv_cq = cq;
	EXPECT_EQ(weft_qp_create(pd, &qo, NULL), WEFT_R_NULL_ARGUMENT);
	MUST(weft_qp_create(pd, &qo, &qp));
	EXPECT_EQ(weft_qp_modify(qp, NULL, 0), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_query(qp, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_post_send(qp, NULL, 1, &n), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_post_recv(qp, NULL, 1, &n), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_srq_create(pd, NULL, NULL), WEFT_R_NULL_ARGUMENT);
	MUST(weft_srq_create(pd, NULL, &srq));
	EXPECT_EQ(weft_srq_post_recv(srq, NULL, 1, &n), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(n, NONE);
	MUST(weft_srq_destroy(srq));
	MUST(weft_qp_destroy(qp));
	MUST(weft_cq_destroy(cq));
	MUST(weft_pd_destroy(pd));
	MUST(weft_adapter_close(adapter));
}

/* ---- Names ---------------------------------------------------------------------------------- */

TEST(test_every_value_has_a_name)
{
	for (int i = 0; i < WEFT_OP_SEND_COUNT; i++)
		EXPECT(strlen(weft_opcode_name((enum weft_opcode)i)) > 2);
	EXPECT_STR(weft_opcode_name(WEFT_OP_RECV), "Receive");
	EXPECT(strcmp(weft_opcode_name(WEFT_OP_RECV_WRITE_IMM), "unknown") != 0);
	EXPECT_STR(weft_opcode_name(WEFT_OP_SEND_COUNT), "unknown");
	EXPECT_STR(weft_opcode_name((enum weft_opcode) - 1), "unknown");
	for (int i = 0; i <= WEFT_ERR_PEER_GONE; i++)
		EXPECT(strlen(weft_status_name((enum weft_status)i)) > 2);
	EXPECT_STR(weft_status_name((enum weft_status)(WEFT_ERR_PEER_GONE + 1)), "unknown");
	EXPECT_STR(weft_status_name((enum weft_status) - 1), "unknown");
	for (int i = 0; i < WEFT_QPS_COUNT; i++)
		EXPECT(strlen(weft_qp_state_name((enum weft_qp_state)i)) > 2);
	EXPECT_STR(weft_qp_state_name(WEFT_QPS_COUNT), "unknown");
	for (int i = 0; i < WEFT_EVENT_COUNT; i++)
		EXPECT(strlen(weft_event_name((enum weft_event_kind)i)) > 2);
	EXPECT_STR(weft_event_name(WEFT_EVENT_COUNT), "unknown");
	EXPECT(strlen(weft_version()) > 2);
}

TEST(test_ud_01_address_handles_belong_to_a_domain)
{
	struct weft_path path = { .from = { .family = 4, .ip = { 192, 0, 2, 1 } },
				  .to = { .family = 4, .ip = { 192, 0, 2, 2 } } };
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_ah *ah;

	MUST(weft_adapter_open(NULL, &adapter));
	MUST(weft_pd_create(adapter, NULL, &pd));
	EXPECT_EQ(weft_ah_create(NULL, &path, &ah), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ah_create(pd, NULL, &ah), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ah_create(pd, &path, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_ah_destroy(NULL), WEFT_R_NULL_ARGUMENT);
	path.flow_label = 1 << 20;
	EXPECT_EQ(weft_ah_create(pd, &path, &ah), WEFT_R_BAD_ARGUMENT);
	path.flow_label--;
	MUST(weft_ah_create(pd, &path, &ah));
	EXPECT_EQ(weft_pd_destroy(pd), WEFT_R_BUSY);
	MUST(weft_ah_destroy(ah));
	MUST(weft_pd_destroy(pd));
	MUST(weft_adapter_close(adapter));
}
