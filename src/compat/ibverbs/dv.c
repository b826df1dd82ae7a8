/* SPDX-License-Identifier: BSD-2-Clause */
/* Direct verbs: the engine's words for objects of verbs programs. */
#include "compat/ibverbs/dv.h"

#include <errno.h>

#include <weft/weft_dv.h>

#include "base/check.h"
#include "base/reserved.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/memory.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/post.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/translate.h"

bool weftdv_device_is_weft(struct ibv_device *device)
{
	return device_is_ours(device);
}

/* ---- Reasons -------------------------------------------------------------------------------- */

int weftdv_qp_reason_code(struct ibv_qp *qp, uint32_t *code)
{
	struct weft_qp_attr attr;

	if (!is_our_qp(qp))
		return EOPNOTSUPP;
	if (!code)
		return EINVAL;
	(void)weft_qp_query(qp_of(qp)->weft, &attr);
	*code = (uint32_t)attr.reason;
	return 0;
}

const char *weftdv_qp_reason(struct ibv_qp *qp)
{
	uint32_t code;
	int error = weftdv_qp_reason_code(qp, &code);

	if (error) {
		errno = error;
		return NULL;
	}
	return weftdv_reason_text(code);
}

const char *weftdv_reason_name(uint32_t code)
{
	return weft_reason_name((enum weft_reason)code);
}

const char *weftdv_reason_text(uint32_t code)
{
	return weft_reason_text((enum weft_reason)code);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static int post(struct ibv_qp *qp, struct weft_send_wr *w)
{
	return weftv_errno(weft_qp_post_send(qp_of(qp)->weft, w, 1, NULL));
}

static int post_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct weftdv_bind *bind)
{
	struct ibv_mr mr = { .lkey = bind->lkey };
	const struct ibv_mw_bind_info info = {
		.mr = &mr,
		.addr = bind->addr,
		.length = bind->length,
		.mw_access_flags = bind->access,
	};
	struct weft_send_wr w = {
		.id = bind->wr_id,
		.opcode = WEFT_OP_BIND,
		.flags = send_flags_of(bind->send_flags, WEFT_OP_BIND),
	};
	int error = bind_of(mw, bind->rkey, &info, &w.bind);

	if (error)
		return error;
	w.bind.is_one_touch = bind->is_one_touch;
	error = post(qp, &w);
	if (!error)
		mw->rkey = bind->rkey = w.bind.tag;
	return error;
}

int weftdv_qp_post_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct weftdv_bind *bind)
{
	if (!is_our_qp(qp) || !mw || !is_ours(mw->context))
		return EOPNOTSUPP;
	return bind && RESERVED_IS_ZERO(bind) ? post_bind(qp, mw, bind) : EINVAL;
}

int weftdv_qp_post_delay(struct ibv_qp *qp, uint64_t wr_id, unsigned int send_flags,
			 uint64_t delay_ns)
{
	struct weft_send_wr w = {
		.id = wr_id,
		.opcode = WEFT_OP_DELAY,
		.flags = send_flags_of(send_flags, WEFT_OP_DELAY),
		.delay_ns = delay_ns,
	};

	return is_our_qp(qp) ? post(qp, &w) : EOPNOTSUPP;
}

/* ---- Failures and policy -------------------------------------------------------------------- */

int weftdv_qp_drain_on_failure(struct ibv_qp *qp, bool is_drained)
{
	const struct weft_qp_attr attr = {
		.on_failure = is_drained ? WEFT_FAIL_DRAIN : WEFT_FAIL_TERMINATE,
	};

	if (!is_our_qp(qp))
		return EOPNOTSUPP;
	return weftv_errno(weft_qp_modify(qp_of(qp)->weft, &attr, WEFT_QP_ON_FAILURE));
}

struct ibv_context *weftdv_device_open(struct ibv_device *device,
				       const struct weftdv_device_attr *attr)
{
	struct context *c;

	if (!device_is_ours(device)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!attr || !RESERVED_IS_ZERO(attr)) {
		errno = EINVAL;
		return NULL;
	}
	c = context_open(device_of(device),
			 attr->is_strict ? WEFT_POLICY_STRICT : WEFT_POLICY_OPEN);
	if (c && attr->is_served) {
		enum weft_reason r = weft_adapter_serve(c->adapter, true);

		if (r != WEFT_OK) {
			context_put(&c->verbs.context);
			return refused(r);
		}
	}
	return c ? &c->verbs.context : NULL;
}

/* ---- Regions of the same memory ------------------------------------------------------------- */

struct ibv_mr *weftdv_mr_share(struct ibv_pd *pd, struct ibv_mr *mr,
			       const struct weftdv_share *share)
{
	uint64_t iova;

	if (!pd || !is_ours(pd->context) || !mr || !is_ours(mr->context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!share || !RESERVED_IS_ZERO(share)) {
		errno = EINVAL;
		return NULL;
	}
	iova = share->iova ? share->iova : CONTAINER_OF(mr, struct mr, ibv)->iova;
	return mr_share(pd, mr, iova, share->access, share->is_one_touch);
}

/* ---- Registration --------------------------------------------------------------------------- */

struct ibv_pd *weftdv_pd_alloc(struct ibv_context *context)
{
	if (!is_ours(context)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return pd_open(context, &(struct weft_pd_options){ .is_privileged = true });
}

int weftdv_qp_allow_register(struct ibv_qp *qp, bool is_allowed)
{
	const struct weft_qp_attr attr = { .is_register_enabled = is_allowed };

	if (!is_our_qp(qp))
		return EOPNOTSUPP;
	return weftv_errno(weft_qp_modify(qp_of(qp)->weft, &attr, WEFT_QP_REGISTER));
}

static int region_of(const struct weftdv_register *reg, struct weft_region_options *o)
{
	uint64_t iova = reg->iova ? reg->iova : (uintptr_t)reg->addr;
	int error;

	if (!reg->pages) {
		error = region_options(reg->addr, reg->length, iova, reg->access, o);
	} else {
		*o = (struct weft_region_options){
			.length = reg->length,
			.va = reg->iova,
			.is_zero_based = reg->access & IBV_ACCESS_ZERO_BASED,
			.pages = reg->pages,
		};
		error = rights_of(reg->access, &o->rights);
		o->rights |= WEFT_LOCAL_READ;
	}
	o->is_one_touch = reg->is_one_touch;
	return error;
}

static int post_register(struct ibv_qp *qp, struct weftdv_register *reg, struct weft_send_wr *w)
{
	int error;

	if (!is_our_qp(qp))
		return EOPNOTSUPP;
	if (!reg || !RESERVED_IS_ZERO(reg))
		return EINVAL;
	error = region_of(reg, &w->reg.region);
	if (error)
		return error;
	w->id = reg->wr_id;
	w->flags = send_flags_of(reg->send_flags, w->opcode);
	w->reg.tag = reg->key;
	error = post(qp, w);
	if (!error)
		reg->key = w->reg.tag;
	return error;
}

int weftdv_qp_post_register(struct ibv_qp *qp, struct weftdv_register *reg)
{
	struct weft_send_wr w = { .opcode = WEFT_OP_REGISTER };

	return post_register(qp, reg, &w);
}

int weftdv_qp_post_register_send(struct ibv_qp *qp, struct weftdv_register *reg,
				 const struct ibv_sge *list, int count)
{
	struct weft_send_wr w = {
		.opcode = WEFT_OP_REGISTER_SEND,
		.sges = segments_of(list),
		.sge_count = count < 0 ? UINT32_MAX : (uint32_t)count,
	};

	return post_register(qp, reg, &w);
}

int weftdv_key_reserve(struct ibv_pd *pd, uint32_t *key)
{
	if (!pd || !is_ours(pd->context))
		return EOPNOTSUPP;
	return weftv_errno(weft_tag_reserve(pd_of(pd)->weft, key));
}

int weftdv_key_release(struct ibv_pd *pd, uint32_t key)
{
	if (!pd || !is_ours(pd->context))
		return EOPNOTSUPP;
	return weftv_errno(weft_tag_release(pd_of(pd)->weft, key));
}
