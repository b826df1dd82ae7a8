/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NULL for an object: a call that returns a reason returns WEFT_R_NULL_ARGUMENT, one that returns a
 * number 0, and one that returns nothing does nothing (weft.h). tests/api/calls_test.py sees to it
 * that no call is forgotten here.
 */
#include <string.h>

#include <weft/iscsi.h>
#include <weft/iscsi_qp.h>
#include <weft/rio.h>
#include <weft/roce.h>

#include "test.h"

#define EXPECT_NULL(call) EXPECT_EQ(call, WEFT_R_NULL_ARGUMENT)

/* Good arguments beside the NULL. */
static uint32_t number;
static uint64_t count;
static bool is_true;
static int fd;
static struct weft_address address = { .family = 4, .ip = { 127, 0, 0, 1 } };

TEST(test_api_null_adapter)
{
	struct weft_adapter_options options = { 0 };
	struct weft_space_options space = { .size_bytes = 8, .mappings_max = 1 };
	struct weft_roce_counts counts;
	struct weft_space *made;
	struct weft_usage usage;
	struct weft_event event;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_listener *listener;
	uint64_t authority;

	EXPECT_NULL(weft_adapter_open(&options, NULL));
	EXPECT_NULL(weft_adapter_close(NULL));
	EXPECT_NULL(weft_adapter_query(NULL, &usage));
	EXPECT_NULL(weft_adapter_fd(NULL, &fd));
	EXPECT_NULL(weft_adapter_drive(NULL, true));
	EXPECT_NULL(weft_adapter_serve(NULL, true));
	EXPECT_NULL(weft_adapter_claim(NULL, &authority));
	EXPECT_NULL(weft_event_next(NULL, 0, &event, &is_true));
	EXPECT_NULL(weft_event_take(NULL, &event, &is_true));
	EXPECT_NULL(weft_capture_start(NULL, "/tmp/never"));
	EXPECT_NULL(weft_capture_stop(NULL));
	EXPECT_NULL(weft_space_create(NULL, &space, &made));
	EXPECT_NULL(weft_pd_create(NULL, NULL, &pd));
	EXPECT_NULL(weft_cq_create(NULL, NULL, &cq));
	EXPECT_NULL(weft_listener_open(NULL, &address, NULL, &listener));
	EXPECT_NULL(weft_roce_open(NULL));
	EXPECT_NULL(weft_port_watch(NULL, NULL));
	EXPECT_NULL(weft_roce_query(NULL, &counts));
	EXPECT_NULL(weft_roce_dropped(NULL, WEFT_OK, &count));
	EXPECT_NULL(weft_raw_open(NULL, "tun0"));
}

TEST(test_api_null_space)
{
	struct weft_pins pins;

	EXPECT_NULL(weft_space_destroy(NULL));
	EXPECT_NULL(weft_space_map(NULL, 0, 8, 0));
	EXPECT_NULL(weft_space_unmap(NULL, 0));
	EXPECT_NULL(weft_space_move(NULL, 0, 0));
	EXPECT_NULL(weft_space_query(NULL, &pins));
}

TEST(test_api_null_domain)
{
	struct weft_region_options region = { .addr = (uintptr_t)&number, .length = 4 };
	struct weft_qp_options pair = { 0 };
	struct weft_path path = { 0 };
	struct weft_bind bind = { 0 };
	struct weft_sge range = { 0 };
	struct weft_srq *srq;
	struct weft_qp *qp;
	struct weft_ah *ah;

	EXPECT_NULL(weft_pd_destroy(NULL));
	EXPECT_NULL(weft_region_register(NULL, &region, &number));
	EXPECT_NULL(weft_region_register_null(NULL, &number));
	EXPECT_NULL(weft_region_share(NULL, 1, &region, &number));
	EXPECT_NULL(weft_region_change(NULL, 1, NULL, &region));
	EXPECT_NULL(weft_region_deregister(NULL, 1));
	EXPECT_NULL(weft_region_prefetch(NULL, &range, 0));
	EXPECT_NULL(weft_tag_reserve(NULL, &number));
	EXPECT_NULL(weft_tag_release(NULL, 1));
	EXPECT_NULL(weft_window_alloc(NULL, &number));
	EXPECT_NULL(weft_window_free(NULL, 1));
	EXPECT_NULL(weft_window_discard(NULL, 1));
	EXPECT_NULL(weft_window_unbind(NULL, 1));
	EXPECT_NULL(weft_window_bind(NULL, &bind));
	EXPECT_NULL(weft_qp_create(NULL, &pair, &qp));
	EXPECT_NULL(weft_srq_create(NULL, NULL, &srq));
	EXPECT_NULL(weft_ah_create(NULL, &path, &ah));
	EXPECT_NULL(weft_ah_destroy(NULL));
}

TEST(test_api_null_completion_queue)
{
	struct weft_completion completion;

	EXPECT_EQ(weft_cq_number(NULL), 0);
	EXPECT_NULL(weft_cq_destroy(NULL));
	EXPECT_NULL(weft_cq_resize(NULL, 1));
	EXPECT_NULL(weft_cq_poll(NULL, &completion, 1, &number));
	EXPECT_NULL(weft_cq_forget(NULL, 1));
	EXPECT_NULL(weft_cq_arm(NULL, WEFT_ARM_NEXT));
	EXPECT_NULL(weft_cq_wait(NULL, -1, 0, &is_true));
}

TEST(test_api_null_queue_pair)
{
	struct weft_send_wr send = { .opcode = WEFT_OP_SEND };
	struct weft_recv_wr recv = { .id = 1 };
	struct weft_bind bind = { 0 };
	struct weft_qp_attr attr;
	struct weft_traffic traffic;
	struct weft_peer peer;

	EXPECT_EQ(weft_qp_number(NULL), 0);
	EXPECT_NULL(weft_qp_destroy(NULL));
	EXPECT_NULL(weft_qp_query(NULL, &attr));
	memset(&attr, 0, sizeof(attr));
	EXPECT_NULL(weft_qp_modify(NULL, &attr, 0));
	EXPECT_NULL(weft_qp_connect(NULL, NULL));
	EXPECT_NULL(weft_qp_post_send(NULL, &send, 1, &number));
	EXPECT_NULL(weft_qp_post_send_all(NULL, &send, 1));
	EXPECT_NULL(weft_qp_post_recv(NULL, &recv, 1, &number));
	EXPECT_NULL(weft_qp_dial(NULL, &address, NULL));
	EXPECT_NULL(weft_qp_disconnect(NULL));
	EXPECT_NULL(weft_qp_peer(NULL, &peer));
	EXPECT_NULL(weft_qp_traffic(NULL, &traffic));
	EXPECT_NULL(weft_window_bind_to(NULL, &bind));
	EXPECT_NULL(weft_window_give(NULL, 1));
}

TEST(test_api_null_queue_pair_of_roce)
{
	struct weft_raw_options raw = { 0 };
	struct weft_roce_attr roce = { 0 };
	struct weft_qp_paths paths;

	EXPECT_NULL(weft_qp_to_rtr(NULL, &roce));
	EXPECT_NULL(weft_qp_to_rts(NULL, &roce));
	EXPECT_NULL(weft_qp_modify_roce(NULL, &roce, 0));
	EXPECT_NULL(weft_qp_query_paths(NULL, &paths));
	EXPECT_NULL(weft_qp_to_raw(NULL, &raw));
	EXPECT_NULL(weft_qp_join(NULL, &address, &address));
	EXPECT_NULL(weft_qp_leave(NULL, &address, &address));
}

TEST(test_api_null_queue_pair_of_iscsi)
{
	struct weft_iscsi_terms terms = { 0 };
	struct weft_iscsi_attr attr;

	EXPECT_NULL(weft_qp_modify_iscsi(NULL, &terms));
	EXPECT_NULL(weft_qp_query_iscsi(NULL, &attr));
	EXPECT_NULL(weft_qp_command_tag(NULL, 1, &number));
	EXPECT_NULL(weft_qp_end_command(NULL, 1));
}

TEST(test_api_null_shared_receive_queue)
{
	struct weft_recv_wr recv = { .id = 1 };

	EXPECT_EQ(weft_srq_number(NULL), 0);
	EXPECT_NULL(weft_srq_destroy(NULL));
	EXPECT_NULL(weft_srq_post_recv(NULL, &recv, 1, &number));
	EXPECT_NULL(weft_srq_arm(NULL, 1));
}

TEST(test_api_null_listener_and_request)
{
	struct weft_request *request;
	struct weft_peer peer;

	EXPECT_NULL(weft_address_parse(NULL, &address));
	EXPECT_NULL(weft_address_parse("127.0.0.1:1", NULL));
	EXPECT_EQ(weft_listener_number(NULL), 0);
	EXPECT_NULL(weft_listener_address(NULL, &address));
	EXPECT_NULL(weft_listener_next(NULL, &request));
	EXPECT_NULL(weft_listener_close(NULL));
	EXPECT_NULL(weft_request_query(NULL, &peer));
	EXPECT_NULL(weft_request_accept(NULL, NULL, NULL));
	EXPECT_NULL(weft_request_reject(NULL, NULL));
}

TEST(test_api_null_end_to_end_context)
{
	struct weft_ee_options options = { 0 };
	struct weft_ee_attr attr;
	struct weft_ee *ee;

	EXPECT_EQ(weft_ee_number(NULL), 0);
	EXPECT_NULL(weft_ee_create(NULL, &options, &ee));
	EXPECT_NULL(weft_ee_connect(NULL, 1, 1));
	EXPECT_NULL(weft_ee_query(NULL, &attr));
	EXPECT_NULL(weft_ee_destroy(NULL));
}

TEST(test_api_null_connection_manager)
{
	struct weft_cm_service_options serving = { 0 };
	struct weft_cm_id_options options = { 0 };
	struct weft_cm_id_offer offer = { 0 };
	struct weft_cm_service *service;
	struct weft_cm_id_news news;
	struct weft_cm_id *id;

	EXPECT_NULL(weft_cm_id_open(NULL, &options, &offer, &id));
	EXPECT_NULL(weft_cm_id_next(NULL, &news));
	EXPECT_NULL(weft_cm_id_accept(NULL, &offer));
	offer.reserved[0] = 1; /* looked at before the cm_id is */
	EXPECT_EQ(weft_cm_id_accept((struct weft_cm_id *)&offer, &offer), WEFT_R_RESERVED);
	EXPECT_NULL(weft_cm_id_reject(NULL, 0, NULL, 0));
	EXPECT_NULL(weft_cm_id_ready(NULL));
	EXPECT_NULL(weft_cm_id_established(NULL));
	EXPECT_NULL(weft_cm_id_disconnect(NULL));
	EXPECT_NULL(weft_cm_id_bind(NULL, NULL));
	EXPECT_NULL(weft_cm_id_close(NULL));
	EXPECT_NULL(weft_cm_id_set_context(NULL, &number));
	EXPECT_NULL(weft_cm_service_open(NULL, &serving, &service));
	EXPECT_NULL(weft_cm_service_address(NULL, &address));
	EXPECT_NULL(weft_cm_service_next(NULL, NULL, &id));
	EXPECT_NULL(weft_cm_service_close(NULL));
}

TEST(test_api_null_requester)
{
	struct weft_rio_traffic traffic = { .payload_in = 5 };
	struct weft_rio_request request = { 0 };
	struct weft_rio_requester *requester;
	struct weft_rio_device device;
	struct weft_rio_member member;
	struct weft_rio_result result;
	struct weft_rio_sge part = { .length = 1 };

	EXPECT_NULL(weft_rio_requester_open(NULL, NULL, &requester));
	weft_rio_requester_close(NULL);
	address.port = 5;
	weft_rio_requester_address(NULL, &address);
	EXPECT_EQ(address.port, 5);
	weft_rio_requester_traffic(NULL, &traffic);
	EXPECT_EQ(traffic.payload_in, 5);
	EXPECT_NULL(weft_rio_requester_inquire(NULL, 0, &member, 1, &number));
	EXPECT_NULL(weft_rio_device_get(NULL, 0, &device));
	EXPECT_NULL(weft_rio_device_find(NULL, "", 0, &device));
	EXPECT_NULL(weft_rio_memory_add(NULL, &number, 4, &number));
	EXPECT_NULL(weft_rio_memory_remove(NULL, 1));
	EXPECT_NULL(weft_rio_memory_expose(NULL, &part, true, &number));
	EXPECT_NULL(weft_rio_memory_conceal(NULL, 1));
	EXPECT_NULL(weft_rio_request_submit(NULL, &request));
	EXPECT_NULL(weft_rio_request_wait(NULL, 0, &result, 1, &number));
	EXPECT_NULL(weft_rio_request_do(NULL, &request, &result));
}

TEST(test_api_null_iscsi_session)
{
	char text[WEFT_ISCSI_TEXT_MAX] = "as before";
	struct weft_iscsi_request request = { 0 };
	struct weft_iscsi_session *session;
	struct weft_iscsi_result result;
	struct weft_iscsi_info info;
	int descriptor;

	EXPECT_NULL(weft_iscsi_session_open(NULL, NULL, &session));
	EXPECT_NULL(weft_iscsi_session_open("iscsi://host/", NULL, NULL));
	weft_iscsi_session_close(NULL);
	EXPECT_NULL(weft_iscsi_session_fd(NULL, &descriptor));
	EXPECT_NULL(weft_iscsi_session_query(NULL, &info));
	EXPECT_NULL(weft_iscsi_memory_add(NULL, &number, 4, &number));
	EXPECT_NULL(weft_iscsi_memory_remove(NULL, 1));
	EXPECT_NULL(weft_iscsi_request_submit(NULL, &request));
	EXPECT_NULL(weft_iscsi_request_wait(NULL, 0, &result, 1, &number));
	EXPECT_NULL(weft_iscsi_request_do(NULL, &request, &result));
	EXPECT_NULL(weft_iscsi_target_find(NULL, NULL, NULL, 0, &number));
	weft_iscsi_result_text(NULL, text);
	EXPECT_STR(text, "as before");
}

TEST(test_api_null_owner_and_io_unit)
{
	struct weft_rio_iounit_options unit = { 0 };
	struct weft_rio_owner_options owning = { 0 };
	struct weft_rio_traffic traffic = { .payload_in = 5 };
	struct weft_rio_iounit *iounit;
	struct weft_rio_owner *owner;

	address.port = 5;
	EXPECT_NULL(weft_rio_iounit_open(NULL, &unit, &iounit, NULL));
	EXPECT_NULL(weft_rio_iounit_run(NULL));
	weft_rio_iounit_stop(NULL);
	weft_rio_iounit_close(NULL);
	weft_rio_iounit_address(NULL, &address);
	weft_rio_iounit_traffic(NULL, &traffic);
	EXPECT_NULL(weft_rio_owner_open(NULL, &owning, &owner));
	EXPECT_NULL(weft_rio_owner_run(NULL));
	EXPECT_EQ(weft_rio_owner_term(NULL), 0);
	weft_rio_owner_stop(NULL);
	weft_rio_owner_close(NULL);
	weft_rio_owner_address(NULL, &address);
	weft_rio_owner_traffic(NULL, &traffic);
	EXPECT_EQ(address.port, 5);
	EXPECT_EQ(traffic.payload_in, 5);
}
