/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/fabric_msg.h"

#include <string.h>

#include "base/cursor.h"

/* ---- Attributes, as subnet management has them --------------------------------------------- */

static void port_put(struct wr *w, const struct fabric_msg_port *p)
{
	wr_u32(w, p->node);
	wr_u32(w, p->port);
	wr_u8(w, p->is_manager);
	sm_attribute_put(w, SM_NODE_INFO, &p->node_info);
	sm_attribute_put(w, SM_NODE_DESCRIPTION, &p->description);
	sm_attribute_put(w, SM_PORT_INFO, &p->port_info);
	sm_attribute_put(w, SM_GUID_INFO, &p->guids);
	sm_attribute_put(w, SM_PKEY_TABLE, &p->pkeys);
}

static bool port_get(struct rd *r, struct fabric_msg_port *p)
{
	p->node = rd_u32(r);
	p->port = rd_u32(r);
	p->is_manager = rd_u8(r);
	return sm_attribute_get(r, SM_NODE_INFO, &p->node_info) &&
	       sm_attribute_get(r, SM_NODE_DESCRIPTION, &p->description) &&
	       sm_attribute_get(r, SM_PORT_INFO, &p->port_info) &&
	       sm_attribute_get(r, SM_GUID_INFO, &p->guids) &&
	       sm_attribute_get(r, SM_PKEY_TABLE, &p->pkeys);
}

/* ---- The rest ------------------------------------------------------------------------------- */

static void agent_put(struct wr *w, const struct fabric_msg_agent *a)
{
	wr_u8(w, a->mgmt_class);
	wr_u8(w, a->class_version);
	wr_u8(w, a->rmpp_version);
	wr_bytes(w, a->oui, sizeof(a->oui));
	for (int i = 0; i < FABRIC_MSG_METHOD_WORDS; i++)
		wr_u32(w, a->methods[i]);
}

static void agent_get(struct rd *r, struct fabric_msg_agent *a)
{
	a->mgmt_class = rd_u8(r);
	a->class_version = rd_u8(r);
	a->rmpp_version = rd_u8(r);
	rd_bytes(r, a->oui, sizeof(a->oui));
	for (int i = 0; i < FABRIC_MSG_METHOD_WORDS; i++)
		a->methods[i] = rd_u32(r);
}

static void mad_put(struct wr *w, const struct fabric_msg_mad *m)
{
	wr_u32(w, m->agent);
	wr_u32(w, m->error);
	wr_u32(w, m->timeout_ms);
	wr_u32(w, m->retries);
	wr_u32(w, m->length);
	wr_u8(w, m->is_in_file);
	wr_u8(w, m->has_grh);
	wr_u16(w, m->lid);
	wr_u16(w, m->pkey_index);
	wr_u32(w, m->qpn);
	wr_u32(w, m->q_key);
	wr_u8(w, m->level);
	wr_u8(w, m->path_bits);
	wr_u8(w, m->gid_index);
	wr_u8(w, m->hop_limit);
	wr_u8(w, m->traffic_class);
	wr_u32(w, m->flow_label);
	wr_bytes(w, m->gid, sizeof(m->gid));
}

static void mad_get(struct rd *r, struct fabric_msg_mad *m)
{
	m->agent = rd_u32(r);
	m->error = rd_u32(r);
	m->timeout_ms = rd_u32(r);
	m->retries = rd_u32(r);
	m->length = rd_u32(r);
	m->is_in_file = rd_u8(r);
	m->has_grh = rd_u8(r);
	m->lid = rd_u16(r);
	m->pkey_index = rd_u16(r);
	m->qpn = rd_u32(r);
	m->q_key = rd_u32(r);
	m->level = rd_u8(r);
	m->path_bits = rd_u8(r);
	m->gid_index = rd_u8(r);
	m->hop_limit = rd_u8(r);
	m->traffic_class = rd_u8(r);
	m->flow_label = rd_u32(r);
	rd_bytes(r, m->gid, sizeof(m->gid));
}

static bool where_get(struct rd *r, struct fabric_msg_where *at)
{
	at->port = rd_u32(r);
	rd_bytes(r, at->node, sizeof(at->node));
	return at->node[sizeof(at->node) - 1] == '\0';
}

static void part_put(struct wr *w, const struct fabric_msg_part *p)
{
	wr_u8(w, p->is_joined);
	wr_bytes(w, p->self, sizeof(p->self));
	wr_bytes(w, p->name, sizeof(p->name));
	wr_bytes(w, p->address, sizeof(p->address));
}

static bool part_get(struct rd *r, struct fabric_msg_part *p)
{
	p->is_joined = rd_u8(r);
	rd_bytes(r, p->self, sizeof(p->self));
	rd_bytes(r, p->name, sizeof(p->name));
	rd_bytes(r, p->address, sizeof(p->address));
	return p->self[sizeof(p->self) - 1] == '\0' && p->name[sizeof(p->name) - 1] == '\0' &&
	       p->address[sizeof(p->address) - 1] == '\0';
}

uint32_t fabric_msg_encode(const struct fabric_msg *m, uint8_t bytes[FABRIC_MSG_BYTES_MAX])
{
	struct wr w = wr_of(bytes, FABRIC_MSG_BYTES_MAX);

	wr_u8(&w, FABRIC_MSG_VERSION);
	wr_u8(&w, (uint8_t)m->kind);
	wr_u16(&w, 0);
	wr_u32(&w, m->reason);
	wr_u64(&w, m->value);
	switch (m->kind) {
	case FABRIC_MSG_IS_PORT:
		port_put(&w, &m->port);
		break;
	case FABRIC_MSG_IS_PART:
		part_put(&w, &m->part);
		break;
	case FABRIC_MSG_AGENT:
		agent_put(&w, &m->agent);
		break;
	case FABRIC_MSG_SEND:
	case FABRIC_MSG_RECEIVED:
		mad_put(&w, &m->mad);
		break;
	case FABRIC_MSG_ANSWER:
	case FABRIC_MSG_AGENT_REMOVE:
	case FABRIC_MSG_FRAME:
		break;
	default:
		wr_u32(&w, m->where.port);
		wr_bytes(&w, m->where.node, sizeof(m->where.node));
	}
	return (uint32_t)(w.at - bytes);
}

/* What follows the common part. */
static bool rest_get(struct rd *r, struct fabric_msg *m)
{
	switch (m->kind) {
	case FABRIC_MSG_IS_PORT:
		return port_get(r, &m->port);
	case FABRIC_MSG_IS_PART:
		return part_get(r, &m->part);
	case FABRIC_MSG_AGENT:
		agent_get(r, &m->agent);
		return true;
	case FABRIC_MSG_SEND:
	case FABRIC_MSG_RECEIVED:
		mad_get(r, &m->mad);
		return true;
	case FABRIC_MSG_ANSWER:
	case FABRIC_MSG_AGENT_REMOVE:
	case FABRIC_MSG_FRAME:
		return true;
	default:
		return where_get(r, &m->where);
	}
}

static bool has_tail(enum fabric_msg_kind kind)
{
	return kind == FABRIC_MSG_SEND || kind == FABRIC_MSG_RECEIVED || kind == FABRIC_MSG_FRAME;
}

enum weft_reason fabric_msg_decode(struct fabric_msg *m, const uint8_t *bytes, size_t length,
				   size_t *used)
{
	struct rd r = rd_of(bytes, length);
	struct fabric_msg v;
	uint8_t version, kind;

	memset(&v, 0, sizeof(v));
	version = rd_u8(&r);
	kind = rd_u8(&r);
	(void)rd_u16(&r);
	v.reason = rd_u32(&r);
	v.value = rd_u64(&r);
	if (version != FABRIC_MSG_VERSION || kind == 0 || kind >= FABRIC_MSG_KINDS ||
	    v.reason >= WEFT_REASON_COUNT)
		return WEFT_R_FABRIC_ASK;
	v.kind = (enum fabric_msg_kind)kind;
	if (!rest_get(&r, &v) || r.is_short || (!has_tail(v.kind) && r.at < r.end))
		return WEFT_R_FABRIC_ASK;
	*m = v;
	*used = (size_t)(r.at - bytes);
	return WEFT_OK;
}
