/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loopback transport (QP-15): queue pairs of one adapter talk to each other, in all four kinds
 * of service. Requests are carried out whole, one at a time, in the order of their send queue. It
 * has no wire, so it is the reference of what every operation means.
 */
#pragma once

#include "verbs/verbs.h"

extern const struct transport loopback_transport;
