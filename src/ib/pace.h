/* SPDX-License-Identifier: BSD-2-Clause */
/* Output rate: limits and congestion control. */
#pragma once

#include "base/timer_queue.h"
#include "ib/ib.h"

struct pace {
	uint64_t limit_bps; /* as configured; 0: none */
	/* During congestion: rate_bps is not 0. */
	uint64_t rate_bps, target_bps;
	uint64_t cut_ns, raise_ns;
	uint32_t alpha, stage;
	/* Packets. */
	uint64_t next_ns;  /* no packet before */
	struct timer wake; /* set while a packet waits for next_ns */
	uint64_t meter_ns, meter_bytes, meter_bps, sent_ns;
	/* Congestion of arriving packets: CNPs to their sender. */
	uint64_t notified_ns;
	bool has_notified, is_notice_due;
};

void pace_init(struct pace *s);

/* Whether a packet with payload may be sent now; one was sent. */
bool pace_is_open(struct pace *s, uint64_t now_ns);
void pace_sent(struct pace *s, uint64_t now_ns, uint64_t packet_bytes);

/* The gap after a packet of this length; 0: none. */
uint64_t pace_gap_ns(const struct pace *s, uint64_t packet_bytes);

/* A CNP came: our packets met congestion. */
void pace_notified(struct pace *s, uint64_t now_ns);

/* A packet of the peer was marked CE. True: a CNP is due now; their rate is limited. */
bool pace_marked(struct pace *s, uint64_t now_ns);
void pace_notice(struct ib_conn *c, struct ib_out *out);
