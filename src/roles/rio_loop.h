/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the three roles of directed I/O have in common: an adapter, ends of connections on it, and a
 * loop that looks what has happened, lets the role's core have it, and sleeps.
 *
 *	control ends   carry the messages of two sides that have greeted each other
 *	data ends      carry Reads and Writes; which of them there are the role says
 *
 * A loop is used by one thread at a time.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <weft/rio.h>

#include "rio/handshake.h"

struct rio_loop;

/* What programs can have of the address space, page 0 apart. */
#define PROCESS_FIRST ((uintptr_t)4096)
#define PROCESS_BYTES (((uint64_t)1 << 56) - PROCESS_FIRST)

enum {
	RIO_HALF_OPEN_MAX = 8, /* control ends that have not greeted */
	RIO_BATCH = 16	       /* requests that are posted at once */
};

enum rio_end_kind { RIO_END_CONTROL, RIO_END_DATA };

enum rio_end_state {
	RIO_END_FREE = 0,
	RIO_END_CONNECTING,
	RIO_END_GREETING, /* control ends */
	RIO_END_UP,
	RIO_END_DYING, /* its queue pair is in Error; what was posted comes back */
};

struct rio_end {
	enum rio_end_kind kind;
	enum rio_end_state state;
	struct rio_loop *loop;
	struct weft_qp *qp;
	struct weft_qp *own_peer; /* the other end is here too: this queue pair */
	struct platform peer;	  /* of control ends: once it has greeted */
	enum weft_reason reason;  /* why it dies */
	uint32_t number;	  /* the role's own */
	uint32_t posted;	  /* signalled requests that have not come back */
	bool is_known_to_role;	  /* the role knows of it, and is to be told that it is gone */
	bool was_lost;		  /* the role has given it up */
	/* What is to be posted, all at once: rio_end_flush(). */
	struct weft_send_wr queue[RIO_BATCH];
	struct weft_sge sges[RIO_BATCH];
	uint8_t *words; /* of short messages in there */
	uint32_t queued;
	/* Control ends. */
	struct rio_handshake cm_id;
	struct rio_dial *dial;	 /* whom it reaches; NULL: it came here */
	uint64_t deadline_ns;	 /* of the greeting */
	uint8_t *recv_bufs;	 /* a few receive buffers, then send buffers for what is long */
	uint8_t *more_recv_bufs; /* receive buffers, once it has greeted */
	uint32_t free_sends[64];
	uint32_t free_send_count;
};

/* Somebody to be connected to, always. */
struct rio_dial {
	const struct weft_rio_peer *peer;
	struct rio_end *end;	 /* NULL: there is none now */
	uint64_t next_ns;	 /* then it is tried again */
	uint64_t wait_ns;	 /* and the next time so much later */
	enum weft_reason reason; /* of the last failure */
};

/* What a role does with what happens. */
struct rio_role_calls {
	/* A control end has greeted; its handshake says who it is. Refused: it is ended. */
	enum weft_reason (*came)(struct rio_loop *loop, struct rio_end *end);
	/* A message, also over a data end. Refused: it is ended. */
	enum weft_reason (*message)(struct rio_loop *loop, struct rio_end *end,
				    const uint8_t *bytes, size_t length);
	/* A data end that came is about to be connected: it has its queue pair. May be NULL. */
	void (*made)(struct rio_loop *loop, struct rio_end *end);
	/* A data end is connected. */
	void (*connected)(struct rio_loop *loop, struct rio_end *end);
	/* An end is gone, one that the role knows: it came, or it is a data end. */
	void (*gone)(struct rio_loop *loop, struct rio_end *end);
	/* A control end is gone that never came. May be NULL. */
	void (*refused)(struct rio_loop *loop, struct rio_end *end);
	/* A Read or Write has come back. */
	void (*moved)(struct rio_loop *loop, struct rio_end *end, uint32_t id,
		      enum weft_reason reason);
	/* Somebody asks for a connection at the data listener; to be accepted or rejected. */
	void (*asked)(struct rio_loop *loop, struct weft_request *request);
	/* Lets the core go on, and does what it wants done. */
	void (*work)(struct rio_loop *loop);
	uint64_t (*due)(struct rio_loop *loop);
};

struct rio_loop_config {
	const struct rio_role_calls *calls;
	enum weft_rio_role role;
	uint32_t ends_max;
	uint32_t messages_max; /* of a peer, that may come before they are taken; more wait */
	uint32_t words_max;    /* the same over a data connection; 0: nobody says anything there */
	uint32_t tells_max;    /* that this side says there, at a time */
	struct rio_handshake_limits limits; /* for those who come */
	bool takes_control;		    /* else its listener is for data */
	enum weft_rio_role dials;	    /* whom of the peers; 0: nobody */
	enum weft_policy policy;	    /* of the adapter */
};

struct rio_loop {
	struct rio_loop_config config;
	struct rio_identity self;
	struct weft_rio_peer *peers;
	struct rio_known *known; /* the same, as the greeting wants them */
	bool (*find)(void *context, uint32_t peer, struct weft_address *address); /* or NULL */
	void *find_context;
	uint32_t peer_count;
	struct weft_adapter *adapter;
	struct weft_pd *control_pd, *data_pd;
	struct weft_cq *cq;
	struct weft_listener *listener;
	uint32_t control_tag, data_tag; /* all memory of this process, for this side only */
	int wake, also; /* an eventfd; an epoll with it and what else the role waits for */
	atomic_bool is_stopping;
	bool is_open, is_closing;
	uint64_t now_ns, spin_ns, alive_ns;
	uint64_t look_ns;	  /* when deadlines of ends are looked at again */
	uint32_t dying;		  /* ends */
	uint32_t queued;	  /* requests, of all ends, that are to be posted */
	uint64_t asleep_until_ns; /* while it sleeps */
	pthread_mutex_t *lock;	  /* released while it sleeps; or NULL */
	struct rio_end *ends;
	struct rio_dial *dials;
	uint32_t dial_count;
	struct weft_address listen;
	struct weft_rio_traffic moved; /* by ends that are gone */
};

/* All that is needed to begin; the listener too. It is to be closed also if this was refused. */
enum weft_reason rio_loop_open(struct rio_loop *loop, const struct weft_rio_self *self,
			       const struct rio_loop_config *config);
void rio_loop_close(struct rio_loop *loop);

/* Nobody can come any more. */
void rio_loop_stop_listening(struct rio_loop *loop);

/* One look at everything. True: something happened. */
bool rio_loop_turn(struct rio_loop *loop);

/* Posts what the role has given to ends. */
void rio_loop_flush(struct rio_loop *loop);

/* Sleeps until something may have happened, or it is that late. */
void rio_loop_sleep(struct rio_loop *loop, uint64_t until_ns);

/*
 * Turns and sleeps until it is told to stop, by any thread or signal handler. Holds the lock but
 * when it sleeps.
 */
void rio_loop_run(struct rio_loop *loop, pthread_mutex_t *lock);
void rio_loop_stop(struct rio_loop *loop);

/* For any thread and any signal handler: it does not sleep now. */
void rio_loop_wake(struct rio_loop *loop);

/* Another descriptor that it wakes up for. */
enum weft_reason rio_loop_also(struct rio_loop *loop, int descriptor);

/* What connections carried, also those that are gone. */
void rio_loop_moved(struct rio_loop *loop, struct weft_rio_traffic *moved);
