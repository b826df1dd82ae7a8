/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ports, a wire between them that a test may cut or make lossy, and a clock. */
#pragma once

#include "base/prng.h"
#include "mad/mad_port.h"

enum { BED_PORTS = 2, BED_LID = 10, BED_PROGRAM = 7 };

struct mad_bed {
	struct mad_port *port[BED_PORTS];
	uint64_t now_ns;
	struct prng prng;
	uint32_t lost_of_100; /* datagrams in a hundred */
	uint32_t sent;	      /* datagrams that left */
	uint32_t refused;     /* datagrams that no agent had asked for */
	/* Looks at each datagram that leaves, and may change it. False: it is lost. */
	bool (*wire)(struct mad_bed *b, uint32_t from, struct mad_datagram *d);
};

void bed_open(struct mad_bed *b, uint64_t seed);
void bed_close(struct mad_bed *b);

/* Moves datagrams until none is left; no time passes. */
void bed_move(struct mad_bed *b);

/* Lets time pass, deadline by deadline, until neither port waits, or so many have passed. */
void bed_run(struct mad_bed *b, uint32_t deadlines_max);

/* An agent of subnet administration, with RMPP, that takes one method; 0: none. */
uint32_t bed_agent(struct mad_bed *b, uint32_t at, uint8_t method);

/* A message of so many bytes from the port to the other one, with a pattern in its data. */
enum weft_reason bed_send(struct mad_bed *b, uint32_t at, uint32_t agent, const struct mad *m,
			  uint32_t length);

/* The next message at the port; the test must have one. */
struct mad_message *bed_take(struct mad_bed *b, uint32_t at);
bool bed_is_pattern(const struct mad_message *m, uint32_t length);
