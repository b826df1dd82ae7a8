/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_get_cm_event(3), rdma_ack_cm_event(3), rdma_migrate_id(3), and ids that are synchronous. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/cm_fixture.h"

TEST(test_rdma_get_cm_event_counts_on_a_real_descriptor)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in to = cm_loopback(7);
	struct rdma_cm_id *ids[2];
	struct epoll_event e = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	cm_expect_none(channel);
	EXPECT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &e), 0);
	EXPECT_EQ(epoll_wait(epoll, &e, 1, 0), 0);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(rdma_create_id(channel, &ids[i], NULL, RDMA_PS_TCP), 0);
		EXPECT_EQ(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&to, 100), 0);
	}
	EXPECT_EQ(epoll_wait(epoll, &e, 1, 0), 1);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(epoll_wait(epoll, &e, 1, 0), 1);
	/* An event of an id that was destroyed is gone with it. */
	EXPECT_EQ(rdma_destroy_id(ids[1]), 0);
	EXPECT_EQ(epoll_wait(epoll, &e, 1, 0), 0);
	cm_expect_none(channel);
	EXPECT_EQ(rdma_destroy_id(ids[0]), 0);
	close(epoll);
	rdma_destroy_event_channel(channel);
}

struct destroyer {
	struct rdma_cm_id *id;
	atomic_int thread;
	atomic_bool is_done;
};

static void *destroy(void *context)
{
	struct destroyer *d = context;

	atomic_store(&d->thread, gettid());
	(void)rdma_destroy_id(d->id);
	atomic_store(&d->is_done, true);
	return NULL;
}

/* Whether a thread of this process sleeps, as the kernel sees it. */
static bool is_asleep(int thread)
{
	char path[64], line[256] = "";
	const char *name_end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	f = fopen(path, "r");
	if (!f)
		return false;
	(void)!fgets(line, sizeof(line), f);
	fclose(f);
	name_end = strrchr(line, ')');
	return name_end && strncmp(name_end, ") S", 3) == 0;
}

TEST(test_rdma_destroy_id_waits_until_events_are_acknowledged)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_in to = cm_loopback(7);
	struct destroyer d = { 0 };
	struct rdma_cm_event *event;
	pthread_t thread;

	EXPECT_EQ(rdma_create_id(channel, &d.id, NULL, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_resolve_addr(d.id, NULL, (struct sockaddr *)&to, 100), 0);
	event = cm_event(channel);
	REQUIRE(event);
	REQUIRE(pthread_create(&thread, NULL, destroy, &d) == 0);
	while (!atomic_load(&d.is_done) && !is_asleep(atomic_load(&d.thread)))
		sched_yield();
	EXPECT(!atomic_load(&d.is_done));
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT(atomic_load(&d.is_done));
	rdma_destroy_event_channel(channel);
}

static void *wait_for_event(void *channel)
{
	struct rdma_cm_event *event;

	return rdma_get_cm_event(channel, &event) == 0 ? event : NULL;
}

/* It calls what a cancelled thread leaves of its stack an overflow. */
#if defined(__SANITIZE_ADDRESS__)
enum { IS_CANCELLING_SEEN_AS_OVERFLOW = 1 };
#elif defined(__has_feature)
enum { IS_CANCELLING_SEEN_AS_OVERFLOW = __has_feature(address_sanitizer) };
#else
enum { IS_CANCELLING_SEEN_AS_OVERFLOW = 0 };
#endif

/* As rping ends its thread. */
TEST(test_rdma_get_cm_event_may_be_cancelled_while_it_waits)
{
	struct rdma_event_channel *channel;
	struct sockaddr_in to = cm_loopback(7);
	struct rdma_cm_id *id;
	pthread_t thread;
	void *result;

	if (IS_CANCELLING_SEEN_AS_OVERFLOW)
		SKIP("the address sanitizer takes cancelled threads for faulty ones");
	channel = rdma_create_event_channel();
	REQUIRE(channel && pthread_create(&thread, NULL, wait_for_event, channel) == 0);
	EXPECT_EQ(pthread_cancel(thread), 0);
	EXPECT_EQ(pthread_join(thread, &result), 0);
	EXPECT(result == PTHREAD_CANCELED);
	EXPECT_EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_get_cm_event_blocks_until_there_is_one)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in to = cm_loopback(7);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	pthread_t thread;
	void *result;

	REQUIRE(channel && pthread_create(&thread, NULL, wait_for_event, channel) == 0);
	EXPECT_EQ(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), 0);
	EXPECT_EQ(pthread_join(thread, &result), 0);
	event = result;
	REQUIRE(event && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(rdma_ack_cm_event(event), 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_migrate_id_takes_its_events_along)
{
	struct rdma_event_channel *a = cm_channel(), *b = cm_channel();
	struct sockaddr_in to = cm_loopback(7);
	struct rdma_cm_id *moved, *stays;

	EXPECT_EQ(rdma_create_id(a, &moved, NULL, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_create_id(a, &stays, NULL, RDMA_PS_TCP), 0);
	EXPECT_EQ(rdma_resolve_addr(moved, NULL, (struct sockaddr *)&to, 100), 0);
	EXPECT_EQ(rdma_resolve_route(moved, 100), 0);
	EXPECT_EQ(rdma_resolve_addr(stays, NULL, (struct sockaddr *)&to, 100), 0);
	EXPECT_EQ(rdma_migrate_id(moved, b), 0);
	EXPECT(moved->channel == b);
	cm_expect(b, RDMA_CM_EVENT_ADDR_RESOLVED);
	cm_expect(b, RDMA_CM_EVENT_ROUTE_RESOLVED);
	cm_expect_none(b);
	cm_expect(a, RDMA_CM_EVENT_ADDR_RESOLVED);
	cm_expect_none(a);
	EXPECT_EQ(rdma_destroy_id(moved), 0);
	EXPECT_EQ(rdma_destroy_id(stays), 0);
	rdma_destroy_event_channel(a);
	rdma_destroy_event_channel(b);
}

/* With an event that waits there: it stays, once. */
TEST(test_rdma_migrate_id_to_the_channel_where_it_is)
{
	struct sockaddr_in to = cm_loopback(1);
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100) == 0);
	EXPECT_EQ(rdma_migrate_id(id, channel), 0);
	EXPECT(id->channel == channel);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	cm_expect_none(channel);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	/* One that waits for itself has a channel, too. From now on it is the program's. */
	REQUIRE(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
	channel = id->channel;
	EXPECT_EQ(rdma_migrate_id(id, channel), 0);
	EXPECT(id->channel == channel);
	REQUIRE(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100) == 0);
	cm_expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

TEST(test_rdma_migrate_id_of_both_ends_of_a_connection)
{
	struct rdma_event_channel *other = cm_channel();
	struct cm_pair p;

	cm_pair_make(&p);
	EXPECT_EQ(rdma_migrate_id(p.near, other), 0);
	EXPECT_EQ(rdma_migrate_id(p.far, other), 0);
	EXPECT_EQ(rdma_disconnect(p.far), 0);
	cm_expect(other, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(other, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect_none(p.near_channel);
	cm_expect_none(p.far_channel);
	cm_pair_free(&p);
	rdma_destroy_event_channel(other);
}

TEST(test_rdma_destroy_event_channel_before_its_ids_silences_them)
{
	struct cm_pair p;

	cm_pair_make(&p);
	rdma_destroy_event_channel(p.far_channel);
	p.far_channel = NULL;
	EXPECT_EQ(rdma_disconnect(p.near), 0);
	cm_expect(p.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_pair_free(&p);
}

/* ---- Synchronous ---------------------------------------------------------------------------- */

struct far_end {
	struct rdma_cm_id *listener;
	const char *why; /* it failed, or NULL */
};

static void *serve(void *context)
{
	struct far_end *f = context;
	struct rdma_cm_id *id;
	char bytes[8] = "";
	struct ibv_mr *mr;
	struct ibv_wc wc;

	f->why = "rdma_get_request";
	if (rdma_get_request(f->listener, &id) != 0)
		return NULL;
	f->why = "no queue pair, or no event";
	if (!id->qp || !id->event || id->event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return NULL;
	f->why = "rdma_post_recv";
	mr = rdma_reg_msgs(id, bytes, sizeof(bytes));
	if (!mr || rdma_post_recv(id, NULL, bytes, sizeof(bytes), mr) != 0)
		return NULL;
	f->why = "rdma_accept";
	if (rdma_accept(id, NULL) != 0 || id->event->event != RDMA_CM_EVENT_ESTABLISHED)
		return NULL;
	f->why = "rdma_get_recv_comp";
	if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		return NULL;
	f->why = strcmp(bytes, "hello") == 0 ? NULL : "other bytes";
	(void)rdma_disconnect(id);
	(void)rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static struct ibv_qp_init_attr small_qp(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = 16 },
		.sq_sig_all = 1,
	};
}

TEST(test_rdma_create_ep_connects_and_carries_a_message)
{
	struct rdma_addrinfo passive = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo active = { .ai_port_space = RDMA_PS_TCP }, *at;
	struct ibv_qp_init_attr attr = small_qp();
	struct far_end far = { NULL, NULL };
	struct rdma_cm_id *id;
	char port[8], text[] = "hello";
	struct ibv_wc wc;
	pthread_t thread;

	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", "0", &passive, &at), 0);
	EXPECT_EQ(rdma_create_ep(&far.listener, at, NULL, &attr), 0);
	rdma_freeaddrinfo(at);
	EXPECT_EQ(rdma_listen(far.listener, 0), 0);
	REQUIRE(pthread_create(&thread, NULL, serve, &far) == 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(far.listener)));
	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", port, &active, &at), 0);
	attr = small_qp();
	EXPECT_EQ(rdma_create_ep(&id, at, NULL, &attr), 0);
	rdma_freeaddrinfo(at);
	EXPECT(id->qp && id->pd && id->send_cq && id->recv_cq_channel);
	EXPECT_EQ(rdma_connect(id, NULL), 0);
	EXPECT(id->event && id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(rdma_post_send(id, NULL, text, sizeof(text), NULL, IBV_SEND_INLINE), 0);
	EXPECT_EQ(rdma_get_send_comp(id, &wc), 1);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_STR(far.why ? far.why : "", "");
	EXPECT_EQ(rdma_disconnect(id), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(far.listener);
}

TEST(test_rdma_connect_synchronous_says_why_not)
{
	struct rdma_addrinfo active = { .ai_port_space = RDMA_PS_TCP }, *at;
	struct ibv_qp_init_attr attr = small_qp();
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *listener = cm_listener(channel), *id;
	char port[8];

	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	EXPECT_EQ(rdma_destroy_id(listener), 0);
	EXPECT_EQ(rdma_getaddrinfo("127.0.0.1", port, &active, &at), 0);
	EXPECT_EQ(rdma_create_ep(&id, at, NULL, &attr), 0);
	rdma_freeaddrinfo(at);
	EXPECT_EQ(rdma_connect(id, NULL), -1);
	EXPECT_EQ(errno, ECONNREFUSED);
	EXPECT(id->event && id->event->event == RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

/* A thread that comes late to a channel which another has destroyed, as rping's does. */
TEST(test_rdma_get_cm_event_of_a_channel_that_is_gone)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;

	REQUIRE(channel);
	rdma_destroy_event_channel(channel);
	errno = 0;
	EXPECT_EQ(rdma_get_cm_event(channel, &event), -1);
	EXPECT_EQ(errno, EBADF);
}

static void *disconnect(void *id)
{
	(void)rdma_disconnect(id);
	return NULL;
}

/* cmtime accepts in one thread and disconnects in another. Under the thread sanitizer. */
TEST(test_calls_on_one_id_in_two_threads_write_nothing_in_it_without_a_lock)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id;
	pthread_t other;

	REQUIRE(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(pthread_create(&other, NULL, disconnect, id) == 0);
	EXPECT_EQ(rdma_disconnect(id), -1);
	EXPECT_EQ(errno, EINVAL);
	REQUIRE(pthread_join(other, NULL) == 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

struct waiter {
	struct rdma_event_channel *channel;
	atomic_int thread;
};

static void *take_one(void *context)
{
	struct waiter *w = context;
	struct rdma_cm_event *event;

	atomic_store(&w->thread, gettid());
	if (rdma_get_cm_event(w->channel, &event) < 0)
		return NULL;
	(void)rdma_ack_cm_event(event);
	return w;
}

/* A thread waits; an event comes, and goes with its id and the channel. */
static void destroy_under_waiter(void)
{
	struct waiter w = { .channel = rdma_create_event_channel() };
	struct sockaddr_in to = cm_loopback(7);
	struct rdma_cm_id *id;
	pthread_t thread;
	void *result;

	REQUIRE(w.channel && rdma_create_id(w.channel, &id, NULL, RDMA_PS_TCP) == 0);
	REQUIRE(pthread_create(&thread, NULL, take_one, &w) == 0);
	while (atomic_load(&w.thread) == 0 || !is_asleep(atomic_load(&w.thread)))
		sched_yield();
	EXPECT_EQ(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 100), 0);
	EXPECT_EQ(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(w.channel);
	EXPECT_EQ(pthread_cancel(thread), 0);
	EXPECT_EQ(pthread_join(thread, &result), 0);
	/* It was quick and got the event, or it still waits. */
	EXPECT(result == &w || result == PTHREAD_CANCELED);
}

/*
 * As in the kernel, where the descriptor stays for those who wait: rping takes an error for
 * its own.
 */
TEST(test_rdma_get_cm_event_that_waits_gets_no_error_when_the_channel_goes)
{
	enum { ROUNDS = 100 };

	if (IS_CANCELLING_SEEN_AS_OVERFLOW)
		SKIP("the address sanitizer takes cancelled threads for faulty ones");
	for (int i = 0; i < ROUNDS; i++)
		destroy_under_waiter();
}
