/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request in the loopback transport: the requester's checks, the target's checks, then the data
 * transfer. No byte is moved before every check has passed (LOC-06).
 */
#pragma once

#include "verbs/verbs.h"

struct request {
	struct weft_qp *qp;
	struct send_wqe *wqe;
	struct weft_qp *target; /* NULL: no such queue pair */
	struct outcome out;	/* success, unless a check sets another outcome */
	struct mem_vec local;	/* the requester's memory, after request_open_local() */
};

/* The checks of LOC-02 on the requester's segments. False: the request has failed. */
bool request_open_local(struct request *req);

/* There is no target: fails a request of an acknowledged service, else drops it (QP-11). */
void request_no_target(struct request *req);

void request_write(struct request *req);
void request_read(struct request *req);
void request_atomic(struct request *req);

/* These consume a receive of the target. False: none is posted, and the requester waits for one. */
bool request_write_imm(struct request *req);
bool request_send(struct request *req);
