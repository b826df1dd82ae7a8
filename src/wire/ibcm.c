/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ibcm.h"

#include <string.h>

#include "base/check.h"
#include "base/cursor.h"

/* Where in the data of the MAD the private data begins; it goes on to the end of the field. */
struct layout {
	uint8_t info_at; /* 0: there is none */
	uint8_t private_at, private_bytes;
};

enum { KIND_FIRST = IBCM_REQ, KIND_COUNT = IBCM_APR - IBCM_REQ + 1 };

static const struct layout layouts[KIND_COUNT] = {
	[IBCM_REQ - KIND_FIRST] = { 0, 140, 92 },
	[IBCM_MRA - KIND_FIRST] = { 0, 10, 222 },
	[IBCM_REJ - KIND_FIRST] = { 12, 84, 148 },
	[IBCM_REP - KIND_FIRST] = { 0, 36, 196 },
	[IBCM_RTU - KIND_FIRST] = { 0, 8, 224 },
	[IBCM_DREQ - KIND_FIRST] = { 0, 12, 220 },
	[IBCM_DREP - KIND_FIRST] = { 0, 8, 224 },
	[IBCM_SIDR_REQ - KIND_FIRST] = { 0, 16, 216 },
	[IBCM_SIDR_REP - KIND_FIRST] = { 24, 96, 136 },
	[IBCM_LAP - KIND_FIRST] = { 0, 64, 168 },
	[IBCM_APR - KIND_FIRST] = { 12, 84, 148 },
};

/* Fields of bits: `width` of them, above `below` others of the same number. */
static uint32_t cut(uint32_t v, unsigned int below, unsigned int width)
{
	return v >> below & ((1u << width) - 1);
}

static uint32_t put(uint32_t v, unsigned int below, unsigned int width)
{
	return (v & ((1u << width) - 1)) << below;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static void path_ends_decode(struct ibcm_path *p, struct rd *r)
{
	p->local_lid = rd_u16(r);
	p->remote_lid = rd_u16(r);
	rd_bytes(r, p->local_gid, sizeof(p->local_gid));
	rd_bytes(r, p->remote_gid, sizeof(p->remote_gid));
}

static void path_ends_encode(const struct ibcm_path *p, struct wr *w)
{
	wr_u16(w, p->local_lid);
	wr_u16(w, p->remote_lid);
	wr_bytes(w, p->local_gid, sizeof(p->local_gid));
	wr_bytes(w, p->remote_gid, sizeof(p->remote_gid));
}

/* In a REQ: 44 bytes. The last byte has room for a bit that is not of the path. */
static uint8_t path_decode(struct ibcm_path *p, struct rd *r)
{
	uint32_t word;
	uint8_t last;

	path_ends_decode(p, r);
	word = rd_u32(r);
	p->flow_label = cut(word, 12, 20);
	p->packet_rate = (uint8_t)cut(word, 0, 6);
	p->traffic_class = rd_u8(r);
	p->hop_limit = rd_u8(r);
	last = rd_u8(r);
	p->sl = (uint8_t)cut(last, 4, 4);
	p->is_subnet_local = cut(last, 3, 1);
	last = rd_u8(r);
	p->ack_timeout = (uint8_t)cut(last, 3, 5);
	return last;
}

static void path_encode(const struct ibcm_path *p, uint32_t last, struct wr *w)
{
	path_ends_encode(p, w);
	wr_u32(w, put(p->flow_label, 12, 20) | put(p->packet_rate, 0, 6));
	wr_u8(w, p->traffic_class);
	wr_u8(w, p->hop_limit);
	wr_u8(w, (uint8_t)(put(p->sl, 4, 4) | put(p->is_subnet_local, 3, 1)));
	wr_u8(w, (uint8_t)(put(p->ack_timeout, 3, 5) | last));
}

/* In a LAP: the same in another order. */
static void lap_decode(struct ibcm_lap *l, struct rd *r)
{
	struct ibcm_path *p = &l->alternate;
	uint32_t word;

	(void)rd_u32(r);
	word = rd_u32(r);
	l->remote_qpn = cut(word, 8, 24);
	l->remote_timeout = (uint8_t)cut(word, 3, 5);
	(void)rd_u32(r);
	path_ends_decode(p, r);
	word = rd_u32(r);
	p->flow_label = cut(word, 12, 20);
	p->traffic_class = (uint8_t)cut(word, 0, 8);
	word = rd_u32(r);
	p->hop_limit = (uint8_t)cut(word, 24, 8);
	p->packet_rate = (uint8_t)cut(word, 16, 6);
	p->sl = (uint8_t)cut(word, 12, 4);
	p->is_subnet_local = cut(word, 11, 1);
	p->ack_timeout = (uint8_t)cut(word, 3, 5);
}

static void lap_encode(const struct ibcm_lap *l, struct wr *w)
{
	const struct ibcm_path *p = &l->alternate;

	wr_u32(w, 0);
	wr_u32(w, put(l->remote_qpn, 8, 24) | put(l->remote_timeout, 3, 5));
	wr_u32(w, 0);
	path_ends_encode(p, w);
	wr_u32(w, put(p->flow_label, 12, 20) | put(p->traffic_class, 0, 8));
	wr_u32(w, put(p->hop_limit, 24, 8) | put(p->packet_rate, 16, 6) | put(p->sl, 12, 4) |
			  put(p->is_subnet_local, 11, 1) | put(p->ack_timeout, 3, 5));
}

/* ---- REQ and REP ---------------------------------------------------------------------------- */

static void req_decode(struct ibcm_req *q, struct rd *r)
{
	uint32_t word;

	q->vendor_id = cut(rd_u32(r), 0, 24);
	q->service_id = rd_u64(r);
	q->ca_guid = rd_u64(r);
	(void)rd_u32(r);
	q->q_key = rd_u32(r);
	word = rd_u32(r);
	q->qpn = cut(word, 8, 24);
	q->responder_resources = (uint8_t)cut(word, 0, 8);
	word = rd_u32(r);
	q->eecn = cut(word, 8, 24);
	q->initiator_depth = (uint8_t)cut(word, 0, 8);
	word = rd_u32(r);
	q->remote_eecn = cut(word, 8, 24);
	q->remote_timeout = (uint8_t)cut(word, 3, 5);
	q->transport = (uint8_t)cut(word, 1, 2);
	q->has_flow_control = cut(word, 0, 1);
	word = rd_u32(r);
	q->psn = cut(word, 8, 24);
	q->local_timeout = (uint8_t)cut(word, 3, 5);
	q->retry_count = (uint8_t)cut(word, 0, 3);
	word = rd_u32(r);
	q->p_key = (uint16_t)cut(word, 16, 16);
	q->path_mtu = (uint8_t)cut(word, 12, 4);
	q->has_rdc = cut(word, 11, 1);
	q->rnr_retry = (uint8_t)cut(word, 8, 3);
	q->cm_retries = (uint8_t)cut(word, 4, 4);
	q->has_srq = cut(word, 3, 1);
	q->extended_transport = (uint8_t)cut(word, 0, 3);
	(void)path_decode(&q->primary, r);
	q->has_sap = cut(path_decode(&q->alternate, r), 2, 1);
}

static void req_encode(const struct ibcm_req *q, struct wr *w)
{
	wr_u32(w, put(q->vendor_id, 0, 24));
	wr_u64(w, q->service_id);
	wr_u64(w, q->ca_guid);
	wr_u32(w, 0);
	wr_u32(w, q->q_key);
	wr_u32(w, put(q->qpn, 8, 24) | q->responder_resources);
	wr_u32(w, put(q->eecn, 8, 24) | q->initiator_depth);
	wr_u32(w, put(q->remote_eecn, 8, 24) | put(q->remote_timeout, 3, 5) |
			  put(q->transport, 1, 2) | put(q->has_flow_control, 0, 1));
	wr_u32(w, put(q->psn, 8, 24) | put(q->local_timeout, 3, 5) | put(q->retry_count, 0, 3));
	wr_u32(w, put(q->p_key, 16, 16) | put(q->path_mtu, 12, 4) | put(q->has_rdc, 11, 1) |
			  put(q->rnr_retry, 8, 3) | put(q->cm_retries, 4, 4) |
			  put(q->has_srq, 3, 1) | put(q->extended_transport, 0, 3));
	path_encode(&q->primary, 0, w);
	path_encode(&q->alternate, put(q->has_sap, 2, 1), w);
}

/* The vendor id is spread over the low bytes of three words. */
static void rep_decode(struct ibcm_rep *p, struct rd *r)
{
	uint32_t qpn, eecn, psn, word;

	p->q_key = rd_u32(r);
	qpn = rd_u32(r);
	eecn = rd_u32(r);
	psn = rd_u32(r);
	p->qpn = cut(qpn, 8, 24);
	p->eecn = cut(eecn, 8, 24);
	p->psn = cut(psn, 8, 24);
	p->vendor_id = cut(qpn, 0, 8) << 16 | cut(eecn, 0, 8) << 8 | cut(psn, 0, 8);
	word = rd_u32(r);
	p->responder_resources = (uint8_t)cut(word, 24, 8);
	p->initiator_depth = (uint8_t)cut(word, 16, 8);
	p->ack_delay = (uint8_t)cut(word, 11, 5);
	p->failover = (uint8_t)cut(word, 9, 2);
	p->has_flow_control = cut(word, 8, 1);
	p->rnr_retry = (uint8_t)cut(word, 5, 3);
	p->has_srq = cut(word, 4, 1);
	p->ca_guid = rd_u64(r);
}

static void rep_encode(const struct ibcm_rep *p, struct wr *w)
{
	wr_u32(w, p->q_key);
	wr_u32(w, put(p->qpn, 8, 24) | cut(p->vendor_id, 16, 8));
	wr_u32(w, put(p->eecn, 8, 24) | cut(p->vendor_id, 8, 8));
	wr_u32(w, put(p->psn, 8, 24) | cut(p->vendor_id, 0, 8));
	wr_u32(w, put(p->responder_resources, 24, 8) | put(p->initiator_depth, 16, 8) |
			  put(p->ack_delay, 11, 5) | put(p->failover, 9, 2) |
			  put(p->has_flow_control, 8, 1) | put(p->rnr_retry, 5, 3) |
			  put(p->has_srq, 4, 1));
	wr_u64(w, p->ca_guid);
}

/* ---- the others ----------------------------------------------------------------------------- */

static void sidr_req_decode(struct ibcm_sidr_req *q, struct rd *r)
{
	q->request_id = rd_u32(r);
	q->p_key = rd_u16(r);
	(void)rd_u16(r);
	q->service_id = rd_u64(r);
}

static void sidr_req_encode(const struct ibcm_sidr_req *q, struct wr *w)
{
	wr_u32(w, q->request_id);
	wr_u16(w, q->p_key);
	wr_u16(w, 0);
	wr_u64(w, q->service_id);
}

static void sidr_rep_decode(struct ibcm_sidr_rep *p, uint32_t *info_bytes, struct rd *r)
{
	p->request_id = rd_u32(r);
	p->status = rd_u8(r);
	*info_bytes = rd_u8(r);
	(void)rd_u16(r);
	p->qpn = cut(rd_u32(r), 8, 24);
	p->service_id = rd_u64(r);
	p->q_key = rd_u32(r);
}

static void sidr_rep_encode(const struct ibcm_sidr_rep *p, uint32_t info_bytes, struct wr *w)
{
	wr_u32(w, p->request_id);
	wr_u8(w, p->status);
	wr_u8(w, (uint8_t)info_bytes);
	wr_u16(w, 0);
	wr_u32(w, put(p->qpn, 8, 24));
	wr_u64(w, p->service_id);
	wr_u32(w, p->q_key);
}

/* What differs from kind to kind, behind the ids. */
static void body_decode(struct ibcm_msg *m, struct rd *r)
{
	switch (m->kind) {
	case IBCM_REQ:
		req_decode(&m->req, r);
		break;
	case IBCM_REP:
		rep_decode(&m->rep, r);
		break;
	case IBCM_MRA:
		m->mra.about = (uint8_t)cut(rd_u8(r), 6, 2);
		m->mra.timeout = (uint8_t)cut(rd_u8(r), 3, 5);
		break;
	case IBCM_REJ:
		m->rej.about = (uint8_t)cut(rd_u8(r), 6, 2);
		m->info.length = cut(rd_u8(r), 1, 7);
		m->rej.reason = rd_u16(r);
		break;
	case IBCM_DREQ:
		m->dreq_remote_qpn = cut(rd_u32(r), 8, 24);
		break;
	case IBCM_SIDR_REQ:
		sidr_req_decode(&m->sidr_req, r);
		break;
	case IBCM_SIDR_REP:
		sidr_rep_decode(&m->sidr_rep, &m->info.length, r);
		break;
	case IBCM_LAP:
		lap_decode(&m->lap, r);
		break;
	case IBCM_APR:
		m->info.length = rd_u8(r);
		m->apr_status = rd_u8(r);
		break;
	case IBCM_RTU:
	case IBCM_DREP:
		break;
	}
}

static void body_encode(const struct ibcm_msg *m, struct wr *w)
{
	switch (m->kind) {
	case IBCM_REQ:
		req_encode(&m->req, w);
		break;
	case IBCM_REP:
		rep_encode(&m->rep, w);
		break;
	case IBCM_MRA:
		wr_u8(w, (uint8_t)put(m->mra.about, 6, 2));
		wr_u8(w, (uint8_t)put(m->mra.timeout, 3, 5));
		break;
	case IBCM_REJ:
		wr_u8(w, (uint8_t)put(m->rej.about, 6, 2));
		wr_u8(w, (uint8_t)put(m->info.length, 1, 7));
		wr_u16(w, m->rej.reason);
		break;
	case IBCM_DREQ:
		wr_u32(w, put(m->dreq_remote_qpn, 8, 24));
		break;
	case IBCM_SIDR_REQ:
		sidr_req_encode(&m->sidr_req, w);
		break;
	case IBCM_SIDR_REP:
		sidr_rep_encode(&m->sidr_rep, m->info.length, w);
		break;
	case IBCM_LAP:
		lap_encode(&m->lap, w);
		break;
	case IBCM_APR:
		wr_u8(w, (uint8_t)m->info.length);
		wr_u8(w, m->apr_status);
		break;
	case IBCM_RTU:
	case IBCM_DREP:
		break;
	}
}

static bool is_sidr(enum ibcm_kind kind)
{
	return kind == IBCM_SIDR_REQ || kind == IBCM_SIDR_REP;
}

/* ---- a message ------------------------------------------------------------------------------ */

/* IBA 12.6: which messages there are. */
static enum weft_reason header_check(const struct mad *h)
{
	if (h->mgmt_class != MAD_CM)
		return WEFT_R_MAD_KIND;
	if (h->class_version != IBCM_CLASS_VERSION)
		return WEFT_R_MAD_VERSION;
	if (h->method != MAD_SEND || h->attribute < IBCM_REQ || h->attribute > IBCM_APR)
		return WEFT_R_MAD_KIND;
	return WEFT_OK;
}

enum weft_reason ibcm_decode(struct ibcm_msg *m, const uint8_t *bytes, size_t length)
{
	struct mad h = { 0 };
	enum weft_reason reason = mad_decode(&h, bytes, length);
	const struct layout *l;
	const uint8_t *data;
	struct ibcm_msg v;
	struct rd r;

	if (reason == WEFT_OK)
		reason = header_check(&h);
	if (reason != WEFT_OK)
		return reason;
	data = bytes + MAD_HEADER_BYTES;
	r = rd_of(data, MAD_DATA_BYTES);
	l = &layouts[h.attribute - KIND_FIRST];
	memset(&v, 0, sizeof(v));
	v.kind = (enum ibcm_kind)h.attribute;
	v.tid = h.tid;
	if (!is_sidr(v.kind)) {
		v.local_id = rd_u32(&r);
		if (v.kind != IBCM_REQ)
			v.remote_id = rd_u32(&r);
	}
	body_decode(&v, &r);
	if (v.info.length > IBCM_INFO_MAX)
		return WEFT_R_CM_FORM;
	v.info.bytes = l->info_at ? data + l->info_at : NULL;
	v.private_data = (struct ibcm_bytes){ data + l->private_at, l->private_bytes };
	*m = v;
	return WEFT_OK;
}

void ibcm_encode(const struct ibcm_msg *m, uint8_t bytes[MAD_BYTES])
{
	const struct mad h = { .mgmt_class = MAD_CM,
			       .class_version = IBCM_CLASS_VERSION,
			       .method = MAD_SEND,
			       .tid = m->tid,
			       .attribute = (uint16_t)m->kind };
	uint8_t *data = bytes + MAD_HEADER_BYTES;
	struct wr w = wr_of(data, MAD_DATA_BYTES);
	const struct layout *l;

	CHECK(m->kind >= IBCM_REQ && m->kind <= IBCM_APR);
	l = &layouts[m->kind - KIND_FIRST];
	CHECK(m->private_data.length <= l->private_bytes);
	CHECK(m->info.length <= (l->info_at ? IBCM_INFO_MAX : 0));
	mad_encode(&h, bytes);
	memset(data, 0, MAD_DATA_BYTES);
	if (!is_sidr(m->kind)) {
		wr_u32(&w, m->local_id);
		if (m->kind != IBCM_REQ)
			wr_u32(&w, m->remote_id);
	}
	body_encode(m, &w);
	if (m->info.length > 0)
		memcpy(data + l->info_at, m->info.bytes, m->info.length);
	if (m->private_data.length > 0)
		memcpy(data + l->private_at, m->private_data.bytes, m->private_data.length);
}

uint32_t ibcm_private_max(enum ibcm_kind kind)
{
	CHECK(kind >= IBCM_REQ && kind <= IBCM_APR);
	return layouts[kind - KIND_FIRST].private_bytes;
}
