/* SPDX-License-Identifier: BSD-2-Clause */
/* Worlds run from seeds: what is the same for every kind of world. */
#pragma once

#include "sim/kind.h"

/* None of these fails. */
void seeds_run_each(enum sim_kind_id id, const uint64_t *seeds, size_t count);

/* Nor does one from 1 to the count, or to what WEFT_SIM_SEEDS says. */
void seeds_run_many(enum sim_kind_id id, uint64_t count);

/* The same of large worlds: the count, or what WEFT_SIM_SEEDS says if that is less. */
void seeds_run_some(enum sim_kind_id id, uint64_t count);

/* A seed is one history, and another seed another. */
void seeds_compare(enum sim_kind_id id);
