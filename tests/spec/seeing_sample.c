/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * seeing_sample MODE: a program for seeing_test.py to look at. Two adapters, connected over
 * loopback, of which `near` dials. It uses nothing but the public interface.
 *
 *	story   every kind of message, then a good end; then a connection that dies of a bad tag,
 *	        and one that is never accepted
 *	hold    every kind of message; says "ready PID" and stays, computing nothing, until its input
 *	        ends
 *	spin    the same, but polls all the while
 *	work    the same, but sends all the while, and has so many queue pairs that a report of
 *	        them fills no socket's buffer
 *	broken  only what the bad tag does, then stays
 *	gone    sends from memory that it has protected, has unmapped some, then stays
 *	start   as story, the dialling end captured by the program itself to the file that is
 *	        the next argument
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "seeing_side.h"

enum { QPS = 2000 };

static void connect_both(struct seeing_side *near, struct seeing_side *far,
			 struct weft_listener *listener)
{
	struct weft_request *request = NULL;
	struct weft_address at;

	MUST(weft_listener_address(listener, &at));
	MUST(weft_qp_dial(
		near->qp, &at,
		&(struct weft_connect_options){ .private_data = "hello", .private_bytes = 5 }));
	while (!request) {
		side_poll(near);
		MUST(weft_listener_next(listener, &request));
	}
	MUST(weft_request_accept(request, far->qp, NULL));
	while (!near->is_connected || !far->is_connected) {
		side_poll(near);
		side_poll(far);
	}
}

static void again(struct seeing_side *s)
{
	MUST(weft_qp_destroy(s->qp));
	side_qp(s);
}

static void tell_story(struct seeing_side *near, struct seeing_side *far,
		       struct weft_listener *listener)
{
	struct weft_address at;

	connect_both(near, far, listener);
	every_message(near, far);
	MUST(weft_qp_disconnect(near->qp));
	while (!far->has_failed) {
		side_poll(near);
		side_poll(far);
	}
	again(near);
	again(far);
	connect_both(near, far, listener);
	bad_write(near, far);
	MUST(weft_listener_address(listener, &at));
	MUST(weft_listener_close(listener));
	again(near);
	MUST(weft_qp_dial(near->qp, &at, NULL));
	while (!near->has_failed)
		side_poll(near);
}

static void lose_memory(struct seeing_side *near)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	struct weft_sge s = { .addr = (uintptr_t)memory, .length = SMALL };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &s, .sge_count = 1 };
	const struct weft_region_options o = { .addr = s.addr,
					       .length = 2 * page,
					       .rights = WEFT_LOCAL_READ };

	if (memory == MAP_FAILED)
		abort();
	MUST(weft_region_register(near->pd, &o, &s.tag));
	if (mprotect(memory, page, PROT_NONE) != 0 || munmap(memory + page, page) != 0)
		abort();
	MUST(weft_qp_post_send(near->qp, &wr, 1, NULL));
	while (!near->has_failed)
		side_poll(near);
}

static void many_qps(struct seeing_side *s)
{
	struct weft_qp *one = s->qp;

	for (int i = 0; i < QPS; i++)
		side_qp(s);
	s->qp = one;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "story";
	bool is_sending = strcmp(mode, "work") == 0;
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_listener *listener;
	static struct seeing_side near, far; /* left open: the end of the process must do */

	side_open(&near, false);
	side_open(&far, false);
	if (strcmp(mode, "start") == 0 && argc > 2)
		MUST(weft_capture_start(near.adapter, argv[2]));
	MUST(weft_listener_open(far.adapter, &at, NULL, &listener));
	if (strcmp(mode, "hold") == 0 || strcmp(mode, "spin") == 0 || is_sending) {
		connect_both(&near, &far, listener);
		every_message(&near, &far);
		if (is_sending)
			many_qps(&near);
		stay(&near, &far, strcmp(mode, "hold") != 0, is_sending);
		MUST(weft_listener_close(listener));
	} else if (strcmp(mode, "broken") == 0) {
		connect_both(&near, &far, listener);
		bad_write(&near, &far);
		stay(&near, &far, false, false);
	} else if (strcmp(mode, "gone") == 0) {
		connect_both(&near, &far, listener);
		lose_memory(&near);
		stay(&near, &far, false, false);
	} else {
		tell_story(&near, &far, listener);
	}
	if (strcmp(mode, "start") == 0)
		MUST(weft_capture_stop(near.adapter));
	return 0;
}
