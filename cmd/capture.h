/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of captured packets, pcap or pcapng, read by libpcap one packet after the other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "packet.h"

enum { CAPTURE_ERROR_BYTES = 320 };

struct capture;

struct capture_packet {
	uint64_t number;  /* from 1, as other tools count */
	uint64_t time_ns; /* since 1970 */
	bool is_cut;	  /* the capture has not all of it */
	enum packet_kind kind;
	struct packet packet; /* PACKET_TCP only; valid until the next is read */
};

/* "-" is the standard input. If it cannot be read NULL, and error goes on from its name. */
struct capture *capture_open(const char *path, char error[CAPTURE_ERROR_BYTES]);

/* Closes own_file in any case. */
struct capture *capture_open_file(FILE *own_file, char error[CAPTURE_ERROR_BYTES]);

/* 1: a packet; 0: there are no more; -1: the file is broken here, and error says how. */
int capture_next(struct capture *c, struct capture_packet *p, char error[CAPTURE_ERROR_BYTES]);

void capture_close(struct capture *own_c);
