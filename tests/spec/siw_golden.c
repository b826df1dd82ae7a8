/* SPDX-License-Identifier: BSD-2-Clause */
#include "siw_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "cmd/dump/conversation.h"
#include "cmd/dump/recording.h"
#include "test.h"
#include "wire/ddp.h"

enum { PATH_BYTES = 512, TEXT_BYTES = 8192, HEADER_ROOM = 128 };

/* ---- TCP ------------------------------------------------------------------------------------ */

static void *grab(size_t bytes)
{
	void *memory = calloc(1, bytes);

	REQUIRE(memory);
	return memory;
}

static void append(struct golden_side *s, struct tcp_stream *t)
{
	struct rd ready = tcp_stream_ready(t);
	size_t length = (size_t)(ready.end - ready.at);

	if (length == 0)
		return;
	s->stream = realloc(s->stream, s->bytes + length);
	REQUIRE(s->stream);
	memcpy(s->stream + s->bytes, ready.at, length);
	s->bytes += length;
	tcp_stream_take(t, length);
}

/* The connection and side of a packet; a SYN without ACK makes a new one. */
static struct golden_connection *adapter_slot(struct golden *g, const struct packet *p, int *side)
{
	if ((p->flags & (PACKET_SYN | PACKET_ACK)) == PACKET_SYN) {
		struct golden_connection *c = &g->connections[g->count++];

		REQUIRE(g->count <= GOLDEN_CONNECTIONS);
		c->ports[0] = p->from.port;
		c->ports[1] = p->to.port;
		*side = 0;
		return c;
	}
	for (uint32_t i = 0; i < g->count; i++) {
		struct golden_connection *c = &g->connections[i];

		*side = c->ports[0] == p->from.port && c->ports[1] == p->to.port ? 0 : 1;
		if (c->ports[*side] == p->from.port && c->ports[!*side] == p->to.port)
			return c;
	}
	REQUIRE(false);
	return NULL;
}

/* All packets of the file, into the streams and into the dissector. */
static void read_packets(struct golden *g, struct recording *file, struct conversations *all)
{
	struct tcp_stream streams[GOLDEN_CONNECTIONS][2] = { 0 };
	char error[RECORDING_ERROR_BYTES];
	struct recorded_packet p;
	int got;

	while ((got = recording_next(file, &p, error)) == 1) {
		struct golden_connection *c;
		struct tcp_stream *t;
		int side = 0;

		REQUIRE(p.kind == PACKET_TCP && !p.is_cut && p.packet.lacks_bytes == 0);
		c = adapter_slot(g, &p.packet, &side);
		t = &streams[c - g->connections][side];
		if (p.packet.flags & PACKET_SYN)
			tcp_stream_anchor(t, p.packet.seq + 1);
		else if (t->is_anchored)
			tcp_stream_add(t, p.packet.seq, p.packet.data);
		REQUIRE(!t->held);
		append(&c->sides[side], t);
		conversations_take(all, &p.packet);
	}
	REQUIRE(got == 0);
	conversations_end(all);
	for (int i = 0; i < GOLDEN_CONNECTIONS * 2; i++)
		tcp_stream_fini(&streams[i / 2][i % 2]);
}

/* ---- start frames and FPDUs, there and back ------------------------------------------------- */

static struct rd start_check(struct golden_side *s, bool is_reply)
{
	struct rd r = rd_of(s->stream, s->bytes);
	uint8_t again[MPA_START_BYTES + MPA_ENHANCED_BYTES];
	struct wr w = wr_of(again, sizeof(again));

	if (s->bytes == 0)
		return r;
	s->has_start = true;
	REQUIRE(mpa_start_decode(&s->start, &r) == MPA_OK);
	REQUIRE(s->start.is_reply == is_reply);
	REQUIRE((size_t)(r.end - r.at) >= s->start.private_bytes);
	mpa_start_encode(&s->start, &w);
	s->data = r.at;
	s->data_bytes = s->start.private_bytes;
	r.at += s->start.private_bytes;
	if (s->start.is_enhanced) {
		struct rd e = rd_of(s->data, s->data_bytes);

		REQUIRE(mpa_enhanced_decode(&s->enhanced, &e) == MPA_OK);
		mpa_enhanced_encode(&s->enhanced, &w);
		s->data += MPA_ENHANCED_BYTES;
		s->data_bytes -= MPA_ENHANCED_BYTES;
	}
	REQUIRE(!w.is_short && memcmp(again, s->stream, (size_t)(w.at - again)) == 0);
	return r;
}

/* The control word as siw writes it, from that of the RFC. */
static void siw_order(uint8_t *word)
{
	uint8_t flags = word[2];

	word[0] = (uint8_t)(word[0] << 4 | word[0] >> 4);
	word[2] = (uint8_t)((flags & 0x80 ? 1 : 0) | (flags & 0x40 ? 2 : 0) |
			    (flags & 0x20 ? 4 : 0));
}

static void body_check(struct golden_message *m, struct rd r, struct wr *w)
{
	uint8_t *begin = w->at;

	if (m->opcode == RDMAP_READ_REQUEST) {
		REQUIRE(rdmap_read_request_decode(&m->read, &r) == RDMAP_OK && r.at == r.end);
		rdmap_read_request_encode(&m->read, w);
	} else if (m->opcode == RDMAP_TERMINATE) {
		REQUIRE(rdmap_terminate_decode_any(&m->terminate, &r) == RDMAP_OK);
		REQUIRE(r.at == r.end && m->terminate.reserved == 0);
		rdmap_terminate_encode(&m->terminate, w);
		if (m->terminate.is_siw_order)
			siw_order(begin);
	}
}

/* The headers of a segment; w gets them again. */
static void segment_check(struct golden_message *m, struct rd *r, struct wr *w, bool *is_last)
{
	const uint8_t *begin = r->at;

	if (ddp_is_tagged(*r->at)) {
		struct ddp_tagged h;

		REQUIRE(ddp_tagged_decode(&h, r) == DDP_OK);
		REQUIRE(rdmap_control_decode(h.ulp, true, 0, &m->opcode) == RDMAP_OK);
		REQUIRE(h.ulp == rdmap_control_encode(m->opcode));
		ddp_tagged_encode(&h, w);
		m->stag = h.stag;
		m->to = h.to;
		*is_last = h.is_last;
	} else {
		struct ddp_untagged h;

		REQUIRE(ddp_untagged_decode(&h, r) == DDP_OK);
		REQUIRE(rdmap_control_decode(h.ulp, false, h.qn, &m->opcode) == RDMAP_OK);
		REQUIRE(h.ulp == rdmap_control_encode(m->opcode));
		ddp_untagged_encode(&h, w);
		m->stag = h.ulp32;
		m->to = h.mo;
		m->qn = h.qn;
		m->msn = h.msn;
		*is_last = h.is_last;
	}
	memcpy(m->ddp, begin, (size_t)(r->at - begin));
}

/* Puts a segment to the message that is being received. */
static void message_add(struct golden_side *s, const struct golden_message *g, struct rd payload,
			bool is_last)
{
	struct golden_message *m = &s->messages[s->count];
	uint32_t length = (uint32_t)(payload.end - payload.at);

	REQUIRE(s->count < GOLDEN_MESSAGES);
	if (m->fpdus == 0) {
		*m = *g;
		REQUIRE(ddp_is_tagged(g->ddp[0]) || g->to == 0);
	} else {
		/* RFC 5041 section 5.3: on it goes where it was. */
		REQUIRE(m->opcode == g->opcode && m->stag == g->stag && m->msn == g->msn);
		REQUIRE(g->to == m->to + m->bytes);
	}
	m->payload = realloc(m->payload, m->bytes + length + 1);
	REQUIRE(m->payload);
	memcpy(m->payload + m->bytes, payload.at, length);
	m->bytes += length;
	m->fpdus++;
	s->count += is_last;
}

/* The padding is not looked at: siw leaves there what was, and the CRC covers it. */
static void fpdu_check(struct golden_side *s, struct rd *r, bool has_crc)
{
	const uint8_t *begin = r->at;
	uint8_t again[HEADER_ROOM], crc[MPA_CRC_BYTES] = { 0 };
	struct wr w = wr_of(again, sizeof(again));
	struct golden_message m = { 0 };
	uint32_t length = rd_u16(r), covered, due;
	bool is_last = false;
	struct rd ulpdu;

	covered = mpa_fpdu_bytes(length) - MPA_CRC_BYTES;
	REQUIRE((size_t)(r->end - begin) >= covered + MPA_CRC_BYTES);
	ulpdu = rd_of(r->at, length);
	wr_u16(&w, (uint16_t)length);
	segment_check(&m, &ulpdu, &w, &is_last);
	body_check(&m, ulpdu, &w);
	REQUIRE(!w.is_short && memcmp(begin, again, (size_t)(w.at - again)) == 0);
	if (has_crc) {
		due = crc32c_end(crc32c_add(CRC32C_BEGIN, begin, covered));
		for (int i = 0; i < MPA_CRC_BYTES; i++)
			crc[i] = (uint8_t)(due >> 8 * i);
	}
	REQUIRE(memcmp(begin + covered, crc, sizeof(crc)) == 0); /* siw leaves zeros without CRC */
	s->ulpdu_max = length > s->ulpdu_max ? length : s->ulpdu_max;
	message_add(s, &m, ulpdu, is_last);
	r->at = begin + covered + MPA_CRC_BYTES;
}

/* RFC 5041 section 5.1: each queue counts from 1. */
static void numbers_check(const struct golden_side *s)
{
	uint32_t next[RDMAP_QN_COUNT] = { 1, 1, 1, 1 };

	for (uint32_t i = 0; i < s->count; i++) {
		const struct golden_message *m = &s->messages[i];
		bool is_tagged = m->opcode == RDMAP_WRITE || m->opcode == RDMAP_READ_RESPONSE;

		REQUIRE(is_tagged || m->msn == next[m->qn]++);
		REQUIRE(is_tagged || m->stag == 0 || m->opcode == RDMAP_SEND_INVALIDATE);
	}
}

static void connection_check(struct golden_connection *c)
{
	struct rd rest[2];
	bool has_crc;

	for (int i = 0; i < 2; i++)
		rest[i] = start_check(&c->sides[i], i == 1);
	has_crc = c->sides[0].start.wants_crc || c->sides[1].start.wants_crc;
	for (int i = 0; i < 2; i++) {
		struct golden_side *s = &c->sides[i];

		while (rest[i].at < rest[i].end)
			fpdu_check(s, &rest[i], has_crc);
		REQUIRE(s->count == GOLDEN_MESSAGES || s->messages[s->count].fpdus == 0);
		numbers_check(s);
	}
}

/* ---- the dissector's view ------------------------------------------------------------------- */

/* Items as they come; they are compared when the streams have been read. */
struct seen {
	struct mpa_item items[GOLDEN_CONNECTIONS][2][GOLDEN_MESSAGES + 1];
	uint32_t count[GOLDEN_CONNECTIONS][2];
};

static void see(void *context, const struct conversation *c, const struct mpa_item *item)
{
	struct seen *seen = context;
	uint32_t *count = &seen->count[c->number - 1][item->from];

	REQUIRE(item->fault == MPA_FAULT_NONE && c->initiator == 0);
	REQUIRE(c->number <= GOLDEN_CONNECTIONS && *count <= GOLDEN_MESSAGES);
	seen->items[c->number - 1][item->from][(*count)++] = *item;
}

static void side_compare(const struct golden_side *s, const struct mpa_item *item, uint32_t count)
{
	REQUIRE(count == s->count + s->has_start);
	if (!s->has_start)
		return;
	REQUIRE(item->kind == MPA_ITEM_START && item->data_bytes == s->data_bytes);
	REQUIRE(memcmp(item->data, s->data, s->data_bytes) == 0);
	for (uint32_t i = 0; i < s->count; i++) {
		const struct golden_message *m = &s->messages[i];
		bool has_body = m->opcode == RDMAP_READ_REQUEST || m->opcode == RDMAP_TERMINATE;

		item++;
		REQUIRE(item->kind == MPA_ITEM_MESSAGE && item->is_whole);
		REQUIRE(item->opcode == m->opcode && item->fpdus == m->fpdus);
		REQUIRE(item->bytes == (has_body ? 0 : m->bytes));
		REQUIRE(item->stag == m->stag && item->msn == m->msn && item->qn == m->qn);
		REQUIRE(item->to == m->to);
	}
}

/* ---- the file ------------------------------------------------------------------------------- */

static char *text_read(const char *name)
{
	char path[PATH_BYTES], *text = grab(TEXT_BYTES);
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/siw/%s.txt", GOLDEN_DIR, name);
	file = fopen(path, "r");
	REQUIRE(file);
	REQUIRE(fread(text, 1, TEXT_BYTES - 1, file) > 0);
	(void)fclose(file);
	return text;
}

struct golden *golden_open(const char *name)
{
	char path[PATH_BYTES], error[RECORDING_ERROR_BYTES];
	struct golden *g = grab(sizeof(*g));
	struct seen *seen = grab(sizeof(*seen));
	struct conversations all = { .tell = see, .context = seen };
	struct recording *file;

	g->connections = grab(GOLDEN_CONNECTIONS * sizeof(*g->connections));
	g->text = text_read(name);
	(void)snprintf(path, sizeof(path), "%s/siw/%s.pcap", GOLDEN_DIR, name);
	file = recording_open(path, error);
	REQUIRE(file);
	read_packets(g, file, &all);
	for (uint32_t i = 0; i < g->count; i++) {
		struct golden_connection *c = &g->connections[i];

		connection_check(c);
		for (int side = 0; side < 2; side++)
			side_compare(&c->sides[side], seen->items[i][side], seen->count[i][side]);
	}
	conversations_fini(&all);
	recording_close(file);
	free(seen);
	return g;
}

void golden_close(struct golden *own_g)
{
	for (uint32_t i = 0; i < own_g->count; i++) {
		for (int side = 0; side < 2; side++) {
			struct golden_side *s = &own_g->connections[i].sides[side];

			for (int k = 0; k < GOLDEN_MESSAGES; k++)
				free(s->messages[k].payload);
			free(s->stream);
		}
	}
	free(own_g->connections);
	free(own_g->text);
	free(own_g);
}
