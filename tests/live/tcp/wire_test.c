/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP over the kernel's TCP on a wire that the tests hold in their hands. */
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "live/tcp/wire_fixture.h"
#include "wire/mpa.h"

enum { BYTES = 9000, HALF = NODE_BYTES / 2, ROUNDS = 30, ROUNDS_MAX = 1000 };

static struct wire wire;
static struct tcp_end near, far;

static void fill(uint8_t *bytes, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256 * 31 + seed * 101);
}

static void receive(struct node *n, uint64_t id, uint32_t length)
{
	const struct weft_sge s = node_seg(n, HALF, length);
	const struct weft_recv_wr wr = { .id = id, .sges = &s, .sge_count = 1 };

	MUST(weft_qp_post_recv(n->qp, &wr, 1, NULL));
}

static void post(enum weft_opcode opcode, uint64_t id, uint32_t at, uint32_t length)
{
	const struct weft_sge s = node_seg(&near.node, at, length);
	struct weft_send_wr wr = node_wr(opcode, id, &s, &far.node);

	MUST(weft_qp_post_send(near.node.qp, &wr, 1, NULL));
}

static void ends_well(struct node *n, uint64_t id)
{
	struct weft_completion c;

	REQUIRE(node_take(n->cq, &c));
	EXPECT_EQ(c.id, id);
}

/* A Send that finds its receive late, a Write, and a Read of what was written. */
static void talk(uint32_t round)
{
	uint32_t length = 1 + round * 977 % BYTES;
	uint8_t *mine = near.node.memory;
	struct weft_completion c;
	bool has_completion;

	fill(mine, BYTES, round);
	post(WEFT_OP_SEND, 1, 0, length);
	MUST(node_poll(far.node.cq, &c, &has_completion) ? WEFT_OK : WEFT_R_CQ_OVERRUN);
	REQUIRE(!has_completion); /* it has no receive yet */
	receive(&far.node, round, BYTES);
	ends_well(&far.node, round);
	ends_well(&near.node, 1);
	EXPECT_MEM(far.node.memory + HALF, mine, length);
	post(WEFT_OP_WRITE, 2, 0, BYTES);
	post(WEFT_OP_READ, 3, HALF, BYTES);
	ends_well(&near.node, 2);
	ends_well(&near.node, 3);
	EXPECT_MEM(mine + HALF, mine, BYTES);
}

static void wire_end(void)
{
	tcp_end_close(&near);
	tcp_end_close(&far);
	wire_close(&wire);
}

/* Each fault has happened so often. */
static bool has_suffered(uint32_t times)
{
	return atomic_load(&wire.flipped) >= times && atomic_load(&wire.lost) >= times &&
	       atomic_load(&wire.repeated) >= times && atomic_load(&wire.held) >= times;
}

TEST(test_iwarp_15_bit_errors_losses_and_underruns_are_not_seen)
{
	const struct wire_faults faults = { .flip = 10, .lose = 10, .repeat = 10, .hold = 10 };
	const char *why_not = wire_open(&wire, &faults, 0);

	if (why_not)
		SKIP(why_not);
	wire_connect(&wire, &near, &far);
	for (uint32_t round = 1; round <= ROUNDS || !has_suffered(5); round++) {
		REQUIRE(round < ROUNDS_MAX);
		talk(round);
	}
	wire_end();
}

/* What TCP's checksum misses the CRC of MPA sees: nothing of that message is delivered. */
TEST(test_iwarp_15_rfc5044_4_4_a_bit_error_that_tcp_misses_ends_the_stream)
{
	static const uint32_t sizes[] = { 300, BYTES };

	for (int i = 0; i < 2; i++) {
		const char *why_not = wire_open(&wire, &(struct wire_faults){ 0 }, 0);
		struct weft_completion c;
		struct weft_qp_attr attr;

		if (why_not)
			SKIP(why_not);
		wire_connect(&wire, &near, &far);
		for (uint32_t round = 1; round <= 3; round++)
			talk(round);
		fill(near.node.memory, BYTES, 9);
		receive(&far.node, 9, BYTES);
		atomic_store(&wire.swap_at, 200);
		post(WEFT_OP_SEND, 1, 0, sizes[i]);
		EXPECT(!node_take(far.node.cq, &c));
		EXPECT_EQ(c.id, 9);
		EXPECT_EQ(c.status, WEFT_ERR_FLUSHED);
		EXPECT_EQ(atomic_load(&wire.swap_at), 0);
		MUST(weft_qp_query(far.node.qp, &attr));
		EXPECT_EQ(attr.state, WEFT_QPS_ERROR);
		EXPECT_EQ(attr.reason, WEFT_R_MPA_CRC);
		wire_end();
	}
}

/* ---- What is on it -------------------------------------------------------------------------- */

enum { IP_ADDRESSES = 12, TCP = 6, SYN = 2, STREAM_MAX = 1 << 20 };

struct tcp_view {
	uint32_t sn, bytes;
	uint8_t flags;
	const uint8_t *payload;
};

static uint32_t u32_of(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* IWARP-01a, IWARP-01b: addresses and ports are those of the connection in every packet. */
static struct tcp_view view_of(const struct wire_packet *p, uint16_t *from_port)
{
	const struct weft_address from = wire_address(0), to = wire_address(1);
	uint32_t ip_bytes = (uint32_t)(p->data[0] & 0xf) * 4;
	const uint8_t *tcp = p->data + ip_bytes;
	uint32_t at = ip_bytes + (uint32_t)(tcp[12] >> 4) * 4;
	uint16_t port = (uint16_t)(tcp[0] << 8 | tcp[1]);

	REQUIRE(p->data[0] >> 4 == 4 && p->data[9] == TCP);
	REQUIRE(memcmp(p->data + IP_ADDRESSES, from.ip, 4) == 0);
	REQUIRE(memcmp(p->data + IP_ADDRESSES + 4, to.ip, 4) == 0);
	if (*from_port == 0)
		*from_port = port;
	REQUIRE(port == *from_port && (tcp[2] << 8 | tcp[3]) == far.at.port);
	return (struct tcp_view){ u32_of(tcp + 4), p->bytes - at, tcp[13], p->data + at };
}

/* The bytes of the connection, each at the place that its number says. Returns how many. */
static size_t stream_of(const struct wire *w, uint8_t *stream)
{
	uint16_t port = 0;
	uint32_t first = 0;
	size_t end = 0;

	for (uint32_t i = 0; i < w->record_count; i++) {
		struct tcp_view v = view_of(&w->record[i], &port);
		uint32_t at = v.sn - first;

		if (v.flags & SYN) {
			first = v.sn + 1; /* set at connection */
			continue;
		}
		REQUIRE(at <= end && at + v.bytes <= STREAM_MAX); /* no gap */
		memcpy(stream + at, v.payload, v.bytes);
		end = at + v.bytes > end ? at + v.bytes : end;
	}
	return end;
}

/* IWARP-01c, IWARP-01e: frame after frame, to the very last byte, each with its CRC. */
static uint32_t count_frames(const uint8_t *stream, size_t length, size_t *payload)
{
	size_t at = MPA_START_BYTES + (size_t)(stream[18] << 8 | stream[19]);
	uint32_t frames = 0;

	REQUIRE(memcmp(stream, "MPA ID Req Frame", 16) == 0);
	for (; at < length; frames++) {
		uint32_t ulpdu = (uint32_t)(stream[at] << 8 | stream[at + 1]);
		uint32_t covered = mpa_fpdu_bytes(ulpdu) - MPA_CRC_BYTES;
		bool is_tagged = stream[at + 2] & 0x80;

		REQUIRE(at + covered + MPA_CRC_BYTES <= length);
		REQUIRE(crc32c_end(crc32c_add(CRC32C_BEGIN, stream + at, covered)) ==
			mpa_crc_decode(stream + at + covered));
		*payload += ulpdu - (is_tagged ? 14 : 18);
		at += mpa_fpdu_bytes(ulpdu);
	}
	REQUIRE(at == length);
	return frames;
}

TEST(test_iwarp_01_iwarp_01a_iwarp_01b_frames_in_the_packets_of_a_wire)
{
	const char *why_not = wire_open(&wire, &(struct wire_faults){ 0 }, 2000);
	uint8_t *stream = calloc(1, STREAM_MAX);
	struct weft_traffic traffic;
	size_t length, payload = 0;

	REQUIRE(stream);
	if (why_not) {
		free(stream);
		SKIP(why_not);
	}
	wire_connect(&wire, &near, &far);
	for (uint32_t round = 1; round <= 5; round++)
		talk(round);
	MUST(weft_qp_traffic(near.node.qp, &traffic));
	wire_stop(&wire);
	REQUIRE(wire.record_count > 0 && wire.record_count < wire.record_max);
	length = stream_of(&wire, stream);
	EXPECT(count_frames(stream, length, &payload) >= 15);
	/* The numbers count every byte: of headers, payload and CRC alike. */
	EXPECT_EQ(payload, traffic.payload_out + 5 * 28); /* and the bodies of Read Requests */
	EXPECT(length > payload + 15 * (MPA_HEADER_BYTES + MPA_CRC_BYTES));
	free(stream);
	wire_end();
}
