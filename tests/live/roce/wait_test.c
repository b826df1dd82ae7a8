/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An acknowledgement waits, once, for what a program that polls posts next: with that, with the
 * next poll, or by the thread it goes. The peers have no timeouts: what is held for good ends no
 * test.
 */
#include <sched.h>
#include <unistd.h>

#include "driver/roce/roce.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { POLLS_ENOUGH = 8 };

static struct weft_adapter *a, *b;
static struct node from, to; /* the peer, and who polls */
static uint8_t round_number;

static void start(struct weft_qp *qp, const struct weft_qp *peer)
{
	struct weft_roce_attr way = roce_way(weft_qp_number(peer));

	way.timeout_code = 0;
	roce_start(qp, &way);
}

static void open_both(void)
{
	a = roce_adapter_open_udp();
	b = roce_adapter_open_udp();
	node_open(a, &from, NULL);
	node_open(b, &to, NULL);
	start(from.qp, to.qp);
	start(to.qp, from.qp);
}

static void close_both(void)
{
	node_close(&from, NULL);
	node_close(&to, NULL);
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}

static struct weft_roce_counts counts(void)
{
	struct weft_roce_counts counts;

	adapter_enter(b);
	roce_tell(roce_of(b->net), &counts);
	adapter_leave(b);
	return counts;
}

/*
 * The thread stands by, and does nothing until it is told: only the program's calls send. The
 * program has promised to come back if is_driven, else the thread does not know of that.
 */
static void still_the_thread(bool is_driven)
{
	uint64_t since = thread_now_ns();
	const uint64_t one = 1;
	bool is_idle = false;

	adapter_enter(b);
	progress_lead(b->net, true);
	b->net->is_woken = write(b->net->wake.fd, &one, sizeof(one)) > 0;
	while (!is_idle && thread_now_ns() - since < PATIENCE_NS) {
		(void)progress_sleep(b->net, -1, net_look_at_clock(b->net) + 1000000);
		is_idle = b->net->state == PROGRESS_IDLE;
	}
	is_idle = is_idle && progress_is_aside(b->net);
	b->net->is_driven = is_driven;
	adapter_leave(b);
	REQUIRE(is_idle);
}

static void free_the_thread(void)
{
	adapter_enter(b);
	progress_lead(b->net, false);
	adapter_leave(b);
}

static void post(struct node *n, const struct node *peer, enum weft_opcode opcode)
{
	const struct weft_sge s = node_seg(n, 0, 1);
	struct weft_send_wr wr = node_wr(opcode, 1, &s, peer);

	REQUIRE(node_post(n, &wr));
}

/* The peer writes; polls until it is there. What the last of them sent is for the test to see. */
static void poll_for_a_write(void)
{
	uint64_t since = thread_now_ns();
	struct weft_completion c;
	bool has_one = false;

	from.memory[0] = ++round_number;
	post(&from, &to, WEFT_OP_WRITE);
	while (__atomic_load_n(to.memory, __ATOMIC_ACQUIRE) != round_number) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		REQUIRE(node_poll(to.cq, &c, &has_one) && !has_one);
	}
}

static void poll_once(void)
{
	struct weft_completion c;
	bool has_one;

	REQUIRE(node_poll(to.cq, &c, &has_one) && !has_one);
}

/* The peer has its acknowledgement. */
static void expect_acknowledged(void)
{
	struct weft_completion c;

	REQUIRE(node_take(from.cq, &c));
}

TEST(test_roce_an_acknowledgement_goes_with_what_is_posted_next)
{
	const char *why_not = own_network_enter();
	struct weft_roce_counts before, held, after;
	struct weft_completion c;

	if (why_not)
		SKIP(why_not);
	open_both();
	still_the_thread(false);
	before = counts();
	poll_for_a_write();
	held = counts();
	post(&to, &from, WEFT_OP_WRITE);
	after = counts();
	expect_acknowledged();
	REQUIRE(node_take(to.cq, &c));
	free_the_thread();
	close_both();
	EXPECT_EQ(held.packets_out, before.packets_out);
	EXPECT_EQ(after.packets_out, held.packets_out + 2);
	EXPECT_EQ(after.calls_out, held.calls_out + 1);
}

TEST(test_roce_an_acknowledgement_waits_for_one_poll_only)
{
	const char *why_not = own_network_enter();
	struct weft_roce_counts held, after;

	if (why_not)
		SKIP(why_not);
	open_both();
	still_the_thread(false);
	for (int i = 0; i < 3; i++) {
		poll_for_a_write();
		held = counts();
		poll_once();
		after = counts();
		REQUIRE(after.packets_out == held.packets_out + 1);
		expect_acknowledged();
	}
	free_the_thread();
	close_both();
}

/* A program that has what it wanted may not poll again. */
TEST(test_roce_a_poll_that_finds_something_acknowledges_it)
{
	const char *why_not = own_network_enter();
	const struct weft_recv_wr recv = { .id = 7 };
	struct weft_roce_counts before, after;
	uint64_t since = thread_now_ns();
	struct weft_send_wr wr;
	struct weft_completion c;
	bool has_one = false;

	if (why_not)
		SKIP(why_not);
	open_both();
	MUST(weft_qp_post_recv(to.qp, &recv, 1, NULL));
	still_the_thread(false);
	before = counts();
	wr = node_wr(WEFT_OP_SEND, 1, NULL, &to);
	REQUIRE(node_post(&from, &wr));
	while (!has_one) {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		REQUIRE(node_poll(to.cq, &c, &has_one));
	}
	after = counts();
	expect_acknowledged();
	free_the_thread();
	close_both();
	EXPECT_EQ(after.packets_out, before.packets_out + 1);
}

/* The peer sends: a receive completes at who polls. Opens both ends. */
static void send_to_driver(void)
{
	static const struct weft_recv_wr recv = { .id = 7 };
	struct weft_send_wr wr;

	open_both();
	MUST(weft_qp_post_recv(to.qp, &recv, 1, NULL));
	still_the_thread(true);
	wr = node_wr(WEFT_OP_SEND, 1, NULL, &to);
	REQUIRE(node_post(&from, &wr));
}

TEST(test_roce_a_program_that_drives_acknowledges_what_it_answers_with_the_answer)
{
	const char *why_not = own_network_enter();
	struct weft_roce_counts held, after;
	struct weft_completion c;

	if (why_not)
		SKIP(why_not);
	send_to_driver();
	REQUIRE(node_take(to.cq, &c));
	held = counts();
	post(&to, &from, WEFT_OP_WRITE);
	after = counts();
	expect_acknowledged();
	REQUIRE(node_take(to.cq, &c));
	free_the_thread();
	close_both();
	EXPECT_EQ(held.packets_out, 0);
	EXPECT_EQ(after.packets_out, 2);
	EXPECT_EQ(after.calls_out, held.calls_out + 1);
}

TEST(test_roce_a_program_that_drives_acknowledges_before_it_sleeps)
{
	const char *why_not = own_network_enter();
	struct weft_roce_counts woken, held, after;
	struct weft_completion c;
	bool has_one;

	if (why_not)
		SKIP(why_not);
	send_to_driver();
	MUST(weft_cq_wait(to.cq, -1, PATIENCE_NS, NULL));
	woken = counts();
	REQUIRE(node_poll(to.cq, &c, &has_one) && has_one);
	held = counts();
	MUST(weft_cq_wait(to.cq, -1, 0, NULL));
	after = counts();
	expect_acknowledged();
	free_the_thread();
	close_both();
	EXPECT_EQ(held.calls_in, woken.calls_in); /* the wait has just read the sockets */
	EXPECT_EQ(held.packets_out, 0);
	EXPECT_EQ(after.packets_out, 1);
}

/* Polls until a packet has come; how many went out meanwhile. */
static uint64_t sent_by_the_poll_that_takes(struct weft_send_wr *wr)
{
	struct weft_roce_counts before = counts(), after;
	uint64_t since = thread_now_ns();

	REQUIRE(node_post(&from, wr));
	do {
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		poll_once();
		after = counts();
	} while (after.packets_in == before.packets_in);
	return after.packets_out - before.packets_out;
}

/* For an answer the peer waits, and for word that it must wait. */
TEST(test_roce_only_acknowledgements_wait)
{
	const char *why_not = own_network_enter();
	const struct weft_recv_wr recv = { .id = 7 };
	struct weft_send_wr wr;
	struct weft_sge s;
	struct weft_completion c;
	uint64_t answered, not_ready;

	if (why_not)
		SKIP(why_not);
	open_both();
	still_the_thread(false);
	s = node_seg(&from, 0, 1);
	wr = node_wr(WEFT_OP_READ, 1, &s, &to);
	answered = sent_by_the_poll_that_takes(&wr);
	expect_acknowledged();
	wr = node_wr(WEFT_OP_SEND, 1, NULL, &to);
	not_ready = sent_by_the_poll_that_takes(&wr);
	MUST(weft_qp_post_recv(to.qp, &recv, 1, NULL));
	REQUIRE(node_take(to.cq, &c));
	expect_acknowledged();
	free_the_thread();
	close_both();
	EXPECT_EQ(answered, 1);
	EXPECT_EQ(not_ready, 1);
}

/* Many polls, for all that the thread knows: it waits for its time to look again. */
static bool enter_standing_by(void)
{
	uint64_t since = thread_now_ns();
	struct net *net = b->net;

	for (;;) {
		adapter_enter(b);
		if (progress_is_aside(net) && net->is_all_due)
			return true;
		net->state = PROGRESS_STANDING_BY;
		net->favour = 1;
		b->polls += POLLS_ENOUGH;
		if (thread_now_ns() - since > PATIENCE_NS)
			return false;
		adapter_leave(b);
		sched_yield();
	}
}

/* As a poll of the program that finds no completion, and is one of many; the lock is held. */
static bool hold_one(void)
{
	struct net *net = b->net;
	uint64_t since = thread_now_ns(), out = ib_port_counts(roce_of(net)->port)->packets_out;

	from.memory[0] = ++round_number;
	post(&from, &to, WEFT_OP_WRITE);
	while (to.memory[0] != round_number && thread_now_ns() - since < PATIENCE_NS)
		adapter_poll(b, to.cq);
	b->polls += POLLS_ENOUGH;
	return net->is_waiting && ib_port_counts(roce_of(net)->port)->packets_out == out;
}

/* Whether it went while the thread took polls for likely: it had not waited until it did not. */
static bool is_sent_standing_by(uint64_t out_before)
{
	uint64_t since = thread_now_ns(), out = out_before;
	bool is_standing_by = false;

	while (out == out_before && thread_now_ns() - since < PATIENCE_NS) {
		adapter_enter(b);
		out = ib_port_counts(roce_of(b->net)->port)->packets_out;
		is_standing_by = progress_is_aside(b->net);
		adapter_leave(b);
	}
	return out == out_before + 1 && is_standing_by;
}

/*
 * A program that neither polls nor posts again. The thread sends it after a fraction of the time
 * for which it stands by; on a busy machine it may be seen too late to tell, and is tried again.
 */
TEST(test_roce_an_acknowledgement_that_waits_in_vain_goes_by_itself)
{
	const char *why_not = own_network_enter();
	uint64_t since = thread_now_ns();
	bool is_soon = false;

	if (why_not)
		SKIP(why_not);
	open_both();
	while (!is_soon) {
		bool is_held;
		uint64_t out;

		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		is_held = enter_standing_by() && hold_one();
		out = ib_port_counts(roce_of(b->net)->port)->packets_out;
		adapter_leave(b);
		REQUIRE(is_held);
		is_soon = is_sent_standing_by(out);
		expect_acknowledged();
	}
	close_both();
}
