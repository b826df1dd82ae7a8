/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/pcapng.h"

#include <string.h>

#include "base/check.h"

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	MAGIC = 0x1a2b3c4d, /* tells the reader in which byte order the section is */
	VERSION_MAJOR = 1,
	VERSION_MINOR = 0,
	LINKTYPE_RAW = 101, /* begins with an IP header of the version that it says */
	OPTION_END = 0,
	OPTION_COMMENT = 1,
	OPTION_PROGRAM = 4,
	OPTION_FLAGS = 2,
	OPTION_TIME_RESOLUTION = 9,
	TIME_NS = 9, /* 10^-9 s */
	FLAGS_INCOMING = 1,
	FLAGS_OUTGOING = 2
};

static void pad(uint32_t length, struct wr *w)
{
	for (; length % 4 != 0; length++)
		wr_u8(w, 0);
}

static void option(uint16_t code, const void *value, uint16_t length, struct wr *w)
{
	const uint8_t *bytes = value;

	wr_u16(w, code);
	wr_u16(w, length);
	for (uint16_t i = 0; i < length; i++)
		wr_u8(w, bytes[i]);
	pad(length, w);
}

/* A block's length stands at both its ends, so that a file can be read backwards. */
static void block_end(uint8_t *begin, struct wr *w)
{
	uint32_t length = (uint32_t)(w->at - begin) + 4;
	struct wr at = wr_of(begin + 4, 4);

	wr_u32(&at, length);
	wr_u32(w, length);
}

void pcapng_opening_encode(const char *comment, struct wr *w)
{
	static const char program[] = "weft";
	const uint8_t resolution = TIME_NS;
	uint8_t *begin = w->at;

	CHECK(w->end - w->at >= PCAPNG_OPENING_MAX && strlen(comment) <= PCAPNG_OPENING_MAX / 2);
	wr_u32(w, BLOCK_SECTION);
	wr_u32(w, 0);
	wr_u32(w, MAGIC);
	wr_u16(w, VERSION_MAJOR);
	wr_u16(w, VERSION_MINOR);
	wr_u64(w, UINT64_MAX); /* a length that is not said */
	option(OPTION_COMMENT, comment, (uint16_t)strlen(comment), w);
	option(OPTION_PROGRAM, program, sizeof(program) - 1, w);
	option(OPTION_END, NULL, 0, w);
	block_end(begin, w);

	begin = w->at;
	wr_u32(w, BLOCK_INTERFACE);
	wr_u32(w, 0);
	wr_u16(w, LINKTYPE_RAW);
	wr_u16(w, 0);
	wr_u32(w, 0); /* no limit to what is kept of a packet */
	option(OPTION_TIME_RESOLUTION, &resolution, 1, w);
	option(OPTION_END, NULL, 0, w);
	block_end(begin, w);
}

uint32_t pcapng_packet_bytes(const struct pcapng_packet *p)
{
	return PCAPNG_PACKET_HEAD_BYTES + (p->packet_bytes + 3) / 4 * 4 + 16;
}

void pcapng_packet_head_encode(const struct pcapng_packet *p, struct wr *w)
{
	wr_u32(w, BLOCK_PACKET);
	wr_u32(w, pcapng_packet_bytes(p));
	wr_u32(w, 0); /* the only interface */
	wr_u64(w, p->time_ns);
	wr_u32(w, p->packet_bytes); /* kept, and on the wire */
	wr_u32(w, p->packet_bytes);
}

void pcapng_packet_tail_encode(const struct pcapng_packet *p, struct wr *w)
{
	const uint8_t flags[4] = { [3] = p->is_outgoing ? FLAGS_OUTGOING : FLAGS_INCOMING };

	pad(p->packet_bytes, w);
	option(OPTION_FLAGS, flags, sizeof(flags), w);
	option(OPTION_END, NULL, 0, w);
	wr_u32(w, pcapng_packet_bytes(p));
}
