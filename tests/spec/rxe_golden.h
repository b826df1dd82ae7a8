/* SPDX-License-Identifier: BSD-2-Clause */
/* A recording of Linux rxe: every RoCEv2 packet of it, with what IP and UDP say about it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/iba_icrc.h"

enum { RXE_PACKETS_MAX = 256 };

struct rxe_packet {
	struct inet_end from, to;
	struct iba_icrc_ip ip;
	const uint8_t *header; /* IP */
	const uint8_t *bytes;  /* UDP payload */
	uint32_t length;
};

struct rxe {
	uint8_t *file;
	struct rxe_packet packets[RXE_PACKETS_MAX];
	uint32_t count;
};

/* Ends the test if anything in the file is not a RoCEv2 packet. */
struct rxe *rxe_open(const char *name);
void rxe_close(struct rxe *r);
