/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One request on its way through the loopback transport: requester's checks, target's checks, then
 * the movement of bytes. Nothing is moved before every check has passed (LOC-06).
 */
#pragma once

#include "verbs/verbs.h"

struct request {
	struct weft_qp *qp;
	struct send_wqe *wqe;
	struct weft_qp *target; /* NULL: nobody is there */
	struct outcome out;	/* good, unless somebody says otherwise */
	struct mem_vec local;	/* the requester's memory, after request_open_local() */
};

/* LOC-02 on the requester's segments. False: the request has failed. */
bool request_open_local(struct request *req);

/* The message has nowhere to go: an error where acknowledgements are due, else silence (QP-11). */
void request_no_target(struct request *req);

void request_write(struct request *req);
void request_read(struct request *req);
void request_atomic(struct request *req);

/* These need a receive of the target. False: there is none yet, and the requester waits for it. */
bool request_write_imm(struct request *req);
bool request_send(struct request *req);
