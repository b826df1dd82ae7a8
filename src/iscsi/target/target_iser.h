/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of a target by iSER (RFC 7145): the datamover is RDMA. PDUs go as Sends, data by RDMA
 * Writes and RDMA Reads of the target. The owner has the queue pair; for each connection of
 * iscsi_node_accept_iser() it
 *
 *	posts receives of ISER_MESSAGE_MAX bytes, and hands each message to iscsi_iser_received()
 *	posts what iscsi_iser_next() has, when the connection was on the list of iscsi_node_attend()
 *	tells iscsi_iser_done() how each of these ended
 *
 * Everything else of target.h holds. After ISCSI_ACTION_CLOSE the owner disconnects, tells how all
 * that it had posted has ended, and then destroys the connection: memory of tasks is in use until
 * then.
 */
#pragma once

#include "iscsi/target/target.h"
#include "wire/iser.h"

enum {
	ISER_TARGET_RECV_BYTES = 8192, /* TargetRecvDataSegmentLength, and the largest in a login */
	ISER_MESSAGE_MAX = ISER_HEADER_BYTES + ISCSI_HEADER_MAX + ISER_TARGET_RECV_BYTES,
	/* Of messages to the initiator. */
	ISER_ANSWER_MAX = ISER_HEADER_BYTES + ISCSI_BHS_BYTES + 2048
};

/* As iscsi_node_accept(). */
enum weft_reason iscsi_node_accept_iser(struct iscsi_node *node, const struct iscsi_accept *a,
					uint64_t now_ns, struct iscsi_connection **out);

/*
 * A message came. If it must wait, it is copied: the receive of the owner is free again. A
 * connection with more than may wait ends: its initiator sends, and takes no answers.
 */
void iscsi_iser_received(struct iscsi_connection *c, const uint8_t *bytes, uint32_t length,
			 uint64_t now_ns);

enum iser_work_kind { ISER_SEND, ISER_WRITE, ISER_READ };

struct iser_work {
	enum iser_work_kind kind;
	uint64_t id;	 /* for iscsi_iser_done() */
	uint32_t length; /* ISER_SEND: of the message, which was written to the room */
	/* ISER_WRITE, ISER_READ: our memory, and where that of the initiator is. */
	struct span memory;
	uint32_t remote_tag;
	uint64_t remote_addr;
};

/* What the owner can post now. */
struct iser_room {
	uint8_t *message; /* for a Send: ISER_ANSWER_MAX bytes */
	bool can_read;	  /* fewer Reads than the peer allows are in flight */
};

/* The next thing to post. False: there is nothing that there is room for. */
bool iscsi_iser_next(struct iscsi_connection *c, const struct iser_room *room,
		     struct iser_work *work);

/* It ended; WEFT_OK: well. Otherwise the connection ends. */
void iscsi_iser_done(struct iscsi_connection *c, uint64_t id, enum weft_reason reason,
		     uint64_t now_ns);

/*
 * The queue pair is down: for this reason, or, with WEFT_OK and WEFT_R_PEER_GONE, because the other
 * end has gone, as iscsi_connection_eof().
 */
void iscsi_iser_lost(struct iscsi_connection *c, enum weft_reason reason, uint64_t now_ns);
