/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP sockets, never blocking: thin wrappers that give weft's addresses and reasons. */
#pragma once

#include <weft/weft.h>

#include "base/span.h"

/* All return a descriptor through *fd, or a reason. */
enum weft_reason socket_listen(const struct weft_address *at, int *fd);
enum weft_reason socket_connect(const struct weft_address *to, const struct weft_address *from,
				int *fd);

/* WEFT_OK with *fd = -1: no connection waits. */
enum weft_reason socket_accept(int listener, int *fd);

/* After a connect: WEFT_OK once it is connected, or why it failed. */
enum weft_reason socket_connected(int fd);

void socket_addresses(int fd, struct weft_address *local, struct weft_address *remote);

/*
 * The route to an address by UDP: where datagrams would come from, with a port that was free, and
 * the MTU of that path as far as it is known.
 */
enum weft_reason socket_route(const struct weft_address *to, struct weft_address *from,
			      uint32_t *mtu_bytes);

/* Whether sockets of this host may have the address; else WEFT_R_ADDRESS. */
enum weft_reason socket_own(const struct weft_address *at);

enum socket_result {
	SOCKET_MOVED = 0,
	SOCKET_WAIT,
	SOCKET_END,
	SOCKET_MISSING, /* memory of the list is not mapped; no byte was moved */
	SOCKET_LOST,
	SOCKET_SILENT /* nothing can be sent to the peer, which has not closed or reset it */
};

/*
 * Moves bytes; *n says how many with SOCKET_MOVED. An error is told once: after one of sending,
 * receiving tells of an end, as if the peer had closed the connection.
 */
enum socket_result socket_recv(int fd, const struct span_list *l, size_t *n);
enum socket_result socket_send(int fd, const struct span_list *l, size_t *n);

/*
 * Sets TCP keepalive and user timeout: the connection ends if the peer does not answer for so long,
 * whether bytes are in flight or not.
 */
void socket_watch_peer(int fd, uint64_t silence_ns);

void socket_shut(int fd);

/* Closes the socket; is_reset: with RST, which tells the peer that the end is abnormal. */
void socket_close(int fd, bool is_reset);
