/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/push_words.h"

#include <inttypes.h>
#include <string.h>

#include "cmd/line.h"
#include "wire/push_msg.h"

enum {
	ENTRIES_SAID = 4, /* of each message */
	TAIL_BYTES = 24	  /* number and seal of a session: docs/wire/rio.md */
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

static bool is_end(const struct push_ends *ends, const struct roce_item *item)
{
	for (uint32_t i = 0; i < ends->count; i++) {
		if (ends->all[i].qp == item->packet.dest_qp &&
		    ends->all[i].at.version == item->to.version &&
		    memcmp(ends->all[i].at.addr, item->to.addr, sizeof(item->to.addr)) == 0)
			return true;
	}
	return false;
}

static void end_note(struct push_ends *ends, const struct roce_item *item)
{
	if (ends->count == PUSH_ENDS_MAX || is_end(ends, item))
		return;
	ends->all[ends->count].at = item->to;
	ends->all[ends->count++].qp = item->packet.dest_qp;
}

void push_item_words(struct push_ends *ends, const struct roce_item *item, char *text,
		     size_t length)
{
	const struct iba_packet *p = &item->packet;
	struct line l = { text, length };
	struct push_immediate used;
	struct push_msg m;

	text[0] = 0;
	if (!item->is_decoded || *item->fault)
		return;
	if (p->opcode == IBA_SEND_ONLY && p->payload_bytes > TAIL_BYTES &&
	    push_msg_decode(&m, p->payload, p->payload_bytes - TAIL_BYTES) == WEFT_OK) {
		end_note(ends, item);
		say_message(&l, &m);
	} else if ((p->opcode == IBA_WRITE_ONLY_IMM || p->opcode == IBA_WRITE_LAST_IMM) &&
		   is_end(ends, item)) {
		used = push_immediate_decode(p->imm);
		line_say(&l,
			 "card: pushes (%" PRIu32 ",%" PRIu32 ",%" PRIu32 "): pool %" PRIu32
			 ", element %" PRIu32 ", %" PRIu32 " bytes",
			 used.pool, used.element, used.element_bytes, used.pool, used.element,
			 used.element_bytes);
	}
}
