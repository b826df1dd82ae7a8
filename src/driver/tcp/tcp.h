/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The carrier of stream cores (stream_core.h): the TCP connections of one adapter.
 *
 *	tcp.c       the carrier: deadlines, streams that want to send, life and death
 *	link.h      one connection through its life: connecting, set-up, stream
 *	hot.c       the busy connections, which are read without asking epoll first
 *	listener.c  listening sockets and the requests that came to them
 *	lent_buffers.c  working memory for busy streams of iWARP
 *
 * The adapter's lock guards all of it.
 */
#pragma once

#include "base/timer_queue.h"
#include "cm/cm.h"
#include "driver/loop/net.h"
#include "driver/sys/socket.h"
#include "driver/tcp/link_phase.h"
#include "driver/tcp/stream_core.h"
#include "iwarp/iwarp.h"

/* HOT_ASKED: after so many reads of a hot connection, epoll no longer watches it, see hot.c. */
enum { HOT_MAX = 4, HOT_ASKED = 65, LENT_BUFFERS_MAX = 64, SILENT_HOSTS = 256 };

struct link;

struct tcp {
	struct carrier carrier;
	struct net *net;
	/* By core: streams with output, or with a change of state to handle. */
	struct list attention[STREAM_CORES];
	struct list links, listeners;
	struct list ended;  /* links to free when no call works on them */
	struct list unread; /* links with input in shared memory, to be read before a sleep */
	/* listener.c: incoming connections that have not sent their request yet, oldest first. */
	struct list silent; /* struct link */
	uint32_t silent_count;
	uint16_t silent_of[SILENT_HOSTS]; /* by a hash of the peer's address */
	bool is_crc_off;		  /* of all connections: WEFT_CRC */
	bool is_near_off;		  /* the same: WEFT_NEAR */
	uint32_t link_count, links_max;
	uint32_t near_count;	 /* links by shared memory whose rings this end has made */
	uint32_t requests_taken; /* by the program, and not answered yet */
	uint32_t listener_next;	 /* number */
	struct timer_queue timers;
	struct weft_traffic carried; /* by links that have ended */
	struct link *hot[HOT_MAX];   /* hot.c: links with input lately, the oldest first */
	uint32_t hot_count;
	/* lent_buffers.c: links whose streams have buffers, the longest lent first */
	struct list borrowers; /* struct link */
	struct iwarp_buffers *spare_buffers;
	uint32_t buffers_count;
};

static inline struct tcp *tcp_from(const struct carrier *c)
{
	return CONTAINER_OF(c, struct tcp, carrier);
}

/* The adapter's TCP carrier, made at first use; that of a network, or NULL. */
enum weft_reason tcp_get(struct weft_adapter *a, struct tcp **tcp);
struct tcp *tcp_of(const struct net *net);

/* How long connection set-up may take: as asked for, or 10 s. */
static inline uint64_t setup_timeout_ns(uint64_t asked_ns)
{
	return asked_ns ? asked_ns : UINT64_C(10) * 1000 * 1000 * 1000;
}

/* hot.c */

/* Bytes have come by this link: the next poll reads its socket without asking epoll. */
void hot_add(struct tcp *tcp, struct link *link);
void hot_remove(struct tcp *tcp, struct link *link);
bool hot_has(const struct tcp *tcp, const struct link *link);

/* lent_buffers.c */

/* Lends buffers to the link's stream; they may be taken back from an idle stream. */
void buffers_lend(struct tcp *tcp, struct link *link);

/* The stream is about to be destroyed. */
void buffers_return(struct tcp *tcp, struct link *link);

/* hot.c, for the carrier's table. */
uint32_t hot_turns(const struct carrier *c);
bool hot_input(struct carrier *c, uint32_t turn);
bool hot_input_all(struct carrier *c);
void hot_watch(struct carrier *c);
void hot_sleep_begin(struct carrier *c, struct sleep_set *set);
bool hot_sleep_input(struct carrier *c, struct watch *w);
enum carrier_memory hot_memory(const struct carrier *c);
bool hot_rest(struct carrier *c);

/* ---- Connections ---------------------------------------------------------------------------- */

struct weft_request {
	struct list link; /* of the listener, until the program takes the request */
	bool is_taken;
};

struct link {
	struct watch watch;
	struct tcp *tcp;
	struct net *net;	   /* of tcp */
	struct list all_link;	   /* of tcp->links, then tcp->ended */
	struct list borrower_link; /* while its stream has buffers */
	struct timer timer;
	enum link_phase phase;
	enum weft_reason reason;
	bool is_sending_blocked;	  /* the socket takes no more for now */
	uint32_t times_asked;		  /* reads since it became hot, up to HOT_ASKED */
	uint32_t looks_empty;		  /* of shared memory, ever */
	uint32_t interest;		  /* wanted events, whether epoll watches it or not */
	uint64_t ready_wait_ns, ready_ns; /* how long LINK_AWAITING_RTR may last; until when */
	uint64_t first_wait_ns;		  /* responder: see weft_connect_options */
	uint64_t alive_ns;		  /* see weft_connect_options */
	bool wants_near;		  /* the same */
	struct link_near *near;		  /* link_near.h: its bytes go by shared memory; or NULL */
	struct list unread_link;	  /* of tcp->unread, or of itself */
	struct weft_qp *qp;		  /* or NULL */
	uint32_t qp_number;		  /* of its last queue pair, 0: none */
	struct mpa_setup *setup;	  /* until LINK_SETUP has ended; NULL: the core has none */
	uint64_t dial_due_ns;		  /* of a core that has none: see link_dial_due() */
	const struct stream_core *core;
	void *stream; /* of the core, see link_has_stream() */
	/* Initiator: local address, family 0 for any; until when a refused connect is retried. */
	struct weft_address from;
	uint64_t redial_until_ns;
	/* Responder, until the request is answered. */
	struct weft_listener *listener;
	struct list silent_link; /* of tcp->silent, until its request is complete */
	struct weft_request request;
	/* What is known of both ends, and what the peer sent. */
	struct weft_address local, remote;
	struct iwarp_terms terms;
	uint16_t peer_ird, peer_ord;
	uint8_t mpa_revision;
	uint32_t private_bytes;
	uint8_t *private_data;
	struct weft_traffic traffic; /* system calls, set-up bytes; all, once the stream ended */
	uint64_t moved[2];	     /* bytes in and out, counted while a fault may cut them off */
	struct record record;
};

/* Whether the link's stream exists. */
static inline bool link_has_stream(const struct link *link)
{
	return link->phase == LINK_AWAITING_RTR || link->phase == LINK_STREAM;
}

enum weft_reason link_dial(struct tcp *tcp, struct weft_qp *qp, const struct weft_address *to,
			   const struct weft_connect_options *options);

/* A connection came in at a listener. */
enum weft_reason link_arrived(struct weft_listener *listener, int fd);
enum weft_reason link_accept(struct link *link, struct weft_qp *qp,
			     const struct weft_connect_options *options);
enum weft_reason link_reject(struct link *link, const struct weft_connect_options *options);
void link_peer(const struct link *link, struct weft_peer *peer);
void link_traffic(const struct link *link, struct weft_traffic *traffic);

/* The queue pair is destroyed: before there is a stream, the connection ends with it. */
void link_qp_gone(struct link *link);

/* The program has moved the queue pair to RESET, or to ERROR. */
void link_qp_moved(struct link *link, bool is_reset);

/* Receives what has come. True: there was something. */
bool link_input(struct link *link);

/* Sends what is ready, and handles the stream's changes of state. */
bool link_service(struct link *link);
void link_expire(struct link *link);

/* Closes the socket; the link is freed later, when no handle refers to it. */
void link_end(struct link *link, enum weft_reason reason, bool is_reset);
void link_free(struct link *link);

/* ---- Listeners ------------------------------------------------------------------------------ */

struct weft_listener {
	struct watch watch;
	struct tcp *tcp;
	struct net *net;      /* of tcp */
	struct list link;     /* of tcp->listeners */
	struct list requests; /* struct weft_request, not taken yet */
	struct event_source events;
	uint32_t unanswered, requests_max;
	uint32_t silent; /* of the unanswered: connections without a request so far */
	uint64_t timeout_ns;
	uint64_t retry_ns; /* out of descriptors: not watched until then */
	struct weft_address at;
};

/* Resumes listeners that paused for lack of descriptors. */
void listeners_retry(struct tcp *tcp);

/* A connection came; its request is complete; it no longer counts as unanswered. */
void listener_has_link(struct weft_listener *listener, struct link *link);
void listener_has_request(struct weft_listener *listener, struct link *link);
void listener_release(struct link *link);
