/* SPDX-License-Identifier: BSD-2-Clause */
/* One adapter that speaks over TCP and over UDP at a time, beside plain sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/roce/roce.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { BYTES = 5000, GRH = 40 };

static struct weft_qp *qp_open(const struct tcp_end *e, enum weft_qp_service service)
{
	const struct weft_qp_options o = { .send_cq = e->node.cq,
					   .recv_cq = e->node.cq,
					   .service = service };
	struct weft_qp *qp;

	MUST(weft_qp_create(e->node.pd, &o, &qp));
	return qp;
}

/* All of one end's first bytes to the other's, by any of its queue pairs. */
static void write_by(struct weft_qp *qp, struct tcp_end *near, const struct tcp_end *far,
		     uint8_t value)
{
	const struct weft_sge s = node_seg(&near->node, 0, BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, value, &s, &far->node);
	uint64_t since = thread_now_ns();
	struct weft_completion c;
	bool is_there = false;

	memset(near->node.memory, value, BYTES);
	MUST(weft_qp_post_send(qp, &wr, 1, NULL));
	REQUIRE(node_take(near->node.cq, &c) && c.id == value);
	while (!is_there) { /* over TCP it ends when it has left */
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		adapter_enter(far->adapter);
		is_there = memcmp(near->node.memory, far->node.memory, BYTES) == 0;
		adapter_leave(far->adapter);
	}
}

static void datagram_by(struct weft_qp *qp, struct weft_qp *peer, struct tcp_end *near,
			struct tcp_end *far)
{
	const struct weft_path path = { .from = roce_loopback, .to = roce_loopback };
	const struct weft_sge s = node_seg(&near->node, 0, 100);
	const struct weft_sge into = node_seg(&far->node, BYTES, GRH + 100);
	const struct weft_recv_wr recv = { .id = 9, .sges = &into, .sge_count = 1 };
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 8, &s, &far->node);
	struct weft_completion c;
	struct weft_ah *ah;

	MUST(weft_qp_post_recv(peer, &recv, 1, NULL));
	MUST(weft_ah_create(near->node.pd, &path, &ah));
	wr.ah = ah;
	wr.dest_qp_number = weft_qp_number(peer);
	MUST(weft_qp_post_send(qp, &wr, 1, NULL));
	REQUIRE(node_take(near->node.cq, &c) && c.id == 8);
	REQUIRE(node_take(far->node.cq, &c) && c.id == 9);
	REQUIRE(memcmp(far->node.memory + BYTES + GRH, near->node.memory, 100) == 0);
	MUST(weft_ah_destroy(ah));
}

/* A queue pair that has a peer gets no other, by any call. */
static void expect_no_other_peer(struct weft_qp *qp, const struct tcp_end *far,
				 struct weft_qp *other)
{
	const struct weft_roce_attr r = roce_way(weft_qp_number(other));

	EXPECT_EQ(weft_qp_dial(qp, &far->at, NULL), WEFT_R_QP_STATE);
	EXPECT_EQ(weft_qp_to_rtr(qp, &r), WEFT_R_QP_STATE);
	EXPECT_EQ(weft_qp_connect(qp, other), WEFT_R_QP_STATE);
}

TEST(test_ipt_01_rc_01_rdma_over_tcp_and_udp_of_one_adapter)
{
	const char *why_not = own_network_enter();
	struct weft_qp *rc[2], *ud[2], *spare;
	struct tcp_end ends[2];

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 2; i++) {
		tcp_end_open(&ends[i]);
		MUST(weft_roce_open(ends[i].adapter));
		rc[i] = qp_open(&ends[i], WEFT_RC);
		ud[i] = qp_open(&ends[i], WEFT_UD);
	}
	tcp_ends_connect(&ends[0], &ends[1], NULL);
	roce_start_both(rc[0], rc[1]);
	roce_start_both(ud[0], ud[1]);
	for (uint8_t i = 1; i < 6; i += 2) {
		write_by(ends[0].node.qp, &ends[0], &ends[1], i);
		write_by(rc[1], &ends[1], &ends[0], (uint8_t)(i + 1));
		datagram_by(ud[0], ud[1], &ends[0], &ends[1]);
	}
	spare = qp_open(&ends[0], WEFT_RC);
	expect_no_other_peer(ends[0].node.qp, &ends[1], spare);
	expect_no_other_peer(rc[0], &ends[1], spare);
	write_by(rc[0], &ends[0], &ends[1], 7);
	MUST(weft_qp_destroy(spare));
	for (int i = 0; i < 2; i++) {
		MUST(weft_qp_destroy(rc[i]));
		MUST(weft_qp_destroy(ud[i]));
	}
	tcp_end_close(&ends[0]);
	tcp_end_close(&ends[1]);
}

/* ---- Plain TCP and UDP ---------------------------------------------------------------------- */

/* Two services of the host that know nothing of RDMA, each with a client. */
struct plain {
	int listener, tcp[2], udp[2];
	uint16_t tcp_port, udp_port;
};

static struct sockaddr_in at_port(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Bound there (0: anywhere); -1 and errno if the port is taken. */
static int plain_socket(int type, uint16_t *port)
{
	struct sockaddr_in at = at_port(*port);
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, type, 0);

	REQUIRE(fd >= 0);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) != 0) {
		close(fd);
		return -1;
	}
	REQUIRE(getsockname(fd, (struct sockaddr *)&at, &length) == 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static void plain_connect(int fd, uint16_t port)
{
	const struct sockaddr_in to = at_port(port);

	REQUIRE(connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
}

/* UDP at the very number that RDMA over TCP listens at: each transport has ports of its own. */
static void plain_open(struct plain *p, uint16_t number)
{
	uint16_t any = 0;

	p->tcp_port = 0;
	p->udp_port = number;
	p->listener = plain_socket(SOCK_STREAM, &p->tcp_port);
	REQUIRE(p->listener >= 0 && listen(p->listener, 4) == 0);
	p->tcp[0] = plain_socket(SOCK_STREAM, &any);
	plain_connect(p->tcp[0], p->tcp_port);
	p->tcp[1] = accept(p->listener, NULL, NULL);
	any = 0;
	p->udp[0] = plain_socket(SOCK_DGRAM, &any);
	p->udp[1] = plain_socket(SOCK_DGRAM, &p->udp_port);
	REQUIRE(p->tcp[1] >= 0 && p->udp[0] >= 0 && p->udp[1] >= 0);
	plain_connect(p->udp[0], p->udp_port);
}

static void plain_close(struct plain *p)
{
	close(p->listener);
	for (int i = 0; i < 2; i++) {
		close(p->tcp[i]);
		close(p->udp[i]);
	}
}

static void plain_move(const int ends[2], uint8_t value)
{
	uint8_t out[600], in[600];

	memset(out, value, sizeof(out));
	REQUIRE(send(ends[0], out, sizeof(out), 0) == (ssize_t)sizeof(out));
	REQUIRE(recv(ends[1], in, sizeof(in), MSG_WAITALL) == (ssize_t)sizeof(in));
	EXPECT_MEM(in, out, sizeof(in));
}

/* One space of ports: what has one is had by no other, whichever of the two came first. */
static void expect_one_port_space(const struct plain *p, const struct tcp_end *far)
{
	const struct weft_address taken = { .family = 4,
					    .ip = { 127, 0, 0, 1 },
					    .port = p->tcp_port };
	struct weft_listener *listener;
	uint16_t port = far->at.port;

	EXPECT_EQ(plain_socket(SOCK_STREAM, &port), -1);
	EXPECT_EQ(errno, EADDRINUSE);
	EXPECT_EQ(weft_listener_open(far->adapter, &taken, NULL, &listener), WEFT_R_ADDRESS_IN_USE);
}

/* An end that meets the other kind is refused, and all else goes on. */
static void expect_kinds_apart(const struct plain *p, const struct tcp_end *far,
			       struct weft_qp *spare)
{
	const struct weft_address plain_at = { .family = 4,
					       .ip = { 127, 0, 0, 1 },
					       .port = p->tcp_port };
	static const char hello[] = "GET / HTTP/1.0\r\n\r\n";
	uint16_t any = 0;
	uint8_t byte[20];
	int fd = plain_socket(SOCK_STREAM, &any), met;

	plain_connect(fd, far->at.port);
	REQUIRE(send(fd, hello, sizeof(hello), MSG_NOSIGNAL) == (ssize_t)sizeof(hello));
	EXPECT(recv(fd, byte, 1, 0) <= 0); /* closed or reset */
	close(fd);
	MUST(weft_qp_dial(spare, &plain_at, NULL));
	met = accept(p->listener, NULL, NULL);
	REQUIRE(met >= 0);
	REQUIRE(recv(met, byte, sizeof(byte), MSG_WAITALL) == (ssize_t)sizeof(byte));
	EXPECT_MEM(byte, "MPA ID Req Frame", 16); /* bytes, as any others, to a plain service */
	close(met);
}

TEST(test_ipt_01_plain_tcp_and_udp_beside_rdma_over_both)
{
	const char *why_not = own_network_enter();
	struct weft_qp *rc[2], *spare;
	struct tcp_end ends[2];
	struct plain plain;

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 2; i++) {
		tcp_end_open(&ends[i]);
		MUST(weft_roce_open(ends[i].adapter));
		rc[i] = qp_open(&ends[i], WEFT_RC);
	}
	plain_open(&plain, ends[1].at.port);
	tcp_ends_connect(&ends[0], &ends[1], NULL);
	roce_start_both(rc[0], rc[1]);
	for (uint8_t i = 1; i < 12; i += 4) {
		write_by(ends[0].node.qp, &ends[0], &ends[1], i);
		plain_move(plain.tcp, i);
		write_by(rc[0], &ends[0], &ends[1], (uint8_t)(i + 1));
		plain_move(plain.udp, i);
		if (i > 1)
			continue;
		expect_one_port_space(&plain, &ends[1]);
		spare = qp_open(&ends[0], WEFT_RC);
		expect_kinds_apart(&plain, &ends[1], spare);
		MUST(weft_qp_destroy(spare));
	}
	plain_close(&plain);
	for (int i = 0; i < 2; i++)
		MUST(weft_qp_destroy(rc[i]));
	tcp_end_close(&ends[0]);
	tcp_end_close(&ends[1]);
}
