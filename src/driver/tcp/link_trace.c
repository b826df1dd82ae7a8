/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace events of a link. */
#include "driver/tcp/link.h"

void link_trace(const struct link *link, enum trace_kind kind, enum weft_reason reason)
{
	observe_address(&link->net->adapter->observed, &link->remote,
			(struct trace_event){
				.kind = (uint16_t)kind,
				.who = link->qp_number,
				.reason = (uint16_t)reason,
			});
}

void link_trace_move(const struct link *link, enum link_phase to)
{
	observe_address(&link->net->adapter->observed, &link->remote,
			(struct trace_event){
				.kind = TRACE_LINK_PHASE,
				.who = link->qp_number,
				.a = link->phase,
				.b = to,
			});
}

void link_trace_terms(const struct link *link)
{
	const struct iwarp_terms *t = &link->terms;
	struct trace_event e = {
		.kind = TRACE_AGREED,
		.who = link->qp_number,
		.a = t->ird | (uint64_t)t->ord << 16,
		.b = (uint64_t)t->rtr << TRACE_RTR_SHIFT | (uint64_t)link->mpa_revision
								   << TRACE_REVISION_SHIFT,
	};

	e.b |= t->is_initiator ? TRACE_IS_INITIATOR : 0;
	e.b |= t->has_crc ? TRACE_HAS_CRC : 0;
	e.b |= t->sends_markers ? TRACE_SENDS_MARKERS : 0;
	e.b |= t->takes_markers ? TRACE_TAKES_MARKERS : 0;
	observe_address(&link->net->adapter->observed, &link->remote, e);
}
