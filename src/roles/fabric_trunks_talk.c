/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/cursor.h"
#include "driver/sys/system_reason.h"
#include "roles/fabric_trunks_inside.h"

/* ---- The greeting --------------------------------------------------------------------------- */

size_t trunk_talk_max(const struct trunk_line *l)
{
	return l->state == TRUNK_GREETING ? RIO_GREETING_MAX : TRUNK_RECORD_MAX;
}

/* A short message as a record. */
static void message_say(struct trunk_line *l, const struct trunk_message *m)
{
	uint8_t bytes[2 + TRUNK_DIGEST_BYTES + RIO_TAIL_BYTES];
	size_t length = trunk_encode(m, bytes, sizeof(bytes) - RIO_TAIL_BYTES);

	(void)trunk_line_put(l, bytes, rio_session_tail(&l->session, bytes, length));
}

static void hello_say(struct fabric_trunks *t, struct trunk_line *l)
{
	struct trunk_message m = { .kind = TRUNK_HELLO };

	memcpy(m.digest, t->config.cut->digest, sizeof(m.digest));
	message_say(l, &m);
}

void trunk_talk_alive(struct trunk_line *l)
{
	const struct trunk_message m = { .kind = TRUNK_ALIVE };

	message_say(l, &m);
}

/* A part has one connection: the newer one, as the older may be of a process that is gone. */
static enum weft_reason known(struct fabric_trunks *t, struct trunk_line *l)
{
	const struct rio_known peer = rio_handshake_peer(&l->handshake);
	const struct fabric_parts *parts = t->config.cut->parts;
	struct trunk_peer *p;
	uint32_t part = 0;

	while (part < parts->part_count &&
	       memcmp(parts->known[part].key, peer.key, RIO_KEY_BYTES) != 0)
		part++;
	CHECK(part < parts->part_count); /* the handshake knows no others */
	p = &t->peers[part];
	if (p->cable_count == 0 || p->is_dialled != (l->part == part))
		return WEFT_R_TRUNK_OTHER;
	if (p->line && p->line != l)
		trunk_line_end(t, p->line, WEFT_R_RIO_TWICE);
	p->line = l;
	l->part = part;
	l->session = l->handshake.greet.session;
	l->state = TRUNK_KNOWN;
	rio_handshake_fini(&l->handshake);
	hello_say(t, l);
	return WEFT_OK;
}

static enum weft_reason greet(struct fabric_trunks *t, struct trunk_line *l)
{
	uint8_t bytes[RIO_GREETING_MAX];
	size_t length;

	/* Bound: a handshake has three messages. */
	while ((length = rio_handshake_say(&l->handshake, bytes)) > 0)
		(void)trunk_line_put(l, bytes, length);
	return rio_handshake_is_done(&l->handshake) ? known(t, l) : WEFT_OK;
}

void trunk_talk_begin(struct fabric_trunks *t, struct trunk_line *l)
{
	static const struct rio_handshake_limits no_limits;
	static const struct rio_address nowhere;
	const struct fabric_cut *c = t->config.cut;
	const struct rio_book book = { c->parts->known, c->parts->part_count };
	uint8_t random[RIO_SEED_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		trunk_line_end(t, l, system_reason(errno));
		return;
	}
	l->state = TRUNK_GREETING;
	if (l->part == FABRIC_PART_NONE)
		rio_handshake_await(&l->handshake, &c->identity, &book, &no_limits, random);
	else
		rio_handshake_dial(&l->handshake, &c->identity, &c->parts->known[l->part], &nowhere,
				   random);
	(void)greet(t, l); /* nothing can be refused yet */
}

/* ---- Messages ------------------------------------------------------------------------------- */

static void up(struct fabric_trunks *t, struct trunk_line *l)
{
	const struct trunk_peer *p = &t->peers[l->part];
	char address[WEFT_ADDRESS_TEXT];

	l->state = TRUNK_UP;
	l->heard_ns = l->said_ns = t->now_ns;
	weft_address_text(&l->address, address);
	trunk_say(t, TRUNK_SAY_PART, "part %s is joined, at %s",
		  t->config.cut->parts->parts[l->part].name, address);
	for (uint32_t i = 0; i < p->cable_count; i++)
		fabric_trunk_join(t->config.fabric, p->cables[i], true);
	trunk_ports_joined(t, l->part);
}

/* Whether the cable joins this part with the other. */
static bool is_shared(const struct fabric_trunks *t, uint32_t part, uint32_t cable)
{
	const struct fabric *f = t->config.fabric;
	uint32_t node[2], port[2];

	if (cable >= fabric_cable_count(f) || !fabric_is_trunk(f, cable))
		return false;
	fabric_cable_ends(f, cable, node, port);
	return t->config.cut->part_of[node[fabric_is_here(f, node[0])]] == part;
}

static enum weft_reason message_take(struct fabric_trunks *t, struct trunk_line *l,
				     const struct trunk_message *m)
{
	if ((m->kind == TRUNK_HELLO) != (l->state == TRUNK_KNOWN))
		return WEFT_R_TRUNK_FORM;
	if (m->kind == TRUNK_HELLO) {
		if (memcmp(m->digest, t->config.cut->digest, sizeof(m->digest)) != 0)
			return WEFT_R_TRUNK_OTHER;
		up(t, l);
		return WEFT_OK;
	}
	if (m->kind == TRUNK_ALIVE)
		return WEFT_OK;
	if (m->kind == TRUNK_PORT)
		return trunk_port_take(t, l->part, m);
	if (!is_shared(t, l->part, m->cable))
		return WEFT_R_TRUNK_CABLE;
	fabric_trunk_take(t->config.fabric, m);
	return WEFT_OK;
}

static enum weft_reason messages_take(struct fabric_trunks *t, struct trunk_line *l,
				      const uint8_t *bytes, size_t length)
{
	enum weft_reason r = WEFT_OK;
	struct trunk_message m;
	size_t used;

	while (r == WEFT_OK && length > 0) {
		r = trunk_decode(&m, bytes, length, &used);
		if (r != WEFT_OK)
			break;
		r = message_take(t, l, &m);
		bytes += used;
		length -= used;
	}
	return r;
}

enum weft_reason trunk_talk_take(struct fabric_trunks *t, struct trunk_line *l,
				 const uint8_t *bytes, size_t length)
{
	enum weft_reason r;
	size_t body;

	if (l->state == TRUNK_GREETING) {
		r = rio_handshake_take(&l->handshake, bytes, length);
		return r == WEFT_OK ? greet(t, l) : r;
	}
	r = rio_session_tailed(&l->session, bytes, length, &body);
	return r == WEFT_OK ? messages_take(t, l, bytes, body) : r;
}

bool trunk_talk_fill(struct fabric_trunks *t, struct trunk_line *l)
{
	struct trunk_peer *p = &t->peers[l->part];
	uint8_t *body = l->out + TRUNK_LENGTH_BYTES;
	size_t room = TRUNK_RECORD_MAX - RIO_TAIL_BYTES, length = 0;
	struct trunk_message m;
	struct wr w = wr_of(l->out, TRUNK_LENGTH_BYTES);

	for (uint32_t i = 0; i < p->cable_count; i++) {
		uint32_t cable = p->cables[(p->first_cable + i) % p->cable_count];

		while (room - length >= TRUNK_MESSAGE_MAX &&
		       fabric_trunk_next(t->config.fabric, cable, &m))
			length += trunk_encode(&m, body + length, room - length);
	}
	p->first_cable = (p->first_cable + 1) % p->cable_count;
	while (room - length >= TRUNK_MESSAGE_MAX && trunk_port_next(t, l->part, &m))
		length += trunk_encode(&m, body + length, room - length);
	if (length == 0)
		return false;
	length = rio_session_tail(&l->session, body, length);
	wr_u32(&w, (uint32_t)length);
	l->out_at = 0;
	l->out_end = TRUNK_LENGTH_BYTES + length;
	return true;
}
