/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The drop-in librdmacm: ids, event channels and the calls of rdma_cma.h, translated to weft's
 * connections. It decides nothing that weft decides. Inside this room a call returns 0 or a
 * negative errno; cm_result() makes of it what programs expect.
 *
 * Locks, in the order in which they are taken:
 *   id->calls        one call on an id's connection or queues at a time
 *   listener drain   one reader of a listener's requests at a time
 *   (the engine's)
 *   cm_lock()        channels, notes and states of the whole process. Never held while weft or a
 *                    verb is called, and the only one that is taken where the engine is locked.
 */
#pragma once

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <weft/weft.h>

#include "base/list.h"
#include "compat/bell.h"
#include "compat/ibverbs/ibverbs.h"

enum { PRIVATE_MAX = UINT8_MAX, PORT = 1 };

/* ---- States --------------------------------------------------------------------------------- */

enum id_state {
	ID_IDLE = 0,	 /* made, and no more */
	ID_BOUND,	 /* it has a source address */
	ID_ADDRESS,	 /* it knows its destination, and its device */
	ID_ROUTE,	 /* it may connect */
	ID_CONNECTING,	 /* the queue pair dials */
	ID_LISTENING,	 /* requests come */
	ID_REQUESTED,	 /* it is a request, to be answered */
	ID_ACCEPTING,	 /* the answer was yes, and is on its way */
	ID_ESTABLISHED,	 /* connected */
	ID_DISCONNECTED, /* it was */
	ID_FAILED,	 /* it did not become so */
	ID_REJECTED,	 /* the answer was no */
	ID_STATE_COUNT
};

const char *id_state_name(enum id_state state);

/* Whether there is such a move. */
bool id_state_may(enum id_state from, enum id_state to);

/* ---- Events --------------------------------------------------------------------------------- */

/* What an id may have to tell, each at most once at a time. */
enum note_kind {
	NOTE_ADDRESS = 0,
	NOTE_ROUTE,
	NOTE_CONNECT,	 /* how connecting went */
	NOTE_END,	 /* of the connection */
	NOTE_LOOK,	 /* a listener: there may be requests */
	NOTE_OF_ID,	 /* number of those above, which are part of the id */
	NOTE_ARRIVAL = 8 /* a request was taken from the listener: a note of its own for each */
};

struct note {
	struct list link; /* in the channel; unlinked: nothing to tell */
	struct id *id;
	enum note_kind kind;
	enum rdma_cm_event_type event;
	int status;
	struct weft_request *request; /* of an arrival */
};

/* cm_lock() guards all of it but the public part, which does not change. */
struct channel {
	struct rdma_event_channel rdma; /* first: it is what programs have */
	struct list all_link;		/* of those that there are */
	struct bell notes;
	struct list ids;
};

/* ---- Ids ------------------------------------------------------------------------------------ */

/* The device of an id, shared by all of them. It stays. */
struct home {
	struct list link;
	struct ibv_context *context;
	struct ibv_pd *pd; /* the default one */
	uint8_t ird_max, ord_max;
};

/*
 * Where a queue pair tells of its connection. Programs may destroy id and queue pair in any order
 * and by either library, so this is never freed, only used again: a queue pair that tells late is
 * known by its number.
 */
struct wire {
	struct weftv_sink sink;
	struct list link; /* among those that are free */
	struct id *id;
	uint32_t number; /* of the queue pair */
	bool is_external;
};

struct id {
	struct rdma_cm_id rdma; /* first: it is what programs have */
	pthread_mutex_t calls;
	int calls_cancel;

	/* cm_lock() guards these. */
	enum id_state state;
	struct channel *channel; /* NULL: the program destroyed it */
	struct list channel_link;
	struct note notes[NOTE_OF_ID];
	uint32_t events_taken; /* by the program, and not acknowledged */
	uint32_t looks;	       /* how often a listener was told of requests */
	struct wire *wire;

	/* id->calls guards these. */
	struct home *home;
	/* Of the queue pair that connects, its own or the program's, which may be gone; 0: none. */
	uint32_t qp_number;
	struct weft_request *request;
	struct weftv_sink listener_sink;
	/* Whoever takes this cannot be cancelled already. */
	pthread_mutex_t drain;
	struct weft_listener *listener; /* under the lock above */
	int port_holder;		/* a socket that keeps the port for us, or -1 */
	bool is_active;			/* it connects, rather than accepts */
	bool is_synchronous;
	bool is_family_only, has_ack_timeout;
	uint8_t ack_timeout;
	uint8_t peer_ird, peer_ord; /* what the request brought */
	bool owns_send_cq, owns_recv_cq;
	/* rdma_create_ep(): for the queue pairs of requests. */
	bool has_qp_attr;
	struct ibv_qp_init_attr qp_attr;
	struct ibv_pd *qp_pd;
};

static inline struct id *id_of(struct rdma_cm_id *rdma)
{
	return (struct id *)(void *)rdma;
}

static inline struct channel *channel_of(struct rdma_event_channel *rdma)
{
	return (struct channel *)(void *)rdma;
}

/* Whoever has one of these locks cannot be cancelled. */
void cm_lock(void);
void cm_unlock(void);
void id_lock(struct id *id); /* id->calls */
void id_unlock(struct id *id);

/* 0, or -1 with errno. */
int cm_result(int result);

/* Of a call that failed. */
static inline int cm_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* Of a refusal by weft: 0 or a negative errno. */
static inline int cm_error(enum weft_reason reason)
{
	return -weftv_errno(reason);
}

/* ---- state.c, ids.c ------------------------------------------------------------------------- */

/* The one function that changes the state; false if there is no such move. cm_lock() is held. */
bool id_move(struct id *id, enum id_state to);

/* The same, and takes the lock. */
bool id_try(struct id *id, enum id_state to);
enum id_state id_state(struct id *id);

/* NULL: in no channel yet. */
struct id *id_create(struct channel *channel, void *context);
int id_destroy(struct id *id);

/* ---- channel.c ------------------------------------------------------------------------------ */

struct channel *channel_create(void);
void channel_destroy(struct channel *channel);

/* Adds an id that is in none. cm_lock() is held. */
void channel_add(struct channel *channel, struct id *id);

/*
 * Takes an id out with all it had to tell, and waits until the program acknowledged what it was
 * told: nobody else knows the id after this.
 */
void id_leave_channel(struct id *id);

/* To another channel, with what it has to tell; NULL: one of its own, to be synchronous. */
int id_migrate(struct id *id, struct channel *to);

/* Something to tell; nothing if the id tells that already. cm_lock() is held. */
void note_post(struct id *id, enum note_kind kind, enum rdma_cm_event_type event, int status);

/* A note that was posted is taken back. cm_lock() is held. */
void note_withdraw(struct note *note);

/* A note that is in no list. False: the id has no channel any more. cm_lock() is held. */
bool note_add(struct note *note);

/* ---- endpoint.c ----------------------------------------------------------------------------- */

/*
 * In place of id_unlock(), at the end of a call that events come of: an id that is synchronous
 * waits for its own. r is the result so far. Any other id is not touched any more: another
 * thread may have taken the event, and destroyed it.
 */
int id_unlock_await(struct id *id, int r, bool will_tell);

/* Before a call on a synchronous id: what the last one brought is gone. */
void id_forget_event(struct id *id);

/* ---- event.c -------------------------------------------------------------------------------- */

/* An event as it is with the program. */
struct taken {
	struct rdma_cm_event rdma; /* first: it is what programs have */
	struct id *counted;	   /* where it counts until it is acknowledged */
	uint8_t private_data[PRIVATE_MAX];
};

/* Makes the event of a note, which is a copy. -EAGAIN: there is none after all. */
int event_make(const struct note *note, struct taken *taken);

/* ---- address.c ------------------------------------------------------------------------------ */

/* 0 if it is no address that we know. */
socklen_t address_size(const struct sockaddr *address);
bool address_is_any(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);
in_port_t address_port(const struct sockaddr *address); /* as on the wire */
void address_set_port(struct sockaddr *address, in_port_t port);
void address_to_weft(const struct sockaddr *from, struct weft_address *to);
void address_from_weft(const struct weft_address *from, struct sockaddr_storage *to);

/* ---- device.c, resolve.c -------------------------------------------------------------------- */

/* Gives the id the device that has the address. */
int device_bind(struct id *id, const struct sockaddr *address);
int id_bind(struct id *id, const struct sockaddr *address);
void port_release(struct id *id);

/* ---- listen.c, connect.c -------------------------------------------------------------------- */

/* Makes notes of all requests that wait at the listener. */
void listener_drain(struct id *id);
void listener_close(struct id *id);

/* From now on the id hears of the queue pair. */
int wire_attach(struct id *id, struct ibv_qp *qp, bool is_external);

/* From now on it does not. */
void wire_detach(struct id *id);

/* The queue pair that it connects; NULL: there is none, or none any more. */
struct ibv_qp *id_qp(const struct id *id);

/* The id goes: so does what it connected, as the kernel does it. */
void id_hang_up(struct id *id);

/* The connection is over, if it was: tells so. */
void id_end(struct id *id);
