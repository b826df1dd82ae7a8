/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pcapng (draft-ietf-opsawg-pcapng): the blocks of a capture of IP packets, one section, one
 * interface, written in network byte order. Every block is a whole number of 32-bit words.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

enum { PCAPNG_OPENING_MAX = 512, PCAPNG_PACKET_HEAD_BYTES = 28 };

/*
 * The first blocks of a file: the section, with a comment for its reader, and the interface.
 * Packets begin with their IP header, and are not truncated.
 */
void pcapng_opening_encode(const char *comment, struct wr *w);

struct pcapng_packet {
	uint64_t time_ns; /* since 1970 */
	uint32_t packet_bytes;
	bool is_outgoing;
};

/* The length of the block: head, packet and tail. */
uint32_t pcapng_packet_bytes(const struct pcapng_packet *p);
void pcapng_packet_head_encode(const struct pcapng_packet *p, struct wr *w);
void pcapng_packet_tail_encode(const struct pcapng_packet *p, struct wr *w);
