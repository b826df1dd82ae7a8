/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection of two processes of one host, whose bytes go through shared memory instead of TCP:
 * two rings (near/ring.h), one for each direction, and a unix socket for messages
 * (near/near_message.h), which rouse an end that rests. TCP and MPA connect the ends as ever; the
 * stream behind them is the same.
 *
 *	initiator                             responder
 *	listens at the name of the
 *	TCP connection's two addresses
 *	MPA request  ----------------------->
 *	                                      connects there, sends two rings
 *	             <-----------------------  MPA reply
 *	maps the rings it finds; none: the
 *	other end cannot, and TCP stays
 *
 * So both know, before the first byte of the stream, which way it takes. Abstract names of unix
 * sockets belong to a network namespace, as TCP addresses do, and each end checks the user of the
 * other: only this user and root are trusted.
 *
 * Waking. A receiver that no poll reads marks its ring as resting, and looks at it once more after
 * that; a sender that finds no room marks the ring as waited for, and looks once more. The end that
 * puts bytes, or takes half of them, clears the mark it finds and sends one message. So a message
 * may have cleared a mark: the thread that takes it, by link_hear(), receives, sends, and settles
 * the marks again.
 *
 * The stream has no CRC, whatever MPA agreed on: memory changes no bits.
 */
#pragma once

#include "driver/sys/socket.h"

struct link;

/* TCP is connected, initiator: offers shared memory. Whatever fails, TCP stays. */
void link_near_offer(struct link *link);

/* Responder, before the MPA reply: takes the offer, if there is one. */
void link_near_take(struct link *link);

/*
 * The stream begins: by shared memory if both ends have it; then link->near stays, and the link
 * watches the unix socket instead of TCP's. A refusal: this end cannot, and the other counts on it.
 */
enum weft_reason link_near_begin(struct link *link);

/* Whether it has begun. All calls below but link_near_due() and the ends of life need that. */
bool link_near_runs(const struct link *link);

/* Says so to the other end, and frees all of it, in any phase. The TCP socket is the caller's. */
void link_near_end(struct link *link, bool is_reset);

/* In a child of fork(). */
void link_near_abandon(struct link *link);

/* As socket_recv() and socket_send(). */
enum socket_result link_near_recv(struct link *link, const struct span_list *l, size_t *n);
enum socket_result link_near_send(struct link *link, const struct span_list *l, size_t *n);

/* No more bytes will be sent. */
void link_near_shut(struct link *link);

/* Takes the messages of the other end: for link_hear(). */
void link_near_hear(struct link *link);

/* Whether link_near_recv() would find something: bytes, or their end. */
bool link_near_has_input(const struct link *link);

/*
 * Whether the other end has to rouse us for the next bytes. Nothing for a connection by TCP.
 */
void link_near_mark(struct link *link, bool is_resting);

/* The last bytes to send found no room, and a message comes when there is; there is some now. */
bool link_near_is_full(const struct link *link);
bool link_near_has_room(struct link *link);

/* Whether the other end's socket is closed: epoll would report it again and again. */
bool link_near_is_closed(const struct link *link);

/*
 * When a peer whose ring is full is to be looked at; UINT64_MAX: never. By then: whether it has
 * taken nothing for alive_ns, as TCP_USER_TIMEOUT has it, and the connection is lost. Else the link
 * sends on, if there is room.
 */
uint64_t link_near_due(const struct link *link);
bool link_near_is_stuck(struct link *link, uint64_t now_ns);
