/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * writer_sample URL SEED: what kill_test.py kills. It writes slots of 4 KiB for as long as its
 * standard input is open, eight at a time and each with one value in all its bytes, some with FUA,
 * and flushes in between. It says, a line each, before or as soon as it is so:
 *
 *	S SLOT VALUE	asked to write
 *	A SLOT VALUE	acknowledged, with FUA
 *	W SLOT VALUE	acknowledged, without
 *	B		asked to flush
 *	D		the flush was acknowledged
 *	L		the flush tells of lost writes
 *	end		all of it has ended
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/iscsi.h>

enum { SLOTS = 64, BYTES = 4096, DEPTH = 8, FLUSH_ONE_OF = 24 };

struct slot {
	unsigned char memory[BYTES];
	unsigned int number, value;
	bool is_busy, is_fua;
};

static struct slot slots[SLOTS];
static unsigned int under_way;
static unsigned long long drawn;

static unsigned int draw(unsigned int below)
{
	drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned int)(drawn >> 33) % below;
}

/* A line is out when the process is killed after it. */
static void say(const char *word, const struct slot *slot)
{
	if (slot)
		printf("%s %u %u\n", word, slot->number, slot->value);
	else
		printf("%s\n", word);
	fflush(stdout);
}

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

static void ask_to_write(struct weft_iscsi_session *s)
{
	struct slot *slot = &slots[draw(SLOTS)];
	const struct weft_sge sge = { .addr = (uintptr_t)slot->memory, .length = BYTES };
	struct weft_iscsi_request r = { .operation = WEFT_ISCSI_WRITE,
					.offset = (uint64_t)(slot - slots) * BYTES,
					.length = BYTES,
					.sges = &sge,
					.sge_count = 1,
					.context = slot };

	if (slot->is_busy)
		return;
	slot->value = slot->value % 255 + 1;
	slot->is_fua = r.is_fua = draw(2) != 0;
	slot->is_busy = true;
	memset(slot->memory, (int)slot->value, BYTES);
	say("S", slot);
	must(weft_iscsi_request_submit(s, &r), "submit");
	under_way++;
}

static void take_what_ended(struct weft_iscsi_session *s)
{
	struct weft_iscsi_result ended[DEPTH];
	unsigned int count;

	must(weft_iscsi_request_wait(s, UINT64_MAX, ended, DEPTH, &count), "wait");
	for (unsigned int i = 0; i < count; i++) {
		struct slot *slot = ended[i].context;

		must(ended[i].reason, "write");
		slot->is_busy = false;
		say(slot->is_fua ? "A" : "W", slot);
	}
	under_way -= count;
}

static void flush(struct weft_iscsi_session *s)
{
	const struct weft_iscsi_request r = { .operation = WEFT_ISCSI_FLUSH };
	enum weft_reason reason;

	say("B", NULL);
	reason = weft_iscsi_request_do(s, &r, NULL);
	if (reason != WEFT_R_ISCSI_WRITES_LOST)
		must(reason, "flush");
	say(reason == WEFT_OK ? "D" : "L", NULL);
}

static bool is_told_to_go_on(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int main(int argc, char **argv)
{
	char why[WEFT_ISCSI_WHY_MAX] = "";
	const struct weft_iscsi_options options = { .why = why };
	struct weft_iscsi_session *s;

	if (argc != 3)
		return 2;
	drawn = strtoull(argv[2], NULL, 10);
	for (unsigned int i = 0; i < SLOTS; i++) {
		slots[i].number = i;
		slots[i].value = draw(255);
	}
	if (weft_iscsi_session_open(argv[1], &options, &s) != WEFT_OK) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	while (is_told_to_go_on()) {
		while (under_way < DEPTH)
			ask_to_write(s);
		if (draw(FLUSH_ONE_OF) == 0)
			flush(s);
		take_what_ended(s);
	}
	while (under_way > 0)
		take_what_ended(s);
	weft_iscsi_session_close(s);
	say("end", NULL);
	return 0;
}
