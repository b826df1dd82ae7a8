/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends of connections of directed I/O: made, used and taken down. See rio_loop.h. */
#pragma once

#include "roles/rio_loop.h"

/* What a request's id says, in its lowest bits. */
enum rio_work {
	RIO_WORK_RECEIVE, /* of the buffer with this number */
	RIO_WORK_SEND,	  /* the same */
	RIO_WORK_MOVE,	  /* of the role's id */
	RIO_WORK_SHORT,	  /* a Send that needs no answer */
	RIO_WORK_BITS = 2
};

/* The slots that are in use: the first with NULL, then each after the one before. */
struct rio_end *rio_end_next(struct rio_loop *loop, struct rio_end *end);
struct rio_end *rio_end_find(struct rio_loop *loop, enum rio_end_kind kind, struct platform peer);

/* A control end that reaches somebody, or one for a connection that came. */
enum weft_reason rio_end_dial(struct rio_loop *loop, struct rio_dial *dial);
void rio_end_accept(struct rio_loop *loop, struct weft_request *request);

/* A data end: as an I/O unit makes it, or as a requester takes it. */
enum weft_reason rio_end_dial_data(struct rio_loop *loop, struct platform peer,
				   const struct weft_address *to, const struct rio_bytes *question);
enum weft_reason rio_end_accept_data(struct rio_loop *loop, struct platform peer,
				     struct weft_request *request, const struct rio_bytes *answer);

/* A data end that reaches this process itself. */
enum weft_reason rio_end_own(struct rio_loop *loop);

/* It is connected. */
void rio_end_connected(struct rio_end *end);

/* Ends it. The role is told when nothing of it is under way any more. */
void rio_end_hang_up(struct rio_end *end, enum weft_reason reason);

/* Whom it would have reached or was reached by, and why not, in a line. */
void rio_end_refusal_text(struct rio_end *end, char *line, size_t room);

/* Frees it, if nothing of it is under way any more. False: it is not dying, or something is. */
bool rio_end_reap(struct rio_end *end);

/*
 * Messages and moves are gathered, and posted together by this; to be called when there is no more
 * for now.
 */
void rio_end_flush(struct rio_end *end);

/* A message; what cannot be said ends the connection. */
void rio_end_say(struct rio_end *end, const uint8_t *bytes, size_t length);

/* A Read or Write between this memory and the peer's. */
struct rio_move {
	bool is_read;
	uint32_t id;
	void *bytes; /* of a Read of no length: NULL */
	uint32_t length;
	uint32_t handle;
	uint64_t remote;
};

/* Refused: it has not begun, and nothing will be said of it. Else it comes back, well or not. */
enum weft_reason rio_end_move(struct rio_end *end, const struct rio_move *move);

/* A request has come back. */
void rio_end_completed(struct rio_end *end, const struct weft_completion *c);

struct rio_address rio_address_of(const struct weft_address *a);
struct weft_address rio_address_public(const struct rio_address *a);
