/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that posts its last requests and exits, as if an adapter of its own had them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "test.h"

enum { BYTES = 4096, BURST = 64, BURSTS = 200, LAST = 40 };

/* One end of a connection to another process. */
struct end {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint8_t memory[BYTES];
	uint32_t tag;
};

/* What the process that writes must know of the other. */
struct target {
	struct weft_address at;
	uint64_t addr;
	uint32_t tag;
};

static bool end_open(struct end *e)
{
	const struct weft_region_options region = {
		.addr = (uintptr_t)e->memory,
		.length = BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE,
	};
	struct weft_qp_options qp = { .send_max = 2 * BURST };

	if (weft_adapter_open(NULL, &e->adapter) != WEFT_OK ||
	    weft_pd_create(e->adapter, NULL, &e->pd) != WEFT_OK ||
	    weft_cq_create(e->adapter, NULL, &e->cq) != WEFT_OK)
		return false;
	qp.send_cq = qp.recv_cq = e->cq;
	return weft_region_register(e->pd, &region, &e->tag) == WEFT_OK &&
	       weft_qp_create(e->pd, &qp, &e->qp) == WEFT_OK;
}

static bool end_await(struct end *e, enum weft_event_kind kind)
{
	const uint64_t patience_ns = UINT64_C(20) * 1000 * 1000 * 1000;
	struct weft_event event = { 0 };
	bool has_event = true;

	while (has_event) {
		if (weft_event_next(e->adapter, patience_ns, &event, &has_event) != WEFT_OK)
			return false;
		if (has_event && event.kind == kind)
			return true;
	}
	return false;
}

static bool post(struct end *e, const struct target *t, int offset, uint32_t flags)
{
	const struct weft_sge s = { .addr = (uintptr_t)e->memory, .length = 1, .tag = e->tag };
	struct weft_send_wr write = {
		.opcode = WEFT_OP_WRITE,
		.flags = flags,
		.sges = &s,
		.sge_count = 1,
		.remote_addr = t->addr + (uint64_t)offset,
		.remote_tag = t->tag,
	};

	return weft_qp_post_send(e->qp, &write, 1, NULL) == WEFT_OK;
}

/* Posts and polls until requests wait for each other; then posts, and is gone. */
static void child_run(const struct target *t)
{
	static struct end e;
	struct weft_completion c[BURST];

	if (!end_open(&e) || weft_qp_dial(e.qp, &t->at, NULL) != WEFT_OK ||
	    !end_await(&e, WEFT_EVENT_CONNECTED))
		_exit(1);
	for (int i = 0; i < BURSTS; i++) {
		uint32_t ended = 0, count;

		for (int k = 0; k < BURST; k++) {
			if (!post(&e, t, BYTES - 1, WEFT_SIGNALLED))
				_exit(1);
		}
		while (ended < BURST) {
			if (weft_cq_poll(e.cq, c, BURST, &count) != WEFT_OK)
				_exit(1);
			ended += count;
		}
	}
	e.memory[0] = 0x5a;
	for (int k = 0; k < LAST; k++) {
		if (!post(&e, t, k, 0))
			_exit(1);
	}
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
	const struct weft_address any = { .family = 4, .ip = { 127, 0, 0, 1 } };
	static struct end e;
	struct weft_listener *listener;
	struct weft_request *request;
	struct target t = { 0 };
	int to_child = -1, written = 0;
	pid_t pid = child_start(&to_child);

	REQUIRE(pid > 0 && end_open(&e));
	REQUIRE(weft_listener_open(e.adapter, &any, NULL, &listener) == WEFT_OK);
	REQUIRE(weft_listener_address(listener, &t.at) == WEFT_OK);
	t.addr = (uintptr_t)e.memory;
	t.tag = e.tag;
	REQUIRE(write(to_child, &t, sizeof(t)) == sizeof(t));
	REQUIRE(end_await(&e, WEFT_EVENT_REQUEST));
	REQUIRE(weft_listener_next(listener, &request) == WEFT_OK && request);
	REQUIRE(weft_request_accept(request, e.qp, NULL) == WEFT_OK);
	REQUIRE(end_await(&e, WEFT_EVENT_QP_ERROR));
	for (int k = 0; k < LAST; k++)
		written += e.memory[k] == 0x5a;
	EXPECT_EQ(written, (int)LAST);
	REQUIRE(waitpid(pid, NULL, 0) == pid);
	close(to_child);
	EXPECT_EQ(weft_qp_destroy(e.qp), WEFT_OK);
	EXPECT_EQ(weft_region_deregister(e.pd, e.tag), WEFT_OK);
	EXPECT_EQ(weft_listener_close(listener), WEFT_OK);
	EXPECT_EQ(weft_cq_destroy(e.cq), WEFT_OK);
	EXPECT_EQ(weft_pd_destroy(e.pd), WEFT_OK);
	EXPECT_EQ(weft_adapter_close(e.adapter), WEFT_OK);
}
