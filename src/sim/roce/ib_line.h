/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ports of the InfiniBand transport with one reliable connection, on a line that has a rate, a
 * length and losses, in virtual time. A packet is taken from its port when the line is free, and
 * what it is sent from is needed until its last bit is on the line: so pins last as long as they
 * must, and no longer.
 *
 * Each end's memory is an address space of its own, cut into pages whose frames the scenario may
 * take away and give back between two steps.
 */
#pragma once

#include "ib/ib.h"
#include "sim/world/datagram.h"

/* Where each end's memory begins. */
#define IB_LINE_ADDR (UINT64_C(1) << 32)

struct ib_line_options {
	uint64_t seed;
	uint64_t rate_bps; /* of bits, each way */
	uint64_t delay_ns; /* one way */
	uint32_t loss_ppm; /* of packets, each way */
	uint32_t mtu_bytes;
	uint32_t window_packets, ack_every; /* 0: as the transport likes */
	uint8_t timeout_code, retries;
	uint32_t send_max;	    /* requests of a queue pair */
	uint32_t reads;		    /* Reads on their way at a time; 0: one */
	uint32_t pages, page_bytes; /* of each end's memory */
	uint32_t frames;	    /* real memory, in pages; 0: as many as pages */
	bool has_pager, is_handing; /* of its space */
	bool is_dropping_early;	    /* its ports keep nothing, see struct ib_port_config */
};

struct ib_line_end {
	struct adapter core;
	struct weft_space *space;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct ib_port *port;
	struct ib_conn *conn;
	uint8_t *memory; /* frames */
	uint32_t tag;	 /* of all pages, with all rights */
	struct sim_datagram out;
	uint64_t idle_ns; /* when the line has taken all that it was given */
	struct world_alarm alarm;
};

struct ib_line {
	struct world world;
	struct ib_line_options options;
	struct ib_line_end ends[2];
	uint8_t room[IBA_PACKET_MAX]; /* of the packet that is being sent */
};

/* NULL when memory is short. Page n lies in frame n at first, as far as there are frames. */
struct ib_line *ib_line_open(const struct ib_line_options *options);
void ib_line_close(struct ib_line *line);

/* The next thing happens. False: nothing ever will. */
bool ib_line_step(struct ib_line *line);

/* Lets an end move, after the scenario has done something there. */
void ib_line_work(struct ib_line *line, int end);

/* A Send, Write or Read of bytes of end 0 at this offset, of the same offset of end 1. */
enum weft_reason ib_line_post(struct ib_line *line, enum weft_opcode opcode, uint64_t offset,
			      uint32_t bytes);

/* Completions of an end that were not asked for yet, up to max. */
uint32_t ib_line_poll(struct ib_line *line, int end, struct weft_completion *c, uint32_t max);

/* A receive of end 1, of bytes at this offset. */
enum weft_reason ib_line_receive(struct ib_line *line, uint64_t offset, uint32_t bytes);

/* ---- A stream of messages ------------------------------------------------------------------- */

struct ib_flow_plan {
	enum weft_opcode opcode; /* WEFT_OP_SEND, WEFT_OP_WRITE, WEFT_OP_READ */
	uint32_t message_bytes, messages;
};

struct ib_flow {
	uint64_t bytes, ns; /* delivered and acknowledged, and how long that took */
	struct ib_counts sender, peer;
	struct weft_pins pins; /* of the sender */
	bool is_whole;	       /* all arrived as it was */
};

/* End 0 moves messages one after the other, as many at a time as its queue holds. */
enum weft_reason ib_flow_run(const struct ib_line_options *options, const struct ib_flow_plan *plan,
			     struct ib_flow *flow);

/* In bits per second. */
static inline double ib_flow_goodput(const struct ib_flow *flow)
{
	return flow->ns ? 8e9 * (double)flow->bytes / (double)flow->ns : 0;
}
