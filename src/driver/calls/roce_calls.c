/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls on RoCE: the port, and queue pairs on it. */
#include <stdlib.h>
#include <string.h>

#include "base/reserved.h"
#include "driver/roce/roce_line.h"
#include "driver/roce/tun.h"
#include "driver/sys/address.h"
#include "verbs/ah.h"

enum weft_reason weft_roce_open(struct weft_adapter *adapter)
{
	struct roce *roce;
	enum weft_reason r;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	r = roce_get(adapter, &roce);
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_port_watch(struct weft_adapter *adapter, void *context)
{
	struct roce *roce;
	enum weft_reason r;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	r = roce_get(adapter, &roce);
	if (r == WEFT_OK)
		roce_line_watch(roce, context);
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_roce_query(struct weft_adapter *adapter, struct weft_roce_counts *counts)
{
	enum weft_reason r = WEFT_R_ROCE_CLOSED;

	if (!adapter || !counts)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	if (adapter->net && roce_of(adapter->net)) {
		roce_tell(roce_of(adapter->net), counts);
		r = WEFT_OK;
	}
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_roce_dropped(struct weft_adapter *adapter, enum weft_reason reason,
				   uint64_t *count)
{
	enum weft_reason r = WEFT_R_ROCE_CLOSED;

	if (!adapter || !count)
		return WEFT_R_NULL_ARGUMENT;
	if ((unsigned int)reason >= WEFT_REASON_COUNT)
		return WEFT_R_BAD_ARGUMENT;
	adapter_enter(adapter);
	if (adapter->net && roce_of(adapter->net)) {
		*count = ib_port_dropped(roce_of(adapter->net)->port, reason);
		r = WEFT_OK;
	}
	adapter_leave(adapter);
	return r;
}

/* ---- What programs say, as the core wants it ------------------------------------------------ */

enum weft_reason roce_path_of(const struct weft_path *from, struct ib_path *to)
{
	if (!path_has_ends(from))
		return WEFT_R_ADDRESS;
	*to = (struct ib_path){
		.is_ipv6 = from->from.family == 6,
		.local = ib_local_of(from),
		.mtu_bytes = from->mtu_bytes,
		.traffic_class = from->traffic_class,
		.hop_limit = from->hop_limit,
		.flow_label = from->flow_label,
		.to.port = IBA_UDP_PORT,
	};
	memcpy(to->from.address, from->from.ip, sizeof(to->from.address));
	memcpy(to->to.address, from->to.ip, sizeof(to->to.address));
	return WEFT_OK;
}

static void config_of(const struct weft_roce_attr *w, struct ib_config *k)
{
	*k = (struct ib_config){
		.peer_qp = w->peer_number,
		.p_key = w->p_key,
		.psn_send = w->psn_send,
		.psn_recv = w->psn_recv,
		.reads_out = w->reads_out,
		.reads_in = w->reads_in,
		.timeout_code = w->timeout_code,
		.retries = w->retries,
		.rnr_retries = w->rnr_retries,
		.rnr_timer_code = w->rnr_timer_code,
		.q_key = w->q_key,
		.rdd = w->rdd,
		.rate_bps = w->rate_bps,
		.migration = (enum ib_migration)w->migration,
	};
}

/* The path of a connection, with the port that its packets leave by. */
static enum weft_reason set_path(struct roce *roce, const struct weft_qp *qp,
				 const struct weft_roce_attr *w, struct ib_path *path)
{
	enum weft_reason r = roce_path_of(&w->path, path);

	return r == WEFT_OK ? roce_line_source(roce, path, qp->number, w->peer_number) : r;
}

/* One that is not of a fabric is the core's to refuse. */
static enum weft_reason alternate_of(const struct weft_alternate *w, struct ib_alternate *to)
{
	if (!w)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(w) || !RESERVED_IS_ZERO(&w->path))
		return WEFT_R_RESERVED;
	to->p_key = w->p_key;
	to->timeout_code = w->timeout_code;
	return roce_path_of(&w->path, &to->path);
}

/* ---- States --------------------------------------------------------------------------------- */

/* UD requests name a path each, RD requests a context. The port limits the packet size. */
static enum weft_reason make_conn(struct roce *roce, struct weft_qp *qp,
				  const struct weft_roce_attr *w)
{
	bool is_connected = qp_is_connected_service(qp);
	struct roce_conn *rc;
	struct ib_config k;
	enum weft_reason r = WEFT_OK;

	config_of(w, &k);
	k.path.mtu_bytes = w->path.mtu_bytes;
	if (is_connected)
		r = set_path(roce, qp, w, &k.path);
	if (r != WEFT_OK)
		return r;
	rc = calloc(1, sizeof(*rc));
	if (!rc)
		return WEFT_R_NO_MEMORY;
	rc->roce = roce;
	rc->mtu_bytes = w->path.mtu_bytes;
	list_init(&rc->members);
	k.owner = rc;
	r = ib_create(roce->port, qp, &k, &rc->conn);
	if (r != WEFT_OK) {
		free(rc);
		return r;
	}
	if (is_connected) {
		roce_line_expect(roce, &k.path, qp->number, w->peer_number, &rc->flow_ref);
		observe_address(&roce->net->adapter->observed, &qp->ends.peer,
				(struct trace_event){
					.kind = TRACE_PEER,
					.who = qp->number,
					.b = w->peer_number,
				});
	}
	return WEFT_OK;
}

enum weft_reason weft_qp_to_rtr(struct weft_qp *qp, const struct weft_roce_attr *roce)
{
	struct weft_adapter *a;
	struct roce *port;
	enum weft_reason r;

	if (!qp || !roce)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(roce) || !RESERVED_IS_ZERO(&roce->path))
		return WEFT_R_RESERVED;
	a = net_enter_settled(qp);
	r = roce_get(a, &port);
	if (r == WEFT_OK && qp->number >> 16 != roce_line_slot(port))
		r = WEFT_R_QP_SLOT;
	if (r == WEFT_OK)
		r = make_conn(port, qp, roce);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_qp_to_rts(struct weft_qp *qp, const struct weft_roce_attr *roce)
{
	struct weft_adapter *a;
	struct ib_config k;
	enum weft_reason r = WEFT_R_QP_STATE;

	if (!qp || !roce)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(roce) || !RESERVED_IS_ZERO(&roce->path))
		return WEFT_R_RESERVED;
	config_of(roce, &k);
	a = net_enter_settled(qp);
	if (ib_conn_of(qp)) {
		const struct roce_conn *rc = ib_owner(ib_conn_of(qp));

		k.window_packets = roce_line_window(rc->roce, rc->mtu_bytes);
		r = ib_start(ib_conn_of(qp), &k);
	}
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_qp_modify_roce(struct weft_qp *qp, const struct weft_roce_attr *roce,
				     uint32_t fields)
{
	_Static_assert((int)WEFT_ROCE_RNR_TIMER == (int)IB_RNR_TIMER &&
			       (int)WEFT_ROCE_PATH == (int)IB_PATH &&
			       (int)WEFT_ROCE_READS_IN == (int)IB_READS_IN &&
			       (int)WEFT_ROCE_MIGRATION == (int)IB_MIGRATION,
		       "the fields are the core's");
	struct weft_adapter *a;
	struct ib_config k;
	enum weft_reason r = WEFT_R_QP_STATE, refusal = WEFT_OK;

	if (!qp || !roce)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(roce) || !RESERVED_IS_ZERO(&roce->path))
		return WEFT_R_RESERVED;
	config_of(roce, &k);
	if (fields & WEFT_ROCE_ALTERNATE)
		refusal = alternate_of(roce->alternate, &k.alternate);
	if (refusal != WEFT_OK)
		return refusal;
	a = net_enter_settled(qp);
	if (ib_conn_of(qp)) {
		r = WEFT_OK;
		if (fields & WEFT_ROCE_PATH)
			r = set_path(roce_of(a->net), qp, roce, &k.path);
		if (r == WEFT_OK)
			r = ib_adjust(ib_conn_of(qp), &k, fields);
	}
	adapter_leave_working(a);
	return r;
}

static struct weft_path path_told(const struct ib_path *p)
{
	uint8_t family = p->is_ipv6 ? 6 : ib_path_is_local(p) ? 0 : 4;
	struct weft_path to = {
		.from.family = family,
		.to.family = family,
		.mtu_bytes = p->mtu_bytes,
		.traffic_class = p->traffic_class,
		.hop_limit = p->hop_limit,
		.flow_label = p->flow_label,
		.service_level = p->local.level,
		.from_lid = p->local.from,
		.to_lid = p->local.to,
	};

	memcpy(to.from.ip, p->from.address, family == 4 ? 4 : 16);
	memcpy(to.to.ip, p->to.address, family == 4 ? 4 : 16);
	return to;
}

enum weft_reason weft_qp_query_paths(struct weft_qp *qp, struct weft_qp_paths *paths)
{
	_Static_assert((int)WEFT_REARM == (int)IB_REARM && (int)WEFT_ARMED == (int)IB_ARMED,
		       "the states are the core's");
	enum weft_reason r = WEFT_R_QP_STATE;
	struct ib_paths now;
	struct weft_adapter *a;

	if (!qp || !paths)
		return WEFT_R_NULL_ARGUMENT;
	a = net_enter_settled(qp);
	if (ib_conn_of(qp) && qp_is_connected_service(qp)) {
		ib_paths_tell(ib_conn_of(qp), &now);
		*paths = (struct weft_qp_paths){
			.path = path_told(&now.path),
			.alternate = path_told(&now.alternate),
			.migration = (enum weft_migration)now.migration,
			.migrations = now.migrations,
		};
		r = WEFT_OK;
	}
	adapter_leave(a);
	return r;
}

/* ---- Raw datagrams -------------------------------------------------------------------------- */

/* In a fabric it needs the port's raw packets, too: claimed last, as they stay claimed. */
static enum weft_reason raw_open(struct roce *r, const char *interface)
{
	struct tun *tun, *gone = r->tun;
	enum weft_reason reason = tun_is_open(gone) ? WEFT_R_BUSY : tun_open(r, interface, &tun);

	if (reason != WEFT_OK)
		return reason;
	reason = r->fabric ? roce_line_raw(r) : WEFT_OK;
	if (reason != WEFT_OK) {
		tun_close(tun);
		return reason;
	}
	r->tun = tun;
	if (gone)
		tun_close(gone);
	return WEFT_OK;
}

enum weft_reason weft_raw_open(struct weft_adapter *adapter, const char *interface)
{
	struct roce *roce;
	enum weft_reason r;

	if (!adapter || !interface)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	r = roce_get(adapter, &roce);
	if (r == WEFT_OK)
		r = raw_open(roce, interface);
	adapter_leave(adapter);
	return r;
}

/* Whether raw packets come to the adapter: by its interface, or from its port of a fabric. */
static enum weft_reason raw_is_open(struct roce *r)
{
	if (r->fabric)
		return roce_line_raw(r);
	return tun_is_open(r->tun) ? WEFT_OK : WEFT_R_RAW_CLOSED;
}

enum weft_reason weft_qp_to_raw(struct weft_qp *qp, const struct weft_raw_options *raw)
{
	_Static_assert((int)WEFT_RAW_MAX == (int)IB_RAW_MAX, "what the core takes");
	struct ib_raw wanted;
	struct weft_adapter *a;
	enum weft_reason r = WEFT_R_QP_STATE;

	if (!qp || !raw)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(raw))
		return WEFT_R_RESERVED;
	if (qp->service != WEFT_UD)
		return WEFT_R_WR_SERVICE;
	if (raw->to.family != 0 && raw->to.family != 6)
		return WEFT_R_ADDRESS;
	wanted = (struct ib_raw){ .next_header = raw->next_header, .is_any = raw->to.family == 0 };
	memcpy(wanted.to, raw->to.ip, sizeof(wanted.to));
	a = net_enter_settled(qp);
	if (ib_conn_of(qp))
		r = raw_is_open(roce_of(a->net));
	if (r == WEFT_OK)
		r = ib_raw_bind(ib_conn_of(qp), &wanted);
	adapter_leave_working(a);
	return r;
}

/* ---- Groups --------------------------------------------------------------------------------- */

static struct ib_group group_of(const struct weft_address *a)
{
	struct ib_group g = { .is_ipv6 = a->family == 6 };

	memcpy(g.address, a->ip, sizeof(g.address));
	return g;
}

static struct roce_member *find_member(struct roce_conn *rc, const struct weft_address *group,
				       const struct weft_address *at)
{
	for (struct list *l = rc->members.next; l != &rc->members; l = l->next) {
		struct roce_member *m = CONTAINER_OF(l, struct roce_member, link);

		if (address_is_same_ip(&m->group, group) && address_is_same_ip(&m->at, at))
			return m;
	}
	return NULL;
}

static enum weft_reason join(struct ib_conn *c, const struct weft_address *group,
			     const struct weft_address *at)
{
	struct roce_conn *rc = ib_owner(c);
	const struct ib_group g = group_of(group);
	struct roce_member *m;
	enum weft_reason r;

	if (find_member(rc, group, at))
		return WEFT_OK;
	m = malloc(sizeof(*m));
	if (!m)
		return WEFT_R_NO_MEMORY;
	*m = (struct roce_member){ .group = *group, .at = *at };
	list_init(&m->link);
	r = roce_line_join(rc->roce, group, at);
	if (r == WEFT_OK) {
		r = ib_join(c, &g);
		if (r != WEFT_OK)
			roce_line_leave(rc->roce, group, at);
	}
	if (r == WEFT_OK)
		list_add_tail(&rc->members, &m->link);
	else
		free(m);
	return r;
}

/* The interface does not matter: the core has one membership for all of them. */
static bool is_in_group(const struct roce_conn *rc, const struct weft_address *group)
{
	for (const struct list *l = rc->members.next; l != &rc->members; l = l->next) {
		if (address_is_same_ip(&CONTAINER_OF(l, const struct roce_member, link)->group,
				       group))
			return true;
	}
	return false;
}

static enum weft_reason leave(struct ib_conn *c, const struct weft_address *group,
			      const struct weft_address *at)
{
	struct roce_conn *rc = ib_owner(c);
	const struct ib_group g = group_of(group);
	struct roce_member *m = find_member(rc, group, at);

	if (!m)
		return WEFT_R_BAD_ARGUMENT;
	list_remove(&m->link);
	roce_line_leave(rc->roce, group, at);
	if (!is_in_group(rc, group))
		ib_leave(c, &g);
	free(m);
	return WEFT_OK;
}

static enum weft_reason change_group(struct weft_qp *qp, const struct weft_address *group,
				     const struct weft_address *local, bool is_joined)
{
	struct weft_adapter *a;
	struct ib_conn *c;
	enum weft_reason r = WEFT_R_QP_STATE;

	if (!qp || !group || !local)
		return WEFT_R_NULL_ARGUMENT;
	if (qp->service != WEFT_UD)
		return WEFT_R_WR_SERVICE;
	a = net_enter_settled(qp);
	c = ib_conn_of(qp);
	if (c)
		r = is_joined ? join(c, group, local) : leave(c, group, local);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_qp_join(struct weft_qp *qp, const struct weft_address *group,
			      const struct weft_address *local)
{
	return change_group(qp, group, local, true);
}

enum weft_reason weft_qp_leave(struct weft_qp *qp, const struct weft_address *group,
			       const struct weft_address *local)
{
	return change_group(qp, group, local, false);
}
