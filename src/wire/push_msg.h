/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of the split network card (D2), and its 32 bits of immediate data, as
 * docs/wire/push.md has them. One message is one Send on channel 0: a header of 12 bytes and a
 * body. Decoding checks only the format; the receiver checks which end has which element, order
 * and permissions (push/push.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/cursor.h"

enum {
	PUSH_VERSION = 1,
	PUSH_HEADER_BYTES = 12,
	PUSH_MSG_BYTES_MAX = 2048, /* of one message, all included */
	PUSH_BODY_BYTES_MAX = PUSH_MSG_BYTES_MAX - PUSH_HEADER_BYTES,
	PUSH_POOL_BYTES = 32, /* an entry of a BufferRecvPool, and so on */
	PUSH_RUN_BYTES = 12,
	PUSH_USED_BYTES = 16,
	PUSH_REFERENCE_BYTES = 4,
	PUSH_ADVERT_POOLS_MAX = (PUSH_BODY_BYTES_MAX - 4) / PUSH_POOL_BYTES,
	PUSH_UPDATE_RUNS_MAX = (PUSH_BODY_BYTES_MAX - 4) / PUSH_RUN_BYTES,
	PUSH_INDICATE_MAX = (PUSH_BODY_BYTES_MAX - 4) / PUSH_USED_BYTES,
	PUSH_FLUSH_POOLS_MAX = PUSH_BODY_BYTES_MAX / PUSH_REFERENCE_BYTES,
	PUSH_INLINE_MAX = PUSH_BODY_BYTES_MAX - 4, /* of a SendData */
	PUSH_MAC_BYTES = 6,
	PUSH_VLAN_MAX = 4094, /* the highest id */
	PUSH_VLANS_MAX = 64,  /* of a filter */
	PUSH_GROUPS_MAX = 64,
	PUSH_MTU_MIN = 68,
	PUSH_MTU_MAX = 9000,
	PUSH_FRAME_MIN = 14, /* an Ethernet header */
	PUSH_FRAME_MAX = 65535,
	PUSH_NET_HEADER_BYTES = 12, /* virtio-net's, before the frame, if agreed on */
	PUSH_PACKET_MAX = PUSH_NET_HEADER_BYTES + PUSH_FRAME_MAX
};

enum push_function {
	PUSH_RECV_POOL = 1,    /* PUSH-16a BufferRecvPool, of the target */
	PUSH_RECV_POOL_GET,    /* PUSH-16b, of the initiator */
	PUSH_RECV_POOL_UPDATE, /* PUSH-16c, of the target (AMB-30) */
	PUSH_FLUSH_REQUEST,    /* PUSH-16d, of the target: its own pools */
	PUSH_FLUSH_REPLY,      /* PUSH-16e */
	PUSH_SEND_DATA,	       /* PUSH-16f */
	PUSH_RDMA_INDICATE,    /* PUSH-16g, of the initiator */
	PUSH_CFG_REQUEST,      /* PUSH-16h */
	PUSH_CFG_REPLY,	       /* PUSH-16h */
	PUSH_RELEASE_REQUEST,  /* PUSH-16d, of the initiator: pools of the receiver */
	PUSH_PULL,	       /* ours, for comparison (PUSH-04): the target asks for a packet */
	PUSH_FUNCTION_COUNT
};

/* A pool: an array of elements in registered memory (PUSH-15, PUSH-16a). */
struct push_pool {
	uint32_t index, handle;
	uint32_t elements, element_bytes; /* neither is 0 */
	uint64_t address;
	uint64_t context; /* of the implementation */
};

/* Elements one after the other that are free again. */
struct push_run {
	uint32_t pool, first, count;
};

/* An element that was written. */
struct push_used {
	uint32_t pool, element;
	uint32_t element_bytes; /* of the pool, as in the immediate form */
	uint32_t bytes;		/* that were written */
};

/* Entries in the decoded message, or to be encoded: pools, runs, references or used elements. */
struct push_entries {
	uint32_t count;
	const uint8_t *bytes; /* push_pool_next() and so on read them */
};

/* ---- Configuration and statistics (PUSH-09, PUSH-16h) --------------------------------------- */

enum push_kind {
	PUSH_HELLO = 1,	 /* both ways, first of all: what the end is, and what it can do */
	PUSH_SET_MAC,	 /* host: MAC address of its interface */
	PUSH_SET_MTU,	 /* host */
	PUSH_SET_FILTER, /* host: which frames it wants, all of it anew */
	PUSH_SET_OFFERS, /* host: features and queues that it uses, of those of the unit's hello */
	PUSH_LINK,	 /* unit: state of the LAN's link */
	PUSH_STATISTICS, /* either: the reply has them */
	PUSH_PING,	 /* either: is the other end there, and how many packets came */
	PUSH_KIND_COUNT
};

enum push_role { PUSH_HOST = 1, PUSH_UNIT };

enum push_mode {
	PUSH_MODE_SEND = 1, /* PUSH-07: two unacknowledged connections */
	PUSH_MODE_RDMA	    /* PUSH-08: one acknowledged connection */
};

/* Bits of virtio-net's features, by the names and numbers of its specification; ours on top. */
#define PUSH_FEATURE_CSUM (1ULL << 0)
#define PUSH_FEATURE_GUEST_CSUM (1ULL << 1)
#define PUSH_FEATURE_GUEST_TSO4 (1ULL << 7)
#define PUSH_FEATURE_GUEST_TSO6 (1ULL << 8)
#define PUSH_FEATURE_GUEST_ECN (1ULL << 9)
#define PUSH_FEATURE_HOST_TSO4 (1ULL << 11)
#define PUSH_FEATURE_HOST_TSO6 (1ULL << 12)
#define PUSH_FEATURE_HOST_ECN (1ULL << 13)
#define PUSH_FEATURE_GUEST_USO4 (1ULL << 54)
#define PUSH_FEATURE_GUEST_USO6 (1ULL << 55)
#define PUSH_FEATURE_HOST_USO (1ULL << 56)
/* Each packet begins with virtio-net's header of 12 bytes; needed by all of the above. */
#define PUSH_FEATURE_NET_HEADER (1ULL << 63)
#define PUSH_FEATURES                                                                              \
	(PUSH_FEATURE_CSUM | PUSH_FEATURE_GUEST_CSUM | PUSH_FEATURE_GUEST_TSO4 |                   \
	 PUSH_FEATURE_GUEST_TSO6 | PUSH_FEATURE_GUEST_ECN | PUSH_FEATURE_HOST_TSO4 |               \
	 PUSH_FEATURE_HOST_TSO6 | PUSH_FEATURE_HOST_ECN | PUSH_FEATURE_GUEST_USO4 |                \
	 PUSH_FEATURE_GUEST_USO6 | PUSH_FEATURE_HOST_USO | PUSH_FEATURE_NET_HEADER)

struct push_hello {
	enum push_role role;
	enum push_mode mode;
	bool is_link_up; /* unit: of the LAN; host: of its interface */
	bool is_pull;	 /* it sends packets only when asked for them (PUSH-04) */
	uint16_t mtu, queues;
	uint64_t features;		  /* PUSH_FEATURES; of a reply: those that both ends have */
	uint8_t mac[PUSH_MAC_BYTES];	  /* host: that it wants; unit: that the host gets */
	uint32_t pools_max, elements_max; /* of the other end's, that it can keep in mind */
	uint32_t message_bytes_max;	  /* that it takes on channel 0 */
};

enum push_filter_flag {
	PUSH_FILTER_PROMISCUOUS = 1,
	PUSH_FILTER_ALL_GROUPS = 2, /* every multicast frame */
	PUSH_FILTER_ALL_VLANS = 4,  /* tagged with any id; else those of the list */
	PUSH_FILTER_NO_BROADCAST = 8,
	PUSH_FILTER_FLAGS = 15
};

/* Untagged frames pass always, of tagged ones those of its VLANs. */
struct push_filter {
	uint32_t flags;
	uint16_t vlan_count, group_count;
	uint16_t vlans[PUSH_VLANS_MAX]; /* ids, 1..PUSH_VLAN_MAX */
	uint8_t groups[PUSH_GROUPS_MAX][PUSH_MAC_BYTES];
};

struct push_offers {
	uint64_t features;
	uint16_t queues;
};

struct push_link_state {
	bool is_up;
	uint32_t megabits; /* a second; 0: not known */
};

/* Of the end that answers. `in` is what came from the end that asks. */
struct push_statistics {
	uint64_t packets_in, bytes_in, packets_out, bytes_out;
	uint64_t messages_in, messages_out; /* on channel 0 */
	uint64_t writes;		    /* RDMA Writes */
	uint64_t refused;		    /* messages, indications and packets, with a reason */
	uint64_t dropped;		    /* packets that found no room to wait */
	uint64_t lost;	/* of Send mode: sent by the other end, and never came */
	uint64_t waits; /* packets that found no free element */
};

/* Packets on channel 1 since the link came up. */
struct push_ping {
	uint64_t sent, received;
};

struct push_cfg {
	enum push_kind kind;
	uint32_t reason; /* of a reply: enum weft_reason, or one that a newer peer has */
	union {		 /* of a reply with a reason: none */
		struct push_hello hello;
		uint8_t mac[PUSH_MAC_BYTES];
		uint16_t mtu;
		struct push_filter filter;
		struct push_offers offers;
		struct push_link_state link;
		struct push_statistics statistics; /* of a reply; a request is empty */
		struct push_ping ping;
	};
};

/* ---- Messages ------------------------------------------------------------------------------- */

struct push_get {
	uint32_t packet_bytes, packets;
};

struct push_data {
	const uint8_t *bytes;
	uint32_t length;
};

struct push_msg {
	enum push_function function;
	uint64_t context; /* of a reply: its request's */
	union {
		struct push_entries pools;	/* PUSH_RECV_POOL */
		struct push_get get;		/* PUSH_RECV_POOL_GET */
		struct push_entries runs;	/* PUSH_RECV_POOL_UPDATE */
		struct push_entries references; /* PUSH_FLUSH_REQUEST, PUSH_RELEASE_REQUEST */
		struct push_data data;		/* PUSH_SEND_DATA */
		struct push_entries used;	/* PUSH_RDMA_INDICATE */
		struct push_cfg cfg;		/* PUSH_CFG_REQUEST, PUSH_CFG_REPLY */
		struct push_run pull;		/* PUSH_PULL: may be written next */
	};
};

/*
 * One whole message: it must be of just these bytes. All entries have been checked then. On error
 * *m has not changed, except that m->function and m->context are set if the header could be read.
 * WEFT_R_PUSH_SHORT; _FUNCTION and _VERSION: unknown (PUSH-18); _LENGTH: excess bytes, or no
 * entries; _FORM: a field that no sender writes.
 */
enum weft_reason push_msg_decode(struct push_msg *m, const uint8_t *bytes, size_t length);

/*
 * Writes the message; it may be one that no decoder accepts. If it does not fit, is_short is set
 * and nothing else changes.
 */
void push_msg_encode(const struct push_msg *m, struct wr *w);

/* For messages to users; never NULL. */
const char *push_function_name(enum push_function function);
const char *push_kind_name(enum push_kind kind);

/* The next entry of a decoded message; the same to make one. What does not fit is not put. */
struct push_pool push_pool_next(struct rd *r);
struct push_run push_run_next(struct rd *r);
struct push_used push_used_next(struct rd *r);
uint32_t push_reference_next(struct rd *r);
void push_pool_put(const struct push_pool *p, struct wr *w);
void push_run_put(const struct push_run *p, struct wr *w);
void push_used_put(const struct push_used *p, struct wr *w);
void push_reference_put(uint32_t pool, struct wr *w);

/* ---- The 32 bits of immediate data (PUSH-20, AMB-31) ---------------------------------------- */

enum { PUSH_IMMEDIATE_POOLS = 256, PUSH_IMMEDIATE_ELEMENTS = 256, PUSH_IMMEDIATE_BYTES = 65536 };

struct push_immediate {
	uint32_t pool, element;
	uint32_t element_bytes; /* 1..65536, which is 0 in the word */
};

/* Each of the fields must be within its limit. (7, 5, 256) is 0x07050100. */
uint32_t push_immediate_encode(const struct push_immediate *i);
struct push_immediate push_immediate_decode(uint32_t word);
