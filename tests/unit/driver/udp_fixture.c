/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "own_network.h"
#include "wire/iba_icrc.h"
#include "wire/mad.h"

enum { PATIENCE_MS = 20000, OPEN_MAX = 16 };

/* What a test that failed has left open. */
static struct udp_side *opened[OPEN_MAX];

void world_leave(void)
{
	for (int i = 0; i < OPEN_MAX; i++) {
		if (opened[i])
			udp_abandon(opened[i]->udp);
		opened[i] = NULL;
	}
}

static void note(const struct udp_side *was, struct udp_side *is)
{
	for (int i = 0; i < OPEN_MAX; i++) {
		if (opened[i] == was) {
			opened[i] = is;
			return;
		}
	}
}

/* ---- The world ------------------------------------------------------------------------------ */

const char *world_enter(void)
{
	for (int i = 0; i < OPEN_MAX; i++) {
		if (opened[i])
			side_close(opened[i]);
	}
	return own_network_enter();
}

/* ---- Sides ---------------------------------------------------------------------------------- */

static void watch(void *owner, struct watch *w, uint32_t events)
{
	struct udp_side *s = owner;
	struct epoll_event e = { .events = events, .data.ptr = w };
	int what = EPOLL_CTL_MOD;

	if (w->interest == events)
		return;
	if (events == 0)
		what = EPOLL_CTL_DEL;
	else if (w->interest == 0)
		what = EPOLL_CTL_ADD;
	w->interest = events;
	REQUIRE(epoll_ctl(s->epoll, what, w->fd, &e) == 0);
}

void side_open(struct udp_side *s)
{
	const struct udp_config config = { .watch = watch, .owner = s };

	memset(s, 0, sizeof(*s));
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	REQUIRE(s->epoll >= 0);
	REQUIRE(udp_open(&config, &s->udp) == WEFT_OK);
	s->adapter_slot = udp_adapter_slot(s->udp);
	note(NULL, s);
}

void side_close(struct udp_side *s)
{
	udp_close(s->udp);
	close(s->epoll);
	note(s, NULL);
}

void side_forget(struct udp_side *s)
{
	s->count = 0;
}

static bool is_payload_good(const struct iba_packet *p)
{
	if (p->dest_qp == IBA_QPN_GSI)
		return true;
	for (uint32_t i = 0; i < p->payload_bytes; i++) {
		if (p->payload[i] != (uint8_t)(p->psn + i))
			return false;
	}
	return true;
}

/* Whichever identification the kernel gave it: a socket does not tell. */
static bool is_icrc_good(const struct ib_in *in)
{
	const struct iba_icrc_ip ip = { .is_ipv6 = in->is_ipv6, .from = &in->from, .to = &in->to };
	uint32_t begin = iba_icrc_begin(&ip, (uint32_t)in->length);
	uint32_t off = iba_icrc_differs(begin, in->bytes, in->length);

	if (in->is_ipv6)
		return off == 0;
	return (iba_icrc_ipv4_word(off, iba_icrc_factor((uint32_t)in->length)) & 0xffff) ==
	       IBA_IPV4_DF;
}

static void see(struct udp_side *s, const struct ib_in *in)
{
	struct seen *seen = &s->seen[s->count];
	struct iba_packet p;

	REQUIRE(s->count < SIDE_SEEN_MAX);
	*seen = (struct seen){ .in = *in, .length = in->length };
	if (iba_decode(&p, in->bytes, in->length) == WEFT_OK) {
		seen->dest_qp = p.dest_qp;
		seen->psn = p.psn;
		seen->is_good = is_payload_good(&p) && is_icrc_good(in);
	}
	s->count++;
	if (s->learning)
		udp_flow_learn(s->udp, s->learning, in);
}

static bool side_take(struct udp_side *s, int patience_ms)
{
	struct epoll_event events[16];
	const struct ib_in *in;
	int count;

	do {
		count = epoll_wait(s->epoll, events, 16, patience_ms);
	} while (count < 0 && errno == EINTR);

	for (int i = 0; i < count; i++) {
		struct watch *w = events[i].data.ptr;

		w->ready(w, events[i].events);
	}
	while (udp_fetch(s->udp, false)) {
		while ((in = udp_next(s->udp)) != NULL)
			see(s, in);
	}
	return count > 0;
}

/*
 * What was sent to this host from one processor arrives in the order in which it was sent, but
 * where the kernel is busy not before the call returns: when one to ourselves has come, all before
 * it has.
 */
static void settle_processor(void)
{
	struct sockaddr_in self = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd ready = { .fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
				.events = POLLIN };
	socklen_t length = sizeof(self);

	if (ready.fd < 0) /* a test has taken all descriptors */
		return;
	REQUIRE(bind(ready.fd, (void *)&self, length) == 0);
	REQUIRE(getsockname(ready.fd, (void *)&self, &length) == 0);
	REQUIRE(sendto(ready.fd, "", 1, 0, (void *)&self, length) == 1);
	REQUIRE(poll(&ready, 1, PATIENCE_MS) == 1);
	close(ready.fd);
}

/* A busy machine may have moved this thread to another processor since it sent. */
static void settle(void)
{
	cpu_set_t all, one;

	REQUIRE(sched_getaffinity(0, sizeof(all), &all) == 0);
	for (size_t i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
		settle_processor();
	}
	REQUIRE(sched_setaffinity(0, sizeof(all), &all) == 0);
}

void sides_pump(struct udp_side **sides, uint32_t count)
{
	bool has_moved = true;

	while (has_moved) {
		has_moved = false;
		settle();
		for (uint32_t i = 0; i < count; i++)
			has_moved |= side_take(sides[i], 0);
	}
}

bool side_wait(struct udp_side *s)
{
	return side_take(s, PATIENCE_MS);
}

bool side_is_readable(const struct udp_side *s)
{
	struct pollfd fd = { .fd = s->epoll, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

bool side_await(struct udp_side *s, uint32_t count)
{
	while (s->count < count) {
		if (!side_take(s, PATIENCE_MS))
			return false;
	}
	return true;
}

/* ---- Packets -------------------------------------------------------------------------------- */

static bool end_of(const char *text, struct inet_end *end)
{
	if (inet_pton(AF_INET, text, end->address) == 1)
		return false;
	REQUIRE(inet_pton(AF_INET6, text, end->address) == 1);
	return true;
}

struct ib_path path_of(const char *from, const char *to, uint16_t from_port)
{
	struct ib_path path = { .mtu_bytes = 4096, .hop_limit = 64 };

	path.is_ipv6 = end_of(from, &path.from);
	end_of(to, &path.to);
	path.from.port = from_port;
	path.to.port = IBA_UDP_PORT;
	return path;
}

void make(struct ib_out *out, const struct making *m)
{
	static uint8_t payloads[MADE_MAX][IBA_PAYLOAD_MAX];
	static uint32_t turn;
	uint8_t *payload = payloads[turn++ % MADE_MAX];
	uint32_t bytes = m->management ? MAD_BYTES : m->payload_bytes, at, crc;
	const struct iba_icrc_ip ip = { .is_ipv6 = m->path->is_ipv6,
					.from = &m->path->from,
					.to = &m->path->to,
					.ipv4_id = m->ipv4_id,
					.ipv4_fragment = IBA_IPV4_DF };
	const struct iba_packet p = {
		.opcode = m->management ? IBA_UD_SEND
					: iba_opcode(m->eec ? IBA_RD : IBA_RC, IBA_SEND_ONLY),
		.eec = m->eec,
		.pad = iba_pad(bytes),
		.p_key = IBA_PKEY_DEFAULT,
		.dest_qp = m->dest_qp,
		.psn = m->psn,
		.q_key = IBA_QKEY_GSI,
		.src_qp = IBA_QPN_GSI,
	};

	for (uint32_t i = 0; i < bytes; i++)
		payload[i] = m->management ? m->management[i] : (uint8_t)(m->psn + i);
	*out = (struct ib_out){ .path = m->path, .ipv4_id = m->ipv4_id, .ecn = m->ecn };
	at = iba_encode(&p, out->bytes);
	REQUIRE(span_list_add(&out->spans, out->bytes, at));
	crc = iba_icrc_begin(&ip, iba_packet_bytes(p.opcode, bytes));
	crc = iba_icrc_add_packet(crc, out->bytes, at);
	if (bytes > 0)
		crc = crc32_add(crc, payload, bytes);
	REQUIRE(span_list_add(&out->spans, payload, bytes));
	REQUIRE(span_list_add(&out->spans, out->bytes + at,
			      iba_trailer_encode(crc, p.pad, out->bytes + at)));
}

void side_send(struct udp_side *s, struct ib_out *outs, uint32_t count)
{
	struct udp_batch b = { .outs = outs, .count = count };

	REQUIRE(udp_send(s->udp, &b) == WEFT_OK);
	REQUIRE(b.done == count && b.refused == 0);
}
