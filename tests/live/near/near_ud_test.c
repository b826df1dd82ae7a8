/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams between adapters of one host, by shared memory. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "descriptors.h"
#include "driver/roce/roce.h"
#include "live/near/near_world.h"
#include "near/near_parts.h"
#include "unit/driver/capture_fixture.h"
#include "wire/iba_icrc.h"

enum {
	GRH = 40,
	Q_KEY = 0x1234,
	MULTICAST = 0xffffff,
	BYTES = 1024, /* of a long datagram: a ring holds some hundred */
	RECEIVES = 1024,
	RECEIVE_BYTES = GRH + BYTES,
	SENDS_AT = RECEIVES * RECEIVE_BYTES, /* in memory, behind the receives */
	SENT = RECEIVES			     /* id; those of receives tell their memory */
};

/* A UD queue pair, with a way to any adapter of this host. */
struct ud {
	struct end end;
	struct weft_qp *qp;
	struct weft_ah *ah;
	uint32_t receives; /* posted so far */
};

static const struct weft_path own_host = { .from = { .family = 4, .ip = { 127, 0, 0, 1 } },
					   .to = { .family = 4, .ip = { 127, 0, 0, 1 } } };

static void receive_more(struct ud *u, uint32_t count)
{
	while (count-- > 0) {
		uint64_t id = u->receives++ % RECEIVES;
		const struct weft_sge s = node_seg(&u->end.node, id * RECEIVE_BYTES, RECEIVE_BYTES);
		const struct weft_recv_wr wr = { .id = id, .sges = &s, .sge_count = 1 };

		MUST(weft_qp_post_recv(u->qp, &wr, 1, NULL));
	}
}

static void ud_open(struct ud *u, struct weft_adapter *adapter)
{
	struct weft_roce_attr way = roce_way(0);
	struct weft_cq_options queue = { .entries_max = 2 * RECEIVES };
	struct weft_qp_options o = { .service = WEFT_UD, .recv_max = RECEIVES };
	struct node *n = &u->end.node;

	*u = (struct ud){ .end.adapter = adapter };
	node_open_sized(adapter, n, SENDS_AT + BYTES);
	MUST(weft_qp_destroy(n->qp));
	MUST(weft_cq_destroy(n->cq));
	MUST(weft_cq_create(adapter, &queue, &n->cq));
	o.send_cq = o.recv_cq = n->cq;
	MUST(weft_qp_create(n->pd, &o, &n->qp));
	u->qp = n->qp;
	way.q_key = Q_KEY;
	roce_start(u->qp, &way);
	MUST(weft_ah_create(n->pd, &own_host, &u->ah));
}

static void ud_close(struct ud *u)
{
	MUST(weft_ah_destroy(u->ah));
	end_close(&u->end);
}

static void post(struct ud *u, const void *bytes, uint32_t length, uint32_t to)
{
	const struct weft_sge s = node_seg(&u->end.node, SENDS_AT, length);
	struct weft_send_wr wr = {
		.id = SENT,
		.opcode = WEFT_OP_SEND_IMM,
		.imm = 77,
		.flags = WEFT_SIGNALLED,
		.sges = &s,
		.sge_count = 1,
		.ah = u->ah,
		.dest_qp_number = to,
		.remote_q_key = Q_KEY,
	};

	memcpy(u->end.node.memory + SENDS_AT, bytes, length);
	MUST(weft_qp_post_send(u->qp, &wr, 1, NULL));
}

/* Waits until the adapter of that queue pair has taken the ring: until then UDP is the way. */
static void reach(struct ud *u, uint32_t number)
{
	uint64_t since = thread_now_ns();
	bool is_done = false;

	while (!is_done) {
		struct near *near;
		uint32_t way;

		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		adapter_enter(u->end.adapter);
		near = roce_of(u->end.adapter->net)->near;
		way = near ? near_reach(near, (uint8_t)(number >> 16)) : 0;
		is_done = way == 0 || near_is_taken(near, way);
		adapter_leave(u->end.adapter);
		sched_yield();
	}
}

/* Returns when its request has ended: the packet is on its way, or lost. */
static void send_number(struct ud *u, uint32_t number, uint32_t length, uint32_t to)
{
	uint8_t bytes[BYTES] = { 0 };
	struct weft_completion c;

	memcpy(bytes, &number, sizeof(number));
	post(u, bytes, length, to);
	REQUIRE(node_take(u->end.node.cq, &c));
	MUST_EQ(c.id, SENT);
}

/* The memory of a receive. */
static const uint8_t *received(const struct ud *u, const struct weft_completion *c)
{
	REQUIRE(c->id < RECEIVES);
	return u->end.node.memory + c->id * RECEIVE_BYTES;
}

static uint32_t number_of(const struct ud *u, const struct weft_completion *c)
{
	uint32_t number;

	memcpy(&number, received(u, c) + GRH, sizeof(number));
	return number;
}

/* The route is that of the packet which it stands for. */
static void expect_number(struct ud *u, uint32_t number, uint32_t from)
{
	static const uint8_t loopback[] = { 127, 0, 0, 1 };
	struct weft_completion c;

	REQUIRE(node_take(u->end.node.cq, &c));
	MUST_EQ(number_of(u, &c), number);
	MUST_EQ(received(u, &c)[20], 0x45);
	REQUIRE(memcmp(received(u, &c) + 32, loopback, 4) == 0);
	REQUIRE(memcmp(received(u, &c) + 36, loopback, 4) == 0);
	MUST_EQ(c.src_qp_number, from);
	REQUIRE(c.has_imm && c.imm == 77 && c.has_route);
}

static void expect_exchange(struct ud *a, struct ud *b, uint32_t number)
{
	receive_more(b, 1);
	reach(a, weft_qp_number(b->qp));
	send_number(a, number, BYTES, weft_qp_number(b->qp));
	expect_number(b, number, weft_qp_number(a->qp));
}

static bool is_near_told(const struct ud *u)
{
	char *report = report_of(u->end.adapter);
	bool is_near = strstr(report, "service=UD link=near") != NULL;

	free(report);
	return is_near;
}

/* ---- Adapters of one process ---------------------------------------------------------------- */

TEST(test_near_datagrams_go_by_shared_memory)
{
	enum { TURNS = 1000 };
	struct weft_roce_counts n;
	struct ud a, b;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open());
	ud_open(&b, roce_adapter_open());
	EXPECT(!is_near_told(&a));
	for (uint32_t i = 0; i < TURNS; i++) {
		expect_exchange(&a, &b, i);
		expect_exchange(&b, &a, i);
	}
	n = counts_of(&a.end);
	EXPECT_EQ(n.near_out, TURNS);
	EXPECT_EQ(n.near_in, TURNS);
	EXPECT_EQ(n.packets_out, TURNS);
	EXPECT_EQ(n.calls_out + n.near_lost + n.dropped, 0);
	EXPECT(is_near_told(&a) && is_near_told(&b));
	ud_close(&a);
	ud_close(&b);
}

/* A program may count on the completion of what it has posted, whatever the receiver does. */
TEST(test_near_datagram_does_not_wait_until_the_ring_is_taken)
{
	struct weft_completion c;
	struct ud a, b;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open());
	ud_open(&b, roce_adapter_open());
	receive_more(&b, 2);
	adapter_enter(b.end.adapter); /* its thread cannot take the ring */
	send_number(&a, 1, BYTES, weft_qp_number(b.qp));
	EXPECT_EQ(counts_of(&a.end).near_out, 0);
	adapter_leave(b.end.adapter);
	REQUIRE(node_take(b.end.node.cq, &c) && number_of(&b, &c) == 1);
	reach(&a, weft_qp_number(b.qp));
	while (counts_of(&a.end).near_out == 0)
		send_number(&a, 2, BYTES, weft_qp_number(b.qp));
	ud_close(&a);
	ud_close(&b);
}

TEST(test_near_datagrams_of_an_adapter_to_itself)
{
	struct ud a;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open());
	receive_more(&a, 1);
	reach(&a, weft_qp_number(a.qp));
	send_number(&a, 5, BYTES, weft_qp_number(a.qp));
	expect_number(&a, 5, weft_qp_number(a.qp));
	EXPECT_EQ(counts_of(&a.end).near_out, 1);
	ud_close(&a);
}

/* WEFT_NEAR=off of either end. */
TEST(test_near_datagrams_of_one_end_alone_go_by_udp)
{
	struct ud a, b;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open_udp());
	ud_open(&b, roce_adapter_open());
	for (uint32_t i = 0; i < 10; i++) {
		expect_exchange(&a, &b, i);
		expect_exchange(&b, &a, i);
	}
	for (int i = 0; i < 2; i++) {
		const struct weft_roce_counts n = counts_of(i ? &a.end : &b.end);

		EXPECT_EQ(n.near_in + n.near_out, 0);
		EXPECT(n.calls_out > 0);
	}
	EXPECT(!is_near_told(&a) && !is_near_told(&b));
	ud_close(&a);
	ud_close(&b);
}

/* Both send to both: no datagram overtakes another, whichever its way. */
TEST(test_near_datagrams_choose_their_way_by_the_receiver)
{
	struct weft_roce_counts n;
	struct ud a, near, far;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open());
	ud_open(&near, roce_adapter_open());
	ud_open(&far, roce_adapter_open_udp());
	for (uint32_t i = 0; i < 50; i++) {
		expect_exchange(&a, &near, i);
		expect_exchange(&a, &far, i);
	}
	n = counts_of(&a.end);
	EXPECT_EQ(n.near_out, 50);
	EXPECT_EQ(n.packets_out, 100);
	EXPECT_EQ(counts_of(&near.end).near_in, 50);
	EXPECT_EQ(counts_of(&far.end).packets_in, 50);
	ud_close(&a);
	ud_close(&near);
	ud_close(&far);
}

/* UD-02: the checks of the receiver are the same. */
TEST(test_near_datagram_with_a_wrong_key_is_dropped)
{
	struct weft_roce_attr way = roce_way(0);
	uint64_t dropped = 0;
	struct ud a, b;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open());
	ud_open(&b, roce_adapter_open());
	way.q_key = Q_KEY + 1;
	MUST(weft_qp_modify_roce(b.qp, &way, WEFT_ROCE_Q_KEY));
	receive_more(&b, 1);
	reach(&a, weft_qp_number(b.qp));
	send_number(&a, 1, BYTES, weft_qp_number(b.qp));
	while (dropped == 0)
		MUST(weft_roce_dropped(b.end.adapter, WEFT_R_IB_QKEY, &dropped));
	way.q_key = Q_KEY;
	MUST(weft_qp_modify_roce(b.qp, &way, WEFT_ROCE_Q_KEY));
	send_number(&a, 2, BYTES, weft_qp_number(b.qp));
	expect_number(&b, 2, weft_qp_number(a.qp));
	EXPECT_EQ(counts_of(&b.end).near_in, 2);
	ud_close(&a);
	ud_close(&b);
}

TEST(test_near_datagram_to_a_group_goes_by_udp)
{
	static const struct weft_address group = { .family = 4, .ip = { 239, 7, 7, 7 } };
	struct weft_path path = own_host;
	struct weft_completion c;
	struct ud a, b;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open());
	ud_open(&b, roce_adapter_open());
	expect_exchange(&a, &b, 1);
	MUST(weft_qp_join(b.qp, &group, &roce_loopback));
	path.to = group;
	MUST(weft_ah_destroy(a.ah));
	MUST(weft_ah_create(a.end.node.pd, &path, &a.ah));
	receive_more(&b, 1);
	send_number(&a, 2, BYTES, MULTICAST);
	REQUIRE(node_take(b.end.node.cq, &c));
	EXPECT_EQ(number_of(&b, &c), 2);
	EXPECT_EQ(counts_of(&a.end).near_out, 1);
	EXPECT_EQ(counts_of(&b.end).near_in, 1);
	ud_close(&a);
	ud_close(&b);
}

/* ---- Captures and faults -------------------------------------------------------------------- */

static bool is_icrc_good(const struct packet *p)
{
	struct inet_end from = { .port = p->source_port }, to = { .port = p->target_port };
	const struct iba_icrc_ip ip = { .from = &from,
					.to = &to,
					.ipv4_id = (uint16_t)(p->ipv4_word >> 16),
					.ipv4_fragment = (uint16_t)p->ipv4_word };
	uint32_t begin;

	memcpy(from.address, p->source, 4);
	memcpy(to.address, p->target, 4);
	begin = iba_icrc_begin(&ip, p->payload_bytes);
	return iba_icrc_differs(begin, p->payload, p->payload_bytes) == 0;
}

TEST(test_near_capture_has_datagrams_with_their_icrc)
{
	struct reading capture;
	struct ud a, b;

	WORLD_OR_SKIP();
	ud_open(&a, roce_adapter_open());
	ud_open(&b, roce_adapter_open());
	MUST(weft_capture_start(a.end.adapter, capture_path()));
	expect_exchange(&a, &b, 1);
	expect_exchange(&a, &b, 2);
	expect_exchange(&b, &a, 3);
	EXPECT_EQ(counts_of(&a.end).near_out, 2);
	EXPECT_EQ(counts_of(&a.end).near_in, 1);
	ud_close(&a);
	ud_close(&b);
	reading_open(&capture, capture_path());
	REQUIRE(capture.count == 3);
	for (size_t i = 0; i < 3; i++) {
		const struct packet *p = &capture.packets[i];

		EXPECT(p->is_udp && p->target_port == IBA_UDP_PORT);
		EXPECT_EQ(p->is_outgoing, i < 2);
		EXPECT_EQ(p->payload[0], IBA_UD_SEND_IMM);
		EXPECT(!p->is_outgoing || is_icrc_good(p));
	}
	reading_close(&capture);
}

TEST(test_near_faults_fall_on_datagrams)
{
	enum { DATAGRAMS = 400 };
	struct weft_roce_counts n;
	struct ud a, b;

	WORLD_OR_SKIP();
	REQUIRE(setenv("WEFT_FAULTS", "seed=7,loss=0.2", 1) == 0);
	ud_open(&a, roce_adapter_open());
	REQUIRE(unsetenv("WEFT_FAULTS") == 0);
	ud_open(&b, roce_adapter_open());
	receive_more(&b, DATAGRAMS);
	reach(&a, weft_qp_number(b.qp));
	for (uint32_t i = 0; i < DATAGRAMS; i++)
		send_number(&a, i, BYTES, weft_qp_number(b.qp));
	n = counts_of(&a.end);
	EXPECT_EQ(n.packets_out, DATAGRAMS);
	EXPECT(n.near_out > DATAGRAMS / 2 && n.near_out < DATAGRAMS);
	EXPECT_EQ(n.calls_out, 0);
	for (uint64_t i = 0; i < n.near_out; i++) {
		struct weft_completion c;

		REQUIRE(node_take(b.end.node.cq, &c) && c.id != SENT);
	}
	ud_close(&a);
	ud_close(&b);
}

/* ---- Processes ------------------------------------------------------------------------------ */

/* What a process is told to do, by a pipe. */
enum order {
	ECHO,	 /* receive a datagram, and answer it */
	TELL,	 /* write its counters */
	COLLECT, /* receive in order until LAST; write how many came */
	EXHAUST	 /* have no descriptors left for a ring */
};

enum { LAST = 0x7fffffff };

struct process {
	pid_t pid;
	int to[2], from[2];
	uint32_t number;
};

static void say(int fd, const void *bytes, size_t length)
{
	REQUIRE(write(fd, bytes, length) == (ssize_t)length);
}

static void hear(int fd, void *bytes, size_t length)
{
	REQUIRE(read(fd, bytes, length) == (ssize_t)length);
}

static struct weft_completion next_datagram(struct ud *u)
{
	struct weft_completion c;

	do
		c = node_next(u->end.node.cq);
	while (c.id == SENT);
	MUST_EQ(c.status, WEFT_SUCCESS);
	return c;
}

static uint32_t collect(struct ud *u)
{
	uint32_t count = 0, last = 0, number = 0;

	while (number != LAST) {
		struct weft_completion c = next_datagram(u);

		number = number_of(u, &c);
		count += number != LAST;
		REQUIRE(number > last);
		last = number;
	}
	return count;
}

static _Noreturn void process_run(int in, int out)
{
	struct ud u;
	enum order order;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test may have failed */
	ud_open(&u, roce_adapter_open());
	receive_more(&u, RECEIVES);
	say(out, &(uint32_t){ weft_qp_number(u.qp) }, sizeof(uint32_t));
	for (;;) {
		hear(in, &order, sizeof(order));
		if (order == ECHO) {
			struct weft_completion c = next_datagram(&u);

			receive_more(&u, 1);
			reach(&u, c.src_qp_number);
			send_number(&u, number_of(&u, &c), BYTES, c.src_qp_number);
		} else if (order == TELL) {
			struct weft_roce_counts n = counts_of(&u.end);

			say(out, &n, sizeof(n));
		} else if (order == COLLECT) {
			say(out, &(uint32_t){ collect(&u) }, sizeof(uint32_t));
		} else {
			(void)descriptors_leave(1);
			say(out, &order, sizeof(order));
		}
	}
}

/* Before the test has threads. */
static void process_fork(struct process *p)
{
	REQUIRE(pipe(p->to) == 0 && pipe(p->from) == 0);
	p->pid = fork();
	REQUIRE(p->pid >= 0);
	if (p->pid == 0)
		process_run(p->to[0], p->from[1]);
	hear(p->from[0], &p->number, sizeof(p->number));
}

static void process_kill(struct process *p)
{
	REQUIRE(kill(p->pid, SIGKILL) == 0 && waitpid(p->pid, NULL, 0) == p->pid);
	for (int i = 0; i < 2; i++) {
		close(p->to[i]);
		close(p->from[i]);
	}
}

static void process_do(struct process *p, enum order order)
{
	say(p->to[1], &order, sizeof(order));
}

static void expect_echo(struct ud *u, struct process *p, uint32_t number)
{
	receive_more(u, 1);
	process_do(p, ECHO);
	reach(u, p->number);
	send_number(u, number, BYTES, p->number);
	expect_number(u, number, p->number);
}

TEST(test_near_datagrams_between_processes)
{
	enum { TURNS = 500 };
	struct weft_roce_counts n, peer;
	struct process p;
	struct ud u;

	WORLD_OR_SKIP();
	process_fork(&p);
	ud_open(&u, roce_adapter_open());
	for (uint32_t i = 0; i < TURNS; i++)
		expect_echo(&u, &p, i);
	process_do(&p, TELL);
	hear(p.from[0], &peer, sizeof(peer));
	n = counts_of(&u.end);
	EXPECT_EQ(n.near_out, TURNS);
	EXPECT_EQ(n.near_in, TURNS);
	EXPECT_EQ(peer.near_out, TURNS);
	EXPECT_EQ(peer.near_in, TURNS);
	EXPECT_EQ(n.calls_out + peer.calls_out + n.near_lost + peer.near_lost, 0);
	process_kill(&p);
	ud_close(&u);
}

/* Until its end is known: then datagrams to it go by UDP, to no process. */
static void kill_for_good(struct ud *u, struct process *p)
{
	uint64_t before = counts_of(&u->end).calls_out;

	process_kill(p);
	while (counts_of(&u->end).calls_out == before)
		send_number(u, 2, BYTES, p->number);
}

/*
 * As over UDP: requests to it succeed. A process that has its slot later is found, and at once when
 * an address handle is made, also by others that were made before.
 */
TEST(test_near_datagrams_to_a_killed_process_are_lost)
{
	struct process p, next, third;
	struct weft_ah *ah;
	struct ud u;
	uint64_t before;

	WORLD_OR_SKIP();
	process_fork(&p);
	ud_open(&u, roce_adapter_open());
	expect_echo(&u, &p, 1);
	kill_for_good(&u, &p);
	process_fork(&next);
	EXPECT_EQ(next.number >> 16, p.number >> 16);
	before = counts_of(&u.end).near_out;
	while (counts_of(&u.end).near_out == before)
		send_number(&u, 3, BYTES, next.number);
	kill_for_good(&u, &next);
	process_fork(&third);
	EXPECT_EQ(third.number >> 16, p.number >> 16);
	before = counts_of(&u.end).near_out;
	MUST(weft_ah_create(u.end.node.pd, &own_host, &ah));
	expect_echo(&u, &third, 4);
	EXPECT_EQ(counts_of(&u.end).near_out, before + 1);
	MUST(weft_ah_destroy(ah));
	process_kill(&third);
	ud_close(&u);
}

/* Its ring is full: datagrams wait for a time, are lost then, and only those to it. */
TEST(test_near_datagrams_do_not_wait_for_a_stopped_process_for_ever)
{
	struct weft_roce_counts n;
	struct process p;
	struct ud u, other;
	uint32_t sent = 0, count;
	int status;

	WORLD_OR_SKIP();
	process_fork(&p);
	ud_open(&u, roce_adapter_open());
	ud_open(&other, roce_adapter_open());
	expect_echo(&u, &p, 0);
	REQUIRE(kill(p.pid, SIGSTOP) == 0);
	REQUIRE(waitpid(p.pid, &status, WUNTRACED) == p.pid && WIFSTOPPED(status));
	while (counts_of(&u.end).near_lost < 3)
		send_number(&u, ++sent, BYTES, p.number);
	expect_exchange(&u, &other, 1);
	n = counts_of(&u.end);
	EXPECT_EQ(n.near_out, 1 + sent - 3 + 1);
	EXPECT_EQ(n.near_lost, 3);
	/* What found room has not been lost, and comes in order. */
	process_do(&p, COLLECT);
	REQUIRE(kill(p.pid, SIGCONT) == 0);
	for (uint64_t lost = UINT64_MAX; lost != counts_of(&u.end).near_lost;) {
		lost = counts_of(&u.end).near_lost;
		send_number(&u, LAST, BYTES, p.number);
	}
	hear(p.from[0], &count, sizeof(count));
	EXPECT_EQ(count, sent - 3);
	process_kill(&p);
	ud_close(&u);
	ud_close(&other);
}

static uint32_t offers_of(const struct ud *u)
{
	uint32_t offers;

	adapter_enter(u->end.adapter);
	offers = roce_of(u->end.adapter->net)->near->outs_made;
	adapter_leave(u->end.adapter);
	return offers;
}

/* It has no descriptors left for the ring. */
TEST(test_near_datagrams_to_a_process_that_refuses_go_by_udp)
{
	enum { DATAGRAMS = 20, EACH_NS = 10000000, SECOND_NS = 1000000000 };
	uint64_t begin = thread_now_ns();
	struct process p;
	struct ud u;
	enum order order;
	uint32_t count;

	WORLD_OR_SKIP();
	process_fork(&p);
	ud_open(&u, roce_adapter_open());
	process_do(&p, EXHAUST);
	hear(p.from[0], &order, sizeof(order));
	process_do(&p, COLLECT);
	for (uint32_t i = 1; i <= DATAGRAMS; i++) {
		uint64_t since = thread_now_ns();

		send_number(&u, i, BYTES, p.number);
		while (thread_now_ns() - since < EACH_NS) /* other lookups are repeated sooner */
			sched_yield();
	}
	send_number(&u, LAST, BYTES, p.number);
	hear(p.from[0], &count, sizeof(count));
	EXPECT_EQ(count, DATAGRAMS);
	EXPECT_EQ(counts_of(&u.end).near_out, 0);
	EXPECT(counts_of(&u.end).calls_out > 0);
	EXPECT_EQ(counts_of(&u.end).near_lost, 0);
	/* It was not asked again and again: a refusal holds for a second. */
	EXPECT(offers_of(&u) <= 2 + (thread_now_ns() - begin) / SECOND_NS);
	process_kill(&p);
	ud_close(&u);
}
