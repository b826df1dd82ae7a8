/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids for datagrams: services that are asked for, and groups. RoCE's alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

enum { RESOLVE_MS = 1000, GRH_BYTES = 40, SIDR_REJECT = 2, SIDR_UNSUPPORTED = 1, BYTES = 64 };

#define NEEDS_ROCE()                                                                               \
	do {                                                                                       \
		if (!cm_is_roce())                                                                 \
			SKIP("the device is iWARP's");                                             \
	} while (0)

static struct rdma_cm_id *datagram_id(struct rdma_event_channel *channel)
{
	struct sockaddr_in at = cm_loopback(0);
	struct rdma_cm_id *id;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
	REQUIRE(rdma_bind_addr(id, (struct sockaddr *)&at) == 0);
	return id;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
	};

	REQUIRE(rdma_create_qp(id, NULL, &attr) == 0);
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *channel, in_port_t port)
{
	struct sockaddr_in to = cm_loopback(ntohs(port));
	struct rdma_cm_id *id = datagram_id(channel);

	REQUIRE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, RESOLVE_MS) == 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	REQUIRE(rdma_resolve_route(id, RESOLVE_MS) == 0);
	cm_expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static uint8_t in[GRH_BYTES + BYTES], out[BYTES];

/* One datagram, from one id's queue pair to where an event said. */
static void send_one(struct rdma_cm_id *from, struct rdma_cm_id *to, struct rdma_ud_param *where)
{
	struct ibv_mr *in_mr = rdma_reg_msgs(to, in, sizeof(in));
	struct ibv_mr *out_mr = rdma_reg_msgs(from, out, sizeof(out));
	struct ibv_ah *ah = ibv_create_ah(from->pd, &where->ah_attr);
	struct ibv_wc wc;

	REQUIRE(in_mr && out_mr && ah);
	memset(in, 0, sizeof(in));
	memset(out, 0x5a, sizeof(out));
	REQUIRE(rdma_post_recv(to, NULL, in, sizeof(in), in_mr) == 0);
	REQUIRE(where->qkey == RDMA_UDP_QKEY);
	REQUIRE(rdma_post_ud_send(from, NULL, out, sizeof(out), out_mr, 0, ah, where->qp_num) == 0);
	REQUIRE(rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	REQUIRE(rdma_get_recv_comp(to, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, sizeof(in));
	EXPECT_MEM(in + GRH_BYTES, out, sizeof(out));
	REQUIRE(ibv_destroy_ah(ah) == 0);
	rdma_dereg_mr(in_mr);
	rdma_dereg_mr(out_mr);
}

/* One who listens for questions, and where both ends are told. */
static struct rdma_cm_id *serve(struct rdma_event_channel **near, struct rdma_event_channel **far)
{
	struct rdma_cm_id *listener;

	*near = cm_channel();
	*far = cm_channel();
	listener = datagram_id(*far);
	REQUIRE(rdma_listen(listener, 8) == 0);
	return listener;
}

/* ---- Services -------------------------------------------------------------------------------- */

TEST(test_rdma_connect_of_datagrams_finds_the_queue_pair_behind_a_service)
{
	static const char question[] = "which one?", answer[] = "this one";
	struct rdma_conn_param ask = { .private_data = question,
				       .private_data_len = sizeof(question) };
	struct rdma_conn_param say = { .private_data = answer, .private_data_len = sizeof(answer) };
	struct rdma_event_channel *near, *far;
	struct rdma_cm_id *listener, *id, *asked;
	struct rdma_cm_event *event;

	NEEDS_ROCE();
	listener = serve(&near, &far);
	id = resolved(near, rdma_get_src_port(listener));
	create_qp(id);
	REQUIRE(rdma_connect(id, &ask) == 0);
	event = cm_event(far);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	asked = event->id;
	EXPECT_EQ(asked->ps, RDMA_PS_UDP);
	EXPECT_EQ(asked->qp_type, IBV_QPT_UD);
	EXPECT(event->param.ud.private_data_len >= sizeof(question));
	EXPECT_MEM(event->param.ud.private_data, question, sizeof(question));
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	create_qp(asked);
	EXPECT_EQ(rdma_accept(asked, &say), 0);
	event = cm_event(near);
	REQUIRE(event && event->event == RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(event->param.ud.qp_num, asked->qp->qp_num);
	EXPECT_MEM(event->param.ud.private_data, answer, sizeof(answer));
	send_one(id, asked, &event->param.ud);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(rdma_disconnect(id), -1); /* nothing is connected */
	EXPECT_EQ(errno, EINVAL);
	cm_expect_none(far);
	rdma_destroy_ep(id);
	rdma_destroy_ep(asked);
	rdma_destroy_ep(listener);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

/* As Linux has it: the status is that of the answer. */
TEST(test_rdma_connect_of_datagrams_is_rejected)
{
	struct rdma_event_channel *near, *far;
	struct rdma_cm_id *listener, *id, *another;
	struct rdma_cm_event *event;

	NEEDS_ROCE();
	listener = serve(&near, &far);
	id = resolved(near, rdma_get_src_port(listener));
	another = resolved(near, rdma_get_src_port(listener));
	REQUIRE(rdma_connect(id, NULL) == 0);
	event = cm_event(far);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	EXPECT_EQ(rdma_reject(event->id, NULL, 0), 0);
	rdma_destroy_ep(event->id);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	event = cm_event(near);
	REQUIRE(event && event->event == RDMA_CM_EVENT_UNREACHABLE);
	EXPECT_EQ(event->status, SIDR_REJECT);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	rdma_destroy_ep(listener);
	REQUIRE(rdma_connect(another, NULL) == 0);
	event = cm_event(near);
	REQUIRE(event && event->event == RDMA_CM_EVENT_UNREACHABLE);
	EXPECT_EQ(event->status, SIDR_UNSUPPORTED);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(another);
	rdma_destroy_event_channel(near);
	rdma_destroy_event_channel(far);
}

TEST(test_rdma_create_qp_wants_the_type_of_the_port_space)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 1, .max_recv_wr = 1 },
					 .qp_type = IBV_QPT_RC };
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	NEEDS_ROCE();
	channel = cm_channel();
	id = datagram_id(channel);
	EXPECT_EQ(rdma_create_qp(id, NULL, &attr), -1);
	EXPECT_EQ(errno, EINVAL);
	create_qp(id);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_getaddrinfo_knows_datagrams)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP }, *res;

	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), 0);
	EXPECT_EQ(res->ai_qp_type, IBV_QPT_UD);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_qp_type = IBV_QPT_UD };
	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), 0);
	EXPECT_EQ(res->ai_port_space, RDMA_PS_UDP);
	rdma_freeaddrinfo(res);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static struct sockaddr_in group_address(uint32_t ip)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(ip) };
}

TEST(test_rdma_join_multicast_tells_where_to_send_and_takes_what_is_sent)
{
	static const uint8_t gid[16] = { [10] = 0xff, [11] = 0xff, 239, 1, 1, 7 };
	struct rdma_cm_join_mc_attr_ex sends = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
	};
	struct sockaddr_in group = group_address(0xef010107);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *from, *to;
	struct rdma_cm_event *event;
	int mark;

	NEEDS_ROCE();
	channel = cm_channel();
	from = datagram_id(channel);
	to = datagram_id(channel);
	create_qp(from);
	create_qp(to);
	REQUIRE(rdma_join_multicast(to, (struct sockaddr *)&group, &mark) == 0);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_MULTICAST_JOIN);
	EXPECT(event->id == to && event->param.ud.private_data == &mark);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	sends.addr = (struct sockaddr *)&group;
	REQUIRE(rdma_join_multicast_ex(from, &sends, NULL) == 0);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_MULTICAST_JOIN);
	EXPECT_EQ(event->param.ud.qp_num, 0xffffff);
	EXPECT_MEM(event->param.ud.ah_attr.grh.dgid.raw, gid, sizeof(gid));
	send_one(from, to, &event->param.ud);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(rdma_leave_multicast(to, (struct sockaddr *)&group), 0);
	EXPECT_EQ(rdma_leave_multicast(to, (struct sockaddr *)&group), -1);
	EXPECT_EQ(errno, EADDRNOTAVAIL);
	rdma_destroy_ep(from); /* with a group that it is still in */
	rdma_destroy_ep(to);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_join_multicast_refuses)
{
	struct sockaddr_in group = group_address(0xef010108), other = cm_loopback(0);
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS };
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	NEEDS_ROCE();
	channel = cm_channel();
	id = datagram_id(channel);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&other, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	attr.addr = (struct sockaddr *)&group;
	EXPECT_EQ(rdma_join_multicast_ex(id, &attr, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	rdma_destroy_ep(id); /* the event was not taken */
	cm_expect_none(channel);
	rdma_destroy_event_channel(channel);
}

/* The kernel lets a socket be in so many groups, and no more. */
TEST(test_rdma_join_multicast_that_failed_may_be_tried_again)
{
	enum { GROUPS_MAX = 4096 };
	struct sockaddr_in first = group_address(0xef010200), last = first;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	bool has_failed = false;

	NEEDS_ROCE();
	channel = cm_channel();
	id = datagram_id(channel);
	create_qp(id);
	for (uint32_t i = 0; i < GROUPS_MAX && !has_failed; i++) {
		struct rdma_cm_event *event;

		last = group_address(0xef010200 + i);
		REQUIRE(rdma_join_multicast(id, (struct sockaddr *)&last, NULL) == 0);
		event = cm_event(channel);
		REQUIRE(event);
		has_failed = event->event == RDMA_CM_EVENT_MULTICAST_ERROR;
		EXPECT(has_failed ? event->status != 0
				  : event->event == RDMA_CM_EVENT_MULTICAST_JOIN);
		EXPECT_EQ(rdma_ack_cm_event(event), 0);
	}
	REQUIRE(has_failed);
	EXPECT_EQ(rdma_leave_multicast(id, (struct sockaddr *)&last), -1);
	EXPECT_EQ(errno, EADDRNOTAVAIL);
	EXPECT_EQ(rdma_leave_multicast(id, (struct sockaddr *)&first), 0);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&last, NULL), 0);
	cm_expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

/* The group is the id's: a queue pair that goes takes no part in it any more, and that is all. */
TEST(test_rdma_destroy_qp_leaves_the_id_in_its_groups)
{
	struct sockaddr_in group = group_address(0xef010109);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	NEEDS_ROCE();
	channel = cm_channel();
	id = datagram_id(channel);
	create_qp(id);
	REQUIRE(rdma_join_multicast(id, (struct sockaddr *)&group, NULL) == 0);
	cm_expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	cm_expect(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}
