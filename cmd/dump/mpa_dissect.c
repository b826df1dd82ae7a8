/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/mpa_dissect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "wire/ddp.h"

/*
 * Of a ULPDU this much is looked at: headers and the longest body, and room to see what is too
 * much. Of untagged ones also the data.
 */
enum { HEAD_MAX = 128, UNTAGGED_MAX = 32 + MPA_DATA_MAX };

/* An FPDU with its markers taken out. */
struct fpdu {
	uint32_t raw_bytes; /* with markers, and with the one before it */
	uint32_t ulpdu_bytes;
	uint8_t head[UNTAGGED_MAX];
	uint32_t head_bytes;
	uint32_t crc, crc_due;
	uint64_t bad_marker; /* its place in the stream, when the reading failed for it */
};

struct segment {
	bool is_tagged, is_last;
	enum rdmap_opcode opcode;
	uint32_t stag; /* with is_tagged; otherwise the 32 bits that belong to RDMAP */
	uint32_t qn, msn;
	uint64_t offset;
	uint32_t payload_bytes;
	struct rd payload; /* the first of it */
};

static size_t left(const struct rd *r)
{
	return (size_t)(r->end - r->at);
}

__attribute__((format(printf, 3, 4))) static void fault(struct mpa_item *item, enum mpa_fault what,
							const char *format, ...)
{
	va_list args;

	if (item->fault != MPA_FAULT_NONE)
		return; /* what was wrong first is told */
	item->fault = what;
	va_start(args, format);
	(void)vsnprintf(item->text, sizeof(item->text), format, args);
	va_end(args);
}

static struct mpa_item *item_begin(struct mpa_item *item, enum mpa_item_kind kind, int from)
{
	memset(item, 0, sizeof(*item));
	item->kind = kind;
	item->from = from;
	return item;
}

bool mpa_dissect_is_start(struct rd bytes)
{
	size_t length = left(&bytes) < MPA_KEY_BYTES ? left(&bytes) : MPA_KEY_BYTES;

	return length > 0 && (memcmp(bytes.at, "MPA ID Req Frame", length) == 0 ||
			      memcmp(bytes.at, "MPA ID Rep Frame", length) == 0);
}

void mpa_dissect_init(struct mpa_dissect *d)
{
	memset(d, 0, sizeof(*d));
	for (int i = 0; i < 2; i++) {
		for (int qn = 0; qn < RDMAP_QN_COUNT; qn++)
			d->sides[i].msn[qn] = 1; /* RFC 5041 section 5.1 */
	}
}

/* ---- start frames --------------------------------------------------------------------------- */

static const char *start_error(enum mpa_err err)
{
	switch (err) {
	case MPA_ERR_KEY:
		return "this is not an MPA start frame";
	case MPA_ERR_LENGTH:
		return "a start frame with a wrong length of private data";
	case MPA_ERR_REVISION:
		return "a start frame of a revision that is neither 1 nor 2";
	default:
		return "a wrong start frame";
	}
}

static void lose_both(struct mpa_dissect *d)
{
	d->sides[0].state = d->sides[1].state = MPA_SIDE_LOST;
}

/* Both frames are here: do they go together? */
static void start_agree(struct mpa_dissect *d, struct mpa_item *item)
{
	const struct mpa_start *a = &d->sides[0].start, *b = &d->sides[1].start;

	if (a->is_reply == b->is_reply) {
		fault(item, MPA_FAULT_START, "both sides sent an MPA %s",
		      a->is_reply ? "Reply" : "Request");
		lose_both(d);
	} else if (a->is_rejected || b->is_rejected) {
		d->sides[0].state = d->sides[1].state = MPA_SIDE_OVER;
	}
}

static bool start_take(struct mpa_dissect *d, int from, struct rd *bytes, struct mpa_item *item)
{
	struct mpa_side *s = &d->sides[from];
	struct rd at = *bytes;
	enum mpa_err err;

	item_begin(item, MPA_ITEM_START, from);
	err = mpa_start_decode(&item->start, &at);
	if (err == MPA_ERR_SHORT)
		return false;
	if (err != MPA_OK) {
		item->kind = MPA_ITEM_FAULT;
		fault(item, MPA_FAULT_START, "%s; the connection cannot be read", start_error(err));
		lose_both(d);
		return true;
	}
	if (left(&at) < item->start.private_bytes)
		return false;
	item->data_bytes = item->start.private_bytes;
	if (item->start.is_enhanced) {
		(void)mpa_enhanced_decode(&item->enhanced, &at);
		item->data_bytes -= MPA_ENHANCED_BYTES;
	}
	for (uint32_t i = 0; i < item->data_bytes; i++)
		item->data[i] = rd_u8(&at);
	CHECK(!at.is_short);
	s->start = item->start;
	s->enhanced = item->enhanced;
	s->state = MPA_SIDE_FPDUS;
	if (d->sides[!from].state == MPA_SIDE_FPDUS)
		start_agree(d, item);
	*bytes = at;
	return true;
}

/* ---- FPDUs ---------------------------------------------------------------------------------- */

static bool is_marker_due(const struct mpa_dissect *d, int from, uint64_t at)
{
	return d->sides[!from].start.wants_markers && mpa_marker_front(at) > 0;
}

enum fpdu_result { FPDU_READ, FPDU_SHORT, FPDU_BAD_MARKER };

/* How long the FPDU at this place of the stream is, markers included. */
static bool fpdu_measure(const struct mpa_dissect *d, int from, struct rd r, struct fpdu *f)
{
	uint64_t at = d->sides[from].at;

	if (is_marker_due(d, from, at))
		(void)rd_u32(&r);
	f->ulpdu_bytes = rd_u16(&r);
	if (r.is_short)
		return false;
	f->raw_bytes = mpa_fpdu_bytes(f->ulpdu_bytes);
	if (d->sides[!from].start.wants_markers)
		f->raw_bytes = mpa_marked_bytes(at, f->raw_bytes);
	return true;
}

static uint32_t head_max(const struct fpdu *f)
{
	return f->head_bytes > 0 && !ddp_is_tagged(f->head[0]) ? UNTAGGED_MAX : HEAD_MAX;
}

/* The ULPDU's first bytes, without markers; each marker is checked. */
static bool fpdu_unmark(const struct mpa_dissect *d, int from, struct rd r, struct fpdu *f)
{
	bool has_markers = d->sides[!from].start.wants_markers;
	uint64_t begin = d->sides[from].at, at = begin;
	uint32_t skip = MPA_HEADER_BYTES;

	/* Without markers the first bytes are enough. */
	while (left(&r) > 0 && (has_markers || f->head_bytes < head_max(f))) {
		uint8_t byte;

		if (is_marker_due(d, from, at)) {
			uint32_t due = mpa_marker_back(begin, (uint32_t)(at - begin));
			uint16_t back;

			if (mpa_marker_decode(&back, &r) != MPA_OK || back != (uint16_t)due) {
				f->bad_marker = at;
				return false;
			}
			at += MPA_MARKER_BYTES;
			continue;
		}
		byte = rd_u8(&r);
		at++;
		if (skip > 0)
			skip--;
		else if (f->head_bytes < f->ulpdu_bytes && f->head_bytes < head_max(f))
			f->head[f->head_bytes++] = byte;
	}
	return true;
}

static enum fpdu_result fpdu_read(const struct mpa_dissect *d, int from, struct rd r,
				  struct fpdu *f)
{

	memset(f, 0, sizeof(*f));
	if (!fpdu_measure(d, from, r, f) || left(&r) < f->raw_bytes)
		return FPDU_SHORT;
	r.end = r.at + f->raw_bytes;
	if (!fpdu_unmark(d, from, r, f))
		return FPDU_BAD_MARKER;
	/* RFC 5044 section 4.4: markers are covered too, also the one before the FPDU. */
	f->crc_due = crc32c_end(
		crc32c_add(CRC32C_BEGIN, r.at, f->raw_bytes - (uint32_t)MPA_CRC_BYTES));
	f->crc = mpa_crc_decode(r.end - MPA_CRC_BYTES);
	return FPDU_READ;
}

/* ---- segments and messages ------------------------------------------------------------------ */

static const char *segment_error(enum ddp_err ddp, enum rdmap_err rdmap)
{
	if (ddp == DDP_ERR_VERSION)
		return "the DDP version is not 1";
	if (ddp != DDP_OK)
		return "an FPDU that is too short for a DDP header";
	switch (rdmap) {
	case RDMAP_ERR_VERSION:
		return "the RDMAP version is unknown";
	case RDMAP_ERR_QUEUE:
		return "there is no such DDP queue";
	default:
		return "an RDMAP opcode that is unknown or does not belong there";
	}
}

/* NULL, or what is wrong with the headers. */
static const char *segment_read(struct segment *g, const struct fpdu *f)
{
	struct rd r = rd_of(f->head, f->head_bytes);
	enum rdmap_err rdmap = RDMAP_OK;
	uint8_t ulp = 0;
	enum ddp_err ddp;

	memset(g, 0, sizeof(*g));
	if (f->head_bytes > 0 && ddp_is_tagged(f->head[0])) {
		struct ddp_tagged h = { 0 };

		ddp = ddp_tagged_decode(&h, &r);
		g->is_tagged = true;
		g->is_last = h.is_last;
		g->stag = h.stag;
		g->offset = h.to;
		ulp = h.ulp;
	} else {
		struct ddp_untagged h = { 0 };

		ddp = ddp_untagged_decode(&h, &r);
		g->is_last = h.is_last;
		g->stag = h.ulp32;
		g->qn = h.qn;
		g->msn = h.msn;
		g->offset = h.mo;
		ulp = h.ulp;
	}
	if (ddp == DDP_OK)
		rdmap = rdmap_control_decode(ulp, g->is_tagged, g->qn, &g->opcode);
	if (ddp != DDP_OK || rdmap != RDMAP_OK)
		return segment_error(ddp, rdmap);
	g->payload = r;
	g->payload_bytes = f->ulpdu_bytes - (f->head_bytes - (uint32_t)left(&r));
	return NULL;
}

static bool has_body(enum rdmap_opcode opcode)
{
	return opcode == RDMAP_READ_REQUEST || opcode >= RDMAP_TERMINATE;
}

/* Those messages are one segment, which is the body and nothing else. */
static void body_read(struct mpa_item *item, const struct segment *g)
{
	struct rd r = g->payload;
	enum rdmap_err err = RDMAP_OK;
	uint32_t used;

	switch (item->opcode) {
	case RDMAP_READ_REQUEST:
		err = rdmap_read_request_decode(&item->body.read, &r);
		break;
	case RDMAP_TERMINATE:
		err = rdmap_terminate_decode_any(&item->body.terminate, &r);
		break;
	case RDMAP_ATOMIC_REQUEST:
		err = rdmap_atomic_request_decode(&item->body.atomic, &r);
		break;
	case RDMAP_ATOMIC_RESPONSE:
		err = rdmap_atomic_response_decode(&item->body.atomic_response, &r);
		break;
	default:
		item->body.immediate = rd_u64(&r);
		err = r.is_short ? RDMAP_ERR_SHORT : RDMAP_OK;
		break;
	}
	used = (uint32_t)(r.at - g->payload.at);
	if (err == RDMAP_ERR_SHORT)
		fault(item, MPA_FAULT_BODY, "its body is cut off after %" PRIu32 " bytes",
		      g->payload_bytes);
	else if (err != RDMAP_OK)
		fault(item, MPA_FAULT_BODY, "its body holds what no sender may put there");
	else if (used != g->payload_bytes)
		fault(item, MPA_FAULT_BODY, "%" PRIu32 " bytes follow its body",
		      g->payload_bytes - used);
	else if (!g->is_last || g->offset != 0)
		fault(item, MPA_FAULT_BODY, "it is not in one segment");
}

static bool is_continued(const struct mpa_side *s, const struct segment *g)
{
	const struct mpa_item *item = &s->item;

	if (item->opcode != g->opcode)
		return false;
	return g->is_tagged ? item->stag == g->stag : item->qn == g->qn && item->msn == g->msn;
}

static void message_begin(struct mpa_side *s, int from, const struct segment *g)
{
	struct mpa_item *item = item_begin(&s->item, MPA_ITEM_MESSAGE, from);

	s->is_open = true;
	item->opcode = g->opcode;
	item->stag = g->stag;
	item->qn = g->qn;
	item->msn = g->msn;
	item->to = s->item_next = g->is_tagged ? g->offset : 0;
}

/* Does it come in its turn? A number under a wrong CRC is not counted on from. */
static void message_check(struct mpa_side *s, const struct segment *g)
{
	struct mpa_item *item = &s->item;
	bool is_sure = item->fault != MPA_FAULT_CRC;
	uint32_t due = s->msn[g->qn];

	if (s->has_terminated)
		fault(item, MPA_FAULT_AFTER_END, "it comes after a Terminate");
	if (g->is_tagged)
		return;
	if (g->msn != due)
		fault(item, MPA_FAULT_MSN, "its MSN is %" PRIu32 ", the next is %" PRIu32, g->msn,
		      due);
	s->msn[g->qn] = (is_sure ? g->msn : due) + 1;
}

/* RFC 6581 section 4: peer to peer, the initiator's first message is one of those agreed on. */
static void rtr_check(const struct mpa_dissect *d, struct mpa_item *item)
{
	const struct mpa_enhanced *a = &d->sides[0].enhanced, *b = &d->sides[1].enhanced;
	bool is_empty = item->bytes == 0 && item->fpdus == 1;

	if (!a->is_peer_to_peer || !b->is_peer_to_peer || d->sides[item->from].start.is_reply ||
	    item->opcode == RDMAP_TERMINATE)
		return;
	if (item->opcode == RDMAP_SEND)
		item->is_rtr = is_empty && a->rtr_by_send && b->rtr_by_send;
	else if (item->opcode == RDMAP_WRITE)
		item->is_rtr = is_empty && a->rtr_by_write && b->rtr_by_write;
	else if (item->opcode == RDMAP_READ_REQUEST)
		item->is_rtr = item->body.read.size == 0 && a->rtr_by_read && b->rtr_by_read;
	if (!item->is_rtr)
		fault(item, MPA_FAULT_RTR, "the first message is no RTR that both sides offered");
}

/* What a Send carries, as far as there is room. */
static void data_add(struct mpa_item *item, struct rd payload)
{
	size_t length = left(&payload), room = sizeof(item->data) - item->data_bytes;

	if (item->data_bytes != item->bytes)
		return; /* there was no room for all of it before */
	if (length > room)
		length = room;
	memcpy(item->data + item->data_bytes, payload.at, length);
	item->data_bytes += (uint32_t)length;
}

/* True when the message is whole. */
static bool message_add(struct mpa_dissect *d, struct mpa_side *s, const struct segment *g)
{
	struct mpa_item *item = &s->item;

	item->fpdus++;
	if (has_body(item->opcode)) {
		body_read(item, g);
	} else {
		if (g->offset != s->item_next)
			fault(item, MPA_FAULT_OFFSET,
			      "a segment is at offset 0x%" PRIx64
			      ", the one before ends at 0x%" PRIx64,
			      g->offset, s->item_next);
		if (!g->is_tagged)
			data_add(item, g->payload);
		item->bytes += g->payload_bytes;
		s->item_next = g->offset + g->payload_bytes;
		if (!g->is_last)
			return false;
	}
	item->is_whole = true;
	s->is_open = false;
	if (!s->has_sent)
		rtr_check(d, item);
	s->has_sent = true;
	s->has_terminated = s->has_terminated || item->opcode == RDMAP_TERMINATE;
	s->messages++;
	return true;
}

static bool lose(struct mpa_side *s)
{
	s->state = MPA_SIDE_LOST;
	return true;
}

static void fault_crc(struct mpa_item *item, const struct fpdu *f)
{
	fault(item, MPA_FAULT_CRC, "the CRC of an FPDU is 0x%08" PRIx32 ", not 0x%08" PRIx32,
	      f->crc, f->crc_due);
}

/* An FPDU whose headers make no sense. Only a good CRC vouches for its length then. */
static void fpdu_reject(struct mpa_side *s, const struct fpdu *f, bool has_crc, const char *what,
			struct mpa_item *item)
{
	bool is_sure = has_crc && f->crc == f->crc_due;

	if (has_crc && !is_sure)
		fault_crc(item, f);
	fault(item, MPA_FAULT_HEADER, "%s%s", what,
	      is_sure ? "" : "; the rest of this direction cannot be read");
	if (!is_sure)
		s->state = MPA_SIDE_LOST;
}

/*
 * Takes one FPDU. True: there is an item. False: none yet, because the message goes on or, with
 * *is_short, because the FPDU does.
 */
static bool fpdu_take(struct mpa_dissect *d, int from, struct rd *bytes, struct mpa_item *item,
		      bool *is_short)
{
	struct mpa_side *s = &d->sides[from];
	bool has_crc = d->sides[0].start.wants_crc || d->sides[1].start.wants_crc, is_first;
	struct segment g;
	struct fpdu f;
	const char *wrong;
	enum fpdu_result result = fpdu_read(d, from, *bytes, &f);

	*is_short = result == FPDU_SHORT;
	if (result == FPDU_SHORT)
		return false;
	if (result == FPDU_BAD_MARKER) {
		fault(item_begin(item, MPA_ITEM_FAULT, from), MPA_FAULT_MARKER,
		      "the marker at byte %" PRIu64 " does not point to its FPDU; "
		      "the rest of this direction cannot be read",
		      f.bad_marker);
		return lose(s);
	}
	wrong = segment_read(&g, &f);
	if (!wrong && s->is_open && !is_continued(s, &g)) {
		/* That message is told now, this FPDU is read again after it. */
		fault(&s->item, MPA_FAULT_CUT, "another message begins before its last segment");
		s->is_open = false;
		*item = s->item;
		return true;
	}
	bytes->at += f.raw_bytes;
	s->at += f.raw_bytes;
	s->fpdus++;
	if (wrong) {
		fpdu_reject(s, &f, has_crc, wrong, item_begin(item, MPA_ITEM_FAULT, from));
		return true;
	}
	is_first = !s->is_open;
	if (is_first)
		message_begin(s, from, &g);
	if (has_crc && f.crc != f.crc_due)
		fault_crc(&s->item, &f);
	if (is_first)
		message_check(s, &g);
	if (!message_add(d, s, &g))
		return false;
	*item = s->item;
	return true;
}

bool mpa_dissect_next(struct mpa_dissect *d, int from, struct rd *bytes, struct mpa_item *item)
{
	struct mpa_side *s = &d->sides[from];
	bool is_short = false;

	if (s->state == MPA_SIDE_START)
		return start_take(d, from, bytes, item);
	while (s->state == MPA_SIDE_FPDUS && d->sides[!from].state != MPA_SIDE_START && !is_short) {
		if (fpdu_take(d, from, bytes, item, &is_short))
			return true;
	}
	if (s->state == MPA_SIDE_LOST)
		s->skipped_bytes += left(bytes);
	if (s->state == MPA_SIDE_LOST || s->state == MPA_SIDE_OVER)
		bytes->at = bytes->end;
	return false;
}

/* ---- the end -------------------------------------------------------------------------------- */

bool mpa_dissect_gap(struct mpa_dissect *d, int from, uint32_t missing, struct mpa_item *item)
{
	struct mpa_side *s = &d->sides[from];

	if (s->state == MPA_SIDE_LOST || s->state == MPA_SIDE_OVER)
		return false;
	fault(item_begin(item, MPA_ITEM_FAULT, from), MPA_FAULT_GAP,
	      "%" PRIu32 " bytes are missing from the capture; "
	      "the rest of this direction cannot be read",
	      missing);
	return lose(s);
}

/* Bytes that nothing could be made of. */
static void fault_left(const struct mpa_dissect *d, struct mpa_item *item, size_t bytes)
{
	if (d->sides[item->from].state == MPA_SIDE_START)
		fault(item, MPA_FAULT_START,
		      "the stream ends inside a start frame, after %zu bytes", bytes);
	else if (d->sides[!item->from].state == MPA_SIDE_START)
		fault(item, MPA_FAULT_START,
		      "%zu bytes cannot be read without the other side's start frame", bytes);
	else
		fault(item, MPA_FAULT_HALF, "the stream ends inside an FPDU, after %zu bytes",
		      bytes);
}

bool mpa_dissect_end(struct mpa_dissect *d, int from, struct rd *bytes, struct mpa_item *item)
{
	struct mpa_side *s = &d->sides[from];
	size_t rest = left(bytes);

	if (rest > 0 && (s->state == MPA_SIDE_START || s->state == MPA_SIDE_FPDUS)) {
		fault_left(d, item_begin(item, MPA_ITEM_FAULT, from), rest);
		s->skipped_bytes += rest;
		bytes->at = bytes->end;
		return lose(s);
	}
	if (s->is_open) {
		fault(&s->item, MPA_FAULT_HALF, "its last segment is not in the capture");
		s->is_open = false;
		*item = s->item;
		return true;
	}
	return false;
}
