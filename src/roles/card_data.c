/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channel 1 of Send mode (PUSH-07): a second unacknowledged connection, on which a frame is a Send.
 * The host dials it once both ends have greeted each other on channel 0, and proves by a mark in
 * the request that it is the same host: only the two ends can make that.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "roles/card_inside.h"

enum { RECEIVES = 256, CHANNEL = 1, MARK_BYTES = 1 + RIO_SEAL_BYTES };

static const uint8_t channel[] = "weft card channel 1";
static const uint64_t timeout_ns = 5000000000;

/* ---- Life ----------------------------------------------------------------------------------- */

static enum weft_reason receive_post(struct card_end *e, uint32_t nth)
{
	struct card_data *d = &e->data;
	const struct weft_sge sge = { .addr = (uintptr_t)d->buffers +
					      (uint64_t)nth * d->packet_bytes,
				      .length = d->packet_bytes,
				      .tag = d->tag };
	const struct weft_recv_wr wr = { .id = (uint64_t)nth << CARD_WORK_BITS | CARD_WORK_PACKET,
					 .sges = &sge,
					 .sge_count = 1 };
	enum weft_reason r = weft_qp_post_recv(d->qp, &wr, 1, NULL);

	e->posted_receives += r == WEFT_OK;
	return r;
}

static enum weft_reason qp_make(struct card_end *e)
{
	struct card_data *d = &e->data;
	const struct weft_region_options o = { .addr = (uintptr_t)d->buffers,
					       .length = (uint64_t)RECEIVES * d->packet_bytes,
					       .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE };
	const struct weft_qp_options options = {
		.send_cq = e->card->cq,
		.recv_cq = e->card->cq,
		.service = WEFT_UC,
		.send_max = CARD_WRITES,
		.recv_max = RECEIVES,
		.sges_max = 1,
		.context = &d->rdma.object,
	};
	const struct weft_qp_attr init = { .state = WEFT_QPS_INIT };
	enum weft_reason r = weft_region_register(e->pd, &o, &d->tag);

	if (r == WEFT_OK)
		r = weft_qp_create(e->pd, &options, &d->qp);
	if (r == WEFT_OK)
		r = weft_qp_modify(d->qp, &init, WEFT_QP_STATE);
	for (uint32_t i = 0; i < RECEIVES && r == WEFT_OK; i++)
		r = receive_post(e, i);
	return r;
}

/* What finds no receive is lost. */
static enum weft_reason make(struct card_end *e)
{
	struct card_data *d = &e->data;
	void *at;

	d->packet_bytes = card_packet_bytes(e->card);
	at = mmap(NULL, (size_t)RECEIVES * d->packet_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return WEFT_R_NO_MEMORY;
	d->buffers = at;
	rdma_end_init(&d->rdma, RDMA_ROCE);
	d->rdma.is_uc = true;
	d->rdma.object.kind = RDMA_OTHER; /* not the end's first connection */
	return qp_make(e);
}

void card_data_free(struct card_end *e)
{
	struct card_data *d = &e->data;

	if (d->qp) {
		uint32_t number = weft_qp_number(d->qp);

		weft_qp_destroy(d->qp);
		weft_cq_forget(e->card->cq, number);
	}
	if (d->tag)
		(void)weft_region_deregister(e->pd, d->tag);
	if (d->buffers)
		munmap(d->buffers, (size_t)RECEIVES * d->packet_bytes);
	*d = (struct card_data){ 0 };
}

void card_data_close(struct card_end *e)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };

	if (!e->data.qp)
		return;
	rdma_end_close(&e->data.rdma);
	(void)weft_qp_modify(e->data.qp, &attr, WEFT_QP_STATE);
}

/* ---- The connection ------------------------------------------------------------------------- */

void card_data_dial(struct card_end *e)
{
	uint8_t mark[MARK_BYTES] = { CHANNEL };
	const struct rdma_terms terms = { .private_data = mark,
					  .private_bytes = sizeof(mark),
					  .timeout_ns = timeout_ns };
	enum weft_reason r = make(e);

	rio_seal(e->handshake.greet.session.send_key, channel, sizeof(channel), mark + 1);
	if (r == WEFT_OK)
		r = rdma_end_dial(&e->data.rdma, e->card->adapter, e->data.qp,
				  &e->card->file->address, &terms);
	if (r != WEFT_OK)
		card_end_hang_up(e, r);
}

/* The end whose host has made this mark, and which has no channel 1 yet. */
static struct card_end *end_of(struct card *c, const struct rdma_request *request)
{
	struct card_end *e = NULL;

	while ((e = card_end_next(c, e)) != NULL) {
		if (e->state == CARD_UP && !e->data.qp &&
		    rio_seal_is_true(e->handshake.greet.session.receive_key, channel,
				     sizeof(channel), request->peer.private_data + 1))
			return e;
	}
	return NULL;
}

bool card_data_accept(struct card *c, struct rdma_request *request)
{
	const struct rdma_terms terms = { .timeout_ns = timeout_ns };
	struct card_end *e;
	enum weft_reason r;

	if (!request->is_uc || request->peer.private_bytes < MARK_BYTES ||
	    request->peer.private_data[0] != CHANNEL)
		return false;
	e = end_of(c, request);
	if (!e) {
		c->counts.refused++;
		card_tell(c, CARD_LINE_REFUSED, "refused a data connection: %s",
			  weft_reason_text(WEFT_R_RIO_FORGED));
		rdma_request_reject(request);
		return true;
	}
	r = make(e);
	if (r != WEFT_OK)
		rdma_request_reject(request);
	else
		r = rdma_request_accept(request, &e->data.rdma, e->data.qp, &terms);
	if (r == WEFT_OK)
		push_up(e->link, c->now_ns); /* the host's first message may come at once */
	else
		card_end_hang_up(e, r);
	return true;
}

void card_data_event(struct card_end *e, const struct weft_event *event)
{
	struct rdma_end *rdma = &e->data.rdma;

	if (e->state != CARD_UP || !rdma_end_event(rdma, event))
		return;
	/* This end may have been told to stop meanwhile. */
	if (rdma->state == RDMA_UP && rdma->is_active && push_link_state(e->link) == PUSH_DOWN)
		push_up(e->link, e->card->now_ns);
	else if (rdma->state == RDMA_DOWN)
		card_end_hang_up(e, rdma->reason == WEFT_OK ? WEFT_R_PEER_GONE : rdma->reason);
}

/* ---- Frames --------------------------------------------------------------------------------- */

void card_data_came(struct card_end *e, uint32_t nth, const struct weft_completion *c)
{
	const uint8_t *bytes = e->data.buffers + (size_t)nth * e->data.packet_bytes;
	struct card *card = e->card;

	e->deadline_ns = card->now_ns + card->file->config->alive_ns;
	(void)push_take_packet(e->link, bytes, c->byte_count, card->now_ns);
	(void)card_end_work(e); /* what events point to is in the bytes */
	if (e->state != CARD_DYING && receive_post(e, nth) != WEFT_OK)
		card_end_hang_up(e, WEFT_R_PEER_GONE);
}
