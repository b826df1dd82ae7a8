/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rdma_end.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/least.h"
#include "driver/sys/fabric_address.h"
#include "driver/sys/socket.h"
#include "driver/sys/system_reason.h"
#include "wire/iba.h"
#include "wire/iba_aeth.h"

enum {
	ACK_TIMEOUT_CODE = 17, /* half a second */
	ACK_TIMEOUT_CODE_MAX = 22,
	RNR_TIMER_CODE = 12, /* 640 us */
	RETRIES = 7,
	/* Of a packet besides its payload: IPv6, UDP, BTH, RETH, immediate data, padding, ICRC. */
	OVERHEAD = 40 + 8 + 12 + 16 + 4 + 3 + 4
};

static bool end_move(struct rdma_end *end, enum rdma_state state, enum weft_reason reason)
{
	if (end->state == state || end->state == RDMA_DOWN)
		return false;
	end->state = state;
	end->reason = reason;
	return true;
}

static void peer_bring(struct rdma_peer *peer, const void *bytes, uint32_t length)
{
	peer->private_bytes = least(length, RDMA_PRIVATE_MAX);
	memcpy(peer->private_data, bytes, peer->private_bytes);
}

void rdma_end_init(struct rdma_end *end, enum rdma_wire wire)
{
	*end = (struct rdma_end){ .object.kind = RDMA_END, .wire = wire };
}

/* ---- iWARP ---------------------------------------------------------------------------------- */

static struct weft_connect_options tcp_options(const struct rdma_terms *terms)
{
	return (struct weft_connect_options){
		.private_data = terms->private_data,
		.private_bytes = terms->private_bytes,
		.ird = terms->reads_in,
		.ord = terms->reads_out,
		.timeout_ns = terms->timeout_ns,
		.near = 1,
	};
}

static void tcp_peer(struct rdma_end *end)
{
	struct weft_peer peer;

	if (weft_qp_peer(end->qp, &peer) != WEFT_OK)
		return;
	end->peer = (struct rdma_peer){
		.local = peer.local,
		.remote = peer.remote,
		.reads_out = (uint8_t)least(peer.agreed_ord, UINT8_MAX),
	};
	peer_bring(&end->peer, peer.private_data, peer.private_bytes);
}

static bool tcp_event(struct rdma_end *end, const struct weft_event *event)
{
	switch (event->kind) {
	case WEFT_EVENT_CONNECTED:
		tcp_peer(end);
		return end_move(end, RDMA_UP, WEFT_OK);
	case WEFT_EVENT_CONNECT_FAILED:
	case WEFT_EVENT_QP_ERROR:
		return end_move(end, RDMA_DOWN, event->reason);
	default:
		return false;
	}
}

/* ---- RoCE ----------------------------------------------------------------------------------- */

/* IBA 9.7.6.1.3: a timeout and its retries together are at least as long. */
static uint8_t timeout_code(const struct rdma_terms *terms)
{
	uint8_t code = ACK_TIMEOUT_CODE;

	while (code < ACK_TIMEOUT_CODE_MAX &&
	       iba_timeout_ns(code) * (RETRIES + 1) < terms->patience_ns)
		code++;
	return code;
}

static enum weft_reason make_offer(struct rdma_end *end, const struct rdma_terms *terms)
{
	uint32_t psn;

	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		return system_reason(errno);
	end->offer = (struct weft_cm_id_offer){
		.qp_number = weft_qp_number(end->qp),
		.psn = psn & WEFT_PSN_MAX,
		.reads_in = terms->reads_in,
		.reads_out = terms->reads_out,
		.retries = RETRIES,
		.rnr_retries = RETRIES,
		.timeout_code = timeout_code(terms),
		.has_flow_control = true,
		.is_uc = end->is_uc,
		.private_data = terms->private_data,
		.private_bytes = terms->private_bytes,
	};
	return WEFT_OK;
}

/* The end that dials says how large packets are, and how often they are sent again. */
static enum weft_reason roce_ready(struct rdma_end *end)
{
	const struct weft_cm_id_news *heard = &end->heard;
	struct weft_roce_attr attr = {
		.path = heard->path,
		.peer_number = heard->qp_number,
		.psn_recv = end->offer.psn,
		.reads_in = (uint8_t)least(end->offer.reads_in, heard->reads_out),
		.rnr_timer_code = RNR_TIMER_CODE,
		.psn_send = heard->psn,
		.reads_out = (uint8_t)least(end->offer.reads_out, heard->reads_in),
		.timeout_code = end->offer.timeout_code,
		.retries = RETRIES,
		.rnr_retries = heard->rnr_retries,
	};
	enum weft_reason r;

	if (end->is_active)
		attr.path.mtu_bytes = end->mtu_bytes;
	end->peer.reads_out = attr.reads_out;
	r = weft_qp_to_rtr(end->qp, &attr);
	if (r == WEFT_OK)
		r = weft_qp_to_rts(end->qp, &attr);
	if (r == WEFT_OK)
		r = weft_cm_id_bind(end->cm_id, end->qp);
	return r;
}

static void roce_peer(struct rdma_peer *peer, const struct weft_cm_id_news *heard)
{
	*peer = (struct rdma_peer){ .local = heard->path.from, .remote = heard->path.to };
	peer_bring(peer, heard->private_data, heard->private_bytes);
}

static bool roce_replied(struct rdma_end *end)
{
	enum weft_reason r;

	roce_peer(&end->peer, &end->heard);
	r = roce_ready(end);
	if (r == WEFT_OK)
		r = weft_cm_id_ready(end->cm_id);
	return end_move(end, r == WEFT_OK ? RDMA_UP : RDMA_DOWN, r);
}

static bool roce_news(struct rdma_end *end)
{
	struct weft_cm_id_news news;
	bool has_moved = false;

	while (end->cm_id && weft_cm_id_next(end->cm_id, &news) == WEFT_OK &&
	       news.kind != WEFT_CM_NONE) {
		switch (news.kind) {
		case WEFT_CM_REPLY:
			end->heard = news;
			has_moved |= roce_replied(end);
			break;
		case WEFT_CM_ESTABLISHED:
			has_moved |= end_move(end, RDMA_UP, WEFT_OK);
			break;
		case WEFT_CM_REJECTED:
		case WEFT_CM_FAILED:
			has_moved |= end_move(end, RDMA_DOWN, news.reason);
			break;
		case WEFT_CM_DISCONNECTED:
			has_moved |= end_move(end, RDMA_DOWN, WEFT_R_PEER_GONE);
			break;
		default:
			break;
		}
	}
	return has_moved;
}

static bool roce_event(struct rdma_end *end, const struct weft_event *event)
{
	switch (event->kind) {
	case WEFT_EVENT_CM:
		return roce_news(end);
	case WEFT_EVENT_ESTABLISHED: /* the peer's message overtook its ready */
		(void)weft_cm_id_established(end->cm_id);
		return roce_news(end);
	case WEFT_EVENT_QP_ERROR:
		return end_move(end, RDMA_DOWN, event->reason);
	default:
		return false;
	}
}

/* At a node of a fabric by LIDs, else as the host's routes are. */
static enum weft_reason roce_path(const struct weft_address *to, struct weft_path *path)
{
	static const struct weft_address own;
	uint32_t mtu_bytes;
	enum weft_reason r;

	if (fabric_client_node())
		return fabric_address_path(&own, to, path);
	*path = (struct weft_path){ .to = *to };
	r = socket_route(to, &path->from, &mtu_bytes);
	if (r == WEFT_OK)
		path->mtu_bytes = iba_mtu_bytes(
			iba_mtu_code(mtu_bytes - least(mtu_bytes, OVERHEAD)));
	return r;
}

static enum weft_reason roce_dial(struct rdma_end *end, struct weft_adapter *adapter,
				  const struct weft_address *to, const struct rdma_terms *terms)
{
	struct weft_cm_id_options options = {
		.port_space = WEFT_PORT_SPACE_TCP,
		.context = &end->object,
	};
	enum weft_reason r = roce_path(to, &options.path);

	if (r != WEFT_OK)
		return r;
	end->mtu_bytes = options.path.mtu_bytes;
	r = make_offer(end, terms);
	if (r == WEFT_OK)
		r = weft_cm_id_open(adapter, &options, &end->offer, &end->cm_id);
	return r;
}

static enum weft_reason roce_accept(struct rdma_request *request, struct rdma_end *end,
				    const struct rdma_terms *terms)
{
	enum weft_reason r;

	end->cm_id = request->cm_id;
	end->heard = request->heard;
	end->peer = request->peer;
	(void)weft_cm_id_set_context(end->cm_id, &end->object);
	r = make_offer(end, terms);
	if (r == WEFT_OK)
		r = roce_ready(end);
	if (r == WEFT_OK)
		r = weft_cm_id_accept(end->cm_id, &end->offer);
	if (r == WEFT_OK)
		return WEFT_OK;
	(void)weft_cm_id_close(end->cm_id);
	end->cm_id = NULL;
	return r;
}

/* ---- Both ----------------------------------------------------------------------------------- */

enum weft_reason rdma_end_dial(struct rdma_end *end, struct weft_adapter *adapter,
			       struct weft_qp *qp, const struct weft_address *to,
			       const struct rdma_terms *terms)
{
	struct weft_connect_options options = tcp_options(terms);
	enum weft_reason r;

	end->qp = qp;
	end->is_active = true;
	r = end->wire == RDMA_IWARP ? weft_qp_dial(qp, to, &options)
				    : roce_dial(end, adapter, to, terms);
	if (r == WEFT_OK)
		end->state = RDMA_CONNECTING;
	return r;
}

bool rdma_end_event(struct rdma_end *end, const struct weft_event *event)
{
	return end->wire == RDMA_IWARP ? tcp_event(end, event) : roce_event(end, event);
}

void rdma_end_close(struct rdma_end *end)
{
	if (end->qp)
		(void)weft_qp_disconnect(end->qp);
	if (end->cm_id)
		(void)weft_cm_id_close(end->cm_id);
	end->cm_id = NULL;
	(void)end_move(end, RDMA_DOWN, WEFT_OK);
}

enum weft_reason rdma_listener_open(struct rdma_listener *l, struct weft_adapter *adapter,
				    enum rdma_wire wire, const struct weft_address *at)
{
	const struct weft_listener_options tcp = { .context = &l->object };
	struct weft_cm_service_options roce = {
		.at = *at,
		.port_space = WEFT_PORT_SPACE_TCP,
		.context = &l->object,
	};
	enum weft_reason r = WEFT_OK;

	*l = (struct rdma_listener){ .object.kind = RDMA_LISTENER, .wire = wire };
	if (wire == RDMA_IWARP)
		return weft_listener_open(adapter, at, &tcp, &l->tcp);
	if (fabric_client_node())
		r = fabric_address_own(at, &roce.at);
	else if (at->family != 0)
		r = socket_own(at); /* no socket of this address is opened, which would tell */
	return r == WEFT_OK ? weft_cm_service_open(adapter, &roce, &l->service) : r;
}

enum weft_reason rdma_listener_address(struct rdma_listener *l, struct weft_address *at)
{
	return l->wire == RDMA_IWARP ? weft_listener_address(l->tcp, at)
				     : weft_cm_service_address(l->service, at);
}

void rdma_listener_close(struct rdma_listener *l)
{
	if (l->tcp)
		(void)weft_listener_close(l->tcp);
	if (l->service)
		(void)weft_cm_service_close(l->service);
	l->tcp = NULL;
	l->service = NULL;
}

static bool tcp_next(struct rdma_listener *l, struct rdma_request *request)
{
	struct weft_peer peer;

	if (weft_listener_next(l->tcp, &request->tcp) != WEFT_OK || !request->tcp)
		return false;
	if (weft_request_query(request->tcp, &peer) == WEFT_OK) {
		request->peer.local = peer.local;
		request->peer.remote = peer.remote;
		peer_bring(&request->peer, peer.private_data, peer.private_bytes);
	}
	return true;
}

/* A request whose asker has given up already, or that is for another service, is passed over. */
static bool roce_next(struct rdma_listener *l, struct rdma_request *request)
{
	while (weft_cm_service_next(l->service, NULL, &request->cm_id) == WEFT_OK &&
	       request->cm_id) {
		if (weft_cm_id_next(request->cm_id, &request->heard) == WEFT_OK &&
		    request->heard.kind == WEFT_CM_REQUEST &&
		    (l->takes_uc || !request->heard.is_uc)) {
			request->is_uc = request->heard.is_uc;
			roce_peer(&request->peer, &request->heard);
			return true;
		}
		(void)weft_cm_id_close(request->cm_id);
	}
	return false;
}

bool rdma_listener_next(struct rdma_listener *l, struct rdma_request *request)
{
	*request = (struct rdma_request){ .wire = l->wire };
	return l->wire == RDMA_IWARP ? tcp_next(l, request) : roce_next(l, request);
}

enum weft_reason rdma_request_accept(struct rdma_request *request, struct rdma_end *end,
				     struct weft_qp *qp, const struct rdma_terms *terms)
{
	struct weft_connect_options options = tcp_options(terms);
	enum weft_reason r;

	end->qp = qp;
	end->wire = request->wire;
	end->peer = request->peer;
	r = request->wire == RDMA_IWARP ? weft_request_accept(request->tcp, qp, &options)
					: roce_accept(request, end, terms);
	if (r == WEFT_OK)
		end->state = RDMA_CONNECTING;
	return r;
}

void rdma_request_reject(struct rdma_request *request)
{
	if (request->tcp)
		(void)weft_request_reject(request->tcp, NULL);
	if (request->cm_id)
		(void)weft_cm_id_close(request->cm_id);
}
