/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs whose tests run once for each seed: WEFT_SEEDS=FIRST:COUNT, or seeds_count from 1 on. */
#pragma once

#include "test.h"

/* Of the run that is going on. */
extern uint64_t seed;

/* Seeds that failed once, of each program: without WEFT_SEEDS they run, too. */
extern const uint64_t failed_once[];
extern const uint64_t failed_once_count;
extern const uint64_t seeds_count;
