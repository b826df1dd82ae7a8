/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network of one adapter: its connections, their deadlines, and who looks at the sockets.
 *
 *	net.c       which socket is looked at when: poll, deadlines, the list of streams
 *	link.h      one TCP connection through its life: connecting, set-up, stream
 *	hot.c       the busy ones, which are asked without asking epoll first
 *	listener.c  listening sockets and the requests that came to them
 *	desks.c     working memory for the streams that are busy
 *	progress.c  the thread that moves things when nobody polls
 *
 * All of it is guarded by the adapter's lock, except where the thread sleeps.
 */
#pragma once

#include <poll.h>
#include <pthread.h>

#include "base/timer_queue.h"
#include "cm/cm.h"
#include "driver/adapter_lock.h"
#include "driver/link_phase.h"
#include "driver/observe.h"
#include "driver/socket.h"
#include "iwarp/iwarp.h"

/* HOT_ASKED: one that was asked so often is not watched, see hot.c. */
enum { HOT_MAX = 4, HOT_ASKED = 65, DESKS_MAX = 64 };

struct link;
struct roce;

/* Something with a descriptor that epoll watches. */
struct watch {
	void (*ready)(struct watch *w, uint32_t events);
	int fd;
	uint32_t interest; /* what epoll was asked for; 0: not watched */
};

enum { SILENT_HOSTS = 256 };

struct net {
	struct weft_adapter *adapter;
	int epoll;
	struct watch wake;     /* an eventfd: the thread is to look again */
	struct list attention; /* of streams */
	struct list links, listeners;
	/* listener.c: connections that came and have not said who they are, the oldest first. */
	struct list silent; /* struct link */
	uint32_t silent_count;
	uint16_t silent_of[SILENT_HOSTS]; /* by a hash of the peer's address */
	struct roce *roce;		  /* NULL: not used */
	struct list ended;		  /* links to be freed when no call works on them */
	uint32_t link_count, links_max;
	bool is_abandoned;	 /* it is the parent's: this process was forked */
	uint32_t requests_taken; /* by the program, and not answered yet */
	struct timer_queue timers;
	uint64_t now_ns;	/* when the clock was last looked at */
	uint32_t listener_next; /* number */
	/* What links that have ended carried; system calls that moved no bytes of theirs. */
	struct weft_traffic carried;
	uint64_t calls_other;
	struct link *hot[HOT_MAX]; /* hot.c: those that had input lately, the oldest first */
	uint32_t hot_count, hot_turn, polls_since_epoll;
	bool was_busy;		/* the last poll found something */
	bool is_all_due;	/* by time, however few the polls were */
	uint32_t polls_empty;	/* by the program, one after the other */
	uint32_t blocked_count; /* links whose socket is full: epoll says when it is not */
	/* desks.c: lent to busy streams, the longest lent first */
	struct list borrowers; /* struct link */
	struct iwarp_desk *spare_desk;
	uint32_t desk_count;
	/* progress.c */
	pthread_t thread;
	pthread_cond_t rouse; /* the thread is to go from standing by to watching */
	bool has_thread, is_stopping, is_standing_by;
	int favour;	/* above 0: what comes is found by polls; below: by the thread */
	uint64_t asked; /* packets or segments that were requests of peers */
	/* Arrivals until the thread may stand by: in all, and left. */
	uint32_t standby_backoff, standby_backoff_left;
	uint32_t standby_backoffs; /* ever: a peer waited until the thread no longer stood by */
	uint32_t periods;	   /* of standing by, one after the other */
	bool is_woken;		   /* the thread has been told, and has not come yet */
	/* Requests posted one by one since the program last polled, of which some wait. */
	uint64_t burst_polls;
	uint32_t burst;
	bool is_waiting;
	uint64_t waiting_bytes;
	uint64_t waits;	 /* times that this began */
	bool is_guarded; /* the thread looks often whether somebody ends it */
	/* A program that watches the sockets itself, see progress_sleep(). */
	uint64_t leads;	     /* times that it slept there */
	bool is_led;	     /* it does now */
	bool is_led_always;  /* it does nothing else */
	bool is_following;   /* the thread has seen it */
	bool is_thread_idle; /* the thread has gone to sleep until it no longer does */
	uint64_t due_seen;   /* deadline that the thread sleeps to */
};

/* The adapter's network, made at first use. */
enum weft_reason net_get(struct weft_adapter *a, struct net **net);

/* Ends it: what is still closing gets a moment, then everything is closed. */
void net_close(struct net *net);

/*
 * Sends what is to be sent. True: something moved, and the core may have work again. can_wait: as
 * adapter_poll() has it.
 */
bool net_output(struct net *net, bool can_wait);

/*
 * Receives what has arrived. Asks at most once about each connection; with is_all about every one,
 * else perhaps only about those that were busy lately. True: there is work, net_output() too.
 */
bool net_poll(struct net *net, bool is_all);

/*
 * Whether a program has polled in vain for so long that it should let others run: the peer may be
 * waiting for this very core.
 */
bool net_is_patient(struct net *net);

/* A link has ended, and its traffic is complete; what all links carried that ever were. */
void net_link_ended(struct net *net, const struct link *link);
void net_traffic(const struct net *net, struct weft_traffic *t);

/* Whether net_output() would do something. */
bool net_has_output(const struct net *net);

uint64_t net_due(const struct net *net);

/* Looks at the clock. */
uint64_t net_look_at_clock(struct net *net);

/* Asks epoll for these events of it; 0: no longer. */
void net_watch(struct net *net, struct watch *w, uint32_t events);

/* hot.c */

/* Bytes have come here: the next poll asks this one directly. */
void hot_add(struct net *net, struct link *link);
void hot_remove(struct net *net, struct link *link);

/* Whether there is something to ask; RoCE's sockets have a turn like a link. */
bool hot_is_any(const struct net *net);

/* Asks the one whose turn it is, or all of them. True: something came. */
bool hot_ask_next(struct net *net);
bool hot_ask_all(struct net *net);

/*
 * Those that are not watched, for whoever sleeps in the thread's place: to be watched by him. And
 * asks those of them that are ready and still hot.
 */
struct hot_ones {
	struct link *links[HOT_MAX];
	struct pollfd *fds; /* room for HOT_MAX */
	uint32_t count;
};

void hot_unwatched(struct net *net, struct hot_ones *ones);
bool hot_ask_ready(struct net *net, const struct hot_ones *ones);

/* The program has stopped polling: epoll is to tell of them again. */
void hot_watch(struct net *net);

/* desks.c */

/* The link's stream could use a desk: gives it one, perhaps another's that lies idle. */
void desks_lend(struct net *net, struct link *link);

/* The stream is about to be destroyed. */
void desks_return(struct net *net, struct link *link);

/* progress.c */
enum weft_reason progress_start(struct net *net);
void progress_stop(struct net *net);

/* Something came, and was found by the program's poll or by the thread. */
void progress_found(struct net *net, bool is_poll);

/*
 * A request of so many bytes has been posted, and others before it, with no poll in between: may it
 * wait for those that follow? The next poll sends them together, or the thread if none comes.
 */
bool progress_may_wait(struct net *net, uint64_t bytes);

/* Something waits for what the program does next: it, or the thread soon, sends it. */
void progress_waits(struct net *net);

/* What waits is sent now. */
static inline void progress_sends(struct net *net)
{
	net->is_waiting = false;
	net->waiting_bytes = 0;
}

/* The lock of a queue pair's adapter, taken; whatever was posted before goes first. */
static inline struct weft_adapter *net_enter_settled(const struct weft_qp *qp)
{
	struct weft_adapter *a = adapter_enter_qp(qp);

	if (a->net && a->net->is_waiting)
		adapter_work(a);
	return a;
}

/*
 * Watches the sockets in the thread's place, and sleeps until something happens there or at the
 * descriptor (-1: none), a deadline comes, or it is that late. Then what has come has been
 * received. The lock is held, and released meanwhile. Nothing waits to be sent: is_waiting.
 * True: something has happened at the descriptor.
 */
bool progress_sleep(struct net *net, int also, uint64_t until_ns);

/* Somebody does nothing but that, from now on or no longer: the thread does not look after it. */
void progress_lead(struct net *net, bool is_always);

/* A deadline may have become earlier, or somebody waits for events: see that the thread knows. */
void progress_notice(struct net *net);

/* How long a set-up may take: as asked for, or 10 s. */
static inline uint64_t net_timeout_ns(uint64_t asked_ns)
{
	return asked_ns ? asked_ns : UINT64_C(10) * 1000 * 1000 * 1000;
}

/* ---- Connections ---------------------------------------------------------------------------- */

struct weft_request {
	struct list link; /* of the listener, until it is taken */
	bool is_taken;
};

struct link {
	struct watch watch;
	struct net *net;
	struct list all_link;	   /* of net->links, then net->ended */
	struct list borrower_link; /* while its stream has a desk */
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
	struct list silent_link; /* of net->silent, until its request is complete */
	struct weft_request request;
	/* What is known of the other end. */
	struct weft_address local, remote;
	struct iwarp_terms terms;
	uint16_t peer_ird, peer_ord;
	uint8_t mpa_revision;
	uint32_t private_bytes;
	uint8_t *private_data;
	struct weft_traffic traffic; /* of an ended stream; calls and set-up bytes always */
	const char *peer_words;	     /* the same; see iwarp_peer_words() */
	uint64_t moved[2];	     /* bytes in and out, counted while they may be cut off */
	struct record record;
};

/* Whether the stream's core runs. */
static inline bool link_has_stream(const struct link *link)
{
	return link->phase == LINK_AWAITING_RTR || link->phase == LINK_STREAM;
}

enum weft_reason link_dial(struct net *net, struct weft_qp *qp, const struct weft_address *to,
			   const struct weft_connect_options *options);

/* A connection came in at a listener. */
enum weft_reason link_arrived(struct weft_listener *listener, int fd);
enum weft_reason link_accept(struct link *link, struct weft_qp *qp,
			     const struct weft_connect_options *options);
enum weft_reason link_reject(struct link *link, const struct weft_connect_options *options);
void link_peer(const struct link *link, struct weft_peer *peer);
const char *link_peer_words(const struct link *link);
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
	struct net *net;
	struct list link;     /* of the network */
	struct list requests; /* struct weft_request, not taken yet */
	struct event_source events;
	uint32_t unanswered, requests_max;
	uint32_t silent; /* of those unanswered */
	uint64_t timeout_ns;
	uint64_t retry_ns; /* descriptors are short: not watched until then */
	struct weft_address at;
};

/* Watches again those that had to pause. */
void listeners_retry(struct net *net);

/* A connection came, a request is complete; one that was unanswered is not any more. */
void listener_has_link(struct weft_listener *listener, struct link *link);
void listener_has_request(struct weft_listener *listener, struct link *link);
void listener_release(struct link *link);
