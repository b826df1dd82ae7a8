/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses, options, and calls at the wrong time: what is refused, and with which errno. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "descriptors.h"
#include "test.h"
#include "unit/compat/cm_fixture.h"

static struct rdma_cm_id *fresh(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	return id;
}

static int bind_v6(struct rdma_cm_id *id, struct in6_addr address, in_port_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6,
				  .sin6_addr = address,
				  .sin6_port = port };

	return rdma_bind_addr(id, (struct sockaddr *)(void *)&a);
}

/* The ports of RoCE alone are no sockets' that could refuse an address before it is listened at. */
static int bind_and_listen(struct rdma_cm_id *id, struct sockaddr_in *at)
{
	int r = rdma_bind_addr(id, (struct sockaddr *)(void *)at);

	return r == 0 ? rdma_listen(id, 1) : r;
}

/* iWARP is connected: where there is nothing else, datagrams have no device. */
TEST(test_rdma_bind_addr_of_datagrams_wants_a_roce_device)
{
	static const enum rdma_port_space spaces[] = { RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB };
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in at = cm_loopback(0);
	bool is_roce = cm_is_roce();
	struct rdma_cm_id *id;

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		REQUIRE(rdma_create_id(channel, &id, NULL, spaces[i]) == 0);
		EXPECT_EQ(id->qp_type, spaces[i] == RDMA_PS_IB ? IBV_QPT_RC : IBV_QPT_UD);
		EXPECT_EQ(rdma_bind_addr(id, (struct sockaddr *)&at), is_roce ? 0 : -1);
		if (!is_roce)
			EXPECT_EQ(errno, ENODEV);
		EXPECT_EQ(rdma_destroy_id(id), 0);
		/* At all addresses there are is none either. */
		REQUIRE(rdma_create_id(channel, &id, NULL, spaces[i]) == 0);
		EXPECT_EQ(rdma_listen(id, 1), is_roce ? 0 : -1);
		if (!is_roce)
			EXPECT_EQ(errno, ENODEV);
		EXPECT_EQ(rdma_destroy_id(id), 0);
	}
	EXPECT_EQ(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)1), -1);
	EXPECT_EQ(errno, EINVAL);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_bind_addr_finds_a_port_and_the_device)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in at = cm_loopback(0), nowhere = { .sin_family = AF_INET };
	struct rdma_cm_id *id = fresh(channel), *other = fresh(channel);

	EXPECT_EQ(rdma_get_src_port(id), 0);
	EXPECT_EQ(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	EXPECT(rdma_get_src_port(id) != 0);
	at.sin_port = rdma_get_src_port(id);
	EXPECT_EQ(rdma_bind_addr(id, (struct sockaddr *)&at), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	id = fresh(channel);
	EXPECT_EQ(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	EXPECT(id->verbs && id->pd);
	EXPECT_EQ(id->port_num, 1);
	nowhere.sin_addr.s_addr = htonl(0xc6336401); /* 198.51.100.1 is for documents */
	EXPECT_EQ(rdma_bind_addr(other, (struct sockaddr *)&nowhere), -1);
	EXPECT_EQ(errno, EADDRNOTAVAIL);
	nowhere.sin_addr.s_addr = htonl(INADDR_ANY);
	EXPECT_EQ(rdma_bind_addr(other, (struct sockaddr *)&nowhere), 0); /* it was not spoilt */
	EXPECT(!other->verbs);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(other), 0);
	rdma_destroy_event_channel(channel);
}

/*
 * libfabric binds to localhost to see whether that leads to a device, and leaves all others out if
 * it does; on adapters it never does.
 */
TEST(test_rdma_bind_addr_to_loopback_without_a_port_decides_on_no_device)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in at = cm_loopback(0), to = cm_loopback(7);
	struct rdma_cm_id *id = fresh(channel), *active = fresh(channel);

	EXPECT_EQ(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	EXPECT(!id->verbs);
	EXPECT(rdma_get_src_port(id) != 0);
	EXPECT_EQ(rdma_listen(id, 1), 0);
	EXPECT(id->verbs && id->pd);
	EXPECT_EQ(rdma_bind_addr(active, (struct sockaddr *)&at), 0);
	EXPECT_EQ(rdma_resolve_addr(active, NULL, (struct sockaddr *)&to, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT(active->verbs == id->verbs);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(active), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_listen_at_a_port_that_is_taken)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *first = cm_listener(channel), *second = fresh(channel);
	struct sockaddr_in at = cm_loopback(ntohs(rdma_get_src_port(first)));

	EXPECT_EQ(bind_and_listen(second, &at), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(rdma_listen(first, 1), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_destroy_id(second), 0);
	EXPECT_EQ(rdma_destroy_id(first), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_listen_unbound_gets_a_port)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel);

	EXPECT_EQ(rdma_listen(id, 1), 0);
	EXPECT(rdma_get_src_port(id) != 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* Without RDMA_OPTION_ID_AFONLY every address of IPv6 takes IPv4 as well. */
TEST(test_rdma_set_option_afonly_decides_about_the_other_family)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *both = fresh(channel), *only = fresh(channel), *v4 = fresh(channel);
	struct sockaddr_in at = { .sin_family = AF_INET };
	int on = 1;

	EXPECT_EQ(bind_v6(both, in6addr_any, 0), 0);
	EXPECT_EQ(rdma_listen(both, 1), 0);
	at.sin_port = rdma_get_src_port(both);
	EXPECT_EQ(bind_and_listen(v4, &at), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(rdma_destroy_id(v4), 0);
	v4 = fresh(channel);
	EXPECT_EQ(rdma_set_option(only, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)), 0);
	EXPECT_EQ(bind_v6(only, in6addr_any, 0), 0);
	EXPECT_EQ(rdma_listen(only, 1), 0);
	at.sin_port = rdma_get_src_port(only);
	EXPECT_EQ(bind_and_listen(v4, &at), 0);
	EXPECT_EQ(rdma_set_option(only, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)),
		  -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_destroy_id(both), 0);
	EXPECT_EQ(rdma_destroy_id(only), 0);
	EXPECT_EQ(rdma_destroy_id(v4), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_set_option_checks_names_and_lengths)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel);
	uint8_t byte = 1;
	int word = 1;

	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), 0);
	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), 0);
	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, 4), 0);
	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &word, 4), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &word, 4), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_ID, 99, &word, 4), -1);
	EXPECT_EQ(errno, ENOSYS);
	EXPECT_EQ(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &word, 4), -1);
	EXPECT_EQ(errno, ENOSYS);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_resolve_addr_binds_to_the_device_on_the_way)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in to = cm_loopback(7), from = cm_loopback(0);
	struct sockaddr_in6 other = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct rdma_cm_id *id = fresh(channel);

	EXPECT_EQ(rdma_resolve_route(id, 100), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_resolve_addr(id, (struct sockaddr *)(void *)&other, (struct sockaddr *)&to,
				    100),
		  -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT(id->verbs && id->pd);
	EXPECT_EQ(id->route.addr.src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	EXPECT_EQ(rdma_get_dst_port(id), htons(7));
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_connect(id, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_resolve_addr_to_any_address_means_this_host)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7) };
	struct rdma_cm_id *id = fresh(channel);

	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(id->route.addr.dst_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	EXPECT_EQ(rdma_get_dst_port(id), htons(7));
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* What cannot be reached is told as an event, and the id may try another way. */
TEST(test_rdma_resolve_addr_tells_what_cannot_be_reached)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7) };
	struct sockaddr_in home = cm_loopback(7);
	struct rdma_cm_id *id = fresh(channel);
	struct rdma_cm_event *event;

	to.sin_addr.s_addr = htonl(INADDR_BROADCAST); /* neither TCP nor UDP reaches a host there */
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), 0);
	event = cm_event(channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_ADDR_ERROR);
	EXPECT(event->status < 0);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT(!id->verbs);
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&home, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_resolve_addr_tells_it_once_until_it_is_read)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct rdma_cm_id *id = fresh(channel);

	to.sin_addr.s_addr = htonl(INADDR_BROADCAST);
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), 0);
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_ERROR);
	cm_expect_none(channel);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_bind_addr_without_devices)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in at = cm_loopback(0);
	struct rdma_cm_id *id = fresh(channel), *any = fresh(channel);
	const char *before = getenv("WEFT_DEVICES");

	REQUIRE(!before || (before = strdup(before)));
	REQUIRE(setenv("WEFT_DEVICES", "none", 1) == 0);
	EXPECT_EQ(rdma_bind_addr(id, (struct sockaddr *)&at), -1);
	EXPECT_EQ(errno, ENODEV);
	EXPECT_EQ(rdma_listen(any, 1), -1);
	EXPECT_EQ(errno, ENODEV);
	REQUIRE((before ? setenv("WEFT_DEVICES", before, 1) : unsetenv("WEFT_DEVICES")) == 0);
	free((void *)(uintptr_t)before);
	EXPECT_EQ(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	EXPECT_EQ(rdma_listen(any, 1), 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(any), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_calls_at_the_wrong_time_are_refused)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel), *other;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	EXPECT_EQ(rdma_accept(id, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_reject(id, NULL, 0), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_disconnect(id), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_establish(id), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_notify(id, IBV_EVENT_COMM_EST), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_get_request(id, &other), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_create_qp(id, NULL, &attr), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(rdma_init_qp_attr(id, &qp_attr, &mask), -1);
	EXPECT_EQ(errno, EINVAL);
	rdma_destroy_qp(id); /* there is none, and that is all */
	rdma_destroy_srq(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_notify_of_a_connection_that_is_there)
{
	struct cm_pair p;

	cm_pair_make(&p);
	EXPECT_EQ(rdma_notify(p.far, IBV_EVENT_COMM_EST), -1);
	EXPECT_EQ(errno, EISCONN);
	EXPECT_EQ(rdma_establish(p.near), -1); /* it has a queue pair of its own */
	EXPECT_EQ(errno, EINVAL);
	cm_pair_free(&p);
}

TEST(test_rdma_create_qp_makes_what_is_missing)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel), *id = cm_dialler(channel, listener);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr init;

	EXPECT(id->send_cq && id->send_cq->channel == id->send_cq_channel);
	EXPECT(id->recv_cq && id->recv_cq->cq_context == id);
	EXPECT(id->qp->pd == id->pd);
	EXPECT_EQ(ibv_query_qp(id->qp, &now, IBV_QP_STATE, &init), 0);
	EXPECT_EQ(now.qp_state, IBV_QPS_INIT);
	EXPECT_EQ(rdma_create_qp(id, NULL, &attr), -1); /* one is all an id has */
	EXPECT_EQ(errno, EINVAL);
	rdma_destroy_qp(id);
	EXPECT(!id->qp && !id->send_cq && !id->recv_cq_channel);
	EXPECT_EQ(rdma_create_srq(id, NULL, &srq), 0);
	cm_create_qp(id);
	EXPECT(id->srq && id->qp->srq == id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	EXPECT(!id->srq);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* A program may try again with less: by then the queues of the first time are gone. */
TEST(test_rdma_create_qp_ex_that_was_refused_changes_no_attributes)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel), *id = cm_dialler(channel, listener);
	struct ibv_qp_init_attr_ex attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_inline_data = UINT32_MAX },
		.qp_type = IBV_QPT_RC,
	};

	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_create_qp_ex(id, &attr), -1);
	EXPECT_EQ(errno, EINVAL);
	EXPECT(!attr.send_cq && !attr.recv_cq && !id->send_cq && !id->recv_cq);
	attr.cap.max_inline_data = 0;
	EXPECT_EQ(rdma_create_qp_ex(id, &attr), 0);
	EXPECT(attr.send_cq == id->send_cq && id->qp);
	rdma_destroy_qp(id);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

/* A queue that is made for receives takes all that the shared one holds. */
TEST(test_rdma_create_qp_has_room_for_what_a_shared_receive_queue_holds)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel), *id = cm_dialler(channel, listener);
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 1 }, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 64, .max_sge = 1 } };

	rdma_destroy_qp(id);
	REQUIRE(rdma_create_srq(id, NULL, &srq) == 0);
	REQUIRE(rdma_create_qp(id, NULL, &attr) == 0);
	EXPECT(id->recv_cq && id->recv_cq->cqe >= 64);
	rdma_destroy_ep(id);
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_getaddrinfo_resolves_either_end)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE }, *res;
	struct sockaddr_in from = cm_loopback(0);

	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), 0);
	EXPECT(res->ai_src_addr && !res->ai_dst_addr && res->ai_dst_len == 0);
	EXPECT_EQ(((struct sockaddr_in *)(void *)res->ai_src_addr)->sin_port, htons(7471));
	EXPECT_EQ(res->ai_port_space, RDMA_PS_TCP);
	EXPECT_EQ(res->ai_qp_type, IBV_QPT_RC);
	EXPECT_EQ(res->ai_family, AF_INET);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_src_addr = (struct sockaddr *)&from,
					.ai_src_len = sizeof(from) };
	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), 0);
	EXPECT(res->ai_dst_addr && res->ai_dst_len == sizeof(from));
	EXPECT(res->ai_src_addr && res->ai_src_len == sizeof(from));
	rdma_freeaddrinfo(res);
	EXPECT_EQ(rdma_getaddrinfo(NULL, NULL, &hints, &res), 0);
	EXPECT(res->ai_src_addr && !res->ai_dst_addr);
	rdma_freeaddrinfo(res);
	EXPECT_EQ(rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
	EXPECT_EQ(errno, EINVAL);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST };
	EXPECT_EQ(rdma_getaddrinfo("a name", "7471", &hints, &res), EAI_NONAME);
	hints.ai_flags = 0x100;
	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), EAI_BADFLAGS);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_FAMILY, .ai_family = AF_UNIX };
	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &res), EAI_FAMILY);
}

TEST(test_rdma_get_devices_gives_the_contexts_that_ids_have)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_listener(channel);
	struct ibv_context **list;
	bool is_there = false;
	int count;

	list = rdma_get_devices(&count);
	REQUIRE(list && count > 0 && !list[count]);
	for (int i = 0; i < count; i++)
		is_there = is_there || list[i] == id->verbs;
	EXPECT(is_there);
	rdma_free_devices(list);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rsocket_and_multicast_refuse)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in group = { .sin_family = AF_INET }, at = cm_loopback(0);
	struct rdma_cm_id *id = fresh(channel);
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };

	EXPECT_EQ(rsocket(AF_INET, SOCK_STREAM, 0), -1);
	EXPECT_EQ(errno, ENOSYS);
	EXPECT_EQ((ssize_t)riowrite(0, &group, 1, 0, 0), -1);
	EXPECT_EQ(errno, ENOSYS);
	EXPECT_EQ(rpoll(&p, 1, 0), 0);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1);
	EXPECT_EQ(errno, EINVAL);
	REQUIRE(rdma_bind_addr(id, (struct sockaddr *)&at) == 0);
	EXPECT_EQ(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1);
	EXPECT_EQ(errno, EOPNOTSUPP); /* it is about connections */
	EXPECT_EQ(rdma_leave_multicast(id, (struct sockaddr *)&group), -1);
	EXPECT_EQ(errno, EADDRNOTAVAIL);
	EXPECT_STR(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	EXPECT_STR(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT");
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* ---- Without descriptors -------------------------------------------------------------------- */

static void expect_no_descriptor(int result)
{
	EXPECT_EQ(result, -1);
	EXPECT_EQ(errno, EMFILE);
}

TEST(test_calls_that_find_no_descriptor_say_so)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = fresh(channel), *bound = fresh(channel), *none;
	struct sockaddr_in at = cm_loopback(0);
	struct sockaddr *loopback = (struct sockaddr *)(void *)&at;
	struct rlimit limit;

	REQUIRE(rdma_bind_addr(bound, loopback) == 0);
	limit = descriptors_end();
	errno = 0;
	EXPECT(!rdma_create_event_channel());
	EXPECT_EQ(errno, EMFILE);
	expect_no_descriptor(rdma_create_id(NULL, &none, NULL, RDMA_PS_TCP));
	expect_no_descriptor(rdma_bind_addr(id, loopback));
	expect_no_descriptor(rdma_listen(id, 1));
	expect_no_descriptor(rdma_listen(bound, 1));
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	EXPECT_EQ(rdma_listen(bound, 1), 0);
	EXPECT_EQ(rdma_listen(id, 1), 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	EXPECT_EQ(rdma_destroy_id(bound), 0);
	rdma_destroy_event_channel(channel);
}
