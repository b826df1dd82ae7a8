/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture_sample DIR: writes captures of made-up MPA connections into DIR, and says on standard
 * output, a line for each FPDU, what a reader must find in it:
 *
 *	FILE STREAM DIRECTION FIELD=VALUE...
 *
 * in the order of the stream, with Wireshark's names of the fields. capture_tshark_test.py
 * compares.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/crc.h"
#include "base/prng.h"
#include "driver/observe/capture.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum { OUT, IN, DIRECTIONS, STREAM_BYTES = 1 << 20, ULPDU_MAX = 65535, SMALL = 100 };

/* One direction: the bytes that are to be captured, and what went before. */
struct way {
	uint8_t *bytes;
	size_t used, done;
	bool has_markers;
	size_t full_operation; /* where the first FPDU begins */
	size_t fpdu;	       /* where the current one begins, its first marker apart */
	uint32_t msn[RDMAP_QN_COUNT];
};

struct connection {
	const char *file;
	int stream; /* as Wireshark numbers them */
	struct capture_stream captured;
	struct way way[DIRECTIONS];
	bool is_initiator;
};

/* The segment that is being made. */
struct segment {
	struct connection *c;
	int direction;
	enum rdmap_opcode opcode;
	bool is_last;
	uint32_t ulp32;	     /* the STag to invalidate */
	uint32_t stag;	     /* of a tagged one */
	uint64_t to;	     /* of a tagged one */
	uint32_t mo;	     /* of an untagged one */
	const uint8_t *body; /* if there is one to be shown byte for byte */
	uint32_t body_bytes; /* else so many bytes of payload */
};

static struct prng random_pieces;

static void need(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "capture_sample: %s\n", what);
	exit(1);
}

/* ---- FPDUs ---------------------------------------------------------------------------------- */

static void put_marker(struct way *y, bool is_inside)
{
	struct wr w = wr_of(y->bytes + y->used, MPA_MARKER_BYTES);

	if (!y->has_markers || (y->used - y->full_operation) % MPA_MARKER_EVERY != 0)
		return;
	mpa_marker_encode(is_inside ? (uint16_t)(y->used - y->fpdu) : 0, &w);
	y->used += MPA_MARKER_BYTES;
}

/* RFC 5044 section 4: length, ULPDU, padding, CRC, and markers wherever they fall. */
static void put_fpdu(struct way *y, const uint8_t *ulpdu, uint32_t length)
{
	static uint8_t plain[ULPDU_MAX + 8];
	struct wr w = wr_of(plain, sizeof(plain));
	size_t begin = y->used;
	uint32_t crc;

	need(y->used + 2 * mpa_fpdu_bytes(length) <= STREAM_BYTES, "the stream is full");
	memset(plain, 0, sizeof(plain));
	wr_u16(&w, (uint16_t)length);
	memcpy(w.at, ulpdu, length);
	for (uint32_t i = 0; i < mpa_fpdu_bytes(length) - MPA_CRC_BYTES; i += 4) {
		put_marker(y, i > 0);
		if (i == 0)
			y->fpdu = y->used;
		memcpy(y->bytes + y->used, plain + i, 4);
		y->used += 4;
	}
	put_marker(y, true);
	crc = crc32c_end(crc32c_add(CRC32C_BEGIN, y->bytes + begin, y->used - begin));
	for (int i = 0; i < MPA_CRC_BYTES; i++)
		y->bytes[y->used++] = (uint8_t)(crc >> 8 * i);
	/* Wireshark then counts the marker that follows to this FPDU too, and does not find it. */
	need(y->used - begin == mpa_fpdu_bytes(length) ||
		     (y->used - y->full_operation) % MPA_MARKER_EVERY != 0,
	     "an FPDU ends where a marker is due");
}

static bool is_tagged(enum rdmap_opcode opcode)
{
	return opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESPONSE;
}

static uint32_t queue_of(enum rdmap_opcode opcode)
{
	switch (opcode) {
	case RDMAP_READ_REQUEST:
	case RDMAP_ATOMIC_REQUEST:
		return RDMAP_QN_REQUEST;
	case RDMAP_TERMINATE:
		return RDMAP_QN_TERMINATE;
	case RDMAP_ATOMIC_RESPONSE:
		return RDMAP_QN_ATOMIC_RESPONSE;
	default:
		return RDMAP_QN_SEND;
	}
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
}

/* Puts the segment, and begins the line that tells of it. */
static void put(const struct segment *g)
{
	static uint8_t ulpdu[ULPDU_MAX];
	struct way *y = &g->c->way[g->direction];
	struct wr w = wr_of(ulpdu, sizeof(ulpdu));
	uint32_t qn = queue_of(g->opcode), length;
	struct ddp_tagged tagged = { g->is_last, rdmap_control_encode(g->opcode), g->stag, g->to };
	struct ddp_untagged untagged = { g->is_last, rdmap_control_encode(g->opcode),
					 g->ulp32,   qn,
					 y->msn[qn], g->mo };

	if (is_tagged(g->opcode))
		ddp_tagged_encode(&tagged, &w);
	else
		ddp_untagged_encode(&untagged, &w);
	/* Bytes that no protocol on top of RDMA takes for its own. */
	for (uint32_t i = 0; i < g->body_bytes; i++)
		wr_u8(&w, g->body ? g->body[i] : (uint8_t)(0xc1 + 7 * i));
	need(!w.is_short, "the segment is too long");
	length = (uint32_t)(w.at - ulpdu);
	put_fpdu(y, ulpdu, length);

	tell("%s\t%d\t%s", g->c->file, g->c->stream, g->direction == OUT ? "out" : "in");
	tell("\tiwarp_mpa.ulpdulength=%u\tiwarp_ddp.tagged_flag=%d\tiwarp_ddp.last_flag=%d", length,
	     is_tagged(g->opcode), g->is_last);
	tell("\tiwarp_ddp.dv=1\tiwarp_rdma.version=1\tiwarp_rdma.opcode=%d", g->opcode);
	if (is_tagged(g->opcode))
		tell("\tiwarp_ddp.stag=%u\tiwarp_ddp.tagged_offset=%llu", g->stag,
		     (unsigned long long)g->to);
	else
		tell("\tiwarp_ddp.qn=%u\tiwarp_ddp.msn=%u\tiwarp_ddp.mo=%u", qn, y->msn[qn], g->mo);
	if (g->opcode == RDMAP_SEND_INVALIDATE || g->opcode == RDMAP_SEND_SE_INVALIDATE)
		tell("\tiwarp_rdma.inval_stag=%u", g->ulp32);
	if (g->is_last && !is_tagged(g->opcode))
		y->msn[qn]++;
}

/* A message of payload, in FPDUs of at most each bytes of it. */
static void put_message(struct connection *c, struct segment g, uint32_t length, uint32_t each)
{
	g.c = c;
	do {
		g.body_bytes = length < each ? length : each;
		length -= g.body_bytes;
		g.is_last = length == 0;
		put(&g);
		tell("\n");
		g.mo += g.body_bytes;
		g.to += g.body_bytes;
	} while (length > 0);
}

/* A message that is one segment. */
static void put_body(struct connection *c, int direction, enum rdmap_opcode opcode,
		     const struct wr *w, const uint8_t *body)
{
	const struct segment g = { .c = c,
				   .direction = direction,
				   .opcode = opcode,
				   .is_last = true,
				   .body = body,
				   .body_bytes = (uint32_t)(w->at - body) };

	put(&g);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void put_read_request(struct connection *c, int direction, uint32_t size)
{
	const struct rdmap_read_request q = { 0xfeedbee5, 0x1122334455667788, size, 0xa0b0c0d0,
					      0x99aabbccddeeff00 };
	uint8_t body[RDMAP_READ_REQUEST_BYTES];
	struct wr w = wr_of(body, sizeof(body));

	rdmap_read_request_encode(&q, &w);
	put_body(c, direction, RDMAP_READ_REQUEST, &w, body);
	tell("\tiwarp_rdma.sinkstag=%u\tiwarp_rdma.sinkto=%llu\tiwarp_rdma.rdmardsz=%u",
	     q.sink_stag, (unsigned long long)q.sink_to, size);
	tell("\tiwarp_rdma.srcstag=%u\tiwarp_rdma.srcto=%llu\n", q.source_stag,
	     (unsigned long long)q.source_to);
}

static void put_immediate(struct connection *c, int direction, enum rdmap_opcode opcode)
{
	uint8_t body[RDMAP_IMMEDIATE_BYTES];
	struct wr w = wr_of(body, sizeof(body));

	wr_u64(&w, 0x0102030405060708);
	put_body(c, direction, opcode, &w, body);
	tell("\n");
}

static void put_atomics(struct connection *c, int direction, enum rdmap_atomic opcode)
{
	const struct rdmap_atomic_request q = {
		opcode, 77, 0x0badcafe, 0x1000, 5, 0xff00, 9, 0xff
	};
	const struct rdmap_atomic_response p = { 77, 0x0123456789abcdef };
	uint8_t body[RDMAP_ATOMIC_REQUEST_BYTES];
	struct wr w = wr_of(body, sizeof(body));
	const char *what = opcode == RDMAP_FETCH_ADD ? "add" : "swap";

	rdmap_atomic_request_encode(&q, &w);
	put_body(c, direction, RDMAP_ATOMIC_REQUEST, &w, body);
	tell("\tiwarp_rdma.atomic.opcode=%d\tiwarp_rdma.atomic.request_identifier=%u", opcode,
	     q.id);
	tell("\tiwarp_rdma.atomic.remote_stag=%u\tiwarp_rdma.atomic.remote_tagged_offset=%llu",
	     q.stag, (unsigned long long)q.to);
	tell("\tiwarp_rdma.atomic.%s_data=5\tiwarp_rdma.atomic.%s_mask=%d", what, what, 0xff00);
	tell("\tiwarp_rdma.atomic.compare_data=9\tiwarp_rdma.atomic.compare_mask=%d\n", 0xff);

	w = wr_of(body, sizeof(body));
	rdmap_atomic_response_encode(&p, &w);
	put_body(c, !direction, RDMAP_ATOMIC_RESPONSE, &w, body);
	tell("\tiwarp_rdma.atomic.original_request_identifier=%u", p.id);
	tell("\tiwarp_rdma.atomic.original_remote_data_value=%llu\n",
	     (unsigned long long)p.original);
}

/* The last message of a stream. */
static void put_terminate(struct connection *c, int direction, const struct rdmap_terminate *t)
{
	uint8_t body[SMALL];
	struct wr w = wr_of(body, sizeof(body));
	static const char *const layers[] = { "rdma", "ddp", "llp" };
	static const char *const codes[] = { "rdma", "ddp_tagged", "llp" };

	rdmap_terminate_encode(t, &w);
	put_body(c, direction, RDMAP_TERMINATE, &w, body);
	tell("\tiwarp_rdma.term_layer=%d\tiwarp_rdma.term_etype_%s=%d", t->layer, layers[t->layer],
	     t->type);
	tell("\tiwarp_rdma.term_errcode_%s=%d\tiwarp_rdma.term_hdrct_m=%d", codes[t->layer],
	     t->code, t->has_length);
	tell("\tiwarp_rdma.hdrct_d=%d\tiwarp_rdma.hdrct_r=%d\n", t->has_ddp, t->has_rdma);
}

/* Every kind of message, from both ends, of several lengths. */
static void put_every_message(struct connection *c)
{
	static const uint32_t lengths[] = { 0, 1, 2, 3, 100, 8192 };

	for (int direction = OUT; direction <= IN; direction++) {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			struct segment g = { .direction = direction, .stag = 0x12345678, .to = 64 };

			g.opcode = RDMAP_WRITE;
			put_message(c, g, lengths[i], ULPDU_MAX);
			put_read_request(c, direction, lengths[i]);
			g.opcode = RDMAP_READ_RESPONSE;
			put_message(c, g, lengths[i], ULPDU_MAX);
			g.ulp32 = 0;
			g.opcode = RDMAP_SEND;
			put_message(c, g, lengths[i], 1000);
			g.opcode = RDMAP_SEND_SE;
			put_message(c, g, lengths[i], 3000);
			g.ulp32 = 0xdeadbeef;
			g.opcode = RDMAP_SEND_INVALIDATE;
			put_message(c, g, lengths[i], 1001);
			g.opcode = RDMAP_SEND_SE_INVALIDATE;
			put_message(c, g, lengths[i], 3001);
		}
		put_immediate(c, direction, RDMAP_IMMEDIATE);
		put_immediate(c, direction, RDMAP_IMMEDIATE_SE);
		put_atomics(c, direction, RDMAP_FETCH_ADD);
		put_atomics(c, direction, RDMAP_COMPARE_SWAP);
	}
}

/* The longest FPDU does not fit into one segment. */
static void put_long_messages(struct connection *c, int direction)
{
	struct segment g = { .direction = direction, .stag = 7, .to = 0 };

	g.opcode = RDMAP_WRITE;
	put_message(c, g, 150000, ULPDU_MAX - DDP_TAGGED_BYTES);
	g.opcode = RDMAP_READ_RESPONSE;
	put_message(c, g, 140000, 65000);
	g.opcode = RDMAP_SEND;
	put_message(c, g, 130000, ULPDU_MAX - DDP_UNTAGGED_BYTES);
}

/* ---- connections ---------------------------------------------------------------------------- */

/*
 * The dialling end uses ports that Wireshark assigns to other protocols: a system may choose these
 * too.
 */
static void connection_open(struct connection *c, struct capture *file, int family)
{
	struct sockaddr_in in[2] = { { .sin_family = AF_INET, .sin_port = htons(34980) },
				     { .sin_family = AF_INET, .sin_port = htons(7471) } };
	struct sockaddr_in6 in6[2] = { { .sin6_family = AF_INET6, .sin6_port = htons(7472) },
				       { .sin6_family = AF_INET6, .sin6_port = htons(57000) } };
	struct capture_ends ends = { .is_initiator = c->is_initiator };

	inet_pton(AF_INET, "192.0.2.1", &in[0].sin_addr);
	inet_pton(AF_INET, "192.0.2.2", &in[1].sin_addr);
	inet_pton(AF_INET6, "2001:db8::1", &in6[0].sin6_addr);
	inet_pton(AF_INET6, "2001:db8::2", &in6[1].sin6_addr);
	ends.local = family == AF_INET ? (struct sockaddr *)&in[0] : (struct sockaddr *)&in6[0];
	ends.remote = family == AF_INET ? (struct sockaddr *)&in[1] : (struct sockaddr *)&in6[1];
	capture_stream_open(file, &c->captured, &ends, 1000);
	for (int i = OUT; i <= IN; i++) {
		c->way[i].bytes = calloc(1, STREAM_BYTES);
		need(c->way[i].bytes, "no memory");
		for (int q = 0; q < RDMAP_QN_COUNT; q++)
			c->way[i].msn[q] = 1;
	}
}

/* The next bytes of one direction, in up to three spans. */
static void give(struct connection *c, int direction, size_t length)
{
	struct way *y = &c->way[direction];
	size_t left = y->used - y->done, n = length < left ? length : left;
	size_t a = n / 3, b = n / 2;
	struct iovec v[] = { { y->bytes + y->done, a },
			     { NULL, 0 },
			     { y->bytes + y->done + a, b - a },
			     { y->bytes + y->done + b, left - b } }; /* more than is to be taken */
	struct capture_bytes bytes = { v, n, direction == OUT };

	capture_stream_bytes(&c->captured, &bytes, 2000 + c->way[OUT].done + c->way[IN].done);
	y->done += n;
}

/* RFC 5044 section 7.1 and RFC 6581 section 9. Flags as the frames have them: M 0x80, C 0x40. */
static void put_start(struct connection *c, int direction, struct mpa_start start)
{
	struct way *y = &c->way[direction];
	struct wr w = wr_of(y->bytes, MPA_START_BYTES + MPA_PRIVATE_MAX);
	struct mpa_enhanced e = { true, false, true, true, 16, 32 };

	start.is_reply = (direction == IN) == c->is_initiator;
	mpa_start_encode(&start, &w);
	if (start.is_enhanced)
		mpa_enhanced_encode(&e, &w);
	while (w.at < y->bytes + MPA_START_BYTES + start.private_bytes)
		wr_u8(&w, 'p');
	y->used = y->full_operation = (size_t)(w.at - y->bytes);
	c->way[!direction].has_markers = start.wants_markers;
}

/* Everything that waits, in pieces of any length, the directions and connections mixed. */
static void give_all(struct connection **c, int count)
{
	static const size_t lengths[] = { 1, 2, 3, 6, 18, 20, 24, 100, 2000, 70000, 200000 };

	for (int left = 1; left > 0;) {
		struct connection *one = c[prng_below(&random_pieces, (uint32_t)count)];

		give(one, (int)prng_below(&random_pieces, DIRECTIONS),
		     lengths[prng_below(&random_pieces, sizeof(lengths) / sizeof(lengths[0]))]);
		left = 0;
		for (int i = 0; i < count; i++)
			for (int d = OUT; d <= IN; d++)
				left += c[i]->way[d].done < c[i]->way[d].used;
	}
}

static void connection_start(struct connection *c, struct mpa_start from_us,
			     struct mpa_start from_them)
{
	put_start(c, OUT, from_us);
	put_start(c, IN, from_them);
	/* The reply follows the request. Each comes with its header cut off, as it may be read. */
	for (int i = 0; i < 2; i++) {
		int direction = c->is_initiator == (i == 0) ? OUT : IN;

		give(c, direction, 5);
		give(c, direction, MPA_START_BYTES - 5);
		give(c, direction, STREAM_BYTES);
	}
}

static void connection_fini(struct connection *c)
{
	for (int i = OUT; i <= IN; i++)
		free(c->way[i].bytes);
}

/* ---- files ---------------------------------------------------------------------------------- */

static struct capture *file_open(const char *directory, const char *name)
{
	char path[1000];
	struct capture *c = NULL;

	snprintf(path, sizeof(path), "%s/%s.pcapng", directory, name);
	need(capture_open(path, &c) == 0, "the file cannot be made");
	return c;
}

static void file_close(struct capture *c)
{
	need(capture_error(c) == 0, "the capture stopped");
	capture_flush(c);
	need(capture_error(c) == 0, "the file cannot be written");
	capture_close(c);
}

/*
 * Two connections at a time, over IPv4 and IPv6, opened by us and by them, MPA revisions 1 and 2;
 * one ends by Terminate and FINs, one by Terminate and reset.
 */
static void sample_every(const char *directory)
{
	const struct mpa_start plain = { .wants_crc = true, .revision = 1 };
	const struct mpa_start full = { .wants_crc = true, .revision = 1, .private_bytes = 512 };
	const struct mpa_start enhanced = {
		.wants_crc = true, .is_enhanced = true, .revision = 2, .private_bytes = 60
	};
	struct capture *file = file_open(directory, "every");
	struct connection a = { .file = "every", .stream = 0, .is_initiator = true };
	struct connection b = { .file = "every", .stream = 1 };
	struct connection *both[] = { &a, &b };
	const struct rdmap_terminate access = { .type = 1, .code = 2 };
	const struct rdmap_terminate crc = { .layer = 2, .code = 2 };
	struct rdmap_terminate bounds = { .layer = 1,
					  .type = 1,
					  .code = 1,
					  .has_length = true,
					  .has_ddp = true,
					  .segment_bytes = 14,
					  .ddp_bytes = 14 };

	connection_open(&a, file, AF_INET);
	connection_open(&b, file, AF_INET6);
	connection_start(&a, plain, full);
	connection_start(&b, enhanced, enhanced);
	put_every_message(&a);
	put_every_message(&b);
	put_long_messages(&a, OUT);
	put_long_messages(&b, IN);
	put_terminate(&a, OUT, &access);
	put_terminate(&a, IN, &crc);
	/* Wireshark takes the kind of the header within from the type of error, so does this. */
	bounds.ddp[0] = 0xc1;
	put_terminate(&b, IN, &bounds);
	give_all(both, 2);
	capture_stream_close(&a.captured, true, false, 1000000000);
	capture_stream_close(&b.captured, false, true, 1000000000);
	capture_stream_close(&a.captured, false, false, 1000000000);
	connection_fini(&a);
	connection_fini(&b);
	file_close(file);
}

/* Two connections one after the other between the same ports. */
static void sample_again(const char *directory)
{
	const struct mpa_start plain = { .wants_crc = true, .revision = 1 };
	struct capture *file = file_open(directory, "again");

	for (int i = 0; i < 2; i++) {
		struct connection c = { .file = "again", .stream = i, .is_initiator = true };
		struct connection *one[] = { &c };

		connection_open(&c, file, AF_INET);
		connection_start(&c, plain, plain);
		put_every_message(&c);
		give_all(one, 1);
		capture_stream_close(&c.captured, false, false, 1000000000);
		capture_stream_close(&c.captured, true, false, 1000000000);
		connection_fini(&c);
	}
	file_close(file);
}

/* Markers in what we send, if they ask for them, and in what they send, if we do. */
static void sample_markers(const char *directory, const char *name, bool in_both)
{
	const struct mpa_start ours = { .wants_crc = true,
					.wants_markers = in_both,
					.revision = 1 };
	const struct mpa_start theirs = { .wants_crc = true, .wants_markers = true, .revision = 1 };
	struct capture *file = file_open(directory, name);
	struct connection c = { .file = name, .is_initiator = true };

	connection_open(&c, file, AF_INET);
	connection_start(&c, ours, theirs);
	put_every_message(&c);
	give(&c, OUT, STREAM_BYTES);
	give(&c, IN, STREAM_BYTES);
	capture_stream_close(&c.captured, true, false, 1000000000);
	capture_stream_close(&c.captured, false, false, 1000000000);
	connection_fini(&c);
	file_close(file);
}

int main(int argc, char **argv)
{
	need(argc == 2, "usage: capture_sample DIR");
	random_pieces.state = 1;
	sample_every(argv[1]);
	sample_again(argv[1]);
	sample_markers(argv[1], "markers_both", true);
	sample_markers(argv[1], "markers_one", false);
	return 0;
}
