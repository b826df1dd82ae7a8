/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/roce/cm_id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/least.h"
#include "driver/roce/roce_line.h"
#include "driver/sys/system_reason.h"

/* The number of cm_ids: so many, and one for each queue pair, up to the agent's limit. */
enum { BESIDE_QPS = 4096, CM_IDS_MAX = 1 << 16 };

static const uint64_t leave_after_ns = 1000 * 1000;
static const uint64_t again_after_ns = 20 * 1000 * 1000;

/* ---- Life ----------------------------------------------------------------------------------- */

static uint32_t cm_ids_max(const struct adapter *a)
{
	uint32_t max = BESIDE_QPS + a->qps.slots_max;

	return max < CM_IDS_MAX ? max : CM_IDS_MAX;
}

enum weft_reason cm_ids_open(struct roce *r)
{
	struct ib_cm_config config = {
		.adapter_slot = roce_line_slot(r),
		.cm_ids_max = cm_ids_max(&r->net->adapter->core),
		.trace = r->net->adapter->core.trace,
	};
	uint64_t random[3];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return system_reason(errno);
	memcpy(config.key, random, sizeof(config.key));
	config.ca_guid = random[2];
	list_init(&r->cm_ids);
	list_init(&r->services);
	list_init(&r->leaving);
	list_init(&r->again);
	list_init(&r->neighbours);
	r->look_ns = UINT64_MAX;
	r->cm = ib_cm_create(&config);
	return r->cm ? WEFT_OK : WEFT_R_NO_MEMORY;
}

bool cm_ids_are_none(const struct roce *r)
{
	return list_is_empty(&r->cm_ids) && list_is_empty(&r->services);
}

void cm_ids_leave(struct roce *r)
{
	for (struct list *at = r->cm_ids.next; at != &r->cm_ids; at = at->next) {
		struct weft_cm_id *c = CONTAINER_OF(at, struct weft_cm_id, link);

		ib_cm_forget(r->cm, r->net->now_ns, c->id);
		c->id = 0;
	}
}

void cm_ids_close(struct roce *r)
{
	while (!list_is_empty(&r->cm_ids))
		cm_id_destroy(CONTAINER_OF(r->cm_ids.next, struct weft_cm_id, link));
	while (!list_is_empty(&r->services))
		free(CONTAINER_OF(list_pop(&r->services), struct weft_cm_service, link));
	neighbours_close(r);
	if (r->cm)
		ib_cm_destroy(r->cm);
}

struct weft_cm_id *cm_id_create(struct roce *r, void *context)
{
	struct weft_cm_id *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->roce = r;
	list_init(&c->request_link);
	list_init(&c->leaving_link);
	list_init(&c->neighbour_link);
	list_add_tail(&r->cm_ids, &c->link);
	event_source_init(&c->events, ++r->cm_id_next, context);
	return c;
}

void cm_id_take(struct weft_cm_id *c)
{
	list_remove(&c->request_link);
	if (c->service)
		c->service->unanswered--;
	c->service = NULL;
}

static void unbind(struct weft_cm_id *c)
{
	if (c->conn)
		c->conn->cm_id = NULL;
	c->conn = NULL;
	list_remove(&c->leaving_link);
}

void cm_id_conn_ended(struct roce_conn *rc)
{
	struct weft_cm_id *c = rc->cm_id;
	struct ibcm_parting parting = { .is_failed = ib_why(rc->conn) != WEFT_R_PEER_GONE };
	uint8_t bytes[IBCM_PARTING_BYTES];

	if (!c)
		return;
	unbind(c);
	(void)ib_last_nak(rc->conn, &parting.nak_psn, &parting.nak);
	ibcm_parting_encode(&parting, bytes);
	(void)ib_cm_disconnect(c->roce->cm, c->roce->net->now_ns, c->id,
			       (struct ibcm_bytes){ bytes, sizeof(bytes) });
}

/*
 * The peer has disconnected. Its last packets on the connection came by another socket and may be
 * unread, but every socket is read before this deadline expires. In a network, packets may also
 * still be under way; if so, the NAK repeated in the DREQ replaces them.
 */
static void end_conn_soon(struct weft_cm_id *c, const struct ib_cm_event *e)
{
	if (!c->conn)
		return;
	ibcm_parting_decode(&c->parting, e->private_data, e->private_bytes);
	c->leave_ns = c->roce->net->now_ns + leave_after_ns;
	list_add_tail(&c->roce->leaving, &c->leaving_link);
}

static uint64_t leaving_due(const struct roce *r)
{
	return list_is_empty(&r->leaving)
		       ? UINT64_MAX
		       : CONTAINER_OF(r->leaving.next, struct weft_cm_id, leaving_link)->leave_ns;
}

static void end_conns(struct roce *r, uint64_t now_ns)
{
	while (leaving_due(r) <= now_ns) {
		struct weft_cm_id *c = CONTAINER_OF(r->leaving.next, struct weft_cm_id,
						    leaving_link);
		const struct ibcm_parting *p = &c->parting;
		struct ib_conn *conn = c->conn->conn;

		unbind(c);
		ib_peer_nak(conn, now_ns, p->nak_psn, p->nak);
		ib_peer_left(conn, p->is_failed ? WEFT_R_PEER_TERMINATED : WEFT_R_PEER_GONE);
	}
}

void cm_id_destroy(struct weft_cm_id *c)
{
	unbind(c);
	cm_id_take(c);
	neighbour_leave(c);
	ib_cm_forget(c->roce->cm, c->roce->net->now_ns, c->over_id);
	list_remove(&c->link);
	list_remove(&c->events.link);
	if (c->again)
		list_remove(&c->again->link);
	free(c->again);
	free(c);
}

/* ---- What happens --------------------------------------------------------------------------- */

static void address_of(bool is_ipv6, const struct inet_end *end, struct weft_address *a)
{
	*a = (struct weft_address){ .family = is_ipv6 ? 6 : 4, .port = end->port };
	memcpy(a->ip, end->address, is_ipv6 ? 16 : 4);
}

static void tell(struct weft_cm_id *c, enum weft_cm_id_kind kind, const struct ib_cm_event *e)
{
	uint32_t at = (c->news_first + c->news_count) % CM_ID_NEWS_MAX;
	struct weft_cm_id_news *n = &c->news[at];

	CHECK(c->news_count < CM_ID_NEWS_MAX);
	c->news_count++;
	*n = (struct weft_cm_id_news){
		.kind = kind,
		.reason = e->reason,
		.code = e->kind == IB_CM_RESOLVED ? e->status : e->reject,
		.path.mtu_bytes = e->mtu_bytes,
		.path.traffic_class = e->traffic_class,
		.path.hop_limit = e->hop_limit,
		.path.flow_label = e->flow_label,
		.qp_number = e->peer.qpn,
		.psn = e->peer.psn,
		.q_key = e->peer.q_key,
		.reads_in = e->peer.reads_in,
		.reads_out = e->peer.reads_out,
		.retries = e->peer.retries,
		.rnr_retries = e->peer.rnr_retries,
		.timeout_code = e->ack_code,
		.has_srq = e->peer.has_srq,
		.is_uc = kind == WEFT_CM_REQUEST && e->transport == IBCM_TRANSPORT_UC,
		.private_bytes = e->private_bytes < WEFT_CM_PRIVATE_MAX ? e->private_bytes
									: WEFT_CM_PRIVATE_MAX,
	};
	address_of(e->ip.is_ipv6, &e->ip.from, &n->path.from);
	address_of(e->ip.is_ipv6, &e->ip.to, &n->path.to);
	roce_line_tell(c->roce, &n->path);
	memcpy(n->private_data, e->private_data, n->private_bytes);
	event_raise(&c->roce->net->adapter->core.events, &c->events, WEFT_EVENT_CM, e->reason);
}

/* ---- Once more ------------------------------------------------------------------------------ */

static struct cm_id_again *first_again(const struct roce *r)
{
	return list_is_empty(&r->again) ? NULL
					: CONTAINER_OF(r->again.next, struct cm_id_again, link);
}

static uint64_t again_due(const struct roce *r)
{
	return first_again(r) ? first_again(r)->at_ns : UINT64_MAX;
}

static bool is_unserved(const struct ib_cm_event *e)
{
	return e->kind == IB_CM_RESOLVED ? e->status == IBCM_SIDR_UNSUPPORTED
					 : e->reject == IBCM_REJECT_SERVICE_ID;
}

/* True: the request will be repeated, and the program is not told yet. */
static bool asks_again(struct weft_cm_id *c, const struct ib_cm_event *e)
{
	uint64_t now_ns = c->roce->net->now_ns;

	if (!c->again || !is_unserved(e) || now_ns >= c->again->until_ns)
		return false;
	c->again->at_ns = now_ns + again_after_ns;
	list_add_tail(&c->roce->again, &c->again->link);
	return true;
}

/* Reports a refusal as if there were no such service. */
static void tell_refused(struct weft_cm_id *c)
{
	const struct cm_id_again *a = c->again;
	const struct ib_cm_event e = {
		.kind = c->is_datagram ? IB_CM_RESOLVED : IB_CM_FAILED,
		.reason = WEFT_R_CONNECT_REFUSED,
		.reject = IBCM_REJECT_SERVICE_ID,
		.status = IBCM_SIDR_UNSUPPORTED,
		.ip = c->is_datagram ? a->resolve.ip : a->connect.ip,
	};

	tell(c, WEFT_CM_REJECTED, &e);
}

static void ask_again(struct roce *r, uint64_t now_ns)
{
	while (again_due(r) <= now_ns) {
		struct cm_id_again *a = CONTAINER_OF(list_pop(&r->again), struct cm_id_again, link);
		struct weft_cm_id *c = a->cm_id;
		enum weft_reason reason;

		if (a->is_refused) {
			tell_refused(c);
			continue;
		}
		reason = c->is_datagram ? ib_cm_resolve(r->cm, now_ns, &a->resolve, &c->id)
					: ib_cm_connect(r->cm, now_ns, &a->connect, &c->id);
		if (reason != WEFT_OK)
			tell(c, WEFT_CM_FAILED,
			     &(struct ib_cm_event){
				     .kind = IB_CM_FAILED,
				     .reason = reason,
				     .ip = c->is_datagram ? a->resolve.ip : a->connect.ip,
			     });
	}
}

uint64_t cm_ids_due(const struct roce *r)
{
	return least(least(ib_cm_due(r->cm), neighbours_due(r)),
		     least(leaving_due(r), again_due(r)));
}

/* ---- Requests -------------------------------------------------------------------------------- */

static bool is_at(const struct weft_address *at, const struct ibcm_ip *ip)
{
	if (at->family == 0)
		return true;
	return (at->family == 6) == ip->is_ipv6 &&
	       (cm_id_is_any(at) || memcmp(at->ip, ip->from.address, ip->is_ipv6 ? 16 : 4) == 0);
}

static struct weft_cm_service *find_service(struct roce *r, const struct ib_cm_event *e)
{
	bool is_datagram = e->kind == IB_CM_SIDR_REQUESTED;

	for (struct list *at = r->services.next; at != &r->services; at = at->next) {
		struct weft_cm_service *s = CONTAINER_OF(at, struct weft_cm_service, link);

		if (s->service_id == e->service_id && s->options.is_datagram == is_datagram &&
		    is_at(&s->options.at, &e->ip))
			return s;
	}
	return NULL;
}

static void refuse(struct roce *r, const struct ib_cm_event *e, enum ibcm_reject code)
{
	uint64_t now_ns = r->net->now_ns;

	if (e->kind == IB_CM_SIDR_REQUESTED) {
		(void)ib_cm_answer(r->cm, now_ns, e->id,
				   &(struct ib_cm_answer){
					   .status = code == IBCM_REJECT_SERVICE_ID
							     ? IBCM_SIDR_UNSUPPORTED
							     : IBCM_SIDR_REJECT,
				   });
		return;
	}
	(void)ib_cm_reject(r->cm, now_ns, e->id, &(struct ib_cm_reject){ .code = code });
}

/*
 * If the backlog is full, the oldest request that has ended makes room; for a known peer, also the
 * oldest of an unproven peer.
 */
static bool has_room(struct weft_cm_service *s, bool is_unproven)
{
	if (s->unanswered < s->options.requests_max)
		return true;
	for (struct list *at = s->requests.next; at != &s->requests; at = at->next) {
		struct weft_cm_id *c = CONTAINER_OF(at, struct weft_cm_id, request_link);

		if (c->id == 0 || (c->is_unproven && !is_unproven)) {
			ib_cm_forget(c->roce->cm, c->roce->net->now_ns, c->id);
			cm_id_destroy(c);
			return true;
		}
	}
	return false;
}

static void requested(struct roce *r, const struct ib_cm_event *e)
{
	struct weft_cm_service *s = find_service(r, e);
	struct weft_cm_id *c;

	if (!s) {
		refuse(r, e, IBCM_REJECT_SERVICE_ID);
		return;
	}
	c = has_room(s, e->is_unproven) ? cm_id_create(r, NULL) : NULL;
	if (!c) {
		refuse(r, e, IBCM_REJECT_NO_RESOURCES);
		return;
	}
	c->id = e->id;
	c->is_datagram = s->options.is_datagram;
	c->is_unproven = e->is_unproven;
	c->service = s;
	s->unanswered++;
	ib_cm_own(r->cm, e->id, c);
	if (!c->is_datagram)
		neighbour_join(c, &e->ip, e->peer_id);
	tell(c, WEFT_CM_REQUEST, e);
	list_add_tail(&s->requests, &c->request_link);
	event_raise(&r->net->adapter->core.events, &s->events, WEFT_EVENT_REQUEST, WEFT_OK);
}

static void take_event(struct roce *r, const struct ib_cm_event *e)
{
	struct weft_cm_id *c = e->owner;

	switch (e->kind) {
	case IB_CM_REQUESTED:
	case IB_CM_SIDR_REQUESTED:
		requested(r, e);
		return;
	case IB_CM_REPLIED:
		neighbour_join(c, &e->ip, e->peer_id);
		tell(c, WEFT_CM_REPLY, e);
		return;
	case IB_CM_ESTABLISHED:
		tell(c, WEFT_CM_ESTABLISHED, e);
		return;
	case IB_CM_RESOLVED:
		c->id = 0;
		if (asks_again(c, e))
			return;
		tell(c, e->status == IBCM_SIDR_OK ? WEFT_CM_REPLY : WEFT_CM_REJECTED, e);
		return;
	case IB_CM_FAILED:
		c->id = 0;
		neighbour_leave(c);
		ib_cm_forget(r->cm, r->net->now_ns, e->id);
		if (asks_again(c, e))
			return;
		end_conn_soon(c, e);
		tell(c, e->reject ? WEFT_CM_REJECTED : WEFT_CM_FAILED, e);
		return;
	case IB_CM_DISCONNECTED:
		/* Answer at once: the peer need not wait for the program. */
		(void)ib_cm_disconnect(r->cm, r->net->now_ns, e->id, (struct ibcm_bytes){ 0 });
		c->id = 0;
		neighbour_leave(c);
		c->over_id = e->id;
		end_conn_soon(c, e);
		tell(c, WEFT_CM_DISCONNECTED, e);
		return;
	case IB_CM_RELEASED:
		c->over_id = 0;
		tell(c, WEFT_CM_RELEASED, e);
		return;
	}
}

static void take_events(struct roce *r)
{
	struct ib_cm_event e;

	while (ib_cm_event(r->cm, &e))
		take_event(r, &e);
}

/* ---- Datagrams ------------------------------------------------------------------------------ */

void cm_ids_input(struct roce *r)
{
	struct ib_mad mad;
	bool has_come = false;

	while (ib_port_mad(r->port, &mad)) {
		/* The reverse of the path by which the message came. */
		struct ibcm_ip ip = {
			.is_ipv6 = mad.path.is_ipv6,
			.from = mad.path.to,
			.to = mad.path.from,
		};

		roce_line_learn(r, &mad.path);
		(void)ib_cm_recv(r->cm, r->net->now_ns, &ip, mad.bytes, sizeof(mad.bytes));
		has_come = true;
	}
	if (has_come)
		take_events(r);
}

void cm_ids_output(struct roce *r)
{
	struct ib_cm_out out;

	/* Messages without room here stay with the agent. */
	while (ib_port_mad_has_room(r->port) && ib_cm_send(r->cm, r->net->now_ns, &out)) {
		struct ib_mad mad = {
			.path = {
				.is_ipv6 = out.ip.is_ipv6,
				.from = out.ip.from,
				.to = out.ip.to,
				.mtu_bytes = MAD_BYTES,
				.traffic_class = out.traffic_class,
				.hop_limit = out.hop_limit,
			},
		};

		memcpy(mad.bytes, out.bytes, sizeof(mad.bytes));
		/* If there is no route now, the message counts as lost, and is repeated. */
		if (roce_line_manage(r, &mad.path, out.attempt) == WEFT_OK)
			CHECK(ib_port_mad_send(r->port, &mad));
	}
}

void cm_ids_expire(struct roce *r, uint64_t now_ns)
{
	ib_cm_expire(r->cm, now_ns);
	neighbours_expire(r, now_ns);
	take_events(r);
	end_conns(r, now_ns);
	ask_again(r, now_ns);
}
