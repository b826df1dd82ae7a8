/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The iWARP of the Linux kernel's siw, recorded between two machines, against what the programs did
 * there. What must be on the wire is derived from the commands in the text beside each recording
 * and from the RFCs; golden_open() has then already decoded every FPDU and encoded it again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "siw_golden.h"
#include "test.h"
#include "wire/ddp.h"

enum {
	ULPDU_1500 = 1442, /* at an MTU of 1500: a segment of 1448 bytes without length and CRC */
	ULPDU_9000 = 8938,
	ULPDU_GSO = 31850,
	REGION_BYTES = 1 << 18, /* what rig-verbs registers and offers */
	ADVERT_BYTES = 16,	/* rig-verbs' and rping's offer: address, key, length */
	OPS_TEXT = 256
};

/* Where the tests are in the messages of each side. */
struct cursor {
	const struct golden_connection *c;
	uint32_t at[2];
	uint32_t ulpdu_max;
};

/* The next message of a side, of a kind; in as many FPDUs as its length needs. */
static const struct golden_message *take(struct cursor *k, int side, enum rdmap_opcode opcode,
					 uint32_t bytes)
{
	const struct golden_side *s = &k->c->sides[side];
	const struct golden_message *m = &s->messages[k->at[side]];
	bool is_tagged = opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESPONSE;
	uint32_t room = k->ulpdu_max - (is_tagged ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES);

	REQUIRE(k->at[side]++ < s->count);
	REQUIRE(m->opcode == opcode);
	REQUIRE(m->bytes == bytes);
	REQUIRE(m->fpdus == (bytes == 0 ? 1 : (bytes + room - 1) / room));
	return m;
}

static void all_taken(const struct cursor *k)
{
	for (int side = 0; side < 2; side++)
		REQUIRE(k->at[side] == k->c->sides[side].count);
}

static void said(const struct golden *g, const char *words)
{
	REQUIRE(strstr(g->text, words));
}

/* What both start frames must say. */
struct terms {
	uint8_t revision;
	bool has_crc;
	uint8_t reserved;
	uint16_t ird, ord; /* of the request */
	uint16_t reply_ird, reply_ord;
};

static void start_check(const struct golden_side *s, const struct terms *t)
{
	const struct mpa_start *m = &s->start;
	bool is_reply = m->is_reply;

	REQUIRE(s->has_start && m->revision == t->revision && m->wants_crc == t->has_crc);
	REQUIRE(!m->wants_markers && !m->is_rejected && m->reserved == t->reserved);
	REQUIRE(m->is_enhanced == (t->revision == 2));
	REQUIRE(s->enhanced.ird == (is_reply ? t->reply_ird : t->ird));
	REQUIRE(s->enhanced.ord == (is_reply ? t->reply_ord : t->ord));
}

static void starts_check(const struct golden_connection *c, struct terms t)
{
	REQUIRE(!c->sides[0].start.is_reply && c->sides[1].start.is_reply);
	start_check(&c->sides[0], &t);
	start_check(&c->sides[1], &t);
}

static void not_peer_to_peer(const struct golden_connection *c)
{
	for (int side = 0; side < 2; side++) {
		const struct mpa_enhanced *e = &c->sides[side].enhanced;

		REQUIRE(!e->is_peer_to_peer && !e->rtr_by_send && !e->rtr_by_write);
		REQUIRE(!e->rtr_by_read);
	}
}

/* ---- rig-verbs: one verb after the other ---------------------------------------------------- */

struct rig {
	const char *name;
	const char *ops; /* of the command line */
	uint64_t addr;	 /* the server's region, as it printed */
	uint32_t rkey;
	uint32_t ulpdu_max;
	struct terms terms;
};

/* Both ends fill their memory alike, so what is sent, written or read is known. */
static void pattern_check(const struct golden_message *m)
{
	for (uint32_t i = 0; i < m->bytes; i++)
		REQUIRE(m->payload[i] == (uint8_t)(i * 7 + (i >> 8)));
}

static void write_check(struct cursor *k, uint32_t stag, uint64_t to, uint32_t bytes)
{
	const struct golden_message *m = take(k, 0, RDMAP_WRITE, bytes);

	REQUIRE(m->stag == stag && m->to == to);
	pattern_check(m);
}

static const struct rdmap_read_request *request_check(struct cursor *k, const struct rig *rig,
						      uint32_t stag, uint32_t bytes)
{
	const struct golden_message *m = take(k, 0, RDMAP_READ_REQUEST, RDMAP_READ_REQUEST_BYTES);
	bool is_empty = bytes == 0;

	REQUIRE(m->read.size == bytes);
	REQUIRE(m->read.source_stag == stag && m->read.source_to == rig->addr);
	/* The client's buffer is a page's beginning; a Read of nothing has no sink. */
	REQUIRE(is_empty == (m->read.sink_stag == 0) && is_empty == (m->read.sink_to == 0));
	REQUIRE(m->read.sink_to % 4096 == 0);
	return &m->read;
}

static void read_check(struct cursor *k, const struct rig *rig, uint32_t bytes)
{
	const struct rdmap_read_request *q = request_check(k, rig, rig->rkey, bytes);
	const struct golden_message *m = take(k, 1, RDMAP_READ_RESPONSE, bytes);

	REQUIRE(m->stag == q->sink_stag && m->to == q->sink_to);
	pattern_check(m);
}

/* The server's last word: a cause, and the header of what it is about. */
static const struct rdmap_terminate *terminate_check(struct cursor *k, uint8_t layer, uint8_t type,
						     uint8_t code, uint32_t bytes)
{
	const struct rdmap_terminate *t = &take(k, 1, RDMAP_TERMINATE, bytes)->terminate;

	REQUIRE(t->layer == layer && t->type == type && t->code == code);
	REQUIRE(t->is_siw_order && !t->is_ambiguous);
	REQUIRE(t->has_length && t->has_ddp);
	return t;
}

/* DDP errors: the header as it was sent, and its segment's length. */
static void terminate_ddp_check(struct cursor *k, uint8_t type, uint8_t code)
{
	const struct golden_message *m = &k->c->sides[0].messages[k->at[0] - 1];
	uint32_t ddp_bytes = type == 1 ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES;
	const struct rdmap_terminate *t = terminate_check(k, 1, type, code, 4 + 2 + ddp_bytes);

	REQUIRE(!t->has_rdma && t->ddp_bytes == ddp_bytes && t->segment_bytes == m->bytes);
	REQUIRE(memcmp(t->ddp, m->ddp, ddp_bytes) == 0);
}

/* A failed Read: both headers. In the first siw has the size where the MSN was, and no length. */
static void terminate_read_check(struct cursor *k, const struct rdmap_read_request *q)
{
	const struct rdmap_terminate *t = terminate_check(k, 0, 1, 0, 4 + 2 + 18 + 28);
	const struct rdmap_read_request *p = &t->read;
	struct rd r = rd_of(t->ddp, t->ddp_bytes);
	struct ddp_untagged h;

	REQUIRE(t->has_rdma && t->segment_bytes == 0);
	REQUIRE(p->sink_stag == q->sink_stag && p->sink_to == q->sink_to && p->size == q->size);
	REQUIRE(p->source_stag == q->source_stag && p->source_to == q->source_to);
	REQUIRE(ddp_untagged_decode(&h, &r) == DDP_OK);
	REQUIRE(h.is_last && h.ulp == 0x41 && h.qn == RDMAP_QN_REQUEST && h.mo == 0);
	REQUIRE(h.msn == q->size);
}

static void op_check(struct cursor *k, const struct rig *rig, const char *op, uint32_t bytes)
{
	uint32_t bad_key = rig->rkey ^ 0x00a5a500;

	if (strcmp(op, "send") == 0) {
		pattern_check(take(k, 0, RDMAP_SEND, bytes));
	} else if (strcmp(op, "sendinv") == 0) {
		const struct golden_message *m = take(k, 0, RDMAP_SEND_INVALIDATE, bytes);

		REQUIRE(m->stag == rig->rkey);
		pattern_check(m);
	} else if (strcmp(op, "write") == 0) {
		write_check(k, rig->rkey, rig->addr, bytes);
	} else if (strcmp(op, "read") == 0) {
		read_check(k, rig, bytes);
	} else if (strcmp(op, "badwrite") == 0) {
		write_check(k, bad_key, rig->addr, bytes);
		terminate_ddp_check(k, 1, 0x00); /* invalid STag */
	} else if (strcmp(op, "oob") == 0) {
		write_check(k, rig->rkey, rig->addr + REGION_BYTES - 16, bytes);
		terminate_ddp_check(k, 1, 0x01); /* base or bounds */
	} else if (strcmp(op, "badread") == 0) {
		terminate_read_check(k, request_check(k, rig, bad_key, bytes));
	} else {
		REQUIRE(strcmp(op, "sleep") == 0);
	}
}

/* The private data: the client's greeting, and the server's region. */
static void offers_check(const struct golden_connection *c, const struct rig *rig)
{
	uint8_t offer[ADVERT_BYTES];
	struct wr w = wr_of(offer, sizeof(offer));

	wr_u64(&w, rig->addr);
	wr_u32(&w, rig->rkey);
	wr_u32(&w, REGION_BYTES);
	REQUIRE(c->sides[0].data_bytes == 9 && memcmp(c->sides[0].data, "weft-rig", 9) == 0);
	REQUIRE(c->sides[1].data_bytes == sizeof(offer));
	REQUIRE(memcmp(c->sides[1].data, offer, sizeof(offer)) == 0);
}

static void rig_check(const struct rig *rig)
{
	struct golden *g = golden_open(rig->name);
	struct cursor k = { .c = g->connections, .ulpdu_max = rig->ulpdu_max };
	char text[OPS_TEXT], *rest = text;

	REQUIRE(g->count == 1);
	(void)snprintf(text, sizeof(text), "rig-verbs -c 10.77.0.11 %s\n", rig->ops);
	said(g, text);
	(void)snprintf(text, sizeof(text), "remote addr 0x%" PRIx64 " rkey 0x%" PRIx32 "\n",
		       rig->addr, rig->rkey);
	said(g, text);
	(void)snprintf(
		text, sizeof(text),
		"request: 9 bytes of private data, responder_resources %u, initiator_depth %u,",
		rig->terms.ird, rig->terms.ord);
	said(g, text);
	starts_check(k.c, rig->terms);
	not_peer_to_peer(k.c);
	offers_check(k.c, rig);
	(void)snprintf(text, sizeof(text), "%s", rig->ops);
	for (char *op; (op = strtok_r(rest, " ", &rest));) {
		char *colon = strchr(op, ':');

		*colon = 0;
		op_check(&k, rig, op, (uint32_t)strtoul(colon + 1, NULL, 10));
	}
	if (strcmp(rig->name, "siw_norecv") == 0)
		terminate_ddp_check(&k, 2, 0x02); /* no buffer */
	all_taken(&k);
	golden_close(g);
}

static const struct terms stock = { 2, false, 0, 4, 4, 4, 4 };
static const struct terms with_crc = { 2, true, 0, 4, 4, 4, 4 };
static const struct terms with_gso = { 2, false, 0x8, 4, 4, 4, 4 };
static const struct terms revision_1 = { 1, false, 0, 0, 0, 0, 0 };

TEST(test_rfc5040_golden_siw_writes_and_reads)
{
	rig_check(&(struct rig){ "siw_write",
				 "write:64 write:4096 read:64 read:4096 write:8192 read:8192 "
				 "write:0 read:0 write:1 write:3",
				 0xffff8c4af000, 0x23cdc00, ULPDU_1500, stock });
}

TEST(test_rfc5040_golden_siw_sends)
{
	rig_check(&(struct rig){ "siw_send", "send:64 send:4096 send:0 send:16384 send:1",
				 0xffffa784f000, 0x86b81100, ULPDU_1500, stock });
}

TEST(test_rfc5040_golden_siw_send_with_invalidate)
{
	rig_check(&(struct rig){ "siw_sendinv", "write:64 sendinv:64 send:32", 0xffffaae5f000,
				 0x1a840100, ULPDU_1500, stock });
}

TEST(test_rfc5041_7_golden_siw_terminate_of_a_bad_write)
{
	rig_check(&(struct rig){ "siw_badwrite", "write:64 badwrite:64 sleep:1", 0xffff8cfdf000,
				 0x1757da00, ULPDU_1500, stock });
}

TEST(test_rfc5041_7_golden_siw_terminate_of_a_write_out_of_bounds)
{
	rig_check(&(struct rig){ "siw_oob", "oob:64 sleep:1", 0xffff965df000, 0x241c9500,
				 ULPDU_1500, stock });
}

TEST(test_rfc5041_7_golden_siw_terminate_of_a_send_without_buffer)
{
	rig_check(&(struct rig){ "siw_norecv", "send:64 sleep:1", 0xffffbd08f000, 0x68ca7300,
				 ULPDU_1500, stock });
}

TEST(test_rfc5040_4_8_golden_siw_terminate_of_a_bad_read)
{
	rig_check(&(struct rig){ "siw_badread", "badread:64 sleep:1", 0xffffab4bf000, 0xaf8dc100,
				 ULPDU_1500, stock });
}

TEST(test_rfc5044_4_4_golden_siw_crc_of_every_padding)
{
	rig_check(&(struct rig){ "siw_crc_write",
				 "write:4096 read:4096 send:64 write:1 write:2 write:3 send:5 "
				 "badread:64",
				 0xffffbe0ff000, 0xed6d3b00, ULPDU_1500, with_crc });
}

TEST(test_rfc5044_7_golden_siw_revision_1)
{
	rig_check(&(struct rig){ "siw_mpa1", "write:64 send:64 write:4096", 0xffff9e21f000,
				 0x43e5300, ULPDU_1500, revision_1 });
}

TEST(test_rfc5044_golden_siw_long_fpdus)
{
	rig_check(&(struct rig){ "siw_gso", "write:65536 read:65536", 0xffffbba6f000, 0x8b5c6e00,
				 ULPDU_GSO, with_gso });
}

TEST(test_rfc5044_golden_siw_mtu_9000)
{
	rig_check(&(struct rig){ "siw_mtu9000", "write:20000 read:20000 send:16000", 0xffffafacf000,
				 0x52c6f500, ULPDU_9000, stock });
}

/* ---- rping: read by the server, written back by it ------------------------------------------ */

enum { PING_BYTES = 64 };

enum rtr { NO_RTR, WRITE_RTR, READ_RTR };

/* The offer in a Send: which memory of the client the server may now use. */
static void offer_check(const struct golden_message *m, uint32_t stag, uint64_t to)
{
	struct rd r = rd_of(m->payload, m->bytes);

	REQUIRE(rd_u64(&r) == to);
	REQUIRE(rd_u32(&r) == stag);
	REQUIRE(rd_u32(&r) == PING_BYTES);
}

/* One ping: offer, Read, go on; offer, Write, go on. */
static void ping_check(struct cursor *k, const struct golden *g, uint32_t number)
{
	const struct golden_message *source = take(k, 0, RDMAP_SEND, ADVERT_BYTES), *sink;
	const struct golden_message *q = take(k, 1, RDMAP_READ_REQUEST, RDMAP_READ_REQUEST_BYTES);
	const struct golden_message *p = take(k, 0, RDMAP_READ_RESPONSE, PING_BYTES), *w;
	char line[PING_BYTES + 64], lead[32];

	REQUIRE(q->read.size == PING_BYTES);
	offer_check(source, q->read.source_stag, q->read.source_to);
	REQUIRE(p->stag == q->read.sink_stag && p->to == q->read.sink_to);
	(void)take(k, 1, RDMAP_SEND, ADVERT_BYTES);
	sink = take(k, 0, RDMAP_SEND, ADVERT_BYTES);
	w = take(k, 1, RDMAP_WRITE, PING_BYTES);
	offer_check(sink, w->stag, w->to);
	(void)take(k, 1, RDMAP_SEND, ADVERT_BYTES);
	/* The text that came is the one that both programs printed. */
	(void)snprintf(lead, sizeof(lead), "rdma-ping-%" PRIu32 ": ", number);
	REQUIRE(memcmp(p->payload, lead, strlen(lead)) == 0 && p->payload[PING_BYTES - 1] == 0);
	REQUIRE(memcmp(p->payload, w->payload, PING_BYTES) == 0);
	(void)snprintf(line, sizeof(line), "\nserver ping data: %s\n", (const char *)p->payload);
	said(g, line);
	(void)snprintf(line, sizeof(line), "\nping data: %s\n", (const char *)w->payload);
	said(g, line);
}

/* RFC 6581: both offer, and the client begins with a message that means nothing else. */
static void rtr_check(struct cursor *k, enum rtr rtr)
{
	const struct mpa_enhanced *a = &k->c->sides[0].enhanced, *b = &k->c->sides[1].enhanced;
	const struct golden_message *m;

	if (rtr == NO_RTR) {
		not_peer_to_peer(k->c);
		return;
	}
	REQUIRE(a->is_peer_to_peer && b->is_peer_to_peer && a->rtr_by_read);
	REQUIRE(!a->rtr_by_send && !b->rtr_by_send);
	REQUIRE(a->rtr_by_write == (rtr == WRITE_RTR) && b->rtr_by_write == (rtr == WRITE_RTR));
	REQUIRE(b->rtr_by_read == (rtr == READ_RTR));
	if (rtr == WRITE_RTR) {
		m = take(k, 0, RDMAP_WRITE, 0);
		REQUIRE(m->stag == 1 && m->to == 0);
		return;
	}
	m = take(k, 0, RDMAP_READ_REQUEST, RDMAP_READ_REQUEST_BYTES);
	REQUIRE(m->read.size == 0 && m->read.source_stag == 1 && m->read.source_to == 0);
	REQUIRE(m->read.sink_stag == 0 && m->read.sink_to == 0);
	m = take(k, 1, RDMAP_READ_RESPONSE, 0);
	REQUIRE(m->stag == 0 && m->to == 0);
}

static void rping_check(const char *name, uint32_t pings, bool has_crc, enum rtr rtr)
{
	struct golden *g = golden_open(name);
	struct cursor k = { .c = g->connections, .ulpdu_max = ULPDU_1500 };
	char text[32];

	REQUIRE(g->count == 1);
	(void)snprintf(text, sizeof(text), " -C %" PRIu32 " -v\n", pings);
	said(g, text);
	starts_check(k.c, (struct terms){ 2, has_crc, 0, 1, 1, 1, 1 });
	REQUIRE(k.c->sides[0].data_bytes == 0 && k.c->sides[1].data_bytes == 0);
	rtr_check(&k, rtr);
	for (uint32_t i = 0; i < pings; i++)
		ping_check(&k, g, i);
	all_taken(&k);
	golden_close(g);
}

TEST(test_rfc5040_golden_siw_rping)
{
	rping_check("siw_rping", 5, false, NO_RTR);
}

TEST(test_rfc5040_golden_siw_rping_ipv6)
{
	rping_check("siw_rping_ipv6", 2, false, NO_RTR);
}

TEST(test_rfc5044_4_4_golden_siw_crc)
{
	rping_check("siw_crc", 3, true, NO_RTR);
}

TEST(test_rfc6581_golden_siw_rtr_by_write)
{
	rping_check("siw_p2p_write_rtr", 2, false, WRITE_RTR);
}

TEST(test_rfc6581_golden_siw_rtr_by_read)
{
	rping_check("siw_p2p_read_rtr", 2, true, READ_RTR);
}

/* ---- ib_write_bw, NVMe and the rest --------------------------------------------------------- */

/* Field of perftest's introduction of itself. */
struct intro {
	uint32_t qpn, psn, stag;
	uint64_t to;
};

static struct intro intro_of(const struct golden_message *m)
{
	struct rd r = rd_of(m->payload, m->bytes);
	struct intro v;

	(void)rd_u64(&r);
	v.qpn = rd_u32(&r);
	v.psn = rd_u32(&r);
	v.stag = rd_u32(&r);
	(void)rd_u32(&r);
	v.to = rd_u64(&r);
	return v;
}

/* ib_write_bw -R: one connection to get acquainted, one to write 5 times 4096 bytes. */
TEST(test_rfc5040_golden_siw_perftest)
{
	static const uint32_t sizes[] = { 16, 4, 4, 2, 56, 56, 56, 56, 56, 56, 8, 8, 8, 8, 8, 56 };
	struct golden *g = golden_open("siw_perftest");
	struct cursor talk = { .c = &g->connections[0], .ulpdu_max = ULPDU_1500 };
	struct cursor work = { .c = &g->connections[1], .ulpdu_max = ULPDU_1500 };
	struct intro client = { 0 }, server = { 0 };

	EXPECT_EQ(g->count, 2);
	said(g, "ib_write_bw -R -F -d siw0 -n 5 -s 4096 10.77.0.11\n");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct golden_message *a = take(&talk, 0, RDMAP_SEND, sizes[i]);
		const struct golden_message *b = take(&talk, 1, RDMAP_SEND, sizes[i]);

		if (i == 9) {
			client = intro_of(a);
			server = intro_of(b);
		}
	}
	EXPECT(client.qpn == 2 && server.qpn == 2);
	EXPECT_EQ(client.psn, 0x55a9c6);
	EXPECT_EQ(server.psn, 0x4ba654);
	said(g, " local address: LID 0000 QPN 0x0002 PSN 0x55a9c6\n");
	said(g, " local address: LID 0000 QPN 0x0002 PSN 0x4ba654\n");
	for (int i = 0; i < 5; i++) {
		const struct golden_message *m = take(&work, 0, RDMAP_WRITE, 4096);

		EXPECT_EQ(m->stag, server.stag);
		EXPECT_EQ(m->to, server.to);
	}
	for (int i = 0; i < 2; i++) {
		starts_check(&g->connections[i], (struct terms){ 2, false, 0, 0, 0, 0, 0 });
		not_peer_to_peer(&g->connections[i]);
		EXPECT(g->connections[i].sides[0].data_bytes == 0);
		EXPECT(g->connections[i].sides[1].data_bytes == 0);
	}
	all_taken(&talk);
	all_taken(&work);
	golden_close(g);
}

/* NVMe over RDMA: command and answer are Sends of 64 and 16 bytes. */
enum { COMMAND_BYTES = 64, ANSWER_BYTES = 16, CONNECT_BYTES = 1024, DATA_BYTES = 32768 };

/* The private data of NVMe: little-endian 16-bit numbers. */
static void nvme_start_check(const struct golden_connection *c, uint8_t queue, uint8_t depth)
{
	const uint8_t request[32] = { [2] = queue, [4] = depth, [6] = (uint8_t)(depth - 1) };
	const uint8_t reply[32] = { [2] = depth };

	starts_check(c, (struct terms){ 2, false, 0, 128, 0, 0, 128 });
	not_peer_to_peer(c);
	REQUIRE(c->sides[0].data_bytes == 32 && c->sides[1].data_bytes == 32);
	REQUIRE(memcmp(c->sides[0].data, request, 32) == 0);
	REQUIRE(memcmp(c->sides[1].data, reply, 32) == 0);
}

/* The target's Read of the host's memory, and the answer that takes the STag away again. */
static const struct golden_message *nvme_read_check(struct cursor *k, uint32_t bytes)
{
	const struct golden_message *q = take(k, 1, RDMAP_READ_REQUEST, RDMAP_READ_REQUEST_BYTES);
	const struct golden_message *p = take(k, 0, RDMAP_READ_RESPONSE, bytes);

	REQUIRE(q->read.size == bytes);
	REQUIRE(p->stag == q->read.sink_stag && p->to == q->read.sink_to);
	REQUIRE(take(k, 1, RDMAP_SEND_INVALIDATE, ANSWER_BYTES)->stag == q->read.source_stag);
	return p;
}

/* The target's Write to the host's memory, and the like. */
static const struct golden_message *nvme_write_check(struct cursor *k, uint32_t bytes)
{
	const struct golden_message *w = take(k, 1, RDMAP_WRITE, bytes);

	REQUIRE(take(k, 1, RDMAP_SEND_INVALIDATE, ANSWER_BYTES)->stag == w->stag);
	return w;
}

/*
 * The queue for data: Connect with its data in the command; a page read when the disk appears; 32
 * KiB written, which the target reads; 32 KiB read, in two Writes because its memory is in two
 * parts.
 */
static void nvme_data_check(const struct golden_connection *c)
{
	struct cursor k = { .c = c, .ulpdu_max = ULPDU_1500 };
	const struct golden_message *written, *first, *second;

	nvme_start_check(c, 1, 128);
	(void)take(&k, 0, RDMAP_SEND, COMMAND_BYTES + CONNECT_BYTES);
	(void)take(&k, 1, RDMAP_SEND, ANSWER_BYTES);
	(void)take(&k, 0, RDMAP_SEND, COMMAND_BYTES);
	(void)nvme_write_check(&k, 4096);
	(void)take(&k, 0, RDMAP_SEND, COMMAND_BYTES);
	written = nvme_read_check(&k, DATA_BYTES);
	(void)take(&k, 0, RDMAP_SEND, COMMAND_BYTES);
	first = take(&k, 1, RDMAP_WRITE, 24576);
	second = nvme_write_check(&k, 8192);
	REQUIRE(second->stag == first->stag && second->to == first->to + first->bytes);
	REQUIRE(memcmp(written->payload, first->payload, first->bytes) == 0);
	REQUIRE(memcmp(written->payload + first->bytes, second->payload, second->bytes) == 0);
	all_taken(&k);
}

/* The queue for commands: every one is answered but the wait for events, which stays open. */
static void nvme_admin_check(const struct golden_connection *c)
{
	/*
	 * Of each answered command, what the target writes before the answer: 4096 bytes of
	 * Identify, 8208 and 512 of logs. Without data the answer invalidates nothing.
	 */
	static const uint32_t writes[] = {
		0, 0, 0,    0,	  0,	0,    0,    4096, 4096, 8208, 512,
		0, 0, 4096, 4096, 4096, 4096, 4096, 8208, 0,	0,
	};
	struct cursor k = { .c = c, .ulpdu_max = ULPDU_1500 };

	nvme_start_check(c, 0, 32);
	(void)take(&k, 0, RDMAP_SEND, COMMAND_BYTES);
	(void)nvme_read_check(&k, CONNECT_BYTES);
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		(void)take(&k, 0, RDMAP_SEND, COMMAND_BYTES);
		if (writes[i] > 0)
			(void)nvme_write_check(&k, writes[i]);
		else
			(void)take(&k, 1, RDMAP_SEND, ANSWER_BYTES);
	}
	(void)take(&k, 0, RDMAP_SEND, COMMAND_BYTES);
	all_taken(&k);
}

TEST(test_rfc5040_golden_siw_nvme)
{
	struct golden *g = golden_open("siw_nvme");

	EXPECT_EQ(g->count, 2);
	said(g, "32 KiB written and read back\n");
	nvme_admin_check(&g->connections[0]);
	nvme_data_check(&g->connections[1]);
	golden_close(g);
}

/* An iSER initiator whose target does not speak iWARP: a Request and no more. */
TEST(test_rfc5044_7_golden_siw_iser_request)
{
	static const uint8_t hello[] = { 0x80, 0, 0, 0 }; /* no zero-based virtual addresses */
	struct golden *g = golden_open("siw_iser_request");
	const struct golden_connection *c = g->connections;

	EXPECT_EQ(g->count, 1);
	EXPECT_EQ(c->ports[1], 3260);
	start_check(&c->sides[0], &(struct terms){ 2, false, 0, 128, 1, 0, 0 });
	EXPECT_EQ(c->sides[0].data_bytes, sizeof(hello));
	EXPECT_MEM(c->sides[0].data, hello, sizeof(hello));
	EXPECT(c->sides[0].count == 0 && !c->sides[1].has_start);
	golden_close(g);
}

/* No listener: a connection without any bytes. */
TEST(test_rfc5044_7_golden_siw_refused)
{
	struct golden *g = golden_open("siw_refused");

	said(g, "connect: Connection refused\n");
	EXPECT_EQ(g->count, 1);
	EXPECT(g->connections[0].sides[0].bytes == 0 && g->connections[0].sides[1].bytes == 0);
	golden_close(g);
}
