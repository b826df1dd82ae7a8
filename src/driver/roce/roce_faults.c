/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WEFT_FAULTS for packets: drops, duplicates, corrupts or delays them between the sockets and the
 * core. Each direction has its own dice, drawn once for each packet and kind of fault. A capture
 * shows the packets at the sockets: outgoing ones after faults, incoming ones before.
 */
#include "driver/roce/roce_faults.h"

#include <stdlib.h>
#include <string.h>

#include "driver/roce/roce_packets.h"
#include "wire/iba_icrc.h"

enum {
	HELD_MAX = 64,	/* packets delayed at a time */
	UNGUARDED = 4,	/* the byte of the BTH that the ICRC does not cover */
	FLIPS_MAX = 64, /* tries to find a bit that the ICRC detects */
	IN = 0,
	OUT = 1
};

/* A reordered packet is released after this time if no packet follows. */
static const uint64_t reorder_ns = 1000 * 1000;

/* A delayed packet: a copy. */
struct held {
	struct list link; /* of held, or of spare */
	uint64_t due_ns;
	bool is_outgoing;
	bool is_for_next; /* until the next one has passed */
	struct ib_in in;
	struct ib_path path;
	uint16_t ipv4_id;
	uint8_t ecn;
	size_t length;
	uint8_t bytes[IBA_PACKET_MAX];
};

struct roce_faults {
	struct fault_dice dice[2]; /* of what comes, and of what goes */
	uint32_t fate;		   /* of the first packet that the socket had no room for */
	bool is_drawn;
	uint64_t due_ns;
	struct list held, spare;
	struct held pool[HELD_MAX];
	uint8_t damaged[IBA_PACKET_MAX];
	struct ib_out out; /* of a copy */
};

enum weft_reason roce_faults_open(struct roce *r)
{
	const struct fault_plan *plan = r->net->adapter->core.faults;
	struct roce_faults *f;

	if (!plan || !fault_plan_has_packets(plan))
		return WEFT_OK;
	f = r->faults = calloc(1, sizeof(*f));
	if (!f)
		return WEFT_R_NO_MEMORY;
	fault_dice_init(&f->dice[IN], plan, UINT64_MAX);
	fault_dice_init(&f->dice[OUT], plan, UINT64_MAX - 1);
	f->due_ns = UINT64_MAX;
	list_init(&f->held);
	list_init(&f->spare);
	for (int i = 0; i < HELD_MAX; i++) {
		list_init(&f->pool[i].link);
		list_add_tail(&f->spare, &f->pool[i].link);
	}
	return WEFT_OK;
}

/* ---- Fates ---------------------------------------------------------------------------------- */

static bool is_fated(uint32_t fate, enum fault fault)
{
	return fate & 1U << fault;
}

/* Draws all dice: a kind of fault hits the same packets whichever other kinds are enabled. */
static uint32_t draw(struct roce *r, int way)
{
	const struct fault_plan *plan = r->net->adapter->core.faults;
	uint32_t fate = 0;

	for (enum fault i = FAULT_LOSS; i <= FAULT_DELAY; i++) {
		if (fault_falls(plan, &r->faults->dice[way], i))
			fate |= 1U << i;
	}
	return fate;
}

/* in NULL: outgoing, whose queue pair is not known here. */
static void made(struct roce *r, enum fault fault, const struct ib_in *in)
{
	uint32_t number = in ? iba_dest_number(in->bytes, in->length) : 0;

	adapter_fault_made(&r->net->adapter->core, fault, number);
}

/*
 * Flips a bit such that the ICRC detects it: the receiver does not know the identification of an
 * IPv4 packet, so its ICRC detects not every flip (iba_icrc.h). False: the ICRC is invalid already.
 */
static bool damage(struct roce *r, int way, const struct iba_icrc_ip *ip, uint8_t *bytes,
		   size_t length)
{
	/* A generator of its own: the number of draws depends on the packet. */
	struct prng where = { prng_next(&r->faults->dice[way].of[FAULT_CORRUPT]) };
	uint32_t word;

	if (!iba_icrc_find_word(ip, bytes, length, &word))
		return false;
	for (int i = 0; i < FLIPS_MAX; i++) {
		size_t at = prng_below(&where, (uint32_t)length);
		uint8_t bit = (uint8_t)(1U << prng_below(&where, 8));

		if (at == UNGUARDED)
			continue;
		bytes[at] ^= bit;
		if (!iba_icrc_find_word(ip, bytes, length, &word))
			return true;
		bytes[at] ^= bit;
	}
	return false;
}

/* ---- Held back ------------------------------------------------------------------------------ */

static void find_due(struct roce_faults *f)
{
	f->due_ns = UINT64_MAX;
	for (struct list *at = f->held.next; at != &f->held; at = at->next) {
		const struct held *h = CONTAINER_OF(at, struct held, link);

		f->due_ns = h->due_ns < f->due_ns ? h->due_ns : f->due_ns;
	}
}

/* A slot for a packet to be delayed; NULL: it is not to be, or no slot is free. */
static struct held *hold(struct roce *r, uint32_t fate, bool is_outgoing)
{
	struct roce_faults *f = r->faults;
	bool is_late = is_fated(fate, FAULT_DELAY);
	struct held *h;

	if ((!is_late && !is_fated(fate, FAULT_REORDER)) || list_is_empty(&f->spare))
		return NULL;
	h = CONTAINER_OF(list_pop(&f->spare), struct held, link);
	h->due_ns = r->net->now_ns +
		    (is_late ? r->net->adapter->core.faults->delay_ns : reorder_ns);
	h->is_outgoing = is_outgoing;
	h->is_for_next = !is_late;
	list_add_tail(&f->held, &h->link);
	find_due(f);
	return h;
}

static enum fault kind_of(const struct held *h)
{
	return h->is_for_next ? FAULT_REORDER : FAULT_DELAY;
}

static void flatten(const struct span_list *l, uint8_t *bytes)
{
	for (uint32_t i = 0; i < l->count; i++) {
		memcpy(bytes, l->spans[i].bytes, l->spans[i].length);
		bytes += l->spans[i].length;
	}
}

/* The copy of a packet, to be sent by that path. */
static struct ib_out *copy_out(struct roce_faults *f, const struct ib_path *path, uint8_t *bytes,
			       size_t length)
{
	f->out.path = path;
	f->out.has_icrc = true; /* see ib_port_set_near_icrc() */
	f->out.spans = (struct span_list){ .count = 1, .length = length };
	f->out.spans.spans[0] = (struct span){ bytes, length };
	return &f->out;
}

/* A packet for which the socket has no room is lost, as on any network. */
static void release(struct roce *r, struct held *h)
{
	struct roce_faults *f = r->faults;
	struct udp_batch one = { .outs = &f->out, .count = 1 };

	list_remove(&h->link);
	find_due(f);
	if (h->is_outgoing) {
		(void)copy_out(f, &h->path, h->bytes, h->length);
		f->out.ipv4_id = h->ipv4_id;
		f->out.ecn = h->ecn;
		(void)roce_send(r, &one);
	} else {
		h->in.bytes = h->bytes;
		(void)roce_take(r, &h->in);
	}
	list_add_tail(&f->spare, &h->link);
}

/* A packet has passed: releases the reordered ones after it. */
static void release_overtaken(struct roce *r, bool is_outgoing)
{
	struct list *at = r->faults->held.next;

	/* Bound: what was held before; releasing holds nothing new. */
	while (at != &r->faults->held) {
		struct held *h = CONTAINER_OF(at, struct held, link);

		at = at->next;
		if (h->is_for_next && h->is_outgoing == is_outgoing)
			release(r, h);
	}
}

uint64_t roce_faults_due(const struct roce *r)
{
	return r->faults->due_ns;
}

void roce_faults_expire(struct roce *r, uint64_t now_ns)
{
	struct list *at = r->faults->held.next;

	while (at != &r->faults->held) {
		struct held *h = CONTAINER_OF(at, struct held, link);

		at = at->next;
		if (h->due_ns <= now_ns)
			release(r, h);
	}
}

/* ---- In ------------------------------------------------------------------------------------- */

/* The packet, or its damaged copy. */
static void damage_in(struct roce *r, struct ib_in *in)
{
	const struct iba_icrc_ip ip = { in->is_ipv6, &in->from, &in->to, 0, 0 };
	uint8_t *bytes = r->faults->damaged;

	if (in->has_no_icrc) { /* of a peer without faults: it is dropped for that */
		in->has_no_icrc = false;
		made(r, FAULT_CORRUPT, in);
		return;
	}
	memcpy(bytes, in->bytes, in->length);
	if (!damage(r, IN, &ip, bytes, in->length))
		return;
	made(r, FAULT_CORRUPT, in);
	in->bytes = bytes;
}

void roce_faults_take(struct roce *r, const struct ib_in *come)
{
	uint32_t fate = draw(r, IN);
	struct ib_in in = *come;
	struct held *h;

	if (is_fated(fate, FAULT_LOSS)) {
		made(r, FAULT_LOSS, &in);
		return;
	}
	if (in.length > IBA_PACKET_MAX) { /* no valid packet: the core drops it */
		(void)roce_take(r, &in);
		return;
	}
	if (is_fated(fate, FAULT_CORRUPT))
		damage_in(r, &in);
	h = hold(r, fate, false);
	if (h) {
		made(r, kind_of(h), &in);
		h->in = in;
		memcpy(h->bytes, in.bytes, in.length);
	} else {
		(void)roce_take(r, &in);
	}
	if (is_fated(fate, FAULT_DUPLICATE)) {
		made(r, FAULT_DUPLICATE, &in);
		(void)roce_take(r, &in);
	}
	if (!h)
		release_overtaken(r, false);
}

/* ---- Out ------------------------------------------------------------------------------------ */

/* The packet, or its damaged copy. */
static struct ib_out *damage_out(struct roce *r, struct ib_out *out)
{
	const struct ib_path *path = out->path;
	const struct iba_icrc_ip ip = { path->is_ipv6, &path->from, &path->to, 0, 0 };
	uint8_t *bytes = r->faults->damaged;

	flatten(&out->spans, bytes);
	if (!damage(r, OUT, &ip, bytes, out->spans.length))
		return out;
	made(r, FAULT_CORRUPT, NULL);
	r->faults->out.ipv4_id = out->ipv4_id;
	r->faults->out.ecn = out->ecn;
	return copy_out(r->faults, path, bytes, out->spans.length);
}

static void keep(struct roce *r, struct held *h, const struct ib_out *out)
{
	made(r, kind_of(h), NULL);
	h->path = *out->path;
	h->ipv4_id = out->ipv4_id;
	h->ecn = out->ecn;
	h->length = out->spans.length;
	flatten(&out->spans, h->bytes);
}

/* False: the socket is full, and it is tried again. */
static bool send_one(struct roce *r, struct ib_out *out, uint32_t fate)
{
	struct udp_batch one = { .count = 1 };
	struct held *h;

	if (is_fated(fate, FAULT_LOSS)) {
		made(r, FAULT_LOSS, NULL);
		return true;
	}
	if (udp_is_blocked(r->udp) || r->is_near_full)
		return false;
	if (is_fated(fate, FAULT_CORRUPT))
		out = damage_out(r, out);
	one.outs = out;
	h = hold(r, fate, true);
	if (h)
		keep(r, h, out);
	else if (!roce_send(r, &one))
		return false;
	if (is_fated(fate, FAULT_DUPLICATE)) {
		made(r, FAULT_DUPLICATE, NULL);
		one = (struct udp_batch){ .outs = out, .count = 1 };
		(void)roce_send(r, &one);
	}
	if (!h)
		release_overtaken(r, true);
	return true;
}

bool roce_faults_send(struct roce *r, struct udp_batch *batch)
{
	struct roce_faults *f = r->faults;

	while (batch->done < batch->count) {
		if (!f->is_drawn)
			f->fate = draw(r, OUT);
		f->is_drawn = true;
		if (!send_one(r, &batch->outs[batch->done], f->fate))
			return false;
		f->is_drawn = false;
		batch->done++;
	}
	return true;
}
