/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A wire below TCP: two network namespaces, each with a TUN interface, and a thread that carries IP
 * packets between them and does them what wires and switches do. Both ends have the kernel's TCP.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "live/verbs_fixture.h"

enum { WIRE_ENDS = 2, WIRE_PACKET_MAX = 2048 };

/* Chances in 1000 for each packet; of each kind, what happened so far. */
struct wire_faults {
	uint32_t flip;	 /* one bit of it is another: TCP's checksum sees that */
	uint32_t lose;	 /* as a full queue of a switch does */
	uint32_t repeat; /* it comes twice */
	uint32_t hold;	 /* the next one overtakes it */
};

struct wire_packet {
	uint32_t bytes;
	uint8_t data[WIRE_PACKET_MAX];
};

struct wire {
	int spaces[WIRE_ENDS], fds[WIRE_ENDS];
	pthread_t thread;
	struct wire_faults faults;
	atomic_bool is_done;
	atomic_uint flipped, lost, repeated, held;
	/*
	 * The next packet of end 0 that has so much payload has two words of it exchanged, which
	 * TCP's checksum does not see. 0: none.
	 */
	atomic_uint swap_at;
	/* What went out of end 0, while it is recorded; the thread's, until it was joined. */
	bool is_recorded;
	struct wire_packet *record;
	uint32_t record_count, record_max;
	struct wire_packet late[WIRE_ENDS]; /* held back; bytes 0: none */
};

/* NULL, or why there can be none. This thread is at end 0 then. */
const char *wire_open(struct wire *w, const struct wire_faults *faults, uint32_t record_max);

/* No more packets pass: the record may be read. */
void wire_stop(struct wire *w);
void wire_close(struct wire *w);

/* The thread goes to an end: sockets that it opens are there. The address of an end. */
void wire_enter(const struct wire *w, int end);
struct weft_address wire_address(int end);

/* Two adapters, one at each end, with a connection: far has listened. */
void wire_connect(const struct wire *w, struct tcp_end *near, struct tcp_end *far);
