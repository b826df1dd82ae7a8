/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port with one queue pair, and a peer that is the test itself: it says what packets arrive, and
 * looks at those that go out. Time stands still unless the test moves it.
 */
#pragma once

#include "ib/ib.h"
#include "test.h"
#include "wire/iba_aeth.h"
#include "wire/iba_icrc.h"
#include "wire/iba_psn.h"

enum {
	BED_BYTES = 64 * 1024,
	BED_OUT_MAX = 512,
	IPV4_ID = 0x2b71, /* of what goes out */
	PEER_QP = 0x4242,
	PSN_OURS = 0xfffffe, /* wraps soon */
	PSN_PEERS = 0xfffffd
};

/* A packet that went out; payload is a copy. */
struct bed_packet {
	struct iba_packet p;
	struct ib_path path;
	uint8_t ecn;
	struct iba_grh grh; /* of a frame that has one */
	uint8_t payload[IBA_PAYLOAD_MAX];
};

struct ib_bed {
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct ib_port *port;
	struct ib_conn *conn;
	uint8_t *memory, *shadow;
	uint32_t tag; /* of all of it, with all rights */
	uint64_t now_ns;
	struct ib_config config;
	struct bed_packet *out; /* BED_OUT_MAX */
	uint32_t out_first, out_count;
	uint32_t posted, completed;
	bool is_held;  /* nothing is taken from the port */
	bool is_batch; /* packets come together: nothing else happens before bed_run() */
	struct weft_completion completion; /* the latest of bed_completed() */
	bool is_one_by_one;	 /* packets of a message never go together (ib_port_send_more()) */
	uint32_t taken_together; /* such packets */
	uint32_t run_bytes;	 /* payload of a run, IBA_PAYLOAD_MAX at most; 0: no runs go out */
	/* Of on-demand regions: how often the port asked, and how much at once and in all. */
	uint32_t asked;
	uint64_t asked_bytes, asked_most;
};

/* NULL: RC, MTU 256, two Reads each way, seven retries. The second is in RTR. */
struct ib_bed *bed_open(const struct ib_config *config, enum weft_qp_service service);
struct ib_bed *bed_open_receiving(const struct ib_config *config, enum weft_qp_service service);
struct ib_config bed_config(void);

/* An XRC queue pair in RTS; 0: it is no target. */
struct ib_bed *bed_open_xrc(uint32_t domain);
void bed_close(struct ib_bed *b);

/* The queue pair goes to RESET, and the connection with it. */
void bed_reset(struct ib_bed *b);

/* Lets everything move. */
void bed_run(struct ib_bed *b);
void bed_wait(struct ib_bed *b, uint64_t ns);

/* A packet of the peer to the queue pair: fills in the rest, and gives what became of it. */
enum weft_reason bed_put(struct ib_bed *b, struct iba_packet p, const void *payload,
			 uint32_t bytes);

/* The same, with all as it is, and changes made to its bytes (NULL: none) before it arrives. */
struct bed_way {
	struct inet_end from;
	void (*change)(uint8_t *bytes, size_t *length);
	bool is_ipv4_hidden;
	uint16_t ipv4_id, other_id; /* the ICRC is of the second, unless that is 0 */
	const struct inet_end *to;  /* NULL: the queue pair's */
	uint8_t ecn;
};
enum weft_reason bed_put_by(struct ib_bed *b, const struct bed_way *way, struct iba_packet p,
			    const void *payload, uint32_t bytes);

/* Some packets of the peer. */
struct iba_packet peer_op(enum iba_op op, uint32_t psn);
struct iba_packet peer_reth(struct ib_bed *b, enum iba_op op, uint32_t psn, uint64_t offset,
			    uint32_t bytes);
struct iba_packet peer_ack(uint8_t syndrome, uint32_t psn, uint32_t msn);

/* The next packet that went out; the test ends if there is none. */
struct bed_packet *bed_next(struct ib_bed *b);
struct bed_packet *bed_expect(struct ib_bed *b, enum iba_op op, uint32_t psn);
void bed_expect_ack(struct ib_bed *b, uint8_t type, uint32_t psn);
void bed_silent(struct ib_bed *b);

/* Work of the queue pair. */
void bed_post(struct ib_bed *b, struct weft_send_wr wr, uint64_t offset, uint32_t bytes);
void bed_recv(struct ib_bed *b, uint64_t id, uint64_t offset, uint32_t bytes);
void bed_completed(struct ib_bed *b, uint64_t id, enum weft_status status);
void bed_incomplete(struct ib_bed *b);

/* Memory is as it was when noted. */
void bed_note(struct ib_bed *b);
void bed_unchanged(struct ib_bed *b);
