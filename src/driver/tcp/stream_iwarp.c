/* SPDX-License-Identifier: BSD-2-Clause */
/* The stream core of RDMA connections: iwarp/. */
#include "base/least.h"
#include "driver/tcp/link.h"

_Static_assert((int)STREAM_SHUT == (int)IWARP_SHUT && (int)STREAM_CLOSE == (int)IWARP_CLOSE &&
		       (int)STREAM_ABORT == (int)IWARP_ABORT,
	       "one numbering of actions");

static const uint64_t close_wait_ns = UINT64_C(2) * 1000 * 1000 * 1000;
static const uint64_t again_wait_ns = 50 * 1000 * 1000;

static enum weft_reason begin(struct link *link)
{
	struct iwarp_config config = {
		.terms = link->terms,
		.close_wait_ns = close_wait_ns,
		.begin_ns = link->net->now_ns,
		.again_wait_ns = again_wait_ns,
		.first_wait_ns = link->first_wait_ns,
		.attention = &link->tcp->attention[STREAM_IWARP],
		.owner = link,
	};
	struct iwarp_stream *stream;
	enum weft_reason r;

	if (link->near)
		config.terms.has_crc = false;
	r = iwarp_create(link->qp, &config, &stream);
	if (r == WEFT_OK)
		link->stream = stream;
	return r;
}

static struct link *attend(struct list *attention)
{
	struct iwarp_stream *s = iwarp_attend(attention);

	return s ? iwarp_owner(s) : NULL;
}

static struct link *last(const struct list *attention)
{
	struct iwarp_stream *s = iwarp_last(attention);

	return s ? iwarp_owner(s) : NULL;
}

static void again(struct link *link)
{
	iwarp_again(link->stream);
}

static void prepare(struct link *link)
{
	if (iwarp_is_cramped(link->stream))
		buffers_lend(link->tcp, link);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void want(struct link *link, struct span_list *l)
{
	iwarp_want(link->stream, link->net->now_ns, l);
}

static bool wants(const struct link *link)
{
	return iwarp_wants(link->stream);
}

static void got(struct link *link, const struct span_list *l, size_t n)
{
	const struct iwarp_counts *counts = iwarp_counts(link->stream);
	uint64_t asked = counts->requests_in;

	iwarp_got(link->stream, link->net->now_ns, l, n);
	if (link->qp)
		link->qp->ends.peer_words = iwarp_peer_words(link->stream);
	link->net->asked += counts->requests_in - asked;
}

static void sink_gone(struct link *link)
{
	iwarp_sink_gone(link->stream);
}

static void eof(struct link *link)
{
	iwarp_eof(link->stream, link->net->now_ns);
}

static void lost(struct link *link)
{
	iwarp_lost(link->stream);
}

static void have(struct link *link, struct span_list *l)
{
	iwarp_have(link->stream, link->net->now_ns, l);
}

static void sent(struct link *link, size_t n)
{
	iwarp_sent(link->stream, link->net->now_ns, n);
}

static void source_gone(struct link *link)
{
	iwarp_source_gone(link->stream);
}

/* ---- Deadlines and actions ------------------------------------------------------------------ */

static uint64_t due(const struct link *link)
{
	uint64_t due_ns = iwarp_due(link->stream);

	return link->phase == LINK_AWAITING_RTR ? least(due_ns, link->ready_ns) : due_ns;
}

static void expire(struct link *link)
{
	uint64_t now_ns = link->net->now_ns;

	if (link->phase == LINK_AWAITING_RTR && link->ready_ns <= now_ns)
		iwarp_refuse(link->stream, WEFT_R_CONNECT_TIMEOUT);
	iwarp_expire(link->stream, now_ns);
}

/* The first FPDU of the peer connects a responder; a timeout or loss fails it. */
static void await_rtr(struct link *link)
{
	if (iwarp_is_ready(link->stream)) {
		link_move(link, LINK_STREAM);
		link_connected(link);
	} else if (!iwarp_is_open(link->stream)) {
		link_move(link, LINK_STREAM);
		link_raise(link, WEFT_EVENT_CONNECT_FAILED,
			   link->qp ? link->qp->reason : WEFT_R_CONNECT_CLOSED);
	}
}

static enum stream_action action(struct link *link)
{
	if (link->phase == LINK_AWAITING_RTR)
		await_rtr(link);
	return (enum stream_action)iwarp_action(link->stream);
}

/* ---- Its end -------------------------------------------------------------------------------- */

static void count(const struct link *link, struct weft_traffic *t)
{
	const struct iwarp_counts *c = iwarp_counts(link->stream);

	t->messages_in = c->messages_in;
	t->messages_out = c->messages_out;
	t->frames_in = c->fpdus_in;
	t->frames_out = c->fpdus_out;
	t->bytes_in += c->bytes_in;
	t->bytes_out += c->bytes_out;
	t->payload_in = c->payload_in;
	t->payload_out = c->payload_out;
	t->payload_copied = c->payload_copied;
}

static void destroy(struct link *link)
{
	buffers_return(link->tcp, link);
	iwarp_destroy(link->stream);
}

enum { ROUNDS_IN = 32 };

const struct stream_core stream_iwarp = {
	.rounds_in = ROUNDS_IN,
	.has_setup = true,
	.begin = begin,
	.attend = attend,
	.last = last,
	.again = again,
	.prepare = prepare,
	.want = want,
	.wants = wants,
	.got = got,
	.sink_gone = sink_gone,
	.eof = eof,
	.lost = lost,
	.have = have,
	.sent = sent,
	.source_gone = source_gone,
	.due = due,
	.expire = expire,
	.action = action,
	.count = count,
	.destroy = destroy,
};
