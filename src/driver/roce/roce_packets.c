/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/roce/roce_packets.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "driver/roce/cm_id.h"
#include "driver/roce/roce_faults.h"
#include "driver/roce/roce_line.h"
#include "driver/roce/roce_near.h"
#include "driver/roce/tun.h"
#include "wire/iba_psn.h"

enum {
	FETCHES_MAX = 4, /* then the received packets are answered first */
	/* To read all: if that is not enough, peers send faster than this reads. */
	FETCHES_ALL = 512,
	/* Consecutive fetches of those without a useful packet: do not wait out a flood. */
	FETCHES_VAIN = 8,
	BATCH_ENOUGH = 48 * 1024,
	BATCHES_MAX = 8, /* then packets received meanwhile are handled first */
	NEAR_MAX = 256,	 /* the same of packets by shared memory */
	/*
	 * Bytes by shared memory, after which the sender hears of them: it would else come to the
	 * end of its window, and find the receiver asleep when it goes on.
	 */
	NEAR_BYTES_ENOUGH = 128 * 1024,
	NEAR_MOMENT = 8, /* packets that are handled before the clock has moved much */
	/* Alignment of packets of a batch: the kernel copies faster from full cache lines. */
	ROOM_ALIGN = 64,
	ROOM_BYTES = (UDP_BATCH_BYTES_MAX + IBA_PACKET_MAX) / ROOM_ALIGN * ROOM_ALIGN +
		     2 * ROOM_ALIGN
};

struct roce_rest {
	struct udp_batch batch; /* empty: count 0 */
	struct ib_out outs[UDP_BATCH_MAX];
	struct ib_path paths[UDP_BATCH_MAX];
	uint8_t bytes[UDP_BATCH_MAX][IBA_PACKET_MAX];
};

bool roce_packets_init(struct roce *r)
{
	r->outs = calloc(UDP_BATCH_MAX, sizeof(*r->outs));
	r->room = aligned_alloc(ROOM_ALIGN, ROOM_BYTES);
	return r->outs && r->room;
}

void roce_packets_fini(struct roce *r)
{
	free(r->outs);
	free(r->room);
	free(r->rest);
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
	flow_ref = in->is_near || in->route_bytes > 0 ? NULL : flow_ref_of(r, in);
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

/* A capture has the packets of a run one by one. */
static void record_in(struct roce *r, const struct ib_in *in)
{
	struct observed *observed = &r->net->adapter->observed;
	uint8_t bytes[IBA_PACKET_MAX];
	struct ib_in one = *in;
	struct iba_packet run;
	uint32_t mtu;

	if (in->run == 0 || ib_in_decode(&run, in) != WEFT_OK) {
		record_packet_in(observed, in);
		return;
	}
	mtu = iba_run_mtu(&run);
	one.bytes = bytes;
	one.run = 0;
	for (uint32_t i = 0; i <= in->run; i++) {
		const uint8_t *payload = run.payload + i * mtu;
		uint32_t left = run.payload_bytes - i * mtu, length = left < mtu ? left : mtu, at;
		struct iba_packet p = run;

		p.opcode = iba_run_opcode(run.opcode, i, in->run);
		p.psn = iba_psn_add(run.psn, i);
		p.pad = iba_pad(length);
		p.is_ack_requested = run.is_ack_requested && i == in->run; /* it is behind all */
		p.is_solicited = run.is_solicited && i == in->run;
		at = iba_encode(&p, bytes);
		memcpy(bytes + at, payload, length);
		at += length;
		memset(bytes + at, 0, (size_t)p.pad + IBA_ICRC_BYTES);
		one.length = (size_t)at + p.pad + IBA_ICRC_BYTES;
		record_packet_in(observed, &one);
	}
}

bool roce_input_near(struct roce *r)
{
	bool is_recorded = r->net->adapter->observed.recording;
	const struct ib_in *in = near_next(r->near);
	uint32_t count = 0;
	size_t bytes = 0;

	if (in)
		net_look_at_clock(r->net);
	while (in) {
		count++;
		bytes += in->length;
		if (is_recorded)
			record_in(r, in);
		if (!roce_near_is_source(r, in))
			ib_port_drop(r->port, WEFT_R_IB_SOURCE);
		else if (r->faults)
			roce_faults_take(r, in);
		else
			(void)roce_take(r, in);
		in = count < NEAR_MAX && bytes < NEAR_BYTES_ENOUGH ? near_next(r->near) : NULL;
	}
	if (count > 0)
		r->net->adapter->has_now = count <= NEAR_MOMENT && bytes <= IBA_PACKET_MAX;
	return count > 0;
}

/* Until nothing is left: what woke us may have been taken before. */
static bool input_near_all(struct roce *r)
{
	bool has_come = false;

	for (int i = 0; i < FETCHES_ALL && roce_is_near(r) && roce_input_near(r); i++)
		has_come = true;
	return has_come;
}

bool roce_input(struct roce *r, bool is_hot)
{
	bool has_come = input_near_all(r);

	if (r->fabric)
		return roce_line_input(r);
	for (int i = 0; i < FETCHES_MAX && udp_fetch(r->udp, is_hot && i == 0); i++)
		has_come |= take_fetched(r).has_come;
	return has_come;
}

bool roce_input_all(struct roce *r)
{
	bool has_come = input_near_all(r);
	int vain = 0;

	if (r->fabric) {
		for (int i = 0; i < FETCHES_ALL && roce_line_input(r); i++)
			has_come = true;
		return has_come;
	}
	udp_ask_all(r->udp);
	for (int i = 0; i < FETCHES_ALL && vain < FETCHES_VAIN && udp_fetch(r->udp, false); i++) {
		struct fetch_result c = take_fetched(r);

		has_come |= c.has_come;
		vain = c.is_vain ? vain + 1 : 0;
	}
	return has_come;
}

bool roce_input_shared(struct roce *r)
{
	bool has_come = false;

	if (r->fabric)
		return roce_input_all(r);
	udp_ask_shared(r->udp);
	for (int i = 0; i < FETCHES_ALL && udp_is_shared_asked(r->udp); i++) {
		(void)udp_fetch(r->udp, false);
		has_come |= take_fetched(r).has_come;
	}
	return has_come;
}

/* ---- Out ------------------------------------------------------------------------------------ */

static bool is_resting(const struct roce *r)
{
	return r->rest && r->rest->batch.done < r->rest->batch.count;
}

static bool has_near_room(const struct roce *r)
{
	return r->near && near_has_room(r->near);
}

bool roce_has_output(const struct roce *r)
{
	if (r->fabric)
		return fabric_attach_has_room(r->fabric) &&
		       (ib_port_has_output(r->port) || ib_cm_has_output(r->cm));
	if (udp_is_blocked(r->udp))
		return false;
	if (is_resting(r) && r->is_near_full)
		return has_near_room(r);
	return ib_port_has_output(r->port) || is_resting(r) || ib_cm_has_output(r->cm) ||
	       has_near_room(r);
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

/* Room for the next packet of a batch. */
static struct ib_out *out_at(struct roce *r, uint32_t n, size_t at, uint32_t id, uint32_t near)
{
	struct ib_out *out = &r->outs[n];

	out->room = r->room + at;
	out->run_bytes = 0;
	out->ipv4_id = (uint16_t)id;
	out->near_number = near;
	return out;
}

/* Middle packets behind one, which are cheaper together. They may begin a run. */
static uint32_t gather_more(struct roce *r, uint32_t n, size_t at, const struct run *run)
{
	const struct ib_out *last = &r->outs[n - 1];
	struct ib_more more = { .outs = &r->outs[n], .each = last->spans.length };

	if (last->near_number != 0 || !iba_is_middle(last->room, more.each) ||
	    at + more.each > UDP_BATCH_BYTES_MAX)
		return 0;
	more.most = (uint32_t)((UDP_BATCH_BYTES_MAX - at) / more.each);
	if (more.most > (UDP_RUN_BYTES_MAX - run->bytes) / more.each)
		more.most = (uint32_t)((UDP_RUN_BYTES_MAX - run->bytes) / more.each);
	if (more.most > UDP_BATCH_MAX - n)
		more.most = UDP_BATCH_MAX - n;
	for (uint32_t i = 0; i < more.most; i++)
		(void)out_at(r, n + i, at + i * more.each, run->count + i, 0);
	return ib_port_send_more(r->port, r->net->now_ns, &more);
}

/*
 * Gathers as many packets as one call can send as runs: packets of one path and equal length. All
 * go by the network, or by the same shared memory. No new run begins after a full one, or after the
 * end of a message if few packets fit: then the packets of the next run stay together.
 */
static uint32_t gather(struct roce *r)
{
	struct run run = { 0 };
	const uint32_t near_number = roce_near_next(r);
	size_t at = 0, last = 0;
	bool is_last = false;
	uint32_t n = 0;

	while (n < UDP_BATCH_MAX && at + last <= UDP_BATCH_BYTES_MAX && !is_last) {
		struct ib_out *out = &r->outs[n];
		uint32_t count;

		if (run.count == 0) {
			at = (at + ROOM_ALIGN - 1) / ROOM_ALIGN * ROOM_ALIGN;
			run = (struct run){ 0 };
		}
		count = n > 0 ? gather_more(r, n, at, &run) : 0;
		if (count == 0) {
			(void)out_at(r, n, at, run.count, near_number);
			count = ib_port_send(r->port, r->net->now_ns, out);
		}
		if (count == 0)
			break;
		for (; count > 0; count--) {
			out = &r->outs[n++];
			last = out->spans.length;
			at += last;
			is_last = run_take(&run, out);
		}
		is_last |= at >= BATCH_ENOUGH && iba_is_end(out->room, last);
	}
	return n;
}

/* Into shared memory. A datagram does not wait for a receiver that is stopped. */
static enum near_sent send_one_near(struct roce *r, const struct ib_out *out)
{
	enum near_sent sent = near_send(r->near, r->net->now_ns, out);

	if (sent != NEAR_FULL || !near_is_stopped(r->near, out->path->near_number) ||
	    iba_service(out->spans.spans[0].bytes[0]) != IBA_UD)
		return sent;
	near_lose(r->near);
	return NEAR_LOST;
}

/* The packets from the first one on that go by shared memory. False: one has no room now. */
static bool send_near(struct roce *r, struct udp_batch *batch)
{
	bool is_recorded = r->net->adapter->observed.recording;
	enum near_sent sent = NEAR_SENT;

	while (sent != NEAR_FULL && batch->done < batch->count &&
	       batch->outs[batch->done].path->near_number != 0) {
		const struct ib_out *out = &batch->outs[batch->done];

		sent = send_one_near(r, out);
		if (sent == NEAR_SENT && is_recorded)
			record_packets_out(&r->net->adapter->observed, out, 1);
		batch->done += sent != NEAR_FULL;
	}
	near_flush(r->near);
	r->is_near_full = sent == NEAR_FULL;
	return sent != NEAR_FULL;
}

/* The end of the packets that go by UDP. */
static uint32_t udp_end(const struct udp_batch *batch)
{
	uint32_t n = batch->done;

	while (n < batch->count && batch->outs[n].path->near_number == 0)
		n++;
	return n;
}

bool roce_send(struct roce *r, struct udp_batch *batch)
{
	/* Bound: each round has fewer left. */
	while (batch->done < batch->count) {
		uint32_t before = batch->done;
		struct udp_batch part = { batch->outs, udp_end(batch), before, 0 };
		enum weft_reason reason;

		if (part.count == before) {
			if (!send_near(r, batch))
				return false;
			continue;
		}
		reason = udp_send(r->udp, &part);
		batch->done = part.done;
		if (r->net->adapter->observed.recording)
			record_packets_out(&r->net->adapter->observed, &batch->outs[before],
					   part.done - part.refused - before);
		if (reason == WEFT_OK && part.done < part.count)
			return false;
		if (reason == WEFT_OK)
			continue;
		r->refused += part.refused;
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
	to->has_icrc = from->has_icrc;
	to->run = from->run;
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

static bool send_gathered(struct roce *r, struct udp_batch *batch)
{
	bool is_done = send_all(r, batch);

	if (!is_done)
		keep_rest(r, batch);
	if (ib_port_has_pins(r->port)) /* whose time is counted */
		(void)net_look_at_clock(r->net);
	ib_port_sent(r->port, r->net->now_ns); /* the packets were sent, or copied */
	return is_done;
}

/* Room for the next packet, unless it has to wait. */
static bool begin_near(struct roce *r, struct ib_out *out)
{
	if (near_begin(r->near, r->net->now_ns, out))
		return true;
	if (ib_port_near_may_lose(r->port) && near_is_stopped(r->near, out->near_number)) {
		near_begin_lossy(r->near, out);
		return true;
	}
	ib_port_near_hold(r->port, r->net->now_ns, near_is_stalled(r->near, out->near_number));
	return false;
}

/* Builds packets right in shared memory, while the next ones go there. True: there were some. */
static bool send_near_ready(struct roce *r)
{
	bool is_recorded = r->net->adapter->observed.recording, has_moved = false;
	struct ib_out *out = &r->outs[0];

	for (int i = 0; i < NEAR_MAX; i++) {
		out->near_number = roce_near_next(r);
		if (out->near_number == 0)
			break;
		out->ipv4_id = 0;
		if (!begin_near(r, out))
			continue;
		if (!ib_port_send(r->port, r->net->now_ns, out))
			continue;
		has_moved = true;
		if (near_end(r->near, out) == NEAR_SENT && is_recorded)
			record_packets_out(&r->net->adapter->observed, out, 1);
	}
	near_flush(r->near);
	if (ib_port_has_pins(r->port))
		ib_port_sent(r->port, net_look_at_clock(r->net));
	return has_moved;
}

/* Connections that waited for room in shared memory try again, those to ended adapters as well. */
static void use_near_room(struct roce *r)
{
	bool has_room;

	if (!r->near || !near_has_news(r->near))
		return;
	has_room = near_has_room(r->near); /* this look may find an end */
	roce_near_take_ends(r);
	if (!has_room)
		return;
	near_room_used(r->near);
	ib_port_near_release(r->port);
	r->is_near_full = false;
}

static bool send_ready(struct roce *r)
{
	bool has_moved = false, is_done = true;

	r->has_waited = false;
	use_near_room(r);
	if (!roce_has_output(r)) {
		roce_take_events(r);
		return false;
	}
	(void)adapter_recent_ns(r->net->adapter);
	ib_port_set_near_icrc(r->port, roce_is_observed(r));
	if (ib_cm_has_output(r->cm))
		cm_ids_output(r);
	if (r->fabric) {
		has_moved = roce_line_output(r);
		roce_take_events(r);
		return has_moved;
	}
	if (r->tun)
		has_moved = tun_output(r->tun);
	if (is_resting(r) && !send_all(r, &r->rest->batch))
		return has_moved;
	for (int i = 0; i < BATCHES_MAX && is_done; i++) {
		struct udp_batch batch = { .outs = r->outs };

		if (r->near && !r->faults) {
			has_moved |= send_near_ready(r);
			if (!ib_port_has_output(r->port)) {
				/* All has gone: what the core has to do now is in its list. */
				roce_take_events(r);
				return false;
			}
			if (roce_near_next(r) != 0)
				continue;
		}
		batch.count = gather(r);
		if (batch.count == 0)
			break;
		has_moved = true;
		is_done = send_gathered(r, &batch);
	}
	roce_take_events(r);
	return has_moved;
}

bool roce_output(struct roce *r, bool can_wait)
{
	return !(can_wait && waits_for_program(r)) && send_ready(r);
}
