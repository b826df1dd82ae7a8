/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that sleep on a descriptor of their own, which the adapter's event handler writes to. */
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "live/verbs_fixture.h"

enum { BYTES = 64, ROUNDS = 50, PATIENCE_MS = 30000 };

/* An end whose events go to a handler. */
struct handled_end {
	struct tcp_end end;
	int fd; /* one for each event */
	atomic_uint seen[WEFT_EVENT_COUNT];
};

static void on_event(void *context, const struct weft_event *event)
{
	const uint64_t one = 1;
	struct handled_end *e = context;

	atomic_fetch_add(&e->seen[event->kind], 1);
	if (write(e->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void handled_open(struct handled_end *e)
{
	const struct weft_adapter_options options = { .on_event = on_event, .context = e };

	*e = (struct handled_end){ .fd = eventfd(0, EFD_SEMAPHORE) };
	REQUIRE(e->fd >= 0);
	tcp_end_open_with(&e->end, &options, BYTES);
}

static void handled_close(struct handled_end *e)
{
	tcp_end_close(&e->end);
	close(e->fd);
}

/* Sleeps until the handler has been called once more. */
static void handled_sleep(struct handled_end *e)
{
	struct pollfd p = { .fd = e->fd, .events = POLLIN };
	uint64_t one;

	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	REQUIRE(read(e->fd, &one, sizeof(one)) == sizeof(one));
}

static void handled_await(struct handled_end *e, enum weft_event_kind kind)
{
	while (atomic_load(&e->seen[kind]) == 0)
		handled_sleep(e);
}

/* Connects from an address of our choice; no thread polls. */
static void handled_connect(struct handled_end *near, struct handled_end *far)
{
	const struct weft_address from = { .family = 4, .ip = { 127, 0, 0, 9 } };
	const struct weft_connect_options dial = { .from = &from };
	struct weft_request *request;
	struct weft_peer peer;

	MUST(weft_qp_dial(near->end.node.qp, &far->end.at, &dial));
	handled_await(far, WEFT_EVENT_REQUEST);
	request = tcp_end_request(&far->end);
	MUST(weft_request_query(request, &peer));
	EXPECT_EQ(peer.remote.ip[3], 9);
	EXPECT(peer.remote.port != 0);
	MUST(weft_request_accept(request, far->end.node.qp, NULL));
	handled_await(near, WEFT_EVENT_CONNECTED);
	handled_await(far, WEFT_EVENT_CONNECTED);
}

static void post_receive(struct handled_end *e)
{
	const struct weft_sge segment = node_seg(&e->end.node, 0, BYTES);

	MUST(weft_qp_post_recv(e->end.node.qp,
			       &(struct weft_recv_wr){ .sges = &segment, .sge_count = 1 }, 1,
			       NULL));
}

static void post_send(struct handled_end *e)
{
	const struct weft_sge segment = node_seg(&e->end.node, 0, BYTES);

	MUST(weft_qp_post_send(e->end.node.qp,
			       &(struct weft_send_wr){
				       .opcode = WEFT_OP_SEND,
				       .sges = &segment,
				       .sge_count = 1,
			       },
			       1, NULL));
}

/* Arms, polls once more, sleeps on the descriptor: as verbs programs do. */
static void receive_asleep(struct handled_end *e)
{
	struct weft_completion c;
	uint32_t count = 0;

	while (count == 0) {
		MUST(weft_cq_arm(e->end.node.cq, WEFT_ARM_NEXT));
		MUST(weft_cq_poll(e->end.node.cq, &c, 1, &count));
		if (count == 0) {
			handled_sleep(e);
			MUST(weft_cq_poll(e->end.node.cq, &c, 1, &count));
		}
	}
	EXPECT_EQ(c.status, WEFT_SUCCESS);
	EXPECT_EQ(c.opcode, WEFT_OP_RECV);
}

TEST(test_qp_10_who_sleeps_on_a_descriptor_is_woken)
{
	struct handled_end near, far;

	handled_open(&near);
	handled_open(&far);
	handled_connect(&near, &far);
	for (int i = 0; i < ROUNDS; i++) {
		struct weft_completion c;
		uint32_t count;

		post_receive(&far);
		/* Long enough for the sleeper's thread to have stood back, some of the times. */
		for (int polls = 0; polls < i * 50; polls++)
			MUST(weft_cq_poll(far.end.node.cq, &c, 1, &count));
		post_send(&near);
		receive_asleep(&far);
	}
	EXPECT(atomic_load(&far.seen[WEFT_EVENT_COMPLETION]) > 0);
	handled_close(&near);
	handled_await(&far, WEFT_EVENT_QP_ERROR);
	handled_close(&far);
}

/* ---- After events ---------------------------------------------------------------------------- */

/* A thread that calls weft each time when the handler of an adapter asks it to. */
struct caller {
	struct weft_adapter *adapter;
	sem_t asked, answered;
	atomic_bool is_over;
	atomic_uint events, afters, answers; /* calls of the handlers; of them answered in time */
	pthread_t thread;
};

static bool sem_wait_patiently(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_MS / 1000;
	return sem_timedwait(sem, &until) == 0;
}

static void *caller_run(void *context)
{
	struct caller *c = context;
	struct weft_usage usage;

	for (;;) {
		HOLDS(sem_wait(&c->asked) == 0);
		if (atomic_load(&c->is_over))
			return NULL;
		HOLDS(weft_adapter_query(c->adapter, &usage) == WEFT_OK);
		HOLDS(sem_post(&c->answered) == 0);
	}
}

static void count_event(void *context, const struct weft_event *event)
{
	struct caller *c = context;

	(void)event;
	atomic_fetch_add(&c->events, 1);
}

static void ask_caller(void *context)
{
	struct caller *c = context;

	atomic_fetch_add(&c->afters, 1);
	sem_post(&c->asked);
	if (sem_wait_patiently(&c->answered))
		atomic_fetch_add(&c->answers, 1);
}

static void caller_open(struct caller *c, struct tcp_end *end)
{
	const struct weft_adapter_options options = { .on_event = count_event,
						      .after_events = ask_caller,
						      .context = c };

	*c = (struct caller){ .adapter = NULL };
	REQUIRE(sem_init(&c->asked, 0, 0) == 0 && sem_init(&c->answered, 0, 0) == 0);
	tcp_end_open_with(end, &options, BYTES);
	c->adapter = end->adapter;
	REQUIRE(pthread_create(&c->thread, NULL, caller_run, c) == 0);
}

static void caller_close(struct caller *c, struct tcp_end *end)
{
	tcp_end_close(end);
	atomic_store(&c->is_over, true);
	sem_post(&c->asked);
	pthread_join(c->thread, NULL);
	EXPECT_EQ(atomic_load(&c->answers), atomic_load(&c->afters));
}

/* Of the program's thread, in whose call the event happens. */
TEST(test_qp_10_threads_woken_after_events_find_the_adapter_free)
{
	struct tcp_end end;
	struct caller c;

	caller_open(&c, &end);
	MUST(weft_qp_modify(end.node.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_ERROR },
			    WEFT_QP_STATE));
	EXPECT_EQ(atomic_load(&c.events), 1);
	EXPECT_EQ(atomic_load(&c.afters), 1);
	caller_close(&c, &end);
}

/* Of weft's own thread: no other calls the adapter that is dialled. */
TEST(test_qp_10_threads_woken_by_wefts_own_find_the_adapter_free)
{
	struct tcp_end near, far;
	struct caller c;
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;

	tcp_end_open(&near);
	caller_open(&c, &far);
	MUST(weft_qp_dial(near.node.qp, &far.at, NULL));
	while (atomic_load(&c.answers) == 0 && thread_now_ns() < end_ns)
		sched_yield();
	EXPECT(atomic_load(&c.events) > 0);
	EXPECT(atomic_load(&c.answers) > 0);
	MUST(weft_request_reject(tcp_end_request(&far), NULL));
	EXPECT_EQ(tcp_end_await(&near, WEFT_EVENT_CONNECT_FAILED), WEFT_R_CONNECT_REJECTED);
	tcp_end_close(&near);
	caller_close(&c, &far);
}

/* ---- Handlers -------------------------------------------------------------------------------- */

/* Events that a handler takes are not delivered elsewhere. */
TEST(test_events_go_to_the_handler_alone)
{
	struct weft_event event;
	bool has_event = true;
	struct handled_end e;

	handled_open(&e);
	MUST(weft_qp_modify(e.end.node.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_ERROR },
			    WEFT_QP_STATE));
	MUST(weft_event_next(e.end.adapter, 0, &event, &has_event));
	EXPECT(!has_event);
	handled_close(&e);
}

TEST(test_dialling_from_an_address_that_is_not_ours)
{
	const struct weft_address from = { .family = 4, .ip = { 192, 0, 2, 1 } };
	const struct weft_address to = { .family = 4, .ip = { 127, 0, 0, 1 }, .port = 9 };
	struct handled_end e;

	handled_open(&e);
	EXPECT_EQ(weft_qp_dial(e.end.node.qp, &to, &(struct weft_connect_options){ .from = &from }),
		  WEFT_R_ADDRESS);
	handled_close(&e);
}

/* A listener that comes a little late is found, if the program allows for it. */
TEST(test_dialling_again_until_a_listener_is_there)
{
	const struct weft_connect_options patient = { .refused_wait_ns = UINT64_C(20000000000) };
	const struct weft_connect_options hasty = { .refused_wait_ns = 1 };
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_listener *listener;
	struct weft_request *request;
	struct handled_end near, far;
	enum weft_reason r;

	handled_open(&near);
	handled_open(&far);
	MUST(weft_listener_open(far.end.adapter, &at, NULL, &listener));
	MUST(weft_listener_address(listener, &at));
	MUST(weft_listener_close(listener));
	r = weft_qp_dial(near.end.node.qp, &at, &hasty);
	if (r == WEFT_OK)
		handled_await(&near, WEFT_EVENT_CONNECT_FAILED);
	else
		EXPECT_EQ(r, WEFT_R_CONNECT_REFUSED);
	MUST(weft_qp_dial(near.end.node.qp, &at, &patient));
	MUST(weft_listener_open(far.end.adapter, &at, NULL, &listener));
	handled_await(&far, WEFT_EVENT_REQUEST);
	MUST(weft_listener_next(listener, &request));
	MUST(weft_request_accept(request, far.end.node.qp, NULL));
	handled_await(&near, WEFT_EVENT_CONNECTED);
	MUST(weft_listener_close(listener));
	handled_close(&near);
	handled_close(&far);
}
