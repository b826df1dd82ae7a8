/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two frame ports, joined: the plain baseline of a split card. Frames that a full port does not
 * take wait here, and meanwhile none are received from the other one.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/card/card.h"
#include "cmd/clock.h"
#include "cmd/options.h"
#include "driver/lan/lan.h"

enum { PORTS = 2, ROOM = LAN_FRAME_MAX + 1, NS_OF_S = 1000000000 };

/* A port, and frames that have come from it and wait for the other. */
struct side {
	const char *text;
	struct lan_port *port;
	uint32_t at, end;
	struct lan_frame frames[LAN_BATCH_MAX];
};

static volatile sig_atomic_t is_told_to_end;

static void on_signal(int number)
{
	(void)number;
	is_told_to_end = 1;
}

static bool side_open(struct side *s, const char *text)
{
	const struct lan_filters all = { .is_promiscuous = true };
	char why[LAN_WHY] = "";
	enum weft_reason r = lan_open(text, &s->port, why);

	if (r != WEFT_OK) {
		fprintf(stderr, "weft card: %s: %s (%s: %s)\n", text, why, weft_reason_name(r),
			weft_reason_text(r));
		return false;
	}
	s->text = text;
	/* Only some kinds choose what they receive. */
	(void)lan_set_filters(s->port, &all);
	for (int i = 0; i < LAN_BATCH_MAX; i++) {
		s->frames[i] = (struct lan_frame){ .bytes = malloc(ROOM), .room = ROOM };
		if (!s->frames[i].bytes)
			return false;
	}
	return true;
}

static void side_close(struct side *s)
{
	if (s->port)
		lan_close(s->port);
	for (int i = 0; i < LAN_BATCH_MAX; i++)
		free(s->frames[i].bytes);
}

static void say_way(const char *name, const struct lan_way *w)
{
	printf("  %-4s %" PRIu64 " frames, %" PRIu64 " bytes\n", name, w->frames, w->bytes);
	for (int r = 0; r < WEFT_REASON_COUNT; r++) {
		if (w->drops[r] > 0)
			printf("       %" PRIu64 " dropped: %s\n", w->drops[r],
			       weft_reason_name((enum weft_reason)r));
	}
}

static void say_counts(const struct side *sides)
{
	for (int i = 0; i < PORTS; i++) {
		const struct lan_properties *p = lan_properties(sides[i].port);

		printf("%s: link %s%s%s\n", sides[i].text, p->is_up ? "up" : "down",
		       p->is_up ? "" : ", ", p->is_up ? "" : weft_reason_name(p->why));
		say_way("in", &lan_counts(sides[i].port)->in);
		say_way("out", &lan_counts(sides[i].port)->out);
	}
	fflush(stdout);
}

static bool is_held(const struct side *s)
{
	return s->at < s->end;
}

/*
 * The link of an interface that we made is up when the other port has one. True: frames that are
 * held may go.
 */
static bool tell_news(struct side *from, struct side *to)
{
	uint32_t news = lan_news(from->port);
	const struct lan_properties *p = lan_properties(from->port);

	if (!(news & LAN_NEWS_LINK))
		return news & LAN_NEWS_ROOM && is_held(to);
	printf("%s: link %s%s%s\n", from->text, p->is_up ? "up" : "down", p->is_up ? "" : ", ",
	       p->is_up ? "" : weft_reason_name(p->why));
	fflush(stdout);
	(void)lan_set_link(to->port, p->is_up);
	return is_held(to);
}

/* As many batches as one turn has; then the other side has its own. True: there may be more. */
static bool pass(struct side *from, struct side *to)
{
	enum { BATCHES = 8 };

	for (int i = 0; i < BATCHES; i++) {
		if (from->at == from->end) {
			from->at = 0;
			from->end = lan_receive(from->port, from->frames, LAN_BATCH_MAX);
		}
		if (from->at == from->end)
			return false;
		from->at += lan_send(to->port, from->frames + from->at, from->end - from->at);
		if (from->at < from->end)
			return false;
	}
	return true;
}

/* Sleeps until either port has something to do, a signal comes, or the time is over. */
static void sleep_on(const struct side *sides, const struct timespec *wait)
{
	/* While one is full, what comes from the other would wake us for nothing. */
	struct pollfd p[PORTS] = {
		{ is_held(&sides[0]) ? -1 : lan_descriptor(sides[0].port), POLLIN, 0 },
		{ is_held(&sides[1]) ? -1 : lan_descriptor(sides[1].port), POLLIN, 0 },
	};
	sigset_t open;

	/* Both are full: either may have room. */
	if (p[0].fd < 0 && p[1].fd < 0) {
		p[0].fd = lan_descriptor(sides[0].port);
		p[1].fd = lan_descriptor(sides[1].port);
	}
	sigemptyset(&open);
	(void)ppoll(p, PORTS, wait, &open);
}

static void run(struct side *sides, uint64_t every_ns)
{
	uint64_t next_ns = clock_ns() + every_ns;
	bool has_more = false;

	while (!is_told_to_end) {
		uint64_t now = clock_ns(), left = now < next_ns ? next_ns - now : 0;
		struct timespec wait = { (time_t)(left / NS_OF_S), (long)(left % NS_OF_S) };

		if (has_more)
			wait = (struct timespec){ 0 };
		sleep_on(sides, has_more || every_ns > 0 ? &wait : NULL);
		has_more = false;
		for (int i = 0; i < PORTS; i++) {
			struct side *from = &sides[i], *to = &sides[1 - i];

			if (is_held(from))
				(void)lan_receive(from->port, from->frames, 0);
			has_more |= pass(from, to);
			has_more |= tell_news(from, to);
		}
		if (every_ns > 0 && clock_ns() >= next_ns) {
			say_counts(sides);
			next_ns = clock_ns() + every_ns;
		}
	}
}

static bool catch_signals(void)
{
	const struct sigaction end = { .sa_handler = on_signal };
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	return sigprocmask(SIG_BLOCK, &blocked, NULL) == 0 && sigaction(SIGINT, &end, NULL) == 0 &&
	       sigaction(SIGTERM, &end, NULL) == 0;
}

int card_bridge(int argc, char **argv)
{
	uint64_t every_ns = 0;
	const struct cmd_option options[] = {
		{ .name = "every", .read = quantity_time, .to = &every_ns },
		{ 0 },
	};
	struct side *sides;
	int status = 2;
	bool is_open;

	if (!cmd_options_take(argc, argv, options, card_help, &status))
		return status;
	if (argc - optind != PORTS)
		return cmd_options_wrong(card_help);
	sides = calloc(PORTS, sizeof(*sides));
	if (!sides)
		return 1;
	is_open = catch_signals() && side_open(&sides[0], argv[optind]) &&
		  side_open(&sides[1], argv[optind + 1]);
	if (is_open) {
		printf("weft card joins %s and %s\n", sides[0].text, sides[1].text);
		fflush(stdout);
		(void)lan_set_link(sides[0].port, lan_properties(sides[1].port)->is_up);
		(void)lan_set_link(sides[1].port, lan_properties(sides[0].port)->is_up);
		run(sides, every_ns);
		say_counts(sides);
	}
	for (int i = 0; i < PORTS; i++)
		side_close(&sides[i]);
	free(sides);
	return is_open ? 0 : 1;
}
