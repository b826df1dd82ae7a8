/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two adapters of one process with queue pairs between them, by shared memory. The same thread
 * posts and polls at both ends, so that no other processor is needed.
 */
#include "many_goals.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <weft/roce.h>
#include <weft/weft.h>

#include "idle_connections.h"

enum { MANY = 1000, BATCH = 64, BYTES = 64, MESSAGES = 100000, ROUNDS = 5, IDLE = 20000 };

static const double idle_goal = 24000, many_goal = 1.1, threads_goal = 1.7;

struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp **qps;
};

/* Queue pair n of one side is connected to queue pair n of the other. */
struct pairs {
	struct side sides[2];
	uint32_t count;
	uint32_t each; /* messages over a queue pair before the next one has its turn */
	uint32_t at;
	bool has_failed;
};

static double clock_s(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static bool adapter_open(struct weft_adapter **a)
{
	const struct weft_adapter_options options = { .qps_max = UINT16_MAX };

	return weft_adapter_open(&options, a) == WEFT_OK && weft_roce_open(*a) == WEFT_OK;
}

static bool side_open(struct side *s, uint32_t count)
{
	const struct weft_cq_options cq = { .entries_max = 4 * BATCH };
	struct weft_qp_options qp = { .send_cq = NULL };

	s->qps = calloc(count, sizeof(struct weft_qp *));
	if (!s->qps || weft_pd_create(s->adapter, NULL, &s->pd) != WEFT_OK ||
	    weft_cq_create(s->adapter, &cq, &s->cq) != WEFT_OK)
		return false;
	qp.send_cq = qp.recv_cq = s->cq;
	for (uint32_t i = 0; i < count; i++) {
		if (weft_qp_create(s->pd, &qp, &s->qps[i]) != WEFT_OK)
			return false;
	}
	return true;
}

static bool connect_to(struct weft_qp *qp, const struct weft_qp *peer)
{
	const struct weft_address here = { .family = 4, .ip = { 127, 0, 0, 1 } };
	const struct weft_roce_attr way = {
		.path = { .from = here, .to = here, .mtu_bytes = 1024 },
		.peer_number = weft_qp_number(peer),
		.reads_in = 1,
		.reads_out = 1,
		.timeout_code = 18,
		.retries = 7,
		.rnr_retries = 7,
	};

	return weft_qp_to_rtr(qp, &way) == WEFT_OK && weft_qp_to_rts(qp, &way) == WEFT_OK;
}

/* The adapters are open. */
static bool pairs_open(struct pairs *p, uint32_t count, uint32_t each)
{
	p->count = count;
	p->each = each;
	for (int i = 0; i < 2; i++) {
		if (!side_open(&p->sides[i], count))
			return false;
	}
	for (uint32_t n = 0; n < count; n++) {
		for (int i = 0; i < 2; i++) {
			if (!connect_to(p->sides[i].qps[n], p->sides[1 - i].qps[n]))
				return false;
		}
	}
	return true;
}

static void pairs_close(struct pairs *p)
{
	for (int i = 0; i < 2; i++) {
		struct side *s = &p->sides[i];

		for (uint32_t n = 0; s->qps && n < p->count; n++) {
			if (s->qps[n])
				(void)weft_qp_destroy(s->qps[n]);
		}
		if (s->cq)
			(void)weft_cq_destroy(s->cq);
		if (s->pd)
			(void)weft_pd_destroy(s->pd);
		free(s->qps);
	}
}

static bool adapters_open(struct pairs *p)
{
	return adapter_open(&p->sides[0].adapter) && adapter_open(&p->sides[1].adapter);
}

static void adapters_close(struct pairs *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->sides[i].adapter)
			(void)weft_adapter_close(p->sides[i].adapter);
	}
}

/* ---- Messages ------------------------------------------------------------------------------- */

static bool post(struct pairs *p, uint32_t n)
{
	static uint8_t payload[BYTES];
	const struct weft_sge sge = { .addr = (uintptr_t)payload, .length = BYTES };
	const struct weft_recv_wr recv = { .id = 1 };
	/* Inline, and received without data: memory is not the subject. */
	struct weft_send_wr send = {
		.id = 1, .opcode = WEFT_OP_SEND, .flags = WEFT_SIGNALLED | WEFT_INLINE, .sges = &sge
	};

	return weft_qp_post_recv(p->sides[1].qps[n], &recv, 1, NULL) == WEFT_OK &&
	       weft_qp_post_send(p->sides[0].qps[n], &send, 1, NULL) == WEFT_OK;
}

/* Until so many have ended at both sides. */
static bool finish(struct pairs *p, uint32_t count)
{
	uint32_t left[2] = { count, count };

	while (left[0] > 0 || left[1] > 0) {
		for (int i = 0; i < 2; i++) {
			struct weft_completion c[BATCH];
			uint32_t found = 0;

			if (weft_cq_poll(p->sides[i].cq, c, BATCH, &found) != WEFT_OK)
				return false;
			for (uint32_t k = 0; k < found; k++) {
				if (c[k].status != WEFT_SUCCESS)
					return false;
			}
			left[i] -= found;
		}
	}
	return true;
}

static void *run(void *context)
{
	struct pairs *p = context;

	for (uint32_t i = 0; i < MESSAGES && !p->has_failed; i += BATCH) {
		for (uint32_t k = 0; k < BATCH; k++)
			p->has_failed |= !post(p, p->at++ / p->each % p->count);
		p->has_failed |= !finish(p, BATCH);
	}
	return NULL;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double values[ROUNDS])
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

/* Processor time over the many, as a multiple of that over one; 0: it failed. */
static double cost_ratio(uint32_t count, uint32_t each)
{
	struct pairs one = { .count = 0 }, many = { .count = 0 };
	double ratios[ROUNDS], value = 0;

	if (adapters_open(&one) && adapters_open(&many) && pairs_open(&one, 1, 1) &&
	    pairs_open(&many, count, each)) {
		for (int i = 0; i < ROUNDS; i++) {
			double begin = clock_s(CLOCK_PROCESS_CPUTIME_ID), middle;

			(void)run(&one);
			middle = clock_s(CLOCK_PROCESS_CPUTIME_ID);
			(void)run(&many);
			ratios[i] = (clock_s(CLOCK_PROCESS_CPUTIME_ID) - middle) / (middle - begin);
		}
		value = one.has_failed || many.has_failed ? 0 : median(ratios);
	}
	pairs_close(&one);
	pairs_close(&many);
	adapters_close(&one);
	adapters_close(&many);
	return value;
}

static double time_of(struct pairs *p, int threads)
{
	double begin = clock_s(CLOCK_MONOTONIC);
	pthread_t thread;

	if (threads > 1 && pthread_create(&thread, NULL, run, &p[1]) != 0)
		p[0].has_failed = true;
	else
		(void)run(&p[0]);
	if (threads > 1 && !p[0].has_failed)
		pthread_join(thread, NULL);
	return clock_s(CLOCK_MONOTONIC) - begin;
}

/* Messages of two threads, as a multiple of those of one. is_shared: with the same adapters. */
static double threads_ratio(bool is_shared)
{
	struct pairs p[2] = { { .count = 0 }, { .count = 0 } };
	double ratios[ROUNDS], value = 0;
	bool is_open = adapters_open(&p[0]) && (is_shared || adapters_open(&p[1]));

	for (int i = 0; is_shared && i < 2; i++)
		p[1].sides[i].adapter = p[0].sides[i].adapter;
	if (is_open && pairs_open(&p[0], 1, 1) && pairs_open(&p[1], 1, 1)) {
		for (int i = 0; i < ROUNDS; i++) {
			double one = time_of(p, 1);

			ratios[i] = 2 * one / time_of(p, 2);
		}
		value = p[0].has_failed || p[1].has_failed ? 0 : median(ratios);
	}
	pairs_close(&p[0]);
	pairs_close(&p[1]);
	adapters_close(&p[0]);
	if (!is_shared)
		adapters_close(&p[1]);
	return value;
}

/* Resident memory of a connected queue pair; 0: it failed. */
static double idle_bytes(void)
{
	struct pairs p = { .count = 0 };
	double before = 0, value = 0;

	if (adapters_open(&p)) {
		before = resident_bytes();
		if (pairs_open(&p, IDLE, 1))
			value = (resident_bytes() - before) / (2 * IDLE);
	}
	pairs_close(&p);
	adapters_close(&p);
	return value;
}

struct row {
	const char *name, *text, *unit;
	double goal; /* 0: none */
	bool is_most;
};

static void show(bool is_json, const struct row *r, double value)
{
	bool is_met = r->is_most ? value <= r->goal : value >= r->goal;

	if (value == 0) {
		fprintf(stderr, "bench: %s could not be measured\n", r->name);
	} else if (is_json) {
		printf("{\"bench\": \"%s\", \"value\": %.2f, \"unit\": \"%s\", \"goal\": %g}\n",
		       r->name, value, r->unit, r->goal);
	} else {
		printf("%-68s %9.2f %-5s", r->text, value, r->unit);
		if (r->goal > 0)
			printf("   %s %g   %s", r->is_most ? "at most" : "at least", r->goal,
			       is_met ? "met" : "MISSED");
		printf("\n");
	}
	fflush(stdout);
}

void many_goals_show(bool is_json)
{
	if (!is_json)
		printf("\nMany queue pairs and threads in one process, by shared memory\n");
	show(is_json,
	     &(struct row){ "many_qp_bytes", "memory of an idle queue pair, connected by RoCE",
			    "bytes", idle_goal, true },
	     idle_bytes());
	show(is_json,
	     &(struct row){ "many_qps_in_turns",
			    "Sends over 1,000 queue pairs, 64 over each in turn, to over one", "x",
			    many_goal, true },
	     cost_ratio(MANY, BATCH));
	show(is_json,
	     &(struct row){ "many_qps_one_each", "the same, one over each in turn", "x", 0, true },
	     cost_ratio(MANY, 1));
	show(is_json,
	     &(struct row){ "many_threads_adapters",
			    "Sends of two threads with adapters of their own, to one", "x",
			    threads_goal, false },
	     threads_ratio(false));
	show(is_json,
	     &(struct row){ "many_threads_shared",
			    "the same, with queues of their own of one adapter", "x", threads_goal,
			    false },
	     threads_ratio(true));
}
