/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs of this folder share: one queue pair of weft with its memory, and waiting for
 * what happens to it. Whatever cannot be is told on standard output and ends the program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

enum {
	PEER_MESSAGE_MAX = (1 << 20) + 64,	  /* bytes */
	PEER_REGION_BYTES = 2 * PEER_MESSAGE_MAX, /* first half written by the peer, second read */
	PEER_RECVS_MAX = 16,
	PEER_ADVERT_BYTES = 16 /* in private data: address, tag, length, big-endian */
};

/* Memory with its tag. */
struct peer_memory {
	uint8_t *bytes;
	uint32_t tag;
};

struct peer {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_qp *qp;
	struct peer_memory region, local, recvs;
	uint32_t recv_bytes; /* of a receive; all have place for PEER_MESSAGE_MAX */
	bool is_bad;	     /* something was not as it should be */
};

/* Ends the program if a call was refused. */
void peer_must(enum weft_reason r, const char *what);

void peer_open(struct peer *p);

/* Takes everything down again; each step must succeed. */
void peer_close(struct peer *p);

/* Posts receive number slot again. */
void peer_recv_post(struct peer *p, uint64_t slot);

/* Dials, waits, and lets it settle: the reason for which it could not be, or WEFT_OK. */
enum weft_reason peer_dial(struct peer *p, const char *to,
			   const struct weft_connect_options *options);

/* Listens, says "listening", and waits for a request. */
struct weft_request *peer_listen(struct peer *p, const char *at);

/* Accepts, and waits: the reason for which it could not be, or WEFT_OK. */
enum weft_reason peer_accept(struct peer *p, struct weft_request *request,
			     const struct weft_connect_options *options);

/* Posts one request, signalled, and waits for its completion. False: none came in time. */
bool peer_do(struct peer *p, struct weft_send_wr *wr, struct weft_completion *done);

/* Waits for a receive's completion. False: the queue pair has failed, or none came in time. */
bool peer_await_recv(struct peer *p, struct weft_completion *done);

/* Waits until the connection has ended and prints why: "end REASON". */
void peer_await_end(struct peer *p);

/* Prints what has been agreed on. */
void peer_print_terms(struct peer *p);
