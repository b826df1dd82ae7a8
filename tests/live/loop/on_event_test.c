/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that sleep on a descriptor of their own, which the adapter's event handler writes to. */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/weft.h>

#include "test.h"

enum { BYTES = 64, ROUNDS = 50, PATIENCE_MS = 30000 };

struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint8_t memory[BYTES];
	uint32_t tag;
	int fd; /* one for each event */
	atomic_uint seen[WEFT_EVENT_COUNT];
};

static void on_event(void *context, const struct weft_event *event)
{
	const uint64_t one = 1;
	struct side *s = context;

	atomic_fetch_add(&s->seen[event->kind], 1);
	if (write(s->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void side_open(struct side *s)
{
	const struct weft_adapter_options options = {
		.tags_max = 64,
		.translations_max = 64,
		.on_event = on_event,
		.context = s,
	};
	struct weft_qp_options qp = { 0 };

	*s = (struct side){ .fd = eventfd(0, EFD_SEMAPHORE) };
	REQUIRE(s->fd >= 0);
	MUST(weft_adapter_open(&options, &s->adapter));
	MUST(weft_pd_create(s->adapter, NULL, &s->pd));
	MUST(weft_cq_create(s->adapter, NULL, &s->cq));
	qp.send_cq = qp.recv_cq = s->cq;
	MUST(weft_qp_create(s->pd, &qp, &s->qp));
	MUST(weft_region_register(s->pd,
				  &(struct weft_region_options){
					  .addr = (uintptr_t)s->memory,
					  .length = BYTES,
					  .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
				  },
				  &s->tag));
}

static void side_close(struct side *s)
{
	MUST(weft_qp_destroy(s->qp));
	MUST(weft_cq_destroy(s->cq));
	MUST(weft_region_deregister(s->pd, s->tag));
	MUST(weft_pd_destroy(s->pd));
	MUST(weft_adapter_close(s->adapter));
	close(s->fd);
}

/* Sleeps until the handler has been called once more. */
static void side_sleep(struct side *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	uint64_t one;

	REQUIRE(poll(&p, 1, PATIENCE_MS) == 1);
	REQUIRE(read(s->fd, &one, sizeof(one)) == sizeof(one));
}

static void side_await(struct side *s, enum weft_event_kind kind)
{
	while (atomic_load(&s->seen[kind]) == 0)
		side_sleep(s);
}

/* Connects from an address of our choice; no thread polls. */
static void sides_connect(struct side *near, struct side *far)
{
	const struct weft_address from = { .family = 4, .ip = { 127, 0, 0, 9 } };
	const struct weft_connect_options dial = { .from = &from };
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_listener *listener;
	struct weft_request *request;
	struct weft_peer peer;

	MUST(weft_listener_open(far->adapter, &at, NULL, &listener));
	MUST(weft_listener_address(listener, &at));
	MUST(weft_qp_dial(near->qp, &at, &dial));
	side_await(far, WEFT_EVENT_REQUEST);
	MUST(weft_listener_next(listener, &request));
	REQUIRE(request);
	MUST(weft_request_query(request, &peer));
	EXPECT_EQ(peer.remote.ip[3], 9);
	EXPECT(peer.remote.port != 0);
	MUST(weft_request_accept(request, far->qp, NULL));
	side_await(near, WEFT_EVENT_CONNECTED);
	side_await(far, WEFT_EVENT_CONNECTED);
	MUST(weft_listener_close(listener));
}

static void post_receive(struct side *s)
{
	const struct weft_sge segment = { (uintptr_t)s->memory, BYTES, s->tag };

	MUST(weft_qp_post_recv(s->qp, &(struct weft_recv_wr){ .sges = &segment, .sge_count = 1 }, 1,
			       NULL));
}

static void post_send(struct side *s)
{
	const struct weft_sge segment = { (uintptr_t)s->memory, BYTES, s->tag };

	MUST(weft_qp_post_send(s->qp,
			       &(struct weft_send_wr){
				       .opcode = WEFT_OP_SEND,
				       .sges = &segment,
				       .sge_count = 1,
			       },
			       1, NULL));
}

/* Arms, polls once more, sleeps on the descriptor: as verbs programs do. */
static void receive_asleep(struct side *s)
{
	struct weft_completion c;
	uint32_t count = 0;

	while (count == 0) {
		MUST(weft_cq_arm(s->cq, WEFT_ARM_NEXT));
		MUST(weft_cq_poll(s->cq, &c, 1, &count));
		if (count == 0) {
			side_sleep(s);
			MUST(weft_cq_poll(s->cq, &c, 1, &count));
		}
	}
	EXPECT_EQ(c.status, WEFT_SUCCESS);
	EXPECT_EQ(c.opcode, WEFT_OP_RECV);
}

TEST(test_qp_10_who_sleeps_on_a_descriptor_is_woken)
{
	struct side near, far;

	side_open(&near);
	side_open(&far);
	sides_connect(&near, &far);
	for (int i = 0; i < ROUNDS; i++) {
		struct weft_completion c;
		uint32_t count;

		post_receive(&far);
		/* Long enough for the sleeper's thread to have stood back, some of the times. */
		for (int polls = 0; polls < i * 50; polls++)
			MUST(weft_cq_poll(far.cq, &c, 1, &count));
		post_send(&near);
		receive_asleep(&far);
	}
	EXPECT(atomic_load(&far.seen[WEFT_EVENT_COMPLETION]) > 0);
	side_close(&near);
	side_await(&far, WEFT_EVENT_QP_ERROR);
	side_close(&far);
}

/* Events that a handler takes are not delivered elsewhere. */
TEST(test_events_go_to_the_handler_alone)
{
	struct weft_event event;
	bool has_event = true;
	struct side s;

	side_open(&s);
	MUST(weft_qp_modify(s.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_ERROR },
			    WEFT_QP_STATE));
	MUST(weft_event_next(s.adapter, 0, &event, &has_event));
	EXPECT(!has_event);
	side_close(&s);
}

TEST(test_dialling_from_an_address_that_is_not_ours)
{
	const struct weft_address from = { .family = 4, .ip = { 192, 0, 2, 1 } };
	const struct weft_address to = { .family = 4, .ip = { 127, 0, 0, 1 }, .port = 9 };
	struct side s;

	side_open(&s);
	EXPECT_EQ(weft_qp_dial(s.qp, &to, &(struct weft_connect_options){ .from = &from }),
		  WEFT_R_ADDRESS);
	side_close(&s);
}

/* A listener that comes a little late is found, if the program allows for it. */
TEST(test_dialling_again_until_a_listener_is_there)
{
	const struct weft_connect_options patient = { .refused_wait_ns = UINT64_C(20000000000) };
	const struct weft_connect_options hasty = { .refused_wait_ns = 1 };
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_listener *listener;
	struct weft_request *request;
	struct side near, far;
	enum weft_reason r;

	side_open(&near);
	side_open(&far);
	MUST(weft_listener_open(far.adapter, &at, NULL, &listener));
	MUST(weft_listener_address(listener, &at));
	MUST(weft_listener_close(listener));
	r = weft_qp_dial(near.qp, &at, &hasty);
	if (r == WEFT_OK)
		side_await(&near, WEFT_EVENT_CONNECT_FAILED);
	else
		EXPECT_EQ(r, WEFT_R_CONNECT_REFUSED);
	MUST(weft_qp_dial(near.qp, &at, &patient));
	MUST(weft_listener_open(far.adapter, &at, NULL, &listener));
	side_await(&far, WEFT_EVENT_REQUEST);
	MUST(weft_listener_next(listener, &request));
	MUST(weft_request_accept(request, far.qp, NULL));
	side_await(&near, WEFT_EVENT_CONNECTED);
	MUST(weft_listener_close(listener));
	side_close(&near);
	side_close(&far);
}
