/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/roce_words.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/iba_aeth.h"
#include "wire/iba_icrc.h"
#include "wire/iba_psn.h"
#include "wire/ibcm.h"

enum { NUMBERS = 0xffffff };

/* ---- Taking apart --------------------------------------------------------------------------- */

static struct inet_end end_of(const struct packet_end *p)
{
	struct inet_end end = { .port = p->port };

	memcpy(end.address, p->addr, sizeof(end.address));
	return end;
}

static bool has_good_icrc(const struct packet *p, const uint8_t *bytes, size_t length)
{
	const struct inet_end from = end_of(&p->from), to = end_of(&p->to);
	const struct iba_icrc_ip ip = {
		.is_ipv6 = p->from.version == 6,
		.from = &from,
		.to = &to,
		.ipv4_id = (uint16_t)(p->ipv4_word >> 16),
		.ipv4_fragment = (uint16_t)p->ipv4_word,
	};

	return iba_icrc_differs(iba_icrc_begin(&ip, (uint32_t)length), bytes, length) == 0;
}

void roce_item_of(const struct packet *p, struct roce_item *item)
{
	const uint8_t *bytes = p->data.at;
	size_t length = (size_t)(p->data.end - bytes);
	enum weft_reason r;

	*item = (struct roce_item){ .from = p->from, .to = p->to, .count = 1 };
	if (p->lacks_bytes > 0) {
		snprintf(item->fault, sizeof(item->fault),
			 "%" PRIu32 " bytes are missing from the capture", p->lacks_bytes);
		return;
	}
	r = iba_decode(&item->packet, bytes, length);
	item->is_decoded = r == WEFT_OK;
	if (!item->is_decoded)
		snprintf(item->fault, sizeof(item->fault), "%s", weft_reason_text(r));
	else if (!has_good_icrc(p, bytes, length))
		snprintf(item->fault, sizeof(item->fault), "its ICRC is wrong");
}

static bool is_same_end(const struct packet_end *a, const struct packet_end *b)
{
	return a->version == b->version && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

bool roce_item_is_middle(const struct roce_item *item)
{
	return item->is_decoded && !*item->fault &&
	       !(iba_form(item->packet.opcode)->traits & (IBA_FIRST | IBA_LAST)) &&
	       (iba_form(item->packet.opcode)->traits & IBA_PAYLOAD);
}

bool roce_item_join(struct roce_item *run, const struct roce_item *next)
{
	const struct iba_packet *a = &run->packet, *b = &next->packet;

	if (!roce_item_is_middle(run) || !roce_item_is_middle(next) || a->opcode != b->opcode ||
	    a->dest_qp != b->dest_qp || a->payload_bytes != b->payload_bytes ||
	    b->psn != iba_psn_add(a->psn, run->count) || !is_same_end(&run->from, &next->from) ||
	    !is_same_end(&run->to, &next->to))
		return false;
	run->count++;
	return true;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static void say_address(struct line *l, const struct packet_end *end)
{
	char text[INET6_ADDRSTRLEN] = "?";

	(void)inet_ntop(end->version == 6 ? AF_INET6 : AF_INET, end->addr, text, sizeof(text));
	line_say(l, "%s", text);
}

static void say_management(struct line *l, const struct iba_packet *p)
{
	struct ibcm_msg m;

	if (ibcm_decode(&m, p->payload, p->payload_bytes) != WEFT_OK) {
		line_say(l, ": a management datagram");
		return;
	}
	line_say(l, ": CM %s, id %08" PRIx32, ibcm_kind_name(m.kind), m.local_id);
	if (m.remote_id)
		line_say(l, " to %08" PRIx32, m.remote_id);
	if (m.kind == IBCM_REQ)
		line_say(l, ", service %016" PRIx64 ", QP %06" PRIx32, m.req.service_id, m.req.qpn);
	else if (m.kind == IBCM_SIDR_REQ)
		line_say(l, ", service %016" PRIx64, m.sidr_req.service_id);
	else if (m.kind == IBCM_REP)
		line_say(l, ", QP %06" PRIx32, m.rep.qpn);
	else if (m.kind == IBCM_REJ)
		line_say(l, ", %s (%u)", ibcm_reject_name(m.rej.reason), m.rej.reason);
}

/* What the extended headers say. */
static void say_headers(struct line *l, const struct iba_packet *p)
{
	const struct iba_form *f = iba_form(p->opcode);

	if (f->headers & IBA_HAS_RDETH)
		line_say(l, ", context %06" PRIx32, p->eec);
	if (f->headers & IBA_HAS_XRCETH)
		line_say(l, ", SRQ %06" PRIx32, p->xrc_srq);
	if (f->headers & IBA_HAS_DETH)
		line_say(l, ", from QP %06" PRIx32 ", Q_Key 0x%08" PRIx32, p->src_qp, p->q_key);
	if (f->headers & IBA_HAS_RETH)
		line_say(l, ", %" PRIu32 " bytes %s R_Key 0x%08" PRIx32 " at 0x%" PRIx64,
			 p->dma_bytes, f->kind == IBA_KIND_READ ? "of" : "to", p->r_key, p->va);
	if (f->headers & IBA_HAS_ATOMIC)
		line_say(l, ", R_Key 0x%08" PRIx32 " at 0x%" PRIx64 ", %" PRIu64, p->r_key, p->va,
			 p->swap_add);
	if ((f->headers & IBA_HAS_ATOMIC) && iba_op(p->opcode) == IBA_COMPARE_SWAP)
		line_say(l, " if it is %" PRIu64, p->compare);
	if (f->headers & IBA_HAS_AETH)
		line_say(l, ", %s, MSN %" PRIu32, iba_syndrome_name(p->syndrome), p->msn);
	if (f->headers & IBA_HAS_ATOMIC_ACK)
		line_say(l, ", it was %" PRIu64, p->original);
	if (f->headers & IBA_HAS_IMM)
		line_say(l, ", immediate 0x%08" PRIx32, p->imm);
	if (f->headers & IBA_HAS_IETH)
		line_say(l, ", invalidates R_Key 0x%08" PRIx32, p->inv_r_key);
}

void iba_packet_words(const struct iba_packet *p, uint32_t count, struct line *l)
{
	line_say(l, "  %s, QP %06" PRIx32 ", PSN %06" PRIx32, iba_opcode_name(p->opcode),
		 p->dest_qp, p->psn);
	if (count > 1)
		line_say(l, " to %06" PRIx32 ", %" PRIu32 " packets",
			 iba_psn_add(p->psn, count - 1) & NUMBERS, count);
	say_headers(l, p);
	if (iba_form(p->opcode)->traits & IBA_PAYLOAD)
		line_say(l, ", %s%" PRIu32 " byte%s", count > 1 ? "each of " : "", p->payload_bytes,
			 p->payload_bytes == 1 ? "" : "s");
	if (p->dest_qp == IBA_QPN_GSI && p->opcode == IBA_UD_SEND)
		say_management(l, p);
	if (p->is_solicited)
		line_say(l, ", solicited");
	if (p->is_ack_requested)
		line_say(l, ", asks for an ACK");
	if (p->has_fecn || p->has_becn)
		line_say(l, ", congestion");
}

void roce_item_words(const struct roce_item *item, char *text, size_t length)
{
	struct line l = { text, length };

	text[0] = 0;
	say_address(&l, &item->from);
	line_say(&l, " > ");
	say_address(&l, &item->to);
	if (item->is_decoded)
		iba_packet_words(&item->packet, item->count, &l);
}
