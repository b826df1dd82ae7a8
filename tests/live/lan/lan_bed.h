/* SPDX-License-Identifier: BSD-2-Clause */
/* What tests of frame ports share: a folder for sockets, ports, frames and patience. */
#pragma once

#include "driver/lan/lan.h"

enum { BED_FRAMES = 64, BED_PATH = 108 };

struct lan_bed {
	char folder[BED_PATH];
	struct lan_frame frames[BED_FRAMES]; /* each with room for the longest */
};

struct lan_bed *lan_bed_make(void);
void lan_bed_end(struct lan_bed *bed);

/* Opens it by its text, in which %s is the folder; the test ends if that fails. */
struct lan_port *lan_bed_open(const struct lan_bed *bed, const char *form);

/* Waits until a port has frames in bed->frames; how many. What fails, ends the test. */
uint32_t lan_bed_receive(struct lan_bed *bed, struct lan_port *port);

/* Does the work of two ports (either may be NULL) until the first is up, or down. */
void lan_bed_until(struct lan_port *port, struct lan_port *other, bool is_up);

/*
 * The descriptors of this process are used up (tests/descriptors.h), and a peer has connected: it
 * waits, the port says why, and has nothing to do meanwhile.
 */
void lan_bed_starved(struct lan_port *port);

/* A frame of so many bytes from a pattern that the seed decides. */
struct lan_frame lan_bed_frame(struct lan_bed *bed, uint32_t at, uint32_t length, uint8_t seed);
