/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids and queue pairs that go in another order than they should, or while calls are on them. */
#include <errno.h>
#include <pthread.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"
#include "unit/compat/restless.h"

struct own {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* A queue pair that librdmacm does not know. */
static void own_make(struct own *o, struct ibv_context *context)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	o->pd = ibv_alloc_pd(context);
	o->cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	REQUIRE(o->pd && o->cq);
	attr.send_cq = attr.recv_cq = o->cq;
	o->qp = ibv_create_qp(o->pd, &attr);
	REQUIRE(o->qp);
}

static void own_free(struct own *o)
{
	EXPECT_EQ(ibv_destroy_cq(o->cq), 0);
	EXPECT_EQ(ibv_dealloc_pd(o->pd), 0);
}

/* The kernel's connection manager ends what a destroyed id had connected. */
TEST(test_rdma_destroy_id_before_its_queue_pair_tells_the_peer)
{
	struct cm_pair p;
	struct ibv_qp *qp;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_comp_channel *send_channel, *recv_channel;

	cm_pair_make(&p);
	qp = p.near->qp;
	send_cq = qp->send_cq;
	recv_cq = qp->recv_cq;
	send_channel = p.near->send_cq_channel;
	recv_channel = p.near->recv_cq_channel;
	EXPECT_EQ(rdma_destroy_id(p.near), 0);
	cm_expect(p.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	EXPECT_EQ(ibv_destroy_cq(send_cq), 0);
	if (recv_cq != send_cq)
		EXPECT_EQ(ibv_destroy_cq(recv_cq), 0);
	EXPECT_EQ(ibv_destroy_comp_channel(send_channel), 0);
	if (recv_channel != send_channel)
		EXPECT_EQ(ibv_destroy_comp_channel(recv_channel), 0);
	rdma_destroy_qp(p.far);
	EXPECT_EQ(rdma_destroy_id(p.far), 0);
	EXPECT_EQ(rdma_destroy_id(p.listener), 0);
	rdma_destroy_event_channel(p.near_channel);
	rdma_destroy_event_channel(p.far_channel);
}

TEST(test_rdma_disconnect_after_the_program_destroyed_its_queue_pair)
{
	struct rdma_event_channel *near = cm_channel(), *far = cm_channel();
	struct rdma_cm_id *listener = cm_listener(far), *id = cm_resolved(near, listener);
	struct rdma_conn_param param = { 0 };
	struct rdma_cm_id *accepted;
	struct own o;

	own_make(&o, id->verbs);
	param.qp_num = o.qp->qp_num;
	REQUIRE(rdma_connect(id, &param) == 0);
	accepted = cm_accept(far);
	cm_expect(near, RDMA_CM_EVENT_CONNECT_RESPONSE);
	cm_establish(id, o.qp);
	cm_expect(far, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(ibv_destroy_qp(o.qp), 0);
	EXPECT_EQ(rdma_disconnect(id), 0);
	cm_expect(near, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(far, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_qp(accepted);
	EXPECT_EQ(rdma_destroy_id(accepted), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	own_free(&o);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

/* The one that was refused tells of itself when the id is gone. */
TEST(test_rdma_create_qp_after_a_queue_pair_that_could_not_connect)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct rdma_event_channel *near = cm_channel(), *far = cm_channel();
	struct rdma_cm_id *listener = cm_listener(far), *id = cm_resolved(near, listener);
	struct rdma_conn_param param = { 0 };
	struct own o;

	own_make(&o, id->verbs);
	param.qp_num = o.qp->qp_num;
	EXPECT_EQ(ibv_modify_qp(o.qp, &error, IBV_QP_STATE), 0);
	EXPECT_EQ(rdma_connect(id, &param), -1);
	EXPECT_EQ(errno, EINVAL);
	cm_create_qp(id);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(ibv_modify_qp(o.qp, &reset, IBV_QP_STATE), 0);
	EXPECT_EQ(ibv_modify_qp(o.qp, &error, IBV_QP_STATE), 0);
	EXPECT_EQ(ibv_destroy_qp(o.qp), 0);
	own_free(&o);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

static void *destroy_when_cancelled(void *arg)
{
	struct rdma_cm_id **id = arg;

	pthread_cancel(pthread_self()); /* at the next point that there is */
	if (rdma_destroy_id(*id) == 0)
		*id = NULL;
	/* The address sanitizer takes cancelled threads for faulty ones: it is not, after all. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return arg;
}

/* One that listens, without a channel or with the program's. */
static void cancelled_destroys(struct rdma_event_channel *channel)
{
	struct sockaddr_in at = cm_loopback(0);
	struct rdma_cm_id *id;
	pthread_t thread;
	void *result;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_bind_addr(id, (struct sockaddr *)(void *)&at) == 0);
	REQUIRE(rdma_listen(id, 1) == 0);
	REQUIRE(pthread_create(&thread, NULL, destroy_when_cancelled, &id) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	EXPECT(result == &id);
	EXPECT(!id);
}

TEST(test_a_thread_that_is_cancelled_destroys_its_id_first)
{
	struct rdma_event_channel *channel = cm_channel();

	cancelled_destroys(channel);
	cancelled_destroys(NULL);
	rdma_destroy_event_channel(channel);
}

/* ---- While a call of another thread ends --------------------------------------------------- */

struct call {
	int (*make)(struct rdma_cm_id *id);
	struct rdma_cm_id *id;
	int result;
};

static int resolve_address(struct rdma_cm_id *id)
{
	struct sockaddr_in to = cm_loopback(7);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)(void *)&to, 100);
}

static int resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 100);
}

static int connect_id(struct rdma_cm_id *id)
{
	return rdma_connect(id, NULL);
}

static int accept_id(struct rdma_cm_id *id)
{
	return rdma_accept(id, NULL);
}

static void *call_run(void *context)
{
	struct call *call = context;

	call->result = call->make(call->id);
	return NULL;
}

/*
 * Destroys the id as soon as the event of the call is there, whether the call has returned or
 * not.
 */
static void destroy_at_event(struct call call, enum rdma_cm_event_type type)
{
	struct rdma_event_channel *channel = call.id->channel;
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, call_run, &call) == 0);
	cm_expect(channel, type);
	if (call.id->qp)
		rdma_destroy_qp(call.id);
	EXPECT_EQ(rdma_destroy_id(call.id), 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	EXPECT_EQ(call.result, 0);
}

/* cmtime accepts in one thread and takes events in another. Under the thread sanitizer. */
TEST(test_rdma_destroy_id_at_the_event_of_a_resolve_that_has_not_returned)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in to = cm_loopback(7);
	struct rdma_cm_id *id;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	destroy_at_event((struct call){ resolve_address, id, -1 }, RDMA_CM_EVENT_ADDR_RESOLVED);
	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_resolve_addr(id, NULL, (struct sockaddr *)(void *)&to, 100) == 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	destroy_at_event((struct call){ resolve_route, id, -1 }, RDMA_CM_EVENT_ROUTE_RESOLVED);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_destroy_id_at_the_event_of_an_accept_that_has_not_returned)
{
	struct rdma_event_channel *near = cm_channel(), *far = cm_channel();
	struct rdma_cm_id *listener, *id, *accepted;
	struct rdma_cm_event *event;

	if (cm_is_roce())
		SKIP("the other end must take its own event first");
	listener = cm_listener(far);
	id = cm_dialler(near, listener);
	REQUIRE(rdma_connect(id, NULL) == 0);
	event = cm_event(far);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	accepted = event->id;
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	cm_create_qp(accepted);
	destroy_at_event((struct call){ accept_id, accepted, -1 }, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

TEST(test_rdma_destroy_id_at_the_event_of_a_connect_that_has_not_returned)
{
	struct rdma_event_channel *near = cm_channel(), *far = cm_channel();
	struct rdma_cm_id *listener = cm_listener(far), *id = cm_dialler(near, listener);

	/* The end of the listener rejects it, as soon as it comes. */
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	destroy_at_event((struct call){ connect_id, id, -1 }, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

TEST(test_rdma_destroy_id_at_the_event_of_a_disconnect_that_has_not_returned)
{
	struct cm_pair p;

	cm_pair_make(&p);
	destroy_at_event((struct call){ rdma_disconnect, p.near, -1 }, RDMA_CM_EVENT_DISCONNECTED);
	p.near = NULL;
	cm_pair_free(&p);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* On-demand memory that goes while it is sent from or placed in ends the connection, at most. */
TEST(test_rdma_on_demand_memory_goes_while_it_is_used)
{
	for (int way = 0; way < RESTLESS_WAYS; way++) {
		struct restless restless;

		restless_begin(&restless);
		while (!restless_is_enough(&restless)) {
			struct cm_pair p;

			cm_pair_make(&p);
			restless_meet(&restless, p.near->qp, way);
			cm_pair_free(&p);
		}
		restless_end(&restless);
	}
}
