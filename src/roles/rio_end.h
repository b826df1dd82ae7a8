/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection ends of directed I/O: creation, use and teardown. See rio_loop.h. */
#pragma once

#include "roles/rio_loop.h"

/* The kind of a work request, in the lowest bits of its id. */
enum rio_work {
	RIO_WORK_RECEIVE, /* id: the receive buffer */
	RIO_WORK_SEND,	  /* id: the send buffer */
	RIO_WORK_MOVE,	  /* id: the role's */
	RIO_WORK_SHORT,	  /* an unsignalled inline Send */
	RIO_WORK_BITS = 2
};

/* Iterates over the ends in use: NULL gives the first, an end gives the next. */
struct rio_end *rio_end_next(struct rio_loop *loop, struct rio_end *end);
struct rio_end *rio_end_find(struct rio_loop *loop, enum rio_end_kind kind, struct platform peer);

/* Opens a control end: outgoing, or for an incoming connection. */
enum weft_reason rio_end_dial(struct rio_loop *loop, struct rio_dial *dial);
void rio_end_accept(struct rio_loop *loop, struct weft_request *request);

/* Opens a data end: outgoing (I/O unit), or for an incoming connection (requester). */
enum weft_reason rio_end_dial_data(struct rio_loop *loop, struct platform peer,
				   const struct weft_address *to, const struct rio_bytes *question);
enum weft_reason rio_end_accept_data(struct rio_loop *loop, struct platform peer,
				     struct weft_request *request, const struct rio_bytes *answer);

/* Opens a data end that is connected to this process itself. */
enum weft_reason rio_end_own(struct rio_loop *loop);

/* The end has become connected. */
void rio_end_connected(struct rio_end *end);

/* Closes the end. The role is told once all posted requests have completed. */
void rio_end_hang_up(struct rio_end *end, enum weft_reason reason);

/* Formats one line: the peer's address, and why the connection failed. */
void rio_end_refusal_text(struct rio_end *end, char *line, size_t room);

/* Frees a dying end once all posted requests have completed. False: not dying, or not yet. */
bool rio_end_reap(struct rio_end *end);

/* Queues a message. If it cannot be sent, the connection ends. */
void rio_end_say(struct rio_end *end, const uint8_t *bytes, size_t length);

/* An RDMA Read or Write between local memory and the peer's. */
struct rio_move {
	bool is_read;
	uint32_t id;
	void *bytes; /* NULL for a zero-length Read */
	uint32_t length;
	uint32_t handle;
	uint64_t remote;
};

/*
 * Queues a move. If refused, it has not started and will not complete; else it completes exactly
 * once, with success or not.
 */
enum weft_reason rio_end_move(struct rio_end *end, const struct rio_move *move);

/* Handles a completion. */
void rio_end_completed(struct rio_end *end, const struct weft_completion *c);

struct weft_address rio_address_public(const struct rio_address *a);
