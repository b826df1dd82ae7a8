/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iba.h"

#include "base/check.h"
#include "base/cursor.h"

/* The second byte of the BTH, the first of its third word, and the first of its last. */
enum {
	BTH_SOLICITED = 0x80,
	BTH_MIGRATED = 0x40,
	BTH_PAD_SHIFT = 4,
	BTH_PAD_MASK = 3,
	BTH_VERSION_MASK = 0x0f,
	BTH_FECN = 0x80,
	BTH_BECN = 0x40,
	BTH_ACK_REQUEST = 0x80,
	BTH_WORDS = IBA_BTH_BYTES / 4
};

enum { FETH_LEVEL_SHIFT = 4, FETH_LEVEL_MASK = 3, FETH_TYPE_MASK = 0x0f, CNP_BYTES = 16 };

static bool is_mtu(size_t bytes)
{
	return bytes >= IBA_MTU_MIN && bytes <= IBA_PAYLOAD_MAX && (bytes & (bytes - 1)) == 0;
}

/* IBA 9.4 and 9.7.4: what payload can be, whatever the path. rest: payload and padding. */
static enum weft_reason lengths_check(const struct iba_form *f, size_t rest, size_t pad)
{
	size_t payload;

	if (pad > rest || (pad > 0 && !(f->traits & IBA_LAST)))
		return WEFT_R_IB_PAD;
	payload = rest - pad;
	if (rest % 4 != 0 || payload > IBA_PAYLOAD_MAX)
		return WEFT_R_IB_LENGTH;
	if (!(f->traits & IBA_PAYLOAD) && payload > 0)
		return WEFT_R_IB_LENGTH;
	if (!(f->traits & IBA_LAST) && !is_mtu(payload))
		return WEFT_R_IB_LENGTH;
	if (!(f->traits & IBA_FIRST) && payload == 0)
		return WEFT_R_IB_LENGTH;
	if (f->kind == IBA_KIND_ATOMIC_WRITE && payload != IBA_ATOMIC_BYTES)
		return WEFT_R_IB_LENGTH;
	return WEFT_OK;
}

static uint32_t rd_u24(struct rd *r)
{
	return rd_u32(r) & IBA_NUMBER_MAX;
}

static void bth_decode(struct iba_packet *p, const uint32_t words[BTH_WORDS])
{
	uint32_t first = be32(words[0]), second = be32(words[1]), third = be32(words[2]);

	p->opcode = (uint8_t)(first >> 24);
	p->is_solicited = first >> 16 & BTH_SOLICITED;
	p->is_migrated = first >> 16 & BTH_MIGRATED;
	p->pad = first >> 16 >> BTH_PAD_SHIFT & BTH_PAD_MASK;
	p->p_key = (uint16_t)first;
	p->has_fecn = second >> 24 & BTH_FECN;
	p->has_becn = second >> 24 & BTH_BECN;
	p->dest_qp = second & IBA_NUMBER_MAX;
	p->is_ack_requested = third >> 24 & BTH_ACK_REQUEST;
	p->psn = third & IBA_NUMBER_MAX;
}

/* What only datagrams, RD and XRC have, and FLUSH: ahead of the headers that say what to do. */
static void addressing_decode(struct iba_packet *p, uint32_t headers, struct rd *r)
{
	if (headers & IBA_HAS_XRCETH)
		p->xrc_srq = rd_u24(r);
	if (headers & IBA_HAS_RDETH)
		p->eec = rd_u24(r);
	if (headers & IBA_HAS_DETH) {
		p->q_key = rd_u32(r);
		p->src_qp = rd_u24(r);
	}
	if (headers & IBA_HAS_FETH) {
		uint32_t word = rd_u32(r);

		p->flush_level = word >> FETH_LEVEL_SHIFT & FETH_LEVEL_MASK;
		p->flush_type = word & FETH_TYPE_MASK;
	}
}

static void extended_decode(struct iba_packet *p, uint32_t headers, struct rd *r)
{
	if (headers & (IBA_HAS_XRCETH | IBA_HAS_RDETH | IBA_HAS_DETH | IBA_HAS_FETH))
		addressing_decode(p, headers, r);
	if (headers & (IBA_HAS_RETH | IBA_HAS_ATOMIC)) {
		p->va = rd_u64(r);
		p->r_key = rd_u32(r);
	}
	if (headers & IBA_HAS_RETH)
		p->dma_bytes = rd_u32(r);
	if (headers & IBA_HAS_ATOMIC) {
		p->swap_add = rd_u64(r);
		p->compare = rd_u64(r);
	}
	if (headers & IBA_HAS_AETH) {
		uint32_t word = rd_u32(r);

		p->syndrome = (uint8_t)(word >> 24);
		p->msn = word & IBA_NUMBER_MAX;
	}
	if (headers & IBA_HAS_ATOMIC_ACK)
		p->original = rd_u64(r);
	if (headers & IBA_HAS_IMM)
		p->imm = rd_u32(r);
	if (headers & IBA_HAS_IETH)
		p->inv_r_key = rd_u32(r);
}

/* In shared memory a packet may change: what decides where its headers end is read once. */
enum weft_reason iba_decode(struct iba_packet *p, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	const struct iba_form *f;
	uint32_t bth[BTH_WORDS];
	uint8_t flags;
	size_t pad, rest;
	enum weft_reason reason;

	rd_bytes(&r, bth, sizeof(bth));
	f = iba_form((uint8_t)(be32(bth[0]) >> 24));
	flags = (uint8_t)(be32(bth[0]) >> 16);
	pad = flags >> BTH_PAD_SHIFT & BTH_PAD_MASK;
	if (length < IBA_BTH_BYTES + IBA_ICRC_BYTES)
		return WEFT_R_IB_SHORT;
	if ((flags & BTH_VERSION_MASK) != 0)
		return WEFT_R_IB_VERSION;
	if (f->kind == IBA_KIND_NONE)
		return WEFT_R_IB_OPCODE;
	if (length < (size_t)f->header_bytes + IBA_ICRC_BYTES)
		return WEFT_R_IB_SHORT;
	rest = length - f->header_bytes - IBA_ICRC_BYTES;
	reason = lengths_check(f, rest, pad);
	if (reason != WEFT_OK)
		return reason;
	*p = (struct iba_packet){ .payload = bytes + f->header_bytes,
				  .payload_bytes = (uint32_t)(rest - pad) };
	bth_decode(p, bth);
	if (f->headers)
		extended_decode(p, f->headers, &r);
	return WEFT_OK;
}

bool iba_fits_mtu(const struct iba_packet *p, uint32_t mtu_bytes)
{
	uint32_t most = (1 + p->run) * mtu_bytes;

	if (!(iba_form(p->opcode)->traits & IBA_LAST))
		return p->payload_bytes == most;
	return p->payload_bytes <= most && (p->run == 0 || p->payload_bytes > most - mtu_bytes);
}

uint32_t iba_run_mtu(const struct iba_packet *p)
{
	for (uint32_t mtu = IBA_MTU_MIN; mtu <= IBA_PAYLOAD_MAX; mtu *= 2) {
		if (iba_fits_mtu(p, mtu))
			return mtu;
	}
	return 0;
}

uint8_t iba_run_opcode(uint8_t opcode, uint32_t i, uint16_t run)
{
	const struct iba_form *f = iba_form(opcode);
	bool is_send = f->kind == IBA_KIND_SEND;
	enum iba_op op = iba_op(opcode);

	if (!(f->traits & IBA_FIRST))
		return opcode;
	if (i == 0)
		op = is_send ? IBA_SEND_FIRST : IBA_WRITE_FIRST;
	else if (i < run)
		op = is_send ? IBA_SEND_MIDDLE : IBA_WRITE_MIDDLE;
	else if (op == IBA_SEND_ONLY_INV)
		op = IBA_SEND_LAST_INV;
	else if (f->headers & IBA_HAS_IMM)
		op = is_send ? IBA_SEND_LAST_IMM : IBA_WRITE_LAST_IMM;
	else
		op = is_send ? IBA_SEND_LAST : IBA_WRITE_LAST;
	return iba_opcode(iba_service(opcode), op);
}

static uint32_t top_and_24(uint32_t top, uint32_t low)
{
	return top << 24 | (low & IBA_NUMBER_MAX);
}

static void wr_top_and_24(struct wr *w, uint32_t top, uint32_t low)
{
	wr_u32(w, top_and_24(top, low));
}

static void bth_encode(const struct iba_packet *p, struct wr *w)
{
	uint32_t words[BTH_WORDS];
	unsigned int flags = (p->is_solicited ? BTH_SOLICITED : 0) |
			     (p->is_migrated ? BTH_MIGRATED : 0) |
			     (unsigned int)(p->pad & BTH_PAD_MASK) << BTH_PAD_SHIFT;

	words[0] = be32((uint32_t)p->opcode << 24 | flags << 16 | p->p_key);
	words[1] = be32(top_and_24((p->has_fecn ? BTH_FECN : 0) | (p->has_becn ? BTH_BECN : 0),
				   p->dest_qp));
	words[2] = be32(top_and_24(p->is_ack_requested ? BTH_ACK_REQUEST : 0, p->psn));
	wr_bytes(w, words, sizeof(words));
}

static void addressing_encode(const struct iba_packet *p, uint32_t headers, struct wr *w)
{
	if (headers & IBA_HAS_XRCETH)
		wr_top_and_24(w, 0, p->xrc_srq);
	if (headers & IBA_HAS_RDETH)
		wr_top_and_24(w, 0, p->eec);
	if (headers & IBA_HAS_DETH) {
		wr_u32(w, p->q_key);
		wr_top_and_24(w, 0, p->src_qp);
	}
	if (headers & IBA_HAS_FETH)
		wr_u32(w, (uint32_t)(p->flush_level & FETH_LEVEL_MASK) << FETH_LEVEL_SHIFT |
				  (p->flush_type & FETH_TYPE_MASK));
}

static void extended_encode(const struct iba_packet *p, uint32_t headers, struct wr *w)
{
	static const uint8_t nothing[CNP_BYTES];

	if (headers & (IBA_HAS_XRCETH | IBA_HAS_RDETH | IBA_HAS_DETH | IBA_HAS_FETH))
		addressing_encode(p, headers, w);
	if (headers & (IBA_HAS_RETH | IBA_HAS_ATOMIC)) {
		wr_u64(w, p->va);
		wr_u32(w, p->r_key);
	}
	if (headers & IBA_HAS_RETH)
		wr_u32(w, p->dma_bytes);
	if (headers & IBA_HAS_ATOMIC) {
		wr_u64(w, p->swap_add);
		wr_u64(w, p->compare);
	}
	if (headers & IBA_HAS_AETH)
		wr_top_and_24(w, p->syndrome, p->msn);
	if (headers & IBA_HAS_ATOMIC_ACK)
		wr_u64(w, p->original);
	if (headers & IBA_HAS_IMM)
		wr_u32(w, p->imm);
	if (headers & IBA_HAS_IETH)
		wr_u32(w, p->inv_r_key);
	if (headers & IBA_HAS_CNP)
		wr_bytes(w, nothing, sizeof(nothing));
}

uint32_t iba_encode(const struct iba_packet *p, uint8_t bytes[IBA_HEADERS_MAX])
{
	const struct iba_form *f = iba_form(p->opcode);
	struct wr w = wr_of(bytes, f->header_bytes);

	CHECK(f->kind != IBA_KIND_NONE);
	bth_encode(p, &w);
	if (f->headers)
		extended_encode(p, f->headers, &w);
	return f->header_bytes;
}

/* Annex A17: folded so that each bit of both numbers has a say. */
uint32_t iba_flow_label(uint32_t local_qp, uint32_t remote_qp)
{
	uint64_t v = (uint64_t)local_qp * remote_qp;

	v ^= v >> 20;
	v ^= v >> 40;
	return (uint32_t)v & 0xfffff;
}

/* In the dynamic port range of IANA, 49152 to 65535. */
uint16_t iba_udp_port(uint32_t flow_label)
{
	return (uint16_t)(0xc000 | ((flow_label & 0x3fff) ^ (flow_label >> 14 & 0x3f)));
}
