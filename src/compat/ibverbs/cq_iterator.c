/* SPDX-License-Identifier: BSD-2-Clause */
/* Polling by iterators: one completion at a time, its fields asked for one by one. */
#include <arpa/inet.h>
#include <errno.h>

#include "base/check.h"
#include "compat/ibverbs/cq.h"
#include "compat/ibverbs/translate.h"

enum {
	FIELDS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
		 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
		 IBV_WC_EX_WITH_DLID_PATH_BITS,
	FLAGS = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN
};

static struct cq *of(struct ibv_cq_ex *ex)
{
	return CONTAINER_OF(ex, struct cq, ex);
}

static int next(struct ibv_cq_ex *ex)
{
	struct cq *cq = of(ex);
	uint32_t count;

	if (!cq->weft)
		return ENOENT;
	if (weft_cq_poll(cq->weft, &cq->current, 1, &count) != WEFT_OK)
		return EIO;
	if (count == 0)
		return ENOENT;
	ex->wr_id = cq->current.id;
	ex->status = wc_status_of(cq->ibv.context, &cq->current);
	return 0;
}

static int start(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : next(ex);
}

static void end(struct ibv_cq_ex *ex)
{
	(void)ex;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return wc_opcode_of(of(ex)->current.opcode);
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return (uint32_t)of(ex)->current.reason;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of(ex)->current.byte_count;
}

/* The same field serves the invalidated key, as in a struct ibv_wc. */
static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	const struct weft_completion *c = &of(ex)->current;

	return c->has_invalidated ? c->invalidated_tag : htonl(c->imm);
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of(ex)->current.qp_number;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of(ex)->current.src_qp_number;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return wc_flags_of(&of(ex)->current);
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return wc_sl_of(ex->context, &of(ex)->current);
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return wc_slid_of(ex->context, &of(ex)->current);
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return of(ex)->current.path_bits;
}

struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_pd *parent_domain = NULL;
	struct cq *cq;

	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) ||
	    attr->comp_vector >= (uint32_t)context->num_comp_vectors)
		return refused(WEFT_R_BAD_ARGUMENT);
	if (attr->wc_flags & ~(uint64_t)FIELDS ||
	    ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attr->flags & ~(uint32_t)FLAGS))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (attr->cqe > INT32_MAX ||
	    ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && !attr->parent_domain))
		return refused(WEFT_R_BAD_ARGUMENT);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		parent_domain = attr->parent_domain;
	cq = cq_open(context, parent_domain, (int)attr->cqe, attr->cq_context, attr->channel);
	if (!cq)
		return NULL;
	cq->ex.start_poll = start;
	cq->ex.next_poll = next;
	cq->ex.end_poll = end;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_dlid_path_bits;
	return &cq->ex;
}
