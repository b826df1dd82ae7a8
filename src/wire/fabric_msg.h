/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs and the process of a fabric say to each other (docs/wire/fabric.md), by a unix
 * socket of whole messages: questions about ports and cables, and the MADs of a program that
 * manages the fabric. Both ends are weft's, of this host and this user.
 *
 * Not here: frames of adapters, which go by shared memory (driver/fabric/).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/sm_attr.h"

enum {
	FABRIC_MSG_VERSION = 1,
	FABRIC_MSG_NAME = 64,	    /* of a node, with the 0 at its end */
	FABRIC_MSG_BYTES_MAX = 512, /* of a message, without the MAD behind it */
	FABRIC_MSG_MAD_MAX = 32768, /* longer ones are in a file in memory that comes along */
	FABRIC_MSG_METHOD_WORDS = 4,
	FABRIC_MSG_OUI = 3,
	FABRIC_MSG_PART_NAME = 64,
	FABRIC_MSG_ADDRESS = 80,
	FABRIC_MSG_GID = 16
};

enum fabric_msg_kind {
	FABRIC_MSG_ANSWER = 1, /* to a program: reason, value */
	FABRIC_MSG_PORT =
		2, /* what is known of a port; the answer is a FABRIC_MSG_IS_PORT; value 1:
				   the program is at that node */
	FABRIC_MSG_IS_PORT = 3,	     /* to a program */
	FABRIC_MSG_ATTACH = 4,	     /* from now on this connection's MADs are of that port */
	FABRIC_MSG_MANAGER = 5,	     /* as long as this connection is there, the port is an SM's */
	FABRIC_MSG_AGENT = 6,	     /* of the attached port; the answer's value is its number */
	FABRIC_MSG_AGENT_REMOVE = 7, /* value */
	FABRIC_MSG_SEND = 8,	     /* a MAD of an agent; no answer */
	FABRIC_MSG_RECEIVED = 9,     /* to a program: a MAD for an agent of it */
	FABRIC_MSG_CUT = 10,	     /* the cable at a port; value of the next two */
	FABRIC_MSG_MEND = 11,
	FABRIC_MSG_ERRORS = 12,	 /* one bit in so many; 0: none */
	FABRIC_MSG_DEGRADE = 13, /* one of so many parts of its rate */
	FABRIC_MSG_CAPTURE = 14, /* frames of a port; they come as FABRIC_MSG_FRAME */
	FABRIC_MSG_FRAME = 15,
	FABRIC_MSG_PART = 16,	 /* in which part a node is; the answer is a FABRIC_MSG_IS_PART */
	FABRIC_MSG_IS_PART = 17, /* to a program */
	FABRIC_MSG_KINDS
};

/* By name; PORT: or "#NUMBER", or "0xGUID" of one of its ports. */
struct fabric_msg_where {
	char node[FABRIC_MSG_NAME];
	uint32_t port; /* 0: the first that has a cable; PORT: that of the GUID */
};

struct fabric_msg_agent {
	uint8_t mgmt_class, class_version, rmpp_version;
	uint8_t oui[FABRIC_MSG_OUI];
	uint32_t methods[FABRIC_MSG_METHOD_WORDS];
};

/* The bytes follow the message, or are in a file. */
struct fabric_msg_mad {
	uint32_t agent;
	uint32_t error; /* RECEIVED: an errno, ETIMEDOUT: the request had no answer */
	uint32_t timeout_ms, retries;
	uint32_t length;
	bool is_in_file;
	uint16_t lid, pkey_index;
	uint32_t qpn, q_key;
	uint8_t level, path_bits;
	bool has_grh;
	uint8_t gid_index, hop_limit, traffic_class;
	uint32_t flow_label;
	uint8_t gid[FABRIC_MSG_GID];
};

struct fabric_msg_port {
	uint32_t node, port; /* their numbers in the topology */
	struct sm_node_info node_info;
	struct sm_node_description description;
	struct sm_port_info port_info;
	struct sm_guid_info guids;
	struct sm_pkey_table pkeys;
	bool is_manager;
};

/* Of a fabric that is cut: the part that was asked, and the one that has the node. */
struct fabric_msg_part {
	char self[FABRIC_MSG_PART_NAME], name[FABRIC_MSG_PART_NAME];
	char address[FABRIC_MSG_ADDRESS]; /* of the host that has it; empty: not known here */
	bool is_joined;			  /* with the part that was asked */
};

struct fabric_msg {
	enum fabric_msg_kind kind;
	uint32_t reason; /* enum weft_reason */
	uint64_t value;
	union {
		struct fabric_msg_where
			where; /* PORT, ATTACH, MANAGER, PART, and those of cables */
		struct fabric_msg_agent agent;
		struct fabric_msg_mad mad;
		struct fabric_msg_port port;
		struct fabric_msg_part part;
	};
};

/* Returns its length. What follows it is the caller's. */
uint32_t fabric_msg_encode(const struct fabric_msg *m, uint8_t bytes[FABRIC_MSG_BYTES_MAX]);

/*
 * *used is the length of the message itself: what follows is a MAD, or nothing. On error,
 * WEFT_R_FABRIC_ASK, *m has not changed.
 */
enum weft_reason fabric_msg_decode(struct fabric_msg *m, const uint8_t *bytes, size_t length,
				   size_t *used);
