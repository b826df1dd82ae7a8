/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct verbs: what weft's libibverbs has and libibverbs has no word for, for verbs programs that
 * run on weft. See docs/direct-verbs.md.
 *
 * Include <infiniband/verbs.h> too. A program links with weft's libibverbs; one that may also run
 * on another finds these calls by dlsym(), where they may be missing.
 *
 * Conventions, stated once:
 *  - Objects are those that the verbs gave. Calls on an object that is not weft's, NULL included,
 *    are refused with EOPNOTSUPP and change nothing.
 *  - A call that returns int returns 0 or an errno value, as posting does in verbs.
 *  - Requests that are posted here take their place in the same send queue, keep to its order and
 *    end in one completion, if signalled or failed, as others do. send_flags are IBV_SEND_, access
 *    flags are IBV_ACCESS_.
 *  - A struct is set to zero before its fields are filled in. It ends with reserved space for
 *    fields to come, which stays zero: else the call is refused with EINVAL, as it is if the
 *    struct, or what a result goes to, is NULL.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_ah_attr;
struct ibv_context;
struct ibv_device;
struct ibv_mr;
struct ibv_mw;
struct ibv_pd;
struct ibv_qp;
struct ibv_qp_init_attr;
struct ibv_send_wr;
struct ibv_sge;
struct weft_page_list;

/* Whether a device is weft's, and with it what is made by its contexts. */
bool weftdv_device_is_weft(struct ibv_device *device);

struct weftdv_device_attr {
	/*
	 * Peers reach windows only, and no region, whatever its rights; a Read needs a window to
	 * read into. (The strict policy of the requirements, WEFT_POLICY_STRICT.)
	 */
	bool is_strict;
	/*
	 * A thread of weft's does all of the work, and keeps a processor busy with it: posting and
	 * polling make no system call. From now on, for all devices of the process.
	 */
	bool is_served;
	uint64_t reserved[4]; /* zero */
};

/*
 * As ibv_open_device(). All devices that the process opens share the policy of the first that is
 * open: EBUSY if a strict one is wanted and that is not. Without is_strict it is open, unless
 * the user has asked for the strict one. NULL and errno.
 */
struct ibv_context *weftdv_device_open(struct ibv_device *device,
				       const struct weftdv_device_attr *attr);

/* ---- Reasons -------------------------------------------------------------------------------- */

/*
 * Why a queue pair failed, in one sentence, or that it has not. NULL and errno if it is not weft's.
 * The text is constant.
 */
const char *weftdv_qp_reason(struct ibv_qp *qp);

/* The same as a number, an enum weft_reason of <weft/reason.h>; 0: it has not failed. */
int weftdv_qp_reason_code(struct ibv_qp *qp, uint32_t *code);

/*
 * Of such a number, or the vendor_err of a completion: its short name, which `weft explain` knows,
 * and its sentence. Never NULL.
 */
const char *weftdv_reason_name(uint32_t code);
const char *weftdv_reason_text(uint32_t code);

/* ---- Failures ------------------------------------------------------------------------------- */

/*
 * What a request does that fails on this side, before any of it was sent: with is_drained it stops
 * the send queue alone (error option 1). The queue pair goes to SQE, later requests are flushed;
 * receives and the peer's requests are served as before, and ibv_modify_qp() takes it back to RTS.
 * Without, as at first on reliable connections, the connection ends. Counts from the next failure,
 * and outlasts a reset.
 */
int weftdv_qp_drain_on_failure(struct ibv_qp *qp, bool is_drained);

/* ---- Windows -------------------------------------------------------------------------------- */

struct weftdv_bind {
	uint64_t wr_id;
	unsigned int send_flags;
	unsigned int access; /* remote rights, and IBV_ACCESS_ZERO_BASED */
	uint32_t lkey;	     /* of the memory region */
	uint64_t addr;
	uint64_t length;   /* 0: unbind */
	bool is_one_touch; /* the window closes by itself after the first message to it */
	/*
	 * In: the window's next key, or 0 to have it chosen. Out: its key from the bind on, which
	 * mw->rkey is set to.
	 */
	uint32_t rkey;
	uint64_t reserved[2]; /* zero */
};

/*
 * Binds a window of either type by a request of the queue pair. Completes as IBV_WC_BIND_MW. A
 * window of type 2 serves this queue pair only, as in verbs.
 */
int weftdv_qp_post_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct weftdv_bind *bind);

/* ---- Regions of the same memory ------------------------------------------------------------- */

struct weftdv_share {
	unsigned int access;  /* as of ibv_reg_mr(); need not be that of the other region */
	uint64_t iova;	      /* names the first byte; 0: as in the other region */
	bool is_one_touch;    /* dies with the first remote message */
	uint64_t reserved[4]; /* zero */
};

/*
 * Registers the memory of a region again, with other rights, in this domain or another: over the
 * same translation entries, so it takes no more of them. Each of the two regions goes without the
 * other, by ibv_dereg_mr(). NULL and errno.
 */
struct ibv_mr *weftdv_mr_share(struct ibv_pd *pd, struct ibv_mr *mr,
			       const struct weftdv_share *share);

/* ---- Registration by the send queue --------------------------------------------------------- */

/*
 * A protection domain whose queue pairs may be allowed to register memory; otherwise as
 * ibv_alloc_pd(). NULL and errno.
 */
struct ibv_pd *weftdv_pd_alloc(struct ibv_context *context);

/*
 * Reserves a key, for one weftdv_register of a queue pair of the domain: so the message that tells
 * the peer of it can be written before it is posted. It names nothing until then, and is given back
 * by weftdv_key_release().
 */
int weftdv_key_reserve(struct ibv_pd *pd, uint32_t *key);

/* Allows it, or not; EPERM if its domain is an ordinary one. At first it is not allowed. */
int weftdv_qp_allow_register(struct ibv_qp *qp, bool is_allowed);

struct weftdv_register {
	uint64_t wr_id;
	unsigned int send_flags;
	unsigned int access; /* as of ibv_reg_mr() */
	void *addr;	     /* of ordinary memory */
	uint64_t length;
	uint64_t iova;	   /* names the first byte; of ordinary memory, 0: as addr */
	bool is_one_touch; /* dies with the first remote message */
	/*
	 * NULL: ordinary memory. Else pages, wherever they lie, that become one range: a list as in
	 * <weft/weft.h>, borrowed until the request has ended; addr is ignored.
	 */
	const struct weft_page_list *pages;
	/*
	 * In: 0, a reserved key, or that of an earlier registration that failed. Out: the region's
	 * lkey and rkey, which later requests of this queue may use at once. It is given back by
	 * weftdv_key_release(), whatever became of the request; or by IBV_WR_LOCAL_INV, or by the
	 * peer with IBV_WR_SEND_WITH_INV.
	 */
	uint32_t key;
	uint64_t reserved[4]; /* zero */
};

/* Registers memory by a request of the queue pair. Completes as IBV_WC_DRIVER1. */
int weftdv_qp_post_register(struct ibv_qp *qp, struct weftdv_register *reg);

/*
 * The same, and then sends a message that may tell the peer of it: of a key that was reserved.
 * Completes as IBV_WC_SEND; when the registration fails nothing is sent.
 */
int weftdv_qp_post_register_send(struct ibv_qp *qp, struct weftdv_register *reg,
				 const struct ibv_sge *list, int count);
int weftdv_key_release(struct ibv_pd *pd, uint32_t key);

/* ---- Delay ---------------------------------------------------------------------------------- */

/*
 * Holds back what is posted to this send queue after it for so long; other queues go on. Completes
 * as IBV_WC_DRIVER2.
 */
int weftdv_qp_post_delay(struct ibv_qp *qp, uint64_t wr_id, unsigned int send_flags,
			 uint64_t delay_ns);

/* ---- Reliable datagrams --------------------------------------------------------------------- */

/*
 * The service of InfiniBand that libibverbs left out: one queue pair talks with any of any node, as
 * reliably as connected ones. What a connection would hold is in an end-to-end context, one for
 * each other node, which all queue pairs share. Of RoCE devices.
 */
struct weftdv_ee;

/*
 * A queue pair of RD; as ibv_create_qp(), with qp_type IBV_QPT_DRIVER. It uses contexts of its
 * domain (rdd) only. ibv_modify_qp() takes it to INIT with IBV_QP_PKEY_INDEX, _PORT, _QKEY and
 * _ACCESS_FLAGS, to RTR with IBV_QP_MIN_RNR_TIMER, and to RTS. Receiving, completions and shared
 * receive queues are as in verbs. A receive's completion says who sent it: src_qp has the queue
 * pair, slid the context that it came by (the low 16 bits of weftdv_ee_number(); all of them by
 * ibv_wc_read_slid()), and so the node. NULL and errno.
 */
struct ibv_qp *weftdv_qp_create_rd(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t rdd);

struct weftdv_ee_attr {
	const struct ibv_ah_attr *ah_attr; /* the way to the other node */
	unsigned int path_mtu;		   /* enum ibv_mtu */
	uint32_t rdd;
	uint32_t sq_psn;
	uint8_t timeout, retry_cnt, rnr_retry; /* as in struct ibv_qp_attr */
	uint64_t reserved[4];		       /* zero */
};

/* NULL and errno. */
struct weftdv_ee *weftdv_ee_create(struct ibv_context *context, const struct weftdv_ee_attr *attr);

/* What the other end must know, besides sq_psn; 0: it is none. */
uint32_t weftdv_ee_number(const struct weftdv_ee *ee);

/* The other end's number, and its sq_psn; once. Requests wait until then. */
int weftdv_ee_connect(struct weftdv_ee *ee, uint32_t number, uint32_t rq_psn);

/* Why it failed, as weftdv_qp_reason_code(); 0: it has not. */
int weftdv_ee_reason_code(struct weftdv_ee *ee, uint32_t *code);

/* What waits for it ends as IBV_WC_RETRY_EXC_ERR, as when the other end does not answer. */
int weftdv_ee_destroy(struct weftdv_ee *ee);

/*
 * Posts one request (wr->next is NULL) to a queue pair of the other node. One that the other end
 * refuses, as it has no such queue pair or the key or the domain is another, ends as
 * IBV_WC_REM_INV_RD_REQ_ERR; its queue pair goes to SQE, and the context serves the others.
 */
int weftdv_qp_post_send_rd(struct ibv_qp *qp, const struct ibv_send_wr *wr, struct weftdv_ee *ee,
			   uint32_t remote_qpn, uint32_t remote_qkey);

#ifdef __cplusplus
}
#endif
