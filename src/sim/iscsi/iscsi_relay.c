/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an end sends is gathered to whole PDUs, which are judged, and pass in their order; but a
 * Data-In without status, an R2T, and data that an R2T asked for may come behind PDUs of other
 * tasks: either side may work on its tasks in any order.
 */
#include <string.h>

#include "base/check.h"
#include "sim/iscsi/iscsi_world.h"

enum { HOLD_NS = 300000 };

static uint32_t whole_bytes(const struct isw_link *l, const struct isw_pdu *p)
{
	const struct isw_wire *wire = &l->wire;

	return iscsi_pdu_bytes(p->bytes, wire->is_full && wire->keys.has_header_digest,
			       wire->is_full && wire->keys.has_data_digest);
}

/* Behind the answer to task management nothing comes of the tasks that it has ended. */
static bool can_overtake(const struct isw_pdu *p)
{
	uint8_t opcode = p->bytes[0] & 0x3f;

	return opcode != ISCSI_TASK_RESPONSE && opcode != ISCSI_REJECT;
}

/* The last PDU is overtaken by nothing; it overtakes those that can wait, if they are of others. */
static void overtake(struct isw_link *l, struct isw_end *e)
{
	struct iscsi_world *w = l->world;
	uint32_t at = e->count - 1, last = e->order[at];

	while (at > 0 && can_overtake(&e->pdus[last]) && isw_chance(w, w->limits.overtake_ppm)) {
		const struct isw_pdu *before = &e->pdus[e->order[at - 1]];

		if (!before->can_wait || before->sent > 0 || before->itt == e->pdus[last].itt)
			return;
		isw_trace(w, ISW_TRACE_OVERTAKEN, l->id, before->bytes[0] & 0x3f, before->itt);
		w->overtaken++;
		e->order[at] = e->order[at - 1];
		e->order[--at] = last;
	}
}

/* A place that no PDU has. */
static uint32_t free_place(const struct isw_end *e)
{
	uint32_t used = 0, place = 0;

	for (uint32_t i = 0; i < e->count; i++)
		used |= 1U << e->order[i];
	while (used & 1U << place)
		place++;
	CHECK(place < ISW_PDUS);
	return place;
}

static void whole(struct isw_link *l, enum iscsi_side side)
{
	struct iscsi_world *w = l->world;
	struct isw_end *e = &l->ends[side];
	uint32_t place = free_place(e);
	struct isw_pdu *p = &e->pdus[place];

	p->length = e->in.length;
	p->sent = 0;
	memcpy(p->bytes, e->in.bytes, e->in.length);
	e->in.length = 0;
	p->can_wait = isw_wire_take(l, side, p);
	p->itt = (uint32_t)p->bytes[16] << 24 | (uint32_t)p->bytes[17] << 16 |
		 (uint32_t)p->bytes[18] << 8 | p->bytes[19];
	e->order[e->count++] = place;
	e->is_held = false;
	overtake(l, e);
	if (e->count == 1 && p->can_wait && isw_chance(w, w->limits.overtake_ppm)) {
		e->is_held = true;
		world_alarm_set(&w->world, &e->hold, w->world.now_ns + 1 + isw_draw_ns(w, HOLD_NS));
	}
}

size_t isw_relay_take(struct isw_link *l, enum iscsi_side side, const uint8_t *bytes, size_t length)
{
	struct isw_end *e = &l->ends[side];
	struct isw_pdu *in = &e->in;
	size_t done = 0;

	while (done < length && e->count < ISW_PDUS) {
		uint32_t end = in->length < ISCSI_BHS_BYTES ? ISCSI_BHS_BYTES : whole_bytes(l, in);
		size_t n = end - in->length;

		if (end > ISW_PDU_BYTES) {
			isw_fail(l->world, "link %u: a PDU of %u bytes", l->id, end);
			return length;
		}
		if (n > length - done)
			n = length - done;
		memcpy(in->bytes + in->length, bytes + done, n);
		in->length += (uint32_t)n;
		done += n;
		if (in->length >= ISCSI_BHS_BYTES && in->length == whole_bytes(l, in))
			whole(l, side);
	}
	return done;
}

void isw_relay_pass(struct isw_link *l, enum iscsi_side side)
{
	struct isw_end *e = &l->ends[side];

	while (e->count > 0 && !e->is_held && !e->is_blocked && e->out.state == SIM_STREAM_OPEN) {
		struct isw_pdu *p = &e->pdus[e->order[0]];
		size_t n;

		if (sim_stream_send(&e->out, p->bytes + p->sent, p->length - p->sent, &n) ==
		    SIM_STREAM_RESET)
			return;
		p->sent += (uint32_t)n;
		if (p->sent < p->length) {
			e->is_blocked = true;
			return;
		}
		e->count--;
		memmove(&e->order[0], &e->order[1], e->count * sizeof(e->order[0]));
	}
	if (e->count > 0 || !e->is_closing || e->is_closed || e->is_blocked)
		return;
	/* A process that ends in the middle of a PDU has sent the beginning of it. */
	if (e->in.length > 0 && e->out.state == SIM_STREAM_OPEN) {
		size_t n;

		(void)sim_stream_send(&e->out, e->in.bytes, e->in.length, &n);
	}
	sim_stream_close(&e->out);
	e->is_closed = true;
}
