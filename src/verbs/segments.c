/* SPDX-License-Identifier: BSD-2-Clause */
/* Scatter/gather lists: from segments to memory, through the one gate. */
#include "verbs/qp.h"

static enum weft_reason segment_open(struct weft_qp *qp, const struct stretch *s,
				     const struct weft_sge *segment, struct mem_grant *grant)
{
	struct mem_access access = {
		.addr = segment->addr,
		.length = segment->length,
		.tag = segment->tag,
		.kind = s->kind,
		.is_ahead = s->is_ahead,
		.can_wait = s->can_wait,
	};
	enum weft_reason r = qp_access(qp, &access, grant);

	if (r != WEFT_OK && s->is_again && r != WEFT_R_SPACE_UNMAPPED) {
		access.pd = qp->pd->number;
		if (mem_access_retired(&qp->adapter->mem, &access, qp->pd->space, grant) == WEFT_OK)
			return WEFT_OK;
	}
	return r;
}

enum weft_reason qp_segments_check(struct weft_qp *qp, const struct stretch *all)
{
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < all->count && r == WEFT_OK; i++) {
		struct mem_grant grant;

		r = segment_open(qp, all, &all->sges[i], &grant);
	}
	return r;
}

bool qp_segments_will_come(struct weft_qp *qp, const struct stretch *all)
{
	for (uint32_t i = 0; i < all->count; i++) {
		const struct weft_sge *segment = &all->sges[i];
		const struct mem_access access = {
			.addr = segment->addr,
			.length = segment->length,
			.tag = segment->tag,
			.pd = qp->pd->number,
			.qp = qp->number,
			.kind = all->kind,
		};
		struct mem_grant grant;
		enum weft_reason r = mem_access_check(&qp->adapter->mem, &access, &grant);

		if (r != WEFT_OK && (r != WEFT_R_SPACE_UNMAPPED || !mem_grant_will_come(&grant)))
			return false;
	}
	return true;
}

void qp_await_memory(struct weft_qp *qp)
{
	if (!list_is_linked(&qp->absent_link))
		list_add_tail(&qp->adapter->absent, &qp->absent_link);
}

enum weft_reason qp_segments_spans(struct weft_qp *qp, const struct stretch *stretch,
				   struct mem_span *spans, uint32_t max, uint32_t *count)
{
	uint64_t skip = stretch->offset, left = stretch->length;

	*count = 0;
	for (uint32_t i = 0; i < stretch->count && left > 0 && *count < max; i++) {
		const struct weft_sge *segment = &stretch->sges[i];
		struct weft_sge part;
		struct mem_grant grant;
		enum weft_reason r;

		if (skip >= segment->length) {
			skip -= segment->length;
			continue;
		}
		part.addr = segment->addr + skip;
		part.length = segment->length - (uint32_t)skip;
		part.length = part.length < left ? part.length : (uint32_t)left;
		part.tag = segment->tag;
		skip = 0;
		r = segment_open(qp, stretch, &part, &grant);
		if (r != WEFT_OK)
			return r;
		*count += mem_grant_spans(&grant, &spans[*count], max - *count);
		if (grant.length > 0)
			break;
		left -= part.length;
	}
	return WEFT_OK;
}

/* ---- Requests ------------------------------------------------------------------------------- */

struct stretch qp_recv_stretch(const struct weft_qp *qp)
{
	return (struct stretch){
		.sges = qp->recv->sges,
		.count = qp->recv->sge_count,
		.kind = MEM_LOCAL_WRITE,
	};
}

struct stretch request_stretch(struct send_wqe *wqe)
{
	enum mem_kind kind = MEM_LOCAL_READ;

	if (wqe->opcode == WEFT_OP_READ)
		kind = MEM_READ_SINK;
	else if (wqe_is_read(wqe))
		kind = MEM_LOCAL_WRITE;
	return (struct stretch){
		.sges = wqe_segments(wqe),
		.count = wqe->sge_count,
		.kind = kind,
		.length = wqe->length,
	};
}

bool request_check(struct weft_qp *qp, struct send_wqe *wqe, bool can_wait)
{
	const struct stretch all = request_stretch(wqe);
	struct outcome out = { .status = WEFT_ERR_LOCAL_ACCESS, .is_local = true };

	if (wqe->flags & WEFT_INLINE) /* the slot is ours */
		return true;
	out.reason = qp_segments_check(qp, &all);
	if (out.reason == WEFT_OK ||
	    (can_wait && out.reason == WEFT_R_SPACE_UNMAPPED && qp_segments_will_come(qp, &all)))
		return true;
	send_queue_end(qp, wqe, &out);
	return false;
}
