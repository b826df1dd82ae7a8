/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of a near connection, from an adapter that sends packets to the one that receives
 * them.
 *
 *	sender                      receiver
 *	OFFER, with its ring  --->
 *	                      <---  TAKEN, with its board, or REFUSED
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
	NEAR_UNKNOWN, /* none of these, such as one of another version */
	NEAR_CLOSED   /* no message: the connection has ended */
};

enum { NEAR_DESCRIPTORS = 2 };

struct near_message {
	enum near_kind kind;
	uint8_t adapter_slot; /* of its sender */
	bool takes_runs;      /* of a TAKEN: see struct ib_in */
	uint64_t
		adapter_id; /* of its sender: by chance, another one when the slot is taken again */
	/*
	 * Of an OFFER: the ring. Of a TAKEN: both parts of board.h. -1: none. Those that have come
	 * are the receiver's to close.
	 */
	int descriptors[NEAR_DESCRIPTORS];
};
