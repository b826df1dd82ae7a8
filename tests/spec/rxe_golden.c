/* SPDX-License-Identifier: BSD-2-Clause */
#include "rxe_golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "test.h"

enum { PATH_BYTES = 512, FILE_HEADER_BYTES = 24, RECORD_HEADER_BYTES = 16, ETHERNET_BYTES = 14 };

static uint32_t little(struct rd *r)
{
	return __builtin_bswap32(rd_u32(r));
}

static size_t file_read(struct rxe *r, const char *name)
{
	char path[PATH_BYTES];
	long length;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/rxe/rxe_%s.pcap", GOLDEN_DIR, name);
	file = fopen(path, "rb");
	REQUIRE(file);
	REQUIRE(fseek(file, 0, SEEK_END) == 0);
	length = ftell(file);
	REQUIRE(length > FILE_HEADER_BYTES && fseek(file, 0, SEEK_SET) == 0);
	r->file = malloc((size_t)length);
	REQUIRE(r->file && fread(r->file, 1, (size_t)length, file) == (size_t)length);
	(void)fclose(file);
	return (size_t)length;
}

static void ip_read(struct rxe_packet *p, struct rd *at)
{
	size_t address_bytes = p->ip.is_ipv6 ? 16 : 4;
	uint32_t length;
	uint8_t protocol;

	p->header = at->at;
	if (p->ip.is_ipv6) {
		REQUIRE(rd_u32(at) >> 28 == 6);
		length = rd_u16(at);
		protocol = rd_u8(at);
		(void)rd_u8(at);
	} else {
		REQUIRE(rd_u8(at) == 0x45);
		(void)rd_u8(at);
		length = (uint32_t)rd_u16(at) - INET_IPV4_BYTES;
		p->ip.ipv4_id = rd_u16(at);
		p->ip.ipv4_fragment = rd_u16(at);
		(void)rd_u8(at);
		protocol = rd_u8(at);
		(void)rd_u16(at);
	}
	rd_bytes(at, p->from.address, address_bytes);
	rd_bytes(at, p->to.address, address_bytes);
	REQUIRE(protocol == 17 && (size_t)(at->end - at->at) == length);
}

static void packet_read(struct rxe_packet *p, struct rd at)
{
	uint16_t type;

	at.at += ETHERNET_BYTES - 2;
	type = rd_u16(&at);
	REQUIRE(type == 0x0800 || type == 0x86dd);
	p->ip.is_ipv6 = type == 0x86dd;
	ip_read(p, &at);
	p->from.port = rd_u16(&at);
	p->to.port = rd_u16(&at);
	p->length = (uint32_t)rd_u16(&at) - 8;
	(void)rd_u16(&at);
	REQUIRE(!at.is_short && p->to.port == IBA_UDP_PORT);
	REQUIRE((size_t)(at.end - at.at) == p->length);
	p->bytes = at.at;
	p->ip.from = &p->from;
	p->ip.to = &p->to;
}

struct rxe *rxe_open(const char *name)
{
	struct rxe *r = calloc(1, sizeof(*r));
	size_t bytes;
	struct rd at;

	REQUIRE(r);
	bytes = file_read(r, name);
	at = rd_of(r->file, bytes);
	REQUIRE(little(&at) == 0xa1b2c3d4);
	at.at = r->file + FILE_HEADER_BYTES;
	while (at.at < at.end) {
		uint32_t length;

		REQUIRE(r->count < RXE_PACKETS_MAX);
		at.at += RECORD_HEADER_BYTES - 8;
		length = little(&at);
		REQUIRE(little(&at) == length); /* nothing was cut off */
		REQUIRE(!at.is_short && (size_t)(at.end - at.at) >= length);
		packet_read(&r->packets[r->count++], rd_of(at.at, length));
		at.at += length;
	}
	return r;
}

void rxe_close(struct rxe *r)
{
	free(r->file);
	free(r);
}
