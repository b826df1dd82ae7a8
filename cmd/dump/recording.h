/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of captured packets, pcap or pcapng, read by libpcap one packet after the other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/dump/packet.h"

enum { RECORDING_ERROR_BYTES = 320 };

struct recording;

struct recorded_packet {
	uint64_t number;  /* from 1, as other tools count */
	uint64_t time_ns; /* since 1970 */
	bool is_cut;	  /* the capture has not all of it */
	enum packet_kind kind;
	struct packet
		packet; /* PACKET_TCP, PACKET_ROCE, PACKET_FRAME; valid until the next is read */
};

/* "-" is the standard input. If it cannot be read NULL, and error goes on from its name. */
struct recording *recording_open(const char *path, char error[RECORDING_ERROR_BYTES]);

/* Closes own_file in any case. */
struct recording *recording_open_file(FILE *own_file, char error[RECORDING_ERROR_BYTES]);

/* 1: a packet; 0: there are no more; -1: the file is broken here, and error says how. */
int recording_next(struct recording *c, struct recorded_packet *p,
		   char error[RECORDING_ERROR_BYTES]);

void recording_close(struct recording *own_c);
