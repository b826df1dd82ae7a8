/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture of what weft sends and receives, made without root: a pcapng file of UDP datagrams, and
 * of TCP segments that could have carried the bytes of our sockets. Addresses, ports, bytes and
 * times are real. The segmentation of TCP, its acknowledgements and handshakes are made up.
 * Datagrams are those of the wire, one packet each.
 *
 * Bytes are segmented so that Wireshark finds every FPDU (seen with 4.0): each MPA start frame and
 * each FPDU begins a segment, which has at least the first 20 or 8 bytes of it. So a few bytes of a
 * stream may wait for the bytes that follow. Wireshark has limits of its own: it expects markers in
 * both directions if either end asked for them, and does not recognize the start frames of a second
 * connection between the same ports.
 *
 * There is no lock: the caller makes one call at a time for a file and its streams.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "wire/inet.h"
#include "wire/mpa_scan.h"

struct capture;

/*
 * Creates or truncates the file; each `%p` in the path becomes the process id. Returns 0 or a
 * negative errno; -EBUSY if another capture is writing to the file.
 */
int capture_open(const char *path, struct capture **c);

/* Writes the buffer out, and frees. Streams still open must not be used any more. */
void capture_close(struct capture *c);

/* Writes the buffer out: a process that is killed loses only what came after. */
void capture_flush(struct capture *c);

/*
 * 0, or the negative errno that stopped the capture. The file then ends with a complete block.
 * After a fork only the parent goes on; the child's copy stops with -EOWNERDEAD.
 */
int capture_error(const struct capture *c);

struct capture_ends {
	const struct sockaddr *local, *remote; /* AF_INET, or AF_INET6 which may hold IPv4 */
	bool is_initiator;		       /* we opened the connection */
};

/* The caller's memory, with fields of capture.c. All zero: not captured, calls do nothing. */
struct capture_stream {
	struct capture *capture;
	struct inet_end end[2]; /* local, remote */
	bool is_ipv6;
	struct capture_half {
		uint32_t seq;	     /* of the next byte */
		uint32_t frame_left; /* bytes left of the current MPA frame */
		struct mpa_scan scan;
		bool is_closed;
		uint8_t held_bytes;
		uint8_t held[MPA_SCAN_HEAD_MAX]; /* the beginning of a frame that waits for more */
	} half[2];				 /* sent by the local, by the remote end */
};

/* Times are of CLOCK_MONOTONIC. A stream between other address families is not captured. */
void capture_stream_open(struct capture *c, struct capture_stream *s,
			 const struct capture_ends *ends, uint64_t now_ns);

struct capture_bytes {
	const struct iovec *v;
	size_t length; /* the spans may hold more */
	bool is_outgoing;
};

void capture_stream_bytes(struct capture_stream *s, const struct capture_bytes *b, uint64_t now_ns);

/* Ends one direction (FIN) or, with is_reset, both (RST); after that no more bytes are recorded. */
void capture_stream_close(struct capture_stream *s, bool is_outgoing, bool is_reset,
			  uint64_t now_ns);

/* A complete UDP datagram. */
struct capture_datagram {
	const struct iovec *v;
	size_t length; /* the spans may hold more; at most INET_UDP_PAYLOAD_MAX */
	bool is_outgoing, is_ipv6;
	struct inet_end from, to;
	uint8_t traffic_class, hop_limit;
	uint16_t ipv4_id, ipv4_fragment;
};

void capture_datagram(struct capture *c, const struct capture_datagram *d, uint64_t now_ns);
