/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reserved space of public structs: a call refuses what is not zero there, in every struct and in
 * those within, and writes zeroes to the space of structs that the library fills.
 */
#include <stdlib.h>
#include <string.h>

#include <weft/iscsi_qp.h>
#include <weft/rio.h>
#include <weft/roce.h>

#include "test.h"

#define WORDS(s) (sizeof((s).reserved) / sizeof((s).reserved[0]))

/* Whichever word it is that is not zero; what was asked for is refused, and only then. */
#define EXPECT_REFUSED(s, call)                                                                    \
	do {                                                                                       \
		for (size_t word = 0; word < WORDS(s); word++) {                                   \
			(s).reserved[word] = (uint64_t)1 << 63;                                    \
			EXPECT_EQ(call, WEFT_R_RESERVED);                                          \
			(s).reserved[word] = 0;                                                    \
		}                                                                                  \
		EXPECT((call) != WEFT_R_RESERVED);                                                 \
	} while (0)

#define EXPECT_ZEROED(s)                                                                           \
	do {                                                                                       \
		for (size_t word = 0; word < WORDS(s); word++)                                     \
			EXPECT_EQ((s).reserved[word], 0);                                          \
	} while (0)

/* Two queue pairs that are connected, and memory. */
struct pair {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qps[2];
	uint32_t tag;
	_Alignas(8) uint8_t memory[4096];
};

static void pair_open(struct pair *p)
{
	struct weft_region_options region = { .length = sizeof(p->memory),
					      .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE |
							WEFT_REMOTE_WRITE | WEFT_BIND };
	struct weft_qp_options options = { 0 };

	memset(p, 0, sizeof(*p));
	REQUIRE(weft_adapter_open(NULL, &p->adapter) == WEFT_OK);
	REQUIRE(weft_pd_create(p->adapter, &(struct weft_pd_options){ .is_privileged = true },
			       &p->pd) == WEFT_OK);
	REQUIRE(weft_cq_create(p->adapter, NULL, &p->cq) == WEFT_OK);
	options.send_cq = options.recv_cq = p->cq;
	for (int i = 0; i < 2; i++)
		REQUIRE(weft_qp_create(p->pd, &options, &p->qps[i]) == WEFT_OK);
	REQUIRE(weft_qp_connect(p->qps[0], p->qps[1]) == WEFT_OK);
	region.addr = (uintptr_t)p->memory;
	REQUIRE(weft_region_register(p->pd, &region, &p->tag) == WEFT_OK);
}

static void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		REQUIRE(weft_qp_destroy(p->qps[i]) == WEFT_OK);
	REQUIRE(weft_region_deregister(p->pd, p->tag) == WEFT_OK);
	REQUIRE(weft_cq_destroy(p->cq) == WEFT_OK);
	REQUIRE(weft_pd_destroy(p->pd) == WEFT_OK);
	REQUIRE(weft_adapter_close(p->adapter) == WEFT_OK);
}

TEST(test_api_reserved_space_of_an_adapters_options_is_zero)
{
	struct weft_adapter_options options = { 0 };
	struct weft_adapter *adapter = NULL;

	for (size_t word = 0; word < WORDS(options); word++) {
		options.reserved[word] = 1;
		EXPECT_EQ(weft_adapter_open(&options, &adapter), WEFT_R_RESERVED);
		EXPECT(!adapter);
		options.reserved[word] = 0;
	}
	EXPECT_EQ(weft_adapter_open(&options, &adapter), WEFT_OK);
	EXPECT_EQ(weft_adapter_close(adapter), WEFT_OK);
}

/* Each call would be refused for another reason too, which comes second. */
TEST(test_api_reserved_space_of_objects_options_is_zero)
{
	struct weft_space_options space = { 0 };
	struct weft_pd_options domain = { .space = NULL };
	struct weft_cq_options queue = { .entries_max = UINT32_MAX };
	struct weft_qp_options pair = { 0 };
	struct weft_srq_options shared = { .recv_max = UINT32_MAX };
	struct weft_listener_options listening = { .requests_max = UINT32_MAX };
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_listener *listener;
	struct weft_space *new_space;
	struct weft_pd *new_pd = NULL;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_srq *srq;
	struct pair p;

	pair_open(&p);
	EXPECT_REFUSED(space, weft_space_create(p.adapter, &space, &new_space));
	EXPECT_REFUSED(domain, weft_pd_create(p.adapter, &domain, &new_pd));
	EXPECT_EQ(weft_pd_destroy(new_pd), WEFT_OK);
	EXPECT_REFUSED(queue, weft_cq_create(p.adapter, &queue, &cq));
	EXPECT_REFUSED(pair, weft_qp_create(p.pd, &pair, &qp));
	EXPECT_REFUSED(shared, weft_srq_create(p.pd, &shared, &srq));
	EXPECT_REFUSED(listening, weft_listener_open(p.adapter, &at, &listening, &listener));
	pair_close(&p);
}

TEST(test_api_reserved_space_of_memorys_options_is_zero)
{
	uint64_t page = 0;
	struct weft_page_list pages = { .pages = &page, .count = 1, .page_size_bytes = 1 };
	struct weft_region_options region = { 0 }, listed = { .length = 1, .pages = &pages };
	struct weft_bind bind = { 0 };
	struct pair p;
	uint32_t tag;

	pair_open(&p);
	EXPECT_REFUSED(region, weft_region_register(p.pd, &region, &tag));
	EXPECT_REFUSED(pages, weft_region_register(p.pd, &listed, &tag));
	EXPECT_REFUSED(region, weft_region_share(p.pd, 0, &region, &tag));
	EXPECT_REFUSED(region, weft_region_change(p.pd, 0, p.pd, &region));
	EXPECT_REFUSED(bind, weft_window_bind(p.pd, &bind));
	EXPECT_REFUSED(bind, weft_window_bind_to(p.qps[0], &bind));
	pair_close(&p);
}

/* Those before it are posted, it is not. */
TEST(test_api_reserved_space_of_requests_is_zero)
{
	struct weft_send_wr sends[2] = { { .opcode = WEFT_OP_DELAY }, { .opcode = WEFT_OP_SEND } };
	struct weft_recv_wr recvs[2] = { { .id = 1 }, { .id = 2 } };
	struct weft_srq_options options = { .recv_max = 8 };
	struct weft_srq *srq;
	uint32_t posted = 9;
	struct pair p;

	pair_open(&p);
	sends[1].reserved[0] = 1;
	EXPECT_EQ(weft_qp_post_send(p.qps[0], sends, 2, &posted), WEFT_R_RESERVED);
	EXPECT_EQ(posted, 1);
	EXPECT_EQ(weft_qp_post_send_all(p.qps[0], sends, 2), WEFT_R_RESERVED);
	recvs[1].reserved[1] = 1;
	EXPECT_EQ(weft_qp_post_recv(p.qps[0], recvs, 2, &posted), WEFT_R_RESERVED);
	EXPECT_EQ(posted, 1);
	REQUIRE(weft_srq_create(p.pd, &options, &srq) == WEFT_OK);
	EXPECT_EQ(weft_srq_post_recv(srq, recvs, 2, &posted), WEFT_R_RESERVED);
	EXPECT_EQ(posted, 1);
	EXPECT_EQ(weft_srq_destroy(srq), WEFT_OK);
	pair_close(&p);
}

/* An operation looks at the parts that it uses, and not at the others. */
TEST(test_api_reserved_space_of_a_requests_parts_is_zero)
{
	struct weft_page_list pages = { .count = 1 };
	struct weft_send_wr bind = { .opcode = WEFT_OP_BIND }, reg = { .opcode = WEFT_OP_REGISTER },
			    send = { .opcode = WEFT_OP_DELAY };
	struct pair p;

	pair_open(&p);
	EXPECT_REFUSED(bind.bind, weft_qp_post_send(p.qps[0], &bind, 1, NULL));
	bind.reg.reserved[0] = 1;
	EXPECT(weft_qp_post_send(p.qps[0], &bind, 1, NULL) != WEFT_R_RESERVED);
	/* Registering is not allowed to this queue pair: nothing is carried out. */
	reg.reg.region.pages = &pages;
	reg.reg.region.space = (struct weft_space *)(void *)&p;
	EXPECT_REFUSED(reg.reg, weft_qp_post_send(p.qps[0], &reg, 1, NULL));
	EXPECT_REFUSED(reg.reg.region, weft_qp_post_send(p.qps[0], &reg, 1, NULL));
	EXPECT_REFUSED(pages, weft_qp_post_send(p.qps[0], &reg, 1, NULL));
	send.bind.reserved[0] = send.reg.reserved[0] = 1;
	EXPECT_EQ(weft_qp_post_send(p.qps[0], &send, 1, NULL), WEFT_OK);
	pair_close(&p);
}

TEST(test_api_reserved_space_of_a_queue_pairs_attributes_is_zero)
{
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 }, .port = 1 };
	struct weft_connect_options dialling = { .mpa_revision = 9 };
	struct weft_raw_options raw = { .to.family = 6 };
	struct weft_roce_attr roce = { 0 };
	struct weft_alternate other = { .timeout_code = 1 };
	struct weft_iscsi_terms terms = { 0 };
	struct weft_qp_attr attr;
	struct pair p;

	pair_open(&p);
	memset(&attr, 0xff, sizeof(attr));
	EXPECT_EQ(weft_qp_query(p.qps[0], &attr), WEFT_OK);
	EXPECT_ZEROED(attr);
	EXPECT_REFUSED(attr, weft_qp_modify(p.qps[0], &attr, 0));
	EXPECT_REFUSED(dialling, weft_qp_dial(p.qps[0], &at, &dialling));
	EXPECT_REFUSED(roce, weft_qp_to_rts(p.qps[0], &roce));
	EXPECT_REFUSED(roce.path, weft_qp_to_rts(p.qps[0], &roce));
	EXPECT_REFUSED(roce, weft_qp_modify_roce(p.qps[0], &roce, 0));
	EXPECT_REFUSED(roce.path, weft_qp_modify_roce(p.qps[0], &roce, 0));
	roce.alternate = &other;
	EXPECT_REFUSED(other, weft_qp_modify_roce(p.qps[0], &roce, WEFT_ROCE_ALTERNATE));
	EXPECT_REFUSED(other.path, weft_qp_modify_roce(p.qps[0], &roce, WEFT_ROCE_ALTERNATE));
	roce.reserved[5] = 1;
	EXPECT_EQ(weft_qp_to_rtr(p.qps[0], &roce), WEFT_R_RESERVED);
	EXPECT_REFUSED(raw, weft_qp_to_raw(p.qps[0], &raw));
	EXPECT_REFUSED(terms, weft_qp_modify_iscsi(p.qps[0], &terms));
	pair_close(&p);
}

/* Addresses of no family: refused before the port is opened. */
TEST(test_api_reserved_space_of_roces_options_is_zero)
{
	struct weft_cm_service_options service = { .at.family = 9 };
	struct weft_cm_id_options conversation = { 0 };
	struct weft_ee_options context = { 0 };
	struct weft_cm_id_offer offer = { 0 };
	struct weft_path path = { 0 };
	struct weft_cm_service *new_service;
	struct weft_cm_id *id;
	struct weft_ah *ah = NULL;
	struct weft_ee *ee;
	struct pair p;

	pair_open(&p);
	EXPECT_REFUSED(path, weft_ah_create(p.pd, &path, &ah));
	EXPECT_REFUSED(context, weft_ee_create(p.adapter, &context, &ee));
	EXPECT_REFUSED(context.path, weft_ee_create(p.adapter, &context, &ee));
	EXPECT_REFUSED(conversation, weft_cm_id_open(p.adapter, &conversation, &offer, &id));
	EXPECT_REFUSED(conversation.path, weft_cm_id_open(p.adapter, &conversation, &offer, &id));
	EXPECT_REFUSED(offer, weft_cm_id_open(p.adapter, &conversation, &offer, &id));
	EXPECT_REFUSED(service, weft_cm_service_open(p.adapter, &service, &new_service));
	if (ah)
		EXPECT_EQ(weft_ah_destroy(ah), WEFT_OK);
	pair_close(&p);
}

TEST(test_api_reserved_space_of_rios_options_is_zero)
{
	struct weft_rio_peer peer = { .role = WEFT_RIO_OWNER };
	struct weft_rio_self self = { .platform = { 1, 1 }, .peers = &peer, .peer_count = 1 };
	struct weft_rio_requester_options asking = { .requests_max = UINT32_MAX };
	struct weft_rio_store store = { 0 };
	struct weft_rio_iounit_options unit = { .piece_bytes = 1 },
				       stored = { .stores = &store, .store_count = 1 };
	struct weft_rio_rule rule = { 0 };
	struct weft_rio_owner_options owning = { .requesters_max = UINT32_MAX,
						 .rules = &rule,
						 .rule_count = 1 };
	struct weft_rio_requester *requester;
	struct weft_rio_iounit *iounit;
	struct weft_rio_owner *owner;

	EXPECT_REFUSED(asking, weft_rio_requester_open(&self, &asking, &requester));
	asking.requests_max = 0;
	self.reserved[7] = 1;
	EXPECT_EQ(weft_rio_requester_open(&self, &asking, &requester), WEFT_R_RESERVED);
	self.reserved[7] = 0;
	peer.reserved[3] = 1;
	EXPECT_EQ(weft_rio_requester_open(&self, &asking, &requester), WEFT_R_RESERVED);
	peer.reserved[3] = 0;
	EXPECT_REFUSED(unit, weft_rio_iounit_open(&self, &unit, &iounit, NULL));
	EXPECT_REFUSED(store, weft_rio_iounit_open(&self, &stored, &iounit, NULL));
	EXPECT_REFUSED(owning, weft_rio_owner_open(&self, &owning, &owner));
	EXPECT_REFUSED(rule, weft_rio_owner_open(&self, &owning, &owner));
}

TEST(test_api_reserved_space_of_rios_requests_is_zero)
{
	struct weft_rio_peer peer = { .role = WEFT_RIO_OWNER,
				      .platform = { 2, 1 },
				      .address = {
					      .family = 4, .ip = { 127, 0, 0, 1 }, .port = 1 } };
	struct weft_rio_self self = { .platform = { 1, 1 }, .peers = &peer, .peer_count = 1 };
	struct weft_rio_transaction transaction = { .operation = WEFT_RIO_READ, .sge_count = 1 };
	struct weft_rio_request request = { .transactions = &transaction };
	struct weft_rio_requester *requester;
	struct weft_rio_traffic traffic;

	REQUIRE(weft_rio_requester_open(&self, NULL, &requester) == WEFT_OK);
	EXPECT_REFUSED(request, weft_rio_request_submit(requester, &request));
	request.transaction_count = 1;
	EXPECT_REFUSED(transaction, weft_rio_request_submit(requester, &request));
	EXPECT_REFUSED(transaction, weft_rio_request_do(requester, &request, NULL));
	memset(&traffic, 0xff, sizeof(traffic));
	weft_rio_requester_traffic(requester, &traffic);
	EXPECT_ZEROED(traffic);
	weft_rio_requester_close(requester);
}

TEST(test_api_reserved_space_of_what_the_library_fills_is_zeroed)
{
	struct weft_send_wr wr = { .id = 7, .opcode = WEFT_OP_DELAY, .flags = WEFT_SIGNALLED };
	struct weft_space_options options = { .size_bytes = 4096, .mappings_max = 1 };
	struct weft_completion completion;
	struct weft_traffic traffic;
	struct weft_space *space;
	struct weft_usage usage;
	struct weft_event event;
	struct weft_pins pins;
	bool has_event = false;
	uint32_t count = 0;
	struct pair p;

	pair_open(&p);
	memset(&usage, 0xff, sizeof(usage));
	EXPECT_EQ(weft_adapter_query(p.adapter, &usage), WEFT_OK);
	EXPECT_ZEROED(usage);
	options.memory = p.memory;
	REQUIRE(weft_space_create(p.adapter, &options, &space) == WEFT_OK);
	memset(&pins, 0xff, sizeof(pins));
	EXPECT_EQ(weft_space_query(space, &pins), WEFT_OK);
	EXPECT_ZEROED(pins);
	EXPECT_EQ(weft_space_destroy(space), WEFT_OK);
	EXPECT_EQ(weft_cq_arm(p.cq, WEFT_ARM_NEXT), WEFT_OK);
	EXPECT_EQ(weft_qp_post_send(p.qps[0], &wr, 1, NULL), WEFT_OK);
	memset(&event, 0xff, sizeof(event));
	EXPECT_EQ(weft_event_next(p.adapter, UINT64_MAX, &event, &has_event), WEFT_OK);
	EXPECT(has_event && event.kind == WEFT_EVENT_COMPLETION);
	EXPECT_ZEROED(event);
	memset(&completion, 0xff, sizeof(completion));
	EXPECT_EQ(weft_cq_poll(p.cq, &completion, 1, &count), WEFT_OK);
	EXPECT(count == 1 && completion.id == 7);
	EXPECT(completion.src_lid == 0 && completion.service_level == 0 &&
	       completion.path_bits == 0);
	EXPECT_EQ(weft_qp_traffic(p.qps[0], &traffic), WEFT_R_QP_UNCONNECTED);
	pair_close(&p);
}
