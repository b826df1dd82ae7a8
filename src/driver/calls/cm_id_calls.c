/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls on cm_ids and services. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/reserved.h"
#include "driver/roce/cm_id.h"
#include "driver/roce/roce_line.h"
#include "driver/roce/roce_packets.h"
#include "driver/sys/system_reason.h"

enum { REQUESTS_DEFAULT = 128, PORT_FIRST = 32768, PORTS = 28232 };

static struct ibcm_bytes bytes_of(const void *bytes, uint32_t length)
{
	return (struct ibcm_bytes){ .bytes = bytes, .length = length };
}

/* ---- CM ids ------------------------------------------------------------------------------- */

static struct ib_cm_end end_of(const struct weft_cm_id_offer *o)
{
	return (struct ib_cm_end){
		.qpn = o->qp_number,
		.psn = o->psn,
		.q_key = o->q_key,
		.reads_in = o->reads_in,
		.reads_out = o->reads_out,
		.retries = o->retries,
		.rnr_retries = o->rnr_retries,
		.has_srq = o->has_srq,
		.has_flow_control = o->has_flow_control,
	};
}

static enum weft_reason ip_of(const struct weft_path *path, struct ibcm_ip *ip)
{
	size_t bytes = path->to.family == 6 ? 16 : 4;

	if ((path->to.family != 4 && path->to.family != 6) || path->from.family != path->to.family)
		return WEFT_R_ADDRESS;
	*ip = (struct ibcm_ip){
		.is_ipv6 = path->to.family == 6,
		.from.port = path->from.port,
		.to.port = path->to.port,
	};
	memcpy(ip->from.address, path->from.ip, bytes);
	memcpy(ip->to.address, path->to.ip, bytes);
	return WEFT_OK;
}

/* Keeps the request to repeat it. NULL: not wanted, private data too long, or out of memory. */
static struct cm_id_again *keep_ask(struct weft_cm_id *c, const struct ibcm_bytes *data,
				    uint64_t wait_ns)
{
	struct cm_id_again *a = NULL;

	if (wait_ns > 0 && data->length <= sizeof(a->private_data))
		a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	if (data->length > 0)
		memcpy(a->private_data, data->bytes, data->length);
	a->until_ns = net_look_at_clock(c->roce->net) + wait_ns;
	a->cm_id = c;
	list_init(&a->link);
	c->again = a;
	return a;
}

static enum weft_reason resolve(struct weft_cm_id *c, const struct weft_cm_id_options *o,
				const struct weft_cm_id_offer *offer, const struct ibcm_ip *ip)
{
	struct ib_cm_resolve ask = {
		.ip = *ip,
		.service_id = ibcm_service_id((enum ibcm_port_space)o->port_space, o->path.to.port),
		.traffic_class = o->path.traffic_class,
		.hop_limit = o->path.hop_limit,
		.private_data = bytes_of(offer->private_data, offer->private_bytes),
		.owner = c,
	};

	if (keep_ask(c, &ask.private_data, o->refused_wait_ns)) {
		c->again->resolve = ask;
		c->again->resolve.private_data.bytes = c->again->private_data;
	}
	return ib_cm_resolve(c->roce->cm, net_look_at_clock(c->roce->net), &ask, &c->id);
}

static enum weft_reason request(struct weft_cm_id *c, const struct weft_cm_id_options *o,
				const struct weft_cm_id_offer *offer, const struct ibcm_ip *ip)
{
	struct ib_cm_connect ask = {
		.ip = *ip,
		.service_id = ibcm_service_id((enum ibcm_port_space)o->port_space, o->path.to.port),
		.transport = offer->is_uc ? IBCM_TRANSPORT_UC : IBCM_TRANSPORT_RC,
		.end = end_of(offer),
		.mtu_bytes = o->path.mtu_bytes,
		.ack_code = offer->timeout_code,
		.traffic_class = o->path.traffic_class,
		.hop_limit = o->path.hop_limit,
		.flow_label = o->path.flow_label,
		.private_data = bytes_of(offer->private_data, offer->private_bytes),
		.owner = c,
	};

	if (keep_ask(c, &ask.private_data, o->refused_wait_ns)) {
		c->again->connect = ask;
		c->again->connect.private_data.bytes = c->again->private_data;
	}
	return ib_cm_connect(c->roce->cm, net_look_at_clock(c->roce->net), &ask, &c->id);
}

/* An injected fault. It is reported as if by the peer: later, when the program has the cm_id. */
static enum weft_reason refuse(struct weft_cm_id *c, const struct ibcm_ip *ip)
{
	struct cm_id_again *a = keep_ask(c, &(struct ibcm_bytes){ 0 }, 1);

	if (!a)
		return WEFT_R_NO_MEMORY;
	a->is_refused = true;
	a->at_ns = c->roce->net->now_ns;
	a->connect.ip = a->resolve.ip = *ip;
	list_push(&c->roce->again, &a->link);
	return WEFT_OK;
}

/* Uses the dice of the queue pair, if there is one: then the result is reproducible. */
static bool is_refused(struct weft_adapter *a, const struct weft_cm_id_offer *offer)
{
	struct weft_qp *qp;

	if (!a->core.faults)
		return false;
	qp = offer->qp_number ? id_table_find(&a->core.qps, offer->qp_number) : NULL;
	return qp ? qp_fault_falls(qp, FAULT_CONNECT_REFUSED)
		  : adapter_fault_falls(&a->core, &a->core.dice, FAULT_CONNECT_REFUSED, 0);
}

static enum weft_reason cm_id_begin(struct weft_adapter *a, const struct weft_cm_id_options *o,
				    const struct weft_cm_id_offer *offer, struct weft_cm_id **cm_id)
{
	struct weft_cm_id *c;
	struct ib_path path;
	struct ibcm_ip ip;
	struct roce *roce;
	enum weft_reason r = ip_of(&o->path, &ip);

	if (r == WEFT_OK)
		r = roce_path_of(&o->path, &path);
	if (r == WEFT_OK)
		r = roce_get(a, &roce);
	if (r != WEFT_OK)
		return r;
	roce_line_learn(roce, &path);
	c = cm_id_create(roce, o->context);
	if (!c)
		return WEFT_R_NO_MEMORY;
	c->is_datagram = o->is_datagram;
	if (is_refused(a, offer))
		r = refuse(c, &ip);
	else
		r = o->is_datagram ? resolve(c, o, offer, &ip) : request(c, o, offer, &ip);
	if (r != WEFT_OK) {
		cm_id_destroy(c);
		return r;
	}
	*cm_id = c;
	return WEFT_OK;
}

enum weft_reason weft_cm_id_open(struct weft_adapter *adapter,
				 const struct weft_cm_id_options *options,
				 const struct weft_cm_id_offer *offer, struct weft_cm_id **cm_id)
{
	enum weft_reason r;

	if (!adapter || !options || !offer || !cm_id ||
	    (offer->private_bytes > 0 && !offer->private_data))
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(options) || !RESERVED_IS_ZERO(&options->path) ||
	    !RESERVED_IS_ZERO(offer))
		return WEFT_R_RESERVED;
	adapter_enter(adapter);
	r = cm_id_begin(adapter, options, offer, cm_id);
	adapter_leave_working(adapter);
	return r;
}

static struct weft_adapter *enter(const struct weft_cm_id *c)
{
	struct weft_adapter *a = c->roce->net->adapter;

	adapter_enter(a);
	(void)adapter_now_ns(a);
	return a;
}

/*
 * After a message that may be the program's last one: it may exit without another call. The kernel
 * may have put the message into our own shared socket instead of the receiver's, where it would be
 * lost with this process, and no process would repeat it. So hand it on first.
 */
static void leave_said(struct weft_adapter *a)
{
	adapter_work(a);
	if (roce_input_shared(roce_of(a->net)))
		adapter_work(a);
	adapter_leave(a);
}

enum weft_reason weft_cm_id_next(struct weft_cm_id *cm_id, struct weft_cm_id_news *news)
{
	struct weft_adapter *a;

	if (!cm_id || !news)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	*news = (struct weft_cm_id_news){ .kind = WEFT_CM_NONE };
	if (cm_id->news_count > 0) {
		*news = cm_id->news[cm_id->news_first];
		cm_id->news_first = (cm_id->news_first + 1) % CM_ID_NEWS_MAX;
		cm_id->news_count--;
	}
	if (cm_id->news_count == 0)
		event_clear(&cm_id->events);
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_cm_id_accept(struct weft_cm_id *cm_id, const struct weft_cm_id_offer *offer)
{
	struct weft_adapter *a;
	struct ib_cm *cm;
	enum weft_reason r;

	if (!cm_id || !offer || (offer->private_bytes > 0 && !offer->private_data))
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(offer))
		return WEFT_R_RESERVED;
	a = enter(cm_id);
	cm = cm_id->roce->cm;
	if (cm_id->is_datagram) {
		r = ib_cm_answer(
			cm, a->net->now_ns, cm_id->id,
			&(struct ib_cm_answer){
				.status = IBCM_SIDR_OK,
				.qpn = offer->qp_number,
				.q_key = offer->q_key,
				.private_data = bytes_of(offer->private_data, offer->private_bytes),
			});
		if (r == WEFT_OK)
			cm_id->id = 0;
	} else {
		r = ib_cm_accept(
			cm, a->net->now_ns, cm_id->id,
			&(struct ib_cm_accept){
				.end = end_of(offer),
				.private_data = bytes_of(offer->private_data, offer->private_bytes),
				.owner = cm_id,
			});
	}
	leave_said(a);
	return r;
}

static enum weft_reason reject(struct weft_cm_id *c, uint16_t code, struct ibcm_bytes data)
{
	struct ib_cm *cm = c->roce->cm;
	uint64_t now_ns = c->roce->net->now_ns;

	if (c->is_datagram)
		return ib_cm_answer(cm, now_ns, c->id,
				    &(struct ib_cm_answer){
					    .status = IBCM_SIDR_REJECT,
					    .private_data = data,
				    });
	return ib_cm_reject(cm, now_ns, c->id,
			    &(struct ib_cm_reject){
				    .code = code ? code : IBCM_REJECT_CONSUMER,
				    .private_data = data,
			    });
}

enum weft_reason weft_cm_id_reject(struct weft_cm_id *cm_id, uint16_t code,
				   const void *private_data, uint32_t private_bytes)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!cm_id || (private_bytes > 0 && !private_data))
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	r = reject(cm_id, code, bytes_of(private_data, private_bytes));
	if (r == WEFT_OK)
		cm_id->id = 0;
	leave_said(a);
	return r;
}

enum weft_reason weft_cm_id_ready(struct weft_cm_id *cm_id)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!cm_id)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	r = ib_cm_ready(cm_id->roce->cm, a->net->now_ns, cm_id->id, bytes_of(NULL, 0));
	leave_said(a);
	return r;
}

enum weft_reason weft_cm_id_established(struct weft_cm_id *cm_id)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!cm_id)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	r = ib_cm_established(cm_id->roce->cm, a->net->now_ns, cm_id->id);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_cm_id_disconnect(struct weft_cm_id *cm_id)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!cm_id)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	r = ib_cm_disconnect(cm_id->roce->cm, a->net->now_ns, cm_id->id, bytes_of(NULL, 0));
	leave_said(a);
	return r;
}

enum weft_reason weft_cm_id_bind(struct weft_cm_id *cm_id, struct weft_qp *qp)
{
	struct weft_adapter *a;
	enum weft_reason r = WEFT_R_QP_STATE;

	if (!cm_id || !qp)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	if (adapter_of(qp->adapter) != a) {
		r = WEFT_R_BAD_ARGUMENT;
	} else if (ib_conn_of(qp) && !cm_id->conn) {
		struct roce_conn *rc = ib_owner(ib_conn_of(qp));

		if (!rc->cm_id) {
			cm_id->conn = rc;
			rc->cm_id = cm_id;
			r = WEFT_OK;
		}
	}
	adapter_leave(a);
	return r;
}

enum weft_reason weft_cm_id_close(struct weft_cm_id *cm_id)
{
	struct weft_adapter *a;

	if (!cm_id)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	ib_cm_forget(cm_id->roce->cm, a->net->now_ns, cm_id->id);
	cm_id_destroy(cm_id);
	leave_said(a);
	return WEFT_OK;
}

enum weft_reason weft_cm_id_set_context(struct weft_cm_id *cm_id, void *context)
{
	struct weft_adapter *a;

	if (!cm_id)
		return WEFT_R_NULL_ARGUMENT;
	a = enter(cm_id);
	cm_id->events.context = context;
	adapter_leave(a);
	return WEFT_OK;
}

/* ---- Services ------------------------------------------------------------------------------- */

/* Whether some request would match both services. */
static bool overlap(const struct weft_cm_service *a, const struct weft_cm_service *b)
{
	const struct weft_address *x = &a->options.at, *y = &b->options.at;

	if (a->service_id != b->service_id || a->options.is_datagram != b->options.is_datagram)
		return false;
	if (x->family != y->family && x->family != 0 && y->family != 0)
		return false;
	return cm_id_is_any(x) || cm_id_is_any(y) ||
	       memcmp(x->ip, y->ip, x->family == 6 ? 16 : 4) == 0;
}

static enum weft_reason claim_port(struct weft_cm_service *s, uint16_t port)
{
	struct roce *r = s->roce;

	s->options.at.port = port;
	s->service_id = ibcm_service_id((enum ibcm_port_space)s->options.port_space, port);
	for (struct list *at = r->services.next; at != &r->services; at = at->next) {
		if (overlap(s, CONTAINER_OF(at, struct weft_cm_service, link)))
			return WEFT_R_ADDRESS_IN_USE;
	}
	return roce_line_claim(r, s->service_id);
}

/* Claims the port that was asked for, or any free one. */
static enum weft_reason claim(struct weft_cm_service *s)
{
	uint16_t port = s->options.at.port, begin = 0;
	enum weft_reason r = WEFT_R_ADDRESS_IN_USE;

	if (port == 0 && getrandom(&begin, sizeof(begin), 0) != sizeof(begin))
		return system_reason(errno);
	if (port)
		return claim_port(s, port);
	for (uint32_t i = 0; i < PORTS && r == WEFT_R_ADDRESS_IN_USE; i++)
		r = claim_port(s, (uint16_t)(PORT_FIRST + (begin + i) % PORTS));
	return r;
}

static enum weft_reason service_begin(struct weft_adapter *a,
				      const struct weft_cm_service_options *o,
				      struct weft_cm_service **service)
{
	struct weft_cm_service *s;
	struct roce *roce;
	enum weft_reason r = roce_get(a, &roce);

	if (r != WEFT_OK)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return WEFT_R_NO_MEMORY;
	s->roce = roce;
	s->options = *o;
	if (s->options.requests_max == 0)
		s->options.requests_max = REQUESTS_DEFAULT;
	list_init(&s->requests);
	r = claim(s);
	if (r != WEFT_OK) {
		free(s);
		return r;
	}
	list_add_tail(&roce->services, &s->link);
	event_source_init(&s->events, ++roce->cm_id_next, o->context);
	*service = s;
	return WEFT_OK;
}

enum weft_reason weft_cm_service_open(struct weft_adapter *adapter,
				      const struct weft_cm_service_options *options,
				      struct weft_cm_service **service)
{
	enum weft_reason r;

	if (!adapter || !options || !service)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	if (options->at.family != 0 && options->at.family != 4 && options->at.family != 6)
		return WEFT_R_ADDRESS;
	adapter_enter(adapter);
	r = service_begin(adapter, options, service);
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_cm_service_address(struct weft_cm_service *service, struct weft_address *at)
{
	if (!service || !at)
		return WEFT_R_NULL_ARGUMENT;
	*at = service->options.at;
	return WEFT_OK;
}

enum weft_reason weft_cm_service_next(struct weft_cm_service *service, void *context,
				      struct weft_cm_id **cm_id)
{
	struct weft_adapter *a;

	if (!service || !cm_id)
		return WEFT_R_NULL_ARGUMENT;
	a = service->roce->net->adapter;
	adapter_enter(a);
	adapter_poll(a, NULL);
	*cm_id = NULL;
	if (!list_is_empty(&service->requests)) {
		*cm_id = CONTAINER_OF(service->requests.next, struct weft_cm_id, request_link);
		cm_id_take(*cm_id);
		(*cm_id)->events.context = context;
	}
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_cm_service_close(struct weft_cm_service *service)
{
	struct weft_adapter *a;

	if (!service)
		return WEFT_R_NULL_ARGUMENT;
	a = service->roce->net->adapter;
	adapter_enter(a);
	(void)adapter_now_ns(a);
	while (!list_is_empty(&service->requests)) {
		struct weft_cm_id *c = CONTAINER_OF(service->requests.next, struct weft_cm_id,
						    request_link);

		(void)reject(c, IBCM_REJECT_SERVICE_ID, bytes_of(NULL, 0));
		cm_id_destroy(c);
	}
	roce_line_release(service->roce, service->service_id);
	list_remove(&service->link);
	list_remove(&service->events.link);
	free(service);
	leave_said(a);
	return WEFT_OK;
}
