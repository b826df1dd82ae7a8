/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

int readq_init(struct iwarp_stream *s)
{
	struct readq *q = &s->reads;

	q->in_max = s->terms.ird;
	q->out_max = s->terms.ord + 1U; /* one more for a ready-to-receive Read */
	q->in_msn = 1;			/* RFC 5041 section 5.1 */
	q->inbound = calloc(q->in_max + 1U, sizeof(*q->inbound));
	q->outbound = malloc(q->out_max * sizeof(*q->outbound));
	return q->inbound && q->outbound ? 0 : -1;
}

void readq_fini(struct iwarp_stream *s)
{
	free(s->reads.inbound);
	free(s->reads.outbound);
}

/* ---- The peer's ----------------------------------------------------------------------------- */

static uint32_t in_slot(const struct readq *q, uint32_t n)
{
	return (q->in_first + n) % q->in_max;
}

enum weft_reason readq_access(struct iwarp_stream *s, uint32_t slot, const struct stretch *part,
			      struct mem_grant *grant)
{
	const struct inbound *in = &s->reads.inbound[slot];
	uint32_t right = in->is_atomic ? WEFT_REMOTE_ATOMIC : WEFT_REMOTE_READ;
	struct mem_access access = {
		.addr = in->is_atomic ? in->atomic.to : in->read.source_to,
		.length = in->is_atomic ? sizeof(uint64_t) : in->read.size,
		.tag = in->is_atomic ? in->atomic.stag : in->read.source_stag,
		.kind = in->is_atomic ? MEM_REMOTE_ATOMIC : MEM_REMOTE_READ,
		.can_wait = in->is_atomic || part,
	};

	if (part) {
		access.addr += part->offset;
		access.length = part->length;
	}

	/* RFC 5040 section 5.4: a Read of no bytes is not checked. */
	if (access.length > 0 && !(s->qp->remote_rights & right))
		return WEFT_R_QP_REMOTE_RIGHTS;
	return qp_access(s->qp, &access, grant);
}

/*
 * IWARP-06: refuses with the header of the request, which may have come a while ago. The segment
 * that arrived last is not at fault.
 */
static void refuse_request(struct iwarp_stream *s, const struct inbound *in,
			   enum weft_reason reason)
{
	struct rx_segment seg = { .header_bytes = DDP_UNTAGGED_BYTES };

	memcpy(seg.header, in->header, sizeof(in->header));
	if (in->is_atomic) {
		seg.opcode = RDMAP_ATOMIC_REQUEST;
		seg.ulpdu_bytes = DDP_UNTAGGED_BYTES + RDMAP_ATOMIC_REQUEST_BYTES;
		qp_refused(s->qp, reason, in->atomic.to, in->atomic.stag);
	} else {
		seg.opcode = RDMAP_READ_REQUEST;
		seg.ulpdu_bytes = DDP_UNTAGGED_BYTES + RDMAP_READ_REQUEST_BYTES;
		seg.has_read = true;
		seg.read = in->read;
		qp_refused(s->qp, reason, in->read.source_to, in->read.source_stag);
	}
	stream_refuse(s, reason, &seg);
}

void readq_refuse(struct iwarp_stream *s, uint32_t slot, enum weft_reason reason)
{
	refuse_request(s, &s->reads.inbound[slot], reason);
}

static bool decode_request(const struct rx_segment *seg, const uint8_t *body, struct inbound *in)
{
	struct rd r = rd_of(body, seg->bytes);

	in->is_atomic = seg->opcode == RDMAP_ATOMIC_REQUEST;
	memcpy(in->header, seg->header, sizeof(in->header));
	if (in->is_atomic) {
		if (rdmap_atomic_request_decode(&in->atomic, &r) != RDMAP_OK)
			return false;
	} else if (rdmap_read_request_decode(&in->read, &r) != RDMAP_OK) {
		return false;
	}
	return r.at == r.end && seg->is_last;
}

static enum rx_result refuse(struct iwarp_stream *s, enum weft_reason reason)
{
	stream_refuse(s, reason, &s->rx.segment);
	return RX_REFUSED;
}

enum rx_result readq_request(struct iwarp_stream *s, const uint8_t *body)
{
	struct readq *q = &s->reads;
	const struct rx_segment *seg = &s->rx.segment;
	uint32_t n = seg->msn - q->in_msn; /* index from in_first on, modulo 2^32 */
	struct inbound *in;
	struct mem_grant grant;
	enum weft_reason r;

	/*
	 * IWARP-05, IWARP-08: the number must be that of a free entry of the queue; gaps are
	 * allowed.
	 */
	if (n >= q->in_max)
		return refuse(s, n == q->in_count ? WEFT_R_READS_BEYOND : WEFT_R_DDP_MSN);
	in = &q->inbound[in_slot(q, n)];
	if (in->is_here)
		return refuse(s, WEFT_R_DDP_MSN);
	if (seg->mo != 0)
		return refuse(s, WEFT_R_DDP_OFFSET);
	if (!decode_request(seg, body, in))
		return refuse(s, WEFT_R_RDMAP_BODY);
	r = readq_access(s, in_slot(q, n), NULL, &grant);
	if (r == WEFT_R_SPACE_UNMAPPED && mem_grant_will_come(&grant))
		r = WEFT_OK; /* the answer waits for it */
	if (r != WEFT_OK) {
		refuse_request(s, in, r);
		return RX_REFUSED;
	}
	in->is_here = true;
	s->counts.messages_in++;
	while (q->in_count < q->in_max && q->inbound[in_slot(q, q->in_count)].is_here)
		q->in_count++;
	tx_fill(s);
	return RX_OK;
}

static bool run_atomic(const struct rdmap_atomic_request *a, struct mem_grant *grant,
		       uint64_t *original)
{
	const struct mem_atomic op = {
		.is_add = a->opcode == RDMAP_FETCH_ADD,
		.add = a->add_swap,
		.mask = a->add_swap_mask,
		.swap = {
			.compare = a->compare,
			.compare_mask = a->compare_mask,
			.swap = a->add_swap,
			.swap_mask = a->add_swap_mask,
		},
	};

	return mem_atomic_run(&op, grant, original);
}

static void answer_atomic(struct iwarp_stream *s, const struct rdmap_atomic_request *a,
			  uint64_t original)
{
	struct tx_message *m = &s->tx.message;
	struct wr w = wr_of(m->body, sizeof(m->body));
	const struct rdmap_atomic_response answer = { .id = a->id, .original = original };

	m->opcode = RDMAP_ATOMIC_RESPONSE;
	m->qn = RDMAP_QN_ATOMIC_RESPONSE;
	m->msn = ++s->tx.msn[RDMAP_QN_ATOMIC_RESPONSE];
	rdmap_atomic_response_encode(&answer, &w);
	m->body_bytes = RDMAP_ATOMIC_RESPONSE_BYTES;
	mem_touch_message(&s->adapter->mem, a->stag);
}

static uint32_t tag_of(const struct inbound *in)
{
	return in->is_atomic ? in->atomic.stag : in->read.source_stag;
}

/*
 * TOUCH-10: a one-touch entry stays valid until its response is sent. The next Read of it waits
 * until then, and is refused.
 */
bool readq_has_next(const struct iwarp_stream *s)
{
	const struct readq *q = &s->reads;
	uint32_t tag;

	if (q->in_begun == q->in_count)
		return false;
	tag = tag_of(&q->inbound[in_slot(q, q->in_begun)]);
	if (q->in_begun == 0 || !mem_touch_is_once(&s->adapter->mem, tag))
		return true;
	for (uint32_t n = 0; n < q->in_begun; n++) {
		if (tag_of(&q->inbound[in_slot(q, n)]) == tag)
			return false;
	}
	return true;
}

bool readq_answer(struct iwarp_stream *s)
{
	struct readq *q = &s->reads;
	uint32_t slot = in_slot(q, q->in_begun);
	struct inbound *in = &q->inbound[slot];
	struct mem_grant grant;
	enum weft_reason r = readq_access(s, slot, NULL, &grant);
	uint64_t original = 0;

	if (r == WEFT_R_SPACE_UNMAPPED && mem_grant_will_come(&grant)) {
		if (in->is_atomic) {
			tx_await_page(s);
			return false;
		}
		r = WEFT_OK; /* each FPDU waits for its pages */
	}
	if (r == WEFT_OK && in->is_atomic && !run_atomic(&in->atomic, &grant, &original))
		r = WEFT_R_MEMORY_GONE;
	/*
	 * An earlier request may have used up the one-touch entry that was valid when this one
	 * came. Earlier responses are correct: send them first.
	 */
	if (r != WEFT_OK) {
		if (s->tx.count == 0)
			refuse_request(s, in, r);
		return false;
	}
	s->tx.message = (struct tx_message){ .ends = TX_RESPONSE, .slot = slot };
	q->in_begun++;
	if (in->is_atomic) {
		answer_atomic(s, &in->atomic, original);
		return true;
	}
	s->tx.message.opcode = RDMAP_READ_RESPONSE;
	s->tx.message.source = TX_RESPONSE;
	s->tx.message.is_tagged = true;
	s->tx.message.length = in->read.size;
	s->tx.message.stag = in->read.sink_stag;
	s->tx.message.to = in->read.sink_to;
	return true;
}

void readq_taken(struct iwarp_stream *s)
{
	struct readq *q = &s->reads;
	struct inbound *in = &q->inbound[q->in_first];

	CHECK(q->in_begun > 0);
	/*
	 * TOUCH-10. The kernel holds a copy until it is acknowledged, so the memory is not needed
	 * any more.
	 */
	if (!in->is_atomic && in->read.size > 0)
		mem_touch_message(&s->adapter->mem, in->read.source_stag);
	in->is_here = false;
	q->in_msn++;
	q->in_first = in_slot(q, 1);
	q->in_begun--;
	q->in_count--;
}

/* ---- Ours ----------------------------------------------------------------------------------- */

void readq_sent(struct iwarp_stream *s, const struct send_wqe *wqe)
{
	struct readq *q = &s->reads;

	CHECK(q->out_count < q->out_max);
	q->outbound[(q->out_first + q->out_count++) % q->out_max] = send_queue_index(&s->qp->sq,
										     wqe);
}

struct send_wqe *readq_oldest(struct iwarp_stream *s)
{
	const struct readq *q = &s->reads;

	return q->out_count > 0 ? send_queue_at(&s->qp->sq, q->outbound[q->out_first]) : NULL;
}

void readq_answered(struct iwarp_stream *s, const struct outcome *out)
{
	struct readq *q = &s->reads;
	struct send_wqe *wqe = readq_oldest(s);

	q->out_first = (q->out_first + 1) % q->out_max;
	q->out_count--;
	q->out_bytes = 0;
	send_queue_end(s->qp, wqe, out);
}

/* If the number matches no outstanding request, the oldest one counts as refused. */
void readq_refused(struct iwarp_stream *s, uint32_t msn, const struct outcome *out)
{
	const struct readq *q = &s->reads;
	uint32_t after = s->tx.msn[RDMAP_QN_REQUEST] - msn; /* requests sent after it */
	uint32_t n = after < q->out_count ? q->out_count - 1 - after : 0;

	if (q->out_count > 0)
		send_queue_end(
			s->qp,
			send_queue_at(&s->qp->sq, q->outbound[(q->out_first + n) % q->out_max]),
			out);
}
