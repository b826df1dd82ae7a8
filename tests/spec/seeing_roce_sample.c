/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * seeing_roce_sample MODE [4|6] [FILE]: a program for seeing_roce_test.py to look at. Two adapters,
 * connected by RoCE over loopback, IPv4 or IPv6. It uses nothing but the public interface.
 *
 *	story  every kind of message of RC, a datagram, a cm_id that is refused, and a
 *	       connection that dies of a bad tag
 *	hold   the same but for the last; says "ready PID" and stays until its input ends
 *	work   the same, but sends all the while
 *	broken as story, then stays
 *	verify carries many messages of all lengths, looks at every byte, then stays
 *	start  as story, captured by the program itself to the file, at the near end, until the bad
 *	       tag
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/roce.h>

#include "seeing_side.h"

enum { Q_KEY = 0x1ee7, PSN = 0xffffc0, PORT = 7471, REJECTED = 28, ROUNDS = 150 };

static struct weft_path path = { .mtu_bytes = 1024, .traffic_class = 0x68, .hop_limit = 33 };

static uint8_t timeout_code = 18;

static void connect_one(const struct seeing_side *s, const struct seeing_side *to)
{
	const struct weft_roce_attr r = {
		.path = path,
		.peer_number = weft_qp_number(to->qp),
		.psn_recv = PSN,
		.psn_send = PSN,
		.reads_in = 4,
		.reads_out = 4,
		.rnr_timer_code = 12,
		.timeout_code = timeout_code,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
	};

	MUST(weft_qp_to_rtr(s->qp, &r));
	MUST(weft_qp_to_rts(s->qp, &r));
}

static void connect_both(const struct seeing_side *near, const struct seeing_side *far)
{
	connect_one(near, far);
	connect_one(far, near);
}

static struct weft_qp *datagram_qp(struct seeing_side *s)
{
	const struct weft_qp_options options = { .send_cq = s->cq,
						 .recv_cq = s->cq,
						 .service = WEFT_UD };
	const struct weft_roce_attr r = { .path = { .mtu_bytes = 1024 },
					  .q_key = Q_KEY,
					  .psn_send = 5 };
	struct weft_qp *qp;

	MUST(weft_qp_create(s->pd, &options, &qp));
	MUST(weft_qp_modify(qp, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT }, WEFT_QP_STATE));
	MUST(weft_qp_to_rtr(qp, &r));
	MUST(weft_qp_to_rts(qp, &r));
	return qp;
}

static void send_datagram(struct seeing_side *near, struct seeing_side *far)
{
	struct weft_qp *rc[2] = { near->qp, far->qp };
	struct weft_sge s = { (uintptr_t)near->memory, SMALL, near->tag };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_SEND,
		.sges = &s,
		.sge_count = 1,
		.remote_q_key = Q_KEY,
	};
	struct weft_ah *ah;

	near->qp = datagram_qp(near);
	far->qp = datagram_qp(far);
	MUST(weft_ah_create(near->pd, &path, &ah));
	wr.ah = ah;
	wr.dest_qp_number = weft_qp_number(far->qp);
	carry(near, far, &wr, 1);
	MUST(weft_ah_destroy(ah));
	MUST(weft_qp_destroy(near->qp));
	MUST(weft_qp_destroy(far->qp));
	near->qp = rc[0];
	far->qp = rc[1];
}

static void await_news(struct seeing_side *near, struct seeing_side *far, struct weft_cm_id *c,
		       enum weft_cm_id_kind kind)
{
	struct weft_cm_id_news news = { .kind = WEFT_CM_NONE };

	while (news.kind == WEFT_CM_NONE) {
		side_poll(near);
		side_poll(far);
		MUST(weft_cm_id_next(c, &news));
	}
	if (news.kind != kind)
		exit(1);
}

static void be_refused(struct seeing_side *near, struct seeing_side *far)
{
	struct weft_cm_service_options service = { .at = path.to,
						   .port_space = WEFT_PORT_SPACE_TCP };
	struct weft_cm_id_options options = { .path = path, .port_space = WEFT_PORT_SPACE_TCP };
	const struct weft_cm_id_offer offer = {
		.qp_number = weft_qp_number(near->qp),
		.psn = PSN,
		.timeout_code = 14,
		.retries = 7,
	};
	struct weft_cm_id *asking, *asked = NULL;
	struct weft_cm_service *point;

	service.at.port = options.path.to.port = PORT;
	MUST(weft_cm_service_open(far->adapter, &service, &point));
	MUST(weft_cm_id_open(near->adapter, &options, &offer, &asking));
	while (!asked) {
		side_poll(near);
		side_poll(far);
		MUST(weft_cm_service_next(point, NULL, &asked));
	}
	await_news(near, far, asked, WEFT_CM_REQUEST);
	MUST(weft_cm_id_reject(asked, REJECTED, "no", 2));
	await_news(near, far, asking, WEFT_CM_REJECTED);
	MUST(weft_cm_id_close(asking));
	MUST(weft_cm_id_close(asked));
	MUST(weft_cm_service_close(point));
}

/* Bytes that were not sent before. */
static void fill(uint8_t *bytes, uint32_t length, uint32_t *state)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)((*state = *state * 1664525 + 1013904223) >> 24);
}

static void verify(struct seeing_side *near, struct seeing_side *far)
{
	const enum weft_opcode ops[] = { WEFT_OP_SEND, WEFT_OP_WRITE, WEFT_OP_READ };
	uint32_t state = 1;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		enum weft_opcode op = ops[i % 3];
		struct weft_sge s = { (uintptr_t)near->memory, (i * 977) % 20000, near->tag };
		struct weft_send_wr wr = {
			.opcode = op,
			.sges = &s,
			.sge_count = 1,
			.remote_addr = (uintptr_t)far->memory,
			.remote_tag = far->tag,
		};
		const uint8_t *came = op == WEFT_OP_SEND ? far->memory + HALF : far->memory;

		fill(op == WEFT_OP_READ ? far->memory : near->memory, s.length, &state);
		carry(near, far, &wr, op == WEFT_OP_SEND);
		if (near->failed > 0 || far->failed > 0 ||
		    memcmp(near->memory, came, s.length) != 0) {
			fprintf(stderr, "round %u: failed, or other bytes\n", i);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "story";
	bool is_ipv6 = argc > 2 && strcmp(argv[2], "6") == 0;
	bool is_sending = strcmp(mode, "work") == 0;
	bool is_started = strcmp(mode, "start") == 0 && argc > 3;
	static struct seeing_side near, far; /* left open: the end of the process must do */

	/* Where packets are lost, an answer is not waited for so long. */
	if (strcmp(mode, "verify") == 0)
		timeout_code = 14;
	path.from = path.to = is_ipv6 ? (struct weft_address){ .family = 6, .ip = { [15] = 1 } }
				      : (struct weft_address){ .family = 4,
							       .ip = { 127, 0, 0, 1 } };
	side_open(&near, true);
	side_open(&far, true);
	if (is_started)
		MUST(weft_capture_start(near.adapter, argv[3]));
	connect_both(&near, &far);
	if (strcmp(mode, "verify") == 0) {
		verify(&near, &far);
		stay(&near, &far, false, false);
		return 0;
	}
	every_message(&near, &far);
	send_datagram(&near, &far);
	be_refused(&near, &far);
	if (is_started)
		MUST(weft_capture_stop(near.adapter));
	if (strcmp(mode, "hold") != 0 && !is_sending)
		bad_write(&near, &far);
	if (strcmp(mode, "story") != 0 && !is_started)
		stay(&near, &far, is_sending, is_sending);
	return 0;
}
