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

#include "live/verbs_fixture.h"

enum { IN = 0, OUT = 1, MEMORY = 300 * 1024, INLINE = 40, LARGE = 200000 };

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

struct polled_end {
	struct tcp_end end;
	uint32_t completed;
	bool is_connected, has_ended;
};

static void polled_open(struct polled_end *e)
{
	*e = (struct polled_end){ 0 };
	tcp_end_open_with(&e->end, NULL, MEMORY);
}

static void polled_poll(struct polled_end *e)
{
	struct weft_completion c[4];
	struct weft_event event;
	uint32_t n;
	bool has_event;

	MUST(weft_cq_poll(e->end.node.cq, c, 4, &n));
	for (uint32_t i = 0; i < n; i++)
		e->completed += c[i].status == WEFT_SUCCESS;
	MUST(weft_event_next(e->end.adapter, 0, &event, &has_event));
	if (has_event) {
		e->is_connected |= event.kind == WEFT_EVENT_CONNECTED;
		e->has_ended |= event.kind == WEFT_EVENT_QP_ERROR;
	}
}

static void poll_both(struct polled_end *near, struct polled_end *far)
{
	polled_poll(near);
	polled_poll(far);
}

static void connect_both(struct polled_end *near, struct polled_end *far, bool has_crc)
{
	const struct weft_connect_options options = { .is_crc_off = !has_crc };
	struct weft_request *request = NULL;

	MUST(weft_qp_dial(near->end.node.qp, &far->end.at, &options));
	while (!request) {
		polled_poll(near);
		MUST(weft_listener_next(far->end.listener, &request));
	}
	MUST(weft_request_accept(request, far->end.node.qp, &options));
	while (!near->is_connected || !far->is_connected)
		poll_both(near, far);
}

static void carry(struct polled_end *near, struct polled_end *far, enum weft_opcode opcode,
		  uint32_t length)
{
	const struct weft_sge place = node_seg(&far->end.node, 0, MEMORY);
	const struct weft_recv_wr receive = { .sges = &place, .sge_count = 1 };
	const struct weft_sge s = node_seg(&near->end.node, 0, length);
	struct weft_send_wr wr = node_wr(opcode, 0, &s, &far->end.node);
	uint32_t near_due = near->completed + 1, far_due = far->completed;

	if (length <= INLINE)
		wr.flags |= WEFT_INLINE;
	if (opcode == WEFT_OP_SEND) {
		MUST(weft_qp_post_recv(far->end.node.qp, &receive, 1, NULL));
		far_due++;
	}
	MUST(weft_qp_post_send(near->end.node.qp, &wr, 1, NULL));
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

static void expect_traffic(bool has_crc)
{
	uint64_t few = LARGE / 20, near_copied = has_crc ? LARGE : 0;
	uint64_t far_copied = has_crc ? 3 * (uint64_t)LARGE : 0;
	struct polled_end near, far;
	struct weft_traffic n, f;
	time_t end = time(NULL) + 10;

	memset(&counted, 0, sizeof(counted));
	/* Queries for counters must not be counted. */
	REQUIRE(setenv("WEFT_STAT", "off", 1) == 0);
	polled_open(&near);
	polled_open(&far);
	connect_both(&near, &far, has_crc);
	/* Inline: copied as it is posted, behind its header, and at the other end: it is small. */
	carry(&near, &far, WEFT_OP_SEND, INLINE);
	MUST(weft_qp_traffic(near.end.node.qp, &n));
	MUST(weft_qp_traffic(far.end.node.qp, &f));
	EXPECT_EQ(n.payload_copied, 2 * INLINE);
	EXPECT_EQ(f.payload_copied, INLINE);
	carry(&near, &far, WEFT_OP_SEND, LARGE);
	carry(&near, &far, WEFT_OP_WRITE, LARGE);
	carry(&near, &far, WEFT_OP_READ, LARGE);
	MUST(weft_qp_disconnect(near.end.node.qp));
	while (!near.has_ended || !far.has_ended)
		poll_both(&near, &far);
	do {
		poll_both(&near, &far);
		MUST(weft_qp_traffic(near.end.node.qp, &n));
		MUST(weft_qp_traffic(far.end.node.qp, &f));
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
	/*
	 * Of what is large, no more than what comes with the header of its first frame; but with a
	 * CRC all that is received, and the answer to the Read.
	 */
	EXPECT(n.payload_copied >= near_copied && n.payload_copied < near_copied + few);
	EXPECT(f.payload_copied >= far_copied && f.payload_copied < far_copied + few);
	EXPECT(n.calls_out > n.messages_out / 2);
	tcp_end_close(&near.end);
	tcp_end_close(&far.end);
}

TEST(test_traffic_counts_every_call_byte_and_copy)
{
	expect_traffic(false);
}

TEST(test_traffic_counts_every_call_byte_and_copy_with_a_crc)
{
	expect_traffic(true);
}
