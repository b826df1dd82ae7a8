/* SPDX-License-Identifier: BSD-2-Clause */
/* Small fabrics in virtual time, and frames for them. */
#pragma once

#include "sim/fabric/fabric_net.h"
#include "test.h"

enum { BED_BLOCKS = 128, BED_LANES = 4 };

extern const struct fabric_link_cfg bed_link;
extern const struct sim_faults bed_cable;

struct fabric_net *bed_open(void);
void bed_close(struct fabric_net *own_n);

uint32_t bed_end(struct fabric_net *n);
uint32_t bed_switch(struct fabric_net *n, uint32_t ports);
uint32_t bed_join(struct fabric_net *n, uint32_t a, uint32_t port_a, uint32_t b, uint32_t port_b);

/* Until all is at rest, or so many ns have passed. */
void bed_rest(struct fabric_net *n);
void bed_run(struct fabric_net *n, uint64_t ns);

/* A datagram of so many bytes to a LID; returns the length of the frame. */
uint32_t bed_frame(uint8_t bytes[IBA_FRAME_MAX], uint16_t from, uint16_t to, uint8_t level,
		   uint32_t payload_bytes);
