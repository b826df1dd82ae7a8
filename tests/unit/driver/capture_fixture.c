/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture_fixture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

const char *capture_path(void)
{
	static char path[500];
	const char *directory = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/weft_capture_test.%ld", directory ? directory : "/tmp",
		 (long)getpid());
	return path;
}

static uint32_t big(const uint8_t *at, int width)
{
	uint32_t v = 0;

	for (int i = 0; i < width; i++)
		v = v << 8 | at[i];
	return v;
}

/* ---- packets -------------------------------------------------------------------------------- */

static uint32_t sum(uint32_t from, const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		from += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
	return from;
}

/* With the checksum among what is summed all bits are ones. */
static void check_sum(uint32_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	REQUIRE(s == 0xffff);
}

static void read_tcp(struct packet *p, const uint8_t *at, uint32_t length)
{
	uint32_t header = (uint32_t)(at[12] >> 4) * 4;
	int address = p->is_ipv6 ? 16 : 4;

	REQUIRE(length >= header && header == (at[13] & INET_TCP_SYN ? 28 : 20));
	p->source_port = (uint16_t)big(at, 2);
	p->target_port = (uint16_t)big(at + 2, 2);
	p->seq = big(at + 4, 4);
	p->ack = big(at + 8, 4);
	p->flags = at[13];
	REQUIRE(big(at + 14, 2) == 65535 && big(at + 18, 2) == 0);
	p->payload = at + header;
	p->payload_bytes = length - header;
	check_sum(sum(sum(sum(6 + length, p->source, address), p->target, address), at, length));
}

static void read_udp(struct packet *p, const uint8_t *at, uint32_t length)
{
	int address = p->is_ipv6 ? 16 : 4;

	REQUIRE(length >= 8 && big(at + 4, 2) == length && big(at + 6, 2) != 0);
	p->source_port = (uint16_t)big(at, 2);
	p->target_port = (uint16_t)big(at + 2, 2);
	p->payload = at + 8;
	p->payload_bytes = length - 8;
	check_sum(sum(sum(sum(17 + length, p->source, address), p->target, address), at, length));
}

static void read_ip(struct packet *p, const uint8_t *at)
{
	uint32_t header;

	p->is_ipv6 = at[0] >> 4 == 6;
	header = p->is_ipv6 ? 40 : 20;
	p->is_udp = at[p->is_ipv6 ? 6 : 9] == 17;
	if (p->is_ipv6) {
		REQUIRE((big(at, 4) & 0xf00fffff) == 0x60000000 && (p->is_udp || at[6] == 6));
		REQUIRE(big(at + 4, 2) + 40 == p->length);
		p->traffic_class = (uint8_t)(big(at, 2) >> 4);
		p->hop_limit = at[7];
		p->source = at + 8;
		p->target = at + 24;
	} else {
		REQUIRE(at[0] == 0x45 && (p->is_udp || at[9] == 6));
		REQUIRE(big(at + 2, 2) == p->length);
		check_sum(sum(0, at, 20));
		p->traffic_class = at[1];
		p->ipv4_word = big(at + 4, 4);
		p->hop_limit = at[8];
		p->source = at + 12;
		p->target = at + 16;
	}
	if (p->is_udp) {
		read_udp(p, at + header, p->length - header);
		return;
	}
	REQUIRE(p->traffic_class == 0 && p->hop_limit == 64);
	REQUIRE(p->is_ipv6 || p->ipv4_word == 0x4000);
	read_tcp(p, at + header, p->length - header);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void read_packet(struct reading *r, const uint8_t *at, uint32_t length)
{
	static const uint8_t tail[] = { 0, 2, 0, 4, 0, 0, 0 };
	struct packet *p = &r->packets[r->count++];
	const uint8_t *end;

	REQUIRE(r->count < PACKETS_MAX && big(at + 8, 4) == 0);
	p->time_ns = (uint64_t)big(at + 12, 4) << 32 | big(at + 16, 4);
	p->length = big(at + 24, 4);
	REQUIRE(big(at + 20, 4) == p->length);
	end = at + 28 + (p->length + 3) / 4 * 4;
	REQUIRE(end + 16 == at + length);
	for (const uint8_t *pad = at + 28 + p->length; pad < end; pad++)
		REQUIRE(*pad == 0);
	REQUIRE(memcmp(end, tail, sizeof(tail)) == 0);
	REQUIRE(end[7] == 1 || end[7] == 2);
	REQUIRE(big(end + 8, 4) == 0);
	p->is_outgoing = end[7] == 2;
	read_ip(p, at + 28);
}

/* The options of a section or interface end with the block, and hold this one. */
static void read_options(const uint8_t *at, const uint8_t *end, const uint8_t *wanted,
			 size_t length)
{
	bool is_found = false;

	while (big(at, 2) != 0) {
		uint32_t n = 4 + (big(at + 2, 2) + 3) / 4 * 4;

		REQUIRE(at + n < end);
		is_found |= n == length && memcmp(at, wanted, length) == 0;
		at += n;
	}
	REQUIRE(is_found && big(at, 4) == 0 && at + 4 == end);
}

static void read_block(struct reading *r, const uint8_t *at, uint32_t length, int index)
{
	static const uint8_t program[] = { 0, 4, 0, 4, 'w', 'e', 'f', 't' };
	static const uint8_t nanoseconds[] = { 0, 9, 0, 1, 9, 0, 0, 0 };

	switch (index) {
	case 0:
		REQUIRE(big(at, 4) == 0x0a0d0d0a && big(at + 8, 4) == 0x1a2b3c4d);
		REQUIRE(big(at + 12, 4) == 0x00010000);
		REQUIRE(big(at + 16, 4) == UINT32_MAX && big(at + 20, 4) == UINT32_MAX);
		read_options(at + 24, at + length - 4, program, sizeof(program));
		break;
	case 1:
		REQUIRE(big(at, 4) == 1 && big(at + 8, 4) == 101 << 16);
		REQUIRE(big(at + 12, 4) == 0);
		read_options(at + 16, at + length - 4, nanoseconds, sizeof(nanoseconds));
		break;
	default:
		REQUIRE(big(at, 4) == 6);
		read_packet(r, at, length);
	}
}

void reading_open(struct reading *r, const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	int index = 0;

	REQUIRE(f && fstat(fileno(f), &st) == 0);
	*r = (struct reading){ .length = (size_t)st.st_size };
	r->bytes = malloc(r->length + 1);
	r->packets = calloc(PACKETS_MAX, sizeof(*r->packets));
	REQUIRE(r->bytes && r->packets && fread(r->bytes, 1, r->length, f) == r->length);
	fclose(f);
	for (size_t at = 0; at < r->length; index++) {
		uint32_t length;

		REQUIRE(r->length - at >= 12);
		length = big(r->bytes + at + 4, 4);
		REQUIRE(length >= 12 && length % 4 == 0 && length <= r->length - at);
		REQUIRE(big(r->bytes + at + length - 4, 4) == length);
		read_block(r, r->bytes + at, length, index);
		at += length;
	}
	REQUIRE(index >= 2);
}

void reading_close(struct reading *r)
{
	free(r->bytes);
	free(r->packets);
}

/* ---- writing -------------------------------------------------------------------------------- */

struct capture_ends ends_ipv4(bool is_initiator)
{
	static struct sockaddr_in us = { .sin_family = AF_INET }, them = { .sin_family = AF_INET };

	us.sin_addr.s_addr = htonl(0x0a000001);
	us.sin_port = htons(1000);
	them.sin_addr.s_addr = htonl(0x0a000002);
	them.sin_port = htons(2000);
	return (struct capture_ends){ (struct sockaddr *)&us, (struct sockaddr *)&them,
				      is_initiator };
}

struct capture *capture_begin(struct capture_stream *s)
{
	struct capture_ends ends = ends_ipv4(true);
	struct capture *c = NULL;

	REQUIRE(capture_open(capture_path(), &c) == 0);
	capture_stream_open(c, s, &ends, 1);
	return c;
}

void capture_give(struct capture_stream *s, bool is_outgoing, const void *bytes, size_t length)
{
	struct iovec v = { (void *)(uintptr_t)bytes, length };
	struct capture_bytes b = { &v, length, is_outgoing };

	capture_stream_bytes(s, &b, 2);
}
