/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that watches the sockets itself, in the place of the adapter's thread: the roles of
 * directed I/O do. Links that it asked often are not watched by epoll; it must be woken by these
 * too. Without that it would look once in a second: so what is looked at is how long it took, the
 * least of some tries. A machine that is busy is given more of them.
 */
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "driver/tcp/link.h"
#include "live/verbs_fixture.h"

enum { TRIES = 4, RECEIVES = 64, ASKS = 2 * HOT_ASKED };

static const uint64_t ms = 1000000;

static struct tcp_end near, far;
static bool has_left; /* something to be sent, when the near end woke up last */

/* ---- The near end, which leads -------------------------------------------------------------- */

/* The lock is held. */
static struct link *link_of(const struct weft_qp *qp)
{
	struct net *net = near.adapter->net;

	for (struct list *l = tcp_of(net)->links.next; l != &tcp_of(net)->links; l = l->next) {
		struct link *link = CONTAINER_OF(l, struct link, all_link);

		if (link->qp == qp)
			return link;
	}
	REQUIRE(false);
	return NULL;
}

static bool is_watched(const struct node *n)
{
	bool is;

	adapter_enter(near.adapter);
	is = link_of(n->qp)->watch.interest != 0;
	adapter_leave(near.adapter);
	return is;
}

static bool is_led(void)
{
	bool is;

	adapter_enter(near.adapter);
	is = near.adapter->net->is_led;
	adapter_leave(near.adapter);
	return is;
}

/* True: something has happened at the descriptor. */
static bool lead(int also, uint64_t ns)
{
	struct weft_adapter *a = near.adapter;
	bool is_also;

	adapter_enter(a);
	if (a->net->is_waiting)
		adapter_work(a);
	is_also = progress_sleep(a->net, also, thread_now_ns() + ns);
	has_left = !list_is_empty(&tcp_of(a->net)->attention[STREAM_IWARP]);
	adapter_leave(a);
	return is_also;
}

/* A completion that is there, without a look at sockets. */
static bool has_heard(const struct node *n)
{
	struct weft_completion c;
	uint32_t count;

	adapter_enter(near.adapter);
	REQUIRE(cq_poll(n->cq, &c, 1, &count) == WEFT_OK);
	adapter_leave(near.adapter);
	REQUIRE(count == 0 || c.status == WEFT_SUCCESS);
	return count > 0;
}

static bool has_event(void)
{
	struct weft_event e;
	bool has;

	adapter_enter(near.adapter);
	has = event_pop(&near.adapter->core.events, &e);
	adapter_leave(near.adapter);
	return has;
}

static void post_receives(struct node *n, int count)
{
	const struct weft_sge s = node_seg(n, 0, 8);
	const struct weft_recv_wr wr = { .sges = &s, .sge_count = 1 };

	for (int i = 0; i < count; i++)
		MUST(weft_qp_post_recv(n->qp, &wr, 1, NULL));
}

static void say(struct node *from)
{
	const struct weft_sge s = node_seg(from, 0, 8);
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &s, .sge_count = 1 };

	(void)weft_qp_post_send(from->qp, &wr, 1, NULL);
}

static void hear(struct node *n)
{
	uint64_t end = thread_now_ns() + PATIENCE_NS;

	while (!has_heard(n)) {
		REQUIRE(thread_now_ns() < end);
		lead(-1, ms);
	}
}

/* As polls do one after the other, while the thread leaves it to them; nothing comes between. */
static void ask_often(void)
{
	adapter_enter(near.adapter);
	for (int i = 0; i < ASKS && progress_is_aside(near.adapter->net); i++)
		adapter_poll(near.adapter, NULL);
	adapter_leave(near.adapter);
}

/* It has input, is asked by polls while the program leads, and is no longer watched. */
static void make_unwatched(struct node *n, struct node *peer)
{
	uint64_t end = thread_now_ns() + PATIENCE_NS;

	while (is_watched(n)) {
		REQUIRE(thread_now_ns() < end);
		say(peer);
		hear(n);
		post_receives(n, 1);
		ask_often();
	}
}

static void open_both(void)
{
	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
	post_receives(&near.node, RECEIVES);
}

static void close_both(void)
{
	tcp_end_close(&near);
	tcp_end_close(&far);
}

/* ---- What happens while it sleeps ----------------------------------------------------------- */

struct deed {
	void (*act)(void); /* by another thread, once the near end sleeps */
	uint64_t at_ns;
	bool was_watched; /* the near link, then */
};

static void *do_deed(void *context)
{
	struct deed *d = context;
	uint64_t end = thread_now_ns() + PATIENCE_NS;

	while (!is_led() && thread_now_ns() < end)
		sched_yield();
	d->was_watched = is_watched(&near.node);
	d->at_ns = thread_now_ns();
	d->act();
	return NULL;
}

/* Leads until it is so; how long that took since it was acted, which tells who was watched then. */
static uint64_t time_since(bool (*is_so)(void), struct deed *d)
{
	uint64_t end = thread_now_ns() + PATIENCE_NS, now_ns;
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, do_deed, d) == 0);
	while (!is_so()) {
		REQUIRE(thread_now_ns() < end);
		lead(-1, 10 * 1000 * ms);
	}
	now_ns = thread_now_ns();
	REQUIRE(pthread_join(thread, NULL) == 0);
	return now_ns - d->at_ns;
}

static uint64_t time_until(bool (*is_so)(void), void (*act)(void))
{
	return time_since(is_so, &(struct deed){ .act = act });
}

/* UINT64_MAX: the near link was watched again before, which proves nothing. */
static uint64_t time_unwatched(bool (*is_so)(void), void (*act)(void))
{
	struct deed d = { .act = act };
	uint64_t took = time_since(is_so, &d);

	return d.was_watched ? UINT64_MAX : took;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Much less than the second after which a thread would poll anyway. */
static bool is_soon(uint64_t took)
{
	return took < 500 * ms;
}

/*
 * Some tries; and more, where none was soon and the test is not old yet. One that is soon is
 * enough: what is looked at only once in a second never is.
 */
static bool tries_again(int tried, uint64_t least_so_far, uint64_t since)
{
	return tried < TRIES ||
	       (!is_soon(least_so_far) && thread_now_ns() - since < 3 * PATIENCE_NS);
}

static void far_says(void)
{
	say(&far.node);
}

static bool near_has_heard(void)
{
	return has_heard(&near.node);
}

TEST(test_iwarp_07_who_leads_is_woken_by_a_link_that_is_not_watched)
{
	uint64_t took = UINT64_MAX, since = thread_now_ns();

	open_both();
	for (int i = 0; tries_again(i, took, since); i++) {
		make_unwatched(&near.node, &far.node);
		took = least(took, time_unwatched(near_has_heard, far_says));
	}
	EXPECT(is_soon(took));
	close_both();
}

/* What has come has been received when it wakes up: it need not look again. */
TEST(test_iwarp_07_who_leads_has_received_what_woke_it)
{
	uint64_t leads = UINT64_MAX, since = thread_now_ns();

	open_both();
	for (int i = 0; tries_again(i, leads == 1 ? 0 : UINT64_MAX, since); i++) {
		uint64_t before;

		make_unwatched(&near.node, &far.node);
		before = near.adapter->net->leads;
		(void)time_until(near_has_heard, far_says);
		leads = least(leads, near.adapter->net->leads - before);
	}
	EXPECT_EQ(leads, 1U);
	close_both();
}

static void far_reads(void)
{
	const struct weft_sge s = node_seg(&far.node, 0, 8);
	struct weft_send_wr read = node_wr(WEFT_OP_READ, 0, &s, &near.node);

	(void)node_post(&far.node, &read);
}

static uint64_t requests_before;

static bool is_asked(void)
{
	struct weft_traffic t;

	MUST(weft_qp_traffic(near.node.qp, &t));
	return t.messages_in > requests_before;
}

/* And answered, if it was a question: the thread would do so only later. */
TEST(test_iwarp_07_who_leads_has_answered_what_woke_it)
{
	open_both();
	for (int i = 0; i < TRIES; i++) {
		struct weft_completion c;
		struct weft_traffic t;

		make_unwatched(&near.node, &far.node);
		MUST(weft_qp_traffic(near.node.qp, &t));
		requests_before = t.messages_in;
		(void)time_until(is_asked, far_reads);
		EXPECT(!has_left);
		REQUIRE(node_take(far.node.cq, &c));
	}
	close_both();
}

static void far_disconnects(void)
{
	(void)weft_qp_disconnect(far.node.qp);
}

static void far_breaks(void)
{
	(void)weft_qp_modify(far.node.qp, &(struct weft_qp_attr){ .state = WEFT_QPS_RESET },
			     WEFT_QP_STATE);
}

TEST(test_rfc5044_8_who_leads_hears_of_the_end_of_a_link_that_is_not_watched)
{
	static void (*const ends[])(void) = { far_disconnects, far_breaks };

	for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++) {
		uint64_t took = UINT64_MAX, since = thread_now_ns();

		for (int i = 0; tries_again(i, took, since); i++) {
			open_both();
			while (has_event())
				continue;
			make_unwatched(&near.node, &far.node);
			took = least(took, time_unwatched(has_event, ends[k]));
			close_both();
		}
		EXPECT(is_soon(took));
	}
}

/* ---- Two links ------------------------------------------------------------------------------ */

static struct node cold, cold_far;
static bool has_cold, has_near;

static void open_cold(void)
{
	struct tcp_end x = near, y = far;

	node_open(near.adapter, &cold, NULL);
	node_open(far.adapter, &cold_far, NULL);
	x.node = cold;
	y.node = cold_far;
	tcp_ends_connect(&x, &y, NULL);
	post_receives(&cold, RECEIVES);
}

static void cold_says(void)
{
	say(&cold_far);
}

static bool cold_has_heard(void)
{
	return has_heard(&cold);
}

static void both_say(void)
{
	say(&cold_far);
	say(&far.node);
}

static bool both_have_heard(void)
{
	has_cold = has_cold || has_heard(&cold);
	has_near = has_near || has_heard(&near.node);
	return has_cold && has_near;
}

TEST(test_iwarp_07_who_leads_is_woken_by_a_link_that_was_silent)
{
	uint64_t took = UINT64_MAX, took_both = UINT64_MAX, since = thread_now_ns();

	open_both();
	open_cold();
	for (int i = 0; tries_again(i, took > took_both ? took : took_both, since); i++) {
		make_unwatched(&near.node, &far.node);
		took = least(took, time_unwatched(cold_has_heard, cold_says));
		/* And when both speak: none is forgotten for the other. */
		make_unwatched(&near.node, &far.node);
		has_cold = has_near = false;
		took_both = least(took_both, time_unwatched(both_have_heard, both_say));
	}
	EXPECT(is_soon(took));
	EXPECT(is_soon(took_both));
	node_close(&cold, NULL);
	node_close(&cold_far, NULL);
	close_both();
}

enum { LOOKS = 200 };

/* How often the adapter looks at a link that always has input before it sees the silent one's. */
static void look_until_cold_is_heard(int *looks)
{
	struct pollfd busy = { .events = POLLIN };

	*looks = 0;
	make_unwatched(&near.node, &far.node);
	adapter_enter(near.adapter);
	busy.fd = link_of(near.node.qp)->watch.fd;
	say(&cold_far);
	while (cold.cq->count == 0 && *looks < LOOKS) {
		const struct weft_sge from = node_seg(&far.node, 0, 8);
		struct weft_send_wr write = node_wr(WEFT_OP_WRITE, 0, &from, &near.node);

		write.flags = 0;
		REQUIRE(node_post(&far.node, &write));
		REQUIRE(poll(&busy, 1, (int)(PATIENCE_NS / ms)) == 1);
		adapter_watch(near.adapter);
		(*looks)++;
	}
	adapter_leave(near.adapter);
}

/*
 * However busy one link is, the other gets its turn; no other thread polls meanwhile. On a machine
 * that others use, its turn may have come when it speaks.
 */
TEST(test_iwarp_07_a_busy_link_does_not_keep_a_silent_one_from_its_turn)
{
	uint64_t since = thread_now_ns();
	int looks = 0;

	open_both();
	while (looks <= 1 && thread_now_ns() - since < 3 * PATIENCE_NS) {
		open_cold(); /* one that has spoken is silent no more */
		look_until_cold_is_heard(&looks);
		hear(&cold);
		node_close(&cold, NULL);
		node_close(&cold_far, NULL);
	}
	EXPECT(looks > 1); /* the busy one had input */
	EXPECT(looks < LOOKS);
	close_both();
}

/* ---- The descriptor that it has besides ----------------------------------------------------- */

static int also;

static void write_also(void)
{
	const uint64_t one = 1;

	(void)!write(also, &one, sizeof(one));
}

TEST(test_qp_10_leader_learns_whether_its_descriptor_woke_it)
{
	struct deed d = { .act = write_also };
	uint64_t end = thread_now_ns() + PATIENCE_NS, count;
	pthread_t thread;

	also = eventfd(0, EFD_NONBLOCK);
	REQUIRE(also >= 0);
	open_both();
	make_unwatched(&near.node, &far.node);
	EXPECT(!lead(also, ms)); /* by time */
	REQUIRE(pthread_create(&thread, NULL, do_deed, &d) == 0);
	while (!lead(also, 10 * 1000 * ms))
		REQUIRE(thread_now_ns() < end);
	REQUIRE(pthread_join(thread, NULL) == 0);
	EXPECT(read(also, &count, sizeof(count)) == sizeof(count));
	say(&far.node);
	while (!has_heard(&near.node)) {
		REQUIRE(thread_now_ns() < end);
		EXPECT(!lead(also, 10 * 1000 * ms)); /* by the link */
	}
	close_both();
	close(also);
}

/* ---- The thread, whose place the program takes ---------------------------------------------- */

static bool is_thread(enum progress_state state)
{
	bool is;

	adapter_enter(near.adapter);
	is = near.adapter->net->state == state;
	adapter_leave(near.adapter);
	return is;
}

static bool thread_becomes(enum progress_state state)
{
	uint64_t end = thread_now_ns() + PATIENCE_NS;

	while (!is_thread(state) && thread_now_ns() < end)
		sched_yield();
	return is_thread(state);
}

static bool was_idle;

static void write_also_when_idle(void)
{
	was_idle = thread_becomes(PROGRESS_IDLE);
	write_also();
}

TEST(test_qp_10_thread_sleeps_while_the_program_does_and_takes_over_when_it_is_gone)
{
	struct deed d = { .act = write_also_when_idle };
	uint64_t end = thread_now_ns() + 2 * PATIENCE_NS;
	pthread_t thread;

	also = eventfd(0, EFD_NONBLOCK);
	REQUIRE(also >= 0);
	open_both();
	REQUIRE(pthread_create(&thread, NULL, do_deed, &d) == 0);
	while (!lead(also, 10 * 1000 * ms))
		REQUIRE(thread_now_ns() < end);
	EXPECT(!is_thread(PROGRESS_IDLE));
	REQUIRE(pthread_join(thread, NULL) == 0);
	EXPECT(was_idle);
	EXPECT(thread_becomes(PROGRESS_WATCHING));
	close_both();
	close(also);
}

/* ---- Others that poll meanwhile ------------------------------------------------------------- */

static bool was_watched;

/* As often as makes a link one that is not watched. */
static void poll_and_say(void)
{
	struct weft_completion c;
	uint32_t count;

	for (int i = 0; i < ASKS; i++)
		(void)weft_cq_poll(near.node.cq, &c, 1, &count);
	was_watched = is_watched(&near.node);
	say(&far.node);
}

/* The one who sleeps does not know of it: it is watched until he looks again. */
TEST(test_iwarp_07_a_link_stays_watched_while_another_leads)
{
	uint64_t took = UINT64_MAX, since = thread_now_ns();

	open_both();
	for (int i = 0; tries_again(i, took, since); i++) {
		make_unwatched(&near.node, &far.node);
		adapter_enter(near.adapter);
		net_hot_watch(near.adapter->net);
		adapter_leave(near.adapter);
		REQUIRE(is_watched(&near.node));
		took = least(took, time_until(near_has_heard, poll_and_say));
		EXPECT(was_watched);
	}
	EXPECT(is_soon(took));
	close_both();
}

/* What it had to send is sent, by another: it is asked for input alone again. */
static void unblock_and_say(void)
{
	adapter_enter(near.adapter);
	link_watch(link_of(near.node.qp), EPOLLIN);
	adapter_leave(near.adapter);
	was_watched = is_watched(&near.node);
	say(&far.node);
}

TEST(test_iwarp_07_a_link_that_is_unblocked_stays_watched_while_another_leads)
{
	uint64_t took = UINT64_MAX, since = thread_now_ns();

	open_both();
	for (int i = 0; tries_again(i, took, since); i++) {
		make_unwatched(&near.node, &far.node);
		adapter_enter(near.adapter); /* as if its socket were full, but never ready */
		link_watch(link_of(near.node.qp), EPOLLIN | EPOLLPRI);
		adapter_leave(near.adapter);
		took = least(took, time_until(near_has_heard, unblock_and_say));
		EXPECT(was_watched);
	}
	EXPECT(is_soon(took));
	close_both();
}
