/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hands on packets that belong to another adapter of this host. They go to its unix socket, with
 * their addresses and other ancillary data. Batches stay as they came; a datagram holds several,
 * each behind a record of UDP_RECORD_BYTES. All processes of a host that use RoCE speak this
 * format; a datagram that begins otherwise is of an unknown version, and is dropped.
 */
#include <errno.h>
#include <string.h>

#include "base/cursor.h"
#include "driver/udp/udp_inside.h"
#include "wire/ibcm.h"

enum {
	RECORD_MAGIC = 0x77664831, /* "wfH1" */
	IS_IPV6 = 1,
	/* Failed lookups between two calls of udp_retry_slots(): of a slot, and for management. */
	SLOT_SEARCHES = 1,
	MANAGEMENT_SEARCHES = 64
};

/* ---- The owner of a packet ------------------------------------------------------------------ */

static struct udp_owner_key slot_key(const struct udp *u, uint32_t adapter_slot)
{
	bool is_another = adapter_slot != u->adapter_slot && adapter_slot >= 1 &&
			  adapter_slot <= UDP_SLOTS_MAX;

	return (struct udp_owner_key){ .kind = is_another ? UDP_SLOTS : UDP_OURS,
				       .adapter_slot = (uint8_t)adapter_slot };
}

static struct udp_owner_key of_service(const struct udp *u, uint64_t service_id)
{
	return (struct udp_owner_key){
		.kind = udp_has_service(u, service_id) ? UDP_OURS : UDP_SERVICES,
		.service_id = service_id,
	};
}

/* A malformed datagram stays with the adapter that received it, which refuses or answers it. */
static struct udp_owner_key management_key(const struct udp *u, const struct ib_in *in)
{
	struct iba_packet p;
	struct ibcm_msg m;

	if (iba_decode(&p, in->bytes, in->length) != WEFT_OK ||
	    ibcm_decode(&m, p.payload, p.payload_bytes) != WEFT_OK)
		return (struct udp_owner_key){ .kind = UDP_OURS };
	switch (m.kind) {
	case IBCM_REQ:
		return of_service(u, m.req.service_id);
	case IBCM_SIDR_REQ:
		return of_service(u, m.sidr_req.service_id);
	case IBCM_SIDR_REP:
		return slot_key(u, m.sidr_rep.request_id >> 24);
	default:
		return slot_key(u, m.remote_id >> 24);
	}
}

struct udp_owner_key udp_owner_key(const struct udp *u, const struct ib_in *in)
{
	uint32_t number = iba_dest_number(in->bytes, in->length);

	if (number >> 16 == u->adapter_slot)
		return (struct udp_owner_key){ .kind = UDP_OURS };
	if (number == IBA_QPN_GSI)
		return management_key(u, in);
	/* Every adapter that joined a group gets its own copy. */
	if (udp_is_group(in->is_ipv6, in->to.address))
		return (struct udp_owner_key){ .kind = UDP_OURS };
	return slot_key(u, number >> 16);
}

/* ---- Handing on ----------------------------------------------------------------------------- */

static void end_put(struct wr *w, const struct inet_end *end)
{
	wr_bytes(w, end->address, sizeof(end->address));
	wr_u16(w, end->port);
}

static void end_get(struct rd *r, struct inet_end *end)
{
	rd_bytes(r, end->address, sizeof(end->address));
	end->port = rd_u16(r);
}

static void record_put(uint8_t head[UDP_RECORD_BYTES], const struct ib_in *in,
		       const struct udp_stretch *s)
{
	struct wr w = wr_of(head, UDP_RECORD_BYTES);

	wr_u32(&w, RECORD_MAGIC);
	wr_u32(&w, (uint32_t)s->length);
	wr_u32(&w, (uint32_t)s->each);
	wr_u8(&w, in->is_ipv6 ? IS_IPV6 : 0);
	wr_u8(&w, in->traffic_class);
	wr_u8(&w, in->hop_limit);
	wr_u8(&w, 0);
	end_put(&w, &in->from);
	end_put(&w, &in->to);
	wr_u32(&w, 0);
}

/* Checks only the bounds of our own memory: adapters that hand on are trusted otherwise. */
bool udp_record_next(struct udp *u, struct ib_in *in, struct udp_stretch *stretch)
{
	struct rd *r = &u->records;
	uint32_t magic, length, each;
	uint8_t flags;

	if (r->at == r->end)
		return false;
	magic = rd_u32(r);
	length = rd_u32(r);
	each = rd_u32(r);
	flags = rd_u8(r);
	*in = (struct ib_in){ .is_ipv6 = flags & IS_IPV6 };
	in->traffic_class = rd_u8(r);
	in->hop_limit = rd_u8(r);
	(void)rd_u8(r);
	end_get(r, &in->from);
	end_get(r, &in->to);
	(void)rd_u32(r);
	if (r->is_short || magic != RECORD_MAGIC || each == 0 || length == 0 ||
	    (size_t)(r->end - r->at) < length) {
		u->counts.malformed++;
		*r = (struct rd){ 0 };
		return false;
	}
	*stretch = (struct udp_stretch){ r->at, length, each, 0 };
	r->at += length;
	return true;
}

int udp_hand_flush(struct udp *u)
{
	struct udp_hand *h = &u->hand;
	struct iovec pieces[2 * UDP_RECORDS_MAX];
	struct msghdr m = { .msg_iov = pieces, .msg_iovlen = 2 * h->count };
	uint32_t packets = h->packets;
	int err;

	if (h->count == 0)
		return 0;
	for (uint32_t i = 0; i < h->count; i++) {
		const struct udp_stretch *s = &h->records[i].stretch;

		record_put(h->records[i].head, &h->records[i].in, s);
		pieces[2 * i] = (struct iovec){ h->records[i].head, UDP_RECORD_BYTES };
		pieces[2 * i + 1] = (struct iovec){ (void *)(uintptr_t)s->bytes, s->length };
	}
	h->count = h->packets = 0;
	h->bytes = 0;
	err = udp_local_peer_send(u, &h->to, &m);
	if (err == -ECONNREFUSED)
		u->in_vain[h->search]++;
	if (err < 0)
		u->counts.lost_on += packets;
	else
		u->counts.handed_on += packets;
	return err;
}

/* The packet follows those of the latest record in the batch in which they came. */
static bool record_extend(struct udp_hand *h, const struct ib_in *in, size_t each)
{
	struct udp_stretch *s = h->count > 0 ? &h->records[h->count - 1].stretch : NULL;

	if (!s || s->bytes + s->length != in->bytes || s->each != each || s->length % each != 0)
		return false;
	s->length += in->length;
	return true;
}

static void record_add(struct udp *u, const struct ib_in *in, size_t each)
{
	struct udp_hand *h = &u->hand;

	if (h->count == UDP_RECORDS_MAX ||
	    h->bytes + in->length + UDP_RECORD_BYTES > UDP_BUFFER_BYTES)
		(void)udp_hand_flush(u);
	h->records[h->count].in = *in;
	h->records[h->count].stretch = (struct udp_stretch){ in->bytes, in->length, each, 0 };
	h->bytes += UDP_RECORD_BYTES;
	h->count++;
}

void udp_retry_slots(struct udp *u)
{
	memset(u->in_vain, 0, sizeof(u->in_vain));
	u->returned_lately = 0;
}

/*
 * Packets to free slots and unclaimed services may come in floods, and a lookup costs a connect():
 * lookups are rate-limited. Management datagrams get more of them, because their sender gives up
 * when it is told that there is no owner. Beyond the limit datagrams are dropped; an honest sender
 * repeats them.
 */
bool udp_hand_on(struct udp *u, const struct udp_owner_key *to, const struct ib_in *in, size_t each)
{
	bool is_management = iba_dest_qp(in->bytes, in->length) == IBA_QPN_GSI;
	uint8_t search = is_management ? 0 : to->adapter_slot;
	struct udp_hand *h = &u->hand;
	int err;

	if (u->in_vain[search] >= (is_management ? MANAGEMENT_SEARCHES : SLOT_SEARCHES) &&
	    !udp_local_peer_is_known(u, to)) {
		u->counts.lost_on++;
		return true;
	}
	if (h->count > 0 && !udp_owner_key_is_same(&h->to, to))
		(void)udp_hand_flush(u);
	h->to = *to;
	h->search = search;
	if (h->bytes + in->length > UDP_BUFFER_BYTES || !record_extend(h, in, each))
		record_add(u, in, each);
	h->bytes += in->length;
	h->packets++;
	if (!is_management)
		return true;
	/*
	 * A management datagram is delivered, or answered here that it has no owner: a peer of a
	 * process that has ended need not wait for its timeout.
	 */
	err = udp_hand_flush(u);
	if (err != -ECONNREFUSED)
		return true;
	u->counts.lost_on--;
	return false;
}
