/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * weft dump on arbitrary bytes, as a file, and, which gets further, as the two streams
 * of a connection, handed over in pieces. Whatever it reads, it ends, stays within its memory, and
 * accounts for every byte that it was given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cmd/dump/conversation.h"
#include "cmd/dump/dump_words.h"
#include "cmd/dump/recording.h"
#include "cmd/dump/roce_words.h"
#include "wire/mpa.h"

enum { STREAM_MAX = 1 << 16 };

static void tell(void *context, const struct conversation *c, const struct mpa_item *item)
{
	char text[DUMP_LINE_BYTES], end[DUMP_END_BYTES];

	(void)context;
	CHECK(c->mpa && c->number > 0);
	CHECK((item->fault == MPA_FAULT_NONE) == (item->text[0] == 0));
	dump_end_words(&c->ends[0], end);
	dump_item_words(c->mpa, item, text, sizeof(text));
	CHECK(strlen(text) < sizeof(text));
}

static void tell_iscsi(void *context, const struct conversation *c, const struct iscsi_item *item)
{
	char text[DUMP_LINE_BYTES];

	(void)context;
	CHECK(!c || (c->iscsi && c->number > 0));
	CHECK(item->is_decoded || item->fault[0] != 0);
	iscsi_item_words(item, text, sizeof(text));
	CHECK(strlen(text) < sizeof(text) && item->is_decoded == (text[0] != 0));
}

static void try_roce(const struct packet *p)
{
	char text[DUMP_LINE_BYTES];
	struct roce_item item, again;

	roce_item_of(p, &item);
	CHECK(item.is_decoded || item.fault[0] != 0);
	roce_item_words(&item, text, sizeof(text));
	CHECK(strlen(text) < sizeof(text));
	again = item;
	CHECK(!roce_item_join(&item, &again)); /* its number is the same */
}

static void try_file(const uint8_t *data, size_t size)
{
	struct conversations all = { .tell = tell,
				     .tell_iscsi = tell_iscsi,
				     .iscsi_port = ISCSI_TCP_PORT };
	char error[RECORDING_ERROR_BYTES];
	struct recorded_packet p;
	struct recording *c;
	FILE *file = size > 0 ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;

	if (!file)
		return;
	c = recording_open_file(file, error);
	if (!c)
		return;
	while (recording_next(c, &p, error) == 1) {
		if (p.kind == PACKET_TCP)
			conversations_take(&all, &p.packet);
		else if (p.kind == PACKET_ROCE)
			try_roce(&p.packet);
	}
	conversations_end(&all);
	conversations_fini(&all);
	recording_close(c);
}

/* One direction: what was given of its bytes, and what was taken. */
struct direction {
	uint8_t bytes[STREAM_MAX];
	size_t length, at;
};

static void tell_item(const struct mpa_dissect *d, const struct mpa_item *item)
{
	char text[DUMP_LINE_BYTES];

	dump_item_words(d, item, text, sizeof(text));
	CHECK((item->fault == MPA_FAULT_NONE) == (item->text[0] == 0));
}

static void give(struct mpa_dissect *d, int from, struct direction *s)
{
	struct rd r = rd_of(s->bytes + s->at, s->length - s->at);
	struct mpa_item item;

	while (mpa_dissect_next(d, from, &r, &item))
		tell_item(d, &item);
	s->at = (size_t)(r.at - s->bytes);
}

static void give_iscsi(struct iscsi_dissect *d, int from, struct direction *s)
{
	struct rd r = rd_of(s->bytes + s->at, s->length - s->at);
	struct iscsi_item item;

	while (iscsi_dissect_next(d, from, &r, &item))
		tell_iscsi(NULL, NULL, &item);
	s->at = (size_t)(r.at - s->bytes);
}

/* A byte that says side and length, and so many bytes, behind that side's. False: no more. */
static bool take_piece(struct rd *r, struct direction *sides, int *side)
{
	struct direction *s;
	size_t length, left;
	uint8_t head;

	if (r->at >= r->end)
		return false;
	head = rd_u8(r);
	*side = head & 1;
	s = &sides[*side];
	left = (size_t)(r->end - r->at);
	length = head >> 1 < left ? head >> 1 : left;
	if (s->length + length > STREAM_MAX)
		return false;
	memcpy(s->bytes + s->length, r->at, length);
	s->length += length;
	r->at += length;
	return true;
}

/* Digests by the first byte; then pieces as below. */
static void try_iscsi(struct rd r)
{
	static struct direction sides[2];
	struct iscsi_dissect d;
	struct iscsi_item item;
	uint8_t terms = rd_u8(&r);
	int side;

	iscsi_dissect_init(&d, terms & 1);
	d.has_header_digest = terms & 2;
	d.has_data_digest = terms & 4;
	sides[0].length = sides[0].at = sides[1].length = sides[1].at = 0;
	while (take_piece(&r, sides, &side)) {
		give_iscsi(&d, side, &sides[side]);
		give_iscsi(&d, !side, &sides[!side]);
	}
	for (int i = 0; i < 2; i++) {
		struct rd rest = rd_of(sides[i].bytes + sides[i].at, sides[i].length - sides[i].at);

		if (iscsi_dissect_end(&d, i, &rest, &item))
			tell_iscsi(NULL, NULL, &item);
		CHECK(rest.at == rest.end);
	}
}

/* A pair of start frames by the first byte; then pieces: a byte that says side and length. */
static void try_streams(struct rd r)
{
	static struct direction sides[2];
	struct mpa_dissect d;
	struct mpa_item item;
	uint8_t terms = rd_u8(&r);
	int side;

	mpa_dissect_init(&d);
	for (int i = 0; i < 2; i++) {
		struct wr w = wr_of(sides[i].bytes, STREAM_MAX);
		const struct mpa_start start = {
			.is_reply = i == 1,
			.revision = 2,
			.wants_crc = terms & 1,
			.wants_markers = terms & (2 << i),
			.is_enhanced = true,
			.private_bytes = MPA_ENHANCED_BYTES,
		};
		const struct mpa_enhanced e = { terms & 8, true, true, true, 1, 1 };

		mpa_start_encode(&start, &w);
		mpa_enhanced_encode(&e, &w);
		sides[i].length = terms & 16 ? 0 : (size_t)(w.at - sides[i].bytes);
		sides[i].at = 0;
	}
	while (take_piece(&r, sides, &side)) {
		give(&d, side, &sides[side]);
		give(&d, !side, &sides[!side]);
	}
	for (int i = 0; i < 2; i++) {
		struct rd rest = rd_of(sides[i].bytes + sides[i].at, sides[i].length - sides[i].at);

		while (mpa_dissect_end(&d, i, &rest, &item))
			tell_item(&d, &item);
		CHECK(rest.at == rest.end);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_file(data, size);
	try_iscsi(rd_of(data, size));
	try_streams(rd_of(data, size));
	return 0;
}
