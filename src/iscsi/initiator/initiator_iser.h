/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of an initiator's session on iSER (RFC 7145): PDUs go as Sends of a queue pair, and the
 * target moves the data of commands by RDMA from and to memory that each command advertises. No
 * I/O: the owner has the queue pair, posts what is asked for, and hands in what came.
 *
 *	iscsi_initiator_begin(session, iser_port_calls(), port, ...)
 *	iser_port_next()	what to send next: the owner exposes the memory of a command, then
 *	iser_port_encode()	writes the message, which the owner posts
 *	iser_port_take()	a message came: what it means for iscsi_initiator_take()
 *
 * A write that fits goes with its command as immediate data; any other names all of its memory, so
 * that it does not matter whether a target counts the offset from the first byte, or from the first
 * that it has to fetch. There is no unsolicited Data-Out.
 */
#pragma once

#include "iscsi/initiator/initiator.h"
#include "wire/iser.h"

enum {
	ISER_PORT_RECV_BYTES = 8192, /* InitiatorRecvDataSegmentLength */
	ISER_PORT_MESSAGE_MAX = ISER_HEADER_BYTES + ISCSI_HEADER_MAX + ISER_PORT_RECV_BYTES,
	/* Of messages to the target, without immediate data, which stays where it is. */
	ISER_PORT_SEND_MAX = ISER_HEADER_BYTES + ISCSI_BHS_BYTES + ISCSI_TEXT_MIN,
	ISER_PORT_CONTROLS_MAX = 8, /* that wait to be sent */
	ISER_PORT_UNEXPECTED = 64   /* MaxOutstandingUnexpectedPDUs that this end declares */
};

struct iser_port;

/* depth: of the session. NULL: no memory. */
struct iser_port *iser_port_create(uint32_t depth);
void iser_port_destroy(struct iser_port *p);

const struct iscsi_port_calls *iser_port_calls(void);

/* What a session by iSER wishes: sets the keys of RFC 7145 section 6 and those they depend on. */
void iser_port_wish(struct iscsi_params *wish);

/* A new connection begins: nothing is under way. */
void iser_port_reset(struct iser_port *p);

/* The session wants the connection closed. */
bool iser_port_is_closing(const struct iser_port *p);

struct iser_message {
	bool is_command;
	uint32_t slot;			     /* of a command */
	const struct iscsi_request *request; /* of a command */
	/* The command's data goes with it, behind the message: request->memory. */
	uint32_t immediate_bytes;
	bool needs_tag; /* of request->memory, for the direction of the request */
};

/* What to send next; the same until iser_port_encode(). False: nothing. */
bool iser_port_next(struct iser_port *p, struct iser_message *m);

/*
 * Writes it, without immediate data, to a room of ISER_PORT_SEND_MAX bytes; it counts as sent.
 * With needs_tag: where the target finds the memory.
 */
uint32_t iser_port_encode(struct iser_port *p, uint32_t tag, uint64_t addr, uint8_t *room);

/* The memory of the command at hand cannot be exposed: it is not sent, nor are those behind it. */
void iser_port_refuse(struct iser_port *p);

/* Takes the next command that was not sent because of that, in their order. */
bool iser_port_unsent(struct iser_port *p, uint32_t *slot);

/*
 * Takes the slot of a command that is over, and whose memory was advertised: to be called after
 * each call of the session, before what that has ended is told to others.
 */
bool iser_port_over(struct iser_port *p, uint32_t *slot);

/*
 * A message came; invalidated: the tag that the target invalidated with it, 0: none. Sets what the
 * session is to be told, which points into the bytes.
 */
void iser_port_take(struct iser_port *p, const uint8_t *bytes, uint32_t length,
		    uint32_t invalidated, struct iscsi_received *r);
