/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The carrier of iWARP: the TCP connections of one adapter.
 *
 *	tcp.c       the carrier: deadlines, streams that want to send, life and death
 *	link.h      one connection through its life: connecting, set-up, stream
 *	hot.c       the busy connections, which are read without asking epoll first
 *	listener.c  listening sockets and the requests that came to them
 *	lent buffers.c     working memory for the streams that are busy
 *
 * The adapter's lock guards all of it.
 */
#pragma once

#include "base/timer_queue.h"
#include "cm/cm.h"
#include "driver/loop/net.h"
#include "driver/tcp/link_phase.h"
#include "driver/tcp/socket.h"
#include "iwarp/iwarp.h"

/* HOT_ASKED: a connection that was read so often is not watched, see hot.c. */
enum { HOT_MAX = 4, HOT_ASKED = 65, LENT_BUFFERS_MAX = 64, SILENT_HOSTS = 256 };

struct link;

struct tcp {
	struct carrier carrier;
	struct net *net;
	struct list attention; /* of streams that want to send, or to be looked at */
	struct list links, listeners;
	struct list ended; /* links to be freed when no call works on them */
	/* listener.c: connections that came and have not sent their request, the oldest first. */
	struct list silent; /* struct link */
	uint32_t silent_count;
	uint16_t silent_of[SILENT_HOSTS]; /* by a hash of the peer's address */
	uint32_t link_count, links_max;
	uint32_t requests_taken; /* by the program, and not answered yet */
	uint32_t listener_next;	 /* number */
	struct timer_queue timers;
	struct weft_traffic carried; /* by links that have ended */
	struct link *hot[HOT_MAX];   /* hot.c: those that had input lately, the oldest first */
	uint32_t hot_count;
	/* lent buffers.c: lent to busy streams, the longest lent first */
	struct list borrowers; /* struct link */
	struct iwarp_buffers *spare_buffers;
	uint32_t buffers_count;
};

static inline struct tcp *tcp_from(const struct carrier *c)
{
	return CONTAINER_OF(c, struct tcp, carrier);
}

/* The adapter's TCP, made at first use; the network's, or NULL. */
enum weft_reason tcp_get(struct weft_adapter *a, struct tcp **tcp);
struct tcp *tcp_of(const struct net *net);

/* How long a set-up may take: as asked for, or 10 s. */
static inline uint64_t setup_timeout_ns(uint64_t asked_ns)
{
	return asked_ns ? asked_ns : UINT64_C(10) * 1000 * 1000 * 1000;
}

/* hot.c */

/* Bytes have come here: the next poll asks this one directly. */
void hot_add(struct tcp *tcp, struct link *link);
void hot_remove(struct tcp *tcp, struct link *link);

/* lent buffers.c */

/* The link's stream could use buffers: gives it one, perhaps another's that lies idle. */
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

/* ---- Connections ---------------------------------------------------------------------------- */

struct weft_request {
	struct list link; /* of the listener, until it is taken */
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
	uint32_t times_asked;		  /* since it is hot, up to HOT_ASKED */
	uint32_t interest;		  /* in events, whether it is watched or not */
	uint64_t ready_wait_ns, ready_ns; /* how long LINK_AWAITING_RTR may last; until when */
	uint64_t first_wait_ns;		  /* a responder's, see weft_connect_options */
	uint64_t alive_ns;		  /* an initiator's, until it is connected; the same */
	struct weft_qp *qp;		  /* or NULL */
	uint32_t qp_number;		  /* of the one it had last, 0: none */
	struct mpa_setup *setup;	  /* in LINK_SETUP */
	struct iwarp_stream *stream;	  /* see link_has_stream() */
	/* An initiator's: our end, family 0 if it does not matter; until when it is tried again. */
	struct weft_address from;
	uint64_t redial_until_ns;
	/* A responder's, until it is answered. */
	struct weft_listener *listener;
	struct list silent_link; /* of tcp->silent, until its request is complete */
	struct weft_request request;
	/* What is known of the other end. */
	struct weft_address local, remote;
	struct iwarp_terms terms;
	uint16_t peer_ird, peer_ord;
	uint8_t mpa_revision;
	uint32_t private_bytes;
	uint8_t *private_data;
	struct weft_traffic traffic; /* of an ended stream; calls and set-up bytes always */
	uint64_t moved[2];	     /* bytes in and out, counted while they may be cut off */
	struct record record;
};

/* Whether the stream's core runs. */
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

/* The queue pair goes: before there is a stream, the connection goes with it. */
void link_qp_gone(struct link *link);

/* The program has moved the queue pair to RESET, or to ERROR. */
void link_qp_moved(struct link *link, bool is_reset);

/* Receives what is there. True: something came. */
bool link_input(struct link *link);

/* Sends what is to be sent, and sees what else the stream's core wants done. */
bool link_service(struct link *link);
void link_expire(struct link *link);

/* Closes the socket; it is freed later if nobody has questions. */
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
	uint32_t silent; /* of those unanswered */
	uint64_t timeout_ns;
	uint64_t retry_ns; /* descriptors are short: not watched until then */
	struct weft_address at;
};

/* Watches again those that had to pause. */
void listeners_retry(struct tcp *tcp);

/* A connection came, a request is complete; one that was unanswered is not any more. */
void listener_has_link(struct weft_listener *listener, struct link *link);
void listener_has_request(struct weft_listener *listener, struct link *link);
void listener_release(struct link *link);
