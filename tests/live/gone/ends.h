/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected nodes: of two adapters, or of one. */
#pragma once

#include "live/verbs_fixture.h"

enum transport { OVER_TCP, OVER_UDP, IN_PROCESS };

void ends_open(enum transport transport, struct tcp_end *near, struct tcp_end *far);
void ends_close(enum transport transport, struct tcp_end *near, struct tcp_end *far);
