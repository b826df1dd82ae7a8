/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The world of iscsi_world.h by iSER: sessions are on queue pairs of RC, over iWARP on a simulated
 * TCP connection (sim/world/tcp_link.h), and the target has an adapter, too.
 *
 *	iscsi_iser_host.c	a host's queue pair as a port of its session, and its windows
 *	iscsi_iser_target.c	the target's adapter, and what its queue pairs post
 *	iscsi_iser_link.c	connections
 */
#pragma once

#include "iscsi/initiator/initiator_iser.h"
#include "iscsi/target/target_iser.h"
#include "sim/iscsi/iscsi_world.h"

enum {
	ISW_ISER_HOST_RECEIVES = ISW_ASKS + ISER_PORT_UNEXPECTED,
	ISW_ISER_HOST_SENDS = ISW_ASKS + ISER_PORT_CONTROLS_MAX,
	ISW_ISER_SEND_BYTES = ISER_PORT_SEND_MAX + ISER_TARGET_RECV_BYTES,
	ISW_ISER_RECEIVES = 64,
	ISW_ISER_POSTED = 16, /* by the target, at a time */
	ISW_ISER_READS = 8
};

/* Of a host, while it is up. */
struct isw_iser_host {
	struct iser_port *port;
	uint32_t region; /* receives and sends */
	struct {
		uint32_t tag;
		bool is_bound;
	} windows[ISW_ASKS];
	bool is_sending[ISW_ISER_HOST_SENDS];
	struct {
		uint8_t receives[ISW_ISER_HOST_RECEIVES][ISER_PORT_MESSAGE_MAX];
		uint8_t sends[ISW_ISER_HOST_SENDS][ISW_ISER_SEND_BYTES];
	} memory;
};

/* The target's process: one adapter in each of its lives. */
struct isw_iser_target {
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct list attention;
	uint32_t region; /* all memory */
};

/* The target's queue pair of one link. */
struct isw_iser_end {
	struct weft_qp *qp;
	uint32_t posted, reads;
	struct {
		bool is_used, is_read;
		uint64_t id;
		uint8_t message[ISER_ANSWER_MAX];
	} slots[ISW_ISER_POSTED];
	uint8_t receives[ISW_ISER_RECEIVES][ISER_MESSAGE_MAX];
};

/* ---- iscsi_iser_host.c ---------------------------------------------------------------------- */

/* What a host wishes by iSER. */
void isw_iser_wish(struct iscsi_params *p);

/* 0, or -1: out of memory. */
int isw_iser_host_open(struct isw_host *h);
void isw_iser_host_close(struct isw_host *h);

/* Its dialling has come to the portal. */
void isw_iser_host_dialled(struct isw_host *h, uint32_t portal);
bool isw_iser_host_run(struct isw_host *h);
void isw_iser_host_completed(struct isw_host *h, const struct weft_completion *c);

/* After calls of the session: commands that are over can be reached no more. */
void isw_iser_host_settle(struct isw_host *h);

/* ---- iscsi_iser_target.c: 0, or -1: out of memory ------------------------------------------- */

int isw_iser_target_start(struct iscsi_world *w);
void isw_iser_target_stop(struct iscsi_world *w);
bool isw_iser_target_run(struct iscsi_world *w);

/* A queue pair for the connection that is asked for. */
bool isw_iser_end_open(struct isw_link *l);
/* The core has work for it, or has done with it. */
void isw_iser_end_serve(struct isw_link *l);
/* The process has gone. */
void isw_iser_end_stop(struct isw_link *l);

/* ---- iscsi_iser_link.c ---------------------------------------------------------------------- */

struct isw_link *isw_iser_link_dial(struct isw_link *l);
void isw_iser_link_leave(struct isw_link *l, enum iscsi_side side, uint32_t as);
void isw_iser_link_cut(struct isw_link *l);
void isw_iser_link_calm(struct isw_link *l);
