/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of a near connection: a unix socket from an adapter that sends packets to the one
 * that receives them.
 *
 *	sender                      receiver
 *	OFFER, with its ring  --->
 *	                      <---  TAKEN, or REFUSED
 *	WAKE                  --->                       a packet is there
 *	                      <---  WAKE                 there is room again
 *	                      <---  LEFT                 the adapter closes
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum near_kind {
	NEAR_NONE = 0,
	NEAR_OFFER,
	NEAR_TAKEN,
	NEAR_REFUSED,
	NEAR_WAKE,
	NEAR_LEFT,
	NEAR_CLOSED /* no message: the connection has ended */
};

struct near_message {
	enum near_kind kind;
	uint8_t adapter_slot; /* of its sender */
	uint64_t
		adapter_id; /* of its sender: by chance, another one when the slot is taken again */
	int descriptor;	    /* of an OFFER: the ring, for the receiver to close; else -1 */
};

/* False: the connection has ended, or its socket is full. */
bool near_message_send(int fd, const struct near_message *m);

/*
 * The next message: NEAR_NONE if there is none now, NEAR_CLOSED if the connection has ended or
 * something else has come. An OFFER whose descriptor could not be received has -1.
 */
void near_message_take(int fd, struct near_message *m);
