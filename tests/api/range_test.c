/* SPDX-License-Identifier: BSD-2-Clause */
/* Arguments that no call takes: of another adapter, of no address family, beyond a limit. */
#include <string.h>

#include <weft/rio.h>
#include <weft/roce.h>

#include "test.h"

static struct weft_adapter *adapter, *other;
static struct weft_pd *pd, *other_pd;
static struct weft_cq *cq;
static uint8_t memory[64];

#define PATIENCE_NS (UINT64_C(60) * 1000 * 1000 * 1000)

/* No process listens there. */
static const struct weft_rio_peer absent_peer = {
	.role = WEFT_RIO_OWNER,
	.platform = { 2, 1 },
	.address = { .family = 4, .ip = { 127, 0, 0, 1 }, .port = 1 },
};
static const struct weft_rio_self self = { .platform = { 1, 1 },
					   .peers = &absent_peer,
					   .peer_count = 1 };

static void open_both(void)
{
	REQUIRE(weft_adapter_open(NULL, &adapter) == WEFT_OK);
	REQUIRE(weft_adapter_open(NULL, &other) == WEFT_OK);
	REQUIRE(weft_pd_create(adapter, NULL, &pd) == WEFT_OK);
	REQUIRE(weft_pd_create(other, NULL, &other_pd) == WEFT_OK);
	REQUIRE(weft_cq_create(adapter, NULL, &cq) == WEFT_OK);
}

static void close_both(void)
{
	REQUIRE(weft_cq_destroy(cq) == WEFT_OK);
	REQUIRE(weft_pd_destroy(pd) == WEFT_OK);
	REQUIRE(weft_pd_destroy(other_pd) == WEFT_OK);
	REQUIRE(weft_adapter_close(adapter) == WEFT_OK);
	REQUIRE(weft_adapter_close(other) == WEFT_OK);
}

static struct weft_qp *made(enum weft_qp_service service)
{
	const struct weft_qp_options options = { .service = service, .send_cq = cq, .recv_cq = cq };
	struct weft_qp *qp = NULL;

	REQUIRE(weft_qp_create(pd, &options, &qp) == WEFT_OK);
	return qp;
}

TEST(test_api_range_of_memory)
{
	struct weft_region_options region = { .addr = (uintptr_t)memory,
					      .length = sizeof(memory),
					      .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE |
							WEFT_BIND };
	struct weft_sge range = { .addr = (uintptr_t)memory, .length = sizeof(memory) };
	struct weft_bind bind = { .addr = (uintptr_t)memory,
				  .length = sizeof(memory),
				  .rights = WEFT_REMOTE_READ };

	open_both();
	REQUIRE(weft_region_register(pd, &region, &range.tag) == WEFT_OK);
	EXPECT_EQ(weft_region_change(pd, range.tag, other_pd, &region), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_region_prefetch(pd, &range, WEFT_LOCAL_READ | WEFT_LOCAL_WRITE),
		  WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_region_prefetch(pd, &range, WEFT_REMOTE_READ), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_region_prefetch(pd, &range, WEFT_LOCAL_WRITE), WEFT_OK);
	/* A window of one queue pair needs the queue pair: weft_window_bind_to(). */
	REQUIRE(weft_window_alloc(pd, &bind.window_tag) == WEFT_OK);
	bind.region_tag = range.tag;
	bind.is_qp_bound = true;
	EXPECT_EQ(weft_window_bind(pd, &bind), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_window_discard(pd, bind.window_tag), WEFT_OK);
	EXPECT_EQ(weft_region_deregister(pd, range.tag), WEFT_OK);
	close_both();
}

TEST(test_api_range_of_addresses)
{
	static const char *const wrong[] = { "",       "127.0.0.1", "127.0.0.1:",   "127.0.0.1:x",
					     ":65536", "127.0.0:1", "127.0.0.1x:1", "::1:1",
					     "[::1:1", "[::g]:1",   "localhost:1" };
	struct weft_listener_options many = { .requests_max = UINT32_MAX };
	struct weft_address address, none = { .family = 9 };
	char host[400];
	struct weft_listener *listener;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EXPECT_EQ(weft_address_parse(wrong[i], &address), WEFT_R_ADDRESS);
	memset(host, '1', sizeof(host));
	memcpy(host + sizeof(host) - 3, ":1", 3);
	EXPECT_EQ(weft_address_parse(host, &address), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_address_parse("127.0.0.1:0", &address), WEFT_OK);
	open_both();
	EXPECT_EQ(weft_listener_open(adapter, &none, NULL, &listener), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_listener_open(adapter, &address, &many, &listener), WEFT_R_BAD_ARGUMENT);
	close_both();
}

TEST(test_api_range_of_connections)
{
	const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_connect_options later = { .reserved = { 1 } };
	struct weft_connect_options deep = { .ird = UINT16_MAX + 5 };
	struct weft_qp_options options;
	struct weft_listener *listener;
	struct weft_request *request;
	struct weft_event event;
	bool has_event;
	struct weft_address at;
	struct weft_qp *rc, *joined[2], *ud, *far;
	struct weft_cq *far_cq;

	open_both();
	rc = made(WEFT_RC);
	joined[0] = made(WEFT_RC);
	joined[1] = made(WEFT_RC);
	ud = made(WEFT_UD);
	REQUIRE(weft_cq_create(other, NULL, &far_cq) == WEFT_OK);
	options = (struct weft_qp_options){ .send_cq = far_cq, .recv_cq = far_cq };
	REQUIRE(weft_qp_create(other_pd, &options, &far) == WEFT_OK);
	REQUIRE(weft_listener_open(adapter, &loopback, NULL, &listener) == WEFT_OK);
	REQUIRE(weft_listener_address(listener, &at) == WEFT_OK);
	EXPECT_EQ(weft_qp_disconnect(rc), WEFT_R_QP_UNCONNECTED);
	EXPECT_EQ(weft_qp_dial(rc, &at, &deep), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_qp_dial(ud, &at, NULL), WEFT_R_WR_SERVICE);
	REQUIRE(weft_qp_connect(joined[0], joined[1]) == WEFT_OK);
	EXPECT_EQ(weft_qp_dial(joined[0], &at, NULL), WEFT_R_QP_STATE);
	/* A request is answered by a queue pair of the adapter that it came to. */
	REQUIRE(weft_qp_dial(far, &at, NULL) == WEFT_OK);
	do {
		REQUIRE(weft_event_next(adapter, PATIENCE_NS, &event, &has_event) == WEFT_OK);
		REQUIRE(has_event);
	} while (event.kind != WEFT_EVENT_REQUEST);
	REQUIRE(weft_listener_next(listener, &request) == WEFT_OK && request);
	EXPECT_EQ(weft_request_accept(request, far, NULL), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_request_accept(request, rc, &later), WEFT_R_RESERVED);
	EXPECT_EQ(weft_request_reject(request, &later), WEFT_R_RESERVED);
	EXPECT_EQ(weft_request_reject(request, NULL), WEFT_OK);
	REQUIRE(weft_listener_close(listener) == WEFT_OK);
	EXPECT_EQ(weft_qp_destroy(rc), WEFT_OK);
	EXPECT_EQ(weft_qp_destroy(joined[0]), WEFT_OK);
	EXPECT_EQ(weft_qp_destroy(joined[1]), WEFT_OK);
	EXPECT_EQ(weft_qp_destroy(ud), WEFT_OK);
	EXPECT_EQ(weft_qp_destroy(far), WEFT_OK);
	REQUIRE(weft_cq_destroy(far_cq) == WEFT_OK);
	close_both();
}

/* Refused before the port is opened, or what it is for is looked at. */
TEST(test_api_range_of_roce)
{
	const struct weft_address v4 = { .family = 4, .ip = { 127, 0, 0, 1 } };
	const struct weft_address v6 = { .family = 6 };
	struct weft_cm_service_options serving = { .at.family = 9 };
	struct weft_cm_id_options asking = { .path = { .from = v4, .to = v6 } };
	struct weft_raw_options raw = { .to = v4 };
	struct weft_ee_options context = { .path = { .from = v4, .to = v6, .mtu_bytes = 1024 } };
	struct weft_cm_id_offer offer = { 0 };
	struct weft_cm_service *service;
	struct weft_cm_id *id;
	struct weft_qp *rc, *ud;
	struct weft_ee *ee;
	uint64_t count;

	open_both();
	rc = made(WEFT_RC);
	ud = made(WEFT_UD);
	EXPECT_EQ(weft_roce_dropped(adapter, WEFT_REASON_COUNT, &count), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_cm_service_open(adapter, &serving, &service), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_cm_id_open(adapter, &asking, &offer, &id), WEFT_R_ADDRESS);
	asking.path.from.family = asking.path.to.family = 9;
	EXPECT_EQ(weft_cm_id_open(adapter, &asking, &offer, &id), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_ee_create(adapter, &context, &ee), WEFT_R_ADDRESS);
	context.path.from.family = context.path.to.family = 9;
	EXPECT_EQ(weft_ee_create(adapter, &context, &ee), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_qp_to_raw(rc, &raw), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_to_raw(ud, &raw), WEFT_R_ADDRESS);
	EXPECT_EQ(weft_qp_join(rc, &v4, &v4), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_leave(rc, &v4, &v4), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_destroy(rc), WEFT_OK);
	EXPECT_EQ(weft_qp_destroy(ud), WEFT_OK);
	close_both();
}

TEST(test_api_range_of_rio)
{
	struct weft_rio_self nowhere = { .peers = &absent_peer, .peer_count = 1 };
	struct weft_rio_self no_peers = { .platform = { 1, 1 }, .peer_count = 1 };
	struct weft_rio_requester_options requests = { .requests_max = UINT32_MAX };
	struct weft_rio_requester_options sges = { .sges_max = UINT32_MAX };
	struct weft_rio_owner_options requesters = { .requesters_max = 33 };
	struct weft_rio_iounit_options adapters = { .adapters = 9 },
				       pieces = { .piece_bytes = 4096 };
	struct weft_rio_sge none = { .memory = memory },
			    far = { .memory = memory, .length = 1, .platform = { 2, 1 } };
	struct weft_rio_requester *requester;
	struct weft_rio_iounit *iounit;
	struct weft_rio_owner *owner;
	uint32_t handle;

	EXPECT_EQ(weft_rio_requester_open(&nowhere, NULL, &requester), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_rio_requester_open(&no_peers, NULL, &requester), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_rio_requester_open(&self, &requests, &requester), WEFT_R_LIMIT);
	EXPECT_EQ(weft_rio_requester_open(&self, &sges, &requester), WEFT_R_LIMIT);
	EXPECT_EQ(weft_rio_owner_open(&self, &requesters, &owner), WEFT_R_LIMIT);
	EXPECT_EQ(weft_rio_iounit_open(&self, &adapters, &iounit, NULL), WEFT_R_LIMIT);
	EXPECT_EQ(weft_rio_iounit_open(&self, &pieces, &iounit, NULL), WEFT_R_BAD_ARGUMENT);
	REQUIRE(weft_rio_requester_open(&self, NULL, &requester) == WEFT_OK);
	EXPECT_EQ(weft_rio_memory_expose(requester, &none, false, &handle), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_rio_memory_expose(requester, &far, false, &handle), WEFT_R_BAD_ARGUMENT);
	weft_rio_requester_close(requester);
}

TEST(test_api_range_of_rios_requests)
{
	static struct weft_rio_transaction transactions[1000];
	struct weft_rio_sge sges[2] = { { .memory = memory, .length = 1 },
					{ .memory = memory, .length = 1 } };
	struct weft_rio_requester_options one = { .sges_max = 1 };
	struct weft_rio_request request = { .transactions = transactions };
	struct weft_rio_requester *requester;

	REQUIRE(weft_rio_requester_open(&self, &one, &requester) == WEFT_OK);
	EXPECT_EQ(weft_rio_request_submit(requester, &request), WEFT_R_SGL_NO_TRANSACTION);
	request.transaction_count = 1000;
	EXPECT_EQ(weft_rio_request_submit(requester, &request), WEFT_R_SGL_TRANSACTIONS);
	request.transaction_count = 1;
	transactions[0] = (struct weft_rio_transaction){ .operation = WEFT_RIO_READ,
							 .sges = sges,
							 .sge_count = 2 };
	EXPECT_EQ(weft_rio_request_submit(requester, &request), WEFT_R_LIMIT);
	transactions[0].sges = NULL;
	EXPECT_EQ(weft_rio_request_submit(requester, &request), WEFT_R_NULL_ARGUMENT);
	request.transactions = NULL;
	EXPECT_EQ(weft_rio_request_submit(requester, &request), WEFT_R_SGL_NO_TRANSACTION);
	weft_rio_requester_close(requester);
}

TEST(test_api_range_of_names_of_rio)
{
	struct weft_rio_peer peer = absent_peer;
	struct weft_rio_self named = { .platform = { 1, 1 }, .peers = &peer, .peer_count = 1 };
	char name[300], path[5000];
	struct weft_rio_rule rule = { .device = "", .operations = 1 << WEFT_RIO_READ };
	struct weft_rio_owner_options owning = { .rules = &rule, .rule_count = 1 };
	struct weft_rio_store store = { .number = 0, .name = "disk", .text = "mem:64k" };
	struct weft_rio_iounit_options unit = { .stores = &store, .store_count = 1 };
	char why[WEFT_RIO_WHY_MAX];
	struct weft_rio_iounit *iounit;
	struct weft_rio_owner *owner;

	peer.role = WEFT_RIO_IOUNIT;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	EXPECT_EQ(weft_rio_owner_open(&named, &owning, &owner), WEFT_R_BAD_ARGUMENT);
	rule.device = name;
	EXPECT_EQ(weft_rio_owner_open(&named, &owning, &owner), WEFT_R_BAD_ARGUMENT);
	rule.device = NULL;
	memcpy(peer.name, "a\nb", 4);
	EXPECT_EQ(weft_rio_owner_open(&named, &owning, &owner), WEFT_R_BAD_ARGUMENT);
	peer.name[0] = '\0';
	REQUIRE(weft_rio_owner_open(&named, &owning, &owner) == WEFT_OK);
	weft_rio_owner_close(owner);
	EXPECT_EQ(weft_rio_iounit_open(&named, &unit, &iounit, why), WEFT_R_BAD_ARGUMENT);
	store.number = 65536;
	EXPECT_EQ(weft_rio_iounit_open(&named, &unit, &iounit, why), WEFT_R_BAD_ARGUMENT);
	store = (struct weft_rio_store){ .number = 1, .name = "a\nb", .text = "mem:64k" };
	EXPECT_EQ(weft_rio_iounit_open(&named, &unit, &iounit, why), WEFT_R_BAD_ARGUMENT);
	store.name = "disk";
	store.text = "mem:0";
	EXPECT_EQ(weft_rio_iounit_open(&named, &unit, &iounit, why), WEFT_R_STORE_SIZE);
	store.text = "rio:/tmp/x";
	EXPECT_EQ(weft_rio_iounit_open(&named, &unit, &iounit, why), WEFT_R_STORE_OPEN);
	EXPECT(strstr(why, "device=NAME") != NULL);
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	memcpy(path, "file:/", 6);
	store.text = path;
	EXPECT_EQ(weft_rio_iounit_open(&named, &unit, &iounit, why), WEFT_R_STORE_OPEN);
}
