/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/draw.h"
#include "sim/cells/cells_inside.h"

enum { PPM = 1000000, QPN = 0x100 };

static uint32_t index_of(const struct cells_world *w, const struct cells_channel *c)
{
	return (uint32_t)(c - w->channels);
}

static void note(struct cells_world *w, const struct cells_channel *c, enum cells_trace kind,
		 uint64_t a, uint64_t b)
{
	trace_add(&w->net.world.trace, (struct trace_event){
					       .kind = (uint16_t)kind,
					       .who = index_of(w, c),
					       .a = a,
					       .b = b,
				       });
}

static void note_reason(struct cells_world *w, const struct cells_channel *c, enum cells_trace kind,
			uint64_t a, enum weft_reason reason)
{
	trace_add(&w->net.world.trace, (struct trace_event){
					       .kind = (uint16_t)kind,
					       .who = index_of(w, c),
					       .a = a,
					       .reason = (uint16_t)reason,
				       });
}

static uint8_t byte_of(const struct cells_world *w, const struct cells_channel *c, uint32_t packet,
		       uint32_t at)
{
	uint64_t of = w->seed + index_of(w, c) * UINT64_C(1000003) + packet;

	return (uint8_t)(prng_mix(of) >> at % 8 * 8 ^ at);
}

static struct push_cell_end end_of(uint32_t end, enum cells_kind kind)
{
	return (struct push_cell_end){ .mac = { 2, 0, 0, 0, 0, (uint8_t)end }, .qpn = QPN + kind };
}

/* ---- Out ------------------------------------------------------------------------------------ */

enum weft_reason cells_world_send(struct cells_world *w, struct cells_channel *c,
				  const struct cells_packet *packet)
{
	struct push_cell of = { .to = end_of(c->to, c->kind),
				.from = end_of(c->from, c->kind),
				.packet = c->sent,
				.packet_bytes = packet->bytes };
	enum weft_reason r;

	if (packet->is_write) {
		uint64_t offset = packet->is_forbidden ? CELLS_POOL_BYTES - 1
						       : packet->element * CELLS_ELEMENT_BYTES;

		of.is_write = true;
		of.address = cells_pool_address(c) + offset;
		of.handle = c->handle;
		of.has_immediate = packet->has_immediate;
		of.immediate = push_immediate_encode(
			&(struct push_immediate){ 0, packet->element, CELLS_ELEMENT_BYTES });
	}
	for (uint32_t i = 0; i < packet->bytes; i++)
		c->data[i] = byte_of(w, c, c->sent, i);
	r = push_cut_begin(&c->cut, &of, c->data, c->kind == CELLS_CONNECTED);
	if (r != WEFT_OK)
		return r;
	note(w, c, CELLS_TRACE_SENT, c->sent, packet->bytes);
	c->packets[c->sent++] = *packet;
	c->is_cutting = true;
	c->cell_bytes = c->cell_number = 0;
	w->packets++;
	return WEFT_OK;
}

void cells_begin(struct cells_world *w)
{
	struct cells_channel *c = &w->channels[prng_below(&w->prng, CELLS_CHANNELS)];
	struct cells_packet packet = { .element = prng_below(&w->prng, CELLS_ELEMENTS) };
	enum weft_reason r;

	packet.bytes = (uint32_t)ANY_OF(&w->prng, 0, 1, 255, 256, 257, 512, 700, 2049,
					CELLS_ELEMENT_BYTES);
	packet.is_write = c->kind == CELLS_CONNECTED && prng_below(&w->prng, 3) > 0;
	packet.has_immediate = packet.is_write && prng_below(&w->prng, 2) == 0;
	packet.is_forbidden = packet.is_write && packet.bytes > 1 &&
			      prng_below(&w->prng, PPM) < w->forbidden_ppm;
	if (c->from == c->to || c->from >= w->ends || c->to >= w->ends || c->is_cutting ||
	    c->sent == CELLS_PACKETS)
		return;
	r = cells_world_send(w, c, &packet);
	if (r == WEFT_OK)
		return;
	note_reason(w, c, CELLS_TRACE_REFUSED, c->sent, r);
	w->refused++;
	if (r != WEFT_R_PUSH_SINGLE_CELL || c->kind == CELLS_CONNECTED ||
	    packet.bytes <= PUSH_CELL_DATA)
		cells_fail(w, "a packet of %" PRIu32 " bytes was not cut", packet.bytes);
}

static enum cells_hurt hurt_draw(struct cells_world *w, const struct cells_channel *c)
{
	bool is_it = w->script_packet == c->sent - 1 && w->script_cell == c->cell_number;
	uint32_t lot;

	if (w->is_scripted)
		return is_it ? w->script : CELLS_WELL;
	lot = prng_below(&w->prng, PPM);
	if (lot < w->lost_ppm)
		return CELLS_LOST;
	return lot < w->lost_ppm + w->damaged_ppm ? CELLS_DAMAGED : CELLS_WELL;
}

/* Makes the next cell, and settles what becomes of it. False: the packet has no more. */
static bool cell_make(struct cells_world *w, struct cells_channel *c)
{
	struct wr to = wr_of(c->cell, sizeof(c->cell));
	enum cells_hurt hurt;

	/* Bound: the cells of the packet. */
	while (push_cut_next(&c->cut, &to)) {
		c->cell_bytes = (uint32_t)(to.at - c->cell);
		hurt = hurt_draw(w, c);
		if (hurt != CELLS_WELL) {
			note(w, c, CELLS_TRACE_HURT, c->sent - 1, c->cell_number);
			c->packets[c->sent - 1].is_hurt = true;
			w->hurt++;
		}
		c->cell_number++;
		if (hurt == CELLS_DAMAGED) {
			uint32_t bit = prng_below(&w->prng, 8 * c->cell_bytes);

			c->cell[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		if (hurt != CELLS_LOST)
			return true;
		to = wr_of(c->cell, sizeof(c->cell));
	}
	c->cell_bytes = 0;
	c->is_cutting = false;
	return false;
}

bool cells_go_on(struct cells_world *w, struct cells_channel *c)
{
	struct iba_frame f = { .lrh = { .from = cells_lid(c->from), .to = cells_lid(c->to) },
			       .packet = { .opcode = IBA_UD_SEND, .p_key = IBA_PKEY_DEFAULT } };
	uint8_t bytes[IBA_FRAME_MAX];

	if (!c->is_cutting || (c->cell_bytes == 0 && !cell_make(w, c)))
		return false;
	f.packet.dest_qp = QPN + c->kind;
	f.packet.src_qp = index_of(w, c);
	f.packet.payload = c->cell;
	f.packet.payload_bytes = c->cell_bytes;
	if (!fabric_net_post(&w->net, c->from, bytes, iba_frame_encode(&f, bytes)))
		return false;
	c->cell_bytes = 0;
	w->cells++;
	return true;
}

/* ---- In ------------------------------------------------------------------------------------- */

/* PUSH-14: the first cell is enough to check the whole Write. */
static bool is_write_good(struct cells_world *w, struct cells_channel *c,
			  const struct push_cell *first)
{
	struct cells_node *n = &w->nodes[c->to];
	const struct mem_access access = { .addr = first->address,
					   .length = first->packet_bytes,
					   .tag = first->handle,
					   .pd = n->pd->number,
					   .kind = MEM_REMOTE_WRITE };
	struct mem_grant grant;
	enum weft_reason r = mem_access_check(&n->adapter.mem, &access, &grant);

	if (r == WEFT_OK)
		return true;
	note_reason(w, c, CELLS_TRACE_REFUSED, first->packet, r);
	w->refused++;
	w->refused_for = r;
	if (!c->packets[first->packet].is_forbidden)
		cells_fail(w, "a Write of channel %" PRIu32 " that is allowed was refused",
			   index_of(w, c));
	return false;
}

static bool place_write(struct cells_world *w, struct cells_channel *c,
			const struct push_place *place, const uint8_t *data)
{
	struct cells_node *n = &w->nodes[c->to];
	const struct mem_access access = { .addr = place->first->address + place->offset,
					   .length = place->length,
					   .tag = place->first->handle,
					   .pd = n->pd->number,
					   .kind = MEM_REMOTE_WRITE };
	struct mem_grant grant;
	struct mem_span span;

	if (place->length == 0)
		return true;
	return mem_access_check(&n->adapter.mem, &access, &grant) == WEFT_OK &&
	       mem_grant_spans(&grant, &span, 1) == 1 && mem_span_write(&span, data);
}

/* PUSH-12: as the posted receive says. */
static void store(struct cells_world *w, struct cells_channel *c, const struct push_place *place,
		  const uint8_t *data)
{
	if (place->offset == 0)
		c->is_refusing = place->first->is_write && !is_write_good(w, c, place->first);
	if (c->is_refusing)
		return;
	if (place->first->is_write) {
		if (!place_write(w, c, place, data))
			cells_fail(w, "a cell was not placed");
	} else if (place->length > 0) {
		memcpy(c->received + place->offset, data, place->length);
	}
}

static void judge(struct cells_world *w, struct cells_channel *c, const struct push_place *place)
{
	uint32_t number = place->first->packet, index = index_of(w, c);
	struct cells_packet *p = &c->packets[number % CELLS_PACKETS];
	const uint8_t *data = c->received;

	if (number >= c->sent || number < c->next || p->has_come || p->is_hurt || p->is_forbidden) {
		cells_fail(w, "packet %" PRIu32 " of channel %" PRIu32 " came, which may not",
			   number, index);
		return;
	}
	if (p->is_write)
		data = c->pool + p->element * CELLS_ELEMENT_BYTES;
	for (uint32_t i = 0; i < p->bytes; i++) {
		if (data[i] != byte_of(w, c, number, i))
			cells_fail(w, "packet %" PRIu32 " of channel %" PRIu32 " is not the same",
				   number, index);
	}
	/* PUSH-23: idata to the buffer manager, the rest to the pool. */
	if (place->has_immediate != p->has_immediate ||
	    (p->has_immediate && push_immediate_decode(place->immediate).element != p->element))
		cells_fail(w, "packet %" PRIu32 " of channel %" PRIu32 " is told otherwise", number,
			   index);
	p->has_come = true;
	c->next = number + 1;
	w->came++;
	w->bytes += p->bytes;
	w->immediates += p->has_immediate;
	note(w, c, CELLS_TRACE_CAME, number, p->bytes);
}

static bool is_end(const struct push_cell_end *e, const struct push_cell_end *is)
{
	return e->qpn == is->qpn && memcmp(e->mac, is->mac, sizeof(e->mac)) == 0;
}

static void cell_came(struct cells_world *w, struct cells_channel *c, const uint8_t *bytes,
		      uint32_t length)
{
	const struct push_cell_end own = end_of(c->to, c->kind), other = end_of(c->from, c->kind);
	struct push_place place;
	struct push_cell cell;
	enum weft_reason r = push_cell_decode(&cell, bytes, length);

	if (r == WEFT_OK && (!is_end(&cell.to, &own) || !is_end(&cell.from, &other)))
		cells_fail(w, "endnode %" PRIu32 " got a cell of another", c->to);
	if (r == WEFT_OK)
		r = push_join_take(&c->join, &cell, &place);
	if (r != WEFT_OK) {
		note_reason(w, c, CELLS_TRACE_DROPPED, 0, r);
		w->dropped++;
		w->dropped_for = r;
		return;
	}
	store(w, c, &place, cell.data);
	if (place.is_whole && !c->is_refusing)
		judge(w, c, &place);
}

bool cells_take(struct cells_world *w, uint32_t end)
{
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = fabric_net_take(&w->net, end, bytes);
	struct iba_frame f;

	if (length == 0)
		return false;
	if (iba_frame_decode(&f, bytes, length) != WEFT_OK || f.lrh.to != cells_lid(end) ||
	    f.packet.src_qp >= CELLS_CHANNELS || w->channels[f.packet.src_qp].to != end)
		cells_fail(w, "endnode %" PRIu32 " got a frame that is none for it", end);
	else
		cell_came(w, &w->channels[f.packet.src_qp], f.packet.payload,
			  f.packet.payload_bytes);
	return true;
}

/* ---- Words ---------------------------------------------------------------------------------- */

bool cells_world_words(const struct trace_event *e, char *text, size_t size)
{
	static const struct {
		const char *what, *then;
	} words[CELLS_TRACE_END - CELLS_TRACE_SENT] = {
		[CELLS_TRACE_SENT - CELLS_TRACE_SENT] = { "sends packet", "of bytes" },
		[CELLS_TRACE_HURT - CELLS_TRACE_SENT] = { "loses or damages, of packet", "cell" },
		[CELLS_TRACE_DROPPED - CELLS_TRACE_SENT] = { "drops a cell", NULL },
		[CELLS_TRACE_REFUSED - CELLS_TRACE_SENT] = { "refuses packet", NULL },
		[CELLS_TRACE_CAME - CELLS_TRACE_SENT] = { "has whole packet", "of bytes" },
	};
	uint32_t kind = e->kind - (uint32_t)CELLS_TRACE_SENT, pair = e->who / CELLS_KINDS;
	int n;

	if (kind >= CELLS_TRACE_END - CELLS_TRACE_SENT)
		return false;
	n = snprintf(text, size, "%" PRIu32 " to %" PRIu32 "%s  %s", pair / CELLS_ENDS_MAX,
		     pair % CELLS_ENDS_MAX, e->who % CELLS_KINDS ? ", connectionless" : "",
		     words[kind].what);
	if (words[kind].then && n > 0 && (size_t)n < size)
		snprintf(text + n, size - (size_t)n, " %" PRIu64 ", %s %" PRIu64, e->a,
			 words[kind].then, e->b);
	return true;
}
