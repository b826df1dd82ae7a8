/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE's sockets in a network namespace of the test's own, where no other process has a slot or the
 * port: adapters without anything behind them, and packets that carry a number.
 */
#pragma once

#include "driver/udp/udp.h"
#include "test.h"

enum { SIDE_SEEN_MAX = 4096, MADE_MAX = 64 };

/* What came to a side, in order. */
struct seen {
	uint32_t dest_qp, psn;
	size_t length;
	bool is_good;	 /* its ICRC, and the payload */
	struct ib_in in; /* the bytes are gone */
};

struct udp_side {
	struct udp *udp;
	int epoll;
	uint32_t adapter_slot;
	struct seen seen[SIDE_SEEN_MAX];
	uint32_t count;
	struct udp_flow_ref *learning; /* of what comes, or NULL */
};

/* NULL: the process is alone in its network namespace; otherwise why that cannot be. */
const char *world_enter(void);

/* In a child of fork(): has nothing of the parent's any more. */
void world_leave(void);

#define WORLD_OR_SKIP()                                                                            \
	do {                                                                                       \
		const char *why = world_enter();                                                   \
		if (why)                                                                           \
			SKIP(why);                                                                 \
	} while (0)

void side_open(struct udp_side *s);
void side_close(struct udp_side *s);
void side_forget(struct udp_side *s);

/* Takes what is there, at all of them, until nothing comes any more. */
void sides_pump(struct udp_side **sides, uint32_t count);

/* The same for one; waits until it has seen so many in all. False: it has not. */
bool side_await(struct udp_side *s, uint32_t count);

/* Waits until something happens there, and sees to it. False: nothing does. */
bool side_wait(struct udp_side *s);

/* Whether the kernel has something to tell of, now. */
bool side_is_readable(const struct udp_side *s);

/* "127.0.0.1", "::1" */
struct ib_path path_of(const char *from, const char *to, uint16_t from_port);

/* An RC Send of so many bytes, or a UD one with a payload that is given. */
struct making {
	const struct ib_path *path;
	uint32_t dest_qp, psn;
	uint32_t eec; /* not 0: a reliable datagram */
	uint32_t payload_bytes;
	uint16_t ipv4_id;
	uint8_t ecn;
	const uint8_t *management; /* MAD_BYTES to the GSI */
};

void make(struct ib_out *out, const struct making *m);

/* Sends them all, now. */
void side_send(struct udp_side *s, struct ib_out *outs, uint32_t count);
