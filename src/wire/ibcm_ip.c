/* SPDX-License-Identifier: BSD-2-Clause */
/* The address header of the RDMA CM, and names for people. */
#include "wire/ibcm.h"

#include <string.h>

#include "base/cursor.h"

/* An address takes 16 bytes; an IPv4 one is the last four of them. */
enum { VERSION = 0, ADDRESS_BYTES = 16, IPV4_BYTES = 4 };

static void address_decode(struct inet_end *e, bool is_ipv6, struct rd *r)
{
	uint8_t bytes[ADDRESS_BYTES];

	rd_bytes(r, bytes, sizeof(bytes));
	memset(e->address, 0, sizeof(e->address));
	if (is_ipv6)
		memcpy(e->address, bytes, sizeof(bytes));
	else
		memcpy(e->address, bytes + ADDRESS_BYTES - IPV4_BYTES, IPV4_BYTES);
}

static void address_encode(const struct inet_end *e, bool is_ipv6, struct wr *w)
{
	uint8_t bytes[ADDRESS_BYTES] = { 0 };

	if (is_ipv6)
		memcpy(bytes, e->address, sizeof(bytes));
	else
		memcpy(bytes + ADDRESS_BYTES - IPV4_BYTES, e->address, IPV4_BYTES);
	wr_bytes(w, bytes, sizeof(bytes));
}

enum weft_reason ibcm_ip_decode(struct ibcm_ip *a, uint64_t service_id, struct ibcm_bytes from)
{
	struct rd r = rd_of(from.bytes, from.length);
	uint8_t version = rd_u8(&r), ip_version = rd_u8(&r) >> 4;

	if (from.length < IBCM_IP_BYTES || version != VERSION)
		return WEFT_R_CM_ADDRESS;
	if (ip_version != 4 && ip_version != 6)
		return WEFT_R_CM_ADDRESS;
	a->is_ipv6 = ip_version == 6;
	a->from.port = rd_u16(&r);
	a->to.port = (uint16_t)service_id;
	address_decode(&a->from, a->is_ipv6, &r);
	address_decode(&a->to, a->is_ipv6, &r);
	return WEFT_OK;
}

void ibcm_ip_encode(const struct ibcm_ip *a, uint8_t bytes[IBCM_IP_BYTES])
{
	struct wr w = wr_of(bytes, IBCM_IP_BYTES);

	wr_u8(&w, VERSION);
	wr_u8(&w, a->is_ipv6 ? 0x60 : 0x40);
	wr_u16(&w, a->from.port);
	address_encode(&a->from, a->is_ipv6, &w);
	address_encode(&a->to, a->is_ipv6, &w);
}

const char *ibcm_kind_name(enum ibcm_kind kind)
{
	static const char *const names[] = {
		[IBCM_REQ] = "REQ",   [IBCM_MRA] = "MRA",	    [IBCM_REJ] = "REJ",
		[IBCM_REP] = "REP",   [IBCM_RTU] = "RTU",	    [IBCM_DREQ] = "DREQ",
		[IBCM_DREP] = "DREP", [IBCM_SIDR_REQ] = "SIDR_REQ", [IBCM_SIDR_REP] = "SIDR_REP",
		[IBCM_LAP] = "LAP",   [IBCM_APR] = "APR",
	};

	if (kind < IBCM_REQ || kind > IBCM_APR)
		return "unknown";
	return names[kind];
}

const char *ibcm_reject_name(uint16_t reason)
{
	static const char *const names[] = {
		[IBCM_REJECT_NO_QP] = "no QP available",
		[IBCM_REJECT_NO_EEC] = "no EE context available",
		[IBCM_REJECT_NO_RESOURCES] = "no resources available",
		[IBCM_REJECT_TIMEOUT] = "timeout",
		[IBCM_REJECT_UNSUPPORTED] = "unsupported request",
		[IBCM_REJECT_COMM_ID] = "invalid communication id",
		[IBCM_REJECT_COMM_INSTANCE] = "invalid communication instance",
		[IBCM_REJECT_SERVICE_ID] = "invalid service id",
		[IBCM_REJECT_TRANSPORT] = "invalid transport service type",
		[IBCM_REJECT_STALE] = "stale connection",
		[IBCM_REJECT_NO_RDC] = "RDC does not exist",
		[IBCM_REJECT_GID] = "primary remote GID rejected",
		[IBCM_REJECT_LID] = "primary remote LID rejected",
		[IBCM_REJECT_SL] = "invalid primary SL",
		[IBCM_REJECT_TRAFFIC_CLASS] = "invalid primary traffic class",
		[IBCM_REJECT_HOP_LIMIT] = "invalid primary hop limit",
		[IBCM_REJECT_PACKET_RATE] = "invalid primary packet rate",
		[IBCM_REJECT_ALT_GID] = "alternate remote GID rejected",
		[IBCM_REJECT_ALT_LID] = "alternate remote LID rejected",
		[IBCM_REJECT_ALT_SL] = "invalid alternate SL",
		[IBCM_REJECT_ALT_TRAFFIC_CLASS] = "invalid alternate traffic class",
		[IBCM_REJECT_ALT_HOP_LIMIT] = "invalid alternate hop limit",
		[IBCM_REJECT_ALT_PACKET_RATE] = "invalid alternate packet rate",
		[IBCM_REJECT_PORT_CM_REDIRECT] = "port and CM redirection",
		[IBCM_REJECT_PORT_REDIRECT] = "port redirection",
		[IBCM_REJECT_MTU] = "invalid path MTU",
		[IBCM_REJECT_RESPONDER_RESOURCES] = "insufficient responder resources",
		[IBCM_REJECT_CONSUMER] = "consumer reject",
		[IBCM_REJECT_RNR_RETRY] = "RNR retry count rejected",
		[IBCM_REJECT_DUPLICATE_COMM_ID] = "duplicate local communication id",
		[IBCM_REJECT_CLASS_VERSION] = "unsupported class version",
		[IBCM_REJECT_FLOW_LABEL] = "invalid primary flow label",
		[IBCM_REJECT_ALT_FLOW_LABEL] = "invalid alternate flow label",
	};

	if (reason == 0 || reason > IBCM_REJECT_ALT_FLOW_LABEL)
		return "unknown reason";
	return names[reason];
}

/* ---- Parting -------------------------------------------------------------------------------- */

enum { PARTING_MARK = 0x77656674 /* "weft" */ };

void ibcm_parting_encode(const struct ibcm_parting *p, uint8_t bytes[IBCM_PARTING_BYTES])
{
	struct wr w = wr_of(bytes, IBCM_PARTING_BYTES);

	wr_u32(&w, PARTING_MARK);
	wr_u8(&w, p->is_failed);
	wr_u8(&w, p->nak);
	wr_u16(&w, 0);
	wr_u32(&w, p->nak_psn);
}

void ibcm_parting_decode(struct ibcm_parting *p, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	bool is_ours = rd_u32(&r) == PARTING_MARK;
	struct ibcm_parting v = { .is_failed = rd_u8(&r) != 0, .nak = rd_u8(&r) };

	(void)rd_u16(&r);
	v.nak_psn = rd_u32(&r);
	*p = is_ours && !r.is_short ? v : (struct ibcm_parting){ 0 };
}
