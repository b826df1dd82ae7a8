/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and the channels that tell of them. */
#include "compat/ibverbs/cq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/bell.h"
#include "compat/ibverbs/async.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/teller.h"
#include "compat/ibverbs/translate.h"

enum { POLL_MAX = 16, CQS_KEPT = 16 };

/* ---- Channels ------------------------------------------------------------------------------- */

static struct channel *channel_of(struct ibv_comp_channel *c)
{
	return CONTAINER_OF(c, struct channel, ibv);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *c = calloc(1, sizeof(*c));
	int error;

	if (!c)
		return refused(WEFT_R_NO_MEMORY);
	error = teller_init(&c->teller);
	if (error) {
		free(c);
		errno = error;
		return NULL;
	}
	context_get(context);
	c->ibv.context = context;
	c->ibv.fd = c->teller.bell.fd;
	return &c->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct channel *c = channel_of(ibv);
	int users;

	pthread_mutex_lock(&ibv->context->mutex);
	users = ibv->refcnt;
	pthread_mutex_unlock(&ibv->context->mutex);
	if (users > 0)
		return EBUSY;
	teller_fini(&c->teller);
	context_put(ibv->context);
	free(c);
	return 0;
}

static void channel_use(struct ibv_comp_channel *channel, int change)
{
	if (!channel)
		return;
	pthread_mutex_lock(&channel->context->mutex);
	channel->refcnt += change;
	pthread_mutex_unlock(&channel->context->mutex);
}

static void channel_tell(struct channel *c, struct cq *cq)
{
	pthread_mutex_lock(&c->teller.lock);
	if (!cq->is_going) {
		cq->events_waiting++;
		bell_add(&c->teller.bell, &cq->waiting_link);
	}
	pthread_mutex_unlock(&c->teller.lock);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ibv, void **cq_context)
{
	struct channel *c = channel_of(channel);
	struct list *link;
	struct cq *cq;
	int error = teller_take(&c->teller, &link);

	if (error) {
		errno = error;
		return -1;
	}
	cq = CONTAINER_OF(link, struct cq, waiting_link);
	cq->events_taken++;
	if (--cq->events_waiting > 0)
		bell_add(&c->teller.bell, link);
	*ibv = &cq->ibv;
	*cq_context = cq->ibv.cq_context;
	pthread_mutex_unlock(&c->teller.lock);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += count;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void take_event(struct weftv_sink *sink, const struct weft_event *event)
{
	struct cq *cq = CONTAINER_OF(sink, struct cq, sink);

	if (event->kind == WEFT_EVENT_CQ_OVERRUN)
		async_raise(context_of(cq->ibv.context), &cq->overrun);
	else if (cq->ibv.channel)
		channel_tell(channel_of(cq->ibv.channel), cq);
}

static void locks_fini(struct cq *cq)
{
	pthread_mutex_destroy(&cq->ibv.mutex);
	pthread_cond_destroy(&cq->ibv.cond);
}

struct cq *cq_open(struct ibv_context *context, struct ibv_pd *parent_domain, int cqe,
		   void *cq_context, struct ibv_comp_channel *channel)
{
	struct pd_memory memory;
	struct weft_cq_options o = { .entries_max = (uint32_t)cqe };
	struct cq *cq;
	enum weft_reason r;

	if (cqe <= 0)
		return refused(WEFT_R_BAD_ARGUMENT);
	if (!pd_memory_take(parent_domain, sizeof(*cq), PD_CQ, &memory))
		return refused(WEFT_R_NO_MEMORY);
	cq = memory.bytes;
	cq->memory = memory;
	cq->parent_domain = parent_domain;
	cq->sink.take = take_event;
	list_init(&cq->waiting_link);
	list_init(&cq->overrun.link);
	cq->overrun.event = (struct ibv_async_event){
		.element.cq = &cq->ibv,
		.event_type = IBV_EVENT_CQ_ERR,
	};
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = cqe;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	o.context = &cq->sink;
	r = weft_cq_create(weftv_adapter(), &o, &cq->weft);
	if (r != WEFT_OK) {
		locks_fini(cq);
		pd_memory_give(parent_domain, PD_CQ, &memory);
		return refused(r);
	}
	if (parent_domain)
		pd_get(parent_domain);
	cq->ibv.handle = weft_cq_number(cq->weft);
	channel_use(channel, 1);
	context_get(context);
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct cq *cq;

	if (vector < 0 || vector >= context->num_comp_vectors)
		return refused(WEFT_R_BAD_ARGUMENT);
	cq = cq_open(context, NULL, cqe, cq_context, channel);
	return cq ? &cq->ibv : NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	enum weft_reason r = WEFT_R_BAD_ARGUMENT;

	if (cqe > 0 && cq_of(cq)->weft)
		r = weft_cq_resize(cq_of(cq)->weft, (uint32_t)cqe);
	if (r == WEFT_OK)
		cq->cqe = cqe;
	return weftv_errno(r);
}

/*
 * Some programs poll a queue once more after they have destroyed it: libiscsi 1.19 does, when what
 * it polled made it disconnect. ibv_poll_cq is inline and reads the queue itself, so the last few
 * that were destroyed stay readable.
 */
static void cq_keep_a_while(struct cq *cq)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct cq *kept[CQS_KEPT];
	static unsigned int oldest;
	struct cq *goes;

	cq->weft = NULL;
	pthread_mutex_lock(&lock);
	goes = kept[oldest];
	kept[oldest] = cq;
	oldest = (oldest + 1) % CQS_KEPT;
	pthread_mutex_unlock(&lock);
	free(goes);
}

/* Memory of the program's own goes back at once: what it does with it is its affair. */
static void cq_give(struct cq *cq)
{
	struct ibv_pd *parent_domain = cq->parent_domain;
	struct pd_memory memory = cq->memory;

	if (memory.is_programs)
		pd_memory_give(parent_domain, PD_CQ, &memory);
	else
		cq_keep_a_while(cq);
	if (parent_domain)
		pd_put(parent_domain);
}

static void set_going(struct cq *cq, bool is_going)
{
	struct channel *c;

	if (!cq->ibv.channel)
		return;
	c = channel_of(cq->ibv.channel);
	pthread_mutex_lock(&c->teller.lock);
	cq->is_going = is_going;
	if (is_going)
		bell_remove(&c->teller.bell, &cq->waiting_link);
	else if (cq->events_waiting > 0)
		bell_add(&c->teller.bell, &cq->waiting_link);
	pthread_mutex_unlock(&c->teller.lock);
}

/* Events that wait vanish, those taken must be acknowledged: of the channel, and of an overrun. */
static void await_acknowledged(struct cq *cq)
{
	struct ibv_cq *ibv = &cq->ibv;

	pthread_mutex_lock(&ibv->mutex);
	while (ibv->comp_events_completed != cq->events_taken)
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	pthread_mutex_unlock(&ibv->mutex);
	async_settle(context_of(ibv->context), &cq->overrun, 1);
}

/* A thread that took an event may poll the queue until it acknowledges: destroy it after that. */
int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct cq *cq = cq_of(ibv);
	enum weft_reason r;

	if (!cq->weft)
		return EINVAL;
	if (atomic_load(&cq->users) > 0)
		return EBUSY;
	set_going(cq, true);
	await_acknowledged(cq);
	r = weft_cq_destroy(cq->weft);
	if (r != WEFT_OK) {
		set_going(cq, false);
		return weftv_errno(r);
	}
	await_acknowledged(cq); /* of an overrun meanwhile */
	channel_use(ibv->channel, -1);
	locks_fini(cq);
	context_put(ibv->context);
	cq_give(cq);
	return 0;
}

/* ---- Polling -------------------------------------------------------------------------------- */

unsigned int wc_flags_of(const struct weft_completion *c)
{
	return (c->has_imm ? IBV_WC_WITH_IMM : 0U) | (c->has_invalidated ? IBV_WC_WITH_INV : 0U) |
	       (c->has_route ? IBV_WC_GRH : 0U);
}

/* RoCE has no LIDs: of RD the number of the context, which tells the node as a LID would. */
uint32_t wc_slid_of(const struct ibv_context *context, const struct weft_completion *c)
{
	if (is_in_fabric(context) && c->src_lid)
		return c->src_lid;
	return (uint32_t)c->src_ee_number;
}

/*
 * RoCE has no service levels. What stands there of a datagram is what mlx5 says, and UCX reads to
 * find the addresses in the 40 bytes: 8 for UDP, and the kind of IP header.
 */
uint8_t wc_sl_of(const struct ibv_context *context, const struct weft_completion *c)
{
	enum { OVER_UDP = 8, IPV6 = 1, IPV4 = 2 };

	if (is_in_fabric(context))
		return c->service_level;
	if (!c->has_route)
		return 0;
	return OVER_UDP | (c->has_ipv4_route ? IPV4 : IPV6);
}

static void wc_fill(const struct cq *cq, struct ibv_wc *wc, const struct weft_completion *c)
{
	*wc = (struct ibv_wc){
		.wr_id = c->id,
		.status = wc_status_of(cq->ibv.context, c),
		.opcode = wc_opcode_of(c->opcode),
		.vendor_err = (uint32_t)c->reason,
		.byte_len = c->byte_count,
		.qp_num = c->qp_number,
		.src_qp = c->src_qp_number,
		.wc_flags = wc_flags_of(c),
		.slid = (uint16_t)wc_slid_of(cq->ibv.context, c),
		.sl = wc_sl_of(cq->ibv.context, c),
		.dlid_path_bits = c->path_bits,
	};
	if (c->has_invalidated)
		wc->invalidated_rkey = c->invalidated_tag;
	else if (c->has_imm)
		wc->imm_data = htonl(c->imm);
}

int poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct weft_completion completions[POLL_MAX];
	struct cq *cq = cq_of(ibv);
	int done = 0;

	if (!cq->weft)
		return 0;
	if (atomic_load(&cq->is_overrun_unreported) &&
	    atomic_exchange(&cq->is_overrun_unreported, false))
		return -1;
	while (done < count) {
		uint32_t max = count - done < POLL_MAX ? (uint32_t)(count - done) : POLL_MAX, n;

		if (weft_cq_poll(cq->weft, completions, max, &n) != WEFT_OK) {
			/* What was taken before it must not be lost, too. */
			atomic_store(&cq->is_overrun_unreported, done > 0);
			return done > 0 ? done : -1;
		}
		for (uint32_t i = 0; i < n; i++)
			wc_fill(cq, &wc[done++], &completions[i]);
		if (n < max)
			break;
	}
	return done;
}

int req_notify_cq(struct ibv_cq *cq, int is_solicited_only)
{
	if (!cq_of(cq)->weft)
		return EINVAL;
	return weftv_errno(weft_cq_arm(cq_of(cq)->weft,
				       is_solicited_only ? WEFT_ARM_SOLICITED : WEFT_ARM_NEXT));
}
