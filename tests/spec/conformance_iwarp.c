/* SPDX-License-Identifier: BSD-2-Clause */
/* The conformance suite over iWARP on real sockets of the loopback interface. */
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "conformance.h"

enum {
	SETTLED_ROUNDS = 40, /* of which some ask about every socket */
	FILES_MAX = 8192     /* what the largest case needs, and some more */
};

/* Bytes that stay unread for so long wait for a receive, or belong to a stream that has ended. */
static const uint64_t still_ns = 3 * 1000 * 1000;

/* A connection has a descriptor at each end, and there may be thousands. */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_MAX)
		return;
	limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void iwarp_open(struct pair *p)
{
	const struct weft_adapter_options options = {
		.tags_max = p->options.tags_max ? p->options.tags_max : PAIR_TAGS_MAX,
		.translations_max = p->options.translations_max ? p->options.translations_max
								: PAIR_TRANSLATIONS_MAX,
		.policy = p->options.policy,
	};

	allow_files();
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_open(&options, &p->ends[i].adapter));
}

static void iwarp_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_close(p->ends[i].adapter));
}

static void iwarp_progress(struct pair *p)
{
	uint32_t count;

	for (int i = 0; i < 2; i++)
		MUST(weft_cq_poll(p->ends[i].send_cq, NULL, 0, &count));
}

static void iwarp_connect(struct pair *p)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	const struct weft_connect_options near = { .near = 1 }; /* unless WEFT_NEAR is off */
	struct weft_listener *listener;
	struct weft_request *request = NULL;

	MUST(weft_listener_open(b->adapter, &at, NULL, &listener));
	MUST(weft_listener_address(listener, &at));
	MUST(weft_qp_dial(a->qp, &at, &near));
	end_event(b, WEFT_EVENT_REQUEST, weft_listener_number(listener));
	MUST(weft_listener_next(listener, &request));
	REQUIRE(request);
	MUST(weft_request_accept(request, b->qp, &near));
	for (int i = 0; i < 2; i++)
		end_event(&p->ends[i], WEFT_EVENT_CONNECTED, weft_qp_number(p->ends[i].qp));
	MUST(weft_listener_close(listener));
}

static uint64_t iwarp_now_ns(const struct pair *p)
{
	struct timespec ts;

	(void)p;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Bytes of the stream that each end has sent, and has received. */
struct flow {
	uint64_t out[2], in[2];
};

static struct flow flow_of(const struct pair *p)
{
	struct flow f = { .out = { 0 } };

	for (int i = 0; i < 2; i++) {
		struct weft_traffic t;

		if (p->ends[i].qp && weft_qp_traffic(p->ends[i].qp, &t) == WEFT_OK) {
			f.out[i] = t.bytes_out;
			f.in[i] = t.bytes_in;
		}
	}
	return f;
}

/* What went out has come in, for some rounds; or nothing moves any more. */
static void iwarp_settle(struct pair *p)
{
	struct flow was = { .out = { 0 } };
	uint64_t since = iwarp_now_ns(p);

	for (int rounds = 0; rounds < SETTLED_ROUNDS; rounds++) {
		struct flow now;

		iwarp_progress(p);
		now = flow_of(p);
		if (memcmp(&now, &was, sizeof(now)) != 0) {
			was = now;
			since = iwarp_now_ns(p);
			rounds = 0;
		} else if ((now.out[0] != now.in[1] || now.out[1] != now.in[0]) &&
			   iwarp_now_ns(p) - since < still_ns) {
			rounds = 0;
		}
	}
}

const struct pair_maker pair_maker = {
	.name = "iwarp",
	.abilities = PAIR_ATOMICS | PAIR_NAMES_REASON,
	.services = 1U << WEFT_RC,
	.open = iwarp_open,
	.close = iwarp_close,
	.connect = iwarp_connect,
	.progress = iwarp_progress,
	.settle = iwarp_settle,
	.now_ns = iwarp_now_ns,
};
