/* SPDX-License-Identifier: BSD-2-Clause */
/* Injects faults into packets between the sockets and the core; used only if WEFT_FAULTS asks. */
#pragma once

#include "driver/roce/roce.h"

/* Sets up the packet faults that WEFT_FAULTS asks for, if any. */
enum weft_reason roce_faults_open(struct roce *roce);

/* Called instead of roce_take() and roce_send(). */
void roce_faults_take(struct roce *roce, const struct ib_in *in);
bool roce_faults_send(struct roce *roce, struct udp_batch *batch);

/* When delayed packets are due; delivers or sends them. */
uint64_t roce_faults_due(const struct roce *roce);
void roce_faults_expire(struct roce *roce, uint64_t now_ns);
