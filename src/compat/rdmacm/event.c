/* SPDX-License-Identifier: BSD-2-Clause */
/* From what happened to the event that the program reads. Called in the program's thread. */
#include <errno.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"

/* What the other end said of Reads; one that says nothing leaves it to us. */
static uint8_t depth_told(uint32_t depth, uint8_t max)
{
	return depth < max ? (uint8_t)depth : max;
}

static void tell_peer(struct taken *taken, const struct weft_peer *peer, const struct home *home)
{
	struct rdma_conn_param *conn = &taken->rdma.param.conn;

	/* The other end's Reads are what is asked of us here, and the other way round. */
	conn->responder_resources = depth_told(peer->ord, home->ird_max);
	conn->initiator_depth = depth_told(peer->ird, home->ord_max);
}

static void tell_private_data(struct taken *taken, const struct weft_peer *peer)
{
	struct rdma_conn_param *conn = &taken->rdma.param.conn;
	uint32_t n = peer->private_bytes;

	if (n == 0)
		return;
	conn->private_data_len = n < PRIVATE_MAX ? (uint8_t)n : PRIVATE_MAX;
	memcpy(taken->private_data, peer->private_data, conn->private_data_len);
	conn->private_data = taken->private_data;
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* False: the program has just destroyed the listener's channel. */
static bool join_channel(struct id *id, const struct id *listener)
{
	bool is_there;

	cm_lock();
	is_there = listener->channel;
	if (is_there)
		channel_add(listener->channel, id);
	cm_unlock();
	return is_there;
}

/* An id for a request, in the listener's channel or in one of its own. */
static struct id *id_for_request(struct id *listener, const struct weft_peer *peer)
{
	struct id *id = id_create(NULL, listener->rdma.context);

	if (!id)
		return NULL;
	address_from_weft(&peer->local, &id->rdma.route.addr.src_storage);
	address_from_weft(&peer->remote, &id->rdma.route.addr.dst_storage);
	if (device_bind(id, &id->rdma.route.addr.src_addr) != 0 ||
	    (listener->is_synchronous ? id_migrate(id, NULL) != 0 : !join_channel(id, listener))) {
		(void)id_destroy(id);
		return NULL;
	}
	id->peer_ird = depth_told(peer->ird, id->home->ord_max);
	id->peer_ord = depth_told(peer->ord, id->home->ird_max);
	return id;
}

static int make_request(const struct note *note, struct taken *taken)
{
	struct weft_peer peer;
	struct id *id = NULL;

	if (weft_request_query(note->request, &peer) == WEFT_OK)
		id = id_for_request(note->id, &peer);
	if (!id) { /* to an address that is no device's, or memory is short */
		(void)weft_request_reject(note->request, NULL);
		return -EAGAIN;
	}
	id->request = note->request;
	(void)id_try(id, ID_REQUESTED);
	taken->rdma.id = &id->rdma;
	taken->rdma.listen_id = &note->id->rdma;
	taken->rdma.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	tell_peer(taken, &peer, id->home);
	tell_private_data(taken, &peer);
	return 0;
}

/* ---- Answers -------------------------------------------------------------------------------- */

/* How connecting went: the one who asked hears what the other end said. */
static void tell_answer(struct id *id, struct taken *taken)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	struct weft_peer peer;
	struct ibv_qp *qp;
	bool is_known;

	id_lock(id);
	qp = id_qp(id);
	is_known = qp && weft_qp_peer(weftv_qp(qp), &peer) == WEFT_OK;
	if (is_known && taken->rdma.status == 0) {
		tell_peer(taken, &peer, id->home);
		address_set_port(&addr->src_addr, htons(peer.local.port));
	}
	if (is_known && id->is_active)
		tell_private_data(taken, &peer);
	id_unlock(id);
}

int event_make(const struct note *note, struct taken *taken)
{
	memset(&taken->rdma, 0, sizeof(taken->rdma));
	if (note->kind == NOTE_ARRIVAL)
		return make_request(note, taken);
	if (note->kind == NOTE_LOOK) {
		listener_drain(note->id);
		return -EAGAIN;
	}
	taken->rdma.id = &note->id->rdma;
	taken->rdma.event = note->event;
	taken->rdma.status = note->status;
	if (note->kind == NOTE_CONNECT)
		tell_answer(note->id, taken);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		[RDMA_CM_EVENT_ADDR_RESOLVED] = "RDMA_CM_EVENT_ADDR_RESOLVED",
		[RDMA_CM_EVENT_ADDR_ERROR] = "RDMA_CM_EVENT_ADDR_ERROR",
		[RDMA_CM_EVENT_ROUTE_RESOLVED] = "RDMA_CM_EVENT_ROUTE_RESOLVED",
		[RDMA_CM_EVENT_ROUTE_ERROR] = "RDMA_CM_EVENT_ROUTE_ERROR",
		[RDMA_CM_EVENT_CONNECT_REQUEST] = "RDMA_CM_EVENT_CONNECT_REQUEST",
		[RDMA_CM_EVENT_CONNECT_RESPONSE] = "RDMA_CM_EVENT_CONNECT_RESPONSE",
		[RDMA_CM_EVENT_CONNECT_ERROR] = "RDMA_CM_EVENT_CONNECT_ERROR",
		[RDMA_CM_EVENT_UNREACHABLE] = "RDMA_CM_EVENT_UNREACHABLE",
		[RDMA_CM_EVENT_REJECTED] = "RDMA_CM_EVENT_REJECTED",
		[RDMA_CM_EVENT_ESTABLISHED] = "RDMA_CM_EVENT_ESTABLISHED",
		[RDMA_CM_EVENT_DISCONNECTED] = "RDMA_CM_EVENT_DISCONNECTED",
		[RDMA_CM_EVENT_DEVICE_REMOVAL] = "RDMA_CM_EVENT_DEVICE_REMOVAL",
		[RDMA_CM_EVENT_MULTICAST_JOIN] = "RDMA_CM_EVENT_MULTICAST_JOIN",
		[RDMA_CM_EVENT_MULTICAST_ERROR] = "RDMA_CM_EVENT_MULTICAST_ERROR",
		[RDMA_CM_EVENT_ADDR_CHANGE] = "RDMA_CM_EVENT_ADDR_CHANGE",
		[RDMA_CM_EVENT_TIMEWAIT_EXIT] = "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	if ((unsigned int)event >= sizeof(names) / sizeof(names[0]))
		return "UNKNOWN EVENT";
	return names[event];
}
