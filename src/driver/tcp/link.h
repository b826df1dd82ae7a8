/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link's own functions, for the files that it consists of:
 *
 *	link_phase.c   how far it is, and where it may go from there
 *	link.c         life and death, what it is asked, which of the others has the word
 *	link_setup.c   from the first packet to what both ends agreed on
 *	link_stream.c  bytes between the socket and the stream's core
 */
#pragma once

#include "driver/tcp/tcp.h"

/* link_trace.c: an event of the link; a move from its phase on; what its ends agreed on. */
void link_trace(const struct link *link, enum trace_kind kind, enum weft_reason reason);
void link_trace_move(const struct link *link, enum link_phase to);
void link_trace_terms(const struct link *link);

/* link_phase.c: the only way from one phase to another. */
void link_move(struct link *link, enum link_phase to);

/* link.c */
struct link *link_create(struct tcp *tcp, int fd, enum link_phase phase);

/* Nobody can ask about it any more? Then it goes, when no function of it runs. */
void link_free_if_unused(struct link *link);

/* It did not become a connection. */
void link_failed(struct link *link, enum weft_reason reason, bool is_reset);
void link_connected(struct link *link);
void link_raise(struct link *link, enum weft_event_kind kind, enum weft_reason reason);

/* Whether a queue pair can have a connection; what it had before makes place. */
enum weft_reason link_check_qp(const struct weft_qp *qp);
void link_own(struct link *link, struct weft_qp *qp);

/* TCP is connected: if the adapter is captured, so is this link from here on. */
void link_record(struct link *link, bool is_initiator);

/* Whether the socket takes more, as far as is known. */
void link_block(struct link *link, bool is_blocked);

/* Asks epoll for these events, unless the link is asked at every poll anyway. */
void link_watch(struct link *link, uint32_t interest);

/* Every byte goes through these: counted, and captured if that is wanted. */
enum socket_result link_socket_recv(struct link *link, const struct span_list *l, size_t *n);
enum socket_result link_socket_send(struct link *link, const struct span_list *l, size_t *n);

/* link_setup.c */

/* Tries to connect, or notes that it was refused and when to try again. */
enum weft_reason link_connect(struct link *link);
bool link_refused(struct link *link);
bool link_setup_input(struct link *link);
void link_setup_service(struct link *link);

/* link_stream.c */
bool link_stream_input(struct link *link);
bool link_stream_service(struct link *link);
void link_stream_lost(struct link *link);
