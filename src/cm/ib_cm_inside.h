/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the InfiniBand CM agent share; for nobody else. */
#pragma once

#include "base/list.h"
#include "base/secret.h"
#include "base/timer_queue.h"
#include "base/trace.h"
#include "cm/ib_cm.h"

/* A peer's wish to wait longer than this is not heeded: 17 s, and for an MRA 4.6 minutes. */
enum { IB_CM_WAIT_CODE_MAX = 22, IB_CM_MRA_CODE_MAX = 26 };

/* How cm_ids are found. Chains of slots; 0 ends one, so slots count from 1. */
enum conv_index {
	BY_ID,	     /* ours: every cm_id until its slot is free */
	BY_PEER_ID,  /* passive: address and communication or request id of the peer */
	BY_PEER_QPN, /* address and QP number of the peer, while it may be connected to it */
	INDEXES
};

struct conv {
	uint32_t slot;
	uint32_t next[INDEXES];
	bool is_in[INDEXES];
	struct list to_send; /* of the agent, while `owes` is not 0 */
	struct list to_tell; /* of the agent, while `events` is not 0 */
	struct list
		aged; /* of the agent: in time wait, or unproven peers, in the order they came */
	struct timer timer; /* by state, see states[] */

	enum ib_cm_state state;
	uint32_t id, peer_id; /* peer_id 0: not known */
	uint32_t host;	      /* the peer's, by slot */
	bool is_active, is_sidr;
	bool is_unproven;  /* passive: the peer has not shown that it has its address */
	bool is_known;	   /* the owner has heard of it */
	bool is_forgotten; /* the owner hears no more of it */
	bool has_header;   /* of the RDMA CM */
	void *owner;
	uint64_t service_id, tid;
	struct ibcm_ip ip; /* from us to the peer */
	uint32_t qpn;	   /* ours */
	uint8_t traffic_class, hop_limit, ack_code;
	uint64_t limit_ns; /* active: when it must be answered */
	uint64_t began_ns; /* passive */
	uint32_t credit;   /* messages of an unproven peer that were not answered */

	/* Questions whether the peer still knows of the connection, and when the last was asked. */
	uint32_t challenges;
	uint64_t challenged_ns;

	/* What is sent again, and how often it was. */
	uint64_t response_ns; /* the peer may take so long to answer */
	uint64_t mra_ns;      /* the time after which the peer must be told to wait */
	uint8_t retries;      /* of each message */
	uint32_t tries, sent, mras;
	uint32_t owes; /* enum debt */
	enum ibcm_kind message_kind;
	uint8_t message[MAD_BYTES];

	/* For the owner: 1 << enum ib_cm_event_kind, and what the events say. */
	uint32_t events;
	struct ibcm_req req; /* passive */
	struct ib_cm_end peer;
	uint64_t peer_guid;
	enum weft_reason reason;
	uint16_t reject;
	uint8_t reject_about, status;
	bool is_by_peer;
	uint32_t begin_bytes, end_bytes, info_bytes;
	uint8_t begin[IB_CM_DATA_MAX]; /* private data of REQ, REP, RTU, SIDR_REQ */
	uint8_t end[IB_CM_DATA_MAX];   /* of REJ, DREQ, DREP, SIDR_REP */
	uint8_t info[IBCM_INFO_MAX];
};

enum debt { OWES_MESSAGE = 1, OWES_MRA = 2 };

/* An answer to what belongs to no cm_id. When there are more they are dropped. */
enum { STRAYS_MAX = 64 };

struct stray {
	struct ibcm_ip ip;
	enum ibcm_kind kind;
	uint8_t message[MAD_BYTES];
};

/* Processes of weft have a CA GUID each; of so many the latest are remembered for an address. */
enum { HOST_GUIDS = 8 };

struct host {
	uint32_t next; /* in its chain, or of the free ones */
	uint32_t uses; /* cm_ids */
	bool is_ipv6;
	uint8_t address[16];
	uint32_t unproven, known; /* half open */
	uint32_t guid_next;
	bool is_proved[HOST_GUIDS];
	uint64_t guids[HOST_GUIDS];
};

struct ib_cm {
	struct ib_cm_config config;
	struct secret secret;
	struct ib_cm_counts counts;
	uint64_t tid_next;
	struct conv *convs;
	uint32_t slots_used; /* ever; those beyond were never touched */
	struct list free, to_send, to_tell, aged;
	uint32_t *heads[INDEXES];
	uint32_t mask; /* of a hash */
	struct host *hosts;
	uint32_t *host_heads;
	uint32_t hosts_used, host_free; /* ever; the first free one, 0: none */
	struct list unproven;
	uint32_t resend_budget; /* messages to unproven peers besides one for each of theirs */
	uint64_t resend_budget_ns;
	struct timer_queue timers;
	struct stray strays[STRAYS_MAX];
	uint32_t stray_first, stray_count;
};

/* ---- ib_cm.c: cm_ids and their states ------------------------------------------------ */

struct conv *conv_find(const struct ib_cm *cm, uint32_t id);
struct conv *conv_find_peer(const struct ib_cm *cm, const struct ibcm_ip *ip, uint32_t peer_id,
			    bool is_sidr);

/* With that QP of the address; after an earlier find, NULL: the first. */
struct conv *conv_find_qpn(const struct ib_cm *cm, const struct ibcm_ip *ip, uint32_t qpn,
			   const struct conv *after);
uint32_t hash_peer(const struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer,
		   uint32_t number);

/* A new one with an id, in IB_CM_IDLE; NULL when there is no room. */
struct conv *conv_new(struct ib_cm *cm, const struct ibcm_ip *ip);
void conv_index_add(struct ib_cm *cm, struct conv *c, enum conv_index index);
void conv_index_remove(struct ib_cm *cm, struct conv *c, enum conv_index index);

void conv_move(struct ib_cm *cm, struct conv *c, enum ib_cm_state to, enum weft_reason reason);
void conv_tell(struct ib_cm *cm, struct conv *c, enum ib_cm_event_kind kind);

/* The owner went on without waiting for this event. */
void conv_untell(struct conv *c, enum ib_cm_event_kind kind);

/* To IB_CM_IDLE; the slot is free when the owner has heard all. */
void conv_release(struct ib_cm *cm, struct conv *c);

/* No event of it follows. */
void conv_forget(struct ib_cm *cm, struct conv *c);

/* Into time wait, with the last event if it had none. */
void conv_end(struct ib_cm *cm, uint64_t now_ns, struct conv *c, enum weft_reason reason);

/* Passive: the peer is known to be ready. What else claims to be connected to its QP ends. */
void conv_establish(struct ib_cm *cm, uint64_t now_ns, struct conv *c);

/* What was to be said is no longer. */
void conv_hush(struct conv *c);

bool conv_was_established(const struct conv *c);
bool conv_is_half_open(const struct conv *c);

/* ---- ib_cm_host.c: peers by address --------------------------------------------------------- */

struct host *host_find(struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer); /* or NULL */
uint32_t host_get(struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer);
void host_put(struct ib_cm *cm, const struct conv *c);
struct host *host_of(const struct ib_cm *cm, const struct conv *c);

/* Whether a peer with that CA GUID has shown that it has the host's address. NULL: no. */
bool host_is_proved(const struct host *h, uint64_t guid);
/* It has: a message came that has our id. */
void conv_prove(struct ib_cm *cm, struct conv *c);

void conv_count_half_open(struct ib_cm *cm, struct conv *c, int by);

/* Room for one more; if need be an unproven peer's that did not answer ends for it. */
enum weft_reason half_open_room(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *back,
				bool is_unproven);

void resend_budget_refill(struct ib_cm *cm, uint64_t now_ns);
/* A message of it came. */
void conv_credit(struct conv *c);
/* A message to it goes out: one that an unproven peer must have so much credit for. */
bool conv_may_say(struct ib_cm *cm, struct conv *c, uint32_t least_credit);

/* ---- ib_cm_time.c --------------------------------------------------------------------------- */

void conv_wait(struct ib_cm *cm, uint64_t now_ns, struct conv *c, uint64_t wait_ns);
/* Until the message is sent again. */
void conv_wait_answer(struct ib_cm *cm, uint64_t now_ns, struct conv *c);
void conv_wait_owner(struct ib_cm *cm, uint64_t now_ns, struct conv *c);

/* ---- ib_cm_say.c: messages ------------------------------------------------------------------ */

/* Puts the ids in, keeps it to be sent again, and sends it. */
void conv_say(struct ib_cm *cm, struct conv *c, struct ibcm_msg *m);
void conv_say_again(struct ib_cm *cm, struct conv *c);
void conv_say_mra(struct ib_cm *cm, struct conv *c);
void conv_say_reject(struct ib_cm *cm, struct conv *c, const struct ib_cm_reject *r);
/* To be said when the peer is heard again. */
void conv_keep_reject(struct ib_cm *cm, struct conv *c, const struct ib_cm_reject *r);
void conv_say_dreq(struct ib_cm *cm, uint64_t now_ns, struct conv *c, struct ibcm_bytes private);
void conv_say_drep(struct ib_cm *cm, struct conv *c, struct ibcm_bytes private);
void conv_say_sidr(struct ib_cm *cm, struct conv *c, const struct ib_cm_answer *a);

/* To the sender of a message, about which no cm_id is kept. */
void stray_reject(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *about,
		  uint16_t code);
void stray_drep(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *dreq);
void stray_apr(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *lap,
	       uint8_t status);
void stray_sidr(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *request,
		uint8_t status);
/* A DREQ that names no QP: a peer that has the connection ignores it, any other answers. */
void stray_challenge(struct ib_cm *cm, const struct conv *c);

/* The private data of a request: the header of the RDMA CM and what follows it. */
struct ibcm_bytes request_data(const struct conv *c, struct ibcm_bytes private, uint8_t *room);
void gid_of(const struct ibcm_ip *ip, const struct inet_end *end, uint8_t gid[IBCM_GID_BYTES]);

/* ---- ib_cm_request.c: what begins a cm_id -------------------------------------------- */

enum weft_reason recv_req(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			  const struct ibcm_msg *m);
enum weft_reason recv_sidr_req(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			       const struct ibcm_msg *m);

/*
 * A peer that is proved connects this QP of its: what else claims to be connected to it ends, but
 * for one. True: something was established.
 */
bool stale_clear(struct ib_cm *cm, uint64_t now_ns, const struct conv *but,
		 const struct ibcm_ip *ip, uint32_t qpn);

/* Whether the peer is asked just now if it still knows of the connection. */
bool challenge_is_open(const struct conv *c, uint64_t now_ns);

bool qpn_is_sound(uint32_t qpn);
