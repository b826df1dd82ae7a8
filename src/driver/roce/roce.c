/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/roce/roce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/least.h"
#include "driver/observe/observe.h"
#include "driver/roce/cm_id.h"
#include "driver/roce/roce_faults.h"
#include "driver/roce/roce_line.h"
#include "driver/roce/roce_near.h"
#include "driver/roce/roce_packets.h"
#include "driver/roce/tun.h"
#include "driver/sys/system_reason.h"

static const uint64_t listeners_resume_ns = 100 * 1000 * 1000;
static const uint64_t slots_retry_ns = 20 * 1000 * 1000;

enum { NEAR_TRIES = 50 };

static struct roce *roce_from(const struct carrier *c)
{
	return CONTAINER_OF(c, struct roce, carrier);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void watch(void *owner, struct watch *w, uint32_t events)
{
	net_watch(owner, w, events);
}

static void roce_free(struct roce *r)
{
	if (r->tun)
		tun_close(r->tun);
	if (r->cm)
		cm_ids_close(r);
	if (r->port)
		ib_port_destroy(r->port);
	if (r->near)
		near_close(r->near);
	roce_line_close(r);
	roce_packets_fini(r);
	free(r->faults);
	free(r);
}

bool roce_is_observed(const struct roce *r)
{
	return r->faults || r->net->adapter->observed.recording;
}

static bool roce_can_access(void *owner, uint32_t near_number)
{
	const struct roce *r = owner;

	return !roce_is_observed(r) && near_can_access(r->near, near_number);
}

static bool roce_direct_access(void *owner, struct ib_direct_access *access)
{
	return near_access(((struct roce *)owner)->near, access);
}

static bool roce_direct_grant(void *owner, const struct ib_direct_grant *grant)
{
	return near_grant(((struct roce *)owner)->near, grant);
}

static void roce_direct_revoke(void *owner, uint32_t number)
{
	near_revoke(((struct roce *)owner)->near, number);
}

static void roce_direct_collect(void *owner, uint32_t number, struct ib_direct_tally *tally)
{
	near_collect(((struct roce *)owner)->near, number, tally);
}

/*
 * Without it packets to adapters of this host go by UDP, as to others. It may fail because a
 * process that had our slot before has not ended wholly.
 */
static void near_start(struct roce *r)
{
	const struct near_config config = {
		.watch = watch,
		.owner = r->net,
		.adapter_slot = roce_line_slot(r),
		.mem = near_wished() == NEAR_WISH_PACKETS ? NULL : &r->net->adapter->core.mem,
		.takes_runs = !r->net->adapter->core.faults, /* which fall on single packets */
		.thread_number = r->net->thread_number,
	};

	if (r->near || r->near_tries == 0)
		return;
	r->near_tries--;
	if (near_open(&config, &r->near) != WEFT_OK)
		return;
	r->direct = (struct ib_direct){ .can_access = roce_can_access,
					.access = roce_direct_access,
					.grant = roce_direct_grant,
					.revoke = roce_direct_revoke,
					.collect = roce_direct_collect,
					.owner = r };
	ib_port_set_direct(r->port, &r->direct);
	ib_port_near_forget(r->port);
	near_set_packets_only(r->near, roce_is_observed(r));
}

static enum weft_reason roce_open(struct net *net, struct carrier **c)
{
	struct roce *r = calloc(1, sizeof(*r));
	enum weft_reason reason;
	uint32_t chance;

	if (!r)
		return WEFT_R_NO_MEMORY;
	r->net = net;
	r->port = ib_port_create(&(struct ib_port_config){ .adapter = &net->adapter->core });
	if (!r->port || !roce_packets_init(r)) {
		roce_free(r);
		return WEFT_R_NO_MEMORY;
	}
	reason = roce_line_open(r);
	if (reason == WEFT_OK)
		reason = cm_ids_open(r);
	if (reason == WEFT_OK && !r->fabric) /* which has faults of its own */
		reason = roce_faults_open(r);
	if (reason == WEFT_OK && getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
		reason = system_reason(errno);
	if (reason != WEFT_OK) {
		roce_free(r);
		return reason;
	}
	adapter_set_slot(&net->adapter->core, roce_line_slot(r), chance);
	r->near_tries = r->fabric || near_wished() == NEAR_WISH_OFF ? 0 : NEAR_TRIES;
	near_start(r);
	*c = &r->carrier;
	return WEFT_OK;
}

static void conn_end(struct ib_conn *c)
{
	struct roce_conn *rc = ib_owner(c);
	struct roce *r = rc->roce;

	while (!list_is_empty(&rc->members)) {
		struct roce_member *m = CONTAINER_OF(list_pop(&rc->members), struct roce_member,
						     link);

		roce_line_leave(r, &m->group, &m->at);
		free(m);
	}
	cm_id_conn_ended(rc);
	roce_line_forget(r, &rc->flow_ref);
	ib_destroy(c);
	free(rc);
}

/* Destroys connections whose queue pairs have left, after their last packets were sent. */
static void end_those_that_left(struct roce *r)
{
	struct ib_conn *c;

	while ((c = ib_port_event(r->port)) != NULL)
		conn_end(c);
}

static void tell_of_failed_ees(struct roce *r)
{
	struct ib_ee *ee;

	while ((ee = ib_port_ee_event(r->port)) != NULL) {
		struct roce_ee *re = ib_ee_owner(ee);

		event_raise(&r->net->adapter->core.events, &re->events, WEFT_EVENT_EE_FAILED,
			    ib_ee_why(ee));
	}
}

void roce_take_events(struct roce *r)
{
	struct ib_returned packet;

	while (r->udp && udp_next_returned(r->udp, &packet))
		ib_port_returned(r->port, r->net->now_ns, &packet);
	if (!ib_port_has_events(r->port))
		return;
	end_those_that_left(r);
	tell_of_failed_ees(r);
}

/* ---- Packets -------------------------------------------------------------------------------- */

static bool has_output(const struct carrier *c)
{
	return roce_has_output(roce_from(c));
}

static bool output(struct carrier *c, bool can_wait)
{
	return roce_output(roce_from(c), can_wait);
}

static bool input(struct carrier *c)
{
	return roce_input(roce_from(c), false);
}

static bool input_all(struct carrier *c)
{
	return roce_input_all(roce_from(c));
}

static uint32_t hot_turns(const struct carrier *c)
{
	const struct roce *r = roce_from(c);

	return r->fabric ? 1 : (uint32_t)roce_is_near(r) + udp_is_hot(r->udp);
}

/* Shared memory has the first turn, if there is some. */
static bool hot_input(struct carrier *c, uint32_t turn)
{
	struct roce *r = roce_from(c);

	if (r->fabric) {
		fabric_attach_stand_by(r->fabric, progress_is_aside(r->net) && !r->net->is_led);
		return roce_line_input(r);
	}
	if (turn == 0 && roce_is_near(r)) {
		/* A thread that sleeps on the sockets in place of ours is still to be woken. */
		near_stand_by(r->near, progress_is_aside(r->net) && !r->net->is_led);
		return roce_input_near(r);
	}
	udp_stand_by(r->udp, progress_is_aside(r->net));
	return roce_input(r, true);
}

static bool hot_input_all(struct carrier *c)
{
	bool has_come = false;

	for (uint32_t i = 0; i < hot_turns(c); i++)
		has_come |= hot_input(c, i);
	return has_come;
}

static enum carrier_memory memory(const struct carrier *c)
{
	const struct roce *r = roce_from(c);

	if (r->fabric && fabric_attach_is_blocked(r->fabric))
		return CARRIER_UNKNOWN;
	if (r->fabric)
		return fabric_attach_has_input(r->fabric) ? CARRIER_INPUT : CARRIER_EMPTY;
	if (udp_is_hot(r->udp) || (r->near && near_has_blocked(r->near)))
		return CARRIER_UNKNOWN;
	if (!roce_is_near(r))
		return CARRIER_COLD;
	return near_has_input(r->near) ? CARRIER_INPUT : CARRIER_EMPTY;
}

static bool rest(struct carrier *c)
{
	struct roce *r = roce_from(c);

	if (r->fabric)
		return fabric_attach_rest(r->fabric);
	return !r->near || near_rest(r->near);
}

static void hot_watch(struct carrier *c)
{
	if (!roce_from(c)->fabric)
		udp_stand_by(roce_from(c)->udp, false);
}

/* From here on epoll watches every socket. */
static void sleep_begin(struct carrier *c, struct sleep_set *set)
{
	(void)set;
	hot_watch(c);
	ib_port_settle(roce_from(c)->port);
}

static bool sleep_input(struct carrier *c, struct watch *w)
{
	(void)c;
	(void)w;
	return false;
}

/* ---- Deadlines ------------------------------------------------------------------------------ */

static uint64_t due(const struct carrier *c)
{
	const struct roce *r = roce_from(c);
	uint64_t held = r->faults ? roce_faults_due(r) : UINT64_MAX;

	if (r->near)
		held = least(held, near_due(r->near));
	return least(held, least(ib_port_wait_due(r->port), cm_ids_due(r)));
}

uint64_t roce_pace_due(const struct roce *r)
{
	return ib_port_wake_due(r->port);
}

static uint64_t pace_due(const struct carrier *c)
{
	return roce_pace_due(roce_from(c));
}

static void pace(struct carrier *c, uint64_t now_ns)
{
	ib_port_wake(roce_from(c)->port, now_ns);
}

static void expire(struct carrier *c, uint64_t now_ns)
{
	struct roce *r = roce_from(c);

	ib_port_expire(r->port, now_ns);
	cm_ids_expire(r, now_ns);
	if (r->near)
		near_expire(r->near, now_ns);
	if (r->faults)
		roce_faults_expire(r, now_ns);
}

/* Periodically allows new lookups of slots, tries the near path, and resumes paused listeners. */
static void retry(struct carrier *c)
{
	struct roce *r = roce_from(c);
	uint64_t now_ns = r->net->now_ns;

	if (r->fabric)
		return;
	roce_near_look(r);
	if (r->slots_retry_at_ns <= now_ns) {
		r->slots_retry_at_ns = now_ns + slots_retry_ns;
		udp_retry_slots(r->udp);
		near_start(r);
		roce_near_retry(r);
	}
	if (!udp_has_paused_listeners(r->udp) && !(r->near && near_is_paused(r->near)))
		return;
	if (r->listeners_resume_at_ns == 0) {
		r->listeners_resume_at_ns = now_ns + listeners_resume_ns;
	} else if (r->listeners_resume_at_ns <= now_ns) {
		r->listeners_resume_at_ns = 0;
		udp_listeners_resume(r->udp);
		if (r->near)
			near_resume(r->near);
	}
}

/* ---- Questions ------------------------------------------------------------------------------ */

static const struct near_counts *near_counts_of(const struct roce *r)
{
	static const struct near_counts none;

	return r->near ? near_counts(r->near) : &none;
}

void roce_tell(const struct roce *r, struct weft_roce_counts *counts)
{
	const struct ib_counts *port = ib_port_counts(r->port);
	const struct roce_line_counts line = roce_line_counts(r);
	const struct near_counts *near = near_counts_of(r);

	ib_port_collect_direct(r->port);
	*counts = (struct weft_roce_counts){
		.messages_in = port->messages_in,
		.messages_out = port->messages_out,
		.bytes_in = line.bytes_in + near->bytes_in,
		.bytes_out = line.bytes_out + near->bytes_out,
		.packets_in = port->packets_in,
		.packets_out = port->packets_out,
		.payload_in = port->payload_in,
		.payload_out = port->payload_out,
		.dropped = port->dropped,
		.dropped_for = port->dropped_for,
		.resent = port->again,
		.naks_in = port->naks_in,
		.naks_out = port->naks_out,
		.rnrs_in = port->rnrs_in,
		.rnrs_out = port->rnrs_out,
		.duplicates = port->duplicates,
		.timeouts = port->timeouts,
		.marks_in = port->marked,
		.notices_in = port->notices_in,
		.notices_out = port->notices_out,
		.handed_in = line.handed_in,
		.handed_out = line.handed_out,
		.sent_away = line.sent_away + near->sent_away,
		.near_in = near->packets_in,
		.near_out = near->packets_out,
		.near_lost = near->lost,
		.direct = port->direct,
		.calls_in = line.calls_in,
		.calls_out = line.calls_out,
		.calls_empty = line.calls_empty,
		.overruns = line.overruns,
		.refused = r->refused,
		.refused_for = r->refused_for,
		.kept_bytes = port->kept_bytes,
		.kept_bytes_max = port->kept_bytes_max,
		.kept_byte_ns = port->kept_byte_ns,
	};
}

/*
 * SYS-06: at a port of a fabric packets are made in the memory of its link, and placed from there;
 * else they are assembled contiguously, and placed from buffers, so that all payload is copied.
 */
static uint64_t copied(const struct roce *r, uint64_t payload, uint64_t besides)
{
	return r->fabric ? besides : payload + besides;
}

void roce_traffic(const struct weft_qp *qp, struct weft_traffic *t)
{
	const struct roce *r = roce_of(adapter_of(qp->adapter)->net);
	const struct qp_tally *of = &qp->tally;

	*t = (struct weft_traffic){
		.messages_in = of->messages_in,
		.messages_out = of->messages_out,
		.frames_in = of->packets_in,
		.frames_out = of->packets_out,
		.bytes_in = of->bytes_in,
		.bytes_out = of->bytes_out,
		.payload_in = of->payload_in,
		.payload_out = of->payload_out,
		.payload_copied = copied(r, of->payload_in + of->payload_out, of->copied),
	};
}

static void traffic(const struct carrier *c, struct weft_traffic *sum)
{
	const struct roce *r = roce_from(c);
	const struct ib_counts *port = ib_port_counts(r->port);
	const struct roce_line_counts line = roce_line_counts(r);
	const struct near_counts *near = near_counts_of(r);
	struct weft_traffic t;

	ib_port_collect_direct(r->port);
	t = (struct weft_traffic){
		.messages_in = port->messages_in,
		.messages_out = port->messages_out,
		.frames_in = port->packets_in,
		.frames_out = port->packets_out,
		.bytes_in = line.bytes_in + near->bytes_in,
		.bytes_out = line.bytes_out + near->bytes_out,
		.payload_in = port->payload_in,
		.payload_out = port->payload_out,
		.payload_copied = copied(r, port->payload_in + port->payload_out, port->copied),
		.calls_in = line.calls_in,
		.calls_out = line.calls_out,
		.calls_empty = line.calls_empty,
	};

	traffic_add(sum, &t);
}

/* ---- The end -------------------------------------------------------------------------------- */

static bool is_used(const struct carrier *c)
{
	return !cm_ids_are_none(roce_from(c));
}

/* The adapter has no queue pairs any more, so nothing waits for a peer. */
/* Destroyed queue pairs may have last packets to send: acknowledgements, or a NAK. */
static bool is_closing(const struct carrier *c)
{
	return ib_port_is_leaving(roce_from(c)->port);
}

/* What the wire, or the ring of a fabric that does not read, had no room for until now is lost. */
static void roce_close(struct carrier *c)
{
	struct roce *r = roce_from(c);

	if (!r->net->is_abandoned) {
		if (r->near)
			near_leave(r->near);
		(void)roce_output(r, false);
		ib_port_leave(r->port);
		end_those_that_left(r);
	}
	roce_free(r);
}

/* Closing a UDP socket does not tell the peers that the process ends. */
static bool exit_begin(struct carrier *c)
{
	cm_ids_leave(roce_from(c));
	return true;
}

static void exit_end(struct carrier *c)
{
	if (roce_from(c)->udp)
		udp_hand_on_rest(roce_from(c)->udp);
}

static void observe(struct carrier *c)
{
	struct roce *r = roce_from(c);

	if (r->near)
		near_set_packets_only(r->near, roce_is_observed(r));
}

static void abandon(struct carrier *c)
{
	struct roce *r = roce_from(c);

	neighbours_abandon(r);
	roce_line_abandon(r);
	if (r->near)
		near_abandon(r->near);
	if (r->tun)
		tun_abandon(r->tun);
}

static const struct carrier_calls roce_calls = {
	.open = roce_open,
	.output = output,
	.has_output = has_output,
	.due = due,
	.expire = expire,
	.pace_due = pace_due,
	.pace = pace,
	.retry = retry,
	.input = input,
	.input_all = input_all,
	.hot_turns = hot_turns,
	.memory = memory,
	.hot_input = hot_input,
	.hot_input_all = hot_input_all,
	.hot_watch = hot_watch,
	.rest = rest,
	.sleep_begin = sleep_begin,
	.sleep_input = sleep_input,
	.is_used = is_used,
	.is_closing = is_closing,
	.close = roce_close,
	.exit_begin = exit_begin,
	.exit_end = exit_end,
	.observe = observe,
	.abandon = abandon,
	.traffic = traffic,
};

struct roce *roce_of(const struct net *net)
{
	struct carrier *c = carrier_find(net, &roce_calls);

	return c ? roce_from(c) : NULL;
}

enum weft_reason roce_get(struct weft_adapter *a, struct roce **roce)
{
	struct carrier *c;
	enum weft_reason r = carrier_get(a, &roce_calls, &c);

	if (r == WEFT_OK)
		*roce = roce_from(c);
	return r;
}
