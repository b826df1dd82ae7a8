/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two parts of a fabric, each a process, say to each other by a stream of bytes
 * (docs/wire/fabric.md): records, each with its length before it. Before both are known to each
 * other a record is a message of the greeting (rio/greet.h); then it is messages of these, one
 * after the other, and a tail that seals it (rio/session.h).
 *
 * A cable whose ends are in two parts is a trunk: its link is that of fabric/link.h, and what the
 * ends send are runs of flits as they are, without their headers and CRCs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/flit.h"
#include "wire/sm_attr.h"

enum {
	TRUNK_VERSION = 2,
	TRUNK_LENGTH_BYTES = 4,
	TRUNK_RECORD_MAX = 65536, /* without its length */
	TRUNK_DIGEST_BYTES = 32,
	TRUNK_MESSAGE_MAX = 17 + 4400 /* of one message: no frame is as long */
};

enum trunk_kind {
	TRUNK_HELLO = 1, /* the first message, of both */
	TRUNK_LINK = 2,	 /* an end of a cable has changed */
	TRUNK_RUN = 3,	 /* flits of a frame */
	TRUNK_ACK = 4,	 /* a flit that acknowledges */
	TRUNK_PORT = 5,	 /* a port of an endnode, or port 0 of a switch, as its part has it */
	TRUNK_ALIVE = 6	 /* there was nothing else to say for some time */
};

/* An end of a cable. Lives count from 1; the link is up when each has seen the other's. */
struct trunk_link {
	uint32_t life; /* of this end */
	uint32_t seen; /* of the other one; 0: none */
	bool wants;    /* a link */
	bool damages;  /* flits that come to it: the other end must watch for silence */
	uint8_t widths, speeds, mtu, lanes; /* that its port can have, as in PortInfo */
};

struct trunk_run {
	uint8_t lane, credit_lane;
	uint8_t hops; /* links that the frame has come by */
	bool is_last; /* its end is the frame's */
	bool wants_resend, wants_ack;
	uint16_t sequence;
	uint16_t limits[FLIT_LANES]; /* RUN: that of credit_lane */
	uint16_t index;		     /* of the first flit in its frame */
	uint16_t length;	     /* of the data: whole flits, but for the last of a frame */
	const uint8_t *data;	     /* after decoding it points to the bytes */
};

/* Told on from part to part; the greatest serial number is the latest. */
struct trunk_port {
	uint64_t serial;
	uint8_t port;
	struct sm_port_info info; /* without the M_Key */
	struct sm_guid_info guids;
	struct sm_pkey_table pkeys;
};

struct trunk_message {
	enum trunk_kind kind;
	uint32_t cable; /* its number in the topology; of PORT: of the node; not of HELLO, ALIVE */
	union {
		uint8_t digest[TRUNK_DIGEST_BYTES]; /* HELLO: of the topology, and of its parts */
		struct trunk_link link;
		struct trunk_run run;
		struct trunk_port port;
	};
};

/* Returns its length; 0: there is no room for it. */
size_t trunk_encode(const struct trunk_message *m, uint8_t *bytes, size_t room);

/*
 * The first message of some bytes; *used is its length. On error, WEFT_R_TRUNK_FORM, *m has not
 * changed.
 */
enum weft_reason trunk_decode(struct trunk_message *m, const uint8_t *bytes, size_t length,
			      size_t *used);
