/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a capture back, by code of its own: the blocks of pcapng, IP, TCP and UDP headers with
 * their checksums computed anew. Whatever is not as it must be ends the test.
 */
#pragma once

#include <netinet/in.h>

#include "driver/observe/capture.h"

enum { PACKETS_MAX = 20000 };

struct packet {
	uint64_t time_ns;
	bool is_outgoing, is_ipv6, is_udp;
	uint32_t length;
	uint8_t traffic_class, hop_limit;
	uint32_t ipv4_word;		/* identification and fragment word */
	const uint8_t *source, *target; /* addresses */
	uint16_t source_port, target_port;
	uint32_t seq, ack; /* of TCP */
	uint8_t flags;
	const uint8_t *payload;
	uint32_t payload_bytes; /* that there were */
};

struct reading {
	uint8_t *bytes; /* the file */
	size_t length;
	struct packet *packets;
	size_t count;
};

/* A path of this test's own, and what it holds. */
const char *capture_path(void);
void reading_open(struct reading *r, const char *path);
void reading_close(struct reading *r);

/* Ends of a made-up connection: 10.0.0.1 port 1000 is us, 10.0.0.2 port 2000 them. */
struct capture_ends ends_ipv4(bool is_initiator);

/* Opens a capture at capture_path(), and a stream of these ends. */
struct capture *capture_begin(struct capture_stream *s);

void capture_give(struct capture_stream *s, bool is_outgoing, const void *bytes, size_t length);
