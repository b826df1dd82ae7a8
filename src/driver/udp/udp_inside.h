/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The structs of udp.h, for the files that it consists of:
 *
 *	udp.c         opening and closing, slots, which socket is asked when
 *	udp_socket.c  sockets with their options, and the kernel's addresses
 *	udp_recv.c    batches in: read, taken apart, given out or handed on
 *	udp_hand.c    what is handed on, and to whom
 *	udp_relay.c    the unix sockets by which that is done
 *	udp_flow.c    sockets of one peer's source port each
 *	udp_send.c    batches out
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
	 * A batch that the kernel has joined is up to 64 KiB, and so is what is handed on. Few of
	 * them are asked for at a time where they are large, so that they stay in the cache.
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
	UDP_FACTORS = IBA_PACKET_MAX / 4 + 1
};

enum udp_kind {
	UDP_SHARED,   /* the port, any address */
	UDP_FLOW,     /* the port, from one source port of one peer */
	UDP_LISTENER, /* a name: of our slot, or of a service */
	UDP_CLIENT    /* whoever has come to a listener to hand on */
};

union udp_name {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* One that packets come by. */
struct udp_socket {
	struct watch watch;
	struct udp *udp;
	enum udp_kind kind;
	bool is_ipv6;
	struct list ready_link;
	uint32_t ask_for;	  /* messages at the next call */
	uint32_t asked;		  /* since it is hot; UINT32_MAX: not watched */
	uint32_t in_vain;	  /* of those, the latest that found nothing */
	bool is_awaited;	  /* young flows wait until it is found empty */
	struct inet_end at, peer; /* of a flow */
};

struct udp_flow {
	struct udp_socket socket;
	struct list link;
	uint32_t refs;
	bool has_other_peers; /* their packets, of before it was connected, may lie in it */
	/* Until the sockets by which its packets came before are empty, it is not read. */
	bool is_young;
	uint64_t young_until; /* number of fetches */
};

/* The ends of a flow, which there may be or not. */
struct udp_ends {
	bool is_ipv6;
	struct inet_end at, peer;
};

/* A peer that may get a flow: its packets come by the shared socket, or handed on. */
struct udp_candidate {
	struct udp_ends ends;
	uint32_t count;
};

/* Who hands on to us. */
struct udp_client {
	struct udp_socket socket;
	struct list link;
	const struct udp_socket *listener;
};

struct udp_service {
	struct udp_socket socket;
	struct list link;
	uint64_t id;
	uint32_t claims; /* not released yet */
};

/* A group that was joined. */
struct udp_group {
	struct list link;
	struct weft_address group, at;
	uint32_t refs;
};

/* One that packets are sent by, from one address and port; nothing ever comes to it. */
struct udp_sender {
	struct watch watch;
	struct udp *udp;
	struct list link, bucket; /* of all: the one that was used last is the first */
	bool is_ipv6;
	struct inet_end from;
	uint8_t traffic_class, hop_limit; /* of packets that say nothing else */
	bool is_blocked;
	bool is_refusing_batches; /* the device, or the path */
};

/* Whom a packet is for. */
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

/* Whom we hand on to. */
struct udp_local_peer {
	struct list link; /* the one that was used last is the first */
	struct udp_owner_key owner_key;
	int fd;
};

enum { UDP_RECORD_BYTES = 56 };

/* Packets of equal length but the last, that came together. */
struct udp_stretch {
	const uint8_t *bytes;
	size_t length;
	size_t each;
	uint16_t given; /* packets of it, so far */
};

/* What the messages that were fetched have in common. */
struct udp_source {
	enum udp_kind kind;
	bool is_ipv6;
	bool is_connected;	  /* so these are both ends of all of them */
	struct inet_end at, peer; /* at: of a flow */
};

/* What is to be handed on to one, in one datagram. */
struct udp_hand {
	struct udp_owner_key to;
	uint8_t search; /* counts, if it is in vain */
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
	bool has_paused_listeners; /* descriptors were short for guests */
	uint32_t awaited;	   /* sockets that young flows wait for */
	uint32_t flow_count, flow_holdoff;
	struct udp_candidate candidates[UDP_CANDIDATES];
	struct udp_flow_ref learned[UDP_LEARNED_MAX]; /* the oldest is the next that makes room */
	uint32_t learned_next;
	struct udp_counts counts;
	uint64_t overruns; /* of sockets that are closed */
	/* Who is asked. */
	struct list ready;
	struct udp_socket *hot[UDP_HOT_MAX]; /* the one that had something last is the first */
	uint32_t hot_count, hot_turn;
	bool is_polled;
	uint64_t fetches;
	/* What was fetched, from one socket, which may be gone meanwhile. */
	struct udp_source source;
	uint32_t fetched, fetched_next;
	bool has_client_left; /* what was fetched is the last of it */
	struct ib_in in;
	struct udp_stretch stretch; /* of the message, what is still to be given out */
	struct rd records;	    /* behind it, of what was handed to us */
	struct udp_hand hand;
	/* Searches since slots were tried last: for each slot, and [0] for management. */
	uint8_t in_vain[UDP_SLOTS_MAX + 1];
	uint64_t names_budget_until_ns; /* until then the time for asking for names is used up */
	uint8_t *buffers;
	struct mmsghdr heads[UDP_BUFFERS];
	struct iovec pieces_in[UDP_BUFFERS];
	union udp_name names[UDP_BUFFERS];
	uint8_t controls[UDP_BUFFERS][UDP_CONTROL_BYTES] __attribute__((aligned(8)));
	/* Packets out. */
	struct list senders, sender_buckets[UDP_SENDER_BUCKETS];
	uint32_t sender_count, blocked_count;
	uint32_t forth[UDP_FACTORS]; /* iba_icrc_forth(), by words; 0: not known yet */
	struct mmsghdr runs[UDP_RUNS_MAX];
	union udp_name to[UDP_RUNS_MAX];
	uint8_t out_controls[UDP_RUNS_MAX][UDP_CONTROL_BYTES] __attribute__((aligned(8)));
	uint32_t run_packets[UDP_RUNS_MAX];
	struct iovec run_pieces[UDP_RUNS_MAX];
	uint8_t stage[UDP_RUN_BYTES_MAX];
};

/* ---- udp.c ---- */

void udp_socket_init(struct udp *u, struct udp_socket *s, enum udp_kind kind, int fd);

/* Watches it, and no longer; closes it. */
void udp_socket_start(struct udp_socket *s);
void udp_socket_close(struct udp_socket *s);

/* It has something, as far as is known. */
void udp_socket_ready(struct udp_socket *s);
void udp_watch(struct udp *u, struct watch *w, uint32_t events);

/* Young flows wait for it, or no longer. */
void udp_socket_await(struct udp_socket *s, bool is_awaited);

/* Something came by it: the next poll asks it first. */
void udp_hot_add(struct udp *u, struct udp_socket *s);

/* ---- udp_recv.c ---- */

/* Reads what is fetched next. True: there may be more. */
bool udp_read(struct udp_socket *s);

/* ---- udp_socket.c: descriptors, or a negative errno ---- */

void udp_set(int fd, int level, int name, int value);
socklen_t udp_name_of(union udp_name *name, bool is_ipv6, const struct inet_end *end);
void udp_end_of(const union udp_name *name, struct inet_end *end);

/* Index of the interface that has the address; 0: none. */
uint32_t udp_interface_of(bool is_ipv6, const uint8_t *address);
bool udp_is_group(bool is_ipv6, const uint8_t *address);
int udp_shared_open(bool is_ipv6);

/* The kernel gives it nothing more; what lies there can still be read. */
void udp_shared_shut(int fd, bool is_ipv6);
int udp_flow_socket_open(bool is_ipv6, const struct inet_end *at, const struct inet_end *peer);
int udp_sender_socket_open(bool is_ipv6, const struct inet_end *from);

/* Names of a slot or a service. */
struct unix_names udp_unix_names(const struct udp_owner_key *owner_key);
int udp_unix_listen(const struct unix_name *name);

/* -EACCES: the name is in the hands of another user. */
int udp_unix_connect(const struct unix_name *name);

/* Listens at a hidden name, which there is no second one of. */
int udp_unix_listen_hidden(const struct unix_names *names);

/* Whether the process at the other end is of this user, or of root. */
bool udp_unix_is_trusted(int fd);

/* ---- udp_hand.c ---- */

struct udp_owner_key udp_owner_key(const struct udp *u, const struct ib_in *in);

/*
 * Notes the packet for another. False: there is nobody for it, and it is ours to answer. What is
 * noted must stay where it is until udp_hand_flush().
 */
bool udp_hand_on(struct udp *u, const struct udp_owner_key *to, const struct ib_in *in,
		 size_t each);

/* 0, or a negative errno: why nobody has it. */
int udp_hand_flush(struct udp *u);

/* The next record of a datagram; false: that was all, or no more can be understood. */
bool udp_record_next(struct udp *u, struct ib_in *in, struct udp_stretch *stretch);

/* ---- udp_relay.c ---- */

/*
 * Takes its name; a negative errno: -EADDRINUSE if a process of this user has it. With is_thorough
 * a name that another user has taken is no hindrance; else it is as if one of ours had it. A
 * service has a hidden name where another user has all, a slot has not: -EADDRINUSE.
 */
int udp_listener_open(struct udp *u, struct udp_socket *listener,
		      const struct udp_owner_key *owner_key, bool is_thorough);

/* Closes it, with those that came by it. */
void udp_listener_close(struct udp_socket *listener);

/* Lets in who is there. True: there may be more. */
bool udp_listener_accept(struct udp_socket *listener);

/* It has left. */
void udp_client_close(struct udp_client *g);

/* Sends to whom it is for; 0 or a negative errno: -ECONNREFUSED if there is nobody. */
int udp_local_peer_send(struct udp *u, const struct udp_owner_key *to, const struct msghdr *m);
bool udp_local_peer_is_known(struct udp *u, const struct udp_owner_key *to);
void udp_local_peers_close(struct udp *u);

/* ---- udp_flow.c ---- */

/* Whether it may be read. */
bool udp_flow_is_due(struct udp_flow *f);
void udp_flows_close(struct udp *u);

/* A packet for one of our queue pairs was handed to us: if more come by its way, not for long. */
void udp_flow_notice(struct udp *u, const struct ib_in *in);

/* ---- udp_group.c ---- */

bool udp_has_service(const struct udp *u, uint64_t service_id);
void udp_groups_close(struct udp *u);

/* ---- udp_send.c ---- */

void udp_senders_close(struct udp *u);
