/* SPDX-License-Identifier: BSD-2-Clause */
/* From what happened to the event that the program reads. Called in the program's thread. */
#include <errno.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"

void event_private_data(struct taken *taken, const void *data, uint32_t bytes)
{
	struct rdma_conn_param *conn = &taken->rdma.param.conn;

	if (bytes == 0)
		return;
	/* Datagrams' parameters begin with the same two fields. */
	conn->private_data_len = bytes < PRIVATE_MAX ? (uint8_t)bytes : PRIVATE_MAX;
	memcpy(taken->private_data, data, conn->private_data_len);
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

/* What a request says, whichever way it came. */
struct asked {
	struct weft_address local, remote;
	uint32_t ird, ord; /* of the other end */
	const void *private_data;
	uint32_t private_bytes;
};

/* In a fabric they are GIDs: the program gets addresses of the family that it listens at. */
static void addresses_take(struct id *id, const struct id *listener, const struct asked *asked)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	sa_family_t family = listener->rdma.route.addr.src_addr.sa_family;

	if (!fabric_is_ours()) {
		address_from_weft(&asked->local, &addr->src_storage);
		address_from_weft(&asked->remote, &addr->dst_storage);
		return;
	}
	fabric_address_from(&asked->local, family, &addr->src_storage);
	fabric_address_from(&asked->remote, family, &addr->dst_storage);
}

/* An id for a request, in the listener's channel or in one of its own. */
static struct id *id_for_request(struct id *listener, const struct asked *asked, bool is_roce)
{
	struct id *id = id_create(NULL, listener->rdma.context, listener->rdma.ps);

	if (!id)
		return NULL;
	addresses_take(id, listener, asked);
	if (device_bind_to(id, &id->rdma.route.addr.src_addr, is_roce) != 0 ||
	    (listener->is_synchronous ? id_migrate(id, NULL) != 0 : !join_channel(id, listener))) {
		(void)id_destroy(id);
		return NULL;
	}
	id->rdma.qp_type = listener->rdma.qp_type;
	id->peer_ird = depth_clamp(asked->ird, id->home->ord_max);
	id->peer_ord = depth_clamp(asked->ord, id->home->ird_max);
	return id;
}

static void tell_request(struct taken *taken, struct id *id, struct id *listener,
			 const struct asked *asked)
{
	taken->rdma.id = &id->rdma;
	taken->rdma.listen_id = &listener->rdma;
	taken->rdma.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	if (!id_is_datagram(id)) {
		/* The other end's Reads are what is asked of us here, and the other way round. */
		taken->rdma.param.conn.responder_resources = id->peer_ord;
		taken->rdma.param.conn.initiator_depth = id->peer_ird;
	}
	event_private_data(taken, asked->private_data, asked->private_bytes);
}

static int make_stream_request(const struct note *note, struct taken *taken)
{
	struct weft_peer peer;
	struct asked asked;
	struct id *id;

	if (weft_request_query(note->request.stream, &peer) != WEFT_OK)
		return -EAGAIN;
	asked = (struct asked){ peer.local, peer.remote,       peer.ird,
				peer.ord,   peer.private_data, peer.private_bytes };
	id = id_for_request(note->id, &asked, false);
	if (!id)
		return -EAGAIN;
	id->request = note->request.stream;
	(void)id_try(id, ID_REQUESTED);
	tell_request(taken, id, note->id, &asked);
	return 0;
}

static int make_cm_id_request(const struct note *note, struct taken *taken)
{
	struct weft_cm_id_news news;
	struct asked asked;
	struct id *id;

	if (weft_cm_id_next(note->request.cm_id, &news) != WEFT_OK || news.kind != WEFT_CM_REQUEST)
		return -EAGAIN;
	asked = (struct asked){ news.path.from, news.path.to,	   news.reads_in,
				news.reads_out, news.private_data, news.private_bytes };
	id = id_for_request(note->id, &asked, true);
	if (!id)
		return -EAGAIN;
	if (roce_requested(id, note->request.cm_id, &news) != 0) {
		(void)id_destroy(id);
		return -EAGAIN;
	}
	tell_request(taken, id, note->id, &asked);
	if (!id_is_datagram(id)) {
		id->rdma.qp_type = news.is_uc ? IBV_QPT_UC
					      : IBV_QPT_RC; /* whatever is listened for */
		taken->rdma.param.conn.retry_count = news.retries;
		taken->rdma.param.conn.rnr_retry_count = news.rnr_retries;
		taken->rdma.param.conn.srq = news.has_srq;
		taken->rdma.param.conn.qp_num = news.qp_number;
	}
	return 0;
}

/*
 * The request is refused, and no event made, if no device has the address, or if memory or random
 * numbers are short.
 */
static int make_request(const struct note *note, struct taken *taken)
{
	int r = note->request.cm_id ? make_cm_id_request(note, taken)
				    : make_stream_request(note, taken);

	if (r != 0)
		request_refuse(note->request);
	return r;
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void tell_answer(struct id *id, struct taken *taken)
{
	id_lock(id);
	id->transport->tell(id, taken);
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
	if (note->kind == NOTE_NEWS) {
		roce_news_take(note->id);
		return -EAGAIN;
	}
	taken->rdma.id = &note->id->rdma;
	taken->rdma.event = note->event;
	taken->rdma.status = note->status;
	if (note->kind == NOTE_CONNECT)
		tell_answer(note->id, taken);
	else if (note->kind == NOTE_GROUP)
		group_tell(note->id, &note->group, taken);
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
