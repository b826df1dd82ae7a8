/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * weft: connections of iWARP on TCP: addresses, dialling, listeners and their requests, what a
 * connection has carried. The conventions of <weft/weft.h> hold, which includes this; connections
 * of RoCE are in <weft/roce.h>.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_adapter;
struct weft_listener;
struct weft_qp;
struct weft_request;

/* An address of IPv4 or IPv6 with a TCP port. */
struct weft_address {
	uint8_t family; /* 4 or 6; to listen at, 0: every address of the host */
	uint8_t ip[16]; /* as on the wire; family 4 has it in the first four */
	uint16_t port;	/* to listen at, 0: one that is free */
	uint32_t scope; /* family 6, link-local: index of the interface */
};

/* Reads "192.0.2.1:7471", "[2001:db8::1]:7471", "[fe80::1%eth0]:7471", ":7471" (any address). */
enum weft_reason weft_address_parse(const char *text, struct weft_address *address);

enum { WEFT_ADDRESS_TEXT = 80 };

/* Writes what weft_address_parse() reads. */
void weft_address_text(const struct weft_address *address, char text[WEFT_ADDRESS_TEXT]);

enum { WEFT_PRIVATE_MAX = 508 };

/* What an end brings to a connection. */
struct weft_connect_options {
	const struct weft_address *from; /* dialling: our end; NULL: as the system chooses */
	const void *private_data; /* for the other end's program; Linux takes no more than 252 */
	uint32_t private_bytes;	  /* at most WEFT_PRIVATE_MAX */
	/*
	 * Reads and atomics: of the peer that are served at a time, of ours in flight (never more
	 * than the queue pair's outstanding_max). Default 16; WEFT_DEPTH_NONE: none.
	 */
	uint32_t ird, ord;
	/* No CRC, if the other end does not want it either: large payload is not copied. */
	bool is_crc_off;
	bool wants_markers;    /* in what the other end sends: costs a copy of every byte here */
	bool is_client_server; /* dialling: the listener must not send first (no RTR message) */
	uint8_t mpa_revision;  /* dialling: 1 or 2; default 2 */
	uint64_t timeout_ns; /* of the set-up, or what is left of it when accepting; default 10 s */
	uint64_t refused_wait_ns; /* dialling: while no program listens, try again for so long */
	/*
	 * Accepting: an end that dialled without an RTR message speaks first (RFC 5044 section
	 * 7.1.2). If it stays silent for so long, send all the same; default: never.
	 */
	uint64_t first_wait_ns;
	/*
	 * A connection whose other host answers nothing for so long, or whose other end takes
	 * nothing of what waits to be sent, is lost (WEFT_R_STREAM_LOST): TCP asks an idle one now
	 * and then. In whole seconds, rounded up, so it may take one or two longer. Default: a
	 * dead peer is noticed only when something is sent, in TCP's own time.
	 */
	uint64_t alive_ns;
	/*
	 * 1: if the other end is a process of this host and user, or of root, and asks for it as
	 * well, the stream goes by shared memory instead of TCP (near.md), without a CRC.
	 */
	uint64_t near;
	uint64_t reserved[7]; /* zero */
};

#define WEFT_DEPTH_NONE UINT32_MAX

/*
 * Begins to connect a queue pair (service RC, in RESET or INIT) to a listener; one of service ISCSI
 * to a target, by TCP alone (iscsi_qp.h). The result is reported by WEFT_EVENT_CONNECTED, with the
 * queue pair operational, or WEFT_EVENT_CONNECT_FAILED, with the queue pair as before, or in Error
 * if the two ends had agreed already and could not go on; what is known at once the call itself
 * returns. weft_qp_peer() says what the other end brought, also with a rejection.
 *
 * On such a connection a Send or Write that ended well has been given to TCP; that it arrived only
 * an answer can tell. Send with immediate does not exist and a Read has one sink (WEFT_R_WR_WIRE);
 * completions and attributes do not name the peer's queue pair.
 */
enum weft_reason weft_qp_dial(struct weft_qp *qp, const struct weft_address *to,
			      const struct weft_connect_options *options);

/*
 * Ends a connection in good order: what the wire was given arrives, what is still queued is
 * flushed. The queue pair goes to Error; the peer's does too (WEFT_R_PEER_GONE).
 */
enum weft_reason weft_qp_disconnect(struct weft_qp *qp);

struct weft_listener_options {
	uint32_t requests_max; /* that are here at a time, unanswered; default 128, at most 65536 */
	uint64_t timeout_ns;   /* for a connection to become a request; default 10 s */
	void *context;	       /* returned in events */
	uint64_t reserved[4];  /* zero */
};

/* Takes connections at an address. WEFT_EVENT_REQUEST says that a request has come. */
enum weft_reason weft_listener_open(struct weft_adapter *adapter, const struct weft_address *at,
				    const struct weft_listener_options *options,
				    struct weft_listener **listener);

/* Where it listens, with the port that was found. */
enum weft_reason weft_listener_address(struct weft_listener *listener,
				       struct weft_address *address);
uint32_t weft_listener_number(const struct weft_listener *listener);

/* Requests not yet taken are rejected; those that were taken remain to be answered. */
enum weft_reason weft_listener_close(struct weft_listener *listener);

/* Takes the next request; NULL if there is none. It must be accepted or rejected. */
enum weft_reason weft_listener_next(struct weft_listener *listener, struct weft_request **request);

/*
 * Accepts a request with a queue pair (service RC, in RESET or INIT). The result is reported as in
 * weft_qp_dial(). The request is gone after this, unless the call was refused for its arguments;
 * WEFT_R_CONNECT_CLOSED: the other end has left meanwhile, and the request is gone too.
 */
enum weft_reason weft_request_accept(struct weft_request *request, struct weft_qp *qp,
				     const struct weft_connect_options *options);

/* Rejects it; of the options only the private data counts. The request is gone after this. */
enum weft_reason weft_request_reject(struct weft_request *request,
				     const struct weft_connect_options *options);

/* The other end of a connection, or of one to be. */
struct weft_peer {
	struct weft_address local, remote;
	uint8_t private_data[WEFT_PRIVATE_MAX + 4];
	uint32_t private_bytes;
	uint32_t ird, ord;		 /* what it brought; WEFT_DEPTH_NONE: it did not say */
	uint32_t agreed_ird, agreed_ord; /* what counts here, once connected */
	bool has_crc, sends_markers, takes_markers; /* the same */
	uint8_t mpa_revision;
	uint64_t is_near;     /* 1: the stream goes by shared memory, and has no CRC */
	uint64_t reserved[7]; /* zero */
};

enum weft_reason weft_request_query(struct weft_request *request, struct weft_peer *peer);

/* WEFT_R_QP_UNCONNECTED if it never was, nor tried. */
enum weft_reason weft_qp_peer(struct weft_qp *qp, struct weft_peer *peer);

/*
 * What a connection has carried. RoCE: frames are packets; what a queue pair of RD shares with
 * others, packets and bytes, is not counted for it, nor are system calls, see weft_roce_query().
 */
struct weft_traffic {
	uint64_t messages_in, messages_out;
	uint64_t frames_in, frames_out;	  /* FPDUs */
	uint64_t bytes_in, bytes_out;	  /* of the TCP stream, or of UDP */
	uint64_t payload_in, payload_out; /* of these: the programs' own */
	uint64_t payload_copied;	  /* of the payload: copied once more by weft */
	uint64_t calls_in, calls_out;	  /* system calls that moved bytes, or tried to */
	uint64_t calls_empty;		  /* of these: found nothing to move, as polling may */
	uint64_t reserved[8];		  /* zero */
};

/* Of the connection that the queue pair has, or had last. */
enum weft_reason weft_qp_traffic(struct weft_qp *qp, struct weft_traffic *traffic);

#ifdef __cplusplus
}
#endif
