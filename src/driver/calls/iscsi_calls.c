/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls on queue pairs in iSCSI mode. */
#include "base/reserved.h"
#include "driver/loop/net.h"
#include "iscsi/offload/offload.h"

enum weft_reason weft_qp_modify_iscsi(struct weft_qp *qp, const struct weft_iscsi_terms *terms)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp || !terms)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(terms))
		return WEFT_R_RESERVED;
	a = adapter_enter_qp(qp);
	r = iscsi_offload_set(qp, terms);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_qp_query_iscsi(struct weft_qp *qp, struct weft_iscsi_attr *attr)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp || !attr)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = iscsi_offload_query(qp, attr);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_qp_command_tag(struct weft_qp *qp, uint32_t command_id, uint32_t *tag)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp || !tag)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = iscsi_offload_tag(qp, command_id, tag);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_qp_end_command(struct weft_qp *qp, uint32_t command_id)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = iscsi_offload_end(qp, command_id);
	adapter_leave_working(a);
	return r;
}
