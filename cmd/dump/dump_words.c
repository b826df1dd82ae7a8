/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/dump_words.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "cmd/line.h"
#include "wire/ddp.h"

enum { DATA_SHOWN = 16 };

void dump_end_words(const struct packet_end *end, char text[DUMP_END_BYTES])
{
	char addr[INET6_ADDRSTRLEN] = "?";
	bool is_6 = end->version == 6;

	(void)inet_ntop(is_6 ? AF_INET6 : AF_INET, end->addr, addr, sizeof(addr));
	(void)snprintf(text, DUMP_END_BYTES, is_6 ? "[%s]:%u" : "%s:%u", addr, end->port);
}

static void say_place(struct line *l, uint32_t stag, uint64_t to)
{
	line_say(l, "STag 0x%08" PRIx32 " at 0x%" PRIx64, stag, to);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void say_bytes(struct line *l, uint64_t bytes)
{
	line_say(l, "%" PRIu64 " byte%s", bytes, plural(bytes));
}

/* ---- start frames --------------------------------------------------------------------------- */

static void say_depth(struct line *l, const char *name, uint16_t depth)
{
	if (depth == MPA_DEPTH_UNKNOWN)
		line_say(l, ", %s left open", name);
	else
		line_say(l, ", %s %u", name, depth);
}

static void say_enhanced(struct line *l, const struct mpa_enhanced *e)
{
	const char *lead = " ";

	say_depth(l, "IRD", e->ird);
	say_depth(l, "ORD", e->ord);
	if (!e->is_peer_to_peer)
		return;
	line_say(l, ", peer to peer with RTR by");
	if (e->rtr_by_send) {
		line_say(l, "%sSend", lead);
		lead = " or ";
	}
	if (e->rtr_by_write) {
		line_say(l, "%sWrite", lead);
		lead = " or ";
	}
	if (e->rtr_by_read) {
		line_say(l, "%sRead", lead);
		lead = " or ";
	}
	if (*lead == ' ' && lead[1] == 0)
		line_say(l, " nothing");
}

static void say_data(struct line *l, const struct mpa_item *item)
{
	if (item->data_bytes == 0)
		return;
	line_say(l, ", private data of ");
	say_bytes(l, item->data_bytes);
	line_say(l, " ");
	for (uint32_t i = 0; i < item->data_bytes && i < DATA_SHOWN; i++)
		line_say(l, "%02x", item->data[i]);
	if (item->data_bytes > DATA_SHOWN)
		line_say(l, "...");
}

static void say_agreed(struct line *l, const struct mpa_dissect *d)
{
	const struct mpa_start *a = &d->sides[0].start, *b = &d->sides[1].start;
	int markers = a->wants_markers + b->wants_markers;

	line_say(l, "; agreed: %s, ", a->wants_crc || b->wants_crc ? "CRC" : "no CRC");
	line_say(l, "%s",
		 markers == 0	? "no markers"
		 : markers == 2 ? "markers"
				: "markers one way");
}

static void say_start(struct line *l, const struct mpa_dissect *d, const struct mpa_item *item)
{
	const struct mpa_start *s = &item->start;

	line_say(l, "MPA %s%s, revision %u", s->is_reply ? "Reply" : "Request",
		 s->is_rejected ? " that rejects" : "", s->revision);
	if (s->is_enhanced)
		say_enhanced(l, &item->enhanced);
	if (s->wants_crc)
		line_say(l, ", wants CRC");
	if (s->wants_markers)
		line_say(l, ", wants markers");
	if (s->reserved)
		line_say(l, ", reserved flags 0x%x", s->reserved);
	say_data(l, item);
	if (s->is_reply && d->sides[0].state == MPA_SIDE_FPDUS &&
	    d->sides[1].state == MPA_SIDE_FPDUS)
		say_agreed(l, d);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void say_read(struct line *l, const struct rdmap_read_request *q)
{
	say_bytes(l, q->size);
	line_say(l, " of ");
	say_place(l, q->source_stag, q->source_to);
	line_say(l, " into ");
	say_place(l, q->sink_stag, q->sink_to);
}

static void say_atomic(struct line *l, const struct rdmap_atomic_request *q)
{
	if (q->opcode == RDMAP_FETCH_ADD)
		line_say(l, ", id %" PRIu32 ", add 0x%" PRIx64 " (mask 0x%" PRIx64 ")", q->id,
			 q->add_swap, q->add_swap_mask);
	else
		line_say(l,
			 ", id %" PRIu32 ", compare with 0x%" PRIx64 " (mask 0x%" PRIx64
			 "), swap in 0x%" PRIx64 " (mask 0x%" PRIx64 ")",
			 q->id, q->compare, q->compare_mask, q->add_swap, q->add_swap_mask);
	line_say(l, ", ");
	say_place(l, q->stag, q->to);
}

/* What the Terminate is about: the headers that it gives back. */
static void say_about(struct line *l, const struct rdmap_terminate *t)
{
	struct rd r = rd_of(t->ddp, t->ddp_bytes);
	struct ddp_untagged u;
	struct ddp_tagged g;
	enum rdmap_opcode opcode;

	if (t->has_rdma) {
		line_say(l, ", about a Read of ");
		say_read(l, &t->read);
		return;
	}
	if (!t->has_ddp)
		return;
	if (ddp_is_tagged(t->ddp[0])) {
		if (ddp_tagged_decode(&g, &r) != DDP_OK ||
		    rdmap_control_decode(g.ulp, true, 0, &opcode) != RDMAP_OK)
			return;
		line_say(l, ", about an %s to ", rdmap_opcode_name(opcode));
		say_place(l, g.stag, g.to);
	} else {
		if (ddp_untagged_decode(&u, &r) != DDP_OK ||
		    rdmap_control_decode(u.ulp, false, u.qn, &opcode) != RDMAP_OK)
			return;
		line_say(l, ", about the %s, MSN %" PRIu32, rdmap_opcode_name(opcode), u.msn);
	}
	if (t->has_length) {
		line_say(l, ", a segment of ");
		say_bytes(l, t->segment_bytes);
	}
}

static void say_terminate(struct line *l, const struct rdmap_terminate *t)
{
	line_say(l, ": %s (%u/%u/%02x)", rdmap_terminate_text(t->layer, t->type, t->code), t->layer,
		 t->type, t->code);
	say_about(l, t);
	if (t->is_siw_order)
		line_say(l, "; in the order of Linux siw");
	else if (t->is_ambiguous)
		line_say(l, "; or, from Linux siw: %s",
			 rdmap_terminate_text(t->type, t->layer, t->code));
}

static void say_payload(struct line *l, const struct mpa_item *item)
{
	line_say(l, ", ");
	say_bytes(l, item->bytes);
	if (item->fpdus > 1)
		line_say(l, " in %" PRIu32 " FPDUs", item->fpdus);
}

static void say_message(struct line *l, const struct mpa_item *item)
{
	line_say(l, "%s%s", item->is_rtr ? "RTR: " : "", rdmap_opcode_name(item->opcode));
	if (item->opcode == RDMAP_TERMINATE) {
		if (item->fault != MPA_FAULT_BODY)
			say_terminate(l, &item->body.terminate);
		return;
	}
	if (item->opcode == RDMAP_WRITE || item->opcode == RDMAP_READ_RESPONSE) {
		say_payload(l, item);
		line_say(l, " to ");
		say_place(l, item->stag, item->to);
		return;
	}
	line_say(l, ", MSN %" PRIu32, item->msn);
	if (item->fault == MPA_FAULT_BODY)
		return;
	switch (item->opcode) {
	case RDMAP_READ_REQUEST:
		line_say(l, ", ");
		say_read(l, &item->body.read);
		break;
	case RDMAP_ATOMIC_REQUEST:
		say_atomic(l, &item->body.atomic);
		break;
	case RDMAP_ATOMIC_RESPONSE:
		line_say(l, ", id %" PRIu32 ", original value 0x%" PRIx64,
			 item->body.atomic_response.id, item->body.atomic_response.original);
		break;
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SE:
		line_say(l, ", 0x%016" PRIx64, item->body.immediate);
		break;
	default:
		say_payload(l, item);
		if (item->opcode == RDMAP_SEND_INVALIDATE ||
		    item->opcode == RDMAP_SEND_SE_INVALIDATE)
			line_say(l, ", invalidates STag 0x%08" PRIx32, item->stag);
		break;
	}
}

void dump_item_words(const struct mpa_dissect *d, const struct mpa_item *item, char *text,
		     size_t length)
{
	struct line l = { .at = text, .room = length };

	if (length > 0)
		*text = 0;
	if (item->kind == MPA_ITEM_START)
		say_start(&l, d, item);
	else if (item->kind == MPA_ITEM_MESSAGE)
		say_message(&l, item);
}
