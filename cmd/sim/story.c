/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/sim/story.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/sim/sim_words.h"
#include "sim/iscsi/iscsi_world.h"
#include "sim/rio/rio_world.h"
#include "sim/world/sim_trace.h"

enum { LINES_MAX = 32, WORDS_BYTES = 256, BAR_MAX = 40 };

/* A world's own events: the first of each kind, and of each reason. */
static bool is_scenario_news(struct story *s, const struct trace_event *e)
{
	uint32_t kind = e->kind - (uint32_t)SIM_TRACE_SCENARIO;

	if (e->reason != WEFT_OK && e->reason < WEFT_REASON_COUNT)
		return s->seen[e->reason]++ == 0;
	return kind < STORY_KINDS && s->seen_kind[kind]++ == 0;
}

/* Whether the event shows a person something that was not shown before. */
static bool is_news(struct story *s, const struct trace_event *e)
{
	uint32_t op = (uint32_t)(e->b >> 8);

	if (s->is_over || s->line_count >= LINES_MAX)
		return false;
	if (e->kind >= SIM_TRACE_SCENARIO)
		return is_scenario_news(s, e);
	if (e->kind == TRACE_SEND_RETIRED && (e->b & 0xff) == WEFT_SUCCESS)
		return op < WEFT_OP_SEND_COUNT && s->seen_op[op]++ == 0;
	if (e->kind == TRACE_SEND_RETIRED || e->kind == TRACE_REFUSED || e->kind == TRACE_QP_STATE)
		return e->reason != WEFT_OK && e->reason < WEFT_REASON_COUNT &&
		       s->seen[e->reason]++ == 0;
	return false;
}

static void count(struct story *s, const struct trace_event *e)
{
	uint32_t op = (uint32_t)(e->b >> 8), status = (uint32_t)(e->b & 0xff);

	if (e->reason < WEFT_REASON_COUNT && e->reason != WEFT_OK && e->reason != WEFT_R_FLUSHED &&
	    (e->kind == TRACE_SEND_RETIRED || e->kind == TRACE_DROPPED ||
	     e->kind == RW_TRACE_ENDED || e->kind == ISW_TRACE_ENDED))
		s->refused[e->reason]++;
	s->is_drop = s->is_drop || e->kind == TRACE_DROPPED;
	if (e->kind != TRACE_SEND_RETIRED || op >= WEFT_OP_SEND_COUNT)
		return;
	s->dropped[op] += s->is_drop;
	s->good[op] += status == WEFT_SUCCESS && !s->is_drop;
	s->is_drop = false;
	s->flushed[op] += status == WEFT_ERR_FLUSHED;
	s->bad[op] += status != WEFT_SUCCESS && status != WEFT_ERR_FLUSHED;
}

void story_take(struct story *s, const struct trace_event *e)
{
	char text[WORDS_BYTES];

	count(s, e);
	if (!is_news(s, e))
		return;
	if (s->line_count++ == 0)
		printf("What happened first, of each kind:\n\n");
	sim_words(e, text, sizeof(text));
	printf("%s\n", text);
}

static void print_bar(uint64_t n, uint64_t most)
{
	uint64_t length = most > 0 ? (n * BAR_MAX + most - 1) / most : 0;

	for (uint64_t i = 0; i < length; i++)
		putchar('#');
	putchar('\n');
}

static void print_operations(const struct story *s)
{
	uint64_t sum = 0;

	for (uint32_t op = 0; op < WEFT_OP_SEND_COUNT; op++)
		sum += s->good[op] + s->dropped[op] + s->bad[op] + s->flushed[op];
	if (sum == 0)
		return; /* of a world without work requests */
	printf("\n%-22s %10s %10s %10s %10s\n", "operation", "done", "dropped", "refused",
	       "flushed");
	for (uint32_t op = 0; op < WEFT_OP_SEND_COUNT; op++)
		printf("%-22s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n",
		       weft_opcode_name((enum weft_opcode)op), s->good[op], s->dropped[op],
		       s->bad[op], s->flushed[op]);
}

void story_end(const struct story *s)
{
	uint64_t most = 0;

	print_operations(s);
	for (uint32_t r = 0; r < WEFT_REASON_COUNT; r++)
		most = s->refused[r] > most ? s->refused[r] : most;
	printf("\n%-22s %-10s %6s\n", "refused or failed", "rule", "times");
	for (uint32_t r = 0; r < WEFT_REASON_COUNT; r++) {
		if (s->refused[r] == 0)
			continue;
		printf("%-22s %-10s %6" PRIu64 " ", weft_reason_name((enum weft_reason)r),
		       weft_reason_requirement((enum weft_reason)r), s->refused[r]);
		print_bar(s->refused[r], most);
	}
	printf("\n`weft explain REASON` says more about any of them.\n\n");
}
