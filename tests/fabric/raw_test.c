/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv6 packets of other protocols in a fabric, and the bridge to those of the host. */
#include <string.h>

#include "driver/roce/roce_line.h"
#include "fabric/verbs_end.h"
#include "test.h"

enum { HEADER = 40, TEXT = 33, PACKET = HEADER + TEXT, FIRST = 200, SECOND = 201 };

/* An IPv6 header, and text. */
static void packet_write(uint8_t *to, uint8_t next_header, uint8_t host)
{
	static const uint8_t net[] = { 0x20, 0x01, 0x0d, 0xb8 };

	memset(to, 0, HEADER);
	to[0] = 6 << 4;
	to[5] = TEXT;
	to[6] = next_header;
	to[7] = 64;
	memcpy(to + 8, net, sizeof(net));
	memcpy(to + 24, net, sizeof(net));
	to[23] = 1;
	to[39] = host;
	memset(to + HEADER, host + next_header, TEXT);
}

static void to_raw(struct weft_qp *qp, uint8_t next_header, uint8_t host)
{
	const struct weft_roce_attr how = { .path.mtu_bytes = 1024, .q_key = Q_KEY };
	struct weft_raw_options raw = { .next_header = next_header };

	if (host != 0)
		raw.to = (struct weft_address){ .family = 6,
						.ip = { 0x20, 0x01, 0x0d, 0xb8, [15] = host } };
	MUST(weft_qp_to_rtr(qp, &how));
	MUST(weft_qp_to_rts(qp, &how));
	MUST(weft_qp_to_raw(qp, &raw));
}

static void packet_send(uint8_t next_header, uint8_t host, struct weft_ah *ah)
{
	struct weft_sge sge = { (uintptr_t)ends[0].memory, PACKET, ends[0].tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND, .sges = &sge, .sge_count = 1, .ah = ah };
	uint32_t posted;

	packet_write(ends[0].memory, next_header, host);
	MUST(weft_qp_post_send(ends[0].qp, &wr, 1, &posted));
	EXPECT_EQ(end_await(&ends[0]).status, WEFT_SUCCESS);
}

/* RAW-02, RAW-03: two clients at a port have what is for them, as it stood at the other one. */
TEST(test_raw_01_raw_02_raw_03_ipv6_packets_cross_a_fabric_to_their_clients)
{
	const struct weft_path path = fabric_bed_path(0, 1, false);
	const struct weft_qp_options qo = { .service = WEFT_UD };
	struct weft_qp_options two = qo;
	struct weft_recv_wr recv = { .id = 2, .sge_count = 1 };
	struct weft_qp *second;
	struct weft_sge sge;
	struct weft_ah *ah;
	uint32_t posted;

	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_UD);
	two.send_cq = two.recv_cq = ends[1].cq;
	MUST(weft_qp_create(ends[1].pd, &two, &second));
	to_raw(ends[0].qp, FIRST, 1);
	to_raw(ends[1].qp, FIRST, 0);
	to_raw(second, SECOND, 9);
	MUST(weft_ah_create(ends[0].pd, &path, &ah));
	recv_post(&ends[1]);
	sge = (struct weft_sge){ (uintptr_t)ends[1].memory + BYTES / 2, PACKET, ends[1].tag };
	recv.sges = &sge;
	MUST(weft_qp_post_recv(second, &recv, 1, &posted));
	packet_send(SECOND, 8, ah);   /* for no client: to another address */
	packet_send(SECOND, 9, NULL); /* for no port */
	packet_send(SECOND, 9, ah);
	packet_send(FIRST, 7, ah);
	for (int i = 0; i < 2; i++) {
		struct weft_completion c = end_await(&ends[1]);
		bool is_second = c.id == 2;
		uint8_t wanted[PACKET];

		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.byte_count, PACKET);
		EXPECT_EQ(c.qp_number, weft_qp_number(is_second ? second : ends[1].qp));
		packet_write(wanted, is_second ? SECOND : FIRST, is_second ? 9 : 7);
		EXPECT_MEM(ends[1].memory + (is_second ? BYTES / 2 : 0), wanted, PACKET);
	}
	EXPECT_EQ(fabric_bed_counts().refused, 0); /* without a handle it did not leave */
	MUST(weft_ah_destroy(ah));
	MUST(weft_qp_destroy(second));
	datagrams_close();
}

/* Raw packets in one post, by this handle; the first one may have none. */
static void burst_post(struct weft_ah *first, struct weft_ah *ah, uint32_t bytes, uint32_t count)
{
	static struct weft_send_wr wrs[SENDS_MAX];
	struct weft_sge sge = { (uintptr_t)ends[0].memory, bytes, ends[0].tag };
	uint32_t posted;

	for (uint32_t i = 0; i < count; i++)
		wrs[i] = (struct weft_send_wr){ .id = i,
						.opcode = WEFT_OP_SEND,
						.sges = &sge,
						.sge_count = 1,
						.ah = i == 0 ? first : ah };
	MUST(weft_qp_post_send(ends[0].qp, wrs, count, &posted));
}

static void burst_await(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct weft_completion c = end_await(&ends[0]);

		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.id, i);
	}
}

static struct weft_ah *bursts_open(void)
{
	const struct weft_path path = fabric_bed_path(0, 1, false);
	struct weft_ah *ah;

	for (int i = 0; i < 2; i++)
		end_open(&ends[i], i, WEFT_UD);
	to_raw(ends[0].qp, FIRST, 0);
	MUST(weft_ah_create(ends[0].pd, &path, &ah));
	packet_write(ends[0].memory, FIRST, 7);
	return ah;
}

/* RAW-02: one that has no way holds none up that follows it. */
TEST(test_raw_02_packet_without_a_handle_delays_none_behind_it)
{
	struct weft_ah *ah = bursts_open();

	burst_post(NULL, ah, PACKET, 3);
	burst_await(3);
	MUST(weft_ah_destroy(ah));
	datagrams_close();
}

/* RAW-02: more than take a turn, and than the ring to the fabric has room for. */
TEST(test_raw_02_packets_that_wait_for_their_turn_or_for_room_are_all_sent)
{
	enum { BURSTS = 300, LONG = 1024 };
	struct weft_ah *ah = bursts_open();

	fabric_bed_stay_awake();
	for (int i = 0; i < BURSTS; i++) {
		fabric_bed_hold();
		burst_post(ah, ah, LONG, SENDS_MAX);
		fabric_bed_release();
		burst_await(SENDS_MAX);
	}
	MUST(weft_ah_destroy(ah));
	datagrams_close();
}

/* RAW-03: an interface that cannot be opened leaves the raw packets of the port to others. */
TEST(test_raw_03_failed_bridge_claims_no_raw_packets)
{
	struct weft_adapter *bridge;

	end_open(&ends[0], 0, WEFT_UD);
	MUST(weft_adapter_open(NULL, &bridge));
	EXPECT_EQ(weft_raw_open(bridge, ""), WEFT_R_TUN_NAME);
	to_raw(ends[0].qp, FIRST, 1);
	MUST(weft_adapter_close(bridge));
	end_close(&ends[0]);
	fabric_bed_close();
}

/* ---- RAW-02: a bridge ------------------------------------------------------------------------ */

/* The host's packet to an address; why it did not go. */
static enum weft_reason host_sends(const uint8_t to[16])
{
	struct weft_roce_counts before, after;
	uint8_t packet[PACKET];
	struct roce *roce;

	packet_write(packet, FIRST, 0);
	memcpy(packet + 24, to, 16);
	MUST(weft_roce_query(ends[0].adapter, &before));
	adapter_enter(ends[0].adapter);
	MUST(roce_get(ends[0].adapter, &roce));
	roce_line_bridge(roce, packet, sizeof(packet));
	roce_line_flush(roce);
	adapter_leave(ends[0].adapter);
	MUST(weft_roce_query(ends[0].adapter, &after));
	return after.refused > before.refused ? after.refused_for : WEFT_OK;
}

/* Asks again while the bridge may not ask the fabric. */
static enum weft_reason host_sends_in_time(const uint8_t to[16])
{
	enum weft_reason r = host_sends(to);

	while (r == WEFT_R_BUSY)
		r = host_sends(to);
	return r;
}

TEST(test_raw_02_bridge_knows_ports_of_its_subnet_and_asks_seldom)
{
	const struct weft_path path = fabric_bed_path(0, 1, true);
	uint8_t group[16] = { 0xff, 2, [15] = 1 }, far[16], none[16];
	bool was_busy = false;

	datagrams_open();
	memcpy(far, path.to.ip, sizeof(far));
	memcpy(none, path.to.ip, sizeof(none));
	far[7] ^= 1;
	none[14] ^= 0x40;
	EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
	EXPECT_EQ(host_sends_in_time(none), WEFT_R_PEER_UNKNOWN);
	EXPECT_EQ(host_sends_in_time(path.from.ip), WEFT_R_PEER_UNKNOWN);
	/* The first is asked for; those that follow at once are not. */
	for (int i = 0; i < 1000 && !was_busy; i++) {
		EXPECT_EQ(host_sends(group), WEFT_R_PEER_UNKNOWN);
		EXPECT_EQ(host_sends(far), WEFT_R_PEER_UNKNOWN);
		none[8] = (uint8_t)i;
		none[9] = (uint8_t)(i >> 8 | 0x80);
		was_busy = host_sends(none) == WEFT_R_BUSY;
	}
	EXPECT(was_busy);
	datagrams_close();
}

/* Bound: the ring has room for fewer. Late, when the bridge would have to ask: tried anew. */
TEST(test_raw_02_bridge_says_when_there_is_no_room)
{
	enum { TRIES = 20, PACKETS_MAX = 1 << 15 };
	const struct weft_path path = fabric_bed_path(0, 1, true);
	enum weft_reason r = WEFT_OK;

	datagrams_open();
	for (int i = 0; i < TRIES && r != WEFT_R_QUEUE_FULL; i++) {
		EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
		fabric_bed_hold();
		r = WEFT_OK;
		for (int n = 0; n < PACKETS_MAX && r == WEFT_OK; n++)
			r = host_sends(path.to.ip);
		fabric_bed_release();
	}
	EXPECT_EQ(r, WEFT_R_QUEUE_FULL);
	datagrams_close();
}

/* FAB-13: the ring of a fabric that does not read is full, so the last words have no room. */
TEST(test_fab_13_adapter_closes_though_the_fabric_does_not_read)
{
	enum { PACKETS_MAX = 1 << 15 };
	const struct weft_path path = fabric_bed_path(0, 1, true);
	enum weft_reason r = WEFT_R_BUSY;

	datagrams_open();
	EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
	fabric_bed_hold();
	for (int n = 0; n < PACKETS_MAX && r != WEFT_R_QUEUE_FULL; n++)
		r = host_sends(path.to.ip);
	EXPECT_EQ(r, WEFT_R_QUEUE_FULL);
	end_close(&ends[0]);
	fabric_bed_release();
	end_close(&ends[1]);
	fabric_bed_close();
}

/* What the connection manager knows of a peer stays, whatever the bridge looks for. */
TEST(test_raw_02_bridge_leaves_routes_of_the_connection_manager)
{
	const struct weft_path path = fabric_bed_path(0, 1, true);
	struct weft_path told = { .to = path.to };
	struct ib_path known;
	struct roce *roce;

	datagrams_open();
	MUST(roce_path_of(&path, &known));
	adapter_enter(ends[0].adapter);
	MUST(roce_get(ends[0].adapter, &roce));
	roce_line_learn(roce, &known);
	adapter_leave(ends[0].adapter);
	EXPECT_EQ(host_sends_in_time(path.to.ip), WEFT_OK);
	roce_line_tell(roce, &told);
	EXPECT_EQ(told.to_lid, path.to_lid);
	EXPECT_EQ(told.service_level, path.service_level);
	datagrams_close();
}

TEST(test_raw_03_number_of_raw_packets_is_no_service)
{
	struct roce *roce;

	end_open(&ends[0], 0, WEFT_UD);
	adapter_enter(ends[0].adapter);
	MUST(roce_get(ends[0].adapter, &roce));
	EXPECT_EQ(roce_line_claim(roce, UINT64_MAX), WEFT_R_BAD_ARGUMENT);
	adapter_leave(ends[0].adapter);
	end_close(&ends[0]);
	fabric_bed_close();
}
