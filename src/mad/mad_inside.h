/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of this room. */
#pragma once

#include "mad/mad_port.h"
#include "wire/rmpp.h"

enum {
	MAD_CONTROLS_MAX =
		64, /* acknowledgements that wait; the peer asks for those that are lost */
	MAD_RECEIVES_MAX = 1024,
	MAD_RECEIVE_BYTES_MAX = 2 * MAD_MESSAGE_MAX, /* of all that are coming in */
	MAD_WINDOW = 64, /* segments that a peer may send without an acknowledgement */
	MAD_RMPP_RETRIES_MIN = 3
};

/* IBA 13.6.3 leaves them to the ends, until path records say how long packets live. */
static const uint64_t mad_ack_ns = UINT64_C(500000000);
static const uint64_t mad_silence_ns = UINT64_C(10000000000);

struct mad_agent {
	bool is_used;
	uint8_t qpn;
	uint32_t tid_high; /* different at every time that an agent is added; not 0 */
	struct mad_agent_attr attr;
};

enum mad_send_state {
	MAD_SEND_READY,	  /* on the list of those that have something to send */
	MAD_SEND_WAITING, /* for an answer, or an acknowledgement */
};

struct mad_send {
	struct list link;
	enum mad_send_state state;
	uint32_t agent;
	struct mad_address address;
	struct mad mad;	  /* the header as it is sent */
	uint64_t own_tid; /* as the agent gave it */
	uint64_t timeout_ns, due_ns;
	uint32_t retries_left, retries;
	uint32_t length;
	uint8_t *bytes;
	/* RMPP: 0 segments if it is none. */
	uint32_t segments, next, acked, window;
};

/* Segments of a message that come in. */
struct mad_receive {
	struct list link;
	struct mad_address address;
	struct mad mad;
	uint32_t agent;
	uint32_t expected; /* the next segment */
	uint32_t window;   /* the last that the peer may send */
	bool is_complete;  /* stays for a while, as the last acknowledgement may be lost */
	bool has_asked;	   /* for the segment that is missing */
	uint64_t due_ns;
	uint32_t length, room;
	uint8_t *bytes;
};

struct mad_port {
	struct mad_agent agents[MAD_AGENTS_MAX];
	uint32_t tid_high;	    /* of the last one */
	struct list ready, waiting; /* struct mad_send */
	uint32_t send_count;
	struct list receives; /* struct mad_receive */
	uint32_t receive_count;
	uint64_t receive_bytes; /* their rooms */
	struct list messages;
	struct mad_datagram controls[MAD_CONTROLS_MAX];
	uint32_t control_first, control_count;
};

/* mad_port.c */

/* NULL: there is none. */
struct mad_agent *mad_agent_at(struct mad_port *p, uint32_t agent);

/* For the owner of the agent. The bytes become the message's; NULL: no memory for them. */
void mad_deliver(struct mad_port *p, const struct mad_message *m);
void mad_deliver_copy(struct mad_port *p, struct mad_message m, const uint8_t *bytes);

/* mad_send.c */

/* The request that a response answers; NULL: none waits for it. */
struct mad_send *mad_send_of(struct mad_port *p, uint32_t agent, const struct mad *m, uint16_t lid);
void mad_send_end(struct mad_port *p, struct mad_send *s);

/* It had no answer. */
void mad_send_fail(struct mad_port *p, struct mad_send *s);
void mad_send_wait(struct mad_port *p, struct mad_send *s, uint64_t due_ns);
void mad_send_make_ready(struct mad_port *p, struct mad_send *s);

/* mad_rmpp.c */

uint32_t mad_segments_of(uint8_t mgmt_class, uint32_t length);
void mad_segment_next(struct mad_port *p, struct mad_send *s, uint64_t now_ns,
		      uint8_t bytes[MAD_BYTES]);

/* A datagram with an active RMPP header, for an agent that leaves RMPP to us. */
bool mad_rmpp_recv(struct mad_port *p, uint64_t now_ns, uint32_t agent,
		   const struct mad_datagram *d);

/* An acknowledgement, or the early end of a transfer of ours. False: of none of ours. */
bool mad_rmpp_answer(struct mad_port *p, uint64_t now_ns, const struct mad_datagram *d);
void mad_receive_end(struct mad_port *p, struct mad_receive *v);
