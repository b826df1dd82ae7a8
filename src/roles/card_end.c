/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection between the two ends of a card. After the greeting (card_greet.c) every message of
 * channel 0 carries a sequence number and a seal; channel 1 writes into elements, whose handles
 * only sealed messages tell.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/least.h"
#include "roles/card_inside.h"

static const uint64_t starving_ns = UINT64_C(2000000000);

static uint32_t element_total(const struct card_end *e)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < CARD_POOLS; i++)
		n += e->pools[i].elements;
	return n;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* A frame of the MTU's length, with its header. */
static uint32_t frame_bytes(const struct card *c)
{
	return PUSH_NET_HEADER_BYTES + LAN_HEADER_BYTES + LAN_VLAN_BYTES + c->file->config->mtu;
}

uint32_t card_packet_bytes(const struct card *c)
{
	return c->file->config->is_plain ? frame_bytes(c) : CARD_PACKET_MAX;
}

/* Packets of up to 256 bytes, of the MTU's length, and of whole segments (docs/card.md). */
static void pools_plan(struct card_end *e)
{
	const struct card_config *c = e->card->file->config;
	uint32_t frame = frame_bytes(e->card);

	if (c->mode == PUSH_MODE_SEND)
		return; /* PUSH-07: it has none */
	e->pools[0] = (struct card_pool){ .elements = 256, .element_bytes = 256 };
	e->pools[1] = (struct card_pool){ .elements = 256,
					  .element_bytes = (frame + 255) / 256 * 256 };
	if (!c->is_plain)
		e->pools[2] = (struct card_pool){ .elements = 64,
						  .element_bytes = CARD_PACKET_MAX };
}

static enum weft_reason pools_open(struct card_end *e)
{
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < CARD_POOLS && r == WEFT_OK; i++) {
		struct card_pool *p = &e->pools[i];
		uint32_t index;

		if (p->elements == 0)
			continue;
		p->memory = map((size_t)p->elements * p->element_bytes);
		if (!p->memory)
			return WEFT_R_NO_MEMORY;
		r = push_pool_open(e->link,
				   &(struct push_pool_config){ .memory = p->memory,
							       .elements = p->elements,
							       .element_bytes = p->element_bytes },
				   &index);
		CHECK(r != WEFT_OK || index == i);
	}
	return r;
}

static uint8_t *receive_of(const struct card_end *e, uint32_t nth)
{
	return e->buffers + (size_t)(CARD_MESSAGES + nth) * CARD_MESSAGE_BYTES;
}

static enum weft_reason receive_post(struct card_end *e, uint32_t nth)
{
	const struct weft_sge sge = { .addr = (uintptr_t)receive_of(e, nth),
				      .length = CARD_MESSAGE_BYTES,
				      .tag = e->buffers_tag };
	const struct weft_recv_wr wr = { .id = (uint64_t)nth << CARD_WORK_BITS | CARD_WORK_RECEIVE,
					 .sges = &sge,
					 .sge_count = 1 };
	enum weft_reason r = weft_qp_post_recv(e->qp, &wr, 1, NULL);

	e->posted_receives += r == WEFT_OK;
	return r;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void take_down(struct card_end *e)
{
	card_data_free(e);
	if (e->qp) {
		uint32_t number = weft_qp_number(e->qp);

		weft_qp_destroy(e->qp);
		weft_cq_forget(e->card->cq, number);
	}
	if (e->link)
		push_link_destroy(e->link);
	if (e->frames_tag)
		(void)weft_region_deregister(e->pd, e->frames_tag);
	if (e->buffers_tag)
		(void)weft_region_deregister(e->pd, e->buffers_tag);
	if (e->pd)
		CHECK(weft_pd_destroy(e->pd) == WEFT_OK);
	if (e->buffers)
		munmap(e->buffers, e->buffers_bytes);
	for (uint32_t i = 0; i < CARD_POOLS; i++) {
		if (e->pools[i].memory)
			munmap(e->pools[i].memory,
			       (size_t)e->pools[i].elements * e->pools[i].element_bytes);
	}
	free(e->messages);
	free(e->waiting);
	rio_handshake_fini(&e->handshake);
	*e = (struct card_end){ .card = e->card };
}

static enum weft_reason region(struct card_end *e, void *at, size_t bytes, uint32_t rights,
			       uint32_t *tag)
{
	const struct weft_region_options o = { .addr = (uintptr_t)at,
					       .length = bytes,
					       .rights = rights };

	return weft_region_register(e->pd, &o, tag);
}

static enum weft_reason qp_make(struct card_end *e)
{
	struct card *c = e->card;
	const struct weft_qp_options options = {
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.service = card_is_send_mode(c) ? WEFT_UC : WEFT_RC,
		.send_max = CARD_MESSAGES + CARD_WRITES,
		.recv_max = e->receive_count,
		.sges_max = 1,
		.context = &e->rdma.object,
	};
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT,
					   .remote_rights = card_is_send_mode(c)
								    ? 0
								    : WEFT_REMOTE_WRITE };
	enum weft_reason r = weft_qp_create(e->pd, &options, &e->qp);

	if (r == WEFT_OK)
		r = weft_qp_modify(e->qp, &init, WEFT_QP_STATE | WEFT_QP_REMOTE_RIGHTS);
	if (r != WEFT_OK)
		return r;
	for (uint32_t i = 0; i < CARD_MESSAGES; i++)
		e->free_messages[e->free_message_count++] = i;
	for (uint32_t i = 0; i < CARD_RECEIVES_FEW && r == WEFT_OK; i++)
		r = receive_post(e, i);
	return r;
}

static enum weft_reason set_up(struct card_end *e)
{
	struct card *c = e->card;
	enum weft_reason r;

	e->receive_count = element_total(e) + CARD_RECEIVES_MORE;
	e->buffers_bytes = (size_t)(CARD_MESSAGES + e->receive_count) * CARD_MESSAGE_BYTES;
	e->buffers = map(e->buffers_bytes);
	if (!e->buffers)
		return WEFT_R_NO_MEMORY;
	r = weft_pd_create(c->adapter, NULL, &e->pd);
	if (r == WEFT_OK)
		r = region(e, e->buffers, e->buffers_bytes, WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
			   &e->buffers_tag);
	if (r == WEFT_OK)
		r = region(e, c->frame_bytes, (size_t)CARD_FRAMES * CARD_PACKET_MAX,
			   WEFT_LOCAL_READ, &e->frames_tag);
	return r == WEFT_OK ? qp_make(e) : r;
}

static enum weft_reason end_make(struct card *c, enum rdma_wire wire, struct card_end **made)
{
	struct card_end *e = c->ends;
	enum weft_reason r;

	while (e < c->ends + CARD_ENDS_MAX && e->state != CARD_FREE)
		e++;
	if (e == c->ends + CARD_ENDS_MAX)
		return WEFT_R_LIMIT;
	*e = (struct card_end){ .card = c, .since_ns = c->now_ns };
	if (c->ends_used <= e - c->ends)
		c->ends_used = (uint32_t)(e - c->ends) + 1;
	e->deadline_ns = card_greet_deadline(c);
	rdma_end_init(&e->rdma, wire);
	e->rdma.is_uc = card_is_send_mode(c);
	pools_plan(e);
	r = set_up(e);
	if (r != WEFT_OK) {
		take_down(e);
		return r;
	}
	e->state = CARD_CONNECTING;
	*made = e;
	return WEFT_OK;
}

/* A peer that is stopped and goes on is missed by its silence alone, after `alive`. */
static struct rdma_terms terms_of(const struct card *c)
{
	return (struct rdma_terms){ .reads_in = 1,
				    .reads_out = 1,
				    .timeout_ns = 5000000000,
				    .patience_ns = c->file->config->alive_ns };
}

void card_end_dial(struct card *c)
{
	const struct rdma_terms terms = terms_of(c);
	struct card_end *e = NULL;
	enum weft_reason r = end_make(c, c->file->config->wire, &e);

	if (r == WEFT_OK) {
		r = rdma_end_dial(&e->rdma, c->adapter, e->qp, &c->file->address, &terms);
		if (r != WEFT_OK)
			take_down(e);
	}
	if (r != WEFT_OK && r != c->dial_reason)
		card_tell(c, CARD_LINE_LINK, "cannot dial the unit: %s", weft_reason_text(r));
	if (r != WEFT_OK)
		c->dial_reason = r;
}

/* The oldest connection that has not proved a key makes room. */
static void make_room(struct card *c)
{
	struct card_end *e = NULL, *oldest = NULL;
	uint32_t half_open = 0;

	while ((e = card_end_next(c, e)) != NULL) {
		if (e->state != CARD_CONNECTING && e->state != CARD_GREETING)
			continue;
		half_open++;
		if (!oldest || e->since_ns < oldest->since_ns)
			oldest = e;
	}
	if (oldest && half_open >= CARD_HALF_OPEN_MAX) {
		card_end_hang_up(oldest, WEFT_R_LIMIT);
		(void)card_end_reap(oldest);
	}
}

void card_end_accept(struct card *c, struct rdma_request *request)
{
	const struct rdma_terms terms = terms_of(c);
	struct card_end *e = NULL;
	enum weft_reason r;

	if (card_data_accept(c, request))
		return;
	make_room(c);
	/* The end of a host of the other mode: its queue pair is of another service. */
	r = request->is_uc == card_is_send_mode(c) ? end_make(c, request->wire, &e)
						   : WEFT_R_PUSH_MODE;
	if (r != WEFT_OK)
		rdma_request_reject(request);
	else if ((r = rdma_request_accept(request, &e->rdma, e->qp, &terms)) != WEFT_OK)
		take_down(e);
	if (r == WEFT_OK)
		return;
	c->counts.refused++;
	card_tell(c, CARD_LINE_REFUSED, "cannot accept a connection: %s", weft_reason_text(r));
}

void card_end_hang_up(struct card_end *e, enum weft_reason reason)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };

	if (e->state == CARD_DYING || e->state == CARD_FREE)
		return;
	e->reason = reason;
	e->queued = 0;
	rdma_end_close(&e->rdma);
	(void)weft_qp_modify(e->qp, &attr, WEFT_QP_STATE);
	card_data_close(e);
	if (e->link)
		push_lost(e->link, reason);
	e->state = CARD_DYING;
}

const char *card_end_name(const struct card_end *e, char text[WEFT_ADDRESS_TEXT])
{
	if (e->link)
		return e->card->file->config->peers[e->peer].name;
	if (e->rdma.is_active)
		weft_address_text(&e->card->file->address, text);
	else
		weft_address_text(&e->rdma.peer.remote, text);
	return text;
}

enum weft_reason card_end_link_make(struct card_end *e)
{
	struct card *c = e->card;
	struct push_config config;
	enum weft_reason r;

	push_config_init(&config, c->is_unit ? PUSH_UNIT : PUSH_HOST, c->file->config->mode);
	card_hello(c, &config.hello);
	e->element_count = element_total(e);
	config.has_immediate = true;
	config.own_pools_max = card_is_send_mode(c) ? 0 : CARD_POOLS;
	config.own_elements_max = e->element_count;
	config.packets_max = CARD_FRAMES;
	config.writes_max = CARD_WRITES;
	config.sends_max = CARD_MESSAGES;
	config.inline_bytes = c->file->config->inline_bytes;
	/* One question for both ends: a unit asks only what does not ask itself. */
	config.ping_after_ns = c->file->config->alive_ns / (c->is_unit ? 2 : 3);
	/* A peer that does not answer has as long as one that is silent (card_end_expire). */
	config.answer_tries = (uint32_t)(c->file->config->alive_ns / config.answer_wait_ns) + 1;
	e->messages = malloc((size_t)CARD_MESSAGES * PUSH_MSG_BYTES_MAX);
	e->waiting = calloc((size_t)e->element_count + 1, sizeof(e->waiting[0]));
	if (!e->messages || !e->waiting)
		return WEFT_R_NO_MEMORY;
	config.messages = e->messages;
	r = push_link_create(&config, &e->link);
	for (uint32_t i = CARD_RECEIVES_FEW; i < e->receive_count && r == WEFT_OK; i++)
		r = receive_post(e, i);
	return r == WEFT_OK ? pools_open(e) : r;
}

void card_end_event(struct card_end *e, const struct weft_event *event)
{
	if (e->state == CARD_FREE || e->state == CARD_DYING || !rdma_end_event(&e->rdma, event))
		return;
	if (e->rdma.state == RDMA_UP && e->state == CARD_CONNECTING)
		card_greet_begin(e);
	else if (e->rdma.state == RDMA_DOWN)
		card_end_hang_up(e, e->rdma.reason == WEFT_OK ? WEFT_R_PEER_GONE : e->rdma.reason);
}

/* ---- What completes ------------------------------------------------------------------------- */

static enum weft_reason message_open(struct card_end *e, const uint8_t *bytes, size_t length,
				     size_t *body)
{
	struct rio_session *s = &e->handshake.greet.session;

	return card_is_send_mode(e->card) ? rio_session_tailed_later(s, bytes, length, body)
					  : rio_session_tailed(s, bytes, length, body);
}

/* A message or an indication: a refusal is counted by the link, and ends it if there are many. */
static void came(struct card_end *e, uint8_t *bytes, const struct weft_completion *c)
{
	struct card *card = e->card;
	enum weft_reason r = WEFT_OK;
	size_t body;

	/* The first message may overtake the event that says the connection is up. */
	if (e->state == CARD_CONNECTING)
		card_greet_begin(e);
	/* A greeting has its own deadline, whatever else the peer does meanwhile. */
	if (e->state == CARD_UP)
		e->deadline_ns = card->now_ns + card->file->config->alive_ns;
	if (c->opcode == WEFT_OP_RECV_WRITE_IMM) {
		if (e->link)
			(void)push_written(e->link, c->imm, c->byte_count, card->now_ns);
	} else if (e->state == CARD_GREETING) {
		r = card_greet_take(e, bytes, c->byte_count);
	} else if (e->state == CARD_UP) {
		r = message_open(e, bytes, c->byte_count, &body);
		if (r == WEFT_OK)
			(void)push_take(e->link, bytes, body, card->now_ns);
		else if (card_is_send_mode(card))
			r = WEFT_OK; /* AMB-29: what comes twice or late is lost */
	}
	if (r != WEFT_OK)
		card_end_hang_up(e, r);
	else if (e->state == CARD_UP)
		(void)card_end_work(e); /* what events point to is in the bytes */
}

void card_end_completed(struct card_end *e, const struct weft_completion *c)
{
	uint64_t id = c->id >> CARD_WORK_BITS;

	switch (c->id & ((1 << CARD_WORK_BITS) - 1)) {
	case CARD_WORK_RECEIVE:
		e->posted_receives--;
		if (c->status != WEFT_SUCCESS || e->state == CARD_DYING)
			return;
		came(e, receive_of(e, (uint32_t)id), c);
		if (e->state != CARD_DYING && receive_post(e, (uint32_t)id) != WEFT_OK)
			card_end_hang_up(e, WEFT_R_PEER_GONE);
		return;
	case CARD_WORK_PACKET:
		e->posted_receives--;
		if (c->status == WEFT_SUCCESS && e->state == CARD_UP)
			card_data_came(e, (uint32_t)id, c);
		return;
	case CARD_WORK_MESSAGE:
		e->posted_sends--;
		e->free_messages[e->free_message_count++] = (uint32_t)id;
		return;
	default:
		e->posted_sends--;
		push_done(e->link, id,
			  c->status == WEFT_SUCCESS ? WEFT_OK
			  : c->reason != WEFT_OK    ? c->reason
						    : WEFT_R_PEER_GONE,
			  e->card->now_ns);
	}
}

/* ---- What is to be done --------------------------------------------------------------------- */

static void flush(struct card_end *e)
{
	uint32_t posted = 0, count = e->queued;

	if (count == 0 || e->state == CARD_DYING)
		return;
	e->queued = 0;
	if (weft_qp_post_send(e->queue_qp, e->queue, count, &posted) != WEFT_OK)
		card_end_hang_up(e, WEFT_R_PEER_GONE);
	e->posted_sends += posted;
	/* Those that the queue pair did not take are over. */
	for (uint32_t i = posted; i < count; i++)
		push_done(e->link, e->queue[i].id >> CARD_WORK_BITS, WEFT_R_PEER_GONE,
			  e->card->now_ns);
}

/*
 * A message of the link is copied into the buffer of the same place, where its tail has room: the
 * link gives a place again only when its act is done.
 */
static void act_send(struct card_end *e, const struct push_act *act)
{
	uint32_t nth = (uint32_t)((act->bytes - e->messages) / PUSH_MSG_BYTES_MAX);
	uint8_t *to = card_end_message(e, nth);

	memcpy(to, act->bytes, act->length);
	e->sges[e->queued] = (struct weft_sge){
		.addr = (uintptr_t)to,
		.length = (uint32_t)rio_session_tail(&e->handshake.greet.session, to, act->length),
		.tag = e->buffers_tag,
	};
	e->queue[e->queued] = (struct weft_send_wr){
		.id = act->id << CARD_WORK_BITS | CARD_WORK_ACT,
		.opcode = WEFT_OP_SEND,
		.flags = WEFT_SIGNALLED | WEFT_SOLICITED,
		.sges = &e->sges[e->queued],
		.sge_count = 1,
	};
	e->queued++;
}

static void act_write(struct card_end *e, const struct push_act *act)
{
	e->sges[e->queued] = (struct weft_sge){ .addr = (uintptr_t)act->bytes,
						.length = (uint32_t)act->length,
						.tag = e->frames_tag };
	e->queue[e->queued] = (struct weft_send_wr){
		.id = act->id << CARD_WORK_BITS | CARD_WORK_ACT,
		.opcode = act->has_immediate ? WEFT_OP_WRITE_IMM : WEFT_OP_WRITE,
		.flags = WEFT_SIGNALLED | WEFT_UNHURRIED |
			 (act->has_immediate ? WEFT_SOLICITED : 0),
		.sges = &e->sges[e->queued],
		.sge_count = 1,
		.imm = act->immediate,
		.remote_addr = act->address,
		.remote_tag = act->handle,
	};
	e->queued++;
}

/* A frame of Send mode: itself. */
static void act_packet(struct card_end *e, const struct push_act *act)
{
	act_write(e, act);
	e->queue[e->queued - 1].opcode = WEFT_OP_SEND;
	e->queue[e->queued - 1].flags = WEFT_SIGNALLED | WEFT_SOLICITED;
}

/* To be posted with others; those of one queue pair together. */
static void act_post(struct card_end *e, const struct push_act *act)
{
	struct weft_qp *qp = act->kind == PUSH_ACT_SEND_PACKET ? e->data.qp : e->qp;

	if (qp != e->queue_qp || e->queued == CARD_BATCH)
		flush(e);
	if (e->state == CARD_DYING) {
		push_done(e->link, act->id, e->reason, e->card->now_ns);
		return;
	}
	e->queue_qp = qp;
	if (act->kind == PUSH_ACT_SEND)
		act_send(e, act);
	else if (act->kind == PUSH_ACT_WRITE)
		act_write(e, act);
	else
		act_packet(e, act);
}

static void act_register(struct card_end *e, const struct push_act *act)
{
	uint32_t tag = 0;
	enum weft_reason r = region(e, (void *)(uintptr_t)act->bytes, act->length,
				    WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE, &tag);

	push_registered(e->link, act->id, r, tag);
}

static bool acts_take(struct card_end *e)
{
	struct card *c = e->card;
	struct push_act act;
	bool has_any = false;

	/* Bound: what the link may have under way. */
	while (push_act(e->link, c->now_ns, &act)) {
		has_any = true;
		if (act.kind == PUSH_ACT_REGISTER) {
			act_register(e, &act);
		} else if (act.kind == PUSH_ACT_DEREGISTER) {
			push_done(e->link, act.id, weft_region_deregister(e->pd, act.handle),
				  c->now_ns);
		} else if (e->state == CARD_DYING) {
			push_done(e->link, act.id, e->reason, c->now_ns);
		} else {
			act_post(e, &act);
		}
	}
	flush(e);
	return has_any;
}

static bool events_take(struct card_end *e)
{
	struct push_event event;
	bool has_any = false;

	/* Bound: what came, and what is over. */
	while (push_event(e->link, &event)) {
		has_any = true;
		switch (event.kind) {
		case PUSH_EVENT_OPEN:
			card_opened(e);
			break;
		case PUSH_EVENT_PACKET:
			card_packet_came(e, &event);
			break;
		case PUSH_EVENT_SENT:
			card_frame_sent(e, event.cookie);
			break;
		case PUSH_EVENT_ASKED_CFG:
			card_asked(e, event.cfg);
			break;
		case PUSH_EVENT_ANSWER:
			card_answered(e, event.cfg);
			break;
		case PUSH_EVENT_BROKEN:
		case PUSH_EVENT_ENDED:
			card_end_hang_up(e, event.reason);
			break;
		case PUSH_EVENT_ASKED_POOLS: /* elements come back as soon as the port has taken
					      * their packets */
			break;
		case PUSH_EVENT_POOL_CLOSED: /* what waits in it goes to the port nevertheless */
			e->pools[event.pool].is_closed = true;
			break;
		}
	}
	return has_any;
}

bool card_end_work(struct card_end *e)
{
	bool has_any = false, has_more;

	if (!e->link)
		return false;
	/* Bound: an event leads to acts, and those to events that need the connection. */
	do {
		has_more = events_take(e);
		if (e->state == CARD_UP)
			card_say(e);
		has_more |= acts_take(e);
		has_any |= has_more;
	} while (has_more);
	return has_any;
}

/* ---- Time, and the end ---------------------------------------------------------------------- */

/* Names a peer that returns no elements, once, and says when no packet waits for them any more. */
static uint64_t starving_expire(struct card_end *e)
{
	uint64_t since_ns = push_waits_since(e->link), now_ns = e->card->now_ns;
	char text[WEFT_ADDRESS_TEXT];
	struct push_view v;

	if (push_link_state(e->link) != PUSH_OPEN)
		return UINT64_MAX; /* what waited is not sent any more */
	if (since_ns == UINT64_MAX && e->is_starving) {
		card_tell(e->card, CARD_LINE_LINK, "%s takes packets again",
			  card_end_name(e, text));
		e->is_starving = false;
	}
	if (since_ns == UINT64_MAX || e->is_starving)
		return UINT64_MAX;
	if (now_ns - since_ns < starving_ns)
		return since_ns + starving_ns;
	push_view(e->link, &v);
	card_tell(e->card, CARD_LINE_LINK, "%s takes no packets: %u wait for an element",
		  card_end_name(e, text), v.waiting);
	e->is_starving = true;
	return UINT64_MAX;
}

uint64_t card_end_expire(struct card_end *e)
{
	uint64_t now_ns = e->card->now_ns, due_ns = e->deadline_ns;

	if (e->state == CARD_DYING)
		return UINT64_MAX;
	if (e->deadline_ns <= now_ns) {
		card_end_hang_up(e,
				 e->state == CARD_UP ? WEFT_R_PUSH_SILENT : WEFT_R_CONNECT_TIMEOUT);
		return now_ns;
	}
	if (e->link && push_due(e->link) <= now_ns) {
		push_expire(e->link, now_ns);
		(void)card_end_work(e); /* what it asks goes before this thread sleeps */
	}
	if (e->state == CARD_DYING)
		return now_ns;
	if (e->link)
		due_ns = least(due_ns, least(push_due(e->link), starving_expire(e)));
	return due_ns;
}

static void say_end(struct card_end *e)
{
	struct card *c = e->card;
	char text[WEFT_ADDRESS_TEXT];

	if (e->link)
		card_tell(c, CARD_LINE_LINK, "%s is no longer connected: %s",
			  card_end_name(e, text),
			  e->reason == WEFT_OK ? "The link has ended in order."
					       : weft_reason_text(e->reason));
	else if (c->is_unit)
		card_tell(c, CARD_LINE_REFUSED, "refused a connection from %s: %s",
			  card_end_name(e, text), weft_reason_text(e->reason));
	else if (e->reason != c->dial_reason)
		card_tell(c, CARD_LINE_LINK, "the unit at %s: %s", card_end_name(e, text),
			  weft_reason_text(e->reason));
	c->counts.refused += !e->link;
	if (!c->is_unit)
		c->dial_reason = e->link ? WEFT_OK : e->reason;
}

bool card_end_reap(struct card_end *e)
{
	if (e->state != CARD_DYING)
		return false;
	(void)card_end_work(e);
	if (e->posted_receives > 0 || e->posted_sends > 0)
		return false;
	say_end(e);
	if (e->link)
		card_closed(e);
	take_down(e);
	return true;
}
