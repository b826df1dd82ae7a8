/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/least.h"
#include "driver/fabric/fabric_hub_inside.h"
#include "driver/near/ring.h"
#include "driver/sys/clock.h"
#include "wire/flit.h"
#include "wire/ibcm.h"

enum {
	FRAMES_MAX = 64,    /* of an adapter at a time */
	GSI_SLOT_SHIFT = 24 /* of a communication id */
};

/* ---- Frames to adapters --------------------------------------------------------------------- */

/* It goes on when half of its ring is empty. */
static bool is_still(struct hub_adapter *a)
{
	if (a->is_still)
		a->is_still = hub_is_half_full(a);
	return a->is_still;
}

/* It has no room for a frame, which waits. */
static void hold_back(struct fabric_hub *h, struct hub_port *p, struct hub_adapter *a)
{
	p->is_refused = true;
	h->counts.held++;
	if (list_is_linked(&a->full))
		return;
	a->full_ns = clock_ns();
	list_add_tail(&h->full, &a->full);
}

static void untaken(struct fabric_hub *h, const struct hub_port *p)
{
	h->counts.untaken++;
	if (h->config.untaken)
		h->config.untaken(h->config.owner, p->node, p->port);
}

/* A record for a frame of this length, and its head. */
static uint8_t *record_begin(uint8_t *room, uint32_t length)
{
	const struct attach_head head = { .at = ATTACH_HEAD_BYTES, .length = length };

	memcpy(room, &head, sizeof(head));
	return room + ATTACH_HEAD_BYTES;
}

static void record_end(struct fabric_hub *h, struct hub_adapter *a, size_t all)
{
	list_remove(&a->full);
	ring_add(&a->out, all);
	h->counts.frames_out++;
	if (!list_is_linked(&a->touched))
		list_add_tail(&h->touched, &a->touched);
}

/* False: it has no room now. */
static bool give(struct fabric_hub *h, struct hub_port *p, struct hub_adapter *a,
		 const uint8_t *bytes, uint32_t length)
{
	size_t all = ATTACH_HEAD_BYTES + (size_t)length;
	uint8_t *room = ring_room(&a->out, all);

	if (a->out.is_broken)
		return true; /* and lost; its connection ends soon */
	if (is_still(a)) {
		untaken(h, p);
		return true;
	}
	if (!room && ring_await_room(&a->out, all)) {
		hold_back(h, p, a);
		return false;
	}
	room = room ? room : ring_room(&a->out, all);
	if (!room)
		return true;
	memcpy(record_begin(room, length), bytes, length);
	record_end(h, a, all);
	ring_show(&a->out);
	return true;
}

static void wake(struct hub_adapter *a)
{
	const struct attach_message m = attach_message_of(ATTACH_WAKE);

	hub_say(a, &m);
}

void fabric_hub_flush(struct fabric_hub *h)
{
	while (!list_is_empty(&h->touched)) {
		struct hub_adapter *a = CONTAINER_OF(list_pop(&h->touched), struct hub_adapter,
						     touched);

		if (ring_wakes_receiver(&a->out))
			wake(a);
	}
}

/* Where a frame's parts are. */
struct parts {
	struct iba_lrh lrh;
	const uint8_t *grh; /* NULL: it has none */
	const uint8_t *packet;
	uint32_t packet_bytes;
	uint32_t number; /* of the queue pair or context */
	bool is_raw;	 /* an IPv6 packet of no transport */
};

/* False: it is no packet of a transport. */
static bool parts_of(struct parts *p, const uint8_t *bytes, uint32_t length)
{
	uint32_t route;

	if (iba_lrh_decode(&p->lrh, bytes, length) != WEFT_OK)
		return false;
	if (p->lrh.next == IBA_NEXT_IPV6) {
		*p = (struct parts){ .lrh = p->lrh, .is_raw = true };
		return true;
	}
	p->is_raw = false;
	if (p->lrh.next != IBA_NEXT_BTH && p->lrh.next != IBA_NEXT_GRH)
		return false;
	p->grh = p->lrh.next == IBA_NEXT_GRH ? bytes + IBA_LRH_BYTES : NULL;
	route = p->grh ? IBA_LRH_BYTES + IBA_GRH_BYTES : IBA_LRH_BYTES;
	if (p->lrh.bytes < route + IBA_BTH_BYTES + IBA_ICRC_BYTES)
		return false;
	p->packet = bytes + route;
	p->packet_bytes = p->lrh.bytes - route;
	p->number = iba_dest_number(p->packet, p->packet_bytes);
	return true;
}

static bool is_multicast(const struct parts *p)
{
	return p->lrh.to >= IBA_LID_MULTICAST_MIN && p->lrh.to != IBA_LID_PERMISSIVE;
}

/* All that have joined get it, or none if one of them has no room. */
static enum fabric_hub_result give_group(struct fabric_hub *h, struct hub_port *p,
					 const struct parts *parts, const uint8_t *bytes,
					 uint32_t length)
{
	const uint8_t *gid = parts->grh ? parts->grh + IBA_GRH_BYTES - IBA_GID_BYTES : NULL;

	for (int is_given = 0; gid && is_given < 2; is_given++) {
		for (struct list *at = p->adapters.next; at != &p->adapters; at = at->next) {
			struct hub_adapter *a = hub_adapter_at(at);
			size_t all = ATTACH_HEAD_BYTES + (size_t)length;

			if (!hub_is_member(a, gid))
				continue;
			if (is_given) {
				(void)give(h, p, a, bytes, length);
			} else if (!is_still(a) && !ring_room(&a->out, all) &&
				   ring_await_room(&a->out, all)) {
				hold_back(h, p, a);
				return FABRIC_HUB_NO_ROOM;
			}
		}
	}
	return FABRIC_HUB_TAKEN;
}

/* Whose a message of connection management is; NULL: no adapter's, or it is none. */
static struct hub_adapter *manager_of(struct hub_port *p, const struct parts *parts)
{
	struct iba_packet packet;
	struct ibcm_msg m;

	if (iba_decode(&packet, parts->packet, parts->packet_bytes) != WEFT_OK ||
	    ibcm_decode(&m, packet.payload, packet.payload_bytes) != WEFT_OK)
		return NULL;
	switch (m.kind) {
	case IBCM_REQ:
		return hub_service_find(p, m.req.service_id);
	case IBCM_SIDR_REQ:
		return hub_service_find(p, m.sidr_req.service_id);
	case IBCM_SIDR_REP:
		return hub_slot_find(p, m.sidr_rep.request_id >> GSI_SLOT_SHIFT);
	default:
		return hub_slot_find(p, m.remote_id >> GSI_SLOT_SHIFT);
	}
}

/* A request for a service that no adapter has: one of them answers, that it has it not. */
static bool is_management(const struct parts *p)
{
	struct iba_packet packet;
	struct mad m;

	return iba_decode(&packet, p->packet, p->packet_bytes) == WEFT_OK &&
	       mad_decode(&m, packet.payload, packet.payload_bytes) == WEFT_OK &&
	       m.mgmt_class == MAD_CM;
}

static enum fabric_hub_result deliver(struct fabric_hub *h, struct hub_port *p,
				      const struct parts *parts, const uint8_t *bytes,
				      uint32_t length)
{
	struct hub_adapter *a;

	if (is_multicast(parts) && parts->number == IBA_QPN_MULTICAST)
		return give_group(h, p, parts, bytes, length);
	if (parts->is_raw) {
		a = hub_service_find(p, ATTACH_SERVICE_RAW);
	} else if (parts->number == IBA_QPN_GSI) {
		if (!is_management(parts))
			return FABRIC_HUB_OTHER;
		a = manager_of(p, parts);
		if (!a && !list_is_empty(&p->adapters))
			a = hub_adapter_at(p->adapters.next);
	} else {
		a = hub_slot_of_node(h, p->node, parts->number >> 16);
	}
	if (a)
		return give(h, p, a, bytes, length) ? FABRIC_HUB_TAKEN : FABRIC_HUB_NO_ROOM;
	h->counts.lost++;
	return FABRIC_HUB_TAKEN;
}

enum fabric_hub_result fabric_hub_deliver(struct fabric_hub *h, uint32_t node, uint32_t port,
					  const uint8_t *bytes, uint32_t length)
{
	struct hub_port *p = hub_port_find(h, node, port);
	struct parts parts;

	if (!parts_of(&parts, bytes, length) || (parts.number == 0 && !parts.is_raw))
		return FABRIC_HUB_OTHER;
	if (p)
		return deliver(h, p, &parts, bytes, length);
	if (parts.number == IBA_QPN_GSI)
		return FABRIC_HUB_OTHER;
	h->counts.lost++;
	return FABRIC_HUB_TAKEN;
}

/* Adapters of a node may go on to send. */
static void unblock(struct fabric_hub *h, uint32_t node)
{
	struct list *ports = node < h->config.nodes ? &h->nodes[node] : NULL;

	for (struct list *l = ports ? ports->next : NULL; l && l != ports; l = l->next) {
		struct list *adapters = &CONTAINER_OF(l, struct hub_port, link)->adapters;

		for (struct list *at = adapters->next; at != adapters; at = at->next) {
			if (hub_adapter_at(at)->is_blocked)
				hub_activate(h, hub_adapter_at(at));
		}
	}
	for (struct list *l = h->leaving.next; l != &h->leaving; l = l->next) {
		if (hub_adapter_at(l)->is_blocked && hub_adapter_at(l)->port->node == node)
			hub_activate(h, hub_adapter_at(l));
	}
}

bool fabric_hub_ready(struct fabric_hub *h, uint32_t *node, uint32_t *port)
{
	struct hub_port *p;

	if (list_is_empty(&h->ready))
		return false;
	p = CONTAINER_OF(list_pop(&h->ready), struct hub_port, ready);
	p->is_refused = false;
	*node = p->node;
	*port = p->port;
	unblock(h, p->node); /* by their own port, that they send to */
	return true;
}

/* ---- Frames of adapters --------------------------------------------------------------------- */

void fabric_hub_room(struct fabric_hub *h, uint32_t node, uint32_t port)
{
	(void)port; /* they may send by any */
	unblock(h, node);
}

static bool is_own_lid(const struct hub_port *p, uint16_t lid)
{
	uint16_t mask = (uint16_t)((1U << p->state.info.lmc) - 1);

	return p->state.info.lid != IBA_LID_NONE &&
	       (lid & (uint16_t)~mask) == (p->state.info.lid & (uint16_t)~mask);
}

/* IBA 7.2: a port that is not Active sends no data; none sends in the name of another. */
static bool may_post(const struct hub_port *p, const uint8_t *bytes, uint32_t length,
		     struct parts *parts)
{
	return parts_of(parts, bytes, length) && (parts->number != 0 || parts->is_raw) &&
	       parts->lrh.to != IBA_LID_NONE && parts->lrh.to != IBA_LID_PERMISSIVE &&
	       p->state.info.state == SM_PORT_ACTIVE && is_own_lid(p, parts->lrh.from);
}

/* FAB-21: a node's adapters send by any of its ports: by the one that has the LID. */
static struct hub_port *sender(struct fabric_hub *h, struct hub_port *first, uint16_t from)
{
	struct list *ports = &h->nodes[first->node];

	for (struct list *l = ports->next; l != ports; l = l->next) {
		struct hub_port *p = CONTAINER_OF(l, struct hub_port, link);

		if (is_own_lid(p, from))
			return p;
	}
	return first;
}

/* A port does not send to itself by its link. False: there is no room now. */
static bool post(struct fabric_hub *h, struct hub_adapter *a, uint8_t *bytes, uint32_t length)
{
	struct hub_port *p = a->port;
	struct parts parts;

	if (parts_of(&parts, bytes, length))
		p = sender(h, p, parts.lrh.from);
	if (!may_post(p, bytes, length, &parts)) {
		h->counts.refused++;
		if (h->config.refused)
			h->config.refused(h->config.owner, p->node, p->port);
		return true;
	}
	bytes[0] &= 0xf; /* its lane is the port's to choose */
	if (is_own_lid(p, parts.lrh.to))
		return deliver(h, p, &parts, bytes, length) != FABRIC_HUB_NO_ROOM;
	if (!h->config.post(h->config.owner, p->node, p->port, bytes, length))
		return false;
	if (is_multicast(&parts))
		(void)deliver(h, p, &parts, bytes, length);
	return true;
}

/* The next frame where its adapter has put it, and may still change it. 0: there is none. */
static uint32_t frame_find(struct hub_adapter *a, const uint8_t **frame, size_t *record)
{
	const uint8_t *bytes;
	size_t length = ring_peek(&a->in, &bytes);
	struct attach_head head;

	if (length < sizeof(head)) {
		a->in.is_broken |= length > 0;
		return 0;
	}
	memcpy(&head, bytes, sizeof(head));
	if (head.at < ATTACH_HEAD_BYTES || head.at > ATTACH_RECORD_MAX || head.length == 0 ||
	    head.length > IBA_FRAME_MAX || (size_t)head.at + head.length > length) {
		a->in.is_broken = true;
		return 0;
	}
	*frame = bytes + head.at;
	*record = head.at + head.length;
	__builtin_prefetch(bytes + ring_round(*record)); /* the next one's headers */
	__builtin_prefetch(bytes + ring_round(*record) + RING_LINE_BYTES);
	return head.length;
}

/* ---- Frames that cross at once -------------------------------------------------------------- */

enum {
	/* Headers that are looked at, as a copy that no adapter can change; the rest is not. */
	HEADERS_BYTES = 80,
	/* An adapter that polls looks at the counter that tells of frames: it is seldom written. */
	SHOWN_TOGETHER = 8
};

_Static_assert((int)HEADERS_BYTES >=
		       (int)IBA_LRH_BYTES + (int)IBA_GRH_BYTES + (int)IBA_BTH_BYTES + 4,
	       "RD has a header more");

/* Frames of an adapter that go the same way, one after the other. */
struct run {
	struct hub_adapter *to; /* NULL: none does */
	struct fabric_hub_way way;
	uint16_t lid_from, lid_to, p_key;
	uint8_t level, slot;
	uint64_t frames, words, flits; /* that crossed */
	uint32_t unshown;	       /* of these, to the adapter */
};

static void run_end(struct fabric_hub *h, struct run *r)
{
	if (r->to && r->unshown > 0)
		ring_show(&r->to->out);
	if (r->frames > 0)
		h->config.crossed(h->config.owner, r->frames, r->words, r->flits);
	h->counts.crossed += r->frames;
	*r = (struct run){ .to = NULL };
}

static bool is_of_run(const struct run *r, const struct parts *p, uint16_t p_key)
{
	return r->to && p->lrh.to == r->lid_to && p->lrh.from == r->lid_from &&
	       p->lrh.level == r->level && p->number >> 16 == r->slot && p_key == r->p_key;
}

/* False: the frame has to be posted. */
static bool run_begin(struct fabric_hub *h, struct hub_adapter *a, const uint8_t *headers,
		      uint32_t length, struct run *r)
{
	struct hub_port *p = a->port;
	struct parts parts;

	if (parts_of(&parts, headers, length))
		p = sender(h, p, parts.lrh.from);
	r->way = (struct fabric_hub_way){ .node = p->node, .port = p->port };
	if (!may_post(p, headers, length, &parts) || is_own_lid(p, parts.lrh.to) ||
	    !h->config.cross(h->config.owner, headers, length, &r->way))
		return false;
	r->to = hub_slot_of_node(h, r->way.node, parts.number >> 16);
	r->lid_from = parts.lrh.from;
	r->lid_to = parts.lrh.to;
	r->level = parts.lrh.level;
	r->slot = (uint8_t)(parts.number >> 16);
	r->p_key = iba_p_key(parts.packet);
	return r->to != NULL;
}

/*
 * From ring to ring, without a copy in between: it is for an adapter that has room, and nothing is
 * on its way before it. False: it has to be posted.
 */
static bool frame_cross(struct fabric_hub *h, struct hub_adapter *a, const uint8_t *frame,
			uint32_t length, struct run *r)
{
	uint32_t known = length < HEADERS_BYTES ? length : (uint32_t)HEADERS_BYTES;
	size_t all = ATTACH_HEAD_BYTES + (size_t)length;
	uint8_t headers[HEADERS_BYTES] = { 0 }, *room;
	struct parts parts;

	if (!h->config.cross)
		return false;
	memcpy(headers, frame, known);
	if (!parts_of(&parts, headers, length) || parts.is_raw || parts.number <= IBA_QPN_GSI ||
	    parts.number == IBA_QPN_MULTICAST)
		return false;
	if (!is_of_run(r, &parts, iba_p_key(parts.packet))) {
		run_end(h, r);
		if (!run_begin(h, a, headers, length, r))
			return false;
	}
	if (length > r->way.bytes_max || r->to->out.is_broken)
		return false;
	room = ring_room(&r->to->out, all);
	if (!room)
		return false;
	room = record_begin(room, length);
	iba_lane_put(headers, r->way.lane);
	memcpy(room, headers, known);
	memcpy(room + known, frame + known, length - known);
	record_end(h, r->to, all);
	if (++r->unshown == SHOWN_TOGETHER) {
		ring_show(&r->to->out);
		r->unshown = 0;
	}
	r->frames++;
	r->words += length / 4;
	r->flits += flits_of(length);
	return true;
}

/* ---- Frames of adapters, one by one --------------------------------------------------------- */

/* One that is gone may still write to its ring: that is not taken. */
static void record_take(struct hub_adapter *a, size_t record)
{
	ring_take(&a->in, record);
	a->left -= least(a->left, ring_round(record));
	if (ring_wakes_sender(&a->in))
		wake(a);
}

/* What becomes of an adapter's ring: it has more, is looked at again, or its adapter wakes us. */
enum after { AFTER_MORE, AFTER_LOOK, AFTER_REST };

static enum after ring_empty(struct fabric_hub *h, struct hub_adapter *a)
{
	if (a->in.is_broken || a->out.is_broken || hub_is_gone(a))
		return AFTER_REST;
	if (h->is_awake)
		return AFTER_LOOK;
	return ring_rest(&a->in) || a->in.is_broken ? AFTER_REST : AFTER_MORE;
}

/* If it is posted, as a copy, which its adapter cannot change. False: there is no room now. */
static bool frame_move(struct fabric_hub *h, struct hub_adapter *a, const uint8_t *frame,
		       uint32_t length, struct run *r)
{
	uint8_t *room;

	if (frame_cross(h, a, frame, length, r))
		return true;
	run_end(h, r);
	room = h->config.room ? h->config.room(h->config.owner) : NULL;
	room = room ? room : h->frame;
	memcpy(room, frame, length);
	return post(h, a, room, length);
}

static enum after frames_move(struct fabric_hub *h, struct hub_adapter *a, struct run *r)
{
	size_t record = 0;

	for (int i = 0; i < FRAMES_MAX; i++) {
		const uint8_t *frame;
		uint32_t length;

		if (hub_is_gone(a) && a->left == 0)
			return AFTER_REST;
		length = frame_find(a, &frame, &record);
		if (length == 0)
			return i > 0 && h->is_awake ? AFTER_MORE : ring_empty(h, a);
		a->is_blocked = !frame_move(h, a, frame, length, r);
		if (a->is_blocked)
			return AFTER_REST;
		h->counts.frames_in++;
		record_take(a, record);
	}
	return AFTER_MORE;
}

static enum after frames_take(struct fabric_hub *h, struct hub_adapter *a)
{
	struct run r = { .to = NULL };
	enum after after = frames_move(h, a, &r);

	run_end(h, &r);
	return after;
}

bool hub_frames_take(struct fabric_hub *h)
{
	struct list turn;
	bool has_more = false;

	list_init(&turn);
	while (!list_is_empty(&h->active))
		list_add_tail(&turn, list_pop(&h->active));
	while (!list_is_empty(&turn)) {
		struct hub_adapter *a = CONTAINER_OF(list_pop(&turn), struct hub_adapter, active);
		enum after after = frames_take(h, a);

		if (after != AFTER_REST) {
			hub_activate(h, a);
			has_more |= after == AFTER_MORE;
		} else if (a->in.is_broken || a->out.is_broken) {
			h->counts.broken++;
			hub_adapter_end(h, a);
		} else if (hub_is_gone(a) && !a->is_blocked) {
			hub_adapter_end(h, a);
		}
	}
	return has_more;
}
