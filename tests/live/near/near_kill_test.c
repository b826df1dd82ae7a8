/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that are killed while they send and are sent to by shared memory. WEFT_KILLS: how many
 * instead of a few.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/near/near_world.h"

enum { KILLS = 12, WRITES_MAX = 200, WRITE_BYTES = 3000 };

static void connect_to(struct node *n, const struct card *peer)
{
	struct weft_roce_attr way = roce_way(peer->number);

	way.timeout_code = 0; /* only the end of the peer ends its requests */
	roce_start(n->qp, &way);
}

static bool post_write(struct node *n, const struct card *peer)
{
	const struct weft_sge s = node_seg(n, 0, WRITE_BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &s, n);

	wr.remote_addr = peer->addr + NODE_BYTES / 2;
	wr.remote_tag = peer->tag;
	return node_post(n, &wr);
}

/* Writes to its peer until it is killed. */
static _Noreturn void victim_run(int in, int out)
{
	struct weft_adapter *adapter;
	struct weft_completion c;
	struct card peer, own;
	struct node n;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	adapter = roce_adapter_open();
	node_open(adapter, &n, NULL);
	own = card_of(&n);
	REQUIRE(write(out, &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(in, &peer, sizeof(peer)) == sizeof(peer));
	connect_to(&n, &peer);
	REQUIRE(write(out, &own, sizeof(own)) == sizeof(own));
	for (;;)
		REQUIRE(post_write(&n, &peer) && node_take(n.cq, &c));
}

/* Writes so many times, kills the peer, and writes on until that is noticed. */
static void write_and_kill(struct node *n, const struct card *peer, pid_t pid, int writes)
{
	struct weft_completion c = { .status = WEFT_SUCCESS };

	for (int i = 0; i < writes; i++) {
		REQUIRE(post_write(n, peer));
		REQUIRE(node_take(n->cq, &c));
	}
	REQUIRE(post_write(n, peer) && post_write(n, peer));
	REQUIRE(kill(pid, SIGKILL) == 0);
	for (int left = 2; c.status == WEFT_SUCCESS; left--) {
		if (left == 0) {
			REQUIRE(post_write(n, peer));
			left++;
		}
		c = node_next(n->cq);
	}
	MUST_EQ(c.status, WEFT_ERR_PEER_GONE);
	REQUIRE(waitpid(pid, NULL, 0) == pid);
}

static void one_round(struct weft_adapter *adapter, int round)
{
	int to[2], from[2];
	struct card peer, own;
	struct node n;
	pid_t pid;

	REQUIRE(pipe(to) == 0 && pipe(from) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		victim_run(to[0], from[1]);
	node_open(adapter, &n, NULL);
	own = card_of(&n);
	REQUIRE(read(from[0], &peer, sizeof(peer)) == sizeof(peer));
	connect_to(&n, &peer);
	REQUIRE(write(to[1], &own, sizeof(own)) == sizeof(own));
	REQUIRE(read(from[0], &peer, sizeof(peer)) == sizeof(peer));
	write_and_kill(&n, &peer, pid, round * 37 % WRITES_MAX);
	node_close(&n, NULL);
	for (int i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
}

static int descriptors_open(void)
{
	DIR *all = opendir("/proc/self/fd");
	int n = 0;

	REQUIRE(all);
	while (readdir(all))
		n++;
	closedir(all);
	return n;
}

/* Its peers have gone: nothing of them is left in this process. */
static void expect_nothing_left(struct weft_adapter *adapter, int descriptors)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct weft_roce_counts n;

	while (shared_mapped() > 0 || descriptors_open() > descriptors) {
		REQUIRE(thread_now_ns() < end_ns);
		MUST(weft_roce_query(adapter, &n)); /* lets the thread have the lock */
	}
}

TEST(test_near_peers_killed_at_any_moment_leave_nothing)
{
	const char *wish = getenv("WEFT_KILLS"), *why = own_network_enter();
	int kills = wish ? atoi(wish) : KILLS, descriptors;
	struct weft_adapter *adapter;

	if (why)
		SKIP(why);
	adapter = roce_adapter_open();
	one_round(adapter, 0); /* what is opened at first stays */
	while (shared_mapped() > 0)
		one_round(adapter, 0);
	descriptors = descriptors_open();
	for (int i = 1; i <= kills; i++)
		one_round(adapter, i);
	expect_nothing_left(adapter, descriptors);
	MUST(weft_adapter_close(adapter));
}
