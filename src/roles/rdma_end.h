/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of a role on either wire: iWARP, set up by MPA on TCP, and RoCE, set up by
 * the connection manager of InfiniBand. An owner makes the queue pair, and sees its completions.
 *
 *	dials    rdma_end_dial()
 *	listens  rdma_listener_open(); RDMA_REQUEST; rdma_listener_next();
 *	         rdma_request_accept() or rdma_request_reject()
 *	both     RDMA_UP or RDMA_DOWN; rdma_end_close()
 *
 * The context of each listener and of each end's queue pair is its `object`. The owner hands every
 * event with such a context to rdma_event().
 */
#pragma once

#include <weft/roce.h>
#include <weft/weft.h>

enum rdma_wire { RDMA_IWARP, RDMA_ROCE };

/* RoCE takes less than iWARP: the RDMA connection manager uses 36 bytes of it. */
enum { RDMA_PRIVATE_MAX = 56 };

enum rdma_kind { RDMA_END, RDMA_LISTENER, RDMA_OTHER };

/* The context of events. An owner has objects of its own (RDMA_OTHER) for its other contexts. */
struct rdma_object {
	enum rdma_kind kind;
};

/* What an end brings to a connection. */
struct rdma_terms {
	const void *private_data;
	uint32_t private_bytes;	     /* at most RDMA_PRIVATE_MAX */
	uint8_t reads_in, reads_out; /* Reads of the peer, and of ours, at a time */
	uint64_t timeout_ns;	     /* to connect; 0: the default of the wire */
	/* RoCE: a peer that is there, but does not run, is not given up before. 0: some seconds. */
	uint64_t patience_ns;
};

/* What the other end brought. */
struct rdma_peer {
	struct weft_address local, remote;
	uint8_t reads_out; /* Reads of ours at a time, once connected */
	uint8_t private_data[RDMA_PRIVATE_MAX];
	uint32_t private_bytes; /* longer ones are cut */
};

enum rdma_state {
	RDMA_IDLE = 0,
	RDMA_CONNECTING,
	RDMA_UP,
	RDMA_DOWN, /* refused, failed or ended; posted requests are flushed */
	RDMA_STATES
};

struct rdma_end {
	struct rdma_object object;
	enum rdma_wire wire;
	enum rdma_state state;
	enum weft_reason reason; /* why it is down */
	bool is_active;
	bool is_uc; /* RoCE: unacknowledged; the owner sets it, its queue pair is of service UC */
	struct weft_qp *qp;
	struct rdma_peer peer;
	/* RoCE */
	struct weft_cm_id *cm_id;
	struct weft_cm_id_offer offer;
	struct weft_cm_id_news heard;
	uint32_t mtu_bytes;
};

struct rdma_listener {
	struct rdma_object object;
	enum rdma_wire wire;
	bool takes_uc; /* set by the owner: also requests of unacknowledged connections */
	struct weft_listener *tcp;
	struct weft_cm_service *service;
};

/* A request for a connection, to be accepted or rejected. */
struct rdma_request {
	enum rdma_wire wire;
	bool is_uc;
	struct weft_request *tcp;
	struct weft_cm_id *cm_id;
	struct weft_cm_id_news heard;
	struct rdma_peer peer;
};

/*
 * An end is ready for its queue pair to be made, with &end->object as its context; on RoCE its
 * adapter must be on the network before (weft_roce_open()).
 */
void rdma_end_init(struct rdma_end *end, enum rdma_wire wire);

/* Connects the queue pair, in RESET, of service RC (or UC). The result is an event. */
enum weft_reason rdma_end_dial(struct rdma_end *end, struct weft_adapter *adapter,
			       struct weft_qp *qp, const struct weft_address *to,
			       const struct rdma_terms *terms);

/*
 * Ends the connection in good order, and forgets how it came to be. The queue pair stays, in Error,
 * and is the owner's to destroy.
 */
void rdma_end_close(struct rdma_end *end);

enum weft_reason rdma_listener_open(struct rdma_listener *l, struct weft_adapter *adapter,
				    enum rdma_wire wire, const struct weft_address *at);
enum weft_reason rdma_listener_address(struct rdma_listener *l, struct weft_address *at);
void rdma_listener_close(struct rdma_listener *l);

/* Takes the next request. False: there is none. */
bool rdma_listener_next(struct rdma_listener *l, struct rdma_request *request);

/* The request is gone after either. After a refusal of accept the queue pair can be destroyed. */
enum weft_reason rdma_request_accept(struct rdma_request *request, struct rdma_end *end,
				     struct weft_qp *qp, const struct rdma_terms *terms);
void rdma_request_reject(struct rdma_request *request);

/* An event of an end. True: its state has changed. */
bool rdma_end_event(struct rdma_end *end, const struct weft_event *event);
