/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/link.h"

#include <string.h>

#include "base/check.h"
#include "base/deadline.h"

/* ---- Life ----------------------------------------------------------------------------------- */

void fabric_link_init(struct fabric_link *l, const struct fabric_link_cfg *cfg,
		      struct fabric_pool *pool)
{
	CHECK(cfg->lanes > 0 && cfg->lanes <= IBA_LANE_MANAGEMENT);
	CHECK(cfg->lane_blocks <= FABRIC_BLOCKS_MAX);
	memset(l, 0, sizeof(*l));
	l->run_flits = FABRIC_FRAME_FLITS;
	if (cfg->run_flits > 0 && cfg->run_flits < FABRIC_FRAME_FLITS)
		l->run_flits = (uint8_t)cfg->run_flits;
	l->lane_blocks = (uint16_t)cfg->lane_blocks;
	l->ack_delay_ns = cfg->ack_delay_ns;
	l->resend_ns = cfg->resend_ns;
	l->lanes = (uint16_t)(((1U << cfg->lanes) - 1) | 1U << IBA_LANE_MANAGEMENT);
	l->resend_at_ns = l->ack_at_ns = UINT64_MAX;
	fabric_arbiter_init(&l->arbiter);
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (l->lanes >> lane & 1)
			fabric_lane_init(&l->in[lane], pool, cfg->lane_blocks);
		l->in[lane].number = (uint8_t)lane;
	}
}

static uint16_t limit_of(const struct fabric_link *l, uint32_t lane)
{
	return (uint16_t)(l->in[lane].taken + fabric_lane_room(&l->in[lane]));
}

/* Whether the other end may have used up half of the room that it knows of, or a frame's. */
static void hunger_look(struct fabric_link *l, uint32_t lane)
{
	const struct fabric_lane *in = &l->in[lane];
	uint32_t half = in->blocks_max / 2;
	uint32_t enough = half > FABRIC_FRAME_FLITS ? half : FABRIC_FRAME_FLITS;
	uint16_t known = (uint16_t)(in->told - in->taken);

	l->hungry_lanes = (uint16_t)(l->hungry_lanes & ~(1U << lane));
	if (known < enough)
		l->hungry_lanes = (uint16_t)(l->hungry_lanes | 1U << lane);
}

/* The other end is told the limit of a lane. One that has had no use is as it was told first. */
static uint16_t limit_tell(struct fabric_link *l, uint32_t lane)
{
	if (!((l->used_lanes | l->hungry_lanes) >> lane & 1))
		return l->lane_blocks;
	l->in[lane].told = limit_of(l, lane);
	hunger_look(l, lane);
	return l->in[lane].told;
}

/* Nothing is sent before the first acknowledgement of the other end, which tells the limits. */
void fabric_link_up(struct fabric_link *l)
{
	CHECK(!l->is_up);
	l->is_up = true;
	l->acked = l->next = l->end = l->expected = 0;
	l->run_begin = l->run_next = l->run_end = 0;
	memset(l->sent, 0, sizeof(l->sent));
	memset(l->limits, 0, sizeof(l->limits));
	l->used_lanes = 0;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		l->in[lane].taken = l->in[lane].told = 0;
		l->used_lanes = (uint16_t)(l->used_lanes | (l->in[lane].blocks_used > 0) << lane);
	}
	l->hungry_lanes = l->lanes;
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

/* The run with the last flit of its frame holds that. */
static bool is_frames_end(const struct fabric_sent *s)
{
	return s->frame->is_whole && s->index + s->flits == s->frame->flits;
}

void fabric_link_down(struct fabric_link *l)
{
	l->is_up = false;
	for (; l->run_begin != l->run_end; l->run_begin++) {
		const struct fabric_sent *s = &l->window[l->run_begin % FABRIC_RUNS];

		if (is_frames_end(s))
			drop(l, s->frame);
	}
	l->acked = l->next = l->end;
	l->run_next = l->run_end;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (l->out[lane].sending)
			drop(l, l->out[lane].sending);
		l->out[lane].sending = NULL;
		if (l->in[lane].blocks_max > 0)
			fabric_lane_cut(&l->in[lane]);
	}
	l->sending_lanes = 0;
	l->resend_at_ns = l->ack_at_ns = UINT64_MAX;
}

/* ---- Out ------------------------------------------------------------------------------------ */

void fabric_link_give(struct fabric_link *l, uint8_t lane, struct fabric_frame *f)
{
	CHECK(fabric_link_is_free(l, lane));
	f->references++;
	l->out[lane].sending = f;
	l->sending_at[lane] = 0;
	l->sending_lanes = (uint16_t)(l->sending_lanes | 1U << lane);
}

/* Limits and counts are modulo 2^16, and never half of that apart. */
static uint32_t credit_of(const struct fabric_link *l, uint32_t lane)
{
	int16_t credit = (int16_t)(l->limits[lane] - l->sent[lane]);

	return credit > 0 ? (uint32_t)credit : 0;
}

bool fabric_link_is_stalled(const struct fabric_link *l, uint8_t lane)
{
	const struct fabric_frame *f = l->out[lane].sending;

	return f && credit_of(l, lane) + l->sending_at[lane] < f->flits;
}

/*
 * Lanes with a frame for whose rest the other end has room (IBA 7.9.4): so a frame that has begun
 * can end, and one that waits may be withdrawn.
 */
static uint32_t ready_lanes(struct fabric_link *l)
{
	uint32_t ready = 0;

	for (uint32_t left = l->sending_lanes; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		if (!fabric_link_is_stalled(l, (uint8_t)lane))
			ready |= UINT32_C(1) << lane;
	}
	l->is_stalled = ready != l->sending_lanes;
	return ready;
}

static void sending_end(struct fabric_link *l, uint8_t lane)
{
	l->out[lane].sending = NULL;
	l->sending_lanes = (uint16_t)(l->sending_lanes & ~(1U << lane));
}

bool fabric_link_withdraw(struct fabric_link *l, uint8_t lane)
{
	if (!l->out[lane].sending || l->sending_at[lane] > 0)
		return false;
	drop(l, l->out[lane].sending);
	sending_end(l, lane);
	return true;
}

static void watch(struct fabric_link *l, uint64_t now_ns)
{
	if (l->acked == l->end && !l->is_stalled)
		l->resend_at_ns = UINT64_MAX;
	else if (l->resend_at_ns == UINT64_MAX)
		l->resend_at_ns = deadline_after(now_ns, l->resend_ns);
}

static void ack_send(struct fabric_link *l, struct fabric_run *r)
{
	r->kind = FLIT_ACK;
	r->flits = 1;
	r->frame = NULL;
	r->lane = r->credit_lane = 0;
	r->sequence = l->expected;
	r->wants_resend = l->wants_resend;
	r->wants_ack = l->wants_ack;
	memset(r->limits, 0, sizeof(r->limits));
	for (uint32_t left = l->lanes; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		r->limits[lane] = limit_tell(l, lane);
	}
	l->owes_ack = l->wants_resend = l->wants_ack = false;
	l->unacknowledged = 0;
	l->ack_at_ns = UINT64_MAX;
	l->counts.acks_sent++;
}

/* All that the link has, in turn. */
static uint8_t lane_after(const struct fabric_link *l, uint8_t lane)
{
	uint32_t above = l->lanes & ~((2U << lane) - 1);

	return (uint8_t)__builtin_ctz(above ? above : l->lanes);
}

/* From `next` on to the end of its run. */
static void piece_send(struct fabric_link *l, struct fabric_run *r)
{
	const struct fabric_sent *s = &l->window[l->run_next % FABRIC_RUNS];
	uint32_t skipped = (uint16_t)(l->next - s->sequence);

	r->kind = FLIT_FRAME;
	r->wants_resend = r->wants_ack = false;
	r->frame = s->frame;
	r->lane = s->lane;
	r->sequence = l->next;
	r->index = (uint8_t)(s->index + skipped);
	r->flits = (uint8_t)(s->flits - skipped);
	r->credit_lane = l->credit_lane;
	r->limit = limit_tell(l, r->credit_lane);
	l->credit_lane = lane_after(l, l->credit_lane);
	l->next = (uint16_t)(l->next + r->flits);
	l->run_next++;
	l->counts.flits_sent += r->flits;
}

static void frame_count(struct fabric_link *l, const struct fabric_frame *f)
{
	l->counts.frames_sent++;
	l->counts.words_sent += f->bytes / 4;
	if (fabric_frame_is_multicast(f))
		l->counts.multicast_sent++;
}

/* The next flits of a lane's frame enter the window. */
static void piece_begin(struct fabric_link *l, uint32_t ready, uint8_t lane)
{
	struct fabric_frame *f = l->out[lane].sending;
	uint32_t most = FABRIC_WINDOW - (uint16_t)(l->end - l->acked);
	uint32_t flits = f->flits - l->sending_at[lane];

	most = most < l->run_flits ? most : l->run_flits;
	flits = flits < most ? flits : most;
	if (flits > 1)
		flits = 1 + fabric_arbiter_more(&l->arbiter, ready, lane, flits - 1);
	l->window[l->run_end++ % FABRIC_RUNS] = (struct fabric_sent){
		.frame = f,
		.sequence = l->end,
		.index = l->sending_at[lane],
		.flits = (uint8_t)flits,
		.lane = lane,
	};
	l->end = (uint16_t)(l->end + flits);
	l->sent[lane] = (uint16_t)(l->sent[lane] + flits);
	l->sending_at[lane] = (uint8_t)(l->sending_at[lane] + flits);
	if (l->sending_at[lane] < f->flits)
		return;
	sending_end(l, lane);
	frame_count(l, f);
}

/*
 * Room that the other end may not know of: told when it could have used up half of what it knows,
 * or has none for a whole frame, so that an idle link stays silent.
 */
static bool owes_credit(const struct fabric_link *l)
{
	for (uint32_t left = l->hungry_lanes; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		if (limit_of(l, lane) != l->in[lane].told)
			return true;
	}
	return false;
}

static bool owes_news(const struct fabric_link *l)
{
	return l->owes_ack || l->wants_resend || l->wants_ack || owes_credit(l);
}

static bool has_window(const struct fabric_link *l)
{
	return (uint16_t)(l->end - l->acked) < FABRIC_WINDOW &&
	       (uint16_t)(l->run_end - l->run_begin) < FABRIC_RUNS;
}

bool fabric_link_is_idle(const struct fabric_link *l)
{
	return !l->is_up || (l->next == l->end && !l->sending_lanes && !owes_news(l));
}

bool fabric_link_has_more(struct fabric_link *l)
{
	return l->is_up && (owes_news(l) || l->next != l->end ||
			    (l->sending_lanes && ready_lanes(l) && has_window(l)));
}

bool fabric_link_send(struct fabric_link *l, uint64_t now_ns, struct fabric_run *r)
{
	bool has_sent = true;
	uint32_t ready;
	int lane;

	if (!l->is_up)
		return false;
	if (owes_news(l)) {
		ack_send(l, r);
		return true;
	}
	if (l->next != l->end) {
		piece_send(l, r);
		l->counts.flits_resent += r->flits;
	} else {
		ready = ready_lanes(l);
		lane = ready && has_window(l) ? fabric_arbiter_pick(&l->arbiter, ready) : -1;
		if (l->is_stalled)
			l->counts.waits++;
		has_sent = lane >= 0;
		if (has_sent) {
			piece_begin(l, ready, (uint8_t)lane);
			piece_send(l, r);
		}
	}
	watch(l, now_ns);
	return has_sent;
}

size_t fabric_run_encode(const struct fabric_run *r, uint32_t flit, uint8_t bytes[FLIT_BYTES_MAX])
{
	struct flit f = { .kind = (enum flit_kind)r->kind,
			  .lane = r->lane,
			  .credit_lane = r->credit_lane };
	uint8_t data[FLIT_DATA];

	CHECK(flit < r->flits);
	f.sequence = (uint16_t)(r->sequence + flit);
	f.wants_resend = r->wants_resend;
	f.wants_ack = r->wants_ack;
	if (r->kind == FLIT_ACK) {
		memcpy(f.limits, r->limits, sizeof(f.limits));
		return flit_encode(&f, bytes);
	}
	f.limits[f.credit_lane] = r->limit;
	f.data = data;
	f.data_bytes = (uint8_t)fabric_frame_flit(r->frame, r->index + flit, r->lane, data);
	f.is_first = r->index + flit == 0;
	f.is_last = r->frame->is_whole && r->index + flit + 1 == r->frame->flits;
	return flit_encode(&f, bytes);
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
	l->counts.recovers += !l->has_asked;
	l->wants_resend |= !l->has_asked; /* what comes behind it does not take it back */
	l->has_asked = true;
}

/* Flits from the oldest on are sent again. */
static void rewind(struct fabric_link *l)
{
	l->next = l->acked;
	l->run_next = l->run_begin;
}

/* An acknowledgement may end within a run, where a flit was damaged. */
static void acknowledge(struct fabric_link *l, uint16_t sequence)
{
	bool is_ahead = (uint16_t)(l->end - l->next) > (uint16_t)(l->end - sequence);

	l->acked = sequence;
	while (l->run_begin != l->run_end) {
		struct fabric_sent *s = &l->window[l->run_begin % FABRIC_RUNS];
		uint16_t done = (uint16_t)(sequence - s->sequence);

		if (done < s->flits) {
			s->sequence = sequence;
			s->index = (uint8_t)(s->index + done);
			s->flits = (uint8_t)(s->flits - done);
			break;
		}
		l->run_begin++;
		if (is_frames_end(s))
			fabric_frame_put(s->frame);
	}
	if (is_ahead)
		rewind(l);
	if (l->run_begin == l->run_end) /* what comes next lies where the cache has it */
		l->run_begin = l->run_next = l->run_end = 0;
}

static void ack_take(struct fabric_link *l, uint64_t now_ns, const struct fabric_run *r)
{
	uint16_t outstanding = (uint16_t)(l->end - l->acked);

	l->counts.acks_taken++;
	for (uint32_t left = l->lanes; left; left &= left - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(left);

		limit_learn(l, lane, r->limits[lane]);
	}
	l->owes_ack |= r->wants_ack;
	if ((uint16_t)(r->sequence - l->acked) > outstanding)
		return; /* an old one */
	if (r->sequence != l->acked) {
		l->resend_at_ns = UINT64_MAX;
		acknowledge(l, r->sequence);
	}
	if (r->wants_resend)
		rewind(l);
	watch(l, now_ns);
}

/* Of flits that have come in order. */
static void taken(struct fabric_link *l, uint64_t now_ns, uint32_t lane, uint32_t flits)
{
	l->expected = (uint16_t)(l->expected + flits);
	l->in[lane].taken = (uint16_t)(l->in[lane].taken + flits);
	l->used_lanes = (uint16_t)(l->used_lanes | 1U << lane);
	hunger_look(l, lane);
	l->has_asked = false;
	l->counts.flits_taken += flits;
	if (l->in[lane].last && l->in[lane].last->is_whole) {
		const struct fabric_frame *f = l->in[lane].last;

		l->counts.frames_taken++;
		l->counts.words_taken += f->bytes / 4;
		if (fabric_frame_is_multicast(f))
			l->counts.multicast_taken++;
	}
	l->unacknowledged = (uint16_t)(l->unacknowledged + flits);
	if (l->unacknowledged >= FABRIC_ACK_FLITS)
		l->owes_ack = true;
	else if (l->ack_at_ns == UINT64_MAX)
		l->ack_at_ns = deadline_after(now_ns, l->ack_delay_ns);
}

/* False: it is taken later, or was already. */
static bool is_due(struct fabric_link *l, uint16_t sequence, uint32_t flits)
{
	uint16_t had = (uint16_t)(l->expected - sequence);

	if (had < flits)
		return true;
	if ((int16_t)had < 0)
		resend_ask(l); /* those before it were lost */
	else
		l->owes_ack = true; /* the acknowledgement was */
	return false;
}

/* False: the other end was told that there is no room. */
static bool has_room(struct fabric_link *l, uint8_t lane, uint32_t flits)
{
	if (l->lanes >> lane & 1 && fabric_lane_room(&l->in[lane]) >= flits)
		return true;
	l->counts.overruns++;
	return false;
}

static void refuse(struct fabric_link *l, enum fabric_added why)
{
	if (why == FABRIC_NO_FRAME)
		l->counts.malformed++;
	else
		l->counts.overruns++;
}

void fabric_link_take(struct fabric_link *l, uint64_t now_ns, const struct fabric_run *r)
{
	enum fabric_added added;
	uint32_t had;

	if (!l->is_up)
		return;
	if (r->kind == FLIT_ACK) {
		ack_take(l, now_ns, r);
		return;
	}
	limit_learn(l, r->credit_lane, r->limit);
	if (!is_due(l, r->sequence, r->flits))
		return;
	had = (uint16_t)(l->expected - r->sequence);
	if (!has_room(l, r->lane, r->flits - had))
		return;
	added = fabric_lane_share(&l->in[r->lane], r->frame, r->index + had, r->flits - had);
	if (added == FABRIC_ADDED)
		taken(l, now_ns, r->lane, r->flits - had);
	else
		refuse(l, added);
}

static bool has_length(const struct fabric_frame *f)
{
	return f->bytes >= IBA_FRAME_MIN && f->bytes <= IBA_FRAME_MAX;
}

static bool has_right_vcrc(const struct fabric_frame *f)
{
	uint8_t again[IBA_FRAME_MAX];

	memcpy(again, f->data->at, f->bytes);
	iba_vcrc_put(again, f->bytes);
	return memcmp(again, f->data->at, f->bytes) == 0;
}

/* Of a frame that came as flits: each of them was right, but the sender may not have been. */
static void frame_check(struct fabric_link *l, struct fabric_frame *f, bool has_vcrc)
{
	if (!f->is_whole || (has_length(f) && (!has_vcrc || has_right_vcrc(f))))
		return;
	f->is_broken = true;
	l->counts.broken++;
}

static void piece_take(struct fabric_link *l, uint64_t now_ns, const struct flit *f, bool has_vcrc)
{
	enum fabric_added added;

	limit_learn(l, f->credit_lane, f->limits[f->credit_lane]);
	if (!is_due(l, f->sequence, 1) || !has_room(l, f->lane, 1))
		return;
	added = fabric_lane_add(&l->in[f->lane], f);
	if (added != FABRIC_ADDED) {
		refuse(l, added);
		return;
	}
	frame_check(l, l->in[f->lane].last, has_vcrc);
	taken(l, now_ns, f->lane, 1);
}

void fabric_link_take_flit(struct fabric_link *l, uint64_t now_ns, const struct flit *f)
{
	if (l->is_up)
		piece_take(l, now_ns, f, false);
}

void fabric_link_recv(struct fabric_link *l, uint64_t now_ns, const uint8_t *bytes, size_t length)
{
	struct fabric_run ack = { .kind = FLIT_ACK };
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
	} else if (f.kind == FLIT_FRAME) {
		piece_take(l, now_ns, &f, true);
	} else {
		ack.wants_resend = f.wants_resend;
		ack.wants_ack = f.wants_ack;
		ack.sequence = f.sequence;
		memcpy(ack.limits, f.limits, sizeof(ack.limits));
		ack_take(l, now_ns, &ack);
	}
}

/* ---- Time ----------------------------------------------------------------------------------- */

void fabric_link_expire(struct fabric_link *l, uint64_t now_ns)
{
	if (l->ack_at_ns <= now_ns) {
		l->ack_at_ns = UINT64_MAX;
		l->owes_ack = true;
	}
	if (l->resend_at_ns > now_ns)
		return;
	l->resend_at_ns = UINT64_MAX;
	l->counts.recovers += l->acked != l->end;
	rewind(l);
	l->has_asked = false;
	l->wants_ack = l->acked == l->end; /* what tells of room was lost, or there is none */
	watch(l, now_ns);
}
