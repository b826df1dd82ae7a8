/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loopback transport (QP-15): connects queue pairs of one adapter to each other, in all four
 * services. Requests are executed completely, one at a time, in the order of their send queue. It
 * has no wire, so it is the reference for the semantics of every operation.
 */
#pragma once

#include "verbs/verbs.h"

extern const struct transport loopback_transport;
