/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects of verbs programs: each is the public struct, which comes first, and what is behind
 * it. Numbers, states and rights are the engine's; here they are only translated.
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

/* A line in the log, for who asked for one by WEFT_LOG: why something was refused. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* The same for what nobody could guess and no program tells: said unless WEFT_LOG is off. */
__attribute__((format(printf, 1, 2))) void say_anyway(const char *format, ...);

/* ---- Descriptors that tell of events -------------------------------------------------------- */

/* The lock is taken while the engine's is held, never the other way round. */
struct teller {
	pthread_mutex_t lock; /* guards the bell and everything in it */
	struct bell bell;
};

/* 0 or errno. */
int teller_init(struct teller *t);
void teller_fini(struct teller *t);

/*
 * Takes the first event; waits for one, unless the program made the descriptor non-blocking. 0, and
 * the lock is held, or errno.
 */
int teller_take(struct teller *t, struct list **link);

/* ---- Devices -------------------------------------------------------------------------------- */

enum device_kind { DEVICE_ROCE = 0, DEVICE_IWARP, DEVICE_KINDS };

struct device {
	struct ibv_device ibv;
	const void *ops; /* where other providers look for their own: not theirs */
	struct list link;
	enum device_kind kind;
	char interface[IF_NAMESIZE];
	/* Written when devices are looked for, while others may ask. */
	_Atomic uint32_t index; /* of the interface */
	_Atomic uint64_t guid;	/* as on the wire */
	/* The list's lock guards these. */
	uint8_t mac[6];
	bool is_present;
	struct context *shared;	 /* librdmacm's, or NULL */
	struct context *parents; /* the same, of the process that forked this one */
};

static inline struct device *device_of(struct ibv_device *d)
{
	return CONTAINER_OF(d, struct device, ibv);
}

/* Two devices have one interface. In every process they have the same index. */
static inline uint32_t device_index(const struct device *d)
{
	return 2 * d->index - (d->kind == DEVICE_ROCE);
}

static inline bool is_roce(const struct ibv_context *context)
{
	return CONTAINER_OF(context->device, struct device, ibv)->kind == DEVICE_ROCE;
}

/* Whether it is one of these. */
bool device_is_ours(const struct ibv_device *device);

/* One that is there now, or NULL. */
const struct device *device_named(const char *name, size_t length);

/* Whether one has a file of that name in /dev: uverbs0. */
bool device_is_known_as(const char *dev_name);

/* The list of devices. */
void device_list_lock(void);
void device_list_put(void);

/* In the child of a fork, while it is locked: contexts are the parent's. */
void devices_forked(void);

/* ---- What can be imported -------------------------------------------------------------------- */

enum offer_kind { OFFER_CONTEXT, OFFER_PD, OFFER_MR, OFFER_DM };

/*
 * An object that other contexts of this process may import, who know the descriptor of its context
 * and its handle. import.c guards it.
 */
struct offer {
	struct list link; /* unlinked: it is not offered */
	enum offer_kind kind;
	uint64_t context; /* number */
	uint32_t handle;
};

void offer_make(struct offer *offer, enum offer_kind kind, struct ibv_context *context,
		uint32_t handle);
void offer_withdraw(struct offer *offer);

/* Before it is destroyed: withdrawn, if it has so many users at most. False: it has more. */
bool offer_end(struct offer *offer, const atomic_uint *users, unsigned int most);

/* A handle that no other has, for objects without a number. */
uint32_t offer_handle(void);

/* The list of all; in the child of a fork, while it is locked: they are the parent's. */
void offers_lock(void);
void offers_unlock(void);
void offers_forked(void);

/* ---- Contexts ------------------------------------------------------------------------------- */

struct context {
	struct verbs_context verbs; /* which ends with the struct ibv_context */
	struct teller async;	    /* of struct async_record */
	struct offer offer;
	uint64_t number;   /* its own, or that of the one it was imported from */
	atomic_uint users; /* the program, until it closes it, and what tells of events */
	bool is_shared;	   /* librdmacm's: it stays open */
	struct weft_adapter *adapter; /* the parent's, after a fork */
};

static inline struct context *context_of(struct ibv_context *c)
{
	return CONTAINER_OF(c, struct context, verbs.context);
}

struct context *context_open(struct device *device);

/* For an object that uses it as long as it lives: programs may close it first. */
void context_get(struct ibv_context *context);
void context_put(struct ibv_context *context);

/* An asynchronous event that an object can have; at most one of a kind is under way. */
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
	struct pd *parent; /* of a parent domain or an import: the one it stands for */
	bool is_import;	   /* then it has one user more, until it is unimported */
	struct td *td;	   /* of a parent domain, or NULL */
	/* Of a parent domain whose program brings the memory of its queues; or NULL. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *memory, uint64_t resource_type);
	void *pd_context;
	atomic_uint users; /* what was made with it, parent domains too */
};

static inline struct pd *pd_of(struct ibv_pd *p)
{
	return CONTAINER_OF(p, struct pd, ibv);
}

/* For an object that was made with it, as long as that lives. */
static inline void pd_get(struct ibv_pd *p)
{
	atomic_fetch_add(&pd_of(p)->users, 1);
}

void pd_put(struct ibv_pd *p);

/* What memory is for: the resource types that the program is told. */
enum pd_resource { PD_CQ = 1, PD_SRQ, PD_QP, PD_SEND_QUEUE };

/* Memory of an object, or of a part of it: the program's own, perhaps. */
struct pd_memory {
	void *bytes; /* zeros at first, aligned for anything; NULL: none */
	bool is_programs;
};

/* Of a domain, or NULL for none. False: there is no memory. */
bool pd_memory_take(struct ibv_pd *pd, size_t size, enum pd_resource what, struct pd_memory *m);
void pd_memory_give(struct ibv_pd *pd, enum pd_resource what, const struct pd_memory *m);

/* The domain itself, behind a parent domain. */
static inline struct pd *pd_real(struct ibv_pd *p)
{
	struct pd *pd = pd_of(p);

	return pd->parent ? pd->parent : pd;
}

struct mr {
	struct ibv_mr ibv;
	struct offer offer;
	struct weft_pd *weft_pd;
	/* As it was registered. */
	void *memory;
	size_t length;
	uint64_t iova;
	unsigned int access;
	atomic_uint *device_memory; /* whose user it is, or NULL */
	bool is_null;
};

/* Of device memory that can be allocated at a time. */
#define DM_BYTES_MAX ((size_t)64 << 20)

struct dm {
	struct ibv_dm ibv;
	struct offer offer;
	struct dm *owner; /* of one that was imported: whose memory it is; else NULL */
	uint8_t *memory;
	size_t length;
	atomic_uint users; /* regions, imports */
};

struct mw {
	struct ibv_mw ibv;
	struct weft_pd *weft_pd;
	uint32_t tag; /* the first that it had: programs may write to the key */
};

/* NULL and errno. */
struct ibv_pd *pd_open(struct ibv_context *context, const struct weft_pd_options *options);

/* Another that stands for it, in this context or another one. NULL and errno. */
struct pd *pd_stand_for(struct ibv_context *context, struct pd *real);

/* A registration of ordinary memory, as ibv_reg_mr() is given it. 0 or errno. */
int region_options(void *addr, size_t length, uint64_t iova, unsigned int access,
		   struct weft_region_options *o);

/* Rights of the engine for access flags of verbs. 0, or EOPNOTSUPP: flags that it does not have. */
int rights_of(unsigned int access, uint32_t *rights);

/* The same of a queue pair, where only a peer's count. */
uint32_t qp_rights_of(unsigned int access);

/* ---- Queues --------------------------------------------------------------------------------- */

struct channel {
	struct ibv_comp_channel ibv;
	struct teller teller; /* of struct cq */
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
	/* The channel's lock guards these. */
	struct list waiting_link;
	uint32_t events_waiting, events_taken;
	bool is_going; /* it tells the channel no more */
	struct async_record overrun;
	uint32_t async_taken;	    /* its own mutex guards this, as in the others */
	atomic_bool is_loss_untold; /* an overrun, which the next poll says */
	/* Whoever polls with the iterators has them, from start_poll to end_poll. */
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
	uint32_t number; /* the same for all who opened it with the same file */
	bool has_file;
	dev_t device;
	ino_t inode;
	/* Of its queue pairs that only receive. */
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
	uint32_t max, segments_max;
	_Atomic uint32_t limit;
	struct async_record events[SRQ_EVENTS];
	uint32_t events_taken;
};

static inline struct srq *srq_of(struct ibv_srq *s)
{
	return CONTAINER_OF(s, struct srq, ibv);
}

/* Of a queue pair: Reads and atomics in flight either way; requests in a queue. */
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
	struct list link; /* in the list of all */
	struct weftv_sink sink;
	struct weft_qp *weft;
	struct pd_memory memory; /* its own */
	struct xrcd *xrcd;	 /* of one of XRC that receives, or NULL */
	struct weftv_sink *_Atomic connection_sink;
	struct ibv_qp_cap cap;
	int sq_sig_all;
	uint8_t timeout; /* of InfiniBand's acknowledgements: kept for who asks */
	unsigned int access;
	_Atomic uint32_t named; /* the number that it wants to be connected with, 0: none */
	/* Of RoCE. The lock guards what was set; it is taken before the engine's. */
	pthread_mutex_t attr_lock;
	struct ibv_qp_attr attr;
	struct list groups;		       /* that it was attached to */
	uint32_t rdd;			       /* of a reliable datagram's */
	atomic_bool is_drained, wants_drained; /* since SQD was asked for; the event of it */
	struct wr_batch *batch;
	struct async_record events[QP_EVENTS];
	uint32_t events_taken;
};

static inline struct qp *qp_of(struct ibv_qp *q)
{
	return CONTAINER_OF(q, struct qp, ibv);
}

/* Verbs have no type for reliable datagrams; this one is for what they have no word for. */
static inline bool type_is_rd(enum ibv_qp_type type)
{
	return type == IBV_QPT_DRIVER;
}

/* One of reliable datagrams, in a domain. NULL and errno. */
struct ibv_qp *qp_create_rd(struct ibv_qp_init_attr_ex *attr, uint32_t rdd);

/* group.c: a queue pair that can receive from now on does so in its groups. attr_lock is held. */
int groups_join(struct qp *qp);
void groups_free(struct qp *qp);

/* The list of all. */
void qps_lock(void);
void qps_unlock(void);

/* In the child of a fork, while it is locked: they are the parent's, and numbers come again. */
void qps_forked(void);

/* ---- States ---------------------------------------------------------------------------------- */

enum ibv_qp_state qp_state_of(enum weft_qp_state state);
int qp_to_weft_state(enum ibv_qp_state state, enum weft_qp_state *weft);

/* Verbs say nothing of what a reset found queued. */
void qp_forget_completions(struct qp *qp);

/* qp_roce.c: queue pairs whose states the program moves, as InfiniBand has it. 0 or errno. */
void qp_roce_init(struct qp *qp);
int qp_roce_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);
void qp_roce_query(struct qp *qp, struct ibv_qp_attr *attr);
int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/*
 * qp_moves.c: whether the attributes are those that a move takes. 0 or EINVAL; then the log says
 * why. Another mask for what is missing, and what it must not have.
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

/* The way that an address vector describes. 0, or EINVAL; then the log says why. */
int path_of(struct ibv_context *context, const struct ibv_ah_attr *attr, struct weft_path *path);

/* Which of the port's GIDs it is. 0 or errno: ENODATA: none. */
int gid_find(struct ibv_context *context, const union ibv_gid *gid, uint8_t *index);

/* ---- Asynchronous events -------------------------------------------------------------------- */

/* Raises one; nothing if it is under way already. Called with the engine locked. */
void async_raise(struct context *c, struct async_record *record);

/* The program took one of the object's events, and did not acknowledge it yet. */
bool async_is_taken(const struct async_record *record);

/* The object goes: events that wait vanish, and it waits until those taken are acknowledged. */
void async_settle(struct context *c, struct async_record *records, uint32_t count);

/* ---- Translation ---------------------------------------------------------------------------- */

/* Of a completion that a context's queue has. */
enum ibv_wc_status wc_status_of(const struct ibv_context *context, const struct weft_completion *c);
enum ibv_wc_opcode wc_opcode_of(enum weft_opcode opcode);

unsigned int wc_flags_of(const struct weft_completion *c);
uint8_t wc_sl_of(const struct weft_completion *c);

/* NULL, with errno for the reason. */
void *refused(enum weft_reason reason);

/* The program says how large its struct is: an older one is shorter, a newer one ends in zeros. */
void fill(void *to, size_t bytes, const void *from, size_t known);

/* enum ibv_device_cap_flags. */
unsigned int device_capabilities(const struct device *d);

/* What a device's port says now. 0 or errno. */
int port_tell(const struct device *d, struct ibv_port_attr *attr);
enum ibv_mtu port_mtu(const struct ibv_context *context);

/* What the slots of a context hold. */
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

/* builders.c: the ibv_wr_ calls of a queue pair that was made for them. 0 or errno. */
int builders_init(struct qp *qp, uint64_t send_ops);
void builders_fini(struct qp *qp);
