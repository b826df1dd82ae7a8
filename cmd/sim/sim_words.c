/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/sim/sim_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "cmd/trace/trace_words.h"
#include "sim/card/card_world.h"
#include "sim/cells/cells_world.h"
#include "sim/iscsi/iscsi_world.h"
#include "sim/rio/rio_world.h"
#include "sim/world/sim_trace.h"

void sim_words(const struct trace_event *e, char *text, size_t size)
{
	const char *name = sim_trace_name(e->kind);
	int n = snprintf(text, size, "%12.3f us  ", (double)e->time_ns / 1000);
	size_t used;

	if (n < 0 || (size_t)n >= size)
		return;
	if (name)
		snprintf(text + n, size - (size_t)n, "pipe %-5u %s: %" PRIu64 ", %" PRIu64, e->who,
			 name, e->a, e->b);
	else if (!rio_world_words(e, text + n, size - (size_t)n) &&
		 !iscsi_world_words(e, text + n, size - (size_t)n) &&
		 !card_world_words(e, text + n, size - (size_t)n) &&
		 !cells_world_words(e, text + n, size - (size_t)n))
		trace_words(e, text + n, size - (size_t)n);
	used = strlen(text);
	if (e->reason != WEFT_OK)
		snprintf(text + used, size - used, "  [%s, %s]",
			 weft_reason_name((enum weft_reason)e->reason),
			 weft_reason_requirement((enum weft_reason)e->reason));
}
