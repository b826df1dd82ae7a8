/* SPDX-License-Identifier: BSD-2-Clause */
/* Direct verbs: reliable datagrams, of which verbs have kept no more than some names of errors. */
#include <errno.h>
#include <stdlib.h>

#include <weft/roce.h>
#include <weft/weft_dv.h>

#include "base/reserved.h"
#include "compat/ibverbs/address.h"
#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/dv.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/post.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/translate.h"

enum { PSN_MASK = 0xffffff };

struct weftdv_ee {
	struct ibv_context *context;
	struct weft_ee *weft;
};

static void *fail(int error)
{
	errno = error;
	return NULL;
}

/* ---- Queue pairs ---------------------------------------------------------------------------- */

struct ibv_qp *weftdv_qp_create_rd(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t rdd)
{
	struct ibv_qp_init_attr_ex ex = { .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd };
	struct ibv_qp *qp;

	if (!pd || !is_ours(pd->context) || !is_ib(pd->context))
		return fail(EOPNOTSUPP);
	if (!attr || attr->qp_type != IBV_QPT_DRIVER)
		return fail(EINVAL);
	ex.qp_context = attr->qp_context;
	ex.send_cq = attr->send_cq;
	ex.recv_cq = attr->recv_cq;
	ex.srq = attr->srq;
	ex.cap = attr->cap;
	ex.qp_type = attr->qp_type;
	ex.sq_sig_all = attr->sq_sig_all;
	qp = qp_create_rd(&ex, rdd);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

int weftdv_qp_post_send_rd(struct ibv_qp *qp, const struct ibv_send_wr *wr, struct weftdv_ee *ee,
			   uint32_t remote_qpn, uint32_t remote_qkey)
{
	if (!is_our_qp(qp) || !type_is_rd(qp->qp_type) || !ee)
		return EOPNOTSUPP;
	if (!wr || wr->next)
		return EINVAL;
	return post_send_to(qp, wr,
			    &(struct weft_send_wr){
				    .ee = ee->weft,
				    .dest_qp_number = remote_qpn,
				    .remote_q_key = remote_qkey,
			    });
}

/* ---- End-to-end contexts -------------------------------------------------------------------- */

static int options_of(struct ibv_context *context, const struct weftdv_ee_attr *attr,
		      struct weft_ee_options *o)
{
	int error;

	if (!attr || !RESERVED_IS_ZERO(attr) || !attr->ah_attr || attr->path_mtu < IBV_MTU_256 ||
	    attr->path_mtu > (unsigned int)port_mtu(context, attr->ah_attr->port_num))
		return EINVAL;
	*o = (struct weft_ee_options){
		.rdd = attr->rdd,
		.psn_send = attr->sq_psn & PSN_MASK, /* as adapters take it */
		.timeout_code = attr->timeout,
		.retries = attr->retry_cnt,
		.rnr_retries = attr->rnr_retry,
	};
	error = path_of(context, attr->ah_attr, &o->path);
	o->path.mtu_bytes = 128U << attr->path_mtu;
	return error;
}

struct weftdv_ee *weftdv_ee_create(struct ibv_context *context, const struct weftdv_ee_attr *attr)
{
	struct weft_ee_options o;
	struct weftdv_ee *ee;
	enum weft_reason r;
	int error;

	if (!is_ours(context) || !is_ib(context))
		return fail(EOPNOTSUPP);
	error = options_of(context, attr, &o);
	if (error)
		return fail(error);
	ee = calloc(1, sizeof(*ee));
	if (!ee)
		return refused(WEFT_R_NO_MEMORY);
	r = weft_ee_create(context_of(context)->adapter, &o, &ee->weft);
	if (r != WEFT_OK) {
		free(ee);
		return refused(r);
	}
	ee->context = context;
	context_get(context);
	return ee;
}

uint32_t weftdv_ee_number(const struct weftdv_ee *ee)
{
	return ee ? weft_ee_number(ee->weft) : 0;
}

int weftdv_ee_connect(struct weftdv_ee *ee, uint32_t number, uint32_t rq_psn)
{
	return ee ? weftv_errno(weft_ee_connect(ee->weft, number, rq_psn & PSN_MASK)) : EOPNOTSUPP;
}

int weftdv_ee_reason_code(struct weftdv_ee *ee, uint32_t *code)
{
	struct weft_ee_attr attr;

	if (!ee)
		return EOPNOTSUPP;
	if (!code)
		return EINVAL;
	(void)weft_ee_query(ee->weft, &attr);
	*code = (uint32_t)attr.reason;
	return 0;
}

int weftdv_ee_destroy(struct weftdv_ee *ee)
{
	if (!ee)
		return EOPNOTSUPP;
	(void)weft_ee_destroy(ee->weft);
	context_put(ee->context);
	free(ee);
	return 0;
}
