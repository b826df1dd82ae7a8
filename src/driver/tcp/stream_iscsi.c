/* SPDX-License-Identifier: BSD-2-Clause */
/* The stream core of queue pairs in iSCSI mode: iscsi/offload/offload.h. */
#include "driver/tcp/link.h"
#include "iscsi/offload/offload.h"

_Static_assert((int)STREAM_SHUT == (int)ISCSI_OFFLOAD_SHUT &&
		       (int)STREAM_CLOSE == (int)ISCSI_OFFLOAD_CLOSE &&
		       (int)STREAM_ABORT == (int)ISCSI_OFFLOAD_ABORT,
	       "one numbering of actions");

static const uint64_t close_wait_ns = UINT64_C(2) * 1000 * 1000 * 1000;

static enum weft_reason begin(struct link *link)
{
	const struct iscsi_offload_config config = {
		.close_wait_ns = close_wait_ns,
		.attention = &link->tcp->attention[STREAM_ISCSI],
		.owner = link,
	};
	struct iscsi_offload *stream;
	enum weft_reason r = iscsi_offload_create(link->qp, &config, &stream);

	if (r == WEFT_OK)
		link->stream = stream;
	return r;
}

static struct link *attend(struct list *attention)
{
	struct iscsi_offload *s = iscsi_offload_attend(attention);

	return s ? iscsi_offload_owner(s) : NULL;
}

static struct link *last(const struct list *attention)
{
	struct iscsi_offload *s = iscsi_offload_last(attention);

	return s ? iscsi_offload_owner(s) : NULL;
}

static void again(struct link *link)
{
	iscsi_offload_again(link->stream);
}

/* It has all the memory that it needs. */
static void prepare(struct link *link)
{
	(void)link;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void want(struct link *link, struct span_list *l)
{
	iscsi_offload_want(link->stream, link->net->now_ns, l);
}

static bool wants(const struct link *link)
{
	return iscsi_offload_wants(link->stream);
}

static void got(struct link *link, const struct span_list *l, size_t n)
{
	iscsi_offload_got(link->stream, link->net->now_ns, l, n);
}

static void sink_gone(struct link *link)
{
	iscsi_offload_sink_gone(link->stream);
}

static void eof(struct link *link)
{
	iscsi_offload_eof(link->stream, link->net->now_ns);
}

static void lost(struct link *link)
{
	iscsi_offload_lost(link->stream);
}

static void have(struct link *link, struct span_list *l)
{
	iscsi_offload_have(link->stream, link->net->now_ns, l);
}

static void sent(struct link *link, size_t n)
{
	iscsi_offload_sent(link->stream, link->net->now_ns, n);
}

static void source_gone(struct link *link)
{
	iscsi_offload_source_gone(link->stream);
}

/* ---- Deadlines and actions ------------------------------------------------------------------ */

static uint64_t due(const struct link *link)
{
	return iscsi_offload_due(link->stream);
}

static void expire(struct link *link)
{
	iscsi_offload_expire(link->stream, link->net->now_ns);
}

static enum stream_action action(struct link *link)
{
	return (enum stream_action)iscsi_offload_action(link->stream);
}

/* ---- Its end -------------------------------------------------------------------------------- */

static void count(const struct link *link, struct weft_traffic *t)
{
	struct iscsi_offload_counts c = iscsi_offload_counts(link->stream);

	t->messages_in = t->frames_in = c.pdus_in;
	t->messages_out = t->frames_out = c.pdus_out;
	t->bytes_in += c.bytes_in;
	t->bytes_out += c.bytes_out;
	t->payload_in = c.data_in;
	t->payload_out = c.data_out;
	t->payload_copied = c.data_copied;
}

static void destroy(struct link *link)
{
	iscsi_offload_destroy(link->stream);
}

/*
 * A program that takes a few answers, and asks for more, keeps the target busy while it takes the
 * next; after all answers at once the target would have nothing to do.
 */
enum { ROUNDS_IN = 8 };

const struct stream_core stream_iscsi = {
	.rounds_in = ROUNDS_IN,
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
