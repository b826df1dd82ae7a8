/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast a connection sends: at most at the configured rate, and at what the network bears. A
 * switch with a queue marks packets (RFC 3168). The receiver of a marked packet sends a CNP (annex
 * A17.9) to its sender, which slows down, then recovers, at first by half of the difference at a
 * time. Of two senders that share a link the faster one slows down more and both recover alike, so
 * they converge to the same rate (the scheme of DCQCN, Zhu et al. 2015).
 *
 * A connection that never got a CNP has no such rate: only its window limits it.
 */
#include "ib/pace.h"

#include "ib/conn.h"
#include "ib/packet.h"

enum {
	NOTIFY_NS = 50 * 1000,	    /* of notifications to one peer: not more often */
	BURST_NS = 20 * 1000,	    /* how far a sender that was late may catch up */
	METER_NS = 100 * 1000,	    /* a rate is measured over so long at least */
	DECAY_NS = 55 * 1000,	    /* of alpha, without a notification */
	RAISE_NS = 100 * 1000,	    /* one stage of the way back */
	IDLE_NS = 10 * 1000 * 1000, /* who sent nothing for so long has no rate */
	ALPHA_ONE = 1024,
	ALPHA_WEIGHT = 16,
	ALPHA_DECAYS_MAX = 64, /* then nothing is left of it */
	STAGES_FAST = 5,       /* half of the way back at a time */
	STAGES_SLOW = 10,      /* then some more, and behind these much more */
	STAGES_MAX = 250,      /* then it is forgotten */
	HEADERS_BYTES = 42     /* of Ethernet, IPv4 and UDP */
};

static const uint64_t rate_min_bps = 10 * 1000 * 1000;
static const uint64_t rate_step_bps = 40 * 1000 * 1000;
static const uint64_t ns_per_s = 1000 * 1000 * 1000;

void pace_init(struct pace *s)
{
	*s = (struct pace){ 0 };
}

/* ---- The sender ----------------------------------------------------------------------------- */

/* What it may send at now; 0: all it can. */
static uint64_t rate_of(const struct pace *s)
{
	if (s->limit_bps == 0 || (s->rate_bps > 0 && s->rate_bps < s->limit_bps))
		return s->rate_bps;
	return s->limit_bps;
}

static void raise_once(struct pace *s)
{
	s->stage++;
	s->raise_ns += RAISE_NS;
	if (s->stage > STAGES_MAX) {
		s->rate_bps = 0;
		return;
	}
	if (s->stage > STAGES_SLOW)
		s->target_bps += 10 * rate_step_bps;
	else if (s->stage > STAGES_FAST)
		s->target_bps += rate_step_bps;
	s->rate_bps = (s->rate_bps + s->target_bps) / 2;
}

bool pace_is_open(struct pace *s, uint64_t now_ns)
{
	while (s->rate_bps > 0 && now_ns >= s->raise_ns) /* bound: STAGES_MAX */
		raise_once(s);
	return rate_of(s) == 0 || now_ns >= s->next_ns;
}

/* Of what was sent up to the last packet. */
static uint64_t burst_bps(const struct pace *s)
{
	uint64_t ns = s->sent_ns - s->meter_ns;

	return s->meter_bytes * 8 * ns_per_s / (ns > METER_NS ? ns : METER_NS);
}

/* The rate of late, as far as it was sending. */
static void meter(struct pace *s, uint64_t now_ns, uint64_t bytes)
{
	uint64_t ns = now_ns - s->meter_ns;

	if (now_ns - s->sent_ns > METER_NS) { /* it was silent */
		/* What was before tells, not the one packet that now asks who is there. */
		if (s->meter_bps == 0)
			s->meter_bps = burst_bps(s);
		s->meter_ns = now_ns;
		s->meter_bytes = 0;
	} else if (ns >= METER_NS) {
		s->meter_bps = s->meter_bytes * 8 * ns_per_s / ns;
		s->meter_ns = now_ns;
		s->meter_bytes = 0;
	}
	s->meter_bytes += bytes;
	s->sent_ns = now_ns;
}

uint64_t pace_gap_ns(const struct pace *s, uint64_t packet_bytes)
{
	uint64_t rate = rate_of(s);

	return rate ? (packet_bytes + HEADERS_BYTES) * 8 * ns_per_s / rate : 0;
}

void pace_sent(struct pace *s, uint64_t now_ns, uint64_t packet_bytes)
{
	meter(s, now_ns, packet_bytes + HEADERS_BYTES);
	if (s->next_ns + BURST_NS < now_ns)
		s->next_ns = now_ns - BURST_NS;
	s->next_ns += pace_gap_ns(s, packet_bytes);
}

static uint64_t measured(const struct pace *s, uint64_t now_ns)
{
	uint64_t ns = now_ns - s->meter_ns;
	uint64_t bps = s->meter_bps;

	if (bps == 0)
		bps = s->meter_bytes * 8 * ns_per_s / (ns > METER_NS ? ns : METER_NS);
	return bps > rate_min_bps ? bps : rate_min_bps;
}

/* How much of what was sent of late met congestion, as far as notifications tell. */
static void alpha_add(struct pace *s, uint64_t now_ns)
{
	uint64_t quiet = (now_ns - s->cut_ns) / DECAY_NS;

	if (quiet > ALPHA_DECAYS_MAX)
		s->alpha = 0;
	for (; quiet > 0 && s->alpha > 0; quiet--)
		s->alpha -= (s->alpha + ALPHA_WEIGHT - 1) / ALPHA_WEIGHT;
	s->alpha += (ALPHA_ONE - s->alpha) / ALPHA_WEIGHT;
}

void pace_notified(struct pace *s, uint64_t now_ns)
{
	(void)pace_is_open(s, now_ns); /* what it has come back to */
	if (now_ns - s->sent_ns > IDLE_NS || s->sent_ns == 0)
		return;
	if (s->rate_bps == 0) {
		s->rate_bps = measured(s, now_ns);
		s->alpha = ALPHA_ONE;
		s->target_bps = s->rate_bps;
	} else {
		if (now_ns - s->cut_ns < NOTIFY_NS)
			return;
		alpha_add(s, now_ns);
	}
	if (s->stage > 0) /* not two steps down for one that is not over */
		s->target_bps = s->rate_bps;
	s->rate_bps -= s->rate_bps * s->alpha / (2 * ALPHA_ONE);
	if (s->rate_bps < rate_min_bps)
		s->rate_bps = rate_min_bps;
	s->cut_ns = now_ns;
	s->raise_ns = now_ns + RAISE_NS;
	s->stage = 0;
}

/* ---- The receiver --------------------------------------------------------------------------- */

bool pace_marked(struct pace *s, uint64_t now_ns)
{
	if (s->has_notified && now_ns - s->notified_ns < NOTIFY_NS)
		return false;
	s->has_notified = true;
	s->notified_ns = now_ns;
	s->is_notice_due = true;
	return true;
}

void pace_notice(struct ib_conn *c, struct ib_out *out)
{
	struct iba_packet p = { .opcode = IBA_CNP, .has_becn = true };

	c->pace.is_notice_due = false;
	c->port->counts.notices_out++;
	packet_make(c, &p, NULL, out);
}
