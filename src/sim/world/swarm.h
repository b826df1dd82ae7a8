/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Swarm testing: every run has its own mix of faults. If every run had all faults, strong ones
 * would mask what weak ones find. So each is on or off, and runs with few and with many are equally
 * likely.
 */
#pragma once

#include "sim/world/fault.h"

void sim_faults_draw(struct prng *p, struct sim_faults *faults);
