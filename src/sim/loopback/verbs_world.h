/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that do random verbs to each other on one adapter, while the shadow model (model.h)
 * watches. They learn each other's tags by messages over faulty pipes. Advertisements by datagram
 * come late, twice, never or damaged, so stale and forged tags are common. Asks and answers use
 * byte streams that are cut, clogged and reset.
 *
 *	verbs_world.c   the world: limits and faults from the seed, the loop, the checks, the end
 *	verbs_memory.c  what a process does to its memory: register, bind, map, advertise, ask
 *	verbs_queues.c  what it does with queues: post, poll, connect, modify
 */
#pragma once

#include "sim/loopback/model.h"
#include "sim/world/datagram.h"
#include "sim/world/stream.h"
#include "verbs/verbs.h"

enum {
	PROCESS_QPS = MODEL_QPS / MODEL_PROCESSES,
	KNOWN_MAX = 32,
	LINK_BYTES = 4 * WEFT_ADVERT_BYTES
};

/* Parameters that each run draws from its seed. */
struct verbs_limits {
	uint32_t process_count, actions; /* actions: per process */
	uint32_t mischief_ppm;		 /* how often an argument is wrong on purpose */
	uint32_t weights[16];		 /* of the actions */
	uint32_t weight_sum;
	uint32_t send_max, recv_max, cq_max, tags_max;
	bool is_tight; /* few translations */
};

struct process {
	uint8_t *arena;
	uint64_t size;
	struct weft_space *space;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_srq *srq;
	struct weft_qp *qps[PROCESS_QPS];
	struct weft_advert known[KNOWN_MAX]; /* advertisements received from other processes */
	uint32_t known_count, actions_left;
	struct sim_datagram gossip; /* to this process, from all others */
};

/* One direction of the byte stream between a process and the next. */
struct link {
	struct sim_stream stream;
	uint32_t from, to; /* processes */
	uint8_t out[LINK_BYTES], in[WEFT_ADVERT_BYTES];
	uint32_t out_count, in_count;
};

struct verbs_world {
	struct world world;
	struct adapter adapter;
	struct model model;
	struct verbs_limits limits;
	struct process processes[MODEL_PROCESSES];
	struct link links[2 * MODEL_PROCESSES]; /* 2i: from i to the next; 2i + 1: back */
	struct world_alarm adapter_due;
	uint64_t observed; /* trace events that the model has processed */
	uint64_t id_next;  /* of work requests */
	bool is_over;
};

/* 0, or -1: out of memory. */
int verbs_world_open(struct verbs_world *w, uint64_t seed);

/* Runs one event. False: the run is over, or a check failed. */
bool verbs_world_step(struct verbs_world *w);

/* The failed check in words; empty: none failed. */
const char *verbs_world_failure(const struct verbs_world *w);
void verbs_world_close(struct verbs_world *w);

/* ---- Among the files of the scenario --------------------------------------------------------- */

static inline uint32_t draw(struct verbs_world *w, uint32_t below)
{
	return prng_below(&w->world.prng, below);
}

static inline bool is_mischief(struct verbs_world *w)
{
	return prng_chance(&w->world.prng, w->limits.mischief_ppm);
}

/* Passes new trace events to the model. */
void verbs_observe(struct verbs_world *w);

/* An advertisement came from another process. */
void process_heard(struct verbs_world *w, uint32_t p, const struct weft_advert *advert);

/* Another process asks for a window: gives the answer, or false for none. */
bool process_asked(struct verbs_world *w, uint32_t p, struct weft_advert *advert);

/* Queues bytes for the process at the other end; a full link takes none. */
void link_send(struct verbs_world *w, struct link *link, const struct weft_advert *advert);

typedef void verbs_action(struct verbs_world *w, uint32_t p);

verbs_action act_register, act_share, act_deregister, act_window, act_bind, act_map, act_scribble,
	act_advertise, act_ask, act_reserve;
verbs_action act_post_send, act_post_recv, act_poll, act_connect, act_modify;

/* A range of one of the process's regions with these rights; wrong on purpose now and then. */
void draw_range(struct verbs_world *w, uint32_t p, struct weft_sge *range, uint32_t rights);
void draw_region(struct verbs_world *w, uint32_t p, struct weft_region_options *options,
		 struct model_send *pages);
void draw_bind(struct verbs_world *w, uint32_t p, struct weft_bind *bind);
struct model_tag *draw_tag(struct verbs_world *w, uint32_t p, enum model_tag_kind kind);

int queues_open(struct verbs_world *w, uint32_t p);
void queues_close(struct verbs_world *w, uint32_t p);
