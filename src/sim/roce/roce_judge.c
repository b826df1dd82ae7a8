/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/roce_judge.h"

#include <inttypes.h>
#include <string.h>

static void judge_write(struct roce_world *w, const struct roce_done *d)
{
	if (!roce_node_holds(d->other, d->target, d->number, 0, d->bytes))
		roce_fail(w, "%s %u: request %u, a Write, ended and is not there", d->who, d->index,
			  d->request);
	roce_node_accept(d->other, d->target, d->bytes);
}

static void judge_read(struct roce_world *w, const struct roce_done *d)
{
	if (!roce_node_holds(d->node, d->local, d->number, 0, d->bytes))
		roce_fail(w, "%s %u: request %u, a Read, brought other bytes", d->who, d->index,
			  d->request);
	roce_node_accept(d->node, d->local, d->bytes);
}

static void judge_add(struct roce_world *w, const struct roce_done *d)
{
	uint64_t old;

	memcpy(&old, d->node->memory + d->local, sizeof(old));
	roce_node_accept(d->node, d->local, d->bytes);
	if (old >= ROCE_ADDS_MAX || d->adds->seen[old]) {
		roce_fail(w, "%s %u: an addition brought %" PRIu64 ", as another did or none could",
			  d->who, d->index, old);
		return;
	}
	d->adds->seen[old] = true;
	d->adds->count++;
}

void roce_judge_done(struct roce_world *w, const struct roce_done *d)
{
	switch (d->opcode) {
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
		judge_write(w, d);
		break;
	case WEFT_OP_READ:
		judge_read(w, d);
		break;
	case WEFT_OP_FETCH_ADD:
		judge_add(w, d);
		break;
	default: /* the receiver knows */
		break;
	}
}

void roce_judge_word(struct roce_world *w, struct roce_node *n, uint32_t offset,
		     const struct roce_adds *adds, uint32_t perhaps)
{
	uint64_t word;

	memcpy(&word, n->memory + offset, sizeof(word));
	if (word < adds->count || word > adds->count + perhaps)
		roce_fail(w, "node %u: its word is %" PRIu64 " after %u additions", n->index, word,
			  adds->count);
	roce_node_accept(n, offset, ROCE_WORD_BYTES);
}
