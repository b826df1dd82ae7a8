/* SPDX-License-Identifier: BSD-2-Clause */
#include "seeing_side.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/roce.h>

enum { COMPLETIONS = 16 };

void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, weft_reason_text(r));
	exit(1);
}

void side_qp(struct seeing_side *s)
{
	MUST(weft_qp_create(s->pd, &(struct weft_qp_options){ .send_cq = s->cq, .recv_cq = s->cq },
			    &s->qp));
	MUST(weft_qp_modify(s->qp, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT },
			    WEFT_QP_STATE));
	s->is_connected = false;
	s->has_failed = false;
}

void side_open(struct seeing_side *s, bool is_roce)
{
	struct weft_region_options region = {
		.length = MEMORY,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC | WEFT_BIND,
	};

	*s = (struct seeing_side){ .memory = calloc(1, MEMORY) };
	if (!s->memory)
		exit(1);
	MUST(weft_adapter_open(NULL, &s->adapter));
	if (is_roce)
		MUST(weft_roce_open(s->adapter));
	MUST(weft_pd_create(s->adapter, NULL, &s->pd));
	MUST(weft_cq_create(s->adapter, NULL, &s->cq));
	region.addr = (uintptr_t)s->memory;
	MUST(weft_region_register(s->pd, &region, &s->tag));
	side_qp(s);
}

void side_poll(struct seeing_side *s)
{
	struct weft_completion c[COMPLETIONS];
	struct weft_event e;
	uint32_t count;
	bool has_event;

	MUST(weft_cq_poll(s->cq, c, COMPLETIONS, &count));
	for (uint32_t i = 0; i < count; i++) {
		s->completed++;
		s->failed += c[i].status != WEFT_SUCCESS;
	}
	MUST(weft_event_next(s->adapter, 0, &e, &has_event));
	if (has_event && e.kind == WEFT_EVENT_CONNECTED)
		s->is_connected = true;
	if (has_event && (e.kind == WEFT_EVENT_CONNECT_FAILED || e.kind == WEFT_EVENT_QP_ERROR))
		s->has_failed = true;
}

void carry(struct seeing_side *near, struct seeing_side *far, struct weft_send_wr *wr,
	   uint32_t receives)
{
	const struct weft_sge adapter_slot = { (uintptr_t)far->memory + HALF, HALF, far->tag };
	const struct weft_recv_wr receive = { .sges = &adapter_slot, .sge_count = 1 };
	uint32_t near_due = near->completed + 1, far_due = far->completed + receives;

	if (receives > 0)
		MUST(weft_qp_post_recv(far->qp, &receive, 1, NULL));
	wr->flags |= WEFT_SIGNALLED;
	MUST(weft_qp_post_send(near->qp, wr, 1, NULL));
	while ((near->completed < near_due || far->completed < far_due) &&
	       near->failed + far->failed == 0) {
		side_poll(near);
		side_poll(far);
	}
}

/* A window of the far side, for a Send to end. */
static uint32_t window_of(struct seeing_side *far)
{
	struct weft_send_wr wr = { .opcode = WEFT_OP_BIND, .flags = WEFT_SIGNALLED };
	uint32_t due = far->completed + 1;

	MUST(weft_window_alloc(far->pd, &wr.bind.window_tag));
	wr.bind.region_tag = far->tag;
	wr.bind.addr = (uintptr_t)far->memory;
	wr.bind.length = SMALL;
	wr.bind.rights = WEFT_REMOTE_WRITE;
	MUST(weft_qp_post_send(far->qp, &wr, 1, NULL));
	while (far->completed < due)
		side_poll(far);
	return wr.bind.tag;
}

void every_message(struct seeing_side *near, struct seeing_side *far)
{
	static const uint32_t lengths[] = { 0, 1, 8, SMALL, 1000, 1500, LARGE };
	const enum weft_opcode plain[] = { WEFT_OP_SEND, WEFT_OP_WRITE, WEFT_OP_READ };
	struct weft_sge s = { (uintptr_t)near->memory, 0, near->tag };
	struct weft_send_wr wr = { .sges = &s, .sge_count = 1, .remote_tag = far->tag };
	struct weft_send_wr again;
	uint32_t tags[2] = { window_of(far), window_of(far) };

	wr.remote_addr = (uintptr_t)far->memory;
	for (int i = 0; i < 3 * (int)(sizeof(lengths) / sizeof(*lengths)); i++) {
		again = wr;
		s.length = lengths[i / 3];
		again.opcode = plain[i % 3];
		carry(near, far, &again, again.opcode == WEFT_OP_SEND);
	}
	s.length = SMALL;
	for (int i = 0; i < 2; i++) {
		again = wr;
		again.flags = i ? WEFT_SOLICITED : 0;
		again.opcode = WEFT_OP_SEND;
		carry(near, far, &again, 1);
		again.opcode = WEFT_OP_SEND_INVALIDATE;
		again.invalidate_tag = tags[i];
		carry(near, far, &again, 1);
		again.opcode = WEFT_OP_WRITE_IMM;
		again.imm = 0x01020304;
		carry(near, far, &again, 1);
		s.length = 8;
		again.flags = 0;
		again.opcode = i ? WEFT_OP_FETCH_ADD : WEFT_OP_COMPARE_SWAP;
		carry(near, far, &again, 0);
		s.length = SMALL;
	}
}

void bad_write(struct seeing_side *near, struct seeing_side *far)
{
	struct weft_sge s = { (uintptr_t)near->memory, SMALL, near->tag };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_WRITE,
		.sges = &s,
		.sge_count = 1,
		.remote_addr = (uintptr_t)far->memory,
		.remote_tag = far->tag ^ 1,
	};

	MUST(weft_qp_post_send(near->qp, &wr, 1, NULL));
	while (!near->has_failed || !far->has_failed) {
		side_poll(near);
		side_poll(far);
	}
}

static void send_one(struct seeing_side *near, struct seeing_side *far)
{
	struct weft_sge s = { (uintptr_t)near->memory, SMALL, near->tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &s, .sge_count = 1 };

	carry(near, far, &wr, 1);
}

void stay(struct seeing_side *near, struct seeing_side *far, bool is_polling, bool is_sending)
{
	char byte;

	printf("ready %ld\n", (long)getpid());
	fflush(stdout);
	if (is_polling)
		fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	while (read(STDIN_FILENO, &byte, 1) != 0) {
		if (is_polling) {
			side_poll(near);
			side_poll(far);
		}
		if (is_sending)
			send_one(near, far);
	}
}
