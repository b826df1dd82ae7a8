/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes in and out of an MPA set-up, and start frames made by hand, not by the codec. */
#pragma once

#include <string.h>

#include "cm/cm.h"
#include "test.h"

enum {
	CM_M = 0x80, /* the flags of a start frame */
	CM_C = 0x40,
	CM_R = 0x20,
	CM_S = 0x10,
	CM_BYTES_MAX = 1024,
	CM_TIMEOUT_NS = 1000
};

struct cm_frame {
	uint8_t bytes[CM_BYTES_MAX];
	size_t length;
};

static inline struct mpa_bytes cm_bytes(const void *bytes, size_t length)
{
	return (struct mpa_bytes){ .bytes = bytes, .length = length };
}

static inline struct mpa_bytes cm_nothing(void)
{
	return cm_bytes(NULL, 0);
}

/* key is "Req" or "Rep". */
static inline struct cm_frame cm_frame(const char *key, uint8_t flags, uint8_t revision,
				       struct mpa_bytes private_data)
{
	struct cm_frame f = { .length = 20 + private_data.length };

	memcpy(f.bytes, "MPA ID ", 7);
	memcpy(f.bytes + 7, key, 3);
	memcpy(f.bytes + 10, " Frame", 6);
	f.bytes[16] = flags;
	f.bytes[17] = revision;
	f.bytes[18] = (uint8_t)(private_data.length >> 8);
	f.bytes[19] = (uint8_t)private_data.length;
	if (private_data.length > 0)
		memcpy(f.bytes + 20, private_data.bytes, private_data.length);
	return f;
}

/* Revision 2 with S: first and second are the words of the enhanced part. */
static inline struct cm_frame cm_enhanced(const char *key, uint8_t flags, uint16_t first,
					  uint16_t second)
{
	const uint8_t words[4] = { (uint8_t)(first >> 8), (uint8_t)first, (uint8_t)(second >> 8),
				   (uint8_t)second };

	return cm_frame(key, flags | CM_S, 2, cm_bytes(words, sizeof(words)));
}

/* Gives it the bytes, at most chunk at a time, as long as it wants any; how many it took. */
static inline size_t cm_feed(struct mpa_setup *s, struct mpa_bytes from, size_t chunk)
{
	size_t taken = 0;

	while (taken < from.length) {
		struct span want = mpa_setup_want(s);
		size_t n = from.length - taken;

		if (want.length == 0)
			break;
		n = n < want.length ? n : want.length;
		n = n < chunk ? n : chunk;
		memcpy(want.bytes, from.bytes + taken, n);
		mpa_setup_got(s, n);
		taken += n;
	}
	return taken;
}

static inline size_t cm_feed_frame(struct mpa_setup *s, const struct cm_frame *f)
{
	return cm_feed(s, cm_bytes(f->bytes, f->length), f->length);
}

/* Takes all that it has to send, at most chunk at a time. */
static inline struct cm_frame cm_drain(struct mpa_setup *s, size_t chunk)
{
	struct cm_frame f = { .length = 0 };
	struct mpa_bytes have;

	while ((have = mpa_setup_have(s)).length > 0) {
		size_t n = have.length < chunk ? have.length : chunk;

		REQUIRE(f.length + n <= sizeof(f.bytes));
		memcpy(f.bytes + f.length, have.bytes, n);
		f.length += n;
		mpa_setup_sent(s, n);
	}
	return f;
}

/* An initiator whose request has gone. */
static inline void cm_asked(struct mpa_setup *s, const struct mpa_config *config)
{
	REQUIRE(mpa_setup_init_initiator(s, config, cm_nothing(), 0) == WEFT_OK);
	(void)cm_drain(s, CM_BYTES_MAX);
	REQUIRE(mpa_setup_event(s) == MPA_SETUP_NONE);
}

/* A responder that has this request. */
static inline void cm_was_asked(struct mpa_setup *s, const struct mpa_config *config,
				const struct cm_frame *request)
{
	mpa_setup_init_responder(s, config, 0);
	REQUIRE(cm_feed_frame(s, request) == request->length);
	REQUIRE(mpa_setup_event(s) == MPA_SETUP_REQUEST);
}

/* Accepts with the depths of its configuration; the reply. */
static inline struct cm_frame cm_accept(struct mpa_setup *s, struct mpa_bytes private_data)
{
	const struct mpa_answer answer = { private_data, s->config.ird, s->config.ord };
	struct cm_frame reply;

	REQUIRE(mpa_setup_accept(s, &answer, 0) == WEFT_OK);
	REQUIRE(mpa_setup_event(s) == MPA_SETUP_NONE);
	reply = cm_drain(s, CM_BYTES_MAX);
	REQUIRE(mpa_setup_event(s) == MPA_SETUP_ESTABLISHED);
	return reply;
}
