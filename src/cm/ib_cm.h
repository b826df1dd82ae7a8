/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * InfiniBand communication management (IBA chapter 12, annex A11), one agent for a port. It holds
 * the cm_ids, which connect and disconnect queue pairs, and resolve datagram services (SIDR). The
 * owner (driver or simulator) moves the datagrams:
 *
 *	ib_cm_recv()   a MAD of class CM has come to the GSI, with its addresses
 *	ib_cm_send()   the next MAD to send; false: nothing now
 *	ib_cm_due(), ib_cm_expire()   the next deadline
 *	ib_cm_event()  events for the owner: pulled, never called back
 *
 *	connect  ------ REQ ----->  REQUESTED      Active and passive side. Capitals at an
 *	                            accept         end are an event for the owner, small
 *	REPLIED  <----- REP ------                 letters a call of the owner.
 *	ready    ------ RTU ----->  ESTABLISHED
 *	disconnect ---- DREQ ---->  DISCONNECTED
 *	                            disconnect
 *	DISCONNECTED <- DREP -----
 *	RELEASED                    RELEASED       each when its time wait is over
 *
 * Here: retransmission, duplicates in every state, MRAs while the owner takes long, stale
 * connections, time wait. Not here: listeners (a request becomes an event, and the owner decides),
 * queue pairs, sockets, alternate paths (a LAP is refused).
 *
 * A cm_id has a number, the communication id on the wire. Its top byte is the agent's slot, by
 * which any process of a host can tell the owner of a message, see ib_cm_where(); the rest cannot
 * be guessed. The number of a cm_id that has ended finds nothing: WEFT_R_CM_UNKNOWN. Every cm_id
 * that the owner knows ends with exactly one of FAILED, DISCONNECTED and RESOLVED, unless the owner
 * ended it by reject(), answer() or forget(): then no event of it follows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/ibcm.h"

struct ib_cm;
struct trace;

/* 4.096 us * 2^code; a code has 5 bits. */
static inline uint64_t ib_cm_code_ns(uint8_t code)
{
	return (uint64_t)4096 << (code & 31);
}

/* ---- The agent ------------------------------------------------------------------------------ */

enum {
	IB_CM_RESPONSE_CODE = 20, /* 4.3 s */
	IB_CM_MRA_CODE = 24,	  /* 69 s */
	IB_CM_RETRIES = 15,
	IB_CM_ACK_CODE = 19, /* 2.1 s */
	IB_CM_CROWD = 3
};

/* 0 selects the default in brackets; the defaults of times and retries are those of Linux. */
struct ib_cm_config {
	uint8_t adapter_slot; /* 1 to 254: the top byte of our communication ids */
	uint64_t key[2];      /* secret and random, to generate ids */
	uint64_t ca_guid;     /* ours, in REQ and REP */
	uint32_t cm_ids_max;  /* [4096] of all kinds, including those in time wait */
	/*
	 * [512] cm_ids that peers began and that are not established yet. One address may have up
	 * to IB_CM_CROWD times as many as are left. At the limit a new request replaces an older
	 * one of an unproven peer that has not answered; see ib_cm_host.c.
	 */
	uint32_t half_open_max;
	uint32_t transports; /* [RC and UC] accepted: 1 << enum ibcm_transport */
	/*
	 * The time for an answer to REQ, REP and DREQ, after which they are sent again. The first
	 * two thirds of the retries come sooner: after first_retry_ns, doubled each time up to
	 * soon_retry_ns. A peer recognizes duplicates, and sends an MRA if it needs time.
	 */
	uint8_t response_code;	 /* [IB_CM_RESPONSE_CODE] */
	uint64_t first_retry_ns; /* [100 ms] */
	uint64_t soon_retry_ns;	 /* [1 s] */
	uint8_t retries;	 /* [IB_CM_RETRIES] of each message, at most 15 */
	uint8_t mra_code;	 /* [IB_CM_MRA_CODE] the time that an MRA of ours asks for */
	struct trace *trace;	 /* of every change of state; may be NULL */
};

/* NULL: out of memory. */
struct ib_cm *ib_cm_create(const struct ib_cm_config *config);

/* At any time; peers are not told. */
void ib_cm_destroy(struct ib_cm *cm);

/*
 * A MAD has come: ip->from is the peer's address, ip->to ours; the ports are ignored. WEFT_OK, or
 * why it was dropped or refused. A message of a known cm_id counts only if it comes from the
 * address of the cm_id's peer.
 */
enum weft_reason ib_cm_recv(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			    const uint8_t *bytes, size_t length);

/* To be sent from QP 1 to QP 1 with the Q_Key of the GSI. */
struct ib_cm_out {
	uint8_t bytes[MAD_BYTES];
	struct ibcm_ip ip; /* from us; the ports are 0 */
	enum ibcm_kind kind;
	uint32_t id;			  /* the cm_id; 0: an answer to a message without a cm_id */
	uint32_t attempt;		  /* how often this message was sent before */
	uint8_t traffic_class, hop_limit; /* hop_limit 0: the system's default */
};

bool ib_cm_send(struct ib_cm *cm, uint64_t now_ns, struct ib_cm_out *out);
bool ib_cm_has_output(const struct ib_cm *cm);

/* UINT64_MAX: no deadline. */
uint64_t ib_cm_due(const struct ib_cm *cm);
void ib_cm_expire(struct ib_cm *cm, uint64_t now_ns);

/* ---- The parameters of an end --------------------------------------------------------------- */

/*
 * From the view of the end that it describes: in a call ours, in an event the peer's. reads_in:
 * Reads and atomics of the other end that it serves at a time (responder resources). reads_out: its
 * own that it wants in flight (initiator depth).
 */
struct ib_cm_end {
	uint32_t qpn;
	uint32_t psn; /* of the first packet that the other end sends to it (IBA 12.7.31) */
	uint32_t q_key;
	uint8_t reads_in, reads_out;
	uint8_t retries;     /* REQ only: for the other end to use, 0 to 7 */
	uint8_t rnr_retries; /* for the other end to use; 7 means for ever */
	uint8_t ack_delay;   /* REP only: a code */
	bool has_srq, has_flow_control;
};

enum {
	IB_CM_REQ_DATA = 92 - IBCM_IP_BYTES,	   /* 92 without the header of the RDMA CM */
	IB_CM_SIDR_REQ_DATA = 216 - IBCM_IP_BYTES, /* 216 without the header */
	IB_CM_DATA_MAX = 224
};

/* ---- Events --------------------------------------------------------------------------------- */

enum ib_cm_event_kind {
	IB_CM_REQUESTED = 1,  /* passive: a REQ; accept(), reject() or delay() */
	IB_CM_REPLIED,	      /* active: a REP; ready() or reject() */
	IB_CM_ESTABLISHED,    /* passive: by RTU, by established(), or by a DREQ */
	IB_CM_SIDR_REQUESTED, /* passive: answer() */
	IB_CM_RESOLVED,	      /* active, final: a SIDR_REP with a status */
	IB_CM_FAILED,	      /* final: never established; reason, and reject after a REJ */
	IB_CM_DISCONNECTED,   /* final: was established. A DREQ waits for our disconnect() */
	IB_CM_RELEASED	      /* after FAILED or DISCONNECTED: the queue pair's number is free */
};

struct ib_cm_event {
	enum ib_cm_event_kind kind;
	uint32_t id;
	uint32_t peer_id;    /* REQUESTED, REPLIED: the peer's communication id */
	void *owner;	     /* as given to connect(), accept(), resolve() */
	uint64_t service_id; /* of the cm_id */
	struct ibcm_ip ip;   /* from us to the peer; ports of the RDMA CM header, if there is one */
	bool has_ip_header;  /* there was one */
	bool is_unproven;    /* REQUESTED: address and CA of the peer are not proven yet */
	struct ib_cm_end peer; /* REQUESTED, REPLIED; RESOLVED: only qpn and q_key */

	/* REQUESTED: other fields of the REQ; SIDR_REQUESTED has the P_Key. */
	uint8_t transport; /* enum ibcm_transport */
	uint16_t p_key;
	uint32_t mtu_bytes;
	uint8_t ack_code; /* the ACK timeout that the peer proposes for its QP */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
	uint64_t ca_guid; /* REPLIED too */

	uint8_t status; /* RESOLVED: enum ibcm_sidr_status, or another value */

	/* FAILED, DISCONNECTED. WEFT_R_PEER_GONE: the peer disconnected in an orderly way. */
	enum weft_reason reason;
	uint16_t reject;      /* the code of the peer's REJ; 0: there was none */
	uint8_t reject_about; /* enum ibcm_about */
	bool is_by_peer;      /* DISCONNECTED: the peer's DREQ came first */

	/*
	 * The consumer's private data in the event's message: the full field, as the wire does not
	 * tell how much of it is used. 0 bytes: there was no message.
	 */
	uint32_t private_bytes;
	uint8_t private_data[IB_CM_DATA_MAX];
	uint32_t info_bytes; /* a REJ's or SIDR_REP's additional information */
	uint8_t info[IBCM_INFO_MAX];
};

/* Takes the next event. False: there is none. */
bool ib_cm_event(struct ib_cm *cm, struct ib_cm_event *event);

/* ---- Active side ---------------------------------------------------------------------------- */

struct ib_cm_connect {
	/*
	 * From us to the peer, for MADs and for the queue pairs' packets. The ports are those of
	 * the RDMA CM: from.port goes into its header, to.port is in the service id.
	 */
	struct ibcm_ip ip;
	uint64_t service_id; /* ibcm_service_id() */
	bool is_plain;	     /* no header of the RDMA CM */
	uint8_t transport;   /* enum ibcm_transport; not RD */
	struct ib_cm_end end;
	uint16_t p_key;			  /* 0: the default P_Key */
	uint32_t mtu_bytes;		  /* 256 to 4096 */
	uint8_t ack_code;		  /* 0: IB_CM_ACK_CODE; also determines the time wait */
	uint8_t traffic_class, hop_limit; /* hop_limit 0: 64 */
	uint32_t flow_label;
	uint64_t timeout_ns; /* until REPLIED, whatever MRAs the peer sends; 0: none */
	struct ibcm_bytes private_data;
	void *owner;
};

/* Sends a REQ. WEFT_R_PRIVATE_DATA, WEFT_R_LIMIT, WEFT_R_BAD_ARGUMENT. */
enum weft_reason ib_cm_connect(struct ib_cm *cm, uint64_t now_ns, const struct ib_cm_connect *c,
			       uint32_t *id);

/* After REPLIED: our queue pair is ready. Sends the RTU, and the connection is established. */
enum weft_reason ib_cm_ready(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			     struct ibcm_bytes private_data);

/* ---- Passive side --------------------------------------------------------------------------- */

struct ib_cm_accept {
	struct ib_cm_end end; /* reads_out is limited to what the peer serves */
	struct ibcm_bytes private_data;
	void *owner;
};

/* Sets the owner in the events of a request, before it is accepted. */
void ib_cm_own(struct ib_cm *cm, uint32_t id, void *owner);

/*
 * After REQUESTED, at any later time: the agent sends an MRA by itself if the owner, here or after
 * REPLIED, has not answered within half of the time that the peer grants. Sends a REP. Our queue
 * pair must be able to receive.
 */
enum weft_reason ib_cm_accept(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_accept *a);

struct ib_cm_reject {
	uint16_t code; /* enum ibcm_reject; IBCM_REJECT_CONSUMER: the program rejects */
	struct ibcm_bytes info, private_data;
};

/* After REQUESTED or REPLIED. Sends a REJ; no event follows. */
enum weft_reason ib_cm_reject(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_reject *r);

/* The first packet has come on the queue pair: counts as an RTU. Else has no effect. */
enum weft_reason ib_cm_established(struct ib_cm *cm, uint64_t now_ns, uint32_t id);

/* ---- The end -------------------------------------------------------------------------------- */

/*
 * After ready() or accept(): sends a DREQ until it is answered; DISCONNECTED follows. After
 * DISCONNECTED by the peer: sends the DREP, which the agent otherwise sends a little later; only
 * RELEASED follows. WEFT_R_CM_STATE: the cm_id is not connected yet, or has ended.
 */
enum weft_reason ib_cm_disconnect(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
				  struct ibcm_bytes private_data);

/*
 * The owner drops the cm_id, in any state: tells the peer (REJ or DREQ) if it does not know, and no
 * event of this cm_id follows. An unknown id is no error.
 */
void ib_cm_forget(struct ib_cm *cm, uint64_t now_ns, uint32_t id);

/*
 * The owner knows that the peer's process has ended: FAILED or DISCONNECTED follows, and nothing is
 * sent. No effect on a cm_id that has ended or is ending.
 */
void ib_cm_lost(struct ib_cm *cm, uint64_t now_ns, uint32_t id);

/* ---- Datagram services (SIDR) --------------------------------------------------------------- */

struct ib_cm_resolve {
	struct ibcm_ip ip; /* as in struct ib_cm_connect */
	uint64_t service_id;
	bool is_plain;
	uint16_t p_key; /* 0: the default P_Key */
	uint8_t traffic_class, hop_limit;
	uint64_t timeout_ns; /* 0: until all retries are used up */
	struct ibcm_bytes private_data;
	void *owner;
};

/* Sends a SIDR_REQ; RESOLVED or FAILED follows, which ends the cm_id. */
enum weft_reason ib_cm_resolve(struct ib_cm *cm, uint64_t now_ns, const struct ib_cm_resolve *r,
			       uint32_t *id);

struct ib_cm_answer {
	uint8_t status; /* enum ibcm_sidr_status */
	uint32_t qpn, q_key;
	struct ibcm_bytes info, private_data;
};

/* After SIDR_REQUESTED. Sends the SIDR_REP; no event follows. */
enum weft_reason ib_cm_answer(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_answer *a);

/* ---- Queries -------------------------------------------------------------------------------- */

enum ib_cm_state {
	IB_CM_IDLE,
	IB_CM_REQ_SENT,
	IB_CM_MRA_REQ_RCVD, /* active: the peer needs more time for its REP */
	IB_CM_REP_RCVD,	    /* active: the owner decides */
	IB_CM_MRA_REP_SENT, /* the same, after an MRA to the peer */
	IB_CM_REQ_RCVD,	    /* passive: the owner decides */
	IB_CM_MRA_REQ_SENT, /* the same, after an MRA to the peer */
	IB_CM_REP_SENT,
	IB_CM_MRA_REP_RCVD, /* passive: the peer needs more time for its RTU */
	IB_CM_CONNECTED,    /* IBA: Established */
	IB_CM_DREQ_SENT,
	IB_CM_DREQ_RCVD, /* the owner is to answer */
	IB_CM_SIDR_SENT,
	IB_CM_SIDR_RCVD, /* passive: the owner is to answer */
	IB_CM_TIMEWAIT,	 /* ended; only duplicates are answered */
	IB_CM_STATE_COUNT
};

/* IB_CM_IDLE: there is no such cm_id. */
enum ib_cm_state ib_cm_state(const struct ib_cm *cm, uint32_t id);
const char *ib_cm_state_name(enum ib_cm_state state); /* never NULL */

struct ib_cm_counts {
	uint32_t cm_ids, half_open, timewait; /* now */
	uint64_t mads_in, mads_out;
	uint64_t again;		      /* of mads_out: retransmissions */
	uint64_t duplicates;	      /* of mads_in */
	uint64_t dropped;	      /* of mads_in: refused or malformed */
	enum weft_reason dropped_for; /* the latest */
	uint64_t rejects_in, rejects_out;
	uint64_t full;	     /* requests dropped for lack of room; the peer repeats them */
	uint64_t crowded;    /* of these: because of others from the same address */
	uint64_t displaced;  /* cm_ids of unproven, silent peers, ended to make room */
	uint64_t challenges; /* DREQs that test whether a peer still has its connection */
};

const struct ib_cm_counts *ib_cm_counts(const struct ib_cm *cm);

/*
 * The destination of a MAD of class CM, on a host with several agents: a request goes to the agent
 * that listens to its service id, any other message to the slot. False: no agent would accept it.
 */
struct ib_cm_where {
	enum ibcm_kind kind;
	bool is_request;      /* REQ, SIDR_REQ: by service_id */
	uint64_t service_id;  /* if is_request */
	uint8_t adapter_slot; /* else. 0: for every agent of the host (REJ) */
};

bool ib_cm_where(const uint8_t *bytes, size_t length, struct ib_cm_where *where);
