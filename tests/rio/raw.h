/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One end of a control connection, built by hand from verbs, the handshake and a session, so that
 * it can send what no role would. It knows the keys of cluster.h.
 */
#pragma once

#include "rio/cluster.h"
#include "rio/handshake.h"

enum { RAW_RECEIVES = 64, RAW_MEMORY = 256 << 10 };

struct raw {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_listener *listener;
	struct weft_address at; /* of the listener */
	struct rio_identity self;
	struct rio_known expected;
	struct rio_handshake handshake;
	struct rio_session session; /* valid after the handshake */
	uint32_t tag;
	bool is_over; /* the connection has ended */
	uint8_t recv_bufs[RAW_RECEIVES][RIO_MSG_BYTES_MAX];
	uint8_t sent[RIO_MSG_BYTES_MAX];
	/* Messages that arrived during a send. */
	struct weft_completion early[RAW_RECEIVES];
	uint32_t early_first, early_count;
	/* The peer may read this, by handle and address. */
	uint8_t memory[RAW_MEMORY];
	uint32_t handle;
};

void raw_open(struct raw *r, uint32_t unit, enum rio_role role);
void raw_close(struct raw *r);

/* Connects, with these bytes as private data. False: rejected or closed. */
bool raw_connect(struct raw *r, const struct weft_address *to, const struct rio_bytes *words);

/* Completes the handshake of a connection that raw_connect() made; raw_dial() does both. */
void raw_greet(struct raw *r, uint32_t unit, enum rio_role role);
void raw_dial(struct raw *r, const struct weft_address *to, uint32_t unit, enum rio_role role);

/* raw_listen() listens; raw_await() accepts the unit's connection and completes the handshake. */
void raw_listen(struct raw *r);
void raw_await(struct raw *r, uint32_t unit, enum rio_role role);

/* Sends raw bytes; sends a sealed message of the session; seals a message to be sent later. */
void raw_send(struct raw *r, const uint8_t *bytes, size_t length);
void raw_say(struct raw *r, const struct rio_msg *m);
size_t raw_seal(struct raw *r, const struct rio_msg *m, uint8_t bytes[RIO_MSG_BYTES_MAX]);

/* Reads the peer's memory into its own. False: refused, and the connection has ended. */
bool raw_read(struct raw *r, uint32_t handle, uint64_t remote, uint32_t length);

/* Waits for the next message of this type; false: the connection has ended. */
bool raw_hear(struct raw *r, enum rio_msg_type type, struct rio_msg *m);

/* Waits for the end of the connection. */
void raw_expect_end(struct raw *r);

/* Closes the connection; then it may connect again. */
void raw_hang_up(struct raw *r);
