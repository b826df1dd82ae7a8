/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Portals of the iSCSI target by RDMA (iSER), on an adapter of their own. All connections share
 * the receives, and the slots of what is posted; they wait for each other's only as far as these
 * do not suffice.
 */
#include "roles/iscsi_iser.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/check.h"
#include "iscsi/target/target_iser.h"
#include "roles/iscsi_server_inside.h"
#include "roles/rdma_end.h"
#include "roles/rio_loop.h"

enum {
	BUCKETS = 256,	 /* of ends, by the number of their queue pair */
	RECEIVES = 1024, /* shared */
	SLOTS = 1024,	 /* the same, of Sends, Reads and Writes */
	SENDS_MAX = 128, /* of one connection */
	READS_MAX = 16,
	POSTING_MAX = 32, /* posted at once */
	BATCH = 16,	  /* what these lead to is sent before others are looked at */
};

/* A connection; freed when all that was posted has completed. */
struct iser_end {
	enum iscsi_source source; /* the owner of a connection of the core begins with it */
	struct iser_portals *portals;
	struct list link; /* of its bucket */
	struct rdma_end rdma;
	struct weft_qp *qp;
	struct iscsi_connection *core;
	uint32_t posted, reads; /* slots in use; Reads among them */
	struct list out;	/* these slots, as they were posted */
	bool is_starved;	/* it found no slot */
};

struct iser_buffer {
	uint8_t bytes[ISER_MESSAGE_MAX];
};

struct iser_slot {
	struct list link; /* free, or its end's */
	struct iser_end *end;
	uint64_t id;
	bool is_read;
	uint8_t message[ISER_ANSWER_MAX];
};

/* Requests that are posted together. */
struct posting {
	uint32_t count;
	struct weft_sge sges[POSTING_MAX];
	struct weft_send_wr wrs[POSTING_MAX];
};

struct iser_portals {
	struct iscsi_server *server;
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_srq *srq;
	uint32_t tag;
	struct rdma_listener listeners[ISCSI_CONFIG_PORTALS_MAX];
	uint32_t listener_count, end_count, starved;
	struct list ends[BUCKETS];
	struct list slots; /* free ones */
	struct iser_buffer *buffers;
	struct iser_slot *all_slots;
};

/* ---- Receives ------------------------------------------------------------------------------- */

static void buffer_post(struct iser_portals *p, struct iser_buffer *b)
{
	struct weft_sge sge = { (uintptr_t)b->bytes, ISER_MESSAGE_MAX, p->tag };
	const struct weft_recv_wr wr = { .id = (uint64_t)(b - p->buffers),
					 .sges = &sge,
					 .sge_count = 1 };

	CHECK(weft_srq_post_recv(p->srq, &wr, 1, NULL) == WEFT_OK);
}

/* ---- What the core wants done --------------------------------------------------------------- */

static void work_fill(struct iser_end *end, struct iser_slot *slot, const struct iser_work *w,
		      struct posting *posting)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND, WEFT_OP_WRITE, WEFT_OP_READ };
	struct weft_sge *sge = &posting->sges[posting->count];
	struct weft_send_wr *wr = &posting->wrs[posting->count];

	*sge = (struct weft_sge){ (uintptr_t)slot->message, w->length, end->portals->tag };
	*wr = (struct weft_send_wr){
		.id = (uint64_t)(slot - end->portals->all_slots) + RECEIVES,
		.opcode = opcodes[w->kind],
		/* The last of a posting says that the Writes before it are over, too. */
		.flags = w->kind == ISER_WRITE ? 0 : WEFT_SIGNALLED,
		.sges = sge,
		.sge_count = 1,
	};
	if (w->kind != ISER_SEND) {
		sge->addr = (uintptr_t)w->memory.bytes;
		sge->length = (uint32_t)w->memory.length;
		wr->remote_addr = w->remote_addr;
		wr->remote_tag = w->remote_tag;
	} else {
		wr->flags |= WEFT_SOLICITED;
	}
	posting->count++;
}

/* Takes one piece of work. False: there is none, or no slot for it. */
static bool work_take(struct iser_end *end, struct posting *posting)
{
	struct iser_portals *p = end->portals;
	struct iser_room room = { .can_read = end->reads < end->rdma.peer.reads_out };
	struct iser_slot *slot;
	struct iser_work work;

	if (end->posted == SENDS_MAX || posting->count == POSTING_MAX)
		return false;
	if (list_is_empty(&p->slots)) {
		p->starved += !end->is_starved;
		end->is_starved = true;
		return false;
	}
	slot = CONTAINER_OF(p->slots.next, struct iser_slot, link);
	room.message = slot->message;
	if (!iscsi_iser_next(end->core, &room, &work))
		return false;
	work_fill(end, slot, &work, posting);
	list_remove(&slot->link);
	list_add_tail(&end->out, &slot->link);
	slot->end = end;
	slot->id = work.id;
	slot->is_read = work.kind == ISER_READ;
	end->reads += slot->is_read;
	end->posted++;
	return true;
}

/* The work of this slot is over. */
static void slot_end(struct iser_slot *slot, enum weft_reason reason)
{
	struct iser_end *end = slot->end;
	struct iser_portals *p = end->portals;

	list_remove(&slot->link);
	list_push(&p->slots, &slot->link);
	end->posted--;
	end->reads -= slot->is_read;
	iscsi_iser_done(end->core, slot->id, reason, p->server->now_ns);
}

/* Posts what there is, as far as one posting goes. False: nothing, or not all of it. */
static bool work_post(struct iser_end *end)
{
	struct iser_portals *p = end->portals;
	struct posting posting; /* filled as far as it counts */
	uint32_t posted = 0;

	posting.count = 0;
	while (work_take(end, &posting))
		;
	if (posting.count == 0)
		return false;
	posting.wrs[posting.count - 1].flags |= WEFT_SIGNALLED;
	if (weft_qp_post_send(end->qp, posting.wrs, posting.count, &posted) == WEFT_OK)
		return true;
	/* The queue pair is in Error: its event comes. */
	for (; posted < posting.count; posted++)
		slot_end(&p->all_slots[posting.wrs[posted].id - RECEIVES], WEFT_R_PEER_GONE);
	return false;
}

static void end_free(struct iser_end *end)
{
	struct iser_portals *p = end->portals;
	uint32_t number = weft_qp_number(end->qp);

	if (end->core)
		iscsi_connection_destroy(end->core, p->server->now_ns);
	rdma_end_close(&end->rdma);
	CHECK(weft_qp_destroy(end->qp) == WEFT_OK);
	(void)weft_cq_forget(p->cq, number);
	list_remove(&end->link);
	p->starved -= end->is_starved;
	p->end_count--;
	free(end);
}

void iser_end_attend(struct iser_end *end)
{
	while (work_post(end))
		;
	if (iscsi_connection_action(end->core) == ISCSI_ACTION_NONE)
		return;
	rdma_end_close(&end->rdma);
	if (end->posted == 0)
		end_free(end);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static enum weft_reason core_open(struct iser_end *end, const struct rdma_peer *peer)
{
	struct iscsi_server *s = end->portals->server;
	char from[WEFT_ADDRESS_TEXT], at[WEFT_ADDRESS_TEXT];
	struct iscsi_accept a = { .peer = from, .local = at, .owner = end };
	enum weft_reason r;

	weft_address_text(&peer->local, at);
	weft_address_text(&peer->remote, from);
	randombytes_buf(a.random, sizeof(a.random));
	r = iscsi_node_accept_iser(s->node, &a, s->now_ns, &end->core);
	sodium_memzero(a.random, sizeof(a.random));
	return r;
}

static void end_accept(struct iser_portals *p, struct rdma_request *request)
{
	static const struct iser_private mine = { .lacks_zero_based = true,
						  .lacks_invalidate = true };
	uint8_t private_data[ISER_PRIVATE_BYTES];
	const struct rdma_terms terms = { .private_data = private_data,
					  .private_bytes = sizeof(private_data),
					  .reads_out = READS_MAX };
	struct weft_qp_options options = { .send_cq = p->cq,
					   .recv_cq = p->cq,
					   .srq = p->srq,
					   .service = WEFT_RC,
					   .send_max = SENDS_MAX };
	struct iser_end *end = calloc(1, sizeof(*end));

	if (!end) {
		rdma_request_reject(request);
		return;
	}
	iser_private_encode(&mine, private_data);
	end->source = ISCSI_SOURCE_ISER;
	end->portals = p;
	list_init(&end->out);
	rdma_end_init(&end->rdma, request->wire);
	options.context = &end->rdma.object;
	if (weft_qp_create(p->pd, &options, &end->qp) != WEFT_OK) {
		free(end);
		rdma_request_reject(request);
		return;
	}
	list_add_tail(&p->ends[weft_qp_number(end->qp) % BUCKETS], &end->link);
	p->end_count++;
	if (core_open(end, &request->peer) != WEFT_OK) {
		rdma_request_reject(request);
		end_free(end);
	} else if (rdma_request_accept(request, &end->rdma, end->qp, &terms) != WEFT_OK) {
		end_free(end);
	}
}

static struct iser_end *end_find(struct iser_portals *p, uint32_t qp_number)
{
	struct list *bucket = &p->ends[qp_number % BUCKETS];

	for (struct list *l = bucket->next; l != bucket; l = l->next) {
		struct iser_end *end = CONTAINER_OF(l, struct iser_end, link);

		if (weft_qp_number(end->qp) == qp_number)
			return end;
	}
	return NULL;
}

/* ---- What happens --------------------------------------------------------------------------- */

static void take_message(struct iser_portals *p, const struct weft_completion *c)
{
	struct iser_buffer *b = &p->buffers[c->id];
	struct iser_end *end = end_find(p, c->qp_number);

	if (end && c->status == WEFT_SUCCESS)
		iscsi_iser_received(end->core, b->bytes, c->byte_count, p->server->now_ns);
	buffer_post(p, b);
}

/* They complete in order, and of those before it none failed: that makes a completion. */
static void take_work(struct iser_portals *p, const struct weft_completion *c)
{
	struct iser_slot *slot = &p->all_slots[c->id - RECEIVES], *first;
	struct iser_end *end = slot->end;

	do {
		first = CONTAINER_OF(end->out.next, struct iser_slot, link);
		slot_end(first, first == slot && c->status != WEFT_SUCCESS ? c->reason : WEFT_OK);
	} while (first != slot);
	/* It may have waited for this; the core puts it on its list if there is something else. */
	iser_end_attend(end);
}

static void take_event(struct iser_portals *p, const struct weft_event *event)
{
	struct rdma_object *object = event->context;
	struct rdma_request request;

	if (!object)
		return;
	if (object->kind == RDMA_LISTENER) {
		struct rdma_listener *l = CONTAINER_OF(object, struct rdma_listener, object);

		while (rdma_listener_next(l, &request))
			end_accept(p, &request);
	} else if (object->kind == RDMA_END) {
		struct iser_end *end = CONTAINER_OF(object, struct iser_end, rdma.object);

		if (rdma_end_event(&end->rdma, event) && end->rdma.state == RDMA_DOWN)
			iscsi_iser_lost(end->core, end->rdma.reason, p->server->now_ns);
	}
}

/* Ends that found no slot, when there are some again. */
static void feed_starved(struct iser_portals *p)
{
	for (uint32_t i = 0; i < BUCKETS && p->starved > 0; i++) {
		struct list *l = p->ends[i].next;

		while (l != &p->ends[i]) {
			struct iser_end *end = CONTAINER_OF(l, struct iser_end, link);

			l = l->next;
			if (!end->is_starved || list_is_empty(&p->slots))
				continue;
			end->is_starved = false;
			p->starved--;
			iser_end_attend(end);
		}
	}
}

bool iser_portals_serve(struct iser_portals *p)
{
	struct weft_completion done[BATCH];
	struct weft_event event;
	uint32_t count = 0;
	bool has_event = false, has_any = false;

	(void)weft_cq_poll(p->cq, done, BATCH, &count);
	for (uint32_t i = 0; i < count; i++) {
		if (done[i].id < RECEIVES)
			take_message(p, &done[i]);
		else
			take_work(p, &done[i]);
	}
	while (weft_event_take(p->adapter, &event, &has_event) == WEFT_OK && has_event) {
		take_event(p, &event);
		has_any = true;
	}
	if (p->starved > 0 && !list_is_empty(&p->slots))
		feed_starved(p);
	return has_any || count > 0;
}

void iser_portals_wait(struct iser_portals *p, int fd, uint64_t timeout_ns)
{
	(void)weft_cq_wait(p->cq, fd, timeout_ns, NULL);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason adapter_open(struct iser_portals *p)
{
	const struct weft_cq_options cq = { .entries_max = 2 * (RECEIVES + SLOTS) };
	const struct weft_srq_options srq = { .recv_max = RECEIVES, .sges_max = 1 };
	const struct weft_region_options all = { .addr = PROCESS_FIRST,
						 .length = PROCESS_BYTES,
						 .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	enum weft_reason r = weft_adapter_open(NULL, &p->adapter);

	if (r == WEFT_OK)
		r = weft_pd_create(p->adapter, NULL, &p->pd);
	if (r == WEFT_OK)
		r = weft_region_register(p->pd, &all, &p->tag);
	if (r == WEFT_OK)
		r = weft_cq_create(p->adapter, &cq, &p->cq);
	if (r == WEFT_OK)
		r = weft_srq_create(p->pd, &srq, &p->srq);
	if (r == WEFT_OK)
		r = weft_adapter_drive(p->adapter, true);
	return r;
}

enum weft_reason iser_portals_open(struct iscsi_server *s, struct iser_portals **out)
{
	struct iser_portals *p = calloc(1, sizeof(*p));
	enum weft_reason r;

	if (!p)
		return WEFT_R_NO_MEMORY;
	p->server = s;
	list_init(&p->slots);
	for (uint32_t i = 0; i < BUCKETS; i++)
		list_init(&p->ends[i]);
	p->buffers = calloc(RECEIVES, sizeof(p->buffers[0]));
	p->all_slots = calloc(SLOTS, sizeof(p->all_slots[0]));
	r = p->buffers && p->all_slots ? adapter_open(p) : WEFT_R_NO_MEMORY;
	if (r != WEFT_OK) {
		iser_portals_close(p);
		return r;
	}
	for (uint32_t i = 0; i < RECEIVES; i++)
		buffer_post(p, &p->buffers[i]);
	for (uint32_t i = 0; i < SLOTS; i++)
		list_add_tail(&p->slots, &p->all_slots[i].link);
	*out = p;
	return WEFT_OK;
}

enum weft_reason iser_portals_listen(struct iser_portals *p, enum rdma_wire wire,
				     struct weft_address *at)
{
	struct rdma_listener *l = &p->listeners[p->listener_count];
	enum weft_reason r = WEFT_OK;

	/* Only for RoCE: its UDP port may be taken, which does not concern a portal by iWARP. */
	if (wire == RDMA_ROCE)
		r = weft_roce_open(p->adapter);
	if (r == WEFT_OK)
		r = rdma_listener_open(l, p->adapter, wire, at);
	if (r != WEFT_OK)
		return r;
	p->listener_count++;
	return rdma_listener_address(l, at);
}

void iser_portals_deafen(struct iser_portals *p)
{
	while (p->listener_count > 0)
		rdma_listener_close(&p->listeners[--p->listener_count]);
}

/* What was posted is flushed: each connection ends when the last of it has completed. */
static void ends_close(struct iser_portals *p)
{
	for (uint32_t i = 0; i < BUCKETS; i++) {
		struct list *l = p->ends[i].next;

		while (l != &p->ends[i]) {
			struct iser_end *end = CONTAINER_OF(l, struct iser_end, link);

			l = l->next;
			iscsi_connection_eof(end->core, p->server->now_ns);
			iser_end_attend(end);
		}
	}
	while (p->end_count > 0)
		(void)iser_portals_serve(p);
}

void iser_portals_close(struct iser_portals *p)
{
	iser_portals_deafen(p);
	if (p->cq)
		ends_close(p);
	if (p->srq)
		CHECK(weft_srq_destroy(p->srq) == WEFT_OK);
	if (p->cq)
		CHECK(weft_cq_destroy(p->cq) == WEFT_OK);
	if (p->tag != 0)
		CHECK(weft_region_deregister(p->pd, p->tag) == WEFT_OK);
	if (p->pd)
		CHECK(weft_pd_destroy(p->pd) == WEFT_OK);
	if (p->adapter)
		CHECK(weft_adapter_close(p->adapter) == WEFT_OK);
	free(p->buffers);
	free(p->all_slots);
	free(p);
}
