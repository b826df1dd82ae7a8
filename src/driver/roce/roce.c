/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/roce/roce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/least.h"
#include "driver/roce/cm_id.h"
#include "driver/roce/tun.h"
#include "driver/sys/system_reason.h"

enum {
	FETCHES_MAX = 4, /* then the received packets are answered first */
	/* To read all: if that is not enough, peers send faster than this reads. */
	FETCHES_ALL = 512,
	/* Consecutive fetches of those without a useful packet: do not wait out a flood. */
	FETCHES_VAIN = 8,
	BATCH_ENOUGH = 48 * 1024,
	BATCHES_MAX = 8, /* then packets received meanwhile are handled first */
	/* Alignment of packets of a batch: the kernel copies faster from full cache lines. */
	ROOM_ALIGN = 64,
	ROOM_BYTES = (UDP_BATCH_BYTES_MAX + IBA_PACKET_MAX) / ROOM_ALIGN * ROOM_ALIGN +
		     2 * ROOM_ALIGN
};

static const uint64_t listeners_resume_ns = 100 * 1000 * 1000;
static const uint64_t slots_retry_ns = 20 * 1000 * 1000;

struct roce_rest {
	struct udp_batch batch; /* empty: count 0 */
	struct ib_out outs[UDP_BATCH_MAX];
	struct ib_path paths[UDP_BATCH_MAX];
	uint8_t bytes[UDP_BATCH_MAX][IBA_PACKET_MAX];
};

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
	if (r->udp)
		udp_close(r->udp);
	free(r->outs);
	free(r->room);
	free(r->rest);
	free(r->faults);
	free(r);
}

static void conn_end(struct ib_conn *c)
{
	struct roce_conn *rc = ib_owner(c);
	struct udp *udp = rc->roce->udp;

	while (!list_is_empty(&rc->members)) {
		struct roce_member *m = CONTAINER_OF(list_pop(&rc->members), struct roce_member,
						     link);

		udp_leave(udp, &m->group, &m->at);
		free(m);
	}
	cm_id_conn_ended(rc);
	udp_flow_close(udp, &rc->flow_ref);
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

/* ---- In ------------------------------------------------------------------------------------- */

/* The flow_ref of the queue pair or context that a valid packet belongs to; NULL: none. */
static struct udp_flow_ref *flow_ref_of(const struct roce *r, const struct ib_in *in)
{
	uint32_t number = iba_dest_number(in->bytes, in->length);
	struct ib_conn *c;
	struct ib_ee *ee;

	if (iba_is_rd(in->bytes, in->length)) {
		ee = ib_port_find_ee(r->port, number);
		return ee ? &((struct roce_ee *)ib_ee_owner(ee))->flow_ref : NULL;
	}
	c = ib_port_find(r->port, number);
	return c ? &((struct roce_conn *)ib_owner(c))->flow_ref : NULL;
}

static bool is_management(const struct ib_in *in)
{
	return iba_dest_number(in->bytes, in->length) == IBA_QPN_GSI;
}

/* Management datagrams are handled one by one: a batch may hold more than the port has room for. */
bool roce_take(struct roce *r, const struct ib_in *in)
{
	struct udp_flow_ref *flow_ref;

	if (ib_port_recv(r->port, r->net->now_ns, in) != WEFT_OK)
		return false;
	if (is_management(in)) {
		cm_ids_input(r);
		return true;
	}
	r->net->asked += iba_is_request(in->bytes, in->length);
	flow_ref = flow_ref_of(r, in);
	if (flow_ref)
		udp_flow_learn(r->udp, flow_ref, in);
	return true;
}

/* The result of one fetch. */
struct fetch_result {
	bool has_come; /* a packet for us */
	/* Only packets that justify no delay of a deadline: any host may send management. */
	bool is_vain;
};

static struct fetch_result take_fetched(struct roce *r)
{
	const struct udp_counts *n = udp_counts(r->udp);
	uint64_t before = n->packets_in + n->handed_on + n->lost_on;
	bool is_recorded = r->net->adapter->observed.recording;
	const struct ib_in *in;
	struct fetch_result c = { false, false };
	bool is_awaited = false;

	net_look_at_clock(r->net);
	while ((in = udp_next(r->udp)) != NULL) {
		if (is_recorded)
			record_packet_in(&r->net->adapter->observed, in);
		if (r->faults)
			roce_faults_take(r, in);
		is_awaited |= r->faults || (roce_take(r, in) && !is_management(in));
		c.has_come = true;
	}
	c.is_vain = !is_awaited && n->packets_in + n->handed_on + n->lost_on != before;
	return c;
}

bool roce_input(struct roce *r, bool is_hot)
{
	bool has_come = false;

	for (int i = 0; i < FETCHES_MAX && udp_fetch(r->udp, is_hot && i == 0); i++)
		has_come |= take_fetched(r).has_come;
	return has_come;
}

static bool input(struct carrier *c)
{
	return roce_input(roce_from(c), false);
}

/* Periodically allows new lookups of slots, and resumes paused listeners. */
static void retry(struct carrier *c)
{
	struct roce *r = roce_from(c);
	uint64_t now_ns = r->net->now_ns;

	if (r->slots_retry_at_ns <= now_ns) {
		r->slots_retry_at_ns = now_ns + slots_retry_ns;
		udp_retry_slots(r->udp);
	}
	if (!udp_has_paused_listeners(r->udp))
		return;
	if (r->listeners_resume_at_ns == 0) {
		r->listeners_resume_at_ns = now_ns + listeners_resume_ns;
	} else if (r->listeners_resume_at_ns <= now_ns) {
		r->listeners_resume_at_ns = 0;
		udp_listeners_resume(r->udp);
	}
}

bool roce_input_all(struct roce *r)
{
	bool has_come = false;
	int vain = 0;

	udp_ask_all(r->udp);
	for (int i = 0; i < FETCHES_ALL && vain < FETCHES_VAIN && udp_fetch(r->udp, false); i++) {
		struct fetch_result c = take_fetched(r);

		has_come |= c.has_come;
		vain = c.is_vain ? vain + 1 : 0;
	}
	return has_come;
}

static bool input_all(struct carrier *c)
{
	return roce_input_all(roce_from(c));
}

bool roce_input_shared(struct roce *r)
{
	bool has_come = false;

	udp_ask_shared(r->udp);
	for (int i = 0; i < FETCHES_ALL && udp_is_shared_asked(r->udp); i++) {
		(void)udp_fetch(r->udp, false);
		has_come |= take_fetched(r).has_come;
	}
	return has_come;
}

static uint32_t hot_turns(const struct carrier *c)
{
	return udp_is_hot(roce_from(c)->udp) ? 1 : 0;
}

static bool hot_input(struct carrier *c, uint32_t turn)
{
	struct roce *r = roce_from(c);

	(void)turn;
	udp_stand_by(r->udp, progress_is_aside(r->net));
	return roce_input(r, true);
}

static bool hot_input_all(struct carrier *c)
{
	return hot_turns(c) > 0 && hot_input(c, 0);
}

static void hot_watch(struct carrier *c)
{
	udp_stand_by(roce_from(c)->udp, false);
}

/* From here on epoll watches every socket. */
static void sleep_begin(struct carrier *c, struct sleep_set *set)
{
	(void)set;
	hot_watch(c);
}

static bool sleep_input(struct carrier *c, struct watch *w)
{
	(void)c;
	(void)w;
	return false;
}

/* ---- Out ------------------------------------------------------------------------------------ */

static bool is_resting(const struct roce *r)
{
	return r->rest && r->rest->batch.done < r->rest->batch.count;
}

static bool has_output(const struct carrier *c)
{
	const struct roce *r = roce_from(c);

	return !udp_is_blocked(r->udp) &&
	       (is_resting(r) || ib_port_has_output(r->port) || ib_cm_has_output(r->cm));
}

/* Packets that form one GSO message, numbered consecutively by the kernel (IPv4). */
struct run {
	uint32_t count; /* 0: the next packet begins a run */
	size_t each, bytes;
};

static bool is_of_run(const struct run *run, const struct ib_out *last, const struct ib_out *out)
{
	return run->count > 0 && last->path == out->path && last->ecn == out->ecn &&
	       out->spans.length <= run->each &&
	       run->bytes + out->spans.length <= UDP_RUN_BYTES_MAX;
}

/* A shorter packet ends a run. True: the run is full. */
static bool run_take(struct run *run, const struct ib_out *out)
{
	size_t length = out->spans.length;

	if (run->count == 0 || !is_of_run(run, out - 1, out))
		*run = (struct run){ .each = length };
	run->count++;
	run->bytes += length;
	if (length < run->each)
		run->count = 0;
	return run->bytes + run->each > UDP_RUN_BYTES_MAX;
}

/*
 * Gathers as many packets as one call can send as runs: packets of one path and equal length. No
 * new run begins after a full one, or after the end of a message if few packets fit: then the
 * packets of the next run stay together.
 */
static uint32_t gather(struct roce *r)
{
	struct run run = { 0 };
	size_t at = 0, last = 0;
	bool is_last = false;
	uint32_t n = 0;

	while (n < UDP_BATCH_MAX && at + last <= UDP_BATCH_BYTES_MAX && !is_last) {
		struct ib_out *out = &r->outs[n];

		if (run.count == 0)
			at = (at + ROOM_ALIGN - 1) / ROOM_ALIGN * ROOM_ALIGN;
		out->room = r->room + at;
		out->ipv4_id = (uint16_t)run.count;
		if (!ib_port_send(r->port, r->net->now_ns, out))
			break;
		n++;
		last = out->spans.length;
		at += last;
		is_last = run_take(&run, out) ||
			  (at >= BATCH_ENOUGH && iba_is_end(out->room, last));
	}
	return n;
}

bool roce_send(struct roce *r, struct udp_batch *batch)
{
	/* Bound: each round has fewer left. */
	while (batch->done < batch->count) {
		uint32_t before = batch->done;
		enum weft_reason reason = udp_send(r->udp, batch);

		if (r->net->adapter->observed.recording)
			record_packets_out(&r->net->adapter->observed, &batch->outs[before],
					   batch->done - batch->refused - before);
		if (reason == WEFT_OK)
			return batch->done == batch->count;
		r->refused += batch->refused;
		r->refused_for = reason;
		CHECK(batch->done > before);
	}
	return true;
}

static bool send_all(struct roce *r, struct udp_batch *batch)
{
	return r->faults ? roce_faults_send(r, batch) : roce_send(r, batch);
}

static void copy_flat(struct roce_rest *rest, uint32_t n, const struct ib_out *from)
{
	struct ib_out *to = &rest->outs[n];
	size_t at = 0;

	rest->paths[n] = *from->path;
	to->ipv4_id = from->ipv4_id;
	to->ecn = from->ecn;
	to->path = &rest->paths[n];
	for (uint32_t i = 0; i < from->spans.count; i++) {
		memcpy(rest->bytes[n] + at, from->spans.spans[i].bytes,
		       from->spans.spans[i].length);
		at += from->spans.spans[i].length;
	}
	to->spans = (struct span_list){ .count = 1, .length = at };
	to->spans.spans[0] = (struct span){ rest->bytes[n], at };
}

/* The sockets are full: keeps copies. If memory is short too, the packets are lost. */
static void keep_rest(struct roce *r, const struct udp_batch *batch)
{
	struct roce_rest *rest = r->rest;

	if (!rest)
		rest = r->rest = malloc(sizeof(*rest));
	if (!rest)
		return;
	rest->batch = (struct udp_batch){ .outs = rest->outs, .count = batch->count - batch->done };
	for (uint32_t i = 0; i < rest->batch.count; i++)
		copy_flat(rest, i, &batch->outs[batch->done + i]);
}

/*
 * While a program polls: whether acknowledgements should wait for the request that the program may
 * post in answer to its completions. Only once: its next poll sends them, or the thread.
 */
static bool waits_for_program(struct roce *r)
{
	struct net *net = r->net;

	if (!progress_is_aside(net) || r->has_waited || is_resting(r) || ib_cm_has_output(r->cm) ||
	    !ib_port_has_acks_only(r->port))
		return false;
	r->has_waited = true;
	progress_waits(net);
	return true;
}

static bool send_ready(struct roce *r)
{
	bool has_moved = false;

	r->has_waited = false;
	if (!has_output(&r->carrier)) {
		end_those_that_left(r);
		tell_of_failed_ees(r);
		return false;
	}
	net_look_at_clock(r->net);
	cm_ids_output(r);
	if (r->tun)
		has_moved = tun_output(r->tun);
	if (is_resting(r) && !send_all(r, &r->rest->batch))
		return has_moved;
	for (int i = 0; i < BATCHES_MAX; i++) {
		struct udp_batch batch = { .outs = r->outs, .count = gather(r) };
		bool is_done;

		if (batch.count == 0)
			break;
		has_moved = true;
		is_done = send_all(r, &batch);
		if (!is_done)
			keep_rest(r, &batch);
		ib_port_sent(r->port, r->net->now_ns); /* the packets were sent, or copied */
		if (!is_done)
			break;
	}
	end_those_that_left(r);
	tell_of_failed_ees(r);
	return has_moved;
}

static bool output(struct carrier *c, bool can_wait)
{
	struct roce *r = roce_from(c);

	return !(can_wait && waits_for_program(r)) && send_ready(r);
}

/* ---- Deadlines ------------------------------------------------------------------------------ */

static uint64_t due(const struct carrier *c)
{
	const struct roce *r = roce_from(c);
	uint64_t held = r->faults ? roce_faults_due(r) : UINT64_MAX;

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
	if (r->faults)
		roce_faults_expire(r, now_ns);
}

/* ---- Questions ------------------------------------------------------------------------------ */

void roce_tell(const struct roce *r, struct weft_roce_counts *counts)
{
	const struct ib_counts *port = ib_port_counts(r->port);
	const struct udp_counts *udp = udp_counts(r->udp);

	*counts = (struct weft_roce_counts){
		.messages_in = port->messages_in,
		.messages_out = port->messages_out,
		.bytes_in = udp->bytes_in,
		.bytes_out = udp->bytes_out,
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
		.handed_in = udp->handed_to_us,
		.handed_out = udp->handed_on,
		.sent_away = udp->sent_away,
		.calls_in = udp->calls_in,
		.calls_out = udp->calls_out,
		.calls_empty = udp->calls_empty,
		.overruns = udp_overruns(r->udp),
		.refused = r->refused,
		.refused_for = r->refused_for,
	};
}

/* All payload counts as copied: packets are assembled contiguously, and placed from buffers. */
void roce_traffic(const struct qp_tally *of, struct weft_traffic *t)
{
	*t = (struct weft_traffic){
		.messages_in = of->messages_in,
		.messages_out = of->messages_out,
		.frames_in = of->packets_in,
		.frames_out = of->packets_out,
		.bytes_in = of->bytes_in,
		.bytes_out = of->bytes_out,
		.payload_in = of->payload_in,
		.payload_out = of->payload_out,
		.payload_copied = of->payload_in + of->payload_out,
	};
}

static void traffic(const struct carrier *c, struct weft_traffic *sum)
{
	const struct roce *r = roce_from(c);
	const struct ib_counts *port = ib_port_counts(r->port);
	const struct udp_counts *udp = udp_counts(r->udp);

	const struct weft_traffic t = {
		.messages_in = port->messages_in,
		.messages_out = port->messages_out,
		.frames_in = port->packets_in,
		.frames_out = port->packets_out,
		.bytes_in = udp->bytes_in,
		.bytes_out = udp->bytes_out,
		.payload_in = port->payload_in,
		.payload_out = port->payload_out,
		.payload_copied = port->payload_in + port->payload_out,
		.calls_in = udp->calls_in,
		.calls_out = udp->calls_out,
		.calls_empty = udp->calls_empty,
	};

	traffic_add(sum, &t);
}

/* ---- The end -------------------------------------------------------------------------------- */

static bool is_used(const struct carrier *c)
{
	return !cm_ids_are_none(roce_from(c));
}

/* The adapter has no queue pairs any more, so nothing waits for a peer. */
static bool is_closing(const struct carrier *c)
{
	(void)c;
	return false;
}

/* Sends the last packets of destroyed queue pairs first. */
static void roce_close(struct carrier *c)
{
	struct roce *r = roce_from(c);

	if (!r->net->is_abandoned) {
		(void)send_ready(r);
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
	udp_hand_on_rest(roce_from(c)->udp);
}

static void abandon(struct carrier *c)
{
	struct roce *r = roce_from(c);

	neighbours_abandon(r);
	udp_abandon(r->udp);
	if (r->tun)
		tun_abandon(r->tun);
}

static const struct carrier_calls roce_calls = {
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
	.hot_input = hot_input,
	.hot_input_all = hot_input_all,
	.hot_watch = hot_watch,
	.sleep_begin = sleep_begin,
	.sleep_input = sleep_input,
	.is_used = is_used,
	.is_closing = is_closing,
	.close = roce_close,
	.exit_begin = exit_begin,
	.exit_end = exit_end,
	.abandon = abandon,
	.traffic = traffic,
};

/* ---- The beginning -------------------------------------------------------------------------- */

static enum weft_reason roce_create(struct net *net)
{
	struct roce *r = calloc(1, sizeof(*r));
	enum weft_reason reason;
	uint32_t chance;

	if (!r)
		return WEFT_R_NO_MEMORY;
	r->net = net;
	r->outs = calloc(UDP_BATCH_MAX, sizeof(*r->outs));
	r->room = aligned_alloc(ROOM_ALIGN, ROOM_BYTES);
	r->port = ib_port_create(&(struct ib_port_config){ .adapter = &net->adapter->core });
	if (!r->outs || !r->room || !r->port) {
		roce_free(r);
		return WEFT_R_NO_MEMORY;
	}
	reason = udp_open(&(struct udp_config){ .watch = watch, .owner = net }, &r->udp);
	if (reason == WEFT_OK)
		reason = cm_ids_open(r);
	if (reason == WEFT_OK)
		reason = roce_faults_open(r);
	if (reason == WEFT_OK && getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
		reason = system_reason(errno);
	if (reason != WEFT_OK) {
		roce_free(r);
		return reason;
	}
	adapter_set_slot(&net->adapter->core, udp_adapter_slot(r->udp), chance);
	carrier_add(net, &r->carrier, &roce_calls);
	return WEFT_OK;
}

struct roce *roce_of(const struct net *net)
{
	struct carrier *c = carrier_find(net, &roce_calls);

	return c ? roce_from(c) : NULL;
}

enum weft_reason roce_get(struct weft_adapter *a, struct roce **roce)
{
	struct net *net;
	enum weft_reason r = net_get(a, &net);

	if (r == WEFT_OK && !roce_of(net))
		r = roce_create(net);
	if (r == WEFT_OK)
		*roce = roce_of(net);
	return r;
}
