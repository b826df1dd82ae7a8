/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP connections whose bytes go by shared memory: docs/near.md. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/loop/net.h"
#include "driver/near/near_message.h"
#include "driver/near/ring.h"
#include "driver/sys/unix_sockets.h"
#include "live/verbs_fixture.h"

enum { BIG = 1 << 20, MANY = 7, ROUNDS = 20, SMALL = 64, MOVES = 40 };

static const struct weft_connect_options near_wish = { .near = 1 };
static const struct weft_connect_options plain = { 0 };

static void near_on(void)
{
	REQUIRE(setenv("WEFT_NEAR", "on", 1) == 0);
}

static bool is_near(const struct node *n)
{
	struct weft_peer peer;

	MUST(weft_qp_peer(n->qp, &peer));
	REQUIRE(peer.has_crc == !peer.is_near);
	return peer.is_near;
}

/* As `weft stat` has it. */
static bool is_near_told(const struct tcp_end *e)
{
	char *report = report_of(e->adapter);
	bool is_near = strstr(report, "service=RC link=near") != NULL;

	free(report);
	return is_near;
}

/* With what each end asks for. */
static void connect_with(struct tcp_end *a, struct tcp_end *b,
			 const struct weft_connect_options *dialled,
			 const struct weft_connect_options *accepted)
{
	MUST(weft_qp_dial(a->node.qp, &b->at, dialled));
	tcp_end_await(b, WEFT_EVENT_REQUEST);
	MUST(weft_request_accept(tcp_end_request(b), b->node.qp, accepted));
	tcp_end_await(b, WEFT_EVENT_CONNECTED);
	tcp_end_await(a, WEFT_EVENT_CONNECTED);
}

static void post_recv(struct node *n, uint64_t offset, uint32_t length)
{
	struct weft_sge s = node_seg(n, offset, length);
	const struct weft_recv_wr wr = { .sges = &s, .sge_count = 1 };

	MUST(weft_qp_post_recv(n->qp, &wr, 1, NULL));
}

static void fill(uint8_t *bytes, uint32_t length, uint32_t salt)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(i * 31 + (i >> 8) + salt);
}

static void move(struct node *a, struct node *b, enum weft_opcode op)
{
	const struct weft_sge s = node_seg(a, 0, BIG);
	struct weft_send_wr wr = node_wr(op, 1, &s, b);
	struct weft_completion c;

	REQUIRE(node_post(a, &wr) && node_take(a->cq, &c));
}

static void message(struct node *from, struct node *to)
{
	const struct weft_sge s = node_seg(from, 0, SMALL);
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 2, &s, to);
	struct weft_completion c;

	post_recv(to, BIG / 2, SMALL);
	REQUIRE(node_post(from, &wr) && node_take(from->cq, &c) && node_take(to->cq, &c));
	EXPECT(memcmp(to->memory + BIG / 2, from->memory, SMALL) == 0);
}

/* Four times what the ring holds, each way, by each operation. */
TEST(test_near_a_stream_by_shared_memory_carries_every_operation)
{
	struct tcp_end a, b;

	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	tcp_ends_connect(&a, &b, &near_wish);
	EXPECT(is_near(&a.node) && is_near_told(&a));
	EXPECT(is_near(&b.node) && is_near_told(&b));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct node *from = i % 2 ? &a.node : &b.node, *to = i % 2 ? &b.node : &a.node;

		fill(from->memory, BIG, i);
		move(from, to, WEFT_OP_WRITE);
		message(from, to); /* behind the Write */
		memset(to->memory + BIG / 2, 0, SMALL);
		memcpy(to->memory + BIG / 2, from->memory + BIG / 2, SMALL);
		EXPECT(memcmp(to->memory, from->memory, BIG) == 0);
		fill(to->memory, BIG, i + 100);
		move(from, to, WEFT_OP_READ);
		EXPECT(memcmp(to->memory, from->memory, BIG) == 0);
	}
	tcp_end_close(&a);
	tcp_end_close(&b);
}

TEST(test_near_a_stream_goes_by_tcp_unless_both_ends_ask_for_memory)
{
	const struct weft_connect_options *const wishes[][2] = { { &near_wish, &plain },
								 { &plain, &near_wish },
								 { &plain, &plain } };

	near_on();
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		struct tcp_end a, b;

		tcp_end_open_with(&a, NULL, BIG);
		tcp_end_open_with(&b, NULL, BIG);
		connect_with(&a, &b, wishes[i][0], wishes[i][1]);
		EXPECT(!is_near(&a.node) && !is_near_told(&a));
		EXPECT(!is_near(&b.node) && !is_near_told(&b));
		message(&a.node, &b.node);
		message(&b.node, &a.node);
		tcp_end_close(&a);
		tcp_end_close(&b);
	}
}

TEST(test_near_weft_near_off_keeps_tcp)
{
	struct tcp_end a, b;

	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	REQUIRE(setenv("WEFT_NEAR", "off", 1) == 0);
	tcp_end_open_with(&b, NULL, BIG);
	tcp_ends_connect(&a, &b, &near_wish);
	EXPECT(!is_near(&a.node));
	EXPECT(!is_near(&b.node));
	message(&a.node, &b.node);
	tcp_end_close(&a);
	tcp_end_close(&b);
}

/* A capture has the bytes of the wire, and faults fall on them. */
TEST(test_near_a_captured_or_faulty_end_keeps_tcp)
{
	for (int i = 0; i < 4; i++) {
		struct tcp_end ends[2];

		near_on();
		for (int k = 0; k < 2; k++) {
			if (i >= 2 && k == i % 2)
				REQUIRE(setenv("WEFT_FAULTS", "disconnect_after=1MiB", 1) == 0);
			tcp_end_open_with(&ends[k], NULL, BIG);
			REQUIRE(unsetenv("WEFT_FAULTS") == 0);
			if (i < 2 && k == i)
				MUST(weft_capture_start(ends[k].adapter, "/dev/null"));
		}
		tcp_ends_connect(&ends[0], &ends[1], &near_wish);
		EXPECT(!is_near(&ends[0].node) && !is_near(&ends[1].node));
		message(&ends[0].node, &ends[1].node);
		tcp_end_close(&ends[0]);
		tcp_end_close(&ends[1]);
	}
}

/* More than are read at every poll: those that are not must be woken for. */
TEST(test_near_more_streams_than_polls_read_all_go_on)
{
	static struct tcp_end a, b;
	static struct node more_a[MANY], more_b[MANY];

	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	for (int i = 0; i < MANY; i++) {
		node_open(a.adapter, &more_a[i], NULL);
		node_open(b.adapter, &more_b[i], NULL);
		MUST(weft_qp_dial(more_a[i].qp, &b.at, &near_wish));
		tcp_end_await(&b, WEFT_EVENT_REQUEST);
		MUST(weft_request_accept(tcp_end_request(&b), more_b[i].qp, &near_wish));
		tcp_end_await(&b, WEFT_EVENT_CONNECTED);
		tcp_end_await(&a, WEFT_EVENT_CONNECTED);
		EXPECT(is_near(&more_a[i]));
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < MANY; i++) {
			const struct weft_sge s = node_seg(&more_a[i], 0, SMALL);
			struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 2, &s, &more_b[i]);

			post_recv(&more_b[i], 0, SMALL);
			REQUIRE(node_post(&more_a[i], &wr));
		}
		for (int i = MANY - 1; i >= 0; i--) {
			struct weft_completion c;

			REQUIRE(node_take(more_a[i].cq, &c) && node_take(more_b[i].cq, &c));
		}
	}
	for (int i = 0; i < MANY; i++) {
		node_close(&more_a[i], NULL);
		node_close(&more_b[i], NULL);
	}
	tcp_end_close(&a);
	tcp_end_close(&b);
}

/* Which the adapter's thread writes meanwhile. */
__attribute__((no_sanitize("thread"))) static uint8_t byte_now(const uint8_t *byte)
{
	return *(const volatile uint8_t *)byte;
}

/* The target neither polls nor waits: its adapter's thread must be woken. */
TEST(test_near_a_target_that_computes_is_written_to)
{
	struct tcp_end a, b;

	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	tcp_ends_connect(&a, &b, &near_wish);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t end_ns = thread_now_ns() + PATIENCE_NS;

		fill(a.node.memory, BIG, i);
		move(&a.node, &b.node, WEFT_OP_WRITE);
		while (byte_now(&b.node.memory[BIG - 1]) != a.node.memory[BIG - 1])
			REQUIRE(thread_now_ns() < end_ns);
	}
	tcp_end_close(&a);
	tcp_end_close(&b);
}

/* ---- Waking --------------------------------------------------------------------------------- */

static uint64_t wakes_missed(struct tcp_end *e)
{
	uint64_t missed;

	pthread_mutex_lock(&e->adapter->lock);
	missed = e->adapter->net->wakes_missed;
	pthread_mutex_unlock(&e->adapter->lock);
	return missed;
}

/* What a program does until a completion comes. */
enum waiting { WAITS_POLLING, WAITS_SLEEPING, WAITS_IDLE, WAITINGS };

struct mover {
	struct tcp_end *end;
	const struct node *peer;
	enum waiting waiting;
	enum weft_opcode opcode;
};

/* Idle: the adapter's thread works, and a look now and then competes with it. */
static bool completion_await(const struct mover *m, struct weft_completion *c)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS, look_ns = 0;
	bool has = false;

	while (!has && thread_now_ns() < end_ns) {
		if (m->waiting == WAITS_IDLE && thread_now_ns() < look_ns) {
			sched_yield();
			continue;
		}
		look_ns = thread_now_ns() + 200 * 1000;
		if (!node_poll(m->end->node.cq, c, &has))
			return false;
		if (!has && m->waiting == WAITS_SLEEPING &&
		    weft_cq_wait(m->end->node.cq, -1, PATIENCE_NS, NULL) != WEFT_OK)
			return false;
	}
	return has && c->status == WEFT_SUCCESS;
}

/* Three requests of 1 MiB at a time, each four times what the ring holds. */
static void *mover_run(void *argument)
{
	const struct mover *m = argument;
	struct weft_completion c;
	uint32_t posted = 0, ended = 0;

	while (ended < MOVES) {
		if (posted < MOVES && posted - ended < 3) {
			const struct weft_sge s = node_seg(&m->end->node, 0, BIG);
			struct weft_send_wr wr = node_wr(m->opcode, posted, &s, m->peer);

			HOLDS(node_post(&m->end->node, &wr));
			posted++;
			continue;
		}
		HOLDS(completion_await(m, &c));
		ended++;
	}
	return NULL;
}

/* Rings that are full in both directions, whatever each end does meanwhile. */
TEST(test_near_full_rings_of_both_directions_wake_both_ends)
{
	near_on();
	for (int i = 0; i < WAITINGS * WAITINGS * 2; i++) {
		struct tcp_end a, b;
		struct mover movers[2] = {
			{ &a, &b.node, i % WAITINGS, WEFT_OP_WRITE },
			{ &b, &a.node, i / WAITINGS % WAITINGS,
			  i < WAITINGS * WAITINGS ? WEFT_OP_WRITE : WEFT_OP_READ },
		};
		void *arguments[2] = { &movers[0], &movers[1] };

		tcp_end_open_with(&a, NULL, BIG);
		tcp_end_open_with(&b, NULL, BIG);
		tcp_ends_connect(&a, &b, &near_wish);
		threads_run(mover_run, arguments, 2);
		EXPECT_EQ(wakes_missed(&a) + wakes_missed(&b), 0);
		tcp_end_close(&a);
		tcp_end_close(&b);
	}
}

/* ---- Ends ----------------------------------------------------------------------------------- */

TEST(test_near_an_orderly_end_comes_behind_all_that_was_sent)
{
	struct tcp_end a, b;
	struct weft_completion c;

	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	tcp_ends_connect(&a, &b, &near_wish);
	for (int i = 0; i < ROUNDS; i++) {
		const struct weft_sge s = node_seg(&a.node, 0, SMALL);
		struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 2, &s, &b.node);

		post_recv(&b.node, 0, SMALL);
		REQUIRE(node_post(&a.node, &wr));
	}
	for (int i = 0; i < ROUNDS; i++)
		REQUIRE(node_take(a.node.cq, &c));
	MUST(weft_qp_disconnect(a.node.qp));
	for (int i = 0; i < ROUNDS; i++)
		REQUIRE(node_take(b.node.cq, &c));
	EXPECT_EQ(tcp_end_await(&b, WEFT_EVENT_QP_ERROR), WEFT_R_PEER_GONE);
	tcp_end_close(&a);
	tcp_end_close(&b);
}

/* Accepts a connection by shared memory, sends one message, and does no more. */
static _Noreturn void child_run(int out)
{
	struct tcp_end b;
	struct weft_completion c;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	tcp_end_open_with(&b, NULL, BIG);
	REQUIRE(write(out, &b.at, sizeof(b.at)) == sizeof(b.at));
	tcp_end_await(&b, WEFT_EVENT_REQUEST);
	MUST(weft_request_accept(tcp_end_request(&b), b.node.qp, &near_wish));
	tcp_end_await(&b, WEFT_EVENT_CONNECTED);
	{
		const struct weft_sge s = node_seg(&b.node, 0, SMALL);
		struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 2, &s, &b.node);

		REQUIRE(node_post(&b.node, &wr) && node_take(b.node.cq, &c));
	}
	for (;;)
		pause();
}

static pid_t child_start(struct weft_address *at)
{
	int out[2];
	pid_t pid;

	REQUIRE(pipe(out) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		child_run(out[1]);
	REQUIRE(read(out[0], at, sizeof(*at)) == sizeof(*at));
	close(out[0]);
	close(out[1]);
	return pid;
}

static void dial_child(struct tcp_end *a, const struct weft_address *at, uint64_t alive_ns)
{
	const struct weft_connect_options with = { .near = 1, .alive_ns = alive_ns };
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	struct weft_completion c;

	tcp_end_open_with(a, NULL, BIG);
	MUST(weft_qp_modify(a->node.qp, &init, WEFT_QP_STATE));
	post_recv(&a->node, 0, SMALL);
	MUST(weft_qp_dial(a->node.qp, at, &with));
	tcp_end_await(a, WEFT_EVENT_CONNECTED);
	EXPECT(is_near(&a->node));
	REQUIRE(node_take(a->node.cq, &c));
}

static void child_end(pid_t pid)
{
	REQUIRE(kill(pid, SIGKILL) == 0);
	REQUIRE(waitpid(pid, NULL, 0) == pid);
}

/* By a program that sleeps, and by one that polls and never asks epoll. */
TEST(test_near_the_end_of_a_killed_peer_is_noticed)
{
	near_on();
	for (int is_polling = 0; is_polling < 2; is_polling++) {
		struct weft_completion c;
		struct weft_address at;
		pid_t pid = child_start(&at);
		struct tcp_end a;
		uint64_t end_ns;
		bool has = false;

		dial_child(&a, &at, 0);
		MUST(weft_adapter_drive(a.adapter, is_polling)); /* no thread looks, either */
		for (int i = 0; is_polling && i < 10000; i++)
			REQUIRE(node_poll(a.node.cq, &c, &has) && !has);
		post_recv(&a.node, 0, SMALL);
		child_end(pid);
		end_ns = thread_now_ns() + PATIENCE_NS;
		while (is_polling && !has)
			REQUIRE(node_poll(a.node.cq, &c, &has) && thread_now_ns() < end_ns);
		MUST(weft_adapter_drive(a.adapter, false));
		EXPECT_EQ(tcp_end_await(&a, WEFT_EVENT_QP_ERROR), WEFT_R_PEER_GONE);
		tcp_end_close(&a);
	}
}

/* The end is heard with the last bytes: no message tells of it again. */
TEST(test_near_an_end_that_comes_with_bytes_is_noticed)
{
	near_on();
	for (int i = 0; i < ROUNDS; i++) {
		struct tcp_end a, b;
		struct weft_completion c;
		const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };

		tcp_end_open_with(&a, NULL, BIG);
		tcp_end_open_with(&b, NULL, BIG);
		tcp_ends_connect(&a, &b, &near_wish);
		post_recv(&b.node, 0, SMALL);
		{
			const struct weft_sge s = node_seg(&a.node, 0, SMALL);
			struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 2, &s, &b.node);

			REQUIRE(node_post(&a.node, &wr));
		}
		MUST(weft_qp_modify(a.node.qp, &error, WEFT_QP_STATE));
		REQUIRE(node_take(b.node.cq, &c));
		tcp_end_await(&b, WEFT_EVENT_QP_ERROR);
		EXPECT_EQ(wakes_missed(&b), 0);
		tcp_end_close(&a);
		tcp_end_close(&b);
	}
}

/* As TCP_USER_TIMEOUT does: what is sent finds no room for so long. */
TEST(test_near_a_stopped_peer_is_lost_when_it_takes_nothing)
{
	struct weft_address at;
	pid_t pid;
	struct tcp_end a;

	near_on();
	pid = child_start(&at);
	dial_child(&a, &at, 1000 * 1000 * 1000);
	REQUIRE(kill(pid, SIGSTOP) == 0);
	{
		const struct weft_sge s = node_seg(&a.node, 0, BIG);
		struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 2, &s, &a.node);

		REQUIRE(node_post(&a.node, &wr));
	}
	EXPECT_EQ(tcp_end_await(&a, WEFT_EVENT_QP_ERROR), WEFT_R_STREAM_LOST);
	child_end(pid);
	tcp_end_close(&a);
}

/* The child has copies of the descriptors and must neither use nor end the connection. */
TEST(test_near_a_child_leaves_its_parents_stream_alone)
{
	struct tcp_end a, b;
	pid_t pid;
	int status;

	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	tcp_ends_connect(&a, &b, &near_wish);
	message(&a.node, &b.node);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		exit(0);
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
	message(&a.node, &b.node);
	message(&b.node, &a.node);
	tcp_end_close(&a);
	tcp_end_close(&b);
}

/* ---- A responder of the test's own ---------------------------------------------------------- */

/* At the initiator's socket, whose name has the addresses of the TCP connection. */
static void offer_name(struct unix_name *name, uint16_t from_port, uint16_t to_port)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };

	snprintf(names.usual, sizeof(names.usual), "weft.tcp.%u.7f000001.%u.7f000001", from_port,
		 to_port);
	unix_name_init(name, &names, 0);
}

static int offer_connect(uint16_t from_port, uint16_t to_port)
{
	struct unix_name name;
	int fd;

	offer_name(&name, from_port, to_port);
	fd = unix_connect(&name);
	REQUIRE(fd >= 0);
	return fd;
}

enum { RING = 1 << 18 };

/* What a false responder sends, and how the connection must fail. */
static void offer_falsely(enum near_kind kind, uint32_t count, bool is_ring)
{
	struct tcp_end a, b;
	struct weft_peer peer;
	struct weft_request *request;
	struct weft_event event;
	struct ring rings[2];
	struct near_message m = { .kind = kind, .descriptors = { -1, -1 } };
	int fds[2], bell;
	bool has_event;

	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	MUST(weft_qp_dial(a.node.qp, &b.at, &near_wish));
	tcp_end_await(&b, WEFT_EVENT_REQUEST);
	request = tcp_end_request(&b);
	MUST(weft_request_query(request, &peer));
	bell = offer_connect(peer.remote.port, b.at.port);
	for (int i = 0; i < 2; i++) {
		fds[i] = is_ring ? ring_make(&rings[i], RING) : dup(bell);
		REQUIRE(fds[i] >= 0);
	}
	for (uint32_t i = 0; i < count; i++)
		m.descriptors[i] = fds[i];
	REQUIRE(near_message_send(bell, &m));
	MUST(weft_request_accept(request, b.node.qp, &plain));
	do {
		MUST(weft_event_next(a.adapter, PATIENCE_NS, &event, &has_event));
		REQUIRE(has_event);
	} while (event.kind != WEFT_EVENT_CONNECT_FAILED);
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		if (is_ring)
			ring_unmap(&rings[i]);
	}
	close(bell);
	tcp_end_close(&a);
	tcp_end_close(&b);
}

TEST(test_near_what_is_no_pair_of_rings_fails_the_connection)
{
	near_on();
	offer_falsely(NEAR_RINGS, 0, true);
	offer_falsely(NEAR_RINGS, 1, true);
	offer_falsely(NEAR_RINGS, 2, false);
}

/* As one that cannot make rings: the connection goes by TCP. */
TEST(test_near_a_responder_that_says_nothing_keeps_tcp)
{
	struct tcp_end a, b;
	struct weft_peer peer;
	struct weft_request *request;

	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	MUST(weft_qp_dial(a.node.qp, &b.at, &near_wish));
	tcp_end_await(&b, WEFT_EVENT_REQUEST);
	request = tcp_end_request(&b);
	MUST(weft_request_query(request, &peer));
	close(offer_connect(peer.remote.port, b.at.port));
	MUST(weft_request_accept(request, b.node.qp, &plain));
	tcp_end_await(&b, WEFT_EVENT_CONNECTED);
	tcp_end_await(&a, WEFT_EVENT_CONNECTED);
	EXPECT(!is_near(&a.node));
	message(&a.node, &b.node);
	tcp_end_close(&a);
	tcp_end_close(&b);
}

/* Dialled by `a`, with rings of the test's own. */
static int offer_rings(struct tcp_end *a, struct tcp_end *b, uint64_t alive_ns,
		       struct ring rings[2])
{
	const struct weft_connect_options wish = { .near = 1, .alive_ns = alive_ns };
	struct near_message m = { .kind = NEAR_RINGS, .descriptors = { -1, -1 } };
	struct weft_request *request;
	struct weft_peer peer;
	int bell;

	tcp_end_open_with(a, NULL, BIG);
	tcp_end_open_with(b, NULL, BIG);
	MUST(weft_qp_dial(a->node.qp, &b->at, &wish));
	tcp_end_await(b, WEFT_EVENT_REQUEST);
	request = tcp_end_request(b);
	MUST(weft_request_query(request, &peer));
	bell = offer_connect(peer.remote.port, b->at.port);
	for (int i = 0; i < 2; i++) {
		m.descriptors[i] = ring_make(&rings[i], RING);
		REQUIRE(m.descriptors[i] >= 0);
	}
	REQUIRE(near_message_send(bell, &m));
	near_message_done(&m);
	MUST(weft_request_accept(request, b->node.qp, &plain));
	tcp_end_await(a, WEFT_EVENT_CONNECTED);
	return bell;
}

static void offer_close(struct tcp_end *a, struct tcp_end *b, int bell, struct ring rings[2])
{
	ring_unmap(&rings[0]);
	ring_unmap(&rings[1]);
	close(bell);
	tcp_end_close(a);
	tcp_end_close(b);
}

/* One that takes a record from time to time, and does not say so, is not lost while it does. */
TEST(test_near_a_slow_peer_is_lost_only_when_it_takes_nothing)
{
	const uint64_t alive_ns = 400 * 1000 * 1000;
	struct tcp_end a, b;
	struct ring rings[2];
	struct weft_event event;
	const uint8_t *bytes;
	uint64_t taken_ns;
	bool has_event;
	int bell;

	near_on();
	bell = offer_rings(&a, &b, alive_ns, rings);
	rings[1].own = rings[1].other = 0; /* made as a sender, used as the receiver's */
	{
		const struct weft_sge s = node_seg(&a.node, 0, BIG);
		struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 2, &s, &a.node);

		REQUIRE(node_post(&a.node, &wr));
	}
	for (int i = 0; i < 8; i++) {
		taken_ns = thread_now_ns();
		REQUIRE(ring_peek(&rings[1], &bytes) > SMALL);
		ring_take(&rings[1], SMALL);
		do {
			MUST(weft_event_next(a.adapter, 1000 * 1000, &event, &has_event));
			EXPECT(!has_event || event.kind != WEFT_EVENT_QP_ERROR);
		} while (thread_now_ns() - taken_ns < alive_ns / 2);
	}
	EXPECT_EQ(tcp_end_await(&a, WEFT_EVENT_QP_ERROR), WEFT_R_STREAM_LOST);
	offer_close(&a, &b, bell, rings);
}

/* A record that is longer than what was put, and one of no bytes. */
TEST(test_near_a_false_record_ends_the_stream)
{
	static const uint32_t lengths[] = { 4096, 0 };

	near_on();
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		const struct near_message rouse = { .kind = NEAR_ROUSE, .descriptors = { -1, -1 } };
		struct tcp_end a, b;
		struct ring rings[2];
		int bell = offer_rings(&a, &b, 0, rings);
		uint8_t *room = ring_room(&rings[0], 2 * RING_ALIGN);

		REQUIRE(room);
		memcpy(room, &lengths[k], sizeof(lengths[k]));
		ring_put(&rings[0], 2 * RING_ALIGN);
		REQUIRE(near_message_send(bell, &rouse));
		EXPECT_EQ(tcp_end_await(&a, WEFT_EVENT_QP_ERROR), WEFT_R_STREAM_LOST);
		offer_close(&a, &b, bell, rings);
	}
}

/* Any user may connect to the name: only this user and root are trusted. */
TEST(test_near_rings_of_another_user_are_not_taken)
{
	struct tcp_end a, b;
	struct weft_peer peer;
	struct weft_request *request;
	pid_t pid;
	int status;

	if (geteuid() != 0)
		SKIP("needs root");
	near_on();
	tcp_end_open_with(&a, NULL, BIG);
	tcp_end_open_with(&b, NULL, BIG);
	MUST(weft_qp_dial(a.node.qp, &b.at, &near_wish));
	tcp_end_await(&b, WEFT_EVENT_REQUEST);
	request = tcp_end_request(&b);
	MUST(weft_request_query(request, &peer));
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		struct near_message m = { .kind = NEAR_RINGS, .descriptors = { -1, -1 } };
		struct unix_name name;
		struct ring rings[2];
		int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		(void)!setresuid(65533, 65533, 65533);
		offer_name(&name, peer.remote.port, b.at.port);
		m.descriptors[0] = ring_make(&rings[0], RING);
		m.descriptors[1] = ring_make(&rings[1], RING);
		_exit(geteuid() == 65533 && connect(s, (void *)&name.un, name.size) == 0 &&
				      near_message_send(s, &m)
			      ? 0
			      : 1);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
	MUST(weft_request_accept(request, b.node.qp, &plain));
	tcp_end_await(&b, WEFT_EVENT_CONNECTED);
	tcp_end_await(&a, WEFT_EVENT_CONNECTED);
	EXPECT(!is_near(&a.node));
	message(&a.node, &b.node);
	tcp_end_close(&a);
	tcp_end_close(&b);
}
