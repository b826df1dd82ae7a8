/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/stat/stat_report.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/sys/guard.h"
#include "driver/sys/notice.h"
#include "driver/tcp/link_near.h"

/* ---- Looking -------------------------------------------------------------------------------- */

static void look_at_roce(const struct weft_qp *qp, struct stat_qp *seen)
{
	seen->is_roce = true;
	seen->has_link = ib_conn_of(qp) != NULL;
	seen->is_near = seen->has_link && ib_is_near(ib_conn_of(qp));
	seen->tally = qp->tally;
	roce_traffic(qp, &seen->traffic);
	seen->has_path = qp->ends.peer.family != 0;
	seen->local = qp->ends.local;
	seen->remote = qp->ends.peer;
	seen->peer_qp = qp->ends.peer_number;
}

static void look_at_qp(struct weft_qp *qp, struct stat_qp *seen)
{
	const struct link *link = qp->link;

	*seen = (struct stat_qp){
		.number = qp->number,
		.state = qp->state,
		.service = qp->service,
		.reason = qp->reason,
		.send_queued = qp->sq.count,
		.recv_queued = qp->srq ? 0 : qp->rq.used,
	};
	seen->has_iscsi = iscsi_offload_query(qp, &seen->iscsi) == WEFT_OK;
	ib_collect_direct(qp);
	if (qp->tally.is_begun)
		look_at_roce(qp, seen);
	if (!link || seen->is_roce)
		return;
	seen->has_link = true;
	seen->phase = link->phase;
	seen->is_near = link_near_runs(link);
	seen->local = link->local;
	seen->remote = link->remote;
	seen->said = qp->ends.peer_words;
	link_traffic(link, &seen->traffic);
	if (seen->reason == WEFT_OK)
		seen->reason = link->reason; /* it was not connected */
}

static uint32_t length_of(const struct list *l)
{
	uint32_t n = 0;

	for (const struct list *at = l->next; at != l; at = at->next)
		n++;
	return n;
}

static bool look_at_spaces(struct weft_adapter *a, struct stat_adapter *seen)
{
	const struct list *spaces = &a->core.spaces;

	seen->spaces = calloc(a->core.space_count + 1, sizeof(*seen->spaces));
	if (!seen->spaces)
		return false;
	for (const struct list *at = spaces->next; at != spaces; at = at->next) {
		const struct weft_space *s = CONTAINER_OF(at, struct weft_space, link);
		struct stat_space *to = &seen->spaces[seen->space_count++];

		to->mappings = s->mapping_count;
		to->has_pager = s->paging->has_pager;
		to->events_raised = s->paging->events_raised;
		to->brought = s->paging->brought;
		mem_pins_query(s->paging, adapter_now_ns(a), &to->pins);
	}
	return true;
}

bool report_look(struct weft_adapter *a, struct stat_adapter *seen)
{
	const struct id_table *qps = &a->core.qps;
	const struct tcp *tcp = tcp_of(a->net);
	const struct roce *roce = roce_of(a->net);

	seen->number = a->observed.number;
	if (tcp) {
		seen->links = length_of(&tcp->links);
		seen->listeners = length_of(&tcp->listeners);
	}
	seen->calls_other = a->net->calls_other;
	adapter_usage(&a->core, &seen->usage);
	net_traffic(a->net, &seen->traffic);
	if (roce) {
		seen->has_roce = true;
		seen->listeners += length_of(&roce->services);
		roce_tell(roce, &seen->roce);
		for (int i = 0; i < WEFT_REASON_COUNT; i++)
			seen->drops[i] = ib_port_dropped(roce->port, (enum weft_reason)i);
	}
	seen->qps = calloc(qps->used + 1, sizeof(*seen->qps));
	if (!seen->qps || !look_at_spaces(a, seen))
		return false;
	for (uint32_t i = 0; i < qps->slots_max && seen->qp_count < qps->used; i++) {
		struct stat_qp *qp = &seen->qps[seen->qp_count];

		if (!qps->objects[i])
			continue;
		look_at_qp(qps->objects[i], qp);
		seen->links += qp->is_roce && qp->has_link && qp->has_path;
		seen->qp_count++;
	}
	return true;
}

void report_free(struct stat_adapter *seen)
{
	free(seen->qps);
	free(seen->spaces);
}

/* ---- Telling -------------------------------------------------------------------------------- */

static void tell(FILE *to, const char *key, uint64_t value)
{
	fprintf(to, " %s=%" PRIu64, key, value);
}

static void tell_traffic(FILE *to, const struct weft_traffic *t)
{
	tell(to, "messages_in", t->messages_in);
	tell(to, "messages_out", t->messages_out);
	tell(to, "frames_in", t->frames_in);
	tell(to, "frames_out", t->frames_out);
	tell(to, "bytes_in", t->bytes_in);
	tell(to, "bytes_out", t->bytes_out);
	tell(to, "payload_in", t->payload_in);
	tell(to, "payload_out", t->payload_out);
	tell(to, "payload_copied", t->payload_copied);
	tell(to, "calls_in", t->calls_in);
	tell(to, "calls_out", t->calls_out);
	tell(to, "calls_empty", t->calls_empty);
}

void report_begin(FILE *to)
{
	struct notice_counts notices;

	notice_query(&notices);
	fprintf(to, "weft 1 version=%s pid=%ld", weft_version(), (long)getpid());
	tell(to, "memory_faults", guard_faults());
	tell(to, "memory_unmapped", notices.unmapped);
	tell(to, "memory_unwatched", notices.unwatched);
	fprintf(to, " memory_notices=%s program=", notices.is_on ? "on" : "off");
	for (const char *at = program_invocation_short_name; *at; at++)
		fputc(isgraph((unsigned char)*at) ? *at : '_', to);
	fputc('\n', to);
}

static const char *link_of(const struct stat_qp *q)
{
	if (q->is_roce && q->has_link)
		return q->is_near ? "near" : "roce";
	if (q->is_roce)
		return "ended";
	if (q->has_link && q->is_near && q->phase == LINK_STREAM)
		return "near";
	return q->has_link ? link_phase_name(q->phase) : "none";
}

static void tell_tally(FILE *to, const struct stat_qp *q)
{
	const struct qp_tally *t = &q->tally;

	if (q->has_path)
		fprintf(to, " peer_qp=%06x", q->peer_qp);
	tell(to, "resent", t->resent);
	tell(to, "timeouts", t->timeouts);
	tell(to, "naks_in", t->naks_in);
	tell(to, "naks_out", t->naks_out);
	tell(to, "rnrs_in", t->rnrs_in);
	tell(to, "rnrs_out", t->rnrs_out);
	tell(to, "duplicates", t->duplicates);
}

static void tell_roce(FILE *to, const struct stat_adapter *seen)
{
	const struct weft_roce_counts *n = &seen->roce;

	fputs("roce", to);
	tell(to, "packets_in", n->packets_in);
	tell(to, "packets_out", n->packets_out);
	tell(to, "dropped", n->dropped);
	tell(to, "resent", n->resent);
	tell(to, "timeouts", n->timeouts);
	tell(to, "naks_in", n->naks_in);
	tell(to, "naks_out", n->naks_out);
	tell(to, "rnrs_in", n->rnrs_in);
	tell(to, "rnrs_out", n->rnrs_out);
	tell(to, "duplicates", n->duplicates);
	tell(to, "marks_in", n->marks_in);
	tell(to, "notices_in", n->notices_in);
	tell(to, "notices_out", n->notices_out);
	tell(to, "handed_in", n->handed_in);
	tell(to, "handed_out", n->handed_out);
	tell(to, "near_in", n->near_in);
	tell(to, "near_out", n->near_out);
	tell(to, "near_lost", n->near_lost);
	tell(to, "direct", n->direct);
	tell(to, "sent_away", n->sent_away);
	tell(to, "overruns", n->overruns);
	tell(to, "refused", n->refused);
	fprintf(to, " refused_for=%s", weft_reason_name(n->refused_for));
	tell(to, "kept_bytes", n->kept_bytes);
	tell(to, "kept_bytes_max", n->kept_bytes_max);
	tell(to, "kept_byte_ns", n->kept_byte_ns);
	fputc('\n', to);
	for (int i = 0; i < WEFT_REASON_COUNT; i++) {
		if (seen->drops[i] > 0)
			fprintf(to, "drop reason=%s packets=%" PRIu64 "\n",
				weft_reason_name((enum weft_reason)i), seen->drops[i]);
	}
}

static void tell_space(FILE *to, const struct stat_space *s)
{
	fputs("space", to);
	tell(to, "mappings", s->mappings);
	tell(to, "has_pager", s->has_pager);
	tell(to, "pins", s->pins.count);
	tell(to, "pins_max", s->pins.count_max);
	tell(to, "pinned_bytes", s->pins.bytes);
	tell(to, "pinned_bytes_max", s->pins.bytes_max);
	tell(to, "pinned", s->pins.pinned);
	tell(to, "pinned_byte_ns", s->pins.byte_ns);
	tell(to, "bytes_handed", s->pins.bytes_handed);
	tell(to, "faults", s->events_raised);
	tell(to, "page_waits", s->pins.faults);
	tell(to, "brought", s->brought);
	fputc('\n', to);
}

static void tell_iscsi(FILE *to, const struct weft_iscsi_attr *i)
{
	tell(to, "commands_open", i->commands_open);
	tell(to, "commands", i->commands);
	tell(to, "responses", i->responses);
	tell(to, "r2ts", i->r2ts);
	tell(to, "data_ins", i->data_ins);
	tell(to, "data_outs", i->data_outs);
	tell(to, "bytes_placed", i->bytes_placed);
	tell(to, "bytes_sent", i->bytes_sent);
	tell(to, "controls_in", i->controls_in);
	tell(to, "controls_out", i->controls_out);
	tell(to, "refused", i->refused);
	tell(to, "dropped", i->dropped);
}

static void tell_qp(FILE *to, const struct stat_qp *q)
{
	static const char *const services[] = {
		[WEFT_RC] = "RC", [WEFT_UC] = "UC",	  [WEFT_RD] = "RD",
		[WEFT_UD] = "UD", [WEFT_ISCSI] = "ISCSI",
	};
	char text[WEFT_ADDRESS_TEXT];

	fprintf(to, "qp number=%06x state=%s service=%s link=%s", q->number,
		weft_qp_state_name(q->state), services[q->service], link_of(q));
	if (q->is_roce ? q->has_path : q->has_link) {
		weft_address_text(&q->local, text);
		fprintf(to, " local=%s", text);
		weft_address_text(&q->remote, text);
		fprintf(to, " peer=%s", text);
	}
	tell(to, "send_queued", q->send_queued);
	tell(to, "recv_queued", q->recv_queued);
	tell_traffic(to, &q->traffic);
	if (q->is_roce)
		tell_tally(to, q);
	if (q->has_iscsi)
		tell_iscsi(to, &q->iscsi);
	fprintf(to, " reason=%s", weft_reason_name(q->reason));
	if (q->said)
		fprintf(to, " said=%s", q->said);
	fputc('\n', to);
}

void report_adapter(FILE *to, const struct stat_adapter *seen)
{
	const struct weft_usage *u = &seen->usage;

	fprintf(to, "adapter number=%" PRIu32, seen->number);
	tell(to, "pds", u->pds);
	tell(to, "cqs", u->cqs);
	tell(to, "srqs", u->srqs);
	tell(to, "qps", u->qps);
	tell(to, "regions", u->regions);
	tell(to, "windows", u->windows);
	tell(to, "iscsi_regions", u->iscsi_regions);
	tell(to, "links", seen->links);
	tell(to, "listeners", seen->listeners);
	tell(to, "accesses_refused", u->accesses_refused);
	tell_traffic(to, &seen->traffic);
	tell(to, "calls_other", seen->calls_other);
	fputc('\n', to);
	if (seen->has_roce)
		tell_roce(to, seen);
	for (uint32_t i = 0; i < seen->space_count; i++)
		tell_space(to, &seen->spaces[i]);
	for (uint32_t i = 0; i < seen->qp_count; i++)
		tell_qp(to, &seen->qps[i]);
}

void report_end(FILE *to)
{
	fputs("end\n", to);
}
