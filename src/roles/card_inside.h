/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside an end of a split network card:
 *
 *	card.c          life, the loop
 *	card_end.c      a connection: what is posted, what completes
 *	card_greet.c    how it begins: each end proves its key
 *	card_data.c     its second one, in Send mode
 *	card_frames.c   frames: from the port to links, from links to the port and to other links
 *	card_control.c  what the two ends say of themselves: offers, addresses, filters, link state
 *	card_report.c   what `weft card status` shows
 */
#pragma once

#include <stdatomic.h>

#include "base/line_limit.h"
#include "driver/lan/lan.h"
#include "push/lan.h"
#include "push/push.h"
#include "roles/card.h"
#include "roles/rdma_end.h"
#include "roles/reporter.h"
#include "roles/rio_spin.h"

enum {
	CARD_FRAMES = 512, /* from the port, that links have not sent yet */
	/* Elements have at most 64 KiB, so that 32 bits tell of each (PUSH-21). */
	CARD_PACKET_MAX = PUSH_IMMEDIATE_BYTES,
	CARD_MESSAGE_BYTES = PUSH_MSG_BYTES_MAX + RIO_TAIL_BYTES,
	CARD_MESSAGES = 16, /* to be sent at a time */
	CARD_RECEIVES_FEW = 4,
	CARD_RECEIVES_MORE = 256, /* besides one for each element */
	CARD_WRITES = 128,	  /* at a time, on a link */
	CARD_POOLS = 3,
	CARD_BATCH = 32,
	CARD_HALF_OPEN_MAX = 16,
	CARD_ENDS_MAX = CARD_PEERS_MAX + 2 * CARD_HALF_OPEN_MAX,
};

/* The kind of a work request, in the lowest bits of its id. */
enum { CARD_WORK_RECEIVE, CARD_WORK_MESSAGE, CARD_WORK_ACT, CARD_WORK_PACKET, CARD_WORK_BITS = 2 };

/* A frame from the port, or copied from one host for others. */
struct card_frame {
	uint8_t *bytes;	 /* CARD_PACKET_MAX, the virtio-net header first */
	uint32_t length; /* of both */
	uint32_t users;	 /* links that have not sent it yet */
	/* Its last bytes, if they are not copied yet, are in an element of a host. */
	const uint8_t *rest;
	uint32_t rest_length;
};

enum card_state {
	CARD_FREE = 0,
	CARD_CONNECTING,
	CARD_GREETING, /* connected; the peer is not authenticated yet */
	CARD_UP,       /* it is: the link says what is possible */
	CARD_DYING,    /* posted requests are flushed */
};

/* A packet that came by a link, and waits for the port. */
struct card_packet {
	const uint8_t *bytes;
	uint32_t length, pool, element;
};

struct card_pool {
	uint8_t *memory; /* stays until the end is over */
	uint32_t elements, element_bytes;
	bool is_closed; /* flushed: its elements are returned no more */
};

/* What this end has to say to its peer, one request at a time. */
enum card_word {
	CARD_SAY_MAC = 1 << 0,
	CARD_SAY_MTU = 1 << 1,
	CARD_SAY_FILTER = 1 << 2,
	CARD_SAY_LINK = 1 << 3,
	CARD_SAY_STATISTICS = 1 << 4, /* asks for what it has counted */
};

/* Lines for people, by what a peer does to cause them. */
enum card_line {
	CARD_LINE_REFUSED, /* it connects, and is not let in */
	CARD_LINE_LINK,	   /* its link begins, ends, or cannot be had */
	CARD_LINE_REQUEST, /* it asks, or answers */
	CARD_LINE_PORT,	   /* the port's link comes and goes */
	CARD_LINES
};

/* Channel 1 of Send mode. */
struct card_data {
	struct rdma_end rdma; /* its object is of kind RDMA_OTHER */
	struct weft_qp *qp;   /* NULL: there is none */
	uint8_t *buffers;     /* receives, of packet_bytes each */
	uint32_t packet_bytes, tag;
};

struct card_end {
	struct rdma_end rdma; /* its object is the context of events */
	struct card *card;
	enum card_state state;
	enum weft_reason reason; /* why it is dying */
	struct weft_qp *qp;
	struct weft_pd *pd; /* its own: its peer reaches no memory of others' */
	uint32_t frames_tag, buffers_tag;
	uint64_t deadline_ns; /* of the greeting; later: when the peer was heard last */
	struct rio_handshake handshake;
	uint32_t peer; /* index in the configuration, once it is UP */
	uint64_t since_ns;
	/* Receives, and messages to be sent: one piece of memory. */
	uint8_t *buffers;
	size_t buffers_bytes;
	uint32_t receive_count, posted_receives, posted_sends;
	uint32_t free_messages[CARD_MESSAGES], free_message_count;
	struct card_data data;
	/* Once it is UP. */
	struct push_link *link;
	uint8_t *messages; /* the link's */
	struct card_pool pools[CARD_POOLS];
	struct card_packet *waiting; /* a ring, with room for all elements */
	uint32_t waiting_first, waiting_count, element_count;
	uint32_t frames_held;	 /* buffers that its frames are in */
	uint64_t dropped_greedy; /* frames for it, as it held too many */
	uint64_t dropped_long;	 /* frames for it, beyond what both ends agreed on */
	uint32_t to_say;	 /* enum card_word */
	uint64_t counted_ns;	 /* when the peer told what it had counted; 0: it has not */
	struct push_statistics counted;
	bool is_starving; /* told: its peer has returned no element for long */
	/* To be posted together. */
	struct weft_send_wr queue[CARD_BATCH];
	struct weft_sge sges[CARD_BATCH];
	uint32_t queued;
	struct weft_qp *queue_qp; /* which of the two */
};

struct card {
	const struct card_file *file;
	struct card_options options;
	bool is_unit;
	struct lan_port *port;
	bool is_port_ready; /* frames may wait, or there may be room again */
	bool is_port_full;
	bool is_starved;   /* no buffer is free: frames stay in the port */
	bool is_ready;	   /* a descriptor was readable: not known yet which */
	uint32_t port_ask; /* frames that the port is asked for next */
	struct weft_adapter *adapter;
	struct weft_cq *cq;
	struct rdma_listener listener;
	bool is_listening;
	int epoll, wake;
	atomic_bool is_stopping;
	uint64_t now_ns, begin_ns;
	struct rio_spin spin;
	uint64_t busy_ns;	      /* the latest turn that had something to do */
	bool is_idle;		      /* there was nothing to do since */
	struct card_end *ends;	      /* CARD_ENDS_MAX */
	uint32_t ends_used;	      /* those from here on were never in use */
	uint64_t dial_ns, redial_ns;  /* host: when it dials again; what it waits then */
	enum weft_reason dial_reason; /* told last */
	/* Host: what the unit gave its port, and what that had before; 0: nothing yet. */
	uint32_t mtu_given, mtu_own;
	uint64_t cut_off_ns; /* until when links may end in order; else UINT64_MAX */
	uint8_t *frame_bytes;
	struct card_frame frames[CARD_FRAMES];
	uint32_t free_frames[CARD_FRAMES], free_frame_count;
	uint32_t used_frames; /* that links or the port are still to send */
	/* Unit: frames of hosts that the port had no room for. */
	uint32_t held[CARD_BATCH], held_count;
	struct push_lan *lan; /* unit: which host gets which frame */
	struct reporter *reporter;
	struct line_limit lines[CARD_LINES];
	struct {
		uint64_t dropped_busy;	  /* frames of the port that found no buffer */
		uint64_t dropped_foreign; /* of a host, that were not its own */
		uint64_t dropped_absent;  /* host: as no unit was connected */
		uint64_t refused;	  /* connections */
		uint64_t refused_requests;
		uint64_t untold; /* lines for people, that were too many */
	} counts;
};

/* ---- card.c --------------------------------------------------------------------------------- */

/* A line for people; a flood of one kind is cut short, and its length told. */
__attribute__((format(printf, 3, 4))) void card_tell(struct card *c, enum card_line line,
						     const char *form, ...);

/* Tells how many lines were left out, when their second is over; when the next one is. */
uint64_t card_lines_expire(struct card *c);

/* Whether frames that wait at the port keep it from sleeping; those that come always wake it. */
void card_port_watch(struct card *c, bool is_watched);

/* The port may have frames: the next turn looks for them, and not at its descriptor first. */
void card_port_expect(struct card *c);

/* Iterates over ends in use: NULL gives the first. */
struct card_end *card_end_next(struct card *c, struct card_end *end);

/* ---- card_end.c ----------------------------------------------------------------------------- */

void card_end_dial(struct card *c);
void card_end_accept(struct card *c, struct rdma_request *request);
void card_end_event(struct card_end *e, const struct weft_event *event);
void card_end_completed(struct card_end *e, const struct weft_completion *completion);

/* Pulls what the link has to say and to do, and posts it. True: there was something. */
bool card_end_work(struct card_end *e);

/* Ends the connection; its slot is free when all that was posted has completed. */
void card_end_hang_up(struct card_end *e, enum weft_reason reason);

/* Frees what is over. False: it is not, yet. */
bool card_end_reap(struct card_end *e);

/* Deadlines that have passed; when the next one is. */
uint64_t card_end_expire(struct card_end *e);

/* For people: the peer's name, or its address. */
const char *card_end_name(const struct card_end *e, char text[WEFT_ADDRESS_TEXT]);

/* The longest packet, with its header. */
uint32_t card_packet_bytes(const struct card *c);

static inline bool card_is_send_mode(const struct card *c)
{
	return c->file->config->mode == PUSH_MODE_SEND;
}

/* The peer is known: makes the link, and opens the pools. */
enum weft_reason card_end_link_make(struct card_end *e);

/* The buffer of a message to be sent. */
static inline uint8_t *card_end_message(const struct card_end *e, uint32_t nth)
{
	return e->buffers + (size_t)nth * CARD_MESSAGE_BYTES;
}

/* ---- card_greet.c --------------------------------------------------------------------------- */

/* When a connection that begins, or goes on, now must have greeted. */
uint64_t card_greet_deadline(const struct card *c);

/* The connection is up. */
void card_greet_begin(struct card_end *e);

/* A message of the greeting came. After the last one the end is UP, with its link. */
enum weft_reason card_greet_take(struct card_end *e, const uint8_t *bytes, size_t length);

/* ---- card_data.c ---------------------------------------------------------------------------- */

/* Host: dials channel 1 of an end that has greeted. */
void card_data_dial(struct card_end *e);

/* Unit: true if the request was for channel 1 of an end, and is answered. */
bool card_data_accept(struct card *c, struct rdma_request *request);
void card_data_event(struct card_end *e, const struct weft_event *event);

/* A Send is in the receive of this number. */
void card_data_came(struct card_end *e, uint32_t nth, const struct weft_completion *c);

/* The queue pair fails; and, once nothing is posted any more, goes. */
void card_data_close(struct card_end *e);
void card_data_free(struct card_end *e);

/* ---- card_frames.c -------------------------------------------------------------------------- */

bool card_frames_open(struct card *c);
void card_frames_close(struct card *c);

/* The link has sent the frame. */
void card_frame_sent(struct card_end *e, uint64_t cookie);

/* Takes what the port has, for the links that want it. True: there was something. */
bool card_port_take(struct card *c);

/* A packet came by the link: it waits for the port, and is returned then. */
void card_packet_came(struct card_end *e, const struct push_event *event);

/* The port may have room again: what it had no room for goes first. */
void card_port_has_room(struct card *c);

/* Gives the port what waits for it. True: it took some. */
bool card_packets_give(struct card_end *e);

/* ---- card_control.c ------------------------------------------------------------------------- */

/* What this end says of itself. */
void card_hello(const struct card *c, struct push_hello *hello);

/* The link is open. */
void card_opened(struct card_end *e);
void card_asked(struct card_end *e, const struct push_cfg *cfg);
void card_answered(struct card_end *e, const struct push_cfg *cfg);

/* The end of a link that was open. */
void card_closed(struct card_end *e);

/* The port's properties may have changed: says so to the peers that it concerns. */
void card_port_news(struct card *c);

/* Says what is to be said, if the link is not waiting for an answer. */
void card_say(struct card_end *e);

/* ---- card_report.c -------------------------------------------------------------------------- */

char *card_report(void *card, size_t *length);
