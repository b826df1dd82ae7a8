/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the three roles of directed I/O share: an adapter, connection ends on it, and a loop that
 * polls for events, passes them to the role's core, and sleeps.
 *
 *	control ends   carry messages between authenticated peers
 *	data ends      carry RDMA Reads and Writes; the role decides which exist
 *
 * Only one thread at a time may use a loop.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <weft/rio.h>

#include "rio/handshake.h"
#include "roles/rio_spin.h"

struct rio_loop;

/* The user address space except page 0. */
#define PROCESS_FIRST ((uintptr_t)4096)
#define PROCESS_BYTES (((uint64_t)1 << 56) - PROCESS_FIRST)

enum {
	RIO_HALF_OPEN_MAX = 8, /* incoming control ends before the handshake is done */
	RIO_BATCH = 16,	       /* work requests posted at once */
	RIO_ADAPTERS_MAX = 8
};

enum rio_end_kind { RIO_END_CONTROL, RIO_END_DATA };

enum rio_end_state {
	RIO_END_FREE = 0,
	RIO_END_CONNECTING,
	RIO_END_GREETING, /* control ends only: handshake in progress */
	RIO_END_UP,
	RIO_END_DYING, /* its queue pair is in Error; posted requests are being flushed */
};

/* RIO-09: an adapter beside the loop's first one, for data connections that this process makes. */
struct rio_adapter {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	uint32_t tag; /* all memory of this process, local access only */
};

struct rio_end {
	enum rio_end_kind kind;
	enum rio_end_state state;
	struct rio_loop *loop;
	struct rio_adapter *at; /* NULL: the loop's first adapter */
	struct weft_qp *qp;
	struct weft_qp *own_peer; /* set if the peer is this process: the peer's queue pair */
	struct platform peer;	  /* control ends: set after the handshake */
	enum weft_reason reason;  /* why it is dying */
	uint32_t number;	  /* for the role's use */
	uint32_t posted;	  /* signalled requests not completed */
	bool is_known_to_role;	  /* the role must be told when it is gone */
	bool was_lost;		  /* the role has abandoned it */
	/* Requests to post in one batch: rio_loop_flush(). */
	struct weft_send_wr queue[RIO_BATCH];
	struct weft_sge sges[RIO_BATCH];
	uint8_t *inline_bufs; /* short messages in the queue */
	uint32_t queued;
	/* Control ends only. */
	struct rio_handshake handshake;
	struct rio_dial *dial;	 /* NULL: incoming connection */
	uint64_t deadline_ns;	 /* of the handshake */
	uint8_t *recv_bufs;	 /* a few receive buffers, then send buffers for long messages */
	uint8_t *more_recv_bufs; /* the other receive buffers, after the handshake */
	uint32_t free_sends[64];
	uint32_t free_send_count;
};

/* A peer that this process keeps a connection to. */
struct rio_dial {
	const struct weft_rio_peer *peer;
	struct rio_end *end;	 /* NULL: not connected or connecting */
	uint64_t next_ns;	 /* time of the next attempt */
	uint64_t wait_ns;	 /* delay after the next failure */
	enum weft_reason reason; /* the last failure */
};

/* The role's event handlers. */
struct rio_role_calls {
	/* A control end has completed its handshake, which holds the peer. A refusal closes it. */
	enum weft_reason (*came)(struct rio_loop *loop, struct rio_end *end);
	/* A message has come, on a control or data end. A refusal closes the end. */
	enum weft_reason (*message)(struct rio_loop *loop, struct rio_end *end,
				    const uint8_t *bytes, size_t length);
	/* An incoming data end has its queue pair and is about to be connected. May be NULL. */
	void (*made)(struct rio_loop *loop, struct rio_end *end);
	/* A data end is connected. */
	void (*connected)(struct rio_loop *loop, struct rio_end *end);
	/* An end that the role knows (`came` was called, or a data end) is gone. */
	void (*gone)(struct rio_loop *loop, struct rio_end *end);
	/* A control end is gone before its handshake was done. May be NULL. */
	void (*refused)(struct rio_loop *loop, struct rio_end *end);
	/* A Read or Write has completed. */
	void (*moved)(struct rio_loop *loop, struct rio_end *end, uint32_t id,
		      enum weft_reason reason);
	/* A connection request at the data listener: accept or reject it. */
	void (*asked)(struct rio_loop *loop, struct weft_request *request);
	/* Runs the core and carries out its acts. */
	void (*work)(struct rio_loop *loop);
	uint64_t (*due)(struct rio_loop *loop);
};

struct rio_loop_config {
	const struct rio_role_calls *calls;
	enum weft_rio_role role;
	uint32_t ends_max;
	uint32_t messages_max; /* receive buffers per control end */
	uint32_t words_max;    /* the same per data end; 0: no messages there */
	uint32_t tells_max;    /* outstanding messages that this side sends on a data end */
	struct rio_handshake_limits limits; /* announced to incoming peers */
	bool takes_control;		    /* else its listener takes data connections */
	enum weft_rio_role dials;	    /* connect to peers of this role; 0: to none */
	enum weft_policy policy;	    /* the adapter's */
	uint32_t adapters;		    /* for data connections that it makes; 0: 1 */
};

struct rio_loop {
	struct rio_loop_config config;
	struct rio_identity self;
	struct weft_rio_peer *peers;
	struct rio_known *known; /* the same, for the handshake */
	bool (*find)(void *context, uint32_t peer, struct weft_address *address); /* or NULL */
	void *find_context;
	uint32_t peer_count;
	struct weft_adapter *adapter;
	struct weft_pd *control_pd, *data_pd;
	struct rio_adapter more[RIO_ADAPTERS_MAX - 1];
	uint32_t more_count, more_turn; /* more_turn: data connections made so far */
	struct weft_pd *own_pd; /* of the far end of a connection to itself; NULL: there is none */
	struct weft_cq *cq;
	struct weft_listener *listener;
	uint32_t control_tag, data_tag; /* all memory of this process, local access only */
	int wake, also;			/* an eventfd; an epoll of it and the role's descriptors */
	atomic_bool is_stopping;
	bool is_open, is_closing;
	uint64_t now_ns, alive_ns;
	struct rio_spin spin;
	uint64_t look_ns;	  /* when deadlines of ends are next checked */
	uint32_t dying;		  /* ends in state DYING */
	uint32_t queued;	  /* requests to post, on all ends */
	uint64_t asleep_until_ns; /* 0: awake */
	pthread_mutex_t *lock;	  /* released during sleep; or NULL */
	struct rio_end *ends;
	uint32_t ends_used; /* so many slots were ever in use: the first ones */
	struct rio_dial *dials;
	uint32_t dial_count;
	struct weft_address listen;
	struct weft_rio_traffic moved; /* by closed ends */
};

/* Opens everything, the listener included. rio_loop_close() must be called even after a refusal. */
enum weft_reason rio_loop_open(struct rio_loop *loop, const struct weft_rio_self *self,
			       const struct rio_loop_config *config);
void rio_loop_close(struct rio_loop *loop);

/* Takes no more connections. */
void rio_loop_stop_listening(struct rio_loop *loop);

/* Polls everything once. True: something happened. */
bool rio_loop_turn(struct rio_loop *loop);

/* Posts the queued requests of all ends. */
void rio_loop_flush(struct rio_loop *loop);

/* Lets other threads and processes have the processor, between two polls. */
void rio_loop_yield(struct rio_loop *loop);

/* Sleeps until something may have happened, at most until until_ns. */
void rio_loop_sleep(struct rio_loop *loop, uint64_t until_ns);

/*
 * Polls and sleeps until rio_loop_stop(), which any thread or signal handler may call. Holds the
 * lock except while it sleeps.
 */
void rio_loop_run(struct rio_loop *loop, pthread_mutex_t *lock);
void rio_loop_stop(struct rio_loop *loop);

/* Ends the present or next sleep; for any thread and signal handler. */
void rio_loop_wake(struct rio_loop *loop);

/* Adds a descriptor that ends the sleep when readable. */
enum weft_reason rio_loop_also(struct rio_loop *loop, int descriptor);

/* The bytes that all connections carried, closed ones included. */
void rio_loop_moved(struct rio_loop *loop, struct weft_rio_traffic *moved);
