/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters of a test at the hub of fabric_bed.h, without a loop: the test looks by itself. */
#pragma once

#include "driver/fabric/fabric_attach.h"
#include "fabric/fabric_bed.h"

enum { PATIENCE_MS = 20000 };

struct end {
	struct fabric_attach *attach;
	struct watch *watch;
	uint32_t news;
	bool has_gone;
};

struct fabric_attach_config end_config(struct end *e, const char *node, uint32_t port);
/* At a port of the node of that name; at node 0 or 1 of the bed, which is opened if it is not. */
enum weft_reason end_try(struct end *e, const char *node, uint32_t port);
void end_open(struct end *e, int node);

/* Until its socket is readable. */
void end_look(struct end *e);

uint16_t end_lid(const struct end *e);
uint32_t end_qp(const struct end *e);

/* A frame of UD to a queue pair; returns its length. */
uint32_t end_frame(uint8_t *bytes, uint16_t from, uint16_t to, uint32_t qp, const uint8_t *gid);

/* Posts it as a packet that was built in the ring. False: there is no room. */
bool end_post(struct end *e, const uint8_t *frame, uint32_t length, bool has_grh);
void end_send(struct end *from, const struct end *to);

/* Sends until one that does not read holds frames back, and all that is behind it is full. */
uint32_t end_fill(struct end *from, const struct end *to);

/* The next frame, which it waits for. */
const struct ib_in *end_next(struct end *e);

/* Until the hub has counted so many; of adapters: just as many. False: it does not. */
bool hub_await(bool (*is_so)(const struct fabric_hub_counts *n), uint64_t count);
bool hub_has_refused(const struct fabric_hub_counts *n);
bool hub_has_lost(const struct fabric_hub_counts *n);
bool hub_has_adapters(const struct fabric_hub_counts *n);
bool hub_has_held(const struct fabric_hub_counts *n);
bool hub_has_broken(const struct fabric_hub_counts *n);
bool hub_has_untaken(const struct fabric_hub_counts *n);
