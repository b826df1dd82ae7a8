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
 *
 * The same of a stream by shared memory (driver/tcp/link_near.h), with other kinds:
 *
 *	responder                   initiator
 *	RINGS, one for each
 *	direction             --->
 *	           <--- ROUSE --->                       bytes, or room, are there
 *	           <---  END  --->                       no more bytes will come
 *	           <--- RESET --->                       the same, and none are taken
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
	NEAR_RINGS,
	NEAR_ROUSE,
	NEAR_END,
	NEAR_RESET,
	NEAR_UNKNOWN, /* none of these, such as one of another version */
	NEAR_CLOSED   /* no message: the connection has ended */
};

enum { NEAR_DESCRIPTORS = 2 };

struct near_message {
	enum near_kind kind;
	uint8_t adapter_slot; /* of its sender; 0 in messages of a stream */
	bool takes_runs;      /* of a TAKEN: see struct ib_in */
	uint64_t
		adapter_id; /* of its sender: by chance, another one when the slot is taken again */
	/*
	 * Of an OFFER: the ring. Of a TAKEN: both parts of board.h. Of RINGS: two. -1: none. Those
	 * that have come are the receiver's to close.
	 */
	int descriptors[NEAR_DESCRIPTORS];
};
