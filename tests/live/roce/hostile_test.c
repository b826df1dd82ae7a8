/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another process of the host sends arbitrary datagrams to RoCE's port, over real sockets: memory
 * stays unchanged, and unrelated connections continue.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/roce/roce.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"
#include "wire/iba_aeth.h"
#include "wire/iba_icrc.h"

enum {
	P0 = 0xfffffe,
	FLOOD = 2000,
	BATCH = 50,
	LARGE = 65000,
	LARGEST = 65527, /* of UDP over IPv6, which is more than over IPv4 */
	BYTES = 12,
	MASK = 0xffffff,
	PORT = 0xc555
};

static struct weft_adapter *adapters[2];
static struct node from, to; /* the peer, and whose memory is meant */
static uint8_t shadow[NODE_BYTES];
static uint64_t injected; /* that some adapter must have seen */

static void start(struct weft_qp *qp, const struct weft_qp *peer)
{
	struct weft_roce_attr way = roce_way(weft_qp_number(peer));

	way.psn_recv = way.psn_send = P0;
	roce_start(qp, &way);
}

static void open_both(void)
{
	for (int i = 0; i < 2; i++)
		adapters[i] = roce_adapter_open();
	node_open(adapters[0], &from, NULL);
	node_open(adapters[1], &to, NULL);
	start(from.qp, to.qp);
	start(to.qp, from.qp);
	for (uint32_t i = 0; i < NODE_BYTES; i++)
		to.memory[i] = (uint8_t)(i * 5);
	memcpy(shadow, to.memory, NODE_BYTES);
	injected = 0;
}

static void close_both(void)
{
	node_close(&from, NULL);
	node_close(&to, NULL);
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_close(adapters[i]));
}

/* ---- Packets -------------------------------------------------------------------------------- */

/* How a packet is changed before it is sent. */
struct harm {
	size_t flip;   /* this byte, counted from the end; 0: none */
	size_t length; /* 0: as it is */
	uint8_t host;  /* last byte of the source address; 0: 1 */
};

static struct iba_packet good_write(void)
{
	return (struct iba_packet){
		.opcode = iba_opcode(IBA_RC, IBA_WRITE_ONLY),
		.dest_qp = weft_qp_number(to.qp),
		.p_key = IBA_PKEY_DEFAULT,
		.psn = P0,
		.is_ack_requested = true,
		.va = (uintptr_t)to.memory,
		.r_key = to.tag,
		.dma_bytes = BYTES,
	};
}

static void send_from(uint8_t host, const uint8_t *bytes, size_t length)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(0x7f000000 + host) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	REQUIRE(fd >= 0 && bind(fd, (void *)&at, sizeof(at)) == 0);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons(IBA_UDP_PORT);
	REQUIRE(sendto(fd, bytes, length, 0, (void *)&at, sizeof(at)) == (ssize_t)length);
	close(fd);
}

/*
 * The kernel does not tell the receiver the IPv4 identification, for one of which random bytes may
 * be the right ICRC: every so many thousandth packet.
 */
static bool is_right_for_some_id(const struct iba_icrc_ip *ip, const uint8_t *packet, size_t length)
{
	uint32_t begin = iba_icrc_begin(ip, (uint32_t)length), word;

	if (length < IBA_BTH_BYTES + IBA_ICRC_BYTES || length % 4 != 0 || length > IBA_PACKET_MAX)
		return false;
	word = iba_icrc_ipv4_word(iba_icrc_differs(begin, packet, length),
				  iba_icrc_factor((uint32_t)length));
	return (word & 0xffff) == 0 || (word & 0xffff) == IBA_IPV4_DF;
}

static void inject(struct iba_packet p, uint32_t bytes, const struct harm *harm)
{
	static uint8_t packet[LARGE];
	const uint8_t host = harm && harm->host ? harm->host : 1;
	const struct inet_end source = { .address = { 127, 0, 0, host }, .port = PORT };
	const struct inet_end here = { .address = { 127, 0, 0, 1 }, .port = IBA_UDP_PORT };
	/* The kernel numbers such a packet 0, and forbids to cut it. */
	const struct iba_icrc_ip ip = { .from = &source,
					.to = &here,
					.ipv4_fragment = IBA_IPV4_DF };
	uint32_t crc, at;

	memset(packet, 0xa5, sizeof(packet));
	p.pad = iba_pad(bytes);
	at = iba_encode(&p, packet);
	crc = iba_icrc_begin(&ip, iba_packet_bytes(p.opcode, bytes));
	crc = iba_icrc_add_packet(crc, packet, at + bytes);
	at += bytes;
	at += iba_trailer_encode(crc, p.pad, packet + at);
	if (harm && harm->flip)
		packet[at - harm->flip] ^= 1;
	if (harm && harm->length)
		at = (uint32_t)harm->length;
	if (harm && harm->length && is_right_for_some_id(&ip, packet, at))
		packet[at - 1] ^= 1;
	send_from(host, packet, at);
	injected++;
}

/* All packets, injected or sent by the two, were processed, or are for an unused slot. */
static bool is_all_seen(void)
{
	uint64_t sent = injected, seen = 0;

	for (int i = 0; i < 2; i++) {
		const struct roce *r;

		adapter_enter(adapters[i]);
		adapter_watch(adapters[i]);
		r = roce_of(adapters[i]->net);
		sent += ib_port_counts(r->port)->packets_out;
		seen += ib_port_counts(r->port)->packets_in + udp_counts(r->udp)->lost_on;
		adapter_leave(adapters[i]);
	}
	return seen == sent;
}

static void await_injected(void)
{
	uint64_t since = thread_now_ns();

	while (!is_all_seen())
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
}

static void expect_unchanged(void)
{
	REQUIRE(memcmp(shadow, to.memory, NODE_BYTES) == 0);
}

/* The true peer is served as if nothing had been. */
static void expect_alive(void)
{
	const struct weft_sge s = node_seg(&from, 0, BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, 1, &s, &to);
	struct weft_completion c;

	expect_unchanged();
	memset(from.memory, 0x3c, BYTES);
	REQUIRE(node_post(&from, &wr));
	REQUIRE(node_take(from.cq, &c));
	REQUIRE(memcmp(to.memory, from.memory, BYTES) == 0);
	REQUIRE(memcmp(to.memory + BYTES, shadow + BYTES, NODE_BYTES - BYTES) == 0);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/* Without this the others prove nothing: what is injected is wrong in what they change alone. */
TEST(test_roce_what_is_right_in_everything_is_taken)
{
	const char *why_not = own_network_enter();
	uint8_t wrote[BYTES];

	if (why_not)
		SKIP(why_not);
	open_both();
	inject(good_write(), BYTES, NULL);
	await_injected();
	memset(wrote, 0xa5, sizeof(wrote));
	EXPECT_MEM(to.memory, wrote, BYTES);
	EXPECT_MEM(to.memory + BYTES, shadow + BYTES, NODE_BYTES - BYTES);
	close_both();
}

TEST(test_roce_damaged_packets_leave_no_trace)
{
	static const struct harm harms[] = {
		{ .flip = 1 },	     { .flip = 4 },    { .flip = 5 },	   { .flip = 16 },
		{ .flip = 20 },	     { .flip = 32 },   { .length = 1 },	   { .length = 11 },
		{ .length = 12 },    { .length = 27 }, { .length = 32 },   { .length = 40 },
		{ .length = 45 },    { .length = 48 }, { .length = 2000 }, { .length = 9000 },
		{ .length = LARGE }, { .host = 2 },    { .host = 255 },
	};
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	open_both();
	for (size_t i = 0; i < sizeof(harms) / sizeof(*harms); i++)
		inject(good_write(), BYTES, &harms[i]);
	await_injected();
	expect_alive();
	close_both();
}

TEST(test_roce_forged_numbers_leave_no_trace)
{
	const char *why_not = own_network_enter();
	struct iba_packet p;

	if (why_not)
		SKIP(why_not);
	open_both();
	for (uint32_t i = 0; i < 24; i++) {
		p = good_write();
		p.psn ^= 1U << i;
		if (i > 0) /* the next one is kept until the expected one comes: docs/security.md */
			inject(p, BYTES, NULL);
		p = good_write();
		p.dest_qp ^= 1U << i;
		inject(p, BYTES, NULL);
	}
	p = good_write();
	p.p_key = 0x8001;
	inject(p, BYTES, NULL);
	p = good_write();
	p.opcode = iba_opcode(IBA_UC, IBA_WRITE_ONLY);
	inject(p, BYTES, NULL);
	/* Acknowledgements, and refusals, of what was never sent. */
	p = good_write();
	p.opcode = iba_opcode(IBA_RC, IBA_ACKNOWLEDGE);
	p.syndrome = iba_syndrome_ack(31);
	inject(p, 0, NULL);
	p.syndrome = iba_syndrome_nak(IBA_NAK_ACCESS);
	inject(p, 0, NULL);
	await_injected();
	expect_alive();
	close_both();
}

/* Packets for an unused slot are dropped without an answer. */
TEST(test_roce_a_flood_to_an_unused_slot_is_not_answered)
{
	const char *why_not = own_network_enter();
	uint64_t out = 0;

	if (why_not)
		SKIP(why_not);
	open_both();
	for (uint32_t i = 0; i < FLOOD; i++) {
		struct iba_packet p = good_write();

		p.dest_qp = (0x00f000 + i * 0x10101) & MASK; /* of all places, and of none */
		inject(p, BYTES, NULL);
		if (i % BATCH == BATCH - 1)
			await_injected(); /* else the kernel's sockets would drop them */
	}
	for (int i = 0; i < 2; i++) {
		adapter_enter(adapters[i]);
		out += ib_port_counts(roce_of(adapters[i]->net)->port)->packets_out;
		adapter_leave(adapters[i]);
	}
	expect_alive();
	close_both();
	EXPECT_EQ(out, 0);
}

/*
 * An attacker that knows the numbers can end the connection by a wrong key or range, and no more.
 */
TEST(test_roce_forged_keys_and_ranges_leave_no_trace)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 4; i++) {
		struct iba_packet p;
		enum weft_qp_state state;
		enum weft_reason reason;

		open_both();
		p = good_write();
		p.r_key ^= i == 0 ? 1 : i == 1 ? 0x100 : 0;
		p.va += i == 2 ? NODE_BYTES - BYTES + 1 : 0;
		p.va -= i == 3;
		inject(p, BYTES, NULL);
		await_injected();
		expect_unchanged();
		adapter_enter(adapters[1]);
		state = to.qp->state;
		reason = to.qp->reason;
		adapter_leave(adapters[1]);
		close_both();
		EXPECT_EQ(state, WEFT_QPS_ERROR);
		EXPECT_STR(weft_reason_name(reason),
			   weft_reason_name(i == 0   ? WEFT_R_TAG_INSTANCE
					    : i == 1 ? WEFT_R_TAG_INVALID
						     : WEFT_R_RANGE_BOUNDS));
	}
}

/* No RoCE packet is that long, but any process can send one. */
TEST(test_roce_a_capture_lasts_when_the_longest_datagram_comes)
{
	static const uint8_t bytes[LARGEST];
	const char *why_not = own_network_enter();
	struct sockaddr_in6 at = { .sin6_family = AF_INET6,
				   .sin6_port = htons(IBA_UDP_PORT),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char path[64];

	if (why_not || fd < 0)
		SKIP(why_not ? why_not : "there is no IPv6");
	snprintf(path, sizeof(path), "/tmp/roce_hostile_%d.pcapng", (int)getpid());
	open_both();
	for (int i = 0; i < 2; i++)
		MUST(weft_capture_start(adapters[i], path));
	REQUIRE(sendto(fd, bytes, LARGEST, 0, (void *)&at, sizeof(at)) == LARGEST);
	injected++;
	await_injected();
	expect_alive();
	close_both();
	close(fd);
	unlink(path);
}
