/* SPDX-License-Identifier: BSD-2-Clause */
/* Cm_ids: how they are found, their states and moves, and what the owner learns of them. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cm/ib_cm_inside.h"
#include "wire/iba.h"

/* ---- States --------------------------------------------------------------------------------- */

enum {
	TO_IDLE = 1 << IB_CM_IDLE,
	TO_REQ_SENT = 1 << IB_CM_REQ_SENT,
	TO_MRA_REQ_RCVD = 1 << IB_CM_MRA_REQ_RCVD,
	TO_REP_RCVD = 1 << IB_CM_REP_RCVD,
	TO_MRA_REP_SENT = 1 << IB_CM_MRA_REP_SENT,
	TO_REQ_RCVD = 1 << IB_CM_REQ_RCVD,
	TO_MRA_REQ_SENT = 1 << IB_CM_MRA_REQ_SENT,
	TO_REP_SENT = 1 << IB_CM_REP_SENT,
	TO_MRA_REP_RCVD = 1 << IB_CM_MRA_REP_RCVD,
	TO_CONNECTED = 1 << IB_CM_CONNECTED,
	TO_DREQ_SENT = 1 << IB_CM_DREQ_SENT,
	TO_DREQ_RCVD = 1 << IB_CM_DREQ_RCVD,
	TO_SIDR_SENT = 1 << IB_CM_SIDR_SENT,
	TO_SIDR_RCVD = 1 << IB_CM_SIDR_RCVD,
	TO_TIMEWAIT = 1 << IB_CM_TIMEWAIT,
};

/*
 * IBA 12.9.7. In addition REP Sent may end by a DREQ: unlike a REJ, it is repeated until answered.
 */
static const struct {
	const char *name;
	uint32_t moves;
	bool is_half_open;
	bool is_established;
	bool holds_qpn; /* no other cm_id may be connected to the peer's QP */
} states[IB_CM_STATE_COUNT] = {
	[IB_CM_IDLE] = { "IDLE", TO_REQ_SENT | TO_REQ_RCVD | TO_SIDR_SENT | TO_SIDR_RCVD, false,
			 false, false },
	[IB_CM_REQ_SENT] = { "REQ_SENT", TO_MRA_REQ_RCVD | TO_REP_RCVD | TO_TIMEWAIT, false, false,
			     true },
	[IB_CM_MRA_REQ_RCVD] = { "MRA_REQ_RCVD", TO_REP_RCVD | TO_TIMEWAIT, false, false, true },
	[IB_CM_REP_RCVD] = { "REP_RCVD", TO_MRA_REP_SENT | TO_CONNECTED | TO_TIMEWAIT, false, false,
			     true },
	[IB_CM_MRA_REP_SENT] = { "MRA_REP_SENT", TO_CONNECTED | TO_TIMEWAIT, false, false, true },
	[IB_CM_REQ_RCVD] = { "REQ_RCVD", TO_MRA_REQ_SENT | TO_REP_SENT | TO_TIMEWAIT, true, false,
			     true },
	[IB_CM_MRA_REQ_SENT] = { "MRA_REQ_SENT", TO_REP_SENT | TO_TIMEWAIT, true, false, true },
	[IB_CM_REP_SENT] = { "REP_SENT",
			     TO_MRA_REP_RCVD | TO_CONNECTED | TO_DREQ_SENT | TO_TIMEWAIT, true,
			     false, true },
	[IB_CM_MRA_REP_RCVD] = { "MRA_REP_RCVD", TO_CONNECTED | TO_DREQ_SENT | TO_TIMEWAIT, true,
				 false, true },
	[IB_CM_CONNECTED] = { "CONNECTED", TO_DREQ_SENT | TO_DREQ_RCVD | TO_TIMEWAIT, false, true,
			      true },
	[IB_CM_DREQ_SENT] = { "DREQ_SENT", TO_TIMEWAIT, false, true, false },
	[IB_CM_DREQ_RCVD] = { "DREQ_RCVD", TO_TIMEWAIT, false, true, false },
	[IB_CM_SIDR_SENT] = { "SIDR_SENT", TO_IDLE, false, false, false },
	[IB_CM_SIDR_RCVD] = { "SIDR_RCVD", TO_TIMEWAIT | TO_IDLE, true, false, false },
	[IB_CM_TIMEWAIT] = { "TIMEWAIT", TO_IDLE, false, false, false },
};

const char *ib_cm_state_name(enum ib_cm_state state)
{
	return (unsigned int)state < IB_CM_STATE_COUNT ? states[state].name : "unknown";
}

bool cm_id_was_established(const struct cm_id *c)
{
	return states[c->state].is_established;
}

bool cm_id_is_half_open(const struct cm_id *c)
{
	return states[c->state].is_half_open;
}

void cm_id_move(struct ib_cm *cm, struct cm_id *c, enum ib_cm_state to, enum weft_reason reason)
{
	enum ib_cm_state from = c->state;

	CHECK(states[from].moves & 1U << to);
	trace_add(cm->config.trace, (struct trace_event){ .kind = TRACE_CM_STATE,
							  .who = c->id,
							  .a = from,
							  .b = to,
							  .reason = (uint16_t)reason });
	/* A cm_id that stays half open keeps its place: unproven peers are listed by age. */
	if (states[from].is_half_open && !states[to].is_half_open)
		cm_id_count_half_open(cm, c, -1);
	c->state = to;
	if (!states[from].is_half_open && states[to].is_half_open)
		cm_id_count_half_open(cm, c, 1);
	cm->counts.timewait += to == IB_CM_TIMEWAIT;
	cm->counts.timewait -= from == IB_CM_TIMEWAIT;
	if (!states[to].holds_qpn)
		cm_id_index_remove(cm, c, BY_PEER_QPN);
}

/* ---- Finding -------------------------------------------------------------------------------- */

static bool address_is_same(const struct ibcm_ip *a, const struct inet_end *a_end,
			    const struct ibcm_ip *b, const struct inet_end *b_end)
{
	return a->is_ipv6 == b->is_ipv6 &&
	       memcmp(a_end->address, b_end->address, a->is_ipv6 ? 16 : 4) == 0;
}

static uint32_t hash_number(const struct ib_cm *cm, uint64_t number)
{
	return (uint32_t)siphash_u64(cm->secret.key, number);
}

uint32_t hash_peer(const struct ib_cm *cm, bool is_ipv6, const struct inet_end *peer,
		   uint32_t number)
{
	uint64_t words[2] = { 0 };

	memcpy(words, peer->address, is_ipv6 ? 16 : 4);
	words[0] = siphash_u64(cm->secret.key, words[0] ^ (uint64_t)number << 32);
	return hash_number(cm, words[0] ^ words[1]);
}

static uint32_t cm_id_hash(const struct ib_cm *cm, const struct cm_id *c, enum cm_id_index index)
{
	if (index == BY_ID)
		return hash_number(cm, c->id);
	return hash_peer(cm, c->ip.is_ipv6, &c->ip.to,
			 index == BY_PEER_ID ? c->peer_id : c->peer.qpn);
}

static struct cm_id *cm_id_at(const struct ib_cm *cm, uint32_t slot)
{
	return slot ? &cm->cm_ids[slot - 1] : NULL;
}

void cm_id_index_add(struct ib_cm *cm, struct cm_id *c, enum cm_id_index index)
{
	uint32_t *head = &cm->heads[index][cm_id_hash(cm, c, index) & cm->mask];

	CHECK(!c->is_in[index]);
	c->next[index] = *head;
	*head = c->slot;
	c->is_in[index] = true;
}

/* Bound: the length of a chain, which a peer cannot choose without the key. */
void cm_id_index_remove(struct ib_cm *cm, struct cm_id *c, enum cm_id_index index)
{
	uint32_t *link = &cm->heads[index][cm_id_hash(cm, c, index) & cm->mask];

	if (!c->is_in[index])
		return;
	while (*link != c->slot)
		link = &cm_id_at(cm, *link)->next[index];
	*link = c->next[index];
	c->is_in[index] = false;
}

struct cm_id *cm_id_find(const struct ib_cm *cm, uint32_t id)
{
	struct cm_id *c = cm_id_at(cm, cm->heads[BY_ID][hash_number(cm, id) & cm->mask]);

	while (c && c->id != id)
		c = cm_id_at(cm, c->next[BY_ID]);
	return c;
}

/* ip is that of a message from the peer. */
struct cm_id *cm_id_find_peer(const struct ib_cm *cm, const struct ibcm_ip *ip, uint32_t peer_id,
			      bool is_sidr)
{
	uint32_t hash = hash_peer(cm, ip->is_ipv6, &ip->from, peer_id);
	struct cm_id *c = cm_id_at(cm, cm->heads[BY_PEER_ID][hash & cm->mask]);

	while (c && (c->peer_id != peer_id || c->is_sidr != is_sidr ||
		     !address_is_same(&c->ip, &c->ip.to, ip, &ip->from)))
		c = cm_id_at(cm, c->next[BY_PEER_ID]);
	return c;
}

/* Bound: the chain; a peer chooses neither its place nor, without our help, its length. */
struct cm_id *cm_id_find_qpn(const struct ib_cm *cm, const struct ibcm_ip *ip, uint32_t qpn,
			     const struct cm_id *after)
{
	uint32_t hash = hash_peer(cm, ip->is_ipv6, &ip->from, qpn);
	struct cm_id *c = cm_id_at(cm, after ? after->next[BY_PEER_QPN]
					     : cm->heads[BY_PEER_QPN][hash & cm->mask]);

	while (c && (c->peer.qpn != qpn || !address_is_same(&c->ip, &c->ip.to, ip, &ip->from)))
		c = cm_id_at(cm, c->next[BY_PEER_QPN]);
	return c;
}

/* ---- Coming and going ----------------------------------------------------------------------- */

static struct cm_id *slot_take(struct ib_cm *cm)
{
	struct cm_id *c;

	/* If all slots are used, free the oldest cm_id in time wait. */
	if (list_is_empty(&cm->free) && cm->slots_used == cm->config.cm_ids_max &&
	    !list_is_empty(&cm->aged))
		cm_id_release(cm, CONTAINER_OF(cm->aged.next, struct cm_id, aged));
	if (!list_is_empty(&cm->free))
		return CONTAINER_OF(list_pop(&cm->free), struct cm_id, aged);
	if (cm->slots_used == cm->config.cm_ids_max)
		return NULL;
	c = &cm->cm_ids[cm->slots_used++];
	c->slot = cm->slots_used;
	return c;
}

/* Bound: half of the numbers are free at least, so a few turns. */
static uint32_t id_new(struct ib_cm *cm)
{
	uint32_t id;

	do
		id = (uint32_t)cm->config.adapter_slot << 24 |
		     (uint32_t)(secret_next(&cm->secret) >> 40);
	while (cm_id_find(cm, id));
	return id;
}

struct cm_id *cm_id_new(struct ib_cm *cm, const struct ibcm_ip *ip)
{
	struct cm_id *c = slot_take(cm);

	if (!c)
		return NULL;
	*c = (struct cm_id){ .slot = c->slot,
			     .ip = *ip,
			     .id = id_new(cm),
			     .limit_ns = UINT64_MAX,
			     .response_ns = ib_cm_code_ns(cm->config.response_code),
			     .retries = cm->config.retries,
			     .ack_code = IB_CM_ACK_CODE };
	list_init(&c->to_send);
	list_init(&c->to_tell);
	list_init(&c->aged);
	c->host = host_get(cm, ip->is_ipv6, &ip->to);
	cm_id_index_add(cm, c, BY_ID);
	cm->counts.cm_ids++;
	return c;
}

static void cm_id_free(struct ib_cm *cm, struct cm_id *c)
{
	CHECK(c->state == IB_CM_IDLE && c->events == 0);
	cm_id_index_remove(cm, c, BY_ID);
	host_put(cm, c);
	list_add_tail(&cm->free, &c->aged);
	cm->counts.cm_ids--;
}

void cm_id_release(struct ib_cm *cm, struct cm_id *c)
{
	bool was_waiting = c->state == IB_CM_TIMEWAIT;

	cm_id_move(cm, c, IB_CM_IDLE, WEFT_OK);
	timer_queue_cancel(&cm->timers, &c->timer);
	cm_id_hush(c);
	list_remove(&c->aged);
	cm_id_index_remove(cm, c, BY_PEER_ID);
	if (was_waiting)
		cm_id_tell(cm, c, IB_CM_RELEASED);
	if (c->events == 0)
		cm_id_free(cm, c);
}

void cm_id_forget(struct ib_cm *cm, struct cm_id *c)
{
	c->is_forgotten = true;
	c->events = 0;
	list_remove(&c->to_tell);
	if (c->state == IB_CM_IDLE)
		cm_id_free(cm, c);
}

void cm_id_end(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c, enum weft_reason reason)
{
	uint8_t code = c->ack_code < IB_CM_WAIT_CODE_MAX ? c->ack_code : IB_CM_WAIT_CODE_MAX;
	bool has_dreq = c->state == IB_CM_DREQ_RCVD;

	if (!has_dreq) {
		c->reason = reason;
		cm_id_tell(cm, c, cm_id_was_established(c) ? IB_CM_DISCONNECTED : IB_CM_FAILED);
	}
	/* The owner never heard of the request. */
	if (!c->is_known)
		cm_id_forget(cm, c);
	cm_id_move(cm, c, IB_CM_TIMEWAIT, reason);
	/* An MRA that is due is void now; the last message is still sent. */
	c->owes &= (uint32_t)~OWES_MRA;
	if (c->owes == 0)
		list_remove(&c->to_send);
	list_add_tail(&cm->aged, &c->aged);
	c->limit_ns = UINT64_MAX;
	cm_id_wait(cm, now_ns, c, ib_cm_code_ns(code));
}

void cm_id_hush(struct cm_id *c)
{
	c->owes = 0;
	list_remove(&c->to_send);
}

void cm_id_establish(struct ib_cm *cm, uint64_t now_ns, struct cm_id *c)
{
	const struct ibcm_ip ip = { .is_ipv6 = c->ip.is_ipv6, .from = c->ip.to, .to = c->ip.from };

	(void)stale_clear(cm, now_ns, c, &ip, c->peer.qpn);
	timer_queue_cancel(&cm->timers, &c->timer);
	cm_id_hush(c);
	cm_id_move(cm, c, IB_CM_CONNECTED, WEFT_OK);
	cm_id_tell(cm, c, IB_CM_ESTABLISHED);
}

/* ---- Events --------------------------------------------------------------------------------- */

void cm_id_tell(struct ib_cm *cm, struct cm_id *c, enum ib_cm_event_kind kind)
{
	if (c->is_forgotten)
		return;
	/* Drop a reply that the owner has not seen yet. */
	if (kind == IB_CM_FAILED)
		c->events &= ~(1U << IB_CM_REPLIED);
	c->events |= 1U << kind;
	if (!list_is_linked(&c->to_tell))
		list_add_tail(&cm->to_tell, &c->to_tell);
}

void cm_id_untell(struct cm_id *c, enum ib_cm_event_kind kind)
{
	c->events &= ~(1U << kind);
	if (c->events == 0)
		list_remove(&c->to_tell);
}

static void event_data(struct ib_cm_event *e, const struct cm_id *c, bool is_end)
{
	e->private_bytes = is_end ? c->end_bytes : c->begin_bytes;
	memcpy(e->private_data, is_end ? c->end : c->begin, e->private_bytes);
	if (is_end) {
		e->info_bytes = c->info_bytes;
		memcpy(e->info, c->info, c->info_bytes);
	}
}

static void event_request(struct ib_cm_event *e, const struct cm_id *c)
{
	const struct ibcm_req *q = &c->req;

	e->peer = c->peer;
	e->ca_guid = c->peer_guid;
	e->p_key = q->p_key;
	if (c->is_sidr || c->is_active)
		return;
	e->transport = q->transport;
	e->mtu_bytes = iba_mtu_bytes(q->path_mtu);
	e->ack_code = q->primary.ack_timeout;
	e->traffic_class = q->primary.traffic_class;
	e->hop_limit = q->primary.hop_limit;
	e->flow_label = q->primary.flow_label;
}

static void event_fill(struct ib_cm_event *e, const struct cm_id *c)
{
	bool is_end = e->kind >= IB_CM_RESOLVED && e->kind <= IB_CM_DISCONNECTED;

	e->id = c->id;
	e->peer_id = c->peer_id;
	e->owner = c->owner;
	e->service_id = c->service_id;
	e->ip = c->ip;
	e->has_ip_header = c->has_header;
	e->is_unproven = c->is_unproven;
	if (e->kind == IB_CM_RELEASED)
		return;
	event_data(e, c, is_end);
	if (!is_end && e->kind != IB_CM_ESTABLISHED)
		event_request(e, c);
	if (e->kind == IB_CM_RESOLVED) {
		e->peer = c->peer;
		e->status = c->status;
	} else if (is_end) {
		e->reason = c->reason;
		e->reject = c->reject;
		e->reject_about = c->reject_about;
		e->is_by_peer = c->is_by_peer;
	}
}

bool ib_cm_event(struct ib_cm *cm, struct ib_cm_event *event)
{
	struct cm_id *c;

	if (list_is_empty(&cm->to_tell))
		return false;
	c = CONTAINER_OF(cm->to_tell.next, struct cm_id, to_tell);
	memset(event, 0, sizeof(*event));
	event->kind = (enum ib_cm_event_kind)__builtin_ctz(c->events);
	event_fill(event, c);
	c->is_known = true;
	c->events &= c->events - 1;
	if (c->events != 0)
		return true;
	list_remove(&c->to_tell);
	if (c->state == IB_CM_IDLE)
		cm_id_free(cm, c);
	return true;
}

/* ---- The agent ------------------------------------------------------------------------------ */

static void config_complete(struct ib_cm_config *c)
{
	static const uint32_t transports = 1 << IBCM_TRANSPORT_RC | 1 << IBCM_TRANSPORT_UC;

	c->cm_ids_max = c->cm_ids_max ? c->cm_ids_max : 4096;
	c->half_open_max = c->half_open_max ? c->half_open_max : 512;
	c->transports = c->transports ? c->transports : transports;
	c->response_code = c->response_code ? c->response_code : IB_CM_RESPONSE_CODE;
	c->first_retry_ns = c->first_retry_ns ? c->first_retry_ns : 100000000;
	c->soon_retry_ns = c->soon_retry_ns ? c->soon_retry_ns : 1000000000;
	c->retries = c->retries ? c->retries : IB_CM_RETRIES;
	c->mra_code = c->mra_code ? c->mra_code : IB_CM_MRA_CODE;
}

struct ib_cm *ib_cm_create(const struct ib_cm_config *config)
{
	struct ib_cm *cm = calloc(1, sizeof(*cm));
	uint32_t buckets = 16;
	int error;

	if (!cm)
		return NULL;
	cm->config = *config;
	config_complete(&cm->config);
	/* An id has 24 random bits: a larger table would leave too few ids free. */
	CHECK(cm->config.adapter_slot > 0 && cm->config.cm_ids_max <= 1 << 16);
	CHECK(cm->config.retries <= 15);
	cm->secret = (struct secret){ .key = { config->key[0], config->key[1] } };
	cm->tid_next = secret_next(&cm->secret);
	list_init(&cm->free);
	list_init(&cm->to_send);
	list_init(&cm->to_tell);
	list_init(&cm->aged);
	list_init(&cm->unproven);
	while (buckets < cm->config.cm_ids_max)
		buckets *= 2;
	cm->mask = buckets - 1;
	cm->cm_ids = calloc(cm->config.cm_ids_max, sizeof(*cm->cm_ids));
	cm->hosts = calloc(cm->config.cm_ids_max, sizeof(*cm->hosts));
	cm->host_heads = calloc(buckets, sizeof(*cm->host_heads));
	error = timer_queue_init(&cm->timers, cm->config.cm_ids_max) || !cm->cm_ids || !cm->hosts ||
		!cm->host_heads;
	for (int i = 0; i < INDEXES; i++) {
		cm->heads[i] = calloc(buckets, sizeof(*cm->heads[i]));
		error = error || !cm->heads[i];
	}
	if (!error)
		return cm;
	ib_cm_destroy(cm);
	return NULL;
}

void ib_cm_destroy(struct ib_cm *cm)
{
	for (int i = 0; i < INDEXES; i++)
		free(cm->heads[i]);
	timer_queue_fini(&cm->timers);
	free(cm->cm_ids);
	free(cm->host_heads);
	free(cm->hosts);
	free(cm);
}

enum ib_cm_state ib_cm_state(const struct ib_cm *cm, uint32_t id)
{
	const struct cm_id *c = cm_id_find(cm, id);

	return c ? c->state : IB_CM_IDLE;
}

const struct ib_cm_counts *ib_cm_counts(const struct ib_cm *cm)
{
	return &cm->counts;
}
