/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structs of udp.h, shared by its files:
 *
 *	udp.c         opening and closing, slots, which socket is read when
 *	udp_socket.c  sockets with their options, and the kernel's addresses
 *	udp_recv.c    batches in: reads and splits them, returns packets or hands them on
 *	udp_hand.c    which packets are handed on, and to which adapter
 *	udp_relay.c   the unix sockets between the adapters of a host
 *	udp_flow.c    flows: sockets connected to one source port of one peer
 *	udp_send.c    batches out
 *	udp_returned.c   packets of ours that came back
 *	udp_group.c   services and multicast groups
 */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/list.h"
#include "driver/sys/socket_reason.h"
#include "driver/sys/unix_names.h"
#include "driver/udp/udp.h"

enum {
	UDP_SLOTS_MAX = 254,
	/*
	 * A batch that the kernel joined (GRO) is up to 64 KiB, and so is a datagram handed on.
	 * Where batches are large, few are read at a time, so that they stay in the cache.
	 */
	UDP_BUFFERS = 16,
	UDP_BUFFER_BYTES = 65536 + 4096,
	UDP_BUFFERS_LARGE = 1,
	UDP_LARGE_BYTES = 8192,
	UDP_CONTROL_BYTES = 128,
	UDP_HOT_MAX = 4,
	UDP_FLOWS_MAX = 256,
	UDP_SENDERS_MAX = 128,
	UDP_SENDER_BUCKETS = 64,
	UDP_RUNS_MAX = 16,
	UDP_RECORDS_MAX = 32,
	UDP_CANDIDATES = 16,
	UDP_LEARNED_MAX = 32,
	UDP_CLIENTS_MAX = 1024,
	UDP_LOCAL_PEERS_MAX = 64,
	UDP_FACTORS = IBA_PACKET_MAX / 4 + 1,
	UDP_RETURNED_MAX = 8
};

enum udp_kind {
	UDP_SHARED,   /* the port, any address */
	UDP_FLOW,     /* the port, from one source port of one peer */
	UDP_LISTENER, /* a name: of our slot, or of a service */
	UDP_CLIENT    /* an adapter that connected to a listener, to hand packets on to us */
};

union udp_name {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* A socket for packets in. */
struct udp_socket {
	struct watch watch;
	struct udp *udp;
	enum udp_kind kind;
	bool is_ipv6;
	struct list ready_link;
	uint32_t ask_for;	  /* messages to read at the next call */
	uint32_t asked;		  /* reads since it became hot; UINT32_MAX: epoll does not watch */
	uint32_t in_vain;	  /* the latest of these reads, consecutive, that found nothing */
	bool is_awaited;	  /* young flows wait until it is read empty */
	struct inet_end at, peer; /* of a flow */
};

struct udp_flow {
	struct udp_socket socket;
	struct list link;
	uint32_t refs;
	bool has_other_peers; /* packets of other peers may lie in it, from before connect() */
	/* Not read before the sockets by which its packets came until now are empty. */
	bool is_young;
	uint64_t young_until; /* until this number of fetches at most */
};

/* The two ends of a flow that may or may not exist. */
struct udp_ends {
	bool is_ipv6;
	struct inet_end at, peer;
};

/* A peer that may get a flow: its packets come through the shared socket, or are handed on. */
struct udp_candidate {
	struct udp_ends ends;
	uint32_t count;
};

/* An adapter that hands packets on to us. */
struct udp_client {
	struct udp_socket socket;
	struct list link;
	const struct udp_socket *listener;
};

struct udp_service {
	struct udp_socket socket;
	struct list link;
	uint64_t id;
	uint32_t claims; /* less releases */
};

/* A joined multicast group. */
struct udp_group {
	struct list link;
	struct weft_address group, at;
	uint32_t refs;
};

/* A socket for packets out, from one address and port; it receives nothing. */
struct udp_sender {
	struct watch watch;
	struct udp *udp;
	struct list link, bucket; /* link: of all senders, the last used first */
	bool is_ipv6;
	struct inet_end from;
	uint8_t traffic_class, hop_limit; /* the socket's defaults */
	bool is_blocked;
	bool is_refusing_batches; /* the device or the path does not support GSO */
};

/* The owner of a packet. */
struct udp_owner_key {
	enum { UDP_OURS, UDP_SLOTS, UDP_SERVICES } kind;
	uint8_t adapter_slot;
	uint64_t service_id;
};

static inline bool udp_owner_key_is_same(const struct udp_owner_key *a,
					 const struct udp_owner_key *b)
{
	return a->kind == b->kind && a->adapter_slot == b->adapter_slot &&
	       a->service_id == b->service_id;
}

/* An adapter to which we hand packets on. */
struct udp_local_peer {
	struct list link; /* the last used first */
	struct udp_owner_key owner_key;
	int fd;
};

enum { UDP_RECORD_BYTES = 56 };

/* Packets of equal length, except that the last may be shorter, that came as one message. */
struct udp_stretch {
	const uint8_t *bytes;
	size_t length;
	size_t each;
	uint16_t given; /* packets returned so far */
};

/* What the fetched messages have in common. */
struct udp_source {
	enum udp_kind kind;
	bool is_ipv6;
	bool is_connected;	  /* at and peer are the ends of all of them */
	struct inet_end at, peer; /* at: of a flow */
};

/* Packets to be handed on to one adapter, in one datagram. */
struct udp_hand {
	struct udp_owner_key to;
	uint8_t search; /* index of in_vain to count in, if there is no such adapter */
	uint32_t count; /* of records */
	uint32_t packets;
	size_t bytes;
	struct {
		uint8_t head[UDP_RECORD_BYTES];
		struct ib_in in;
		struct udp_stretch stretch;
	} records[UDP_RECORDS_MAX];
};

struct udp {
	struct udp_config config;
	bool is_abandoned;
	uint8_t adapter_slot;
	struct udp_socket shared[2]; /* IPv4, IPv6 */
	struct udp_socket listener;  /* the slot's */
	struct list flows, services, groups, clients, local_peers;
	uint32_t client_count, local_peer_count;
	bool has_paused_listeners; /* out of descriptors to accept clients */
	uint32_t awaited;	   /* sockets that young flows wait for */
	uint32_t flow_count, flow_holdoff;
	struct udp_candidate candidates[UDP_CANDIDATES];
	struct udp_flow_ref learned[UDP_LEARNED_MAX]; /* a ring: the oldest is replaced next */
	uint32_t learned_next;
	struct udp_counts counts;
	uint64_t overruns; /* of closed sockets */
	/* Which sockets are read next. */
	struct list ready;
	struct udp_socket *hot[UDP_HOT_MAX]; /* the one with the latest input first */
	uint32_t hot_count, hot_turn;
	bool is_polled;
	uint64_t fetches;
	/* The messages fetched, from one socket, which may be closed meanwhile. */
	struct udp_source source;
	uint32_t fetched, fetched_next;
	bool has_client_left; /* the client closed: these are its last messages */
	struct ib_in in;
	struct udp_stretch stretch; /* packets of the message, not returned yet */
	struct rd records;	    /* records after it, in a datagram handed on to us */
	struct udp_hand hand;
	/* Failed lookups since udp_retry_slots(): per slot, and [0] for management datagrams. */
	uint8_t in_vain[UDP_SLOTS_MAX + 1];
	uint64_t names_budget_until_ns; /* until then the time for listing names is used up */
	uint8_t *buffers;
	struct mmsghdr heads[UDP_BUFFERS];
	struct iovec pieces_in[UDP_BUFFERS];
	union udp_name names[UDP_BUFFERS];
	uint8_t controls[UDP_BUFFERS][UDP_CONTROL_BYTES] __attribute__((aligned(8)));
	/* Packets out. */
	struct list senders, sender_buckets[UDP_SENDER_BUCKETS];
	uint32_t sender_count, blocked_count;
	uint32_t forth[UDP_FACTORS]; /* iba_icrc_forth(), by words; 0: not computed yet */
	struct mmsghdr runs[UDP_RUNS_MAX];
	union udp_name to[UDP_RUNS_MAX];
	uint8_t out_controls[UDP_RUNS_MAX][UDP_CONTROL_BYTES] __attribute__((aligned(8)));
	uint32_t run_packets[UDP_RUNS_MAX];
	struct iovec run_pieces[UDP_RUNS_MAX];
	uint8_t stage[UDP_RUN_BYTES_MAX];
	/* Packets that came back; how many have since udp_retry_slots(). */
	struct ib_returned returned[UDP_RETURNED_MAX];
	uint32_t returned_count, returned_lately;
};

/* ---- udp.c ---- */

void udp_socket_init(struct udp *u, struct udp_socket *s, enum udp_kind kind, int fd);

/* Starts to watch the socket; stops to watch it, and closes it. */
void udp_socket_start(struct udp_socket *s);
void udp_socket_close(struct udp_socket *s);

/* Adds the socket to the ready list: it may have input. */
void udp_socket_ready(struct udp_socket *s);
void udp_watch(struct udp *u, struct watch *w, uint32_t events);

/* Notes whether young flows wait for the socket to be read empty. */
void udp_socket_await(struct udp_socket *s, bool is_awaited);

/* The socket had input: the next poll reads it first. */
void udp_hot_add(struct udp *u, struct udp_socket *s);

/* ---- udp_recv.c ---- */

/* Reads the next messages of the socket. True: there may be more. */
bool udp_read(struct udp_socket *s);

/* ---- udp_socket.c: descriptors, or a negative errno ---- */

void udp_set(int fd, int level, int name, int value);
socklen_t udp_name_of(union udp_name *name, bool is_ipv6, const struct inet_end *end);
void udp_end_of(const union udp_name *name, struct inet_end *end);

/* Index of the interface that has the address; 0: none. */
uint32_t udp_interface_of(bool is_ipv6, const uint8_t *address);
bool udp_is_group(bool is_ipv6, const uint8_t *address);
int udp_shared_open(bool is_ipv6);

/* The kernel delivers no more packets to it; those it has can still be read. */
void udp_shared_shut(int fd, bool is_ipv6);
int udp_flow_socket_open(bool is_ipv6, const struct inet_end *at, const struct inet_end *peer);
int udp_sender_socket_open(bool is_ipv6, const struct inet_end *from);

/* Names of a slot or a service. */
struct unix_names udp_unix_names(const struct udp_owner_key *owner_key);

/* ---- udp_hand.c ---- */

struct udp_owner_key udp_owner_key(const struct udp *u, const struct ib_in *in);

/*
 * Queues the packet for another adapter. False: there is no such adapter, and this one answers the
 * packet. Queued packets must stay in place until udp_hand_flush().
 */
bool udp_hand_on(struct udp *u, const struct udp_owner_key *to, const struct ib_in *in,
		 size_t each);

/* Sends the queued packets: 0, or a negative errno if they were lost. */
int udp_hand_flush(struct udp *u);

/* The next record of a datagram; false: there are no more, or the rest is malformed. */
bool udp_record_next(struct udp *u, struct ib_in *in, struct udp_stretch *stretch);

/* ---- udp_relay.c ---- */

/*
 * Binds a name of the slot or service. A negative errno on failure: -EADDRINUSE if a process of
 * this user or of root has it. With is_thorough, names that another user has bound are skipped;
 * else they count as in use. If another user has bound all of them, a service gets a hidden name; a
 * slot does not: -EADDRINUSE.
 */
int udp_listener_open(struct udp *u, struct udp_socket *listener,
		      const struct udp_owner_key *owner_key, bool is_thorough);

/* Closes the listener and its clients. */
void udp_listener_close(struct udp_socket *listener);

/* Accepts clients that wait. True: there may be more. */
bool udp_listener_accept(struct udp_socket *listener);

/* The client has closed its end. */
void udp_client_close(struct udp_client *g);

/* Sends to the adapter `to`; 0 or a negative errno: -ECONNREFUSED if there is no such adapter. */
int udp_local_peer_send(struct udp *u, const struct udp_owner_key *to, const struct msghdr *m);
bool udp_local_peer_is_known(struct udp *u, const struct udp_owner_key *to);
void udp_local_peers_close(struct udp *u);

/* ---- udp_flow.c ---- */

/* Whether the flow may be read; a young one may not. */
bool udp_flow_is_due(struct udp_flow *f);
void udp_flows_close(struct udp *u);

/* A packet for one of our queue pairs was handed on to us: if more follow, they get a flow. */
void udp_flow_notice(struct udp *u, const struct ib_in *in);

/* ---- udp_group.c ---- */

bool udp_has_service(const struct udp *u, uint64_t service_id);
void udp_groups_close(struct udp *u);

/* ---- udp_returned.c ---- */

/* Takes what the kernel has noted of packets that were sent. False: nothing. */
bool udp_take_errors(struct udp_sender *s);

/* ---- udp_send.c ---- */

void udp_senders_close(struct udp *u);
