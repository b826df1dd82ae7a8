/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The report that stat.c sends. The first word of a line names its kind, the others are
 * `key=value`. Values contain no space, except that of the last key of a line, `said`.
 *
 *	weft 1 version=... pid=... memory_faults=... ... program=...
 *	adapter number=... ...
 *	roce packets_in=... ...      of the adapter before it, if it uses RoCE
 *	drop reason=... packets=...  dropped packets, a line for each reason
 *	space mappings=... ...       address spaces of the adapter, a line for each
 *	qp number=... ...            of the adapter before it
 *	end
 */
#pragma once

#include <stdio.h>

#include "driver/roce/roce.h"
#include "driver/tcp/tcp.h"
#include "iscsi/offload/offload.h"

struct stat_qp {
	uint32_t number, send_queued, recv_queued;
	enum weft_qp_state state;
	enum weft_qp_service service;
	enum weft_reason reason;
	bool has_link;
	enum link_phase phase;
	struct weft_address local, remote;
	struct weft_traffic traffic;
	const char *said; /* by the peer in its Terminate, or NULL */
	/* RoCE: has_link while the queue pair is connected, or can send datagrams. */
	bool is_roce, has_path, is_near;
	uint32_t peer_qp;
	struct qp_tally tally;
	/* Of a queue pair in iSCSI mode that has a connection. */
	bool has_iscsi;
	struct weft_iscsi_attr iscsi;
};

/* An address space that the program made. */
struct stat_space {
	uint32_t mappings;
	bool has_pager;
	struct weft_pins pins;
	uint64_t events_raised, brought; /* see struct mem_paging */
};

struct stat_adapter {
	uint32_t number, links, listeners;
	struct weft_usage usage;
	struct weft_traffic traffic; /* of all connections, past and present */
	uint64_t calls_other;	     /* system calls that moved no bytes */
	bool has_roce;
	struct weft_roce_counts roce;
	uint64_t drops[WEFT_REASON_COUNT];
	uint32_t qp_count, space_count;
	struct stat_qp *qps;
	struct stat_space *spaces;
};

/* Copies the adapter's counters; its lock is held. False: out of memory. Needs report_free(). */
bool report_look(struct weft_adapter *a, struct stat_adapter *seen);
void report_free(struct stat_adapter *seen);

void report_begin(FILE *to);
void report_adapter(FILE *to, const struct stat_adapter *seen);
void report_end(FILE *to);
