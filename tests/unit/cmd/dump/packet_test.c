/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of all kinds of links taken apart, and files of them. */
#include "cmd/dump/packet.h"

#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/dump/recording.h"
#include "test.h"

enum { FRAME_MAX = 256 };

struct frame {
	uint8_t bytes[FRAME_MAX];
	struct wr w;
};

static const uint8_t hello[] = "hello";

static void begin(struct frame *f)
{
	memset(f->bytes, 0, sizeof(f->bytes));
	f->w = wr_of(f->bytes, sizeof(f->bytes));
}

static void zeros(struct frame *f, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		wr_u8(&f->w, 0);
}

/* From 1000 to 2000, with an option of 4 bytes and 5 bytes of data. */
static void tcp(struct frame *f)
{
	wr_u16(&f->w, 1000);
	wr_u16(&f->w, 2000);
	wr_u32(&f->w, 0x11223344);
	wr_u32(&f->w, 0x55667788);
	wr_u8(&f->w, 6 << 4);
	wr_u8(&f->w, PACKET_ACK | PACKET_FIN);
	zeros(f, 6 + 4);
	for (int i = 0; i < 5; i++)
		wr_u8(&f->w, hello[i]);
}

static void ip4(struct frame *f, uint16_t total, uint8_t protocol)
{
	wr_u8(&f->w, 0x46); /* with 4 bytes of options */
	wr_u8(&f->w, 0);
	wr_u16(&f->w, total);
	wr_u16(&f->w, 0);
	wr_u16(&f->w, 0x4000); /* do not fragment */
	wr_u8(&f->w, 64);
	wr_u8(&f->w, protocol);
	wr_u16(&f->w, 0);
	wr_u32(&f->w, 0x0a000001);
	wr_u32(&f->w, 0x0a000002);
	zeros(f, 4);
}

enum { TCP_BYTES = 24 + 5, IP4_TOTAL = 24 + TCP_BYTES };

static void ip6(struct frame *f, uint16_t payload, uint8_t next)
{
	wr_u32(&f->w, 0x60000000);
	wr_u16(&f->w, payload);
	wr_u8(&f->w, next);
	wr_u8(&f->w, 64);
	zeros(f, 15);
	wr_u8(&f->w, 1);
	zeros(f, 15);
	wr_u8(&f->w, 2);
}

static enum packet_kind decode(struct frame *f, enum packet_link link, struct packet *p)
{
	uint32_t length = (uint32_t)(f->w.at - f->bytes);

	REQUIRE(!f->w.is_short);
	memset(p, 0xee, sizeof(*p));
	return packet_decode(p, link, rd_of(f->bytes, length), length);
}

static void good(struct frame *f, enum packet_link link, uint8_t version)
{
	struct packet p;

	REQUIRE(decode(f, link, &p) == PACKET_TCP);
	REQUIRE(p.from.version == version && p.to.version == version);
	REQUIRE(p.from.port == 1000 && p.to.port == 2000);
	REQUIRE(p.from.addr[version == 4 ? 3 : 15] == 1 && p.to.addr[version == 4 ? 3 : 15] == 2);
	REQUIRE(p.from.addr[0] == (version == 4 ? 10 : 0));
	REQUIRE(p.seq == 0x11223344 && p.ack == 0x55667788);
	REQUIRE(p.flags == (PACKET_ACK | PACKET_FIN) && p.lacks_bytes == 0);
	REQUIRE(p.data.end - p.data.at == 5 && memcmp(p.data.at, hello, 5) == 0);
}

/* What comes before IP on each link. */
static void link_head(struct frame *f, enum packet_link link, uint16_t type)
{
	begin(f);
	if (link == PACKET_ETHERNET || link == PACKET_SLL) {
		zeros(f, link == PACKET_ETHERNET ? 12 : 14);
		wr_u16(&f->w, type);
	} else if (link == PACKET_SLL2) {
		wr_u16(&f->w, type);
		zeros(f, 18);
	} else if (link == PACKET_NULL) {
		wr_u32(&f->w, type == 0x0800 ? 2 : 30);
	}
}

TEST(test_packet_every_link_and_ip)
{
	for (int link = PACKET_ETHERNET; link <= PACKET_NULL; link++) {
		struct frame f;

		link_head(&f, link, 0x0800);
		ip4(&f, IP4_TOTAL, 6);
		tcp(&f);
		good(&f, link, 4);
		zeros(&f, 7); /* padding of the link */
		good(&f, link, 4);
		link_head(&f, link, 0x86dd);
		ip6(&f, TCP_BYTES, 6);
		tcp(&f);
		good(&f, link, 6);
		zeros(&f, 7);
		good(&f, link, 6);
	}
}

TEST(test_packet_vlan_tags_and_families)
{
	static const uint16_t tags[] = { 0x8100, 0x88a8, 0x9100 };
	static const uint32_t families[] = { 10, 24, 28, 30 };
	struct packet p;
	struct frame f;

	for (int n = 1; n <= 3; n++) {
		link_head(&f, PACKET_ETHERNET, tags[0]);
		for (int i = 1; i <= n; i++) {
			wr_u16(&f.w, 5);
			wr_u16(&f.w, i == n ? 0x0800 : tags[i]);
		}
		ip4(&f, IP4_TOTAL, 6);
		tcp(&f);
		good(&f, PACKET_ETHERNET, 4);
	}
	for (int i = 0; i < 8; i++) {
		begin(&f);
		wr_u32(&f.w, i & 1 ? families[i / 2] : families[i / 2] << 24);
		ip6(&f, TCP_BYTES, 6);
		tcp(&f);
		good(&f, PACKET_NULL, 6);
	}
	begin(&f);
	wr_u32(&f.w, 0x02000000);
	ip4(&f, IP4_TOTAL, 6);
	tcp(&f);
	good(&f, PACKET_NULL, 4);
	begin(&f);
	wr_u32(&f.w, 7);
	EXPECT_EQ(decode(&f, PACKET_NULL, &p), PACKET_OTHER);
	link_head(&f, PACKET_ETHERNET, 0x0806);
	EXPECT_EQ(decode(&f, PACKET_ETHERNET, &p), PACKET_OTHER);
}

TEST(test_packet_ip6_extension_headers)
{
	struct packet p;
	struct frame f;

	begin(&f);
	ip6(&f, 8 + 16 + 8 + TCP_BYTES, 0);
	wr_u16(&f.w, 43 << 8);
	zeros(&f, 6);
	wr_u16(&f.w, 60 << 8 | 1);
	for (int i = 0; i < 14; i++)
		wr_u8(&f.w, 59); /* would be: nothing more */
	wr_u16(&f.w, 6 << 8);
	zeros(&f, 6);
	tcp(&f);
	good(&f, PACKET_IP, 6);
	begin(&f);
	ip6(&f, 8 + TCP_BYTES, 44);
	zeros(&f, 8);
	tcp(&f);
	EXPECT_EQ(decode(&f, PACKET_IP, &p), PACKET_FRAGMENT);
}

TEST(test_packet_what_is_not_tcp)
{
	struct packet p;
	struct frame f;

	begin(&f);
	ip4(&f, 24 + 8, 17);
	wr_u16(&f.w, 5);
	wr_u16(&f.w, 4791);
	zeros(&f, 4);
	EXPECT_EQ(decode(&f, PACKET_IP, &p), PACKET_ROCE);
	f.bytes[24 + 3] ^= 1;
	EXPECT_EQ(decode(&f, PACKET_IP, &p), PACKET_OTHER);
	f.bytes[9] = 1; /* ICMP */
	EXPECT_EQ(decode(&f, PACKET_IP, &p), PACKET_OTHER);
	for (int i = 0; i < 2; i++) {
		begin(&f);
		ip4(&f, IP4_TOTAL, 6);
		f.bytes[i == 0 ? 6 : 7] = i == 0 ? 0x20 : 1; /* more follow; not the first */
		tcp(&f);
		EXPECT_EQ(decode(&f, PACKET_IP, &p), PACKET_FRAGMENT);
	}
}

/* What the adapter was to cut up has no length; what the capture cut says so. */
TEST(test_packet_lengths)
{
	struct packet p;
	struct frame f;

	begin(&f);
	ip4(&f, 0, 6);
	tcp(&f);
	good(&f, PACKET_IP, 4);
	f.bytes[3] = IP4_TOTAL;
	EXPECT_EQ(packet_decode(&p, PACKET_IP, rd_of(f.bytes, IP4_TOTAL - 3), IP4_TOTAL),
		  PACKET_TCP);
	EXPECT_EQ(p.lacks_bytes, 3);
	EXPECT_EQ(p.data.end - p.data.at, 2);
	f.bytes[3] = 0;
	EXPECT_EQ(packet_decode(&p, PACKET_IP, rd_of(f.bytes, IP4_TOTAL - 3), IP4_TOTAL + 9),
		  PACKET_TCP);
	EXPECT_EQ(p.lacks_bytes, 12);
}

TEST(test_packet_broken_headers)
{
	struct frame f;
	struct packet p;
	uint32_t length;

	link_head(&f, PACKET_ETHERNET, 0x0800);
	ip4(&f, IP4_TOTAL, 6);
	tcp(&f);
	length = (uint32_t)(f.w.at - f.bytes) - 5;
	for (uint32_t n = 0; n < length; n++)
		EXPECT_EQ(packet_decode(&p, PACKET_ETHERNET, rd_of(f.bytes, n), length),
			  PACKET_MALFORMED);
	EXPECT_EQ(packet_decode(&p, PACKET_ETHERNET, rd_of(f.bytes, length), length), PACKET_TCP);
	f.bytes[14] = 0x44; /* a header of 16 bytes */
	EXPECT_EQ(decode(&f, PACKET_ETHERNET, &p), PACKET_MALFORMED);
	f.bytes[14] = 0x56; /* version 5 */
	EXPECT_EQ(decode(&f, PACKET_ETHERNET, &p), PACKET_MALFORMED);
	f.bytes[14] = 0x46;
	f.bytes[17] = 23; /* less than the header */
	EXPECT_EQ(decode(&f, PACKET_ETHERNET, &p), PACKET_MALFORMED);
	f.bytes[17] = 24; /* nothing but it */
	EXPECT_EQ(decode(&f, PACKET_ETHERNET, &p), PACKET_MALFORMED);
	f.bytes[17] = IP4_TOTAL;
	f.bytes[14 + 24 + 12] = 4 << 4; /* a TCP header of 16 bytes */
	EXPECT_EQ(decode(&f, PACKET_ETHERNET, &p), PACKET_MALFORMED);
	begin(&f);
	ip6(&f, TCP_BYTES, 6);
	f.bytes[0] = 0x50;
	tcp(&f);
	EXPECT_EQ(decode(&f, PACKET_IP, &p), PACKET_MALFORMED);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A file of one packet, in memory. */
static FILE *file_of(int link, const struct frame *f, char **own_bytes)
{
	uint32_t length = (uint32_t)(f->w.at - f->bytes);
	struct pcap_pkthdr head = { .ts = { 7, 5 }, .caplen = length, .len = length + 1 };
	size_t size;
	FILE *file = open_memstream(own_bytes, &size);
	pcap_t *pcap = pcap_open_dead(link, 65535);
	pcap_dumper_t *to;

	REQUIRE(file && pcap);
	to = pcap_dump_fopen(pcap, file);
	REQUIRE(to);
	pcap_dump((u_char *)to, &head, f->bytes);
	pcap_dump_close(to);
	pcap_close(pcap);
	file = fmemopen(*own_bytes, size, "rb");
	REQUIRE(file);
	return file;
}

TEST(test_capture_every_link)
{
	static const struct {
		int type;
		enum packet_link link;
	} rows[] = {
		{ DLT_EN10MB, PACKET_ETHERNET }, { DLT_LINUX_SLL, PACKET_SLL },
		{ DLT_LINUX_SLL2, PACKET_SLL2 }, { DLT_RAW, PACKET_IP },
		{ DLT_IPV4, PACKET_IP },	 { DLT_NULL, PACKET_NULL },
		{ DLT_LOOP, PACKET_NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char error[RECORDING_ERROR_BYTES], *bytes;
		struct recorded_packet p;
		struct recording *c;
		struct frame f;

		link_head(&f, rows[i].link, 0x0800);
		ip4(&f, IP4_TOTAL, 6);
		tcp(&f);
		c = recording_open_file(file_of(rows[i].type, &f, &bytes), error);
		EXPECT(c);
		EXPECT_EQ(recording_next(c, &p, error), 1);
		EXPECT(p.number == 1 && p.is_cut && p.kind == PACKET_TCP);
		EXPECT_EQ(p.time_ns, UINT64_C(7000005000));
		EXPECT_EQ(p.packet.to.port, 2000);
		EXPECT_EQ(recording_next(c, &p, error), 0);
		recording_close(c);
		free(bytes);
	}
}

/* pcapng: a section, an interface of Ethernet in nanoseconds, a packet. */
TEST(test_capture_pcapng)
{
	static const uint32_t head[] = { 0x0a0d0d0a, 28,	 0x1a2b3c4d, 1,	 UINT32_MAX,
					 UINT32_MAX, 28,	 1,	     32, 1,
					 0,	     0x00010009, 9,	     0,	 32 };
	char error[RECORDING_ERROR_BYTES];
	uint32_t file[64] = { 0 }, length, words;
	struct recorded_packet p;
	struct recording *c;
	struct frame f;

	link_head(&f, PACKET_ETHERNET, 0x0800);
	ip4(&f, IP4_TOTAL, 6);
	tcp(&f);
	length = (uint32_t)(f.w.at - f.bytes);
	memcpy(file, head, sizeof(head));
	words = sizeof(head) / 4;
	file[words] = 6;
	file[words + 1] = file[words + 7 + (length + 3) / 4] = 32 + (length + 3) / 4 * 4;
	file[words + 4] = 12345;
	file[words + 5] = file[words + 6] = length;
	memcpy(&file[words + 7], f.bytes, length);
	words += 8 + (length + 3) / 4;
	c = recording_open_file(fmemopen(file, words * 4, "rb"), error);
	EXPECT(c);
	EXPECT_EQ(recording_next(c, &p, error), 1);
	EXPECT(p.kind == PACKET_TCP && !p.is_cut);
	EXPECT_EQ(p.time_ns, 12345);
	EXPECT_EQ(recording_next(c, &p, error), 0);
	recording_close(c);
	/* Cut off inside the packet. */
	c = recording_open_file(fmemopen(file, words * 4 - 8, "rb"), error);
	EXPECT(c);
	EXPECT_EQ(recording_next(c, &p, error), -1);
	EXPECT(error[0]);
	recording_close(c);
}

TEST(test_capture_files_that_cannot_be_read)
{
	static char junk[] = "this is a letter, not a capture, and long enough to see that";
	char error[RECORDING_ERROR_BYTES] = "", *bytes;
	struct frame f;

	EXPECT(!recording_open("/nonexistent/file", error));
	EXPECT(strstr(error, "cannot be opened"));
	EXPECT(!recording_open_file(fmemopen(junk, sizeof(junk), "rb"), error));
	EXPECT(strstr(error, "is not a capture"));
	begin(&f);
	EXPECT(!recording_open_file(file_of(DLT_USB_LINUX, &f, &bytes), error));
	EXPECT(strstr(error, "link"));
	free(bytes);
}
