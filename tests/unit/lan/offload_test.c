/* SPDX-License-Identifier: BSD-2-Clause */
/* Checksums and segments, judged by sums that are computed here, byte for byte. */
#include "test.h"

#include <string.h>

#include "lan/offload.h"

enum { ROOM = 65536, TCP = 6, UDP = 17, OPTIONS = 12, ROUTE = 24 };

struct form {
	bool is_ipv6, is_udp;
	int vlans;
	bool has_extension; /* of IPv6; of IPv4: options */
	bool is_routed;	    /* IPv6: a routing header has the last address */
	uint32_t payload;
	uint16_t size;
	uint8_t flags; /* of TCP */
	bool is_ecn;
};

static void put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static uint32_t get16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
	return get16(at) << 16 | get16(at + 2);
}

/* The one's complement sum, word by word. */
static uint32_t sum_of(const uint8_t *bytes, uint32_t length, uint32_t sum)
{
	for (uint32_t i = 0; i < length; i++)
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
	while (sum > 0xffff)
		sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

static uint32_t ip_at(const struct form *form)
{
	return 14 + 4 * (uint32_t)form->vlans;
}

static uint32_t l4_at(const struct form *form)
{
	return ip_at(form) + (form->is_ipv6 ? 40 : 20) + (form->has_extension ? 8 : 0) +
	       (form->is_routed ? ROUTE : 0);
}

static uint32_t payload_at(const struct form *form)
{
	return l4_at(form) + (form->is_udp ? 8 : 20 + OPTIONS);
}

static uint32_t pseudo_sum(const struct form *form, const uint8_t *frame, uint32_t length)
{
	const uint8_t *ip = frame + ip_at(form);
	uint32_t sum = sum_of(ip + (form->is_ipv6 ? 8 : 12), form->is_ipv6 ? 32 : 8, 0);

	if (form->is_routed) /* RFC 8200 section 8.1 */
		sum = sum_of(ip + 48, 16, sum_of(ip + 8, 16, 0));
	sum += length - l4_at(form);
	return sum_of(NULL, 0, sum + (form->is_udp ? UDP : TCP));
}

static void make_ip(const struct form *form, uint8_t *ip, uint32_t length)
{
	uint8_t protocol = form->is_udp ? UDP : TCP;

	for (int i = 8; i < 40; i++)
		ip[i] = (uint8_t)(i * 11);
	if (form->is_ipv6) {
		ip[0] = 0x60;
		put16(ip + 4, length - 40);
		ip[6] = form->has_extension ? 60 : protocol;
		if (form->has_extension)
			memcpy(ip + 40, (uint8_t[]){ protocol, 0, 1, 4, 0, 0, 0, 0 }, 8);
		if (form->is_routed) {
			ip[6] = 43;
			memcpy(ip + 40, (uint8_t[]){ protocol, 2, 2, 1, 0, 0, 0, 0 }, 8);
			memset(ip + 48, 0xfd, 16);
		}
		return;
	}
	ip[0] = form->has_extension ? 0x47 : 0x45;
	put16(ip + 2, length);
	put16(ip + 4, 0xfffe);
	put16(ip + 6, 0x4000);
	ip[9] = protocol;
	if (form->has_extension)
		memset(ip + 20, 1, 8);
}

static struct lan_frame make(const struct form *form, uint8_t *bytes)
{
	uint32_t at = 12, l4 = l4_at(form), length = payload_at(form) + form->payload;
	struct lan_frame f = { .bytes = bytes, .room = ROOM, .length = length };

	memset(bytes, 0, payload_at(form));
	for (int i = 0; i < form->vlans; i++, at += 4)
		put16(bytes + at, i == 0 && form->vlans == 2 ? 0x88a8 : 0x8100);
	put16(bytes + at, form->is_ipv6 ? 0x86dd : 0x0800);
	make_ip(form, bytes + ip_at(form), length - ip_at(form));
	for (uint32_t i = payload_at(form); i < length; i++)
		bytes[i] = (uint8_t)(i * 31 + (i >> 7));
	memcpy(bytes + l4 + 4, (uint8_t[]){ 0xff, 0xff, 0xff, 0x00 }, 4); /* of TCP: wraps */
	if (form->is_udp) {
		put16(bytes + l4 + 4, length - l4);
	} else {
		bytes[l4 + 12] = (20 + OPTIONS) / 4 << 4;
		bytes[l4 + 13] = form->flags;
	}
	f.net.flags = VIRTIO_NET_NEEDS_CSUM;
	f.net.csum_start = (uint16_t)l4;
	f.net.csum_offset = form->is_udp ? 6 : 16;
	put16(bytes + l4 + f.net.csum_offset, pseudo_sum(form, bytes, length));
	f.net.gso_size = form->size;
	f.net.gso_type = form->is_udp
				 ? VIRTIO_NET_GSO_UDP_L4
				 : (form->is_ipv6 ? VIRTIO_NET_GSO_TCPV6 : VIRTIO_NET_GSO_TCPV4);
	f.net.gso_type |= form->is_ecn ? VIRTIO_NET_GSO_ECN : 0;
	return f;
}

/* The checksum of IPv4 and that of TCP or UDP: with the field, each sum is all ones. */
static void sums_are_good(const struct form *form, const uint8_t *frame, uint32_t length)
{
	uint32_t ip = ip_at(form), l4 = l4_at(form);

	if (!form->is_ipv6)
		EXPECT_EQ(sum_of(frame + ip, l4 - ip, 0), 0xffff);
	EXPECT_EQ(sum_of(frame + l4, length - l4, pseudo_sum(form, frame, length)), 0xffff);
}

static void segment_is_good(const struct form *form, const uint8_t *segment, uint32_t length,
			    uint32_t index)
{
	uint32_t ip = ip_at(form), l4 = l4_at(form), from = payload_at(form);
	uint32_t bytes = length - from, first = index * form->size;
	bool is_last = first + bytes == form->payload;
	uint8_t flags = form->flags;

	EXPECT_EQ(bytes, is_last ? form->payload - first : form->size);
	for (uint32_t i = 0; i < bytes; i++)
		EXPECT_EQ(segment[from + i],
			  (uint8_t)((from + first + i) * 31 + ((from + first + i) >> 7)));
	sums_are_good(form, segment, length);
	EXPECT_EQ(get16(segment + ip + (form->is_ipv6 ? 4 : 2)),
		  length - ip - (form->is_ipv6 ? 40 : 0));
	if (!form->is_ipv6)
		EXPECT_EQ(get16(segment + ip + 4), (0xfffe + index) & 0xffff);
	if (form->is_udp) {
		EXPECT_EQ(get16(segment + l4 + 4), length - l4);
		return;
	}
	EXPECT_EQ(get32(segment + l4 + 4), (uint32_t)(0xffffff00 + first));
	flags &= is_last ? 0xff : (uint8_t)~0x09;
	flags &= form->is_ecn && index > 0 ? (uint8_t)~0x80 : 0xff;
	EXPECT_EQ(segment[l4 + 13], flags);
}

static void cut_is_good(const struct form *form)
{
	static uint8_t bytes[ROOM], segment[ROOM];
	struct lan_frame f = make(form, bytes);
	uint32_t count = 0, want;
	struct lan_cut c;

	MUST(lan_frame_check(&f));
	MUST(lan_cut_begin(&c, &f));
	for (; (want = lan_cut_want(&c)) > 0; count++) {
		lan_cut_next(&c, segment);
		segment_is_good(form, segment, want, count);
	}
	MUST_EQ(count, form->payload ? (form->payload + form->size - 1) / form->size : 1);
}

TEST(test_lan_cut_tcp_and_udp_into_segments)
{
	for (uint32_t i = 0; i < 64; i++) {
		struct form form = { .is_ipv6 = i & 1,
				     .is_udp = i & 2,
				     .vlans = (int)(i >> 2 & 3) % 3,
				     .has_extension = i & 16,
				     .size = i & 32 ? 1448 : 1,
				     .payload = i & 32 ? 60000 : 3,
				     .flags = 0x19 };

		harness_note("form %u", i);
		cut_is_good(&form);
	}
}

TEST(test_lan_cut_behind_a_routing_header_sums_the_last_address)
{
	for (int i = 0; i < 2; i++)
		cut_is_good(&(struct form){ .is_ipv6 = true,
					    .is_routed = true,
					    .is_udp = i,
					    .size = 100,
					    .payload = 350 });
}

TEST(test_lan_cut_congestion_window_reduced_is_told_once)
{
	cut_is_good(&(struct form){ .size = 100, .payload = 350, .flags = 0x98, .is_ecn = true });
	cut_is_good(&(struct form){ .size = 100, .payload = 350, .flags = 0x98 });
	cut_is_good(&(struct form){ .size = 100, .payload = 0, .flags = 0x11 });
}

TEST(test_lan_checksum_is_completed_in_place)
{
	static uint8_t bytes[ROOM];

	for (uint32_t i = 0; i < 16; i++) {
		struct form form = { .is_ipv6 = i & 1, .is_udp = i & 2, .payload = 37 + (i >> 2) };
		struct lan_frame f = make(&form, bytes);
		uint32_t l4 = l4_at(&form);

		lan_checksum(&f);
		EXPECT_EQ(sum_of(bytes + l4, f.length - l4, pseudo_sum(&form, bytes, f.length)),
			  0xffff);
		EXPECT_EQ(f.net.flags, 0);
		EXPECT_EQ(lan_frame_needs(&f) & LAN_CSUM, 0);
	}
}

/* RFC 768: of UDP zero means that there is none. */
TEST(test_lan_checksum_of_zero_is_sent_as_ones)
{
	uint8_t bytes[60] = { 0 };
	struct lan_frame f = {
		.bytes = bytes,
		.length = 60,
		.net = { .flags = VIRTIO_NET_NEEDS_CSUM, .csum_start = 34, .csum_offset = 6 }
	};

	put16(bytes + 50, 0xffff);
	lan_checksum(&f);
	EXPECT_EQ(get16(bytes + 40), 0xffff);
}

/* Each changes one thing of a frame that can be cut. */
TEST(test_lan_cut_refuses_headers_that_contradict)
{
	static const struct form v4 = { .payload = 3000, .size = 1000 },
				 v6 = { .is_ipv6 = true, .payload = 3000, .size = 1000 },
				 tags = { .vlans = 2, .payload = 3000, .size = 1000 },
				 more = { .is_ipv6 = true,
					  .has_extension = true,
					  .payload = 3000,
					  .size = 1000 };
	static const struct {
		const struct form *form;
		uint32_t at;
		uint8_t value;
		const char *what;
	} lies[] = {
		{ &v4, 13, 6, "the EtherType" },
		{ &v4, 12, 0x86, "the EtherType" },
		{ &v4, 14, 0x55, "the version" },
		{ &v4, 14, 0x44, "a header below 20 bytes" },
		{ &v4, 14, 0x46, "a header that is longer" },
		{ &v4, 23, UDP, "the protocol" },
		{ &v4, 20, 0x20, "a fragment" },
		{ &v4, 21, 1, "a later fragment" },
		{ &v4, 46, 0x40, "a TCP header below 20 bytes" },
		{ &v6, 14, 0x40, "the version" },
		{ &v6, 20, UDP, "the next header" },
		{ &v6, 20, 44, "a fragment" },
		{ &v6, 20, 0, "an extension that is TCP" },
		{ &tags, 20, 6, "the EtherType behind two tags" },
		{ &tags, 20, 0x81, "a third tag" },
		{ &more, 55, 255, "an extension that is longer" },
		{ &more, 54, 59, "no next header" },
	};
	static uint8_t bytes[ROOM];
	struct lan_cut c = { 0 };

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct lan_frame f = make(lies[i].form, bytes);

		harness_note("%s", lies[i].what);
		EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_OK);
		bytes[lies[i].at] = lies[i].value;
		EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_R_LAN_OFFLOAD);
	}
}

TEST(test_lan_cut_refuses_what_the_virtio_header_says_wrongly)
{
	const struct form form = { .payload = 3000, .size = 1000 };
	static uint8_t bytes[ROOM];
	struct lan_frame good = make(&form, bytes), f = good;
	struct lan_cut c;

	f.net.csum_start++;
	EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_R_LAN_OFFLOAD);
	f = good;
	f.net.csum_offset = 6;
	EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_R_LAN_OFFLOAD);
	f = good;
	f.net.gso_type = VIRTIO_NET_GSO_TCPV6;
	EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_R_LAN_OFFLOAD);
	f = good;
	f.net.gso_size = 1; /* 3000 segments */
	EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_R_LAN_OFFLOAD);
	f.net.gso_size = 2;
	EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_OK);
	/* The frame ends in each of its headers. */
	for (f = good; f.length > 65; f.length--)
		EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_OK);
	for (; f.length >= LAN_HEADER_BYTES; f.length--)
		EXPECT_EQ(lan_cut_begin(&c, &f), WEFT_R_LAN_OFFLOAD);
}

static uint32_t flow_of(const struct form *form, uint32_t at, uint8_t change)
{
	static uint8_t bytes[ROOM];
	struct lan_frame f = make(form, bytes);

	bytes[at] ^= change;
	return lan_flow(&f);
}

/* A byte of each end tells another flow; any other byte, and the payload's length, do not. */
static void flow_is_of_its_ends(const struct form *form)
{
	uint32_t from = ip_at(form) + (form->is_ipv6 ? 8 : 12), ports = l4_at(form);
	uint32_t to = from + (form->is_ipv6 ? 32 : 8), flow = flow_of(form, 0, 0);
	struct form longer = *form;

	for (uint32_t at = from; at < to; at++)
		EXPECT(flow_of(form, at, 1) != flow);
	for (uint32_t at = ports; at < ports + 4; at++)
		EXPECT(flow_of(form, at, 1) != flow);
	for (uint32_t at = 0; at < 12; at++)
		EXPECT_EQ(flow_of(form, at, 1), flow);
	for (uint32_t at = ports + 4; at < payload_at(form) + form->payload; at++)
		EXPECT_EQ(flow_of(form, at, 1), flow);
	longer.payload = 3000;
	EXPECT_EQ(flow_of(&longer, 0, 0), flow);
}

TEST(test_lan_flow_is_of_addresses_and_ports)
{
	for (uint32_t i = 0; i < 48; i++) {
		struct form form = { .is_ipv6 = i & 1,
				     .is_udp = i & 2,
				     .vlans = (int)(i >> 2 & 3) % 3,
				     .has_extension = i & 16,
				     .payload = 20 };

		harness_note("form %u", i);
		flow_is_of_its_ends(&form);
	}
}

/* All fragments have addresses, only the first has ports: they stay in one flow. */
TEST(test_lan_flow_of_fragments_is_of_addresses)
{
	const struct form v4 = { .is_udp = true, .payload = 100 },
			  v6 = { .is_ipv6 = true, .payload = 100 };
	static uint8_t bytes[ROOM];
	struct lan_frame f = make(&v4, bytes);
	uint32_t first, flow;

	bytes[20] = 0x20; /* more follow */
	first = lan_flow(&f);
	bytes[20] = 0;
	bytes[21] = 9; /* a later one, whose data lie where ports were */
	memset(bytes + l4_at(&v4), 0x5a, 8);
	EXPECT_EQ(lan_flow(&f), first);
	bytes[26] ^= 1;
	EXPECT(lan_flow(&f) != first);
	f = make(&v6, bytes);
	bytes[20] = 44; /* a fragment's header */
	flow = lan_flow(&f);
	bytes[l4_at(&v6)] ^= 1;
	EXPECT_EQ(lan_flow(&f), flow);
}

TEST(test_lan_flow_without_ip_is_of_stations)
{
	uint8_t bytes[60] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x06 };
	struct lan_frame f = { .bytes = bytes, .length = sizeof(bytes) };
	uint32_t flow = lan_flow(&f);

	for (uint32_t at = 0; at < sizeof(bytes); at++) {
		bool is_station = at < 12;

		bytes[at] ^= 1;
		if (at != 12 && at != 13)
			EXPECT_EQ(lan_flow(&f) != flow, is_station);
		bytes[at] ^= 1;
	}
	/* What claims to be IP and ends before its addresses. */
	bytes[13] = 0;
	for (f.length = LAN_HEADER_BYTES; f.length < 34; f.length++)
		EXPECT_EQ(lan_flow(&f), flow);
}

/* Of a frame in two pieces the second is elsewhere: bytes behind the first are of no frame. */
TEST(test_lan_flow_looks_at_headers_in_the_first_piece)
{
	static uint8_t bytes[ROOM];
	const struct form form = { .vlans = 2, .payload = 3000 };
	struct lan_frame f = make(&form, bytes);
	uint32_t flow = lan_flow(&f);

	f.rest = bytes;
	f.rest_length = f.length - LAN_HEADERS_MAX;
	EXPECT_EQ(lan_flow(&f), flow);
	f.rest_length = f.length - l4_at(&form);
	flow = lan_flow(&f);
	bytes[l4_at(&form)] ^= 1;
	EXPECT_EQ(lan_flow(&f), flow);
}
