/* SPDX-License-Identifier: BSD-2-Clause */
/* What the samples that seeing tests look at have in common: two adapters, and what they do. */
#pragma once

#include <weft/weft.h>

enum { MEMORY = 1 << 20, HALF = MEMORY / 2, LARGE = 200000, SMALL = 24 };

#define MUST(call) must((call), #call)

void must(enum weft_reason r, const char *what);

struct seeing_side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint8_t *memory;
	uint32_t tag;
	bool is_connected, has_failed;
	uint32_t completed, failed;
};

/* Gives it a queue pair, in INIT; opens the rest, with one. RoCE's need a place in the network. */
void side_qp(struct seeing_side *s);
void side_open(struct seeing_side *s, bool is_roce);
void side_poll(struct seeing_side *s);

/* Carries out a request, and what the other side receives for it. */
void carry(struct seeing_side *near, struct seeing_side *far, struct weft_send_wr *wr,
	   uint32_t receives);
void every_message(struct seeing_side *near, struct seeing_side *far);

/* The far side refuses a tag that was never given. */
void bad_write(struct seeing_side *near, struct seeing_side *far);

/* Says "ready PID", and stays until the input ends. */
void stay(struct seeing_side *near, struct seeing_side *far, bool is_polling, bool is_sending);
