/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the InfiniBand CM agent, and private to them. */
#pragma once

#include "base/list.h"
#include "base/secret.h"
#include "base/timer_queue.h"
#include "base/trace.h"
#include "cm/ib_cm.h"

/* Limits of the times that a peer may ask for: 17 s, and for an MRA 4.6 minutes. */
enum { IB_CM_WAIT_CODE_MAX = 22, IB_CM_MRA_CODE_MAX = 26 };

/* Hash indexes of cm_ids: chains of slots, counted from 1; 0 ends a chain. */
enum cm_id_index {
	BY_ID,	     /* our id: every cm_id until its slot is free */
	BY_PEER_ID,  /* passive: address and communication or request id of the peer */
	BY_PEER_QPN, /* address and QP number of the peer, while it may be connected */
	INDEXES
};

struct cm_id {
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
	uint32_t host;	      /* slot of the peer's host */
	bool is_active, is_sidr;
	bool is_unproven;  /* passive: the peer has not proven its address */
	bool is_known;	   /* an event told the owner of it */
	bool is_forgotten; /* the owner gets no more events of it */
	bool has_header;   /* of the RDMA CM */
	void *owner;
	uint64_t service_id, tid;
	struct ibcm_ip ip; /* from us to the peer */
	uint32_t qpn;	   /* ours */
	uint8_t traffic_class, hop_limit, ack_code;
	uint64_t limit_ns; /* active: when it must be answered */
	uint64_t began_ns; /* passive */
	uint32_t credit;   /* messages of an unproven peer that we have not answered */

	/* DREQs that test whether the peer still has the connection; time of the last. */
	uint32_t challenges;
	uint64_t challenged_ns;

	/* The message to retransmit, and how often it was sent. */
	uint64_t response_ns; /* the time the peer may take to answer */
	uint64_t mra_ns;      /* the time after which an MRA is due */
	uint8_t retries;      /* of each message */
	uint32_t tries, sent, mras;
	uint32_t owes; /* enum debt */
	enum ibcm_kind message_kind;
	uint8_t message[MAD_BYTES];

	/* Pending events: 1 << enum ib_cm_event_kind, and their contents. */
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

/* An answer to a message without a cm_id. More than STRAYS_MAX are dropped. */
enum { STRAYS_MAX = 64 };

struct stray {
	struct ibcm_ip ip;
	enum ibcm_kind kind;
	uint8_t message[MAD_BYTES];
};

/* Every process of weft has a CA GUID of its own; the latest so many of an address are kept. */
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
	struct cm_id *cm_ids;
	uint32_t slots_used; /* high-water mark: slots beyond were never used */
	struct list free, to_send, to_tell, aged;
	uint32_t *heads[INDEXES];
	uint32_t mask; /* of a hash */
	struct host *hosts;
	uint32_t *host_heads;
	uint32_t hosts_used, host_free; /* high-water mark; the first free one, 0: none */
	struct list unproven;
	uint32_t resend_budget; /* messages to unproven peers beyond one for each of theirs */
	uint64_t resend_budget_ns;
	struct timer_queue timers;
	struct stray strays[STRAYS_MAX];
	uint32_t stray_first, stray_count;
};

/* ---- ib_cm.c: cm_ids and their states ------------------------------------------------ */

struct cm_id *cm_id_find(const struct ib_cm *cm, uint32_t id);
struct cm_id *cm_id_find_peer(const struct ib_cm *cm, const struct ibcm_ip *ip, uint32_t peer_id,
			      bool is_sidr);

/* The next cm_id with that QP of the address; after NULL: the first. */
struct cm_id *cm_id_find_qpn(const struct ib_cm *cm, const struct ibcm_ip *ip, uint32_t qpn,
			     const struct cm_id *after);
uint32_t hash_peer(const struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer,
		   uint32_t number);

/* A new cm_id with an id, in IB_CM_IDLE; NULL: no room. */
struct cm_id *cm_id_new(struct ib_cm *cm, const struct ibcm_ip *ip);
void cm_id_index_add(struct ib_cm *cm, struct cm_id *c, enum cm_id_index index);
void cm_id_index_remove(struct ib_cm *cm, struct cm_id *c, enum cm_id_index index);

void cm_id_move(struct ib_cm *cm, struct cm_id *c, enum ib_cm_state to, enum weft_reason reason);
void cm_id_tell(struct ib_cm *cm, struct cm_id *c, enum ib_cm_event_kind kind);

/* Withdraws an event: the owner went on without it. */
void cm_id_untell(struct cm_id *c, enum ib_cm_event_kind kind);

/* Moves to IB_CM_IDLE; the slot is freed when the owner has taken all events. */
void cm_id_release(struct ib_cm *cm, struct cm_id *c);

/* Discards its events, also later ones. */
void cm_id_forget(struct ib_cm *cm, struct cm_id *c);

/* Moves to time wait, and raises the final event unless that was raised. */
void cm_id_end(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c, enum weft_reason reason);

/* Passive: the peer is ready. Ends other cm_ids that claim to be connected to its QP. */
void cm_id_establish(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c);

/* Cancels messages that wait to be sent. */
void cm_id_hush(struct cm_id *c);

bool cm_id_was_established(const struct cm_id *c);
bool cm_id_is_half_open(const struct cm_id *c);

/* ---- ib_cm_host.c: peers by address --------------------------------------------------------- */

struct host *host_find(struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer); /* or NULL */
uint32_t host_get(struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer);
void host_put(struct ib_cm *cm, const struct cm_id *c);

/* Whether a peer with that CA GUID has proven the host's address. NULL: no. */
bool host_is_proved(const struct host *h, uint64_t guid);
/* The peer has proven it: a message with our id came. */
void cm_id_prove(struct ib_cm *cm, struct cm_id *c);

void cm_id_count_half_open(struct ib_cm *cm, struct cm_id *c, int by);

/* Makes room for one more, if necessary by ending one of an unproven peer that did not answer. */
enum weft_reason half_open_room(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *back,
				bool is_unproven);

void resend_budget_refill(struct ib_cm *cm, uint64_t now_ns);
/* A message of the peer came. */
void cm_id_credit(struct cm_id *c);
/* Whether a message may be sent: an unproven peer must have so much credit, which it uses. */
bool cm_id_may_say(struct ib_cm *cm, struct cm_id *c, uint32_t least_credit);

/* ---- ib_cm_time.c --------------------------------------------------------------------------- */

void cm_id_wait(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c, uint64_t wait_ns);
/* Waits for an answer; then the message is sent again. */
void cm_id_wait_answer(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c);
void cm_id_wait_owner(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c);

/* ---- ib_cm_say.c: messages ------------------------------------------------------------------ */

/* Fills in the ids, keeps the message for retransmission, and sends it. */
void cm_id_say(struct ib_cm *cm, struct cm_id *c, struct ibcm_msg *m);
void cm_id_say_again(struct ib_cm *cm, struct cm_id *c);
void cm_id_say_mra(struct ib_cm *cm, struct cm_id *c);
void cm_id_say_reject(struct ib_cm *cm, struct cm_id *c, const struct ib_cm_reject *r);
/* Keeps a REJ, to be sent when the peer sends again. */
void cm_id_keep_reject(struct ib_cm *cm, struct cm_id *c, const struct ib_cm_reject *r);
void cm_id_say_dreq(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c, struct ibcm_bytes private);
void cm_id_say_drep(struct ib_cm *cm, struct cm_id *c, struct ibcm_bytes private);
void cm_id_say_sidr(struct ib_cm *cm, struct cm_id *c, const struct ib_cm_answer *a);

/* Answers a message that belongs to no cm_id. */
void stray_reject(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *about,
		  uint16_t code);
void stray_drep(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *dreq);
void stray_apr(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *lap,
	       uint8_t status);
void stray_sidr(struct ib_cm *cm, const struct ibcm_ip *ip, const struct ibcm_msg *request,
		uint8_t status);
/* A DREQ that names no QP: a peer that has the connection ignores it, any other answers. */
void stray_challenge(struct ib_cm *cm, const struct cm_id *c);

/* The private data of a request: the RDMA CM header, if any, and the consumer's data. */
struct ibcm_bytes request_data(const struct cm_id *c, struct ibcm_bytes private, uint8_t *room);
void gid_of(const struct ibcm_ip *ip, const struct inet_end *end, uint8_t gid[IBCM_GID_BYTES]);

/* ---- ib_cm_request.c: what begins a cm_id -------------------------------------------- */

enum weft_reason recv_req(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			  const struct ibcm_msg *m);
enum weft_reason recv_sidr_req(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			       const struct ibcm_msg *m);

/*
 * A proven peer connects its QP: ends all other cm_ids that claim to be connected to it, except
 * `but`. True: one of them was established.
 */
bool stale_clear(struct ib_cm *cm, uint64_t now_ns, const struct cm_id *but,
		 const struct ibcm_ip *ip, uint32_t qpn);

/* Whether a test if the peer still has the connection is in progress. */
bool challenge_is_open(const struct cm_id *c, uint64_t now_ns);

bool qpn_is_sound(uint32_t qpn);
