/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program's side of the socket to the process of a fabric (wire/fabric_msg.h). Which fabric is
 * said by WEFT_FABRIC, and which node of it the program runs on by WEFT_NODE.
 *
 * Compiled into each library that needs it. No call blocks for longer than FABRIC_PATIENCE_MS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "driver/sys/unix_sockets.h"
#include "wire/fabric_msg.h"

enum { FABRIC_PATIENCE_MS = 10000 };

/* The names of the socket of a fabric; without a name: of that which WEFT_FABRIC says. */
struct unix_names fabric_socket_names(const char *fabric);

/* The node of this program; NULL: it runs on none. */
const char *fabric_client_node(void);

/* A descriptor, never blocking. WEFT_R_FABRIC_ABSENT: none runs. */
enum weft_reason fabric_client_connect(const char *fabric, int *fd);

/* Asks, and waits for the answer. The answer's own reason is returned as well. */
enum weft_reason fabric_client_ask(int fd, const struct fabric_msg *ask, struct fabric_msg *answer);

/* The same at a connection where MADs come: the answer comes aside. */
enum weft_reason fabric_client_ask_aside(int fd, const struct fabric_msg *ask,
					 struct fabric_msg *answer);

/* Connects, asks, and closes. */
enum weft_reason fabric_client_ask_once(const struct fabric_msg *ask, struct fabric_msg *answer);

/* What is known of a port of a node, as fabric_msg_where names it; of this program's node. */
enum weft_reason fabric_client_look(const char *node, uint32_t port, struct fabric_msg_port *p);
enum weft_reason fabric_client_port(uint32_t port, struct fabric_msg_port *p);

/* ---- Either side ---------------------------------------------------------------------------- */

/* A message without a MAD; one with a MAD. 0 or a negative errno: -EAGAIN: not now. */
int fabric_msg_send(int fd, const struct fabric_msg *m);
int fabric_frame_send(int fd, const struct fabric_msg *m, const uint8_t *frame, uint32_t length);
int fabric_mad_send(int fd, struct fabric_msg *m, const uint8_t *mad);

/* A message that has come, with what is behind it, and the descriptor that came along, or -1. */
struct fabric_packet {
	struct fabric_msg m;
	const uint8_t *tail;
	size_t tail_bytes;
	int file;
	uint8_t bytes[FABRIC_MSG_BYTES_MAX + FABRIC_MSG_MAD_MAX];
};

/*
 * 0 or a negative errno: -EAGAIN: there is none; -EPIPE: the other end is gone; -EPROTO: it is no
 * message. is_peek: it stays, and its descriptor is not there.
 */
int fabric_packet_receive(int fd, struct fabric_packet *p, bool is_peek);

/* The first bytes of its MAD, at most `room`. 0, or -EPROTO: they are not there. */
int fabric_packet_mad(const struct fabric_packet *p, uint8_t *mad, size_t room);

/* Closes the descriptor, if it is still there. */
void fabric_packet_done(struct fabric_packet *p);
