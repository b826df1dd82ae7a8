/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * InfiniBand's communication management (IBA chapter 12, annex A11), one agent for a port: it holds
 * the cm_ids by which connected queue pairs find each other and part again, and by which a
 * datagram service is found (SIDR). The owner (driver or simulator) moves the datagrams:
 *
 *	ib_cm_recv()   a MAD of class CM has come to the GSI, with the addresses it came by
 *	ib_cm_send()   the next one to send; false: nothing now
 *	ib_cm_due(), ib_cm_expire()   the next deadline
 *	ib_cm_event()  what the owner must know: pulled, never called back
 *
 *	connect  ------ REQ ----->  REQUESTED      Active and passive side. A message in
 *	                            accept         capitals is an event of the owner, one in
 *	REPLIED  <----- REP ------                 small letters its call.
 *	ready    ------ RTU ----->  ESTABLISHED
 *	disconnect ---- DREQ ---->  DISCONNECTED
 *	                            disconnect
 *	DISCONNECTED <- DREP -----
 *	RELEASED                    RELEASED       each when its time wait is over
 *
 * Here are: what is sent again and when, duplicates in every state, MRA in time for an owner that
 * takes long, stale connections, time wait. Not here: who listens to what (a request becomes an
 * event and the owner decides), queue pairs, sockets, other paths (a LAP is refused).
 *
 * A cm_id has a number, the communication id on the wire; its top byte is the agent's place
 * (any process of a host can tell whose a message is, see ib_cm_where()), the rest is not to be
 * guessed. A number whose cm_id is gone finds nothing: WEFT_R_CM_UNKNOWN. Every
 * cm_id that the owner knows of ends in exactly one of FAILED, DISCONNECTED and RESOLVED,
 * unless the owner ended it by reject(), answer() or forget(), after which it hears no more of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/ibcm.h"

struct ib_cm;
struct trace;

/* 4.096 us * 2^code, of the 5 bits that a code has. */
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

/* What is 0 has the default in brackets; those of times and retries are Linux's. */
struct ib_cm_config {
	uint8_t adapter_slot; /* 1 to 254: the top byte of our communication ids */
	uint64_t key[2];      /* secret and random: ids come from it */
	uint64_t ca_guid;     /* ours, in REQ and REP */
	uint32_t cm_ids_max;  /* [4096] of all kinds, with those in time wait */
	/*
	 * [512] that peers began and that are not established yet. Of one address there may be up
	 * to IB_CM_CROWD times as many as are left. When that is reached, a request of a peer that
	 * has not answered takes the place of an older one; see ib_cm_host.c.
	 */
	uint32_t half_open_max;
	uint32_t transports; /* [RC and UC] taken: 1 << enum ibcm_transport */
	/*
	 * How long an answer to REQ, REP, DREQ may take, and so the time after which they are sent
	 * again. The first two thirds of the times are shorter: first_retry_ns, doubled each time
	 * until they are soon_retry_ns. A peer takes what comes again for what it is, and one that
	 * is not ready says MRA.
	 */
	uint8_t response_code;	 /* [IB_CM_RESPONSE_CODE] */
	uint64_t first_retry_ns; /* [100 ms] */
	uint64_t soon_retry_ns;	 /* [1 s] */
	uint8_t retries;	 /* [IB_CM_RETRIES] of each message, at most 15 */
	uint8_t mra_code;	 /* [IB_CM_MRA_CODE] the time that an MRA of ours asks for */
	struct trace *trace;	 /* of every move; may be NULL */
};

/* NULL when memory is short. */
struct ib_cm *ib_cm_create(const struct ib_cm_config *config);

/* At any time; nothing is said to any peer. */
void ib_cm_destroy(struct ib_cm *cm);

/*
 * A MAD that came: ip->from is the peer's address, ip->to that of ours it was sent to; the ports
 * are not looked at. WEFT_OK, or why it was dropped or refused. A message of a known cm_id
 * counts only if it comes from the address that the cm_id is with.
 */
enum weft_reason ib_cm_recv(struct ib_cm *cm, uint64_t now_ns, const struct ibcm_ip *ip,
			    const uint8_t *bytes, size_t length);

/* To be sent from QP 1 to QP 1 with the Q_Key of the GSI. */
struct ib_cm_out {
	uint8_t bytes[MAD_BYTES];
	struct ibcm_ip ip; /* from us; the ports are 0 */
	enum ibcm_kind kind;
	uint32_t id;	  /* the cm_id; 0: an answer to what belongs to none */
	uint32_t attempt; /* 0; 1 and more: this message was sent before, so often */
	uint8_t traffic_class, hop_limit; /* hop_limit 0: the system's */
};

bool ib_cm_send(struct ib_cm *cm, uint64_t now_ns, struct ib_cm_out *out);
bool ib_cm_has_output(const struct ib_cm *cm);

/* UINT64_MAX: no deadline. */
uint64_t ib_cm_due(const struct ib_cm *cm);
void ib_cm_expire(struct ib_cm *cm, uint64_t now_ns);

/* ---- What an end brings --------------------------------------------------------------------- */

/*
 * As its own end sees it: in a call what is ours, in an event what is the peer's. reads_in are
 * the Reads and atomics of the other side that it serves at a time (responder resources),
 * reads_out those of its own that it wants in flight (initiator depth).
 */
struct ib_cm_end {
	uint32_t qpn;
	uint32_t psn; /* of the first packet that the other end sends to it (IBA 12.7.31) */
	uint32_t q_key;
	uint8_t reads_in, reads_out;
	uint8_t retries;     /* REQ only: those the other end is to use, 0 to 7 */
	uint8_t rnr_retries; /* the same, 7 is for ever */
	uint8_t ack_delay;   /* REP only: a code */
	bool has_srq, has_flow_control;
};

enum {
	IB_CM_REQ_DATA = 92 - IBCM_IP_BYTES, /* 92 without the header of the RDMA CM */
	IB_CM_REP_DATA = 196,
	IB_CM_RTU_DATA = 224,
	IB_CM_REJ_DATA = 148,
	IB_CM_DREQ_DATA = 220,
	IB_CM_DREP_DATA = 224,
	IB_CM_SIDR_REQ_DATA = 216 - IBCM_IP_BYTES, /* 216 without the header */
	IB_CM_SIDR_REP_DATA = 136,
	IB_CM_DATA_MAX = 224
};

/* ---- Events --------------------------------------------------------------------------------- */

enum ib_cm_event_kind {
	IB_CM_REQUESTED = 1,  /* passive: a REQ; accept(), reject() or delay() */
	IB_CM_REPLIED,	      /* active: a REP; ready() or reject() */
	IB_CM_ESTABLISHED,    /* passive: by RTU, by established(), or by a DREQ */
	IB_CM_SIDR_REQUESTED, /* passive: answer() */
	IB_CM_RESOLVED,	      /* active, final: a SIDR_REP; status says which */
	IB_CM_FAILED,	      /* final: it was never established; reason, and reject if by a REJ */
	IB_CM_DISCONNECTED,   /* final: it was. The peer's DREQ waits for our disconnect() */
	IB_CM_RELEASED	      /* after FAILED or DISCONNECTED: the queue pair's number is free */
};

struct ib_cm_event {
	enum ib_cm_event_kind kind;
	uint32_t id;
	uint32_t peer_id;      /* of REQUESTED, REPLIED: the other end's id */
	void *owner;	       /* as connect(), accept(), resolve() gave it */
	uint64_t service_id;   /* of the cm_id */
	struct ibcm_ip ip;     /* from us to the peer; with a header of the RDMA CM, its ports */
	bool has_ip_header;    /* there was one */
	bool is_unproven;      /* REQUESTED: by an address and CA that have proved nothing yet */
	struct ib_cm_end peer; /* REQUESTED, REPLIED; of RESOLVED its qpn and q_key */

	/* REQUESTED: what else the REQ says; SIDR_REQUESTED has the P_Key. */
	uint8_t transport; /* enum ibcm_transport */
	uint16_t p_key;
	uint32_t mtu_bytes;
	uint8_t ack_code; /* the ACK timeout that the other end proposes for its QP */
	uint8_t traffic_class, hop_limit;
	uint32_t flow_label;
	uint64_t ca_guid; /* REPLIED too */

	uint8_t status; /* RESOLVED: enum ibcm_sidr_status, or another */

	/* FAILED, DISCONNECTED. WEFT_R_PEER_GONE: the peer parted in good order. */
	enum weft_reason reason;
	uint16_t reject;      /* the code of the peer's REJ; 0: there was none */
	uint8_t reject_about; /* enum ibcm_about */
	bool is_by_peer;      /* DISCONNECTED: its DREQ was first */

	/*
	 * Of the message that the event is about: the consumer's part, all there is room for (how
	 * much of it was meant is not on the wire). 0 bytes: there was no message.
	 */
	uint32_t private_bytes;
	uint8_t private_data[IB_CM_DATA_MAX];
	uint32_t info_bytes; /* a REJ's or SIDR_REP's additional information */
	uint8_t info[IBCM_INFO_MAX];
};

/* False: there is none. */
bool ib_cm_event(struct ib_cm *cm, struct ib_cm_event *event);

/* ---- Active side ---------------------------------------------------------------------------- */

struct ib_cm_connect {
	/*
	 * From us to the peer: where the MADs go and where the queue pairs' packets will. The ports
	 * are the RDMA CM's: from.port goes into its header, to.port is in the service id.
	 */
	struct ibcm_ip ip;
	uint64_t service_id; /* ibcm_service_id() */
	bool is_plain;	     /* no header of the RDMA CM */
	uint8_t transport;   /* enum ibcm_transport; not RD */
	struct ib_cm_end end;
	uint16_t p_key;			  /* 0: the default one */
	uint32_t mtu_bytes;		  /* 256 to 4096 */
	uint8_t ack_code;		  /* 0: IB_CM_ACK_CODE; also how long the time wait is */
	uint8_t traffic_class, hop_limit; /* hop_limit 0: 64 */
	uint32_t flow_label;
	uint64_t timeout_ns; /* until it is REPLIED, however often the peer says MRA; 0: none */
	struct ibcm_bytes private_data;
	void *owner;
};

/* Sends a REQ. WEFT_R_PRIVATE_DATA, WEFT_R_LIMIT, WEFT_R_BAD_ARGUMENT. */
enum weft_reason ib_cm_connect(struct ib_cm *cm, uint64_t now_ns, const struct ib_cm_connect *c,
			       uint32_t *id);

/* After REPLIED: our queue pair takes packets. Sends the RTU, and the connection is established. */
enum weft_reason ib_cm_ready(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			     struct ibcm_bytes private_data);

/* ---- Passive side --------------------------------------------------------------------------- */

struct ib_cm_accept {
	struct ib_cm_end end; /* reads_out is cut to what the peer serves */
	struct ibcm_bytes private_data;
	void *owner;
};

/* Whose a request is, in the events that follow, before it is accepted. */
void ib_cm_own(struct ib_cm *cm, uint32_t id, void *owner);

/* After REQUESTED, however long after. Sends a REP. Our queue pair takes packets already. */
enum weft_reason ib_cm_accept(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_accept *a);

struct ib_cm_reject {
	uint16_t code; /* enum ibcm_reject; IBCM_REJECT_CONSUMER is a program's no */
	struct ibcm_bytes info, private_data;
};

/* After REQUESTED or REPLIED. Sends a REJ; no event follows. */
enum weft_reason ib_cm_reject(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
			      const struct ib_cm_reject *r);

/*
 * After REQUESTED or REPLIED: tells the peer by an MRA that this takes a while. It is said without
 * being asked when the owner has not answered in half of the time that the peer gives.
 */
enum weft_reason ib_cm_delay(struct ib_cm *cm, uint64_t now_ns, uint32_t id);

/* The first packet has come on the queue pair: as good as an RTU. Else without meaning. */
enum weft_reason ib_cm_established(struct ib_cm *cm, uint64_t now_ns, uint32_t id);

/* ---- The end -------------------------------------------------------------------------------- */

/*
 * After ready() or accept(): sends a DREQ until it is answered; DISCONNECTED follows. After
 * DISCONNECTED by the peer: sends the DREP, which otherwise goes by itself a little later; nothing
 * follows but RELEASED. WEFT_R_CM_STATE when the cm_id is not so far, or has ended.
 */
enum weft_reason ib_cm_disconnect(struct ib_cm *cm, uint64_t now_ns, uint32_t id,
				  struct ibcm_bytes private_data);

/*
 * The owner is no longer there, whatever the state: the peer is told (REJ or DREQ) if it does not
 * know, and no event of this cm_id follows. An unknown id is no error.
 */
void ib_cm_forget(struct ib_cm *cm, uint64_t now_ns, uint32_t id);

/*
 * The owner knows that nobody is at the other end any more: FAILED or DISCONNECTED follows, and
 * nothing is said. Nothing happens to a cm_id that has ended, or is just ending.
 */
void ib_cm_lost(struct ib_cm *cm, uint64_t now_ns, uint32_t id);

/* ---- Datagram services (SIDR) --------------------------------------------------------------- */

struct ib_cm_resolve {
	struct ibcm_ip ip; /* as of connect */
	uint64_t service_id;
	bool is_plain;
	uint16_t p_key; /* 0: the default one */
	uint8_t traffic_class, hop_limit;
	uint64_t timeout_ns; /* 0: when all retries are over */
	struct ibcm_bytes private_data;
	void *owner;
};

/* Sends a SIDR_REQ; RESOLVED or FAILED follows, and the cm_id is gone with it. */
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

/* ---- Questions ------------------------------------------------------------------------------ */

enum ib_cm_state {
	IB_CM_IDLE,
	IB_CM_REQ_SENT,
	IB_CM_MRA_REQ_RCVD, /* active: the peer wants more time for its REP */
	IB_CM_REP_RCVD,	    /* active: the owner has it */
	IB_CM_MRA_REP_SENT, /* the same, and the peer was told that it takes a while */
	IB_CM_REQ_RCVD,	    /* passive: the owner has it */
	IB_CM_MRA_REQ_SENT, /* the same, and the peer was told that it takes a while */
	IB_CM_REP_SENT,
	IB_CM_MRA_REP_RCVD, /* passive: the peer wants more time for its RTU */
	IB_CM_CONNECTED,    /* IBA: Established */
	IB_CM_DREQ_SENT,
	IB_CM_DREQ_RCVD, /* the owner has it */
	IB_CM_SIDR_SENT,
	IB_CM_SIDR_RCVD, /* passive: the owner has it */
	IB_CM_TIMEWAIT,	 /* over; only duplicates are answered */
	IB_CM_STATE_COUNT
};

/* IB_CM_IDLE: there is no such cm_id. */
enum ib_cm_state ib_cm_state(const struct ib_cm *cm, uint32_t id);
const char *ib_cm_state_name(enum ib_cm_state state); /* never NULL */

struct ib_cm_counts {
	uint32_t conversations, half_open, timewait; /* now */
	uint64_t mads_in, mads_out;
	uint64_t again;		      /* of mads_out: sent before */
	uint64_t duplicates;	      /* of mads_in */
	uint64_t dropped;	      /* of mads_in: refused or not understood */
	enum weft_reason dropped_for; /* the latest */
	uint64_t rejects_in, rejects_out;
	uint64_t full;	     /* requests that found no room and were left to be sent again */
	uint64_t crowded;    /* of these: because of others from the same address */
	uint64_t displaced;  /* unproven peers that did not answer, ended to make room */
	uint64_t challenges; /* questions whether a peer still knows of its connection */
};

const struct ib_cm_counts *ib_cm_counts(const struct ib_cm *cm);

/*
 * Whose a MAD of class CM is, on a host of several agents: a request goes to who listens to its
 * service id, all others to the place. False: it is no message that any agent would take.
 */
struct ib_cm_where {
	enum ibcm_kind kind;
	bool is_request;      /* REQ, SIDR_REQ: by service_id */
	uint64_t service_id;  /* with is_request */
	uint8_t adapter_slot; /* else. 0: for every agent of the host, a REJ by a stranger */
};

bool ib_cm_where(const uint8_t *bytes, size_t length, struct ib_cm_where *where);
