/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the judges of reliable services have in common. When a request has ended well, what it was
 * to do is done: a Write is there, a Read brought the bytes of its source, and every addition to a
 * word was done once (QP-S3).
 */
#pragma once

#include "sim/roce/roce_node.h"

enum { ROCE_ADDS_MAX = 1024, ROCE_WORD_BYTES = 8 };

/* Additions to one word, which began at 0. */
struct roce_adds {
	bool seen[ROCE_ADDS_MAX]; /* old values that additions brought */
	uint32_t count;
};

/* A Write, Read or addition that has ended well. */
struct roce_done {
	const char *who; /* node, actor ... */
	uint32_t index, request;
	enum weft_opcode opcode;
	uint32_t number, bytes; /* of the bytes that were written, or are read */
	struct roce_node *node, *other;
	uint32_t local, target; /* where they are at each */
	struct roce_adds *adds; /* to the word */
};

void roce_judge_done(struct roce_world *w, const struct roce_done *d);

/* The word has counted every addition, and perhaps so many more that were not told of. */
void roce_judge_word(struct roce_world *w, struct roce_node *n, uint32_t offset,
		     const struct roce_adds *adds, uint32_t perhaps);
