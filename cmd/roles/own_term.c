/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/roles/own_term.h"

#include <stdio.h>

#include "cmd/roles/term_file.h"
#include "driver/sys/clock.h"

void own_term_keep(const char *log, uint64_t term)
{
	if (log)
		term_file_keep("own", log, &(struct weft_rio_term){ .number = term });
}

uint64_t own_term_begin(const char *log)
{
	uint64_t kept = log ? term_file_read("own", log).number : 0;
	uint64_t term = time_of_day_ns();

	if (term <= kept)
		term = kept < UINT64_MAX ? kept + 1 : kept;
	if (kept == UINT64_MAX)
		fprintf(stderr,
			"weft own: the term in %s.term is the highest there is: of owners that "
			"have it, chance decides\n",
			log);
	own_term_keep(log, term);
	return term;
}
