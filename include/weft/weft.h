/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * weft: a software RDMA adapter in user space.
 *
 * An adapter holds one memory translation and protection table and any number of protection
 * domains, completion queues, queue pairs and shared receive queues. Every access to memory by a
 * tag, local or remote, passes the table's one access check.
 *
 * Conventions, stated once:
 *  - A call returns WEFT_OK or the reason of its refusal; a refused call has changed nothing,
 *    unless its contract says otherwise. Out-parameters come last and are written on success only.
 *  - Pointers are borrowed for the duration of the call. The caller that creates an object destroys
 *    it; an object that others still use is not destroyed (WEFT_R_BUSY).
 *  - All calls may be made from any thread, also at the same time on the same object, except that
 *    nothing may use an object during or after its destruction.
 *  - An options struct set to zero means the defaults, where a field does not say otherwise; where
 *    that makes sense, so does NULL instead of the options.
 *  - A struct ends with reserved space, for fields to come: a program sets it to zero with the rest
 *    and is refused else (WEFT_R_RESERVED), the library writes zeroes to it. So structs keep their
 *    size, and a program runs with later libraries than it was built for (docs/api.md).
 *  - A call with NULL for an object, or for another argument that it needs, is refused
 *    (WEFT_R_NULL_ARGUMENT); one that returns a number returns 0, and one that returns nothing
 *    does nothing.
 *  - An adapter belongs to the process that opened it. The child of a fork() has none of its
 *    connections and can make none with it; it opens its own.
 *  - A thread that polls or waits for events does all of the adapter's work. While no thread does,
 *    an adapter that has connections is driven by a thread of its own, some milliseconds late at
 *    first: peers are served while the program computes. An adapter without connections has no
 *    thread: what waits for a time there (Delay, a receiver that is not ready) goes on inside these
 *    calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/advert.h>
#include <weft/connection.h>
#include <weft/reason.h>
#include <weft/space.h>
#include <weft/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_adapter;
struct weft_event;
struct weft_iscsi_pdu;
struct weft_pd;
struct weft_cq;
struct weft_srq;
struct weft_qp;
struct weft_ah;
struct weft_ee;
struct weft_sge;

/* ---- Adapter ------------------------------------------------------------------------------- */

/* AMB-12: which entries a peer may reach. */
enum weft_policy {
	WEFT_POLICY_OPEN = 0, /* regions and windows, as in today's verbs */
	WEFT_POLICY_STRICT    /* windows only, as D1 demands */
};

/* SYS-04: what an adapter is for. It says what options are that are left 0. */
enum weft_profile {
	WEFT_PROFILE_NONE = 0,
	WEFT_PROFILE_HOST, /* WEFT_HOST_PORTS, WEFT_HOST_QPS */
	WEFT_PROFILE_IO	   /* at most WEFT_IO_PORTS; WEFT_IO_QPS; no peer reads or writes memory */
};

enum { WEFT_HOST_PORTS = 4, WEFT_HOST_QPS = 4096, WEFT_IO_PORTS = 2, WEFT_IO_QPS = 8 };

struct weft_adapter_options {
	uint32_t tags_max;	   /* of the region/window table; default 65536, below 2^24 */
	uint32_t translations_max; /* pages of all page lists; default 2^20, at most 2^30 */
	uint32_t qps_max, cqs_max, srqs_max, pds_max; /* default 4096, at most 65535 */
	enum weft_policy policy;
	/*
	 * Takes every event, in place of weft_event_next(): called by the thread that does
	 * the adapter's work; the adapter is locked meanwhile. It must not call weft, nor wait for
	 * a thread that does.
	 */
	void (*on_event)(void *context, const struct weft_event *event);
	void *context; /* given to it */
	/*
	 * The same thread calls it after on_event(), once for several events, when it has unlocked
	 * the adapter; or NULL. A thread of the program that is woken here finds the adapter free.
	 * It must not call weft.
	 */
	void (*after_events)(void *context);
	enum weft_profile profile;
	uint32_t ports_max;   /* ports of its node, in a fabric, that it may have; default 254 */
	uint64_t reserved[2]; /* zero */
};

/* Opens an adapter of this process. */
enum weft_reason weft_adapter_open(const struct weft_adapter_options *options,
				   struct weft_adapter **adapter);

/*
 * Closes it. WEFT_R_BUSY while any protection domain, queue, address space, listener or unanswered
 * request remains. Connections that are still closing get up to 200 ms.
 */
enum weft_reason weft_adapter_close(struct weft_adapter *adapter);

/* What is in use now, and what happened since the adapter was opened. */
struct weft_usage {
	uint32_t regions, windows, tags_reserved; /* table entries, by what they hold */
	uint32_t tags_free;
	uint32_t translations;			   /* page-list blocks in use, in page addresses */
	uint32_t spaces, pds, cqs, srqs, qps, ees; /* ees: end-to-end contexts of RD */
	uint64_t accesses_refused;
	uint64_t bytes_moved;	   /* payload bytes copied by the loopback transport */
	uint64_t messages_dropped; /* by unreliable services, as they may */
	uint64_t iscsi_regions;	   /* table entries of iSCSI commands in progress (iscsi_qp.h) */
	uint64_t reserved[7];	   /* zero */
};

enum weft_reason weft_adapter_query(struct weft_adapter *adapter, struct weft_usage *usage);

/* ---- Protection domains -------------------------------------------------------------------- */

/*
 * The owner of an adapter's memory, D3's operating system, decides what code is privileged. It is
 * the code that opens the adapter, if it claims it before it lets other code have the handle: the
 * first call gives an authority, a secret number, and every later one WEFT_R_NOT_OWNER. From then
 * on only the authority makes a domain privileged (WEFT_R_NOT_OWNER). As long as an adapter is not
 * claimed, all code that has its handle is its owner.
 */
enum weft_reason weft_adapter_claim(struct weft_adapter *adapter, uint64_t *authority);

struct weft_pd_options {
	struct weft_space *space; /* where local addresses are read (QP-09); NULL: the process */
	bool is_privileged;	  /* may use virtual spaces and enable send-queue registration */
	uint64_t authority;	  /* for is_privileged, if the adapter is claimed */
	uint64_t reserved[3];	  /* zero */
};

enum weft_reason weft_pd_create(struct weft_adapter *adapter, const struct weft_pd_options *options,
				struct weft_pd **pd);
enum weft_reason weft_pd_destroy(struct weft_pd *pd);

/* ---- Memory: tags, regions, windows -------------------------------------------------------- */

/* A tag is 24 bits of index and 8 bits of instance (MEM-02). Tag 0 names nothing. */
static inline uint32_t weft_tag_index(uint32_t tag)
{
	return tag >> 8;
}

static inline uint8_t weft_tag_instance(uint32_t tag)
{
	return (uint8_t)tag;
}

/* Rights, each independent of the others (MEM-04f), and the binding bit (MEM-04g). */
enum weft_right {
	WEFT_LOCAL_READ = 1 << 0,
	WEFT_LOCAL_WRITE = 1 << 1,
	WEFT_REMOTE_READ = 1 << 2,
	WEFT_REMOTE_WRITE = 1 << 3,
	WEFT_REMOTE_ATOMIC = 1 << 4,
	WEFT_BIND = 1 << 5 /* windows may be bound to this region */
};

/* How the address translation table is reached (MEM-05). */
enum weft_order {
	WEFT_ORDER_FIT = 0, /* the lowest that holds the list */
	WEFT_ORDER_DIRECT,  /* entry -> page */
	WEFT_ORDER_FIRST,   /* entry -> list of pages */
	WEFT_ORDER_SECOND   /* entry -> list of entries -> lists of pages */
};

struct weft_page_list {
	const uint64_t *pages;	  /* real addresses, multiples of the page size, by VA */
	uint32_t count;		  /* at most 2^21 */
	uint64_t page_size_bytes; /* 4 KiB, 8 KiB, 64 KiB, 1 MiB, 16 MiB or 256 MiB */
	uint64_t first_offset;	  /* of the first byte in the first page */
	enum weft_order order;
	uint64_t reserved[2]; /* zero */
};

struct weft_region_options {
	uint64_t addr;	    /* where the memory lies; ignored with a page list */
	uint64_t length;    /* bytes; not 0 */
	uint64_t va;	    /* names the first byte; 0: same as addr, if no page list */
	uint32_t rights;    /* of enum weft_right */
	bool is_zero_based; /* the first byte is named by address 0, va is ignored */
	bool is_one_touch;  /* dies with the first remote message (TOUCH-02); not with WEFT_BIND */
	/*
	 * Its memory, in the process, may come and go: each access asks the system what is there,
	 * and is denied (WEFT_R_SPACE_MAPPING) where nothing is that may be used so. It may even be
	 * all of the process: from address 0 over UINT64_MAX bytes.
	 */
	bool is_on_demand;
	struct weft_space *space;	    /* NULL: the domain's own; or a virtual one */
	const struct weft_page_list *pages; /* NULL: ordinary memory */
	uint64_t reserved[4];		    /* zero */
};

/*
 * Registers memory. When it returns, the tag may be used (MEM-11). Ordinary memory should stay
 * mapped until it is deregistered: what was unmapped is refused (WEFT_R_MEMORY_GONE), and so is
 * what was mapped there later, where the kernel tells (docs/programs.md, Memory that goes).
 */
enum weft_reason weft_region_register(struct weft_pd *pd, const struct weft_region_options *options,
				      uint32_t *tag);

/*
 * Registers the memory of an existing region again, over the same translation entries (MEM-09): of
 * the options only va (0: as before), is_zero_based, is_one_touch and rights count. The new entry
 * outlives the old.
 */
enum weft_reason weft_region_share(struct weft_pd *pd, uint32_t tag,
				   const struct weft_region_options *options, uint32_t *shared_tag);

/*
 * Lets an existing region's tag name other memory, with other rights or in another domain (new_pd,
 * which may be the same), at once. Not with page lists; WEFT_R_REGION_HAS_WINDOWS as below. With
 * a length of 0 the memory stays, so that what has gone of it stays refused: of the options only va
 * (0: as before), is_zero_based, is_one_touch and rights count.
 */
enum weft_reason weft_region_change(struct weft_pd *pd, uint32_t tag, struct weft_pd *new_pd,
				    const struct weft_region_options *options);

/* WEFT_R_REGION_HAS_WINDOWS while windows are bound to it. */
enum weft_reason weft_region_deregister(struct weft_pd *pd, uint32_t tag);

/*
 * Brings pages of a region, for WEFT_LOCAL_READ or WEFT_LOCAL_WRITE; for 0 it looks only at the tag
 * and the range. Refused for what such an access would be refused for. In a space over the process
 * (WEFT_SPACE_PROCESS) it does not wait for them.
 */
enum weft_reason weft_region_prefetch(struct weft_pd *pd, const struct weft_sge *range,
				      uint32_t right);

/*
 * A null region: it reaches from address 0 over UINT64_MAX bytes and has no memory. What is read
 * from it is zero, what is written to it is thrown away. For the elements of this side's requests,
 * to skip parts of a message; no peer reaches it. Ended by weft_region_deregister().
 */
enum weft_reason weft_region_register_null(struct weft_pd *pd, uint32_t *tag);

/*
 * Reserves a tag for a later WEFT_OP_REGISTER or WEFT_OP_REGISTER_SEND of a queue pair of pd. It
 * names nothing until that request has been carried out.
 */
enum weft_reason weft_tag_reserve(struct weft_pd *pd, uint32_t *tag);

/*
 * Gives back a reserved tag, or deregisters the region that was made with it through a send queue.
 */
enum weft_reason weft_tag_release(struct weft_pd *pd, uint32_t tag);

/* AllocateRKey (RKEY-02a): an unbound window. Its tag changes with every bind. */
enum weft_reason weft_window_alloc(struct weft_pd *pd, uint32_t *tag);

/*
 * DeallocateRKey (RKEY-02d), by the current tag: WEFT_R_WINDOW_BOUND while it is bound, WEFT_R_BUSY
 * while a bind of it is queued.
 */
enum weft_reason weft_window_free(struct weft_pd *pd, uint32_t tag);

/*
 * Unbinds a window, if it is bound, and frees it, by any tag that it has had: its index
 * counts. For callers that need not know the current tag, as verbs programs. WEFT_R_BUSY as above.
 */
enum weft_reason weft_window_discard(struct weft_pd *pd, uint32_t tag);

struct weft_bind {
	uint32_t window_tag; /* any tag that this window has had: only its index counts */
	uint32_t region_tag;
	uint64_t addr; /* in the region's addresses; with length 0: unbind */
	uint64_t length;
	uint32_t rights; /* remote rights, never more than the region's (RKEY-11) */
	bool is_zero_based;
	bool is_one_touch;
	/* For the queue pair of the request only, until that is reset; not in weft_window_bind. */
	bool is_qp_bound;
	/*
	 * Out: the window's tag from the bind on; if the bind fails or is flushed, the window keeps
	 * the tag it had. In a work request, 0 asks for the next instance; another value (of this
	 * window's index, and not the one that is bound) is taken as it is, as verbs programs
	 * choose their keys. There are 256 instances: the 256th bind gives a tag that was used
	 * before.
	 */
	uint32_t tag;
	uint64_t reserved[2]; /* zero */
};

/* BindRKey (RKEY-02b), without a queue: the window serves all queue pairs of pd (RKEY-06). */
enum weft_reason weft_window_bind(struct weft_pd *pd, struct weft_bind *bind);

/* The same for one queue pair, until that is reset. */
enum weft_reason weft_window_bind_to(struct weft_qp *qp, struct weft_bind *bind);

/* A bound window becomes this queue pair's, and no longer serves another; its tag stays. */
enum weft_reason weft_window_give(struct weft_qp *qp, uint32_t tag);

/* UnbindRKey (RKEY-02c): tag must be the current one. */
enum weft_reason weft_window_unbind(struct weft_pd *pd, uint32_t tag);

/* ---- Completion queues --------------------------------------------------------------------- */

enum weft_opcode {
	WEFT_OP_SEND = 0,
	WEFT_OP_SEND_IMM,
	WEFT_OP_SEND_INVALIDATE, /* the peer's tag in invalidate_tag dies on receipt (SQR-09) */
	WEFT_OP_WRITE,
	WEFT_OP_WRITE_IMM,
	WEFT_OP_READ,
	WEFT_OP_COMPARE_SWAP,
	WEFT_OP_FETCH_ADD,
	WEFT_OP_BIND,
	WEFT_OP_INVALIDATE, /* a tag of our own: window, or region registered by a send queue */
	WEFT_OP_REGISTER,
	WEFT_OP_REGISTER_SEND,
	WEFT_OP_DELAY,
	WEFT_OP_ISCSI_COMMAND,	/* a SCSI Command and its data: <weft/iscsi_qp.h> */
	WEFT_OP_ISCSI_CONTROL,	/* any other PDU of an initiator */
	WEFT_OP_SEND_COUNT,	/* number of operations of the send queue */
	WEFT_OP_RECV = 64,	/* in completions: a Send arrived */
	WEFT_OP_RECV_WRITE_IMM, /* in completions: a Write with immediate arrived */
	/* In completions of iSCSI: */
	WEFT_OP_RECV_ISCSI,	    /* a PDU that the consumer has to handle */
	WEFT_OP_RECV_ISCSI_DATA,    /* a Data-In whose data is in the command's memory */
	WEFT_OP_RECV_ISCSI_R2T,	    /* an R2T that is being answered from the command's memory */
	WEFT_OP_RECV_ISCSI_RESPONSE /* the SCSI Response of a command */
};

const char *weft_opcode_name(enum weft_opcode opcode);

enum weft_status {
	WEFT_SUCCESS = 0,
	WEFT_ERR_LOCAL_LENGTH,	   /* receive: the message was longer than the buffers */
	WEFT_ERR_LOCAL_ACCESS,	   /* an element failed the access check */
	WEFT_ERR_BIND,		   /* Bind or local invalidate failed */
	WEFT_ERR_REGISTER,	   /* registration through the send queue failed */
	WEFT_ERR_FLUSHED,	   /* not carried out because of a state change */
	WEFT_ERR_REMOTE_REQUEST,   /* the peer found the request malformed */
	WEFT_ERR_REMOTE_ACCESS,	   /* the peer's access check refused it */
	WEFT_ERR_REMOTE_OPERATION, /* the peer could not carry it out */
	WEFT_ERR_RECEIVER_NOT_READY,
	WEFT_ERR_PEER_GONE
};

const char *weft_status_name(enum weft_status status);

struct weft_completion {
	uint64_t id; /* of the work request */
	enum weft_status status;
	enum weft_opcode opcode;
	enum weft_reason
		reason; /* WEFT_OK with WEFT_SUCCESS (but see WEFT_OP_RECV_ISCSI), else why */
	uint32_t qp_number;
	uint32_t src_qp_number;	  /* receive: who sent it */
	uint32_t byte_count;	  /* receive and Read: payload bytes */
	uint32_t imm;		  /* with has_imm */
	uint32_t invalidated_tag; /* with has_invalidated */
	bool has_imm;
	bool has_invalidated;
	bool has_route; /* UD receive: it begins with 40 bytes that tell the route it came by */
	bool has_ipv4_route; /* 20 of them are a header of IPv4; else all are one of IPv6 */
	/* UD receive in a fabric: the sender's LID; the low bits of the LID that it was sent to. */
	uint16_t src_lid;
	uint8_t service_level, path_bits;
	/*
	 * RD receive: the number of this end's context (weft_ee_number()) that it came by, which
	 * leads to one node. Queue pairs of two nodes may have one number: this and src_qp_number
	 * together say who sent it.
	 */
	uint64_t src_ee_number;
	uint32_t command_id;  /* iSCSI receive: of the command that it belongs to; 0: of none */
	uint32_t reserved[1]; /* zero */
};

struct weft_cq_options {
	uint32_t entries_max; /* default 256, at most 2^22 */
	void *context;	      /* returned in events */
	uint64_t reserved[4]; /* zero */
};

enum weft_reason weft_cq_create(struct weft_adapter *adapter, const struct weft_cq_options *options,
				struct weft_cq **cq);
enum weft_reason weft_cq_destroy(struct weft_cq *cq);

/* Changes its room; WEFT_R_BAD_ARGUMENT if it holds more completions than that. */
enum weft_reason weft_cq_resize(struct weft_cq *cq, uint32_t entries_max);
uint32_t weft_cq_number(const struct weft_cq *cq);

/*
 * Makes progress and takes up to max completions; *count says how many. Once a completion was lost
 * for want of room and the queue has been emptied, it returns WEFT_R_CQ_OVERRUN, once.
 */
enum weft_reason weft_cq_poll(struct weft_cq *cq, struct weft_completion *completions, uint32_t max,
			      uint32_t *count);

/* Takes out the completions of one queue pair, as a program may want whose queue pair was reset. */
enum weft_reason weft_cq_forget(struct weft_cq *cq, uint32_t qp_number);

enum weft_arm { WEFT_ARM_NEXT, WEFT_ARM_SOLICITED };

/*
 * Asks for one WEFT_EVENT_COMPLETION when the next completion arrives; with WEFT_ARM_SOLICITED when
 * the next solicited or failed one does. Completions already queued do not count: poll after
 * arming.
 */
enum weft_reason weft_cq_arm(struct weft_cq *cq, enum weft_arm arm);

/* ---- Queue pairs --------------------------------------------------------------------------- */

enum weft_qp_service {
	WEFT_RC = 0, /* connected, acknowledged */
	WEFT_UC,     /* connected, not acknowledged: Send and Write only */
	WEFT_RD,     /* each request names its destination, acknowledged */
	WEFT_UD,     /* each request names its destination, not acknowledged: Send only */
	WEFT_ISCSI,  /* connected to an iSCSI target by TCP: <weft/iscsi_qp.h> */
	WEFT_SERVICE_COUNT
};

enum weft_qp_state {
	WEFT_QPS_RESET = 0,
	WEFT_QPS_INIT, /* receives may be posted */
	WEFT_QPS_RTR,  /* receives are served */
	WEFT_QPS_RTS,  /* operational */
	WEFT_QPS_SQD,  /* paused on request: what had begun has finished, later requests wait */
	WEFT_QPS_SQE,  /* D1's Send Queue Drained: later requests flush, the receive side lives */
	WEFT_QPS_ERROR,
	WEFT_QPS_COUNT
};

const char *weft_qp_state_name(enum weft_qp_state state);

/* SQR-06: what happens when a request fails on this side, before anything was sent. */
enum weft_failure {
	WEFT_FAIL_TERMINATE = 0, /* option 2: QP to Error, the stream ends, everything flushes */
	WEFT_FAIL_DRAIN		 /* option 1: QP to SQE, later send requests flush */
};

enum { WEFT_SGES_MAX = 32, WEFT_INLINE_MAX = 1024, WEFT_QUEUE_MAX = 1 << 20 };

/* Largest message in bytes. */
#define WEFT_MESSAGE_MAX ((uint64_t)1 << 31)

struct weft_qp_options {
	struct weft_cq *send_cq; /* required, and so is recv_cq; they may be the same */
	struct weft_cq *recv_cq;
	struct weft_srq *srq; /* NULL: a receive queue of its own */
	enum weft_qp_service service;
	/*
	 * RC on a network, extended (IBA annex A14): requests name a shared receive queue of the
	 * peer (dest_qp_number); the peer's name one of this domain, and reach what that may reach.
	 */
	bool is_xrc;
	uint32_t xrc_domain;
	uint32_t send_max;	   /* requests in the send queue; default 64 */
	uint32_t recv_max;	   /* default 64 */
	uint32_t sges_max;	   /* per request; default 4, at most WEFT_SGES_MAX */
	uint32_t inline_max_bytes; /* default 64, at most WEFT_INLINE_MAX */
	uint32_t outstanding_max;  /* requests not yet acknowledged (QP-02); default send_max */
	bool is_every_send_signalled;
	void *context;
	uint64_t reserved[8]; /* zero */
};

/* Creates a queue pair in state RESET. */
enum weft_reason weft_qp_create(struct weft_pd *pd, const struct weft_qp_options *options,
				struct weft_qp **qp);

/*
 * Outstanding requests are flushed. The peer of a reliable connection goes to Error
 * (WEFT_R_PEER_GONE).
 */
enum weft_reason weft_qp_destroy(struct weft_qp *qp);
uint32_t weft_qp_number(const struct weft_qp *qp);

struct weft_qp_attr {
	enum weft_qp_state state;
	/* With WEFT_PROFILE_IO there are none, whatever is asked for. */
	uint32_t remote_rights;	  /* what a peer may do through this QP; default all */
	bool is_register_enabled; /* SQR-01; needs a privileged domain (SQR-07) */
	enum weft_failure on_failure;
	uint64_t receiver_wait_ns; /* a Send waits so long for a receive; default 1 s */
	/* Read only: fixed at creation (QP-02). */
	enum weft_qp_service service;
	uint32_t send_max, recv_max, sges_max, inline_max_bytes, outstanding_max;
	/* Read only: now. */
	uint32_t peer_number;
	enum weft_reason reason; /* why it left the operational state */
	uint32_t send_queued, recv_queued;
	uint64_t reserved[8]; /* zero */
};

enum weft_qp_field {
	WEFT_QP_STATE = 1 << 0,
	WEFT_QP_REMOTE_RIGHTS = 1 << 1,
	WEFT_QP_REGISTER = 1 << 2,
	WEFT_QP_ON_FAILURE = 1 << 3,
	WEFT_QP_RECEIVER_WAIT = 1 << 4
};

/*
 * Changes the fields named in the mask: all of them or, if one is refused, none. RESET flushes what
 * is queued, leaves the peer, and keeps the other attributes.
 */
enum weft_reason weft_qp_modify(struct weft_qp *qp, const struct weft_qp_attr *attr,
				uint32_t fields);
enum weft_reason weft_qp_query(struct weft_qp *qp, struct weft_qp_attr *attr);

/*
 * Connects two queue pairs of one adapter, of the same connected service and both in RESET or INIT,
 * and makes them operational (QP-15).
 */
enum weft_reason weft_qp_connect(struct weft_qp *qp, struct weft_qp *peer);

/* An element of a scatter-gather list. */
struct weft_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t tag;
};

enum weft_send_flag {
	WEFT_SIGNALLED = 1 << 0, /* success makes a completion; failure always does */
	WEFT_FENCE = 1 << 1,	 /* wait for earlier Reads and atomics of this queue */
	WEFT_SOLICITED = 1 << 2,
	WEFT_INLINE = 1 << 3, /* elements are pointers of this process, copied now; tags ignored */
	/*
	 * Of a Write: its success may be told some 200 us later, together with that of others. In
	 * RoCE that saves acknowledgements where requests follow each other soon.
	 */
	WEFT_UNHURRIED = 1 << 4
};

struct weft_register {
	/*
	 * In the domain's own space. The page list is borrowed until the request has ended: signal
	 * it, or a later request of the queue, to know when.
	 */
	struct weft_region_options region;
	/*
	 * In: a reserved tag, or 0 for a new one. Out: the region's tag. When the request fails or
	 * is flushed the tag stays reserved, for another try or for weft_tag_release() (unless a
	 * window was bound to the region before its message failed: then the region stays).
	 */
	uint32_t tag;
	uint64_t reserved[2]; /* zero */
};

struct weft_send_wr {
	uint64_t id;
	enum weft_opcode opcode;
	uint32_t flags;
	const struct weft_sge *sges; /* Send, Write: source. Read, atomics: destination. */
	uint32_t sge_count;
	uint32_t imm;		 /* SEND_IMM, WRITE_IMM */
	uint32_t invalidate_tag; /* SEND_INVALIDATE, INVALIDATE */
	uint32_t remote_tag;	 /* Write, Read, atomics */
	uint64_t remote_addr;
	uint32_t dest_qp_number; /* RD, UD; XRC: the shared receive queue */
	struct weft_ee *ee;	 /* RD on a network: the way to the destination's node (roce.h) */
	uint64_t compare_add;	 /* COMPARE_SWAP: expected value; FETCH_ADD: addend */
	uint64_t swap;
	uint64_t delay_ns; /* DELAY */
	struct weft_bind bind;
	struct weft_register reg;
	/*
	 * UD, RD: where to, and the key that the destination wants; with the top bit set, the
	 * queue pair's own is sent (IBA 10.2.5).
	 */
	const struct weft_ah *ah;
	uint32_t remote_q_key;
	struct weft_iscsi_pdu *iscsi; /* ISCSI_COMMAND, ISCSI_CONTROL */
	uint64_t reserved[3];	      /* zero */
};

struct weft_recv_wr {
	uint64_t id;
	const struct weft_sge *sges;
	uint32_t sge_count;
	uint64_t reserved[2]; /* zero */
};

/*
 * Posts count requests in order. At the first bad one it stops and returns the reason: *posted (may
 * be NULL, and is left alone if the other arguments are) says how many were accepted before it.
 * bind.tag and reg.tag of accepted requests are written at once and may be named by later requests
 * of the same queue (SQR-02, SQR-03).
 *
 * The memory of a request must stay as it is until the request has completed (SEND-14). On RC and
 * RD over RoCE a Send or Write completes when the peer has acknowledged it: it has arrived. Over
 * iWARP it completes when TCP has taken its last byte (RFC 5040 section 5.5): the memory is free,
 * as TCP has a copy and sends that again, but nothing says yet that it has arrived; an answer of
 * the peer does, and so does a Read that was posted behind it. On UC and UD it completes when it
 * has left.
 */
enum weft_reason weft_qp_post_send(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count,
				   uint32_t *posted);
enum weft_reason weft_qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs,
				   uint32_t count, uint32_t *posted);

/* Posts all of the requests or, if one is bad, none, and leaves them as they were. */
enum weft_reason weft_qp_post_send_all(struct weft_qp *qp, struct weft_send_wr *wrs,
				       uint32_t count);

/* ---- Captures ------------------------------------------------------------------------------ */

/*
 * Captures every iWARP connection of the adapter that begins from now on, and every packet of RoCE,
 * to a file that Wireshark reads (pcapng); `%p` in the path is the process id. Needs no privilege.
 * Adapters that name the same path share the file; an iWARP connection of which both ends are
 * captured to it is there once, as the first sees it. WEFT_R_BUSY: the adapter is captured already,
 * by an earlier call or because WEFT_PCAP in the environment asked for it, or another process is
 * writing that file; WEFT_R_SYSTEM: it cannot be made.
 */
enum weft_reason weft_capture_start(struct weft_adapter *adapter, const char *path);

/*
 * Ends it. WEFT_R_BAD_ARGUMENT: there was none; WEFT_R_SYSTEM: it has ended before, as the file
 * could not be written any more.
 */
enum weft_reason weft_capture_stop(struct weft_adapter *adapter);

/* ---- Shared receive queues ----------------------------------------------------------------- */

struct weft_srq_options {
	uint32_t recv_max; /* default 64 */
	uint32_t sges_max; /* default 4 */
	void *context;
	/* XRC: for peers of which queue pairs; its completions go to a queue of its own. */
	uint32_t xrc_domain; /* 0: it is for queue pairs that were made with it */
	struct weft_cq *xrc_cq;
	uint64_t reserved[4]; /* zero */
};

enum weft_reason weft_srq_create(struct weft_pd *pd, const struct weft_srq_options *options,
				 struct weft_srq **srq);
uint32_t weft_srq_number(const struct weft_srq *srq);

/* Receives that are still posted vanish without a completion: they belong to no queue pair. */
enum weft_reason weft_srq_destroy(struct weft_srq *srq);
enum weft_reason weft_srq_post_recv(struct weft_srq *srq, const struct weft_recv_wr *wrs,
				    uint32_t count, uint32_t *posted);

/* One WEFT_EVENT_SRQ_LIMIT when fewer than limit receives are left; 0 disarms. */
enum weft_reason weft_srq_arm(struct weft_srq *srq, uint32_t limit);

/* ---- Events -------------------------------------------------------------------------------- */

enum weft_event_kind {
	WEFT_EVENT_COMPLETION = 0, /* an armed completion queue got what it waited for */
	WEFT_EVENT_CQ_OVERRUN,	   /* a completion was lost; its queue pair goes to Error */
	WEFT_EVENT_CONNECTED,	   /* QP: it is connected and operational */
	WEFT_EVENT_CONNECT_FAILED, /* QP: it could not be connected */
	WEFT_EVENT_QP_ERROR,	   /* the queue pair went to Error or SQE */
	WEFT_EVENT_QP_REFUSED,	   /* a peer's access through this queue pair was refused */
	WEFT_EVENT_QP_DRAINED,	   /* SQD was asked for and has been reached */
	WEFT_EVENT_SRQ_LIMIT,
	WEFT_EVENT_FAULT,   /* QP: its latest access to a page that is away (RKEY-08d), at addr */
	WEFT_EVENT_REQUEST, /* listener: requests wait in weft_listener_next() */
	WEFT_EVENT_ESTABLISHED, /* QP, in RTR: the peer has sent something */
	WEFT_EVENT_CM,		/* cm_id: there is news in weft_cm_id_next() */
	WEFT_EVENT_EE_FAILED,	/* end-to-end context: its peer does not answer; it is over */
	WEFT_EVENT_PORT,	/* port of a fabric: it has changed, see weft_port_watch() */
	/* QP: it has taken its alternate path; the peer has taken another than that. */
	WEFT_EVENT_PATH_MIGRATED,
	WEFT_EVENT_PATH_REFUSED,
	WEFT_EVENT_COUNT
};

struct weft_event {
	enum weft_event_kind kind;
	enum weft_reason reason;
	uint32_t number; /* of the queue, of the queue pair, or of the port */
	/*
	 * QP_ERROR, an enum weft_qp_state: WEFT_QPS_ERROR, or WEFT_QPS_SQE, where receiving goes
	 * on. PORT: what has changed, of enum weft_port_news.
	 */
	uint32_t state;
	uint64_t addr;
	void *context;	      /* given when the object was created */
	uint64_t reserved[2]; /* zero */
};

/*
 * Makes progress and takes an event. Waits up to timeout_ns for one (0: not at all); *has_event
 * says whether there was one. Objects take turns, the longest waiting first; events of one object
 * come in the order of the enum, not of time. An event that is raised again before it was taken is
 * one event, with the first reason and the latest address. Events of an object vanish with it.
 */
enum weft_reason weft_event_next(struct weft_adapter *adapter, uint64_t timeout_ns,
				 struct weft_event *event, bool *has_event);

/* Takes an event that waits already, and reads no socket. */
enum weft_reason weft_event_take(struct weft_adapter *adapter, struct weft_event *event,
				 bool *has_event);

/*
 * For a program with an event loop of its own: a descriptor that poll() and its like find readable
 * while events wait in weft_event_next(). Arm a completion queue, and its completions are such an
 * event. It stays the adapter's: a program neither reads nor closes it. WEFT_R_BUSY: on_event takes
 * the events.
 */
enum weft_reason weft_adapter_fd(struct weft_adapter *adapter, int *fd);

/*
 * For a thread that serves one completion queue and little else: sleeps until the queue holds a
 * completion, an event waits in weft_event_next(), fd (-1: none) is readable, which *is_fd_ready
 * says (or NULL), or timeout_ns are over. Meanwhile it reads the sockets in place of weft's own
 * thread, so that what arrives wakes one thread and not two.
 */
enum weft_reason weft_cq_wait(struct weft_cq *cq, int fd, uint64_t timeout_ns, bool *is_fd_ready);

/*
 * With is_driven the program promises to poll, or to sleep in weft_cq_wait(), all the time: weft's
 * own thread rests, and an acknowledgement of what completed may go with what the program posts
 * next, at the latest before it sleeps. Without it, as at first, the thread steps in where the
 * program does neither.
 */
enum weft_reason weft_adapter_drive(struct weft_adapter *adapter, bool is_driven);

/*
 * With is_served weft's own thread reads the sockets all the time, and keeps a processor busy with
 * it; no other thread does any of the adapter's work. Posting and polling then make no system call
 * on any transport (QP-16). WEFT_R_BUSY: a thread of the program drives the adapter, by the calls
 * above; they are refused with it while weft's thread serves.
 */
enum weft_reason weft_adapter_serve(struct weft_adapter *adapter, bool is_served);

const char *weft_event_name(enum weft_event_kind kind);

#ifdef __cplusplus
}
#endif
