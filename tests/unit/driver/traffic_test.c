/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Are the counters of weft_qp_traffic() true? The system calls that move bytes are this program's
 * own here, so that they can be counted beside what weft says.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

#include "test.h"

enum { IN = 0, OUT = 1, MEMORY = 300000, INLINE = 40, LARGE = 200000 };

static struct {
	atomic_uint_fast64_t calls, bytes, empty;
} counted[2];

static ssize_t count(int way, ssize_t n)
{
	atomic_fetch_add(&counted[way].calls, 1);
	if (n > 0)
		atomic_fetch_add(&counted[way].bytes, (uint_fast64_t)n);
	else if (n < 0 && errno == EAGAIN)
		atomic_fetch_add(&counted[way].empty, 1);
	return n;
}

/* A message of (descriptor, header, flags). */
static long move_message(int way, va_list args)
{
	int fd = va_arg(args, int);
	struct msghdr *m = va_arg(args, struct msghdr *);
	int flags = va_arg(args, int);

	return count(way, way == IN ? recvmsg(fd, m, flags) : sendmsg(fd, m, flags));
}

/* Bytes of (descriptor, address, length, flags). The driver names no peer after these. */
static long move_bytes(int way, va_list args)
{
	int fd = va_arg(args, int);
	void *bytes = va_arg(args, void *);
	size_t length = va_arg(args, size_t);
	int flags = va_arg(args, int);

	return count(way,
		     way == IN ? recv(fd, bytes, length, flags) : send(fd, bytes, length, flags));
}

/* read() and write() ring the bell of the progress thread: they are not traffic. */
static long ring(int way, va_list args)
{
	int fd = va_arg(args, int);
	void *bytes = va_arg(args, void *);
	size_t length = va_arg(args, size_t);

	return way == IN ? read(fd, bytes, length) : write(fd, bytes, length);
}

static long wait_events(va_list args)
{
	int fd = va_arg(args, int);
	struct epoll_event *events = va_arg(args, struct epoll_event *);
	int max = va_arg(args, int);
	int timeout_ms = va_arg(args, int);

	return epoll_wait(fd, events, max, timeout_ms);
}

static long take_connection(va_list args)
{
	int fd = va_arg(args, int);
	struct sockaddr *peer = va_arg(args, struct sockaddr *);
	socklen_t *length = va_arg(args, socklen_t *);

	return accept4(fd, peer, length, va_arg(args, int));
}

static long make_connection(va_list args)
{
	int fd = va_arg(args, int);
	struct sockaddr *to = va_arg(args, struct sockaddr *);

	return connect(fd, to, va_arg(args, socklen_t));
}

static long carry_out(long number, va_list args)
{
	switch (number) {
	case SYS_recvfrom:
		return move_bytes(IN, args);
	case SYS_sendto:
		return move_bytes(OUT, args);
	case SYS_recvmsg:
		return move_message(IN, args);
	case SYS_sendmsg:
		return move_message(OUT, args);
	case SYS_epoll_pwait:
		return wait_events(args);
	case SYS_read:
		return ring(IN, args);
	case SYS_write:
		return ring(OUT, args);
	case SYS_close:
		return close(va_arg(args, int));
	case SYS_accept4:
		return take_connection(args);
	case SYS_connect:
		return make_connection(args);
	default:
		errno = ENOSYS;
		return -1;
	}
}

/* How many arguments were passed, and of which types, only the number tells: no more are read. */
long syscall(long number, ...)
{
	va_list args;
	long result;

	va_start(args, number);
	result = carry_out(number, args);
	va_end(args);
	return result;
}

/* ---- Two ends ------------------------------------------------------------------------------- */

struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint8_t *memory;
	uint32_t tag, completed;
	bool is_connected, has_ended;
};

static void side_open(struct side *s)
{
	struct weft_region_options region = { .length = MEMORY };

	*s = (struct side){ .memory = calloc(1, MEMORY) };
	REQUIRE(s->memory);
	REQUIRE(weft_adapter_open(NULL, &s->adapter) == WEFT_OK);
	REQUIRE(weft_pd_create(s->adapter, NULL, &s->pd) == WEFT_OK);
	REQUIRE(weft_cq_create(s->adapter, NULL, &s->cq) == WEFT_OK);
	REQUIRE(weft_qp_create(s->pd,
			       &(struct weft_qp_options){ .send_cq = s->cq, .recv_cq = s->cq },
			       &s->qp) == WEFT_OK);
	REQUIRE(weft_qp_modify(s->qp, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT },
			       WEFT_QP_STATE) == WEFT_OK);
	region.addr = (uintptr_t)s->memory;
	region.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_WRITE;
	REQUIRE(weft_region_register(s->pd, &region, &s->tag) == WEFT_OK);
}

static void side_close(struct side *s)
{
	REQUIRE(weft_qp_destroy(s->qp) == WEFT_OK);
	REQUIRE(weft_region_deregister(s->pd, s->tag) == WEFT_OK);
	REQUIRE(weft_cq_destroy(s->cq) == WEFT_OK);
	REQUIRE(weft_pd_destroy(s->pd) == WEFT_OK);
	REQUIRE(weft_adapter_close(s->adapter) == WEFT_OK);
	free(s->memory);
}

static void side_poll(struct side *s)
{
	struct weft_completion c[4];
	struct weft_event e;
	uint32_t n;
	bool has_event;

	REQUIRE(weft_cq_poll(s->cq, c, 4, &n) == WEFT_OK);
	for (uint32_t i = 0; i < n; i++)
		s->completed += c[i].status == WEFT_SUCCESS;
	REQUIRE(weft_event_next(s->adapter, 0, &e, &has_event) == WEFT_OK);
	if (has_event) {
		s->is_connected |= e.kind == WEFT_EVENT_CONNECTED;
		s->has_ended |= e.kind == WEFT_EVENT_QP_ERROR;
	}
}

static void poll_both(struct side *near, struct side *far)
{
	side_poll(near);
	side_poll(far);
}

static void connect_both(struct side *near, struct side *far)
{
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_request *request = NULL;
	struct weft_listener *listener;

	REQUIRE(weft_listener_open(far->adapter, &at, NULL, &listener) == WEFT_OK);
	REQUIRE(weft_listener_address(listener, &at) == WEFT_OK);
	REQUIRE(weft_qp_dial(near->qp, &at, NULL) == WEFT_OK);
	while (!request) {
		side_poll(near);
		REQUIRE(weft_listener_next(listener, &request) == WEFT_OK);
	}
	REQUIRE(weft_request_accept(request, far->qp, NULL) == WEFT_OK);
	while (!near->is_connected || !far->is_connected)
		poll_both(near, far);
	REQUIRE(weft_listener_close(listener) == WEFT_OK);
}

static void carry(struct side *near, struct side *far, enum weft_opcode opcode, uint32_t length)
{
	const struct weft_sge place = { (uintptr_t)far->memory, MEMORY, far->tag };
	const struct weft_recv_wr receive = { .sges = &place, .sge_count = 1 };
	struct weft_sge s = { (uintptr_t)near->memory, length, near->tag };
	struct weft_send_wr wr = {
		.opcode = opcode,
		.flags = WEFT_SIGNALLED | (length <= INLINE ? WEFT_INLINE : 0),
		.sges = &s,
		.sge_count = 1,
		.remote_addr = (uintptr_t)far->memory,
		.remote_tag = far->tag,
	};
	uint32_t near_due = near->completed + 1, far_due = far->completed;

	if (opcode == WEFT_OP_SEND) {
		REQUIRE(weft_qp_post_recv(far->qp, &receive, 1, NULL) == WEFT_OK);
		far_due++;
	}
	REQUIRE(weft_qp_post_send(near->qp, &wr, 1, NULL) == WEFT_OK);
	while (near->completed < near_due || far->completed < far_due)
		poll_both(near, far);
}

/* What both ends say together, when their connection has ended and nothing moves any more. */
static bool is_true(struct weft_traffic *near, struct weft_traffic *far)
{
	return near->calls_in + far->calls_in == counted[IN].calls &&
	       near->calls_out + far->calls_out == counted[OUT].calls &&
	       near->bytes_in + far->bytes_in == counted[IN].bytes &&
	       near->bytes_out + far->bytes_out == counted[OUT].bytes &&
	       near->calls_empty + far->calls_empty == counted[IN].empty + counted[OUT].empty;
}

TEST(test_traffic_counts_every_call_byte_and_copy)
{
	struct side near, far;
	struct weft_traffic n, f;
	time_t end = time(NULL) + 10;

	/* Queries for counters must not be counted. */
	REQUIRE(setenv("WEFT_STAT", "off", 1) == 0);
	side_open(&near);
	side_open(&far);
	connect_both(&near, &far);
	/* Inline: copied as it is posted, behind its header, and at the other end: it is small. */
	carry(&near, &far, WEFT_OP_SEND, INLINE);
	REQUIRE(weft_qp_traffic(near.qp, &n) == WEFT_OK);
	REQUIRE(weft_qp_traffic(far.qp, &f) == WEFT_OK);
	EXPECT_EQ(n.payload_copied, 2 * INLINE);
	EXPECT_EQ(f.payload_copied, INLINE);
	carry(&near, &far, WEFT_OP_SEND, LARGE);
	carry(&near, &far, WEFT_OP_WRITE, LARGE);
	carry(&near, &far, WEFT_OP_READ, LARGE);
	REQUIRE(weft_qp_disconnect(near.qp) == WEFT_OK);
	while (!near.has_ended || !far.has_ended)
		poll_both(&near, &far);
	do {
		poll_both(&near, &far);
		REQUIRE(weft_qp_traffic(near.qp, &n) == WEFT_OK);
		REQUIRE(weft_qp_traffic(far.qp, &f) == WEFT_OK);
	} while (!is_true(&n, &f) && time(NULL) < end);
	EXPECT_EQ(n.calls_in + f.calls_in, counted[IN].calls);
	EXPECT_EQ(n.calls_out + f.calls_out, counted[OUT].calls);
	EXPECT_EQ(n.calls_empty + f.calls_empty, counted[IN].empty + counted[OUT].empty);
	EXPECT_EQ(n.bytes_in + f.bytes_in, counted[IN].bytes);
	EXPECT_EQ(n.bytes_out + f.bytes_out, counted[OUT].bytes);
	EXPECT_EQ(n.bytes_in, f.bytes_out);
	EXPECT_EQ(n.bytes_out, f.bytes_in);
	EXPECT_EQ(n.payload_out, 2 * LARGE + INLINE);
	EXPECT_EQ(n.payload_in, LARGE);
	EXPECT_EQ(f.payload_in, 2 * LARGE + INLINE);
	/* Of what is large, no more than what comes with the header of its first frame. */
	EXPECT(n.payload_copied < LARGE / 20 && f.payload_copied < LARGE / 20);
	EXPECT(n.calls_out > n.messages_out / 2);
	side_close(&near);
	side_close(&far);
}
