/* SPDX-License-Identifier: BSD-2-Clause */
/* Two agents of InfiniBand's CM, A (active) and B (passive), whose messages are carried by hand. */
#pragma once

#include <string.h>

#include "cm/ib_cm.h"
#include "test.h"

enum { A, B, MS = 1000000, QPN_A = 0x050011, QPN_B = 0x060022, PORT = 7471, PORT_A = 40000 };

#define NO_DATA ((struct ibcm_bytes){ 0 })
#define DATA(text) ((struct ibcm_bytes){ (const uint8_t *)(text), sizeof(text) })

struct cm_bed {
	struct ib_cm *cm[2];
	uint64_t now_ns;
	struct ib_cm_out out; /* what was carried last */
	struct ibcm_msg m;    /* the same, decoded */
	enum weft_reason reason;
};

/* NULL: all defaults. */
void bed_open(struct cm_bed *b, const struct ib_cm_config *config);
void bed_close(struct cm_bed *b);

/* The next message of an end, into out and m; ends the test if it is not of that kind. */
void bed_take(struct cm_bed *b, int from, enum ibcm_kind kind);
/* The same, and it arrives. */
void bed_carry(struct cm_bed *b, int from, enum ibcm_kind kind);
/* What was taken last arrives (again). */
void bed_land(struct cm_bed *b, int to);
/* A message made by hand, as if of the other end. */
enum weft_reason bed_say(struct cm_bed *b, int to, const struct ibcm_msg *m);
void bed_quiet(struct cm_bed *b, int from);

/* The next event, which is of that kind. */
struct ib_cm_event bed_event(struct cm_bed *b, int at, enum ib_cm_event_kind kind);
void bed_no_event(struct cm_bed *b, int at);

void bed_pass(struct cm_bed *b, uint64_t time_ns);
/* Until the end's next deadline. */
void bed_due(struct cm_bed *b, int at);

struct ib_cm_connect bed_request(void);
uint32_t bed_connect(struct cm_bed *b);
/* B's id. */
uint32_t bed_requested(struct cm_bed *b, uint32_t *id_a);
void bed_accept(struct cm_bed *b, uint32_t id);
/* Up to each stage; ids of both ends. */
struct cm_ids {
	uint32_t id[2];
};
struct cm_ids bed_replied(struct cm_bed *b);
struct cm_ids bed_connected(struct cm_bed *b);

struct ibcm_ip bed_ip(int from);
enum ib_cm_state bed_state(struct cm_bed *b, int at, uint32_t id);
