/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand transport as RoCEv2: one port of an adapter as a core. It carries the requests of
 * the queue pairs that are connected through it, and serves those of their peers.
 *
 * The owner (driver or simulator) moves the packets:
 *
 *	ib_port_recv()   one UDP payload has arrived, with the addresses it came by
 *	ib_port_send()   the next packet to send, as a gather list; false: nothing now
 *	ib_port_due(), ib_port_expire()   the next deadline
 *	ib_port_event()  what the owner must know: pulled, never called back
 *
 * The owner lets the adapter move (adapter_progress()) after recv() and expire(), and then sends.
 *
 * Payload is sent from the consumer's memory, and never kept: what was sent is described by packet
 * sequence numbers, the request's slot and the offset (SEND-08, SEND-11), and what must be sent
 * again is asked of the consumer's memory again (SEND-09): in spaces of their own it is pinned from
 * ib_port_send() to ib_port_sent() (SEND-05), or copied out (SEND-04). So no page is held between.
 * An owner that needs packets in one piece has them copied once more, as a network card reads them.
 *
 * Payload is placed only after the ICRC of its packet was found good.
 */
#pragma once

#include "base/span.h"
#include "verbs/verbs.h"
#include "wire/iba.h"
#include "wire/inet.h"
#include "wire/mad.h"

struct ib_port;
struct ib_conn;
struct ib_ee;

/* How packets go to a peer. */
struct ib_path {
	bool is_ipv6;
	struct inet_end from, to;	  /* from.port: of this connection; to.port: IBA_UDP_PORT */
	uint32_t mtu_bytes;		  /* of payload: 256 to 4096 */
	uint8_t traffic_class, hop_limit; /* hop_limit 0: IB_HOP_LIMIT */
	uint32_t flow_label;		  /* from.port stands for it */
};

/* ---- The port ------------------------------------------------------------------------------- */

enum { IB_PKEYS_MAX = 16 };

struct ib_port_config {
	struct adapter *adapter;
	uint16_t p_keys[IB_PKEYS_MAX]; /* all 0: the default one alone */
};

/* NULL when memory is short. It has room for as many connections as the adapter has queue pairs. */
struct ib_port *ib_port_create(const struct ib_port_config *config);

/* When no connection is left. */
void ib_port_destroy(struct ib_port *port);

/* RFC 3168 section 5: what an IP header says of congestion. */
enum ib_ecn { IB_ECN_NOT = 0, IB_ECN_ECT1 = 1, IB_ECN_ECT0 = 2, IB_ECN_CE = 3 };
enum { IB_ECN_MASK = 3, IB_HOP_LIMIT = 64 };

/* A packet that has arrived; borrowed for the call. */
struct ib_in {
	const uint8_t *bytes; /* the UDP payload */
	size_t length;
	bool is_ipv6;
	struct inet_end from, to;
	/* Whether the next two are known, or a guess: sockets do not tell them (iba_icrc.h). */
	bool is_ipv4_word_known;
	uint16_t ipv4_id, ipv4_fragment;
	uint8_t traffic_class, hop_limit; /* of the IP header, with its enum ib_ecn */
};

/* WEFT_OK, or why it was dropped. */
enum weft_reason ib_port_recv(struct ib_port *port, uint64_t now_ns, const struct ib_in *in);

enum {
	IB_COPY_MAX = 256,     /* payload up to this goes out behind its header, in one piece */
	IB_OUT_SPANS_MAX = 62, /* of payload */
	IB_OUT_BYTES = IBA_HEADERS_MAX + IB_COPY_MAX + IBA_TRAILER_MAX
};

/*
 * A packet to send: spans of its own bytes and of registered memory. They are good until the next
 * call of anything but ib_port_send(): several may be gathered, each in a struct of its own.
 * Packets of one length and path are such that one call of a socket may send them. Whoever needs
 * them in one piece, or as they were at one moment, gives the room for that: there they are copied.
 */
struct ib_out {
	uint8_t *room;	  /* in: for all of it, IBA_PACKET_MAX bytes; NULL: in pieces */
	uint16_t ipv4_id; /* in: the identification that IPv4 will have, with IBA_IPV4_DF */
	uint8_t ecn;	  /* enum ib_ecn, for the IP header */
	/* The port can keep no more copies: send it before asking for another. Never with room. */
	bool is_last;
	const struct ib_path *path; /* of a connection, or own_path */
	struct ib_path own_path;
	struct span_list spans;
	uint8_t bytes[IB_OUT_BYTES];
};

/* What the IP header says. */
static inline uint8_t ib_out_traffic_class(const struct ib_out *out)
{
	return (uint8_t)((out->path->traffic_class & ~IB_ECN_MASK) | out->ecn);
}

static inline uint8_t ib_path_hop_limit(const struct ib_path *path)
{
	return path->hop_limit ? path->hop_limit : IB_HOP_LIMIT;
}

bool ib_port_send(struct ib_port *port, uint64_t now_ns, struct ib_out *out);

/*
 * What ib_port_send() has given out so far has left: nothing is pinned any more (SEND-06). Calls
 * other than that one mean the same.
 */
void ib_port_sent(struct ib_port *port, uint64_t now_ns);

/* Whether ib_port_send() may have something. */
bool ib_port_has_output(const struct ib_port *port);

/* Whether that is but acknowledgements, which lose nothing by going with what is posted next. */
bool ib_port_has_acks_only(const struct ib_port *port);

/* UINT64_MAX: no deadline. */
uint64_t ib_port_due(const struct ib_port *port);
void ib_port_expire(struct ib_port *port, uint64_t now_ns);

/*
 * That is of two kinds. By one an answer should have come, so who expires it looks first at what
 * has. By the other a connection that keeps to a rate may send on, and no look is due:
 * ib_port_wake() is for these alone.
 */
uint64_t ib_port_wait_due(const struct ib_port *port);
uint64_t ib_port_wake_due(const struct ib_port *port);
void ib_port_wake(struct ib_port *port, uint64_t now_ns);

/*
 * A connection whose queue pair has left it, after all of what it had to say was given out once;
 * NULL: none. Its owner tells the other end, and destroys it when that is done.
 */
struct ib_conn *ib_port_event(struct ib_port *port);

/* ---- Management datagrams ------------------------------------------------------------------- */

/* One from or to queue pair 1 of a peer. The path is the one to it: from is this end. */
struct ib_mad {
	struct ib_path path;
	uint16_t p_key; /* to send, 0: the first of the port */
	uint8_t bytes[MAD_BYTES];
};

/* Takes the oldest that has arrived. False: there is none. */
bool ib_port_mad(struct ib_port *port, struct ib_mad *mad);

/* Sends one. False: too many wait to be sent; it is as if it had been lost. */
bool ib_port_mad_send(struct ib_port *port, const struct ib_mad *mad);

/* Whether ib_port_mad_send() would take one. */
bool ib_port_mad_has_room(const struct ib_port *port);

struct ib_counts {
	uint64_t messages_in, messages_out; /* of queue pairs, once each */
	uint64_t packets_in, packets_out;
	uint64_t payload_in, payload_out;
	uint64_t dropped; /* of packets_in */
	uint64_t again;	  /* of packets_out: requests that had been sent before */
	uint64_t naks_in, naks_out, rnrs_in, rnrs_out;
	uint64_t duplicates; /* requests that had been carried out before */
	uint64_t timeouts;
	uint64_t bounced;		  /* packets whose payload had to be copied together */
	uint64_t marked;		  /* of packets_in: met congestion on their way */
	uint64_t notices_in, notices_out; /* of congestion */
	enum weft_reason dropped_for;	  /* the latest */
	/*
	 * SEND-S4: what one would pin who pins all that was sent until it is acknowledged: now,
	 * at most, and bytes times nanoseconds. What is pinned, weft_space_query() tells.
	 */
	uint64_t kept_bytes, kept_bytes_max, kept_byte_ns;
};

const struct ib_counts *ib_port_counts(const struct ib_port *port);

/* Of those that were dropped: how many for this reason. */
uint64_t ib_port_dropped(const struct ib_port *port, enum weft_reason reason);

/* ---- Connections ---------------------------------------------------------------------------- */

enum { IB_RNR_RETRY_FOREVER = 7, IB_WINDOW_DEFAULT = 256 };

/* What the ends have agreed on, and what this end wants. */
struct ib_config {
	struct ib_path path;
	uint32_t peer_qp;
	uint16_t p_key;		     /* 0: the first of the port */
	uint32_t psn_send, psn_recv; /* of the first packet each way */
	uint8_t reads_out;	     /* max_rd_atomic: ours in flight */
	uint8_t reads_in;	     /* max_dest_rd_atomic: of the peer that are served at a time */
	uint8_t timeout_code;	     /* 4.096 us * 2^code; 0: wait for ever */
	uint8_t retries;	     /* 0 to 7 */
	uint8_t rnr_retries;	     /* 0 to 7, of which 7 is for ever */
	uint8_t rnr_timer_code;	     /* told to a peer that finds no receive */
	uint32_t window_packets;     /* of Sends and Writes on their way; 0: IB_WINDOW_DEFAULT */
	uint32_t ack_every; /* of so many packets one asks to be acknowledged; 0: window / 4 */
	uint32_t q_key;	    /* UD, RD: of what is sent, and of what is taken */
	uint32_t rdd;	    /* RD: domain of the end-to-end contexts that it may use */
	uint64_t rate_bps;  /* of RC and UC, never more; 0: as fast as the network takes it */
	void *owner;	    /* given back by ib_owner() */
};

/*
 * Takes the queue pair, which is in RESET or INIT, to RTR: what the peer sends is served. The
 * connection outlives the queue pair's use of it, as what the peer was told last may have to be
 * told again. What ib_start() sets may be left 0.
 */
enum weft_reason ib_create(struct ib_port *port, struct weft_qp *qp, const struct ib_config *config,
			   struct ib_conn **conn);

/*
 * From RTR to RTS: requests are sent. Of the config count psn_send, timeout_code, retries,
 * rnr_retries, reads_out, window_packets, ack_every and rate_bps.
 */
enum weft_reason ib_start(struct ib_conn *c, const struct ib_config *config);

/* Fields of struct ib_config that may change later. */
enum ib_field {
	/* While it lives. */
	IB_RNR_TIMER = 1 << 0,
	IB_Q_KEY = 1 << 1,
	IB_RATE = 1 << 2,
	/* In SQD, when the drained event has come. */
	IB_PATH = 1 << 3, /* but for mtu_bytes, which stays */
	IB_P_KEY = 1 << 4,
	IB_TIMEOUT = 1 << 5,
	IB_RETRIES = 1 << 6,
	IB_RNR_RETRIES = 1 << 7,
	IB_READS_OUT = 1 << 8,
	IB_READS_IN = 1 << 9
};

/* Changes the fields of the mask: all of them or, if one is refused, none. */
enum weft_reason ib_adjust(struct ib_conn *c, const struct ib_config *config, uint32_t fields);

/* Frees it; a queue pair that still uses it fails (WEFT_R_STREAM_LOST). */
void ib_destroy(struct ib_conn *c);

/* RC: the NAK that was its last word. False: there was none. */
bool ib_last_nak(const struct ib_conn *c, uint32_t *psn, uint8_t *syndrome);

/* The peer has said so by another way than a packet; if it had come as one, it means nothing. */
void ib_peer_nak(struct ib_conn *c, uint64_t now_ns, uint32_t psn, uint8_t syndrome);

/* The other end has left; its queue pair, if it is still here, fails for this reason. */
void ib_peer_left(struct ib_conn *c, enum weft_reason reason);

/* An IP multicast address. */
struct ib_group {
	bool is_ipv6;
	uint8_t address[16]; /* of an IPv4 address the first 4 */
};

/*
 * A queue pair of UD gets what arrives for the group, until it leaves the group or the connection.
 * Joining again changes nothing. That the host gets such packets at all is the owner's part.
 */
enum weft_reason ib_join(struct ib_conn *c, const struct ib_group *group);
void ib_leave(struct ib_conn *c, const struct ib_group *group);

/* The connection of that number, or of the queue pair; NULL: there is none. */
struct ib_conn *ib_port_find(const struct ib_port *port, uint32_t number);
struct ib_conn *ib_conn_of(const struct weft_qp *qp);

void *ib_owner(const struct ib_conn *c);

/* Why the queue pair left: WEFT_R_PEER_GONE: in good order. */
enum weft_reason ib_why(const struct ib_conn *c);

/* SEND-11: where the payload of a packet lies that was sent and not acknowledged. */
struct ib_block {
	uint64_t addr; /* of its first byte */
	uint32_t tag;
	uint32_t length;   /* from there on in one piece of the request's list */
	uint32_t next_psn; /* of the request behind it: the blocks are a chain (SEND-12) */
};

/* SEND-13: by its sequence number. False: it is not on its way, or has no payload in memory. */
bool ib_block_find(const struct ib_conn *c, uint32_t psn, struct ib_block *block);

/*
 * Whether something is on its way that will arrive or be answered without anybody's doing. What
 * waits for a receive of the peer is not.
 */
bool ib_is_busy(const struct ib_conn *c);

/* ---- End-to-end contexts: reliable datagrams (RD) ------------------------------------------- */

/*
 * What two ports share for all reliable datagrams between them (RD-02): numbers, acknowledgements,
 * times. IBA 9.7.8: it carries one message at a time; the queue pairs take turns. A queue pair of
 * RD is made operational by ib_create() with q_key, rdd, rnr_timer_code and reads_out alone; each
 * of its requests names a context (weft_send_wr.ee), a queue pair there, and that one's Q_Key.
 *
 * A request that fails takes its queue pair to SQE; the context goes on. A context whose peer does
 * not answer fails, and all that waits for it.
 */
struct ib_ee_config {
	struct ib_path path;
	uint16_t p_key; /* 0: the first of the port */
	uint32_t rdd;
	uint32_t psn_send;			    /* of the first packet */
	uint8_t timeout_code, retries, rnr_retries; /* as in struct ib_config */
	uint32_t window_packets, ack_every;	    /* likewise */
	void *owner;				    /* given back by ib_ee_owner() */
};

/* It has a number, and requests may wait for it; nothing goes before ib_ee_connect(). */
enum weft_reason ib_ee_create(struct ib_port *port, const struct ib_ee_config *config,
			      struct ib_ee **ee);

/* The number of the peer's, and of the first packet that the peer sends. */
enum weft_reason ib_ee_connect(struct ib_ee *ee, uint32_t peer, uint32_t psn_recv);

/* The port that its packets leave by, in place of path.from.port; before ib_ee_connect(). */
void ib_ee_set_source(struct ib_ee *ee, uint16_t port);

/* What is on it fails (WEFT_ERR_PEER_GONE); requests that name it later too. */
void ib_ee_destroy(struct ib_ee *ee);

uint32_t ib_ee_number(const struct ib_ee *ee);
void *ib_ee_owner(const struct ib_ee *ee);

/* What requests name; and what that is. */
struct weft_ee *ib_ee_handle(struct ib_ee *ee);
struct ib_ee *ib_ee_of(struct weft_ee *handle);

/* That of the number, once it is connected; NULL: there is none. */
struct ib_ee *ib_port_find_ee(const struct ib_port *port, uint32_t number);

/* WEFT_OK, or why it has failed. */
enum weft_reason ib_ee_why(const struct ib_ee *ee);

/* Whether something is on its way that will arrive or be answered without anybody's doing. */
bool ib_ee_is_busy(const struct ib_ee *ee);

/* One that has failed; NULL: none. */
struct ib_ee *ib_port_ee_event(struct ib_port *port);

/* What one costs, in all. */
size_t ib_ee_bytes(void);

/* ---- Raw datagrams (RAW) -------------------------------------------------------------------- */

enum { IB_RAW_MAX = IBA_PAYLOAD_MAX };

/* Which IPv6 frames a client wants: of an upper protocol, to one address or to any. */
struct ib_raw {
	uint8_t next_header;
	bool is_any;
	uint8_t to[16];
};

/*
 * A queue pair of UD becomes a raw one: it receives such frames, whole, and its Sends are frames as
 * they stand. WEFT_R_ADDRESS_IN_USE: another has asked for just these.
 */
enum weft_reason ib_raw_bind(struct ib_conn *c, const struct ib_raw *raw);

/* A frame that has arrived from outside; the next one to go there, false: none. */
enum weft_reason ib_port_recv_raw(struct ib_port *port, const uint8_t *frame, size_t length);
bool ib_port_send_raw(struct ib_port *port, uint8_t frame[IB_RAW_MAX], size_t *length);
