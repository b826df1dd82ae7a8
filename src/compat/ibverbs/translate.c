/* SPDX-License-Identifier: BSD-2-Clause */
/* From the engine's words to those of verbs. */
#include "compat/ibverbs/translate.h"

#include <errno.h>

#include "compat/ibverbs/device.h"
#include "compat/ibverbs/ibverbs.h"

int weftv_errno(enum weft_reason reason)
{
	switch (reason) {
	case WEFT_OK:
		return 0;
	case WEFT_R_NO_MEMORY:
	case WEFT_R_LIMIT:
	case WEFT_R_QUEUE_FULL:
		return ENOMEM;
	case WEFT_R_BUSY:
	case WEFT_R_REGION_HAS_WINDOWS:
	case WEFT_R_WINDOW_BOUND:
		return EBUSY;
	case WEFT_R_SQR_DISABLED:
	case WEFT_R_SQR_PRIVILEGE:
		return EPERM;
	case WEFT_R_WR_SERVICE:
	case WEFT_R_WR_WIRE:
		return EOPNOTSUPP;
	case WEFT_R_DESCRIPTORS:
		return EMFILE;
	case WEFT_R_ADDRESS:
		return EADDRNOTAVAIL;
	case WEFT_R_ADDRESS_IN_USE:
	case WEFT_R_ROCE_PORT:
		return EADDRINUSE;
	case WEFT_R_ROCE_SLOTS:
		return EUSERS;
	case WEFT_R_CONNECT_REFUSED:
		return ECONNREFUSED;
	case WEFT_R_CONNECT_UNREACHABLE:
		return ENETUNREACH;
	case WEFT_R_CONNECT_TIMEOUT:
		return ETIMEDOUT;
	case WEFT_R_CONNECT_CLOSED:
		return ECONNRESET;
	case WEFT_R_QP_CONNECTED:
		return EISCONN;
	case WEFT_R_QP_UNCONNECTED:
		return ENOTCONN;
	case WEFT_R_SYSTEM:
		return EIO;
	default:
		return EINVAL;
	}
}

void *refused(enum weft_reason reason)
{
	errno = weftv_errno(reason);
	return NULL;
}

enum ibv_wc_status wc_status_of(const struct ibv_context *context, const struct weft_completion *c)
{
	enum weft_status status = c->status;
	static const enum ibv_wc_status table[] = {
		[WEFT_SUCCESS] = IBV_WC_SUCCESS,
		[WEFT_ERR_LOCAL_LENGTH] = IBV_WC_LOC_LEN_ERR,
		[WEFT_ERR_LOCAL_ACCESS] = IBV_WC_LOC_PROT_ERR,
		[WEFT_ERR_BIND] = IBV_WC_MW_BIND_ERR,
		[WEFT_ERR_REGISTER] = IBV_WC_LOC_QP_OP_ERR,
		[WEFT_ERR_FLUSHED] = IBV_WC_WR_FLUSH_ERR,
		[WEFT_ERR_REMOTE_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
		[WEFT_ERR_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
		[WEFT_ERR_REMOTE_OPERATION] = IBV_WC_REM_OP_ERR,
		[WEFT_ERR_RECEIVER_NOT_READY] = IBV_WC_RNR_RETRY_EXC_ERR,
		/* An adapter flushes what it had when the stream ends: programs expect that. */
		[WEFT_ERR_PEER_GONE] = IBV_WC_WR_FLUSH_ERR,
	};

	/* IBA 11.6.2: a peer that no longer answers, or one of RD that has no such queue pair. */
	if (status == WEFT_ERR_PEER_GONE && is_ib(context))
		return c->reason == WEFT_R_PEER_UNKNOWN ? IBV_WC_REM_INV_RD_REQ_ERR
							: IBV_WC_RETRY_EXC_ERR;
	return (size_t)status < sizeof(table) / sizeof(table[0]) ? table[status]
								 : IBV_WC_GENERAL_ERR;
}

enum ibv_wc_opcode wc_opcode_of(enum weft_opcode opcode)
{
	switch (opcode) {
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
		return IBV_WC_RDMA_WRITE;
	case WEFT_OP_READ:
		return IBV_WC_RDMA_READ;
	case WEFT_OP_COMPARE_SWAP:
		return IBV_WC_COMP_SWAP;
	case WEFT_OP_FETCH_ADD:
		return IBV_WC_FETCH_ADD;
	case WEFT_OP_BIND:
		return IBV_WC_BIND_MW;
	case WEFT_OP_INVALIDATE:
		return IBV_WC_LOCAL_INV;
	case WEFT_OP_REGISTER:
		return IBV_WC_DRIVER1;
	case WEFT_OP_DELAY:
		return IBV_WC_DRIVER2;
	case WEFT_OP_RECV:
		return IBV_WC_RECV;
	case WEFT_OP_RECV_WRITE_IMM:
		return IBV_WC_RECV_RDMA_WITH_IMM;
	default:
		return IBV_WC_SEND;
	}
}
