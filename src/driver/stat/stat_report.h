/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report that stat.c sends: lines of words, the first of which says what the line is about and
 * the others `key=value`. Values hold no space, but for that of the last key of a line, `said`.
 *
 *	weft 1 version=... pid=... program=...
 *	adapter number=... ...
 *	roce packets_in=... ...    of the adapter before it, if it is at that network
 *	drop reason=... packets=...  of these, for each reason that there was
 *	qp number=... ...          of the adapter before it
 *	end
 */
#pragma once

#include <stdio.h>

#include "driver/roce/roce.h"
#include "driver/tcp/tcp.h"

struct stat_qp {
	uint32_t number, send_queued, recv_queued;
	enum weft_qp_state state;
	enum weft_service service;
	enum weft_reason reason;
	bool has_link;
	enum link_phase phase;
	struct weft_address local, remote;
	struct weft_traffic traffic;
	const char *said; /* by the peer in its Terminate, or NULL */
	/* RoCE: has_link while it is connected, or can send datagrams. */
	bool is_roce, has_path;
	uint32_t peer_qp;
	struct qp_tally tally;
};

struct stat_adapter {
	uint32_t number, links, listeners;
	struct weft_usage usage;
	struct weft_traffic traffic; /* of all connections that ever were */
	uint64_t calls_other;	     /* system calls that moved no bytes */
	bool has_roce;
	struct weft_roce_counts roce;
	uint64_t drops[WEFT_REASON_COUNT];
	uint32_t qp_count;
	struct stat_qp *qps; /* to be freed */
};

/* Copies what there is to see; its lock is held. False: memory is short. */
bool report_look(struct weft_adapter *a, struct stat_adapter *seen);

void report_begin(FILE *to);
void report_adapter(FILE *to, const struct stat_adapter *seen);
void report_end(FILE *to);
