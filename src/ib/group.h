/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast: the groups that queue pairs of a port have joined. */
#pragma once

#include "ib/ib.h"

/* Delivers to every member. WEFT_OK: at least one took it; else the reason of the last. */
enum weft_reason group_recv(struct ib_port *port, const struct iba_packet *p,
			    const struct ib_in *in);

/* Leaves every group. */
void group_leave_all(struct ib_conn *c);
