/* SPDX-License-Identifier: BSD-2-Clause */
/* Which PSNs a genuine peer can be at. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ib_conn;
struct iba_packet;
struct responder;

/* Whether a genuine peer can have sent a request this far ahead; if so, notes it. */
bool rc_genuine_early(struct responder *r, uint64_t now_ns, uint32_t psn);

/* Whether a genuine peer can be at the PSN of the NAK, which is in flight. */
bool rc_genuine_nak(struct ib_conn *c, const struct iba_packet *p);
