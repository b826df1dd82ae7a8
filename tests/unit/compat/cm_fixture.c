/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/compat/cm_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "test.h"

enum { PATIENCE_MS = 60000, RESOLVE_MS = 1000 };

struct sockaddr_in cm_loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

bool cm_is_roce(void)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in at = cm_loopback(0);
	struct rdma_cm_id *id;
	bool is_roce;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_bind_addr(id, (struct sockaddr *)&at) == 0);
	REQUIRE(rdma_listen(id, 1) == 0);
	is_roce = id->verbs->device->transport_type == IBV_TRANSPORT_IB;
	REQUIRE(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(channel);
	return is_roce;
}

struct rdma_event_channel *cm_channel(void)
{
	struct rdma_event_channel *c = rdma_create_event_channel();

	REQUIRE(c);
	REQUIRE(fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK) == 0);
	return c;
}

struct rdma_cm_event *cm_event(struct rdma_event_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	do {
		if (rdma_get_cm_event(channel, &event) == 0)
			return event;
	} while (errno == EAGAIN && poll(&p, 1, PATIENCE_MS) > 0);
	return NULL;
}

void cm_expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = cm_event(channel);

	REQUIRE(event);
	EXPECT_STR(rdma_event_str(event->event), rdma_event_str(type));
	REQUIRE(rdma_ack_cm_event(event) == 0);
}

void cm_expect_none(struct rdma_event_channel *channel)
{
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	EXPECT_EQ(poll(&p, 1, 0), 0);
	EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
	EXPECT_EQ(errno, EAGAIN);
}

struct rdma_cm_id *cm_listener(struct rdma_event_channel *channel)
{
	struct sockaddr_in at = cm_loopback(0);
	struct rdma_cm_id *id;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_bind_addr(id, (struct sockaddr *)&at) == 0);
	REQUIRE(rdma_listen(id, 8) == 0);
	return id;
}

void cm_create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	REQUIRE(rdma_create_qp(id, NULL, &attr) == 0);
}

struct rdma_cm_id *cm_resolved(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct sockaddr_in to = cm_loopback(ntohs(rdma_get_src_port(listener)));
	struct rdma_cm_id *id;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, RESOLVE_MS) == 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	REQUIRE(rdma_resolve_route(id, RESOLVE_MS) == 0);
	cm_expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

struct rdma_cm_id *cm_dialler(struct rdma_event_channel *channel, struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = cm_resolved(channel, listener);

	cm_create_qp(id);
	return id;
}

void cm_establish(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };

	for (int i = 0; i < 3; i++) {
		struct ibv_qp_attr attr = { .qp_state = states[i] };
		int mask;

		REQUIRE(rdma_init_qp_attr(id, &attr, &mask) == 0);
		REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
	}
	REQUIRE(rdma_establish(id) == 0);
}

struct rdma_cm_id *cm_accept(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = cm_event(channel);
	struct rdma_cm_id *id;

	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	cm_create_qp(id);
	REQUIRE(rdma_accept(id, NULL) == 0);
	REQUIRE(rdma_ack_cm_event(event) == 0);
	return id;
}

/* Up to the point where the near one may ask. */
static void pair_begin(struct cm_pair *pair)
{
	pair->near_channel = cm_channel();
	pair->far_channel = cm_channel();
	pair->listener = cm_listener(pair->far_channel);
	pair->near = cm_dialler(pair->near_channel, pair->listener);
	pair->far = NULL;
}

struct rdma_cm_event *cm_request(struct cm_pair *pair, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;

	pair_begin(pair);
	REQUIRE(rdma_connect(pair->near, param) == 0);
	event = cm_event(pair->far_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	return event;
}

void cm_pair_make(struct cm_pair *pair)
{
	pair_begin(pair);
	REQUIRE(rdma_connect(pair->near, NULL) == 0);
	pair->far = cm_accept(pair->far_channel);
	cm_expect(pair->near_channel, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(pair->far_channel, RDMA_CM_EVENT_ESTABLISHED);
}

static void end(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	REQUIRE(rdma_destroy_id(id) == 0);
}

void cm_pair_free(struct cm_pair *pair)
{
	end(pair->near);
	end(pair->far);
	end(pair->listener);
	rdma_destroy_event_channel(pair->near_channel);
	rdma_destroy_event_channel(pair->far_channel);
}
