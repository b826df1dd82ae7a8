/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the connections of a part of a fabric; only its files include this.
 *
 *   fabric_trunks.c       connections: they come, go, and move bytes
 *   fabric_trunks_talk.c  what is said by them: the greeting, then messages of cables
 *   fabric_trunks_port.c  what parts tell each other of their ports, for names and addresses
 */
#pragma once

#include "base/line_limit.h"
#include "roles/fabric_trunks.h"

enum {
	TRUNK_GUESTS_MAX = 16, /* connections whose other end is not known yet */
	TRUNK_BUFFER_BYTES = TRUNK_LENGTH_BYTES + TRUNK_RECORD_MAX,
};

enum trunk_state {
	TRUNK_CONNECTING = 1,
	TRUNK_GREETING,
	TRUNK_KNOWN, /* it has proved its key; it must say hello */
	TRUNK_UP
};

struct trunk_line {
	struct trunk_line *next;
	enum trunk_state state;
	uint32_t part; /* FABRIC_PART_NONE: not known yet */
	int fd;
	bool awaits_room, is_over;
	uint64_t since_ns, deadline_ns; /* until it is UP */
	uint64_t heard_ns, said_ns;	/* UP: when bytes have come, a record was made */
	struct weft_address address;
	struct rio_handshake handshake;
	struct rio_session session;
	size_t in_bytes, out_at, out_end;
	uint8_t in[TRUNK_BUFFER_BYTES], out[TRUNK_BUFFER_BYTES];
};

/* What is known of a port that has an address. */
struct trunk_known {
	uint64_t serial;  /* 0: nothing */
	uint64_t pending; /* a bit for each part that is still to be told */
};

struct trunk_peer {
	uint32_t *cables, cable_count; /* that join it with this part */
	uint32_t first_cable;	       /* that has its turn first */
	bool is_dialled;
	bool has_news;		 /* of ports, for it */
	uint32_t news_at;	 /* the node that is looked at next */
	struct trunk_line *line; /* dialled, or known; NULL: none */
	uint64_t dial_ns, redial_ns;
	enum weft_reason told; /* why it cannot be reached */
};

enum trunk_word { TRUNK_SAY_REFUSED, TRUNK_SAY_PART, TRUNK_WORDS };

struct fabric_trunks {
	struct fabric_trunks_config config;
	int epoll, listener, spare;
	uint64_t now_ns;
	uint64_t taken_ns; /* what had come by then has been read */
	struct trunk_peer peers[FABRIC_PARTS_MAX];
	struct trunk_line *lines;
	struct line_limit limits[TRUNK_WORDS];
	uint32_t *first_port; /* of each node, in known */
	struct trunk_known *known;
};

/* ---- fabric_trunks.c ------------------------------------------------------------------------ */

/* Its end, at the next look; its cables go down at once. */
void trunk_line_end(struct fabric_trunks *t, struct trunk_line *l, enum weft_reason reason);

/* A record, that is to be sent. False: there is no room. */
bool trunk_line_put(struct trunk_line *l, const uint8_t *bytes, size_t length);

__attribute__((format(printf, 3, 4))) void trunk_say(struct fabric_trunks *t, enum trunk_word word,
						     const char *form, ...);

/* ---- fabric_trunks_talk.c ------------------------------------------------------------------- */

/* The connection is there: the greeting begins. */
void trunk_talk_begin(struct fabric_trunks *t, struct trunk_line *l);

/* A record that has come, without its length. */
enum weft_reason trunk_talk_take(struct fabric_trunks *t, struct trunk_line *l,
				 const uint8_t *bytes, size_t length);

/* A record of what cables have to say, in the line's empty buffer. False: there is nothing. */
bool trunk_talk_fill(struct fabric_trunks *t, struct trunk_line *l);

/* A record that says only that this part is there; there is room for it. */
void trunk_talk_alive(struct trunk_line *l);

/* How long a record may be now. */
size_t trunk_talk_max(const struct trunk_line *l);

/* ---- fabric_trunks_port.c ------------------------------------------------------------------- */

/* False: memory is short. */
bool trunk_ports_open(struct fabric_trunks *t);

/* A part is joined: it is told all that is known. */
void trunk_ports_joined(struct fabric_trunks *t, uint32_t part);

/* A message of a part about a port. */
enum weft_reason trunk_port_take(struct fabric_trunks *t, uint32_t part,
				 const struct trunk_message *m);

/* The next message for a part. False: there is none. */
bool trunk_port_next(struct fabric_trunks *t, uint32_t part, struct trunk_message *m);
