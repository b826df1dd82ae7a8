/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "lan/frame.h"

TEST(test_lan_frames_of_13_and_of_65536_bytes_are_refused)
{
	struct lan_frame f = { .length = 13 };

	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_SHORT);
	f.length = 14;
	EXPECT_EQ(lan_frame_check(&f), WEFT_OK);
	f.length = 65535;
	EXPECT_EQ(lan_frame_check(&f), WEFT_OK);
	f.length = 65536;
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_LONG);
}

TEST(test_lan_checksum_lies_in_the_frame)
{
	struct lan_frame f = {
		.length = 60,
		.net = { .flags = VIRTIO_NET_NEEDS_CSUM, .csum_start = 42, .csum_offset = 16 }
	};

	EXPECT_EQ(lan_frame_check(&f), WEFT_OK);
	f.net.csum_offset = 17;
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_OFFLOAD);
	f.net.csum_start = 65535;
	f.net.csum_offset = 65535;
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_OFFLOAD);
	f.net.csum_start = 13;
	f.net.csum_offset = 0;
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_OFFLOAD);
	/* Without the flag the offsets mean nothing. */
	f.net.flags = 0;
	EXPECT_EQ(lan_frame_check(&f), WEFT_OK);
}

TEST(test_lan_segments_have_a_kind_a_size_and_a_checksum)
{
	const struct lan_frame good = { .length = 4000,
					.net = { .flags = VIRTIO_NET_NEEDS_CSUM,
						 .gso_type = VIRTIO_NET_GSO_TCPV4,
						 .gso_size = 1448,
						 .csum_start = 34,
						 .csum_offset = 16 } };
	struct lan_frame f = good;

	EXPECT_EQ(lan_frame_check(&f), WEFT_OK);
	f.net.gso_size = 0;
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_OFFLOAD);
	f = good;
	f.net.flags = 0;
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_OFFLOAD);
	f = good;
	f.net.gso_type = 3; /* UFO, which Linux has no more */
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_OFFLOAD);
	f.net.gso_type = VIRTIO_NET_GSO_UDP_L4 | VIRTIO_NET_GSO_ECN;
	EXPECT_EQ(lan_frame_check(&f), WEFT_R_LAN_OFFLOAD);
}

TEST(test_lan_flags_that_are_unknown_are_cleared)
{
	struct lan_frame f = { .length = 60, .net.flags = 0xfe };

	EXPECT_EQ(lan_frame_check(&f), WEFT_OK);
	EXPECT_EQ(f.net.flags, VIRTIO_NET_DATA_VALID);
}

TEST(test_lan_what_a_frame_needs_of_its_receiver)
{
	struct lan_frame f = { .length = 4000 };

	EXPECT_EQ(lan_frame_needs(&f), 0);
	f.net.flags = VIRTIO_NET_NEEDS_CSUM;
	EXPECT_EQ(lan_frame_needs(&f), LAN_CSUM);
	f.net.gso_type = VIRTIO_NET_GSO_TCPV4 | VIRTIO_NET_GSO_ECN;
	EXPECT_EQ(lan_frame_needs(&f), LAN_CSUM | LAN_TSO4 | LAN_TSO_ECN);
	f.net.gso_type = VIRTIO_NET_GSO_TCPV6;
	EXPECT_EQ(lan_frame_needs(&f), LAN_CSUM | LAN_TSO6);
	f.net.gso_type = VIRTIO_NET_GSO_UDP_L4;
	EXPECT_EQ(lan_frame_needs(&f), LAN_CSUM | LAN_USO);
}

/* VIRTIO 1.2 section 5.1.6: little endian, in this order. */
TEST(test_lan_virtio_net_header_byte_for_byte)
{
	static const uint8_t bytes[VIRTIO_NET_BUFFERS_BYTES] = { 1,    0x84, 0x42, 0,	 0xa8, 5,
								 0x22, 0,    0x10, 0x01, 3,    2 };
	uint8_t again[VIRTIO_NET_BUFFERS_BYTES];
	struct virtio_net h = { .buffers = 7 };

	virtio_net_decode(&h, bytes, VIRTIO_NET_BYTES);
	EXPECT_EQ(h.flags, VIRTIO_NET_NEEDS_CSUM);
	EXPECT_EQ(h.gso_type, VIRTIO_NET_GSO_TCPV6 | VIRTIO_NET_GSO_ECN);
	EXPECT_EQ(h.hdr_len, 0x42);
	EXPECT_EQ(h.gso_size, 0x5a8);
	EXPECT_EQ(h.csum_start, 0x22);
	EXPECT_EQ(h.csum_offset, 0x110);
	EXPECT_EQ(h.buffers, 7);
	virtio_net_decode(&h, bytes, VIRTIO_NET_BUFFERS_BYTES);
	EXPECT_EQ(h.buffers, 0x203);
	virtio_net_encode(&h, again);
	EXPECT_MEM(again, bytes, sizeof(bytes));
}
