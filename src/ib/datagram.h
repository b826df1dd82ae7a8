/* SPDX-License-Identifier: BSD-2-Clause */
/* The unacknowledged services, UC and UD, and what raw datagrams share with them. */
#pragma once

#include "ib/ib.h"

enum weft_reason uc_recv(struct ib_conn *c, const struct iba_packet *p);
enum weft_reason ud_recv(struct ib_conn *c, const struct iba_packet *p, const struct ib_in *in);

/* Whether there is a receive for so many bytes; completes it with the result. */
enum weft_reason datagram_check(struct ib_conn *c, uint64_t bytes);
enum weft_reason datagram_end(struct ib_conn *c, struct weft_completion *completion,
			      enum weft_reason r, bool is_solicited);

bool uc_next(struct ib_conn *c, uint64_t now_ns, struct ib_out *out);
bool ud_next(struct ib_conn *c, struct ib_out *out);

/* False: the address handle of the datagram was destroyed. */
bool ud_has_path(const struct ib_conn *c, const struct send_wqe *wqe);

/* UC and UD: a packet of the oldest request was sent; the request cannot be sent any more. */
void uc_sent(struct ib_conn *c);
void uc_gone(struct ib_conn *c, enum weft_reason reason);
