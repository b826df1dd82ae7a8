/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs core: protection domains, completion queues, queue pairs and shared receive queues of
 * one adapter, the order of their work and its completions. Not here: how a request reaches another
 * adapter (the transports), locks, clocks and descriptors (the driver).
 */
#pragma once

#include "verbs/adapter.h"
#include "verbs/ah.h"
#include "verbs/cq.h"
#include "verbs/pd.h"
#include "verbs/qp.h"
#include "verbs/recv_queue.h"
