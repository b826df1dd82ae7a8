/* SPDX-License-Identifier: BSD-2-Clause */
/* What lies in a socket of RoCE when a deadline passes has come in time; what a program is told. */
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "driver/roce/roce_packets.h"
#include "driver/sys/clock.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"
#include "udp_look.h"

enum { SLOTS = 254, PAIRS = 3, LOOKS_MAX = 100000, UNUSED_QPN = 0xff0042 };

static struct weft_adapter *a, *b;
static struct node nodes_a[PAIRS], nodes_b[PAIRS];

/* Of the last one of a, or 0. */
static uint64_t rate_bps;

/* Pairs of two queue pairs; the last one of a has a peer that does not exist. */
static void open_all(void)
{
	a = roce_adapter_open_udp();
	b = roce_adapter_open_udp();
	for (int i = 0; i < PAIRS; i++) {
		node_open(a, &nodes_a[i], i ? &nodes_a[0] : NULL);
		node_open(b, &nodes_b[i], i ? &nodes_b[0] : NULL);
	}
	for (int i = 0; i < PAIRS; i++) {
		bool is_last = i == PAIRS - 1;
		struct weft_roce_attr there = roce_way(is_last ? UNUSED_QPN
							       : weft_qp_number(nodes_b[i].qp));
		const struct weft_roce_attr back = roce_way(weft_qp_number(nodes_a[i].qp));

		if (is_last && rate_bps > 0) {
			there.rate_bps = rate_bps;
			there.timeout_code = 0; /* never: only the rate has a deadline */
		}
		roce_start(nodes_a[i].qp, &there);
		roce_start(nodes_b[i].qp, &back);
	}
}

static void close_all(void)
{
	for (int i = PAIRS - 1; i >= 0; i--) {
		node_close(&nodes_a[i], i ? &nodes_a[0] : NULL);
		node_close(&nodes_b[i], i ? &nodes_b[0] : NULL);
	}
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}

/* A byte that says so. */
static void post_write(struct node *from, const struct node *to, uint32_t at, uint8_t value)
{
	const struct weft_sge s = node_seg(from, at, 1);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &s, to);

	from->memory[at] = value;
	wr.remote_addr += at;
	REQUIRE(node_post(from, &wr));
}

static void write_of_each(uint32_t count)
{
	struct weft_completion c;

	for (uint32_t i = 0; i < count; i++)
		post_write(&nodes_b[i], &nodes_a[i], i, 1);
	for (uint32_t i = 0; i < count; i++)
		REQUIRE(node_take(nodes_b[0].cq, &c));
}

/* As polls do that go on and on. The lock is held: the thread does not change it back. */
static void unwatch(struct roce *r, uint32_t count)
{
	struct pollfd fds[8];

	udp_stand_by(r->udp, true);
	for (uint32_t i = 0; i < LOOKS_MAX && udp_unwatched(r->udp, fds, 8) < count; i++)
		(void)roce_input(r, true);
	REQUIRE(udp_unwatched(r->udp, fds, 8) >= count);
}

static void await_deadline(struct net *net, uint64_t due)
{
	REQUIRE(due != UINT64_MAX);
	while (net_look_at_clock(net) < due) {
		const struct timespec left = to_timespec(due - net->now_ns);

		nanosleep(&left, NULL);
	}
}

TEST(test_roce_before_a_deadline_passes_all_sockets_are_read)
{
	const char *why_not = own_network_enter();
	struct net *net;
	int came = 0;

	if (why_not)
		SKIP(why_not);
	open_all();
	write_of_each(PAIRS - 1);
	post_write(&nodes_a[PAIRS - 1], &nodes_b[0], PAIRS, 1); /* again and again */
	adapter_enter(a);
	net = a->net;
	unwatch(roce_of(net), PAIRS - 1);
	for (uint32_t i = 0; i < PAIRS - 1; i++)
		post_write(&nodes_b[i], &nodes_a[i], i, 2);
	await_deadline(net, net_due(net));
	(void)net_poll(net, false);
	for (int i = 0; i < PAIRS - 1; i++)
		came += nodes_a[i].memory[i] == 2;
	adapter_leave(a);
	close_all();
	EXPECT_EQ(came, PAIRS - 1);
}

TEST(test_roce_a_program_learns_what_was_carried)
{
	const char *why_not = own_network_enter();
	struct weft_roce_counts n;
	struct weft_traffic t;
	uint64_t dropped = 1;

	if (why_not)
		SKIP(why_not);
	open_all();
	EXPECT_EQ(weft_roce_dropped(a, WEFT_REASON_COUNT, &dropped), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_roce_dropped(a, WEFT_R_IB_ICRC, NULL), WEFT_R_NULL_ARGUMENT);
	write_of_each(PAIRS - 1);
	for (int i = 0; i < PAIRS; i++) {
		uint64_t writes = i < PAIRS - 1;

		MUST(weft_qp_traffic(nodes_b[i].qp, &t));
		EXPECT_EQ(t.messages_out, writes);
		EXPECT_EQ(t.payload_out, writes);
		EXPECT(t.frames_out >= writes && t.bytes_out >= 36 * writes);
		MUST(weft_qp_traffic(nodes_a[i].qp, &t));
		EXPECT_EQ(t.messages_in, writes);
		EXPECT_EQ(t.payload_in, writes);
		EXPECT_EQ(t.messages_out, 0);
	}
	MUST(weft_roce_query(a, &n));
	EXPECT_EQ(n.messages_in, PAIRS - 1);
	EXPECT(n.bytes_in >= 36 * (PAIRS - 1) && n.packets_in >= PAIRS - 1);
	MUST(weft_roce_dropped(a, WEFT_R_IB_ICRC, &dropped));
	EXPECT_EQ(dropped, 0);
	close_all();
}

TEST(test_roce_a_queue_pair_that_was_never_connected_has_no_traffic)
{
	const char *why_not = own_network_enter();
	struct weft_traffic t;
	struct node n;
	uint64_t dropped;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	node_open(a, &n, NULL);
	EXPECT_EQ(weft_roce_dropped(a, WEFT_R_IB_ICRC, &dropped), WEFT_R_ROCE_CLOSED);
	EXPECT_EQ(weft_qp_traffic(n.qp, &t), WEFT_R_QP_UNCONNECTED);
	node_close(&n, NULL);
	MUST(weft_adapter_close(a));
}

/* Its number is of another slot: packets to it would find another adapter, or none. */
TEST(test_roce_a_queue_pair_of_before_the_port_is_refused)
{
	const struct weft_roce_attr way = roce_way(UNUSED_QPN);
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	b = roce_adapter_open(); /* it takes the first slot */
	MUST(weft_adapter_open(NULL, &a));
	node_open(a, &nodes_a[0], NULL);
	MUST(weft_roce_open(a));
	node_open(a, &nodes_a[1], &nodes_a[0]);
	EXPECT_EQ(weft_qp_to_rtr(nodes_a[0].qp, &way), WEFT_R_QP_SLOT);
	EXPECT_EQ(weft_qp_to_rtr(nodes_a[1].qp, &way), WEFT_OK);
	node_close(&nodes_a[1], &nodes_a[0]);
	node_close(&nodes_a[0], NULL);
	MUST(weft_adapter_close(a));
	MUST(weft_adapter_close(b));
}

/* The slots of a host are 254, and an adapter that is closed gives its slot back. */
TEST(test_roce_more_adapters_than_slots_are_refused)
{
	static const struct weft_adapter_options small = { .tags_max = 64, .translations_max = 64 };
	static struct weft_adapter *all[SLOTS + 1];
	const char *why_not = own_network_enter();
	struct rlimit before, most;

	if (why_not)
		SKIP(why_not);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	most = before;
	most.rlim_cur = most.rlim_max;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &most) == 0);
	for (int i = 0; i <= SLOTS; i++) {
		MUST(weft_adapter_open(&small, &all[i]));
		EXPECT_EQ(weft_roce_open(all[i]), i < SLOTS ? WEFT_OK : WEFT_R_ROCE_SLOTS);
	}
	MUST(weft_adapter_close(all[0]));
	EXPECT_EQ(weft_roce_open(all[SLOTS]), WEFT_OK);
	for (int i = 1; i <= SLOTS; i++)
		MUST(weft_adapter_close(all[i]));
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

/* A rate-limited sender continues when its time has come, without input from the peer. */
TEST(test_roce_a_rate_does_not_wait_for_what_comes)
{
	const char *why_not = own_network_enter();
	struct weft_sge s;
	struct weft_send_wr wr;
	struct net *net;
	uint64_t before;
	int came = 0;

	if (why_not)
		SKIP(why_not);
	rate_bps = 200 * 1000; /* a packet in 43 ms, 64 of them */
	open_all();
	write_of_each(PAIRS - 1);
	s = node_seg(&nodes_a[PAIRS - 1], 0, NODE_BYTES);
	wr = node_wr(WEFT_OP_WRITE, 1, &s, &nodes_b[0]);
	REQUIRE(node_post(&nodes_a[PAIRS - 1], &wr));
	adapter_enter(a);
	net = a->net;
	unwatch(roce_of(net), PAIRS - 1);
	for (uint32_t i = 0; i < PAIRS - 1; i++)
		post_write(&nodes_b[i], &nodes_a[i], i, 2);
	net->is_all_due = false;
	await_deadline(net, roce_pace_due(roce_of(net)));
	before = ib_port_counts(roce_of(net)->port)->packets_out;
	(void)net_poll(net, false);
	(void)net_output(net, false);
	EXPECT(ib_port_counts(roce_of(net)->port)->packets_out > before);
	for (int i = 0; i < PAIRS - 1; i++)
		came += nodes_a[i].memory[i] == 2;
	EXPECT(came < PAIRS - 1);
	adapter_leave(a);
	close_all();
	rate_bps = 0;
}

/* A deadline that waits until a flood is over would delay all peers. */
TEST(test_roce_before_a_deadline_passes_a_flood_is_not_read_to_its_end)
{
	enum { FLOOD = 1000, MOST = FLOOD / 2 };
	const char *why_not = own_network_enter();
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(4791),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint8_t bytes[256] = { 4 };
	struct weft_roce_counts n;
	int fd;

	if (why_not)
		SKIP(why_not);
	MUST(weft_adapter_open(NULL, &a));
	MUST(weft_roce_open(a));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	REQUIRE(fd >= 0);
	adapter_enter(a);		/* the thread does not read it meanwhile */
	for (int i = 0; i < FLOOD; i++) /* of which the kernel joins none */
		REQUIRE(sendto(fd, bytes, i % 2 ? 64 : 128, 0, (const void *)&to, sizeof(to)) > 0);
	(void)net_poll(a->net, true);
	(void)roce_input_all(roce_of(a->net));
	roce_tell(roce_of(a->net), &n);
	adapter_leave(a);
	EXPECT(n.packets_in > 0 && n.packets_in <= MOST);
	close(fd);
	MUST(weft_adapter_close(a));
}
