/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of an adapter's connection to the process of a fabric: a unix socket of whole
 * messages. Frames go by two rings that both share (near/ring.h), each as a record of ATTACH_HEAD
 * bytes and the frame, whose VCRC is left out of account. An adapter has a bell for WAKE,
 * an eventfd: that takes neither of them a message.
 *
 *	adapter                    fabric
 *	ATTACH      --->                       at a port, with the ring of what it sends
 *	            <---  ATTACHED, with the other ring, its slot and a bell, or REFUSED
 *	CLAIM       --->                       requests for a service
 *	            <---  CLAIMED, or REFUSED
 *	RELEASE     --->                       no longer
 *	JOIN, LEAVE --->                       frames to a group
 *	WAKE        <-->                       frames, or room, are there
 *	            <---  NEWS                 the port has changed
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "driver/sys/unix_names.h"
#include "near/ring.h"
#include "wire/iba_frame.h"
#include "wire/sm_attr.h"

enum {
	ATTACH_MAGIC = 0x77664632, /* "wfF2": of messages, rings and records */
	ATTACH_NAME_BYTES = 64,
	ATTACH_SLOTS = 256, /* of adapters at a port, from 1 to 254 */
	ATTACH_RING_BYTES = RING_BYTES_MAX,
	/* Of a record: this head, and room ahead of a packet for the headers of its route. */
	ATTACH_HEAD_BYTES = RING_ALIGN,
	ATTACH_RECORD_MAX = ATTACH_HEAD_BYTES + IBA_FRAME_MAX
};

enum attach_kind {
	ATTACH_NONE = 0,
	ATTACH_ATTACH,
	ATTACH_ATTACHED,
	ATTACH_REFUSED,
	ATTACH_CLAIM,
	ATTACH_CLAIMED,
	ATTACH_RELEASE,
	ATTACH_JOIN,
	ATTACH_LEAVE,
	ATTACH_WAKE,
	ATTACH_NEWS,
	ATTACH_UNKNOWN, /* none of these, such as one of another version */
	ATTACH_CLOSED	/* no message: the connection has ended */
};

/* Claimed by the adapter that raw packets come to. */
#define ATTACH_SERVICE_RAW UINT64_MAX

/* What has happened to a port since the last news; its state says what it is now. */
enum attach_news {
	ATTACH_NEWS_STATE = 1,
	ATTACH_NEWS_LID = 2,
	ATTACH_NEWS_SM = 4,
	ATTACH_NEWS_PKEYS = 8,
	ATTACH_NEWS_GIDS = 16,
	ATTACH_NEWS_REREGISTER = 32
};

/* A port of an endnode, as its agents have it; without the M_Key. */
struct attach_state {
	struct sm_port_info info;
	uint64_t node_guid, port_guid;
	uint64_t guids[SM_GUIDS]; /* with the prefix: its GIDs. Unused ones are 0 */
	uint16_t p_keys[SM_PKEYS];
	char node[ATTACH_NAME_BYTES];
};

/* A record's head. */
struct attach_head {
	uint32_t at;	 /* of the frame, from the record's begin */
	uint32_t length; /* of the frame, with room for its VCRC */
};

struct attach_message {
	uint32_t magic;
	uint16_t kind;	  /* enum attach_kind */
	uint8_t slot;	  /* ATTACHED: of the adapter */
	uint32_t reason;  /* REFUSED: enum weft_reason */
	uint32_t port;	  /* ATTACH, ATTACHED; 0 in ATTACH: the first that has a cable */
	uint64_t service; /* CLAIM, RELEASE */
	uint32_t news;	  /* NEWS: enum attach_news */
	uint8_t gid[16];  /* JOIN, LEAVE: of the group */
	char node[ATTACH_NAME_BYTES];
	struct attach_state state; /* ATTACHED, NEWS */
	int descriptor;		   /* of a ring, or -1; its receiver closes it */
	int bell;		   /* ATTACHED, else -1; the same */
};

/* The name of a fabric's socket for adapters. */
struct unix_names attach_names_of(const char *fabric);

struct attach_message attach_message_of(enum attach_kind kind);

/* False: the connection has ended, or its socket is full. */
bool attach_message_send(int fd, const struct attach_message *m);

/* The next message; kind NONE: there is none now. CLOSED, UNKNOWN: it is of no more use. */
void attach_message_take(int fd, struct attach_message *m);
