/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The drop-in librdmacm: ids, event channels and the calls of rdma_cma.h, translated to weft's
 * connections. It decides nothing that weft decides. Inside this room a call returns 0 or a
 * negative errno; cm_result() makes of it what programs expect.
 *
 *	connect.c  listen.c  resolve.c  queues.c   the calls, whatever the device
 *	iwarp.c  roce.c  datagram.c                what they do on it: struct transport
 *	wire.c  roce_news.c                        what weft tells
 *	roce_qp.c  group.c                         attributes of RoCE's queue pairs; multicast
 *	channel.c  event.c                         what the program is told
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
#include <weft/roce.h>

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
	ID_CONNECTING,	 /* the other end is asked */
	ID_RESPONDED,	 /* its answer was yes, and the program's own queue pair gets ready */
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
	NOTE_CONNECT,  /* how connecting went */
	NOTE_END,      /* of the connection */
	NOTE_LOOK,     /* a listener: there may be requests */
	NOTE_NEWS,     /* a cm_id: there may be news */
	NOTE_TIMEWAIT, /* the end of its time wait */
	NOTE_OF_ID,    /* number of those above, which are part of the id */
	/* Notes of their own, as there may be many. */
	NOTE_ARRIVAL, /* a request was taken from the listener */
	NOTE_GROUP    /* a group was joined, or not */
};

/* One of the two: what a stream or a datagram brought. */
struct request {
	struct weft_request *stream;
	struct weft_cm_id *cm_id;
};

/* A group that an id has joined. */
struct group {
	struct list link;
	struct sockaddr_storage address;
	void *context;
	bool is_member; /* it takes what is sent there */
};

struct note {
	struct list link; /* in the channel; unlinked: nothing to tell */
	struct id *id;
	enum note_kind kind;
	enum rdma_cm_event_type event;
	int status;
	struct request request; /* of an arrival */
	struct group group;	/* that it is about; in no list */
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
	bool is_roce;
};

/* A cm_id with the other end, on RoCE. id->calls guards it. */
struct talk {
	struct weftv_sink sink;
	struct weft_cm_id *cm_id;      /* or NULL */
	struct weft_cm_id_offer offer; /* what this end said */
	struct weft_cm_id_news heard;  /* what the other end said: request, answer, or no */
	uint32_t mtu_bytes;	       /* that was asked for */
	/* Of the queue pair; cm_lock() guards these. */
	bool is_heard;		   /* a packet has come */
	enum weft_reason qp_error; /* or WEFT_OK */
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

struct transport;
struct taken;

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
	uint32_t looks;	       /* how often it was told of requests or news */
	struct wire *wire;

	/* id->calls guards these. */
	struct home *home;
	const struct transport *transport; /* with home */
	/* Of the queue pair that connects, its own or the program's, which may be gone; 0: none. */
	uint32_t qp_number;
	struct weft_request *request;
	struct talk talk;
	struct list groups;
	struct weftv_sink listener_sink;
	/* Whoever takes this cannot be cancelled already. */
	pthread_mutex_t drain;
	/* Under the lock above. */
	struct weft_listener *listener;
	struct weft_service_point *service;
	/* What keeps the port for us: a socket of TCP or -1; a name or NULL, under cm_lock(). */
	int port_socket;
	struct port *port;
	struct list port_link;
	struct sockaddr_storage port_address;
	bool is_active; /* it connects, rather than accepts */
	bool is_synchronous;
	bool is_family_only, may_reuse, has_ack_timeout;
	uint8_t ack_timeout, tos;
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
struct id *id_create(struct channel *channel, void *context, enum rdma_port_space ps);

/* Whether it is about datagrams, not connections. */
static inline bool id_is_datagram(const struct id *id)
{
	return id->rdma.ps == RDMA_PS_UDP || id->rdma.ps == RDMA_PS_IPOIB;
}
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

void event_private_data(struct taken *taken, const void *data, uint32_t bytes);

/* Makes the event of a note, which is a copy. -EAGAIN: there is none after all. */
int event_make(const struct note *note, struct taken *taken);

/* ---- address.c ------------------------------------------------------------------------------ */

/* 0 if it is no address that we know. */
socklen_t address_size(const struct sockaddr *address);
bool address_is_any(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);
bool address_is_same(const struct sockaddr *a, const struct sockaddr *b); /* but the port */
in_port_t address_port(const struct sockaddr *address);			  /* as on the wire */
void address_set_port(struct sockaddr *address, in_port_t port);
void address_to_weft(const struct sockaddr *from, struct weft_address *to);
void address_from_weft(const struct weft_address *from, struct sockaddr_storage *to);

/* ---- device.c, resolve.c -------------------------------------------------------------------- */

/*
 * Gives the id the device that has the address: RoCE's, or where there is none iWARP's, if it is
 * about connections.
 */
int device_bind(struct id *id, const struct sockaddr *address);

/* The one of that kind. */
int device_bind_to(struct id *id, const struct sockaddr *address, bool is_roce);

/*
 * The devices on which an id that is bound to the address, or to any, listens. RoCE's; iWARP's, if
 * there is no other or WEFT_DEVICES names them: their port is one of TCP, which a program may want
 * for itself.
 */
struct kinds {
	bool has_roce, has_iwarp;
};

struct kinds device_kinds(const struct id *id, const struct sockaddr *address);
int id_bind(struct id *id, const struct sockaddr *address);

/* ---- ports.c -------------------------------------------------------------------------------- */

/* Chooses a port, if the address has none, and keeps it: among ids on RoCE, of TCP on iWARP. */
int port_hold(struct id *id, struct sockaddr_storage *address, struct kinds kinds);
void port_release(struct id *id);
void port_release_tcp(struct id *id);

/* In a child: it has ports with its parent, which alone can release them. cm_lock() is held. */
void ports_forked(void);

/* ---- port_names.c --------------------------------------------------------------------------- */

struct port_wish {
	enum rdma_port_space space;
	in_port_t number; /* as on the wire */
	int inherited;	  /* the socket by which the parent has it; -1: none */
	bool is_chosen;	  /* by this library or the system, not by the program */
};

/*
 * Keeps a port of RoCE from other processes of this user, by a socket. -EADDRINUSE: a process of
 * this user or of root has it, by another socket than the inherited one.
 */
int port_name_take(const struct port_wish *wish, int *name);

/* For all processes that have the socket, as fork() shares it; close() is for this one. */
void port_name_release(int name);
bool port_name_is_released(int name);

/* ---- queues.c -------------------------------------------------------------------------------- */

/* Of a connected queue pair: what a peer may do is decided by the regions it is told of. */
void qp_attr_init(struct ibv_qp_attr *attr, int *mask);

/* To a state, with the attributes that the transport has for it. */
int qp_move(struct id *id, struct ibv_qp *qp, enum ibv_qp_state state);

/*
 * Adapters take longer to connect than this one, and programs rely on it: servers that end one
 * listener and begin the next are met in between. On a busy machine, or in an emulated one, that
 * takes them more than 200 ms.
 */
static const uint64_t refused_wait_ns = 1000 * 1000 * 1000;

/* ---- Transports ------------------------------------------------------------------------------ */

/*
 * What a device does with connections. id->calls is held and the state was looked at, unless it is
 * said otherwise.
 */
struct transport {
	int (*connect)(struct id *id, const struct rdma_conn_param *param);
	int (*accept)(struct id *id, const struct rdma_conn_param *param);
	int (*reject)(struct id *id, const void *private_data, uint8_t private_bytes);
	/* In ID_ESTABLISHED, ID_RESPONDED, ID_CONNECTING and ID_ACCEPTING. */
	int (*disconnect)(struct id *id);
	int (*establish)(struct id *id);
	int (*notify)(struct id *id);
	/* The id goes, whatever its state, and so does what it connected, as the kernel does it. */
	void (*leave)(struct id *id);
	/* For a queue pair that is to be moved to attr->qp_state. */
	int (*qp_attr)(struct id *id, struct ibv_qp_attr *attr, int *mask);
	/* How connecting went, in an event. */
	void (*tell)(struct id *id, struct taken *taken);
	/* An event of the queue pair; engine locked, and cm_lock() is held, not id->calls. */
	void (*hear)(struct id *id, const struct weft_event *event);
};

extern const struct transport iwarp_transport, roce_transport, datagram_transport;

/* ---- listen.c ------------------------------------------------------------------------------- */

/* Makes notes of all requests that wait at the listener. */
void listener_drain(struct id *id);
void listener_close(struct id *id);

/* Nobody wants it. */
void request_refuse(struct request request);

/* ---- wire.c --------------------------------------------------------------------------------- */

/* From now on the id hears of the queue pair. */
int wire_attach(struct id *id, struct ibv_qp *qp, bool is_external);

/* From now on it does not. */
void wire_detach(struct id *id);

/* The queue pair that it connects; NULL: there is none, or none any more. */
struct ibv_qp *id_qp(const struct id *id);

/* The queue pair that is to be connected: the id's, or the program's own by its number. */
int wire_find(struct id *id, const struct rdma_conn_param *param);

/* ---- connect.c ------------------------------------------------------------------------------ */

/* What becomes of connecting, if that is not known yet: tells so. cm_lock() is held. */
void id_connected(struct id *id, enum id_state state, enum rdma_cm_event_type event);
void id_failed(struct id *id, enum rdma_cm_event_type event, int status);

/* The connection is over, if it was: tells so. cm_lock() is held. */
void id_ended(struct id *id);

/* The same, and takes the lock. */
void id_end(struct id *id);

/* Reads in flight either way: as the program says, else all that device or request allow. */
struct depths {
	uint8_t in, out;
};

int id_depths(const struct id *id, const struct rdma_conn_param *param, struct depths *depths);

/* What the other end said of Reads; one that says nothing leaves it to us. */
static inline uint8_t depth_clamp(uint32_t depth, uint8_t max)
{
	return depth < max ? (uint8_t)depth : max;
}

/* ---- RoCE ----------------------------------------------------------------------------------- */

enum { ACK_TIMEOUT_CODE = 17, RNR_TIMER_CODE = 12, RETRIES = 7 };

/* roce.c: a request that came: the cm_id is the id's from now on, unless this fails. */
int roce_requested(struct id *id, struct weft_cm_id *cm_id, const struct weft_cm_id_news *news);

/* The path that it asks for. */
int roce_path(const struct id *id, struct weft_path *path);

/* roce_news.c: what the cm_id brought becomes notes. Not locked. */
void roce_news_take(struct id *id);
void roce_news_sink(struct weftv_sink *sink, const struct weft_event *event);

/* roce_qp.c: moves the queue pair from INIT to RTR and RTS, as both ends have said. */
int roce_qp_connect(struct id *id, const struct depths *depths);
int roce_qp_attr(struct id *id, struct ibv_qp_attr *attr, int *mask);
struct depths roce_depths(const struct id *id);

void roce_gid(const struct weft_address *address, union ibv_gid *gid);

/* The address vector of a path. */
int roce_av(struct id *id, const struct weft_path *path, struct ibv_ah_attr *av);

/* ---- group.c --------------------------------------------------------------------------------- */

/* How joining went, in an event. */
void group_tell(struct id *id, const struct group *group, struct taken *taken);

/* The id goes. id->calls is held. */
void groups_leave(struct id *id);

/* Its queue pair goes: it takes nothing any more, and the id leaves when the program says so. */
void groups_detach(struct id *id);
