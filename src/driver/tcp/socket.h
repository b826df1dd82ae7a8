/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP sockets, never blocking: thin wrappers that give weft's addresses and reasons. */
#pragma once

#include <weft/weft.h>

#include "base/span.h"

/* All return a descriptor through *fd, or a reason. */
enum weft_reason socket_listen(const struct weft_address *at, int *fd);
enum weft_reason socket_connect(const struct weft_address *to, const struct weft_address *from,
				int *fd);

/* WEFT_OK with *fd = -1: nobody is there now. */
enum weft_reason socket_accept(int listener, int *fd);

/* After a connect: WEFT_OK once it is connected, or why it failed. */
enum weft_reason socket_connected(int fd);

void socket_addresses(int fd, struct weft_address *local, struct weft_address *remote);

enum socket_result { SOCKET_MOVED = 0, SOCKET_WAIT, SOCKET_END, SOCKET_LOST };

/* Moves bytes; *n says how many with SOCKET_MOVED. */
enum socket_result socket_recv(int fd, const struct span_list *l, size_t *n);
enum socket_result socket_send(int fd, const struct span_list *l, size_t *n);

/*
 * A peer that answers nothing for so long is gone: the connection ends by itself, whether bytes are
 * under way or not.
 */
void socket_watch_peer(int fd, uint64_t silence_ns);

void socket_shut(int fd);

/* Closes; a reset tells the other end that this is no good end. */
void socket_close(int fd, bool is_reset);
