/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/link.h"

#include <string.h>

#include "base/check.h"
#include "base/deadline.h"

/* ---- Life ----------------------------------------------------------------------------------- */

static bool has_lane(const struct fabric_link_cfg *cfg, uint32_t lane)
{
	return lane < cfg->lanes || lane == IBA_LANE_MANAGEMENT;
}

int fabric_link_init(struct fabric_link *l, const struct fabric_link_cfg *cfg)
{
	CHECK(cfg->lanes > 0 && cfg->lanes <= IBA_LANE_MANAGEMENT);
	memset(l, 0, sizeof(*l));
	l->cfg = *cfg;
	l->resend_at_ns = l->ack_at_ns = UINT64_MAX;
	fabric_arbiter_init(&l->arbiter);
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (!has_lane(cfg, lane) || fabric_lane_init(&l->in[lane], cfg->lane_blocks) == 0)
			continue;
		fabric_link_fini(l);
		return -1;
	}
	return 0;
}

void fabric_link_fini(struct fabric_link *l)
{
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		fabric_lane_fini(&l->in[lane]);
}

static uint16_t limit_of(const struct fabric_link *l, uint32_t lane)
{
	return (uint16_t)(l->taken[lane] + fabric_lane_room(&l->in[lane]));
}

/* Nothing is sent before the first acknowledgement of the other end, which tells the limits. */
void fabric_link_up(struct fabric_link *l)
{
	CHECK(!l->is_up);
	l->is_up = true;
	l->acked = l->next = l->end = l->expected = 0;
	memset(l->sent, 0, sizeof(l->sent));
	memset(l->limits, 0, sizeof(l->limits));
	memset(l->taken, 0, sizeof(l->taken));
	memset(l->told, 0, sizeof(l->told));
	l->unacknowledged = 0;
	l->wants_resend = l->has_asked = l->is_stalled = l->wants_ack = false;
	l->owes_ack = true; /* it tells the limits */
	l->resend_at_ns = l->ack_at_ns = UINT64_MAX;
}

static void drop(struct fabric_link *l, struct fabric_frame *f)
{
	l->counts.frames_lost++;
	fabric_frame_put(f);
}

void fabric_link_down(struct fabric_link *l)
{
	l->is_up = false;
	for (; l->acked != l->end; l->acked++) {
		const struct fabric_sent *s = &l->window[l->acked % FABRIC_WINDOW];

		if (s->index + 1 == s->frame->flits)
			drop(l, s->frame);
	}
	l->next = l->end;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (l->sending[lane])
			drop(l, l->sending[lane]);
		l->sending[lane] = NULL;
		if (l->in[lane].blocks_max > 0)
			fabric_lane_cut(&l->in[lane]);
	}
	l->resend_at_ns = l->ack_at_ns = UINT64_MAX;
}

/* ---- Out ------------------------------------------------------------------------------------ */

bool fabric_link_is_free(const struct fabric_link *l, uint8_t lane)
{
	return l->is_up && has_lane(&l->cfg, lane) && !l->sending[lane];
}

void fabric_link_give(struct fabric_link *l, uint8_t lane, struct fabric_frame *f)
{
	CHECK(fabric_link_is_free(l, lane));
	f->references++;
	l->sending[lane] = f;
	l->sending_at[lane] = 0;
}

/* Limits and counts are modulo 2^16, and never half of that apart. */
static bool has_credit(const struct fabric_link *l, uint32_t lane)
{
	return (int16_t)(l->limits[lane] - l->sent[lane]) > 0;
}

/* Lanes with a frame for which the other end has room. */
static uint32_t ready_lanes(struct fabric_link *l)
{
	uint32_t ready = 0;

	l->is_stalled = false;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (!l->sending[lane])
			continue;
		if (has_credit(l, lane))
			ready |= UINT32_C(1) << lane;
		else
			l->is_stalled = true;
	}
	return ready;
}

static void watch(struct fabric_link *l, uint64_t now_ns)
{
	if (l->acked == l->end && !l->is_stalled)
		l->resend_at_ns = UINT64_MAX;
	else if (l->resend_at_ns == UINT64_MAX)
		l->resend_at_ns = deadline_after(now_ns, l->cfg.resend_ns);
}

static size_t ack_send(struct fabric_link *l, uint8_t bytes[FLIT_BYTES_MAX])
{
	struct flit f = { .kind = FLIT_ACK, .sequence = l->expected };

	f.wants_resend = l->wants_resend;
	f.wants_ack = l->wants_ack;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		f.limits[lane] = l->told[lane] = limit_of(l, lane);
	l->owes_ack = l->wants_resend = l->wants_ack = false;
	l->unacknowledged = 0;
	l->ack_at_ns = UINT64_MAX;
	l->counts.acks_sent++;
	return flit_encode(&f, bytes);
}

static size_t piece_send(struct fabric_link *l, uint8_t bytes[FLIT_BYTES_MAX])
{
	const struct fabric_sent *s = &l->window[l->next % FABRIC_WINDOW];
	struct flit f = { .kind = FLIT_FRAME, .lane = s->lane, .sequence = l->next++ };
	uint32_t credit_lane = l->credit_lane;

	f.data_bytes = (uint8_t)fabric_frame_flit(s->frame, s->index, &f.data);
	f.is_first = s->index == 0;
	f.is_last = s->index + 1 == s->frame->flits;
	f.credit_lane = l->credit_lane;
	f.limits[credit_lane] = l->told[credit_lane] = limit_of(l, credit_lane);
	do {
		l->credit_lane = (l->credit_lane + 1) % FLIT_LANES;
	} while (!has_lane(&l->cfg, l->credit_lane));
	l->counts.flits_sent++;
	return flit_encode(&f, bytes);
}

/* The next flit of a lane's frame enters the window. */
static void piece_begin(struct fabric_link *l, uint8_t lane)
{
	struct fabric_frame *f = l->sending[lane];

	l->window[l->end++ % FABRIC_WINDOW] = (struct fabric_sent){ .frame = f,
								    .index = l->sending_at[lane]++,
								    .lane = lane };
	l->sent[lane]++;
	if (l->sending_at[lane] < f->flits)
		return;
	l->sending[lane] = NULL;
	l->counts.frames_sent++;
}

/*
 * Room that the other end may not know of: told when it could have used up half of what it knows,
 * so that an idle link stays silent.
 */
static bool owes_credit(const struct fabric_link *l)
{
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		uint16_t left = (uint16_t)(l->told[lane] - l->taken[lane]);

		if (left < l->in[lane].blocks_max / 2 && limit_of(l, lane) != l->told[lane])
			return true;
	}
	return false;
}

size_t fabric_link_send(struct fabric_link *l, uint64_t now_ns, uint8_t bytes[FLIT_BYTES_MAX])
{
	size_t length = 0;
	uint32_t ready;
	int lane;

	if (!l->is_up)
		return 0;
	if (l->owes_ack || l->wants_resend || l->wants_ack || owes_credit(l))
		return ack_send(l, bytes);
	if (l->next != l->end) {
		l->counts.flits_resent++;
		length = piece_send(l, bytes);
	} else {
		ready = ready_lanes(l);
		lane = (uint16_t)(l->end - l->acked) < FABRIC_WINDOW
			       ? fabric_arbiter_pick(&l->arbiter, ready)
			       : -1;
		l->counts.waits += l->is_stalled;
		if (lane >= 0) {
			piece_begin(l, (uint8_t)lane);
			length = piece_send(l, bytes);
		}
	}
	watch(l, now_ns);
	return length;
}

/* ---- In ------------------------------------------------------------------------------------- */

/* A limit only grows; an old acknowledgement may come late. */
static void limit_learn(struct fabric_link *l, uint32_t lane, uint16_t limit)
{
	if ((int16_t)(limit - l->limits[lane]) > 0)
		l->limits[lane] = limit;
}

static void resend_ask(struct fabric_link *l)
{
	l->wants_resend = !l->has_asked;
	l->has_asked = true;
}

static void ack_recv(struct fabric_link *l, uint64_t now_ns, const struct flit *f)
{
	uint16_t outstanding = (uint16_t)(l->end - l->acked);

	l->counts.acks_taken++;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++)
		limit_learn(l, lane, f->limits[lane]);
	l->owes_ack |= f->wants_ack;
	if ((uint16_t)(f->sequence - l->acked) > outstanding)
		return; /* an old one */
	if (f->sequence != l->acked)
		l->resend_at_ns = UINT64_MAX;
	for (; l->acked != f->sequence; l->acked++) {
		const struct fabric_sent *s = &l->window[l->acked % FABRIC_WINDOW];

		if (s->index + 1 == s->frame->flits)
			fabric_frame_put(s->frame);
	}
	if (f->wants_resend || (uint16_t)(l->end - l->next) > (uint16_t)(l->end - l->acked))
		l->next = l->acked;
	watch(l, now_ns);
}

static void take(struct fabric_link *l, uint64_t now_ns, const struct flit *f)
{
	struct fabric_lane *lane = &l->in[f->lane];

	if (lane->blocks_max == 0 || fabric_lane_room(lane) == 0) {
		l->counts.overruns++; /* it was told that there is no room */
		return;
	}
	if (!fabric_lane_add(lane, f)) {
		l->counts.malformed++;
		return;
	}
	l->expected++;
	l->taken[f->lane]++;
	l->has_asked = false;
	l->counts.flits_taken++;
	l->counts.frames_taken += f->is_last;
	if (++l->unacknowledged >= FABRIC_ACK_FLITS)
		l->owes_ack = true;
	else if (l->ack_at_ns == UINT64_MAX)
		l->ack_at_ns = deadline_after(now_ns, l->cfg.ack_delay_ns);
}

void fabric_link_recv(struct fabric_link *l, uint64_t now_ns, const uint8_t *bytes, size_t length)
{
	enum weft_reason reason;
	struct flit f;

	if (!l->is_up)
		return;
	reason = flit_decode(&f, bytes, length);
	if (reason == WEFT_R_FLIT_CRC) {
		l->counts.damaged++;
		resend_ask(l);
	} else if (reason != WEFT_OK) {
		l->counts.malformed++;
	} else if (f.kind == FLIT_ACK) {
		ack_recv(l, now_ns, &f);
	} else {
		limit_learn(l, f.credit_lane, f.limits[f.credit_lane]);
		if (f.sequence == l->expected)
			take(l, now_ns, &f);
		else if ((int16_t)(f.sequence - l->expected) > 0)
			resend_ask(l); /* those before it were lost */
		else
			l->owes_ack = true; /* the acknowledgement was */
	}
}

/* ---- Time ----------------------------------------------------------------------------------- */

uint64_t fabric_link_due(const struct fabric_link *l)
{
	return l->ack_at_ns < l->resend_at_ns ? l->ack_at_ns : l->resend_at_ns;
}

void fabric_link_expire(struct fabric_link *l, uint64_t now_ns)
{
	if (l->ack_at_ns <= now_ns) {
		l->ack_at_ns = UINT64_MAX;
		l->owes_ack = true;
	}
	if (l->resend_at_ns > now_ns)
		return;
	l->resend_at_ns = UINT64_MAX;
	l->next = l->acked;
	l->has_asked = false;
	l->wants_ack = l->acked == l->end; /* what tells of room was lost, or there is none */
	watch(l, now_ns);
}
