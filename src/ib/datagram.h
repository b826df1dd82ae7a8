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

/* The path of a datagram; NULL: its address handle was destroyed. */
const struct ib_path *ud_path(struct ib_conn *c, const struct send_wqe *wqe, struct ib_out *out);

/* False: the address handle of the datagram was destroyed. */
bool ud_has_path(const struct ib_conn *c, const struct send_wqe *wqe);

/* The near_number of the next datagram; without one, that of the latest. */
uint32_t ud_near(const struct ib_conn *c);

/* The slot of the adapter that a queue pair belongs to: the highest bits of its number. */
static inline uint8_t adapter_slot_of(uint32_t number)
{
	enum { SLOT_SHIFT = 16 };

	return (uint8_t)(number >> SLOT_SHIFT);
}

/* The slot of the adapter that the next datagram goes to. */
uint8_t ud_near_slot(const struct ib_conn *c);

/* UC and UD: a packet of the oldest request was sent; the request cannot be sent any more. */
void uc_sent(struct ib_conn *c);
void uc_gone(struct ib_conn *c, enum weft_reason reason);
