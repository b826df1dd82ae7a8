/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the owner's core (rio/owner.h) as a process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/reserved.h"
#include "driver/sys/clock.h"
#include "driver/sys/system_reason.h"
#include "rio/owner.h"
#include "roles/rio_end.h"
#include "roles/rio_note.h"
#include "wire/rio_text.h"

enum {
	REQUESTERS = 16,
	REQUESTERS_MOST = 32, /* limit of an I/O unit */
	REQUESTS = 64,
	IOUNITS = 32,
	LISTS = 8,
	COMMANDS_MOST = 1024, /* per I/O unit: each needs a receive buffer for its status */
	LINE = 512
};

static const uint64_t timeout_ns = UINT64_C(30) * 1000 * 1000 * 1000;

/* Log lines of successful requests may wait this long to be flushed together with later ones. */
static const uint64_t noted_wait_ns = 4 * 1000 * 1000;

struct weft_rio_owner {
	struct rio_loop loop; /* first member: casts lead from loop to role */
	pthread_mutex_t lock; /* guards everything here while the loop runs */
	struct weft_rio_owner_options options;
	struct rio_owner *core;
	struct rio_policy *policy;
	struct rio_owner_known *known; /* the loop's peers, for reports */
	uint8_t *lists;
	uint32_t lists_tag;
	uint32_t windows[LISTS]; /* current window tag of each list */
	uint64_t noted_ns;	 /* when log lines must be flushed; UINT64_MAX: none are due */
	uint64_t term;		 /* the highest known */
	bool is_superseded;	 /* the highest known term is another owner's */
};

static struct weft_rio_owner *owner_of(struct rio_loop *loop)
{
	return CONTAINER_OF(loop, struct weft_rio_owner, loop);
}

/* ---- What has happened ---------------------------------------------------------------------- */

/* The I/O unit's position in the configuration, from 1; 0: a requester. */
static uint32_t place_of(const struct rio_loop *loop, const struct rio_end *end)
{
	return end->dial ? (uint32_t)(end->dial - loop->dials) + 1 : 0;
}

static enum weft_reason came(struct rio_loop *loop, struct rio_end *end)
{
	return rio_owner_came(owner_of(loop)->core, &end->handshake, place_of(loop, end),
			      &end->number);
}

static enum weft_reason message(struct rio_loop *loop, struct rio_end *end, const uint8_t *bytes,
				size_t length)
{
	return rio_owner_take(owner_of(loop)->core, end->number, bytes, length, loop->now_ns);
}

/* An orderly end gets no reason in the log. */
static void gone(struct rio_loop *loop, struct rio_end *end)
{
	bool is_usual = end->reason == WEFT_R_PEER_GONE || end->reason == WEFT_R_PEER_TERMINATED;

	rio_owner_left(owner_of(loop)->core, end->number, is_usual ? WEFT_OK : end->reason);
}

static void refused(struct rio_loop *loop, struct rio_end *end)
{
	struct weft_rio_owner *o = owner_of(loop);
	char line[LINE];

	/*
	 * This side refuses lower terms with the same reason: then only the other owner is
	 * superseded.
	 */
	if (end->reason == WEFT_R_RIO_SUPERSEDED &&
	    rio_term_compare(&end->handshake.seen, &loop->self.term) > 0) {
		o->term = end->handshake.seen.number;
		o->is_superseded = true;
		rio_loop_stop(loop);
	}
	if (!o->options.note)
		return;
	rio_end_refusal_text(end, line, sizeof(line));
	o->options.note(o->options.context, line);
	o->noted_ns = loop->now_ns;
}

static void moved(struct rio_loop *loop, struct rio_end *end, uint32_t id, enum weft_reason reason)
{
	(void)end;
	rio_owner_fetched(owner_of(loop)->core, id, reason);
}

/* ---- What is to be done --------------------------------------------------------------------- */

static struct rio_end *end_of(struct rio_loop *loop, uint32_t number)
{
	struct rio_end *end = NULL;

	while ((end = rio_end_next(loop, end)) != NULL) {
		if (end->is_known_to_role && end->state == RIO_END_UP && end->number == number)
			return end;
	}
	return NULL;
}

static void note(struct weft_rio_owner *o, const struct rio_note *n)
{
	uint64_t late_ns = o->loop.now_ns;
	char line[LINE];

	if (!o->options.note)
		return;
	rio_note_text(o->core, n, line, sizeof(line));
	o->options.note(o->options.context, line);
	if (n->kind == RIO_NOTE_ALLOWED || (n->kind == RIO_NOTE_ENDED && n->reason == WEFT_OK))
		late_ns += noted_wait_ns;
	o->noted_ns = late_ns < o->noted_ns ? late_ns : o->noted_ns;
}

/* Binds a window for the I/O unit that the list is for. */
static void expose(struct weft_rio_owner *o, const struct rio_end *end,
		   const struct rio_owner_act *act)
{
	struct weft_bind bind = { .window_tag = o->windows[act->id],
				  .region_tag = o->lists_tag,
				  .addr = (uintptr_t)act->bytes,
				  .length = act->length,
				  .rights = WEFT_REMOTE_READ };
	enum weft_reason r = end ? weft_window_bind_to(end->qp, &bind) : WEFT_R_RIO_IOUNIT_LEFT;

	if (r == WEFT_OK)
		o->windows[act->id] = bind.tag;
	rio_owner_exposed(o->core, act->id, r, bind.tag);
}

static void act_do(struct weft_rio_owner *o, const struct rio_owner_act *act)
{
	struct rio_end *end = end_of(&o->loop, act->number);
	enum weft_reason r;

	switch (act->kind) {
	case RIO_OWNER_SAY:
		if (end)
			rio_end_say(end, act->bytes, act->length);
		break;
	case RIO_OWNER_FETCH:
		r = end ? rio_end_move(end, &(struct rio_move){ .is_read = true,
								.id = act->id,
								.bytes = act->bytes,
								.length = (uint32_t)act->length,
								.handle = act->handle,
								.remote = act->remote })
			: WEFT_R_PEER_GONE;
		if (r != WEFT_OK)
			rio_owner_fetched(o->core, act->id, r);
		break;
	case RIO_OWNER_NOTE:
		note(o, &act->note);
		break;
	case RIO_OWNER_SEND_AWAY:
		if (end)
			rio_end_hang_up(end, WEFT_R_RIO_TIMEOUT);
		break;
	case RIO_OWNER_EXPOSE:
		expose(o, end, act);
		break;
	case RIO_OWNER_CLOSE:
		/* If the queue pair is gone, its windows are closed already. */
		r = weft_window_unbind(o->loop.data_pd, o->windows[act->id]);
		CHECK(r == WEFT_OK || r == WEFT_R_WINDOW_UNBOUND);
		break;
	}
}

/* Passes the adapter's byte counts to the core for a report. */
static void say_moved(struct weft_rio_owner *o)
{
	struct weft_rio_traffic m;

	if (!rio_owner_is_inquired(o->core))
		return;
	rio_loop_moved(&o->loop, &m);
	rio_owner_moved(o->core, &(struct rio_moved){ m.payload_in, m.payload_out, m.control_in,
						      m.control_out, m.connections });
}

static void work(struct rio_loop *loop)
{
	struct weft_rio_owner *o = owner_of(loop);
	struct rio_owner_act act;

	rio_owner_expire(o->core, loop->now_ns);
	say_moved(o);
	while (rio_owner_act(o->core, &act))
		act_do(o, &act);
	if (o->noted_ns > loop->now_ns)
		return;
	if (o->options.noted)
		o->options.noted(o->options.context);
	o->noted_ns = UINT64_MAX;
}

static uint64_t due(struct rio_loop *loop)
{
	struct weft_rio_owner *o = owner_of(loop);
	uint64_t at = rio_owner_due(o->core);

	return at < o->noted_ns ? at : o->noted_ns;
}

static const struct rio_role_calls calls = {
	.came = came,
	.message = message,
	.gone = gone,
	.refused = refused,
	.moved = moved,
	.work = work,
	.due = due,
};

/* ---- Life ----------------------------------------------------------------------------------- */

static struct platform platform_of(struct weft_rio_platform p)
{
	return (struct platform){ p.unit, p.process };
}

static enum weft_reason policy_open(struct weft_rio_owner *o)
{
	enum weft_reason r = WEFT_OK;

	o->policy = calloc(1, sizeof(*o->policy));
	if (!o->policy)
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < o->options.rule_count && r == WEFT_OK; i++) {
		const struct weft_rio_rule *from = &o->options.rules[i];
		struct rio_rule rule = { .requester = platform_of(from->requester),
					 .iounit = platform_of(from->iounit),
					 .operations = from->operations,
					 .first = from->first,
					 .length = from->length };

		if (from->device && (!from->device[0] || strlen(from->device) > sizeof(rule.name)))
			return WEFT_R_BAD_ARGUMENT;
		if (from->device) {
			rule.name_bytes = (uint32_t)strlen(from->device);
			memcpy(rule.name, from->device, rule.name_bytes);
		}
		r = rio_policy_add(o->policy, &rule);
	}
	for (uint32_t i = 0; i < o->options.share_count && r == WEFT_OK; i++) {
		const struct weft_rio_share *from = &o->options.shares[i];

		r = rio_policy_add_share(o->policy,
					 &(struct rio_share){ platform_of(from->requester),
							      platform_of(from->platform) });
	}
	for (uint32_t i = 0; i < o->options.watcher_count && r == WEFT_OK; i++)
		r = rio_policy_add_watcher(o->policy, platform_of(o->options.watchers[i]));
	return r;
}

static enum weft_reason known_open(struct weft_rio_owner *o)
{
	const struct rio_loop *l = &o->loop;

	o->known = calloc((size_t)l->peer_count + 1, sizeof(*o->known));
	if (!o->known)
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < l->peer_count; i++) {
		const char *name = l->peers[i].name;

		o->known[i] = (struct rio_owner_known){
			.platform = l->known[i].platform,
			.role = l->known[i].role,
			.name = { (const uint8_t *)name, strnlen(name, WEFT_RIO_NAME_MAX) },
		};
		if (!rio_text_is_good(o->known[i].name.bytes, o->known[i].name.length))
			return WEFT_R_BAD_ARGUMENT;
	}
	return WEFT_OK;
}

static enum weft_reason core_open(struct weft_rio_owner *o)
{
	/* Peers reach lists only through windows. */
	const struct weft_region_options lists = { .addr = (uintptr_t)o->lists,
						   .length = (uint64_t)LISTS * RIO_LIST_BYTES_MAX,
						   .rights = WEFT_LOCAL_READ | WEFT_BIND };
	struct rio_owner_config config = {
		.self = o->loop.self.platform,
		.requesters_max = o->options.requesters_max,
		.iounits_max = IOUNITS,
		.requests_max = o->options.requests_max,
		.lists_max = LISTS,
		.lists = o->lists,
		.lists_address = (uintptr_t)o->lists,
		.timeout_ns = o->options.timeout_ns,
		.known = o->known,
		.known_count = o->loop.peer_count,
	};
	enum weft_reason r = weft_region_register(o->loop.data_pd, &lists, &o->lists_tag);

	for (uint32_t i = 0; i < LISTS && r == WEFT_OK; i++)
		r = weft_window_alloc(o->loop.data_pd, &o->windows[i]);
	if (r == WEFT_OK &&
	    getrandom(config.secret, sizeof(config.secret), 0) != sizeof(config.secret))
		r = system_reason(errno);
	return r == WEFT_OK ? rio_owner_create(&config, o->policy, &o->core) : r;
}

/*
 * Wall-clock time orders owners whose clocks agree; the random part breaks ties, in either order.
 */
static enum weft_reason term_open(struct weft_rio_owner *o)
{
	struct rio_term *term = &o->loop.self.term;

	term->number = o->options.term ? o->options.term : time_of_day_ns();
	o->term = term->number;
	return getrandom(&term->incarnation, sizeof(term->incarnation), 0) ==
			       sizeof(term->incarnation)
		       ? WEFT_OK
		       : system_reason(errno);
}

static enum weft_reason open_all(struct weft_rio_owner *o, const struct weft_rio_self *self)
{
	const struct rio_loop_config config = {
		.calls = &calls,
		.role = WEFT_RIO_OWNER,
		.ends_max = o->options.requesters_max + IOUNITS + RIO_HALF_OPEN_MAX + 1,
		.messages_max = COMMANDS_MOST,
		.limits = { o->options.requests_max, RIO_REQUEST_LIST_MAX },
		.takes_control = true,
		.dials = WEFT_RIO_IOUNIT,
	};
	enum weft_reason r = policy_open(o);

	o->lists = malloc((size_t)LISTS * RIO_LIST_BYTES_MAX);
	if (r == WEFT_OK && !o->lists)
		r = WEFT_R_NO_MEMORY;
	if (r == WEFT_OK)
		r = rio_loop_open(&o->loop, self, &config);
	if (r == WEFT_OK)
		r = term_open(o);
	if (r == WEFT_OK && o->loop.dial_count > IOUNITS)
		r = WEFT_R_LIMIT;
	if (r == WEFT_OK)
		r = known_open(o);
	if (r == WEFT_OK)
		r = core_open(o);
	return r;
}

static bool are_rules_reserved(const struct weft_rio_owner_options *o)
{
	for (uint32_t i = 0; i < o->rule_count; i++) {
		if (!RESERVED_IS_ZERO(&o->rules[i]))
			return true;
	}
	return false;
}

enum weft_reason weft_rio_owner_open(const struct weft_rio_self *self,
				     const struct weft_rio_owner_options *options,
				     struct weft_rio_owner **owner)
{
	struct weft_rio_owner *o;
	enum weft_reason r;

	if (!self || !options || !owner)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(options) || are_rules_reserved(options))
		return WEFT_R_RESERVED;
	if (options->requesters_max > REQUESTERS_MOST)
		return WEFT_R_LIMIT;
	o = calloc(1, sizeof(*o));
	if (!o)
		return WEFT_R_NO_MEMORY;
	pthread_mutex_init(&o->lock, NULL);
	o->options = *options;
	o->noted_ns = UINT64_MAX;
	if (o->options.requesters_max == 0)
		o->options.requesters_max = REQUESTERS;
	if (o->options.requests_max == 0)
		o->options.requests_max = REQUESTS;
	if (o->options.timeout_ns == 0)
		o->options.timeout_ns = timeout_ns;
	r = open_all(o, self);
	if (r != WEFT_OK) {
		weft_rio_owner_close(o);
		return r;
	}
	*owner = o;
	return WEFT_OK;
}

enum weft_reason weft_rio_owner_run(struct weft_rio_owner *owner)
{
	if (!owner)
		return WEFT_R_NULL_ARGUMENT;
	rio_loop_run(&owner->loop, &owner->lock);
	return owner->is_superseded ? WEFT_R_RIO_SUPERSEDED : WEFT_OK;
}

uint64_t weft_rio_owner_term(struct weft_rio_owner *owner)
{
	uint64_t term;

	if (!owner)
		return 0;
	pthread_mutex_lock(&owner->lock);
	term = owner->term;
	pthread_mutex_unlock(&owner->lock);
	return term;
}

void weft_rio_owner_stop(struct weft_rio_owner *owner)
{
	if (owner)
		rio_loop_stop(&owner->loop);
}

void weft_rio_owner_close(struct weft_rio_owner *owner)
{
	if (!owner)
		return;
	if (owner->noted_ns != UINT64_MAX && owner->options.noted)
		owner->options.noted(owner->options.context);
	if (owner->core)
		rio_owner_destroy(owner->core);
	for (uint32_t i = 0; i < LISTS; i++) {
		if (owner->windows[i])
			weft_window_discard(owner->loop.data_pd, owner->windows[i]);
	}
	if (owner->lists_tag)
		weft_region_deregister(owner->loop.data_pd, owner->lists_tag);
	rio_loop_close(&owner->loop);
	free(owner->lists);
	free(owner->known);
	free(owner->policy);
	pthread_mutex_destroy(&owner->lock);
	free(owner);
}

void weft_rio_owner_address(struct weft_rio_owner *owner, struct weft_address *address)
{
	if (owner && address)
		*address = owner->loop.listen;
}

void weft_rio_owner_traffic(struct weft_rio_owner *owner, struct weft_rio_traffic *m)
{
	if (!owner || !m)
		return;
	pthread_mutex_lock(&owner->lock);
	rio_loop_moved(&owner->loop, m);
	pthread_mutex_unlock(&owner->lock);
}
