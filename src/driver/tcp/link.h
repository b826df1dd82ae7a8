/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of a link shared by its files:
 *
 *	link_phase.c   phases, and the moves between them
 *	link.c         creation, end and queries; dispatches to the files below by phase
 *	link_setup.c   from connect() or accept() to the negotiated terms
 *	link_stream.c  bytes between the socket and the stream's core
 *	link_near.h    bytes by shared memory instead of the socket
 */
#pragma once

#include "driver/tcp/tcp.h"

/* link_trace.c: traces an event; a move from the present phase; the negotiated terms. */
void link_trace(const struct link *link, enum trace_kind kind, enum weft_reason reason);
void link_trace_move(const struct link *link, enum link_phase to);
void link_trace_terms(const struct link *link);

/* link_phase.c: the only way from one phase to another. */
void link_move(struct link *link, enum link_phase to);

/* link.c */
struct link *link_create(struct tcp *tcp, int fd, enum link_phase phase,
			 const struct stream_core *core);

/* Frees the link once no handle refers to it, after the calls that work on it have returned. */
void link_free_if_unused(struct link *link);

/* Connection set-up failed. */
void link_failed(struct link *link, enum weft_reason reason, bool is_reset);
void link_connected(struct link *link);
void link_raise(struct link *link, enum weft_event_kind kind, enum weft_reason reason);

/* Whether the queue pair can get a connection; an ended link that it still has does not count. */
enum weft_reason link_check_qp(const struct weft_qp *qp);
void link_own(struct link *link, struct weft_qp *qp);

/* TCP is connected: starts to capture this link if the adapter is captured. */
void link_record(struct link *link, bool is_initiator);

/*
 * After input, or a change: marks a link by shared memory as resting if no poll would find its next
 * bytes, and lists it as unread if some are there. Nothing for a connection by TCP.
 */
void link_settle(struct link *link);

/* The second part of it. */
void link_note_unread(struct link *link);

/* By shared memory: takes the peer's messages, receives, and sends. True: something moved. */
bool link_hear(struct link *link);

/* Notes whether the socket's send buffer is full. */
void link_block(struct link *link, bool is_blocked);

/* Registers for these events with epoll, unless the link is hot and read at every poll. */
void link_watch(struct link *link, uint32_t interest);

/* All bytes pass through these two, which count and, if asked for, capture them. */
enum socket_result link_socket_recv(struct link *link, const struct span_list *l, size_t *n);
enum socket_result link_socket_send(struct link *link, const struct span_list *l, size_t *n);

/* link_setup.c */

/* Connects; if refused, sets the time of the next try. */
enum weft_reason link_connect(struct link *link);
bool link_refused(struct link *link);
bool link_setup_input(struct link *link);
void link_setup_service(struct link *link);

/* Until when TCP, and MPA if there is one, must have connected. */
uint64_t link_dial_due(const struct link *link);

/* TCP is connected, and no set-up follows: the stream begins. */
void link_begin_plain(struct link *link);

/* link_stream.c */
bool link_stream_input(struct link *link);
bool link_stream_service(struct link *link);
void link_stream_lost(struct link *link);
