/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/deadline.h"
#include "rio/owner_parts.h"
#include "rio/refusal.h"

enum { MS_NS = 1000 * 1000, NOTIFIED_MAX = 64 };

/* ---- Its list, once it is allowed ----------------------------------------------------------- */

/* The list without its attributes. */
static struct rd body_of(const struct owner_request *r)
{
	if (r->slot)
		return rd_of(r->slot->bytes, r->slot->length);
	return rd_of(r->list + r->head_bytes, r->list_bytes - r->head_bytes);
}

/* The next transaction, with the owner's device number; all elements were checked before. */
static bool next_transaction(const struct owner_request *r, struct rd *at,
			     struct sgl_transaction *t)
{
	struct sgl_element e = { .transaction = r->only };
	bool has_one = false;

	if (r->transactions == 1) {
		has_one = at->at != at->end;
		at->at = at->end;
	}
	while (at->at != at->end && !has_one) {
		CHECK(sgl_next(&e, at, &r->attributes) == SGL_OK);
		has_one = e.kind == SGL_TRANSACTION;
	}
	if (!has_one)
		return false;
	*t = e.transaction;
	t->device = owner_device_number(r->pair->unit, t->device & OWNER_DEVICE_MASK);
	return true;
}

/* Attributes come in the first sequence only, so the chained one has none. */
void owner_request_point(const struct rio_owner *o, struct owner_request *r)
{
	struct wr w = wr_of(r->list, RIO_REQUEST_LIST_MAX);
	const uint64_t offset = (uint64_t)(r->slot - o->slots) * RIO_LIST_BYTES_MAX;
	const struct sgl_element attributes = { .kind = SGL_ATTRIBUTES,
						.attributes = r->attributes };
	const struct sgl_element chain = {
		.kind = SGL_CHAIN,
		.chain = { .platform = o->config.self,
			   .handle = r->slot->handle,
			   .length = (uint32_t)r->slot->length,
			   .address = o->config.lists_address + offset },
	};

	if (r->head_bytes > 0)
		sgl_put(&attributes, &r->attributes, &w);
	sgl_put(&chain, &r->attributes, &w);
	CHECK(!w.is_short);
	r->list_bytes = (size_t)(w.at - r->list);
}

void owner_request_chain(struct rio_owner *o, struct owner_request *r)
{
	struct owner_slot *s = r->slot;

	s->length = r->list_bytes - r->head_bytes;
	memcpy(s->bytes, r->list + r->head_bytes, s->length);
	r->wants_slot = false;
	owner_turn_wait(o, r);
}

/* Passes the list on in the message if it fits, else in a slot: its present one, or one to come. */
static void hand_on(struct rio_owner *o, struct owner_request *r, struct rio_list *list)
{
	bool fits = rio_list_flat_bytes(list) <= r->pair->unit->list_max;
	bool is_fetched = r->slot;
	struct owner_slot *s = r->slot;
	struct wr w = is_fetched && !fits ? wr_of(s->bytes, RIO_LIST_BYTES_MAX)
					  : wr_of(r->list, RIO_REQUEST_LIST_MAX);

	rio_list_mask_devices(list, OWNER_DEVICE_MASK);
	if (is_fetched && !fits)
		rio_list_body(list, &w);
	else
		rio_list_flat(list, &w);
	CHECK(!w.is_short);
	if (is_fetched && !fits) {
		s->length = (size_t)(w.at - s->bytes);
		owner_turn_wait(o, r);
		return;
	}
	r->list_bytes = (size_t)(w.at - r->list);
	r->wants_slot = !fits;
	if (r->wants_slot) {
		list_add_tail(&r->requester->wanting, &r->link);
		owner_slots_turn(o, r->requester);
		return;
	}
	r->slot = NULL;
	owner_turn_wait(o, r);
	if (is_fetched)
		owner_slot_free(o, s);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void request_free(struct rio_owner *o, struct owner_request *r)
{
	struct owner_slot *s = r->slot;

	CHECK(!list_is_linked(&r->notable.link));
	r->state = REQUEST_FREE;
	r->slot = NULL;
	r->requester->peer.is.now--;
	list_remove(&r->link);
	list_push(&r->requester->free_requests, &r->link);
	if (list_is_empty(&o->telling))
		o->telling_count = 0;
	if (s)
		owner_slot_free(o, s);
}

/*
 * Releases what the request holds or waits for. It keeps its slot while allowed transactions are
 * still to be logged from it.
 */
static void step_back(struct rio_owner *o, struct owner_request *r)
{
	struct owner_slot *s = r->slot;

	list_remove(&r->link);
	if (r->state == REQUEST_COMMANDED) {
		r->command->request = NULL;
		r->command = NULL;
		r->slot = NULL;
	} else if (r->state == REQUEST_WAITING) {
		owner_turn_update(o, r->pair);
	} else if (s) {
		r->slot = NULL;
		owner_slot_leave(o, s);
	}
	owner_slots_turn(o, r->requester);
}

/*
 * The requester was told by the I/O unit. Batch the notice to spare it wake-ups, unless it runs
 * short of request slots.
 */
static void telling_add(struct rio_owner *o, struct owner_request *r)
{
	list_add_tail(&o->telling, &r->link);
	o->telling_count++;
	if (o->telling_count == 1)
		o->telling_ns = o->now_ns + RIO_NOTIFY_WAIT_NS;
	if (o->telling_count >= RIO_NOTIFY_BATCH || owner_is_short(o, r->requester))
		o->telling_ns = o->now_ns;
}

bool owner_is_short(const struct rio_owner *o, const struct owner_requester *q)
{
	uint32_t max = o->config.requests_max;

	return rio_is_short_of(max - q->peer.is.now, max);
}

static void end(struct rio_owner *o, struct owner_request *r, const struct rio_status *s,
		const struct sgl_transaction *is)
{
	struct rio_owner_peer *counts = &r->requester->peer.is;

	r->final = (struct rio_note){
		.kind = r->is_allowed ? RIO_NOTE_ENDED : RIO_NOTE_REFUSED,
		.role = RIO_REQUESTER,
		.who = counts->platform,
		.request = r->id,
		.reason = (enum weft_reason)s->reason,
		.transaction = s->transaction,
		.transactions = r->transactions,
		.bytes = s->done_bytes,
	};
	if (r->pair)
		r->final.iounit = r->pair->unit->peer.is.platform;
	if (is)
		r->final.is = *is;
	if (!r->is_allowed)
		counts->refused++;
	else if (s->reason != 0)
		counts->failed++;
	timer_queue_cancel(&o->timers, &r->timer);
	r->status = *s;
	if (s->text.length > 0)
		memcpy(r->text, s->text.bytes, s->text.length);
	r->status.text.bytes = r->text;
	step_back(o, r);
	r->is_final_due = true;
	owner_note(o, &r->notable);
	r->state = REQUEST_SAYING;
	if (r->is_notified)
		telling_add(o, r);
	else
		list_add_tail(&o->saying, &r->link);
}

static struct rio_status status_of(enum weft_reason reason, uint32_t transaction)
{
	return (struct rio_status){ .reason = (uint32_t)reason,
				    .transaction = transaction,
				    .text = refusal_text(reason) };
}

void owner_request_fail(struct rio_owner *o, struct owner_request *r, enum weft_reason reason)
{
	const struct rio_status s = status_of(reason, 0);

	end(o, r, &s, NULL);
}

/*
 * Transactions run in order, `done` bytes in all. Bytes beyond the list, claimed by a faulty unit,
 * are not counted.
 */
static void account(struct owner_request *r, uint64_t done)
{
	struct rio_owner_peer *const counts[] = { &r->requester->peer.is, &r->pair->unit->peer.is };
	uint64_t sums[SGL_OPERATION_COUNT] = { 0 };
	struct rd at = body_of(r);
	struct sgl_transaction t;

	while (done > 0 && next_transaction(r, &at, &t)) {
		uint64_t of_it = t.length < done ? t.length : done;

		if (t.operation != SGL_READ && t.operation != SGL_WRITE)
			continue; /* moves no data */
		sums[t.operation] += of_it;
		done -= of_it;
	}
	for (int i = 0; i < 2; i++) {
		counts[i]->read_bytes += sums[SGL_READ];
		counts[i]->written_bytes += sums[SGL_WRITE];
	}
}

void owner_request_end(struct rio_owner *o, struct owner_request *r, const struct rio_status *s)
{
	struct rd at = body_of(r);
	struct sgl_transaction t;
	bool has_one = false;

	account(r, s->done_bytes);
	for (uint32_t i = 0; s->reason != 0 && i <= s->transaction; i++) {
		has_one = next_transaction(r, &at, &t);
		if (!has_one)
			break;
	}
	end(o, r, s, has_one ? &t : NULL);
}

void owner_request_drop(struct rio_owner *o, struct owner_request *r)
{
	if (r->state == REQUEST_FREE)
		return;
	if (r->state == REQUEST_COMMANDED)
		owner_command_cancel(o, r->command);
	if (r->state != REQUEST_SAYING)
		owner_request_fail(o, r, WEFT_R_PEER_GONE);
	list_remove(&r->link);
	r->state = REQUEST_NOTING;
	if (!list_is_linked(&r->notable.link))
		request_free(o, r);
}

/* ---- The beginning -------------------------------------------------------------------------- */

static void only_note(struct owner_request *r, const struct rio_list *list)
{
	struct rio_walk walk;

	rio_walk_start(&walk, list);
	CHECK(rio_walk_transaction(&walk, &r->only));
}

void owner_request_judge(struct rio_owner *o, struct owner_request *r, struct rio_list *list)
{
	struct owner_verdict v;

	r->transactions = rio_list_transactions(list);
	owner_judge(o, r->requester, list, &v, r->rules);
	if (v.unit)
		r->pair = owner_pair_of(o, r->requester, v.unit);
	if (v.reason != WEFT_OK) {
		const struct rio_status s = status_of(v.is_hidden ? WEFT_R_RIO_DEVICE : v.reason,
						      v.transaction);

		end(o, r, &s, &v.is);
		r->final.reason = v.reason;
		return;
	}
	if (r->transactions == 1)
		only_note(r, list);
	r->is_allowed = true;
	r->to_note = r->transactions;
	owner_note(o, &r->notable);
	r->head_bytes = rio_list_attributes(list, &r->attributes) ? OWNER_ATTRIBUTES_BYTES : 0;
	r->state = REQUEST_WAITING;
	hand_on(o, r, list);
}

static struct owner_request *find(struct owner_requester *q, uint64_t id)
{
	uint32_t left = q->peer.is.now;

	/* Free slots are reused last in, first out: those in use are among the first. */
	for (struct owner_request *r = q->requests; left > 0; r++) {
		if (r->state == REQUEST_FREE)
			continue;
		if (r->id == id)
			return r;
		left--;
	}
	return NULL;
}

/* Ids usually grow, so that no search is needed. */
static bool is_outstanding(struct owner_requester *q, uint64_t id)
{
	bool is_new = q->peer.is.now == 0 || id > q->newest_id;

	if (is_new)
		q->newest_id = id;
	return !is_new && find(q, id);
}

static struct owner_request *begin(struct rio_owner *o, struct owner_requester *q,
				   const struct rio_msg *m)
{
	struct owner_request *r = CONTAINER_OF(list_pop(&q->free_requests), struct owner_request,
					       link);
	uint64_t timeout_ns = m->request.timeout_ms > 0 ? (uint64_t)m->request.timeout_ms * MS_NS
							: o->config.timeout_ns;
	uint64_t late_ns = deadline_after(o->now_ns, timeout_ns);

	*r = (struct owner_request){
		.link = r->link,
		.notable = r->notable,
		.requester = q,
		.list = r->list,
		.id = m->id,
		.state = REQUEST_FETCHING,
	};
	list_init(&r->link);
	list_init(&r->notable.link);
	q->peer.is.now++;
	q->peer.is.requests++;
	timer_queue_set(&o->timers, &r->timer, late_ns);
	return r;
}

enum weft_reason owner_request_take(struct rio_owner *o, struct owner_requester *q,
				    const struct rio_msg *m)
{
	const struct rio_bytes *list = &m->request.list;
	struct owner_request *r;
	struct sgl_chain chain;
	enum weft_reason reason;

	/*
	 * A requester must keep to the announced limit, and must not reuse the id of an outstanding
	 * request.
	 */
	if (list_is_empty(&q->free_requests) || is_outstanding(q, m->id))
		return WEFT_R_RIO_UNEXPECTED;
	r = begin(o, q, m);
	rio_list_clear(o->scratch);
	reason = rio_list_take(o->scratch, list->bytes, list->length);
	if (reason != WEFT_OK) {
		owner_request_fail(o, r, reason);
	} else if (!rio_list_wants(o->scratch, &chain)) {
		owner_request_judge(o, r, o->scratch);
	} else if (!platform_is_same(chain.platform, q->peer.is.platform)) {
		owner_request_fail(o, r, WEFT_R_RIO_CHAIN);
	} else {
		memcpy(r->list, list->bytes, list->length);
		r->list_bytes = list->length;
		list_add_tail(&q->wanting, &r->link);
		owner_slots_turn(o, q);
	}
	return WEFT_OK;
}

void owner_request_cancel(struct rio_owner *o, struct owner_requester *q, uint64_t id)
{
	struct owner_request *r = find(q, id);

	/* It may have ended already. */
	if (!r || r->state == REQUEST_SAYING)
		return;
	if (r->state == REQUEST_COMMANDED)
		owner_command_cancel(o, r->command);
	else
		owner_request_fail(o, r, WEFT_R_RIO_CANCELLED);
}

/* ---- What is to be done --------------------------------------------------------------------- */

static void note_allowed(struct owner_request *r, struct rio_note *note)
{
	struct rd at = body_of(r);
	const uint8_t *start = at.at;

	*note = (struct rio_note){
		.kind = RIO_NOTE_ALLOWED,
		.role = RIO_REQUESTER,
		.who = r->requester->peer.is.platform,
		.iounit = r->pair->unit->peer.is.platform,
		.request = r->id,
		.transaction = r->noted,
		.transactions = r->transactions,
		.rule = r->rules[r->noted],
	};
	at.at += r->noted_bytes;
	CHECK(next_transaction(r, &at, &note->is));
	r->noted_bytes = (size_t)(at.at - start);
	r->noted++;
}

void owner_request_note(struct rio_owner *o, struct owner_request *r, struct rio_note *note)
{
	if (r->noted < r->to_note) {
		note_allowed(r, note);
	} else {
		*note = r->final;
		r->is_final_due = false;
	}
	if (r->noted < r->to_note || r->is_final_due)
		return;
	list_remove(&r->notable.link);
	if (r->state == REQUEST_NOTING)
		request_free(o, r);
}

void owner_status_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_request *r = CONTAINER_OF(list_pop(&o->saying), struct owner_request, link);

	owner_say(o, &r->requester->peer,
		  &(struct rio_msg){ .type = RIO_STATUS, .id = r->id, .status = r->status }, act);
	request_free(o, r);
}

/* One message for a batch of the same requester. */
void owner_notify_act(struct rio_owner *o, struct rio_owner_act *act)
{
	uint8_t entries[NOTIFIED_MAX * RIO_NOTIFIED_ENTRY_BYTES];
	struct wr w = wr_of(entries, sizeof(entries));
	struct owner_requester *q =
		CONTAINER_OF(o->telling.next, struct owner_request, link)->requester;
	struct rio_msg m = { .type = RIO_NOTIFIED };
	struct list *next;

	for (struct list *l = o->telling.next; l != &o->telling && m.notified.count < NOTIFIED_MAX;
	     l = next) {
		struct owner_request *r = CONTAINER_OF(l, struct owner_request, link);

		next = l->next;
		if (r->requester != q)
			continue;
		rio_notified_put(&(struct rio_notified_entry){ r->id, r->status.done_bytes }, &w);
		m.notified.count++;
		request_free(o, r);
	}
	m.notified.entries = (struct rio_bytes){ entries, (size_t)(w.at - entries) };
	owner_say(o, &q->peer, &m, act);
}
