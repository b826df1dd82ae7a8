/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of an MPA set-up on arbitrary bytes in arbitrary pieces: it takes no byte beyond the
 * frame, ends or waits, keeps to what was agreed, and the pieces do not matter.
 */
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "cm/cm.h"

enum { INPUT_MAX = 1024, TIMEOUT_NS = 1000, WHOLE = INPUT_MAX, FRAME_MAX = 532 };

/* What the input asks for before its stream begins. */
struct plan {
	bool is_initiator;
	bool is_rejecting;
	bool is_key_given; /* the right key in place of the stream's first bytes: a short cut */
	struct mpa_config config;
	uint16_t private_bytes;
	uint32_t pieces; /* how long each is, in base 8 */
};

struct outcome {
	enum mpa_setup_state state;
	enum weft_reason reason;
	size_t taken;
	struct iwarp_terms terms;
	uint8_t out[FRAME_MAX];
	size_t out_bytes;
};

static struct plan plan_of(struct rd *r)
{
	uint8_t bits = rd_u8(r);
	struct plan p = {
		.is_initiator = bits & 1,
		.is_rejecting = bits & 2,
		.is_key_given = !(bits & 4),
		.config = { .wants_crc = bits & 8,
			    .wants_markers = bits & 16,
			    .revision = bits & 32 ? 2 : 1,
			    .is_peer_to_peer = (bits & 64) && (bits & 32),
			    .timeout_ns = TIMEOUT_NS },
	};

	p.config.ird = rd_u8(r) % 8;
	p.config.ord = rd_u8(r) % 8;
	p.private_bytes = bits & 128 ? rd_u8(r) * 2 : 0;
	p.pieces = rd_u32(r);
	return p;
}

/* Only the frame is asked for: 20 bytes, then what bytes 18 and 19 said. */
static void check_want(const struct span *want, const uint8_t *stream, size_t taken)
{
	size_t frame = MPA_START_BYTES;

	if (taken >= MPA_START_BYTES)
		frame += (size_t)stream[18] << 8 | stream[19];
	CHECK(frame <= FRAME_MAX && want->length == frame - taken);
}

static size_t feed(struct mpa_setup *s, const uint8_t *stream, size_t length, uint32_t pieces)
{
	size_t taken = 0;

	for (uint32_t n = 0; taken < length; n++) {
		struct span want = mpa_setup_want(s);
		size_t piece = pieces == WHOLE ? WHOLE : 1 + (pieces >> n % 10 * 3 & 7);

		if (want.length == 0)
			break;
		check_want(&want, stream, taken);
		piece = piece < want.length ? piece : want.length;
		piece = piece < length - taken ? piece : length - taken;
		memcpy(want.bytes, stream + taken, piece);
		mpa_setup_got(s, piece);
		taken += piece;
	}
	return taken;
}

static void drain(struct mpa_setup *s, struct outcome *o, uint32_t pieces)
{
	struct mpa_bytes have;

	for (uint32_t n = 0; (have = mpa_setup_have(s)).length > 0; n++) {
		size_t piece = pieces == WHOLE ? WHOLE : 1 + (pieces >> n % 10 * 3 & 7);

		CHECK(mpa_setup_want(s).length == 0);
		piece = piece < have.length ? piece : have.length;
		CHECK(o->out_bytes + piece <= FRAME_MAX);
		memcpy(o->out + o->out_bytes, have.bytes, piece);
		o->out_bytes += piece;
		mpa_setup_sent(s, piece);
	}
}

static void check_terms(const struct plan *p, const struct mpa_setup *s)
{
	const struct iwarp_terms *t = mpa_setup_terms(s);
	const struct mpa_peer peer = mpa_setup_peer(s);

	CHECK(t->is_initiator == p->is_initiator);
	CHECK(t->has_crc == (p->config.wants_crc || peer.wants_crc));
	CHECK(t->takes_markers == p->config.wants_markers);
	CHECK(t->sends_markers == peer.wants_markers);
	CHECK(t->ird == p->config.ird && t->ord <= p->config.ord && t->ord <= peer.ird);
	if (mpa_setup_must_terminate(s))
		return;
	CHECK(!p->is_initiator || peer.ord <= t->ird || peer.ord == MPA_DEPTH_UNKNOWN);
	CHECK((t->rtr != IWARP_RTR_NONE) ==
	      (p->is_initiator ? p->config.is_peer_to_peer : peer.is_peer_to_peer));
	CHECK(t->rtr != IWARP_RTR_READ || (p->is_initiator ? t->ord : t->ird) > 0);
	CHECK(t->rtr != IWARP_RTR_SEND || !p->is_initiator);
}

/* A reply is the request's in kind, and one that the decoders take. */
static void check_reply(const struct plan *p, const struct mpa_setup *s, const struct outcome *o)
{
	const struct mpa_peer peer = mpa_setup_peer(s);
	struct rd r = rd_of(o->out, o->out_bytes);
	struct mpa_start start;
	struct mpa_enhanced enhanced;

	CHECK(mpa_start_decode(&start, &r) == MPA_OK && start.is_reply);
	CHECK(start.revision == peer.revision && start.is_rejected == p->is_rejecting);
	CHECK(start.private_bytes == (size_t)(r.end - r.at));
	if (!start.is_enhanced) {
		CHECK(peer.ird == MPA_DEPTH_UNKNOWN && peer.ord == MPA_DEPTH_UNKNOWN);
		return;
	}
	CHECK(mpa_enhanced_decode(&enhanced, &r) == MPA_OK);
	CHECK(enhanced.is_peer_to_peer == peer.is_peer_to_peer);
	CHECK((enhanced.ord == MPA_DEPTH_UNKNOWN) == (peer.ird == MPA_DEPTH_UNKNOWN));
	CHECK((enhanced.ird == MPA_DEPTH_UNKNOWN) == (peer.ord == MPA_DEPTH_UNKNOWN));
	CHECK(enhanced.ord <= peer.ird);
}

/* Accepts or rejects; what does not fit is refused and given again without private data. */
static void answer(const struct plan *p, struct mpa_setup *s)
{
	static const uint8_t data[INPUT_MAX];
	struct mpa_answer a = {
		.private_data = { .bytes = data, .length = p->private_bytes },
		.ird = p->config.ird,
		.ord = p->config.ord,
	};

	for (int try = 0; try < 2; try++) {
		enum weft_reason r = p->is_rejecting ? mpa_setup_reject(s, a.private_data, 0)
						     : mpa_setup_accept(s, &a, 0);

		if (r == WEFT_OK)
			return;
		CHECK(r == WEFT_R_PRIVATE_DATA && a.private_data.length > 508);
		a.private_data.length = 0;
	}
	CHECK(false);
}

static void init(const struct plan *p, struct mpa_setup *s)
{
	if (p->is_initiator)
		CHECK(mpa_setup_init_initiator(s, &p->config, (struct mpa_bytes){ 0 }, 0) ==
		      WEFT_OK);
	else
		mpa_setup_init_responder(s, &p->config, 0);
}

static struct outcome run(const struct plan *p, uint32_t pieces, const uint8_t *stream,
			  size_t length)
{
	struct outcome o = { .out_bytes = 0 };
	struct mpa_setup s;

	init(p, &s);
	drain(&s, &o, pieces);
	o.taken = feed(&s, stream, length, pieces);
	if (mpa_setup_event(&s) == MPA_SETUP_REQUEST) {
		CHECK(mpa_setup_due(&s) == UINT64_MAX);
		answer(p, &s);
		drain(&s, &o, pieces);
		check_reply(p, &s, &o);
	}
	o.state = s.state;
	o.reason = mpa_setup_reason(&s);
	if (s.state == MPA_STATE_ESTABLISHED || mpa_setup_must_terminate(&s)) {
		check_terms(p, &s);
		o.terms = *mpa_setup_terms(&s);
	}
	/* It waits only if it took all, and then the peer's going ends it. */
	if (mpa_setup_due(&s) != UINT64_MAX) {
		CHECK(o.taken == length && mpa_setup_due(&s) == TIMEOUT_NS);
		mpa_setup_eof(&s);
		CHECK(mpa_setup_reason(&s) == WEFT_R_CONNECT_CLOSED);
	}
	CHECK(mpa_setup_want(&s).length == 0 && mpa_setup_have(&s).length == 0);
	return o;
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
	CHECK(a->state == b->state && a->reason == b->reason && a->taken == b->taken);
	CHECK(a->terms.has_crc == b->terms.has_crc && a->terms.ird == b->terms.ird &&
	      a->terms.ord == b->terms.ord && a->terms.rtr == b->terms.rtr &&
	      a->terms.sends_markers == b->terms.sends_markers);
	CHECK(a->out_bytes == b->out_bytes && memcmp(a->out, b->out, a->out_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd r = rd_of(data, size);
	struct plan p = plan_of(&r);
	uint8_t stream[INPUT_MAX];
	size_t length = (size_t)(r.end - r.at);
	struct outcome whole, pieces;

	length = length < sizeof(stream) ? length : sizeof(stream);
	memcpy(stream, r.at, length);
	if (p.is_key_given && length >= 16)
		memcpy(stream, p.is_initiator ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
	whole = run(&p, WHOLE, stream, length);
	pieces = run(&p, p.pieces == WHOLE ? 0 : p.pieces, stream, length);
	check_same(&whole, &pieces);
	return 0;
}
