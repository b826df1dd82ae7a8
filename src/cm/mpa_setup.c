/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/mpa_setup.h"

#include <string.h>

#include "base/check.h"
#include "base/deadline.h"

enum {
	TO_AWAITING_REPLY = 1 << MPA_STATE_AWAITING_REPLY,
	TO_DECIDING = 1 << MPA_STATE_DECIDING,
	TO_ACCEPTING = 1 << MPA_STATE_ACCEPTING,
	TO_REJECTING = 1 << MPA_STATE_REJECTING,
	TO_ESTABLISHED = 1 << MPA_STATE_ESTABLISHED,
	TO_REJECTED = 1 << MPA_STATE_REJECTED,
	TO_FAILED = 1 << MPA_STATE_FAILED,
};

/* What a state waits for. Waits for a frame depend on the peer, so they have a deadline. */
enum wait { WAIT_NONE = 0, WAIT_PROGRAM, WAIT_FRAME_IN, WAIT_FRAME_OUT };

/* event: reported to the owner when the state is entered. */
static const struct {
	const char *name;
	enum wait wait;
	uint32_t moves;
	enum mpa_setup_event event;
} states[MPA_STATE_COUNT] = {
	[MPA_STATE_REQUESTING] = { "REQUESTING", WAIT_FRAME_OUT, TO_AWAITING_REPLY | TO_FAILED,
				   MPA_SETUP_NONE },
	[MPA_STATE_AWAITING_REPLY] = { "AWAITING_REPLY", WAIT_FRAME_IN,
				       TO_ESTABLISHED | TO_REJECTED | TO_FAILED, MPA_SETUP_NONE },
	[MPA_STATE_AWAITING_REQUEST] = { "AWAITING_REQUEST", WAIT_FRAME_IN, TO_DECIDING | TO_FAILED,
					 MPA_SETUP_NONE },
	[MPA_STATE_DECIDING] = { "DECIDING", WAIT_PROGRAM, TO_ACCEPTING | TO_REJECTING | TO_FAILED,
				 MPA_SETUP_REQUEST },
	[MPA_STATE_ACCEPTING] = { "ACCEPTING", WAIT_FRAME_OUT, TO_ESTABLISHED | TO_FAILED,
				  MPA_SETUP_NONE },
	[MPA_STATE_REJECTING] = { "REJECTING", WAIT_FRAME_OUT, TO_REJECTED | TO_FAILED,
				  MPA_SETUP_NONE },
	[MPA_STATE_ESTABLISHED] = { "ESTABLISHED", WAIT_NONE, 0, MPA_SETUP_ESTABLISHED },
	[MPA_STATE_REJECTED] = { "REJECTED", WAIT_NONE, 0, MPA_SETUP_REJECTED },
	[MPA_STATE_FAILED] = { "FAILED", WAIT_NONE, 0, MPA_SETUP_FAILED },
};

const char *mpa_setup_state_name(enum mpa_setup_state state)
{
	return (unsigned int)state < MPA_STATE_COUNT ? states[state].name : "unknown";
}

static void mpa_setup_move(struct mpa_setup *s, enum mpa_setup_state to, enum weft_reason reason)
{
	CHECK(states[s->state].moves & 1U << to);
	s->state = to;
	s->reason = reason;
	s->event = states[to].event;
}

static void mpa_setup_fail(struct mpa_setup *s, enum weft_reason reason)
{
	mpa_setup_move(s, MPA_STATE_FAILED, reason);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static void deadline_set(struct mpa_setup *s, uint64_t now_ns)
{
	s->deadline_ns = deadline_after(now_ns, s->config.timeout_ns);
}

static void mpa_setup_init(struct mpa_setup *s, const struct mpa_config *config, bool is_initiator,
			   uint64_t now_ns)
{
	*s = (struct mpa_setup){
		.config = *config,
		.state = is_initiator ? MPA_STATE_REQUESTING : MPA_STATE_AWAITING_REQUEST,
		.terms = { .is_initiator = is_initiator },
		.theirs_enhanced = { .ird = MPA_DEPTH_UNKNOWN, .ord = MPA_DEPTH_UNKNOWN },
		.frame_bytes = MPA_START_BYTES,
	};
	deadline_set(s, now_ns);
}

static bool config_is_sound(const struct mpa_config *c)
{
	return c->ird <= MPA_DEPTH_MAX && c->ord <= MPA_DEPTH_MAX && c->timeout_ns > 0;
}

/* Room for the program's part of the private data. */
static size_t private_room(bool is_enhanced)
{
	return MPA_PRIVATE_MAX - (is_enhanced ? MPA_ENHANCED_BYTES : 0);
}

/*
 * Builds the outgoing frame in place of the received one. `enhanced` is used if start.is_enhanced.
 */
static void frame_make(struct mpa_setup *s, struct mpa_start start,
		       const struct mpa_enhanced *enhanced, struct mpa_bytes private_data)
{
	struct wr w = wr_of(s->frame, sizeof(s->frame));
	size_t before = start.is_enhanced ? MPA_ENHANCED_BYTES : 0;

	/* Move the private data first: it may lie in this very frame, as received from the peer. */
	if (private_data.length > 0)
		memmove(s->frame + MPA_START_BYTES + before, private_data.bytes,
			private_data.length);
	start.private_bytes = (uint16_t)(before + private_data.length);
	mpa_start_encode(&start, &w);
	if (start.is_enhanced)
		mpa_enhanced_encode(enhanced, &w);
	CHECK(!w.is_short);
	s->frame_bytes = (uint16_t)(MPA_START_BYTES + start.private_bytes);
	s->frame_done = 0;
	s->private_bytes = 0;
}

enum weft_reason mpa_setup_init_initiator(struct mpa_setup *s, const struct mpa_config *config,
					  struct mpa_bytes private_data, uint64_t now_ns)
{
	bool is_enhanced = config->revision == 2;
	const struct mpa_start start = {
		.wants_markers = config->wants_markers,
		.wants_crc = config->wants_crc,
		.is_enhanced = is_enhanced,
		.revision = config->revision,
	};
	/*
	 * RFC 6581 section 9.2. A Send is not offered, because the RFC does not say whether it
	 * consumes a receive of the peer. A Read needs ord > 0.
	 */
	const struct mpa_enhanced enhanced = {
		.is_peer_to_peer = config->is_peer_to_peer,
		.rtr_by_write = true,
		.rtr_by_read = config->ord > 0,
		.ird = config->ird,
		.ord = config->ord,
	};

	if (!config_is_sound(config) || (config->revision != 1 && !is_enhanced) ||
	    (config->is_peer_to_peer && !is_enhanced))
		return WEFT_R_BAD_ARGUMENT;
	if (private_data.length > private_room(is_enhanced))
		return WEFT_R_PRIVATE_DATA;
	mpa_setup_init(s, config, true, now_ns);
	frame_make(s, start, &enhanced, private_data);
	return WEFT_OK;
}

void mpa_setup_init_responder(struct mpa_setup *s, const struct mpa_config *config, uint64_t now_ns)
{
	CHECK(config_is_sound(config));
	mpa_setup_init(s, config, false, now_ns);
}

/* ---- Agreement: pure functions of what both ends said ---------------------------------------- */

/* RFC 5044 section 7.1.2: CRCs if either end wants them, markers as their receiver wants them. */
static struct iwarp_terms terms_of(const struct mpa_setup *s, uint16_t ird, uint16_t ord)
{
	uint16_t bound = s->theirs_enhanced.ird;

	/* RFC 6581 section 9.1. MPA_DEPTH_UNKNOWN is above all depths and so bounds nothing. */
	return (struct iwarp_terms){
		.is_initiator = s->terms.is_initiator,
		.has_crc = s->config.wants_crc || s->theirs.wants_crc,
		.sends_markers = s->theirs.wants_markers,
		.takes_markers = s->config.wants_markers,
		.ird = ird,
		.ord = ord < bound ? ord : bound,
	};
}

/* RFC 6581 section 9.2, responder. */
static enum iwarp_rtr rtr_choose(const struct mpa_enhanced *offer, uint16_t ird)
{
	if (!offer->is_peer_to_peer)
		return IWARP_RTR_NONE;
	if (offer->rtr_by_write)
		return IWARP_RTR_WRITE;
	if (offer->rtr_by_read && ird > 0)
		return IWARP_RTR_READ;
	if (offer->rtr_by_send)
		return IWARP_RTR_SEND;
	/* Nothing in common: name what is supported here; the initiator will terminate. */
	return IWARP_RTR_WRITE;
}

/* RFC 6581 section 9.2, initiator: one that both ends named, or none. */
static enum iwarp_rtr rtr_common(const struct mpa_enhanced *answer, uint16_t ord)
{
	if (answer->rtr_by_write)
		return IWARP_RTR_WRITE;
	/* ord > 0 says both: this end offered a Read, and the responder can serve one. */
	if (answer->rtr_by_read && ord > 0)
		return IWARP_RTR_READ;
	return IWARP_RTR_NONE;
}

/* RFC 6581 section 9.1: the initiator checks the depths in the responder's reply. */
static enum weft_reason initiator_agree(struct mpa_setup *s)
{
	const struct mpa_enhanced *answer = &s->theirs_enhanced;

	s->terms = terms_of(s, s->config.ird, s->config.ord);
	if (answer->ord != MPA_DEPTH_UNKNOWN && answer->ord > s->config.ird)
		return WEFT_R_MPA_DEPTH;
	if (!s->config.is_peer_to_peer)
		return WEFT_OK;
	s->terms.rtr = rtr_common(answer, s->terms.ord);
	return s->terms.rtr == IWARP_RTR_NONE ? WEFT_R_MPA_RTR : WEFT_OK;
}

/* ---- Frames in ------------------------------------------------------------------------------ */

/*
 * RFC 5044 section 7.1.2, RFC 6581 section 6: is this the expected frame, and of the expected kind?
 */
static enum weft_reason start_check(const struct mpa_setup *s, const struct mpa_start *start)
{
	bool is_reply_due = s->state == MPA_STATE_AWAITING_REPLY;

	/* Both ends are initiators, or a reply came without a request. */
	if (start->is_reply != is_reply_due)
		return WEFT_R_MPA_KEY;
	/* The reply must have the request's revision. A rejection is valid with any revision. */
	if (is_reply_due && !start->is_rejected &&
	    (start->revision != s->config.revision ||
	     start->is_enhanced != (s->config.revision == 2)))
		return WEFT_R_MPA_REVISION;
	return WEFT_OK;
}

static enum weft_reason start_take(struct mpa_setup *s)
{
	static const enum weft_reason reasons[] = {
		[MPA_ERR_KEY] = WEFT_R_MPA_KEY,
		[MPA_ERR_LENGTH] = WEFT_R_MPA_LENGTH,
		[MPA_ERR_REVISION] = WEFT_R_MPA_REVISION,
	};
	struct rd r = rd_of(s->frame, MPA_START_BYTES);
	struct mpa_start start;
	enum mpa_err err = mpa_start_decode(&start, &r);
	enum weft_reason reason;

	if (err != MPA_OK)
		return reasons[err];
	reason = start_check(s, &start);
	if (reason != WEFT_OK)
		return reason;
	s->theirs = start;
	s->frame_bytes = (uint16_t)(MPA_START_BYTES + start.private_bytes);
	return WEFT_OK;
}

static void frame_take(struct mpa_setup *s)
{
	struct rd r = rd_of(s->frame + MPA_START_BYTES, s->theirs.private_bytes);
	enum weft_reason reason;

	/* start_take() has checked the length. */
	if (s->theirs.is_enhanced)
		CHECK(mpa_enhanced_decode(&s->theirs_enhanced, &r) == MPA_OK);
	s->private_at = (uint16_t)(r.at - s->frame);
	s->private_bytes = (uint16_t)(r.end - r.at);
	if (s->state == MPA_STATE_AWAITING_REQUEST) {
		mpa_setup_move(s, MPA_STATE_DECIDING, WEFT_OK);
	} else if (s->theirs.is_rejected) {
		mpa_setup_move(s, MPA_STATE_REJECTED, WEFT_R_CONNECT_REJECTED);
	} else {
		reason = initiator_agree(s);
		mpa_setup_move(s, reason == WEFT_OK ? MPA_STATE_ESTABLISHED : MPA_STATE_FAILED,
			       reason);
	}
}

struct span mpa_setup_want(struct mpa_setup *s)
{
	if (states[s->state].wait != WAIT_FRAME_IN)
		return (struct span){ 0 };
	return (struct span){
		.bytes = s->frame + s->frame_done,
		.length = (size_t)s->frame_bytes - s->frame_done,
	};
}

void mpa_setup_got(struct mpa_setup *s, size_t length)
{
	enum weft_reason reason;

	CHECK(length <= mpa_setup_want(s).length);
	if (length == 0)
		return;
	s->frame_done = (uint16_t)(s->frame_done + length);
	/* Only now is it known how long the frame is. */
	if (s->frame_done == MPA_START_BYTES) {
		reason = start_take(s);
		if (reason != WEFT_OK) {
			mpa_setup_fail(s, reason);
			return;
		}
	}
	if (s->frame_done == s->frame_bytes)
		frame_take(s);
}

/* ---- Frames out ----------------------------------------------------------------------------- */

struct mpa_bytes mpa_setup_have(const struct mpa_setup *s)
{
	if (states[s->state].wait != WAIT_FRAME_OUT)
		return (struct mpa_bytes){ 0 };
	return (struct mpa_bytes){
		.bytes = s->frame + s->frame_done,
		.length = (size_t)s->frame_bytes - s->frame_done,
	};
}

void mpa_setup_sent(struct mpa_setup *s, size_t length)
{
	CHECK(length <= mpa_setup_have(s).length);
	s->frame_done = (uint16_t)(s->frame_done + length);
	if (length == 0 || s->frame_done < s->frame_bytes)
		return;
	if (s->state == MPA_STATE_REQUESTING) {
		s->frame_bytes = MPA_START_BYTES;
		s->frame_done = 0;
		mpa_setup_move(s, MPA_STATE_AWAITING_REPLY, WEFT_OK);
	} else if (s->state == MPA_STATE_ACCEPTING) {
		mpa_setup_move(s, MPA_STATE_ESTABLISHED, WEFT_OK);
	} else {
		mpa_setup_move(s, MPA_STATE_REJECTED, WEFT_OK);
	}
}

/*
 * The reply has the request's revision and S flag. C says what was agreed: RFC 5044 section 7.1.2
 * leaves that open, but Linux relies on the reply alone.
 */
static void reply_make(struct mpa_setup *s, bool is_rejected, struct mpa_bytes private_data)
{
	const struct mpa_enhanced *request = &s->theirs_enhanced;
	const struct mpa_start start = {
		.is_reply = true,
		.wants_markers = s->config.wants_markers,
		.wants_crc = s->terms.has_crc,
		.is_rejected = is_rejected,
		.is_enhanced = s->theirs.is_enhanced,
		.revision = s->theirs.revision,
	};
	/* RFC 6581 section 9.1: a depth that the initiator leaves open stays open. */
	const struct mpa_enhanced enhanced = {
		.is_peer_to_peer = request->is_peer_to_peer,
		.rtr_by_send = s->terms.rtr == IWARP_RTR_SEND,
		.rtr_by_write = s->terms.rtr == IWARP_RTR_WRITE,
		.rtr_by_read = s->terms.rtr == IWARP_RTR_READ,
		.ird = request->ord == MPA_DEPTH_UNKNOWN ? MPA_DEPTH_UNKNOWN : s->terms.ird,
		.ord = request->ird == MPA_DEPTH_UNKNOWN ? MPA_DEPTH_UNKNOWN : s->terms.ord,
	};

	frame_make(s, start, &enhanced, private_data);
}

static enum weft_reason answer_make(struct mpa_setup *s, const struct mpa_answer *answer,
				    bool is_rejected, uint64_t now_ns)
{
	if (s->state == MPA_STATE_FAILED)
		return s->reason;
	CHECK(s->state == MPA_STATE_DECIDING);
	if (answer->ird > s->config.ird || answer->ord > s->config.ord)
		return WEFT_R_BAD_ARGUMENT;
	if (answer->private_data.length > private_room(s->theirs.is_enhanced))
		return WEFT_R_PRIVATE_DATA;
	s->terms = terms_of(s, answer->ird, answer->ord);
	s->terms.rtr = rtr_choose(&s->theirs_enhanced, answer->ird);
	reply_make(s, is_rejected, answer->private_data);
	deadline_set(s, now_ns);
	mpa_setup_move(s, is_rejected ? MPA_STATE_REJECTING : MPA_STATE_ACCEPTING, WEFT_OK);
	return WEFT_OK;
}

void mpa_setup_wish(struct mpa_setup *s, bool wants_crc, bool wants_markers)
{
	s->config.wants_crc = wants_crc;
	s->config.wants_markers = wants_markers;
}

enum weft_reason mpa_setup_accept(struct mpa_setup *s, const struct mpa_answer *answer,
				  uint64_t now_ns)
{
	return answer_make(s, answer, false, now_ns);
}

enum weft_reason mpa_setup_reject(struct mpa_setup *s, struct mpa_bytes private_data,
				  uint64_t now_ns)
{
	const struct mpa_answer no = {
		.private_data = private_data,
		.ird = s->config.ird,
		.ord = s->config.ord,
	};

	return answer_make(s, &no, true, now_ns);
}

/* ---- The connection's end, time, and questions ----------------------------------------------- */

void mpa_setup_eof(struct mpa_setup *s)
{
	if (states[s->state].wait != WAIT_NONE)
		mpa_setup_fail(s, WEFT_R_CONNECT_CLOSED);
}

uint64_t mpa_setup_due(const struct mpa_setup *s)
{
	enum wait wait = states[s->state].wait;

	return wait == WAIT_FRAME_IN || wait == WAIT_FRAME_OUT ? s->deadline_ns : UINT64_MAX;
}

void mpa_setup_expire(struct mpa_setup *s, uint64_t now_ns)
{
	uint64_t due_ns = mpa_setup_due(s);

	if (due_ns != UINT64_MAX && now_ns >= due_ns)
		mpa_setup_fail(s, WEFT_R_CONNECT_TIMEOUT);
}

enum mpa_setup_event mpa_setup_event(struct mpa_setup *s)
{
	enum mpa_setup_event event = s->event;

	s->event = MPA_SETUP_NONE;
	return event;
}

struct mpa_peer mpa_setup_peer(const struct mpa_setup *s)
{
	return (struct mpa_peer){
		.private_data = { .bytes = s->frame + s->private_at, .length = s->private_bytes },
		.ird = s->theirs_enhanced.ird,
		.ord = s->theirs_enhanced.ord,
		.revision = s->theirs.revision,
		.wants_crc = s->theirs.wants_crc,
		.wants_markers = s->theirs.wants_markers,
		.is_peer_to_peer = s->theirs_enhanced.is_peer_to_peer,
	};
}

enum weft_reason mpa_setup_reason(const struct mpa_setup *s)
{
	return s->reason;
}

bool mpa_setup_must_terminate(const struct mpa_setup *s)
{
	return s->reason == WEFT_R_MPA_DEPTH || s->reason == WEFT_R_MPA_RTR;
}

const struct iwarp_terms *mpa_setup_terms(const struct mpa_setup *s)
{
	CHECK(s->state == MPA_STATE_ESTABLISHED || mpa_setup_must_terminate(s));
	return &s->terms;
}
