/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_connect(3), rdma_accept(3), rdma_reject(3), rdma_disconnect(3): what each end is told. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft_dv.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

static const char question[] = "may I?", answer[] = "you may";

/* On InfiniBand's wire all of the room for it is there, however much was meant (IBA 12.6). */
enum { REQ_BYTES = 56, REP_BYTES = 196, REJ_BYTES = 148, REJ_CONSUMER = 28, REJ_SERVICE_ID = 8 };

static size_t delivered_bytes(size_t bytes, size_t room)
{
	return cm_is_roce() ? room : bytes;
}

TEST(test_rdma_connect_brings_private_data_and_depths_both_ways)
{
	struct rdma_conn_param ask = { .private_data = question,
				       .private_data_len = sizeof(question),
				       .responder_resources = 3,
				       .initiator_depth = 5 };
	struct rdma_conn_param say = { .private_data = answer,
				       .private_data_len = sizeof(answer),
				       .responder_resources = 4,
				       .initiator_depth = 2 };
	struct cm_pair p;
	struct rdma_cm_event *event = cm_request(&p, &ask);

	EXPECT(event->listen_id == p.listener);
	EXPECT_EQ(event->status, 0);
	EXPECT_EQ(event->param.conn.private_data_len, delivered_bytes(sizeof(question), REQ_BYTES));
	EXPECT_MEM(event->param.conn.private_data, question, sizeof(question));
	EXPECT_EQ(event->param.conn.responder_resources, 5);
	EXPECT_EQ(event->param.conn.initiator_depth, 3);
	p.far = event->id;
	EXPECT(p.far->verbs == p.near->verbs);
	EXPECT_EQ(rdma_get_src_port(p.far), rdma_get_src_port(p.listener));
	cm_create_qp(p.far);
	EXPECT_EQ(rdma_accept(p.far, &say), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	event = cm_event(p.near_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_ESTABLISHED);
	EXPECT(event->id == p.near);
	EXPECT_EQ(event->param.conn.private_data_len, delivered_bytes(sizeof(answer), REP_BYTES));
	EXPECT_MEM(event->param.conn.private_data, answer, sizeof(answer));
	EXPECT_EQ(event->param.conn.responder_resources, 2);
	EXPECT_EQ(event->param.conn.initiator_depth, 4);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	event = cm_event(p.far_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_ESTABLISHED);
	EXPECT(!event->param.conn.private_data);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(rdma_get_src_port(p.near), rdma_get_dst_port(p.far));
	cm_pair_free(&p);
}

TEST(test_rdma_connect_without_parameters_asks_for_all_that_the_device_can)
{
	struct ibv_device_attr attr;
	struct cm_pair p;
	struct rdma_cm_event *event = cm_request(&p, NULL);

	EXPECT_EQ(ibv_query_device(p.near->verbs, &attr), 0);
	EXPECT_EQ(event->param.conn.responder_resources, attr.max_qp_init_rd_atom);
	EXPECT_EQ(event->param.conn.initiator_depth, attr.max_qp_rd_atom);
	EXPECT_EQ(event->param.conn.private_data_len, delivered_bytes(0, REQ_BYTES));
	p.far = event->id;
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_pair_free(&p);
}

TEST(test_rdma_connect_refuses_depths_that_the_device_has_not)
{
	struct rdma_conn_param param = { .responder_resources = 0xFE };
	struct rdma_cm_event *event;
	struct cm_pair p;

	p.near_channel = cm_channel();
	p.far_channel = cm_channel();
	p.listener = cm_listener(p.far_channel);
	p.near = cm_dialler(p.near_channel, p.listener);
	p.far = NULL;
	EXPECT_EQ(rdma_connect(p.near, &param), -1);
	EXPECT_EQ(errno, EINVAL);
	param = (struct rdma_conn_param){ .private_data_len = 1 };
	EXPECT_EQ(rdma_connect(p.near, &param), -1);
	EXPECT_EQ(errno, EINVAL);
	param.private_data_len = 0;
	EXPECT_EQ(rdma_connect(p.near, &param), 0); /* it was refused, not spoilt */
	event = cm_event(p.far_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(event->param.conn.responder_resources, 0); /* none, and not the default */
	EXPECT_EQ(event->param.conn.initiator_depth, 0);
	p.far = event->id;
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_pair_free(&p);
}

TEST(test_rdma_reject_tells_the_other_end_with_private_data)
{
	struct cm_pair p;
	struct rdma_cm_event *event = cm_request(&p, NULL);

	p.far = event->id;
	EXPECT_EQ(rdma_reject(p.far, answer, sizeof(answer)), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	event = cm_event(p.near_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(event->status, cm_is_roce() ? REJ_CONSUMER : -ECONNREFUSED);
	EXPECT_EQ(event->param.conn.private_data_len, delivered_bytes(sizeof(answer), REJ_BYTES));
	EXPECT_MEM(event->param.conn.private_data, answer, sizeof(answer));
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(rdma_reject(p.far, NULL, 0), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_disconnect(p.near), -1);
	EXPECT_EQ(errno, EINVAL);
	cm_expect_none(p.near_channel);
	cm_pair_free(&p);
}

TEST(test_rdma_destroy_id_of_a_request_rejects_it)
{
	struct cm_pair p;
	struct rdma_cm_event *event = cm_request(&p, NULL);

	EXPECT_EQ(rdma_destroy_id(event->id), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect(p.near_channel, RDMA_CM_EVENT_REJECTED);
	cm_pair_free(&p);
}

TEST(test_rdma_destroy_id_of_a_listener_rejects_untaken_requests)
{
	struct rdma_event_channel *near = cm_channel(), *far = cm_channel();
	struct rdma_cm_id *listener = cm_listener(far), *ids[3];
	struct rdma_cm_event *event;

	for (int i = 0; i < 3; i++) {
		ids[i] = cm_dialler(near, listener);
		EXPECT_EQ(rdma_connect(ids[i], NULL), 0);
	}
	/* The first request is taken; the others came with it, or come later. */
	event = cm_event(far);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(rdma_destroy_id(event->id), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	for (int i = 0; i < 3; i++)
		cm_expect(near, RDMA_CM_EVENT_REJECTED);
	for (int i = 0; i < 3; i++) {
		rdma_destroy_qp(ids[i]);
		EXPECT_EQ(rdma_destroy_id(ids[i]), 0);
	}
	cm_expect_none(far);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

TEST(test_rdma_connect_to_an_unused_port_is_rejected)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel), *id = cm_dialler(channel, listener);
	struct rdma_cm_event *event;

	EXPECT_EQ(rdma_destroy_id(listener), 0);
	EXPECT_EQ(rdma_connect(id, NULL), 0);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(event->status, cm_is_roce() ? REJ_SERVICE_ID : -ECONNREFUSED);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(rdma_connect(id, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* perftest's servers do so, and their clients do not wait. */
TEST(test_rdma_connect_meets_a_listener_that_ends_and_begins_anew)
{
	struct rdma_event_channel *near = cm_channel(), *far = cm_channel();
	struct rdma_cm_id *listener = cm_listener(far), *id = cm_dialler(near, listener);
	struct sockaddr_in at = cm_loopback(ntohs(rdma_get_src_port(listener)));
	struct rdma_conn_param ask = { .private_data = question,
				       .private_data_len = sizeof(question) };
	struct rdma_cm_event *event;

	EXPECT_EQ(rdma_destroy_id(listener), 0);
	EXPECT_EQ(rdma_connect(id, &ask), 0);
	cm_expect_none(near);
	REQUIRE(rdma_create_id(far, &listener, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_bind_addr(listener, (struct sockaddr *)&at) == 0);
	REQUIRE(rdma_listen(listener, 8) == 0);
	event = cm_event(far);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_MEM(event->param.conn.private_data, question, sizeof(question));
	EXPECT_EQ(rdma_destroy_id(event->id), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect(near, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

TEST(test_rdma_disconnect_tells_both_ends_once)
{
	struct cm_pair p;

	cm_pair_make(&p);
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect(p.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(rdma_disconnect(p.far), 0);
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect_none(p.near_channel);
	cm_expect_none(p.far_channel);
	cm_pair_free(&p);
}

static void await_end(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	do
		REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	while (attr.qp_state != IBV_QPS_ERR);
}

static const char *reason_of(struct ibv_qp *qp)
{
	uint32_t code = 0;

	REQUIRE(weftdv_qp_reason_code(qp, &code) == 0);
	return weftdv_reason_name(code);
}

/* WEFT_LOG=error has no line for it: that the connection is over is all there is to tell. */
TEST(test_rdma_disconnect_is_no_failure_of_the_other_end)
{
	struct cm_pair p;

	cm_pair_make(&p);
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	await_end(p.far->qp);
	EXPECT_STR(reason_of(p.far->qp), "peer_gone");
	EXPECT_STR(reason_of(p.near->qp), "flushed");
	cm_expect(p.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_pair_free(&p);
}

TEST(test_rdma_destroy_id_is_no_failure_of_the_other_end)
{
	struct ibv_qp *qp;
	struct cm_pair p;

	cm_pair_make(&p);
	qp = p.near->qp;
	EXPECT_EQ(rdma_destroy_id(p.near), 0); /* its queue pair stays */
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	await_end(p.far->qp);
	EXPECT_STR(reason_of(p.far->qp), "peer_gone");
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	rdma_destroy_ep(p.far);
	EXPECT_EQ(rdma_destroy_id(p.listener), 0);
	rdma_destroy_event_channel(p.near_channel);
	rdma_destroy_event_channel(p.far_channel);
}

TEST(test_rdma_destroy_qp_tells_both_ends_once)
{
	struct cm_pair p;

	cm_pair_make(&p);
	rdma_destroy_qp(p.near);
	EXPECT(!p.near->qp);
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(p.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect_none(p.near_channel);
	cm_pair_free(&p);
}

/* The other library's call destroys it as well; the id knows nothing of it then. */
TEST(test_ibv_destroy_qp_tells_both_ends_once)
{
	struct cm_pair p;

	cm_pair_make(&p);
	EXPECT_EQ(ibv_destroy_qp(p.near->qp), 0);
	p.near->qp = NULL;
	cm_expect(p.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect_none(p.near_channel);
	cm_pair_free(&p);
}

TEST(test_ibv_destroy_qp_while_it_connects)
{
	struct cm_pair p;
	struct rdma_cm_event *event = cm_request(&p, NULL);

	EXPECT_EQ(ibv_destroy_qp(p.near->qp), 0);
	p.near->qp = NULL;
	cm_expect(p.near_channel, RDMA_CM_EVENT_CONNECT_ERROR);
	EXPECT_EQ(rdma_disconnect(p.near), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_destroy_id(event->id), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect_none(p.near_channel);
	cm_pair_free(&p);
}

/* As rping does: the queue pair goes by one library and the id by the other, in either order. */
TEST(test_rdma_destroy_id_needs_no_queue_pair_and_a_queue_pair_no_id)
{
	struct ibv_qp_init_attr init;
	struct cm_pair p, others;
	struct ibv_qp_attr now;
	struct ibv_qp *left;

	cm_pair_make(&p);
	EXPECT_EQ(ibv_destroy_qp(p.near->qp), 0);
	EXPECT_EQ(rdma_destroy_id(p.near), 0);
	p.near = NULL;
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_pair_free(&p);

	cm_pair_make(&p);
	left = p.far->qp;
	EXPECT_EQ(rdma_destroy_id(p.far), 0);
	p.far = NULL;
	/* Where the old queue pair tells of its end, others tell of theirs now. */
	cm_pair_make(&others);
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect(p.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	do {
		EXPECT_EQ(ibv_query_qp(left, &now, IBV_QP_STATE, &init), 0);
	} while (now.qp_state != IBV_QPS_ERR); /* or the test takes too long */
	EXPECT_EQ(ibv_destroy_qp(left), 0);
	cm_expect_none(others.near_channel);
	cm_expect_none(others.far_channel);
	cm_pair_free(&others);
	cm_pair_free(&p);
}

TEST(test_rdma_connect_that_was_refused_may_be_tried_again)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel), *id = cm_dialler(channel, listener);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct rdma_cm_event *event;

	EXPECT_EQ(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE), 0);
	EXPECT_EQ(rdma_connect(id, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	attr.qp_state = IBV_QPS_RESET;
	EXPECT_EQ(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE), 0);
	EXPECT_EQ(rdma_connect(id, NULL), 0);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(rdma_destroy_id(event->id), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* Else a second conversation would begin, and the first outlive the id. */
TEST(test_rdma_resolve_route_while_it_connects_is_refused)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel);
	struct rdma_cm_id *id = cm_dialler(channel, listener);
	struct rdma_cm_event *event;

	EXPECT_EQ(rdma_connect(id, NULL), 0);
	errno = 0;
	EXPECT(rdma_resolve_route(id, 100) == -1 && errno == EINVAL);
	EXPECT(rdma_connect(id, NULL) == -1 && errno == EINVAL);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(rdma_destroy_id(event->id), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect(channel, RDMA_CM_EVENT_REJECTED);
	EXPECT(rdma_resolve_route(id, 100) == -1 && errno == EINVAL);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_connect_comes_from_the_address_that_was_bound)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel), *id;
	struct sockaddr_in from = cm_loopback(0);
	struct sockaddr_in to = cm_loopback(ntohs(rdma_get_src_port(listener)));
	struct rdma_cm_event *event;

	if (!cm_is_roce()) /* of which no other is a GID */
		from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	EXPECT_EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(rdma_resolve_route(id, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	cm_create_qp(id);
	EXPECT(rdma_get_src_port(id) != 0);
	EXPECT_EQ(rdma_connect(id, NULL), 0);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(rdma_get_dst_port(event->id), rdma_get_src_port(id));
	EXPECT_EQ(event->id->route.addr.dst_sin.sin_addr.s_addr, from.sin_addr.s_addr);
	EXPECT_EQ(rdma_destroy_id(event->id), 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* This program once more, as another process: dials, and stays until it is killed. */
static const char child_variable[] = "CM_TEST_DIAL";

__attribute__((constructor)) static void child(void)
{
	const char *port = getenv(child_variable);
	struct rdma_event_channel *channel;
	struct rdma_cm_id seen = { 0 };

	if (!port)
		return;
	channel = cm_channel();
	seen.route.addr.src_sin = cm_loopback((uint16_t)atoi(port));
	if (rdma_connect(cm_dialler(channel, &seen), NULL) == 0 && cm_event(channel))
		for (;;)
			pause();
	_exit(1);
}

static pid_t child_start(struct rdma_cm_id *listener)
{
	char port[8];
	pid_t pid;

	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	REQUIRE(setenv(child_variable, port, 1) == 0);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "child", NULL);
		_exit(1);
	}
	REQUIRE(unsetenv(child_variable) == 0);
	return pid;
}

/* A process that is killed says nothing: its host does. */
TEST(test_rdma_cm_tells_of_a_peer_that_was_killed)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener, *id;
	pid_t pid;
	int status;

	listener = cm_listener(channel);
	pid = child_start(listener);
	id = cm_accept(channel);
	cm_expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(kill(pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	cm_expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect_none(channel);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* On RoCE another process may get the answer and reject it; or the dead peer times out. */
static void expect_lost(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = cm_event(channel);

	REQUIRE(event);
	EXPECT(event->event == RDMA_CM_EVENT_CONNECT_ERROR ||
	       (cm_is_roce() && event->event == RDMA_CM_EVENT_REJECTED));
	REQUIRE(rdma_ack_cm_event(event) == 0);
}

/* Before it is answered: the accepting process finds out, by the call or by an event. */
TEST(test_rdma_accept_of_a_peer_that_was_killed)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *event;
	pid_t pid;
	int status;

	listener = cm_listener(channel);
	pid = child_start(listener);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	EXPECT_EQ(kill(pid, SIGKILL), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	cm_create_qp(id);
	if (rdma_accept(id, NULL) == 0)
		expect_lost(channel);
	else
		EXPECT_EQ(errno, ECONNRESET);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_expect_none(channel);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}
