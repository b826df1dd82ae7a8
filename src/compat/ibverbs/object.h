/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects of verbs programs: each is the public struct, which comes first, followed by our own
 * fields. Numbers, states and rights belong to the engine and are only translated here.
 */
#pragma once

#include <net/if.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include <weft/roce.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/bell.h"
#include "compat/ibverbs/ibverbs.h"

/* Prints a log line if WEFT_LOG asks for it: why something was refused. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* The same, unless WEFT_LOG is off: for causes that a user could not find out otherwise. */
__attribute__((format(printf, 1, 2))) void say_anyway(const char *format, ...);

/* ---- Descriptors of event queues ------------------------------------------------------------ */

/* The lock may be taken while the engine's is held, never the other way round. */
struct teller {
	pthread_mutex_t lock; /* guards the bell and all queued events */
	struct bell bell;
};

/* 0 or errno. */
int teller_init(struct teller *t);
void teller_fini(struct teller *t);

/*
 * Takes the first event; waits for one, unless the program made the descriptor non-blocking. 0 with
 * the lock held, or errno.
 */
int teller_take(struct teller *t, struct list **link);

/* ---- Devices -------------------------------------------------------------------------------- */

enum device_kind { DEVICE_ROCE = 0, DEVICE_IWARP, DEVICE_KINDS };

struct device {
	struct ibv_device ibv;
	const void *ops; /* other providers compare it to their own: equals none of them */
	struct list link;
	enum device_kind kind;
	char interface[IF_NAMESIZE];
	/* Written by a scan for devices, while other threads may read. */
	_Atomic uint32_t index; /* of the interface */
	_Atomic uint64_t guid;	/* in network order */
	/* Guarded by device_list_lock(). */
	uint8_t mac[6];
	bool is_present;
	struct context *shared;	 /* librdmacm's, or NULL */
	struct context *parents; /* in a forked child: that of its parent */
};

static inline struct device *device_of(struct ibv_device *d)
{
	return CONTAINER_OF(d, struct device, ibv);
}

/* An interface has two devices. A device has the same index in every process. */
static inline uint32_t device_index(const struct device *d)
{
	return 2 * d->index - (d->kind == DEVICE_ROCE);
}

static inline bool is_roce(const struct ibv_context *context)
{
	return CONTAINER_OF(context->device, struct device, ibv)->kind == DEVICE_ROCE;
}

/* Whether it is a device of weft. */
bool device_is_ours(const struct ibv_device *device);

/* The present device of that name, or NULL. */
const struct device *device_named(const char *name, size_t length);

/* Whether a device has a file of that name in /dev, as uverbs0. */
bool device_is_known_as(const char *dev_name);

/* The list of devices. */
void device_list_lock(void);
void device_list_put(void);

/* In a child of fork(), with the list locked: drops the contexts, which are the parent's. */
void devices_forked(void);

/* ---- Objects that can be imported ------------------------------------------------------------ */

enum offer_kind { OFFER_CONTEXT, OFFER_PD, OFFER_MR, OFFER_DM };

/*
 * An object that another context of this process may import by the descriptor of its context and
 * its handle. Guarded by the lock of import.c.
 */
struct offer {
	struct list link; /* unlinked: not offered */
	enum offer_kind kind;
	uint64_t context; /* number */
	uint32_t handle;
};

void offer_make(struct offer *offer, enum offer_kind kind, struct ibv_context *context,
		uint32_t handle);
void offer_withdraw(struct offer *offer);

/* Before the object is destroyed: withdraws it if it has at most so many users; else false. */
bool offer_end(struct offer *offer, const atomic_uint *users, unsigned int most);

/* A unique handle, for objects without a number. */
uint32_t offer_handle(void);

/* Lock the list of all offers; in a child of fork(), with it locked: drops the parent's offers. */
void offers_lock(void);
void offers_unlock(void);
void offers_forked(void);

/* ---- Contexts ------------------------------------------------------------------------------- */

struct context {
	struct verbs_context verbs; /* its last member is the struct ibv_context */
	struct teller async;	    /* queues struct async_record */
	struct offer offer;
	uint64_t number;   /* its own, or of the context that it was imported from */
	atomic_uint users; /* the program, until it closes it, and objects that raise events */
	bool is_shared;	   /* librdmacm's: never closed */
	struct weft_adapter *adapter; /* in a child of fork() still the parent's */
};

static inline struct context *context_of(struct ibv_context *c)
{
	return CONTAINER_OF(c, struct context, verbs.context);
}

struct context *context_open(struct device *device);

/* A reference for an object that uses the context: programs may close the context first. */
void context_get(struct ibv_context *context);
void context_put(struct ibv_context *context);

/* An asynchronous event of an object; at most one of a kind is queued or unacknowledged. */
struct async_record {
	struct list link;
	struct ibv_async_event event;
};

/* ---- Protection domains, memory ------------------------------------------------------------- */

struct td {
	struct ibv_td ibv;
	atomic_uint users; /* parent domains */
};

struct pd {
	struct ibv_pd ibv;
	struct offer offer;
	struct weft_pd *weft;
	struct pd *parent; /* of a parent domain or an import: the domain it stands for */
	bool is_import;	   /* counts as a user of the parent until it is unimported */
	struct td *td;	   /* of a parent domain, or NULL */
	/* Of a parent domain: the program's allocator for the memory of queues; or NULL. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *memory, uint64_t resource_type);
	void *pd_context;
	atomic_uint users; /* objects made with it, including parent domains */
};

static inline struct pd *pd_of(struct ibv_pd *p)
{
	return CONTAINER_OF(p, struct pd, ibv);
}

/* A reference for an object that was made with the domain. */
static inline void pd_get(struct ibv_pd *p)
{
	atomic_fetch_add(&pd_of(p)->users, 1);
}

void pd_put(struct ibv_pd *p);

/* Resource types that the program's allocator is given. */
enum pd_resource { PD_CQ = 1, PD_SRQ, PD_QP, PD_SEND_QUEUE };

/* Memory of an object, or of a part of it. */
struct pd_memory {
	void *bytes;	  /* zeroed, aligned for any type; NULL: none */
	bool is_programs; /* from the program's allocator */
};

/* From the allocator of the domain; pd NULL: ours. False: out of memory. */
bool pd_memory_take(struct ibv_pd *pd, size_t size, enum pd_resource what, struct pd_memory *m);
void pd_memory_give(struct ibv_pd *pd, enum pd_resource what, const struct pd_memory *m);

/* The protection domain that a parent domain or an import stands for; else itself. */
static inline struct pd *pd_real(struct ibv_pd *p)
{
	struct pd *pd = pd_of(p);

	return pd->parent ? pd->parent : pd;
}

struct mr {
	struct ibv_mr ibv;
	struct offer offer;
	struct weft_pd *weft_pd;
	/* As registered. */
	void *memory;
	size_t length;
	uint64_t iova;
	unsigned int access;
	atomic_uint *device_memory; /* the user count of its device memory, or NULL */
	bool is_null;
};

/* Device memory that can be allocated in one piece. */
#define DM_BYTES_MAX ((size_t)64 << 20)

struct dm {
	struct ibv_dm ibv;
	struct offer offer;
	struct dm *owner; /* of an import: the device memory it stands for; else NULL */
	uint8_t *memory;
	size_t length;
	atomic_uint users; /* regions, imports */
};

struct mw {
	struct ibv_mw ibv;
	struct weft_pd *weft_pd;
	uint32_t tag; /* the first one: programs may overwrite the rkey */
};

/* NULL and errno. */
struct ibv_pd *pd_open(struct ibv_context *context, const struct weft_pd_options *options);

/* A domain that stands for `real`, in this context or another one. NULL and errno. */
struct pd *pd_stand_for(struct ibv_context *context, struct pd *real);

/* Options to register ordinary memory, from the arguments of ibv_reg_mr(). 0 or errno. */
int region_options(void *addr, size_t length, uint64_t iova, unsigned int access,
		   struct weft_region_options *o);

/* The engine's rights for verbs access flags. 0, or EOPNOTSUPP: flags that it does not support. */
int rights_of(unsigned int access, uint32_t *rights);

/* The same for a queue pair, where only remote rights count. */
uint32_t qp_rights_of(unsigned int access);

/* ---- Queues --------------------------------------------------------------------------------- */

struct channel {
	struct ibv_comp_channel ibv;
	struct teller teller; /* queues struct cq */
};

struct cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex; /* begins with the same fields */
	};
	struct weftv_sink sink;
	struct weft_cq *weft;
	struct ibv_pd *parent_domain; /* or NULL */
	struct pd_memory memory;      /* its own */
	atomic_uint users;	      /* queue pairs */
	/* Guarded by the channel's lock. */
	struct list waiting_link;
	uint32_t events_waiting, events_taken;
	bool is_going; /* being destroyed: queues no more events */
	struct async_record overrun;
	uint32_t async_taken;	    /* guarded by ibv.mutex, as in the other objects */
	atomic_bool is_loss_untold; /* an overrun that the next poll reports */
	/* Owned by the thread that polls with the iterators, from start_poll to end_poll. */
	struct weft_completion current;
};

static inline struct cq *cq_of(struct ibv_cq *c)
{
	return CONTAINER_OF(c, struct cq, ibv);
}

/* NULL and errno. */
struct cq *cq_open(struct ibv_context *context, struct ibv_pd *parent_domain, int cqe,
		   void *cq_context, struct ibv_comp_channel *channel);

/* ---- XRC domains ---------------------------------------------------------------------------- */

struct xrcd {
	struct ibv_xrcd ibv;
	struct list link;
	uint32_t number; /* the same for all that were opened with the same file */
	bool has_file;
	dev_t device;
	ino_t inode;
	/* For its queue pairs that only receive. */
	struct weft_pd *weft_pd;
	struct weft_cq *weft_cq;
	atomic_uint users; /* queue pairs, shared receive queues */
};

static inline struct xrcd *xrcd_of(struct ibv_xrcd *x)
{
	return CONTAINER_OF(x, struct xrcd, ibv);
}

enum srq_events { SRQ_LIMIT_REACHED, SRQ_EVENTS };

struct srq {
	struct ibv_srq ibv;
	struct weftv_sink sink;
	struct weft_srq *weft;
	struct pd_memory memory; /* its own */
	atomic_uint users;	 /* queue pairs */
	struct xrcd *xrcd;	 /* of XRC, with cq; or NULL */
	struct cq *cq;
	uint32_t max, sges_max;
	_Atomic uint32_t limit;
	struct async_record events[SRQ_EVENTS];
	uint32_t events_taken;
};

static inline struct srq *srq_of(struct ibv_srq *s)
{
	return CONTAINER_OF(s, struct srq, ibv);
}

/* Limits of a queue pair: Reads and atomics in flight each way; requests in a queue. */
enum { READS_MAX = 128, QUEUE_MAX = 1 << 16 };

enum qp_events {
	QP_FATAL,
	QP_ACCESS,
	QP_REQUEST,
	QP_ESTABLISHED,
	QP_DRAINED,
	QP_LAST_WQE,
	QP_EVENTS
};

struct wr_batch;

struct qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex; /* begins with it */
	};
	struct list link; /* of all queue pairs */
	struct weftv_sink sink;
	struct weft_qp *weft;
	struct pd_memory memory; /* its own */
	struct xrcd *xrcd;	 /* of an XRC receive queue pair, or NULL */
	struct weftv_sink *_Atomic connection_sink;
	struct ibv_qp_cap cap;
	int sq_sig_all;
	uint8_t timeout; /* local ACK timeout: only stored, for ibv_query_qp() */
	unsigned int access;
	_Atomic uint32_t named; /* the queue pair number that it wants to connect to, 0: none */
	/* RoCE. The lock guards the attributes; it is taken before the engine's. */
	pthread_mutex_t attr_lock;
	struct ibv_qp_attr attr;
	struct list groups;		       /* that it is attached to */
	uint32_t rdd;			       /* of a reliable datagram queue pair */
	atomic_bool is_drained, wants_drained; /* since SQD was requested; event requested */
	struct wr_batch *batch;
	struct async_record events[QP_EVENTS];
	uint32_t events_taken;
};

static inline struct qp *qp_of(struct ibv_qp *q)
{
	return CONTAINER_OF(q, struct qp, ibv);
}

/* Verbs have no type for reliable datagrams: weft uses the one for driver-specific types. */
static inline bool type_is_rd(enum ibv_qp_type type)
{
	return type == IBV_QPT_DRIVER;
}

/* A reliable datagram queue pair, in an RD domain. NULL and errno. */
struct ibv_qp *qp_create_rd(struct ibv_qp_init_attr_ex *attr, uint32_t rdd);

/* group.c: joins its groups for a queue pair that becomes able to receive. attr_lock is held. */
int groups_join(struct qp *qp);
void groups_free(struct qp *qp);

/* Lock the list of all queue pairs. */
void qps_lock(void);
void qps_unlock(void);

/* In a child of fork(), with it locked: drops the parent's queue pairs, whose numbers recur. */
void qps_forked(void);

/* ---- States ---------------------------------------------------------------------------------- */

enum ibv_qp_state qp_state_of(enum weft_qp_state state);
int qp_to_weft_state(enum ibv_qp_state state, enum weft_qp_state *weft);

/* Removes the flushed completions of a reset: verbs report none. */
void qp_forget_completions(struct qp *qp);

/* qp_roce.c: queue pairs whose state the program modifies, as in InfiniBand. 0 or errno. */
void qp_roce_init(struct qp *qp);
int qp_roce_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
void qp_roce_query(struct qp *qp, struct ibv_qp_attr *attr);
int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/*
 * qp_moves.c: whether a state transition may have these attributes. 0 or EINVAL; then the log says
 * which attributes are missing, and which are not allowed.
 */
int qp_move_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask);

/* ---- Address handles, groups ----------------------------------------------------------------- */

enum { HANDLES_MAX = 1 << 14, GROUPS_MAX = 256 };

struct ah {
	struct ibv_ah ibv;
	struct weft_ah *weft;
};

static inline struct ah *ah_of(struct ibv_ah *a)
{
	return CONTAINER_OF(a, struct ah, ibv);
}

/* The path of an address vector. 0, or EINVAL; then the log says why. */
int path_of(struct ibv_context *context, const struct ibv_ah_attr *attr, struct weft_path *path);

/* The index of a GID in the port's table. 0 or errno: ENODATA: not found. */
int gid_find(struct ibv_context *context, const union ibv_gid *gid, uint8_t *index);

/* ---- Asynchronous events -------------------------------------------------------------------- */

/* Raises an event, unless it is pending already. Called with the engine locked. */
void async_raise(struct context *c, struct async_record *record);

/* Whether the program took one of the object's events, and has not acknowledged it yet. */
bool async_is_taken(const struct async_record *record);

/* Before the object is destroyed: removes its queued events, waits for taken ones to be acked. */
void async_settle(struct context *c, struct async_record *records, uint32_t count);

/* ---- Translation ---------------------------------------------------------------------------- */

/* Verbs status and opcode of a completion. */
enum ibv_wc_status wc_status_of(const struct ibv_context *context, const struct weft_completion *c);
enum ibv_wc_opcode wc_opcode_of(enum weft_opcode opcode);

unsigned int wc_flags_of(const struct weft_completion *c);
uint8_t wc_sl_of(const struct weft_completion *c);

/* Returns NULL, and sets errno for the reason. */
void *refused(enum weft_reason reason);

/* Fills a struct whose size the program gives: shorter if older, zero-filled beyond if newer. */
void fill(void *to, size_t bytes, const void *from, size_t known);

/* enum ibv_device_cap_flags. */
unsigned int device_capabilities(const struct device *d);

/* The present attributes of a device's port. 0 or errno. */
int port_tell(const struct device *d, struct ibv_port_attr *attr);
enum ibv_mtu port_mtu(const struct ibv_context *context);

/* Functions in the table of a context. */
int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	       size_t attr_bytes);
int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int close_xrcd(struct ibv_xrcd *xrcd);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int is_solicited_only);
struct ibv_mr *alloc_null_mr(struct ibv_pd *pd);
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      struct ibv_sge *list, uint32_t count);
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int dealloc_mw(struct ibv_mw *mw);
struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int dealloc_td(struct ibv_td *td);
struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr);
struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int free_dm(struct ibv_dm *dm);
struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			 unsigned int access);

/* builders.c: the ibv_wr_ calls of a queue pair created with send_ops. 0 or errno. */
int builders_init(struct qp *qp, uint64_t send_ops);
void builders_fini(struct qp *qp);
