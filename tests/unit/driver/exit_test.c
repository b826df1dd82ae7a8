/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that posts its last requests and exits, as if an adapter of its own had them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/verbs_fixture.h"

enum { BYTES = 4096, BURST = 64, BURSTS = 200, LAST = 40 };

/* What the process that writes must know of the other. */
struct target {
	struct weft_address at;
	uint64_t addr;
	uint32_t tag;
};

static void post(struct tcp_end *e, const struct target *t, int offset, uint32_t flags)
{
	const struct weft_sge s = node_seg(&e->node, 0, 1);
	struct weft_send_wr write = {
		.opcode = WEFT_OP_WRITE,
		.flags = flags,
		.sges = &s,
		.sge_count = 1,
		.remote_addr = t->addr + (uint64_t)offset,
		.remote_tag = t->tag,
	};

	MUST(weft_qp_post_send(e->node.qp, &write, 1, NULL));
}

/* Posts and polls until requests wait for each other; then posts, and is gone. */
static void child_run(const struct target *t)
{
	static struct tcp_end e;
	struct weft_completion c[BURST];

	harness_in_child();
	tcp_end_open(&e);
	MUST(weft_qp_dial(e.node.qp, &t->at, NULL));
	tcp_end_await(&e, WEFT_EVENT_CONNECTED);
	for (int i = 0; i < BURSTS; i++) {
		uint32_t ended = 0, count;

		for (int k = 0; k < BURST; k++)
			post(&e, t, BYTES - 1, WEFT_SIGNALLED);
		while (ended < BURST) {
			MUST(weft_cq_poll(e.node.cq, c, BURST, &count));
			ended += count;
		}
	}
	e.node.memory[0] = 0x5a;
	for (int k = 0; k < LAST; k++)
		post(&e, t, k, 0);
	exit(0);
}

static pid_t child_start(int *to_child)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends) != 0)
		return -1;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		struct target t;

		if (read(ends[0], &t, sizeof(t)) == sizeof(t))
			child_run(&t);
		_exit(1);
	}
	close(ends[0]);
	*to_child = ends[1];
	return pid;
}

TEST(test_qp_07b_requests_that_wait_for_others_go_before_the_program_does)
{
	static struct tcp_end e;
	struct target t = { 0 };
	int to_child = -1, written = 0;
	pid_t pid = child_start(&to_child);

	REQUIRE(pid > 0);
	tcp_end_open(&e);
	t.at = e.at;
	t.addr = (uintptr_t)e.node.memory;
	t.tag = e.node.tag;
	REQUIRE(write(to_child, &t, sizeof(t)) == sizeof(t));
	tcp_end_await(&e, WEFT_EVENT_REQUEST);
	MUST(weft_request_accept(tcp_end_request(&e), e.node.qp, NULL));
	tcp_end_await(&e, WEFT_EVENT_QP_ERROR);
	for (int k = 0; k < LAST; k++)
		written += e.node.memory[k] == 0x5a;
	EXPECT_EQ(written, (int)LAST);
	REQUIRE(waitpid(pid, NULL, 0) == pid);
	close(to_child);
	tcp_end_close(&e);
}
