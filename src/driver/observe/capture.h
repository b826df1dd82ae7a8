/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture of what weft sends and receives, made without root: a pcapng file of the TCP segments
 * that could have carried the bytes of our sockets, and of UDP datagrams. Addresses, ports, bytes
 * and times are real; how the bytes of TCP are cut into segments, the acknowledgements and the
 * handshake are not. Datagrams are those of the wire, one packet each.
 *
 * Segments are cut so that Wireshark finds every FPDU (seen with 4.0): a start frame and an FPDU
 * each begin a segment of their own, which has at least their first 20 and 8 bytes. So a few bytes
 * may wait in a stream for those that follow. Wireshark's limits are no fault of the file: it
 * expects markers in both directions if either asked for them, and it does not know the start
 * frames of a second connection between the same ports.
 *
 * Nothing here locks: calls for one file, its streams included, come one at a time.
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
 * Creates or empties the file; each `%p` in the path becomes the process id. Gives 0 or a negative
 * errno; -EBUSY if another capture is writing to that file.
 */
int capture_open(const char *path, struct capture **c);

/* Writes out what waits, and frees. Streams still open must not be used any more. */
void capture_close(struct capture *c);

/* Writes out what waits: a process that is killed loses only what came after. */
void capture_flush(struct capture *c);

/*
 * 0, or the negative errno that stopped the capture. What was written out before is in the file and
 * whole. After a fork only the parent goes on; the child's copy stops with -EOWNERDEAD.
 */
int capture_error(const struct capture *c);

struct capture_ends {
	const struct sockaddr *local, *remote; /* AF_INET, or AF_INET6 which may hold IPv4 */
	bool is_initiator;		       /* we opened the connection */
};

/* Its owner's; the fields are capture.c's. All zero: not captured, every call does nothing. */
struct capture_stream {
	struct capture *capture;
	struct inet_end end[2]; /* local, remote */
	bool is_ipv6;
	struct capture_half {
		uint32_t seq;	     /* of the next byte */
		uint32_t frame_left; /* bytes until the current MPA frame ends */
		struct mpa_scan scan;
		bool is_closed;
		uint8_t held_bytes;
		uint8_t held[MPA_SCAN_HEAD_MAX]; /* the beginning of a frame that waits for more */
	} half[2];				 /* sent by the local, by the remote end */
};

/* Times are those of CLOCK_MONOTONIC. A stream between other kinds of address is not captured. */
void capture_stream_open(struct capture *c, struct capture_stream *s,
			 const struct capture_ends *ends, uint64_t now_ns);

struct capture_bytes {
	const struct iovec *v;
	size_t length; /* the spans may hold more */
	bool is_outgoing;
};

void capture_stream_bytes(struct capture_stream *s, const struct capture_bytes *b, uint64_t now_ns);

/* The end of one direction (FIN), or by a reset of both, after which the stream takes no more. */
void capture_stream_close(struct capture_stream *s, bool is_outgoing, bool is_reset,
			  uint64_t now_ns);

/* A packet of UDP, whole. */
struct capture_datagram {
	const struct iovec *v;
	size_t length; /* the spans may hold more; at most INET_UDP_PAYLOAD_MAX */
	bool is_outgoing, is_ipv6;
	struct inet_end from, to;
	uint8_t traffic_class, hop_limit;
	uint16_t ipv4_id, ipv4_fragment;
};

void capture_datagram(struct capture *c, const struct capture_datagram *d, uint64_t now_ns);
