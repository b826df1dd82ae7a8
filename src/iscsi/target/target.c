/* SPDX-License-Identifier: BSD-2-Clause */
/* The node: targets, connections, deadlines, and what people see of it. */
#include "iscsi/target/target.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/deadline.h"
#include "base/free_list.h"
#include "iscsi/target/target_inside.h"
#include "iscsi/target/target_iser.h"

enum {
	TASKS_MAX = 1 << 23, /* a Target Transfer Tag has room for their numbers */
	SESSIONS_MAX = UINT16_MAX - 1,
	BURST_BYTES = 16 * 1024 * 1024 - 512,
	FIRST_BURST_BYTES = 256 * 1024,
	RECV_BYTES = 256 * 1024,
	R2T_MAX = 8
};

#define SECOND_NS UINT64_C(1000000000)

/* ---- Creation ------------------------------------------------------------------------------- */

void iscsi_node_config_init(struct iscsi_node_config *c, uint32_t sessions_max)
{
	enum { WINDOW = 128, HALF_OPEN = 256, TEXTS = 64, MEMORY_MIB = 128 };

	*c = (struct iscsi_node_config){
		.targets_max = 256,
		.sessions_max = sessions_max,
		.connections_max = sessions_max + HALF_OPEN,
		.texts_max = TEXTS,
		.tasks_max = sessions_max * (WINDOW + ISCSI_EXTRAS_MAX),
		.window_max = WINDOW,
		.memory_bytes = (uint64_t)MEMORY_MIB * ISCSI_MEMORY_UNIT,
		.login_wait_ns = 15 * SECOND_NS,
		.ping_after_ns = 30 * SECOND_NS,
		.ping_wait_ns = 15 * SECOND_NS,
	};
}

static bool is_sound(const struct iscsi_node_config *c)
{
	return c->calls && c->targets_max > 0 && c->targets_max < ISCSI_TARGET_NONE &&
	       c->sessions_max > 0 && c->sessions_max <= SESSIONS_MAX &&
	       c->connections_max >= c->sessions_max && c->texts_max > 1 && c->window_max > 0 &&
	       c->tasks_max > c->window_max && c->tasks_max <= TASKS_MAX &&
	       c->memory_bytes >= 2 * (uint64_t)ISCSI_TRANSFER_MAX &&
	       c->memory_bytes % ISCSI_MEMORY_UNIT == 0 && c->memory_bytes >> 43 == 0;
}

enum weft_reason iscsi_node_create(const struct iscsi_node_config *c, struct iscsi_node **out)
{
	struct iscsi_node *node;
	int failed;

	if (!is_sound(c))
		return WEFT_R_BAD_ARGUMENT;
	node = calloc(1, sizeof(*node));
	if (!node)
		return WEFT_R_NO_MEMORY;
	node->config = *c;
	list_init(&node->connections);
	list_init(&node->sessions);
	list_init(&node->zombies);
	list_init(&node->attention);
	list_init(&node->half_open);
	list_init(&node->starved);
	list_init(&node->greedy);
	node->hungry_ns = UINT64_MAX;
	list_init(&node->texts_free);
	list_init(&node->texts_open);
	node->unpromised = c->tasks_max;
	node->targets = calloc(c->targets_max, sizeof(*node->targets));
	node->tasks = calloc(c->tasks_max, sizeof(*node->tasks));
	node->free_tasks = calloc(c->tasks_max, sizeof(*node->free_tasks));
	node->texts = calloc(c->texts_max, sizeof(*node->texts));
	failed = timer_queue_init(&node->timers, c->connections_max);
	if (failed || !node->targets || !node->tasks || !node->free_tasks || !node->texts ||
	    pool_create(c->memory_bytes, &node->pool) != WEFT_OK) {
		iscsi_node_destroy(node);
		return WEFT_R_NO_MEMORY;
	}
	*out = node;
	return WEFT_OK;
}

void iscsi_node_destroy(struct iscsi_node *node)
{
	CHECK(iscsi_node_is_idle(node));
	timer_queue_fini(&node->timers);
	if (node->pool)
		pool_destroy(node->pool);
	free(node->targets);
	free(node->tasks);
	free(node->free_tasks);
	free(node->texts);
	free(node);
}

/* ---- Targets -------------------------------------------------------------------------------- */

void iscsi_target_wish_init(struct iscsi_params *wish)
{
	iscsi_params_init(wish);
	wish->connection.header_digest = iscsi_list_of(ISCSI_DIGEST_NONE, ISCSI_DIGEST_CRC32C);
	wish->connection.data_digest = iscsi_list_of(ISCSI_DIGEST_NONE, ISCSI_DIGEST_CRC32C);
	wish->connection.recv_bytes_max = RECV_BYTES;
	wish->session.needs_r2t = false;
	wish->session.burst_bytes_max = BURST_BYTES;
	wish->session.first_burst_bytes_max = FIRST_BURST_BYTES;
	wish->session.r2t_max = R2T_MAX;
	wish->session.time2wait_s = 0;
	wish->session.protocol_level = 2;
}

/* What this target cannot do otherwise. */
static bool is_possible(const struct iscsi_params *wish)
{
	return wish->session.connections_max == 1 && wish->session.error_recovery_level == 0 &&
	       wish->session.has_pdus_in_order && wish->session.has_sequences_in_order &&
	       !wish->session.has_rdma;
}

enum weft_reason iscsi_target_add(struct iscsi_node *node, const struct iscsi_target_config *c,
				  uint16_t *out)
{
	struct target_entry *t = &node->targets[node->target_count];
	enum weft_reason reason;
	struct iscsi_name name;

	if (node->target_count == node->config.targets_max)
		return WEFT_R_LIMIT;
	reason = iscsi_name_normalise(c->name, &name);
	if (reason != WEFT_OK)
		return reason;
	if (!c->scsi || c->alias.length > ISCSI_SIMPLE_MAX || !is_possible(&c->wish))
		return WEFT_R_BAD_ARGUMENT;
	for (uint32_t i = 0; i < node->target_count; i++)
		if (node->targets[i].name.length == name.length &&
		    memcmp(node->targets[i].name.text, name.text, name.length) == 0)
			return WEFT_R_BAD_ARGUMENT;
	*t = (struct target_entry){ .name = name,
				    .scsi = c->scsi,
				    .portal_group_tag = c->portal_group_tag,
				    .wish = c->wish };
	if (c->alias.length > 0)
		memcpy(t->alias, c->alias.at, c->alias.length);
	*out = (uint16_t)node->target_count++;
	return WEFT_OK;
}

/* ---- Texts ---------------------------------------------------------------------------------- */

/* The oldest half-open login gives way. */
static bool evict(struct iscsi_node *node, bool needs_text)
{
	for (struct list *l = node->half_open.next; l != &node->half_open; l = l->next) {
		struct iscsi_connection *c = CONTAINER_OF(l, struct iscsi_connection, half_open);

		if (needs_text && !c->text)
			continue;
		node->counts.evicted++;
		target_conn_end(c, WEFT_R_ISCSI_CROWDED);
		return true;
	}
	return false;
}

/* Of sessions that negotiate, the one that began first gives way. */
static void evict_session(struct iscsi_node *node)
{
	struct list *l = node->texts_open.next;

	node->counts.evicted++;
	target_conn_end(CONTAINER_OF(l, struct target_text, link)->connection,
			WEFT_R_ISCSI_CROWDED);
}

/* Half of the texts are for logins only: sessions that never finish cannot take these. */
void target_text_get(struct iscsi_connection *c)
{
	struct iscsi_node *node = c->node;
	bool is_login = c->state == CONN_LOGIN;
	struct target_text *x;

	if (!is_login && node->texts_open_count == node->config.texts_max / 2)
		evict_session(node);
	if (list_is_empty(&node->texts_free) && node->texts_touched == node->config.texts_max)
		CHECK(evict(node, true));
	if (!list_is_empty(&node->texts_free)) {
		x = CONTAINER_OF(list_pop(&node->texts_free), struct target_text, link);
	} else {
		x = &node->texts[node->texts_touched++];
		list_init(&x->link);
	}
	node->texts_used++;
	x->connection = c;
	x->exchanges = 0;
	c->text = x;
	if (is_login)
		return;
	list_add_tail(&node->texts_open, &x->link);
	node->texts_open_count++;
}

void target_text_put(struct iscsi_connection *c)
{
	struct iscsi_node *node = c->node;
	struct target_text *x = c->text;

	c->text = NULL;
	iscsi_login_fini(&x->login);
	node->texts_used--;
	node->texts_open_count -= list_is_linked(&x->link);
	list_remove(&x->link);
	list_push(&node->texts_free, &x->link);
}

/* ---- Connections ---------------------------------------------------------------------------- */

void target_attention(struct iscsi_connection *c)
{
	if (!list_is_linked(&c->attention))
		list_add_tail(&c->node->attention, &c->attention);
}

struct iscsi_connection *iscsi_node_attend(struct iscsi_node *node)
{
	if (list_is_empty(&node->attention))
		return NULL;
	return CONTAINER_OF(list_pop(&node->attention), struct iscsi_connection, attention);
}

struct iscsi_peer target_peer(const struct iscsi_connection *c)
{
	struct iscsi_peer p = { .peer = c->peer, .local = c->local, .is_rdma = c->iser };

	p.initiator = (struct word){ c->initiator.text, c->initiator.length };
	p.account = iscsi_word(c->session ? c->session->account : "");
	return p;
}

void target_note(struct iscsi_connection *c, enum iscsi_note_kind kind, uint16_t status)
{
	const struct iscsi_node_config *config = &c->node->config;
	struct iscsi_note note = { .kind = kind,
				   .peer = target_peer(c),
				   .target = c->target,
				   .is_discovery = c->is_discovery,
				   .reason = c->reason,
				   .status = status };

	if (config->calls->note)
		config->calls->note(config->owner, &note);
}

static void portal_set(char *to, const char *from)
{
	size_t n = from ? strlen(from) : 0;

	n = n < ISCSI_PORTAL_MAX ? n : ISCSI_PORTAL_MAX;
	if (n > 0)
		memcpy(to, from, n);
}

/* begin: of the datamover. */
static enum weft_reason node_accept(struct iscsi_node *node, const struct iscsi_accept *a,
				    enum weft_reason (*begin)(struct iscsi_connection *c),
				    uint64_t now_ns, struct iscsi_connection **out)
{
	struct iscsi_connection *c;

	node->now_ns = now_ns;
	if (node->is_ending)
		return WEFT_R_ISCSI_ENDING;
	if (node->open_count == node->config.connections_max && !evict(node, false))
		return WEFT_R_LIMIT;
	c = calloc(1, sizeof(*c));
	if (!c)
		return WEFT_R_NO_MEMORY;
	c->node = node;
	c->owner = a->owner;
	c->target = ISCSI_TARGET_NONE;
	c->begin_ns = c->heard_ns = now_ns;
	memcpy(c->random, a->random, sizeof(c->random));
	portal_set(c->peer, a->peer);
	portal_set(c->local, a->local);
	list_init(&c->attention);
	list_init(&c->half_open);
	list_init(&c->out);
	if (begin(c) != WEFT_OK) {
		free(c);
		return WEFT_R_NO_MEMORY;
	}
	list_add_tail(&node->connections, &c->link);
	list_add_tail(&node->half_open, &c->half_open);
	node->connection_count++;
	node->open_count++;
	node->counts.accepted++;
	target_conn_arm(c, deadline_after(now_ns, node->config.login_wait_ns));
	*out = c;
	return WEFT_OK;
}

enum weft_reason iscsi_node_accept(struct iscsi_node *node, const struct iscsi_accept *a,
				   uint64_t now_ns, struct iscsi_connection **out)
{
	return node_accept(node, a, target_tcp_begin, now_ns, out);
}

enum weft_reason iscsi_node_accept_iser(struct iscsi_node *node, const struct iscsi_accept *a,
					uint64_t now_ns, struct iscsi_connection **out)
{
	return node_accept(node, a, target_iser_begin, now_ns, out);
}

void iscsi_connection_destroy(struct iscsi_connection *c, uint64_t now_ns)
{
	struct iscsi_node *node = c->node;

	node->now_ns = now_ns;
	target_conn_end(c, WEFT_R_CONNECT_CLOSED);
	list_remove(&c->attention);
	list_remove(&c->link);
	node->connection_count--;
	c->mover->terminate(c);
	free(c);
	target_node_settle(node);
}

void *iscsi_connection_owner(const struct iscsi_connection *c)
{
	return c->owner;
}

enum iscsi_action iscsi_connection_action(const struct iscsi_connection *c)
{
	return c->action;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

bool iscsi_connection_wants(const struct iscsi_connection *c)
{
	return c->state < CONN_LEAVING && iscsi_framing_wants(c->framing);
}

void iscsi_connection_want(struct iscsi_connection *c, uint64_t now_ns, struct span_list *l)
{
	*l = (struct span_list){ .count = 0 };
	if (iscsi_connection_wants(c))
		iscsi_framing_want(c->framing, now_ns, l);
}

void iscsi_connection_got(struct iscsi_connection *c, uint64_t now_ns, const struct span_list *l,
			  size_t n)
{
	c->node->now_ns = c->heard_ns = now_ns;
	c->is_pinging = false;
	if (c->state >= CONN_LEAVING)
		return;
	iscsi_framing_got(c->framing, now_ns, l, n);
	if (iscsi_framing_reason(c->framing) != WEFT_OK)
		target_conn_end(c, iscsi_framing_reason(c->framing));
	target_node_settle(c->node);
}

void iscsi_connection_have(struct iscsi_connection *c, uint64_t now_ns, struct span_list *l)
{
	c->node->now_ns = now_ns;
	*l = (struct span_list){ .count = 0 };
	if (c->state == CONN_CLOSED)
		return;
	target_tcp_fill(c);
	iscsi_framing_have(c->framing, now_ns, l);
	target_node_settle(c->node);
}

void iscsi_connection_sent(struct iscsi_connection *c, uint64_t now_ns, size_t n)
{
	c->node->now_ns = now_ns;
	if (c->state == CONN_CLOSED)
		return;
	if (!c->is_pinging)
		c->heard_ns = now_ns; /* the peer takes what it is sent */
	iscsi_framing_sent(c->framing, now_ns, n);
	target_conn_sent(c);
	c->node->has_freed |= c->is_waiting;
	if (!list_is_empty(&c->out))
		target_attention(c);
	target_node_settle(c->node);
}

void iscsi_connection_eof(struct iscsi_connection *c, uint64_t now_ns)
{
	c->node->now_ns = now_ns;
	target_conn_end(c, c->is_logged_in ? WEFT_R_STREAM_LOST : WEFT_R_CONNECT_CLOSED);
	target_node_settle(c->node);
}

/* ---- Going on ------------------------------------------------------------------------------- */

/* That an initiator may hold memory for data that it does not send, while others wait for it. */
static uint64_t hold_ns(const struct iscsi_node *node)
{
	return deadline_after(node->config.ping_after_ns, node->config.ping_wait_ns);
}

void target_node_starve(struct iscsi_node *node, struct target_task *t)
{
	list_add_tail(&node->starved, &t->wait);
	if (node->hungry_ns == UINT64_MAX)
		node->hungry_ns = deadline_after(node->now_ns, hold_ns(node));
}

/* Its memory is for data that its initiator has yet to send or to take. */
static bool is_holder(const struct target_task *t)
{
	bool is_waiting = t->state == TASK_COLLECTING || t->state == TASK_PUTTING ||
			  (t->state == TASK_ENDING && !t->is_submitted);

	return is_waiting && t->span_count > 0 && t->session->connection;
}

/* Of those that wait for their initiators, the one that has done so for longest. */
static struct target_task *holder_find(struct iscsi_node *node)
{
	struct target_task *oldest = NULL;

	for (uint32_t i = 0; i < node->config.tasks_max; i++) {
		struct target_task *t = &node->tasks[i];

		if (is_holder(t) && (!oldest || t->held_ns < oldest->held_ns))
			oldest = t;
	}
	return oldest;
}

/* Ends sessions that neither send nor take data, one by one, while others starve for its memory. */
static void holders_expire(struct iscsi_node *node)
{
	node->hungry_ns = UINT64_MAX;
	while (!list_is_empty(&node->starved)) {
		struct target_task *t = holder_find(node);
		uint64_t until_ns = t ? deadline_after(t->held_ns, hold_ns(node))
				      : deadline_after(node->now_ns, hold_ns(node));

		if (until_ns > node->now_ns) {
			node->hungry_ns = until_ns;
			return;
		}
		target_conn_end(t->session->connection, WEFT_R_ISCSI_HOLDING);
		target_node_settle(node);
	}
}

/* Tasks that wait for memory, in their order, until there is none. */
static void feed_starved(struct iscsi_node *node)
{
	while (!list_is_empty(&node->starved)) {
		struct list *l = node->starved.next;

		target_task_step(CONTAINER_OF(l, struct target_task, wait));
		if (node->starved.next == l)
			return;
	}
}

/* Tasks that waited until their session had less of the memory: of each session one in turn. */
static void feed_greedy(struct iscsi_node *node)
{
	bool has_any = true;

	/* Bound: each turn but the last takes a task off a list. */
	while (has_any) {
		struct list *l = node->greedy.next;

		has_any = false;
		while (l != &node->greedy) {
			struct target_session *s = CONTAINER_OF(l, struct target_session, wait);
			struct list *first = s->greedy.next;

			l = l->next;
			if (first == &s->greedy) {
				list_remove(&s->wait);
				continue;
			}
			target_task_step(CONTAINER_OF(first, struct target_task, wait));
			has_any |= s->greedy.next != first;
		}
	}
}

static void kick_all(struct iscsi_node *node)
{
	if (node->ready_count == 0)
		return;
	for (struct list *l = node->sessions.next; l != &node->sessions; l = l->next)
		target_task_kick(CONTAINER_OF(l, struct target_session, link));
}

static void resume_all(struct iscsi_node *node)
{
	if (node->waiting_count == 0)
		return;
	for (struct list *l = node->connections.next; l != &node->connections; l = l->next) {
		struct iscsi_connection *c = CONTAINER_OF(l, struct iscsi_connection, link);

		if (!c->is_waiting || c->state >= CONN_LEAVING)
			continue;
		c->mover->resume(c, node->now_ns);
		target_attention(c);
	}
}

void target_node_settle(struct iscsi_node *node)
{
	/* Bound: each turn follows the end of a task, a session or a wait. */
	while (node->has_freed) {
		node->has_freed = false;
		feed_starved(node);
		feed_greedy(node);
		kick_all(node);
		target_manage_check(node);
		resume_all(node);
	}
}

void iscsi_node_run(struct iscsi_node *node, uint64_t now_ns)
{
	node->now_ns = now_ns;
	for (uint32_t i = 0; i < node->target_count; i++) {
		struct scsi_task *t;

		while ((t = scsi_next_done(node->targets[i].scsi, now_ns)))
			target_task_done(CONTAINER_OF(t, struct target_task, scsi));
	}
	target_node_settle(node);
}

uint64_t iscsi_node_due(const struct iscsi_node *node)
{
	uint64_t due_ns = timer_queue_due(&node->timers);

	due_ns = node->hungry_ns < due_ns ? node->hungry_ns : due_ns;
	for (uint32_t i = 0; i < node->target_count; i++) {
		uint64_t scsi_ns = scsi_due(node->targets[i].scsi);

		due_ns = scsi_ns < due_ns ? scsi_ns : due_ns;
	}
	return due_ns;
}

void iscsi_node_expire(struct iscsi_node *node, uint64_t now_ns)
{
	struct timer *t;

	node->now_ns = now_ns;
	while ((t = timer_queue_expire(&node->timers, now_ns)))
		target_conn_expire(CONTAINER_OF(t, struct iscsi_connection, timer));
	if (node->hungry_ns <= now_ns)
		holders_expire(node);
	for (uint32_t i = 0; i < node->target_count; i++)
		scsi_expire(node->targets[i].scsi, now_ns);
	iscsi_node_run(node, now_ns);
}

/* ---- The end -------------------------------------------------------------------------------- */

void iscsi_node_end(struct iscsi_node *node, uint64_t now_ns, uint64_t wait_ns)
{
	struct list *l = node->connections.next;

	node->now_ns = now_ns;
	node->is_ending = true;
	while (l != &node->connections) {
		struct iscsi_connection *c = CONTAINER_OF(l, struct iscsi_connection, link);

		l = l->next;
		c->end_ns = deadline_after(now_ns, wait_ns);
		if (c->state == CONN_LOGIN || (c->session && c->session->is_discovery)) {
			target_conn_end(c, WEFT_R_ISCSI_ENDING);
		} else if (c->state == CONN_OPEN) {
			target_conn_ask_to_leave(c, wait_ns);
			target_conn_arm(c, c->end_ns);
		}
	}
	target_node_settle(node);
}

bool iscsi_node_is_idle(const struct iscsi_node *node)
{
	return node->connection_count == 0 && node->session_count == 0 && node->zombie_count == 0 &&
	       node->task_count == 0;
}

/* ---- Looking -------------------------------------------------------------------------------- */

void iscsi_node_counts(const struct iscsi_node *node, struct iscsi_node_counts *counts)
{
	*counts = node->counts;
	counts->sessions = node->session_count;
	counts->connections = node->connection_count;
	counts->texts = node->texts_used;
	counts->tasks = node->task_count;
	counts->memory_bytes = pool_bytes(node->pool);
	counts->memory_used = counts->memory_bytes - pool_free_bytes(node->pool);
}

static const char *const state_names[CONN_STATES] = { "login", "open", "logging out", "closing" };

static uint32_t task_count(const struct target_session *s)
{
	uint32_t n = 0;

	for (struct list *l = s->tasks.next; l != &s->tasks; l = l->next)
		n++;
	return n;
}

bool iscsi_node_view(const struct iscsi_node *node, uint32_t *at, struct iscsi_view *v)
{
	const struct list *l = node->connections.next;
	const struct iscsi_connection *c;

	for (uint32_t i = 0; i < *at && l != &node->connections; i++)
		l = l->next;
	if (l == &node->connections)
		return false;
	(*at)++;
	c = CONTAINER_OF(l, struct iscsi_connection, link);
	*v = (struct iscsi_view){ .peer = c->peer,
				  .local = c->local,
				  .initiator = c->initiator.text,
				  .state = state_names[c->state],
				  .target = c->target,
				  .begin_ns = c->begin_ns,
				  .heard_ns = c->heard_ns };
	c->mover->count(c, v);
	if (c->session) {
		const struct target_session *s = c->session;

		v->tsih = s->tsih;
		v->cid = s->cid;
		memcpy(v->isid, s->isid, ISCSI_ISID_BYTES);
		v->is_discovery = s->is_discovery;
		v->params = &c->params;
		v->tasks = task_count(s);
		v->window = s->window - s->in_flight;
		v->memory_bytes = s->memory_bytes;
		v->counts = s->counts;
	}
	return true;
}
