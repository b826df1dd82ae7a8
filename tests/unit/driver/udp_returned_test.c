/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC-04: packets that come back, as the kernel of the host that they were sent to says. A side
 * stops receiving (udp_hand_on_rest), so the kernel answers for it; or a raw socket forges that.
 */
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cursor.h"
#include "udp_fixture.h"

enum { FROM_PORT = 0xc005, PEER_QP = 0x123456, UDP_BYTES = 8, QUOTED = 20 + UDP_BYTES };

static const uint8_t sender[4] = { 127, 0, 0, 1 }, receiver[4] = { 127, 0, 0, 7 },
		     router[4] = { 127, 0, 0, 9 };

static struct udp_side a;
static struct udp_side *both[] = { &a };
static uint32_t psn;

/* One packet, which must leave whatever has come back of others. */
static void send_one(const struct ib_path *path)
{
	struct ib_out out;

	make(&out, &(struct making){ .path = path, .dest_qp = PEER_QP, .psn = ++psn });
	side_send(&a, &out, 1);
	sides_pump(both, 1);
}

static void expect_returned(const struct ib_path *path, uint32_t of_psn)
{
	struct ib_returned packet = { .is_ipv6 = !path->is_ipv6 };

	EXPECT(udp_next_returned(a.udp, &packet));
	EXPECT_EQ(packet.is_ipv6, path->is_ipv6);
	EXPECT(memcmp(&packet.from, &path->from, sizeof(packet.from)) == 0);
	EXPECT(memcmp(&packet.to, &path->to, sizeof(packet.to)) == 0);
	EXPECT_EQ(iba_dest_qp(packet.bytes, sizeof(packet.bytes)), PEER_QP);
	EXPECT_EQ(iba_psn(packet.bytes), of_psn);
	EXPECT(iba_is_request(packet.bytes, sizeof(packet.bytes)));
}

static void expect_none(void)
{
	struct ib_returned packet;

	EXPECT(!udp_next_returned(a.udp, &packet));
}

TEST(test_rc_04_what_no_process_receives_comes_back)
{
	const struct ib_path paths[] = { path_of("127.0.0.1", "127.0.0.7", FROM_PORT),
					 path_of("::1", "::1", FROM_PORT) };

	WORLD_OR_SKIP();
	side_open(&a);
	send_one(&paths[0]);
	send_one(&paths[0]);
	expect_none(); /* here it is received */
	udp_hand_on_rest(a.udp);
	for (int i = 0; i < 2; i++) {
		send_one(&paths[i]);
		expect_none(); /* not known yet */
		send_one(&paths[i]);
		expect_returned(&paths[i], psn - 1);
		expect_none();
	}
	side_close(&a);
}

/* ---- Forged --------------------------------------------------------------------------------- */

static uint16_t checksum(const uint8_t *bytes, size_t length)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < length; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* About a packet that was sent to `receiver`, of which so many bytes are quoted. */
static void forge(const uint8_t from[4], uint8_t code, size_t quoted)
{
	uint8_t bytes[8 + QUOTED + IBA_HEADERS_MAX] = { ICMP_DEST_UNREACH, code };
	const struct iba_packet p = { .opcode = iba_opcode(IBA_RC, IBA_SEND_ONLY),
				      .dest_qp = PEER_QP,
				      .psn = psn };
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct wr w = wr_of(bytes + 8, sizeof(bytes) - 8);
	size_t length = 8 + QUOTED + quoted;
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);

	REQUIRE(fd >= 0);
	wr_u16(&w, 0x4500);
	wr_u16(&w, 1000);
	wr_u32(&w, 0x4000); /* identification, DF */
	wr_u32(&w, 64 << 24 | IPPROTO_UDP << 16);
	wr_bytes(&w, sender, 4);
	wr_bytes(&w, receiver, 4);
	wr_u16(&w, FROM_PORT);
	wr_u16(&w, IBA_UDP_PORT);
	wr_u32(&w, 980 << 16);
	(void)iba_encode(&p, bytes + 8 + QUOTED);
	w = wr_of(bytes + 2, 2);
	wr_u16(&w, checksum(bytes, length));
	memcpy(&at.sin_addr, from, 4);
	REQUIRE(bind(fd, (void *)&at, sizeof(at)) == 0);
	memcpy(&at.sin_addr, sender, 4);
	REQUIRE(sendto(fd, bytes, length, 0, (void *)&at, sizeof(at)) == (ssize_t)length);
	close(fd);
	sides_pump(both, 1);
}

/* Only the receiver knows what it receives; a router that finds no way may find one later. */
TEST(test_rc_04_what_others_say_of_a_receiver_does_not_count)
{
	const struct ib_path path = path_of("127.0.0.1", "127.0.0.7", FROM_PORT);

	WORLD_OR_SKIP();
	side_open(&a);
	send_one(&path);
	forge(router, ICMP_PORT_UNREACH, IBA_BTH_BYTES);
	send_one(&path);
	forge(receiver, ICMP_HOST_UNREACH, IBA_BTH_BYTES);
	send_one(&path);
	forge(receiver, ICMP_FRAG_NEEDED, IBA_BTH_BYTES);
	send_one(&path);
	forge(receiver, ICMP_PORT_UNREACH, IBA_BTH_BYTES - 2);
	send_one(&path);
	expect_none();
	forge(receiver, ICMP_PORT_UNREACH, IBA_BTH_BYTES); /* as it should be */
	send_one(&path);
	expect_returned(&path, psn - 1);
	expect_none();
	side_close(&a);
}

/* However many come, packets leave, and few are looked at until time has passed. */
TEST(test_rc_04_a_flood_of_errors_costs_little)
{
	const struct ib_path path = path_of("127.0.0.1", "127.0.0.7", FROM_PORT);
	struct ib_returned packet;
	uint32_t taken = 0;

	WORLD_OR_SKIP();
	side_open(&a);
	send_one(&path);
	for (int i = 0; i < 64; i++) {
		forge(receiver, ICMP_PORT_UNREACH, IBA_BTH_BYTES);
		if (i % 4 == 3)
			send_one(&path);
		taken += udp_next_returned(a.udp, &packet);
	}
	EXPECT(taken >= 1 && taken <= 16);
	while (udp_next_returned(a.udp, &packet))
		EXPECT(++taken <= 16);
	udp_retry_slots(a.udp);
	forge(receiver, ICMP_PORT_UNREACH, IBA_BTH_BYTES);
	send_one(&path);
	expect_returned(&path, psn - 1);
	side_close(&a);
}
