/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of InfiniBand's communication management (IBA 12.6), each one MAD; and the address
 * header with which the RDMA CM begins the private data of a request (IBA annex A11).
 *
 * Decoding checks only the format. The receiver decides what a value means for a connection, and
 * whether to send a REJ.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "wire/inet.h"
#include "wire/mad.h"

enum {
	IBCM_CLASS_VERSION = 2,
	IBCM_INFO_MAX = 72, /* of a REJ, an APR, a SIDR_REP */
	IBCM_GID_BYTES = 16
};

/* By attribute. */
enum ibcm_kind {
	IBCM_REQ = 0x10,
	IBCM_MRA = 0x11,
	IBCM_REJ = 0x12,
	IBCM_REP = 0x13,
	IBCM_RTU = 0x14,
	IBCM_DREQ = 0x15,
	IBCM_DREP = 0x16,
	IBCM_SIDR_REQ = 0x17,
	IBCM_SIDR_REP = 0x18,
	IBCM_LAP = 0x19,
	IBCM_APR = 0x1a
};

/* REQ: the service of the connection. */
enum ibcm_transport {
	IBCM_TRANSPORT_RC,
	IBCM_TRANSPORT_UC,
	IBCM_TRANSPORT_RD,
	IBCM_TRANSPORT_EXTENDED /* see extended_transport: 1 is XRC */
};

/* REJ: the reason. */
enum ibcm_reject {
	IBCM_REJECT_NO_QP = 1,
	IBCM_REJECT_NO_EEC = 2,
	IBCM_REJECT_NO_RESOURCES = 3,
	IBCM_REJECT_TIMEOUT = 4,
	IBCM_REJECT_UNSUPPORTED = 5,
	IBCM_REJECT_COMM_ID = 6,
	IBCM_REJECT_COMM_INSTANCE = 7,
	IBCM_REJECT_SERVICE_ID = 8,
	IBCM_REJECT_TRANSPORT = 9,
	IBCM_REJECT_STALE = 10,
	IBCM_REJECT_NO_RDC = 11,
	IBCM_REJECT_GID = 12,
	IBCM_REJECT_LID = 13,
	IBCM_REJECT_SL = 14,
	IBCM_REJECT_TRAFFIC_CLASS = 15,
	IBCM_REJECT_HOP_LIMIT = 16,
	IBCM_REJECT_PACKET_RATE = 17,
	IBCM_REJECT_ALT_GID = 18,
	IBCM_REJECT_ALT_LID = 19,
	IBCM_REJECT_ALT_SL = 20,
	IBCM_REJECT_ALT_TRAFFIC_CLASS = 21,
	IBCM_REJECT_ALT_HOP_LIMIT = 22,
	IBCM_REJECT_ALT_PACKET_RATE = 23,
	IBCM_REJECT_PORT_CM_REDIRECT = 24,
	IBCM_REJECT_PORT_REDIRECT = 25,
	IBCM_REJECT_MTU = 26,
	IBCM_REJECT_RESPONDER_RESOURCES = 27,
	IBCM_REJECT_CONSUMER = 28,
	IBCM_REJECT_RNR_RETRY = 29,
	IBCM_REJECT_DUPLICATE_COMM_ID = 30,
	IBCM_REJECT_CLASS_VERSION = 31,
	IBCM_REJECT_FLOW_LABEL = 32,
	IBCM_REJECT_ALT_FLOW_LABEL = 33
};

/* MRA and REJ: the message that it answers. OTHER: a LAP; in a REJ no particular message. */
enum ibcm_about { IBCM_ABOUT_REQ, IBCM_ABOUT_REP, IBCM_ABOUT_OTHER };

/* SIDR_REP. */
enum ibcm_sidr_status {
	IBCM_SIDR_OK,
	IBCM_SIDR_UNSUPPORTED,
	IBCM_SIDR_REJECT,
	IBCM_SIDR_NO_QP,
	IBCM_SIDR_REDIRECT,
	IBCM_SIDR_VERSION
};

/* Bytes in the decoded MAD, or to be encoded into one. */
struct ibcm_bytes {
	const uint8_t *bytes;
	uint32_t length;
};

/* From the view of the sender of the message. */
struct ibcm_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[IBCM_GID_BYTES], remote_gid[IBCM_GID_BYTES];
	uint32_t flow_label; /* 20 bits */
	uint8_t packet_rate; /* 6 bits */
	uint8_t traffic_class, hop_limit;
	uint8_t sl; /* 4 bits */
	bool is_subnet_local;
	uint8_t ack_timeout; /* 5 bits */
};

struct ibcm_req {
	uint32_t vendor_id; /* 24 bits, as the numbers of QPs, EE contexts and the PSN */
	uint64_t service_id, ca_guid;
	uint32_t q_key, qpn, eecn, remote_eecn, psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_timeout, local_timeout; /* 5 bits: of CM responses */
	uint8_t transport;		       /* enum ibcm_transport */
	uint8_t extended_transport;	       /* 3 bits */
	bool has_flow_control, has_rdc, has_srq, has_sap;
	uint8_t retry_count, rnr_retry; /* 3 bits */
	uint8_t cm_retries;		/* 4 bits */
	uint16_t p_key;
	uint8_t path_mtu; /* 4 bits, a code: iba_mtu_bytes() */
	struct ibcm_path primary, alternate;
};

struct ibcm_rep {
	uint32_t vendor_id; /* 24 bits, as the next but the Q_Key */
	uint32_t q_key, qpn, eecn, psn;
	uint8_t responder_resources, initiator_depth;
	uint8_t ack_delay; /* 5 bits */
	uint8_t failover;  /* 2 bits: 0 accepted */
	bool has_flow_control, has_srq;
	uint8_t rnr_retry; /* 3 bits */
	uint64_t ca_guid;
};

struct ibcm_rej {
	uint8_t about;	 /* enum ibcm_about */
	uint16_t reason; /* enum ibcm_reject, or another */
};

struct ibcm_mra {
	uint8_t about;	 /* enum ibcm_about */
	uint8_t timeout; /* 5 bits */
};

struct ibcm_sidr_req {
	uint32_t request_id;
	uint16_t p_key;
	uint64_t service_id;
};

struct ibcm_sidr_rep {
	uint32_t request_id;
	uint8_t status; /* enum ibcm_sidr_status, or another */
	uint32_t qpn;
	uint64_t service_id;
	uint32_t q_key;
};

struct ibcm_lap {
	uint32_t remote_qpn;
	uint8_t remote_timeout; /* 5 bits */
	struct ibcm_path alternate;
};

struct ibcm_msg {
	enum ibcm_kind kind;
	uint64_t tid;
	uint32_t local_id;  /* of the sender; not in SIDR */
	uint32_t remote_id; /* not in REQ and SIDR */
	union {
		struct ibcm_req req;
		struct ibcm_rep rep;
		struct ibcm_rej rej;
		struct ibcm_mra mra;
		uint32_t dreq_remote_qpn; /* or EE context */
		struct ibcm_sidr_req sidr_req;
		struct ibcm_sidr_rep sidr_rep;
		struct ibcm_lap lap;
		uint8_t apr_status;
	};
	struct ibcm_bytes info; /* REJ, APR, SIDR_REP: at most IBCM_INFO_MAX */
	/* Decoded: the full field. Encoded: at most that, padded with zeros. */
	struct ibcm_bytes private_data;
};

/*
 * Decodes a complete MAD of class CM. Reserved bits are ignored. On error *m has not changed.
 * WEFT_R_MAD_VERSION: another class version.
 */
enum weft_reason ibcm_decode(struct ibcm_msg *m, const uint8_t *bytes, size_t length);

/* Writes every byte of the MAD; a value wider than its field is cut to the low bits. */
void ibcm_encode(const struct ibcm_msg *m, uint8_t bytes[MAD_BYTES]);

/* The length of the private data of this kind of message. */
uint32_t ibcm_private_max(enum ibcm_kind kind);

/* For people; never NULL. */
const char *ibcm_kind_name(enum ibcm_kind kind);
const char *ibcm_reject_name(uint16_t reason);

/* ---- addresses of the RDMA CM ---- */

enum { IBCM_IP_BYTES = 36 }; /* of the private data, in front of the consumer's */

enum ibcm_port_space {
	IBCM_PS_IPOIB = 0x0002,
	IBCM_PS_TCP = 0x0106,
	IBCM_PS_UDP = 0x0111,
	IBCM_PS_IB = 0x013f
};

enum { IBCM_QKEY_UDP = 0x01234567 }; /* of UD queue pairs in the port space of UDP */

static inline uint64_t ibcm_service_id(enum ibcm_port_space space, uint16_t port)
{
	return (uint64_t)space << 16 | port;
}

/* Whether it is a port of this space; the low 16 bits are the port. */
static inline bool ibcm_is_service(uint64_t service_id, enum ibcm_port_space space)
{
	return service_id >> 16 == (uint64_t)space;
}

struct ibcm_ip {
	bool is_ipv6;
	struct inet_end from, to; /* an IPv4 address is the first four bytes */
};

/* The port of `to` comes from the service id, not from the header. On error *a is unchanged. */
enum weft_reason ibcm_ip_decode(struct ibcm_ip *a, uint64_t service_id, struct ibcm_bytes from);
void ibcm_ip_encode(const struct ibcm_ip *a, uint8_t bytes[IBCM_IP_BYTES]);

/* ---- Private data of weft's own DREQ --------------------------------------------------------- */

/*
 * The private data of a DREQ by weft: whether the sender failed or disconnected in an orderly way;
 * and the fatal NAK that it sent last on the connection, whose own packet may come later or be
 * lost. A DREQ with other or no private data tells nothing.
 */
enum { IBCM_PARTING_BYTES = 12 };

struct ibcm_parting {
	bool is_failed;
	uint8_t nak; /* its syndrome; 0: there was none */
	uint32_t nak_psn;
};

void ibcm_parting_encode(const struct ibcm_parting *p, uint8_t bytes[IBCM_PARTING_BYTES]);

/* All zero if the private data is not weft's. */
void ibcm_parting_decode(struct ibcm_parting *p, const uint8_t *bytes, size_t length);
