/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An adapter in a program's own poll() loop, beside a socket: words that come at the socket go to
 * the peer as Sends, and the peer's answers go back to the socket.
 *
 * The peer is a thread with an adapter of its own. It has nothing else to wait for, so it sleeps in
 * weft_cq_wait().
 */
#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/weft.h>

enum { BYTES = 64, OUT = 0, IN = BYTES };

static const char *const words[] = { "poll", "knows", "both" };
enum { WORDS = sizeof(words) / sizeof(words[0]) };

struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	char memory[2 * BYTES]; /* what goes out, what comes in */
	uint32_t tag;
};

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

static void side_open(struct side *s)
{
	const struct weft_region_options region = { .addr = (uintptr_t)s->memory,
						    .length = sizeof(s->memory),
						    .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	struct weft_qp_options qp = { .service = WEFT_RC };

	must(weft_adapter_open(NULL, &s->adapter), "open an adapter");
	must(weft_pd_create(s->adapter, NULL, &s->pd), "make a protection domain");
	must(weft_region_register(s->pd, &region, &s->tag), "register memory");
	must(weft_cq_create(s->adapter, NULL, &s->cq), "make a completion queue");
	qp.send_cq = s->cq;
	qp.recv_cq = s->cq;
	must(weft_qp_create(s->pd, &qp, &s->qp), "make a queue pair");
	must(weft_qp_modify(s->qp, &init, WEFT_QP_STATE), "prepare the queue pair");
}

static void side_close(struct side *s)
{
	must(weft_qp_destroy(s->qp), "destroy the queue pair");
	must(weft_cq_destroy(s->cq), "destroy the completion queue");
	must(weft_region_deregister(s->pd, s->tag), "deregister memory");
	must(weft_pd_destroy(s->pd), "destroy the protection domain");
	must(weft_adapter_close(s->adapter), "close the adapter");
}

static struct weft_sge segment(const struct side *s, size_t at, uint32_t length)
{
	return (struct weft_sge){ .addr = (uintptr_t)s->memory + at,
				  .length = length,
				  .tag = s->tag };
}

static void receive(struct side *s)
{
	const struct weft_sge room = segment(s, IN, BYTES);
	const struct weft_recv_wr wr = { .sges = &room, .sge_count = 1 };

	must(weft_qp_post_recv(s->qp, &wr, 1, NULL), "post a receive");
}

static void send_out(struct side *s, uint32_t length)
{
	const struct weft_sge bytes = segment(s, OUT, length);
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &bytes, .sge_count = 1 };

	must(weft_qp_post_send(s->qp, &wr, 1, NULL), "post a Send");
}

/* The next message's length; 0: there is none. */
static uint32_t received(struct side *s)
{
	struct weft_completion c;
	uint32_t count;

	must(weft_cq_poll(s->cq, &c, 1, &count), "poll");
	if (count > 0 && c.status != WEFT_SUCCESS)
		must(c.reason, "receive");
	return count > 0 ? c.byte_count : 0;
}

/* ---- The peer ------------------------------------------------------------------------------- */

static void *peer_run(void *argument)
{
	struct side *s = argument;

	for (int n = 0; n < WORDS; n++) {
		uint32_t length;

		while ((length = received(s)) == 0)
			must(weft_cq_wait(s->cq, -1, UINT64_MAX, NULL), "wait");
		for (uint32_t i = 0; i < length; i++)
			s->memory[OUT + i] = (char)toupper((unsigned char)s->memory[IN + i]);
		receive(s);
		send_out(s, length);
	}
	return NULL;
}

static void connect_both(struct side *a, struct side *b)
{
	const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_request *request = NULL;
	struct weft_listener *listener;
	struct weft_address at;
	struct weft_event event;
	bool has_event = false;

	must(weft_listener_open(b->adapter, &loopback, NULL, &listener), "listen");
	must(weft_listener_address(listener, &at), "see where it listens");
	must(weft_qp_dial(a->qp, &at, NULL), "dial");
	while (!request) {
		must(weft_event_next(b->adapter, UINT64_MAX, &event, &has_event), "wait");
		must(weft_listener_next(listener, &request), "take the request");
	}
	must(weft_request_accept(request, b->qp, NULL), "accept");
	do
		must(weft_event_next(a->adapter, UINT64_MAX, &event, &has_event), "wait");
	while (!has_event || event.kind != WEFT_EVENT_CONNECTED);
	must(weft_listener_close(listener), "stop listening");
}

/* ---- The loop ------------------------------------------------------------------------------- */

/* Arming tells of the next completion only: what came before it is taken here as well. */
static int answers_take(struct side *s, int socket)
{
	int answers = 0;
	uint32_t length;

	must(weft_cq_arm(s->cq, WEFT_ARM_NEXT), "arm");
	while ((length = received(s)) > 0) {
		if (write(socket, s->memory + IN, length) < 0)
			perror("write");
		receive(s);
		answers++;
	}
	return answers;
}

static void events_take(struct side *s)
{
	struct weft_event event;
	bool has_event;

	do {
		must(weft_event_take(s->adapter, &event, &has_event), "take an event");
		if (has_event && event.kind == WEFT_EVENT_QP_ERROR)
			must(event.reason, "the connection");
	} while (has_event);
}

static void serve(struct side *s, int socket)
{
	struct pollfd fds[] = { { .events = POLLIN }, { .fd = socket } };
	int asked = 0, answered = 0;

	must(weft_adapter_fd(s->adapter, &fds[0].fd), "get the adapter's descriptor");
	while (answered < WORDS) {
		answered += answers_take(s, socket);
		/* One word is under way at a time: its memory is in use until the answer comes. */
		fds[1].events = asked == answered ? POLLIN : 0;
		if (answered == WORDS || poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents)
			events_take(s);
		if (fds[1].revents) {
			ssize_t length = read(socket, s->memory + OUT, BYTES);

			if (length > 0)
				send_out(s, (uint32_t)length);
			asked++;
		}
	}
}

int main(void)
{
	static struct side near, far;
	int sockets[2];
	pthread_t thread;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) < 0)
		return 1;
	side_open(&near);
	side_open(&far);
	receive(&near);
	receive(&far);
	connect_both(&near, &far);
	pthread_create(&thread, NULL, peer_run, &far);
	for (int i = 0; i < WORDS; i++) {
		if (write(sockets[1], words[i], strlen(words[i])) < 0)
			return 1;
	}
	serve(&near, sockets[0]);
	for (int i = 0; i < WORDS; i++) {
		char answer[BYTES + 1] = "";

		if (read(sockets[1], answer, BYTES) <= 0)
			return 1;
		printf("%s: %s\n", words[i], answer);
	}
	pthread_join(thread, NULL);
	side_close(&near);
	side_close(&far);
	return 0;
}
