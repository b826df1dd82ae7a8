/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of an unreliable connection (IBA 9.8.2), and their judge: what arrives is whole, right
 * and in order, and neither end is told of the rest. uc_world.c has them on a network, near_uc.c
 * between two processes of one host.
 */
#pragma once

#include "sim/roce/roce_node.h"

enum {
	UC_OPS = 60, /* of each direction */
	UC_SLOT = 9000
};

/* Of an end's memory. */
enum {
	UC_AT_LOCAL = 0,
	UC_AT_TARGET = UC_OPS * UC_SLOT,
	UC_AT_RECEIVE = 2 * UC_OPS * UC_SLOT,
	UC_END_BYTES = 3 * UC_OPS * UC_SLOT
};

struct uc_op {
	enum weft_opcode opcode;
	uint32_t bytes;
};

struct uc_end {
	struct roce_node *node;
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
	uint32_t tag;
	struct uc_op ops[UC_OPS];
	uint32_t begun, ended, posted, received;
	uint32_t next; /* the lowest number that may come */
	bool is_lossy; /* what its peer sends may be lost */
};

/* Up to so many in all. */
void uc_post_receives(struct roce_world *w, struct uc_end *e, uint32_t count);

/* Draws the next message and posts it. */
void uc_begin(struct roce_world *w, struct prng *prng, struct uc_end *e, const struct uc_end *peer);

/* ---- The judge ------------------------------------------------------------------------------ */

/* A request has ended; a message has come. */
void uc_judge_ended(struct roce_world *w, struct uc_end *e, const struct weft_completion *c);
void uc_judge_came(struct roce_world *w, struct uc_end *e, const struct uc_end *peer,
		   const struct weft_completion *c);

/* All has come that will. */
void uc_judge_end(struct roce_world *w, struct uc_end *e, const struct uc_end *peer);
