/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The drop-in librdmacm: ids, event channels and the calls of rdma_cma.h, translated to weft's
 * connections. It only translates; the protocol is weft's. Inside this room a call returns 0 or a
 * negative errno; cm_result() converts it to what programs expect.
 *
 *	connect.c  listen.c  resolve.c  queues.c   the calls, for all devices
 *	iwarp.c  roce.c  datagram.c                their work on one kind of device (transport)
 *	wire.c  roce_news.c                        events from weft
 *	fabric.c                                   addresses and paths in a fabric
 *	roce_qp.c  group.c                         attributes of RoCE queue pairs; multicast
 *	channel.c  event.c                         events to the program
 *
 * Locks, in the order in which they are taken:
 *   id->calls        one call on an id's connection or queues at a time
 *   id->drain        one reader of a listener's requests at a time
 *   (the engine's)
 *   cm_lock()        channels, notes and states of the whole process. Never held while weft or a
 *                    verb is called, and the only lock that is taken with the engine locked.
 */
#pragma once

#include <errno.h>
#include <infiniband/ib.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
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
	ID_IDLE = 0,	 /* created */
	ID_BOUND,	 /* has a source address */
	ID_ADDRESS,	 /* destination and device are resolved */
	ID_ROUTE,	 /* the route is resolved: it may connect */
	ID_CONNECTING,	 /* a request was sent */
	ID_RESPONDED,	 /* the peer accepted; the program prepares its own queue pair */
	ID_LISTENING,	 /* accepts requests */
	ID_REQUESTED,	 /* the id of a request that is not answered yet */
	ID_ACCEPTING,	 /* the program accepted, and the reply is on its way */
	ID_ESTABLISHED,	 /* connected */
	ID_DISCONNECTED, /* was connected */
	ID_FAILED,	 /* connecting failed */
	ID_REJECTED,	 /* the peer or the program rejected the request */
	ID_STATE_COUNT
};

/* For debuggers, and for the test that every state has its name. */
const char *id_state_name(enum id_state state);

/* Whether the move is legal. */
bool id_state_may(enum id_state from, enum id_state to);

/* ---- Events --------------------------------------------------------------------------------- */

/* Kinds of events that an id may have pending, at most one of each kind. */
enum note_kind {
	NOTE_ADDRESS = 0,
	NOTE_ROUTE,
	NOTE_CONNECT,  /* connecting succeeded or failed */
	NOTE_END,      /* the connection ended */
	NOTE_LOOK,     /* the listener may have requests */
	NOTE_NEWS,     /* the cm_id may have news */
	NOTE_TIMEWAIT, /* time wait ended */
	NOTE_OF_ID,    /* number of the kinds above, which are stored in the id */
	/* Allocated each, as there may be many of an id. */
	NOTE_ARRIVAL, /* a request was taken from the listener */
	NOTE_GROUP    /* joining a group succeeded or failed */
};

/* A connection request: of iWARP (stream) or RoCE (cm_id); the other is NULL. */
struct request {
	struct weft_request *stream;
	struct weft_cm_id *cm_id;
};

/* A group that an id has joined. */
struct group {
	struct list link;
	struct sockaddr_storage address;
	void *context;
	bool is_member; /* its queue pair receives what is sent to the group */
};

struct note {
	struct list link; /* in the channel; unlinked: not pending */
	struct id *id;
	enum note_kind kind;
	enum rdma_cm_event_type event;
	int status;
	struct request request; /* of NOTE_ARRIVAL */
	struct group group;	/* a copy, of NOTE_GROUP; in no list */
};

/* Guarded by cm_lock(), except the public part, which does not change. */
struct channel {
	struct rdma_event_channel rdma; /* first: programs have a pointer to it */
	struct list all_link;		/* of all channels */
	struct bell notes;
	struct list ids;
};

/* ---- Ids ------------------------------------------------------------------------------------ */

/* An open device, shared by all its ids. Never freed. */
struct home {
	struct list link;
	struct ibv_context *context;
	struct ibv_pd *pd; /* the default one */
	uint8_t ird_max, ord_max;
	bool is_roce;
};

/* RoCE: the cm_id of an id. Guarded by id->calls. */
struct talk {
	struct weftv_sink sink;
	struct weft_cm_id *cm_id;      /* or NULL */
	struct weft_cm_id_offer offer; /* what this end sent */
	struct weft_cm_id_news heard;  /* what the peer sent: request, reply or reject */
	uint32_t mtu_bytes;	       /* as asked for */
	/* Of the queue pair; guarded by cm_lock(). */
	bool is_heard;		   /* a packet of the peer has come */
	enum weft_reason qp_error; /* or WEFT_OK */
};

/*
 * Receives the events of a queue pair's connection for an id. Programs may destroy id and queue
 * pair in any order and by either library, so a wire is never freed, only reused: a late event of
 * an earlier queue pair is recognized by its number.
 */
struct wire {
	struct weftv_sink sink;
	struct list link; /* of the free ones */
	struct id *id;
	uint32_t number; /* of the queue pair */
	bool is_external;
};

struct transport;
struct taken;

struct id {
	struct rdma_cm_id rdma; /* first: programs have a pointer to it */
	pthread_mutex_t calls;
	int calls_cancel;

	/* Guarded by cm_lock(). */
	enum id_state state;
	struct channel *channel; /* NULL: the program destroyed it */
	struct list channel_link;
	struct note notes[NOTE_OF_ID];
	uint32_t events_taken; /* by the program, and not acknowledged */
	uint32_t looks;	       /* events of weft about requests or news, so far */
	struct wire *wire;

	/* Guarded by id->calls. */
	struct home *home;
	const struct transport *transport; /* set together with home */
	/* The connected queue pair, the id's or the program's; may be destroyed. 0: none. */
	uint32_t qp_number;
	struct weft_request *request;
	struct talk talk;
	struct list groups;
	struct weftv_sink listener_sink;
	/* A thread that takes this has disabled cancellation before. */
	pthread_mutex_t drain;
	/* Guarded by drain. */
	struct weft_listener *listener;
	struct weft_cm_service *service;
	/* Reserve the port: a TCP socket or -1; a port or NULL, guarded by cm_lock(). */
	int port_socket;
	struct port *port;
	struct list port_link;
	struct sockaddr_storage port_address;
	bool is_active; /* initiator: it connects, rather than accepts */
	bool is_synchronous;
	bool is_family_only, may_reuse, has_ack_timeout;
	uint8_t ack_timeout, tos;
	uint8_t peer_ird, peer_ord; /* of the request */
	struct weft_path path;	    /* in a fabric: to the destination */
	bool owns_send_cq, owns_recv_cq;
	/* rdma_create_ep(): attributes for the queue pairs of incoming requests. */
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

/* A thread cannot be cancelled while it holds one of these locks. */
void cm_lock(void);
void cm_unlock(void);
void id_lock(struct id *id); /* id->calls */
void id_unlock(struct id *id);

/* 0, or -1 with errno. */
int cm_result(int result);

/* The negative errno of a call that failed. */
static inline int cm_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* 0 or a negative errno, for a reason of weft. */
static inline int cm_error(enum weft_reason reason)
{
	return -weftv_errno(reason);
}

/* ---- state.c, ids.c ------------------------------------------------------------------------- */

/* The only function that changes the state; false if the move is illegal. cm_lock() is held. */
bool id_move(struct id *id, enum id_state to);

/* The same; takes cm_lock(). */
bool id_try(struct id *id, enum id_state to);
enum id_state id_state(struct id *id);

/* channel NULL: in no channel yet. */
struct id *id_create(struct channel *channel, void *context, enum rdma_port_space ps);

/* Whether the id is for datagrams, not connections. */
static inline bool id_is_datagram(const struct id *id)
{
	return id->rdma.ps == RDMA_PS_UDP || id->rdma.ps == RDMA_PS_IPOIB;
}
int id_destroy(struct id *id);

/* ---- channel.c ------------------------------------------------------------------------------ */

struct channel *channel_create(void);
void channel_destroy(struct channel *channel);

/* Adds an id that is in no channel. cm_lock() is held. */
void channel_add(struct channel *channel, struct id *id);

/*
 * Removes an id and its pending events from its channel, and waits until the program acknowledged
 * the events it took: after this no event refers to the id.
 */
void id_leave_channel(struct id *id);

/* Moves the id and its pending events to a channel; NULL: its own one, it becomes synchronous. */
int id_migrate(struct id *id, struct channel *to);

/* Makes an event pending, unless one of this kind is already. cm_lock() is held. */
void note_post(struct id *id, enum note_kind kind, enum rdma_cm_event_type event, int status);

/* Takes a posted note back. cm_lock() is held. */
void note_withdraw(struct note *note);

/* Queues a note that is in no list. False: the id has no channel any more. cm_lock() is held. */
bool note_add(struct note *note);

/* ---- endpoint.c ----------------------------------------------------------------------------- */

/*
 * Replaces id_unlock() at the end of a call that causes an event (will_tell): a synchronous id
 * waits for the event. r is the result so far. Any other id is not touched after the unlock:
 * another thread may have taken the event and destroyed the id.
 */
int id_unlock_await(struct id *id, int r, bool will_tell);

/* Before a call on a synchronous id: frees the event of the last call. */
void id_forget_event(struct id *id);

/* ---- event.c -------------------------------------------------------------------------------- */

/* An event that the program took. */
struct taken {
	struct rdma_cm_event rdma; /* first: programs have a pointer to it */
	struct id *counted;	   /* in its events_taken until it is acknowledged */
	uint8_t private_data[PRIVATE_MAX];
};

void event_private_data(struct taken *taken, const void *data, uint32_t bytes);

/* Makes the event of a note, which is a copy. -EAGAIN: there is no event after all. */
int event_make(const struct note *note, struct taken *taken);

/* ---- address.c ------------------------------------------------------------------------------ */

/* 0 if the family is not supported. */
socklen_t address_size(const struct sockaddr *address);
bool address_is_any(const struct sockaddr *address);
bool address_is_loopback(const struct sockaddr *address);
bool address_is_same(const struct sockaddr *a, const struct sockaddr *b); /* ports ignored */
in_port_t address_port(const struct sockaddr *address);			  /* network order */
void address_set_port(struct sockaddr *address, in_port_t port);
void address_to_weft(const struct sockaddr *from, struct weft_address *to);
void address_from_weft(const struct weft_address *from, struct sockaddr_storage *to);

/* ---- device.c, resolve.c -------------------------------------------------------------------- */

/*
 * Binds the id to the device that has the address: the RoCE device, else, if the id is for
 * connections, the iWARP device.
 */
int device_bind(struct id *id, const struct sockaddr *address);

/* The same, for one kind of device. */
int device_bind_to(struct id *id, const struct sockaddr *address, bool is_roce);

/*
 * The kinds of devices on which an id that is bound to the address, or to any, listens: RoCE; and
 * iWARP, if there is no RoCE device or WEFT_DEVICES names iWARP devices. An iWARP listener takes a
 * TCP port, which the program may want for itself.
 */
struct kinds {
	bool has_roce, has_iwarp;
};

struct kinds device_kinds(const struct id *id, const struct sockaddr *address);
int id_bind(struct id *id, const struct sockaddr *address);

/* ---- fabric.c ------------------------------------------------------------------------------- */

struct fabric_msg_port;

/* Whether this program runs on a node of a fabric; then all its ids are of its adapter. */
bool fabric_is_ours(void);
uint64_t fabric_realm(void);

/* The port that has an address; any address: one of ours. 0 or -EHOSTUNREACH: there is none. */
int fabric_port_at(const struct sockaddr *address, struct fabric_msg_port *port);
bool fabric_is_own(const struct sockaddr *address);
void fabric_address_of(const struct fabric_msg_port *port, sa_family_t family,
		       struct sockaddr_storage *to);

/* From and to the engine's, which are GIDs; any address has family 0. */
void fabric_address_from(const struct weft_address *from, sa_family_t family,
			 struct sockaddr_storage *to);
int fabric_address_to(const struct sockaddr *from, struct weft_address *to);

/* The address of a node, as text: of IPv6, or of IPv4. False: there is no node of this name. */
bool fabric_name_to(const char *name, int family, char text[INET6_ADDRSTRLEN]);

/* The work of resolving: an own port and its device; the path. 0 or a negative errno. */
int fabric_find_address(struct id *id);
int fabric_find_path(struct id *id);

/* The path that was found; the address vector of a path. */
int fabric_path(const struct id *id, struct weft_path *path);
void fabric_av(const struct id *id, const struct weft_path *path, struct ibv_ah_attr *av);

/* ---- ports.c -------------------------------------------------------------------------------- */

/*
 * Reserves the port of the address, or chooses one if it has none: among RoCE ids, and as a TCP
 * port for iWARP.
 */
int port_hold(struct id *id, struct sockaddr_storage *address, struct kinds kinds);
void port_release(struct id *id);
void port_release_tcp(struct id *id);

/* In a child of fork(): only the parent can release the inherited ports. cm_lock() is held. */
void ports_forked(void);

/* ---- port_names.c --------------------------------------------------------------------------- */

struct port_wish {
	enum rdma_port_space space;
	in_port_t number; /* in network order */
	int inherited;	  /* the socket with which the parent reserved it; -1: none */
	bool is_chosen;	  /* by this library or the system, not by the program */
};

/*
 * Reserves a RoCE port against other processes of this user, by the name of a unix socket.
 * -EADDRINUSE: a process of this user or of root has it, by another socket than the inherited one.
 */
int port_name_take(const struct port_wish *wish, int *name);

/* Releases for all processes that share the socket by fork(); close() is for this process alone. */
void port_name_release(int name);
bool port_name_is_released(int name);

/* ---- queues.c -------------------------------------------------------------------------------- */

/* For a connected queue pair: allows all access, as the memory regions limit what a peer may do. */
void qp_attr_init(const struct id *id, struct ibv_qp_attr *attr, int *mask);

/* Moves the queue pair to a state, with the attributes of the transport. */
int qp_move(struct id *id, struct ibv_qp *qp, enum ibv_qp_state state);

/*
 * How long a connect without a listener is retried. Hardware takes longer to connect than weft, and
 * programs rely on that: a client may connect while the server closes one listener and opens the
 * next. On a busy or emulated machine that takes the server more than 200 ms.
 */
static const uint64_t refused_wait_ns = 1000 * 1000 * 1000;

/* ---- Transports ------------------------------------------------------------------------------ */

/*
 * Connection calls of one kind of device. Unless noted otherwise, id->calls is held and the state
 * was checked.
 */
struct transport {
	int (*connect)(struct id *id, const struct rdma_conn_param *param);
	int (*accept)(struct id *id, const struct rdma_conn_param *param);
	int (*reject)(struct id *id, const void *private_data, uint8_t private_bytes);
	/* In ID_ESTABLISHED, ID_RESPONDED, ID_CONNECTING and ID_ACCEPTING. */
	int (*disconnect)(struct id *id);
	int (*establish)(struct id *id);
	int (*notify)(struct id *id);
	/* The id is destroyed in any state, and its connection ends with it, as in the kernel. */
	void (*leave)(struct id *id);
	/* Fills in the attributes to move a queue pair to attr->qp_state. */
	int (*qp_attr)(struct id *id, struct ibv_qp_attr *attr, int *mask);
	/* Fills in an event about the result of connecting. */
	void (*tell)(struct id *id, struct taken *taken);
	/* An event of the queue pair. The engine is locked; cm_lock() is held, id->calls is not. */
	void (*hear)(struct id *id, const struct weft_event *event);
};

extern const struct transport iwarp_transport, roce_transport, datagram_transport;

/* ---- listen.c ------------------------------------------------------------------------------- */

/* Posts a note for each request that waits at the listener. */
void listener_drain(struct id *id);
void listener_close(struct id *id);

/* Rejects a request that the program will not see. */
void request_refuse(struct request request);

/* ---- wire.c --------------------------------------------------------------------------------- */

/* From now on the id gets the events of the queue pair. */
int wire_attach(struct id *id, struct ibv_qp *qp, bool is_external);

/* From now on it does not. */
void wire_detach(struct id *id);

/* The queue pair that the id connects; NULL: there is none, or it was destroyed. */
struct ibv_qp *id_qp(const struct id *id);

/* Finds the queue pair to connect: the id's, or the program's own by its number. */
int wire_find(struct id *id, const struct rdma_conn_param *param);

/* ---- connect.c ------------------------------------------------------------------------------ */

/* Sets the result of connecting, unless it is known, and posts an event. cm_lock() is held. */
void id_connected(struct id *id, enum id_state state, enum rdma_cm_event_type event);
void id_failed(struct id *id, enum rdma_cm_event_type event, int status);

/* Ends the connection, if there was one, and posts an event. cm_lock() is held. */
void id_ended(struct id *id);

/* The same; takes cm_lock(). */
void id_end(struct id *id);

/* IRD and ORD: as the program says, else all that the device and the request allow. */
struct depths {
	uint8_t in, out;
};

int id_depths(const struct id *id, const struct rdma_conn_param *param, struct depths *depths);

/* Limits an IRD or ORD of the peer to what this end supports. */
static inline uint8_t depth_clamp(uint32_t depth, uint8_t max)
{
	return depth < max ? (uint8_t)depth : max;
}

/* ---- RoCE ----------------------------------------------------------------------------------- */

enum { ACK_TIMEOUT_CODE = 17, RNR_TIMER_CODE = 12, RETRIES = 7 };

/* roce.c: a request came: the id owns the cm_id from now on, unless this fails. */
int roce_requested(struct id *id, struct weft_cm_id *cm_id, const struct weft_cm_id_news *news);

/* The path that the id asks for. */
int roce_path(const struct id *id, struct weft_path *path);

/* roce_news.c: posts notes for the news of the cm_id. No lock is held. */
void roce_news_take(struct id *id);
void roce_news_sink(struct weftv_sink *sink, const struct weft_event *event);

/* roce_qp.c: moves the queue pair from INIT to RTR and RTS, with the negotiated attributes. */
int roce_qp_connect(struct id *id, const struct depths *depths);
int roce_qp_attr(struct id *id, struct ibv_qp_attr *attr, int *mask);
struct depths roce_depths(const struct id *id);

void roce_gid(const struct weft_address *address, union ibv_gid *gid);

/* The address vector of a path. */
int roce_av(struct id *id, const struct weft_path *path, struct ibv_ah_attr *av);

/* ---- group.c --------------------------------------------------------------------------------- */

/* Fills in an event about the result of joining. */
void group_tell(struct id *id, const struct group *group, struct taken *taken);

/* Leaves all groups; the id is being destroyed. id->calls is held. */
void groups_leave(struct id *id);

/* The queue pair is destroyed and receives no more; the id stays in the groups until it leaves. */
void groups_detach(struct id *id);
