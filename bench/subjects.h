/* SPDX-License-Identifier: BSD-2-Clause */
/* What is measured: the subjects of each file, in the order of the table. */
#pragma once

#include "measure.h"

enum { MEM_SUBJECTS = 6, VERBS_SUBJECTS = 4 };

/* mem_subjects.c: the memory table alone, without lock and adapter. */
extern const struct subject mem_subjects[MEM_SUBJECTS];

/* verbs_subjects.c: public calls. */
extern const struct subject verbs_subjects[VERBS_SUBJECTS];

/*
 * The bytes that a memory table allocates for one more tag, as the allocator counts them; 0 when it
 * does not count.
 */
double mem_bytes_per_tag(void);
