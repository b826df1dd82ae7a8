/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/observe/capture.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/sys/output.h"
#include "wire/pcapng.h"

enum {
	BUFFER_BYTES = 256 * 1024,
	LOCAL = 0,
	REMOTE = 1,
	/* A receiver that sends no bytes acknowledges after so many, far within the window. */
	ACK_EVERY_SHIFT = 26
};

static const char comment[] =
	"Made by weft from the bytes of its own sockets. Addresses, ports, bytes and times are "
	"real; of TCP, segment boundaries, acknowledgements and the handshake are not.";

struct capture {
	int fd;
	int error; /* 0, or negative errno: the capture has stopped */
	pid_t owner;
	uint32_t stream_count;
	int64_t real_minus_monotonic_ns;
	off_t file_bytes; /* whole blocks in the file */
	size_t used;	  /* whole blocks in the buffer; 0 once stopped */
	uint8_t buffer[BUFFER_BYTES];
};

/* ---- the file ------------------------------------------------------------------------------- */

int capture_open(const char *path, struct capture **c)
{
	struct capture *new;
	struct wr w;
	int fd = output_open(path);

	if (fd < 0)
		return fd;
	new = calloc(1, sizeof(*new));
	if (!new) {
		close(fd);
		return -ENOMEM;
	}
	new->fd = fd;
	new->owner = getpid();
	output_clock_follow(&new->real_minus_monotonic_ns);
	w = wr_of(new->buffer, sizeof(new->buffer));
	pcapng_opening_encode(comment, &w);
	new->used = (size_t)(w.at - new->buffer);
	*c = new;
	return 0;
}

void capture_flush(struct capture *c)
{
	output_clock_follow(&c->real_minus_monotonic_ns);
	if (c->used == 0)
		return;
	/* After a fork both processes hold the same waiting bytes, and only one may write them. */
	c->error = getpid() == c->owner ? output_write(c->fd, c->buffer, c->used) : -EOWNERDEAD;
	if (c->error == 0)
		c->file_bytes += (off_t)c->used;
	else if (c->error != -EOWNERDEAD)
		(void)!ftruncate(c->fd, c->file_bytes); /* cut off a partial block; a pipe cannot */
	c->used = 0;
}

void capture_close(struct capture *c)
{
	capture_flush(c);
	close(c->fd);
	free(c);
}

int capture_error(const struct capture *c)
{
	return c->error;
}

/* ---- segments ------------------------------------------------------------------------------- */

/* The remaining held bytes of a half, then those of the caller. */
struct source {
	const uint8_t *held;
	size_t held_bytes;
	const struct iovec *v;
	size_t offset; /* into *v */
};

/* The next contiguous piece, at most length bytes; there must be that many. */
static size_t source_take(struct source *from, size_t length, const uint8_t **piece)
{
	size_t n = from->held_bytes;

	if (n > 0) {
		n = n < length ? n : length;
		*piece = from->held;
		from->held += n;
		from->held_bytes -= n;
		return n;
	}
	/* Bound: the spans hold at least that many bytes. */
	while (from->v->iov_len == from->offset) {
		from->v++;
		from->offset = 0;
	}
	n = from->v->iov_len - from->offset;
	n = n < length ? n : length;
	*piece = (const uint8_t *)from->v->iov_base + from->offset;
	from->offset += n;
	return n;
}

static void source_copy(struct source *from, uint8_t *to, size_t length)
{
	while (length > 0) {
		const uint8_t *piece;
		size_t n = source_take(from, length, &piece);

		memcpy(to, piece, n);
		to += n;
		length -= n;
	}
}

static struct inet_sum source_sum(struct source from, size_t length)
{
	struct inet_sum sum = { 0 };

	while (length > 0) {
		const uint8_t *piece;
		size_t n = source_take(&from, length, &piece);

		inet_sum_add(&sum, piece, n);
		length -= n;
	}
	return sum;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* A packet's encoded headers, and the payload behind them. */
struct parts {
	uint8_t headers[INET_HEADERS_MAX];
	size_t header_bytes, payload_bytes;
	struct source payload;
	uint64_t now_ns;
	bool is_outgoing;
};

static void packet_put(struct capture *c, const struct parts *parts)
{
	struct pcapng_packet p = {
		.time_ns = (uint64_t)((int64_t)parts->now_ns + c->real_minus_monotonic_ns),
		.packet_bytes = (uint32_t)(parts->header_bytes + parts->payload_bytes),
		.is_outgoing = parts->is_outgoing,
	};
	struct source from = parts->payload;
	struct wr w;

	if (pcapng_packet_bytes(&p) > sizeof(c->buffer) - c->used)
		capture_flush(c);
	if (c->error)
		return;
	w = wr_of(c->buffer + c->used, sizeof(c->buffer) - c->used);
	pcapng_packet_head_encode(&p, &w);
	memcpy(w.at, parts->headers, parts->header_bytes);
	source_copy(&from, w.at + parts->header_bytes, parts->payload_bytes);
	w.at += p.packet_bytes;
	pcapng_packet_tail_encode(&p, &w);
	c->used = (size_t)(w.at - c->buffer);
}

struct segment {
	int from; /* LOCAL or REMOTE */
	uint8_t flags;
	size_t payload_bytes;
	struct source payload;
	uint64_t now_ns;
};

/* Writes a segment, and adds its bytes and flags to its half's sequence number. */
static void segment_put(struct capture_stream *s, const struct segment *g)
{
	struct capture_half *h = &s->half[g->from];
	uint32_t length = (uint32_t)g->payload_bytes;
	struct inet_tcp tcp = {
		.is_ipv6 = s->is_ipv6,
		.from = &s->end[g->from],
		.to = &s->end[!g->from],
		.seq = h->seq,
		.ack = g->flags & INET_TCP_ACK ? s->half[!g->from].seq : 0,
		.flags = g->flags,
		.window = UINT16_MAX,
		.payload_bytes = length,
		.payload = source_sum(g->payload, length),
	};
	struct parts parts = {
		.header_bytes = inet_tcp_header_bytes(&tcp),
		.payload_bytes = length,
		.payload = g->payload,
		.now_ns = g->now_ns,
		.is_outgoing = g->from == LOCAL,
	};
	struct wr w = wr_of(parts.headers, sizeof(parts.headers));

	inet_tcp_encode(&tcp, &w);
	packet_put(s->capture, &parts);
	h->seq += length + (g->flags & (INET_TCP_SYN | INET_TCP_FIN) ? 1 : 0);
}

static void bare_put(struct capture_stream *s, int from, uint8_t flags, uint64_t now_ns)
{
	const struct segment g = { .from = from, .flags = flags, .now_ns = now_ns };

	segment_put(s, &g);
}

/* ---- streams -------------------------------------------------------------------------------- */

/* False: not an IP address. An IPv4-mapped IPv6 address (RFC 4291 section 2.5.5.2) is IPv4. */
static bool end_set(struct inet_end *end, const struct sockaddr *address, bool *is_ipv6)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (address->sa_family == AF_INET) {
		memcpy(&in, address, sizeof(in));
		memcpy(end->address, &in.sin_addr, sizeof(in.sin_addr));
		end->port = ntohs(in.sin_port);
		*is_ipv6 = false;
		return true;
	}
	if (address->sa_family != AF_INET6)
		return false;
	memcpy(&in6, address, sizeof(in6));
	end->port = ntohs(in6.sin6_port);
	*is_ipv6 = !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr);
	if (*is_ipv6)
		memcpy(end->address, &in6.sin6_addr, sizeof(end->address));
	else
		memcpy(end->address, &in6.sin6_addr.s6_addr[12], 4);
	return true;
}

void capture_stream_open(struct capture *c, struct capture_stream *s,
			 const struct capture_ends *ends, uint64_t now_ns)
{
	bool is_remote_ipv6;
	int initiator = ends->is_initiator ? LOCAL : REMOTE;

	*s = (struct capture_stream){ 0 };
	if (c->error || !end_set(&s->end[LOCAL], ends->local, &s->is_ipv6) ||
	    !end_set(&s->end[REMOTE], ends->remote, &is_remote_ipv6) ||
	    s->is_ipv6 != is_remote_ipv6)
		return;
	s->capture = c;
	/*
	 * The initial number lets a reader distinguish a new connection from an old one with the
	 * same ports.
	 */
	s->half[initiator].seq = c->stream_count++ << 16;
	s->half[!initiator].seq = s->half[initiator].seq + (1 << 15);
	bare_put(s, initiator, INET_TCP_SYN, now_ns);
	bare_put(s, !initiator, INET_TCP_SYN | INET_TCP_ACK, now_ns);
	bare_put(s, initiator, INET_TCP_ACK, now_ns);
}

/* Writes length bytes as segments. */
static void bytes_put(struct capture_stream *s, struct segment *g, size_t length)
{
	struct capture_half *h = &s->half[g->from];
	uint32_t seq = h->seq;

	g->flags = INET_TCP_PSH | INET_TCP_ACK;
	while (length > 0) {
		const uint8_t *skipped;

		g->payload_bytes = min_size(length, INET_TCP_PAYLOAD_MAX);
		segment_put(s, g);
		length -= g->payload_bytes;
		for (size_t n = g->payload_bytes; n > 0;)
			n -= source_take(&g->payload, n, &skipped);
	}
	if (seq >> ACK_EVERY_SHIFT != h->seq >> ACK_EVERY_SHIFT)
		bare_put(s, !g->from, INET_TCP_ACK, g->now_ns);
}

/* The length of the frame that begins here; 0: too few bytes to know. */
static uint32_t frame_begin(struct capture_stream *s, const struct segment *g, size_t length)
{
	uint8_t head[MPA_SCAN_HEAD_MAX];
	struct source from = g->payload;
	size_t head_bytes = min_size(length, sizeof(head));

	source_copy(&from, head, head_bytes);
	return mpa_scan_frame(&s->half[g->from].scan, s->half[!g->from].scan.wants_markers,
			      rd_of(head, head_bytes));
}

void capture_stream_bytes(struct capture_stream *s, const struct capture_bytes *b, uint64_t now_ns)
{
	struct segment g = { .from = b->is_outgoing ? LOCAL : REMOTE, .now_ns = now_ns };
	struct capture_half *h = &s->half[g.from];
	size_t left = h->held_bytes + b->length;
	uint8_t rest[MPA_SCAN_HEAD_MAX];

	if (!s->capture || s->capture->error || h->is_closed)
		return;
	g.payload = (struct source){ .held = h->held, .held_bytes = h->held_bytes, .v = b->v };
	while (left > 0) {
		size_t n;

		if (h->frame_left == 0)
			h->frame_left = frame_begin(s, &g, left);
		if (h->frame_left == 0)
			break;
		n = min_size(left, h->frame_left);
		bytes_put(s, &g, n);
		left -= n;
		h->frame_left -= (uint32_t)n;
	}
	/* The source may begin with h->held. */
	source_copy(&g.payload, rest, left);
	memcpy(h->held, rest, left);
	h->held_bytes = (uint8_t)left;
}

/* Writes held bytes: no more will follow them. */
static void held_put(struct capture_stream *s, int from, uint64_t now_ns)
{
	struct capture_half *h = &s->half[from];
	struct segment g = {
		.from = from,
		.now_ns = now_ns,
		.payload = { .held = h->held, .held_bytes = h->held_bytes },
	};

	bytes_put(s, &g, h->held_bytes);
	h->held_bytes = 0;
}

void capture_stream_close(struct capture_stream *s, bool is_outgoing, bool is_reset,
			  uint64_t now_ns)
{
	int from = is_outgoing ? LOCAL : REMOTE;
	struct capture_half *h = &s->half[from];

	if (!s->capture || s->capture->error)
		return;
	if (is_reset) {
		held_put(s, LOCAL, now_ns);
		held_put(s, REMOTE, now_ns);
		bare_put(s, from, INET_TCP_RST | INET_TCP_ACK, now_ns);
		s->capture = NULL;
		return;
	}
	if (h->is_closed)
		return;
	held_put(s, from, now_ns);
	bare_put(s, from, INET_TCP_FIN | INET_TCP_ACK, now_ns);
	bare_put(s, !from, INET_TCP_ACK, now_ns);
	h->is_closed = true;
	if (s->half[!from].is_closed)
		s->capture = NULL;
}

/* ---- datagrams ------------------------------------------------------------------------------ */

void capture_datagram(struct capture *c, const struct capture_datagram *d, uint64_t now_ns)
{
	const struct source payload = { .v = d->v };
	const struct inet_udp udp = {
		.is_ipv6 = d->is_ipv6,
		.from = &d->from,
		.to = &d->to,
		.traffic_class = d->traffic_class,
		.hop_limit = d->hop_limit,
		.ipv4_id = d->ipv4_id,
		.ipv4_fragment = d->ipv4_fragment,
		.payload_bytes = (uint32_t)d->length,
		.payload = source_sum(payload, d->length),
	};
	struct parts parts = {
		.header_bytes = inet_udp_header_bytes(&udp),
		.payload_bytes = d->length,
		.payload = payload,
		.now_ns = now_ns,
		.is_outgoing = d->is_outgoing,
	};
	struct wr w = wr_of(parts.headers, sizeof(parts.headers));

	if (c->error)
		return;
	inet_udp_encode(&udp, &w);
	packet_put(c, &parts);
}
