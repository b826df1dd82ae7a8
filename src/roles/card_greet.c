/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The greeting of a connection between the two ends of a card: the handshake of directed I/O, by
 * which each end knows the other by its key. A link begins only after it.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "driver/sys/system_reason.h"
#include "roles/card_inside.h"

static const uint64_t greeting_ns = UINT64_C(5000000000);

uint64_t card_greet_deadline(const struct card *c)
{
	return c->now_ns + greeting_ns;
}

/* Posts a message of the greeting, that lies in one of the buffers. */
static void message_post(struct card_end *e, uint32_t nth, size_t length)
{
	struct weft_sge sge = { .addr = (uintptr_t)card_end_message(e, nth),
				.length = (uint32_t)length,
				.tag = e->buffers_tag };
	struct weft_send_wr wr = {
		.id = (uint64_t)nth << CARD_WORK_BITS | CARD_WORK_MESSAGE,
		.opcode = WEFT_OP_SEND,
		.flags = WEFT_SIGNALLED | WEFT_SOLICITED,
		.sges = &sge,
		.sge_count = 1,
	};

	if (weft_qp_post_send(e->qp, &wr, 1, NULL) == WEFT_OK)
		e->posted_sends++;
	else
		card_end_hang_up(e, WEFT_R_PEER_GONE);
}

/* A host has one connection: the newer one. */
static void replace(struct card_end *by)
{
	struct card_end *e = NULL;

	while ((e = card_end_next(by->card, e)) != NULL) {
		if (e != by && e->state == CARD_UP && e->peer == by->peer)
			card_end_hang_up(e, WEFT_R_RIO_TWICE);
	}
}

static void greeted(struct card_end *e)
{
	const struct card_config *c = e->card->file->config;
	struct rio_known known = rio_handshake_peer(&e->handshake);
	enum weft_reason r;

	for (e->peer = 0; e->peer < c->peer_count; e->peer++) {
		if (memcmp(c->known[e->peer].key, known.key, RIO_KEY_BYTES) == 0)
			break;
	}
	CHECK(e->peer < c->peer_count); /* the handshake knows no others */
	replace(e);
	e->state = CARD_UP;
	e->since_ns = e->card->now_ns;
	e->deadline_ns = e->card->now_ns + c->alive_ns;
	r = card_end_link_make(e);
	if (r != WEFT_OK)
		card_end_hang_up(e, r);
	else if (!card_is_send_mode(e->card))
		push_up(e->link, e->card->now_ns);
	else if (!e->card->is_unit)
		card_data_dial(e); /* both ends go on when it is up */
}

static void greet(struct card_end *e)
{
	size_t length;

	/* Bound: a handshake has three messages. */
	while (e->state == CARD_GREETING && e->free_message_count > 0) {
		uint32_t nth = e->free_messages[e->free_message_count - 1];

		length = rio_handshake_say(&e->handshake, card_end_message(e, nth));
		if (length == 0)
			break;
		e->free_message_count--;
		message_post(e, nth, length);
	}
	if (e->state == CARD_GREETING && rio_handshake_is_done(&e->handshake))
		greeted(e);
}

void card_greet_begin(struct card_end *e)
{
	static const struct rio_handshake_limits no_limits;
	static const struct rio_address nowhere;
	struct card *c = e->card;
	const struct card_config *k = c->file->config;
	const struct rio_book book = { k->known, k->peer_count };
	uint8_t random[RIO_SEED_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		card_end_hang_up(e, system_reason(errno));
		return;
	}
	e->state = CARD_GREETING;
	e->deadline_ns = card_greet_deadline(c);
	if (c->is_unit)
		rio_handshake_await(&e->handshake, &c->file->self, &book, &no_limits, random);
	else
		rio_handshake_dial(&e->handshake, &c->file->self, &k->known[0], &nowhere, random);
	greet(e);
}

enum weft_reason card_greet_take(struct card_end *e, const uint8_t *bytes, size_t length)
{
	enum weft_reason r = rio_handshake_take(&e->handshake, bytes, length);

	e->deadline_ns = card_greet_deadline(e->card);
	if (r == WEFT_OK)
		greet(e);
	return r;
}
