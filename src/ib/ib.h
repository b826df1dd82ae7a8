/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The InfiniBand transport: one port of an adapter as a core, in an IP network (RoCEv2) or in a
 * fabric. It sends the requests of the queue pairs connected through it, and serves the requests of
 * their peers.
 *
 * The owner (driver or simulator) moves the packets:
 *
 *	ib_port_recv()   a UDP payload has arrived, with its addresses
 *	ib_port_send()   the next packet to send, as a gather list; false: nothing now
 *	ib_port_send_more()   several, where they are alike
 *	ib_port_due(), ib_port_expire()   the next deadline
 *	ib_port_event()  events for the owner: pulled, never called back
 *
 * After recv() and expire() the owner calls adapter_progress(), and then sends.
 *
 * Payload is sent from the consumer's memory, and never kept: a sent packet is described by its
 * PSN, the request's slot and the offset (SEND-08, SEND-11), and a retransmission reads the
 * consumer's memory again (SEND-09). In spaces created by the program, memory is pinned from
 * ib_port_send() to ib_port_sent() (SEND-05), or copied out (SEND-04); no page is held in between.
 * An owner that needs contiguous packets gets a copy, as a network card would read them.
 *
 * Payload is placed only after the ICRC of its packet was verified.
 */
#pragma once

#include "base/span.h"
#include "verbs/verbs.h"
#include "wire/iba_frame.h"
#include "wire/inet.h"
#include "wire/mad.h"

struct ib_port;
struct ib_conn;
struct ib_ee;

/* A local route, through the links of one subnet of a fabric (IBA 7.7). */
struct ib_local {
	uint16_t from, to; /* LIDs; to 0: it is none. from: or only the path bits of ours (LMC) */
	uint8_t level;	   /* service level */
	bool has_grh;	   /* and a global route, by GIDs */
};

/*
 * The path of packets to a peer: by UDP between IP addresses, or by a local route. With a global
 * route, `from` and `to` are its GIDs (is_ipv6 is set), without one they are not used.
 */
struct ib_path {
	bool is_ipv6;
	struct ib_local local;
	struct inet_end from, to;	  /* from.port: of this connection; to.port: IBA_UDP_PORT */
	uint32_t mtu_bytes;		  /* of payload: 256 to 4096 */
	uint8_t traffic_class, hop_limit; /* hop_limit 0: IB_HOP_LIMIT */
	uint32_t flow_label;		  /* of a global route; RoCEv2 uses from.port instead */
	/* Names the memory shared with the peer's adapter that packets go by; 0: by the network. */
	uint32_t near_number;
};

/* ---- The port ------------------------------------------------------------------------------- */

enum { IB_PKEYS_MAX = 32 };

struct ib_port_config {
	struct adapter *adapter;
	uint16_t p_keys[IB_PKEYS_MAX]; /* all 0: only the default P_Key */
	bool is_dropping_early;	       /* RC: keeps no requests that come before a lost one */
};

/* NULL: out of memory. It has room for as many connections as the adapter has queue pairs. */
struct ib_port *ib_port_create(const struct ib_port_config *config);

/* In a fabric: the port's LID, and how many of its low bits are path bits. */
void ib_port_set_lid(struct ib_port *port, uint16_t lid, uint8_t lmc);

/* Its table of P_Keys, IB_PKEYS_MAX of them; unused ones are 0. Connections keep theirs. */
void ib_port_set_p_keys(struct ib_port *port, const uint16_t *p_keys);

/*
 * FAB-21: from the next time that a connection of RC is armed (IB_ARMED), frames of its Sends and
 * Writes go by both of its paths, and what comes so is delivered in order; at both ends.
 */
void ib_port_set_striping(struct ib_port *port, bool is_striping);

/* No connection may be left. */
void ib_port_destroy(struct ib_port *port);

/* RFC 3168 section 5: the ECN field of an IP header. */
enum ib_ecn { IB_ECN_NOT = 0, IB_ECN_ECT1 = 1, IB_ECN_ECT0 = 2, IB_ECN_CE = 3 };
enum { IB_ECN_MASK = 3, IB_HOP_LIMIT = 64 };

/* A packet that has arrived; borrowed for the call. By UDP, or as ib_in_of_frame() has it. */
struct ib_in {
	const uint8_t *bytes; /* from the BTH on: the UDP payload */
	size_t length;
	bool is_ipv6;
	bool is_raw; /* RAW-02: `bytes` are an IPv6 packet of another protocol */
	/* Headers of a route that lie ahead of `bytes`, and what they say; 0: by UDP. */
	uint8_t route_bytes;
	uint8_t path_bits; /* of the LID that it came to (LMC) */
	struct ib_local local;
	struct inet_end from, to;
	/* Whether the next two are known, or guessed: sockets do not report them (iba_icrc.h). */
	bool is_ipv4_word_known;
	uint16_t ipv4_id, ipv4_fragment;
	uint8_t traffic_class, hop_limit; /* of the IP header, with its enum ib_ecn */
	bool is_near;			  /* by shared memory, see struct ib_path */
	bool has_no_icrc; /* then: memory does not change bits, so it needs no check */
	/*
	 * A run, by shared memory: so many more packets of one Send or Write of RC. They are all
	 * middle packets, alike but for their PSNs, and the payload of all follows the headers of
	 * the first; or they are the whole message, as if it were the payload of an only packet.
	 */
	uint16_t run;
};

/* The same of a frame of a fabric: WEFT_OK, or why it is none. Its VCRC is of the link. */
enum weft_reason ib_in_of_frame(struct ib_in *in, const uint8_t *frame, size_t length);

/* A run is decoded as one packet that has the payload of all. */
enum weft_reason ib_in_decode(struct iba_packet *p, const struct ib_in *in);

/* WEFT_OK, or why it was dropped. */
enum weft_reason ib_port_recv(struct ib_port *port, uint64_t now_ns, const struct ib_in *in);

/* A packet of ours that came back: the ends that it was sent from and to, and how it begins. */
struct ib_returned {
	bool is_ipv6;
	struct inet_end from, to;
	uint8_t bytes[IBA_BTH_BYTES];
};

/*
 * The host that it was sent to says that no process receives it (ICMP: port unreachable). That is a
 * hint, which anyone may forge: if the packet waits for an answer, its requester and others of RC
 * to that host try again soon, a few times, and end only if nothing answers (retries exceeded).
 */
void ib_port_returned(struct ib_port *port, uint64_t now_ns, const struct ib_returned *packet);

/* Instead of ib_port_recv(), for a packet that its owner drops: counts it. */
void ib_port_drop(struct ib_port *port, enum weft_reason reason);

enum {
	IB_COPY_MAX = 256,     /* payload up to this is copied behind its headers */
	IB_OUT_SPANS_MAX = 62, /* of payload */
	IB_ROUTE_BYTES_MAX = IBA_LRH_BYTES + IBA_GRH_BYTES,
	IB_OUT_BYTES = IB_ROUTE_BYTES_MAX + IBA_HEADERS_MAX + IB_COPY_MAX + IBA_TRAILER_MAX
};

/*
 * A packet to send: spans of its own bytes and of registered memory. The spans are valid until the
 * next call of any function but ib_port_send() and ib_port_send_more(), so several packets may be
 * gathered, each in its own struct. Packets of one length and path can be sent by one call of a
 * socket (GSO). An owner that needs a packet contiguous, or as a snapshot, supplies `room`: the
 * packet is copied there.
 */
struct ib_out {
	/*
	 * In: for the packet, IBA_PACKET_MAX bytes, or for a run and its headers. NULL: a list. If
	 * paths are local routes, it has IB_ROUTE_BYTES_MAX more bytes ahead.
	 */
	uint8_t *room;
	uint32_t run_bytes;   /* in: payload of a run; 0: no run. Without room: IBA_PAYLOAD_MAX */
	uint16_t run;	      /* as that of struct ib_in */
	uint16_t ipv4_id;     /* in: the identification that IPv4 will have, with IBA_IPV4_DF */
	uint32_t near_number; /* in: the packet must go by this, see struct ib_path */
	uint8_t ecn;	      /* enum ib_ecn, for the IP header */
	bool has_icrc;	      /* else its ICRC is 0, as it goes by shared memory */
	/* The port has no room for more copies: send it before the next. Never set with `room`. */
	bool is_last;
	/*
	 * Headers of a route ahead of the packet, in the first span; 0: it goes by UDP. The frame
	 * lacks its VCRC.
	 */
	uint8_t route_bytes;
	const struct ib_path *path; /* of a connection, or own_path */
	struct ib_path own_path;
	struct span_list spans;
	uint8_t bytes[IB_OUT_BYTES];
};

/* Traffic class for the IP header. */
static inline uint8_t ib_out_traffic_class(const struct ib_out *out)
{
	return (uint8_t)((out->path->traffic_class & ~IB_ECN_MASK) | out->ecn);
}

static inline bool ib_path_is_local(const struct ib_path *path)
{
	return path->local.to != IBA_LID_NONE;
}

/* Those of the headers of a route. */
static inline uint8_t ib_path_route_bytes(const struct ib_path *path)
{
	if (!ib_path_is_local(path))
		return 0;
	return path->local.has_grh ? IB_ROUTE_BYTES_MAX : IBA_LRH_BYTES;
}

/* The opcode of a packet to send. */
static inline uint8_t ib_out_opcode(const struct ib_out *out)
{
	return out->spans.spans[0].bytes[out->route_bytes];
}

/* Whether packets like this one may be had together, see ib_port_send_more(). */
static inline bool ib_out_may_have_more(const struct ib_out *out)
{
	const uint8_t *bytes = out->spans.spans[0].bytes + out->route_bytes;
	size_t length = out->spans.length - out->route_bytes;

	return iba_is_middle(bytes, length) || (out->route_bytes > 0 && iba_is_ack(bytes, length));
}

struct weft_path;

/* The local route of a program's path, if it has one. */
struct ib_local ib_local_of(const struct weft_path *path);

static inline uint8_t ib_path_hop_limit(const struct ib_path *path)
{
	return path->hop_limit ? path->hop_limit : IB_HOP_LIMIT;
}

/* False: there is none, or the next one goes elsewhere (ib_port_near_next()). */
bool ib_port_send(struct ib_port *port, uint64_t now_ns, struct ib_out *out);

/* Room for packets of one length, in outs[].room, whose other fields are as ib_port_send() asks. */
struct ib_more {
	struct ib_out *outs;
	uint32_t most;
	size_t each; /* the length, with the headers of a route */
};

/*
 * Several packets at less cost. They are those that as many calls of ib_port_send() would give, and
 * all are middle packets of one Send or Write of RC that go by the network, or acknowledgements of
 * frames in a fabric. How many; 0: call ib_port_send(), which may have one.
 */
uint32_t ib_port_send_more(struct ib_port *port, uint64_t now_ns, const struct ib_more *more);

/* The near_number of the next packet; 0 also if there is none. Or IB_NEAR_UNKNOWN. */
uint32_t ib_port_near_next(const struct ib_port *port);

/*
 * A datagram names its receiver only when it is sent. If its address handle is of this host, it
 * goes by the near_number of the adapter that has the receiver. The owner looks these up: as long
 * as the number of the next packet is IB_NEAR_UNKNOWN, nothing is sent, and ib_port_near_asked() is
 * the slot of its receiver's adapter. 0: datagrams to it go by the network, as all do before the
 * first ib_port_near_forget(), which makes the numbers of all slots unknown.
 */
enum { IB_ADAPTER_SLOTS = 256 };
#define IB_NEAR_UNKNOWN UINT32_MAX

uint8_t ib_port_near_asked(const struct ib_port *port);
void ib_port_near_set(struct ib_port *port, uint8_t adapter_slot, uint32_t near_number);
void ib_port_near_forget(struct ib_port *port);

/* Whether the next packet is a datagram, which may be lost rather than wait for ever. */
bool ib_port_near_may_lose(const struct ib_port *port);

/*
 * There is no room for the next packet: its connection waits until ib_port_near_release(), others
 * do not. is_stalled: nor will there be soon, so that last packets of a queue pair that has left
 * are dropped.
 */
void ib_port_near_hold(struct ib_port *port, uint64_t now_ns, bool is_stalled);
void ib_port_near_release(struct ib_port *port);

/* Whether packets by shared memory have an ICRC as well, for a capture or injected faults. */
void ib_port_set_near_icrc(struct ib_port *port, bool has_icrc);

/*
 * The packets from ib_port_send() have been sent: unpins their memory (SEND-06). Every call but
 * ib_port_send() and ib_port_send_more() implies it.
 */
void ib_port_sent(struct ib_port *port, uint64_t now_ns);

/* Whether memory is pinned for packets from ib_port_send(). */
bool ib_port_has_pins(const struct ib_port *port);

/* Whether ib_port_send() may have something. */
bool ib_port_has_output(const struct ib_port *port);

/* Whether it has only acknowledgements, which may wait to be sent with the next request. */
bool ib_port_has_acks_only(const struct ib_port *port);

/* UINT64_MAX: no deadline. */
uint64_t ib_port_due(const struct ib_port *port);
void ib_port_expire(struct ib_port *port, uint64_t now_ns);

/*
 * There are two kinds of deadlines. wait_due: an answer is due; the owner reads all sockets before
 * it calls ib_port_expire(). wake_due: a rate-limited connection may send again; the owner calls
 * ib_port_wake(), and need not read sockets before.
 */
uint64_t ib_port_wait_due(const struct ib_port *port);
uint64_t ib_port_wake_due(const struct ib_port *port);
void ib_port_wake(struct ib_port *port, uint64_t now_ns);

/*
 * Deadlines are not taken back with each answer that comes in time, so wait_due may be of one that
 * has moved away. Before a sleep this makes it that of an answer that is still awaited.
 */
void ib_port_settle(struct ib_port *port);

/*
 * A connection whose queue pair has left, after all its packets were sent once; NULL: none. Its
 * owner tells the peer, and then destroys it.
 */
struct ib_conn *ib_port_event(struct ib_port *port);

/* Whether that, or ib_port_ee_event(), has one. */
bool ib_port_has_events(const struct ib_port *port);

/*
 * Whether a connection is left whose queue pair has gone; the last call makes each of them an event
 * at once, whatever it still had to send: its port is about to be destroyed.
 */
bool ib_port_is_leaving(const struct ib_port *port);
void ib_port_leave(struct ib_port *port);

/*
 * The process of the adapter to which packets of that number went has died. Reliable connections
 * to it give it up without waiting for answers: their requests end, those that are posted later as
 * well (WEFT_ERR_PEER_GONE). Contexts fail.
 */
void ib_port_near_ended(struct ib_port *port, uint64_t now_ns, uint32_t near_number);

/*
 * That adapter takes no packets by shared memory: those of the next connection or context to it go
 * by the network. Its path, for the owner to complete; NULL: there is none left.
 */
struct ib_path *ib_port_near_refused(struct ib_port *port, uint32_t near_number);

/* ---- Access to the memory of a peer on this host -------------------------------------------- */

/* A Write of one packet, or a part of a Read, to be executed by this end in the peer's memory. */
struct ib_direct_access {
	uint32_t near_number;	  /* of the peer's adapter */
	uint32_t number, peer_qp; /* the queue pairs of this end and of the peer */
	uint32_t psn;		  /* of the first packet from this end */
	uint32_t epoch;		  /* in, out: of the peer's connection; 0: not known */
	uint32_t read_tag;	  /* of the request before, if that was a Read by packets; or 0 */
	bool is_write;
	uint64_t addr;
	uint32_t tag, length;
	uint8_t *bytes;	  /* to write, or read */
	uint32_t counted; /* bytes of the request, with its last part; 0: more follow */
};

/* Lets the peer of a queue pair access memory without packets, as far as its packets might. */
struct ib_direct_grant {
	uint32_t number, peer_qp, pd, rights;
	uint32_t psn;	    /* of the first packet of the peer */
	uint32_t mtu_bytes; /* the longest Write */
	uint32_t epoch;	    /* tells the connection from others of the queue pair; not 0 */
};

/* What the peer has done by a grant. */
struct ib_direct_tally {
	uint64_t writes, written_bytes, reads, read_bytes;
};

struct ib_direct {
	/* Whether access() may succeed at all. */
	bool (*can_access)(void *owner, uint32_t near_number);
	/* False: it was not executed, or not wholly, and packets must. */
	bool (*access)(void *owner, struct ib_direct_access *access);
	/* False: there is no room for the grant. revoke: its end. */
	bool (*grant)(void *owner, const struct ib_direct_grant *grant);
	void (*revoke)(void *owner, uint32_t number);
	/* What the peer has done since the grant, or since the last call. */
	void (*collect)(void *owner, uint32_t number, struct ib_direct_tally *tally);
	void *owner;
};

/* From now on; it lives as long as the port. */
void ib_port_set_direct(struct ib_port *port, const struct ib_direct *direct);

/* Counts what peers have done so far: for one queue pair; for all and ib_port_counts(). */
void ib_collect_direct(struct weft_qp *qp);
void ib_port_collect_direct(struct ib_port *port);

/* ---- Management datagrams ------------------------------------------------------------------- */

/* A datagram from or to queue pair 1 of a peer. The path is from this end to the peer. */
struct ib_mad {
	struct ib_path path;
	uint16_t p_key; /* when sending, 0: the first of the port */
	uint8_t bytes[MAD_BYTES];
};

/* Takes the oldest datagram that has arrived. False: there is none. */
bool ib_port_mad(struct ib_port *port, struct ib_mad *mad);

/* Queues a datagram to send. False: the queue is full, and the datagram is lost. */
bool ib_port_mad_send(struct ib_port *port, const struct ib_mad *mad);

/* Whether ib_port_mad_send() would succeed. */
bool ib_port_mad_has_room(const struct ib_port *port);

struct ib_counts {
	uint64_t messages_in, messages_out; /* of queue pairs, without retransmissions */
	uint64_t packets_in, packets_out;
	uint64_t payload_in, payload_out;
	/*
	 * SYS-06: bytes of payload that were copied besides between memory and a packet: inline
	 * data, what waits for a lost packet, what is bounced.
	 */
	uint64_t copied;
	uint64_t dropped; /* of packets_in */
	uint64_t again;	  /* of packets_out: retransmitted requests */
	uint64_t naks_in, naks_out, rnrs_in, rnrs_out;
	uint64_t duplicates; /* requests that had been executed before */
	uint64_t early;	     /* requests that were kept until a lost one came */
	uint64_t timeouts;
	uint64_t bounced;		  /* packets whose payload had to be copied */
	uint64_t marked;		  /* of packets_in: with ECN CE */
	uint64_t notices_in, notices_out; /* CNPs */
	uint64_t direct;		  /* Writes and Reads of both ends without packets */
	enum weft_reason dropped_for;	  /* the latest */
	/*
	 * SEND-S4: what an implementation would pin that pins all data until it is acknowledged:
	 * now, at most, and bytes times nanoseconds. weft_space_query() returns what is pinned.
	 */
	uint64_t kept_bytes, kept_bytes_max, kept_byte_ns;
};

const struct ib_counts *ib_port_counts(const struct ib_port *port);

/* Packets that were dropped for this reason. */
uint64_t ib_port_dropped(const struct ib_port *port, enum weft_reason reason);

/* ---- Connections ---------------------------------------------------------------------------- */

enum { IB_RNR_RETRY_FOREVER = 7, IB_WINDOW_DEFAULT = 256 };

/*
 * RC and UC in a fabric (IBA 17.2.8): the path that is taken when retries by the other are spent,
 * or the peer has taken it, or the consumer wants it.
 */
struct ib_alternate {
	struct ib_path path; /* mtu_bytes: that of the connection */
	uint16_t p_key;	     /* 0: the first of the port */
	uint8_t timeout_code;
};

enum ib_migration {
	IB_MIGRATED, /* stays on its path */
	IB_REARM,    /* would migrate, and waits until the peer would */
	IB_ARMED,
	IB_MIGRATIONS
};

/* "REARM"; "unknown" for other values. */
const char *ib_migration_name(uint64_t state);

/* What both ends agreed on, and the parameters of this end. */
struct ib_config {
	struct ib_path path;
	uint32_t peer_qp;
	uint16_t p_key;		     /* 0: the first of the port */
	uint32_t psn_send, psn_recv; /* of the first packet each way */
	uint8_t reads_out;	     /* max_rd_atomic: our Reads and atomics in flight */
	uint8_t reads_in;	     /* max_dest_rd_atomic: those of the peer */
	uint8_t timeout_code;	     /* 4.096 us * 2^code; 0: wait for ever */
	uint8_t retries;	     /* 0 to 7 */
	uint8_t rnr_retries;	     /* 0 to 7; 7 means for ever */
	uint8_t rnr_timer_code;	     /* sent in RNR NAKs */
	uint32_t window_packets;     /* of Sends and Writes in flight; 0: IB_WINDOW_DEFAULT */
	uint32_t ack_every;	     /* one of so many packets requests an ACK; 0: window / 4 */
	uint32_t q_key;		     /* UD, RD: to send with, and to accept */
	uint32_t rdd;		     /* RD: domain of the end-to-end contexts that it may use */
	uint64_t rate_bps;	     /* RC, UC: upper limit; 0: none */
	void *owner;		     /* returned by ib_owner() */
	struct ib_alternate alternate;
	enum ib_migration migration; /* asked for: IB_MIGRATED, IB_REARM */
};

/*
 * Moves the queue pair, in RESET or INIT, to RTR: requests of the peer are served. The connection
 * outlives the queue pair's use of it, as the last response may have to be repeated. Fields that
 * ib_start() sets may be 0.
 */
enum weft_reason ib_create(struct ib_port *port, struct weft_qp *qp, const struct ib_config *config,
			   struct ib_conn **conn);

/*
 * Moves from RTR to RTS: requests are sent. Uses psn_send, timeout_code, retries, rnr_retries,
 * reads_out, window_packets, ack_every and rate_bps of the config.
 */
enum weft_reason ib_start(struct ib_conn *c, const struct ib_config *config);

/* Fields of struct ib_config that may change later. */
enum ib_field {
	/* At any time. */
	IB_RNR_TIMER = 1 << 0,
	IB_Q_KEY = 1 << 1,
	IB_RATE = 1 << 2,
	/* In SQD, after the drained event. */
	IB_PATH = 1 << 3, /* except mtu_bytes, which stays */
	IB_P_KEY = 1 << 4,
	IB_TIMEOUT = 1 << 5,
	IB_RETRIES = 1 << 6,
	IB_RNR_RETRIES = 1 << 7,
	IB_READS_OUT = 1 << 8,
	IB_READS_IN = 1 << 9,
	/* At any time. An alternate path that is loaded takes ARMED to REARM. */
	IB_ALTERNATE = 1 << 10,
	IB_MIGRATION = 1 << 11
};

/* Changes the fields of the mask; none of them if one is refused. */
enum weft_reason ib_adjust(struct ib_conn *c, const struct ib_config *config, uint32_t fields);

/* The two paths, and how often it has changed between them. */
struct ib_paths {
	struct ib_path path, alternate; /* alternate.mtu_bytes 0: there is none */
	enum ib_migration migration;
	uint32_t migrations;
};

void ib_paths_tell(const struct ib_conn *c, struct ib_paths *paths);

/* Frees the connection; a queue pair that still uses it fails (WEFT_R_STREAM_LOST). */
void ib_destroy(struct ib_conn *c);

/* RC: the fatal NAK that this end sent last. False: there was none. */
bool ib_last_nak(const struct ib_conn *c, uint32_t *psn, uint8_t *syndrome);

/* The peer's NAK, received by another way than a packet; ignored if its packet came before. */
void ib_peer_nak(struct ib_conn *c, uint64_t now_ns, uint32_t psn, uint8_t syndrome);

/* The peer has left; the connection's queue pair, if it still has one, fails for this reason. */
void ib_peer_left(struct ib_conn *c, enum weft_reason reason);

/* An IP multicast address. */
struct ib_group {
	bool is_ipv6;
	uint8_t address[16]; /* IPv4: the first 4 bytes */
};

/*
 * A UD queue pair receives datagrams to the group, until it leaves the group or the connection.
 * Joining again changes nothing. The owner makes the host receive such packets.
 */
enum weft_reason ib_join(struct ib_conn *c, const struct ib_group *group);
void ib_leave(struct ib_conn *c, const struct ib_group *group);

/* The connection by number, or of the queue pair; NULL: there is none. */
struct ib_conn *ib_port_find(const struct ib_port *port, uint32_t number);
struct ib_conn *ib_conn_of(const struct weft_qp *qp);

void *ib_owner(const struct ib_conn *c);

/* Whether its packets go by shared memory, see struct ib_path; UD, RD: the latest, in or out. */
bool ib_is_near(const struct ib_conn *c);

/* Why the queue pair left; WEFT_R_PEER_GONE: orderly. */
enum weft_reason ib_why(const struct ib_conn *c);

/*
 * SEND-11: a descriptor block: where the payload of a packet begins. Blocks of one request stand
 * side by side in its slot of the send queue; the requests in flight are a chain of slots
 * (SEND-12).
 */
struct ib_block {
	uint64_t addr;		   /* virtual, of the packet's first byte */
	uint32_t length;	   /* of the block from there on */
	uint32_t tag;		   /* of the memory */
	uint32_t psn;		   /* of the packet */
	const struct weft_sge *at; /* the block, in the send queue */
	uint32_t left;		   /* blocks of the request, this one and those behind it */
	bool is_again;		   /* the packet was sent before */
};

/*
 * SEND-13: finds it by the PSN of a packet that was sent and not acknowledged, as sending it again
 * does. False: there is no such packet, or it has no payload in memory.
 */
bool ib_block_find(const struct ib_conn *c, uint32_t psn, struct ib_block *block);

/*
 * Whether packets are in flight, or due to be sent, that make progress without a further call. A
 * request that waits for a receive of the peer does not count. The conformance suite lets a pair
 * come to rest by it, in the simulator and over sockets.
 */
bool ib_is_busy(const struct ib_conn *c);

/* ---- End-to-end contexts: reliable datagrams (RD) ------------------------------------------- */

/*
 * The state that two ports share for all reliable datagrams between them (RD-02): PSNs,
 * acknowledgements, timers. IBA 9.7.8: it carries one message at a time; the queue pairs take
 * turns. ib_create() makes an RD queue pair operational, with only q_key, rdd, rnr_timer_code and
 * reads_out. Each of its requests names a context (weft_send_wr.ee), a remote queue pair, and the
 * Q_Key of that queue pair.
 *
 * A failed request moves its queue pair to SQE; the context goes on. A context whose peer does not
 * answer fails, with all requests that wait for it.
 */
struct ib_ee_config {
	struct ib_path path;
	uint16_t p_key; /* 0: the first of the port */
	uint32_t rdd;
	uint32_t psn_send;			    /* of the first packet */
	uint8_t timeout_code, retries, rnr_retries; /* as in struct ib_config */
	uint32_t window_packets, ack_every;	    /* likewise */
	void *owner;				    /* returned by ib_ee_owner() */
};

/* The new context has a number, and requests may wait for it; it sends after ib_ee_connect(). */
enum weft_reason ib_ee_create(struct ib_port *port, const struct ib_ee_config *config,
			      struct ib_ee **ee);

/* Sets the number of the peer's context, and the PSN of the first packet that the peer sends. */
enum weft_reason ib_ee_connect(struct ib_ee *ee, uint32_t peer, uint32_t psn_recv);

/* Sets its UDP source port and near_number, instead of those of path; before ib_ee_connect(). */
void ib_ee_set_source(struct ib_ee *ee, uint16_t port, uint32_t near_number);

/* Its requests fail (WEFT_ERR_PEER_GONE), and so do requests that name it later. */
void ib_ee_destroy(struct ib_ee *ee);

uint32_t ib_ee_number(const struct ib_ee *ee);
void *ib_ee_owner(const struct ib_ee *ee);

/* The handle that requests name; and the context of a handle. */
struct weft_ee *ib_ee_handle(struct ib_ee *ee);
struct ib_ee *ib_ee_of(struct weft_ee *handle);

/* The connected context of that number; NULL: there is none. */
struct ib_ee *ib_port_find_ee(const struct ib_port *port, uint32_t number);

/* WEFT_OK, or why the context has failed. */
enum weft_reason ib_ee_why(const struct ib_ee *ee);

/* As ib_is_busy(). */
bool ib_ee_is_busy(const struct ib_ee *ee);

/* A context that has failed; NULL: none. */
struct ib_ee *ib_port_ee_event(struct ib_port *port);

/* ---- Raw datagrams (RAW) -------------------------------------------------------------------- */

enum { IB_RAW_MAX = IBA_PAYLOAD_MAX };

/* Selects IPv6 packets for a client: by upper protocol, to one address or to any. */
struct ib_raw {
	uint8_t next_header;
	bool is_any;
	uint8_t to[16];
};

/*
 * Turns a UD queue pair into a raw one: it receives matching packets with their headers, and sends
 * complete packets. WEFT_R_ADDRESS_IN_USE: another queue pair has the same selection.
 */
enum weft_reason ib_raw_bind(struct ib_conn *c, const struct ib_raw *raw);

/* A packet has arrived from the host's network; the next packet to it, false: none. */
enum weft_reason ib_port_recv_raw(struct ib_port *port, const uint8_t *frame, size_t length);
bool ib_port_send_raw(struct ib_port *port, uint8_t frame[IB_RAW_MAX], size_t *length);

/* Whether a packet is for a client of this port. */
bool ib_port_wants_raw(struct ib_port *port, const uint8_t *frame, size_t length);

/* Makes a whole frame for a path of a packet that is in out->room, with room ahead. */
void ib_raw_frame(struct ib_port *port, const struct ib_path *path, size_t length,
		  struct ib_out *out);

/*
 * The same at a port of a fabric: builds a whole frame in out->room, for the path of the request's
 * address handle. A request without one, or whose handle was destroyed, is lost.
 */
bool ib_port_send_raw_frame(struct ib_port *port, struct ib_out *out);

/* What it has not sent is output of the port still: ib_port_send() passes it by. */
void ib_port_keep_raw(struct ib_port *port);
