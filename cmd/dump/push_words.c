/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/push_words.h"

#include <inttypes.h>
#include <string.h>

#include "cmd/line.h"
#include "wire/push_msg.h"

enum {
	ENTRIES_SAID = 4, /* of each message */
	TAIL_BYTES = 24,  /* number and seal of a session: docs/wire/rio.md */
	STREAM = 1 << 30  /* with the number of a connection: no queue pair has it */
};

/* ---- Messages ------------------------------------------------------------------------------- */

static void say_pool(struct line *l, const struct push_pool *p)
{
	line_say(l,
		 " pool %" PRIu32 " of %" PRIu32 " elements of %" PRIu32
		 " bytes, handle 0x%08" PRIx32 " at 0x%" PRIx64,
		 p->index, p->elements, p->element_bytes, p->handle, p->address);
}

static void say_run(struct line *l, const struct push_run *r)
{
	if (r->count == 1)
		line_say(l, " pool %" PRIu32 " element %" PRIu32, r->pool, r->first);
	else
		line_say(l, " pool %" PRIu32 " elements %" PRIu32 " to %" PRIu32, r->pool, r->first,
			 r->first + r->count - 1);
}

static void say_entries(struct line *l, const struct push_msg *m, const struct push_entries *all)
{
	struct rd r = rd_of(all->bytes, PUSH_BODY_BYTES_MAX); /* counted, and checked */

	for (uint32_t i = 0; i < all->count && i < ENTRIES_SAID; i++) {
		struct push_pool pool;
		struct push_run run;
		struct push_used used;

		line_say(l, "%s", i > 0 ? "," : ":");
		if (m->function == PUSH_RECV_POOL) {
			pool = push_pool_next(&r);
			say_pool(l, &pool);
		} else if (m->function == PUSH_RECV_POOL_UPDATE) {
			run = push_run_next(&r);
			say_run(l, &run);
		} else if (m->function == PUSH_RDMA_INDICATE) {
			used = push_used_next(&r);
			line_say(l, " (%" PRIu32 ",%" PRIu32 ",%" PRIu32 "), %" PRIu32 " bytes",
				 used.pool, used.element, used.element_bytes, used.bytes);
		} else {
			line_say(l, " pool %" PRIu32, push_reference_next(&r));
		}
	}
	if (all->count > ENTRIES_SAID)
		line_say(l, ", and %" PRIu32 " more", all->count - ENTRIES_SAID);
}

static void say_cfg(struct line *l, const struct push_cfg *cfg)
{
	line_say(l, ": %s", push_kind_name(cfg->kind));
	if (cfg->reason != WEFT_OK)
		line_say(l, ", refused: %s", weft_reason_name((enum weft_reason)cfg->reason));
	else if (cfg->kind == PUSH_LINK)
		line_say(l, ", the LAN is %s", cfg->link.is_up ? "up" : "down");
	else if (cfg->kind == PUSH_HELLO)
		line_say(l, " of a %s, MTU %u", cfg->hello.role == PUSH_HOST ? "host" : "unit",
			 cfg->hello.mtu);
}

static void say_message(struct line *l, const struct push_msg *m)
{
	line_say(l, "card: %s", push_function_name(m->function));
	switch (m->function) {
	case PUSH_RECV_POOL:
		say_entries(l, m, &m->pools);
		break;
	case PUSH_RECV_POOL_UPDATE:
		say_entries(l, m, &m->runs);
		break;
	case PUSH_FLUSH_REQUEST:
	case PUSH_RELEASE_REQUEST:
		say_entries(l, m, &m->references);
		break;
	case PUSH_RDMA_INDICATE:
		say_entries(l, m, &m->used);
		break;
	case PUSH_RECV_POOL_GET:
		line_say(l, ": for %" PRIu32 " packets of %" PRIu32 " bytes", m->get.packets,
			 m->get.packet_bytes);
		break;
	case PUSH_SEND_DATA:
		line_say(l, ": a packet of %" PRIu32 " bytes", m->data.length);
		break;
	case PUSH_PULL:
		line_say(l, ":");
		say_run(l, &m->pull);
		break;
	case PUSH_CFG_REQUEST:
	case PUSH_CFG_REPLY:
		say_cfg(l, &m->cfg);
		break;
	case PUSH_FLUSH_REPLY:
	case PUSH_FUNCTION_COUNT:
		break;
	}
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static bool is_end(const struct push_ends *ends, const struct push_dest *dest)
{
	for (uint32_t i = 0; i < ends->count; i++) {
		if (ends->all[i].number == dest->number &&
		    ends->all[i].at.version == dest->at.version &&
		    memcmp(ends->all[i].at.addr, dest->at.addr, sizeof(dest->at.addr)) == 0)
			return true;
	}
	return false;
}

static void end_note(struct push_ends *ends, const struct push_dest *dest)
{
	if (ends->count < PUSH_ENDS_MAX && !is_end(ends, dest))
		ends->all[ends->count++] = *dest;
}

static void take_send(struct push_ends *ends, const struct push_dest *dest, struct rd bytes,
		      struct line *l)
{
	size_t length = (size_t)(bytes.end - bytes.at);
	struct push_msg m;

	if (length <= TAIL_BYTES || push_msg_decode(&m, bytes.at, length - TAIL_BYTES) != WEFT_OK)
		return;
	end_note(ends, dest);
	say_message(l, &m);
}

/* The first packet of a longer message has its header; what it is of is known by others before. */
static void take_first(const struct push_ends *ends, const struct push_dest *dest, struct rd bytes,
		       struct line *l)
{
	struct push_msg m = { 0 };

	if (!is_end(ends, dest))
		return;
	(void)push_msg_decode(&m, bytes.at, (size_t)(bytes.end - bytes.at));
	if (m.function > 0 && m.function < PUSH_FUNCTION_COUNT)
		line_say(l, "card: %s, in several packets", push_function_name(m.function));
}

static void take_immediate(const struct push_ends *ends, const struct push_dest *dest, uint32_t imm,
			   struct line *l)
{
	struct push_immediate used = push_immediate_decode(imm);

	if (is_end(ends, dest))
		line_say(l,
			 "card: pushes (%" PRIu32 ",%" PRIu32 ",%" PRIu32 "): pool %" PRIu32
			 ", element %" PRIu32 ", %" PRIu32 " bytes",
			 used.pool, used.element, used.element_bytes, used.pool, used.element,
			 used.element_bytes);
}

void push_item_words(struct push_ends *ends, const struct roce_item *item, char *text,
		     size_t length)
{
	const struct iba_packet *p = &item->packet;
	const struct push_dest dest = { item->to, p->dest_qp };
	struct line l = { text, length };

	text[0] = 0;
	if (!item->is_decoded || *item->fault)
		return;
	if (p->opcode == IBA_SEND_ONLY)
		take_send(ends, &dest, rd_of(p->payload, p->payload_bytes), &l);
	else if (p->opcode == IBA_SEND_FIRST)
		take_first(ends, &dest, rd_of(p->payload, p->payload_bytes), &l);
	else if (p->opcode == IBA_WRITE_ONLY_IMM || p->opcode == IBA_WRITE_LAST_IMM)
		take_immediate(ends, &dest, p->imm, &l);
}

void push_stream_words(struct push_ends *ends, const struct conversation *c,
		       const struct mpa_item *item, char *text, size_t length)
{
	const struct push_dest dest = { c->ends[!item->from], STREAM | c->number };
	struct line l = { text, length };

	text[0] = 0;
	if (item->kind != MPA_ITEM_MESSAGE || item->fault != MPA_FAULT_NONE)
		return;
	if ((item->opcode == RDMAP_SEND || item->opcode == RDMAP_SEND_SE) &&
	    item->data_bytes == item->bytes)
		take_send(ends, &dest, rd_of(item->data, item->data_bytes), &l);
	else if (item->opcode == RDMAP_IMMEDIATE || item->opcode == RDMAP_IMMEDIATE_SE)
		take_immediate(ends, &dest, (uint32_t)(item->body.immediate >> 32), &l);
}
